"""Sessions of real processes, measured from outside: pace, and time from launch to end.

Only the first party writes a JSON log: all parties close rounds together. The measuring process
sleeps meanwhile.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from scripts.lab.common.agreements import drawn
from scripts.lab.common.instances import Instance
from scripts.lab.common.local_session import LIMIT_SECONDS, PARTY, LocalSession, party_command
from scripts.lab.common.workspace import prepare
from scripts.lab.demo.__main__ import demo_options


class SessionTiming(Struct, frozen=True):
    """Launch of a session by the wall clock, and seconds from then to each closed round and the
    end."""

    launched: float
    closed: tuple[float, ...]
    seconds: float

    @property
    def closed_at(self) -> tuple[float, ...]:
        """Wall-clock times at which rounds closed."""
        return tuple(self.launched + at for at in self.closed)

    @property
    def rounds_per_second(self) -> float:
        """From the first closed round to the last."""
        return (len(self.closed) - 1) / (self.closed[-1] - self.closed[0])


def session(parties: int, rounds: int, topology: str, seed: int, *more: str) -> argparse.Namespace:
    """The options of a session with the paper's problems, which runs all its rounds.

    It has no noise unless `more` sets a mode: with noise the agreed pace sets the time of a round.
    """
    free = () if "--mode" in more else ("--mode", "exact", "--step", "sqrt")
    options = demo_options(
        ["--parties", str(parties), "--rounds", str(rounds), "--topology", topology, *free, *more]
    )
    options.seed = seed  # of the instance only; the noise is not seeded
    return options


def prepared(
    folder: Path, options: argparse.Namespace, instance: Instance | None = None
) -> LocalSession:
    """A session that is ready to start, in a new folder; by default of drawn companies."""
    folder.mkdir(exist_ok=True)
    prepare(folder, instance or drawn(options), options)
    return LocalSession(folder, options)


def run_session(
    folder: Path,
    options: argparse.Namespace,
    *,
    first: Sequence[str] = PARTY,
    watch: Callable[[Mapping[str, int]], None] = lambda _: None,
    limit_seconds: float = LIMIT_SECONDS,
) -> SessionTiming:
    """Prepare and run one session in a new folder.

    `first` is how the first party is run, so that it can be profiled. `watch` is called with all
    process ids once all are launched; it returns when the parties have ended, or before.
    """
    with prepared(folder, options) as running:
        launched = time.time()
        running.start_coordinator()
        for name in running.names:
            one = name == running.names[0]
            role, log = (first, "json") if one else (PARTY, "text")
            running.launch(name, party_command(folder, name, options, log=log, role=role))
        watch({name: process.pid for name, process in running.processes.items()})
        running.done(*running.names, seconds=limit_seconds)
        seconds = time.time() - launched
        events = running.events[running.names[0]]
    closed = [event["at"] - launched for event in events if event["event"] == "round"]
    return SessionTiming(launched, tuple(closed), seconds)
