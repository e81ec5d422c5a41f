"""The gate: the only code that makes releases. It answers each round once, despite crashes.

It solves, clamps, converts to ticks, adds noise, masks, signs, records, and only then returns.
Never here: an un-noised number that leaves, except to the own ledger if releases are masked. No
log, error, length or retry depends on the answer of the subproblem.
"""

import math
from collections.abc import Callable

import numpy as np

from party.ledger.session_ledger import Ledger
from party.model.best_response import Answer, Responder
from party.release.masks import Masks
from party.release.noise import DRAWN_AHEAD, Noise
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import BadCommand, InternalError
from protocol.numeric import Floats, Ticks
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import floor_ticks
from protocol.rounds import RoundState
from protocol.wire.messages import VALUE_LIMIT, Message, Release, Signed


def clamped(agreement: Agreement, demand: Floats, objective: Floats, caps: Ticks) -> Ticks:
    """Demands above the floor, and objectives if they are shared, in ticks within [0, cap].

    For one party, or for several along the leading axes. Un-noised.
    """
    with np.errstate(over="ignore"):  # infinity is clamped too; a warning would reveal it
        ticks, limits = demand / quantities(agreement).capacity * agreement.ticks, caps
        if agreement.objective_limit is not None:
            last = objective[..., None] / agreement.objective_limit * agreement.ticks
            ticks = np.concatenate([ticks, last], axis=-1)
            limits = np.concatenate([caps, np.full_like(caps[..., :1], agreement.ticks)], axis=-1)
    # fmax and fmin replace a NaN by the bound.
    within: Ticks = np.rint(np.fmin(np.fmax(ticks, 0.0), limits)).astype(np.int64)
    return within


def truncated(agreement: Agreement, noisy: Ticks) -> Ticks:
    """Noisy numbers as they are released, for one party or several along the leading axes.

    This is post-processing, which costs no privacy.
    """
    if agreement.truncate:
        m = len(agreement.resources)
        demands = np.minimum(np.maximum(noisy[..., :m], floor_ticks(agreement)), agreement.ticks)
        noisy = np.concatenate([demands, noisy[..., m:]], axis=-1)
    return np.minimum(np.maximum(noisy, -VALUE_LIMIT), VALUE_LIMIT)


def within_ball(agreement: Agreement, row: int, demand: Floats) -> Ticks:
    """A member's demand above the floor, in ticks, clipped to its ball. Un-noised.

    What is not a number counts as the centre: the whole answer does. Then the member's share is
    clipped instead and not used, so that this takes as long as with an answer.
    """
    from protocol.privacy.ball import ball, clip

    public, caps = ball(agreement), quantities(agreement).share_ticks[row]
    center: Ticks = public.center[row]
    answered = np.isfinite(demand).all()
    ticks = clamped(agreement, demand, np.zeros(()), caps)
    clipped = clip(
        (ticks if answered else caps).tolist(), center.tolist(), public.axes[row].tolist()
    )
    return np.array(clipped, dtype=np.int64) if answered else center


class Gate:
    """Releases a party's demand, once for each round.

    Guarantee: all releases of one session together are (ε, δ)-LDP in the data set, for the ε and δ
    of the agreement (PRIVACY.md §3). Every release is a function of the data, clamped to public
    caps or clipped to a public ball, plus the noise of `Calibration`, and there are at most T of
    them. If only totals are public, a release has the member's share of the noise and a mask; the
    guarantee is then computational, and against at most the agreed colluders (§10). In `exact`
    mode there is no noise and no guarantee; masked totals can reveal a member's answers (§13).
    """

    def __init__(
        self,
        agreement: Agreement,
        member: str,
        *,
        subproblem: Responder,
        noise: Noise,
        ledger: Ledger,
        pack: Callable[[Message], Signed],
    ) -> None:
        if not noise.private and not agreement.rehearsal:
            raise BadCommand(
                f"seeded noise gives no privacy and {agreement.session!r} is not a rehearsal; "
                "leave out the seed"
            )
        self._agreement = agreement
        self._member = member
        self._row = agreement.place(member)
        self._subproblem = subproblem
        self._noise = noise
        if agreement.privacy is not None:
            noise.load()  # now: a paced release must not wait for it
        self._ledger = ledger
        self._pack = pack
        self._masks = Masks(agreement, member, ledger, pack) if agreement.masked else None
        self._calibration = Calibration(agreement)
        self._scales = self._calibration.scales(quantities(agreement).share_ticks)[self._row]

    def release(self, state: RoundState) -> Signed:
        """What this state awaits, recorded or new: a release, the mask key, or the commitments.

        Guarantee: another call, in this process or after a crash, gives the same bytes. A round is
        never answered twice.
        """
        if self._masks is not None and state.unpaired:
            return self._masks.key(state)
        if self._masks is not None and state.uncommitted:
            from party.release.commitments import commitment  # needed once, at the end

            return commitment(
                self._agreement, self._member, self._ledger, self._masks, self._pack, state
            )
        recorded = self._ledger.release(state.round)
        if recorded is not None:
            return recorded
        if state.over or state.round >= self._agreement.rounds:
            raise InternalError("the session asked for more releases than agreed")
        caps = state.caps[self._row]
        answer = self._answer(state.prices.current)
        demand = self._demand_ticks(answer, caps)
        scales = self._scales_of(state.round)
        if self._agreement.mode == "clipped":
            scales = self._calibration.scales(caps)
        noisy = self._noise.add(demand, scales, member=self._member, round=state.round)
        unmasked = truncated(self._agreement, noisy)
        values = unmasked if self._masks is None else self._masks.masked(unmasked, state)
        release = self._pack(
            Release(
                sender=self._member,
                agreement=self._agreement.digest,
                round=state.round,
                chain_hash=state.chain_hash,
                values=tuple(values.tolist()),
                masked=self._agreement.masked,
            )
        )
        self._ledger.record_release(
            release, (demand, unmasked) if self._masks else None, answered=answer is not None
        )
        return release

    def ask(self, state: RoundState) -> None:
        """Start a solver that runs in a process of its own, if this round needs an answer."""
        if self._ledger.release(state.round) is None:
            self._subproblem.ask(state.prices.current)

    def prepare(self, round: int) -> None:  # noqa: A002
        """Draw the noise of the release of this round ahead of time, if its scale is known.

        The noise does not depend on the data, and is used at most once. In `clipped` mode it
        depends on caps that are not known yet. With the step `ball` no two rounds share a scale.
        """
        if self._agreement.mode == "private" and round < self._agreement.rounds:
            ahead = 1 if self._agreement.ball else DRAWN_AHEAD
            self._noise.prefetch(self._scales_of(round), ahead)

    def _scales_of(self, round: int) -> Floats:  # noqa: A002
        """σ of this member's numbers, unless caps change."""
        if not self._agreement.ball:
            constant: Floats = self._scales
            return constant
        shares = quantities(self._agreement).share_ticks
        own: Floats = self._calibration.scales(shares, round)[self._row]
        return own

    def _demand_ticks(self, answer: Answer | None, caps: Ticks) -> Ticks:
        """An answer in ticks, within the caps. Un-noised.

        A solver that fails or is not ready counts as no demand above the floor; with the step
        `ball`, as the centre. That is also a function of the data with the same range: the
        guarantee covers it, and no peer can tell.
        """
        floor = quantities(self._agreement).floor[self._row]
        if self._agreement.ball:
            demand = np.full_like(floor, math.nan) if answer is None else answer.demand - floor
            return within_ball(self._agreement, self._row, demand)
        demand = np.zeros_like(floor) if answer is None else answer.demand - floor
        objective = np.array(0.0 if answer is None else answer.objective)
        return clamped(self._agreement, demand, objective, caps)

    def _answer(self, prices: Floats) -> Answer | None:
        try:
            return self._subproblem.answer(prices)
        except Exception:  # its text may hold private numbers: it is dropped
            return None
