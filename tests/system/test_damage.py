"""Disks that change, lose or restore what a party wrote, in sessions of real processes."""

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from party.ledger.session_ledger import Ledger
from protocol.errors import BadLedger
from tests.support.local_sessions import RunningSession, assert_undisturbed, options
from tests.support.process_control import Brake, kill, rounds_closed
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(600)


def ledger_of(session: RunningSession, name: str) -> Path:
    return session.folder / name / f"{name}.ledger"


def stop(session: RunningSession, name: str, number: signal.Signals = signal.SIGTERM) -> None:
    """End a party in an orderly way."""
    process = session.processes[name]
    process.send_signal(number)
    assert process.wait(LIMIT) == 130


def until_waiting(session: RunningSession, name: str) -> None:
    """Wait until a party has released all it can and waits for the held one."""

    def waits() -> bool:
        events = session.events[name]
        return bool(events) and events[-1].get("missing") == ["party1"]

    until(waits, f"{name} waits for party1")


def test_a_damaged_ledger_stops_only_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The party with the damaged ledger ends with 6 and sends nothing; a good copy finishes."""
    with RunningSession(tmp_path / "s", options(rounds=30)) as session:
        brake = Brake(session, monkeypatch, name="party1", furthest=6)
        session.start()
        brake.reached()
        until_waiting(session, "party3")
        stop(session, "party3")
        path, good = ledger_of(session, "party3"), tmp_path / "good"
        shutil.copy(path, good)
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            [messages] = base.execute("SELECT messages FROM rounds WHERE round = 3").fetchone()
            damaged = bytearray(messages)
            damaged[-70] ^= 1  # the last byte of the last member's release
            base.execute("UPDATE rounds SET messages = ? WHERE round = 3", (bytes(damaged),))
        brake.let_go()
        session.start_party("party3")
        assert session.processes["party3"].wait(LIMIT) == BadLedger.exit_code
        assert "is damaged: round 3 of its rounds" in session.stderr("party3")
        for name in ("party1", "party2"):
            assert session.processes[name].poll() is None, session.stderr(name)
            assert rounds_closed(session, name) < 30
        shutil.copy(good, path)
        session.start_party("party3")
        session.wait(LIMIT)
        assert_undisturbed(session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_restarted_peer_remembers_releases_it_has_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """A ledger without its newest release is refused by a peer that restarted since."""
    with RunningSession(tmp_path / "s", options(rounds=30)) as session:
        brake = Brake(session, monkeypatch, name="party1", furthest=6)
        session.start()
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
            session.start_party(name)
        assert session.processes["party2"].wait(LIMIT) == BadLedger.exit_code
        text = f"others know release {released} of 'party2', signed with its key, but this ledger"
        assert f"{text} holds {closed}" in session.stderr("party2")
