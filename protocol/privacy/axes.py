"""Half axes: how far a member's answers may be from its endowment, with the step `ball`.

They decide how much noise hides a member, so they must be known before anyone joins: they follow
from the agreement alone. Sums, products, quotients and square roots of float64 in a fixed order,
so that every machine gets the same. Never here: released or private numbers.

Symbols: K members, m resources, t colluders, N ticks to a capacity, e endowment and r radius as
fractions of a capacity, A half axis in ticks, z standard deviations that the overrun risk allows.
"""

import math

import numpy as np

from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement, Privacy
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks, frozen, truncate_to_16_bits
from protocol.privacy.accountant import gaussian_delta, last_true, rho

LEAST_REACH = 0.1
"""A resource of which all members together can trade less than this fraction is not traded."""

MOST, FIRST, SECOND = 1.8, 1.1, 8.0
"""c₁ is the smaller of the first two, the second times √m; c₂ is the third times m^¼.
scripts/results/BALL_CONSTANTS.md compares what these and other values bring to many kinds of
companies."""

_ROUNDING = 1e-12


def widest(resources: int) -> float:
    """c₁: no half axis is above this many endowments, unless the member's share is."""
    return min(MOST, FIRST * math.sqrt(resources))


def half_axes(agreement: Agreement) -> Ticks:
    """A, members by resources. A resource that is not traded has only zeros.

    A large ball lets members trade more, and needs more noise. The radius of a resource solves
    Σ_k max(0, c₁ − r/e_k) = c₂·Z, where Z·r is half of what is withheld for noise. The spare
    fraction of a resource is a second reason for a ball: up to R/2Z it pays for the noise.
    """
    N, shares, e = agreement.ticks, quantities(agreement).share_ticks, endowment(agreement)
    m, Z = len(agreement.resources), noise_ratio(agreement)
    c1, c2 = widest(m), SECOND * math.sqrt(math.sqrt(m))
    most = np.maximum(c1 * e, shares)
    axes = np.zeros_like(e)
    for j, resource in enumerate(agreement.resources):
        r = _radius(e[:, j] / N, c1, c2 * Z)
        if resource.spare:
            r = max(r, resource.spare / (2.0 * Z)) if Z else math.inf
        column = np.floor(np.minimum(r * N, most[:, j])).astype(np.int64)
        if reach(column, e[:, j], c1).sum() >= LEAST_REACH * N:
            axes[:, j] = column
    return frozen(axes)


def reach(axes: Ticks, e: Ticks, c1: float) -> Ticks:
    """min(A, ⌊c₁·e⌋): how far a member can trade, in ticks; it bears the margin in proportion."""
    able: Ticks = np.minimum(axes, np.floor(c1 * e).astype(np.int64))
    return able


def _radius(e: Floats, c1: float, wanted: float) -> float:
    """The largest r with Σ_k max(0, c₁ − r/e_k) ≥ `wanted`; 0 if there is none.

    For the n largest e it is at least (n·c₁ − wanted)/Σ 1/e, with equality for the right n.
    """
    brought = -np.sort(-e[e > 0.0])
    counts = np.arange(1.0, len(brought) + 1.0)
    radii = (counts * c1 - wanted) / np.add.accumulate(1.0 / brought)
    return float(radii.max(initial=0.0))


def noise_ratio(agreement: Agreement) -> float:
    """Z = z·√(K/(K − t))/μ, with the μ of continuous noise: z·σ is 2·Z·r for equal half axes."""
    K, privacy = len(agreement.members), agreement.privacy
    if privacy is None or privacy.colluders is None:
        return math.inf
    return deviations(agreement) * math.sqrt(K / (K - privacy.colluders)) / _multiplier(privacy)


def _multiplier(privacy: Privacy) -> float:
    """μ of (ε, δ) for continuous noise, to 16 bits."""

    def holds(mu: float) -> bool:
        return gaussian_delta(mu=mu, epsilon=privacy.epsilon) <= privacy.delta

    mu = math.sqrt(2.0 * rho(epsilon=privacy.epsilon, delta=privacy.delta))
    if privacy.accountant == "exact":
        mu = last_true(holds)
    return float(truncate_to_16_bits(mu))


def deviations(agreement: Agreement) -> float:
    """z: with the agreed risk, noise exceeds z standard deviations in at least one resource.

    The noise of different resources is independent, so each may have 1 − (1 − risk)^(1/m).
    """
    risk = 0.0 if agreement.privacy is None else agreement.privacy.overrun or 0.0
    if not risk:
        return 0.0
    each = -math.expm1(math.log1p(-risk) / len(agreement.resources))
    if each > 0.5 - _ROUNDING:
        return 0.0
    low, high = 0.0, 40.0
    for _ in range(64):
        z = 0.5 * (low + high)
        low, high = (z, high) if 0.5 * math.erfc(z / math.sqrt(2.0)) > each else (low, z)
    return float(truncate_to_16_bits(high)) * (1.0 + 2.0**-15)
