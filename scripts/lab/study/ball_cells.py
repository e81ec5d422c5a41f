"""The sessions by which the step `ball` is judged: cells of a grid, and one session of a cell.

Sessions use the real round engine, calibration, clipping, quotas and payments, and the discrete
noise of the real gate: a test compares such sessions with real gates, bit for bit. The central
optimum judges them and never reaches a session. No constant was chosen on these seeds.
"""

import math

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.numeric import Floats, Ticks
from protocol.outcome.outcome import Outcome
from protocol.privacy.ball import ball
from scripts.lab.common.agreements import players, table
from scripts.lab.common.instances import Instance, central, draw
from scripts.lab.demo import companies
from scripts.lab.study.fates import Earnings, fates, oracle
from scripts.lab.study.grid import DELTA, VARIANTS, WORTH
from scripts.lab.study.replicate import Companies, session

ROUNDS = 60
FIRST_SEED = 2001
"""The study's own seeds are 1 to 100, those of the constants begin at 20,001."""

BOTH = ("totals", "ball")
"""The step `worth` of only totals, and the step `ball`."""


class Cell(Struct, frozen=True):
    """One kind of session."""

    parties: int
    epsilon: float
    resources: int = 5
    #: `paper`, `demands` (the paper's with minimum demands) or `valley` (the demonstration's).
    kind: str = "paper"
    #: `equal`, `half` (one member has half of everything) or `dirichlet`.
    endowments: str = "equal"
    spare: float | None = None
    seeds: int = 30

    def instance(self, seed: int) -> Instance:
        if self.kind == "valley":
            return companies.valley()
        instance = draw(
            seed,
            parties=self.parties,
            resources=self.resources,
            share_total=2.0,
            demands=self.kind == "demands",
        )
        if self.endowments == "equal":
            return instance
        part = self._parts(seed)
        return replace(instance, share=np.minimum(2.0 * part, 1.0)[:, None] + 0.0 * instance.share)

    def _parts(self, seed: int) -> Floats:
        """What each member brings. Shares are twice that, so endowments are these parts."""
        if self.endowments == "half":
            return np.array([0.5, *[0.5 / (self.parties - 1)] * (self.parties - 1)])
        rng, part = np.random.default_rng([seed, self.parties, 3]), np.ones(1)
        while part.max() > 0.5:  # a larger part would need a share above 1
            part = rng.dirichlet(np.ones(self.parties))
        return part

    def agreement(self, instance: Instance, variant: str) -> Agreement:
        valley, chosen = self.kind == "valley", VARIANTS[variant]
        terms = table(
            session="grid",
            mode=chosen.mode,
            reveal=chosen.reveal,
            rounds=ROUNDS,
            capacity=instance.capacity,
            share=instance.share,
            members=players(self.parties),
            worth=np.array(companies.WORTH) if valley else WORTH,
            privacy={"epsilon": self.epsilon, "delta": DELTA},
            prices=chosen.prices,
            rehearsal=True,
        )
        if variant == "ball" and self.spare is not None:
            for resource in terms["resource"]:
                resource["spare"] = self.spare
        return from_table(terms)


MUST = (
    *(Cell(10, epsilon, seeds=120) for epsilon in (8.0, 16.0)),
    *(Cell(20, epsilon, seeds=120) for epsilon in (4.0, 8.0)),
    Cell(50, 4.0, seeds=60),
    *(Cell(100, epsilon, seeds=30) for epsilon in (1.0, 4.0)),
    Cell(8, 8.0, 3, kind="valley", seeds=300),
    Cell(8, 4.0, 3, kind="valley", spare=0.05, seeds=300),
    Cell(10, 4.0, spare=0.05, seeds=120),
)
"""Cells with a figure that must be reached."""

CELLS = (
    *MUST,
    Cell(20, 8.0, kind="demands"),
    Cell(50, 4.0, kind="demands"),
    *(Cell(5, epsilon) for epsilon in (8.0, 16.0)),
    *(Cell(8, epsilon) for epsilon in (8.0, 16.0)),
    Cell(10, 4.0),
    Cell(20, 16.0),
    *(Cell(50, epsilon) for epsilon in (1.0, 8.0, 16.0)),
    *(Cell(100, epsilon) for epsilon in (8.0, 16.0)),
    *(Cell(200, epsilon) for epsilon in (1.0, 4.0, 8.0, 16.0)),
    *(Cell(5, epsilon, 1, seeds=60) for epsilon in (8.0, 16.0)),
    *(Cell(10, epsilon, 1, seeds=60) for epsilon in (4.0, 8.0, 16.0)),
    *(Cell(20, epsilon, 1) for epsilon in (1.0, 4.0, 8.0, 16.0)),
    *(Cell(100, epsilon, 1) for epsilon in (1.0, 4.0)),
    *(Cell(5, epsilon, 2, seeds=60) for epsilon in (8.0, 16.0)),
    *(Cell(10, epsilon, 2, seeds=60) for epsilon in (4.0, 8.0, 16.0)),
    *(Cell(20, epsilon, 2) for epsilon in (4.0, 8.0, 16.0)),
    *(Cell(10, epsilon, 10) for epsilon in (8.0, 16.0)),
    *(Cell(20, epsilon, 10) for epsilon in (4.0, 8.0, 16.0)),
    Cell(50, 4.0, 10),
    Cell(20, 8.0, 20),
    Cell(20, 16.0, 20),
    Cell(50, 4.0, 20),
    *(Cell(10, epsilon, endowments="half") for epsilon in (8.0, 16.0)),
    *(Cell(20, epsilon, endowments="half") for epsilon in (4.0, 8.0)),
    *(Cell(10, epsilon, endowments="dirichlet") for epsilon in (8.0, 16.0)),
    *(Cell(20, epsilon, endowments="dirichlet") for epsilon in (4.0, 8.0)),
    Cell(50, 4.0, endowments="half"),
    Cell(50, 4.0, endowments="dirichlet"),
    *(Cell(K, 1.0) for K in (5, 8, 10, 20)),
)


class Played(Struct, frozen=True):
    """One session: fractions of the optimum, and what the companies got."""

    quota: float
    alone: float
    #: What the companies would earn by the best plan for all that leaves the same margin.
    oracle: float
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
    played = session(agreement, Companies(instance), None)
    known, best = played.outcome, central(instance).utility
    earnings = Earnings(instance)
    got = fates(known, played.asked, earnings)
    most = (1.0 + (cell.spare or 0.0)) * agreement.ticks
    return Played(
        quota=float(np.nansum(got.earned)) / best,
        alone=float(np.nansum(got.alone)) / best,
        oracle=oracle(agreement, instance) / best if agreement.ball else math.nan,
        plans=float(np.isfinite(got.earned).mean()),
        over=bool((got.quota.sum(axis=0) > most).any()),
        worse=got.worse,
        worst=got.worst,
        floor=_above_floor(known, earnings, played.asked, got.payments) if agreement.ball else 0.0,
    )


def _above_floor(known: Outcome, earnings: Earnings, asked: Ticks, payments: Floats) -> float:
    """PRIVACY.md, Theorem 16: how far every company is above what its centre alone earns."""
    weights = np.arange(1, len(asked) + 1)
    mean = np.tensordot(weights, asked, 1) // weights.sum() + 1
    before = earnings.within(known.agreement, mean) - payments
    floor = earnings.within(known.agreement, ball(known.agreement).center)
    distance = (before - floor) / np.maximum(np.abs(floor), 1e-9)
    return float(np.nanmin(distance, initial=math.inf))
