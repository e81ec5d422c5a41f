"""How figures look: readable at half size and without colour, and small as files.

The same figure gives the same file, byte for byte.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from msgspec import Struct
from PIL import Image

from scripts.lab.study.grid import EPSILONS, PAPER_EPSILONS

COLOURS = 128
"""Colours of a file: lines, texts and their smooth edges need no more."""

STYLE: Any = {
    "font.size": 15,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 15,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "lines.linewidth": 2.4,
    "lines.markersize": 8,
    "legend.frameon": False,
    "path.simplify": True,
}


class Look(Struct, frozen=True):
    """How one line is drawn: a colour of Okabe and Ito, and a marker for the colour-blind."""

    colour: str
    marker: str
    line: Any = "-"


ORANGE, SKY, GREEN, BLUE, RED, PURPLE, BLACK = (
    "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#000000",
)  # fmt: skip


LOOKS = {
    "standard": Look(ORANGE, "o"),
    "momentum": Look(SKY, "s"),
    "clipped": Look(PURPLE, "^"),
    "tuned": Look(RED, "v"),
    "recommended": Look(BLUE, "D"),
    "totals": Look(GREEN, "v"),
    "paper": Look(ORANGE, "o"),
    "paper-momentum": Look(RED, "s", (0, (6, 2))),
    "paper-long": Look(PURPLE, "^"),
    "paper-long-momentum": Look(PURPLE, "v", (0, (6, 2))),
    "default": Look(BLUE, "D"),
    "default-blind": Look(GREEN, "v", (0, (2, 1.5))),
}
"""The look of every variant."""


def panels(
    rows: int, columns: int, title: str, *, height: float, together: bool = True
) -> tuple[Figure, Any]:
    """A titled figure and its plots, with one vertical scale if `together`."""
    figure = Figure(figsize=(12.0, height), layout="constrained")
    figure.suptitle(title, fontsize=18, fontweight="bold", x=0.01, ha="left")
    return figure, figure.subplots(rows, columns, squeeze=False, sharey=together)


def in_percent(axis: Any) -> None:
    """Plain numbers on an axis of percentages, also if it is logarithmic."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def legend_below(figure: Figure, axes: Axes, *, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def budgets(axes: Axes, *, hidden: bool = False) -> None:
    """An axis of ε. The dotted line is the end of the paper's range."""
    axes.set_xscale("log")
    ticks = [*EPSILONS, 256.0] if hidden else list(EPSILONS)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([*(f"{e:g}" for e in EPSILONS), *(["∞"] if hidden else [])])
    axes.axvline((PAPER_EPSILONS[-1] * 8.0) ** 0.5, color="#777777", linestyle=":", linewidth=1.5)


def pair(
    plot: Axes,
    x: Sequence[float],
    own: Sequence[float],
    placebo: Sequence[float],
    look: Look,
    label: str,
) -> None:
    """Own data solid, placebo dashed and hollow; the difference is information."""
    plot.fill_between(x, own, placebo, color=look.colour, alpha=0.18, linewidth=0)
    plot.plot(
        x,
        placebo,
        color=look.colour,
        linestyle="--",
        marker=look.marker,
        mfc="white",
        linewidth=1.6,
    )
    plot.plot(x, own, color=look.colour, marker=look.marker, label=label)


def save(figure: Figure, path: Path) -> None:
    """Write a PNG with few colours, a third of the usual size."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110)
    picture = Image.open(drawn).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
