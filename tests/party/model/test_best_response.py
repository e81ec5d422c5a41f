"""The best response, compared with a fresh solver and with another solver."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from party.model.best_response import Subproblem, loaded
from party.model.company_model import CompanyModel, dense
from party.model.highs_program import model as lp_of
from party.model.linear_program import column_wise
from party.model.scaling import rescaled
from protocol.errors import BadData
from protocol.numeric import Floats
from scripts.lab.common.instances import draw
from scripts.lab.study.active_sets import Remembering
from tests.support.problems import (
    LIMIT,
    answered,
    as_good_as_cold,
    degenerate,
    drawn,
    feasible,
    free,
    matrix,
    mixed_units,
    one_column,
    other_solver,
    price_path,
    small,
    walk,
)

INF = math.inf


@pytest.mark.parametrize("model", [small, drawn, degenerate, free, mixed_units])
def test_answers_along_any_prices_are_feasible_and_best(
    model: Callable[[int], CompanyModel],
) -> None:
    """Along a random walk of prices every answer is as good as that of a fresh solver."""
    for seed in range(60, 68):
        data = model(seed)
        problem = Subproblem(data, LIMIT)
        for prices in walk(np.random.default_rng(seed), 30):
            as_good_as_cold(problem, data, prices)


@pytest.mark.parametrize("kind", [Subproblem, Remembering])
@pytest.mark.parametrize("coarse", [2.0**-10, 2.0**-20])
def test_the_unit_of_a_resource_does_not_change_answers(
    kind: type[Subproblem], coarse: float
) -> None:
    """Units a million times larger give the same plans."""
    for seed in range(60, 64):
        data = small(seed)
        plain = kind(data, LIMIT)
        other = kind(rescaled(data, np.full(3, coarse)), LIMIT * coarse)
        for prices in walk(np.random.default_rng(seed), 30):
            one, two = plain.answer(prices), other.answer(prices / coarse)
            assert one is not None
            assert two is not None
            assert two.objective == pytest.approx(one.objective, rel=1e-9, abs=1e-9)
            feasible(data, LIMIT, two.plan, two.demand / coarse)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_warm_start_is_as_good_as_a_cold_start(seed: int) -> None:
    """Along a real price path the warm solver finds the value of a fresh one."""
    instance = draw(seed, parties=4)
    path = price_path(seed, parties=4, rounds=30)
    steps = np.diff(path, axis=0)
    assert (steps > 0).any()
    assert (steps < 0).any()
    for data, problem in zip(instance.data[:2], instance.subproblems()[:2], strict=True):
        for prices in path:
            warm = problem.answer(prices)
            cold = Subproblem(data, instance.capacity).answer(prices)
            assert warm is not None
            assert cold is not None
            assert warm.objective == pytest.approx(cold.objective, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_another_solver_agrees(seed: int) -> None:
    """On random instances scipy finds the same values along a price path."""
    instance = draw(seed, parties=3)
    path = price_path(seed, parties=3, rounds=12)
    for data, problem in zip(instance.data, instance.subproblems(), strict=True):
        for prices in path[::3]:
            answer = problem.answer(prices)
            assert answer is not None
            expected = other_solver(data, instance.capacity, prices)
            assert answer.objective == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("seed", range(8))
def test_every_kind_of_row_and_bound_is_solved(seed: int) -> None:
    """With equalities, ranges, free, negative and fixed columns scipy finds the same value."""
    data = drawn(seed)
    problem = Subproblem(data, LIMIT)
    rng = np.random.default_rng(seed)
    for scale in (0.0, 0.5, 20.0, 2.0, -1.0):
        prices = scale * rng.uniform(0.0, 1.0, 3)
        answer = problem.answer(prices)
        assert answer is not None
        expected = other_solver(data, LIMIT, prices)
        assert answer.objective == pytest.approx(expected, rel=1e-7, abs=1e-7)
        feasible(data, LIMIT, answer.plan, answer.demand)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_objective_is_that_of_the_plan(seed: int) -> None:
    """The objective is the utility of the plan less the price of the demand."""
    instance = draw(seed, parties=3)
    for data, problem in zip(instance.data, instance.subproblems(), strict=True):
        for prices in price_path(seed, parties=3, rounds=8):
            answer = problem.answer(prices)
            assert answer is not None
            spent = math.fsum(prices * answer.demand)
            recomputed = math.fsum(data.utility * answer.plan) - spent + data.offset
            assert answer.objective == pytest.approx(recomputed, rel=1e-9, abs=1e-9)
            feasible(data, instance.capacity, answer.plan, answer.demand)


@pytest.mark.parametrize("seed", range(5))
def test_no_vertex_is_better_than_the_answer(seed: int) -> None:
    """On a small model all vertices of the feasible set are compared."""
    rng = np.random.default_rng(seed)
    data = dense(
        A=rng.uniform(0.0, 2.0, (1, 3)),
        B=rng.uniform(-1.0, 1.0, (3, 3)),
        u=rng.uniform(0.0, 5.0, 3),
        row_lower=np.full(3, -INF),
        row_upper=rng.uniform(0.5, 3.0, 3),
        lower=np.zeros(3),
        upper=np.full(3, 4.0),
    )
    problem = Subproblem(data, np.array([5.0]))
    rows = np.vstack([np.hstack([matrix(data).toarray(), [[-1.0], [0], [0], [0]]]), np.eye(4)])
    rows = np.vstack([rows, -np.eye(4)])
    limits = np.concatenate([[0.0], data.row_upper, data.upper, [5.0], np.zeros(4)])
    chosen = np.array(list(itertools.combinations(range(len(rows)), 4)))
    regular = chosen[np.abs(np.linalg.det(rows[chosen])) > 1e-9]
    points = np.linalg.solve(rows[regular], limits[regular][..., None])[..., 0]
    points = points[(points @ rows.T <= limits + 1e-9).all(axis=1)]
    for price in (0.0, 0.7, 2.0, 9.0):
        answer = problem.answer(np.array([price]))
        assert answer is not None
        best = (points @ np.append(data.utility, -price)).max()
        assert answer.objective == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_large_prices_have_an_answer() -> None:
    """Every price that the protocol allows has an answer, and later answers stay correct."""
    instance = draw(5, parties=2)
    data, problem = instance.data[0], instance.subproblems()[0]
    modest = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    expected = other_solver(data, instance.capacity, modest)
    for scale in (1e3, 1e6, 1e9, 1e12, 1e15):
        answer = problem.answer(np.full(5, scale))
        assert answer is not None
        feasible(data, instance.capacity, answer.plan, answer.demand)
        cold = Subproblem(data, instance.capacity).answer(np.full(5, scale))
        assert cold is not None
        assert answer.objective == pytest.approx(cold.objective, rel=1e-9)
        again = problem.answer(modest)
        assert again is not None
        assert again.objective == pytest.approx(expected, rel=1e-7)


def test_demand_falls_with_the_price() -> None:
    """A company takes all it may of a free resource, and its minimum of an expensive one."""
    data = dense(
        A=np.array([[2.0, 1.0]]),
        B=np.zeros((0, 2)),
        u=np.array([10.0, 3.0]),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.array([1.0, 0.0]),
        upper=np.array([4.0, 20.0]),
    )
    problem = Subproblem(data, np.array([12.0]))
    demands = []
    for price in (0.0, 2.9, 3.1, 4.9, 5.1, 4.0, 1.0):
        answer = problem.answer(np.array([price]))
        assert answer is not None
        demands.append(round(float(answer.demand[0]), 9))
    assert demands == [12.0, 12.0, 8.0, 8.0, 2.0, 8.0, 12.0]


def test_a_free_resource_is_not_hoarded() -> None:
    """At a price of 0 the demand is what the plan consumes, and never below 0."""
    data = dense(
        A=np.array([[2.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]),
        B=np.zeros((0, 2)),
        u=np.array([10.0, -1.0]),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.zeros(2),
        upper=np.array([1.5, 9.0]),
    )
    problem = Subproblem(data, np.array([12.0, 12.0, 12.0]))
    for prices in ([0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]):
        answer = problem.answer(np.array(prices))
        assert answer is not None
        assert answer.demand.tolist() == [3.0, 0.0, 0.0]


def test_demand_at_price_zero_does_not_depend_on_earlier_prices() -> None:
    """After a negative price, where all is taken, the demand at 0 is the consumption."""
    problem = Subproblem(one_column(), np.array([12.0]))
    demands = [answered(problem, np.array([price])).demand.tolist() for price in (-1.0, 0.0, 1.0)]
    assert demands == [[12.0], [3.0], [3.0]]


def test_feasibility_does_not_depend_on_prices() -> None:
    """A minimum demand that fits within the share fits at every price."""
    data = dense(
        A=np.array([[1.0, 1.0]]),
        B=np.array([[1.0, 1.0]]),
        u=np.array([1.0, 2.0]),
        row_lower=np.array([6.0]),
        row_upper=np.array([9.0]),
        lower=np.zeros(2),
        upper=np.full(2, INF),
    )
    with pytest.raises(BadData, match="infeasible within this member's share"):
        Subproblem(data, np.array([5.9]))
    problem = Subproblem(data, np.array([6.5]))
    for price in (1e9, 0.0, 5.0, 1e12, 1.5):
        answer = problem.answer(np.array([price]))
        assert answer is not None
        assert answer.demand[0] == pytest.approx(6.0 if price > 2.0 else 6.5)


def test_a_share_of_zero_gives_a_demand_of_zero() -> None:
    """A member that may claim nothing of a resource demands nothing of it."""
    data = drawn(11)
    without = np.array([60.0, 0.0, 60.0])
    free = dense(
        A=np.abs(data_rows(data, 3)),
        B=np.zeros((0, data.columns)),
        u=np.abs(data.utility),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.zeros(data.columns),
        upper=np.full(data.columns, 3.0),
    )
    answer = Subproblem(free, without).answer(np.zeros(3))
    assert answer is not None
    assert answer.demand[1] == 0.0
    assert answer.demand[[0, 2]].min() > 0.0


def data_rows(data: CompanyModel, count: int) -> Floats:
    dense_rows: Floats = matrix(data).toarray()[:count]
    return dense_rows


def test_a_larger_sparse_model_is_solved() -> None:
    """With hundreds of rows the warm solver finds the value of scipy."""
    data = drawn(7, columns=400, rows=150, density=0.03)
    limit = np.full(3, 150.0)
    problem = Subproblem(data, limit)
    for scale in (0.0, 1.0, 5.0, 2.0):
        prices = scale * np.array([1.0, 0.5, 2.0])
        answer = problem.answer(prices)
        assert answer is not None
        assert answer.objective == pytest.approx(other_solver(data, limit, prices), rel=1e-7)
        feasible(data, limit, answer.plan, answer.demand)


def test_answers_do_not_change_later() -> None:
    """An answer keeps its values while the solver moves on to other prices."""
    instance = draw(2, parties=2)
    problem = instance.subproblems()[0]
    first = problem.answer(np.zeros(5))
    assert first is not None
    copies = (first.demand.copy(), first.plan.copy())
    problem.answer(np.full(5, 50.0))
    assert first.demand.tolist() == copies[0].tolist()
    assert first.plan.tolist() == copies[1].tolist()
    assert len(first.demand) == 5
    assert len(first.plan) == instance.data[0].columns


def test_a_large_model_is_solved_from_an_interior_point_and_kept_warm() -> None:
    """With 6,000 columns the first answer and later ones are those of the simplex method."""
    rng = np.random.default_rng(5)
    n, m, r = 6000, 3, 300
    column = np.repeat(np.arange(n), 3)
    row = np.stack([np.arange(n) % m, m + np.arange(n) % r, m + rng.integers(0, r, n)], axis=1)
    row[:, 2] = np.where(row[:, 2] == row[:, 1], m + (row[:, 1] - m + 1) % r, row[:, 2])
    data = CompanyModel(
        names=tuple(f"x{i}" for i in range(n)),
        utility=rng.uniform(1.0, 100.0, n), offset=0.0,
        lower=np.zeros(n), upper=rng.uniform(1.0, 10.0, n),
        resources=m, row_lower=np.full(r, -np.inf), row_upper=rng.uniform(5.0, 40.0, r),
        **column_wise(n, column, row.ravel(), rng.uniform(0.1, 2.0, 3 * n)),
    )  # fmt: skip
    ceiling = np.full(m, 500.0)
    problem, plain = Subproblem(data, ceiling), loaded(lp_of(data, ceiling))
    for price in (0.0, 3.0, 20.0):
        answer = problem.answer(np.full(m, price))
        plain.changeColsCost(m, np.arange(n, n + m, dtype=np.int32), np.full(m, -price))
        plain.run()
        assert answer is not None
        assert answer.objective == pytest.approx(plain.getObjectiveValue(), rel=1e-7)
