"""The marker file beside a key: it says which ledger counts this key's privacy budget.

Two ledgers would be two budgets, and neither knows what the other has spent. The marker holds
the path and the identifier of one ledger. Never here: anything secret.
"""

import fcntl
import json
from contextlib import suppress
from pathlib import Path

from protocol.errors import BadLedger
from protocol.runtime.files import replace_private


def marker_path(key: Path) -> Path:
    """The marker file of a key."""
    return key.resolve().with_suffix(".budget")


def require_marked(key: Path, path: Path, ledger_id: bytes | None) -> None:
    """Refuse a second ledger for a key. `ledger_id` is None where the ledger would be new.

    A ledger may be moved, or restored from a copy: its identifier stays. This cannot detect a
    key that was copied without its marker, or a key in a folder that cannot be written.
    """
    marker = marker_path(key)
    try:
        content = json.loads(marker.read_text(encoding="utf-8"))
        marked_id, marked_path = bytes.fromhex(content["id"]), str(content["ledger"])
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadLedger(
            f"{str(marker)!r} names the ledger that counts for this key, but it cannot be read: "
            f"{error.strerror}. Make it readable, then run the same command"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise BadLedger(
            f"{str(marker)!r} names the ledger that counts for this key, but it is damaged. "
            "Restore a copy, or delete it and name the ledger that was used last with --ledger"
        ) from None
    if ledger_id != marked_id:
        new = f"there is no ledger {str(path)!r}, and a new one would not be the one"
        raise BadLedger(
            (f"the ledger {str(path)!r} is not the one" if ledger_id else new)
            + f" that counts for this key: that one was last at {marked_path!r}. Two ledgers are "
            "two budgets, and neither knows what the other has spent. Name the right one with "
            "--ledger. If it is lost, restore the newest copy. If there is no copy, delete "
            f"{str(marker)!r}: what was released before is then counted nowhere"
        )


def mark(key: Path, path: Path, ledger_id: bytes) -> None:
    """Refuse a second ledger for a key; mark the first. Of two at the same time one succeeds."""
    with key.open("rb") as lock:
        with suppress(OSError):  # some file systems have no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        require_marked(key, path, ledger_id)
        content = {"ledger": str(path.resolve()), "id": ledger_id.hex()}
        marker, text = marker_path(key), json.dumps(content, indent=2) + "\n"
        with suppress(OSError):  # a read-only folder cannot have a marker
            if not marker.exists() or marker.read_text(encoding="utf-8") != text:
                replace_private(marker, text)
