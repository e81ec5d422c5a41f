"""The outcome of a session: everything that follows from the agreement and the releases.

Public, and the same at every member and auditor, bit for bit. Settlement, pages, files and
commands read one `Outcome`, and none of them computes any of it again. Never here: private numbers.
"""

import math
from collections import deque
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import net_prices, quantities
from protocol.errors import InternalError
from protocol.numeric import Floats, Ticks, ordered_sum
from protocol.outcome import payments as payment
from protocol.outcome import public_quota as quotas
from protocol.outcome.allocation_rule import (
    AllocationRule,
    endowment_rule,
    exact_rule,
    noisy_rule,
    weighted_sums,
)
from protocol.outcome.ball_quota import ball_prices, ball_rule
from protocol.outcome.consistency import Inconsistency, inconsistencies
from protocol.outcome.margin import QuotaMargin, quota_margin
from protocol.outcome.replay import round_states
from protocol.outcome.trade import Trade, trade
from protocol.pricing.center import Certificate
from protocol.rounds import RoundState, excess_demand
from protocol.wire.transcript import Transcript


class Outcome(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """The outcome of a session after `rounds` rounds. Binding only if it is `sealed`."""

    agreement: Agreement
    #: The round state after the last closed round.
    state: RoundState
    #: Rounds by members by numbers.
    released: Ticks
    #: λ(0) and the prices after each round.
    path: Floats
    #: All seals are there. If not, the session is still running or some seals are missing.
    sealed: bool
    #: Members whose seals the holder of this copy lacks.
    unsealed: tuple[str, ...] = ()

    @property
    def rounds(self) -> int:
        """How many rounds were closed, which may be fewer than were agreed."""
        return self.state.round

    @property
    def last_prices(self) -> Floats:
        """λ after the last round. No member answered these prices."""
        return self.state.prices.current

    @property
    def certificate(self) -> Certificate | None:
        """The proof of how far the outcome can be from the best one, if the rounds give one."""
        return self.state.certificate

    @cached_property
    def prices(self) -> Floats:
        """The prices of the outcome, which plans and payments use.

        With the centre rule and the step `ball`, the weighted prices. With shared objectives,
        those of the best noisy dual value. Otherwise the mean over the last half of the rounds.
        """
        if self.certificate is not None:
            return self.certificate.prices / quantities(self.agreement).capacity
        if self.agreement.ball:
            return ball_prices(self.path, self.rounds)
        return self.average_prices if self.best_dual is None else self.best_dual[1]

    @property
    def late_rounds(self) -> int:
        """How many closed rounds belong to the last half of the agreed ones."""
        return quotas.late_rounds(self.agreement, self.rounds)

    @cached_property
    def average_prices(self) -> Floats:
        """The mean of λ(t) over the last half of the agreed rounds; before that, the last λ."""
        if not self.late_rounds:
            return self.last_prices
        late = self.path[-self.late_rounds :]
        return ordered_sum(np.vstack([np.zeros_like(late[:1]), late])) / len(late)

    @cached_property
    def best_dual(self) -> tuple[float, Floats] | None:
        """The smallest noisy dual value and its prices; None unless objectives are shared.

        The Remark after thm:convergence_tight.
        """
        limit = self.agreement.objective_limit
        if limit is None or not len(self.released):
            return None
        capacity, unit = quantities(self.agreement).capacity, limit / self.agreement.ticks
        rounds = zip(self.path, self.totals[:, -1].tolist(), strict=False)
        values = [math.fsum(prices * capacity) + float(total) * unit for prices, total in rounds]
        best = min(range(len(values)), key=values.__getitem__)
        return values[best], self.path[best]

    @property
    def ended_by_itself(self) -> bool:
        """Whether the price rule ended the session before the agreed number of rounds."""
        return self.state.over and self.rounds < self.agreement.rounds

    @cached_property
    def worth(self) -> float:
        """What all capacities together are worth at the prices of the outcome, opposites net."""
        agreed = quantities(self.agreement)
        return math.fsum(net_prices(self.prices * agreed.capacity, agreed.opposites))

    @property
    def certificate_part(self) -> float | None:
        """The bound of the certificate as a fraction of `worth`; None if either is missing."""
        if self.certificate is None or not self.worth > 0.0:
            return None
        return self.certificate.bound / self.worth

    @cached_property
    def totals(self) -> Ticks:
        """Rounds by numbers: the sums of all members' releases."""
        totals: Ticks = self.released.sum(axis=1)  # 64 bits that wrap, as masks do
        return totals

    @cached_property
    def excess_demand(self) -> Floats:
        """Rounds by resources: how far the total was above the capacity, as a fraction of it."""
        return excess_demand(self.agreement, self.released)

    @cached_property
    def average(self) -> tuple[Floats, Floats]:
        """What each member released on average, and the noise (σ) left in that, in ticks.

        If releases are masked there is one row, for all members together.
        """
        return quotas.average_release(self.agreement, self.released)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The weights of the rounds in quotas.

        Those of the certificate; with noisy totals those of the margin; otherwise 1 for each
        averaged round.
        """
        if self.certificate is not None:
            return tuple(self.certificate.weights)
        if self.agreement.masked and self.agreement.privacy is not None:
            return self.rule.weights
        return (0,) * (self.rounds - self.averaged_rounds) + (1,) * self.averaged_rounds

    @property
    def averaged_rounds(self) -> int:
        """How many of the last rounds `average` covers."""
        return quotas.averaged_rounds(self.agreement, self.rounds)

    @cached_property
    def weighted_total(self) -> Floats:
        """The total demand, averaged with the weights of the rounds, in units.

        With noise, it includes what is left of the noise.
        """
        terms, divisor = quantities(self.agreement), sum(self.weights) or 1
        sums = weighted_sums(self.weights, self.totals[:, : len(self.agreement.resources)])
        fractions: Floats = np.array([s / divisor / self.agreement.ticks for s in sums])
        total: Floats = fractions * terms.capacity + terms.floor.sum(axis=0)
        return total

    @cached_property
    def quota_margin(self) -> QuotaMargin | None:
        """What private quotas withhold for noise; None unless they rest on noisy totals."""
        noisy = self.agreement.masked and self.agreement.privacy is not None
        return quota_margin(self.agreement) if noisy else None

    @property
    def quota_risk(self) -> float:
        """An upper bound on the probability that all quotas together exceed some capacity."""
        privacy = self.agreement.privacy
        if self.quota_margin is None or privacy is None or self.quota_margin.pro_rata == 1:
            return 0.0
        return privacy.overrun or 0.0

    @cached_property
    def inconsistencies(self) -> tuple[Inconsistency, ...]:
        """Answers that contradict each other by more than is allowed; empty without a proof."""
        if self.certificate is None:
            return ()
        return inconsistencies(
            self.agreement, self.certificate, prices=self.path[:-1], released=self.released
        )

    @cached_property
    def trade(self) -> Trade | None:
        """Whether the members trade, and why not; None without a certificate."""
        if self.certificate is None:
            return None
        return trade(
            self.agreement,
            self.certificate,
            prices=self.path,
            totals=self.totals[:, : len(self.agreement.resources)],
            contradictions=self.inconsistencies,
        )

    @property
    def no_trade(self) -> bool:
        """Whether every member keeps its endowment and pays nothing."""
        return self.trade is not None and bool(self.trade.obstacles)

    @cached_property
    def rule(self) -> AllocationRule:
        """The rule by which each member computes its own quota, if releases are masked."""
        if self.agreement.ball:
            return ball_rule(self.agreement, self.totals)
        if self.agreement.privacy is not None:
            return noisy_rule(self.agreement, self.totals)
        if self.no_trade:
            return endowment_rule(self.agreement)
        return exact_rule(self.agreement, weighted_sums(self.weights, self.totals), self.weights)

    @cached_property
    def quota(self) -> Ticks:
        """Members by resources: what each may use, in ticks.

        Raises `InternalError` if releases are masked: then each member knows only its own quota.
        """
        if self.agreement.masked:
            raise InternalError("quotas of all members are unknown if only totals are public")
        if self.no_trade:
            return self.endowment
        if self.certificate is not None:
            return quotas.weighted_quota(self.agreement, self.released, self.certificate.weights)
        return quotas.quota(self.agreement, *self.average)

    @cached_property
    def endowment(self) -> Ticks:
        """Members by resources: what each member brings, in ticks."""
        return endowment(self.agreement)

    @cached_property
    def payments(self) -> Floats:
        """What each member pays for its quota above its endowment; they add up to zero.

        Raises `InternalError` if releases are masked, as `quota` does.
        """
        return payment.payments(self.agreement, self.prices, self.quota)


def no_claims(outcome: Outcome) -> str:
    """Why the members of a session cannot make claims; empty if they can."""
    agreement, committed = outcome.agreement, outcome.state.committed
    if not agreement.masked:
        return "quotas and payments are public"
    if agreement.commits and committed is None:
        return "commitments are missing"
    if committed is not None and not committed.adds_up:
        return "the commitments of all members do not add up"
    return "" if outcome.sealed else "seals are missing"


def outcome(
    agreement: Agreement, transcript: Transcript, *, unsealed: tuple[str, ...] = ()
) -> Outcome:
    """Verify and recompute a session. Raises `BadTranscript` if the transcript does not fit.

    `unsealed` names the members whose seals are missing.
    """
    [state] = deque(round_states(agreement, transcript), maxlen=1)
    sealed = len(transcript.seals) == len(agreement.members)
    return outcome_of(agreement, state, sealed=sealed, unsealed=unsealed)


def outcome_of(
    agreement: Agreement, state: RoundState, *, sealed: bool, unsealed: tuple[str, ...] = ()
) -> Outcome:
    """The outcome of a session that has reached this state. `outcome` describes `unsealed`."""
    history = state.history
    alone = replace(state, last=None)  # the arrays have its rounds; such a chain cannot be pickled
    released = np.array([one.values for one in history], dtype=np.int64)
    return Outcome(
        agreement=agreement,
        state=alone,
        released=released.reshape(-1, len(agreement.members), agreement.width),
        path=np.array([*(one.prices for one in history), state.prices.current]),
        sealed=sealed,
        unsealed=unsealed,
    )
