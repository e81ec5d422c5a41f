"""The prices of DISROPT's dual subgradient method, computed in one process.

All agents weigh all others equally, so each computes the mean of all prices. Each then moves by its
own demand, and never below 0. The same steps give the same prices as under mpirun. Only an owner of
all data can know the best step; here it is searched, in favour of DISROPT.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from protocol.numeric import Floats
from scripts.lab.common.convergence import gap
from scripts.lab.common.instances import Instance, central
from scripts.lab.study.replicate import Companies

LIMIT = 3_000
"""Rounds after which a step is abandoned."""

CONSTANTS = tuple(10.0 ** (i / 4.0) for i in range(-4, 15))
"""a of the steps a/√t, from far too short to far too long for the paper's problems."""

LIKELY = 10.0
"""Where the search starts, so that other steps are abandoned sooner."""

REFINEMENTS = tuple(10.0 ** (i / 16.0) for i in (-3, -2, -1, 1, 2, 3))
"""Factors that refine the best constant."""


class Hindsight(Struct, frozen=True):
    """The step that reached a level first, and after how many rounds; None if none did."""

    constant: float | None
    rounds: int | None


def prices(companies: Companies, step: Callable[[int], float]) -> Iterator[tuple[Floats, float]]:
    """The prices of every agent after 0, 1, … rounds, and the dual value there."""
    capacity = companies.capacity
    mean: Floats = np.zeros_like(capacity)
    number = 0
    while True:
        demand, objective = companies.answers(mean)
        yield mean, float(mean @ capacity + objective.sum())
        own = mean + step(number) * (demand - capacity / len(demand))
        number += 1
        mean = np.maximum(own, 0.0).mean(axis=0)


def best_in_hindsight(
    instance: Instance, levels: Sequence[float], limit: int = LIMIT
) -> dict[float, Hindsight]:
    """The best step for each level. A step is abandoned once it is slower than the best."""
    companies, optimum = Companies(instance), central(instance).utility
    best = {level: Hindsight(None, None) for level in levels}
    strictest = min(levels)

    def follow(constant: float) -> None:
        path = prices(companies, lambda number: constant / math.sqrt(number + 1))
        for number, (_, dual) in enumerate(path):
            distance = gap(dual, optimum)
            for level in levels:
                fewest = best[level].rounds
                if distance <= level and (fewest is None or number < fewest):
                    best[level] = Hindsight(constant, number)
            reached = best[strictest].rounds
            if number >= (limit if reached is None else reached):
                return

    for constant in sorted(CONSTANTS, key=lambda c: abs(math.log(c / LIKELY))):
        follow(constant)
    found = best[strictest].constant
    for factor in REFINEMENTS if found is not None else ():
        follow(found * factor)
    return best
