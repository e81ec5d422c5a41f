"""What rounds say about the dual value of each other's prices, and where they contradict.

The dual value D is convex with slope g_l at y_l, so D(y_i) − D(y_l) ≥ g_l·(y_i − y_l) for any two
rounds. The right side is the length of an arc from l to i, in money. A longest path from l to i is
then the most that these rounds prove D to rise, and a cycle of positive length is a contradiction
(CERTIFICATE.md §6). Elementwise float64 in a fixed order, so that all machines get the same bits.
Never here: BLAS, float sums of numpy, or private numbers.

The same holds of one member's answers: for the most that it can gain at prices y, its slopes are
its demands with a minus sign.
"""

import math

import numpy as np
from msgspec import Struct, field

from protocol.numeric import Flags, Floats, Ticks, row_sums

_LOOKED_AT = 256  # rounds that are tried, at most, when some must be given up


_ABOVE = 1.0 + 2.0**-40  # contradictions nearer to each other than this count as equal


class Paths(Struct, frozen=True):
    """The longest paths among some rounds. There are no cycles of positive length."""

    #: From row to column. The diagonal is 0.
    lengths: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    #: The longest cycle that a round closed when it was added; 0 if none was positive.
    doubt: float = 0.0

    def __getitem__(self, kept: "slice | Ticks | Flags") -> "Paths":
        """The paths between some of the rounds. They may still lead through the others."""
        return Paths(self.lengths[kept][:, kept], self.doubt)

    def add(self, asked: Floats, slopes: Floats) -> "Paths":
        """These paths with one round more, the last of `asked` and `slopes`; O(n² + nm).

        All rounds are given, in the order of the rows. If the round closes a cycle of positive
        length, its arcs are shortened until that length is 0. Arcs to the round take half of it,
        arcs from the round the other half. Otherwise lengths would grow without bound. The caller
        decides from `doubt` of the result whether the round contradicts the others too much to be
        of use.
        """
        P, y, g = self.lengths, asked[-1], slopes[-1]
        n = len(P)
        longer: Floats = np.zeros((n + 1, n + 1))
        if not n:
            return Paths(longer, self.doubt)
        to = row_sums(slopes[:-1] * (y - asked[:-1]))
        back = row_sums(g * (asked[:-1] - y))
        into: Floats = np.max(P + to, axis=1)
        out: Floats = np.max(P + back[:, None], axis=0)
        cycle = max(0.0, float(np.max(into + out)))
        into, out = into - cycle / 2.0, out - cycle / 2.0
        np.maximum(P, into[:, None] + out, out=longer[:n, :n])
        longer.reshape(-1)[:: n + 2] = 0.0
        longer[:n, n], longer[n, :n] = into, out
        return Paths(longer, max(self.doubt, cycle))


def consistent(asked: Floats, slopes: Floats, limit: float) -> tuple[Ticks, Paths]:
    """The rounds that do not contradict newer ones, in order, and the paths among them.

    From the newest round back, each is kept that closes no cycle longer than `limit`. The number
    of rounds examined is bounded, so the time is bounded for any answers.
    """
    count = len(asked)
    kept, paths = [count - 1], Paths().add(asked[-1:], slopes[-1:])
    for i in range(count - 2, max(-1, count - 2 - _LOOKED_AT), -1):
        longer = paths.add(asked[[*kept, i]], slopes[[*kept, i]])
        if longer.doubt <= limit:
            kept, paths = [*kept, i], longer
    return np.array(kept[::-1]), paths[::-1]


class Contradiction(Struct, frozen=True):
    """Answers that no companies could have given."""

    #: In money, for each round of the cycle: the mean length of its arcs above what is allowed.
    amount: float
    #: Indices of the rounds of the cycle, in its order.
    rounds: tuple[int, ...]


def worst_contradiction(
    asked: Floats, slopes: Floats, allowed: Floats | float = 0.0
) -> Contradiction | None:
    """The cycle of rounds with the largest mean length above `allowed`; None if there is none.

    `allowed` is one amount, or one for each round.

    Guarantee: if each answer is a best one to within `allowed`, the result is None, apart from
    rounding. And its amount is the least by which all answers must be relaxed further until some
    convex function has them as slopes. It raises nothing for finite numbers.

    Longest paths are sought with `allowed` taken off every arc, at the round that it leaves.
    Wherever a cycle shows, its mean is taken off as well, until none shows.
    """
    count = len(asked)
    worst = None
    if count < 2:
        return None
    W = np.array([row_sums(slopes * (y - asked)) for y in asked]).T - np.reshape(allowed, (-1, 1))
    amount = 0.0
    value: Floats = np.zeros(count)
    before = np.full(count, -1)
    for _ in range(8 * count + 64):
        through = value[:, None] + (W - amount)
        best: Floats = np.max(through, axis=0)
        longer = best > value
        if not longer.any():
            break
        before = np.where(longer, np.argmax(through, axis=0), before)
        value = np.where(longer, best, value)
        cycle = _cycle(before.tolist())
        if cycle:
            mean = math.fsum(W[cycle, cycle[1:] + cycle[:1]].tolist()) / len(cycle)
            if mean > amount:
                worst, amount = Contradiction(mean, tuple(cycle)), mean
            amount *= _ABOVE  # by rounding, this cycle may still seem longer
            value, before = np.zeros(count), np.full(count, -1)
    return worst


def _cycle(before: list[int]) -> list[int]:
    """A cycle among arcs that lead from `before[i]` to i, in its order; empty if there is none."""
    seen = [-1] * len(before)
    for start in range(len(before)):
        at = start
        while at >= 0 and seen[at] < 0:
            seen[at] = start
            at = before[at]
        if at >= 0 and seen[at] == start:
            cycle = [at]
            while before[cycle[-1]] != at:
                cycle.append(before[cycle[-1]])
            return cycle[::-1]
    return []
