"""Outcomes of sessions that are played as numbers alone."""

from typing import Any

import numpy as np

from protocol.agreement.model import Agreement
from protocol.outcome.outcome import Outcome
from protocol.rounds import RoundEngine


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
