"""From a budget (ε, δ) to the noise of every released number, and back.

Each function states what it guarantees; PRIVACY.md has the proofs. Every argument is public.
Never here: drawing noise, private numbers.

Symbols of the paper: T rounds, m resources, K parties, c capacities, ρ the zCDP budget, Δ the
sensitivity of one number, σ its noise, μ = √(Σ Δ²/σ²) over all released numbers.
"""

import math

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
from protocol.privacy.sensitivity import smallest_cap

NOISE_LIMIT = float(1 << 42)
"""The largest noise that an agreement may need, in ticks (four million capacities)."""

LEAST_PART = 3.0
"""The smallest noise of one member, in ticks, if only the sum of all noise is public."""


class Calibration:
    """The noise of every number of a session, from the agreement.

    Guarantee: suppose that in each of at most T rounds a party releases its values, clamped to
    [0, cap], plus independent discrete Gaussian noise of `scales(caps)`. Then all its releases
    are (ε, δ)-LDP for the agreement's ε and δ, whatever the others do. If releases are masked,
    the totals are, against any `colluders` members, if the other members add their noise.
    """

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self.colluders = None if agreement.privacy is None else agreement.privacy.colluders
        self.mu = self._multiplier()
        scales = self.scales(quantities(agreement).share_ticks)
        largest = scales.max()
        if largest > NOISE_LIMIT:
            raise BadAgreement(
                f"privacy: the noise would be {largest / agreement.ticks:.3g} times the capacity, "
                "more than a release can carry; choose fewer rounds, or a larger epsilon or delta"
            )
        least = scales[scales > 0.0].min(initial=math.inf)
        if self.colluders is not None and least < LEAST_PART:
            raise BadAgreement(
                f"reveal is 'totals', and some member would add noise of {least:.3g} ticks. Below "
                f"{LEAST_PART:g} ticks nothing is proved about the sum of all noise; choose a "
                "smaller epsilon, more rounds, larger shares, or reveal = 'each'"
            )

    def scales(self, caps: Ticks) -> Floats:
        """σ in ticks of each number of a release, for each row of caps.

        With shared objectives the last number is the objective, whose cap is all its ticks. If
        releases are masked, `caps` must have a row for every member.
        """
        return self._added(caps) / (self.mu or 1.0)

    def _added(self, caps: Ticks) -> Floats:
        """σ·μ of what each member adds: enough to hide it alone, or its share of joint noise."""
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
        """What each release of a party costs it.

        Guarantee: all T releases together cost no more than the (ε, δ) of the agreement. A
        session that stops early has cost only the releases it made.
        """
        if not self.mu or self.agreement.rehearsal:
            return PrivacyCost(mu_squared=math.inf)
        rounds, mu_squared = self.agreement.rounds, self.mu**2
        cost = self._discreteness(self._smallest_spread() / self.mu, mu_squared)
        each = IntegerNoiseCost(cost.reserve, cost.factor / rounds)
        return PrivacyCost(mu_squared / rounds, each)

    def _discreteness(self, sigma: Floats, mu_squared: float) -> IntegerNoiseCost:
        """What whole ticks cost in all T rounds, if every number has at least this noise."""
        T, m, width = self.agreement.rounds, len(self.agreement.resources), self.agreement.width
        privacy = self.agreement.privacy
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

    def _smallest_spread(self) -> Floats:
        """A lower bound on σ·μ of what hides each number of a release; hidden numbers only."""
        hiding = spread = self._spread(self._smallest_caps())
        if self.colluders is not None:
            added = self._added(quantities(self.agreement).share_ticks)
            hiding = np.sqrt(collusion.remaining_noise(added**2, self.colluders))
        smallest: Floats = np.where(spread > 0.0, hiding, math.inf).min(axis=0)
        return smallest[np.isfinite(smallest)]

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
        """
        privacy = self.agreement.privacy
        T, m, width = self.agreement.rounds, len(self.agreement.resources), self.agreement.width
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
