"""What a member gains by answering for another company, and what that costs the others.

Each liar meets several sets of partners. Best in hindsight: the best lie of the grid against the
partners that it meets. Best beforehand: the lie that is best on average against the other sets,
judged on this one; if none is, the truth. This module is the command: what runs, and the tables.
"""

import argparse
import os
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from msgspec import Struct
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.numeric import Floats
from scripts.lab.attack import page
from scripts.lab.attack.lies import LIAR, TRUTH, Lie, Played, added, alone, grid
from scripts.lab.common.agreements import WORTH, players, table
from scripts.lab.common.instances import RESOURCES, Instance, draw
from scripts.lab.study.workers import local

MEMBERS = (3, 5, 8, 10, 20, 50)
HELPED, LARGE = (5, 10), (20, 50)
NOISY, READ = (10, 20, 50), 10
LIARS, SETS, QUICK_LIARS, QUICK_SETS = 6, 4, 2, 2
QUICK_MEMBERS = 5
ROUNDS, NOISY_ROUNDS, EPSILON, DELTA = 150, 60, 16.0, 1e-3
NARROW = 2.0
"""The sum of all shares, where shares are narrow."""


class Setting(Struct, frozen=True, order=True):
    """The terms of the sessions in one row of the table."""

    members: int
    #: The sum of all shares; None if each member may claim everything.
    shares: float | None = None
    #: How far endowments are from equal parts (0) to what is used in the end (1).
    near: float = 0.0
    epsilon: float | None = None
    reveal: str = "each"
    #: The row with which those that help are compared.
    compared: bool = False

    @property
    def part(self) -> str:
        """The table that shows it: a key of `TABLES`."""
        if self.epsilon is not None:
            return "noise"
        return "helps" if self.near or self.shares or self.compared else "exact"

    def __str__(self) -> str:
        if self.epsilon is not None:
            return f"ε = {self.epsilon:g}, {self.reveal}"
        if self.near:
            return f"endowments {self.near:.0%} of the way to the use"
        return "equal endowments" if self.shares is None else f"shares {self.shares:g}/K"

    def agreement(
        self, instance: Instance, brought: Floats | None = None, reveal: str = ""
    ) -> Agreement:
        """`brought` has each member's endowment, as fractions of the capacities."""
        exact = self.epsilon is None
        names = [f"resource{j + 1}" for j in range(len(instance.capacity))]
        members = players(self.members)
        if brought is not None:
            for member, row in zip(members, brought.tolist(), strict=True):
                member["endowment"] = dict(zip(names, row, strict=True))
        return from_table(
            table(
                session="shading",
                mode="exact" if exact else "private",
                reveal=reveal or self.reveal,
                rounds=ROUNDS if exact else NOISY_ROUNDS,
                capacity=instance.capacity,
                share=instance.share,
                members=members,
                worth=WORTH,
                privacy=None if exact else {"epsilon": self.epsilon, "delta": DELTA},
                prices={"step": "center" if exact else "worth", "start": "worth"},
                rehearsal=True,
            )
        )


def settings() -> list[Setting]:
    """All rows of the table."""
    return [
        *(Setting(K) for K in MEMBERS),
        *(Setting(K, compared=True) for K in HELPED),
        *(Setting(K, shares=NARROW) for K in (*HELPED, *LARGE)),
        *(Setting(K, near=near) for K in HELPED for near in (0.5, 0.9)),
        *(Setting(K, NARROW, epsilon=EPSILON, reveal="totals") for K in NOISY),
        Setting(READ, NARROW, epsilon=EPSILON, reveal="each"),
    ]


class Unit(Struct, frozen=True):
    """One liar among one set of partners."""

    setting: Setting
    liar: int
    partners: int
    sets: int
    seed: int

    def instance(self) -> Instance:
        """The liar and the capacities are the same with all sets of partners."""
        K = self.setting.members
        all_sets = draw(
            self.seed + self.liar,
            parties=1 + self.sets * (K - 1),
            share_total=None,
            demands=False,
        )
        first = 1 + self.partners * (K - 1)
        data = (all_sets.data[LIAR], *all_sets.data[first : first + K - 1])
        share = 1.0 if self.setting.shares is None else min(1.0, self.setting.shares / K)
        return Instance(all_sets.capacity, np.full((K, len(all_sets.capacity)), share), data)


def endowments(setting: Setting, instance: Instance) -> Floats | None:
    """What each member brings, from an honest session; None if all bring equal parts."""
    if not setting.near:
        return None
    played = Played.of(setting.agreement(instance), instance.data, TRUTH, 0)
    used = played.outcome.quota / played.outcome.quota.sum(axis=0)
    mixed: Floats = setting.near * used + (1.0 - setting.near) / setting.members
    return mixed


def measure(unit: Unit) -> dict[str, Any]:
    """Try every lie against one set of partners."""
    setting, instance = unit.setting, unit.instance()
    brought = endowments(setting, instance)
    agreement = setting.agreement(instance, brought)

    def session(lie: Lie) -> Played:
        return Played.of(agreement, instance.data, lie, unit.partners)

    honest, found = session(TRUTH), [session(lie) for lie in grid(RESOURCES)]
    truth = honest.nets([LIAR])[0]
    extra = [tried.nets([LIAR])[0] - truth for tried in found]
    best = found[int(np.argmax(extra))] if max(extra) > 0.0 else honest
    return {
        "net": truth,
        "gain": truth - alone(agreement, instance.data[LIAR], LIAR),
        "extra": extra,
        "limit": added(instance, agreement) - truth,
        "certificate": best.bound(),
        "apart": _apart(honest, best, setting.agreement(instance, brought, "totals"))
        if setting.epsilon is None
        else 0.0,
        **_others(honest, best),
    }


def _apart(honest: Played, lied: Played, masked: Agreement) -> float:
    """How much more or less the lie brings where only totals can be read, in money."""
    each, totals = (
        after.nets([LIAR])[0] - before.nets([LIAR])[0]
        for before, after in ((honest, lied), (honest.under(masked), lied.under(masked)))
    )
    return abs(each - totals)


def _others(honest: Played, lied: Played) -> dict[str, Any]:
    """What the best lie in hindsight costs the others, and whether one is worse off than alone."""
    rows = range(1, len(honest.data))
    before, after = honest.nets(rows), lied.nets(rows)
    agreement = honest.outcome.agreement
    worst = min(
        net - alone(agreement, honest.data[k], k) for k, net in zip(rows, after, strict=True)
    )
    return {
        "others": sum(before),
        "others_lose": sum(before) - sum(after),
        "others_worst": worst,
        "rounds": lied.outcome.rounds,
    }


def chosen_beforehand(extras: Sequence[Sequence[float]], judged: int) -> int | None:
    """The lie that is best on average in all other sessions; None: the truth is."""
    known = [extra for place, extra in enumerate(extras) if place != judged]
    means = [fmean(column) for column in zip(*known, strict=True)]
    best = int(np.argmax(means))
    return best if means[best] > 0.0 else None


def summary(setting: Setting, by_liar: Sequence[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """One row of a table, from the results of each liar with each set of partners."""
    lies, beforehand, choices = grid(RESOURCES), list[float](), Counter[str]()
    for own in by_liar:
        extras = [result["extra"] for result in own]
        for place, extra in enumerate(extras):
            choice = chosen_beforehand(extras, place)
            beforehand.append(0.0 if choice is None else extra[choice])
            choices[str(TRUTH if choice is None else lies[choice])] += 1
    results = [result for own in by_liar for result in own]
    return {
        "part": setting.part,
        "members": setting.members,
        "setting": str(setting),
        "instances": len(results),
        "gain": median(result["gain"] / result["net"] for result in results),
        "hindsight": _spread([max(0.0, *result["extra"]) for result in results], results),
        "beforehand": _spread(beforehand, results),
        "beforehand_loses": sum(extra < 0.0 for extra in beforehand),
        "limit": _spread([max(0.0, result["limit"]) for result in results], results),
        "apart": _spread([result["apart"] for result in results], results),
        "lies": choices.most_common(3),
        "others_lose": _spread([r["others_lose"] for r in results], results, over="others"),
        "others_worse_than_alone": sum(
            r["others_worst"] < -r["certificate"] - 1e-6 * abs(r["others"]) for r in results
        ),
    }


def _spread(
    money: Sequence[float], results: Sequence[dict[str, Any]], over: str = "net"
) -> dict[str, float]:
    """Money, and the same as a fraction of what is earned honestly, less the payment."""
    parts = [amount / abs(r[over]) for amount, r in zip(money, results, strict=True)]
    return {
        "median": median(parts),
        "mean": fmean(parts),
        "most": max(parts),
        "least": min(parts),
        "money_median": median(money),
        "money_most": max(money),
    }


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--liars", type=int, metavar="N", help=f"lying companies in each row ({LIARS})")
    add("--sets", type=int, metavar="N",
        help=f"sets of partners that each liar meets, at least 2 ({SETS})")  # fmt: skip
    add("--members", type=int, nargs="+", metavar="K", help="numbers of members (all)")
    add("--only", choices=tuple(TABLES), nargs="+", default=tuple(TABLES),
        help="tables (all)")  # fmt: skip
    add("--processes", type=int, default=os.cpu_count() or 1, help="(%(default)s)")
    add("--page", type=Path, metavar="FILE", help="write each table into its section of this page")


def shading(chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Measure every row, and show what lies bring."""
    liars = chosen.liars or (QUICK_LIARS if chosen.quick else LIARS)
    sets = max(2, chosen.sets or (QUICK_SETS if chosen.quick else SETS))
    wanted = [
        setting
        for setting in settings()
        if (not chosen.members or setting.members in chosen.members)
        and (not chosen.quick or setting.members <= QUICK_MEMBERS)
        and setting.part in chosen.only
    ]
    work = [
        Unit(setting, liar, partners, sets, chosen.seed)
        for setting in wanted
        for liar in range(liars)
        for partners in range(sets)
    ]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        found = dict(progress.track(local(work, measure, chosen.processes), total=len(work)))
    rows = []
    for setting in wanted:
        units = [unit for unit in work if unit.setting == setting]
        grouped = [[found[unit] for unit in units if unit.liar == k] for k in range(liars)]
        rows.append(summary(setting, grouped))
    for part, heading in TABLES.items():
        shown = [row for row in rows if row["part"] == part]
        if shown:
            console.print(_shown(heading, shown))
            if chosen.page:
                page.put(chosen.page, heading, written(part, shown, liars=liars, sets=sets))
    console.print(_WHAT, highlight=False)
    return rows


TABLES = {
    "exact": "What a member gains by answering for another company",
    "helps": "Answering for another company: what helps",
    "noise": "Answering for another company: with noise",
}
"""The tables, and their sections of the page."""

_SETTING = (
    "In these sessions the first member answers for "
    f"another company: {RESOURCES} resources, companies drawn as in the paper without minimum "
    "demands. The liar changes its values, its size, its use of one resource, or how much it "
    f"trades: {len(grid(RESOURCES))} lies. Each is a best response of some company, so no check "
    "of the answers can find it. Each liar meets several sets of partners."
)
_TERMS = {
    "exact": f"No noise, at most {ROUNDS} rounds, equal endowments.",
    "helps": "No noise: narrow shares, or endowments that are near to what members use, compared "
    "with equal endowments and no limit on shares, for the same companies.",
    "noise": f"{NOISY_ROUNDS} rounds, shares {NARROW:g}/K, δ = {DELTA:g}, equal endowments.",
}
_WHAT = (
    "Figures are in % of what the liar earns honestly after its payment: median, highest. "
    "Hindsight: the best lie against these partners. Beforehand: the lie that was best on average "
    "against other sets of partners. Loses: sessions in which that lie costs its own liar money. "
    "Money: the highest gain in hindsight; the agreement states a worth of "
    f"{WORTH:g} for each capacity. No more than: without noise no consistent lie gains more "
    "(docs/incentives.md). Others lose: what the best lie in hindsight costs all others together, "
    "in % of what they earn; below 0 they gain. Worse off: sessions in which that lie leaves "
    "another company worse off than alone by more than the certificate. Totals: how much the gain "
    "in hindsight differs where only totals can be read, at most."
)
_COLUMNS = (
    *("members", "setting", "instances", "hindsight", "money", "beforehand", "loses"),
    *("no more than", "others lose", "worse off", "totals"),
)
_WORDS = 2


def _percents(spread: dict[str, float]) -> str:
    return f"{100.0 * spread['median']:.2f}, {100.0 * spread['most']:.1f}"


def _cells(row: dict[str, Any]) -> list[str]:
    exact = row["part"] != "noise"
    return [
        str(row["members"]), row["setting"], str(row["instances"]),
        _percents(row["hindsight"]), f"{row['hindsight']['money_most']:.1f}",
        _percents(row["beforehand"]), str(row["beforehand_loses"]),
        _percents(row["limit"]) if exact else "–",
        _percents(row["others_lose"]), str(row["others_worse_than_alone"]) if exact else "–",
        f"{100.0 * row['apart']['most']:.1g}" if exact else "–",
    ]  # fmt: skip


def written(part: str, rows: list[dict[str, Any]], *, liars: int, sets: int) -> list[str]:
    """The section of a table, with the command that makes it again."""
    count = " ".join(str(members) for members in sorted({row["members"] for row in rows}))
    command = f"--only {part} --members {count} --liars {liars} --sets {sets} --page FILE"
    texts = (_SETTING, _WHAT) if part == "exact" else ()
    texts = (f"`scripts/attack shading {command}`. {_TERMS[part]}", *texts)
    words = [line for text in texts for line in (*textwrap.wrap(text, 100), "")]
    return [*words, *page.grid(_COLUMNS, [_cells(row) for row in rows], _WORDS)]


def _shown(title: str, rows: list[dict[str, Any]]) -> Table:
    shown = Table(title=title)
    for index, name in enumerate(_COLUMNS):
        shown.add_column(name, justify="left" if index < _WORDS else "right")
    for row in rows:
        shown.add_row(*_cells(row))
    return shown
