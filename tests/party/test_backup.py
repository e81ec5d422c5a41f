"""Copies of keys and ledgers: complete, secret, and refused once they are old."""

import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from party import keys
from party.backup import LOSS, backup, restore
from party.ledger import accounts, budget_marker
from party.ledger.budget import Limit
from party.ledger.session_ledger import Ledger
from protocol.errors import BadCommand, BadKey, BadLedger, Equivocation, LedgerInUse
from tests.support.budgets import agreed
from tests.support.ledgers import release


class Company:
    """A key with its ledger in a folder, as after sessions."""

    def __init__(self, folder: Path) -> None:
        self.key, self.ledger = folder / "ada.key", folder / "ada.ledger"
        keys.save(keys.generate("ada"), self.key)
        self.agreement = agreed(8.0, rounds=30)
        self.release(3)

    def release(self, count: int) -> None:
        """Some more releases of one session, which then ends in an orderly way."""
        with closing(Ledger(self.ledger, self.agreement, "ada")) as ledger:
            for _ in range(count):
                ledger.record_release(release(self.agreement, len(ledger.own())))
            budget_marker.mark(self.key, self.ledger, ledger.extent)

    def restored(self, source: Path | None, *, accept_loss: bool = False) -> list[str]:
        return list(restore(self.key, self.ledger, source, accept_loss=accept_loss))

    @property
    def releases(self) -> int:
        return accounts.extent(self.ledger).releases


@pytest.fixture
def company(tmp_path: Path) -> Company:
    return Company(tmp_path)


@pytest.fixture
def copy(company: Company, tmp_path: Path) -> Path:
    """A copy after 3 releases."""
    list(backup(company.key, company.ledger, tmp_path / "copy"))
    return tmp_path / "copy"


def test_a_copy_has_everything_and_is_secret(company: Company, copy: Path) -> None:
    """Key, marker and ledger, for their owner only, and the ledger is one file."""
    accounts.set_limit(company.ledger, "main", Limit(9.0, 0.01))
    assert sorted(path.name for path in copy.iterdir()) == ["ada.budget", "ada.key", "ada.ledger"]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in copy.iterdir()} == {0o600}
    assert keys.load(copy / "ada.key").signing_key == keys.load(company.key).signing_key
    with closing(Ledger(copy / "ada.ledger", company.agreement, "ada")) as ledger:
        assert [signed.message.round for signed in ledger.own()] == [0, 1, 2]


def test_a_refused_backup_makes_no_folder(company: Company, tmp_path: Path) -> None:
    """After a refusal the same command can be run again."""
    company.ledger.rename(tmp_path / "moved")
    with pytest.raises(BadLedger, match="there is no ledger"):
        list(backup(company.key, company.ledger, tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()


def test_a_copy_of_a_running_session_is_announced_as_short_lived(
    company: Company, tmp_path: Path
) -> None:
    """The operator reads when the copy becomes useless, and that it holds secrets."""
    lines = list(backup(company.key, company.ledger, tmp_path / "copy"))
    assert "a ledger of 3 releases. Keep it as secret as the key" in lines[0]
    assert "has 3 of up to 30 releases" in lines[1]
    assert "the next release makes this copy old" in lines[1]


@pytest.mark.parametrize("end", ["sealed", "abandoned", "failed"])
def test_a_copy_after_a_session_is_not_called_short_lived(
    company: Company, tmp_path: Path, end: str
) -> None:
    """A session may end before its last round; its copy is then the one to keep."""
    with closing(Ledger(company.ledger, company.agreement, "ada")) as ledger:
        if end == "sealed":
            ledger.record_seals((release(company.agreement, 3),))
        elif end == "abandoned":
            ledger.record_abandoned(over=False)
        else:
            ledger.record_fault(Equivocation("ben signed two releases", sender="ben"), over=False)
    lines = list(backup(company.key, company.ledger, tmp_path / "copy"))
    assert len(lines) == 1


def test_a_ledger_in_use_is_neither_copied_nor_replaced(
    company: Company, copy: Path, tmp_path: Path
) -> None:
    """Its newest records may be in its log only."""
    with closing(Ledger(company.ledger, company.agreement, "ada")):
        with pytest.raises(LedgerInUse):
            list(backup(company.key, company.ledger, tmp_path / "second"))
        for accept in (False, True):
            with pytest.raises(LedgerInUse):
                company.restored(copy, accept_loss=accept)


def test_a_copy_replaces_a_damaged_ledger_and_its_log(company: Company, copy: Path) -> None:
    """The damaged file is kept, its log is not taken for that of the copy, the party goes on."""
    company.ledger.write_bytes(company.ledger.read_bytes()[:3000])
    log = Path(f"{company.ledger}-wal")
    log.write_bytes(b"of the damaged file")
    lines = company.restored(copy)
    assert "restored, with a ledger of 3 releases" in lines[0]
    assert "the ledger that was there before" in lines[1]
    assert company.ledger.with_name("ada.ledger.replaced1").stat().st_size == 3000
    assert not log.exists()
    company.release(2)
    assert company.releases == 5


def test_a_log_without_its_ledger_is_set_aside(company: Company, copy: Path) -> None:
    """Otherwise SQLite would write the pages of a lost ledger into the restored one."""
    log = Path(f"{company.ledger}-wal")
    company.ledger.unlink()
    log.write_bytes(b"of a lost ledger")
    company.restored(copy)
    assert not log.exists()
    assert Path(f"{company.ledger}.replaced1-wal").read_bytes() == b"of a lost ledger"
    assert company.releases == 3


def test_an_old_copy_is_refused_and_nothing_changes(company: Company, copy: Path) -> None:
    """One release more, and the copy cannot be used, whether the ledger is lost or not."""
    company.release(1)
    before = company.ledger.read_bytes()
    with pytest.raises(BadLedger, match=r"is an old copy: it holds 3 releases, and it had 4"):
        company.restored(copy)
    assert company.ledger.read_bytes() == before
    company.ledger.unlink()
    with pytest.raises(BadLedger, match="is an old copy"):
        company.restored(copy)
    assert not company.ledger.exists()
    assert sorted(path.name for path in company.ledger.parent.glob(".*")) == []


def test_a_working_ledger_that_knows_more_is_not_replaced(company: Company, copy: Path) -> None:
    """Also if the marker was not updated, because the last process was killed."""
    with closing(Ledger(company.ledger, company.agreement, "ada")) as ledger:
        ledger.record_release(release(company.agreement, 3))
    with pytest.raises(BadCommand, match="There is nothing to restore"):
        company.restored(copy)
    assert company.releases == 4


def test_accepted_loss_is_stated(company: Company, copy: Path) -> None:
    """An old copy is put in place only on request, and the operator reads what that means."""
    company.release(1)
    lines = company.restored(copy, accept_loss=True)
    assert lines[-1] == LOSS
    assert company.releases == 3
    budget_marker.require_marked(company.key, company.ledger, accounts.extent(company.ledger))


def test_a_new_machine_gets_key_and_ledger(company: Company, copy: Path, tmp_path: Path) -> None:
    """Nothing there shows whether the copy is the newest, so that must be accepted."""
    there = tmp_path / "there"
    there.mkdir()
    key, ledger = there / "ada.key", there / "ada.ledger"
    with pytest.raises(BadLedger, match="If you are sure that nothing was released since"):
        list(restore(key, ledger, copy, accept_loss=False))
    assert not ledger.exists()
    list(restore(key, ledger, copy, accept_loss=True))
    assert keys.load(key).signing_key == keys.load(company.key).signing_key
    assert stat.S_IMODE(key.stat().st_mode) == stat.S_IMODE(ledger.stat().st_mode) == 0o600
    budget_marker.require_marked(key, ledger, accounts.extent(ledger))
    with pytest.raises(LedgerInUse), closing(Ledger(ledger, company.agreement, "ada")):
        list(restore(key, ledger, copy, accept_loss=True))


def test_a_key_is_never_replaced(company: Company, copy: Path, tmp_path: Path) -> None:
    """A copy of another key is refused."""
    other = Company(_folder(tmp_path / "other"))
    with pytest.raises(BadKey, match="is another key"):
        list(restore(other.key, other.ledger, copy, accept_loss=True))
    with pytest.raises(BadCommand, match="with one key; it has"):
        company.restored(_folder(tmp_path / "empty"))


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_without_a_copy_an_empty_ledger_needs_consent(company: Company) -> None:
    """Then, and only then, the key counts from nothing."""
    company.ledger.unlink()
    with pytest.raises(BadCommand, match="--from FOLDER is needed"):
        company.restored(None)
    assert company.restored(None, accept_loss=True)[-1] == LOSS
    assert company.releases == 0
    company.release(1)
    assert company.restored(None, accept_loss=True)[0].endswith("with a ledger of 1 releases")


def _damage_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    path.write_bytes(data)


def _damage_account(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute("UPDATE sessions SET release_mu_squared = 'none'")


@pytest.mark.parametrize("damage", [_damage_page, _damage_account])
def test_a_damaged_copy_is_refused(
    company: Company, copy: Path, damage: Callable[[Path], None]
) -> None:
    """A copy is read before anything is replaced."""
    damage(copy / "ada.ledger")
    before = company.ledger.read_bytes()
    for accept in (False, True):
        with pytest.raises(BadLedger):
            company.restored(copy, accept_loss=accept)
    assert company.ledger.read_bytes() == before


def test_a_copy_made_by_hand_with_its_log_is_complete(company: Company, tmp_path: Path) -> None:
    """Both files of a killed party, copied together, hold its last release."""
    by_hand = _folder(tmp_path / "by-hand")
    with closing(Ledger(company.ledger, company.agreement, "ada")) as ledger:
        ledger.record_release(release(company.agreement, 3))
        for path in company.ledger.parent.glob("ada.*"):
            shutil.copy(path, by_hand)
    assert (by_hand / "ada.ledger-wal").stat().st_size
    shutil.copytree(by_hand, tmp_path / "without-log", ignore=shutil.ignore_patterns("*-wal"))
    company.release(0)
    company.ledger.unlink()
    with pytest.raises(BadLedger, match="is an old copy: it holds 3 releases, and it had 4"):
        company.restored(tmp_path / "without-log")
    company.restored(by_hand)
    assert company.releases == 4
