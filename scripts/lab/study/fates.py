"""What each company ends with in a simulated session of only totals, judged with all data.

A real company knows only its own part of this. Never here: anything that a session reads.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

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


@dataclass(frozen=True, eq=False)
class Fates:
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


def fates(known: Outcome, asked: Ticks, instance: Instance) -> Fates:
    """`asked` is each company's demand, rounds by companies by resources."""
    agreement = known.agreement
    parts = [
        member_allocation(known, k, demands=asked[:, k], unmasked=known.released[:, k])
        for k in range(len(agreement.members))
    ]
    quota, payments = np.array([p.quota for p in parts]), np.array([p.payment for p in parts])
    paid = levied(agreement, known.prices, payments) if agreement.ball else payments
    earned, alone = (within(agreement, instance, split) for split in (quota, known.endowment))
    return Fates(quota, earned, alone, payments, paid)


def within(agreement: Agreement, instance: Instance, split: Any) -> Floats:
    """What each company earns within its part, in ticks; NaN without a plan."""
    plans = [
        plan_within(data, amounts(agreement, part, k))
        for k, (data, part) in enumerate(zip(instance.data, split, strict=True))
    ]
    return np.array([math.nan if plan is None else plan.utility for plan in plans])


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
