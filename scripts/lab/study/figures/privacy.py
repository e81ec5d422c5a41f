"""The paper's grid: market shares, its own measure, and what can be known."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from protocol.numeric import Floats
from scripts.lab.study.figures.style import (
    BLUE,
    LOOKS,
    SKY,
    budgets,
    legend_below,
    pair,
    panels,
)
from scripts.lab.study.grid import EPSILONS, VARIANTS
from scripts.lab.study.tables import Columns, best_fraction, cell, mean, settings, where


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
    return _grid_figure(sessions, parties, title, "best", best_fraction, variants)


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
    select: Callable[[Floats], Floats],
    variants: Sequence[str],
) -> Figure:
    """The four markets of the paper: mean gaps against ε."""
    figure, axes = panels(2, 2, title, height=8.8)
    markets = [s for s in settings("privacy") if s.parties == parties]
    for plot, setting in zip(axes.flat, markets, strict=True):
        for variant in variants:
            cells = [cell(sessions, setting, e, variant, "privacy") for e in EPSILONS]
            own, placebo = (
                [100 * mean(select(c[f"{kind}_{measure}"])) for c in cells]
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
