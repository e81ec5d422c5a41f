"""The only door out of the private data. For a given round it opens once, whatever crashes.

Solve, clamp, count ticks, add noise, sign, record, and only then hand out. Nothing else in
this project draws noise, and nothing un-noised leaves this file: no log, no error, no
length and no retry says anything about the answer of the subproblem.
"""

from collections.abc import Callable

import numpy as np

from party.ledger import Ledger
from party.noise import Noise
from party.subproblem import Subproblem
from protocol.agreement import TICKS, Agreement, Floats, Ticks
from protocol.caps import floor_ticks
from protocol.errors import BadCommand, BrokenInvariant
from protocol.messages import VALUE_LIMIT, Message, Release, Sealed
from protocol.privacy import NoisePlan
from protocol.transcript import Position


class Gate:
    """Releases a party's demand, once for each round.

    Guarantee: all that ever comes out for one session is (ε, δ)-LDP in the data set, for
    the ε and δ of the agreement (PRIVACY.md §3): every release is a function of the data
    clamped to public caps, plus the noise of `NoisePlan`, and there are at most T of them.
    In `hidden` mode there is no noise and no guarantee.
    """

    def __init__(
        self,
        agreement: Agreement,
        member: str,
        *,
        subproblem: Subproblem,
        noise: Noise,
        ledger: Ledger,
        pack: Callable[[Message], Sealed],
    ) -> None:
        if not noise.private and not agreement.rehearsal:
            raise BadCommand(
                f"seeded noise gives no privacy and {agreement.session!r} is not a rehearsal; "
                "leave out the seed"
            )
        self._agreement = agreement
        self._member = member
        self._row = agreement.position(member)
        self._subproblem = subproblem
        self._noise = noise
        self._ledger = ledger
        self._pack = pack
        self._plan = NoisePlan(agreement)
        self._scales = self._plan.scales(agreement.share_ticks[self._row])

    def release(self, position: Position) -> Sealed:
        """The release of this position's round: the recorded one, or a new one.

        Guarantee: calling this again, in this process or after any crash, gives the same
        bytes; a round is never answered twice.
        """
        recorded = self._ledger.release(position.round)
        if recorded is not None:
            return recorded
        if position.round >= self._agreement.rounds:
            raise BrokenInvariant("one release more than agreed was asked for")
        caps = position.caps[self._row]
        noisy = self._noise.add(
            self._clamped(position.prices.current, caps),
            self._plan.scales(caps) if self._agreement.mode == "clipped" else self._scales,
            member=self._member,
            round=position.round,
        )
        if self._agreement.truncate:
            m = len(self._agreement.resources)
            noisy[:m] = np.clip(noisy[:m], floor_ticks(self._agreement), TICKS)
        release = self._pack(
            Release(
                sender=self._member,
                agreement=self._agreement.digest,
                round=position.round,
                head=position.head,
                values=tuple(np.clip(noisy, -VALUE_LIMIT, VALUE_LIMIT).tolist()),
            )
        )
        self._ledger.record_release(release)
        return release

    def _clamped(self, prices: Floats, caps: Ticks) -> Ticks:
        """The demand at these prices in ticks, within [0, cap]. Un-noised.

        A solver that fails counts as no demand. That too is a function of the data with
        the same range, so that the guarantee covers it and nobody outside can tell.
        """
        m = len(self._agreement.resources)
        ticks = np.zeros(self._agreement.width)
        answer = self._subproblem.answer(prices)
        if answer is not None:
            ticks[:m] = answer.demand / self._agreement.capacity * TICKS
            if self._agreement.objective_limit is not None:
                ticks[m] = answer.objective / self._agreement.objective_limit * TICKS
        limits = np.append(caps, np.full(self._agreement.width - m, TICKS))
        # fmax takes the other side where a number is not one.
        whole: Ticks = np.rint(np.fmin(np.fmax(ticks, 0.0), limits)).astype(np.int64)
        return whole
