"""One member's own quota and payment, where only totals are public (SPEC.md §18).

Each member applies the public `AllocationRule` to its own numbers, in exact fractions.
Never here: anything that goes into a message. What is computed here stays with the member.

Symbols: N ticks to a capacity, θ, β and κ as in `allocation_rule`, y = λ·c money for a whole
capacity, e endowment.
"""

from fractions import Fraction

import numpy as np

from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks
from protocol.outcome.allocation_rule import AllocationRule, weighted_sums
from protocol.outcome.payments import unit_of_money
from protocol.records import Opaque


class Allocation(Opaque, frozen=True):
    """What one member may use, in ticks, and what it pays. Secret: no ε covers either.

    The quota tells the member's demand without noise. The payment tells as much as all other
    members together could know (PRIVACY.md §11).
    """

    quota: Ticks
    payment: float
    #: The quota before it is cut to the share; None if it is not cut.
    uncut: Ticks | None = None

    @property
    def committed_ticks(self) -> Ticks:
        """What a member commits to: the sum of these over all members is public."""
        return self.quota if self.uncut is None else self.uncut

    def __repr__(self) -> str:
        return "<private allocation>"


def allocate(
    agreement: Agreement,
    rule: AllocationRule,
    row: int,
    *,
    demands: Ticks,
    unmasked: Ticks,
    totals: Ticks,
    prices: Floats,
) -> Allocation:
    """The quota and the payment of the member in this row of the roster.

    `demands` are its demands by round. `unmasked` are its releases without their masks: the
    demands plus its noise. The quota rests on `demands`. The payment rests on `unmasked`, because
    these add up to the public totals over all members. It is y·(bought − e·used). Here bought is
    θ·unmasked + β·share + κ·e, neither rounded nor cut, and used is the sum of that over all
    members. So without trade (κ = 1, θ = β = 0) the quota is e and the payment is 0.

    Guarantee: before rounding, the payments of all members add up to zero, whatever they
    released. Each is then rounded to the nearest unit of money, so the sum is off by at most
    half a unit per member.
    """
    N, terms = agreement.ticks, quantities(agreement)
    shares = terms.share_ticks[row].tolist()
    brought = endowment(agreement)[row].tolist()
    sums = weighted_sums(rule.weights, demands)
    quota, uncut = rule.quota(sums, shares, brought), rule.entitled(sums, shares, brought)
    due = Fraction(0)
    for y, scale, pro_rata, own, total, share, all_shares, e in zip(
        [Fraction(y) for y in (prices * terms.capacity).tolist()],
        rule.scale,
        rule.pro_rata,
        rule.average(weighted_sums(rule.weights, unmasked)),
        rule.average(weighted_sums(rule.weights, totals)),
        shares,
        terms.share_ticks.sum(axis=0).tolist(),
        brought,
        strict=True,
    ):
        bought = scale * own + pro_rata * share + rule.kept * e
        used = (scale * total + pro_rata * all_shares) / N + rule.kept
        due += y * (bought - e * used) / N
    unit = unit_of_money(prices, agreement)
    ticks = np.array(quota, dtype=np.int64), np.array(uncut, dtype=np.int64)
    return Allocation(ticks[0], round(due / Fraction(unit)) * unit, ticks[1])
