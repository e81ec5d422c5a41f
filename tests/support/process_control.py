"""Holds sessions of real processes at a chosen round, and ends or freezes parties.

Parties close rounds together, so one held party holds all others. A test that kills, signals or
disconnects a party can rely on a session in progress.
"""

import argparse
import signal
from pathlib import Path

import pytest

from scripts.lab.common import local_session
from tests.support.local_sessions import RunningSession
from tests.support.wait import until

IN_FLIGHT = 2
"""Rounds that a party may still close with messages sent before it was held or cut off."""

_HELD = """
import sys, time
from pathlib import Path
from party import __main__
from party.ui import console

furthest = Path(sys.argv.pop(1))

class Held(console.JsonView):
    def round(self, state, releases):
        super().round(state, releases)
        while state.round >= int(furthest.read_text()):
            time.sleep(0.005)

console.JsonView = Held
__main__.main()
"""
"""A party that reports a round and waits there until it may continue."""


class Brake:
    """Holds one party at a round, also after a restart.

    Make it before the party is started. The held party has released the following round, so the
    others may be one round ahead of it.
    """

    def __init__(
        self, session: RunningSession, monkeypatch: pytest.MonkeyPatch, *, name: str, furthest: int
    ) -> None:
        self._session = session
        self._name = name
        self._path = session.folder / f"{name}.furthest"
        self.furthest = furthest
        self.move(furthest)
        plain = local_session.party_command

        def held(folder: Path, party: str, chosen: argparse.Namespace) -> list[str]:
            command = plain(folder, party, chosen)
            if (folder, party) != (session.folder, name):
                return command
            assert command[1:3] == ["-m", "party"]
            return [command[0], "-c", _HELD, str(self._path), *command[3:]]

        monkeypatch.setattr(local_session, "party_command", held)

    def reached(self) -> None:
        """Wait until the party is at the round where it is held."""
        assert self._session.until_round(self._name, self.furthest), "the session ended before"

    def move(self, furthest: int) -> None:
        """Let the party continue until it has closed this round."""
        self.furthest = furthest
        new = self._path.with_suffix(".new")
        new.write_text(str(furthest))
        new.replace(self._path)

    def let_go(self) -> None:
        """Let the party continue to the end."""
        self.move(self._session.options.rounds + 1)


def kill(session: RunningSession, name: str) -> None:
    """kill -9 of a running process."""
    process = session.processes[name]
    process.kill()
    assert process.wait() == -signal.SIGKILL, f"{name} had ended before"


def freeze(session: RunningSession, name: str) -> None:
    """SIGSTOP of a running process; waits until it has stopped."""
    process = session.processes[name]
    process.send_signal(signal.SIGSTOP)
    until(lambda: _state(process.pid) == "T", f"{name} stops")


def _state(pid: int) -> str:
    """The kernel's one-letter state of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def rounds_closed(session: RunningSession, name: str) -> int:
    """The last round that a party has reported."""
    return max((e.get("round", 0) for e in session.events[name]), default=0)


def until_reported(session: RunningSession, name: str, text: str, *, since: int = 0) -> None:
    """Wait until a party has reported this text, after its first `since` events."""

    def reported() -> bool:
        return any(text in str(event) for event in session.events[name][since:])

    until(reported, f"{name} reports {text!r}")


def until_waiting_for(session: RunningSession, name: str, missing: str) -> None:
    """Wait until the last event of a party is that it waits for this peer.

    It may also wait for others that wait for this peer too.
    """

    def waits() -> bool:
        progress = [e for e in session.events[name] if e["event"] in ("round", "waiting")]
        return bool(progress) and missing in progress[-1].get("missing", ())

    until(waits, f"{name} waits for {missing}")
