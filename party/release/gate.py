"""The only door out of the private data. For a given round it opens once, whatever crashes.

Solve, clamp, count ticks, add noise, mask, sign, record, and only then hand out. Nothing else in
this project draws noise, and nothing un-noised leaves this file, but to the own ledger where
releases are masked: no log, no error, no length and no retry says anything about the answer of
the subproblem.
"""

from collections.abc import Callable

import numpy as np

from party.ledger.session_ledger import Ledger
from party.model.best_response import Answer, Responder
from party.release.masks import Masks
from party.release.noise import Noise
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import BadCommand, InternalError
from protocol.numeric import Floats, Ticks
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import floor_ticks
from protocol.rounds import RoundState
from protocol.wire.messages import VALUE_LIMIT, Message, Release, Signed


def clamped(agreement: Agreement, demand: Floats, objective: Floats, caps: Ticks) -> Ticks:
    """Demands above the floor, and objectives where they are shared, in ticks within [0, cap].

    For one party, or for any number of them along the leading axes. Un-noised.
    """
    with np.errstate(over="ignore"):  # infinite is cut to the cap too, and a warning would tell
        ticks, limits = demand / quantities(agreement).capacity * agreement.ticks, caps
        if agreement.objective_limit is not None:
            last = objective[..., None] / agreement.objective_limit * agreement.ticks
            ticks = np.concatenate([ticks, last], axis=-1)
            limits = np.concatenate([caps, np.full_like(caps[..., :1], agreement.ticks)], axis=-1)
    # fmax takes the other side where a number is not one.
    whole: Ticks = np.rint(np.fmin(np.fmax(ticks, 0.0), limits)).astype(np.int64)
    return whole


def truncated(agreement: Agreement, noisy: Ticks) -> Ticks:
    """Noisy numbers as they are released, for any number of parties along the leading axes.

    Post-processing: it costs no privacy.
    """
    if agreement.truncate:
        m = len(agreement.resources)
        demands = np.minimum(np.maximum(noisy[..., :m], floor_ticks(agreement)), agreement.ticks)
        noisy = np.concatenate([demands, noisy[..., m:]], axis=-1)
    return np.minimum(np.maximum(noisy, -VALUE_LIMIT), VALUE_LIMIT)


class Gate:
    """Releases a party's demand, once for each round.

    Guarantee: all that ever comes out for one session is (ε, δ)-LDP in the data set, for
    the ε and δ of the agreement (PRIVACY.md §3): every release is a function of the data
    clamped to public caps, plus the noise of `Calibration`, and there are at most T of them.
    Where only totals can be read a release carries the member's part of the noise and a mask, and
    the promise is that of §10: computational, and against at most the agreed colluders.
    In `exact` mode there is no noise and no guarantee; masked totals can tell one member (§13).
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
        self._ledger = ledger
        self._pack = pack
        self._masks = Masks(agreement, member, ledger, pack) if agreement.masked else None
        self._calibration = Calibration(agreement)
        self._scales = self._calibration.scales(quantities(agreement).share_ticks)[self._row]

    def release(self, state: RoundState) -> Signed:
        """The release of this position's round: the recorded one, or a new one.

        The mask key where the position asks for that.

        Guarantee: calling this again, in this process or after any crash, gives the same
        bytes; a round is never answered twice.
        """
        if self._masks is not None and state.unpaired:
            return self._masks.key(state)
        recorded = self._ledger.release(state.round)
        if recorded is not None:
            return recorded
        if state.over or state.round >= self._agreement.rounds:
            raise InternalError("one release more than agreed was asked for")
        caps = state.caps[self._row]
        answer = self._answer(state.prices.current)
        demand = self._demanded(answer, caps)
        noisy = self._noise.add(
            demand,
            self._calibration.scales(caps) if self._agreement.mode == "clipped" else self._scales,
            member=self._member,
            round=state.round,
        )
        said = truncated(self._agreement, noisy)
        masked = said if self._masks is None else self._masks.masked(said, state)
        release = self._pack(
            Release(
                sender=self._member,
                agreement=self._agreement.digest,
                round=state.round,
                chain_hash=state.chain_hash,
                values=tuple(masked.tolist()),
                masked=self._agreement.masked,
            )
        )
        self._ledger.record_release(
            release, (demand, said) if self._masks else None, answered=answer is not None
        )
        return release

    def ask(self, state: RoundState) -> None:
        """Let the solver begin, where it can work beside the party and is needed at all."""
        if self._ledger.release(state.round) is None:
            self._subproblem.ask(state.prices.current)

    def prepare(self) -> None:
        """Draw the noise of the next release, where that can be done before it is needed.

        The noise does not depend on the data, and is used once or never. In `clipped` mode
        it depends on caps that are not known yet.
        """
        if self._agreement.mode == "private":
            self._noise.prefetch(self._scales)

    def _demanded(self, answer: Answer | None, caps: Ticks) -> Ticks:
        """An answer in ticks, within the caps. Un-noised.

        A solver that fails, in whatever way, or is not ready counts as no demand above the floor.
        That too is a function of the data with the same range, so that the guarantee covers it
        and nobody outside can tell.
        """
        floor = quantities(self._agreement).floor[self._row]
        demand = np.zeros_like(floor) if answer is None else answer.demand - floor
        objective = np.array(0.0 if answer is None else answer.objective)
        return clamped(self._agreement, demand, objective, caps)

    def _answer(self, prices: Floats) -> Answer | None:
        try:
            return self._subproblem.answer(prices)
        except Exception:  # its text may hold private numbers: it goes nowhere
            return None
