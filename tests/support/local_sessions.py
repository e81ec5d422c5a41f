"""Sessions of real processes for the tests: options, folders, and the undisturbed figures."""

import argparse
import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
"""Of parties in tests: longer than any test waits, so that no busy machine makes one give up."""


def options(*arguments: str, parties: int = 3, rounds: int = 30) -> argparse.Namespace:
    """Demo options with seeded noise, so that a run can be compared with the simulation."""
    session = ["--seed", "1", "--parties", str(parties), "--rounds", str(rounds)]
    return demo_options([*session, "--patience", str(PATIENCE), *arguments])


@functools.cache
def undisturbed(arguments: tuple[str, ...], parties: int, rounds: int) -> dict[str, Any]:
    """The figures of the same session played in one process."""
    return simulate(options(*arguments, parties=parties, rounds=rounds), lambda _: None)


class Play:
    """A session of processes in a folder, not yet started."""

    def __init__(self, folder: Path, chosen: argparse.Namespace) -> None:
        self.options = chosen
        self.instance: Instance = drawn(chosen)
        self.agreement: Agreement = prepare(folder, self.instance, chosen)
        self.cast = LocalSession(folder, chosen)

    def until_round(self, name: str, round: int) -> bool:  # noqa: A002
        """Wait until a party has closed this round; False if it has ended before."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            if any(e.get("round", 0) >= round for e in self.cast.events[name]):
                return True
            if self.cast.processes[name].poll() is not None:
                return False
            time.sleep(0.002)
        raise TimeoutError(f"{name} did not reach round {round}")

    def figures(self) -> dict[str, Any]:
        return measure(self.cast, self.agreement, self.instance, 1.0)

    def error(self, name: str) -> str:
        return self.cast.complained(name)


@contextmanager
def play(folder: Path, chosen: argparse.Namespace) -> Iterator[Play]:
    """A prepared session whose processes are ended whatever happens."""
    session = Play(folder, chosen)
    try:
        yield session
    finally:
        session.cast.stop()


def assert_undisturbed(session: Play, *arguments: str) -> None:
    """All parties ended where the same session in one process ends, with the same public file."""
    chosen = session.options
    expected = undisturbed(arguments, chosen.parties, chosen.rounds)
    figures = session.figures()
    assert figures["prices"] == expected["prices"]
    assert figures["releases_digest"] == expected["releases_digest"]
    assert len(set(figures["heads"].values())) == 1
    folders = [session.cast.folder / name / "out" for name in session.cast.names]
    assert len({(folder / "session.transcript").read_bytes() for folder in folders}) == 1
