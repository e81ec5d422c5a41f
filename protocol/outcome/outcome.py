"""What a session came to: everything that follows from the agreement and what was released.

Public, and the same at every member and every auditor, bit for bit. Settlement, pages, files
and commands all ask one `Outcome`, and none of them computes any of it anew. No private
number may ever come here.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import InternalError
from protocol.numeric import Floats, Ticks
from protocol.outcome import payments as payment
from protocol.outcome import quota as quotas
from protocol.outcome.margin import QuotaMargin, quota_margin
from protocol.outcome.private_quota import AllocationRule, exact_rule, noisy_rule
from protocol.outcome.replay import positions
from protocol.pricing.center import Certificate
from protocol.rounds import RoundState, numbers, overrun
from protocol.wire.transcript import Transcript


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """Where a session stands after `position.round` rounds, and how it came there.

    `released` holds rounds by members by numbers, `path` λ(0) and the prices after each round.
    Binding only where it is `sealed`: else the session was still going on, or it is over and the
    seals of the members in `unsealed` are missing, as far as whoever tells it knows.
    """

    agreement: Agreement
    state: RoundState
    released: Ticks
    path: Floats
    sealed: bool
    unsealed: tuple[str, ...] = ()

    @property
    def rounds(self) -> int:
        """How many rounds were closed, which may be fewer than were agreed."""
        return self.state.round

    @property
    def last_prices(self) -> Floats:
        """λ after the last round, at which nobody was asked any more."""
        return self.state.prices.current

    @property
    def certificate(self) -> Certificate | None:
        """How near to the best the outcome is at least, where the rounds can prove it."""
        return self.state.certificate

    @cached_property
    def prices(self) -> Floats:
        """What the session says that a unit is worth: what plans and payments reckon with.

        The weighted prices of the centre rule, the best noisy ones where objectives are
        shared, otherwise the mean over the last half of the rounds.
        """
        if self.certificate is not None:
            return self.certificate.prices / quantities(self.agreement).capacity
        return self.state.average_prices if self.state.best is None else self.state.best[1]

    @property
    def ended_by_itself(self) -> bool:
        """Whether its rule ended the session before the agreed number of rounds."""
        return self.state.over and self.rounds < self.agreement.rounds

    @cached_property
    def worth(self) -> float:
        """What all capacities together are worth at the prices of the outcome."""
        return math.fsum(self.prices * quantities(self.agreement).capacity)

    @property
    def certificate_part(self) -> float | None:
        """The certificate as a part of that, where there is one and they are worth anything."""
        if self.certificate is None or not self.worth > 0.0:
            return None
        return self.certificate.bound / self.worth

    @cached_property
    def totals(self) -> Ticks:
        """Rounds by numbers: what all members have released together."""
        totals: Ticks = self.released.sum(axis=1)  # of 64 bits that wrap, as masks do
        return totals

    @cached_property
    def overrun(self) -> Floats:
        """Rounds by resources: how far the total was above the capacity, as a part of it."""
        return overrun(self.agreement, self.released)

    @cached_property
    def average(self) -> tuple[Floats, Floats]:
        """What each member released on average, and the noise (σ) left in that, in ticks.

        Where releases are masked there is one row, for all of them together.
        """
        return quotas.average(self.state)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """What the rounds weigh in quotas: as in the certificate, or the counted ones alike.

        Where only totals can be read and have noise, as was known beforehand.
        """
        if self.certificate is not None:
            return tuple(self.certificate.weights)
        if self.agreement.masked and self.agreement.privacy is not None:
            return self.rule.weights
        counted = self.state.counted
        return (0,) * (self.rounds - counted) + (1,) * counted

    @cached_property
    def weighted_total(self) -> Floats:
        """What all members asked for together, averaged with the weights of the rounds, in units.

        With noise, it is what the noise has left of that.
        """
        whole = sum(self.weights) or 1
        columns = self.totals[:, : len(self.agreement.resources)].T.tolist()
        sums = [sum(w * t for w, t in zip(self.weights, col, strict=False)) for col in columns]
        units: Floats = np.array([s / whole / self.agreement.ticks for s in sums])
        total: Floats = units * quantities(self.agreement).capacity + quantities(
            self.agreement
        ).floor.sum(axis=0)
        return total

    @cached_property
    def quota_margin(self) -> QuotaMargin | None:
        """What private quotas keep back for noise; None where quotas rest on no noisy total."""
        noisy = self.agreement.masked and self.agreement.privacy is not None
        return quota_margin(self.agreement) if noisy else None

    @property
    def quota_risk(self) -> float:
        """How likely it is, at most, that all quotas together exceed some capacity."""
        privacy = self.agreement.privacy
        if self.quota_margin is None or privacy is None or self.quota_margin.shares == 1:
            return 0.0
        return privacy.overrun or 0.0

    @cached_property
    def rule(self) -> AllocationRule:
        """How quotas follow from what only their members know, where releases are masked."""
        if self.agreement.privacy is not None:
            return noisy_rule(self.agreement, self.totals)
        return exact_rule(self.agreement, self.totals, self.weights)

    @cached_property
    def quota(self) -> Ticks:
        """Members by resources: what each may use, in ticks that no capacity has fewer of.

        Not where releases are masked: there each member knows its own, by `rule`.
        """
        if self.agreement.masked:
            raise InternalError("nobody knows all quotas where only totals can be read")
        if self.certificate is not None:
            return quotas.weighted(self.agreement, self.released, self.certificate.weights)
        return quotas.quota(self.agreement, *self.average)

    @cached_property
    def endowment(self) -> Ticks:
        """The same for what each would have without the others."""
        return payment.endowment(self.agreement)

    @cached_property
    def payments(self) -> Floats:
        """What each member pays for its quota above its endowment; together nothing.

        As with quotas, not where releases are masked.
        """
        return payment.payments(self.agreement, self.prices, self.quota)

    @cached_property
    def prorata(self) -> Ticks:
        """The same for the split that listens to nobody."""
        return quotas.prorata(self.agreement)


def outcome(
    agreement: Agreement, transcript: Transcript, *, unsealed: tuple[str, ...] = ()
) -> Outcome:
    """Verify and recompute a session. Raises `BadTranscript` where the transcript does not fit.

    `unsealed` names those whose seals are missing, for who has some of them.
    """
    path = []
    for state in positions(agreement, transcript):
        path.append(state.prices.current)  # not the whole position: there may be very many
    released = np.array([numbers(r) for r in transcript.rounds], dtype=np.int64)
    return Outcome(
        agreement=agreement,
        state=state,
        released=released.reshape(-1, len(agreement.members), agreement.width),
        path=np.array(path),
        sealed=len(transcript.seals) == len(agreement.members),
        unsealed=unsealed,
    )
