"""Whether answers of exact sessions can be best plans: from public numbers alone.

A company that answers with best plans of any model never contradicts itself, and neither does the
sum of such companies (CERTIFICATE.md §9). So a contradiction is a fact about answers. It says
neither why they are wrong nor who intended it. Adversary: a member that answers with numbers that
no model gives. A lie that fits some other model is not seen here. Never here: private numbers.
"""

import math

import numpy as np
from msgspec import Struct

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import net_prices, quantities
from protocol.numeric import Floats, Ticks, row_sums
from protocol.pricing.center import Certificate
from protocol.pricing.paths import worst_contradiction

MOST_ROUNDS = 1000
"""The most rounds that are compared with each other. Of more rounds, the first half of this number
and the last half are compared."""


class Inconsistency(Struct, frozen=True):
    """Answers that contradict each other by more than the agreement allows. Public."""

    #: Whose answers they are; empty if only totals can be read.
    member: str
    #: The rounds that show it, in the order of their cycle.
    rounds: tuple[int, ...]
    #: On average each of these answers is at least this much worse than the best, in money, after
    #: what is allowed is taken off.
    amount: float
    #: What is allowed for each of these answers, on average.
    allowed: float


def inconsistencies(
    agreement: Agreement, certificate: Certificate, *, prices: Floats, released: Ticks
) -> tuple[Inconsistency, ...]:
    """The worst contradiction of each member that has one, or of the totals; rounds come first.

    Guarantee: the same on every machine. Empty if every answer was as near to a best plan as the
    agreement asks.
    """
    resources, K = len(agreement.resources), len(agreement.members)
    rounds = _compared(len(released))
    asked: Floats = prices[rounds] * quantities(agreement).capacity
    demands = released[rounds, :, :resources]
    answers = {m.name: (demands[:, k], 1) for k, m in enumerate(agreement.members)}
    if agreement.masked:
        answers = {"": (demands.sum(axis=1), K)}  # 64 bits that wrap, as masks do
    found = []
    for name, (ticks, members) in answers.items():
        allowed = _allowed(agreement, certificate, asked, members)
        worst = worst_contradiction(asked, -(ticks / agreement.ticks), allowed)
        if worst is not None:
            shown = [int(rounds[i]) for i in worst.rounds]
            mean = math.fsum(allowed[list(worst.rounds)].tolist()) / len(shown)
            found.append(Inconsistency(name, tuple(shown), worst.amount, mean))
    return tuple(found)


def _compared(count: int) -> Ticks:
    half = MOST_ROUNDS // 2
    every = np.arange(count)
    return every if count <= MOST_ROUNDS else np.concatenate([every[:half], every[-half:]])


def _allowed(agreement: Agreement, certificate: Certificate, asked: Floats, members: int) -> Floats:
    """For each round, how far the answers of this many members may be from the best, in money.

    It is their part of the agreed gap, a fraction of what all capacities are worth in that round or
    in the outcome. Two ticks of each member and resource are added for rounding.
    """
    gap = (agreement.pricing.answer_gap or 0.0) / len(agreement.members)
    opposites = quantities(agreement).opposites
    worth = row_sums(net_prices(asked, opposites))
    at_least = np.maximum(worth, math.fsum(net_prices(certificate.prices, opposites).tolist()))
    allowed: Floats = members * (gap * at_least + 2.0 / agreement.ticks * row_sums(asked))
    return allowed
