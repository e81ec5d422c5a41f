"""Remembers the optimal corners of a party's problem, and the prices at which each is optimal.

Prices change only the objective, so a corner stays feasible. Checking whether it is still optimal
takes a few hundred multiplications; a solver takes as many microseconds. Only for the study, which
asks millions of times. A party must never import this: the time of its answer would reveal whether
its corner is new.

Symbols: λ prices, y the duals of the rows and d the reduced costs of the columns, both linear in λ:
a corner is optimal where none of them has the wrong sign.
"""

from typing import Any

import highspy
import numpy as np
from msgspec import Struct

from party.model.best_response import Answer, Subproblem
from party.model.company_model import CompanyModel
from party.model.highs_program import model
from party.model.scaling import rescaled
from protocol.numeric import Floats, frozen
from scripts.lab.common.instances import Instance

KEPT = 32
"""Corners remembered for one problem. A session rarely sees more than ten."""

_TOLERANCE = 1e-12  # fraction of the largest utility: above rounding, below the smallest utilities


class Corner(Struct, frozen=True):
    """A plan, its demand and consumption of each resource, and its objective."""

    plan: Floats
    demand: Floats
    uses: Floats
    utility: float


class Region(Struct, frozen=True):
    """Where a corner is optimal: level + slope·λ ≥ lowest, which is 0 except for rounding."""

    corner: Corner
    level: Floats
    slope: Floats
    lowest: float


class Remembering(Subproblem):
    """A party's best response that calls the solver only where no known corner is optimal.

    Guarantee: where one corner alone is optimal, the answer is that of the party's own subproblem,
    up to rounding of the solver. Where several are equally good, it is one of them.
    """

    def __init__(self, data: CompanyModel, limit: Floats) -> None:
        super().__init__(data, limit)
        data, limit = rescaled(data, self._scale.units), limit * self._scale.units
        self._corners = Corners(model(data, limit), self._scale.units)

    @property
    def region(self) -> Region | None:
        """The corner used or learned last, and the prices at which it stays the answer."""
        return self._corners.last

    def answer(self, prices: Floats) -> Answer | None:
        corner = self._corners.best(prices)
        if corner is None:
            answer = super().answer(prices)
            if answer is not None:
                self._learn(answer, prices)
            return answer
        demand = np.where(prices == 0.0, corner.uses, corner.demand)
        return Answer(corner.utility - float(prices @ demand), demand, corner.plan)

    def _learn(self, answer: Answer, prices: Floats) -> None:
        demand = np.array(self._solver.getSolution().col_value)[self._columns :]
        unused = np.array(self._solver.allConstrValues())[: self._resources]
        corner = Corner(
            plan=frozen(answer.plan),
            demand=frozen(demand / self._scale.units),
            uses=frozen(np.maximum(demand + unused, 0.0) / self._scale.units),
            utility=float(self._data.utility @ answer.plan) + self._data.offset,
        )
        self._corners.learn(corner, self._solver.getBasis(), prices)


def remembering(instance: Instance) -> list[Remembering]:
    """The subproblems of all parties of an instance."""
    limits = instance.share * instance.capacity
    return [Remembering(*pair) for pair in zip(instance.data, limits, strict=True)]


class Corners:
    """The corners found so far of one problem max c(λ)·z, M z within rows, z within bounds.

    `parts` is the scale of the problem's units for each unit that has a price.
    """

    def __init__(self, lp: highspy.HighsLp, parts: Floats) -> None:
        rows, columns, resources = lp.num_row_, lp.num_col_, len(parts)
        cost = np.array(lp.col_cost_)
        self._count = columns
        self._matrix = np.zeros((rows, columns))
        starts = np.diff(np.array(lp.a_matrix_.start_))
        places = np.array(lp.a_matrix_.index_), np.repeat(np.arange(columns), starts)
        self._matrix[places] = np.array(lp.a_matrix_.value_)
        self._cost = np.zeros((columns, 1 + resources))
        self._cost[:, 0] = cost
        self._cost[columns - resources :, 1:] = -np.diag(1.0 / parts)
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
        """A known corner that is optimal at these prices, or None."""
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
        """Remember the corner of this basis, if it is certain to be optimal at these prices."""
        signs = self._signs(np.array([*basis.col_status, *basis.row_status]))
        if signs is None or (signs[:, 1:] @ prices + signs[:, 0]).min() < self._tolerance:
            return
        self.last = Region(corner, signs[:, 0].copy(), signs[:, 1:].copy(), self._tolerance)
        self._regions = [*self._regions[-KEPT + 1 :], self.last]
        self._level = np.concatenate([r.level for r in self._regions])
        self._slope = np.concatenate([r.slope for r in self._regions])

    def _signs(self, status: Any) -> Floats | None:
        """[y; d] of the nonbasic rows and columns, as rows of numbers that must not be negative."""
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
