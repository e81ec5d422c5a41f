"""From a budget (ε, δ) to the noise of every released number, and back.

Each function states what it guarantees; PRIVACY.md has the proofs. Every argument is public.
Never here: drawing noise, private numbers.

Symbols of the paper: T rounds, m resources, K parties, c capacities, ρ the zCDP budget, Δ the
sensitivity of one number, σ its noise, μ = √(Σ Δ²/σ²) over all released numbers.
"""

import math
from functools import cached_property

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import BadAgreement, InternalError
from protocol.numeric import Floats, Ticks
from protocol.privacy import collusion
from protocol.privacy.accountant import (
    SLACK,
    IntegerNoiseCost,
    PrivacyCost,
    discreteness,
    last_true,
    rho,
)
from protocol.privacy.axes import half_axes
from protocol.privacy.sensitivity import smallest_cap

NOISE_LIMIT = float(1 << 42)
"""The largest noise that an agreement may need, in ticks (four million capacities)."""

LEAST_PART = 3.0
"""The smallest noise of one member, in ticks, if only the sum of all noise is public."""


class Calibration:
    """The noise of every number of a session, from the agreement.

    Guarantee: suppose that in each of at most T rounds a party releases its values, clamped to
    [0, cap], plus independent discrete Gaussian noise of `scales(caps, round)`. Then all its
    releases are (ε, δ)-LDP for the agreement's ε and δ, whatever the others do. If releases are
    masked, the totals are, against any `colluders` members, if the other members add their noise.
    With the step `ball` the values must be clipped to the ball (PRIVACY.md §15).
    """

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self.colluders = None if agreement.privacy is None else agreement.privacy.colluders
        #: With the step `ball`, the half axes of all members.
        self._axes = half_axes(agreement) if agreement.ball else None
        self.mu = self._multiplier()
        scales = self.scales(quantities(agreement).share_ticks)
        largest = scales.max()
        if largest > NOISE_LIMIT:
            raise BadAgreement(
                f"privacy: the noise would be {largest / agreement.ticks:.3g} times the capacity, "
                "more than a release can carry; choose fewer rounds, or a larger epsilon or delta"
            )
        least = scales[scales > 0.0].min(initial=math.inf) * self._last_over_first
        if self.colluders is not None and least < LEAST_PART:
            raise BadAgreement(
                f"reveal is 'totals', and some member would add noise of {least:.3g} ticks. Below "
                f"{LEAST_PART:g} ticks nothing is proved about the sum of all noise; choose a "
                "smaller epsilon, more rounds, larger shares, or reveal = 'each'"
            )

    def scales(self, caps: Ticks, round: int = 0) -> Floats:  # noqa: A002
        """σ in ticks of each number of a release, for each row of caps.

        With shared objectives the last number is the objective, whose cap is all its ticks. If
        releases are masked, `caps` must have a row for every member. With the step `ball` round t
        spends the fraction 2(t+1)/(T(T+1)) of μ², so its σ is that of the first over √(t+1).
        """
        if self._axes is None:
            return self._added(caps) / (self.mu or 1.0)
        return self._ball_first / math.sqrt(round + 1)

    @cached_property
    def _ball_first(self) -> Floats:
        """σ of all members in the first round, with the step `ball`."""
        return self._added(quantities(self.agreement).share_ticks) / self.mu

    @property
    def left_in_average(self) -> float:
        """The noise left in the weighted average of all rounds, over that of the first round."""
        T = self.agreement.rounds
        return 1.0 / math.sqrt(T if self._axes is None else T * (T + 1) / 2)

    @property
    def _last_over_first(self) -> float:
        """The noise of the last round over that of the first."""
        return 1.0 if self._axes is None else 1.0 / math.sqrt(self.agreement.rounds)

    def _added(self, caps: Ticks) -> Floats:
        """σ·μ of what each member adds: enough to hide it alone, or its fraction of joint noise."""
        spread = self._spread(caps)
        if self.colluders is None:
            return spread
        if caps.shape != quantities(self.agreement).share.shape:
            raise InternalError("masked releases need the caps of all members to divide the noise")
        added: Floats = np.sqrt(collusion.divide_noise(spread**2, self.colluders))
        return added

    def _multiplier(self) -> float:
        """The largest μ that keeps (ε, δ), or 0 without noise.

        Guarantee: `paper` is prop:diffPriv, which the discrete Gaussian satisfies as it stands
        (Canonne, Kamath & Steinke, Theorem 4). `exact` is the Gaussian curve with the cost of
        discreteness at the smallest caps, where it is largest. If ticks are so coarse that this
        gives less, it is the paper's, which holds for any noise.
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
            spent = PrivacyCost(mu**2, self._discreteness(smallest / mu, mu**2))
            return spent.gaussian_delta(privacy.epsilon) <= privacy.delta

        return max(paper, last_true(holds) * (1.0 - SLACK))

    @property
    def per_release(self) -> PrivacyCost:
        """What each release of a party costs it; with the step `ball`, on average.

        Guarantee: all T releases together cost no more than the (ε, δ) of the agreement. A
        session that stops early has cost only the releases it made. With the step `ball` the
        first n of T have cost n(n+1)/(T+1) of these.
        """
        if not self.mu or self.agreement.rehearsal:
            return PrivacyCost(mu_squared=math.inf)
        if self._axes is not None and not self._axes.any():
            return PrivacyCost()  # every release is known beforehand
        rounds, mu_squared = self.agreement.rounds, self.mu**2
        cost = self._discreteness(self._smallest_spread() / self.mu, mu_squared)
        each = IntegerNoiseCost(cost.reserve, cost.factor / rounds)
        return PrivacyCost(mu_squared / rounds, each)

    def _discreteness(self, sigma: Floats, mu_squared: float) -> IntegerNoiseCost:
        """What whole ticks cost in all T rounds, if every number has at least this noise."""
        T, m, width = self.agreement.rounds, len(self.agreement.resources), self.agreement.width
        privacy = self.agreement.privacy
        if self._axes is not None:  # one resource may take all of the last round
            return discreteness(
                sigma, rounds=T, dearest=mu_squared * 2.0 / (T + 1), total=mu_squared
            )
        # Each number takes an equal part of μ², or one resource may take that of all m.
        equal = T * width / (1 if privacy is not None and privacy.noise == "component" else m)
        return discreteness(sigma, rounds=T, dearest=mu_squared / equal, total=mu_squared)

    def against(self, colluders: int) -> PrivacyCost:
        """Worst-case privacy cost of any member against `colluders` colluding members.

        For masked releases. Guarantee: up to the agreed number it is no more than the agreement's
        ε and δ; beyond, it is what the noise of the others still hides. K − 1 colluders are also
        the bound for a person who handles a payment (PRIVACY.md §11).
        """
        caps = quantities(self.agreement).share_ticks
        if self.colluders is None or not self.mu or self.agreement.rehearsal:
            return PrivacyCost(mu_squared=math.inf)
        hiding = collusion.remaining_noise(self.scales(caps) ** 2, colluders)
        if self._axes is not None:
            return self._ball_against(self._axes, hiding)
        hidden = caps > 0
        costs = np.where(hidden, caps, 0.0) ** 2 / np.where(hidden, hiding, 1.0)
        mu_squared = self.agreement.rounds * float(costs.sum(axis=1).max())
        smallest = np.sqrt(np.where(hidden, hiding, math.inf).min(axis=0))
        cost = discreteness(
            smallest[np.isfinite(smallest)],
            rounds=self.agreement.rounds,
            dearest=float(costs.max()),
            total=mu_squared,
        )
        return PrivacyCost(mu_squared, cost)

    def _ball_against(self, axes: Ticks, hiding: Floats) -> PrivacyCost:
        """The worst cost for a member if this variance hides it in the first round."""
        T, hidden = self.agreement.rounds, axes > 0
        if not hidden.any():
            return PrivacyCost()
        # Answers differ by at most 2A in one resource, and by less in each if they do in several.
        first = (np.where(hidden, 2.0 * axes, 0.0) ** 2 / np.where(hidden, hiding, 1.0)).max()
        mu_squared = float(first) * (T * (T + 1) / 2)
        smallest = np.sqrt(np.where(hidden, hiding, math.inf).min(axis=0))
        smallest = smallest[np.isfinite(smallest)] * self._last_over_first
        return PrivacyCost(mu_squared, self._discreteness(smallest, mu_squared))

    def _smallest_spread(self) -> Floats:
        """A lower bound on σ·μ of what hides each number of a release; hidden numbers only."""
        hiding = spread = self._spread(self._smallest_caps())
        if self.colluders is not None:
            added = self._added(quantities(self.agreement).share_ticks)
            hiding = np.sqrt(collusion.remaining_noise(added**2, self.colluders))
        smallest: Floats = np.where(spread > 0.0, hiding, math.inf).min(axis=0)
        return smallest[np.isfinite(smallest)] * self._last_over_first

    def _smallest_caps(self) -> Ticks:
        """Lower bounds on the caps of all members in all rounds."""
        if self.agreement.mode != "clipped":
            return quantities(self.agreement).share_ticks
        least = smallest_cap(self.agreement)
        if least < 1:
            raise BadAgreement(
                f"privacy.tau is {self.agreement.tau:g}: with {len(self.agreement.members)} "
                "members a cap could fall to 0; choose a larger tau"
            )
        return np.minimum(quantities(self.agreement).share_ticks, least)

    def _spread(self, caps: Ticks) -> Floats:
        """σ·μ in ticks: how the noise is spread over the numbers of a release.

        For every row Σ_j (cap_j / σμ_j)² ≤ 1/T, so that T rounds spend at most μ². The objective
        takes one part in m+1 of the budget, and the shape spreads the rest over the resources.
        With the step `ball` it is that of the first round, and twice the half axis is hidden.
        """
        privacy = self.agreement.privacy
        T, m, width = self.agreement.rounds, len(self.agreement.resources), self.agreement.width
        if self._axes is not None:
            return math.sqrt(T * (T + 1) / 2) * 2.0 * self._axes.astype(np.float64)
        spread = np.zeros((*caps.shape[:-1], width))
        if privacy is None:
            return spread
        c = quantities(self.agreement).capacity
        if privacy.noise == "norm":
            weights = np.sqrt(((caps * c) ** 2).sum(axis=-1, keepdims=True)) / c
        else:
            weights = math.sqrt(m) * caps
        # A number that is always 0 hides nothing and needs no noise.
        spread[..., :m] = np.where(caps > 0, weights, 0.0) * math.sqrt(T * width / m)
        spread[..., m:] = math.sqrt(T * width) * self.agreement.ticks
        return spread
