"""Memory, open files and CPU of running processes, sampled from /proc.

On systems without /proc there are no samples.
"""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Sample(Struct, frozen=True):
    """One sample of one process, with the wall-clock time."""

    at: float
    memory_bytes: int
    open_files: int
    cpu_seconds: float


class Watch(Struct):
    """Samples the processes of a session until all of its parties have ended."""

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
        """CPU seconds per round of each process, from samples between the first round and the last.

        `closed` has the wall-clock times at which rounds closed. The start of a process is left
        out: it costs as much as hundreds of rounds and varies.
        """
        inside = {
            name: [s for s in samples if closed[0] <= s.at <= closed[-1]]
            for name, samples in self.samples.items()
        }
        rates = {name: cpu_per_round(samples, closed) for name, samples in inside.items()}
        return {name: rate for name, rate in rates.items() if rate is not None}

    def most(self, name: str, what: str) -> int | None:
        """The largest sampled value of `what`."""
        return max((getattr(s, what) for s in self.samples.get(name, ())), default=None)


class Together(Struct):
    """Samples the memory of all processes of a session together.

    Shared memory counts once: the proportional set size adds up over processes.
    """

    every_seconds: float = 20.0
    memory_bytes: int = 0

    def __call__(self, ids: Mapping[str, int]) -> None:
        parties = [number for name, number in ids.items() if name != "coordinator"]
        while any(_runs(number) for number in parties):
            self.memory_bytes = max(self.memory_bytes, sum(map(_proportional, ids.values())))
            time.sleep(self.every_seconds)


def _runs(number: int) -> bool:
    return look(number) is not None


def _proportional(number: int) -> int:
    try:
        lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def cpu_per_round(samples: Sequence[Sample], closed: Sequence[float]) -> float | None:
    """CPU seconds per round between the first and the last sample, if there are two."""
    if len(samples) < 2:
        return None
    first, last = samples[0], samples[-1]
    passed = sum(first.at < at <= last.at for at in closed)
    return (last.cpu_seconds - first.cpu_seconds) / passed if passed else None


def look(number: int) -> Sample | None:
    """A sample of a process, or None if it has ended or cannot be read."""
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
