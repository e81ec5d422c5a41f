"""Kinds of companies by which the constants of the step `ball` are chosen.

They differ in how much sharing brings: from companies that are nearly alike to some that have no
plan alone. All are drawn from a seed. Amounts are fractions of a capacity, prices money for a
whole capacity. Only for choosing constants: no session and no plan page uses these companies.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from party.model.ball_response import Trader
from party.model.company_model import CompanyModel, dense
from party.settlement.settle import plan_within
from protocol.agreement import schema
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats
from protocol.planning.synthetic_market import Companies, InBalls
from protocol.privacy.ball import Ball
from scripts.lab.common.agreements import players, table
from scripts.lab.common.instances import Instance, central, curved, draw
from scripts.lab.demo.companies import WORTH as VALLEY_WORTH
from scripts.lab.demo.companies import valley
from scripts.lab.study.grid import WORTH

Answer = Callable[[Floats], Floats]
"""From prices to the demands of all companies, before the clip."""


class Market(Protocol):
    """Companies that answer prices within balls."""

    #: Members by resources.
    share: Floats
    #: A public estimate of what each capacity is worth.
    worth: Floats
    #: What all companies together earn at most.
    best: float

    def answering(self, center: Floats, axes: Floats, margin: float) -> Answer:
        """The companies with these balls, members by resources."""
        ...

    def earned(self, quota: Floats) -> float:
        """What all companies together earn within these quotas; 0 for one without a plan."""
        ...


class Programs:
    """Companies with models, linear or concave."""

    def __init__(self, instance: Instance, worth: Floats) -> None:
        self._instance = instance
        self.share, self.worth = instance.share, worth
        self.best = central(instance).utility

    def answering(self, center: Floats, axes: Floats, margin: float) -> Answer:
        c = self._instance.capacity
        traders = [
            Trader(
                data,
                floor=np.zeros_like(c),
                ceiling=share * c,
                center=own * c,
                axes=axis * c,
                margin=np.full_like(c, margin),
            )
            for data, share, own, axis in zip(
                self._instance.data, self.share, center, axes, strict=True
            )
        ]

        def answer(y: Floats) -> Floats:
            found = [trader.answer(y / c) for trader in traders]
            rows = zip(found, center, strict=True)
            return np.array([own if a is None else a.demand / c for a, own in rows])

        return answer

    def earned(self, quota: Floats) -> float:
        pairs = zip(self._instance.data, quota * self._instance.capacity, strict=True)
        plans = [plan_within(*pair) for pair in pairs]
        return math.fsum(plan.utility for plan in plans if plan is not None)


class Invented:
    """The invented companies of `protocol plan`."""

    def __init__(self, seed: int, parties: int, resources: int) -> None:
        terms = table(
            session=f"constants-{seed}",
            mode="private",
            reveal="totals",
            rounds=1,
            capacity=np.ones(resources),
            share=_shares(parties, resources),
            members=players(parties),
            worth=WORTH,
            privacy={"epsilon": schema.DRAFT_EPSILON, "delta": schema.DRAFT_DELTA},
            prices={},
            rehearsal=True,
        )
        agreement = from_table(terms)
        worth = quantities(agreement).worth
        self.worth = np.ones(resources) if worth is None else worth
        self._companies = Companies.drawn(agreement, 0)
        self.share, self.best = _shares(parties, resources), self._companies.best

    def answering(self, center: Floats, axes: Floats, margin: float) -> Answer:
        none = np.full(len(self.worth), margin)
        in_balls = Ball(
            axes=np.rint(schema.TICKS * axes).astype(np.int64),
            center=np.rint(schema.TICKS * center).astype(np.int64),
            reach=none,
            noise=none,
            deviation=none,
            margin=none,
        )
        return InBalls(self._companies, in_balls).demand

    def earned(self, quota: Floats) -> float:
        return float(self._companies.earned(quota).sum())


def _shares(parties: int, resources: int) -> Floats:
    return np.full((parties, resources), min(1.0, 2.0 / parties))


def _paper(seed: int, parties: int, resources: int) -> Market:
    instance = draw(seed, parties=parties, resources=resources, share_total=2.0, demands=False)
    return Programs(instance, np.full(resources, WORTH))


def _needy(seed: int, parties: int, resources: int) -> Market:
    instance = draw(seed, parties=parties, resources=resources, share_total=2.0)
    return Programs(instance, np.full(resources, WORTH))


def _curved(seed: int, parties: int, resources: int) -> Market:
    instance = curved(seed, parties=parties, resources=resources)
    shares = _shares(parties, resources)
    return Programs(replace(instance, share=shares), np.full(resources, WORTH))


def _sparse(seed: int, parties: int, resources: int) -> Market:
    """The paper's, but each product uses only some of the resources."""

    def thinned(rng: np.random.Generator, A: Floats) -> Floats:
        kept: Any = rng.random(A.shape) < 0.4
        kept[rng.integers(0, len(A), A.shape[1]), np.arange(A.shape[1])] = True
        thin: Floats = A * kept
        return thin

    return _like_paper(seed, parties, resources, (0.0, 5.0), (50.0, 150.0), thinned)


def _alike(seed: int, parties: int, resources: int) -> Market:
    """The paper's, with products that differ little: sharing brings hardly anything."""
    return _like_paper(seed, parties, resources, (3.0, 5.0), (90.0, 120.0), lambda _, A: A)


def _like_paper(
    seed: int,
    parties: int,
    resources: int,
    uses: tuple[float, float],
    earns: tuple[float, float],
    changed: Callable[[np.random.Generator, Floats], Floats],
) -> Market:
    rng = np.random.default_rng([seed, parties, resources])
    capacity = rng.uniform(10.0, 20.0, resources)

    def company() -> CompanyModel:
        n, r = int(rng.integers(10, 21)), int(rng.integers(5, 11))
        return dense(
            A=changed(rng, rng.uniform(*uses, (resources, n))),
            B=rng.uniform(0.0, 1.0, (r, n)),
            u=rng.uniform(*earns, n),
            row_lower=np.full(r, -math.inf),
            row_upper=rng.uniform(0.0, 10.0, r),
            lower=np.zeros(n),
            upper=np.full(n, math.inf),
        )

    data = tuple(company() for _ in range(parties))
    instance = Instance(capacity, _shares(parties, resources), data)
    return Programs(instance, np.full(resources, WORTH))


def _valley(seed: int, parties: int, resources: int) -> Market:
    """The demonstration's companies with other profits and plants, as often as is needed."""
    rng, base = np.random.default_rng([seed, parties, resources]), valley()
    data = []
    for k in range(parties):
        own = base.data[k % len(base.data)]
        profits = own.utility * rng.uniform(0.8, 1.2, own.columns)
        data.append(replace(own, utility=profits, row_upper=own.row_upper * rng.uniform(0.7, 1.3)))
    size = parties / len(base.data)
    share = np.minimum(1.0, base.share[:1] / size).repeat(parties, axis=0)
    instance = Instance(base.capacity * size, share, tuple(data))
    return Programs(instance, np.array(VALLEY_WORTH) * size)


class Kind(Struct, frozen=True):
    """One kind of companies, and how many of them, resources and seeds are tried."""

    title: str
    drawn: Callable[[int, int, int], Market]
    #: Parties, resources, seeds.
    sizes: tuple[tuple[int, int, int], ...]


KINDS: Mapping[str, Kind] = {
    "paper": Kind(
        "the paper's",
        _paper,
        (
            *((10, 1, 24), (10, 2, 20), (10, 5, 16), (5, 5, 6), (20, 5, 4)),
            *((10, 10, 3), (50, 5, 2), (5, 20, 1)),
        ),
    ),
    "needy": Kind("the paper's with minimum demands", _needy, ((10, 5, 3),)),
    "valley": Kind("the demonstration's", _valley, ((8, 3, 24), (16, 3, 4))),
    "sparse": Kind("sparse", _sparse, ((10, 5, 5), (20, 2, 4))),
    "curved": Kind("curved", _curved, ((10, 3, 2),)),
    "alike": Kind("nearly alike", _alike, ((10, 5, 5),)),
    "invented": Kind(
        "the plan's invented ones",
        Invented,
        (
            *((10, 1, 30), (10, 2, 30), (10, 3, 30), (10, 5, 30), (10, 10, 30), (10, 20, 30)),
            *((5, 5, 30), (50, 5, 10), (200, 5, 5)),
        ),
    ),
}
