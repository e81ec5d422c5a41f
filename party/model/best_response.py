"""The company's best response to prices: one program, linear, mixed-integer or quadratic, in HiGHS.

Between rounds only the m prices change. The solver starts warm: from its last basis (linear),
active set (quadratic) or plan (integer). Every answer comes from the solver; none may be
faster because of its content. Answers are un-noised: only the gate and the settlement may read
them.
"""

import math
from typing import TYPE_CHECKING, Protocol

import highspy
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from party.model.company_model import CompanyModel, uses
from party.model.highs_program import hessian, model
from party.model.scaling import Scale, scales
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import Opposites, net_prices, quantities
from protocol.errors import BadCommand, BadData, Unsolved
from protocol.numeric import Floats
from protocol.records import Opaque

if TYPE_CHECKING:  # only the step `ball` needs it
    from party.model.ball_response import Trader

_OPTIMAL = highspy.HighsModelStatus.kOptimal
_INFEASIBLE = highspy.HighsModelStatus.kInfeasible
_UNBOUNDED = highspy.HighsModelStatus.kUnbounded
_PRIMAL_SIMPLEX = 4  # after a change of costs the basis stays primal feasible
_FEASIBLE = 2  # HiGHS: the solution is feasible, but perhaps not optimal
_OTHER_METHODS = ({"solver": "ipm"}, {"presolve": "off"})
"""For linear programs, if the simplex method fails."""

_LARGE_COLUMNS = 5_000
"""From here on the interior-point method is faster than the simplex method without a basis.

`scripts/bench large` compares both. Afterwards the simplex method starts from the basis found."""

_INTERIOR_STEPS = 500
_SIMPLEX_STEPS = 100
"""The most steps of the interior-point method, and of the simplex method for each row and column.
Usually both need far fewer. If more are needed, another method is tried."""


class MipLimits(Struct, frozen=True):
    """How long to search for the best integer plan.

    The search ends when a plan is proved to be within the relative `gap` of the best. It also ends
    after `seconds`, with the best plan found so far. Where answers have an agreed gap in money,
    that takes the place of `gap`.
    """

    gap: float = 1e-4
    seconds: float = 10.0
    #: What a price of 1 adds to the agreed gap of an answer, for each resource; empty if none is.
    agreed: tuple[float, ...] = ()
    opposites: Opposites = ()

    def in_money(self, prices: Floats) -> float:
        """The agreed gap of an answer at these prices; 0 if there is none."""
        if not self.agreed:
            return 0.0
        return math.fsum(net_prices(np.abs(prices) * self.agreed, self.opposites))

    def __post_init__(self) -> None:
        if not 0.0 <= self.gap < 1.0:
            raise BadCommand("--mip-gap must be at least 0 and below 1")
        if not 0.0 < self.seconds < math.inf:
            raise BadCommand("--mip-time-limit must be above 0")


USUAL = MipLimits()


class Answer(Opaque, frozen=True):
    """The company's best plan at some prices, and its demand. Secret."""

    objective: float
    demand: Floats
    plan: Floats

    def __repr__(self) -> str:
        return "<private answer>"


class Responder(Protocol):
    """Answers prices: a `Subproblem`, or a `Solver` in another process."""

    def ask(self, prices: Floats) -> None:
        """Announce the prices of the next `answer`."""
        ...

    def answer(self, prices: Floats) -> Answer | None:
        """The best plan at these prices, or None if there is no answer."""
        ...


class Subproblem:
    """max u·x − λ·s subject to A x ≤ s, the private rows and bounds, floor ≤ s ≤ ceiling.

    The floor is 0 unless given; below 0 it is what the company may bring.

    Feasibility and boundedness do not depend on λ, and both are checked here: once this object
    exists, no price can make the problem fail because of the data.
    """

    def __init__(
        self,
        data: CompanyModel,
        ceiling: Floats,
        limits: MipLimits = USUAL,
        floor: Floats | None = None,
    ) -> None:
        self._columns = data.columns
        self._resources = data.resources
        self._price_columns = np.arange(data.columns, data.columns + data.resources, dtype=np.int32)
        self._data = data
        self._limits = limits
        floor = np.minimum(ceiling, 0.0) if floor is None else floor
        self._range = ceiling, floor
        #: The plan and the demand of our own method, if HiGHS failed.
        self._interior: Floats | None = None
        self._scales = list(scales(data, np.maximum(np.abs(ceiling), np.abs(floor))))
        self._load(self._scales[0])
        if data.integer is None:
            if not self._solve_first(np.zeros(data.resources)):
                raise self._refusal()
            return
        if _status(_relaxed(self._scale.applied(data), *self._scaled_range)) != _OPTIMAL:
            raise self._refusal()
        self._find_integer_plan()

    @property
    def _scaled_range(self) -> tuple[Floats, Floats]:
        """The ceiling and the floor at the present scale."""
        ceiling, floor = self._range
        return ceiling * self._scale.units, floor * self._scale.units

    def _load(self, scale: Scale) -> None:
        """Load the model at a scale, at prices 0."""
        self._scale = scale
        data = scale.applied(self._data)
        self._solver = loaded(model(data, *self._scaled_range), hessian(data), self._limits)
        if data.quadratic is not None:
            self._solver.setOptionValue("qp_allow_hot_start", True)

    def _solve_first(self, prices: Floats) -> bool:
        """Solve from nothing. A large program starts with HiGHS' interior-point method."""
        if self._data.quadratic is None and self._columns >= _LARGE_COLUMNS:
            self._solver.setOptionValue("solver", "ipm")
            if self._run():
                self._solver.setOptionValue("solver", "simplex")  # from the basis that was found
                return True
            self._load(self._scale)
        return self._solve(prices)

    def _solve(self, prices: Floats) -> bool:
        """Solve at these prices: warm, from the beginning, by other methods, at other scales."""
        self._set_prices(prices)
        if self._run():
            return True
        self._solver.clearSolver()
        if self._run():
            return True
        # A quadratic program that HiGHS calls unbounded need not be unbounded.
        certain = (_INFEASIBLE,) if self._data.quadratic is not None else (_INFEASIBLE, _UNBOUNDED)
        if self._data.integer is not None or self._status in certain:
            return False
        if self._data.quadratic is None and self._run_otherwise():
            return True
        for scale in self._scales:
            self._load(scale)
            self._set_prices(prices)
            if self._run():
                return True
        return self._data.quadratic is not None and self._run_interior_point(prices)

    def _run_interior_point(self, prices: Floats) -> bool:
        """Whether our own method finds the plan of a concave model that HiGHS cannot solve."""
        self._load(self._scales[0])
        self._set_prices(prices)
        program, terms = self._solver.getLp(), hessian(self._scale.applied(self._data))
        if terms is not None and self._status != _INFEASIBLE:
            from party.model import interior_point

            self._interior = interior_point.solved(program, terms)
        return self._interior is not None

    def _run(self) -> bool:
        """Whether HiGHS finds a plan from where it is."""
        self._interior = None
        self._status = _status(self._solver)
        if not found(self._solver):
            return False
        if self._data.integer is None and self._data.quadratic is None:
            self._solver.setOptionValue("simplex_strategy", _PRIMAL_SIMPLEX)
        return True

    def _run_otherwise(self) -> bool:
        """Whether another method finds a plan. The solver keeps its usual one afterwards."""
        solver, done = self._solver, False
        for options in _OTHER_METHODS:
            before = {name: solver.getOptionValue(name)[1] for name in options}
            solver.clearSolver()
            for name, value in options.items():
                solver.setOptionValue(name, value)
            done = self._run()
            for name, value in before.items():
                solver.setOptionValue(name, value)
            if done or self._status in (_INFEASIBLE, _UNBOUNDED):
                break
        return done

    def _refusal(self) -> BadData:
        """The error for a model without a best plan."""
        status = _status(_relaxed(self._scale.applied(self._data), *self._scaled_range))
        if self._data.quadratic is not None and status != _INFEASIBLE:
            status = self._status
        if status == _UNBOUNDED:
            return BadData(
                "the model is unbounded: its objective grows without end within the shared "
                "capacities. Add the missing bound or row"
            )
        if status != _INFEASIBLE:
            return Unsolved(
                "HiGHS can neither solve the model nor prove that it has no solution; scale its "
                "coefficients closer to 1"
            )
        infinite = np.full(self._resources, math.inf)
        if _status(_relaxed(self._scale.applied(self._data), infinite, -infinite)) == status:
            return BadData(
                "the model is infeasible for any amount of the shared resources; check its private "
                "rows and bounds"
            )
        return BadData(
            "the model is infeasible within this member's share of the shared resources; "
            "lower its minimum demands or agree on a larger share"
        )

    def _find_integer_plan(self) -> None:
        """Find a first integer plan: later answers can always fall back on the last one."""
        self._solver.run()
        if self._solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            raise BadData(
                "the model is infeasible in whole numbers within this member's share of the shared "
                "resources; without its integer columns it is feasible. Lower its minimum demands "
                "or relax integer columns"
            )
        if not found(self._solver):
            raise Unsolved(
                f"HiGHS finds no plan in whole numbers within {self._limits.seconds:g} seconds; "
                "give it more time with --mip-time-limit"
            )

    def limit_search(self, seconds: float) -> None:
        """From now on search at most this long for an integer plan."""
        if self._data.integer is not None:
            self._solver.setOptionValue("time_limit", min(seconds, self._limits.seconds))

    def _set_prices(self, prices: Floats) -> None:
        """Change the prices; the next run starts from the last basis, plan or active set."""
        solver, scale = self._solver, self._scale
        costs = -prices * scale.money / scale.units
        if self._data.integer is None and self._data.quadratic is None:
            solver.changeColsCost(self._resources, self._price_columns, costs)
            return  # HiGHS keeps the basis
        solution, basis = solver.getSolution(), solver.getBasis()
        solver.changeColsCost(self._resources, self._price_columns, costs)
        start = highspy.HighsSolution()
        start.col_value = list(solution.col_value)
        if self._data.quadratic is None:
            solver.setSolution(start)
        else:
            start.row_value = list(solution.row_value)
            start.value_valid, start.dual_valid = True, False
            solver.setSolution(start)
            solver.setBasis(basis)  # after the solution, which invalidates the basis

    def move_ceiling(self, ceiling: Floats) -> None:
        """Replace the ceiling of a linear problem. The next answer starts from the last basis."""
        self._range = ceiling, np.minimum(ceiling, self._range[1])
        high, low = self._scaled_range
        self._solver.changeColsBounds(self._resources, self._price_columns, low, high)

    def ask(self, prices: Floats) -> None:
        """Nothing to prepare: `answer` computes at once."""

    def answer(self, prices: Floats) -> Answer | None:
        """The best plan at these prices, or None if the solver fails for numerical reasons.

        An integer plan is the best one found within the `MipLimits`.
        """
        if self._data.integer is not None:
            agreed = self._limits.in_money(prices)
            self._solver.setOptionValue("mip_abs_gap", agreed * self._scale.money)
            self._solver.setOptionValue("mip_rel_gap", 0.0 if agreed else self._limits.gap)
        if not self._solve(prices):
            return None
        solver, values = self._solver, self._interior
        if values is None:
            values = np.array(solver.getSolution().col_value)
        plan = values[: self._columns]
        demand = values[self._columns : self._columns + self._resources]
        # At price 0 any amount from the consumption up to the ceiling is optimal. Taking the
        # least makes the answer independent of the basis that the solver started from.
        if np.count_nonzero(prices) < self._resources:
            if self._interior is None:
                unused = np.array(solver.allConstrValues())[: self._resources]
            else:
                unused = self._scale.units * uses(self._data, plan) - demand
            demand = np.where(
                prices == 0.0, np.maximum(demand + unused, self._scaled_range[1]), demand
            )
        demand = demand / self._scale.units
        utility = float(self._data.utility @ plan) + self._data.offset
        if self._data.quadratic is not None:
            utility += self._data.quadratic.value_at(plan)
        return Answer(utility - float(prices @ demand), demand, plan)


def subproblem(
    data: CompanyModel, agreement: Agreement, name: str, limits: MipLimits = USUAL
) -> Subproblem:
    """The subproblem of a member, from its floor to its share of each capacity."""
    row, q = agreement.place(name), quantities(agreement)
    gap = (agreement.pricing.answer_gap or 0.0) / len(agreement.members)
    limits = replace(limits, agreed=tuple((gap * q.capacity).tolist()), opposites=q.opposites)
    return Subproblem(data, q.floor[row] + q.share[row] * q.capacity, limits, q.floor[row])


def responder(
    data: CompanyModel, agreement: Agreement, member: str, limits: MipLimits = USUAL
) -> "Trader | Subproblem":
    """What answers prices for a member in this session."""
    if agreement.ball:
        from party.model.ball_response import Trader

        return Trader.of(data, agreement, member, limits)
    return subproblem(data, agreement, member, limits)


def loaded(
    lp: highspy.HighsLp, quadratic: highspy.HighsHessian | None = None, limits: MipLimits = USUAL
) -> highspy.Highs:
    """A silent solver with one thread that holds this program."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    if lp.integrality_:
        solver.setOptionValue("mip_rel_gap", limits.gap)
        solver.setOptionValue("mip_abs_gap", 0.0)
        solver.setOptionValue("time_limit", limits.seconds)
    elif quadratic is None:  # "simplex" would silently drop integrality and quadratic terms
        solver.setOptionValue("solver", "simplex")
        steps = _SIMPLEX_STEPS * (100 + lp.num_col_ + lp.num_row_)
        solver.setOptionValue("simplex_iteration_limit", min(steps, 2**31 - 1))
        solver.setOptionValue("ipm_iteration_limit", _INTERIOR_STEPS)
    solver.passModel(lp)
    if quadratic is not None:
        solver.passHessian(quadratic)
        # The method can cycle; the way to an optimum is far shorter than this.
        solver.setOptionValue("qp_iteration_limit", 1000 + 20 * (lp.num_col_ + lp.num_row_))
    return solver


def found(solver: highspy.Highs) -> bool:
    """Whether the solver has the best plan, or a feasible integer plan at its time limit."""
    if solver.getModelStatus() == _OPTIMAL:
        return True
    ended = solver.getModelStatus() == highspy.HighsModelStatus.kTimeLimit
    return bool(ended and solver.getInfo().primal_solution_status == _FEASIBLE)


def _relaxed(data: CompanyModel, ceiling: Floats, floor: Floats) -> highspy.Highs:
    """A solver for the linear program without integrality and quadratic terms."""
    solver = loaded(model(replace(data, integer=None), ceiling, floor))
    if data.columns >= _LARGE_COLUMNS:
        solver.setOptionValue("solver", "ipm")
    return solver


def _status(solver: highspy.Highs) -> highspy.HighsModelStatus:
    if solver.run() == highspy.HighsStatus.kError:
        # HiGHS has one thread pool in a process; other code may have started it with more threads.
        highspy.Highs.resetGlobalScheduler(True)
        solver.run()
    status: highspy.HighsModelStatus = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        solver.setOptionValue("presolve", "off")
        solver.run()
        status = solver.getModelStatus()
        solver.setOptionValue("presolve", "choose")
    return status
