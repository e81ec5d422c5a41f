"""How figures look: readable at half size and without colour, and small as files.

Used by the figures of the study and of `scripts/bench scale`. The same figure gives the same
file, byte for byte.
"""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from PIL import Image

COLOURS = 128
"""Of a file: lines, texts and their soft edges need no more."""

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


@dataclass(frozen=True)
class Look:
    """How one line is drawn: a colour of Okabe and Ito, and a shape for whoever sees none."""

    colour: str
    marker: str
    line: Any = "-"


ORANGE, SKY, GREEN, BLUE, RED, PURPLE, BLACK = (
    "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#000000",
)  # fmt: skip


def panels(
    rows: int, columns: int, title: str, *, height: float, together: bool = True
) -> tuple[Figure, Any]:
    """A titled figure and its plots, with one vertical scale if they belong together."""
    figure = Figure(figsize=(12.0, height), layout="constrained")
    figure.suptitle(title, fontsize=18, fontweight="bold", x=0.01, ha="left")
    return figure, figure.subplots(rows, columns, squeeze=False, sharey=together)


def in_percent(axis: Any) -> None:
    """Plain numbers on an axis of percentages, also where it is logarithmic."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def legend_below(figure: Figure, axes: Axes, *, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def save(figure: Figure, path: Path) -> None:
    """As PNG with few colours, which is a third of the size."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110)
    picture = Image.open(drawn).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
