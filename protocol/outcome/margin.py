"""What private quotas keep back of a capacity where the totals they rest on have noise.

Everybody scales its own demand by the same public number, so small that all together stay within
a capacity but for the agreed risk. What the rounds weigh and how much is kept back follow from
the agreement alone and are known before anybody joins; no private number comes here, and every
machine gets the same: float64 in a fixed order, cut to 16 bits where a mathematics library is
asked.

Symbols: T rounds, w_t what a round weighs, σ_j the noise of a total as a part of the capacity,
z the standard deviations that the risk allows, B and T as in `privacy`; b_t how far the prices of
round t still are from where they go, as a part of a capacity that quotas lose by it.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks, truncate_to_16_bits
from protocol.privacy.calibration import Calibration

FIRST_ROUND = 0.1
"""What quotas from the first round alone would lose, as a part of a capacity: b_0."""

HEEDED, IGNORED = 0.2, 0.3
"""Demands count in full where no more than the first part of a capacity is kept back for noise,
and not at all, so that the split is by shares, from the second on."""

_FULL = 1 << 16  # what the round that counts most weighs


@dataclass(frozen=True)
class QuotaMargin:
    """What is known beforehand of the private quotas of a session with noise.

    `margin` is z·σ_j·‖w‖/Σw, what is added to the average total of each resource for the noise
    in it; `kept` the part of a capacity that stays unused for that, of the noisiest resource, if
    demands fill it; `shares` how much of a quota is by shares, in [0, 1].
    """

    weights: tuple[int, ...]
    margin: tuple[float, ...]
    kept: float
    shares: Fraction


def quota_margin(agreement: Agreement) -> QuotaMargin:
    """What private quotas keep back.

    The weights make z·σ·‖w‖ + Σ w_t·b_t smallest among all with Σ w_t = 1: what is kept back for
    noise, and what is lost by early rounds. So w_t is in proportion to what a level is above
    b_t, where it is, and the level is where the norm of that is z·σ.
    """
    sigma, z = _totals_noise(agreement), deviations(agreement)
    loudest = z * max(sigma)
    far = _far(sigma, agreement)
    low, high = float(far[-1]), float(far[0]) + loudest
    for _ in range(64):
        level = 0.5 * (low + high)
        low, high = (level, high) if _length(far, level) < loudest else (low, level)
    above = np.maximum(high - far, 0.0)
    weights = tuple(np.rint(_FULL * (above / above[-1])).astype(np.int64).tolist())
    spread = math.sqrt(sum(w * w for w in weights)) / sum(weights)
    margin = tuple(float(truncate_to_16_bits(z * s * spread)) for s in sigma)
    kept = max(margin) / (1.0 + max(margin))
    part = min(max((kept - HEEDED) / (IGNORED - HEEDED), 0.0), 1.0)
    return QuotaMargin(weights, margin, kept, Fraction(round(_FULL * part), _FULL))


def scales(
    agreement: Agreement, known: QuotaMargin, totals: Ticks
) -> tuple[list[Fraction], list[Fraction]]:
    """θ and β of each resource, from the totals by round that were read, in ticks.

    Some round that was read must count.

    A member's quota is min(share, ⌊θ·d + β·share⌋), d its own demand averaged with the weights.

    Guarantee: with the noise as agreed, the quotas of all exceed any capacity in this session
    with no more than the agreed risk (PRIVACY.md §11); by shares alone they never do.
    """
    whole, N = sum(known.weights[: len(totals)]), agreement.ticks
    theta, beta = [], []
    for j, A in enumerate(quantities(agreement).share_ticks.sum(axis=0).tolist()):
        column = totals[:, j].tolist()
        total = sum(w * t for w, t in zip(known.weights, column, strict=False))
        margin = Fraction(known.margin[j]) * N + 1  # and a tick, as noise is in whole ones
        most = total + math.ceil(margin * sum(known.weights))
        theta.append((1 - known.shares) * Fraction(N * whole, max(most, 1)))
        beta.append(known.shares * Fraction(N, A))
    return theta, beta


def deviations(agreement: Agreement) -> float:
    """z: how many standard deviations noise exceeds in some resource with the agreed risk.

    The noise of different resources is independent, so each may have 1 − (1 − risk)^(1/m).
    """
    risk = 0.0 if agreement.privacy is None else agreement.privacy.overrun or 0.0
    if not risk:
        return 0.0
    each = -math.expm1(math.log1p(-risk) / len(agreement.resources))
    low, high = 0.0, 40.0
    for _ in range(64):
        z = 0.5 * (low + high)
        low, high = (z, high) if 0.5 * math.erfc(z / math.sqrt(2.0)) > each else (low, z)
    return float(truncate_to_16_bits(high)) * (1.0 + 2.0**-15)


def _totals_noise(agreement: Agreement) -> list[float]:
    """σ_j of the total of one round, as a part of the capacity."""
    sigma = Calibration(agreement).scales(quantities(agreement).share_ticks) / agreement.ticks
    columns = sigma[:, : len(agreement.resources)].T.tolist()
    return [
        float(truncate_to_16_bits(math.sqrt(math.fsum(s * s for s in column))))
        for column in columns
    ]


def _far(sigma: list[float], agreement: Agreement) -> Floats:
    """b_t, which fades as prices go by the theorem's step: by √m/(B√T) a round.

    A step of ν·excess in money for a whole capacity takes prices that far if demand changes by a
    capacity where the price changes by its worth; with ν = M/(B√T) the worth itself drops out.
    """
    m, T = len(sigma), agreement.rounds
    shares = quantities(agreement).share.sum(axis=0).tolist()
    squares = [s * s + max(1.0, a - 1.0) ** 2 for s, a in zip(sigma, shares, strict=True)]
    fades = 1.0 / (1.0 + math.sqrt(m / (math.fsum(squares) * T)))
    far: Floats = np.multiply.accumulate([FIRST_ROUND, *[fades] * (T - 1)])
    return far


def _length(far: Floats, level: float) -> float:
    above = np.maximum(level - far, 0.0)
    return math.sqrt(np.add.accumulate(above * above)[-1])  # one after the other
