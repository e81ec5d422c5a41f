"""Private problems of every kind, and a second solver that they are asked again."""

import math

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from party.dataset import DataSet, dense
from protocol.arrays import Floats
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
