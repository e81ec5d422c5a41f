"""What can be checked where noise hides what members asked for: limits of each number, and sums.

With noise and totals no commitment binds a member: it could count any part of its demand as noise.
Its claims are what it states and signs. They are checked against the agreement and the public
rounds, and against each other. Never here: a decision about who states a false number. Within its
limits a false number of one member cannot be told from noise.

Symbols: w weights of the rounds, y money for a whole capacity, A half axis, c centre.
"""

import math
from fractions import Fraction

import numpy as np
from msgspec import Struct

from protocol.agreement.quantities import quantities
from protocol.commitment.layout import (
    MONEY_GRAIN_UNITS,
    PAYMENT_BITS,
    PAYMENT_OFFSET,
    grain_ticks,
)
from protocol.outcome.ball_quota import expected_levy, levy_deviation
from protocol.outcome.outcome import Outcome
from protocol.outcome.payments import unit_of_money
from protocol.privacy.ball import ball

DEVIATIONS = 4.0
"""Sums of honest payments are further than this from what the totals tell in 1 of 15,000 sessions,
by noise alone."""

_ROUNDING = 1.0 + 2.0**-30  # of a limit that is computed in float64


class Sum(Struct, frozen=True):
    """What members state together, and the limits of that: as a fraction of a capacity, or in
    money."""

    #: A resource, or "" for the payments.
    what: str
    stated: float
    lowest: float
    highest: float

    @property
    def fits(self) -> bool:
        return self.lowest <= self.stated <= self.highest


def money_grain(outcome: Outcome) -> Fraction:
    """What one grain of money is worth."""
    return Fraction(unit_of_money(outcome.prices, outcome.agreement)) * MONEY_GRAIN_UNITS


def limits(outcome: Outcome, place: int, index: int) -> tuple[int, int]:
    """The smallest and the largest number that a member can claim after a session with noise.

    Guarantee: the number that follows from answers as agreed lies within, whatever was asked.
    """
    resources = len(outcome.agreement.resources)
    return (0, _most(outcome, place, index)) if index < resources else _payment(outcome, place)


def _most(outcome: Outcome, place: int, index: int) -> int:
    """The grains of a quota if the member asked for all that it can ask for in every round."""
    agreement, rule = outcome.agreement, outcome.rule
    shares = quantities(agreement).share_ticks[place].tolist()
    asked = shares
    if agreement.ball:
        public = ball(agreement)
        asked = np.minimum(shares, public.center[place] + public.axes[place]).tolist()
    sums = [sum(rule.weights) * ticks for ticks in asked]
    return int(rule.quota(sums, shares)[index]) // grain_ticks(agreement)


def _payment(outcome: Outcome, place: int) -> tuple[int, int]:
    """The limits of a payment, with its offset.

    With the step `ball` a round adds y·(d − c) with Σ ((d − c)/A)² ≤ 1 and 0 ≤ d ≤ share. With
    other steps a payment has the member's own noise, and its limit is all that there is.
    """
    agreement, weights = outcome.agreement, outcome.rule.weights
    if not agreement.ball:
        return 0, (1 << PAYMENT_BITS) - 1
    public, terms = ball(agreement), quantities(agreement)
    axes, center = public.axes[place], public.center[place]
    below, above = np.minimum(axes, center), np.minimum(axes, terms.share_ticks[place] - center)
    lowest = highest = 0.0
    for weight, prices in zip(weights, outcome.path, strict=False):
        money = (prices * terms.capacity / agreement.ticks).tolist()
        widest = math.sqrt(math.fsum((y * a) ** 2 for y, a in zip(money, axes, strict=True)))
        sell, buy = (
            math.fsum(y * ticks for y, ticks in zip(money, most.tolist(), strict=True))
            for most in (below, above)
        )
        lowest -= weight * min(widest, sell)
        highest += weight * min(widest, buy)
    grain = float(money_grain(outcome)) * (sum(weights) or 1)
    first, last = (math.ceil(_ROUNDING * abs(total) / grain) + 1 for total in (lowest, highest))
    return max(0, PAYMENT_OFFSET - first), min((1 << PAYMENT_BITS) - 1, PAYMENT_OFFSET + last)


def quota_sum(outcome: Outcome, index: int, ticks: int) -> Sum:
    """Whether stated quotas fit a capacity with its spare fraction, all as fractions of it.

    Guarantee: honest quotas exceed some capacity in at most the agreed risk of all sessions.
    """
    resource = outcome.agreement.resources[index]
    spare = (resource.spare or 0.0) if outcome.agreement.ball else 0.0
    return Sum(resource.name, ticks / outcome.agreement.ticks, 0.0, 1.0 + spare)


def payment_sum(outcome: Outcome, stated: Fraction) -> Sum:
    """Whether the stated payments of all members together are near what the totals tell.

    With the step `ball` noise hides the sum, by a known σ. With other steps payments add up to
    zero, up to rounding.
    """
    agreement, members = outcome.agreement, len(outcome.agreement.members)
    slack, middle = float(money_grain(outcome)) * members, 0.0
    if agreement.ball:
        middle = -expected_levy(agreement, outcome.totals, outcome.path)
        slack += DEVIATIONS * levy_deviation(agreement, outcome.rounds, outcome.path)
    return Sum("", float(stated), middle - slack, middle + slack)
