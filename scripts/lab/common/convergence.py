"""How near the prices of a finished session were to the optimum, round by round.

The reference is the optimum that only an owner of all data could compute. It judges finished
sessions and must never influence one.
"""

from collections.abc import Iterator

import numpy as np

from protocol.agreement.quantities import quantities
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome
from protocol.rounds import RoundEngine, RoundState
from scripts.lab.common.instances import Instance, dual_value

LEVELS = (0.01, 0.001, 0.0001)
"""Gaps, as fractions of the optimum, for which the rounds needed are counted."""


def gap(dual: float, optimum: float) -> float:
    """How far a dual value is above the optimum, as a fraction of it. It can be negative."""
    return (dual - optimum) / abs(optimum)


def outcome_prices(state: RoundState, capacity: Floats) -> Floats:
    """The prices of the outcome if the session had ended here.

    These are the weighted prices if the price rule has weights, else the last prices.
    """
    if state.certificate is None:
        return state.prices.current
    return state.certificate.prices / capacity


def outcome_prices_by_round(outcome: Outcome) -> Iterator[Floats]:
    """The prices of the outcome after 0, 1, … rounds of a session."""
    engine = RoundEngine(outcome.agreement)
    state = engine.opening
    yield outcome_prices(state, quantities(outcome.agreement).capacity)
    for values in outcome.released:
        state = engine.advance(state, values)
        yield outcome_prices(state, quantities(outcome.agreement).capacity)


def gaps(outcome: Outcome, instance: Instance, optimum: float) -> Floats:
    """The gap at the prices of the outcome after 0, 1, … rounds."""
    problems = instance.subproblems()
    duals = (dual_value(instance, problems, prices) for prices in outcome_prices_by_round(outcome))
    return np.array([gap(dual, optimum) for dual in duals])


def first_below(values: Floats, level: float) -> int | None:
    """The first round with a gap of at most `level`, if there is one."""
    reached = np.flatnonzero(values <= level)
    return int(reached[0]) if len(reached) else None
