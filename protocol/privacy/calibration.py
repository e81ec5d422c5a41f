"""From a budget (ε, δ) to the noise of every released number, and back.

Each function states what it guarantees; `PRIVACY.md` has the proofs. Nothing here draws
noise, and nothing here may depend on private data: every argument is public.

Symbols of the paper: T rounds, m resources, K parties, c capacities, ρ the zCDP budget,
Δ the sensitivity of one number, σ its noise, μ = √(Σ Δ²/σ²) over all released numbers,
M the distance to the best prices, B the bound on the noisy subgradient, ν the step.
"""

import math

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import BadAgreement, InternalError
from protocol.numeric import Floats, Ticks
from protocol.privacy import collusion
from protocol.privacy.accountant import (
    _SLACK,
    IntegerNoiseCost,
    PrivacyCost,
    _last_true,
    discreteness,
    rho,
)
from protocol.privacy.sensitivity import smallest_cap

NOISE_LIMIT = float(1 << 42)
"""Largest noise in ticks that an agreement may ask for (four million capacities)."""

LEAST_PART = 3.0
"""Noise in ticks below which a member's part may not be, where parts are added up unseen."""


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
        scales = self.scales(quantities(agreement).share_ticks)
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
        if caps.shape != quantities(self.agreement).share.shape:
            raise InternalError("parts of the noise were asked for without all members' caps")
        parts: Floats = np.sqrt(collusion.parts(spread**2, self.colluders))
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
            spent = PrivacyCost(mu**2, self._discreteness(smallest / mu, mu**2))
            return spent.gaussian_delta(privacy.epsilon) <= privacy.delta

        return max(paper, _last_true(holds) * (1.0 - _SLACK))

    @property
    def per_release(self) -> PrivacyCost:
        """What each release of a party costs it.

        Guarantee: all T of them together cost no more than the (ε, δ) of the agreement; a
        session that stops early has spent the releases it made and no more.
        """
        if not self.mu or self.agreement.rehearsal:
            return PrivacyCost(mu_squared=math.inf)
        rounds, mu_squared = self.agreement.rounds, self.mu**2
        cost = self._discreteness(self._smallest_spread() / self.mu, mu_squared)
        each = IntegerNoiseCost(cost.reserve, cost.factor / rounds)
        return PrivacyCost(mu_squared / rounds, each)

    def _discreteness(self, sigma: Floats, mu_squared: float) -> IntegerNoiseCost:
        """What whole ticks cost in all T rounds, if no number ever has less noise than this."""
        T, m, width = self.agreement.rounds, len(self.agreement.resources), self.agreement.width
        privacy = self.agreement.privacy
        # Each number takes an equal part of μ², or one resource may take that of all m.
        parts = T * width / (1 if privacy is not None and privacy.noise == "component" else m)
        return discreteness(sigma, rounds=T, dearest=mu_squared / parts, total=mu_squared)

    def against(self, colluders: int) -> PrivacyCost:
        """Worst-case privacy cost of any member against `colluders` colluding members.

        Where only totals are read. Guarantee: up to the agreed number it is no more than the
        agreement's ε and δ; beyond, it is what the noise of the others still hides. All others
        together (K − 1) are also the bound for the one who moves a payment (PRIVACY.md §11).
        """
        caps = quantities(self.agreement).share_ticks
        if self.colluders is None or not self.mu or self.agreement.rehearsal:
            return PrivacyCost(mu_squared=math.inf)
        hiding = collusion.left(self.scales(caps) ** 2, colluders)
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
        return PrivacyCost(mu_squared, cost)

    def _smallest_spread(self) -> Floats:
        """The smallest σ·μ that can ever hide each number of a release, where it is hidden."""
        spread = self._spread(self._smallest_caps())
        hiding = spread
        if self.colluders is not None:
            hiding = np.sqrt(
                collusion.left(
                    self._parts(quantities(self.agreement).share_ticks) ** 2, self.colluders
                )
            )
        smallest: Floats = np.where(spread > 0.0, hiding, math.inf).min(axis=0)
        return smallest[np.isfinite(smallest)]

    def _smallest_caps(self) -> Ticks:
        """No cap of any member in any round is below these."""
        if self.agreement.mode != "clipped":
            return quantities(self.agreement).share_ticks
        least = smallest_cap(self.agreement)
        if least < 1:
            raise BadAgreement(
                f"privacy.tau is {self.agreement.tau:g}: with {len(self.agreement.members)} "
                "members a cap could fall to nothing; choose a larger tau"
            )
        return np.minimum(quantities(self.agreement).share_ticks, least)

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
        c = quantities(self.agreement).capacity
        if privacy.noise == "norm":
            weights = np.sqrt(((caps * c) ** 2).sum(axis=-1, keepdims=True)) / c
        else:
            weights = math.sqrt(m) * caps
        # A number that is always 0 hides nothing and needs no noise.
        spread[..., :m] = np.where(caps > 0, weights, 0.0) * math.sqrt(T * width / m)
        spread[..., m:] = math.sqrt(T * width) * self.agreement.ticks
        return spread
