"""Corners of the private problem that were best at some prices, and at which prices they still are.

Prices change only the objective, so that a corner once found stays feasible; whether it is
still best is a few hundred multiplications, where a solver takes as many microseconds. All
of this is as secret as the data set.

Symbols: λ prices, y the values of the rows and d the reduced costs of the columns, both
linear in λ: a corner is best wherever none of them has the wrong sign.
"""

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from protocol.arrays import Floats

KEPT = 32
"""Corners remembered of one problem. A session rarely sees more than ten."""

LARGEST = 250
"""Rows and columns up to which remembering pays: beyond, few corners are ever seen again."""

_TOLERANCE = 1e-12  # of the largest utility: rounding, and nothing beside the smallest ones


@dataclass(frozen=True, repr=False, eq=False)
class Corner:
    """A plan, what it takes and what it consumes of each resource, what it earns. Secret."""

    plan: Floats
    demand: Floats
    uses: Floats
    utility: float

    def __repr__(self) -> str:
        return "<private corner>"


@dataclass(frozen=True, repr=False, eq=False)
class Region:
    """Where a corner is best: level + slope·λ ≥ lowest, which is 0 but for rounding. Secret."""

    corner: Corner
    level: Floats
    slope: Floats
    lowest: float

    def __repr__(self) -> str:
        return "<private region>"


class Corners:
    """The corners found so far of one problem max c(λ)·z, M z within rows, z within bounds."""

    def __init__(self, lp: highspy.HighsLp, resources: int) -> None:
        rows, columns = lp.num_row_, lp.num_col_
        cost = np.array(lp.col_cost_)
        self._count = columns
        self._matrix = np.zeros((rows, columns))
        starts = np.diff(np.array(lp.a_matrix_.start_))
        places = np.array(lp.a_matrix_.index_), np.repeat(np.arange(columns), starts)
        self._matrix[places] = np.array(lp.a_matrix_.value_)
        self._cost = np.zeros((columns, 1 + resources))
        self._cost[:, 0] = cost
        self._cost[columns - resources :, 1:] = -np.eye(resources)
        self._fixed = np.concatenate(
            [
                np.array(lp.col_lower_) == np.array(lp.col_upper_),
                np.array(lp.row_lower_) == np.array(lp.row_upper_),
            ]
        )
        self._tolerance = -_TOLERANCE * (1.0 + np.abs(cost).max(initial=0.0))
        self._regions: list[Region] = []
        self.last: Region | None = None
        self._level = self._slope = np.zeros(0)

    def best(self, prices: Floats) -> Corner | None:
        """A known corner that is best at these prices, or None."""
        last = self.last
        if last is None:
            return None
        if (last.slope @ prices + last.level).min() >= self._tolerance:
            return last.corner
        signs = (self._slope @ prices + self._level).reshape(-1, self._count).min(axis=1)
        place = int(signs.argmax())
        if signs[place] < self._tolerance:
            return None
        self.last = self._regions[place]
        return self.last.corner

    def learn(self, corner: Corner, basis: highspy.HighsBasis, prices: Floats) -> None:
        """Remember the corner of this basis, if it is certain to be best at these prices."""
        signs = self._signs(np.array([*basis.col_status, *basis.row_status]))
        if signs is None or (signs[:, 1:] @ prices + signs[:, 0]).min() < self._tolerance:
            return
        self.last = Region(corner, signs[:, 0].copy(), signs[:, 1:].copy(), self._tolerance)
        self._regions = [*self._regions[-KEPT + 1 :], self.last]
        self._level = np.concatenate([r.level for r in self._regions])
        self._slope = np.concatenate([r.slope for r in self._regions])

    def _signs(self, status: Any) -> Floats | None:
        """[y; d] of the nonbasic rows and columns as rows of numbers that must not be negative."""
        at_lower = status == highspy.HighsBasisStatus.kLower
        at_upper = status == highspy.HighsBasisStatus.kUpper
        basic = status == highspy.HighsBasisStatus.kBasic
        if not (at_lower | at_upper | basic).all():
            return None
        column_basic, row_basic = basic[: self._count], basic[self._count :]
        tight = self._matrix[~row_basic]
        try:
            y = np.linalg.solve(tight[:, column_basic].T, self._cost[column_basic])
        except np.linalg.LinAlgError:
            return None
        d = self._cost[~column_basic] - tight[:, ~column_basic].T @ y
        sign = np.where(at_upper, 1.0, -1.0) * ~self._fixed
        signs: Floats = sign[~basic][:, None] * np.vstack([d, y])
        return signs
