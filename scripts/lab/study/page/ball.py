"""What noise leaves with the step `ball`: beside the step `worth`, a placebo and an oracle."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from scripts.lab.study.grid import BALL_EPSILONS
from scripts.lab.study.page.layout import budget, grid, meaning, section
from scripts.lab.study.tables import EXCEEDED, Columns, Results, mean, percent, rate, settings

SETTINGS = tuple(settings("ball"))


class Cell(Struct, frozen=True):
    """One number of companies and one ε, with both steps."""

    setting: Any
    epsilon: float
    worth: Columns
    ball: Columns

    @property
    def name(self) -> str:
        return f"K = {self.setting.parties}, ε = {self.epsilon:g}"

    @property
    def above(self) -> float:
        """What the companies earn above a pro rata split, in points of the optimum."""
        return 100.0 * mean(self.ball["quota"] - self.ball["prorata"])

    @property
    def trades(self) -> bool:
        return bool((self.ball["quota"] != self.ball["prorata"]).any())


def cells(results: Results) -> list[Cell]:
    return [
        Cell(
            setting,
            epsilon,
            *(results.cell(setting, epsilon, v, "ball") for v in ("totals", "ball")),
        )
        for setting in SETTINGS
        for epsilon in BALL_EPSILONS
    ]


def over(found: list[Cell]) -> str:
    able = [c.ball["quota_over"] for c in found if c.trades]
    return rate(np.concatenate(able or [np.zeros(0)]) > EXCEEDED)


def findings(results: Results) -> Iterator[str]:
    found = cells(results)
    best, least = max(found, key=lambda c: c.above), min(found, key=lambda c: c.above)
    yield (
        f"With the step `ball` quotas earn up to {best.above:.1f} points more than a pro rata "
        f"split ({best.name}), and at least {least.above:+.1f} ({least.name}); where members "
        f"trade, {over(found)} of the sessions exceed a capacity (§11)."
    )


def gained(results: Results) -> str:
    found = cells(results)
    rows = [
        [
            f"K = {c.setting.parties}",
            budget(c.epsilon),
            percent(c.ball["prorata"]),
            percent(c.worth["quota"]),
            percent(c.ball["quota"]),
            percent(c.ball["placebo_quota"]),
            percent(c.ball["oracle"]),
            percent(c.worth["gap_average"]),
            percent(c.ball["gap_average"]),
            percent(c.ball["placebo_average"]),
            rate(c.ball["quota_over"] > EXCEEDED),
            f"{percent(c.worth['worse'])} → {percent(c.ball['worse'])}",
            f"{100.0 * float(c.ball['worst'].min(initial=0.0)):.0f}",
        ]
        for c in found
    ]
    header = [
        "parties", "ε", "pro rata", "quota: step worth", "step ball", "placebo's", "oracle",
        "gap: step worth", "step ball", "placebo", "sessions over a capacity", "worse off",
        "largest loss",
    ]  # fmt: skip
    able = [c for c in found if c.trades]
    informed = [c for c in able if mean(c.ball["quota"] - c.ball["placebo_quota"]) > 0.0]
    return section(
        "11. Only totals, with the step ball",
        f"Equal shares of 2/K, no minimum demands, 60 rounds, one colluder, a risk of 5 % that "
        f"quotas exceed some capacity; {len(found[0].ball['seed'])} replications. Utilities, gaps "
        "and losses in percent. The oracle knows all books and leaves the same margin unused.",
        grid(header, rows),
        meaning(
            "Answers are clipped to a ball around what a member brings, so that less noise hides "
            f"them. In {len(able)} of {len(found)} cells members trade.",
            f"There their quotas earn more than those of a placebo in {len(informed)} of "
            f"{len(able)} cells: the quotas follow the companies' own data.",
            f"{over(found)} of these sessions exceed a capacity; 5 % were agreed. *Worse off* than "
            "alone, after payment and levy: step worth → step ball.",
        ),
    )
