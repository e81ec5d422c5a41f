"""Endowments and the pro rata split: what each member brings, in ticks, from the agreement alone.

Exact integers and fractions, the same on every machine. Never here: released or private numbers.
"""

import math
from fractions import Fraction

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import once_per_agreement, quantities
from protocol.numeric import Ticks, apportion, frozen, split_capacity


def prorata(agreement: Agreement) -> Ticks:
    """Members by resources: each capacity split in proportion to the members' shares."""
    columns = quantities(agreement).share_ticks.T.tolist()
    splits = [split_capacity(agreement.ticks, column, column) for column in columns]
    return np.array(splits, dtype=np.int64).T


@once_per_agreement
def endowment(agreement: Agreement) -> Ticks:
    """Members by resources: what each member brings, in ticks; computed once.

    Guarantee: in every resource these add up to the capacity exactly.
    """
    if agreement.banded:
        return frozen(_banded(agreement))
    if not agreement.members[0].endowment:
        return frozen(prorata(agreement))
    columns = zip(*(member.endowment for member in agreement.members), strict=True)
    parts = [apportion(agreement.ticks, _integer_ratios(column)) for column in columns]
    return frozen(np.array(parts, dtype=np.int64).T)


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
