"""What noise costs, computed with 40 digits from the formulas of PRIVACY.md."""

from typing import Any

import mpmath  # type: ignore[import-untyped]

from protocol.agreement.model import Agreement
from protocol.agreement.schema import TICKS
from protocol.numeric import Floats, Ticks

Number = Any


def curve(mu: Number, epsilon: Number) -> Number:
    """The smallest δ of N(μ, 1) against N(0, 1) at ε."""
    above = mpmath.ncdf(mu / 2 - epsilon / mu)
    return above - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def discrete_cost(
    sigma: list[Number], dearest: Number, total: Number, rounds: int
) -> tuple[Number, Number]:
    """The reserve and the factor of whole ticks, by PRIVACY.md §4 in 40 digits.

    The κ² of the proof is free; this takes the one of the product.
    """
    least, numbers = min(sigma) ** 2, rounds * len(sigma)
    smooth = mpmath.log(20 * numbers * least * total / dearest) / (2 * mpmath.pi**2)
    if least < 1 or smooth >= least:
        return mpmath.inf, 1
    ripple = lattice(mpmath.sqrt(smooth), 0) - 1
    return dearest * smooth / (least - smooth), (1 + ripple) ** numbers


def lattice(kappa: Number, offset: Number) -> Number:
    """Σ_z φ_κ(z − offset) over the whole numbers, by Poisson summation."""
    return 1 + 2 * sum(
        mpmath.exp(-2 * (mpmath.pi * kappa * k) ** 2) * mpmath.cos(2 * mpmath.pi * k * offset)
        for k in range(1, 30)
    )


def assert_enough(agreement: Agreement, caps: Ticks, sigma: Floats) -> None:
    """T releases with these caps (of one member) and this noise are (ε, δ)-LDP."""
    privacy, T = agreement.privacy, agreement.rounds
    assert privacy is not None
    epsilon, delta = mpmath.mpf(privacy.epsilon), mpmath.mpf(privacy.delta)
    ranges = [*caps.tolist(), *[TICKS] * (agreement.width - len(caps))]
    assert len(sigma) == len(ranges)
    assert all(s > 0 for s, cap in zip(sigma, ranges, strict=True) if cap > 0)
    noisy = [
        (mpmath.mpf(cap), mpmath.mpf(s))
        for cap, s in zip(ranges, sigma.tolist(), strict=True)
        if cap > 0
    ]
    spent = T * sum((shift / s) ** 2 for shift, s in noisy)
    if not noisy:
        return
    log = mpmath.log(1 / delta)
    enough_for_zcdp = spent / 2 <= (mpmath.sqrt(log + epsilon) - mpmath.sqrt(log)) ** 2
    if privacy.accountant == "paper" or enough_for_zcdp:
        assert enough_for_zcdp
        return
    dearest = max((shift / s) ** 2 for shift, s in noisy)
    reserve, factor = discrete_cost([s for _, s in noisy], dearest, spent, T)
    assert curve(mpmath.sqrt(spent + reserve), epsilon) * factor <= delta
