"""The weights of the rounds that prove most: a small linear program, solved alike everywhere.

The bound on the averages of some rounds depends on the weights of the rounds. The best weights
minimise Σ w·paid + Σ U·v subject to Σ w·g + v ≥ 0, Σ w = 1, w ≥ 0, v ≥ 0. The first term is paid
for unused capacity, the second is U for each capacity that is still scarce. The simplex method in
elementwise float64 and a fixed order. `center` computes again what the weights prove. So rounding
here can cost a little of the bound, but never its truth. Never here: a solver, or BLAS.

Symbols: g slopes of the rounds (rounds by resources), U the box, v what is scarce, t what is left.
"""

from collections.abc import Sequence

import numpy as np

from protocol.numeric import Floats

Basis = tuple[int, ...]
"""Which columns have a row: i ≥ 0 is the weight of round i, −1−j v of resource j, −1−m−j its t."""

_ZERO = 1e-12  # reduced costs above minus this promise no gain
_PIVOT = 1e-9  # the smallest number that a row is divided by
_WRONG = 1e-9  # a basis with a value further below 0 is not feasible any more


def best_weights(
    *, rounds: Sequence[int], paid: Floats, slopes: Floats, box: Floats, basis: Basis | None
) -> tuple[Floats, Basis]:
    """The weight of each of these rounds, and the basis to start from with one more round.

    `paid` is g·y of each round. `basis` is that of the earlier rounds, all of which must be here.
    Guarantee: no exception for any finite numbers. The weights are finite, not negative and not
    all 0. Apart from rounding they add up to 1, and none are better.
    """
    with np.errstate(all="ignore"):
        program = _Program(rounds, paid, slopes, box)
        if basis is None or not program.enter(basis):
            program = _Program(rounds, paid, slopes, box)
            program.enter(_best_round(rounds, paid, slopes, box))
        program.improve()
        return program.weights, program.basis


def _best_round(rounds: Sequence[int], paid: Floats, slopes: Floats, box: Floats) -> Basis:
    """The basis of the round that is best alone. It is feasible for any numbers."""
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
        """Solve for the columns of a basis; False if they form none.

        First v and t, each in the row of its resource, where only the sign may change. Then the
        weights, each in the free row where it is largest.
        """
        m, table = self._m, self._table
        free = list(range(m + 1))
        for label in sorted(basis):
            index = self._labels.index(label)
            if label < 0:
                row = (-1 - label) % m
                if row not in free:
                    return False
                table[row] *= table[row, index]
                table[m + 1] -= table[m + 1, index] * table[row]
                self._basic[row] = index
            else:
                size = np.abs(table[:, index]).tolist()
                row = max(free, key=size.__getitem__)
                if not size[row] > _PIVOT:
                    return False
                self._pivot(row, index)
            free.remove(row)
        return bool(table[: m + 1, -1].min() >= -_WRONG)

    def improve(self) -> None:
        """Exchange columns until none promises a gain.

        The number of exchanges is limited, because rounding or a tie could lead to a cycle.
        """
        m, costs = self._m, self._table[-1, :-1]
        rows, values = self._table[: m + 1], self._table[: m + 1, -1]
        for _ in range(64 + 8 * m):
            index = int(np.argmin(costs))
            if not costs[index] < -_ZERO:
                return
            column = rows[:, index]
            reach = np.where(column > _PIVOT, np.maximum(values, 0.0) / column, np.inf)
            row = int(np.argmin(reach))
            if not reach[row] < np.inf:
                return
            self._pivot(row, index)

    @property
    def weights(self) -> Floats:
        """The weights of the basis; if float64 has failed, all on its first round."""
        found = np.zeros(self._count)
        rounds = [(row, index) for row, index in enumerate(self._basic) if index < self._count]
        for row, index in rounds:
            found[index] = max(0.0, float(self._table[row, -1]))
        if not (np.isfinite(found).all() and found.max() * len(rounds) > 0.5):
            found = np.zeros(self._count)
            found[rounds[0][1] if rounds else 0] = 1.0
        return found

    @property
    def basis(self) -> Basis:
        return tuple(self._labels[index] for index in self._basic)

    def _pivot(self, row: int, index: int) -> None:
        table, own = self._table, self._table[row]
        own /= own[index]
        column = table[:, index].copy()
        column[row] = 0.0
        table -= column[:, None] * own
        self._basic[row] = index
