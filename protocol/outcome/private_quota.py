"""What a member makes of the totals where releases are masked: its own quota and payment.

The rule by which they follow from its own numbers comes from totals alone and is everybody's.
Each member applies it for itself, to its own numbers. SPEC.md §18. Exact integers
and fractions. Nothing computed here from a member's own numbers may go into any message.

Symbols: N ticks to a capacity, A all shares together, θ what demands are scaled by, β what is
added for each tick of a share, y = λ·c money for a whole capacity, e endowment.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks
from protocol.outcome.margin import quota_margin, scales
from protocol.outcome.payments import endowment, unit_of_money


@dataclass(frozen=True)
class AllocationRule:
    """How quotas follow from the numbers of their members, for each resource: public.

    A member's quota is min(share, ⌊θ·d + β·share⌋) ticks, where d is its own demand averaged
    over the rounds with these `weights`. θ (`scale`) and β (`fill`) come from totals alone.
    """

    weights: tuple[int, ...]
    scale: tuple[Fraction, ...]
    fill: tuple[Fraction, ...]


def rule_by_shares(agreement: Agreement) -> AllocationRule:
    """The rule that listens to nobody: each gets of a capacity what its share is of all shares.

    Guarantee: as for `exact_rule`.
    """
    shares = quantities(agreement).share_ticks.sum(axis=0).tolist()
    fill = tuple(Fraction(agreement.ticks, A) for A in shares)
    return AllocationRule((), (Fraction(0),) * len(shares), fill)


def exact_rule(agreement: Agreement, totals: Ticks, weights: Sequence[int]) -> AllocationRule:
    """The rule where totals have no noise, of rounds (totals, rounds first) that weigh so much.

    Everybody gets its averaged demand and of what is left over a part in proportion to its share;
    where all demands together are more than the capacity, each is cut by the same part. Without
    a round that counts it is by shares.

    Guarantee: the quotas of a resource do not add up to more than the capacity, if the totals are
    those of the demands; what they leave is less than one tick a member and what shares that are
    full cannot take.
    """
    whole, N = sum(weights), agreement.ticks
    if not whole:
        return rule_by_shares(agreement)
    scale, fill = [], []
    for j, A in enumerate(quantities(agreement).share_ticks.sum(axis=0).tolist()):
        total = sum(w * t for w, t in zip(weights, totals[:, j].tolist(), strict=False))
        short = total > N * whole
        scale.append(Fraction(N * whole, total) if short else Fraction(1))
        fill.append(Fraction(0) if short else Fraction(N * whole - total, whole * A))
    return AllocationRule(tuple(weights), tuple(scale), tuple(fill))


def noisy_rule(agreement: Agreement, totals: Ticks) -> AllocationRule:
    """The rule where totals have noise: so much less that they hardly ever exceed a capacity.

    Guarantee: with the noise as agreed, the quotas of all members exceed any capacity of a whole
    session with no more than the agreed risk; by shares alone, as much noise makes them, never.
    """
    known = quota_margin(agreement)
    weights = known.weights[: len(totals)]
    if not any(weights):
        return rule_by_shares(agreement)
    scale, fill = scales(agreement, known, totals)
    return AllocationRule(weights, tuple(scale), tuple(fill))


@dataclass(frozen=True, repr=False, eq=False)
class Allocation:
    """What one member may use, in ticks, and what it pays. Secret: no ε covers either.

    The quota tells the member's demand without noise, the payment as much as all other members
    together could know (PRIVACY.md §11).
    """

    quota: Ticks
    payment: float

    def __repr__(self) -> str:
        return "<private part>"


def allocate(
    agreement: Agreement,
    rule: AllocationRule,
    row: int,
    *,
    asked: Ticks,
    said: Ticks,
    totals: Ticks,
    prices: Floats,
) -> Allocation:
    """The quota and the payment of the member at this place of the roster, for itself alone.

    `asked` is what it wanted in each round and `said` what its releases say beneath their masks:
    the same but for its noise. The quota rests on the first. The payment rests on the second,
    because what all have said adds up to the public totals: it is y·(bought − e·used), where
    bought is θ·said + β·share before anything is rounded or cut, and used is the same of all.

    Guarantee: payments of all add up to zero before each is rounded to the nearest unit of money
    by itself, so to half a unit for each member after that, whatever anybody has said.
    """
    N, shares = agreement.ticks, quantities(agreement).share_ticks.sum(axis=0).tolist()
    caps, brought = (
        quantities(agreement).share_ticks[row].tolist(),
        endowment(agreement)[row].tolist(),
    )
    money = [Fraction(y) for y in (prices * quantities(agreement).capacity).tolist()]
    quota, due = [], Fraction(0)
    for j, cap in enumerate(caps):
        fill = rule.fill[j]
        wanted, told, total = (
            rule.scale[j] * _averaged(rule.weights, numbers[:, j].tolist())
            for numbers in (asked, said, totals)
        )
        quota.append(min(cap, max(0, math.floor(wanted + fill * cap))))
        used = (total + fill * shares[j]) / N
        due += money[j] * (told + fill * cap - brought[j] * used) / N
    unit = unit_of_money(prices, agreement)
    return Allocation(np.array(quota, dtype=np.int64), round(due / Fraction(unit)) * unit)


def _averaged(weights: Sequence[int], numbers: Sequence[int]) -> Fraction:
    return Fraction(sum(w * n for w, n in zip(weights, numbers, strict=False)), sum(weights) or 1)
