"""The units of a study, and the folder of finished ones.

Every unit leaves one file when it ends, so that a stopped study resumes. Nothing here may change a
number.
"""

import fcntl
import json
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from protocol.errors import BadCommand
from scripts.lab.study.grid import EXPERIMENTS
from scripts.lab.study.replicate import Rows, Unit


def units(experiments: Iterable[str], seeds: Sequence[int]) -> list[Unit]:
    """All units, in the order of the rows. Long experiments have the first seeds only."""
    chosen = [e for e in EXPERIMENTS if e.name in experiments]
    places = [(e, setting) for e in chosen for setting in e.settings]
    return [
        Unit(e.name, setting, seed)
        for e, setting in places
        for seed in seeds[: e.most_replications]
    ]


def cost(unit: Unit) -> float:
    """The relative time of a unit, only used to estimate the time left."""
    experiment = next(e for e in EXPERIMENTS if e.name == unit.experiment)
    passes = 1.0 if unit.experiment == "convergence" else 3.0 if experiment.hindsight else 2.0
    rounds = passes * len(experiment.sessions) * experiment.rounds
    return rounds * (unit.setting.parties + 6.0)


class Work:
    """The folder of finished units, and the terms it was begun with."""

    def __init__(self, folder: Path, terms: Mapping[str, Any]) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadCommand(f"another study runs in {folder}; choose another --out") from None
        begun = folder / "terms.json"
        if not begun.exists():
            write(begun, json.dumps(terms, indent=2) + "\n")
        before = json.loads(begun.read_text())
        differing = [key for key in terms if before.get(key) != terms[key]]
        if differing:
            raise BadCommand(
                f"{folder} holds a study with other terms ("
                + "; ".join(f"{key} {before.get(key)}, now {terms[key]}" for key in differing)
                + "): use those terms, choose another --out, or remove that folder"
            )

    def __contains__(self, unit: Unit) -> bool:
        return self._path(unit).exists()

    def put(self, unit: Unit, rows: Rows) -> None:
        write(self._path(unit), json.dumps(asdict(rows), default=float))

    def get(self, unit: Unit) -> Rows:
        return Rows(**json.loads(self._path(unit).read_text()))

    def remove(self) -> None:
        shutil.rmtree(self._folder)

    def _path(self, unit: Unit) -> Path:
        return self._folder / f"{unit.name}.json"


class Clock:
    """The seconds that a study has taken, over all its starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = float(path.read_text()) if path.exists() else 0.0
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._begin

    def save(self) -> None:
        write(self._path, f"{self.seconds:.1f}\n")


def write(path: Path, text: str) -> None:
    """Write a file atomically."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, newline="\n")
    partial.replace(path)
