"""`scripts/bench study`: a simulated round of the study compared with rebuilt models."""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import highspy
import numpy as np
from rich.console import Console
from rich.table import Table

from party.model.best_response import loaded
from party.model.company_model import CompanyModel
from party.model.highs_program import model
from protocol.numeric import Floats
from scripts.lab.common.instances import Instance
from scripts.lab.study.grid import VARIANTS, Setting, agree
from scripts.lab.study.replicate import Companies, session

Answer = tuple[Floats, float]
"""A party's demand and its objective."""

ROUNDS = 150
SLOW_ROUNDS = 10
"""Rounds for the contestants that build models: enough to time one of them."""


class Rebuilt(Companies):
    """The parties of an instance. Each builds its model anew in every round."""

    def __init__(
        self, instance: Instance, answer: Callable[[CompanyModel, Floats, Floats], Answer]
    ):
        super().__init__(instance, [])
        self._instance, self._answer = instance, answer

    def answers(self, prices: Floats) -> tuple[Floats, Floats]:
        limits = self._instance.share * self.capacity
        pairs = [
            self._answer(data, limit, prices)
            for data, limit in zip(self._instance.data, limits, strict=True)
        ]
        return np.array([demand for demand, _ in pairs]), np.array([o for _, o in pairs])


def from_arrays(data: CompanyModel, limit: Floats, prices: Floats) -> Answer:
    """The model passed to HiGHS at once, as arrays: the fastest way to rebuild it."""
    lp = model(data, limit)
    lp.col_cost_ = np.concatenate([data.utility, -prices])
    solver = loaded(lp)
    solver.run()
    values = np.array(solver.allVariableValues())
    return values[data.columns :], float(solver.getObjectiveValue())


def by_expressions(data: CompanyModel, limit: Floats, prices: Floats) -> Answer:
    """The model built variable by variable and row by row, as the paper's code does."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    x = [solver.addVariable(lb=low) for low in data.lower.tolist()]
    s = [solver.addVariable(lb=0.0, ub=most) for most in limit.tolist()]
    rows: list[list[Any]] = [[] for _ in range(data.resources + data.private_rows)]
    columns = np.repeat(np.arange(data.columns), np.diff(data.start)).tolist()
    for row, column, value in zip(data.index.tolist(), columns, data.value.tolist(), strict=True):
        rows[row].append(value * x[column])
    for row, taken in zip(rows[: data.resources], s, strict=True):
        solver.addConstr(sum(row) <= taken)
    for row, most in zip(rows[data.resources :], data.row_upper.tolist(), strict=True):
        solver.addConstr(sum(row) <= most)
    earned = sum(u * v for u, v in zip(data.utility.tolist(), x, strict=True))
    solver.maximize(earned - sum(p * v for p, v in zip(prices.tolist(), s, strict=True)))
    values = np.array(solver.allVariableValues())
    return values[data.columns :], float(solver.getObjectiveValue())


def study(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Compare simulated rounds per party: the study's way, and models built anew each time."""
    results = []
    for parties in (5, 10) if options.quick else (5, 10, 100):
        with console.status(f"study: {parties} parties"):
            results.append(_measure(parties, options.seed, passes=3 if options.quick else 9))
    sheet = Table(
        "parties", "study", "rebuilt from arrays", "rebuilt by expressions",
        title="one round of one party; ratios to the study",
        caption="median CPU time of sessions with noise at ε = 4, measured alternately",
    )  # fmt: skip
    for result in results:
        ratio = result["ratio"]
        sheet.add_row(
            str(result["parties"]),
            f"1  ({result['microseconds']['study']:.1f} µs)",
            *(f"{ratio[way]:.0f}" for way in ("arrays", "expressions")),
        )
    console.print(sheet)
    return results


def _measure(parties: int, seed: int, *, passes: int) -> dict[str, Any]:
    setting = Setting(parties, None, 2.0)
    instance, draws = setting.instance(seed), setting.draws(seed, ROUNDS)
    contestants: dict[str, Callable[[], Companies]] = {
        "study": lambda: Companies(instance),
        "arrays": lambda: Rebuilt(instance, from_arrays),
        "expressions": lambda: Rebuilt(instance, by_expressions),
    }
    times: dict[str, list[float]] = {way: [] for way in contestants}
    for _ in range(passes):
        ends = {}
        for way, make in contestants.items():
            rounds = ROUNDS if way == "study" else SLOW_ROUNDS
            agreement = agree(
                VARIANTS["recommended"], instance, rounds=rounds, epsilon=4.0, buffer=2.0
            )
            begin = time.process_time()
            ends[way] = session(agreement, make(), draws).dual
            times[way].append((time.process_time() - begin) / (rounds * parties) * 1e6)
        if not math.isclose(ends["arrays"][-1], ends["expressions"][-1], rel_tol=1e-6):
            raise ValueError("the contestants find different optima")
    median = {way: statistics.median(values) for way, values in times.items()}
    return {
        "parties": parties,
        "rounds": ROUNDS,
        "passes": passes,
        "microseconds": median,
        "ratio": {way: value / median["study"] for way, value in median.items()},
    }
