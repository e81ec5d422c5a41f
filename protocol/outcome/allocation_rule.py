"""The public rule from demands to quotas: quota = min(share, ⌊θ·demand + β·share⌋) + κ·endowment.

The same rule serves public rows (`quota`) and one member's own row (`private_quota`). It follows
from the agreement and from totals alone (SPEC.md §12, §18), in exact integers and fractions.
Never here: a single member's numbers.

Symbols: N ticks to a capacity, A the sum of all shares, θ (`scale`) the factor of demands,
β (`pro_rata`) ticks per tick of a share, κ (`kept`) 1 in a session without trade and else 0.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Ticks
from protocol.outcome.margin import quota_margin


class AllocationRule(Struct, frozen=True):
    """How a quota follows from a member's demands, for each resource. Public."""

    #: The weight of each round in an averaged demand; later rounds have none.
    weights: tuple[int, ...]
    #: θ: what the averaged demand is multiplied by.
    scale: tuple[Fraction, ...]
    #: β: what a member gets in addition, for each tick of its share.
    pro_rata: tuple[Fraction, ...]
    #: κ: 1 if there is no trade and each member keeps its endowment; otherwise 0.
    kept: int = 0

    def average(self, sums: Sequence[int]) -> list[Fraction]:
        """Averages over the rounds, from sums of `weighted_sums`."""
        return [Fraction(total, sum(self.weights) or 1) for total in sums]

    def entitled(
        self, sums: Sequence[int], shares: Sequence[int], endowment: Sequence[int] = ()
    ) -> list[int]:
        """What the rule gives one member before it is cut to the share, in ticks.

        Over all members these numbers add up to what the rule allots, up to rounding. A rule with
        κ = 1 needs the member's endowment.
        """
        if self.kept:
            return list(endowment)
        rows = zip(self.average(sums), shares, self.scale, self.pro_rata, strict=True)
        return [
            max(0, math.floor(scale * demand + pro_rata * share))
            for demand, share, scale, pro_rata in rows
        ]

    def quota(
        self, sums: Sequence[int], shares: Sequence[int], endowment: Sequence[int] = ()
    ) -> list[int]:
        """One member's quota in ticks, from its weighted demands and its shares.

        A rule with κ = 1 needs its endowment, which is then its quota.
        """
        entitled = self.entitled(sums, shares, endowment)
        return entitled if self.kept else list(map(min, shares, entitled))


def weighted_sums(weights: Sequence[int], numbers: Ticks) -> list[int]:
    """Σ w·number of each column of `numbers`, whose rows are the rounds. Exact."""
    rows = [(w, row) for w, row in zip(weights, numbers.tolist(), strict=False) if w]
    return [sum(w * row[j] for w, row in rows) for j in range(numbers.shape[1])]


def pro_rata_rule(agreement: Agreement) -> AllocationRule:
    """The rule that ignores demands: each capacity is split in proportion to the shares."""
    shares = _sums_of_shares(agreement)
    pro_rata = tuple(Fraction(agreement.ticks, A) for A in shares)
    return AllocationRule((), (Fraction(0),) * len(shares), pro_rata)


def endowment_rule(agreement: Agreement) -> AllocationRule:
    """The rule of a session without trade: each member keeps its endowment, and pays nothing.

    Guarantee: the quotas of a resource add up to the capacity exactly, and every payment is 0.
    """
    none = (Fraction(0),) * len(agreement.resources)
    return AllocationRule((), none, none, kept=1)


def exact_rule(agreement: Agreement, sums: Sequence[int], weights: Sequence[int]) -> AllocationRule:
    """The rule for totals without noise, from the weighted sum of each resource's totals.

    Each member gets its averaged demand. The members divide the rest in proportion to their
    shares. If all demands together exceed the capacity, each is cut by the same factor. If no
    round has a weight, the split is pro rata.

    Guarantee: if the totals are those of the demands, the quotas of a resource add up to no more
    than the capacity. What they leave is less than one tick per member, plus what full shares
    cannot take.
    """
    divisor, N = sum(weights), agreement.ticks
    if not divisor:
        return pro_rata_rule(agreement)
    scale, pro_rata = [], []
    for total, A in zip(sums, _sums_of_shares(agreement), strict=True):
        short = total > N * divisor
        scale.append(Fraction(N * divisor, total) if short else Fraction(1))
        pro_rata.append(Fraction(0) if short else Fraction(N * divisor - total, divisor * A))
    return AllocationRule(tuple(weights), tuple(scale), tuple(pro_rata))


def noisy_rule(agreement: Agreement, totals: Ticks) -> AllocationRule:
    """The rule for totals with noise, rounds by resources. It withholds a margin for the noise.

    Guarantee: with the noise as agreed, the quotas of all members exceed any capacity in a
    session with at most the agreed risk (PRIVACY.md §11). A pro rata split never exceeds one.
    """
    margin, N = quota_margin(agreement), agreement.ticks
    weights = margin.weights[: len(totals)]
    if not any(weights):
        return pro_rata_rule(agreement)
    scale, pro_rata = [], []
    for j, (total, A) in enumerate(
        zip(weighted_sums(weights, totals), _sums_of_shares(agreement), strict=True)
    ):
        noise = Fraction(margin.margin[j]) * N + 1  # plus one tick, since noise is in whole ticks
        most = total + math.ceil(noise * sum(margin.weights))
        scale.append((1 - margin.pro_rata) * Fraction(N * sum(weights), max(most, 1)))
        pro_rata.append(margin.pro_rata * Fraction(N, A))
    return AllocationRule(weights, tuple(scale), tuple(pro_rata))


def _sums_of_shares(agreement: Agreement) -> list[int]:
    """A of each resource, in ticks."""
    sums: list[int] = quantities(agreement).share_ticks.sum(axis=0).tolist()
    return sums
