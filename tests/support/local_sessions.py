"""Sessions of real processes for the tests: options, processes, and expected figures."""

import argparse
import functools
import time
from pathlib import Path
from typing import Any

from protocol.agreement.model import Agreement
from scripts.lab.common.agreements import drawn
from scripts.lab.common.instances import Instance
from scripts.lab.common.local_session import LocalSession
from scripts.lab.common.workspace import prepare
from scripts.lab.demo.__main__ import demo_options, measure
from scripts.lab.simulate import simulate
from tests.support.wait import LIMIT

PATIENCE = 600.0
"""Patience of parties in tests: longer than any test waits, also on a busy machine."""


def options(*arguments: str, parties: int = 3, rounds: int = 30) -> argparse.Namespace:
    """Options with seeded noise, so that a run can be compared with the simulation."""
    session = ["--seed", "1", "--parties", str(parties), "--rounds", str(rounds)]
    return demo_options([*session, "--patience", str(PATIENCE), *arguments])


@functools.cache
def undisturbed(arguments: tuple[str, ...], parties: int, rounds: int) -> dict[str, Any]:
    """The figures of this session in one process."""
    return simulate(options(*arguments, parties=parties, rounds=rounds), lambda _: None)


class RunningSession(LocalSession):
    """A session of real processes, prepared in a folder. Leaving the context ends all of them."""

    def __init__(self, folder: Path, chosen: argparse.Namespace) -> None:
        self.instance: Instance = drawn(chosen)
        self.agreement: Agreement = prepare(folder, self.instance, chosen)
        super().__init__(folder, chosen)

    def until_round(self, name: str, round: int) -> bool:  # noqa: A002
        """Wait until a party has closed this round; False if it has ended before."""
        give_up_at = time.monotonic() + LIMIT
        while time.monotonic() < give_up_at:
            if any(event.get("round", 0) >= round for event in self.events[name]):
                return True
            if self.processes[name].poll() is not None:
                return False
            time.sleep(0.002)
        raise TimeoutError(f"{name} did not reach round {round}")

    def figures(self) -> dict[str, Any]:
        """The figures of the demonstration for this session."""
        return measure(self, self.agreement, self.instance, 1.0)


def assert_undisturbed(session: RunningSession, *arguments: str) -> None:
    """All parties ended as in one process, with one public file."""
    chosen = session.options
    expected = undisturbed(arguments, chosen.parties, chosen.rounds)
    figures = session.figures()
    assert figures["prices"] == expected["prices"]
    assert figures["releases_digest"] == expected["releases_digest"]
    assert len(set(figures["heads"].values())) == 1
    folders = [session.folder / name / "out" for name in session.names]
    assert len({(folder / "session.transcript").read_bytes() for folder in folders}) == 1
