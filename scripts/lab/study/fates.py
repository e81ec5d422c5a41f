"""What each company ends with in a simulated session of only totals, judged with all data.

A real company knows only its own part of this. Never here: anything that a session reads.
"""

import math

import highspy
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from party.model.best_response import loaded
from party.model.highs_program import model
from party.settlement.settle import plan_within
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts
from protocol.numeric import Floats, Ticks
from protocol.outcome.ball_quota import levied
from protocol.outcome.member_allocation import member_allocation
from protocol.outcome.outcome import Outcome
from protocol.privacy.ball import ball
from scripts.lab.common.instances import Instance, central

NEGLIGIBLE = 1e-4
"""A smaller loss, as a fraction of what a company earns alone, is none."""


class Fates(Struct, frozen=True, eq=False):
    """By company: its quota, what it earns there and alone, and what it pays with the levy.

    Without a plan a company earns NaN.
    """

    quota: Ticks
    earned: Floats
    alone: Floats
    payments: Floats
    paid: Floats

    @property
    def gain(self) -> Floats:
        """After payment and levy, as a fraction of what the company earns alone."""
        gain: Floats = (self.earned - self.paid - self.alone) / np.abs(self.alone)
        return gain

    @property
    def worse(self) -> float:
        """The fraction of companies that are worse off than alone."""
        return float((self.gain < -NEGLIGIBLE).mean())

    @property
    def worst(self) -> float:
        """The gain of the company that loses most, or 0."""
        return float(np.nanmin(self.gain, initial=0.0))


class Earnings:
    """What each company of an instance earns within its part of a split.

    Without minimum demands there is always a plan, and one solver for each company finds its
    utility. With them only the settlement can tell whether there is a plan.
    """

    def __init__(self, instance: Instance) -> None:
        self._data = instance.data
        self.needy = any(data.lower.any() for data in instance.data)
        pairs = zip(instance.data, instance.share * instance.capacity, strict=True)
        self._warm = [] if self.needy else [loaded(model(*pair)) for pair in pairs]

    def within(self, agreement: Agreement, split: Ticks) -> Floats:
        """`split` is in ticks, companies by resources. A company without a plan earns NaN."""
        limits = [amounts(agreement, part, k) for k, part in enumerate(split)]
        if self.needy:
            plans = [plan_within(*pair) for pair in zip(self._data, limits, strict=True)]
            return np.array([math.nan if plan is None else plan.utility for plan in plans])
        warm = zip(self._warm, self._data, limits, strict=True)
        return np.array([_most(solver, data.columns, limit) for solver, data, limit in warm])


def _most(solver: highspy.Highs, first: int, limit: Floats) -> float:
    """The largest objective of a program whose demands, from this column on, have this limit."""
    m = len(limit)
    columns = np.arange(first, first + m, dtype=np.int32)
    solver.changeColsBounds(m, columns, np.zeros(m), limit)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise ValueError("the solver failed on a feasible problem")
    return float(solver.getObjectiveValue())


def fates(known: Outcome, asked: Ticks, earnings: Earnings) -> Fates:
    """`asked` is each company's demand, rounds by companies by resources."""
    agreement = known.agreement
    parts = [
        member_allocation(known, k, demands=asked[:, k], unmasked=known.released[:, k])
        for k in range(len(agreement.members))
    ]
    quota, payments = np.array([p.quota for p in parts]), np.array([p.payment for p in parts])
    paid = levied(agreement, known.prices, payments) if agreement.ball else payments
    earned, alone = (earnings.within(agreement, split) for split in (quota, known.endowment))
    return Fates(quota, earned, alone, payments, paid)


def oracle(agreement: Agreement, instance: Instance) -> float:
    """The joint optimum that leaves the margin of the step `ball` unused.

    It knows all books, and no company is held to its ball. NaN where nothing is traded, and with
    minimum demands, which may not fit.
    """
    public = ball(agreement)
    if not public.trades or any(data.lower.any() for data in instance.data):
        return math.nan
    left = 1.0 - public.margin
    less = replace(instance, capacity=instance.capacity * left, share=instance.share / left)
    return central(less).utility
