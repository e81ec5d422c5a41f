"""What releases with Gaussian noise cost: from noise to (ε, δ) and back.

Every function states its guarantee; PRIVACY.md proves it. Never here: agreements or parties.
"""

import math
from collections.abc import Callable

from msgspec import Struct

from protocol.numeric import Floats

SLACK = 1e-9
"""A root is moved to the safe side by this fraction: more than its float64 rounding."""

_ROUNDING = 2.0**-48  # relative error of 32 roundings in float64


def rho(*, epsilon: float, delta: float) -> float:
    """ρ(ε, δ) of prop:diffPriv.

    Guarantee: a ρ-zCDP mechanism is (ε, δ)-DP (Bun & Steinke, Proposition 3).
    """
    log = math.log(1.0 / delta)
    return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2


def gaussian_delta(*, mu: float, epsilon: float) -> float:
    """The smallest δ with which a Gaussian mechanism of total multiplier μ is (ε, δ)-DP.

    Guarantee: exact for the continuous Gaussian, composed adaptively (Balle & Wang, Theorem 8;
    Dong, Roth & Su, Corollary 2.13), and never below it: a bound on float64's rounding is added
    (PRIVACY.md §3). Underflow only makes the answer larger.
    """
    if mu == 0.0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    near = (epsilon / mu - mu / 2.0) / math.sqrt(2.0)
    far = (epsilon / mu + mu / 2.0) / math.sqrt(2.0)
    above, below = 0.5 * math.erfc(near), 0.5 * math.erfc(far)
    if above == 0.0:
        return 0.0
    rest = math.exp(epsilon + math.log(below)) if below > 1e-300 else 0.0
    return above - rest + _ROUNDING * (1.0 + epsilon + far * far) * (above + rest)


def gaussian_epsilon(*, mu: float, delta: float) -> float:
    """The smallest ε for which a Gaussian mechanism of multiplier μ is (ε, δ)-DP."""

    def too_small(epsilon: float) -> bool:
        return gaussian_delta(mu=mu, epsilon=epsilon) > delta

    if math.isinf(mu):
        return math.inf
    return last_true(too_small) * (1.0 + SLACK) if too_small(0.0) else 0.0


def last_true(holds: Callable[[float], bool]) -> float:
    """The end of the interval [0, x] on which `holds` is true, approached from within."""
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, high * 2.0
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def finite(epsilon: float) -> float | None:
    """An ε for JSON, which has no infinity: None means no guarantee."""
    return epsilon if math.isfinite(epsilon) else None


class IntegerNoiseCost(Struct, frozen=True):
    """What drawing whole ticks instead of real numbers costs."""

    #: Added to μ², once for all releases together.
    reserve: float = 0.0
    #: Multiplies δ by e^factor.
    factor: float = 0.0

    def __add__(self, other: "IntegerNoiseCost") -> "IntegerNoiseCost":
        return IntegerNoiseCost(max(self.reserve, other.reserve), self.factor + other.factor)

    def times(self, count: int) -> "IntegerNoiseCost":
        return IntegerNoiseCost(self.reserve, self.factor * count)


def discreteness(sigma: Floats, *, rounds: int, dearest: float, total: float) -> IntegerNoiseCost:
    """The cost of the discrete Gaussian over the continuous one, in all rounds.

    `sigma` is a lower bound on the noise of each number of a release, in ticks. No number may add
    more than `dearest` to μ², and all numbers together no more than `total`.

    Guarantee: all releases are (ε, δ)-DP for every ε ≥ 0 with δ = e^factor times that of
    continuous noise of μ² = total + reserve (PRIVACY.md §4).
    """
    if not sigma.size:
        return IntegerNoiseCost()
    least, numbers = float(sigma.min()) ** 2, rounds * sigma.size
    # The proof holds for any exponent. A larger one makes the reserve larger, the factor smaller.
    exponent = math.log(20.0 * numbers * least * (total / dearest)) if least >= 1.0 else math.inf
    smooth = exponent / (2.0 * math.pi**2)
    if smooth >= least:
        return IntegerNoiseCost(reserve=math.inf)
    ripple = 2.0 * math.exp(-exponent) / (1.0 - math.exp(-3.0 * exponent))
    return IntegerNoiseCost(dearest * smooth / (least - smooth), numbers * ripple)


class PrivacyCost(Struct, frozen=True):
    """What releases have cost in privacy. Costs of sessions with one data set add up exactly."""

    #: Infinite if something was released without noise, or with noise that can be repeated.
    mu_squared: float = 0.0
    discreteness: IntegerNoiseCost = IntegerNoiseCost()

    def __add__(self, other: "PrivacyCost") -> "PrivacyCost":
        return PrivacyCost(
            self.mu_squared + other.mu_squared, self.discreteness + other.discreteness
        )

    def times(self, count: int) -> "PrivacyCost":
        """The cost of `count` equal releases."""
        if not count:
            return PrivacyCost()
        return PrivacyCost(self.mu_squared * count, self.discreteness.times(count))

    def delta(self, epsilon: float) -> float:
        """The smallest δ for this ε, by the better accountant.

        Guarantee: all releases counted here together are (ε, δ)-LDP if the sessions were fixed in
        advance. If later sessions were chosen because of earlier ones, only a limit that was fixed
        before the first one is a guarantee (PRIVACY.md §6). Then this figure says how much of the
        limit is used.
        """
        return min(self.zcdp_delta(epsilon), self.gaussian_delta(epsilon))

    def zcdp_delta(self, epsilon: float) -> float:
        """The δ for this ε by the paper's accountant, which holds for any noise."""
        rho = self.mu_squared / 2.0
        if not epsilon >= rho:
            return 1.0
        return math.exp(-((epsilon - rho) ** 2) / (4.0 * rho)) if rho else 0.0

    def gaussian_delta(self, epsilon: float) -> float:
        """The δ of the Gaussian curve for this ε; above 1 it means nothing."""
        smooth = gaussian_delta(mu=self._multiplier, epsilon=epsilon)
        return smooth * math.exp(self.discreteness.factor)

    def epsilon(self, delta: float) -> float:
        """The smallest ε for this δ, as in `delta`; infinite if there is none."""
        if math.isinf(self.mu_squared):
            return math.inf
        rho = self.mu_squared / 2.0
        zcdp = rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))
        rest = delta * math.exp(-self.discreteness.factor)
        return min(zcdp, gaussian_epsilon(mu=self._multiplier, delta=rest))

    @property
    def guessed(self) -> float:
        """The largest probability of a right guess between two equally likely data sets.

        The one who guesses knows everything else. Guarantee: this is ½ + ½·(the largest
        difference in the probability of any event), which is Φ(μ/2) for Gaussian noise. If ticks
        are too coarse for that curve, it is Pinsker's bound for zCDP (PRIVACY.md §3).
        """
        if math.isinf(self.mu_squared):
            return 1.0
        return 0.5 + 0.5 * min(self.gaussian_delta(0.0), 0.5 * math.sqrt(self.mu_squared), 1.0)

    @property
    def _multiplier(self) -> float:
        """μ of a continuous Gaussian that reveals at least as much."""
        return math.sqrt(self.mu_squared + self.discreteness.reserve)
