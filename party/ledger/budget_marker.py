"""The marker file beside a key: which ledger counts this key's privacy budget, and how far it goes.

Two ledgers would be two budgets, and neither knows what the other has spent. An old copy of a
ledger does not know what was released since. The marker holds the path and the identifier of one
ledger, and how many releases it had when a session last began or ended. A new key has a marker
without a ledger. Never here: anything secret.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from party.ledger.database import Extent
from protocol.errors import BadLedger
from protocol.runtime.files import replace_private


class Marked(NamedTuple):
    """What a marker says."""

    #: Where the ledger was last.
    path: str
    #: The ledger; None before the first session of the key.
    extent: Extent | None


def marker_path(key: Path) -> Path:
    """The marker file of a key."""
    return key.resolve().with_suffix(".budget")


def begin(key: Path) -> None:
    """Mark a new key: no ledger counts for it yet. An existing marker stays."""
    if not marker_path(key).exists():
        with suppress(OSError):
            mark_anew(key, Path(), None)


def read(key: Path) -> Marked | None:
    """What the marker of a key says; None if there is no marker."""
    marker = marker_path(key)
    try:
        content = json.loads(marker.read_text(encoding="utf-8"))
        found, releases = content["id"], content["releases"]
        extent = None if found is None else Extent(bytes.fromhex(found), int(releases))
        return Marked(str(content["ledger"]), extent)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadLedger(
            f"{str(marker)!r} names the ledger that counts for this key, but it cannot be read: "
            f"{error.strerror}. Make it readable, then run the same command"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise BadLedger(
            f"{str(marker)!r} names the ledger that counts for this key, but it is damaged. "
            "Restore a copy of it, or accept the ledger that was used last as it is: `party "
            "restore --accept-loss`"
        ) from None


def require_marked(key: Path, path: Path, found: Extent | None) -> None:
    """Refuse a second ledger for a key, an old copy, and any ledger if the marker is lost.

    `found` is None where the ledger would be new. A ledger may be moved, or restored from its
    newest copy: its identifier stays.

    Guarantee: while the marker beside a key is the newest one, no ledger is accepted that lacks a
    release from before the last start or orderly end of a session. This cannot detect a marker
    that is as old as the copy, nor a key in a folder that cannot be written: it has no marker.
    """
    marked, marker = read(key), marker_path(key)
    if marked is None:
        if os.access(marker.parent, os.W_OK):
            raise BadLedger(
                f"the file {str(marker)!r} is missing beside this key. It says which ledger counts "
                "for the key, and how far that ledger must go. Restore it with the ledger: `party "
                "restore --from COPY`. If there is no copy of it, `party restore --accept-loss` "
                f"goes on with {str(path)!r} as it is, or with an empty one"
            )
        return
    if marked.extent is None:
        return
    if found is None or found.id != marked.extent.id:
        new = f"there is no ledger {str(path)!r}, and a new one would not be the one"
        raise BadLedger(
            (f"the ledger {str(path)!r} is not the one" if found else new)
            + f" that counts for this key: that one was last at {marked.path!r}. Two ledgers are "
            "two budgets, and neither knows what the other has spent. Name the right one with "
            "--ledger. If it is lost, restore the newest copy with `party restore --from COPY`. If "
            "there is no copy, `party restore --accept-loss` begins an empty ledger"
        )
    if found.releases < marked.extent.releases:
        raise BadLedger(
            f"the ledger {str(path)!r} is an old copy: it holds {found.releases} releases, and it "
            f"had {marked.extent.releases} when this key was last used. Nothing was sent. Restore "
            "the newest copy, with its -wal file if there is one"
        )


def mark(key: Path, path: Path, found: Extent) -> None:
    """Refuse a ledger as `require_marked` does, then mark it.

    If two processes do this at the same time, one succeeds.
    """
    with key.open("rb") as lock:
        with suppress(ImportError, OSError):  # Windows and some file systems have no such locks
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        require_marked(key, path, found)
        with suppress(OSError):  # a read-only folder cannot have a marker
            mark_anew(key, path, found)


def mark_anew(key: Path, path: Path, extent: Extent | None) -> None:
    """Mark this ledger, or none, whatever the marker said: it was checked, or loss is accepted."""
    content = {"ledger": "", "id": None, "releases": 0}
    if extent is not None:
        content = {
            "ledger": str(path.resolve()),
            "id": extent.id.hex(),
            "releases": extent.releases,
        }
    marker, text = marker_path(key), json.dumps(content, indent=2) + "\n"
    if not marker.exists() or marker.read_text(encoding="utf-8") != text:
        replace_private(marker, text)
