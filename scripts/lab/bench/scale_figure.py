"""The figure of `scripts/bench scale`, readable at half size and without colour."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from scripts.lab.study.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    STYLE,
    Look,
    panels,
    save,
)

LOOKS = {
    "all": Look(BLUE, "D"),
    "verify": Look(ORANGE, "o", (0, (6, 2))),
    "noise": Look(PURPLE, "s", (0, (2, 1.5))),
    "solve": Look(GREEN, "^", (0, (6, 2, 2, 2))),
    "process": Look(BLACK, "v", (0, (1, 1))),
    "coordinator": Look(ORANGE, "P", (0, (1, 1))),
}

Points = list[tuple[float, float | None]]


def draw(figures: dict[str, Any], folder: Path) -> None:
    with mpl.rc_context(STYLE):
        save(growth(figures), folder / "growth.png")


def growth(figures: dict[str, Any]) -> Figure:
    """CPU of a round over K, m, n and T; logarithmic both ways but for the rounds."""
    figure, plots = panels(
        2, 2, "What does a round cost, as each thing grows?", height=11.0, together=False
    )
    (parties, resources), (columns, rounds) = plots
    _parts(parties, figures, "parties", ("verify", "noise"))
    _line(parties, "process", "a whole party process", _of(figures, "party_cpu_microseconds"))
    _line(parties, "coordinator", "the coordinator", _of(figures, "coordinator_cpu_microseconds"))
    _parts(resources, figures, "resources", ("noise", "solve", "verify"))
    _parts(columns, figures, "columns", ("solve", "noise", "verify"))
    for plot, label in ((parties, "parties K"), (resources, "resources m"), (columns, "columns n")):
        plot.set_xscale("log")
        plot.set_yscale("log")
        plot.set_xlabel(label)
        plot.set_ylabel("CPU of a round, ms")
        plot.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        plot.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        plot.legend(fontsize=12)
    _endurance(rounds, figures["long"])
    return figure


def _of(figures: dict[str, Any], key: str) -> Points:
    return [(row["parties"], row[key]) for row in figures["processes"]]


def _line(plot: Axes, look: str, label: str, points: Points) -> None:
    drawn = [(x, y / 1e3) for x, y in points if y is not None and y > 0.0]
    style = LOOKS[look]
    plot.plot(
        [x for x, _ in drawn],
        [y for _, y in drawn],
        color=style.colour,
        marker=style.marker,
        linestyle=style.line,
        label=label,
    )


def _parts(plot: Axes, figures: dict[str, Any], sweep: str, parts: tuple[str, ...]) -> None:
    rows = figures[sweep]
    _line(plot, "all", "what a party computes", [(r[sweep], r["cpu_microseconds"]) for r in rows])
    names = {"verify": "verifying", "noise": "noise", "solve": "solving"}
    for part in parts:
        _line(plot, part, f"of that, {names[part]}", [(r[sweep], r["parts"][part]) for r in rows])


def _endurance(plot: Axes, long: dict[str, Any]) -> None:
    """A round and the memory of a party, each beside what it was at the beginning."""
    windows = long["windows"]
    for look, key, label in (
        ("all", "median_round_microseconds", "time of a round"),
        ("process", "cpu_microseconds_per_round", "CPU of a round, a party"),
        ("noise", "memory_bytes", "memory of a party"),
    ):
        told = [(w["last_round"], w[key]) for w in windows if w[key] is not None]
        if told:
            style, first = LOOKS[look], told[0][1]
            plot.plot(
                [x for x, _ in told],
                [y / first for _, y in told],
                color=style.colour,
                marker=style.marker,
                linestyle=style.line,
                label=label,
            )
    plot.set_ylim(0.0, 2.0)
    plot.set_xlabel("rounds played T")
    plot.set_ylabel("beside the first stretch")
    plot.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    plot.legend(fontsize=12)
