"""Holds sessions of real processes at a round of the test's choice, and ends or freezes parties.

In lock step one party that goes no further keeps all others where they are. So a test that
kills, signals or cuts off somebody in mid-session is sure that there is a session.
"""

import argparse
import signal
from pathlib import Path

import pytest

from scripts.lab.common import local_session
from tests.support.local_sessions import Play
from tests.support.wait import until

ON_THE_WAY = 2
"""Rounds that a party may still close with what had been sent when it was held or cut off."""

_HELD = """
import sys, time
from pathlib import Path
from party import __main__
from party.ui import console

furthest = Path(sys.argv.pop(1))

class Held(console.JsonView):
    def round(self, position, releases):
        super().round(position, releases)
        while position.round >= int(furthest.read_text()):
            time.sleep(0.005)

console.JsonView = Held
__main__.main()
"""
"""A party that reports a round and stays there until it may go further."""


class Brake:
    """Keeps one party from going further than a round, in this life and the next.

    To be made before the party is started. It has released the round after the one it stays
    at, so that the others may be one round ahead of it.
    """

    def __init__(
        self, session: Play, monkeypatch: pytest.MonkeyPatch, *, name: str, furthest: int
    ) -> None:
        self._session = session
        self._name = name
        self._path = session.cast.folder / f"{name}.furthest"
        self.furthest = furthest
        self.move(furthest)
        plain = local_session.party_command

        def held(folder: Path, party: str, chosen: argparse.Namespace) -> list[str]:
            command = plain(folder, party, chosen)
            if (folder, party) != (session.cast.folder, name):
                return command
            assert command[1:3] == ["-m", "party"]
            return [command[0], "-c", _HELD, str(self._path), *command[3:]]

        monkeypatch.setattr(local_session, "party_command", held)

    def reached(self) -> None:
        """Wait until the party is where it is held."""
        assert self._session.until_round(self._name, self.furthest), "the session was over before"

    def move(self, furthest: int) -> None:
        """Let the party go on until it has closed this round."""
        self.furthest = furthest
        new = self._path.with_suffix(".new")
        new.write_text(str(furthest))
        new.replace(self._path)

    def let_go(self) -> None:
        """Let the party go on to the end."""
        self.move(self._session.options.rounds + 1)


def kill(session: Play, name: str) -> None:
    """kill -9 of a process that runs."""
    process = session.cast.processes[name]
    process.kill()
    assert process.wait() == -signal.SIGKILL, f"{name} had ended before"


def freeze(session: Play, name: str) -> None:
    """SIGSTOP of a process that runs, until it has stopped."""
    process = session.cast.processes[name]
    process.send_signal(signal.SIGSTOP)
    until(lambda: _state(process.pid) == "T", f"{name} stops")


def _state(pid: int) -> str:
    """One letter, as the kernel has it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def rounds_closed(session: Play, name: str) -> int:
    """The last round that a party has reported."""
    return max((e.get("round", 0) for e in session.cast.events[name]), default=0)


def until_told(session: Play, name: str, text: str, *, since: int = 0) -> None:
    """Wait until a party has reported this, after its first `since` events."""

    def told() -> bool:
        return any(text in str(event) for event in session.cast.events[name][since:])

    until(told, f"{name} says {text!r}")


def until_waiting_for(session: Play, name: str, missing: str) -> None:
    """Wait until a party's last word is that it waits for this other one.

    And for those, maybe, that wait for it too: what one of them heard last, another may not have.
    """

    def waits() -> bool:
        told = [e for e in session.cast.events[name] if e["event"] in ("round", "waiting")]
        return bool(told) and missing in told[-1].get("missing", ())

    until(waits, f"{name} waits for {missing}")
