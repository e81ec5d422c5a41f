"""The demonstration's story: the companies of a valley meet twice, and compare.

Once without noise, where only totals can be read, and once with a privacy budget. Both sessions
are real processes with real keys, as operators would start them; what each company earns is read
from its own result. The optimum needs all books on one table, and is shown for comparison only.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from scripts.lab.common.agreements import table
from scripts.lab.common.instances import Instance, central
from scripts.lab.common.local_session import LocalSession
from scripts.lab.common.workspace import equip
from scripts.lab.demo import companies

EPSILON, DELTA = 8.0, 1e-3
PACE = 0.02  # all on one machine, with small models

REPORTED = "dale-fruit"
"""The company whose report is shown: it pays for more than its part, and earns more by it."""


@dataclass(frozen=True)
class Meeting:
    """One session of the valley: how it is agreed, and what its column is called."""

    name: str
    short: str
    title: str
    mode: str
    rounds: int


MEETINGS = (
    Meeting("totals", "totals", "only totals can be read", "exact", 150),
    Meeting("noise", f"ε = {EPSILON:g}", f"with noise too, ε = {EPSILON:g}", "private", 150),
)


def play(
    folder: Path,
    options: argparse.Namespace,
    on_round: Callable[[Meeting, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Both sessions, one after the other, and what the companies have of them."""
    instance = companies.valley()
    figures: dict[str, Any] = {
        "companies": list(companies.NAMES),
        "currency": companies.CURRENCY,
        "optimum": central(instance).utility,
        "sessions": {},
    }
    for meeting in MEETINGS:
        figures["sessions"][meeting.name] = _met(folder, instance, meeting, options, on_round)
    return figures


def _met(
    folder: Path,
    instance: Instance,
    meeting: Meeting,
    options: argparse.Namespace,
    on_round: Callable[[Meeting, int], None],
) -> dict[str, Any]:
    home = folder / meeting.name
    equip(home, _agreed(instance, meeting), instance.data, options)
    with LocalSession(home, options, companies.NAMES) as cast:
        cast.start()
        cast.wait(options.limit, lambda done: on_round(meeting, done))
        seconds = time.monotonic() - cast.began
    results = [cast.result(name) for name in companies.NAMES]
    private = [result["private"] for result in results]
    return {
        "short": meeting.short,
        "title": meeting.title,
        "seconds": seconds,
        "rounds": results[0]["rounds"],
        "heads": sorted({result["head"] for result in results}),
        "certificate": results[0]["certificate"],
        "alone": [own["utility_alone"] for own in private],
        "earned": [own["utility_within_quota"] for own in private],
        "payments": [own["payment"] for own in private],
        "gains": [own["gain"] for own in private],
        "report": str(home / REPORTED / "out" / "report.html"),
    }


def _agreed(instance: Instance, meeting: Meeting) -> dict[str, Any]:
    """The agreement of a meeting, as a table without keys."""
    noisy = meeting.mode == "private"
    agreed = table(
        session=f"valley-{meeting.name}",
        mode=meeting.mode,
        reveal="totals",
        rounds=meeting.rounds,
        capacity=instance.capacity,
        share=instance.share,
        names=instance.names,
        members=[{"name": name} for name in companies.NAMES],
        worth=np.array(companies.WORTH),
        privacy={"epsilon": EPSILON, "delta": DELTA} if noisy else {},
        prices={"start": "worth"} if noisy else {},
        pace=PACE if noisy else None,
    )
    agreed["currency"] = companies.CURRENCY
    for resource, (_, unit) in zip(agreed["resource"], companies.RESOURCES.values(), strict=True):
        resource["unit"] = unit
    return agreed


def show(console: Console, figures: dict[str, Any]) -> None:
    """One table for all of it, what it means, and a sentence."""
    sessions = list(figures["sessions"].values())
    quiet = sessions[0]
    title = f"a week in the valley, in {figures['currency']}"
    shown = Table(title=title, show_footer=True, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown.add_column("", footer="all together", no_wrap=True)
    shown.add_column("\nalone", justify="right", footer=_money(_sum(quiet["alone"])))
    for session in sessions:
        earned, paid, gains = (_money(_sum(session[k])) for k in ("earned", "payments", "gains"))
        shown.add_column(f"{session['short']}:\nearns", justify="right", footer=earned)
        shown.add_column("\npays", justify="right", footer=paid)
        shown.add_column("better\noff by", justify="right", footer=gains)
    for k, name in enumerate(figures["companies"]):
        cells = [_money(quiet["alone"][k])]
        for session in sessions:
            cells += [_money(session[key][k]) for key in ("earned", "payments", "gains")]
        shown.add_row(name, *cells)
    console.print(shown)
    best, alone = figures["optimum"], _sum(quiet["alone"])
    console.print(
        f"With all books on one table they could earn {_money(best)} together. Each alone, with "
        f"the capacities split by shares, they earn {_money(alone)}, {alone / best:.0%} of that."
    )
    for session in sessions:
        console.print(
            f"- {session['title']}: {_sum(session['earned']) / best:.2%} of the best, "
            f"{_proved(session)}; {session['rounds']} rounds, {session['seconds']:.1f} s from "
            "launch to the last report"
        )
    console.print(verdict(figures), style="bold")


def _proved(session: dict[str, Any]) -> str:
    certificate = session["certificate"]
    if certificate is None:
        return "of which nothing is proved, because of the noise"
    return f"and everybody can prove that no plan earns over {_money(certificate['money'])} more"


def verdict(figures: dict[str, Any]) -> str:
    """What came of it, in a sentence."""
    quiet, noisy = figures["sessions"].values()
    count = len(figures["companies"])
    better, still = (sum(g is not None and g > 0.5 for g in s["gains"]) for s in (quiet, noisy))
    who = "every company is" if better == count else f"{better} of {count} companies are"
    first = f"Verdict: with only totals to be read, {who} better off than alone"
    kept = _sum(noisy["gains"]) / (_sum(quiet["gains"]) or math.inf)
    if still:
        return (
            f"{first}; a privacy budget of ε = {EPSILON:g} on top keeps {kept:.0%} of that, for "
            f"{still} of them."
        )
    return (
        f"{first}; a privacy budget of ε = {EPSILON:g} on top drowns so few companies in noise: "
        "they are left with the split by shares, and nobody loses."
    )


def _sum(values: list[float | None]) -> float:
    return math.fsum(value for value in values if value is not None)


def _money(value: float | None) -> str:
    return "no plan" if value is None else f"{value + 0.0:,.0f}".replace("-0", "0")
