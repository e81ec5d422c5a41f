"""`party backup` and `party restore`: copies of a key, its marker and its ledger.

A ledger is never copied while a party uses it: its newest records may be in its log. An old copy
is never put in place unless its operator accepts what that means. Never here: a network.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from party import keys
from party.ledger import accounts, budget_marker
from party.ledger.database import Database, Extent
from protocol.errors import BadCommand, BadKey, BadLedger, LedgerInUse
from protocol.runtime.files import KEY_BYTES, TooLong, read_bounded, write_private

LOSS = (
    "Releases that this ledger lacks are counted nowhere. Lower your limit by the epsilon and "
    "delta of each session that it lacks: `party budget --max-epsilon --max-delta`"
)


def backup(key: Path, ledger: Path, out: Path) -> Iterator[str]:
    """Copy key, marker and ledger into a new folder. Nothing that exists is overwritten.

    Guarantee: the copy of the ledger has everything that was committed, in one file, and nothing
    that was deleted. It raises `BadLedger` if a party has the ledger open.
    """
    identity = keys.load(key)
    copied_key, copied_ledger = out / f"{identity.name}.key", out / f"{identity.name}.ledger"
    with accounts.open_existing(ledger) as file:
        budget_marker.require_marked(key, ledger, file.extent)
        try:
            out.mkdir(mode=0o700)
        except OSError as error:
            raise BadCommand(f"--out {str(out)!r}: {error.strerror}; name a new folder") from None
        os.close(os.open(copied_ledger, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        file.copy_into(copied_ledger)
        extent, unfinished = file.extent, accounts.unfinished_in(file)
    write_private(copied_key, key.read_text(encoding="utf-8"))
    budget_marker.mark_anew(copied_key, copied_ledger, extent)
    _flush(copied_key, copied_ledger)
    yield f"{out}: the key, its marker and {_extent_in_words(extent)}. Keep it as secret as the key"
    for account in unfinished:
        yield (
            f"the session {account.session!r} has {account.releases} of up to {account.rounds} "
            "releases. If it goes on, the next release makes this copy old. Delete the copy when "
            "the session has ended, and make a new one"
        )


def restore(key: Path, ledger: Path, source: Path | None, *, accept_loss: bool) -> Iterator[str]:
    """Put a copy of a ledger in place, or an empty ledger without a copy. A missing key is copied.

    Guarantee: without `accept_loss`, no ledger is put in place that has fewer releases than the
    marker beside the key says, or than the ledger that is there. What is replaced is kept.
    """
    name = _restore_key(key, source)
    draft = ledger.with_name(f".{ledger.name}.new")
    try:
        if source is None:
            if not accept_loss:
                raise BadCommand("--from FOLDER is needed, unless you add --accept-loss")
            if ledger.exists():
                yield from _accept(key, ledger)
                return
            _discard(draft)
        else:
            _copy(source / f"{name}.ledger", draft)
        found = _checked(draft)
        present = _present(ledger)  # raises if a party uses it
        if not accept_loss:
            _require_newest(key, ledger, found, present)
        kept = _set_aside(ledger)
        draft.replace(ledger)
        _flush(ledger)
        budget_marker.mark_anew(key, ledger, found)
    except OSError as error:
        raise BadLedger(f"the ledger {str(ledger)!r} cannot be restored: {error}") from None
    finally:
        _discard(draft)
    yield f"{ledger}: restored, with {_extent_in_words(found)}"
    if kept is not None:
        yield f"{kept}: the ledger that was there before. Delete it when the party works again"
    if accept_loss:
        yield LOSS


def _accept(key: Path, ledger: Path) -> Iterator[str]:
    """Go on with the ledger that is there, as it is."""
    extent = accounts.extent(ledger)
    budget_marker.mark_anew(key, ledger, extent)
    yield f"{ledger}: counts for this key as it is, with {_extent_in_words(extent)}"
    yield LOSS


def _restore_key(key: Path, source: Path | None) -> str:
    """The name of the party. The key is copied if it is missing, and never replaced."""
    if source is not None:
        copies = sorted(source.glob("*.key"))
        if len(copies) != 1:
            raise BadCommand(
                f"--from {str(source)!r} must be a folder of `party backup`, with one key; it has "
                f"{len(copies)}"
            )
        saved = keys.load(copies[0])
        if not key.exists():
            try:
                write_private(key, read_bounded(copies[0], KEY_BYTES).decode())
            except (OSError, TooLong) as error:
                raise BadKey(f"the key {str(key)!r} cannot be restored: {error}") from None
        elif keys.load(key).signing_key != saved.signing_key:
            raise BadKey(f"{str(key)!r} is another key than the one in {str(source)!r}")
        return saved.name
    return keys.load(key).name


def _copy(source: Path, draft: Path) -> None:
    """Copy a ledger, with its log if it was copied together with one."""
    if not source.is_file() or not source.stat().st_size:
        raise BadLedger(f"there is no ledger {str(source)!r}; name a folder of `party backup`")
    _discard(draft)
    for ending in ("", "-wal"):
        if Path(f"{source}{ending}").exists():
            target = Path(f"{draft}{ending}")
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            shutil.copyfile(f"{source}{ending}", target)


def _checked(draft: Path) -> Extent:
    """The extent of a ledger whose log is moved into it; raises `BadLedger` if it is damaged."""
    file = Database(draft)
    try:
        accounts.accounts_in(file)  # it refuses damage
        accounts.limits_in(file)
        return file.extent
    finally:
        file.close()


def _require_newest(key: Path, ledger: Path, found: Extent, present: Extent | None) -> None:
    marked = budget_marker.read(key)
    if marked is None:
        raise BadLedger(
            f"there is no file {str(budget_marker.marker_path(key))!r} that says how far the "
            f"ledger went. The copy has {_extent_in_words(found)}. If you are sure that nothing "
            "was released since, or accept that later releases are counted nowhere, add "
            "--accept-loss"
        )
    budget_marker.require_marked(key, ledger, found)
    if present is not None and present.releases > found.releases:
        raise BadCommand(
            f"the ledger {str(ledger)!r} works, and holds {present.releases} releases; the copy "
            f"holds {found.releases}. There is nothing to restore"
        )


def _present(ledger: Path) -> Extent | None:
    """The extent of the ledger that is there; None if it is missing or damaged."""
    try:
        return accounts.extent(ledger)
    except LedgerInUse:
        raise
    except BadLedger:
        return None


def _set_aside(ledger: Path) -> Path | None:
    """Rename a ledger and its log, so that the old log is not read as that of the new ledger."""
    if not ledger.exists() and not Path(f"{ledger}-wal").exists():
        return None
    number = 1
    while (aside := ledger.with_name(f"{ledger.name}.replaced{number}")).exists():
        number += 1
    for ending in ("", "-wal"):
        with suppress(FileNotFoundError):
            Path(f"{ledger}{ending}").rename(f"{aside}{ending}")
    Path(f"{ledger}-shm").unlink(missing_ok=True)
    return aside


def _discard(draft: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        Path(f"{draft}{ending}").unlink(missing_ok=True)


def _flush(*paths: Path) -> None:
    """Make files and their folder durable."""
    for path in (*paths, paths[0].parent):
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def _extent_in_words(extent: Extent) -> str:
    return f"a ledger of {extent.releases} releases"
