"""The figures of a study. Each has its question in the title; the answer is for who looks.

They are drawn from the tables alone, and the same tables give the same figures, byte for
byte.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from protocol.arrays import Floats
from scripts.studies.cells import EPSILONS, HIDDEN, PAPER_EPSILONS, VARIANTS
from scripts.studies.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    STYLE,
    Look,
    in_percent,
    legend_below,
    panels,
    save,
)
from scripts.studies.tables import EXCEEDED, Columns, best_part, cell, mean, read, settings, where

LOOKS = {
    "standard": Look(ORANGE, "o"),
    "momentum": Look(SKY, "s"),
    "clipped": Look(PURPLE, "^"),
    "tuned": Look(RED, "v"),
    "recommended": Look(BLUE, "D"),
    "paper": Look(ORANGE, "o"),
    "paper-momentum": Look(RED, "s", (0, (6, 2))),
    "paper-long": Look(PURPLE, "^"),
    "paper-long-momentum": Look(PURPLE, "v", (0, (6, 2))),
    "default": Look(BLUE, "D"),
    "default-momentum": Look(SKY, "^", (0, (6, 2))),
    "default-blind": Look(GREEN, "v", (0, (2, 1.5))),
}
PARTY_LOOKS = {
    5: Look(ORANGE, "o"),
    10: Look(RED, "s"),
    20: Look(PURPLE, "^"),
    50: Look(GREEN, "v"),
    100: Look(BLUE, "D"),
}


def draw_all(out: Path) -> None:
    """Draw every figure for which the tables have rows."""
    sessions, curves, shares = (read(out, name) for name in ("sessions", "curves", "shares"))
    drawings: list[tuple[str, Callable[[], Figure]]] = []
    if len(curves["round"]):
        drawings += [
            ("convergence", lambda: convergence(curves)),
            ("momentum", lambda: momentum(curves)),
        ]
    if "privacy" in sessions["experiment"]:
        for parties in (5, 10):
            drawings += [
                (f"shares-{parties}", lambda k=parties: market_shares(shares, k)),  # type: ignore[misc]
                (f"paper-{parties}", lambda k=parties: paper_measure(sessions, k)),  # type: ignore[misc]
                (f"privacy-{parties}", lambda k=parties: privacy(sessions, k)),  # type: ignore[misc]
            ]
    if "parties" in sessions["experiment"]:
        drawings += [
            ("information", lambda: information(sessions)),
            ("overrun", lambda: overrun(sessions)),
        ]
    if "quota" in sessions["experiment"]:
        drawings.append(("quota", lambda: quota(sessions)))
    with mpl.rc_context(STYLE):
        for name, drawing in drawings:
            save(drawing(), out / f"{name}.png")


def budgets(axes: Axes, *, hidden: bool = False) -> None:
    """An axis of ε; beyond the dotted line the paper does not go."""
    axes.set_xscale("log")
    ticks = [*EPSILONS, 256.0] if hidden else list(EPSILONS)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([*(f"{e:g}" for e in EPSILONS), *(["∞"] if hidden else [])])
    axes.axvline((PAPER_EPSILONS[-1] * 8.0) ** 0.5, color="#777777", linestyle=":", linewidth=1.5)


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
            at, above = {"paper": (560, 3), "paper-long": (560, 12), "default": (160, 3)}[variant]
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
    figure, axes = panels(1, 2, title, height=7.4)
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
    legend_below(figure, axes[0, 0], columns=3)
    return figure


def market_shares(shares: Columns, parties: int) -> Figure:
    """The mean share of each party, and the range over the replications."""
    figure, axes = panels(
        2, 2, f"How much of a capacity may each party claim? (K = {parties})", height=7.6
    )
    markets = [s for s in settings("privacy") if s.parties == parties]
    for plot, setting in zip(axes.flat, markets, strict=True):
        table = where(
            shares,
            parties=parties,
            share_first=setting.share_first,
            buffer=setting.buffer,
        )
        parts = [100 * where(table, party=float(k + 1))["share"] for k in range(parties)]
        middle = np.array([part.mean() for part in parts])
        reach = [[m - p.min(), p.max() - m] for m, p in zip(middle, parts, strict=True)]
        names = [str(k + 1) for k in range(parties)]
        plot.bar(
            names,
            middle,
            yerr=np.array(reach).T,
            color=[BLUE, *[SKY] * (parties - 1)],
            hatch=["//", *[""] * (parties - 1)],
            edgecolor="white",
            capsize=5,
        )
        plot.set_title(market_title(setting))
        plot.set_ylim(0, 100)
    for plot in axes[1]:
        plot.set_xlabel("party; lines: range over all replications")
    for plot in axes[:, 0]:
        plot.set_ylabel("share, %")
    return figure


def market_title(setting: Any) -> str:
    return f"$s_1 \\leq {setting.share_first:g}c$, buffer ${setting.buffer:g}c$"


def paper_measure(sessions: Columns, parties: int) -> Figure:
    """The paper's own figure, with the placebo that it lacks."""
    title = f"Best round of the best 90 %: does a placebo do as well? (K = {parties})"
    variants = ("standard", "momentum", "clipped", "tuned")
    return _grid_figure(sessions, parties, title, "best", best_part, variants)


def privacy(sessions: Columns, parties: int) -> Figure:
    """The gap that can be known against ε, own data and placebo."""
    title = f"Average prices, all replications: how much is information? (K = {parties})"
    variants = ("standard", "momentum", "clipped", "recommended")
    return _grid_figure(sessions, parties, title, "average", lambda values: values, variants)


def _grid_figure(
    sessions: Columns,
    parties: int,
    title: str,
    measure: str,
    part: Callable[[Floats], Floats],
    variants: Sequence[str],
) -> Figure:
    """The four markets of the paper: mean gaps against ε."""
    figure, axes = panels(2, 2, title, height=8.8)
    markets = [s for s in settings("privacy") if s.parties == parties]
    for plot, setting in zip(axes.flat, markets, strict=True):
        for variant in variants:
            cells = [cell(sessions, setting, e, variant, "privacy") for e in EPSILONS]
            own, placebo = (
                [100 * mean(part(c[f"{kind}_{measure}"])) for c in cells]
                for kind in ("gap", "placebo")
            )
            pair(plot, EPSILONS, own, placebo, LOOKS[variant], VARIANTS[variant].label)
        plot.plot([], [], color="#555555", linestyle="--", marker="o", mfc="white", label="placebo")
        plot.set_title(market_title(setting))
        budgets(plot)
    axes[0, 0].set_ylim(0, None)
    for plot in axes[:, 0]:
        plot.set_ylabel("mean gap, %")
    for plot in axes[1]:
        plot.set_xlabel("privacy budget ε (the paper ends at 4)")
    legend_below(figure, axes[0, 0], columns=len(variants) + 1)
    return figure


def pair(
    plot: Axes,
    x: Sequence[float],
    own: Sequence[float],
    placebo: Sequence[float],
    look: Look,
    label: str,
) -> None:
    """Own data solid, placebo dashed and hollow; what is between them is information."""
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


def information(sessions: Columns) -> Figure:
    """Own data against the placebo for every number of parties."""
    title = "Own data against a placebo: when do the prices learn anything?"
    figure, axes = panels(2, 3, title, height=8.2)
    for plot, setting in zip(axes.flat, settings("parties"), strict=False):
        cells = [cell(sessions, setting, e, "recommended", "parties") for e in EPSILONS]
        own, placebo = (
            [100 * mean(c[name]) for c in cells] for name in ("gap_average", "placebo_average")
        )
        start = 100 * mean(cells[0]["gap_start"])
        plot.axhline(start, color=BLACK, linestyle=":", label="start prices, no session")
        pair(plot, EPSILONS, own, placebo, LOOKS["recommended"], "own data")
        quiet = cell(sessions, setting, HIDDEN, "hidden", "parties")
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
    axes[0, 0].set_ylim(0.08, 15)
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


def quota(sessions: Columns) -> Figure:
    """The utility of a feasible split against ε."""
    figure, axes = panels(
        1, 1, "A split that is feasible for certain: what does the quota earn?", height=6.4
    )
    plot, x = axes[0, 0], [*EPSILONS, 256.0]
    cells = [
        where(
            sessions,
            experiment="quota",
            epsilon=e,
            variant="hidden" if e == HIDDEN else "recommended",
        )
        for e in (*EPSILONS, HIDDEN)
    ]
    for name, look, label in (
        ("quota", LOOKS["recommended"], "quota"),
        ("prorata", Look(GREEN, "v", ":"), "pro rata"),
        ("placebo_quota", Look(ORANGE, "o", "--"), "placebo's quota"),
    ):
        values = [100 * mean(c[name]) for c in cells]
        plot.plot(
            x, values, color=look.colour, marker=look.marker, linestyle=look.line, label=label
        )
        plot.annotate(
            label, (x[-1], values[-1]), (12, -14), textcoords="offset points", color=look.colour
        )
    plot.axhline(100, color=BLACK, linewidth=1.5)
    plot.annotate("optimum", (0.1, 100), (0, 6), textcoords="offset points")
    budgets(plot, hidden=True)
    plot.set_xlim(0.08, 2000)
    plot.set_ylim(None, 106)
    plot.set_xlabel("privacy budget ε (∞: no noise)")
    plot.set_ylabel("total utility, % of the optimum")
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
            cell(sessions, setting, e, "hidden" if e == HIDDEN else "recommended", "parties")[
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
