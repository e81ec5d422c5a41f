"""Sessions of real processes, measured from outside: pace, time, CPU and memory.

Every party runs with the command an operator would give. Only the first writes a JSON log,
to a file: in lock step its pace is everybody's, and whoever measures sleeps meanwhile.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.demo import coordinator_command, demo_options, prepare
from scripts.simulate import drawn, party_name

LIMIT_SECONDS = 600.0
"""No session that is measured may take longer."""


@dataclass(frozen=True)
class Ended:
    """What the system counted for a process that has ended."""

    code: int
    cpu_seconds: float


@dataclass(frozen=True)
class Played:
    """What one session took. The launch is a time of the wall clock; rounds closed since then."""

    launched: float
    closed: tuple[float, ...]
    seconds: float
    parties: tuple[Ended, ...]
    coordinator: Ended

    @property
    def closed_at(self) -> tuple[float, ...]:
        """When rounds closed, by the wall clock."""
        return tuple(self.launched + at for at in self.closed)

    @property
    def rounds_per_second(self) -> float:
        """From the first closed round to the last."""
        return (len(self.closed) - 1) / (self.closed[-1] - self.closed[0])


def environment() -> dict[str, str]:
    """For every process that is measured, ours or not: no threads that nobody asked for."""
    root = str(Path(__file__).parents[3])
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")])),
    }


def session(parties: int, rounds: int, topology: str, seed: int) -> argparse.Namespace:
    """The options of a session: the paper's problems, ε = 1, everything on."""
    options = demo_options(
        ["--parties", str(parties), "--rounds", str(rounds), "--topology", topology]
    )
    options.seed = seed  # of the instance; the noise is the real one
    return options


def party_command(folder: Path, name: str, topology: str, log: str = "text") -> list[str]:
    """`party join` as an operator would give it, without the interpreter."""
    home = folder / name
    return [
        "join",
        "--agreement", str(folder / "agreement.toml"), "--data", str(home / "model.npz"),
        "--key", str(home / f"{name}.key"), "--log-format", log,
        *(["--listen", "tcp://127.0.0.1:*"] if topology == "mesh" else []),
    ]  # fmt: skip


class Processes:
    """Children that are ended whatever happens, and what the system counted for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: dict[str, Ended] = {}
        self._limit = threading.Timer(LIMIT_SECONDS, self._kill)
        self._limit.daemon = True

    def __enter__(self) -> "Processes":
        self._limit.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.cancel()
        self._kill()
        for name in self._children:
            self.wait(name)

    def start(self, name: str, command: Sequence[str | Path]) -> int:
        """Its output goes to NAME.out and NAME.err in the folder."""
        with self.log(name, "out").open("wb") as out, self.log(name, "err").open("wb") as err:
            child = subprocess.Popen(command, env=environment(), stdout=out, stderr=err)
        self._children[name] = child
        return child.pid

    def log(self, name: str, kind: str) -> Path:
        return self._folder / f"{name}.{kind}"

    def wait(self, name: str) -> Ended:
        """Until it ends. Nothing here looks up in between: that would be measured too."""
        if name not in self._ended:
            child = self._children[name]
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self._ended[name] = Ended(child.returncode, usage.ru_utime + usage.ru_stime)
        return self._ended[name]

    def done(self, name: str) -> Ended:
        """Until it ends. Raises, with what it said, if it failed."""
        ended = self.wait(name)
        if ended.code:
            told = self.log(name, "err").read_text()[-2_000:].strip()
            raise RuntimeError(f"{name} ended with {ended.code}: {told}")
        return ended

    def stop(self, name: str) -> Ended:
        """End a process that serves until it is told to."""
        if name not in self._ended:
            os.kill(self._children[name].pid, signal.SIGTERM)
        return self.wait(name)

    def _kill(self) -> None:
        for name, child in self._children.items():
            if name not in self._ended:
                os.kill(child.pid, signal.SIGKILL)  # Popen's own would reap it uncounted


def play(
    folder: Path,
    options: argparse.Namespace,
    *,
    first: Sequence[str] = ("-m", "party"),
    watch: Callable[[Mapping[str, int]], None] = lambda _: None,
) -> Played:
    """Prepare and play one session in a new folder.

    `first` is how the first party is run, for a look inside; `watch` is called with the
    ids of the parties and the coordinator's as soon as all are launched. It may look at them
    until they end, and must return by then.
    """
    folder.mkdir()
    prepare(folder, drawn(options), options)
    names = [party_name(k) for k in range(options.parties)]
    with Processes(folder) as processes:
        launched = time.time()
        relay = processes.start("coordinator", coordinator_command(folder))
        ids = {
            name: processes.start(
                name,
                [
                    sys.executable,
                    *(("-m", "party") if k else first),
                    *party_command(folder, name, options.topology, "text" if k else "json"),
                ],
            )
            for k, name in enumerate(names)
        }
        watch(ids | {"coordinator": relay})
        ended = tuple(processes.done(name) for name in names)
        seconds = time.time() - launched
        coordinator = processes.stop("coordinator")
        closed = [e["at"] - launched for e in events(processes.log(names[0], "out"), "round")]
    return Played(launched, tuple(closed), seconds, ended, coordinator)


def events(log: Path, kind: str) -> list[dict[str, Any]]:
    """What a party's JSON log tells of one kind."""
    told = [json.loads(line) for line in log.read_text().splitlines()]
    return [event for event in told if event["event"] == kind]
