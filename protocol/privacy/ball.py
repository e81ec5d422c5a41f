"""The ball of the step `ball`: where a member's answers lie, and what its noise withholds.

In each round a member's answer is clipped to an ellipsoid around its centre: its endowment, less
its part of the margin. So noise need only hide the ellipsoid's diameter. Everything but `clip` is
public and known before anyone joins. Exact integers, and float64 truncated to 16 bits, so that
every machine gets the same. Never here: drawing noise. Only the gate may call `clip` with an
answer.

Symbols: N ticks to a capacity, A half axis, σ noise of the averaged total and z·σ as fractions of
a capacity, M margin, R spare fraction.
"""

import math
from fractions import Fraction

import numpy as np
from msgspec import Struct

from protocol.agreement import schema
from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import once_per_agreement, quantities
from protocol.numeric import Floats, Ticks, frozen, truncate_to_16_bits
from protocol.privacy.axes import deviations, half_axes, reach, widest
from protocol.privacy.calibration import Calibration

_SHIFT = 48  # bits of the factor that an answer outside is multiplied by


class Ball(Struct, frozen=True, eq=False):
    """The balls of all members, and what follows from their noise. Public."""

    #: Members by resources, in ticks.
    axes: Ticks
    #: Members by resources, in ticks: what a member asks for if its solver fails.
    center: Ticks
    #: How far all members together can trade each resource, as a fraction of the capacity.
    reach: Floats
    #: σ of the averaged total of each resource, as a fraction of the capacity.
    noise: Floats
    #: z·σ of each resource.
    deviation: Floats
    #: M = max(0, z·σ − R): the fraction of each capacity that the rounds leave unused.
    margin: Floats

    @property
    def trades(self) -> bool:
        """Whether any resource can be traded. If not, all members keep their endowments."""
        return bool(self.axes.any())

    def burden(self, worth: Floats) -> float:
        """L/S: what is withheld for noise over the most that members can trade, in money.

        Infinite if nothing can be traded. Trading pays only for companies that differ enough
        (PRIVACY.md, Theorem 18).
        """
        moved = self.axes / schema.TICKS * worth
        most = float(np.sqrt((moved * moved).sum(axis=1)).sum())
        return float(self.margin @ worth) / most if most else math.inf


@once_per_agreement
def ball(agreement: Agreement) -> Ball:
    """The balls of an agreement with the step `ball`, computed once."""
    calibration, axes = Calibration(agreement), half_axes(agreement)
    N, z = agreement.ticks, deviations(agreement)
    first = calibration.scales(quantities(agreement).share_ticks) / N
    sums = [math.sqrt(math.fsum(s * s for s in column)) for column in first.T.tolist()]
    noise = truncate_to_16_bits(np.array(sums) * calibration.left_in_average)
    deviation = truncate_to_16_bits(z * noise)
    spare = np.array([resource.spare or 0.0 for resource in agreement.resources])
    margin = np.maximum(deviation - spare, 0.0)
    e = endowment(agreement)
    able = reach(axes, e, widest(len(agreement.resources)))
    reached = able.sum(axis=0)
    return Ball(
        axes=axes,
        center=frozen(_centers(e, able, margin, N)),
        reach=frozen(reached / N),
        noise=frozen(noise),
        deviation=frozen(deviation),
        margin=frozen(margin),
    )


def _centers(e: Ticks, able: Ticks, margin: Floats, N: int) -> Ticks:
    """max(0, e − M·able/Σ able), rounded up to ticks: those who can trade bear the margin."""
    columns = []
    for brought, own, M in zip(e.T.tolist(), able.T.tolist(), margin.tolist(), strict=True):
        each = Fraction(M) * N / (sum(own) or 1)
        columns.append(
            [max(0, b - math.floor(each * a)) for b, a in zip(brought, own, strict=True)]
        )
    return np.array(columns, dtype=np.int64).T


def clip(demand: list[int], center: list[int], axes: list[int]) -> list[int]:
    """An answer in ticks, moved straight towards the centre until it is in the ball. Un-noised.

    Guarantee: with δ = result − centre, Σ (δ_j/A_j)² ≤ 1 exactly, and δ_j = 0 where A_j = 0. So
    two results differ by at most 2 in that norm, whatever was asked (PRIVACY.md §15). An answer
    inside is returned as it is. Each number stays between its demand and its centre.
    """
    apart = [d - c if a else 0 for d, c, a in zip(demand, center, axes, strict=True)]
    common = math.lcm(*(a for a in axes if a))
    size = sum((x * (common // a)) ** 2 for x, a in zip(apart, axes, strict=True) if a)
    if size > common * common:
        factor = math.isqrt((common * common << 2 * _SHIFT) // size)
        apart = [(abs(x) * factor >> _SHIFT) * (1 if x > 0 else -1) for x in apart]
    return [c + x for c, x in zip(center, apart, strict=True)]
