"""The weights of the rounds that prove most, as a small linear program solved alike everywhere.

How near to the best the averages of some rounds are depends on how the rounds are weighed. The
best weights minimise Σ w·paid + Σ U·v subject to Σ w·g + v ≥ 0, Σ w = 1, w ≥ 0, v ≥ 0: what
was paid for capacity that nobody took, and U for each capacity that is still wanted too much.
The simplex method in elementwise float64 and a fixed order: no solver, no BLAS. What it returns
is weights and no more; what they prove is computed from them again (CERTIFICATE.md), so that
rounding here can cost a little of the bound, but never its truth.

Symbols: g slopes of the rounds (rounds by resources), U the box, v what is wanted too much,
t what is left over.
"""

from collections.abc import Sequence

import numpy as np

from protocol.numeric import Floats

Basis = tuple[int, ...]
"""Which columns have a row: i ≥ 0 is the weight of round i, −1−j v of resource j, −1−m−j its t."""

_ZERO = 1e-12  # a reduced cost from which nothing more is to be gained
_PIVOT = 1e-9  # the smallest number that a row is divided by
_WRONG = 1e-9  # a value so far below 0 that a basis is not one any more


def best_weights(
    *, rounds: Sequence[int], paid: Floats, slopes: Floats, box: Floats, basis: Basis | None
) -> tuple[Floats, Basis]:
    """The weight of each of these rounds, and the basis to start from when one more is there.

    `paid` is g·y of each round; `basis` that of the rounds before, all of which must be here.
    Guarantee: no exception, whatever finite numbers they are; the weights are finite, not
    negative, and not all 0. But for rounding they add up to 1, and none are better.
    """
    with np.errstate(all="ignore"):
        program = _Program(rounds, paid, slopes, box)
        if basis is None or not program.enter(basis):
            program = _Program(rounds, paid, slopes, box)
            program.enter(_alone(rounds, paid, slopes, box))
        program.improve()
        return program.weights, program.basis


def _alone(rounds: Sequence[int], paid: Floats, slopes: Floats, box: Floats) -> Basis:
    """The basis of the round that is best on its own. It is one, whatever the numbers are."""
    m = len(box)
    lacking = np.add.accumulate(np.minimum(slopes, 0.0) * box, axis=1)[:, -1]
    best = int(np.argmin(paid - lacking))
    short = (slopes[best] < 0.0).tolist()
    return (*(-1 - j if short[j] else -1 - m - j for j in range(m)), rounds[best])


class _Program:
    """The tableau: a row for each resource, one for Σ w = 1, and the costs; values come last."""

    def __init__(self, rounds: Sequence[int], paid: Floats, slopes: Floats, box: Floats) -> None:
        count, m = slopes.shape
        scale = max(float(np.max(np.abs(paid))), float(np.max(box)))
        width = count + 2 * m + 1
        table = self._table = np.zeros((m + 2, width))
        table[:m, :count] = slopes.T
        flat = table.reshape(-1)[: m * width]
        flat[count :: width + 1], flat[count + m :: width + 1] = 1.0, -1.0
        table[m, :count] = table[m, -1] = 1.0
        table[m + 1, :count], table[m + 1, count : count + m] = paid / scale, box / scale
        self._labels = [*rounds, *range(-1, -1 - 2 * m, -1)]
        self._basic = [0] * (m + 1)
        self._count, self._m = count, m

    def enter(self, basis: Basis) -> bool:
        """Solve for the columns of a basis; False if they are none.

        First v and t, each in the row of its resource, where nothing else is to be done but to
        turn the sign; then the weights, each in the row, of those left, where it is largest.
        """
        m, table = self._m, self._table
        free = list(range(m + 1))
        for label in sorted(basis):
            place = self._labels.index(label)
            if label < 0:
                row = (-1 - label) % m
                if row not in free:
                    return False
                table[row] *= table[row, place]
                table[m + 1] -= table[m + 1, place] * table[row]
                self._basic[row] = place
            else:
                size = np.abs(table[:, place]).tolist()
                row = max(free, key=size.__getitem__)
                if not size[row] > _PIVOT:
                    return False
                self._pivot(row, place)
            free.remove(row)
        return bool(table[: m + 1, -1].min() >= -_WRONG)

    def improve(self) -> None:
        """Exchange one column after the other until none promises more.

        There is an end to it also where rounding, or a tie, would lead in a circle.
        """
        m, costs = self._m, self._table[-1, :-1]
        rows, values = self._table[: m + 1], self._table[: m + 1, -1]
        for _ in range(64 + 8 * m):
            place = int(np.argmin(costs))
            if not costs[place] < -_ZERO:
                return
            column = rows[:, place]
            reach = np.where(column > _PIVOT, np.maximum(values, 0.0) / column, np.inf)
            row = int(np.argmin(reach))
            if not reach[row] < np.inf:
                return
            self._pivot(row, place)

    @property
    def weights(self) -> Floats:
        """Those of the basis; all on the first of them where float64 has lost its way."""
        found = np.zeros(self._count)
        rounds = [(row, place) for row, place in enumerate(self._basic) if place < self._count]
        for row, place in rounds:
            found[place] = max(0.0, float(self._table[row, -1]))
        if not (np.isfinite(found).all() and found.max() * len(rounds) > 0.5):
            found = np.zeros(self._count)
            found[rounds[0][1] if rounds else 0] = 1.0
        return found

    @property
    def basis(self) -> Basis:
        return tuple(self._labels[place] for place in self._basic)

    def _pivot(self, row: int, place: int) -> None:
        table, own = self._table, self._table[row]
        own /= own[place]
        column = table[:, place].copy()
        column[row] = 0.0
        table -= column[:, None] * own
        self._basic[row] = place
