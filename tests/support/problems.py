"""Private problems of every kind, and a second solver to compare with."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from party.model.best_response import Answer, Subproblem
from party.model.company_model import CompanyModel, dense
from protocol.numeric import Floats
from scripts.lab.common.instances import draw

INF = math.inf
LIMIT = np.array([60.0, 60.0, 60.0])
"""What the random companies may take of each resource."""


def matrix(data: CompanyModel) -> sparse.csc_matrix:
    rows = data.resources + data.private_rows
    return sparse.csc_matrix((data.value, data.index, data.start), shape=(rows, data.columns))


def other_solver(data: CompanyModel, limit: Floats, prices: Floats) -> float:
    """The best objective by scipy, with rows as ≤ and = instead of ranges."""
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


def feasible(data: CompanyModel, limit: Floats, plan: Floats, demand: Floats) -> None:
    """Assert that a plan keeps all rows and bounds, and the demand covers it, up to 1e-6."""
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
    """The prices of a dual ascent on a random instance: up, down, and converging."""
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


def drawn(seed: int, *, columns: int = 30, rows: int = 20, density: float = 0.3) -> CompanyModel:
    """A random feasible model with every kind of row and bound."""
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


def small(seed: int) -> CompanyModel:
    """A small random model with every kind of row and bound."""
    return drawn(seed, columns=12, rows=8, density=0.5)


def degenerate(seed: int) -> CompanyModel:
    """Small integers, redundant rows and rows through the origin."""
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


def free(seed: int) -> CompanyModel:
    """Columns without bounds; only the rows limit them."""
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


def mixed_units(seed: int) -> CompanyModel:
    """A small model with columns in units from 1e-4 to 1e4."""
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
    """A random walk of prices, with repeats, zeros, negative and huge prices."""
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


def as_good_as_cold(problem: Subproblem, data: CompanyModel, prices: Floats) -> None:
    """Assert that an answer is feasible, and as good as that of a fresh solver."""
    answer = answered(problem, prices)
    cold = answered(Subproblem(data, LIMIT), prices)
    assert answer.objective == pytest.approx(cold.objective, rel=1e-7, abs=1e-7)
    feasible(data, LIMIT, answer.plan, answer.demand)
    worth = float(data.utility @ answer.plan) - float(prices @ answer.demand)
    assert worth == pytest.approx(cold.objective, rel=1e-7, abs=1e-7)


def one_column() -> CompanyModel:
    """One product, at most 1.5 of it, at two units each."""
    return dense(
        A=np.array([[2.0]]),
        B=np.zeros((0, 1)),
        u=np.array([10.0]),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.zeros(1),
        upper=np.array([1.5]),
    )
