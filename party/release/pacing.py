"""When a release leaves: at its public time after the round opened, whatever the solver took.

From the opening of a round to that moment a party neither listens nor speaks: it asks its solver,
draws noise, sleeps, takes what answer there is, makes the release and its record, and sleeps again.
Everything that others can time follows from the agreement and from when they spoke themselves.
Nothing here looks at what was answered, or whether anything was.
"""

import time

from party.ledger.session_ledger import Ledger
from party.release.gate import Gate
from protocol.rounds import RoundState
from protocol.wire.messages import Signed

_MAKING = 0.2
"""The part of the pace that is kept for noise, signature and disk, and the most of it in seconds:
the solver is stopped by then."""
_MOST_MAKING_SECONDS = 0.25


class Pacer:
    """The pace of a session, for one party."""

    def __init__(self, pace_seconds: float) -> None:
        self._pace = pace_seconds
        self._solving = solving_seconds(pace_seconds)

    def now(self) -> float:
        """The time that all others of this party go by."""
        return time.monotonic()

    def release(self, gate: Gate, ledger: Ledger, state: RoundState, opened: float) -> Signed:
        """The release of a round that opened then. Returns when it must leave.

        Guarantee: it is durable before that. A solver that is not ready counts as one that
        fails, and the same is done in either case.
        """
        gate.ask(state)
        gate.prepare()  # a draw takes a time of its own: none may fall after the release has left
        _sleep_until(opened + self._solving)
        release = gate.release(state)
        ledger.commit()
        _sleep_until(opened + self._pace)
        return release


def solving_seconds(pace_seconds: float) -> float:
    """How long a solver has for an answer."""
    return pace_seconds - min(_MAKING * pace_seconds, _MOST_MAKING_SECONDS)


def _sleep_until(moment: float) -> None:
    while (left := moment - time.monotonic()) > 0.0:
        time.sleep(left)
