"""Random models written by four modelling tools and read back mean the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import highspy
import linopy
import numpy as np
import pulp
import pyomo.environ as pyo
import pytest
from scipy.optimize import LinearConstraint, milp

from party.model import company_model
from party.model.best_response import MipLimits, Subproblem
from tests.support.sample_models import agree

HOURS = np.array([10.0])


class Drawn:
    """max or min cost·x, subject to hours·x ≤ 10, low ≤ B x ≤ high and bounds."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.n, rows = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        self.maximise = bool(rng.integers(2))
        self.cost = rng.normal(3.0 if self.maximise else -3.0, 2.0, self.n)
        self.hours = rng.uniform(0.5, 2.0, self.n)
        self.B = rng.uniform(0.1, 2.0, (rows, self.n))
        self.low, self.high = rng.uniform(0.0, 0.5, rows), rng.uniform(3.0, 9.0, rows)
        self.lower = rng.choice([0.0, -1.5], self.n)
        self.upper = rng.choice([4.0, 7.5, np.inf], self.n)
        self.integer = rng.random(self.n) < 0.3

    def best(self) -> float:
        """What another solver finds, as a profit."""
        sign = 1.0 if self.maximise else -1.0
        done = milp(
            -sign * self.cost,
            integrality=self.integer.astype(int),
            bounds=(self.lower, self.upper),
            constraints=[
                LinearConstraint(self.hours[None, :], -np.inf, HOURS),
                LinearConstraint(self.B, self.low, self.high),
            ],
        )
        return float(sign * (np.dot(self.cost, done.x)))


def with_highs(d: Drawn, path: Path) -> Any:
    model = highspy.Highs()
    model.silent()
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    x = [
        model.addVariable(
            lb=d.lower[j], ub=d.upper[j], obj=d.cost[j], type=kinds[int(d.integer[j])], name=f"x{j}"
        )
        for j in range(d.n)
    ]
    model.addConstr(sum(d.hours[j] * x[j] for j in range(d.n)) <= 99.0, name="hours")
    for i, row in enumerate(d.B):
        terms = sum(row[j] * x[j] for j in range(d.n))
        model.addConstr(terms >= d.low[i], name=f"least{i}")
        model.addConstr(terms <= d.high[i], name=f"most{i}")
    if d.maximise:
        model.setMaximize()
    model.writeModel(str(path))
    return model


def with_pulp(d: Drawn, path: Path) -> Any:
    model = pulp.LpProblem("drawn", pulp.LpMaximize if d.maximise else pulp.LpMinimize)
    x = [
        model.add_variable(
            f"x{j}",
            lowBound=float(d.lower[j]),
            upBound=None if np.isinf(d.upper[j]) else float(d.upper[j]),
            cat="Integer" if d.integer[j] else "Continuous",
        )
        for j in range(d.n)
    ]
    model += pulp.lpSum(float(d.cost[j]) * x[j] for j in range(d.n))
    model += pulp.lpSum(float(d.hours[j]) * x[j] for j in range(d.n)) <= 99.0, "hours"
    for i, row in enumerate(d.B):
        terms = pulp.lpSum(float(row[j]) * x[j] for j in range(d.n))
        model += terms >= float(d.low[i]), f"least{i}"
        model += terms <= float(d.high[i]), f"most{i}"
    if path.suffix == ".lp":
        model.writeLP(str(path))
    else:
        model.writeMPS(str(path), with_objsense=True)
    return model


def with_pyomo(d: Drawn, path: Path) -> Any:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(
        range(d.n),
        bounds=lambda _, j: (d.lower[j], None if np.isinf(d.upper[j]) else d.upper[j]),
    )
    for j in range(d.n):
        model.x[j].domain = pyo.Integers if d.integer[j] else pyo.Reals
    model.profit = pyo.Objective(
        expr=sum(d.cost[j] * model.x[j] for j in range(d.n)),
        sense=pyo.maximize if d.maximise else pyo.minimize,
    )
    model.hours = pyo.Constraint(expr=sum(d.hours[j] * model.x[j] for j in range(d.n)) <= 99.0)
    model.own = pyo.Constraint(
        range(len(d.B)),
        rule=lambda m, i: (d.low[i], sum(d.B[i, j] * m.x[j] for j in range(d.n)), d.high[i]),
    )
    model.write(str(path), io_options={"symbolic_solver_labels": True})
    return model


def with_linopy(d: Drawn, path: Path) -> Any:
    model = linopy.Model()
    x = [
        model.add_variables(
            lower=d.lower[j], upper=d.upper[j], name=f"x{j}", integer=bool(d.integer[j])
        )
        for j in range(d.n)
    ]
    model.add_objective(
        sum(d.cost[j] * x[j] for j in range(d.n)), sense="max" if d.maximise else "min"
    )
    model.add_constraints(sum(d.hours[j] * x[j] for j in range(d.n)) <= 99.0, name="hours")
    for i, row in enumerate(d.B):
        terms = sum(row[j] * x[j] for j in range(d.n))
        model.add_constraints(terms >= d.low[i], name=f"least{i}")
        model.add_constraints(terms <= d.high[i], name=f"most{i}")
    model.to_file(path, explicit_coordinate_names=True, progress=False)
    return model


TOOLS: dict[str, Callable[[Drawn, Path], Any]] = {
    "highs": with_highs, "pulp": with_pulp, "pyomo": with_pyomo, "linopy": with_linopy,
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".lp", ".mps"])
@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_tool_writes_is_read_back_as_meant(tmp_path: Path, tool: str, suffix: str) -> None:
    """The file, and the model in memory, have the optimum that scipy finds."""
    for seed in range(4 if tool == "linopy" else 12):  # linopy is slow
        drawn = Drawn(seed)
        path = tmp_path / f"{tool}{seed}{suffix}"
        model = TOOLS[tool](drawn, path)
        for source in (path, model):
            data = company_model.read(source, agree("hours"))
            answer = Subproblem(data, HOURS, MipLimits(gap=0.0)).answer(np.zeros(1))
            assert answer is not None
            assert answer.objective == pytest.approx(drawn.best(), rel=1e-7, abs=1e-7)
