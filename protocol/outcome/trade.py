"""Whether the members of an exact session trade. If not, each keeps its endowment and pays nothing.

The decision follows from public numbers alone, so every member and auditor decides alike
(SPEC.md §12, CERTIFICATE.md §8). Adversary: a member whose answers leave the others a price or a
quota that costs them money. Never here: private numbers.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction

import numpy as np
from msgspec import Struct

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import net_prices, quantities
from protocol.numeric import Floats, Ticks
from protocol.outcome.allocation_rule import weighted_sums
from protocol.outcome.consistency import Inconsistency
from protocol.pricing.center import Certificate
from protocol.pricing.rule import PRICE_LIMIT

EXCESS_LIMIT = Fraction(1, 10**6)
"""By this fraction of a capacity averaged demands may exceed it, and quotas may be cut.

Not 0: where companies need all of a capacity, the averages exceed it by about the reserve. It is a
little above `pricing.center.MOST_EXCESS`: a session that stops by itself does not fail here.
"""

_HIGH = PRICE_LIMIT / 8.0  # the search for the scale of prices ends at a fourth of the limit


class Obstacle(StrEnum):
    """A reason why there is no trade."""

    #: The certificate is above the agreed limit.
    CERTIFICATE = "certificate"
    #: The averaged demands exceed a capacity.
    EXCESS = "excess"
    #: A price is at its limit.
    PRICES = "prices"
    #: Answers contradict each other by more than the agreed limit.
    ANSWERS = "answers"


class Trade(Struct, frozen=True):
    """What decides whether the members trade. Public."""

    #: Why there is no trade; empty if there is one.
    obstacles: tuple[Obstacle, ...]
    #: For each resource, by what fraction of the capacity averaged demands exceed it, or 0.
    excess: tuple[float, ...]
    #: Indices of the resources whose price is at its limit.
    at_limit: tuple[int, ...]


def trade(
    agreement: Agreement,
    certificate: Certificate,
    *,
    prices: Floats,
    totals: Ticks,
    contradictions: Sequence[Inconsistency],
) -> Trade:
    """Decide, from the certificate, and from prices, totals and contradictions of all rounds.

    Guarantee: it depends on public numbers only, and is the same on every machine. If there is no
    obstacle and the answers were best plans, Theorem 8 of CERTIFICATE.md holds.
    """
    W, N = sum(certificate.weights), agreement.ticks
    excess = [
        max(Fraction(0), Fraction(total, N * W) - 1)
        for total in weighted_sums(certificate.weights, totals)
    ]
    counted = [number for number, weight in enumerate(certificate.weights) if weight]
    at_limit = np.flatnonzero(np.max(prices[counted], axis=0) >= _HIGH).tolist()
    net = net_prices(certificate.prices, quantities(agreement).opposites)
    limit = (agreement.pricing.trade_limit or 0.0) * math.fsum(net)
    amount = math.fsum(found.amount for found in contradictions)
    found = {
        Obstacle.CERTIFICATE: not certificate.gap <= limit,
        Obstacle.EXCESS: max(excess) > EXCESS_LIMIT,
        Obstacle.PRICES: bool(at_limit),
        Obstacle.ANSWERS: amount > limit,
    }
    return Trade(
        obstacles=tuple(obstacle for obstacle, stands in found.items() if stands),
        excess=tuple(map(float, excess)),
        at_limit=tuple(at_limit),
    )
