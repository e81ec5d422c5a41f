"""A plan within a limit, mixed from the company's best responses to prices.

It exists wherever the company could answer prices, also where the solver fails with the limit
itself: a weighted average of plans of a linear or concave model is a plan that earns at least the
average. Prices that a small linear program finds lead to better plans, until none is left
(Dantzig and Wolfe). Nothing here leaves the party, and no release is computed again.
"""

import highspy
import numpy as np
from msgspec import field

from party.model.best_response import Subproblem, loaded
from party.model.company_model import CompanyModel, uses
from protocol.numeric import Floats
from protocol.records import Opaque

_ROUNDS = 300
_ENOUGH = 1e-7  # stop when the next plan would add less than this fraction
_LACK = 1e-9  # a mixture may exceed the limit by this fraction of the range before it is cut
_PENALTIES = (1e2, 1e5, 1e8)  # for what lies above the limit, times all that the plans earn


class _Plans(Opaque, frozen=True):
    """The plans found so far, what they use (in fractions of `size`), and earn. Secret."""

    size: Floats
    values: list[Floats] = field(default_factory=list)
    uses: list[Floats] = field(default_factory=list)
    earnings: list[float] = field(default_factory=list)

    def add(self, data: CompanyModel, plan: Floats) -> None:
        self.values.append(plan)
        self.uses.append(uses(data, plan) / self.size)
        self.earnings.append(data.earns(plan))

    def drop_last(self) -> None:
        for part in (self.values, self.uses, self.earnings):
            part.pop()

    @property
    def money(self) -> float:
        """The size of what the plans earn."""
        return max(1e-300, max(self.earnings) - min(self.earnings), abs(self.earnings[0]) * 1e-6)


def mixed_plan(
    data: CompanyModel, problem: Subproblem, limit: Floats, size: Floats
) -> Floats | None:
    """The best mixture within the limit of the problem's answers, or None if there is none.

    `size` is the range of each resource in the problem. Only for models without integers.
    """
    plans = _Plans(np.where(size > 0.0, size, 1.0))
    answer = problem.answer(np.zeros(len(limit)))
    if answer is None:
        return None
    plans.add(data, answer.plan)
    right = limit / plans.size
    for penalty in _PENALTIES:
        weights, lack = _improve(data, problem, plans, right, penalty)
        if weights is not None and lack <= _LACK:
            return np.array(sum(w * x for w, x in zip(weights, plans.values, strict=True)))
    return None


def _improve(
    data: CompanyModel, problem: Subproblem, plans: _Plans, right: Floats, penalty: float
) -> tuple[Floats | None, float]:
    """Add plans until no further one helps; the weights, and by how much they exceed the limit."""
    weights, lack = None, np.inf
    for _ in range(_ROUNDS):
        found = _master(plans, right, penalty)
        if found is None:
            break
        weights, lack, prices, value = found
        money = plans.money
        answer = problem.answer(prices * money / plans.size)
        if answer is None:
            break
        plans.add(data, answer.plan)
        gain = plans.earnings[-1] / money - float(prices @ plans.uses[-1]) - value
        if gain <= _ENOUGH * max(1.0, abs(value)):
            plans.drop_last()
            break
    else:
        found = _master(plans, right, penalty)
        weights, lack = (weights, lack) if found is None else found[:2]
    return weights, lack


def _master(
    plans: _Plans, right: Floats, penalty: float
) -> tuple[Floats, float, Floats, float] | None:
    """The best weights: with what exceeds the limit, its prices, and the value of a plan."""
    n, m = len(plans.values), len(right)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n + m, m + 1
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = np.concatenate([np.array(plans.earnings) / plans.money, np.full(m, -penalty)])
    lp.col_lower_, lp.col_upper_ = np.zeros(n + m), np.full(n + m, np.inf)
    lp.row_lower_ = np.append(np.full(m, -np.inf), 1.0)
    lp.row_upper_ = np.append(right, 1.0)
    rows = np.vstack([np.array(plans.uses).T.reshape(m, n), np.ones((1, n))])
    rows = np.hstack([rows, np.vstack([-np.eye(m), np.zeros((1, m))])])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.arange(0, (n + m) * (m + 1) + 1, m + 1, dtype=np.int32)
    lp.a_matrix_.index_ = np.tile(np.arange(m + 1, dtype=np.int32), n + m)
    lp.a_matrix_.value_ = rows.T.ravel()
    solver = loaded(lp)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    solution = solver.getSolution()
    values, duals = np.array(solution.col_value), np.array(solution.row_dual)
    weights = np.maximum(values[:n], 0.0)
    prices = np.maximum(duals[:m], 0.0)
    return weights / weights.sum(), float(values[n:].max(initial=0.0)), prices, float(duals[m])
