"""Payments: what each member gets above its endowment, at the prices of the outcome.

Exact fractions, then whole units of money, so that payments add up to zero exactly. CERTIFICATE.md
proves that without noise no member loses by joining. Never here: private numbers.

Symbols: λ prices, c capacities, y = λ·c money for a whole capacity, q quota, e endowment.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks, round_to_sum

UNITS = 1 << 40
"""All capacities together are worth at most this many units of money."""


def payments(agreement: Agreement, prices: Floats, quota: Ticks) -> Floats:
    """What each member pays, in money; negative if it is paid.

    λ·(q − e). If the quotas leave some of a capacity, all endowments are reduced in proportion.

    Guarantee: they add up to zero exactly, and each is off by less than one unit.
    """
    values = [Fraction(y) for y in (prices * quantities(agreement).capacity).tolist()]
    used = quota.sum(axis=0).tolist()
    exact = []
    for own, brought in zip(quota.tolist(), endowment(agreement).tolist(), strict=True):
        columns = zip(values, own, brought, used, strict=True)
        exact.append(sum(y * (q - Fraction(e * u, agreement.ticks)) for y, q, e, u in columns))
    unit = unit_of_money(prices, agreement)
    units = [Fraction(amount, agreement.ticks) / Fraction(unit) for amount in exact]
    return np.array([count * unit for count in round_to_sum(units)])


def with_levy(agreement: Agreement, prices: Floats, due: Sequence[Fraction]) -> list[Fraction]:
    """What each member pays with the levy, which makes the sum zero, in proportion to endowments.

    Endowments count at the prices of the outcome, and equally if these are all 0. Only the clearing
    office, which sees all payments, can compute this.

    Guarantee: the result adds up to zero exactly.
    """
    lacking = -sum(due, Fraction(0))
    return [own + lacking * part for own, part in zip(due, brought(agreement, prices), strict=True)]


def brought(agreement: Agreement, prices: Floats) -> list[Fraction]:
    """Each member's part of the levy: of what all bring, at these prices. They add up to 1."""
    money = [abs(Fraction(y)) for y in (prices * quantities(agreement).capacity).tolist()]
    rows = endowment(agreement).tolist()
    worths = [sum((y * e for y, e in zip(money, row, strict=True)), Fraction(0)) for row in rows]
    total = sum(worths)
    return [worth / total if total else Fraction(1, len(rows)) for worth in worths]


def unit_of_money(prices: Floats, agreement: Agreement) -> float:
    """A power of two, so that sums of units are exact; 1 if float64 cannot hold one so small."""
    worth = math.fsum(map(abs, (prices * quantities(agreement).capacity).tolist()))
    return math.ldexp(1.0, math.frexp(worth)[1]) / UNITS or 1.0
