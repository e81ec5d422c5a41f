"""Integer and quadratic models, compared with other solvers."""

import itertools
import math
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
from msgspec.structs import replace
from scipy.optimize import linprog

from party.model import company_model
from party.model.best_response import Answer, MipLimits, Subproblem
from party.model.company_model import CompanyModel, dense
from party.model.linear_program import Quadratic
from party.settlement.settle import plan_within, smallest_extra
from protocol.agreement.parse import from_table
from protocol.errors import BadCommand, BadData
from protocol.numeric import Floats
from scripts.lab.common import instances
from tests.support.problems import answered, matrix

INF = math.inf

AGREEMENT = from_table(
    {
        "session": "kinds",
        "mode": "exact",
        "rounds": 5,
        "resource": [{"name": "hours", "capacity": 10.0}],
        "member": [{"name": "acme"}, {"name": "bolt"}],
    }
)

INTEGER_LP = """\
Maximize
 profit: 7 big + 4 small + 0.5 water
Subject To
 hours: 4 big + 3 small + 0.25 water <= 100
Bounds
 big <= 3
 small <= 5
 water <= 2
General
 big small
End
"""

QUADRATIC_LP = """\
Maximize
 profit: 12 x + 8 y + [ - 2 x^2 + 2 x * y - 4 y^2 ] / 2
Subject To
 hours: x + y <= 100
Bounds
 x <= 30
 y <= 30
End
"""


def knapsack(seed: int, columns: int = 10) -> CompanyModel:
    """Items to take or leave, and one continuous amount."""
    rng = np.random.default_rng(seed)
    n = columns + 1
    data = dense(
        A=rng.integers(1, 20, (2, n)).astype(float),
        B=rng.integers(0, 5, (1, n)).astype(float),
        u=rng.uniform(5.0, 50.0, n),
        row_lower=np.array([-INF]),
        row_upper=np.array([12.0]),
        lower=np.zeros(n),
        upper=np.ones(n),
    )
    return replace(data, integer=np.arange(n) < columns)


def best_by_trying(data: CompanyModel, limit: Floats, prices: Floats) -> float:
    """The best value of a knapsack, by trying every choice of items."""
    rows = matrix(data).toarray()
    best = -INF
    for choice in itertools.product((0.0, 1.0), repeat=data.columns - 1):
        x = np.array([*choice, 0.0])
        room = np.concatenate([limit, data.row_upper]) - rows @ x
        if room.min() < 0.0:
            continue
        each = float(data.utility[-1] - prices @ rows[:2, -1])
        most = min([1.0, *(room[rows[:, -1] > 0.0] / rows[rows[:, -1] > 0.0, -1])])
        worth = float(data.utility @ x - prices @ (rows[:2] @ x))
        best = max(best, worth + max(0.0, each) * most)
    return best


def curved(seed: int, columns: int = 12) -> CompanyModel:
    """A random model with a concave quadratic objective."""
    rng = np.random.default_rng(seed)
    data = dense(
        A=rng.uniform(0.0, 5.0, (2, columns)),
        B=rng.uniform(0.0, 1.0, (3, columns)),
        u=rng.uniform(50.0, 150.0, columns),
        row_lower=np.full(3, -INF),
        row_upper=rng.uniform(2.0, 10.0, 3),
        lower=np.zeros(columns),
        upper=np.full(columns, INF),
    )
    root = rng.normal(0.0, 3.0, (columns, columns)) * (rng.random((columns, columns)) < 0.3)
    Q = -(root @ root.T) - np.diag(rng.uniform(0.0, 20.0, columns))
    row, column = np.nonzero(np.tril(Q).T)
    counts = np.bincount(row, minlength=columns)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    part = Quadratic(start, column.astype(np.int32), Q[column, row])
    return replace(data, quadratic=part)


def still_to_gain(data: CompanyModel, limit: Floats, prices: Floats, answer: Answer) -> float:
    """An upper bound on what a better plan could gain, by scipy.

    The objective is never above its tangent, so the bound is 0 only at the best plan.
    """
    assert data.quadratic is not None
    n, m, part = data.columns, data.resources, data.quadratic
    slope = data.utility.copy()
    for column, row, value in zip(part.column, part.index, part.value, strict=True):
        slope[row] += value * answer.plan[column]
        slope[column] += value * answer.plan[row] * (row != column)
    rows = np.hstack([matrix(data).toarray(), np.vstack([-np.eye(m), np.zeros((3, m))])])
    towards = np.concatenate([slope, -prices])
    done = linprog(
        -towards,
        A_ub=rows,
        b_ub=np.concatenate([np.zeros(m), data.row_upper]),
        bounds=[(0.0, None)] * n + [(0.0, c) for c in limit],
    )
    return float(-done.fun - towards @ np.concatenate([answer.plan, answer.demand]))


@pytest.mark.parametrize("seed", range(6))
def test_integer_answers_are_the_best_of_all_choices(seed: int) -> None:
    """At any prices the plan is integer and feasible, and no other choice is better."""
    data, limit = knapsack(seed), np.array([40.0, 45.0])
    problem = Subproblem(data, limit, MipLimits(gap=0.0))
    rng = np.random.default_rng(seed)
    for scale in (0.0, 0.3, 1.0, 0.1, 3.0):
        prices = scale * rng.uniform(0.0, 2.0, 2)
        answer = answered(problem, prices)
        assert answer.objective == pytest.approx(best_by_trying(data, limit, prices), abs=1e-5)
        chosen = answer.plan[data.integer]
        assert np.abs(chosen - np.rint(chosen)).max() < 1e-6
        assert np.all(matrix(data).toarray()[:2] @ answer.plan <= answer.demand + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_an_integer_plan_within_a_quota_is_exact(seed: int) -> None:
    """Its integers are exact, it stays within the quota, and no other choice is better."""
    data = knapsack(seed)
    for limit in (np.array([31.0, 29.0]), np.array([30.999999999, 29.00000001]), np.zeros(2)):
        plan = plan_within(data, limit, MipLimits(gap=0.0))
        assert plan is not None
        assert (plan.values[data.integer] % 1.0 == 0.0).all()
        assert np.all(plan.uses <= limit)
        assert plan.utility == pytest.approx(best_by_trying(data, limit, np.zeros(2)), abs=1e-5)


def test_the_shortfall_of_an_integer_model_is_exact() -> None:
    """A company that must make one item lacks what the complete item needs."""
    data = dense(
        A=np.array([[4.0]]), B=np.array([[2.0]]), u=np.array([1.0]),
        row_lower=np.array([1.0]), row_upper=np.array([INF]), lower=np.zeros(1), upper=np.ones(1),
    )  # fmt: skip
    integer = replace(data, integer=np.array([True]))
    quarter = np.array([AGREEMENT.ticks // 4])  # 2.5 of the 10 hours: half an item takes 2
    assert plan_within(data, np.array([2.5])) is not None
    assert plan_within(integer, np.array([2.5])) is None
    extra = smallest_extra(integer, AGREEMENT, 0, quarter)
    assert extra is not None
    assert extra[0] / AGREEMENT.ticks * 10.0 == pytest.approx(1.5, abs=1e-9)


def test_models_are_solved_after_other_code_used_more_threads() -> None:
    """HiGHS has one thread pool in a process, which other code may have started."""
    before = highspy.Highs()
    before.silent()
    before.setOptionValue("threads", 3)
    before.setOptionValue("parallel", "on")
    x = [before.addBinary(obj=float(k % 7 + 1)) for k in range(20)]
    before.addConstr(sum((k % 5 + 1) * v for k, v in enumerate(x)) <= 15.0)
    before.setMaximize()
    before.run()
    for data in (knapsack(1), curved(1)):
        limit = np.full(data.resources, 40.0)
        assert answered(Subproblem(data, limit), np.ones(data.resources)).objective > 0.0


def test_a_model_without_an_integer_plan_is_refused() -> None:
    """The error says that only the integer columns make it infeasible."""
    data = dense(
        A=np.array([[1.0]]), B=np.array([[2.0]]), u=np.array([1.0]),
        row_lower=np.array([1.0]), row_upper=np.array([1.0]), lower=np.zeros(1), upper=np.ones(1),
    )  # fmt: skip
    Subproblem(data, np.ones(1))
    with pytest.raises(BadData, match="infeasible in whole numbers within this member's share"):
        Subproblem(replace(data, integer=np.array([True])), np.ones(1))


def test_every_answer_has_a_plan_even_without_time() -> None:
    """Without time to search, the last plan is the answer: it is feasible at every price."""
    rng = np.random.default_rng(4)
    n = 300
    data = dense(
        A=rng.integers(1, 60, (20, n)).astype(float), B=np.zeros((0, n)),
        u=rng.uniform(50.0, 150.0, n), row_lower=np.zeros(0), row_upper=np.zeros(0),
        lower=np.zeros(n), upper=np.ones(n),
    )  # fmt: skip
    data = replace(data, integer=np.ones(n, dtype=np.bool_))
    limit = np.full(20, 2000.0)
    problem = Subproblem(data, limit, MipLimits(gap=0.5, seconds=120.0))
    problem._solver.setOptionValue("time_limit", 1e-6)
    for _ in range(3):
        answer = answered(problem, rng.uniform(0.0, 0.5, 20))
        assert np.all(matrix(data).toarray() @ answer.plan <= limit + 1e-6)


@pytest.mark.parametrize("wrong", [{"gap": -0.1}, {"gap": 1.0}, {"seconds": 0.0}])
def test_mip_limits_are_checked(wrong: dict[str, Any]) -> None:
    """The gap is a fraction, and the time is positive."""
    with pytest.raises(BadCommand, match="must be"):
        MipLimits(**wrong)


@pytest.mark.parametrize("seed", range(4))
def test_quadratic_answers_are_optimal(seed: int) -> None:
    """Along a walk of prices scipy finds nothing to gain."""
    data, limit = curved(seed), np.array([15.0, 12.0])
    problem = Subproblem(data, limit)
    rng = np.random.default_rng(seed)
    for _ in range(10):
        prices = rng.uniform(0.0, 10.0, 2)
        answer = answered(problem, prices)
        worth = data.earns(answer.plan) - float(prices @ answer.demand)
        assert answer.objective == pytest.approx(worth, rel=1e-9)
        assert still_to_gain(data, limit, prices, answer) <= 1e-5 * answer.objective


def test_a_quadratic_warm_start_is_as_good_as_a_cold_start() -> None:
    """Starting from the last active set gives the value of a fresh solver."""
    data, limit = curved(7, columns=40), np.array([15.0, 12.0])
    problem = Subproblem(data, limit)
    rng = np.random.default_rng(7)
    for _ in range(25):
        prices = rng.uniform(0.0, 8.0, 2) * (rng.random(2) < 0.8)
        warm, cold = answered(problem, prices), answered(Subproblem(data, limit), prices)
        assert warm.objective == pytest.approx(cold.objective, rel=1e-6, abs=1e-6)


def test_a_quadratic_plan_stays_within_its_quota() -> None:
    """It is exactly within the quota, and as good as the best response at price 0."""
    data, limit = curved(3), np.array([3.0, 2.0])
    plan = plan_within(data, limit)
    assert plan is not None
    assert np.all(plan.uses <= limit)
    assert plan.utility == pytest.approx(answered(Subproblem(data, limit), np.zeros(2)).objective)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("seed", "parties", "row", "limit"),
    [
        (1, 10, 7, [8.09192358e-05, 1.52588895e-02, 9.10044876e-04]),  # HiGHS gives up at first
        (
            11,
            4,
            1,
            [6.345e-4, 4.601e-05, 3.153e-06, 0.2375, 3.799e-4],
        ),  # and cycles
    ],
)
def test_a_quadratic_model_has_a_plan_within_a_tiny_quota(
    seed: int, parties: int, row: int, limit: list[float]
) -> None:
    """Even where HiGHS fails at first, there is a plan: making nothing is feasible."""
    data = instances.curved(seed, parties=parties, resources=len(limit)).data[row]
    plan = plan_within(data, np.array(limit))
    assert plan is not None
    assert np.all(plan.uses <= np.array(limit) + 1e-9)
    assert plan.utility > 0.0


def test_an_unbounded_quadratic_model_is_refused() -> None:
    """A direction without curvature and without limit is found before joining."""
    data = replace(curved(2), row_upper=np.full(3, INF))
    free = replace(data, value=np.where(data.index < 2, 0.0, data.value))
    none = Quadratic(np.zeros(13, dtype=np.int32), np.zeros(0, dtype=np.int32), np.zeros(0))
    with pytest.raises(BadData, match="unbounded"):
        Subproblem(replace(free, quadratic=none), np.ones(2))


def test_lp_files_may_be_integer_or_quadratic(tmp_path: Path) -> None:
    """The integer columns and the quadratic terms are read, and the best plans found."""
    for name, text in (("integer.lp", INTEGER_LP), ("quadratic.lp", QUADRATIC_LP)):
        (tmp_path / name).write_text(text)
    integer = company_model.read(tmp_path / "integer.lp", AGREEMENT)
    assert integer.integer is not None
    assert dict(zip(integer.names, integer.integer.tolist(), strict=True)) == {
        "big": True, "small": True, "water": False,
    }  # fmt: skip
    plan = plan_within(integer, np.array([10.0]))
    assert plan is not None
    assert plan.utility == pytest.approx(2 * 7 + 0.5 * 2)  # two big ones, and water: 8.5 hours
    quadratic = company_model.read(tmp_path / "quadratic.lp", AGREEMENT)
    answer = answered(Subproblem(quadratic, np.array([100.0])), np.zeros(1))
    # 12 − 2x + y = 0 and 8 + x − 4y = 0.
    assert dict(zip(quadratic.names, answer.plan.tolist(), strict=True)) == pytest.approx(
        {"x": 8.0, "y": 4.0}, abs=1e-5
    )
    assert answer.objective == pytest.approx(64.0)
