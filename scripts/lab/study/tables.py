"""The tables of a study: written once, read by columns, and statistics of a column.

A table is a compressed CSV file with a row for each replication. Pages and figures of a study are
made from these files alone.
"""

import csv
import gzip
import io
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from protocol.numeric import Floats
from scripts.lab.study.grid import EXPERIMENTS, HIDDEN
from scripts.lab.study.replicate import LEVELS, MARKS, Rows, Unit

Columns = dict[str, Any]
"""A table by columns: numbers, with NaN for missing values, or texts."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "convergence": (
        "parties", "variant", "seed", "rounds_played",
        *(f"gap_{mark}" for mark in MARKS),
        *(f"rounds_{level:g}" for level in LEVELS),
    ),
    "sessions": (
        "experiment", "parties", "share_first", "buffer", "epsilon", "variant", "seed",
        "gap_start", "gap_last", "gap_average", "gap_best",
        "placebo_last", "placebo_average", "placebo_best",
        "overrun_last", "overrun_average",
        "quota", "quota_lacking", "quota_over", "placebo_quota", "placebo_quota_lacking",
        "prorata", "prorata_lacking", "oracle", "worse", "worst",
    ),
    "shares": ("parties", "share_first", "buffer", "seed", "party", "share"),
    "curves": ("parties", "variant", "round", "mean", "minimum", "maximum"),
}  # fmt: skip
"""The tables of a study, and the columns of each."""

BEST_FRACTION = 0.9
"""The fraction of the replications that the paper reports on."""

EXCEEDED = 1e-6
"""An overrun below this fraction of a capacity is rounding: a tick is 1e-6."""

DIGITS = (2, 3, 4, 5)
"""Decimals of a percentage: the fewest that show it, or the fewest if none does."""

SURE = 2.0
"""Standard errors that make a difference significant."""


def path(folder: Path, table: str) -> Path:
    return folder / f"{table}.csv.gz"


def write(folder: Path, units: Iterable[tuple[Unit, Rows]]) -> None:
    """Write all tables from the finished units, in their order."""
    lines: dict[str, list[Mapping[str, Any]]] = {name: [] for name in COLUMNS}
    gaps: dict[tuple[int, str], list[Sequence[float]]] = defaultdict(list)
    for unit, rows in units:
        for name, found in rows.tables.items():
            lines[name].extend(found)
        for variant, curve in rows.curves.items():
            gaps[unit.setting.parties, variant].append(curve)
    for (parties, variant), curves in gaps.items():
        for t, column in enumerate(zip(*curves, strict=True)):
            lines["curves"].append(
                {
                    "parties": parties,
                    "variant": variant,
                    "round": t,
                    "mean": sum(column) / len(column),
                    "minimum": min(column),
                    "maximum": max(column),
                }
            )
    for name, found in lines.items():
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS[name])
        writer.writerows([shown(line.get(c)) for c in COLUMNS[name]] for line in found)
        # no timestamp: the same rows give the same file
        path(folder, name).write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def shown(value: Any) -> str:
    """A cell of a table: seven significant digits, empty if missing."""
    if value is None:
        return ""
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def read(folder: Path, table: str) -> Columns:
    """A table by columns."""
    with gzip.open(path(folder, table), "rt", newline="") as file:
        header, *lines = csv.reader(file)
    columns = zip(*lines, strict=True) if lines else ([] for _ in header)
    return {name: _numbers(list(cells)) for name, cells in zip(header, columns, strict=True)}


def _numbers(cells: list[str]) -> Any:
    try:
        return np.array([float(cell) if cell else math.nan for cell in cells])
    except ValueError:
        return np.array(cells)


def where(table: Columns, **wanted: Any) -> Columns:
    """The rows in which each of these columns has this value; None means missing."""
    chosen = np.ones(len(next(iter(table.values()))), dtype=bool)
    for name, value in wanted.items():
        chosen &= np.isnan(table[name]) if value is None else table[name] == value
    return {name: column[chosen] for name, column in table.items()}


def best_fraction(values: Floats) -> Floats:
    """The smallest 90 %."""
    return np.sort(values)[: math.ceil(BEST_FRACTION * len(values))]


def rate(chosen: Any) -> str:
    """How many of these are true, in percent."""
    return f"{100 * float(np.mean(chosen)):.0f} %" if len(chosen) else "–"


def mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def error(values: Floats) -> float:
    """The standard error of the mean."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def percent(values: Floats) -> str:
    """The mean in percent, with its standard error."""
    values = values[~np.isnan(values)]
    if not len(values):
        return "–"
    size = abs(100 * mean(values))
    digits = next((d for d in DIGITS if size >= 10.0**-d), DIGITS[0])
    spread = "" if math.isnan(error(values)) else f" ± {100 * error(values):.{digits}f}"
    return f"{100 * mean(values):.{digits}f}{spread}"


def informed(rows: Columns, measure: str = "average") -> bool:
    """Whether the own prices are better than the placebo's by more than chance."""
    saved = rows[f"placebo_{measure}"] - rows[f"gap_{measure}"]
    return len(saved) > 1 and mean(saved) > SURE * error(saved)


def settings(name: str) -> list[Any]:
    return list(next(e for e in EXPERIMENTS if e.name == name).settings)


def cell(table: Columns, setting: Any, epsilon: float, variant: str, experiment: str) -> Columns:
    """The replications of one cell."""
    return where(
        table,
        experiment=experiment,
        parties=setting.parties,
        share_first=setting.share_first,
        buffer=setting.buffer,
        epsilon=epsilon,
        variant=variant,
    )


class Results:
    """All tables of one run, and its manifest."""

    def __init__(self, folder: Path) -> None:
        self.manifest = json.loads((folder / "manifest.json").read_text())
        self.sessions, self.convergence, self.curves, self.shares = (
            read(folder, name) for name in ("sessions", "convergence", "curves", "shares")
        )

    def has(self, experiment: str) -> bool:
        if experiment == "convergence":
            return len(self.convergence["seed"]) > 0
        return experiment in self.sessions["experiment"]

    def cell(self, setting: Any, epsilon: float, variant: str, experiment: str) -> Columns:
        return cell(self.sessions, setting, epsilon, variant, experiment)

    def recommended(self, setting: Any, epsilon: float, experiment: str) -> Columns:
        """The recommended sessions at this ε; without noise those in exact mode."""
        variant = "exact" if epsilon == HIDDEN else "recommended"
        return self.cell(setting, epsilon, variant, experiment)
