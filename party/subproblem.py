"""The company's answer to prices: one linear program, kept warm in HiGHS.

Between rounds only the m prices change, the last basis stays feasible, and a few pivots give
the new answer. Every answer is the solver's: none may come sooner because of what it says.
What comes out is un-noised: only the gate and the settlement may read it.
"""

import math
from dataclasses import dataclass, replace

import highspy
import numpy as np

from party.dataset import DataSet
from party.modelfile import LARGE
from protocol.agreement import Agreement
from protocol.arrays import Floats
from protocol.errors import BadData

_OPTIMAL = highspy.HighsModelStatus.kOptimal
_FINEST = 30  # below a billionth of a unit there is nothing to count
_PRIMAL_SIMPLEX = 4  # after a change of costs the basis stays primal feasible


@dataclass(frozen=True, repr=False, eq=False)
class Answer:
    """What the company would do at some prices. Secret."""

    objective: float
    demand: Floats
    plan: Floats

    def __repr__(self) -> str:
        return "<private answer>"


class Subproblem:
    """max u·x − λ·s subject to A x ≤ s, the private rows and bounds, 0 ≤ s ≤ limit.

    Feasibility and boundedness do not depend on λ, and both are settled here: once this
    object exists, no price can make the problem fail for a reason that lies in the data.
    """

    def __init__(self, data: DataSet, limit: Floats) -> None:
        self._columns = data.columns
        self._resources = data.resources
        self._price_columns = np.arange(data.columns, data.columns + data.resources, dtype=np.int32)
        self._utility, self._offset = data.utility, data.offset
        self._finer = finer(data, limit)
        data, limit = counted(data, self._finer), limit * self._finer
        self._solver = loaded(model(data, limit))
        status = _status(self._solver)
        if status == _OPTIMAL:
            self._solver.setOptionValue("simplex_strategy", _PRIMAL_SIMPLEX)
            return
        if status == highspy.HighsModelStatus.kUnbounded:
            raise BadData(
                "the model is unbounded: its objective grows without end within the shared "
                "capacities; a bound or a row is missing"
            )
        free = _status(loaded(model(data, np.full(data.resources, math.inf))))
        if status == highspy.HighsModelStatus.kInfeasible:
            if free == highspy.HighsModelStatus.kInfeasible:
                raise BadData("the model is infeasible whatever it gets of the shared resources")
            raise BadData(
                "the model is infeasible within this member's share of the shared resources; "
                "lower its minimum demands or agree on a larger share"
            )
        raise BadData("HiGHS finds neither a solution nor a reason why there is none")

    def answer(self, prices: Floats) -> Answer | None:
        """The best plan at these prices, or None if the solver fails for numerical reasons."""
        solver = self._solver
        solver.changeColsCost(self._resources, self._price_columns, -prices / self._finer)
        solver.run()
        if solver.getModelStatus() != _OPTIMAL:
            solver.clearSolver()
            solver.run()
            if solver.getModelStatus() != _OPTIMAL:
                return None
        values = np.array(solver.getSolution().col_value)
        plan, demand = values[: self._columns], values[self._columns :]
        # At price 0 any amount from what is consumed up to the limit is optimal. The least is
        # taken, so that the answer does not depend on which corner the solver came from.
        if np.count_nonzero(prices) < self._resources:
            unused = np.array(solver.allConstrValues())[: self._resources]
            demand = np.where(prices == 0.0, np.maximum(demand + unused, 0.0), demand)
        demand = demand / self._finer
        utility = float(self._utility @ plan) + self._offset
        return Answer(utility - float(prices @ demand), demand, plan)


def subproblem(data: DataSet, agreement: Agreement, name: str) -> Subproblem:
    """The subproblem of a member, within its share of each capacity."""
    share = agreement.share[agreement.place(name)]
    return Subproblem(data, share * agreement.capacity)


def finer(data: DataSet, limit: Floats) -> Floats:
    """Into how many parts to divide each unit, so that the solver counts to 1 at least.

    What HiGHS takes for nothing is an amount, 1e-7: of a limit of a hundredth of a unit it would
    be a part that shows. Powers of two, so that nothing is rounded, and never below 1: a small
    coefficient must not become one that HiGHS leaves out, nor a large one that it refuses.
    """
    largest = np.zeros(data.resources)
    shared = data.index < data.resources
    np.maximum.at(largest, data.index[shared], np.abs(data.value[shared]))
    room = math.frexp(LARGE)[1] - 1 - np.frexp(largest)[1]
    wanted = np.where((limit > 0.0) & np.isfinite(limit), 1 - np.frexp(limit)[1], 0)
    parts: Floats = np.ldexp(1.0, np.clip(np.minimum(wanted, room), 0, _FINEST))
    return parts


def counted(data: DataSet, parts: Floats) -> DataSet:
    """The same company, counting each shared resource in so many parts of a unit."""
    shared = data.index < data.resources
    scale = np.where(shared, parts[np.where(shared, data.index, 0)], 1.0)
    return replace(data, value=data.value * scale)


def model(data: DataSet, limit: Floats) -> highspy.HighsLp:
    """The subproblem at prices 0 as a linear program: columns x, s; rows shared, private."""
    n, m, r = data.columns, data.resources, data.private_rows
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n + m, m + r
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.offset_ = data.offset
    lp.col_cost_ = np.concatenate([data.utility, np.zeros(m)])
    lp.col_lower_ = np.concatenate([data.lower, np.minimum(limit, 0.0)])
    lp.col_upper_ = np.concatenate([data.upper, limit])
    lp.row_lower_ = np.concatenate([np.full(m, -math.inf), data.row_lower])
    lp.row_upper_ = np.concatenate([np.zeros(m), data.row_upper])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    extra = np.arange(1, m + 1, dtype=np.int32) + data.start[-1]
    lp.a_matrix_.start_ = np.concatenate([data.start, extra])
    lp.a_matrix_.index_ = np.concatenate([data.index, np.arange(m, dtype=np.int32)])
    lp.a_matrix_.value_ = np.concatenate([data.value, np.full(m, -1.0)])
    return lp


def loaded(lp: highspy.HighsLp) -> highspy.Highs:
    """A silent solver with one thread that holds this program."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("solver", "simplex")
    solver.passModel(lp)
    return solver


def _status(solver: highspy.Highs) -> highspy.HighsModelStatus:
    solver.run()
    status: highspy.HighsModelStatus = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        solver.setOptionValue("presolve", "off")
        solver.run()
        status = solver.getModelStatus()
        solver.setOptionValue("presolve", "choose")
    return status
