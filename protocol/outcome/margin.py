"""What private quotas withhold of a capacity, because the totals they rest on have noise.

All members scale their demands by one public number. It is so small that the quotas stay within
a capacity, except with the agreed risk. Round weights and margins follow from the agreement alone,
before anyone joins. Float64 in a fixed order, truncated to 16 bits after functions of a
mathematics library, so that every machine gets the same. Never here: private numbers.

Symbols: T rounds, w_t weight of a round, σ_j noise of a total as a fraction of the capacity,
z the standard deviations that the risk allows, B as in `pricing.subgradient`, b_t what quotas
would lose, as a fraction of a capacity, because the prices of round t are far from the last.
"""

import math
from fractions import Fraction

import numpy as np
from msgspec import Struct

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, truncate_to_16_bits
from protocol.privacy.axes import deviations
from protocol.privacy.ball import ball
from protocol.privacy.possible_totals import totals_noise

FIRST_ROUND = 0.1
"""b_0: what quotas from the first round alone would lose, as a fraction of a capacity."""

HEEDED, IGNORED = 0.2, 0.3
"""If at most HEEDED of a capacity is withheld, quotas follow demand. From IGNORED on they are pro
rata. In between they are blended."""

_FULL = 1 << 16  # the largest weight of a round


class QuotaMargin(Struct, frozen=True):
    """What follows from the agreement, in advance, for private quotas with noise."""

    #: The weight of each round in averaged demands.
    weights: tuple[int, ...]
    #: z·σ_j·‖w‖/Σw: what is added to the average total of each resource for its noise.
    margin: tuple[float, ...]
    #: The fraction of the noisiest capacity that stays unused for that, if demands fill it.
    withheld: float
    #: The fraction of a quota that is pro rata, from 0 to 1. With the step `ball` it is 1 if
    #: nothing can be traded: then every member keeps its endowment.
    pro_rata: Fraction


def quota_margin(agreement: Agreement) -> QuotaMargin:
    """The weights of the rounds, and what private quotas withhold.

    The weights minimise z·σ·‖w‖ + Σ w_t·b_t over all w with Σ w_t = 1: what is withheld for
    noise plus what early rounds lose. The solution is w_t ∝ max(level − b_t, 0), with the level
    at which the norm of the right-hand side is z·σ. With the step `ball` the weights are those of
    the privacy budget.
    """
    if agreement.ball:
        return _ball_margin(agreement)
    sigma, z = totals_noise(agreement).tolist(), deviations(agreement)
    noise = z * max(sigma)
    losses = _losses(sigma, agreement)
    low, high = float(losses[-1]), float(losses[0]) + noise
    for _ in range(64):
        level = 0.5 * (low + high)
        low, high = (level, high) if _norm_above(losses, level) < noise else (low, level)
    above = np.maximum(high - losses, 0.0)
    weights = tuple(np.rint(_FULL * (above / above[-1])).astype(np.int64).tolist())
    spread = math.sqrt(sum(w * w for w in weights)) / sum(weights)
    margin = tuple(float(truncate_to_16_bits(z * s * spread)) for s in sigma)
    withheld = max(margin) / (1.0 + max(margin))
    pro_rata = min(max((withheld - HEEDED) / (IGNORED - HEEDED), 0.0), 1.0)
    return QuotaMargin(weights, margin, withheld, Fraction(round(_FULL * pro_rata), _FULL))


def growing_weights(rounds: int) -> tuple[int, ...]:
    """Step `ball`: w_t = t + 1, in proportion to the privacy budget of each round."""
    return tuple(range(1, rounds + 1))


def _ball_margin(agreement: Agreement) -> QuotaMargin:
    public = ball(agreement)
    margin = tuple(public.margin.tolist())
    kept = Fraction(0 if public.trades else 1)
    return QuotaMargin(growing_weights(agreement.rounds), margin, max(margin), kept)


def _losses(sigma: list[float], agreement: Agreement) -> Floats:
    """b_t, which fades as prices move by the theorem's step: by √m/(B√T) a round.

    The model: demand changes by one capacity if the price changes by the capacity's worth. With
    a step of ν·excess in money for a whole capacity and ν = M/(B√T), the worth cancels.
    """
    m, T = len(sigma), agreement.rounds
    shares = quantities(agreement).share.sum(axis=0).tolist()
    squares = [s * s + max(1.0, a - 1.0) ** 2 for s, a in zip(sigma, shares, strict=True)]
    fades = 1.0 / (1.0 + math.sqrt(m / (math.fsum(squares) * T)))
    losses: Floats = np.multiply.accumulate([FIRST_ROUND, *[fades] * (T - 1)])
    return losses


def _norm_above(losses: Floats, level: float) -> float:
    above = np.maximum(level - losses, 0.0)
    return math.sqrt(np.add.accumulate(above * above)[-1])  # one after the other
