"""The demonstration: eight companies share capacity twice, without noise and with it.

Both sessions are real processes with real keys, as operators would start them. What each company
earns is read from its own result. The optimum needs all models in one place; it is shown for
comparison only.
"""

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from rich import box
from rich.console import Console
from rich.table import Table

from protocol.outcome.ball_quota import levied
from scripts.lab.common.agreements import table
from scripts.lab.common.instances import Instance, central
from scripts.lab.common.local_session import LocalSession
from scripts.lab.common.workspace import equip
from scripts.lab.demo import companies
from scripts.lab.demo.settled import settle

EPSILON, DELTA = 8.0, 1e-3
PACE = 0.1  # all parties run on one machine, with small models

REPORTED = "dale-fruit"
"""The company whose report is kept: it buys capacity, and earns more with it."""


class Setup(Struct, frozen=True):
    """How one session is agreed, and how its columns and lines are labelled."""

    name: str
    label: str
    title: str
    mode: str
    rounds: int


SETUPS = (
    Setup("totals", "exact", "exact, only totals can be read", "exact", 150),
    Setup("noise", f"ε = {EPSILON:g}", f"with noise, ε = {EPSILON:g}", "private", 60),
)


def play(
    folder: Path,
    options: argparse.Namespace,
    on_round: Callable[[Setup, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Run both sessions, one after the other, and collect what each company gets."""
    instance = companies.valley()
    figures: dict[str, Any] = {
        "companies": list(companies.NAMES),
        "currency": companies.CURRENCY,
        "optimum": central(instance).utility,
        "sessions": {},
    }
    for setup in SETUPS:
        figures["sessions"][setup.name] = _run(folder, instance, setup, options, on_round)
    return figures


def _run(
    folder: Path,
    instance: Instance,
    setup: Setup,
    options: argparse.Namespace,
    on_round: Callable[[Setup, int], None],
) -> dict[str, Any]:
    workspace = folder / setup.name
    agreement = equip(workspace, _agreement_table(instance, setup), instance.data, options)
    with LocalSession(workspace, options, companies.NAMES) as session:
        session.start()
        session.wait(options.limit, lambda done: on_round(setup, done))
        seconds = time.monotonic() - session.began
    results = [session.result(name) for name in companies.NAMES]
    private = [result["private"] for result in results]
    paid = np.array([own["payment"] for own in private])
    levy = np.zeros_like(paid)
    if agreement.ball:  # the office that moves the money adds the levy
        levy = levied(agreement, np.array(results[0]["prices"]), paid) - paid
    settled = settle(workspace, companies.NAMES) if setup.mode == "exact" else None
    return {
        "settlement": settled,
        "short": setup.label,
        "title": setup.title,
        "seconds": seconds,
        "rounds": results[0]["rounds"],
        "heads": sorted({result["head"] for result in results}),
        "certificate": results[0]["certificate"],
        "alone": [own["utility_alone"] for own in private],
        "earned": [own["utility_within_quota"] for own in private],
        "payments": (paid + levy).tolist(),
        "gains": [
            None if own["gain"] is None else own["gain"] - float(more)
            for own, more in zip(private, levy, strict=True)
        ],
        "report": str(workspace / REPORTED / "out" / "report.html"),
    }


def _agreement_table(instance: Instance, setup: Setup) -> dict[str, Any]:
    """The agreement of a session, as a table without keys."""
    noisy = setup.mode == "private"
    terms = table(
        session=f"valley-{setup.name}",
        mode=setup.mode,
        reveal="totals",
        rounds=setup.rounds,
        capacity=instance.capacity,
        share=instance.share,
        names=instance.names,
        members=[{"name": name} for name in companies.NAMES],
        worth=np.array(companies.WORTH),
        privacy={"epsilon": EPSILON, "delta": DELTA} if noisy else {},
        prices={"start": "worth"} if noisy else {},
        pace=PACE if noisy else None,
    )
    terms["currency"] = companies.CURRENCY
    for resource, (_, unit) in zip(terms["resource"], companies.RESOURCES.values(), strict=True):
        resource["unit"] = unit
    return terms


def show(console: Console, figures: dict[str, Any]) -> None:
    """Print the table, what each session reached, and a verdict."""
    sessions = list(figures["sessions"].values())
    exact = sessions[0]
    title = f"One week, in {figures['currency']}"
    shown = Table(title=title, show_footer=True, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown.add_column("", footer="together", no_wrap=True)
    shown.add_column("alone\nearns", justify="right", footer=_money(_sum(exact["alone"])))
    for session in sessions:
        earned, paid, gains = (_money(_sum(session[k])) for k in ("earned", "payments", "gains"))
        shown.add_column(f"{session['short']}:\nearns", justify="right", footer=earned)
        shown.add_column("\npays", justify="right", footer=paid)
        shown.add_column("\ngains", justify="right", footer=gains)
    for k, name in enumerate(figures["companies"]):
        cells = [_money(exact["alone"][k])]
        for session in sessions:
            cells += [_money(session[key][k]) for key in ("earned", "payments", "gains")]
        shown.add_row(name, *cells)
    console.print(shown)
    best, alone = figures["optimum"], _sum(exact["alone"])
    console.print(
        f"The best possible plan for all earns {_money(best)}. Alone, each with an equal part of "
        f"every capacity, they earn {_money(alone)}, {alone / best:.0%} of that."
    )
    for session in sessions:
        console.print(
            f"- {session['title']}: {_sum(session['earned']) / best:.2%} of the best, "
            f"{_proved(session)}; {session['rounds']} rounds, {session['seconds']:.1f} s from "
            "launch to the last report"
        )
    console.print(verdict(figures), style="bold")
    transfers = exact["settlement"]["transfers"]
    console.print(
        f"Settled from {len(figures['companies'])} claims that anyone can check: {len(transfers)} "
        "transfers; all payments add up to zero, to the cent."
    )


def _proved(session: dict[str, Any]) -> str:
    certificate = session["certificate"]
    if certificate is None:
        return "not proved, because of the noise"
    return f"certified: no other plan earns over {_money(certificate['money'])} more"


def verdict(figures: dict[str, Any]) -> str:
    """The result in two sentences."""
    exact, noisy = figures["sessions"].values()
    count = len(figures["companies"])
    better, still = (sum(g is not None and g > 0.5 for g in s["gains"]) for s in (exact, noisy))
    subject = "every company gains" if better == count else f"{better} of {count} companies gain"
    first = f"Without noise {subject}, and others read only totals."
    kept = _sum(noisy["gains"]) / (_sum(exact["gains"]) or math.inf)
    if kept > 0.0:
        return (
            f"{first} With noise for ε = {EPSILON:g}, {still} of {count} companies gain, and all "
            f"together keep {kept:.0%} of that gain."
        )
    if still:
        return (
            f"{first} With noise for ε = {EPSILON:g}, {still} of {count} companies gain, and all "
            "together earn less than alone."
        )
    return (
        f"{first} With noise for ε = {EPSILON:g}, {count} companies are too few: the noise "
        "swamps the answers, each keeps its equal part, and none gains or loses."
    )


def _sum(values: list[float | None]) -> float:
    return math.fsum(value for value in values if value is not None)


def _money(value: float | None) -> str:
    return "no plan" if value is None else f"{value + 0.0:,.0f}".replace("-0", "0")
