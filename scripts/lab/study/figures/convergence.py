"""Convergence without noise, over the rounds."""

from matplotlib.figure import Figure

from scripts.lab.study.figures.style import LOOKS, in_percent, legend_below, panels
from scripts.lab.study.grid import VARIANTS
from scripts.lab.study.tables import Columns, where


def convergence(curves: Columns) -> Figure:
    """Mean, minimum and maximum over the rounds, with the beginning enlarged."""
    title = "Without noise: how many rounds does it take?"
    figure, axes = panels(1, 2, title, height=6.6, together=False)
    for plot, parties in zip(axes[0], (5, 10), strict=True):
        near = plot.inset_axes((0.40, 0.60, 0.58, 0.36))
        for variant in ("paper", "paper-long", "default"):
            look, table = LOOKS[variant], where(curves, parties=parties, variant=variant)
            for place in (plot, near):
                place.fill_between(
                    table["round"],
                    100 * table["minimum"],
                    100 * table["maximum"],
                    color=look.colour,
                    alpha=0.25,
                    linewidth=0,
                )
                place.plot(table["round"], 100 * table["mean"], color=look.colour)
            at, above = {"paper": (560, 3), "paper-long": (420, 26), "default": (200, 3)}[variant]
            plot.annotate(
                "steps ‖c‖ times as long" if variant == "paper-long" else VARIANTS[variant].label,
                (at, 100 * table["mean"][at]),
                (0, above),
                textcoords="offset points",
                color="#8a5f00" if variant == "paper" else look.colour,
                fontweight="bold",
                va="bottom",
            )
        plot.set_title(f"K = {parties}")
        plot.set_xlabel("round")
        plot.set_xlim(0, 1000)
        plot.set_ylim(0, 230 * curves["maximum"][curves["parties"] == parties].max())
        near.set_xlim(0, 150)
        near.set_ylim(0, 5)
        near.tick_params(labelsize=13)
        plot.indicate_inset_zoom(near, edgecolor="black", linestyle="--", alpha=0.8)
    axes[0, 0].set_ylabel("gap to the optimum, %\nline: mean; band: least to most")
    return figure


def momentum(curves: Columns) -> Figure:
    """The mean gap of every rule, and the two points that the paper names."""
    title = "Does momentum help?"
    figure, axes = panels(1, 2, title, height=8.0)
    for plot, parties in zip(axes[0], (5, 10), strict=True):
        for variant, look in LOOKS.items():
            table = where(curves, parties=parties, variant=variant)
            if len(table["round"]):
                plot.plot(
                    table["round"][1:],
                    100 * table["mean"][1:],
                    color=look.colour,
                    linestyle=look.line,
                    linewidth=2.0,
                    label=VARIANTS[variant].label,
                )
        for at, level, text in ((790, 25, "paper's text"), (284, 15, "with momentum")):
            plot.plot([at], [level], "k*", markersize=15)
            plot.annotate(
                text, (at, level), (-9, 0), textcoords="offset points", fontsize=13,
                ha="right", va="center",
            )  # fmt: skip
        plot.set_yscale("log")
        in_percent(plot.yaxis)
        plot.set_xscale("log")
        in_percent(plot.xaxis)
        plot.set_xlim(1, 1000)
        plot.set_title(f"K = {parties}")
        plot.set_xlabel("round")
    axes[0, 0].set_ylabel("mean gap to the optimum, %")
    axes[0, 0].set_ylim(bottom=1e-3)  # for both, now that both are drawn
    legend_below(figure, axes[0, 0], columns=2)
    return figure
