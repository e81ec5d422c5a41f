"""Sessions of real processes, measured from outside: pace, and the time from launch to end.

Only the first party writes a JSON log: in lock step its pace is everybody's, and whoever
measures sleeps meanwhile.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.lab.common.agreements import drawn
from scripts.lab.common.local_session import LIMIT_SECONDS, PARTY, LocalSession, party_command
from scripts.lab.common.workspace import prepare
from scripts.lab.demo.__main__ import demo_options


@dataclass(frozen=True)
class Played:
    """What one session took. The launch is a time of the wall clock; rounds closed since then."""

    launched: float
    closed: tuple[float, ...]
    seconds: float

    @property
    def closed_at(self) -> tuple[float, ...]:
        """When rounds closed, by the wall clock."""
        return tuple(self.launched + at for at in self.closed)

    @property
    def rounds_per_second(self) -> float:
        """From the first closed round to the last."""
        return (len(self.closed) - 1) / (self.closed[-1] - self.closed[0])


def session(parties: int, rounds: int, topology: str, seed: int, *more: str) -> argparse.Namespace:
    """The options of a session: the paper's problems, and all rounds played.

    Without noise unless told: where there is noise the agreed pace decides how long a round takes,
    and not what is measured here.
    """
    free = () if "--mode" in more else ("--mode", "exact", "--step", "sqrt")
    options = demo_options(
        ["--parties", str(parties), "--rounds", str(rounds), "--topology", topology, *free, *more]
    )
    options.seed = seed  # of the instance; the noise is the real one
    return options


def prepared(folder: Path, options: argparse.Namespace) -> LocalSession:
    """A session that is ready to be played, in a new folder."""
    folder.mkdir(exist_ok=True)
    prepare(folder, drawn(options), options)
    return LocalSession(folder, options)


def play(
    folder: Path,
    options: argparse.Namespace,
    *,
    first: Sequence[str] = PARTY,
    watch: Callable[[Mapping[str, int]], None] = lambda _: None,
    limit_seconds: float = LIMIT_SECONDS,
) -> Played:
    """Prepare and play one session in a new folder.

    `first` is how the first party is run, for a look inside; `watch` is called with the
    ids of the parties and the coordinator's as soon as all are launched. It may look at them
    until they end, and must return by then.
    """
    with prepared(folder, options) as cast:
        launched = time.time()
        cast.start_coordinator()
        for name in cast.names:
            one = name == cast.names[0]
            role, log = (first, "json") if one else (PARTY, "text")
            cast.launch(name, party_command(folder, name, options, log=log, role=role))
        watch({name: process.pid for name, process in cast.processes.items()})
        cast.done(*cast.names, seconds=limit_seconds)
        seconds = time.time() - launched
        told = cast.events[cast.names[0]]
    closed = [event["at"] - launched for event in told if event["event"] == "round"]
    return Played(launched, tuple(closed), seconds)
