"""Who pays whom: what each member gets above what it brought, at the prices of the outcome.

Public numbers only, in exact fractions and then whole units of money, so that payments add up
to zero, not nearly so. CERTIFICATE.md proves that without noise nobody loses by joining.

Symbols: λ prices, c capacities, y = λ·c money for a whole capacity, q quota, e endowment.
"""

import math
from fractions import Fraction

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks, apportion, balanced, filled
from protocol.outcome.quota import prorata

UNITS = 1 << 40
"""Payments are in whole units of money, of which all capacities together are worth so many."""


def endowment(agreement: Agreement) -> Ticks:
    """Members by resources: what each would have without the others, in ticks.

    Guarantee: in every resource these add up to the capacity exactly.
    """
    if agreement.banded:
        return _banded(agreement)
    if not agreement.members[0].endowment:
        return prorata(agreement)
    columns = zip(*(member.endowment for member in agreement.members), strict=True)
    parts = [apportion(agreement.ticks, _whole(column)) for column in columns]
    return np.array(parts, dtype=np.int64).T


def _banded(agreement: Agreement) -> Ticks:
    """The same above the floors. Where nobody says so, it is the capacity in proportion to the
    shares, as far as each one's floor and share allow, and by these filled up to the capacity."""
    columns = []
    for j, resource in enumerate(agreement.resources):
        shares = [max(Fraction(member.share[j]), Fraction(0)) for member in agreement.members]
        caps = quantities(agreement).share_ticks[:, j].tolist()
        above = Fraction(agreement.above_floors(j))
        wanted = []
        for member, share, cap, floor in zip(
            agreement.members, shares, caps, quantities(agreement).floor[:, j].tolist(), strict=True
        ):
            part = Fraction(resource.capacity) * share / (sum(shares) or 1)
            if member.endowment:
                part = Fraction(member.endowment[j]) * Fraction(resource.measure)
            ticks = round((part - Fraction(floor)) / above * agreement.ticks)
            wanted.append(min(max(ticks, 0), cap))
        columns.append(filled(agreement.ticks, wanted, caps))
    return np.array(columns, dtype=np.int64).T


def _whole(parts: tuple[float, ...]) -> list[int]:
    """The same proportions in whole numbers, exactly."""
    exact = [Fraction(part) for part in parts]
    common = math.lcm(*(part.denominator for part in exact))
    return [int(part * common) for part in exact]


def payments(agreement: Agreement, prices: Floats, quota: Ticks) -> Floats:
    """What each member pays, in money; what it gets is negative.

    λ·(q − e), where of a capacity that the quotas leave in part everybody is taken to have
    brought that much less.

    Guarantee: they add up to zero exactly, and each is off by less than one unit.
    """
    values = [Fraction(y) for y in (prices * quantities(agreement).capacity).tolist()]
    used = quota.sum(axis=0).tolist()
    exact = []
    for own, brought in zip(quota.tolist(), endowment(agreement).tolist(), strict=True):
        parts = zip(values, own, brought, used, strict=True)
        exact.append(sum(y * (q - Fraction(e * u, agreement.ticks)) for y, q, e, u in parts))
    unit = unit_of_money(prices, agreement)
    counted = [Fraction(part, agreement.ticks) / Fraction(unit) for part in exact]
    return np.array([count * unit for count in balanced(counted)])


def unit_of_money(prices: Floats, agreement: Agreement) -> float:
    """A power of two, so that sums of units are exact; 1 where float64 has none so small."""
    worth = math.fsum(map(abs, (prices * quantities(agreement).capacity).tolist()))
    return math.ldexp(1.0, math.frexp(worth)[1]) / UNITS or 1.0
