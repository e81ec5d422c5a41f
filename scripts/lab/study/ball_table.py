"""What noise leaves with few companies: the step `ball` beside the step `worth`, cell by cell.

`scripts/environment python -m scripts.lab.study.ball_table --seeds 30 --page FILE` plays every
cell and writes the table. Sessions use the real round engine, calibration, clipping, quotas and
payments, with seeded Gaussian noise rounded to ticks. The central optimum judges the rows and
never reaches a session. No constant was chosen on these seeds.
"""

import argparse
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from party.settlement.settle import plan_within
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts
from protocol.numeric import Floats
from protocol.outcome.ball_quota import levied
from protocol.outcome.member_allocation import member_allocation
from protocol.outcome.outcome import Outcome
from protocol.privacy.ball import ball
from scripts.lab.attack import page
from scripts.lab.common.instances import Instance, central, draw
from scripts.lab.study.grid import VARIANTS, agree
from scripts.lab.study.replicate import Companies, session

ROUNDS = 60
FIRST_SEED = 1001
"""The study's own seeds are 1 to 100."""


@dataclass(frozen=True)
class Cell:
    """One kind of session."""

    parties: int
    epsilon: float
    resources: int = 5
    demands: bool = False
    spare: float | None = None

    def instance(self, seed: int) -> Instance:
        return draw(
            seed,
            parties=self.parties,
            resources=self.resources,
            share_total=2.0,
            demands=self.demands,
        )

    def agreement(self, instance: Instance, variant: str) -> Agreement:
        terms = agree(VARIANTS[variant], instance, rounds=ROUNDS, epsilon=self.epsilon, buffer=None)
        if variant != "ball" or self.spare is None:
            return terms
        resources = tuple(replace(r, spare=self.spare) for r in terms.resources)
        return replace(terms, resources=resources)


CELLS = (
    *(Cell(5, epsilon) for epsilon in (8.0, 16.0)),
    *(Cell(10, epsilon) for epsilon in (4.0, 8.0, 16.0)),
    *(Cell(20, epsilon) for epsilon in (4.0, 8.0, 16.0)),
    *(Cell(50, epsilon) for epsilon in (1.0, 4.0)),
    *(Cell(100, epsilon) for epsilon in (1.0, 4.0)),
    *(Cell(20, 8.0, resources) for resources in (1, 2, 10)),
    Cell(10, 4.0, spare=0.05),
    Cell(20, 8.0, demands=True),
    Cell(50, 4.0, demands=True),
)


@dataclass(frozen=True)
class Played:
    """One session: fractions of the optimum, and what the companies got."""

    quota: float
    alone: float
    #: Fraction of companies with a plan within their quotas.
    plans: float
    over: bool
    #: Fraction of companies worse off than alone, after payment and levy.
    worse: float
    #: The worst of them, as a fraction of what it earns alone.
    worst: float
    #: Before cut and levy: the least distance to the proved floor, as a fraction of it.
    floor: float


def play(cell: Cell, seed: int, variant: str) -> Played:
    """One session of a cell, judged with all data."""
    instance = cell.instance(seed)
    agreement = cell.agreement(instance, variant)
    draws = np.random.default_rng([seed, int(10 * cell.epsilon)]).standard_normal(
        (ROUNDS, cell.parties, cell.resources)
    )
    played = session(agreement, Companies(instance), draws)
    known, rows = played.outcome, range(cell.parties)
    parts = [
        member_allocation(known, k, demands=played.asked[:, k], unmasked=known.released[:, k])
        for k in rows
    ]
    quota, payments = np.array([p.quota for p in parts]), np.array([p.payment for p in parts])
    earned, alone = (_earned(agreement, instance, split) for split in (quota, known.endowment))
    paid = levied(agreement, known.prices, payments) if agreement.ball else payments
    gain = earned - paid - alone
    most = (1.0 + (cell.spare or 0.0)) * agreement.ticks
    best = central(instance).utility
    return Played(
        quota=float(np.nansum(earned)) / best,
        alone=float(np.nansum(alone)) / best,
        plans=float(np.isfinite(earned).mean()),
        over=bool((quota.sum(axis=0) > most).any()),
        worse=float((gain < -1e-4 * np.abs(alone)).mean()),
        worst=float(np.nanmin(gain / np.abs(alone), initial=0.0)),
        floor=_above_floor(known, instance, played.asked, payments) if agreement.ball else 0.0,
    )


def _earned(agreement: Agreement, instance: Instance, split: Any) -> Floats:
    """What each company earns within its part; NaN without a plan."""
    plans = [
        plan_within(data, amounts(agreement, part, k))
        for k, (data, part) in enumerate(zip(instance.data, split, strict=True))
    ]
    return np.array([math.nan if plan is None else plan.utility for plan in plans])


def _above_floor(known: Outcome, instance: Instance, asked: Any, payments: Floats) -> float:
    """PRIVACY.md, Theorem 16: how far every company is above what its centre alone earns."""
    weights = np.arange(1, len(asked) + 1)
    mean = np.tensordot(weights, asked, 1) // weights.sum() + 1
    before = _earned(known.agreement, instance, mean) - payments
    floor = _earned(known.agreement, instance, ball(known.agreement).center)
    distance = (before - floor) / np.maximum(np.abs(floor), 1e-9)
    return float(np.nanmin(distance, initial=math.inf))


def row(cell: Cell, seeds: int) -> list[str]:
    """The cells of one line of the table."""
    found = {
        variant: [play(cell, FIRST_SEED + s, variant) for s in range(seeds)]
        for variant in ("totals", "ball")
    }
    now, then = found["ball"], found["totals"]
    count = sum(p.over for p in now)
    most = float(beta.ppf(0.95, count + 1, seeds - count)) if count < seeds else 1.0
    kind = ("minimum demands" if cell.demands else "") + (
        "" if cell.spare is None else f"spare {100 * cell.spare:g} %"
    )
    return [
        str(cell.parties), str(cell.resources), f"{cell.epsilon:g}", kind or "–", str(seeds),
        _mean([100 * p.alone for p in now]), _mean([100 * p.quota for p in then]),
        _mean([100 * p.quota for p in now]),
        f"{_part(then, 'plans')} → {_part(now, 'plans')}",
        f"{count} (≤ {100 * most:.0f} %)",
        f"{_part(then, 'worse')} → {_part(now, 'worse')}",
        f"{100 * min(p.worst for p in now):.0f} %",
        f"{min(p.floor for p in now):.3g}",
    ]  # fmt: skip


def _mean(values: Sequence[float]) -> str:
    deviation = float(np.std(values)) / math.sqrt(len(values))
    return f"{float(np.mean(values)):.1f} ± {deviation:.1f}"


def _part(played: Sequence[Played], name: str) -> str:
    return f"{100 * float(np.mean([getattr(p, name) for p in played])):.0f} %"


COLUMNS = (
    *("K", "m", "ε", "kind", "seeds", "endowments alone", "step worth", "step ball"),
    *("with a plan", "over a capacity", "worse off", "worst", "least above floor"),
)
_HEADING = "What noise leaves with few companies"
_WORDS = (
    f"Sessions of {ROUNDS} rounds, δ = 0.001, one colluder, 5 % overrun risk, shares 2/K, worth "
    "100. What the companies earn within their quotas, in percent of the optimum, with standard "
    "errors. *With a plan* and *worse off* (than alone by more than a ten-thousandth, after "
    "payment and levy): step worth → step ball. *Over a capacity*: sessions of the step ball, and "
    "the upper 95 % confidence bound. *Least above floor*: the smallest distance to the floor of "
    "PRIVACY.md, Theorem 16, as a fraction of it."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--cells", type=int, nargs="*", help="numbers of cells, from 0 (all)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table to this page")
    chosen = parser.parse_args()
    rows = []
    for number in chosen.cells or range(len(CELLS)):
        rows.append(row(CELLS[number], chosen.seeds))
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
    if chosen.page:
        lines = [f"# {_HEADING}", "", *textwrap.wrap(_WORDS, 100), ""]
        chosen.page.write_text("\n".join([*lines, *page.grid(COLUMNS, rows, 4)]) + "\n")


if __name__ == "__main__":
    main()
