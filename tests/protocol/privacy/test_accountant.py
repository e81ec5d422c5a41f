"""What releases cost together, by both accountants, and how well anyone can guess."""

import math
from statistics import NormalDist

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from protocol.privacy.accountant import (
    IntegerNoiseCost,
    PrivacyCost,
    discreteness,
    finite,
    gaussian_delta,
    rho,
)

COARSE = IntegerNoiseCost(reserve=math.inf)
"""Ticks for which nothing is proved about the Gaussian curve."""


def test_equal_releases_cost_as_much_as_their_sum() -> None:
    """Every release adds its μ² and its factor; the reserve is for all together."""
    one = PrivacyCost(0.25, IntegerNoiseCost(reserve=0.01, factor=2.0**-20))
    assert one.times(4) == one + one + one + one
    assert one.times(4).discreteness == IntegerNoiseCost(reserve=0.01, factor=2.0**-18)
    assert one.times(0) == PrivacyCost()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_the_paper_s_accountant_inverts_its_noise(epsilon: float, delta: float) -> None:
    """Noise for (ε, δ) by prop:diffPriv costs (ε, δ), and twice the noise costs less."""
    cost = PrivacyCost(2.0 * rho(epsilon=epsilon, delta=delta))
    assert cost.zcdp_delta(epsilon) == pytest.approx(delta, rel=1e-9)
    assert PrivacyCost(cost.mu_squared / 4.0).zcdp_delta(epsilon) < delta / 2.0


def test_the_paper_s_accountant_at_its_ends() -> None:
    """Nothing released costs nothing; below ρ there is no statement."""
    assert PrivacyCost().zcdp_delta(0.0) == 0.0
    assert PrivacyCost(4.0).zcdp_delta(1.9) == 1.0
    assert PrivacyCost(4.0).zcdp_delta(2.0) == 1.0
    assert PrivacyCost(4.0).zcdp_delta(4.0) == pytest.approx(math.exp(-0.5))


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 3.0])
def test_a_right_guess_is_as_likely_as_the_curve_says(mu: float) -> None:
    """Φ(μ/2) for Gaussian noise; Pinsker's bound, at most certainty, where ticks are coarse."""
    assert PrivacyCost(mu * mu).guessed == pytest.approx(NormalDist().cdf(mu / 2.0), rel=1e-9)
    assert PrivacyCost(mu * mu, COARSE).guessed == pytest.approx(min(0.5 + mu / 4.0, 1.0))


def test_without_noise_a_guess_is_certain_and_no_epsilon_is_written() -> None:
    """JSON has no infinity."""
    assert PrivacyCost(math.inf).guessed == 1.0
    assert finite(PrivacyCost(math.inf).epsilon(0.01)) is None
    assert finite(0.5) == 0.5


def test_where_float64_underflows_delta_stays_a_small_number() -> None:
    """A part of the curve that float64 cannot hold counts as none; it never makes δ wrong."""
    assert gaussian_delta(mu=1e-200, epsilon=1.0) == 0.0
    assert 0.0 < gaussian_delta(mu=1.0, epsilon=36.9) < 1e-280


@pytest.mark.parametrize("factor", [0.0, 0.5, 3.0])
def test_epsilon_counts_what_ticks_add_to_delta(factor: float) -> None:
    """At the stated ε the curve, times what whole ticks cost, gives just the δ that was asked."""
    cost = PrivacyCost(0.3, IntegerNoiseCost(factor=factor))
    epsilon = cost.epsilon(1e-3)
    assert cost.gaussian_delta(epsilon) == pytest.approx(1e-3, rel=1e-6)
    assert cost.delta(epsilon) <= 1e-3
    assert PrivacyCost(4.0).delta(0.1) <= 1.0


@pytest.mark.parametrize("mu", [1e-9, 0.03, 0.3, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0, 20.0])
def test_what_is_added_for_rounding_is_what_the_proof_needs(mu: float, epsilon: float) -> None:
    """PRIVACY.md §3: (1 + ε + x²)·2⁻⁴⁸ of both terms, above the curve itself in 40 digits."""
    with mpmath.workdps(40):
        near, far = (mpmath.mpf(epsilon) / mu + sign * mpmath.mpf(mu) / 2 for sign in (-1, 1))
        first, second = mpmath.ncdf(-near), mpmath.exp(epsilon) * mpmath.ncdf(-far)
        if first < 1e-290:
            return
        needed = (1 + epsilon + far**2 / 2) * mpmath.mpf(2) ** -48 * (first + second)
        added = gaussian_delta(mu=mu, epsilon=epsilon) - (first - second)
    assert 0.8 < float(added / needed) < 1.2


@pytest.mark.parametrize(("sigma", "rounds"), [(1.0, 1), (1.0, 3), (1.5, 1), (3.0, 1)])
def test_the_factor_covers_the_ripple_of_each_number(sigma: float, rounds: int) -> None:
    """PRIVACY.md §4: θ = 2·Σ e^(−2π²κ²k²) each, for the κ² that the reserve pays for."""
    cost = discreteness(np.array([sigma]), rounds=rounds, dearest=0.1, total=0.1 * rounds)
    smooth = sigma**2 * cost.reserve / (0.1 + cost.reserve)
    ripple = sum(2.0 * math.exp(-2.0 * math.pi**2 * smooth * k * k) for k in range(1, 20))
    assert cost.factor / rounds == pytest.approx(ripple, rel=1e-6)


def test_no_guess_is_more_than_certain() -> None:
    """What ticks add may make δ larger than 1, which then means nothing."""
    assert PrivacyCost(1600.0, IntegerNoiseCost(factor=0.5)).guessed == 1.0
