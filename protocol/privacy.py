"""From a budget (ε, δ) to the noise of every released number, and back.

Each function states what it guarantees; `PRIVACY.md` has the proofs. Nothing here draws
noise, and nothing here may depend on private data: every argument is public.

Symbols of the paper: T rounds, m resources, K parties, c capacities, ρ the zCDP budget,
Δ the sensitivity of one number, σ its noise, μ = √(Σ Δ²/σ²) over all released numbers,
M the distance to the best prices, B the bound on the noisy subgradient, ν the step.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from protocol import joint
from protocol.agreement import Agreement
from protocol.arrays import Floats, Ticks
from protocol.caps import first_caps, smallest_cap
from protocol.errors import BadAgreement, BrokenInvariant

NOISE_LIMIT = float(1 << 42)
"""Largest noise in ticks that an agreement may ask for (four million capacities)."""

LEAST_PART = 3.0
"""Noise in ticks below which a member's part may not be, where parts are added up unseen."""

_SLACK = 1e-9  # a root is moved this much to the safe side: more than its float64 rounding
_ROUNDING = 2.0**-48  # 32 roundings of float64, as a part of what is rounded


def rho(*, epsilon: float, delta: float) -> float:
    """ρ(ε, δ) of prop:diffPriv.

    Guarantee: a ρ-zCDP mechanism is (ε, δ)-DP (Bun & Steinke, Proposition 3).
    """
    log = math.log(1.0 / delta)
    return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2


def gaussian_delta(*, mu: float, epsilon: float) -> float:
    """The smallest δ with which a Gaussian mechanism of total multiplier μ is (ε, δ)-DP.

    Guarantee: exact for the continuous Gaussian, composed adaptively (Balle & Wang,
    Theorem 8; Dong, Roth & Su, Corollary 2.13), and never below it: what float64 may have
    rounded away is added (PRIVACY.md §3). Underflow only makes the answer larger.
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
    return _last_true(too_small) * (1.0 + _SLACK) if too_small(0.0) else 0.0


def _last_true(holds: Callable[[float], bool]) -> float:
    """The end of the interval [0, x] on which `holds`, approached from within."""
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, high * 2.0
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class Discreteness:
    """What drawing whole ticks instead of real numbers costs: no ε, and no δ of its own.

    `reserve` is added to μ², once for all releases together; `factor` multiplies δ, by e^factor.
    """

    reserve: float = 0.0
    factor: float = 0.0

    def __add__(self, other: "Discreteness") -> "Discreteness":
        return Discreteness(max(self.reserve, other.reserve), self.factor + other.factor)

    def times(self, count: int) -> "Discreteness":
        return Discreteness(self.reserve, self.factor * count)


def discreteness(sigma: Floats, *, rounds: int, dearest: float, total: float) -> Discreteness:
    """The cost of the discrete Gaussian over the continuous one, in all rounds.

    `sigma` holds the noise of each number of a release, in ticks; none may ever be smaller. No
    number may add more than `dearest` to μ², and all of them together no more than `total`.

    Guarantee: all releases are (ε, δ)-DP for every ε ≥ 0 with δ = e^factor times that of
    continuous noise of μ² = total + reserve (PRIVACY.md §4).
    """
    if not sigma.size:
        return Discreteness()
    least, numbers = float(sigma.min()) ** 2, rounds * sigma.size
    # The proof holds for any exponent: a larger one makes the reserve larger, the factor smaller.
    exponent = math.log(20.0 * numbers * least * (total / dearest)) if least >= 1.0 else math.inf
    smooth = exponent / (2.0 * math.pi**2)
    if smooth >= least:
        return Discreteness(reserve=math.inf)
    ripple = 2.0 * math.exp(-exponent) / (1.0 - math.exp(-3.0 * exponent))
    return Discreteness(dearest * smooth / (least - smooth), numbers * ripple)


@dataclass(frozen=True)
class Spent:
    """What releases have cost in privacy. Sessions with one data set add up, and exactly so.

    `mu_squared` is infinite where something was released with no noise, or with noise that
    can be repeated.
    """

    mu_squared: float = 0.0
    discreteness: Discreteness = Discreteness()

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.mu_squared + other.mu_squared, self.discreteness + other.discreteness)

    def times(self, count: int) -> "Spent":
        """So many times this."""
        if not count:
            return Spent()
        return Spent(self.mu_squared * count, self.discreteness.times(count))

    def delta(self, epsilon: float) -> float:
        """The smallest δ that goes with this ε, by either accountant.

        Guarantee: all releases counted here together are (ε, δ)-LDP if it was clear beforehand
        which sessions there would be. Where later ones were chosen, or left out, in the light of
        earlier ones, what holds is a limit that was fixed before the first (`party.budget.Limit`,
        PRIVACY.md §6), and this says no more than how much of it is used.
        """
        return min(self.zcdp_delta(epsilon), self.gaussian_delta(epsilon), 1.0)

    def zcdp_delta(self, epsilon: float) -> float:
        """The δ that goes with this ε by the paper's accountant, for any noise."""
        rho = self.mu_squared / 2.0
        if not epsilon >= rho:
            return 1.0
        return math.exp(-((epsilon - rho) ** 2) / (4.0 * rho)) if rho else 0.0

    def gaussian_delta(self, epsilon: float) -> float:
        """The smallest δ that the Gaussian curve has for this ε; above 1 it says nothing."""
        smooth = gaussian_delta(mu=self._multiplier, epsilon=epsilon)
        return smooth * math.exp(self.discreteness.factor)

    def epsilon(self, delta: float) -> float:
        """The smallest ε that goes with this δ, as `delta`; infinite where there is none."""
        if math.isinf(self.mu_squared):
            return math.inf
        rho = self.mu_squared / 2.0
        zcdp = rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))
        rest = delta * math.exp(-self.discreteness.factor)
        return min(zcdp, gaussian_epsilon(mu=self._multiplier, delta=rest))

    @property
    def guessed(self) -> float:
        """How often, at most, a guess between two data sets that are equally likely is right.

        The one who guesses knows everything else. Guarantee: this is ½ + ½·(the largest
        difference in the probability of any event), which is Φ(μ/2) for Gaussian noise; where
        ticks are too coarse for that curve, it is Pinsker's bound for zCDP (PRIVACY.md §3).
        """
        if math.isinf(self.mu_squared):
            return 1.0
        return 0.5 + 0.5 * min(self.gaussian_delta(0.0), 0.5 * math.sqrt(self.mu_squared), 1.0)

    @property
    def _multiplier(self) -> float:
        """μ of the continuous Gaussian that tells no less."""
        return math.sqrt(self.mu_squared + self.discreteness.reserve)


class Calibration:
    """The noise of every number of a session, known before it begins.

    Guarantee: if in each of at most T rounds a party releases its values, clamped to
    [0, cap], plus independent discrete Gaussian noise of `scales(caps)`, then all that it
    releases is (ε, δ)-LDP for the agreement's ε and δ, whatever the others do. Where only totals
    are read, the totals are, against any `colluders` of the others, if the rest add their noise.
    """

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self.colluders = None if agreement.privacy is None else agreement.privacy.colluders
        self.mu = self._multiplier()
        scales = self.scales(agreement.share_ticks)
        largest = scales.max()
        if largest > NOISE_LIMIT:
            raise BadAgreement(
                f"privacy: the noise would be {largest / agreement.ticks:.3g} times the capacity, "
                "more than can be carried; choose fewer rounds, or a larger epsilon or delta"
            )
        least = scales[scales > 0.0].min(initial=math.inf)
        if self.colluders is not None and least < LEAST_PART:
            raise BadAgreement(
                f"reveal is 'totals', and some member's part of the noise would be {least:.3g} "
                f"ticks: below {LEAST_PART:g} nothing is proved of the sum of all parts; choose "
                "a smaller epsilon, more rounds, larger shares, or reveal = 'each'"
            )

    def scales(self, caps: Ticks) -> Floats:
        """σ in ticks of each number of a release, for each row of caps.

        With shared objectives the last number is the objective, whose cap is all its ticks.
        Where only totals are read it takes the caps of all members, whose parts depend on them.
        """
        return self._parts(caps) / (self.mu or 1.0)

    def _parts(self, caps: Ticks) -> Floats:
        """σ·μ of what each member adds: what hides it alone, or its part of what hides all."""
        spread = self._spread(caps)
        if self.colluders is None:
            return spread
        if caps.shape != self.agreement.share.shape:
            raise BrokenInvariant("parts of the noise were asked for without all members' caps")
        parts: Floats = np.sqrt(joint.parts(spread**2, self.colluders))
        return parts

    def _multiplier(self) -> float:
        """The largest μ that keeps (ε, δ), or 0 where there is no noise.

        Guarantee: `paper` is prop:diffPriv, which the discrete Gaussian satisfies as it
        stands (Canonne, Kamath & Steinke, Theorem 4). `exact` is the Gaussian curve with
        the cost of discreteness at the smallest caps, where it is largest; where ticks are
        so coarse that this gives less, it is the paper's, which holds for any noise.
        """
        privacy = self.agreement.privacy
        if privacy is None:
            return 0.0
        # Moved to the safe side by more than rounding can take back, and by less than 12 digits.
        paper = math.sqrt(2.0 * rho(epsilon=privacy.epsilon, delta=privacy.delta)) * (1.0 - 1e-13)
        if privacy.accountant == "paper":
            return paper
        smallest = self._smallest_spread()

        def holds(mu: float) -> bool:
            spent = Spent(mu**2, self._discreteness(smallest / mu, mu**2))
            return spent.gaussian_delta(privacy.epsilon) <= privacy.delta

        return max(paper, _last_true(holds) * (1.0 - _SLACK))

    @property
    def per_release(self) -> Spent:
        """What each release of a party costs it.

        Guarantee: all T of them together cost no more than the (ε, δ) of the agreement; a
        session that stops early has spent the releases it made and no more.
        """
        if not self.mu or self.agreement.rehearsal:
            return Spent(mu_squared=math.inf)
        rounds, mu_squared = self.agreement.rounds, self.mu**2
        cost = self._discreteness(self._smallest_spread() / self.mu, mu_squared)
        each = Discreteness(cost.reserve, cost.factor / rounds)
        return Spent(mu_squared / rounds, each)

    def _discreteness(self, sigma: Floats, mu_squared: float) -> Discreteness:
        """What whole ticks cost in all T rounds, if no number ever has less noise than this."""
        T, m, width = self.agreement.rounds, len(self.agreement.resources), self.agreement.width
        privacy = self.agreement.privacy
        # Each number takes an equal part of μ², or one resource may take that of all m.
        parts = T * width / (1 if privacy is not None and privacy.noise == "component" else m)
        return discreteness(sigma, rounds=T, dearest=mu_squared / parts, total=mu_squared)

    def against(self, colluders: int) -> Spent:
        """Worst-case privacy cost of any member against `colluders` colluding members.

        Where only totals are read. Guarantee: up to the agreed number it is no more than the
        agreement's ε and δ; beyond, it is what the noise of the others still hides. All others
        together (K − 1) are also the bound for the one who moves a payment (PRIVACY.md §11).
        """
        caps = self.agreement.share_ticks
        if self.colluders is None or not self.mu or self.agreement.rehearsal:
            return Spent(mu_squared=math.inf)
        hiding = joint.left(self.scales(caps) ** 2, colluders)
        hidden = caps > 0
        part = np.where(hidden, caps, 0.0) ** 2 / np.where(hidden, hiding, 1.0)
        mu_squared = self.agreement.rounds * float(part.sum(axis=1).max())
        smallest = np.sqrt(np.where(hidden, hiding, math.inf).min(axis=0))
        cost = discreteness(
            smallest[np.isfinite(smallest)],
            rounds=self.agreement.rounds,
            dearest=float(part.max()),
            total=mu_squared,
        )
        return Spent(mu_squared, cost)

    def _smallest_spread(self) -> Floats:
        """The smallest σ·μ that can ever hide each number of a release, where it is hidden."""
        spread = self._spread(self._smallest_caps())
        hiding = spread
        if self.colluders is not None:
            hiding = np.sqrt(
                joint.left(self._parts(self.agreement.share_ticks) ** 2, self.colluders)
            )
        smallest: Floats = np.where(spread > 0.0, hiding, math.inf).min(axis=0)
        return smallest[np.isfinite(smallest)]

    def _smallest_caps(self) -> Ticks:
        """No cap of any member in any round is below these."""
        if self.agreement.mode != "clipped":
            return self.agreement.share_ticks
        least = smallest_cap(self.agreement)
        if least < 1:
            raise BadAgreement(
                f"privacy.tau is {self.agreement.tau:g}: with {len(self.agreement.members)} "
                "members a cap could fall to nothing; choose a larger tau"
            )
        return np.minimum(self.agreement.share_ticks, least)

    def _spread(self, caps: Ticks) -> Floats:
        """σ·μ in ticks: how the noise is spread over the numbers of a release.

        For every row Σ_j (cap_j / σμ_j)² ≤ 1/T, so that T rounds spend at most μ². The
        objective is money, not capacity: it takes one part in m+1 of the budget, and the
        shape spreads the rest over the resources.
        """
        privacy = self.agreement.privacy
        T, m, width = self.agreement.rounds, len(self.agreement.resources), self.agreement.width
        spread = np.zeros((*caps.shape[:-1], width))
        if privacy is None:
            return spread
        c = self.agreement.capacity
        units = caps * c
        if privacy.noise == "norm":
            weights = np.sqrt((units**2).sum(axis=-1, keepdims=True)) / c
        elif privacy.noise == "balanced":
            weights = np.sqrt(units * units.sum(axis=-1, keepdims=True)) / c
        else:
            weights = math.sqrt(m) * caps
        # A number that is always 0 hides nothing and needs no noise.
        spread[..., :m] = np.where(caps > 0, weights, 0.0) * math.sqrt(T * width / m)
        spread[..., m:] = math.sqrt(T * width) * self.agreement.ticks
        return spread


def shortened(values: Floats | float) -> Floats:
    """To 16 significant bits: what two machines' mathematics libraries may differ in is cut off."""
    mantissa, exponent = np.frexp(values)
    short: Floats = np.ldexp(np.rint(np.ldexp(mantissa, 16)), exponent - 16)
    return short


def prices_distance(agreement: Agreement) -> float:
    """M of asmp: bound on lambda: how far the best prices may be from the first ones.

    From the public `worth`, a guess that the parties agree on: ‖worth / c‖ where λ moves as in
    the paper (step `theorem`), and ‖worth‖ where money for a whole capacity does.
    """
    if agreement.worth is None:
        raise BadAgreement("every resource needs a worth to bound the distance to the best prices")
    return math.sqrt(math.fsum((agreement.worth / _lengths(agreement)) ** 2))


def _lengths(agreement: Agreement) -> Floats:
    """What a capacity counts as in the coordinates that prices move in: c, or 1 in money."""
    c = agreement.capacity
    return c if agreement.pricing.step == "theorem" else np.ones_like(c)


def gradient_bound(calibration: Calibration) -> float:
    """B of eq: B bound: no expected squared noisy subgradient exceeds B².

    With every share 1, component noise and the paper's accountant this is the paper's
    ‖c‖·√(TmK/2ρ + (K−1)²); smaller shares mean less noise and less overrun. In money for a
    whole capacity every c is 1. In `clipped` mode it takes the caps of the first round, and
    the theorems make no promise.
    """
    agreement = calibration.agreement
    sigma = calibration.scales(first_caps(agreement)) / agreement.ticks
    total = 0.0
    for j, c in enumerate(_lengths(agreement).tolist()):
        overrun = max(1.0, math.fsum(agreement.share[:, j]) - 1.0)
        total += c * c * (math.fsum(sigma[:, j] ** 2) + overrun * overrun)
    return math.sqrt(total)


def convergence_step(*, M: float, B: float, T: int) -> float:
    """The step ν = M/(B√T) for which thm:convergence holds."""
    return M / (B * math.sqrt(T))


def convergence_gap(*, M: float, B: float, T: int) -> float:
    """thm:convergence: min_t E[G(t)] ≤ MB/√T with that step and without momentum."""
    return M * B / math.sqrt(T)
