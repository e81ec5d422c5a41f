"""Sends a release at a public time after its round opened, however long the solver took.

From the opening of a round to that time a party neither receives nor sends. It asks its solver,
draws noise, sleeps, takes the answer if there is one, makes and records the release, and sleeps
again. So what others can time depends only on the agreement and on when they sent themselves.
Never here: a look at the answer, or at whether there is one.
"""

import time

from party.ledger.session_ledger import Ledger
from party.release.gate import Gate
from protocol.rounds import RoundState
from protocol.wire.messages import Signed

_RESERVED = 0.2
"""Fraction of the pace that is reserved for noise, signature and disk. The solver stops before."""

_MOST_RESERVED_SECONDS = 0.25


class Pacer:
    """Makes the releases of one party at the pace of the session."""

    def __init__(self, pace_seconds: float) -> None:
        self._pace = pace_seconds
        self._solving_seconds = solving_seconds(pace_seconds)

    def now(self) -> float:
        """The clock of this party."""
        return time.monotonic()

    def release(self, gate: Gate, ledger: Ledger, state: RoundState, opened: float) -> Signed:
        """Make the release of a round that opened at this time. Returns when it is due.

        Guarantee: it is durable before that. A solver that is not ready counts as one that
        fails, and the steps are the same in both cases.
        """
        gate.ask(state)
        gate.prepare(state.round)  # a draw takes time: none may happen after the release is sent
        _sleep_until(opened + self._solving_seconds)
        release = gate.release(state)
        ledger.commit()
        _sleep_until(opened + self._pace)
        return release


def solving_seconds(pace_seconds: float) -> float:
    """How long the solver may take for an answer."""
    return pace_seconds - min(_RESERVED * pace_seconds, _MOST_RESERVED_SECONDS)


def _sleep_until(moment: float) -> None:
    while (left := moment - time.monotonic()) > 0.0:
        time.sleep(left)
