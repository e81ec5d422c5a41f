"""Random exact sessions in which one member lies ten rounds in a row, played as numbers alone.

`scripts/environment python -m tests.support.lying_sessions 200` plays sessions in which each
company's releases can be read. Honest members lose no more than CERTIFICATE.md, Theorem 9 (d),
allows. It stops at the first session that fails and names its seed. Otherwise it prints how many
lies were reported, how the sessions ended, and how many rounds they took.
"""

import sys
from collections.abc import Callable

import numpy as np

from party.model.best_response import Answer, Responder
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome
from scripts.lab.common.instances import draw
from tests.support.exact_sessions import (
    Figures,
    agreed,
    allocations,
    check_gains,
    play,
    problems_of,
)

Lie = Callable[[int, Floats, Floats], Floats]
"""What a member releases, from the round, its honest demand and the most that it may claim."""

ROUNDS = 10
"""The member lies this many rounds in a row."""

LIAR = 1


class Liar:
    """A member that answers with something else than its best plan."""

    def __init__(self, company: Responder, lie: Lie, most: Floats) -> None:
        self._company, self._lie, self._most, self._round = company, lie, most, -1

    def ask(self, prices: Floats) -> None:
        self._company.ask(prices)

    def answer(self, prices: Floats) -> Answer | None:
        honest = self._company.answer(prices)
        assert honest is not None
        self._round += 1
        demand = self._lie(self._round, honest.demand, self._most)
        return Answer(honest.objective, demand, honest.plan)


def at_random(number: int, honest: Floats, most: Floats) -> Floats:
    return np.random.default_rng(number).uniform(0.0, 1.0, len(honest)) * most


def everything(number: int, honest: Floats, most: Floats) -> Floats:  # noqa: ARG001
    return most


def nothing(number: int, honest: Floats, most: Floats) -> Floats:  # noqa: ARG001
    return 0.0 * most


def half(number: int, honest: Floats, most: Floats) -> Floats:  # noqa: ARG001
    return 0.5 * honest


LIES = (everything, nothing, at_random, half)


def for_ten_rounds(lie: Lie, first: int) -> Lie:
    """Lie from this round on for ten rounds, and answer honestly before and after."""

    def answer(number: int, honest: Floats, most: Floats) -> Floats:
        return lie(number, honest, most) if first <= number < first + ROUNDS else honest

    return answer


def lying_session(seed: int, figures: Figures) -> None:
    """One session. Raises `AssertionError` if an honest member loses more than is proved."""
    rng = np.random.default_rng([seed, 3])
    kind, first = LIES[seed % len(LIES)], int(rng.choice([0, 10, 20]))
    instance = draw(seed, parties=5, demands=rng.random() < 0.5)
    worth = 100.0 if rng.random() < 0.5 else None
    agreement = agreed(instance, worth=worth)
    problems, public = problems_of(agreement, instance), quantities(agreement)
    most = (public.share * public.capacity)[LIAR]
    problems[LIAR] = Liar(problems[LIAR], for_ten_rounds(kind, first), most)
    found = play(agreement, problems)
    if {one.member for one in found.inconsistencies} - {f"party{LIAR + 1}"}:
        raise AssertionError(f"seed {seed}: an honest member is named: {found.inconsistencies}")
    reported = "reported" if found.inconsistencies else "not seen"
    ended = "no trade" if found.no_trade else "trade"
    short = "ended before it was over" if found.rounds <= first + ROUNDS else "ended later"
    figures.kinds[f"{kind.__name__}, {short}: {reported}, {ended}"] += 1
    figures.note(f"rounds, {kind.__name__}", found.rounds)
    more = sum(one.amount for one in found.inconsistencies) + _allowed(found)
    given, where = allocations(found), f"seed {seed}"
    check_gains(found, instance, given, figures, where, liar=LIAR, more=more)


def _allowed(found: Outcome) -> float:
    """The largest ε of one member in a round with weight, as CERTIFICATE.md §9 has it."""
    agreement = found.agreement
    asked = (found.path[:-1] * quantities(agreement).capacity).sum(axis=1).tolist()
    counted = [asked[number] for number, weight in enumerate(found.weights) if weight]
    gap, ticks = agreement.pricing.answer_gap or 0.0, agreement.ticks
    each = gap / len(agreement.members)
    allowed = [each * max(worth, found.worth) + 2.0 / ticks * worth for worth in counted]
    return float(max(allowed))


def main() -> None:
    count = int(sys.argv[1])
    figures = Figures()
    for seed in range(count):
        lying_session(seed, figures)
    for name, number in sorted(figures.kinds.items()):
        print(f"{number:6} {name}")
    for what, value in sorted(figures.worst.items()):
        print(f"most {what}: {value:.3g}")
    print(f"{count} sessions: no honest member is named, none loses more than proved")


if __name__ == "__main__":
    main()
