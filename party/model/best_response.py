"""The company's answer to prices: one linear, mixed-integer or quadratic program, kept in HiGHS.

Between rounds only the m prices change. A linear program goes on from its last basis and is done
in a few pivots; a quadratic one goes on from its last active set; one with whole numbers has its
last plan to begin with. Every answer is the solver's: none may come sooner because of what it
says. What comes out is un-noised: only the gate and the settlement may read it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import highspy
import numpy as np

from party.model.company_model import CompanyModel
from party.model.model_file import LARGE
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import BadCommand, BadData
from protocol.numeric import Floats

_OPTIMAL = highspy.HighsModelStatus.kOptimal
_CERTAIN = (_OPTIMAL, highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnbounded)
_FINEST = 30  # below a billionth of a unit there is nothing to count
_PRIMAL_SIMPLEX = 4  # after a change of costs the basis stays primal feasible
_FEASIBLE = 2  # how HiGHS says that a solution is a plan, whether or not the best


Warm = Callable[[highspy.Highs, highspy.HighsSolution, highspy.HighsBasis], None]
"""Gives a solver the solution and basis of its last answer to begin with."""


@dataclass(frozen=True)
class MipLimits:
    """How long to look for the best plan where a model has whole numbers.

    The search ends at a plan that is proved to miss the best by at most the part `gap` of it, or
    after `seconds`, with the best plan found until then.
    """

    gap: float = 1e-4
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.gap < 1.0:
            raise BadCommand("--mip-gap must be at least 0 and below 1")
        if not 0.0 < self.seconds < math.inf:
            raise BadCommand("--mip-time-limit must be above 0")


USUAL = MipLimits()


@dataclass(frozen=True, repr=False, eq=False)
class Answer:
    """What the company would do at some prices. Secret."""

    objective: float
    demand: Floats
    plan: Floats

    def __repr__(self) -> str:
        return "<private answer>"


class Responder(Protocol):
    """Whatever can answer prices: a `Subproblem`, or one that runs beside the party."""

    def ask(self, prices: Floats) -> None:
        """Say to which prices `answer` will be asked for."""
        ...

    def answer(self, prices: Floats) -> Answer | None:
        """The best plan at these prices, or None if there is none to be had."""
        ...


class Subproblem:
    """max u·x − λ·s subject to A x ≤ s, the private rows and bounds, floor ≤ s ≤ limit.

    The floor is 0 unless it is said; below 0 it is what the company may bring.

    Feasibility and boundedness do not depend on λ, and both are settled here: once this
    object exists, no price can make the problem fail for a reason that lies in the data.
    """

    def __init__(
        self,
        data: CompanyModel,
        limit: Floats,
        effort: MipLimits = USUAL,
        floor: Floats | None = None,
    ) -> None:
        self._columns = data.columns
        self._resources = data.resources
        self._price_columns = np.arange(data.columns, data.columns + data.resources, dtype=np.int32)
        self._data = data
        self._effort = effort
        floor = np.minimum(limit, 0.0) if floor is None else floor
        size = np.maximum(np.abs(limit), np.abs(floor))
        status = self._loaded(finer(data, size), limit, floor, effort)
        if data.quadratic is not None and status not in _CERTAIN:
            # Parts of a unit can be too much for HiGHS' method for curved objectives.
            status = self._loaded(np.ones_like(size), limit, floor, effort)
        self._warm: Warm | None = _last_plan if data.whole is not None else None
        if status == _OPTIMAL:
            if data.quadratic is not None:
                self._warm = _last_active_set
                self._solver.setOptionValue("qp_allow_hot_start", True)
            elif data.whole is None:
                self._solver.setOptionValue("simplex_strategy", _PRIMAL_SIMPLEX)
            else:
                self._find_whole(effort)
            return
        if status == highspy.HighsModelStatus.kUnbounded:
            raise BadData(
                "the model is unbounded: its objective grows without end within the shared "
                "capacities; a bound or a row is missing"
            )
        infinite = np.full(data.resources, math.inf)
        free = _status(_relaxed(counted(data, self._finer), infinite, -infinite))
        if status == highspy.HighsModelStatus.kInfeasible:
            if free == highspy.HighsModelStatus.kInfeasible:
                raise BadData("the model is infeasible whatever it gets of the shared resources")
            raise BadData(
                "the model is infeasible within this member's share of the shared resources; "
                "lower its minimum demands or agree on a larger share"
            )
        raise BadData("HiGHS finds neither a solution nor a reason why there is none")

    def _loaded(
        self, parts: Floats, limit: Floats, floor: Floats, effort: MipLimits
    ) -> highspy.HighsModelStatus:
        """Begin with each unit in so many parts; what HiGHS says of it but for whole numbers."""
        data, limit = counted(self._data, parts), limit * parts
        self._finer, self._floor = parts, floor * parts
        self._solver = loaded(model(data, limit, self._floor), hessian(data), effort)
        return _status(self._solver if data.whole is None else _relaxed(data, limit, self._floor))

    def _find_whole(self, effort: MipLimits) -> None:
        """Find a first plan in whole numbers: later ones are never without any."""
        self._solver.run()
        if self._solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            raise BadData(
                "the model is infeasible in whole numbers within this member's share of the "
                "shared resources, though not without them"
            )
        if not found(self._solver):
            raise BadData(
                f"HiGHS finds no plan in whole numbers within {effort.seconds:g} seconds; give it "
                "more with --mip-time-limit"
            )

    def hurry(self, seconds: float) -> None:
        """Look no longer than this for a plan in whole numbers, from now on."""
        if self._data.whole is not None:
            self._solver.setOptionValue("time_limit", min(seconds, self._effort.seconds))

    def ask(self, prices: Floats) -> None:
        """Nothing to prepare: whoever asks waits for the answer."""

    def answer(self, prices: Floats) -> Answer | None:
        """The best plan at these prices, or None if the solver fails for numerical reasons.

        In whole numbers it is the best that was found, as `MipLimits` says.
        """
        solver = self._solver
        before = (solver.getSolution(), solver.getBasis()) if self._warm is not None else None
        solver.changeColsCost(self._resources, self._price_columns, -prices / self._finer)
        if self._warm is not None and before is not None:
            self._warm(solver, *before)
        solver.run()
        if not found(solver):
            solver.clearSolver()
            solver.run()
            if not found(solver):
                return None
        values = np.array(solver.getSolution().col_value)
        plan, demand = values[: self._columns], values[self._columns :]
        # At price 0 any amount from what is consumed up to the limit is optimal. The least is
        # taken, so that the answer does not depend on which corner the solver came from.
        if np.count_nonzero(prices) < self._resources:
            unused = np.array(solver.allConstrValues())[: self._resources]
            demand = np.where(prices == 0.0, np.maximum(demand + unused, self._floor), demand)
        demand = demand / self._finer
        utility = float(self._data.utility @ plan) + self._data.offset
        if self._data.quadratic is not None:
            utility += self._data.quadratic.value_at(plan)
        return Answer(utility - float(prices @ demand), demand, plan)


def _last_plan(
    solver: highspy.Highs, solution: highspy.HighsSolution, _: highspy.HighsBasis
) -> None:
    """Begin with the last plan: at any prices it is one."""
    start = highspy.HighsSolution()
    start.col_value = list(solution.col_value)
    solver.setSolution(start)


def _last_active_set(
    solver: highspy.Highs, solution: highspy.HighsSolution, basis: highspy.HighsBasis
) -> None:
    """Begin where the last answer was. The basis comes second: a solution makes it invalid."""
    start = highspy.HighsSolution()
    start.col_value, start.row_value = list(solution.col_value), list(solution.row_value)
    start.value_valid, start.dual_valid = True, False
    solver.setSolution(start)
    solver.setBasis(basis)


def subproblem(
    data: CompanyModel, agreement: Agreement, name: str, effort: MipLimits = USUAL
) -> Subproblem:
    """The subproblem of a member, from its floor to its share of each capacity."""
    row = agreement.place(name)
    floor = quantities(agreement).floor[row]
    return Subproblem(
        data,
        floor + quantities(agreement).share[row] * quantities(agreement).capacity,
        effort,
        floor,
    )


def finer(data: CompanyModel, limit: Floats) -> Floats:
    """Into how many parts to divide each unit, so that the solver counts to 1 at least.

    What HiGHS takes for nothing is an amount, 1e-7: of a limit of a hundredth of a unit it would
    be a part that shows. Powers of two, so that nothing is rounded, and never below 1: a small
    coefficient must not become one that HiGHS leaves out, nor a large one that it refuses.
    """
    largest = np.zeros(data.resources)
    shared = data.index < data.resources
    np.maximum.at(largest, data.index[shared], np.abs(data.value[shared]))
    room = math.frexp(LARGE)[1] - 1 - np.frexp(largest)[1]
    limit = np.abs(limit)
    wanted = np.where((limit > 0.0) & np.isfinite(limit), 1 - np.frexp(limit)[1], 0)
    parts: Floats = np.ldexp(1.0, np.clip(np.minimum(wanted, room), 0, _FINEST))
    return parts


def counted(data: CompanyModel, parts: Floats) -> CompanyModel:
    """The same company, counting each shared resource in so many parts of a unit."""
    shared = data.index < data.resources
    scale = np.where(shared, parts[np.where(shared, data.index, 0)], 1.0)
    return replace(data, value=data.value * scale)


def model(data: CompanyModel, limit: Floats, floor: Floats | None = None) -> highspy.HighsLp:
    """The subproblem at prices 0 less its quadratic part: columns x, s; rows shared, private."""
    n, m, r = data.columns, data.resources, data.private_rows
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n + m, m + r
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.offset_ = data.offset
    lp.col_cost_ = np.concatenate([data.utility, np.zeros(m)])
    least = np.minimum(limit, 0.0) if floor is None else floor
    lp.col_lower_ = np.concatenate([data.lower, least])
    lp.col_upper_ = np.concatenate([data.upper, limit])
    lp.row_lower_ = np.concatenate([np.full(m, -math.inf), data.row_lower])
    lp.row_upper_ = np.concatenate([np.zeros(m), data.row_upper])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    extra = np.arange(1, m + 1, dtype=np.int32) + data.start[-1]
    lp.a_matrix_.start_ = np.concatenate([data.start, extra])
    lp.a_matrix_.index_ = np.concatenate([data.index, np.arange(m, dtype=np.int32)])
    lp.a_matrix_.value_ = np.concatenate([data.value, np.full(m, -1.0)])
    if data.whole is not None:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[w] for w in data.whole.tolist()] + [kinds[0]] * m
    return lp


def hessian(data: CompanyModel) -> highspy.HighsHessian | None:
    """The quadratic part of a model for HiGHS, where it has one; columns as in `model`."""
    if data.quadratic is None:
        return None
    start = data.quadratic.start
    part = highspy.HighsHessian()
    part.dim_ = data.columns + data.resources
    part.format_ = highspy.HessianFormat.kTriangular
    part.start_ = np.concatenate([start, np.full(data.resources, start[-1], dtype=np.int32)])
    part.index_, part.value_ = data.quadratic.index, data.quadratic.value
    return part


def loaded(
    lp: highspy.HighsLp, part: highspy.HighsHessian | None = None, effort: MipLimits = USUAL
) -> highspy.Highs:
    """A silent solver with one thread that holds this program."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    if lp.integrality_:
        solver.setOptionValue("mip_rel_gap", effort.gap)
        solver.setOptionValue("mip_abs_gap", 0.0)
        solver.setOptionValue("time_limit", effort.seconds)
    elif part is None:  # it would leave out whole numbers and quadratic parts without a word
        solver.setOptionValue("solver", "simplex")
    solver.passModel(lp)
    if part is not None:
        solver.passHessian(part)
        # It can go round in a circle; a way to the best plan is far shorter.
        solver.setOptionValue("qp_iteration_limit", 1000 + 20 * (lp.num_col_ + lp.num_row_))
    return solver


def found(solver: highspy.Highs) -> bool:
    """Whether the solver has the best plan, or in whole numbers one that it had time for."""
    if solver.getModelStatus() == _OPTIMAL:
        return True
    ended = solver.getModelStatus() == highspy.HighsModelStatus.kTimeLimit
    return bool(ended and solver.getInfo().primal_solution_status == _FEASIBLE)


def _relaxed(data: CompanyModel, limit: Floats, floor: Floats) -> highspy.Highs:
    """A solver for the linear program that is left without whole numbers and quadratic part."""
    return loaded(model(replace(data, whole=None), limit, floor))


def _status(solver: highspy.Highs) -> highspy.HighsModelStatus:
    if solver.run() == highspy.HighsStatus.kError:
        # HiGHS has one pool of threads in a process, and a program may have solved with more.
        highspy.Highs.resetGlobalScheduler(True)
        solver.run()
    status: highspy.HighsModelStatus = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        solver.setOptionValue("presolve", "off")
        solver.run()
        status = solver.getModelStatus()
        solver.setOptionValue("presolve", "choose")
    return status
