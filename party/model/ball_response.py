"""The company's best response within its ball: `Subproblem` with the ball as tangent cuts.

HiGHS has no quadratic constraints. So the ball is approached from outside: where a demand lies
outside, a tangent plane cuts it off and the solver starts again. The cuts hold for all prices and
are kept. Answers are un-noised: only the gate may read them, and it clips them again. The privacy
promise rests on that alone, never on this module.

Symbols: s demand, c centre, A half axes, M margin.
"""

from typing import Any

import highspy
import numpy as np

from party.model.best_response import (
    USUAL,
    Answer,
    MipLimits,
    Subproblem,
    subproblem,
)
from party.model.company_model import CompanyModel
from party.model.scaling import Scale
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import BadData
from protocol.numeric import Floats
from protocol.privacy.ball import ball

_OUTSIDE = 1e-2
"""A demand this far outside, as a fraction of the half axes, is left to the gate. Its clip costs at
most this fraction of what the company gains in a round. A tenth of it would take four times as
long with ten resources."""

_OUTSIDE_IN_NEED = 1e-3
"""For a company with minimum demands: the clip could cost it its plan."""

_CUTS = 40
"""Cuts at most for one answer; the gate clips what is still outside."""


class BallSubproblem(Subproblem):
    """max u·x − λ·s as in `Subproblem`, with s in the ball Σ ((s_j − c_j)/A_j)² ≤ 1.

    With `kept` below 1, a plan must also exist within `kept`·s: quotas may be cut by that much
    at the end, and a company with minimum demands must still have a plan.
    """

    # More than 8 parameters with `self`: each is one term of the program.
    def __init__(
        self,
        data: CompanyModel,
        ceiling: Floats,
        limits: MipLimits,
        floor: Floats,
        *,
        center: Floats,
        axes: Floats,
        kept: Floats,
        outside: float = _OUTSIDE,
    ) -> None:
        self._outside = outside
        self._center, self._axes = center, np.where(axes > 0.0, axes, 1.0)
        self._free, self._kept = axes > 0.0, kept
        #: Unit vectors, in half axes, at which the ball has a tangent in the program.
        self._directions: list[Floats] = []
        super().__init__(
            data, np.minimum(ceiling, center + axes), limits, np.maximum(floor, center - axes)
        )
        if self.answer(np.zeros(len(center))) is None:
            raise BadData("the model is infeasible within this member's ball")

    def _load(self, scale: Scale) -> None:
        """Load the model at a scale, with the second plan and all cuts found so far."""
        super()._load(scale)
        if self._has_second_plan:
            self._add_second_plan()
        for direction in self._directions:
            self._add_cut(direction)

    @property
    def _has_second_plan(self) -> bool:
        return bool((self._kept < 1.0).any())

    def _run_interior_point(self, prices: Floats) -> bool:
        """Our own method knows the columns of one plan only."""
        return not self._has_second_plan and super()._run_interior_point(prices)

    def answer(self, prices: Floats) -> Answer | None:
        """The best plan within the ball, or within all cuts found so far."""
        for _ in range(_CUTS):
            answer = super().answer(prices)
            if answer is None:
                return None
            apart = np.where(self._free, (answer.demand - self._center) / self._axes, 0.0)
            size = float(np.sqrt((apart * apart).sum()))
            if size <= 1.0 + self._outside:
                break
            self._directions.append(apart / size)
            self._add_cut(apart / size)
        return answer

    def _add_cut(self, direction: Floats) -> None:
        """Add direction·(s − c)/A ≤ 1, scaled so that its coefficients are near 1."""
        slope = direction / self._axes / self._scale.units
        size = float(np.abs(slope).max())
        limit = (1.0 + float((direction * self._center / self._axes).sum())) / size
        used = np.flatnonzero(slope)
        self._solver.addRow(
            -np.inf, limit, len(used), self._price_columns[used], slope[used] / size
        )
        if self._data.integer is not None or self._data.quadratic is not None:
            self._solver.clearSolver()  # its last plan, basis or active set lacks the row

    def _add_second_plan(self) -> None:
        """Add columns x′ with all private rows and A x′ ≤ kept·s."""
        solver, data = self._solver, self._scale.applied(self._data)
        first, none = solver.getNumCol(), np.zeros(0)
        n, m, rows = data.columns, data.resources, data.private_rows
        empty = np.zeros(n, dtype=np.int32), np.zeros(0, dtype=np.int32), none
        solver.addCols(n, np.zeros(n), data.lower, data.upper, 0, *empty)
        if data.integer is not None:
            whole = np.flatnonzero(data.integer).astype(np.int32) + first
            for column in whole.tolist():
                solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        start, index, value = _by_rows(data, first, self._price_columns, self._kept)
        lower = np.concatenate([np.full(m, -np.inf), data.row_lower])
        upper = np.concatenate([np.zeros(m), data.row_upper])
        solver.addRows(m + rows, lower, upper, len(index), start, index, value)


def _by_rows(data: CompanyModel, first: int, shared: Any, kept: Floats) -> tuple[Any, Any, Floats]:
    """The rows of x′, from column `first` on, with −kept·s in the shared ones, for HiGHS."""
    columns = np.repeat(np.arange(data.columns, dtype=np.int32), np.diff(data.start)) + first
    row = np.concatenate([data.index, np.arange(data.resources, dtype=np.int32)])
    column = np.concatenate([columns, shared]).astype(np.int32)
    value = np.concatenate([data.value, -kept])
    order = np.argsort(row, kind="stable")
    counts = np.bincount(row, minlength=data.resources + data.private_rows)
    start = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32)
    return start, column[order], value[order]


class Trader:
    """Answers within the ball: with a plan that the last cut leaves, else with any plan.

    A company that has no plan within its ball sells: it answers with the cheapest point.
    """

    # More than 8 parameters with `self`: each is one term of the program.
    def __init__(
        self,
        data: CompanyModel,
        *,
        floor: Floats,
        ceiling: Floats,
        center: Floats,
        axes: Floats,
        margin: Floats,
        limits: MipLimits = USUAL,
    ) -> None:
        """All but `margin`, a fraction of each capacity, is in units of the resources."""
        self._floor, self._ceiling = floor, ceiling
        self._center, self._axes = center, axes
        self._limits = limits
        self._problem = self._best_kind(data, 1.0 - margin)

    @classmethod
    def of(
        cls, data: CompanyModel, agreement: Agreement, member: str, limits: MipLimits = USUAL
    ) -> "Trader":
        """The trader of a member; refuses a model that no quota would do for."""
        row, q, public = agreement.place(member), quantities(agreement), ball(agreement)
        unit, floor = q.capacity / agreement.ticks, q.floor[row]
        subproblem(data, agreement, member, limits)
        return cls(
            data,
            floor=floor,
            ceiling=floor + q.share[row] * q.capacity,
            center=floor + public.center[row] * unit,
            axes=public.axes[row] * unit,
            margin=public.margin,
            limits=limits,
        )

    @property
    def sells(self) -> bool:
        """Whether no point of the ball allows a plan. Secret."""
        return self._problem is None

    def _best_kind(self, data: CompanyModel, kept: Floats) -> BallSubproblem | None:
        """The most careful program that has a plan."""
        without, needy = np.ones_like(kept), needs_anything(data, self._floor)
        for wanted in (kept, without) if needy else (without,):
            try:
                return BallSubproblem(
                    data,
                    self._ceiling,
                    self._limits,
                    self._floor,
                    center=self._center,
                    axes=self._axes,
                    kept=wanted,
                    outside=_OUTSIDE_IN_NEED if needy else _OUTSIDE,
                )
            except BadData:
                continue
        return None

    def limit_search(self, seconds: float) -> None:
        """From now on search at most this long for an integer plan."""
        if self._problem is not None:
            self._problem.limit_search(seconds)

    def ask(self, prices: Floats) -> None:
        """Nothing to prepare: `answer` computes at once."""

    def answer(self, prices: Floats) -> Answer | None:
        """The best plan within the ball, or the cheapest point of it."""
        if self._problem is not None:
            return self._problem.answer(prices)
        demand = self._cheapest(prices)
        return Answer(-float(prices @ demand), demand, np.empty(0))

    def _cheapest(self, prices: Floats) -> Floats:
        """The cheapest point of the ball that is not below the floor.

        Resources that would fall below the floor stay at it; the others share what is left.
        """
        apart, free, left = np.zeros_like(prices), self._axes > 0.0, 1.0
        while free.any():
            weight = np.where(free, prices * self._axes, 0.0)
            size = float(np.sqrt((weight * weight).sum())) or 1.0
            step = -self._axes * weight / size * left**0.5
            below = free & (self._center + step < self._floor)
            if not below.any():
                apart[free] = step[free]
                break
            apart[below] = (self._floor - self._center)[below]
            left = max(left - float(((apart[below] / self._axes[below]) ** 2).sum()), 0.0)
            free &= ~below
        demand: Floats = self._center + apart
        return demand


def needs_anything(data: CompanyModel, floor: Floats) -> bool:
    """Whether the company has no plan with only its floor."""
    try:
        Subproblem(data, floor, floor=floor)
    except BadData:
        return True
    return False
