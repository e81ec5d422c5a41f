"""Payments: what each member gets above its endowment, at the prices of the outcome.

Exact fractions, then whole units of money, so that payments add up to zero exactly. CERTIFICATE.md
proves that without noise no member loses by joining. Never here: private numbers.

Symbols: λ prices, c capacities, y = λ·c money for a whole capacity, q quota, e endowment.
"""

import math
from fractions import Fraction

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks, apportion, round_to_sum, split_capacity
from protocol.outcome.quota import prorata

UNITS = 1 << 40
"""All capacities together are worth at most this many units of money."""


def endowment(agreement: Agreement) -> Ticks:
    """Members by resources: what each member brings, in ticks.

    Guarantee: in every resource these add up to the capacity exactly.
    """
    if agreement.banded:
        return _banded(agreement)
    if not agreement.members[0].endowment:
        return prorata(agreement)
    columns = zip(*(member.endowment for member in agreement.members), strict=True)
    parts = [apportion(agreement.ticks, _integer_ratios(column)) for column in columns]
    return np.array(parts, dtype=np.int64).T


def _banded(agreement: Agreement) -> Ticks:
    """Endowments above the floors, scaled to fill the capacity.

    If the agreement names none, an endowment is the capacity in proportion to the shares, within
    the member's floor and share.
    """
    columns = []
    for j, resource in enumerate(agreement.resources):
        shares = [max(Fraction(member.share[j]), Fraction(0)) for member in agreement.members]
        caps = quantities(agreement).share_ticks[:, j].tolist()
        above, all_shares = Fraction(agreement.above_floors(j)), sum(shares) or 1
        wanted = []
        for member, share, cap, floor in zip(
            agreement.members, shares, caps, quantities(agreement).floor[:, j].tolist(), strict=True
        ):
            amount = Fraction(resource.capacity) * share / all_shares
            if member.endowment:
                amount = Fraction(member.endowment[j]) * Fraction(resource.measure)
            ticks = round((amount - Fraction(floor)) / above * agreement.ticks)
            wanted.append(min(max(ticks, 0), cap))
        columns.append(split_capacity(agreement.ticks, wanted, caps))
    return np.array(columns, dtype=np.int64).T


def _integer_ratios(fractions: tuple[float, ...]) -> list[int]:
    """Integers in exactly the proportions of these floats."""
    exact = [Fraction(fraction) for fraction in fractions]
    common = math.lcm(*(fraction.denominator for fraction in exact))
    return [int(fraction * common) for fraction in exact]


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


def unit_of_money(prices: Floats, agreement: Agreement) -> float:
    """A power of two, so that sums of units are exact; 1 if float64 cannot hold one so small."""
    worth = math.fsum(map(abs, (prices * quantities(agreement).capacity).tolist()))
    return math.ldexp(1.0, math.frexp(worth)[1]) / UNITS or 1.0
