"""From 5 to 100 parties: information, and overruns."""

from matplotlib.figure import Figure

from scripts.lab.study.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    LOOKS,
    ORANGE,
    PURPLE,
    RED,
    Look,
    budgets,
    in_percent,
    legend_below,
    pair,
    panels,
)
from scripts.lab.study.grid import EPSILONS, HIDDEN
from scripts.lab.study.tables import EXCEEDED, Columns, cell, mean, settings

PARTY_LOOKS = {
    5: Look(ORANGE, "o"),
    10: Look(RED, "s"),
    20: Look(PURPLE, "^"),
    50: Look(GREEN, "v"),
    100: Look(BLUE, "D"),
}


def information(sessions: Columns) -> Figure:
    """Own data against the placebo for every number of parties."""
    title = "Own data against a placebo: when do the prices learn anything?"
    figure, axes = panels(2, 3, title, height=8.2)
    for plot, setting in zip(axes.flat, settings("parties"), strict=False):
        cells = [cell(sessions, setting, e, "recommended", "parties") for e in EPSILONS]
        start = 100 * mean(cells[0]["gap_start"])
        plot.axhline(start, color=BLACK, linestyle=":", label="start prices, no session")
        totals = [cell(sessions, setting, e, "totals", "parties") for e in EPSILONS]
        for variant, label, found in (
            ("recommended", "own data", cells),
            ("totals", "own data, only totals", totals),
        ):
            own, placebo = (
                [100 * mean(c[name]) for c in found] for name in ("gap_average", "placebo_average")
            )
            pair(plot, EPSILONS, own, placebo, LOOKS[variant], label)
        quiet = cell(sessions, setting, HIDDEN, "exact", "parties")
        plot.text(
            0.04,
            0.06,
            f"without noise:\nown {100 * mean(quiet['gap_average']):.2g} %, "
            f"placebo {100 * mean(quiet['placebo_average']):.2g} %",
            transform=plot.transAxes,
            fontsize=13,
        )
        plot.set_yscale("log")
        in_percent(plot.yaxis)
        plot.set_title(f"K = {setting.parties}")
        budgets(plot)
    axes[0, 0].set_ylim(0.01, 15)
    last = axes.flat[-1]
    last.axis("off")
    first = axes[0, 0]
    first.plot([], [], color=BLUE, linestyle="--", marker="D", mfc="white", label="placebo")
    handles, labels = first.get_legend_handles_labels()
    last.legend(handles, labels, loc="center", title="recommended variant,\nequal shares of 2/K")
    for row in axes:
        row[0].set_ylabel("mean gap, %")
    for place in (axes[1, 0], axes[1, 1], axes[0, 2]):
        place.set_xlabel("privacy budget ε")
    return figure


def overrun(sessions: Columns) -> Figure:
    """How often plans at the average prices exceed a capacity, and by how much."""
    figure, axes = panels(
        1, 2, "Do plans at the average prices overrun the capacities?", height=6.8
    )
    left, right = axes[0]
    x = [*EPSILONS, 256.0]
    for setting in settings("parties"):
        look = PARTY_LOOKS[setting.parties]
        over = [
            cell(sessions, setting, e, "exact" if e == HIDDEN else "recommended", "parties")[
                "overrun_average"
            ]
            for e in (*EPSILONS, HIDDEN)
        ]
        often = [100 * float((o > EXCEEDED).mean()) for o in over]
        much = [100 * mean(o) for o in over]
        for plot, values in ((left, often), (right, much)):
            plot.plot(
                x, values, color=look.colour, marker=look.marker, label=f"K = {setting.parties}"
            )
    for plot, title in (
        (left, "sessions that exceed some capacity, %"),
        (right, "mean excess over it, % of the capacity"),
    ):
        plot.set_title(title)
        plot.set_xlabel("privacy budget ε (∞: no noise)")
        plot.set_ylim(0, 105)
        budgets(plot, hidden=True)
        plot.set_ylabel("%")
    legend_below(figure, left, columns=5)
    return figure
