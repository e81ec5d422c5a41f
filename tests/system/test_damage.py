"""Disks that change, lose or bring back what a party wrote, in sessions of real processes."""

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from party.ledger.session_ledger import Ledger
from protocol.errors import BadLedger
from tests.support.local_sessions import Play, assert_undisturbed, options, play
from tests.support.process_control import Brake, kill, rounds_closed
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(600)


def ledger_of(session: Play, name: str) -> Path:
    return session.cast.folder / name / f"{name}.ledger"


def stop(session: Play, name: str, number: signal.Signals = signal.SIGTERM) -> None:
    """End a party in order."""
    process = session.cast.processes[name]
    process.send_signal(number)
    assert process.wait(LIMIT) == 130


def until_waiting(session: Play, name: str) -> None:
    """Wait until a party has released all it can and waits for the one that is held."""

    def waits() -> bool:
        told = session.cast.events[name]
        return bool(told) and told[-1].get("missing") == ["party1"]

    until(waits, f"{name} waits for party1")


def test_a_flipped_bit_is_found_at_home_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The party with the damaged ledger ends with 6 and says nothing; with a good copy all end."""
    with play(tmp_path / "s", options(rounds=30)) as session:
        cast = session.cast
        brake = Brake(session, monkeypatch, name="party1", furthest=6)
        cast.start()
        brake.reached()
        until_waiting(session, "party3")
        stop(session, "party3")
        path, good = ledger_of(session, "party3"), tmp_path / "good"
        shutil.copy(path, good)
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            [whole] = base.execute("SELECT messages FROM rounds WHERE round = 3").fetchone()
            damaged = bytearray(whole)
            damaged[-70] ^= 1  # the last byte of what the last member released
            base.execute("UPDATE rounds SET messages = ? WHERE round = 3", (bytes(damaged),))
        brake.let_go()
        cast.start_party("party3")
        assert cast.processes["party3"].wait(LIMIT) == BadLedger.exit_code
        assert "is damaged: round 3 of its rounds" in session.error("party3")
        for name in ("party1", "party2"):
            assert cast.processes[name].poll() is None, session.error(name)
            assert rounds_closed(session, name) < 30
        shutil.copy(good, path)
        cast.start_party("party3")
        cast.wait(LIMIT)
        assert_undisturbed(session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_ended_in_order_remembers_what_it_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """A copy that lacks its newest release is refused by a peer that was started again since."""
    with play(tmp_path / "s", options(rounds=30)) as session:
        cast = session.cast
        brake = Brake(session, monkeypatch, name="party1", furthest=6)
        cast.start()
        brake.reached()
        for name in ("party2", "party3"):
            until_waiting(session, name)
        stop(session, "party3", number)
        kill(session, "party1")
        stop(session, "party2")
        path = ledger_of(session, "party2")
        with closing(Ledger(path, session.agreement, "party2")) as ledger:
            released, closed = len(ledger.own()), len(ledger.transcript().rounds)
        assert released == closed + 1, "its newest release is in no closed round"
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            base.execute("DELETE FROM releases WHERE round = ?", (closed,))
            base.execute("DELETE FROM heard")
        brake.let_go()
        for name in ("party3", "party2", "party1"):
            cast.start_party(name)
        assert cast.processes["party2"].wait(LIMIT) == BadLedger.exit_code
        told = f"others know release {released} of 'party2', signed with its key, but this ledger"
        assert f"{told} holds {closed}" in session.error("party2")
