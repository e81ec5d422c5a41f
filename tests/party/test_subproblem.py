"""The company's answer to prices, held against solving afresh and against another solver."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from party.dataset import DataSet, dense
from party.subproblem import Answer, Subproblem
from protocol.arrays import Floats
from protocol.errors import BadData
from scripts.instances import draw

INF = math.inf


def matrix(data: DataSet) -> sparse.csc_matrix:
    rows = data.resources + data.private_rows
    return sparse.csc_matrix((data.value, data.index, data.start), shape=(rows, data.columns))


def other_solver(data: DataSet, limit: Floats, prices: Floats) -> float:
    """The best objective by scipy, which is told the rows as ≤ and = instead of as ranges."""
    m = data.resources
    rows = sparse.csr_matrix(matrix(data))
    shared = sparse.hstack([rows[:m], -sparse.eye(m)])
    private = sparse.hstack([rows[m:], sparse.csr_matrix((data.private_rows, m))]).tocsr()
    equal = data.row_lower == data.row_upper
    below = np.isfinite(data.row_upper) & ~equal
    above = np.isfinite(data.row_lower) & ~equal
    result = linprog(
        np.concatenate([-data.utility, prices]),
        A_ub=sparse.vstack([shared, private[below], -private[above]]),
        b_ub=np.concatenate([np.zeros(m), data.row_upper[below], -data.row_lower[above]]),
        A_eq=private[equal] if equal.any() else None,
        b_eq=data.row_upper[equal] if equal.any() else None,
        bounds=[*zip(data.lower, data.upper, strict=True), *((0.0, most) for most in limit)],
    )
    assert result.status == 0
    return data.offset - float(result.fun)


def feasible(data: DataSet, limit: Floats, plan: Floats, demand: Floats) -> None:
    """A plan within all rows and bounds, and a demand that covers it, up to 1e-6."""
    activity = matrix(data) @ plan
    private = activity[data.resources :]
    assert (activity[: data.resources] <= demand + 1e-6).all()
    assert (private <= data.row_upper + 1e-6).all()
    assert (private >= data.row_lower - 1e-6).all()
    assert (plan >= data.lower - 1e-6).all()
    assert (plan <= data.upper + 1e-6).all()
    assert (demand >= -1e-7).all()
    assert (demand <= limit + 1e-7).all()


def price_path(seed: int, parties: int, rounds: int) -> list[Floats]:
    """The prices of a dual ascent on a drawn instance: up, down, and settling."""
    instance = draw(seed, parties=parties)
    problems = instance.subproblems()
    prices = np.zeros(len(instance.capacity))
    path = [prices]
    for t in range(rounds):
        answers = [problem.answer(prices) for problem in problems]
        total = np.sum([a.demand for a in answers if a is not None], axis=0)
        worth = 600.0 / math.sqrt(t + 1) * (total / instance.capacity - 1.0)
        prices = np.maximum(prices + worth / instance.capacity, 0.0)
        path.append(prices)
    return path


def drawn(seed: int, *, columns: int = 30, rows: int = 20, density: float = 0.3) -> DataSet:
    """A model with every sense of row and kind of bound, and a plan that is known to fit."""
    rng = np.random.default_rng(seed)
    B = rng.uniform(-1.0, 2.0, (rows, columns)) * (rng.random((rows, columns)) < density)
    A = rng.uniform(0.0, 2.0, (3, columns)) * (rng.random((3, columns)) < density)
    plan = rng.uniform(-1.0, 2.0, columns)
    lower, upper = plan - rng.uniform(0.0, 2.0, columns), plan + rng.uniform(0.0, 2.0, columns)
    upper[:3] = lower[:3] = plan[:3]
    at = B @ plan
    row_lower, row_upper = at - rng.uniform(0.0, 3.0, rows), at + rng.uniform(0.0, 3.0, rows)
    kind = np.arange(rows) % 4
    row_lower[kind == 0] = -INF
    row_upper[kind == 1] = INF
    row_lower[kind == 2] = row_upper[kind == 2] = at[kind == 2]
    utility = rng.uniform(-2.0, 8.0, columns)
    lower[4], utility[4] = -INF, 1.0
    upper[5], utility[5] = INF, -1.0
    return dense(
        A=A, B=B, u=utility, row_lower=row_lower, row_upper=row_upper, lower=lower, upper=upper
    )


def small(seed: int) -> DataSet:
    """Equalities, ranges, one-sided rows; fixed columns, and columns bounded on one side."""
    return drawn(seed, columns=12, rows=8, density=0.5)


def degenerate(seed: int) -> DataSet:
    """Small whole numbers, rows that say the same twice and rows through the origin."""
    rng = np.random.default_rng(seed)
    B = rng.integers(-1, 3, (8, 10)).astype(float)
    B[4:] = B[:4] * rng.integers(1, 3, (4, 1))
    return dense(
        A=rng.integers(0, 3, (3, 10)).astype(float),
        B=B,
        u=rng.integers(-1, 4, 10).astype(float),
        row_lower=np.full(8, -INF),
        row_upper=np.concatenate([rng.integers(0, 4, 4), np.zeros(4)]).astype(float),
        lower=np.zeros(10),
        upper=np.full(10, 5.0),
    )


def free(seed: int) -> DataSet:
    """Columns without any bound, which only the rows hold."""
    data = small(seed)
    rows = np.vstack([matrix(data).toarray()[3:], np.eye(12)])
    return dense(
        A=matrix(data).toarray()[:3],
        B=rows,
        u=data.utility,
        row_lower=np.concatenate([data.row_lower, data.lower]),
        row_upper=np.concatenate([data.row_upper, data.upper]),
        lower=np.full(12, -INF),
        upper=np.full(12, INF),
    )


def mixed_units(seed: int) -> DataSet:
    """The same kind of model with columns in units from ten thousandths to ten thousands."""
    rng, data = np.random.default_rng(seed), small(seed)
    units, scales = 10.0 ** rng.uniform(-4.0, 4.0, 12), 10.0 ** rng.uniform(-3.0, 3.0, 8)
    rows = matrix(data).toarray() * units
    return dense(
        A=rows[:3],
        B=rows[3:] * scales[:, None],
        u=data.utility * units,
        row_lower=data.row_lower * scales,
        row_upper=data.row_upper * scales,
        lower=data.lower / units,
        upper=data.upper / units,
    )


def walk(rng: np.random.Generator, steps: int) -> list[Floats]:
    """Prices that wander, come back, fall to 0 and below it, and now and then are huge."""
    prices: Floats = rng.uniform(0.0, 2.0, 3)
    path = [prices]
    for _ in range(steps):
        prices = prices + rng.normal(0.0, 0.3, 3)
        chance = rng.random()
        if chance < 0.15:
            prices = np.where(rng.random(3) < 0.5, 0.0, prices)
        elif chance < 0.25:
            prices = path[int(rng.integers(len(path)))]
        elif chance < 0.30:
            path.append(prices * 10.0 ** rng.uniform(3.0, 9.0))
        elif chance < 0.35:
            path.append(-np.abs(prices))
        path.append(prices)
    return [*path, np.zeros(3)]


def answered(problem: Subproblem, prices: Floats) -> Answer:
    answer = problem.answer(prices)
    assert answer is not None
    return answer


LIMIT = np.array([60.0, 60.0, 60.0])


def as_good_as_cold(problem: Subproblem, data: DataSet, prices: Floats) -> None:
    """An answer that is feasible, worth what it says, and worth what a fresh solver finds."""
    answer = answered(problem, prices)
    cold = answered(Subproblem(data, LIMIT), prices)
    assert answer.objective == pytest.approx(cold.objective, rel=1e-7, abs=1e-7)
    feasible(data, LIMIT, answer.plan, answer.demand)
    worth = float(data.utility @ answer.plan) - float(prices @ answer.demand)
    assert worth == pytest.approx(cold.objective, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("model", [small, drawn, degenerate, free, mixed_units])
def test_any_walk_of_prices(model: Callable[[int], DataSet]) -> None:
    """Along any walk of prices every answer is feasible and as good as one computed afresh."""
    for seed in range(60, 68):
        data = model(seed)
        problem = Subproblem(data, LIMIT)
        for prices in walk(np.random.default_rng(seed), 30):
            as_good_as_cold(problem, data, prices)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_warm_is_as_good_as_cold(seed: int) -> None:
    """Along a real price path the kept solver finds the value that a fresh one finds."""
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
    """On drawn instances the value along a price path is the one that scipy finds."""
    instance = draw(seed, parties=3)
    path = price_path(seed, parties=3, rounds=12)
    for data, problem in zip(instance.data, instance.subproblems(), strict=True):
        for prices in path[::3]:
            answer = problem.answer(prices)
            assert answer is not None
            expected = other_solver(data, instance.capacity, prices)
            assert answer.objective == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("seed", range(8))
def test_every_sense_and_bound(seed: int) -> None:
    """Equalities, ranges, free, negative and fixed columns are solved as scipy solves them."""
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
def test_objective_is_that_of_the_plan(seed: int) -> None:
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
def test_best_of_all_vertices(seed: int) -> None:
    """On a small model no vertex of the feasible set is better than the answer."""
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


def test_large_prices() -> None:
    """Any price that the protocol allows has an answer, and the next modest one is as ever."""
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
    """A company takes all it may where the resource is free and what it must where it is dear."""
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


def test_free_resource_is_not_hoarded() -> None:
    """At a price of 0 a company asks for what its plan consumes, and never for less than 0."""
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


def one_column() -> DataSet:
    """One product of which at most 1.5 are worth making, at two units each."""
    return dense(
        A=np.array([[2.0]]),
        B=np.zeros((0, 1)),
        u=np.array([10.0]),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.zeros(1),
        upper=np.array([1.5]),
    )


def test_what_was_paid_for_is_not_hoarded_when_it_is_free() -> None:
    """From below a price of 0, where all is taken, to 0, where what is consumed is asked for."""
    problem = Subproblem(one_column(), np.array([12.0]))
    demands = [answered(problem, np.array([price])).demand.tolist() for price in (-1.0, 0.0, 1.0)]
    assert demands == [[12.0], [3.0], [3.0]]


def test_minimum_demand_at_any_price() -> None:
    """Feasibility does not depend on prices: what fits within the share fits at every price."""
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


def test_share_of_nothing() -> None:
    """A member that may claim none of a resource answers with none of it."""
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


def data_rows(data: DataSet, count: int) -> Floats:
    dense_rows: Floats = matrix(data).toarray()[:count]
    return dense_rows


def test_larger_sparse_model() -> None:
    """A sparse model of hundreds of rows is solved warm as scipy solves it afresh."""
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
    """An answer stays what it was when the solver moves on to other prices."""
    instance = draw(2, parties=2)
    problem = instance.subproblems()[0]
    first = problem.answer(np.zeros(5))
    assert first is not None
    kept = (first.demand.copy(), first.plan.copy())
    problem.answer(np.full(5, 50.0))
    assert first.demand.tolist() == kept[0].tolist()
    assert first.plan.tolist() == kept[1].tolist()
    assert len(first.demand) == 5
    assert len(first.plan) == instance.data[0].columns
