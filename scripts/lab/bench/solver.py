"""`scripts/bench solver`: the warm best response compared with other ways to answer prices.

Every pass begins with contestants that have seen only price zero, like a party at the start of a
session.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from scipy import sparse
from scipy.optimize import linprog

from party.model.best_response import Subproblem, loaded
from party.model.company_model import CompanyModel
from party.model.highs_program import model
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TICKS
from protocol.numeric import Floats
from protocol.pricing.rule import PriceRule
from protocol.privacy.calibration import Calibration
from scripts.lab.bench.measure.companies import draw_sparse
from scripts.lab.bench.measure.interleave import plain, ratio, spread
from scripts.lab.common.agreements import players, table
from scripts.lab.common.instances import RESOURCES, draw

Solve = Callable[[Floats], float]
"""Answers prices. Returns the objective, so that the contestants can be compared."""

EPSILON = 8.0
WORTH = 7.0
"""The public estimate of a price. Without it sessions with large models would stay near price 0,
where an answer hardly ever changes and any solver looks fast."""

WAYS = ("warm", "bare loop", "rebuilt", "scipy")


class Size(Struct, frozen=True):
    """One model to measure, how many prices of its path, and how many passes."""

    name: str
    shape: tuple[int, int] | None
    prices: int
    passes: int
    slow_prices: int
    """Prices for the contestants that start anew each time, to bound the time."""


SIZES = (
    Size("paper", None, prices=150, passes=41, slow_prices=15),
    Size("200 × 500", (200, 500), prices=60, passes=15, slow_prices=4),
    Size("2000 × 5000", (2000, 5000), prices=12, passes=3, slow_prices=1),
)
QUICK = (
    Size("paper", None, prices=150, passes=9, slow_prices=10),
    Size("200 × 500", (200, 500), prices=30, passes=5, slow_prices=2),
)


def companies(size: Size, seed: int) -> tuple[Floats, tuple[CompanyModel, ...]]:
    """The capacities and the companies that want them. The first company is measured."""
    if size.shape is None:
        instance = draw(seed, parties=5)
        return instance.capacity, instance.data
    rows, columns = size.shape
    capacity = np.random.default_rng(seed).uniform(10.0, 20.0, RESOURCES) * columns / 15.0
    return capacity, tuple(draw_sparse(seed + k, rows, columns, RESOURCES) for k in range(3))


def price_path(
    capacity: Floats,
    data: tuple[CompanyModel, ...],
    count: int,
    *,
    noise: np.random.Generator | None,
) -> list[Floats]:
    """The prices of a session among these companies, with noise or without."""
    agreement = _agreement(capacity, len(data), count, private=noise is not None)
    rule = PriceRule(agreement)
    sigma = Calibration(agreement).scales(quantities(agreement).share_ticks)
    problems = [Subproblem(d, capacity) for d in data]
    prices = rule.first
    path = []
    for _ in range(count):
        path.append(prices.current)
        answers = [p.answer(prices.current) for p in problems]
        demand = np.array([a.demand for a in answers if a is not None]) / capacity * TICKS
        if noise is not None:
            demand = demand + noise.standard_normal(demand.shape) * sigma
        prices = rule.next(prices, np.rint(demand).astype(np.int64).sum(axis=0))
    return path


def _agreement(capacity: Floats, members: int, rounds: int, *, private: bool) -> Agreement:
    return from_table(
        table(
            session="bench",
            mode="private" if private else "exact",
            rounds=rounds,
            capacity=capacity,
            members=players(members),
            worth=WORTH * capacity,
            privacy={"epsilon": EPSILON, "delta": 1e-3} if private else {},
            prices={"start": "worth" if private else "zero"},
        )
    )


def contestants(data: CompanyModel, limit: Floats) -> dict[str, Solve]:
    """Ways to answer prices, by name. The first is the one that this project uses."""
    n, m = data.columns, data.resources
    price_columns = np.arange(n, n + m, dtype=np.int32)
    warm_problem = Subproblem(data, limit)
    bare = loaded(model(data, limit))
    bare.run()
    bare.setOptionValue("simplex_strategy", 4)  # primal, like the warm problem
    matrix = sparse.csc_matrix(
        (data.value, data.index, data.start), shape=(m + data.private_rows, n)
    )
    link = sparse.vstack([-sparse.eye(m), sparse.csc_matrix((data.private_rows, m))])
    rows = sparse.hstack([matrix, link]).tocsc()
    row_upper = np.concatenate([np.zeros(m), data.row_upper])
    bounds = np.column_stack(
        [np.concatenate([data.lower, np.zeros(m)]), np.concatenate([data.upper, limit])]
    )

    def warm(prices: Floats) -> float:
        answer = warm_problem.answer(prices)
        return math.nan if answer is None else answer.objective

    def bare_loop(prices: Floats) -> float:
        bare.changeColsCost(m, price_columns, -prices)
        bare.run()
        np.array(bare.allVariableValues())
        return float(bare.getObjectiveValue())

    def rebuilt(prices: Floats) -> float:
        lp = model(data, limit)
        lp.col_cost_ = np.concatenate([data.utility, -prices])
        solver = loaded(lp)
        solver.run()
        np.array(solver.allVariableValues())
        return float(solver.getObjectiveValue())

    def scipy_linprog(prices: Floats) -> float:
        cost = np.concatenate([-data.utility, prices])
        return -float(linprog(cost, A_ub=rows, b_ub=row_upper, bounds=bounds).fun)

    return {"warm": warm, "bare loop": bare_loop, "rebuilt": rebuilt, "scipy": scipy_linprog}


def measure(size: Size, seed: int, *, noisy: bool) -> dict[str, Any]:
    """Microseconds of CPU per answer for each contestant, in turns along the same prices."""
    capacity, data = companies(size, seed)
    noise = np.random.default_rng(seed) if noisy else None
    path = price_path(capacity, data, size.prices, noise=noise)
    few = path[:: max(1, len(path) // size.slow_prices)][: size.slow_prices]
    _require_same_optima(contestants(data[0], capacity), few)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(size.passes):
        ways = contestants(data[0], capacity)
        for way in WAYS[turn % len(WAYS) :] + WAYS[: turn % len(WAYS)]:
            solve, prices_seen = ways[way], path if way in ("warm", "bare loop") else few
            begin = time.process_time()
            for prices in prices_seen:
                solve(prices)
            times[way].append((time.process_time() - begin) / len(prices_seen) * 1e6)
    return {
        "model": size.name,
        "noise": noisy,
        "columns": data[0].columns + data[0].resources,
        "rows": data[0].resources + data[0].private_rows,
        "nonzeros": len(data[0].value) + data[0].resources,
        "prices": size.prices,
        "passes": size.passes,
        "microseconds": {way: spread(times[way]) for way in WAYS},
        "warm_over_bare": ratio(times["warm"], times["bare loop"]),
        "rebuilt_over_warm": ratio(times["rebuilt"], times["warm"]),
        "scipy_over_warm": ratio(times["scipy"], times["warm"]),
    }


def _require_same_optima(ways: dict[str, Solve], path: list[Floats]) -> None:
    """Raise if the contestants find different optima."""
    for prices in path:
        found = {way: solve(prices) for way, solve in ways.items()}
        middle = statistics.median(found.values())
        for way, objective in found.items():
            if not math.isclose(objective, middle, rel_tol=1e-6, abs_tol=1e-6):
                raise ValueError(f"{way} finds a different optimum")


def solver(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Compare the warm best response with a bare HiGHS loop, a rebuilt model, and scipy."""
    results = []
    for size in QUICK if options.quick else SIZES:
        for noisy in (False, True):
            with console.status(f"solver: {size.name}"):
                results.append(measure(size, options.seed, noisy=noisy))
    table = Table(
        title="one answer to new prices",
        caption="median CPU time along the prices of a session, and below it lowest–highest; bare "
        "loop: change the costs, run, read; measured alternately, each from a new start",
    )
    for column in (
        "model", "prices", "columns × rows", "warm µs", "bare loop µs", "warm ÷ bare",
        "rebuilt ÷ warm", "scipy ÷ warm",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column in ("model", "prices") else "right")
    for result in results:
        table.add_row(
            result["model"],
            f"ε = {EPSILON:g}" if result["noise"] else "no noise",
            f"{result['columns']} × {result['rows']}",
            result["microseconds"]["warm"].shown(",.0f"),
            result["microseconds"]["bare loop"].shown(",.0f"),
            result["warm_over_bare"].shown(".2f"),
            result["rebuilt_over_warm"].shown(".1f"),
            result["scipy_over_warm"].shown(".1f"),
        )
    console.print(table)
    return [plain(result) for result in results]
