"""What a running process holds: memory, open files and CPU, seen from outside now and then.

From /proc, so that on systems without it there is nothing to see, and nothing is said.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """One look at one process, at a time of the wall clock."""

    at: float
    memory_bytes: int
    open_files: int
    cpu_seconds: float


@dataclass
class Watch:
    """Looks at the processes of a session until all of its parties have ended."""

    every_seconds: float = 0.25
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def __call__(self, ids: Mapping[str, int]) -> None:
        alive = dict(ids)
        while alive.keys() - {"coordinator"}:
            for name, number in list(alive.items()):
                sample = look(number)
                if sample is None:
                    del alive[name]
                else:
                    self.samples.setdefault(name, []).append(sample)
            time.sleep(self.every_seconds)

    def cpu_per_round(self, closed: Sequence[float]) -> dict[str, float]:
        """CPU seconds of a round by process, from looks between the first round and the last.

        `closed` has the times of the wall clock at which rounds closed. The start of a process
        takes as much as hundreds of rounds, and never the same.
        """
        inside = {
            name: [s for s in seen if closed[0] <= s.at <= closed[-1]]
            for name, seen in self.samples.items()
        }
        rates = {name: cpu_per_round(seen, closed) for name, seen in inside.items()}
        return {name: rate for name, rate in rates.items() if rate is not None}

    def most(self, name: str, what: str) -> int | None:
        """The most of it that a process was seen to hold."""
        return max((getattr(s, what) for s in self.samples.get(name, ())), default=None)


@dataclass
class Together:
    """Looks now and then at what all processes of a session hold together.

    What they share counts once: the proportional set size, which adds up over processes.
    """

    every_seconds: float = 20.0
    memory_bytes: int = 0

    def __call__(self, ids: Mapping[str, int]) -> None:
        parties = [number for name, number in ids.items() if name != "coordinator"]
        while any(_runs(number) for number in parties):
            self.memory_bytes = max(self.memory_bytes, sum(map(_proportional, ids.values())))
            time.sleep(self.every_seconds)


def _runs(number: int) -> bool:
    sample = look(number)
    return sample is not None


def _proportional(number: int) -> int:
    try:
        lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def cpu_per_round(samples: Sequence[Sample], closed: Sequence[float]) -> float | None:
    """CPU seconds a round between the first and the last look, if there were two."""
    if len(samples) < 2:
        return None
    first, last = samples[0], samples[-1]
    passed = sum(first.at < at <= last.at for at in closed)
    return (last.cpu_seconds - first.cpu_seconds) / passed if passed else None


def look(number: int) -> Sample | None:
    """A process as it is now, or None if it has ended or cannot be seen."""
    folder = Path(f"/proc/{number}")
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        pages = int((folder / "statm").read_text().split()[1])
        files = len(os.listdir(folder / "fd"))
    except OSError:
        return None
    if fields[0] == "Z" or not pages:
        return None
    return Sample(time.time(), pages * _PAGE, files, (int(fields[11]) + int(fields[12])) / _TICKS)
