"""Outcomes of sessions that are played as numbers alone."""

from collections import deque
from typing import Any

import numpy as np

from protocol.agreement.model import Agreement
from protocol.outcome.outcome import Outcome
from protocol.outcome.replay import round_states
from protocol.rounds import RoundEngine, RoundState
from protocol.wire.transcript import Transcript


def outcome_of(agreement: Agreement, rounds: Any) -> Outcome:
    """The outcome after these releases, rounds by members by numbers, without seals."""
    engine, shape = RoundEngine(agreement), (-1, len(agreement.members), agreement.width)
    released = np.array(rounds, dtype=np.int64).reshape(shape)
    states = [engine.opening]
    for values in released:
        states.append(engine.advance(states[-1], values))
    return Outcome(
        agreement=agreement,
        state=states[-1],
        released=released,
        path=np.array([state.prices.current for state in states]),
        sealed=False,
    )


def replay(agreement: Agreement, transcript: Transcript) -> RoundState:
    """The last round state of a transcript. All states are verified on the way."""
    return deque(round_states(agreement, transcript), maxlen=1)[0]
