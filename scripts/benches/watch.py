"""What a running process holds: memory, open files and CPU, seen from outside now and then.

From /proc, so that on systems without it there is nothing to see, and nothing is said.
"""

import os
import time
from collections.abc import Mapping
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

    def most(self, name: str, what: str) -> int | None:
        """The most of it that a process was seen to hold."""
        return max((getattr(s, what) for s in self.samples.get(name, ())), default=None)


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
