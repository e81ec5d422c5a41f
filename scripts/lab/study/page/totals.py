"""Gains where only totals can be read: prices and private quotas, compared with `each`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from scripts.lab.study.grid import TOTALS_EPSILONS
from scripts.lab.study.page.layout import budget, grid, meaning, section
from scripts.lab.study.tables import EXCEEDED, Columns, Results, mean, percent, rate, settings

SETTINGS = tuple(settings("totals"))


def ratio(table: Columns) -> float:
    """The placebo's gap as a multiple of the own gap."""
    return mean(table["placebo_average"]) / mean(table["gap_average"])


class Gained(Struct, frozen=True):
    """A cell of the experiment, with single releases and with totals alone."""

    setting: Any
    epsilon: float
    each: Columns
    totals: Columns

    @property
    def name(self) -> str:
        return f"K = {self.setting.parties}, ε = {self.epsilon:g}"

    @property
    def above(self) -> float:
        """What private quotas earn above a pro rata split, in points of the optimum."""
        return 100 * mean(self.totals["quota"] - self.totals["prorata"])

    @property
    def pro_rata(self) -> bool:
        """Whether private quotas are the pro rata split, which exceeds no capacity."""
        return float(np.abs(self.totals["quota"] - self.totals["prorata"]).max()) < 1e-4


def cells(results: Results) -> list[Gained]:
    return [
        Gained(
            setting,
            epsilon,
            *(results.cell(setting, epsilon, v, "totals") for v in ("recommended", "totals")),
        )
        for setting in SETTINGS
        for epsilon in TOTALS_EPSILONS
    ]


def over(found: list[Gained]) -> str:
    """How many sessions have private quotas that exceed a capacity, of those that can."""
    able = [c.totals["quota_over"] for c in found if not c.pro_rata]
    return rate(np.concatenate(able or [np.zeros(0)]) > EXCEEDED)


def findings(results: Results) -> Iterator[str]:
    found = cells(results)
    readable, alone = (
        [ratio(t) for t in kind] for kind in zip(*((c.each, c.totals) for c in found), strict=True)
    )
    best = max(found, key=lambda c: c.above)
    worst = min(found, key=lambda c: c.above)
    yield (
        f"Where only totals can be read, a placebo's gap is {min(alone):.1f} to {max(alone):.1f} "
        f"times the own one for K = {SETTINGS[0].parties} to {SETTINGS[-1].parties} and ε = "
        f"{TOTALS_EPSILONS[0]:g} to {TOTALS_EPSILONS[-1]:g}, and {min(readable):.2f} to "
        f"{max(readable):.2f} times where each release can (§10)."
    )
    yield (
        f"Private quotas then earn up to {best.above:.1f} points more than a pro rata split "
        f"({best.name}), and {_at_worst(worst)}; where they follow demands, {over(found)} of the "
        f"sessions exceed a capacity (§10)."
    )


def _at_worst(cell: Gained) -> str:
    if cell.above >= 0.0:
        return "never less"
    return f"at worst {-cell.above:.3f} points less ({cell.name})"


def gained(results: Results) -> str:
    rows = []
    found = cells(results)
    for c in found:
        rows.append(
            [
                f"K = {c.setting.parties}",
                budget(c.epsilon),
                percent(c.each["gap_average"]),
                f"{ratio(c.each):.2f}",
                percent(c.totals["gap_average"]),
                percent(c.totals["placebo_average"]),
                f"{ratio(c.totals):.2f}",
                percent(c.each["quota"]),
                percent(c.totals["quota"]),
                percent(c.totals["placebo_quota"]),
                percent(c.totals["prorata"]),
                rate(c.totals["quota_over"] > EXCEEDED),
            ]
        )
    header = [
        "parties", "ε", "each: own gap", "placebo ÷ own", "only totals: own gap", "placebo",
        "placebo ÷ own", "quota: each", "only totals", "placebo's", "pro rata",
        "sessions over a capacity",
    ]  # fmt: skip
    clear = [c.name for c in found if ratio(c.totals) >= 2.0]
    best, worst = max(found, key=lambda c: c.above), min(found, key=lambda c: c.above)
    split = [c.name for c in found if c.pro_rata]
    return section(
        "10. Only totals: prices and private quotas, for the same ε and δ",
        "Equal shares of 2/K, no minimum demands, one colluder, a risk of 5 % that quotas of a "
        "session exceed some capacity; gaps of the average prices and utilities in percent.",
        grid(header, rows),
        meaning(
            "Noise that hides one member from all hides every member, if it is added up before "
            "anyone reads it: each adds a fraction 1/(K − 1) of it. "
            f"The own gap is at most half of the placebo's in {len(clear)} of {len(found)} cells"
            + (f" ({'; '.join(clear)})." if clear else "."),
            f"Private quotas earn {best.above:.1f} points more than a pro rata split for "
            f"{best.name}, and for {worst.name} {worst.above:+.3f}; in {len(split)} of "
            f"{len(found)} cells they are that split, because too much of a capacity would have "
            f"to be withheld for noise.",
            f"In the other cells {over(found)} of the sessions exceed a capacity; 5 % were agreed.",
        ),
        ("totals",),
    )
