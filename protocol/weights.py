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

from protocol.arrays import Floats

Basis = tuple[int, ...]
"""A column for each row: i ≥ 0 is the weight of round i, −1−j v of resource j, −1−m−j its t."""

_ZERO = 1e-12  # a reduced cost from which nothing more is to be gained
_PIVOT = 1e-9  # the smallest number that a row is divided by
_WRONG = 1e-9  # a value so far below 0 that a basis is not one any more


def best_weights(
    *, rounds: Sequence[int], paid: Floats, slopes: Floats, box: Floats, basis: Basis | None
) -> tuple[Floats, Basis]:
    """The weight of each of these rounds, and the basis to start from when one more is there.

    `paid` is g·y of each round; `basis` that of the rounds before, all of which must be here.
    Guarantee: the weights are not negative and add up to 1 but for rounding.
    """
    program = _Program(rounds, paid, slopes, box)
    if basis is None or not program.enter(basis):
        program = _Program(rounds, paid, slopes, box)
        program.enter(program.first)
    program.improve()
    return program.weights, program.basis


class _Program:
    """The tableau: a row for each resource, one for Σ w = 1, and the costs; values come last."""

    def __init__(self, rounds: Sequence[int], paid: Floats, slopes: Floats, box: Floats) -> None:
        count, m = slopes.shape
        scale = max(float(np.max(np.abs(paid))), float(np.max(box)))
        each = np.arange(m)
        table = self._table = np.zeros((m + 2, count + 2 * m + 1))
        table[:m, :count] = slopes.T
        table[each, count + each], table[each, count + m + each] = 1.0, -1.0
        table[m, :count] = table[m, -1] = 1.0
        table[m + 1, :count], table[m + 1, count : count + m] = paid / scale, box / scale
        self._labels = [*rounds, *range(-1, -1 - 2 * m, -1)]
        self._places = {label: place for place, label in enumerate(self._labels)}
        self._basic = [-1] * (m + 1)
        self._count, self._m = count, m
        lacking = np.where(slopes < 0.0, slopes, 0.0)
        alone = paid - np.array([float(np.add.accumulate(row)[-1]) for row in lacking * box])
        best = int(np.argmin(alone))
        short = slopes[best] < 0.0
        self.first: Basis = (
            rounds[best],
            *(-1 - j if short[j] else -1 - m - j for j in range(m)),
        )

    def enter(self, basis: Basis) -> bool:
        """Solve for the columns of a basis; False if they are none."""
        free = list(range(self._m + 1))
        for label in basis:
            place = self._places[label]
            row = max(free, key=lambda r: abs(float(self._table[r, place])))
            if not abs(float(self._table[row, place])) > _PIVOT:
                return False
            self._pivot(row, place)
            free.remove(row)
        return bool(self._table[: self._m + 1, -1].min() >= -_WRONG)

    def improve(self) -> None:
        """Exchange one column after the other until none promises more."""
        m, table = self._m, self._table
        for _ in range(64 + 8 * m):
            place = int(np.argmin(table[m + 1, :-1]))
            column = table[: m + 1, place]
            able = column > _PIVOT
            if not table[m + 1, place] < -_ZERO or not able.any():
                return
            values = np.maximum(table[: m + 1, -1], 0.0)
            reach = np.where(able, values / np.where(able, column, 1.0), np.inf)
            self._pivot(int(np.argmin(reach)), place)

    @property
    def weights(self) -> Floats:
        """Those of the basis; all on the first of them where float64 has lost its way."""
        found = np.zeros(self._count)
        places = [(row, place) for row, place in enumerate(self._basic) if place < self._count]
        for row, place in places:
            found[place] = max(float(self._table[row, -1]), 0.0)
        if not (np.isfinite(found).all() and found.max(initial=0.0) * len(places) > 0.5):
            found = np.zeros(self._count)
            found[places[0][1] if places else -1] = 1.0
        return found

    @property
    def basis(self) -> Basis:
        return tuple(self._labels[place] for place in self._basic)

    def _pivot(self, row: int, place: int) -> None:
        table = self._table
        table[row] /= table[row, place]
        column = table[:, place].copy()
        column[row] = 0.0
        table -= column[:, None] * table[row]
        table[:, place] = 0.0
        table[row, place] = 1.0
        self._basic[row] = place
