"""How near the prices of a finished session were to the best ones, round by round.

The yardstick is the optimum that only an owner of all data could find: it judges sessions
that are over, and may choose nothing in any of them.
"""

from collections.abc import Iterator

import numpy as np

from protocol.agreement.quantities import quantities
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome
from protocol.rounds import RoundEngine, RoundState
from scripts.lab.common.instances import Instance, dual_value

LEVELS = (0.01, 0.001, 0.0001)
"""Gaps, as parts of the optimum, for which the rounds needed are counted."""


def gap(dual: float, optimum: float) -> float:
    """How far a dual value is above the optimum, as a part of it; it may well be negative."""
    return (dual - optimum) / abs(optimum)


def told(state: RoundState, capacity: Floats) -> Floats:
    """The prices that a session would have come to, had it ended here.

    The weighted ones where its rule has weights, else the last: those that a method without
    a proof could be judged by.
    """
    if state.certificate is None:
        return state.prices.current
    return state.certificate.prices / capacity


def told_by_round(known: Outcome) -> Iterator[Floats]:
    """These prices after 0, 1, … rounds of a session that was played."""
    engine = RoundEngine(known.agreement)
    state = engine.opening
    yield told(state, quantities(known.agreement).capacity)
    for values in known.released:
        state = engine.advance(state, values)
        yield told(state, quantities(known.agreement).capacity)


def gaps(known: Outcome, instance: Instance, optimum: float) -> Floats:
    """The gap at these prices after 0, 1, … rounds."""
    problems = instance.subproblems()
    duals = (dual_value(instance, problems, prices) for prices in told_by_round(known))
    return np.array([gap(dual, optimum) for dual in duals])


def first_below(values: Floats, level: float) -> int | None:
    """The first round with a gap of at most `level`, if there is one."""
    reached = np.flatnonzero(values <= level)
    return int(reached[0]) if len(reached) else None
