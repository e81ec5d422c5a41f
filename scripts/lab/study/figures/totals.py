"""Only totals: own data against a placebo, and what private quotas earn."""

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from scripts.lab.study.figures.style import (
    LOOKS,
    PURPLE,
    Look,
    in_percent,
    legend_below,
    panels,
)
from scripts.lab.study.grid import TOTALS_EPSILONS
from scripts.lab.study.tables import Columns, cell, mean, settings


def totals(sessions: Columns) -> Figure:
    """Against the number of parties, for each ε: how much prices learn, and what quotas earn."""
    figure, axes = panels(
        1, 2, "Only totals can be read: what is gained?", height=6.8, together=False
    )
    left, right = axes[0]
    places = settings("totals")
    x = [setting.parties for setting in places]
    lines = {16.0: "-", 4.0: (0, (6, 2)), 1.0: (0, (2, 1.5))}
    for epsilon in TOTALS_EPSILONS:
        for variant, label in (("totals", "only totals"), ("recommended", "each")):
            look = LOOKS[variant]
            found = [cell(sessions, s, epsilon, variant, "totals") for s in places]
            learned = [mean(c["placebo_average"]) / mean(c["gap_average"]) for c in found]
            earned = [100 * mean(c["quota"]) for c in found]
            for plot, values in ((left, learned), (right, earned)):
                plot.plot(
                    x,
                    values,
                    color=look.colour,
                    marker=look.marker,
                    linestyle=lines[epsilon],
                    label=f"{label}, ε = {epsilon:g}",
                )
    shares = [100 * mean(cell(sessions, s, 4.0, "totals", "totals")["prorata"]) for s in places]
    pro_rata = Look(PURPLE, "s", ":")
    right.plot(
        x, shares, color=pro_rata.colour, marker=pro_rata.marker, linestyle=pro_rata.line,
        label="pro rata split",
    )  # fmt: skip
    left.set_yscale("log")
    in_percent(left.yaxis)
    left.set_title("placebo's gap over the own gap")
    right.set_title("utility within the quotas, % of the optimum")
    for plot in (left, right):
        plot.set_xscale("log")
        plot.xaxis.set_major_locator(FixedLocator(x))
        plot.xaxis.set_minor_locator(NullLocator())
        plot.set_xticklabels([f"{count:g}" for count in x])
        plot.set_xlabel("parties K, shares of 2/K")
    legend_below(figure, right, columns=4)
    return figure
