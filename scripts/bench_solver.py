"""`scripts/bench solver`: the warm subproblem beside other ways to answer new prices."""

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse
from scipy.optimize import linprog

from party.dataset import DataSet
from party.subproblem import Subproblem, loaded, model
from protocol.agreement import TICKS, Agreement, from_table
from protocol.arrays import Floats
from protocol.prices import PriceRule
from scripts.instances import RESOURCES, draw

Solve = Callable[[Floats], float]
"""Answers prices, and gives the objective so that the contestants can be held together."""


@dataclass(frozen=True)
class Size:
    """One model to measure, how many prices of its path, and how often."""

    name: str
    shape: tuple[int, int] | None
    prices: int
    passes: int
    slow_every: int = 1
    """The slow contestants take only every so many prices, to end in reasonable time."""


SIZES = (
    Size("paper", None, prices=150, passes=75, slow_every=10),
    Size("200 × 500", (200, 500), prices=60, passes=25, slow_every=15),
    Size("2000 × 5000", (2000, 5000), prices=24, passes=3, slow_every=12),
)
QUICK = (
    Size("paper", None, prices=150, passes=25, slow_every=15),
    Size("200 × 500", (200, 500), prices=30, passes=9, slow_every=15),
)


def draw_sparse(seed: int, rows: int, columns: int) -> DataSet:
    """A company with many products: each takes two shared resources and a few private rows."""
    rng = np.random.default_rng([seed, rows, columns])
    entries = 5
    private = rng.integers(0, rows, (columns, entries)) + RESOURCES
    shared = np.argsort(rng.random((columns, RESOURCES)), axis=1)[:, :2]
    index = np.hstack([shared, private]).ravel()
    value = np.hstack(
        [rng.uniform(0.5, 5.0, (columns, 2)), rng.uniform(0.1, 1.0, (columns, entries))]
    ).ravel()
    start = np.arange(0, len(index) + 1, 2 + entries)
    matrix = sparse.csc_matrix((value, index, start), shape=(RESOURCES + rows, columns))
    matrix.sum_duplicates()
    return DataSet(
        names=tuple(f"x{i}" for i in range(columns)),
        utility=rng.uniform(50.0, 150.0, columns),
        offset=0.0,
        lower=np.zeros(columns),
        upper=np.full(columns, math.inf),
        resources=RESOURCES,
        row_lower=np.full(rows, -math.inf),
        row_upper=rng.uniform(1.0, 10.0, rows),
        start=matrix.indptr.astype(np.int32),
        index=matrix.indices.astype(np.int32),
        value=matrix.data,
    )


def companies(size: Size, seed: int) -> tuple[Floats, tuple[DataSet, ...]]:
    """The capacities and the companies that want them; the first is the one measured."""
    if size.shape is None:
        instance = draw(seed, parties=5)
        return instance.capacity, instance.data
    rows, columns = size.shape
    capacity = np.random.default_rng(seed).uniform(10.0, 20.0, RESOURCES) * columns / 15.0
    return capacity, tuple(draw_sparse(seed + k, rows, columns) for k in range(3))


def price_path(capacity: Floats, data: tuple[DataSet, ...], count: int) -> list[Floats]:
    """The prices of a session without noise among these companies."""
    rule = PriceRule(_agreement(capacity, len(data), count))
    problems = [Subproblem(d, capacity) for d in data]
    prices = rule.first
    path = []
    for _ in range(count):
        path.append(prices.current)
        answers = [p.answer(prices.current) for p in problems]
        demand = np.sum([a.demand for a in answers if a is not None], axis=0)
        prices = rule.next(prices, np.rint(demand / capacity * TICKS).astype(np.int64))
    return path


def _agreement(capacity: Floats, members: int, rounds: int) -> Agreement:
    return from_table(
        {
            "session": "bench",
            "mode": "hidden",
            "rounds": rounds,
            "resource": [
                {"name": f"resource{j + 1}", "capacity": c} for j, c in enumerate(capacity.tolist())
            ],
            "member": [{"name": f"party{k + 1}"} for k in range(members)],
        }
    )


def contestants(data: DataSet, limit: Floats) -> dict[str, Solve]:
    """Ways to answer prices, by name. The first is the one that the project uses."""
    n, m = data.columns, data.resources
    price_columns = np.arange(n, n + m, dtype=np.int32)
    kept = Subproblem(data, limit)
    bare = loaded(model(data, limit))
    bare.run()
    bare.setOptionValue("simplex_strategy", 4)  # primal, as the kept one
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
        answer = kept.answer(prices)
        return math.nan if answer is None else answer.objective

    def bare_loop(prices: Floats) -> float:
        bare.changeColsCost(m, price_columns, -prices)
        bare.run()
        values = np.array(bare.allVariableValues())
        return float(values[0])

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


def measure(size: Size, seed: int) -> dict[str, Any]:
    """Microseconds of CPU of one solve for each contestant, in turns along the same prices."""
    capacity, data = companies(size, seed)
    path = price_path(capacity, data, size.prices)
    ways = contestants(data[0], capacity)
    paths = dict.fromkeys(ways, path[:: size.slow_every])
    paths["warm"] = paths["bare loop"] = path
    _hold_together(ways, paths["rebuilt"])
    times: dict[str, list[float]] = {way: [] for way in ways}
    order, chance = list(ways), random.Random(seed)
    for _ in range(size.passes):
        chance.shuffle(order)
        for way in order:
            solve = ways[way]
            begin = time.process_time()
            for prices in paths[way]:
                solve(prices)
            times[way].append((time.process_time() - begin) / len(paths[way]) * 1e6)
    median = {way: statistics.median(values) for way, values in times.items()}
    return {
        "model": size.name,
        "columns": data[0].columns + data[0].resources,
        "rows": data[0].resources + data[0].private_rows,
        "nonzeros": len(data[0].value) + data[0].resources,
        "prices": size.prices,
        "passes": size.passes,
        "microseconds": median,
        "fastest": {way: min(values) for way, values in times.items()},
        "slowest": {way: max(values) for way, values in times.items()},
        "ratio": {way: value / median["warm"] for way, value in median.items()},
    }


def _hold_together(ways: dict[str, Solve], path: list[Floats]) -> None:
    """Contestants that find different optima are not in the same race."""
    for prices in path:
        expected = ways["warm"](prices)
        for way in ("rebuilt", "scipy"):
            if not math.isclose(ways[way](prices), expected, rel_tol=1e-6, abs_tol=1e-6):
                raise ValueError(f"{way} and warm find different optima")


def solver(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """The warm subproblem beside a bare HiGHS loop, a model built anew, and scipy."""
    results = []
    for size in QUICK if options.quick else SIZES:
        with console.status(f"solver: {size.name}"):
            results.append(measure(size, options.seed))
    table = Table(
        "model", "columns", "rows",
        title="one answer to new prices; times beside warm = 1",
        caption="medians of CPU time along a real price path, measured in turns",
    )  # fmt: skip
    for name in ("warm", "bare loop", "rebuilt", "scipy"):
        table.add_column(name, justify="right")
    for result in results:
        ratios = [f"{result['ratio'][way]:.2f}" for way in ("bare loop", "rebuilt", "scipy")]
        warm = f"1  ({result['microseconds']['warm']:,.0f} µs)"
        table.add_row(result["model"], str(result["columns"]), str(result["rows"]), warm, *ratios)
    console.print(table)
    return results
