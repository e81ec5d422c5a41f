"""Deleted secrets leave the disk, and a log that still has records is never overwritten."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from party.ledger.database import Database
from party.ledger.secret_records import Opening
from party.ledger.session_ledger import Ledger
from protocol.errors import BadLedger
from tests.support.builders import make_agreement
from tests.support.ledgers import release
from tests.support.limits import no_file_above

MASKED = make_agreement(reveal="totals")
SECRET = b"a secret mask key".ljust(32)


def found_in(folder: Path) -> set[str]:
    """The files that hold the secret."""
    return {path.name for path in folder.iterdir() if SECRET in path.read_bytes()}


def test_seals_destroy_the_mask_key_at_once(tmp_path: Path) -> None:
    """No file holds it, even while the ledger stays open."""
    with closing(Ledger(tmp_path / "ledger", MASKED, "ada")) as ledger:
        ledger.record_mask_key(SECRET, release(MASKED, 0))
        assert found_in(tmp_path) == {"ledger-wal"}
        ledger.record_seals(())
        assert found_in(tmp_path) == set()


def test_forgetting_destroys_openings_and_fingerprint_at_once(tmp_path: Path) -> None:
    """No file holds them, even while the ledger stays open."""
    number = int.from_bytes(SECRET, "little")
    with closing(Ledger(tmp_path / "ledger", MASKED, "ada")) as ledger:
        ledger.record_opening(Opening((1,), (number,)), release(MASKED, 0))
        ledger.record_model(SECRET)
        assert found_in(tmp_path)
        ledger.forget()
        assert found_in(tmp_path) == set()


def test_the_log_is_on_the_disk_as_zeros_before_it_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system may keep the old blocks of a file that shrinks: they must hold zeros then.

    A log of one page is shorter than the buffer of a file.
    """
    path, flushed, fsync = tmp_path / "ledger", list[bytes](), os.fsync

    def noted(number: int) -> None:
        flushed.append((tmp_path / "ledger-wal").read_bytes())
        fsync(number)

    with closing(Database(path)) as file:
        monkeypatch.setattr(os, "fsync", noted)
        for rows in (1, 40):
            file.write("INSERT INTO limits (data_set, epsilon, delta) VALUES (?, 1, 0.5)",
                       [(f"{SECRET!r} {rows} {n}",) for n in range(rows)])  # fmt: skip
            file.commit()
            size = (tmp_path / "ledger-wal").stat().st_size
            file.wipe()
            assert flushed.pop() == bytes(size)
            assert not flushed
            assert not (tmp_path / "ledger-wal").stat().st_size


def test_a_log_without_a_whole_record_is_wiped(tmp_path: Path) -> None:
    """The power may fail while the first record of a log is written."""
    with closing(Database(tmp_path / "ledger")):
        pass
    (tmp_path / "ledger-wal").write_bytes(SECRET)
    with closing(Database(tmp_path / "ledger")):
        assert found_in(tmp_path) == set()


def test_a_log_that_cannot_be_moved_into_the_file_is_kept(tmp_path: Path) -> None:
    """On a full disk wiping fails, says why, and loses no record; nothing is read after that."""
    path, file = tmp_path / "ledger", Database(tmp_path / "ledger")
    file.write(
        "INSERT INTO limits (data_set, epsilon, delta) VALUES (?, 1, 0.5)",
        [(f"{n:1000}",) for n in range(100)],
    )
    file.commit()
    with no_file_above(path.stat().st_size), pytest.raises(BadLedger) as failed:
        file.wipe()
    text = f"the ledger {str(path)!r} cannot be used: disk I/O error; the disk fails or is full"
    assert str(failed.value).startswith(text)
    with pytest.raises(BadLedger):
        file.rows("SELECT * FROM limits")
    with closing(Database(path)) as file:
        assert file.rows("SELECT count(*) FROM limits") == [(100,)]


def test_a_log_that_cannot_be_overwritten_ends_the_session(tmp_path: Path) -> None:
    """A secret that stays readable is never passed over in silence."""
    path = tmp_path / "ledger"
    ledger = Ledger(path, MASKED, "ada")
    ledger.record_mask_key(SECRET, release(MASKED, 0))
    (tmp_path / "ledger-wal").rename(tmp_path / "moved")
    (tmp_path / "ledger-wal").mkdir()
    with pytest.raises(BadLedger, match="cannot be used: Is a directory"):
        ledger.record_seals(())
    with pytest.raises(BadLedger):
        ledger.own()
    ledger.close()


def test_a_copy_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """The error names the copy, and the ledger can still be used."""
    copy = tmp_path / "missing" / "copy"
    with closing(Ledger(tmp_path / "ledger", MASKED, "ada")) as ledger:
        with pytest.raises(BadLedger, match=f"the copy {str(copy)!r} cannot be written"):
            ledger._file.copy_into(copy)
        ledger.record_release(release(MASKED, 0))
        assert len(ledger.own()) == 1
