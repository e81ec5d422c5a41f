"""Remembered corners: the same answers as from a solver that remembers nothing."""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from party.corner import KEPT, LARGEST, Corner
from party.dataset import DataSet, dense
from party.subproblem import Answer, Subproblem
from protocol.arrays import Floats
from scripts.instances import draw
from tests.kit.problems import drawn, feasible, matrix, other_solver, price_path

INF = math.inf


class Counting(Subproblem):
    """A subproblem that counts how often it had to ask the solver."""

    solved = 0

    def _solved(self, prices: Floats) -> Corner | None:
        self.solved += 1
        return super()._solved(prices)


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


@pytest.mark.parametrize("model", [small, drawn, degenerate, free, mixed_units])
def test_answers_are_those_of_a_solver_without_memory(model: Callable[[int], DataSet]) -> None:
    """Along any walk of prices every answer is feasible and as good as one computed afresh."""
    asked = solved = 0
    for seed in range(60, 68):
        data = model(seed)
        problem = Counting(data, LIMIT)
        for prices in walk(np.random.default_rng(seed), 30):
            answer = answered(problem, prices)
            cold = answered(Subproblem(data, LIMIT), prices)
            assert answer.objective == pytest.approx(cold.objective, rel=1e-7, abs=1e-7)
            feasible(data, LIMIT, answer.plan, answer.demand)
            worth = float(data.utility @ answer.plan) - float(prices @ answer.demand)
            assert worth == pytest.approx(cold.objective, rel=1e-7, abs=1e-7)
            asked += 1
        solved += problem.solved
    assert solved < 0.7 * asked, "hardly anything was remembered"


@pytest.mark.parametrize("seed", range(4))
def test_another_solver_agrees(seed: int) -> None:
    """Remembered answers are worth what scipy finds."""
    data = small(seed)
    problem = Counting(data, LIMIT)
    path = walk(np.random.default_rng(seed), 20)
    for prices in path:
        answered(problem, prices)
    before = problem.solved
    for prices in path[::-2]:
        expected = other_solver(data, LIMIT, prices)
        assert answered(problem, prices).objective == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert problem.solved - before < len(path[::-2])


def test_price_path_of_a_session_needs_the_solver_a_few_times() -> None:
    """Prices that rise, fall and settle as in a session meet the same corners again and again."""
    instance, path = draw(1, parties=4), price_path(1, parties=4, rounds=60)
    for data in instance.data:
        problem = Counting(data, instance.capacity)
        for prices in path:
            answer = answered(problem, prices)
            cold = answered(Subproblem(data, instance.capacity), prices)
            assert answer.objective == pytest.approx(cold.objective, rel=1e-9)
        assert problem.solved <= KEPT


def test_prices_seen_before_need_no_solver() -> None:
    """At prices seen before, in any order, the answer is known and has not changed."""
    instance = draw(2, parties=2)
    problem = Counting(instance.data[0], instance.capacity)
    path = price_path(2, parties=2, rounds=12)
    first = [answered(problem, prices) for prices in path]
    before = problem.solved
    for place in np.random.default_rng(2).permutation(len(path)):
        again = answered(problem, path[place])
        assert again.objective == pytest.approx(first[place].objective, rel=1e-12)
    assert problem.solved == before


def test_what_was_paid_for_is_not_hoarded_when_it_is_free() -> None:
    """A corner found below a price of 0, where all is taken, asks at 0 for what it consumes."""
    data = dense(
        A=np.array([[2.0]]),
        B=np.zeros((0, 1)),
        u=np.array([10.0]),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.zeros(1),
        upper=np.array([1.5]),
    )
    problem = Subproblem(data, np.array([12.0]))
    demands = [answered(problem, np.array([price])).demand.tolist() for price in (-1.0, 0.0, 1.0)]
    assert demands == [[12.0], [3.0], [3.0]]


def many_corners(columns: int = 60, private_rows: int = 0) -> DataSet:
    """Columns that pay one after the other as the price falls: a corner for every price."""
    return dense(
        A=np.ones((1, columns)),
        B=np.ones((private_rows, columns)),
        u=np.arange(1.0, columns + 1.0),
        row_lower=np.full(private_rows, -INF),
        row_upper=np.full(private_rows, 10.0 * columns),
        lower=np.zeros(columns),
        upper=np.ones(columns),
    )


def test_memory_is_bounded() -> None:
    """However many corners there are, no more than so many are kept, and all answers are right."""
    data = many_corners()
    problem = Counting(data, np.array([100.0]))
    prices = [60.5 - k for k in range(60)]
    for price in [*prices, *prices]:
        answer = answered(problem, np.array([price]))
        paying = [u - price for u in data.utility if u > price]
        assert answer.objective == pytest.approx(math.fsum(paying), rel=1e-9, abs=1e-9)
        assert answer.demand.tolist() == [len(paying)]
    assert problem.solved > KEPT
    assert problem._corners is not None
    assert len(problem._corners._regions) == KEPT


@pytest.mark.parametrize(("private_rows", "remembers"), [(48, True), (49, False)])
def test_large_models_are_not_remembered(private_rows: int, remembers: bool) -> None:
    """Up to so many rows and columns corners are kept; beyond, the solver gives every answer."""
    data = many_corners(200, private_rows)  # and a row and a column for the resource
    assert (data.columns + data.private_rows + 2 <= LARGEST) == remembers
    problem = Counting(data, np.array([1000.0]))
    for _ in range(3):
        assert answered(problem, np.array([150.5])).demand.tolist() == [50.0]
    assert problem.solved == (1 if remembers else 3)
    assert (problem.region is not None) == remembers


def test_remembered_answers_cannot_be_changed() -> None:
    """Nobody who got an answer can change what is remembered."""
    problem = Subproblem(small(1), LIMIT)
    answer = answered(problem, np.ones(3))
    for array in (answer.plan, answer.demand):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7.0


def test_regions_cannot_be_printed() -> None:
    """Where a corner is best says as much as the data, and has no printed form."""
    problem = Subproblem(small(1), LIMIT)
    answered(problem, np.ones(3))
    assert problem.region is not None
    assert not re.search(r"\d", repr(problem.region))
    assert not re.search(r"\d", repr(problem.region.corner))
