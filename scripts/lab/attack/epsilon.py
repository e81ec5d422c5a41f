"""The empirical audit: how much of the agreed ε an adversary can prove from releases alone.

The gate itself runs thousands of sessions, too few for the rare events that ε is about; so its
bounds assume a Gaussian. Its twin runs hundreds of thousands, and its bounds assume nothing. This
module is the command: what runs, on which cores, and the table.
"""

import argparse
import os
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from protocol.numeric import Floats
from protocol.privacy.calibration import Calibration
from scripts.lab.attack import page
from scripts.lab.attack.audit_sessions import DELTA, Audit, Case, cases, twin_ratios
from scripts.lab.attack.bounds import Seen, seen, thresholds
from scripts.lab.study.workers import local

TWINS, QUICK_TWINS = 400_000, 100_000
SESSIONS, QUICK_SESSIONS = 30_000, 100

_FEWER = 8
"""With the paper's accountant, coarse bounds suffice to show how far below ε it stays."""

_TWINS_AT_ONCE, _SESSIONS_AT_ONCE = 50_000, 250


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sessions", type=int, metavar="N",
        help=f"sessions of the gate in each row ({SESSIONS:,})")  # fmt: skip
    add("--twins", type=int, metavar="N", help=f"sessions of the twin in each row ({TWINS:,})")
    add("--noise", nargs="+", metavar="KIND", choices=sorted({case.noise for case in cases()}),
        help="only these: component, norm, ball; in a section of their own")  # fmt: skip
    add("--processes", type=int, default=os.cpu_count() or 1, help="(%(default)s)")
    add("--page", type=Path, metavar="FILE", help="write the table into its section of this page")


def epsilon(chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Audit every noise shape, accountant and mode, and show how much of ε was proved.

    All rows grow together: Ctrl-C ends the audit early and shows what was proved by then.
    """
    sessions = chosen.sessions or (QUICK_SESSIONS if chosen.quick else SESSIONS)
    twins = chosen.twins or (QUICK_TWINS if chosen.quick else TWINS)
    audited = [case for case in cases() if not chosen.noise or case.noise in chosen.noise]
    work = [
        unit
        for case in audited
        for unit in units(case, sessions=sessions, twins=twins, seed=chosen.seed)
    ]
    work.sort(key=lambda unit: unit.after)
    found: dict[tuple[Case, bool], Seen] = defaultdict(Seen)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("sessions", total=len(work))
        with suppress(KeyboardInterrupt):
            for unit, part in local(work, play, chosen.processes):
                found[unit.case, unit.twin] += part
                progress.advance(task)
    rows = [figures(case, gate=found[case, False], twin=found[case, True]) for case in audited]
    console.print(_shown(rows))
    console.print(_WHAT, highlight=False)
    if chosen.page:
        kinds = " ".join(chosen.noise or ())
        heading = f"{_HEADING}: {kinds}" if kinds else _HEADING
        page.put(chosen.page, heading, _written(rows, f" --noise {kinds}" if kinds else ""))
    return rows


class Unit(Struct, frozen=True):
    """A unit of work: sessions of the gate or of its twin, half with each data set."""

    case: Case
    twin: bool
    sessions: int
    thresholds: tuple[float, ...]
    after: float
    seed: int


def units(case: Case, *, sessions: int, twins: int, seed: int) -> Iterator[Unit]:
    """The work for one row. The thresholds are fixed in advance."""
    mu = Calibration(case.agreement()).mu
    fewer = _FEWER if case.accountant == "paper" else 1
    for twin, count, size, tried in (
        (False, sessions // fewer, _SESSIONS_AT_ONCE, (0.0,)),
        (True, twins // fewer, _TWINS_AT_ONCE, thresholds(mu, DELTA, twins // fewer // 2)),
    ):
        for begin in range(0, count, size):
            part = min(size, count - begin)
            yield Unit(case, twin, part, tried, after=begin / count, seed=seed + begin)


def play(unit: Unit) -> Seen:
    """Run sessions and classify each."""
    count, agreement = unit.sessions // 2, unit.case.agreement()
    ratios: list[Floats]
    if unit.twin:
        rng = np.random.default_rng([unit.seed, *repr(unit.case).encode()])
        ratios = [twin_ratios(agreement, rng, count, everything=asked) for asked in (False, True)]
    else:
        audit = Audit(agreement)
        ratios = [
            np.array([audit.ratio(everything=asked) for _ in range(count)])
            for asked in (False, True)
        ]
    return seen(ratios[0], ratios[1], unit.thresholds, Calibration(agreement).mu)


def figures(case: Case, *, gate: Seen, twin: Seen) -> dict[str, Any]:
    """How much of ε was proved, for the gate and for its twin."""
    mu = Calibration(case.agreement()).mu
    proved = {
        "gate_by_noise": gate.noise_epsilon(mu, DELTA, at_once=len(cases())),
        "gate_by_guesses": gate.gaussian_epsilon(DELTA),
        "twin": twin.epsilon(DELTA),
    }
    return {
        **asdict(case),
        "delta": DELTA,
        "gate_sessions": gate.nothing + gate.everything,
        "twin_sessions": twin.nothing + twin.everything,
        **{name: proved_here / case.epsilon for name, proved_here in proved.items()},
    }


_WHAT = (
    "The figures are ε proved / ε: the gate cannot be (ε, δ)-LDP for any ε below the one proved. "
    "A figure above 1 would break the guarantee. A figure far below 1 means more noise than "
    "necessary, or too few sessions. Gate, by noise: assumes Gaussian noise of any size (95 % "
    "confidence in all rows at once). Gate, by guesses: assumes the trade-off curve of a Gaussian, "
    "which takes many more sessions (95 % in each row). Twin, by guesses: assumes nothing about "
    "the noise (95 % in each row)."
)
_HEADING = "What releases reveal of ε"
_SETTING = (
    "runs short sessions with three members and two resources: one round or, in `clipped` mode and "
    "with the step `ball`, two. "
    f"δ is {DELTA:g}. One member always asks for nothing, or always for everything that it may. "
    "The adversary knows both models and what all other members do, and guesses which model was "
    "used. It uses the likelihood ratio of all releases of the session, the most powerful test. "
    "Where only totals are read it is itself a member (`colluders` is 1) and subtracts its own "
    "release. In `clipped` mode the noise follows the caps, and the ratio of each round uses the "
    "noise of that round."
)
_COLUMNS = (
    *("accountant", "ε", "mode", "reveal", "noise"),
    *("gate: sessions", "by noise", "by guesses", "twin: sessions", "by guesses"),
)
_WORDS = 5


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["accountant"], f"{row['epsilon']:g}", row["mode"], row["reveal"], row["noise"],
        f"{row['gate_sessions']:,}", f"{row['gate_by_noise']:.3f}",
        f"{row['gate_by_guesses']:.3f}", f"{row['twin_sessions']:,}", f"{row['twin']:.3f}",
    ]  # fmt: skip


def _written(rows: list[dict[str, Any]], only: str) -> list[str]:
    """The section of the page; `only` is what the command says about the kinds of noise."""
    setting = f"`scripts/attack epsilon{only} --page FILE` {_SETTING}"
    words = [[*textwrap.wrap(text, 100), ""] for text in (setting, _WHAT)]
    return [*words[0], *words[1], *page.grid(_COLUMNS, [_cells(row) for row in rows], _WORDS)]


def _shown(rows: list[dict[str, Any]]) -> Table:
    shown = Table(title=f"ε proved from releases; δ = {DELTA:g}")
    for index, name in enumerate(_COLUMNS):
        shown.add_column(name, justify="left" if index < _WORDS else "right")
    for row in rows:
        shown.add_row(*_cells(row))
    return shown
