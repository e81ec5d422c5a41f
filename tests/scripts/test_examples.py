"""The examples for modelling tools: a party reads exactly the tool's model, with its names."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import highspy
import linopy
import numpy as np
import pulp
import pyomo.environ as pyo
import pytest
from scipy.optimize import linprog

from party.model import company_model
from party.model.best_response import Subproblem
from party.settlement.settle import plan_within
from protocol.agreement.parse import from_table
from protocol.errors import BadAgreement, BadData
from scripts.examples import (
    join_or_write,
    restore_names,
    with_highs,
    with_linopy,
    with_pulp,
    with_pyomo,
)
from scripts.lab.common.local_session import Processes
from scripts.lab.common.ports import reserve
from tests.support.commands import run_module
from tests.support.wait import LIMIT

TOOLS = {"linopy": with_linopy, "pyomo": with_pyomo, "pulp": with_pulp, "highs": with_highs}
AGREEMENT = from_table(
    {
        "session": "examples",
        "mode": "exact",
        "rounds": 5,
        "resource": [{"name": name, "capacity": 400.0} for name in ("truck_hours", "dock_slots")],
        "member": [{"name": tool} for tool in TOOLS],
    }
)

Outcome = tuple[float, dict[str, float]]
"""An optimum, and the value of each variable there."""


def solved_by_linopy() -> Outcome:
    model = with_linopy.build()
    model.solve("highs", output_flag=False)
    deliver = model.solution["deliver"]
    return model.objective.value, {
        f"deliver({depot},{day})": float(deliver.loc[depot, day])
        for depot in ("north", "harbour")
        for day in ("mon", "wed", "fri")
    }


def solved_by_pyomo() -> Outcome:
    model = with_pyomo.build()
    pyo.SolverFactory("appsi_highs").solve(model)
    return pyo.value(model.profit), {
        f"deliver[{good},{town}]": pyo.value(model.deliver[good, town])
        for good in ("bread", "cake")
        for town in ("mill_end", "old_town", "airport")
    }


def solved_by_pulp() -> Outcome:
    model = with_pulp.build()
    model.solve(pulp.HiGHS(msg=False))
    return pulp.value(model.objective), {
        name: model.variablesDict()[name].varValue
        for name in ("deliver(pubs)", "deliver(shops)", "deliver(stadium)", "fetch_empties")
    }


def solved_by_scipy() -> Outcome:
    """The courier's problem solved by another solver than the example's HiGHS."""
    result = linprog(
        [-410.0, -260.0, -150.0],
        A_ub=[[5.0, 3.0, 1.5], [1.0, 0.5, 1.0], [2.5, 2.0, 0.5]],
        b_ub=[120.0, 25.0, 65.0],
        bounds=[(0.0, 12.0), (0.0, 30.0), (0.0, 15.0)],
    )
    names = ("carry[express]", "carry[standard]", "carry[returns]")
    return -result.fun, dict(zip(names, result.x, strict=True))


SOLVED: dict[str, tuple[Callable[[], Outcome], tuple[float, float]]] = {
    "linopy": (solved_by_linopy, (110.0, 24.0)),
    "pyomo": (solved_by_pyomo, (60.0, 16.0)),
    "pulp": (solved_by_pulp, (90.0, 26.0)),
    "highs": (solved_by_scipy, (120.0, 25.0)),
}
"""For each tool its own answer, and the limits of the shared resources in its model."""


def read_back(tool: str, folder: Path) -> company_model.CompanyModel:
    """What a party reads from the file that an example writes."""
    path = folder / ("model.lp" if tool == "pulp" else "model.mps")
    TOOLS[tool].write(path)
    return company_model.read(path, AGREEMENT)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_file_has_the_optimum_of_the_tool(tool: str, tmp_path: Path) -> None:
    """A party that reads the file finds the tool's plan, names and profit."""
    data = read_back(tool, tmp_path)
    solve, limits = SOLVED[tool]
    optimum, plan = solve()
    answer = Subproblem(data, np.array(limits)).answer(np.zeros(2))
    assert answer is not None
    assert optimum > 0.0
    assert answer.objective == pytest.approx(optimum, rel=1e-9)
    assert sorted(data.names) == sorted(plan)
    found = dict(zip(data.names, answer.plan.tolist(), strict=True))
    assert found == pytest.approx(plan, rel=1e-7, abs=1e-7)
    assert data.private_rows > 0


@pytest.mark.parametrize("tool", TOOLS)
def test_a_model_object_is_read_as_its_file(tool: str, tmp_path: Path) -> None:
    """A model object is read as its file: names, sense and unrounded numbers."""
    held, written = company_model.read(TOOLS[tool].build(), AGREEMENT), read_back(tool, tmp_path)
    assert held.minimises == written.minimises
    assert sorted(held.names) == sorted(written.names)
    order = [held.names.index(name) for name in written.names]
    assert held.utility[order].tolist() == written.utility.tolist()
    for limits in (SOLVED[tool][1], (3.0, 2.0)):
        answers = [Subproblem(d, np.array(limits)).answer(np.ones(2)) for d in (held, written)]
        assert answers[0] is not None
        assert answers[1] is not None
        assert answers[0].objective == pytest.approx(answers[1].objective, rel=1e-12)


def test_integer_variables_are_read_from_every_tool() -> None:
    """An integer variable of every tool stays integer, and so does the best plan."""
    linear = linopy.Model()
    x = linear.add_variables(lower=0, upper=9, integer=True, name="x")
    y = linear.add_variables(lower=0, upper=1, name="y")
    linear.add_objective(5 * x + 2 * y, sense="max")
    linear.add_constraints(2 * x + y <= 1.0, name="truck_hours")
    linear.add_constraints(x + 0 * y <= 1.0, name="dock_slots")

    concrete = pyo.ConcreteModel()
    concrete.x, concrete.y = pyo.Var(bounds=(0, 9), within=pyo.Integers), pyo.Var(bounds=(0, 1))
    concrete.best = pyo.Objective(expr=5 * concrete.x + 2 * concrete.y, sense=pyo.maximize)
    concrete.truck_hours = pyo.Constraint(expr=2 * concrete.x + concrete.y <= 1.0)
    concrete.dock_slots = pyo.Constraint(expr=concrete.x <= 1.0)

    plain = pulp.LpProblem("whole", pulp.LpMaximize)
    count = plain.add_variable("x", 0, 9, cat="Integer")
    amount = plain.add_variable("y", 0, 1)
    plain += 5 * count + 2 * amount + 100.0
    plain += 2 * count + amount <= 1.0, "truck_hours"
    plain += count <= 1.0, "dock_slots"

    bare = highspy.Highs()
    bare.silent()
    a = bare.addIntegral(lb=0, ub=9, obj=5.0, name="x")
    b = bare.addVariable(lb=0, ub=1, obj=2.0, name="y")
    bare.setMaximize()
    bare.addConstr(2 * a + b <= 1.0, name="truck_hours")
    bare.addConstr(a <= 1.0, name="dock_slots")

    for model, constant in ((linear, 0.0), (concrete, 0.0), (plain, 100.0), (bare, 0.0)):
        data = company_model.read(model, AGREEMENT)
        assert data.integer is not None
        assert dict(zip(data.names, data.integer.tolist(), strict=True)) == {"x": True, "y": False}
        plan = plan_within(data, np.array([5.5, 4.0]))
        assert plan is not None
        # 2 x and 1 y as integers; the relaxed plan would make 2.25 x and as much y.
        assert dict(zip(data.names, plan.values.tolist(), strict=True)) == {"x": 2.0, "y": 1.0}
        assert plan.utility == 12.0 + constant


def test_concave_objectives_are_read_from_tools_that_support_them() -> None:
    """linopy, Pyomo and HiGHS: 12x − x² is best at 6, and convex objectives are refused."""

    def linear(sign: float) -> linopy.Model:
        model = linopy.Model()
        x = model.add_variables(lower=0, upper=50, name="x")
        model.add_objective(12 * x + sign * x * x, sense="max")
        model.add_constraints(1 * x <= 1.0, name="truck_hours")
        model.add_constraints(1 * x <= 1.0, name="dock_slots")
        return model

    def concrete(sign: float) -> pyo.ConcreteModel:
        model = pyo.ConcreteModel()
        model.x = pyo.Var(bounds=(0, 50))
        model.best = pyo.Objective(expr=12 * model.x + sign * model.x**2, sense=pyo.maximize)
        model.truck_hours = pyo.Constraint(expr=model.x <= 1.0)
        model.dock_slots = pyo.Constraint(expr=model.x <= 1.0)
        return model

    for build in (linear, concrete):
        data = company_model.read(build(-1.0), AGREEMENT)
        plan = plan_within(data, np.array([100.0, 100.0]))
        assert plan is not None
        assert plan.values.tolist() == pytest.approx([6.0], abs=1e-5)
        assert plan.utility == pytest.approx(36.0)
        with pytest.raises(BadData, match="not concave to be maximised"):
            company_model.read(build(1.0), AGREEMENT)


def test_an_unsupported_object_is_refused() -> None:
    """The error lists the supported kinds of models."""
    with pytest.raises(BadData, match=r"a dict is not a model; give a file or one of highspy"):
        company_model.read({"x": 1.0}, AGREEMENT)


@pytest.mark.parametrize("tool", TOOLS)
def test_shared_and_private_limits_both_matter(tool: str, tmp_path: Path) -> None:
    """With more of each shared resource a company earns more, up to its private limits."""
    data = read_back(tool, tmp_path)
    limits = np.array(SOLVED[tool][1])

    def earned(allocation: Any) -> float:
        answer = Subproblem(data, allocation).answer(np.zeros(2))
        assert answer is not None
        return answer.objective

    assert earned(limits * [0.9, 1.0]) < earned(limits)
    assert earned(limits * [1.0, 0.8]) < earned(limits)
    assert earned(limits * 100.0) == pytest.approx(earned(limits * 1000.0))


def test_a_file_without_a_readable_sense_is_refused(tmp_path: Path) -> None:
    """PuLP's MPS has the sense in a comment only: it is refused unless PuLP writes the sense."""
    model = with_pulp.build()
    plain, asked = tmp_path / "plain.mps", tmp_path / "asked.mps"
    model.writeMPS(str(plain))
    model.writeMPS(str(asked), with_objsense=True)
    right = read_back("pulp", tmp_path)
    assert company_model.read(asked, AGREEMENT).utility.tolist() == right.utility.tolist()
    with pytest.raises(BadData, match="says maximise only in a comment"):
        company_model.read(plain, AGREEMENT)


def test_row_names_are_read_as_tools_write_them(tmp_path: Path) -> None:
    """Row names are read as Pyomo and linopy write them, with their additions."""
    with_pyomo.build().write(
        str(tmp_path / "pyomo.lp"), io_options={"symbolic_solver_labels": True}
    )
    with_linopy.build().to_file(tmp_path / "linopy.lp", explicit_coordinate_names=True)
    for tool in ("pyomo", "linopy"):
        plain, named = (
            company_model.read(tmp_path / f"{tool}.lp", AGREEMENT),
            read_back(tool, tmp_path),
        )
        assert sorted(plain.utility.tolist()) == pytest.approx(sorted(named.utility.tolist()))
        assert (plain.resources, plain.columns) == (named.resources, named.columns)


@pytest.mark.parametrize("names", [("deliver[old town]", "x"), ("x", "x"), ("", "x")])
def test_names_that_highs_would_change_are_refused(names: tuple[str, str], tmp_path: Path) -> None:
    """A name that HiGHS would change in the file is an error, and leaves no file."""
    model = highspy.Highs()
    model.silent()
    for label in ("first", "second"):
        model.addVariable(name=label)
    renamed = dict(zip(("first", "second"), names, strict=True))
    with pytest.raises(ValueError, match="cannot write these names"):
        restore_names.save(model, tmp_path / "model.mps", lambda label: renamed[label])
    assert not (tmp_path / "model.mps").exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "either MODEL_FILE"),
        (["model.mps", "--out", "result"], "either MODEL_FILE"),
        (["--agreement", "agreement.toml", "--out", "result"], "either MODEL_FILE"),
        (["model.lp"], "must end in .mps"),
    ],
)
def test_an_incomplete_command_is_refused(
    arguments: list[str], error: str, monkeypatch: Any, capsys: Any
) -> None:
    """An example either writes a model or joins; half a command is refused."""
    monkeypatch.setattr(sys, "argv", ["with_highs", *arguments])
    with pytest.raises(SystemExit, match="2"):
        join_or_write.run(
            lambda: pytest.fail("it has joined"),
            lambda _: pytest.fail("it has written a model"),
            ".mps",
        )
    assert error in capsys.readouterr().err


def test_an_example_ends_with_the_exit_code_of_party_join(tmp_path: Path) -> None:
    """An example that joins ends with the exit code of `party join`, and leaves no file."""
    command = ["scripts.examples.with_highs", "--agreement", "missing.toml"]
    done = run_module(*command, "--key", "courier.key", "--out", "result", folder=tmp_path)
    assert done.returncode == BadAgreement.exit_code
    assert "missing.toml" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(600)
def test_four_companies_with_four_tools_share_a_session(tmp_path: Path) -> None:
    """Each example joins with its own command, and finds its plan under its own names."""

    for tool in TOOLS:
        run_module("party", "keygen", tool, folder=tmp_path, check=True)
    new = ["coordinator", "new", "--session", "examples", "--rounds", "8"]
    new += ["--resource", "truck_hours=300:15000", "--resource", "dock_slots=75:6000"]
    new += [word for tool in TOOLS for word in ("--member", f"{tool}.member.toml:0.5")]
    new += ["--mode", "private", "--epsilon", "8", "--start", "worth", "--key", "coordinator.key"]
    new += ["--address", f"tcp://127.0.0.1:{reserve(2)}", "--patience", "600"]
    run_module(*new, folder=tmp_path, check=True)

    with Processes(tmp_path) as processes:

        def start(name: str, *arguments: str) -> None:
            shared = ["--agreement", "agreement.toml", "--key", f"{name}.key"]
            command = [sys.executable, "-m", *arguments, *shared]
            processes.launch(name, command, within=tmp_path)

        start("coordinator", "coordinator", "serve")
        for tool in TOOLS:
            start(tool, f"scripts.examples.with_{tool}", "--out", f"out/{tool}")
        processes.done(*TOOLS, seconds=LIMIT)

    for tool, (solve, _) in SOLVED.items():
        with (tmp_path / "out" / tool / "plan.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert sorted(row["variable"] for row in rows) == sorted(solve()[1])
        for plan in ("within_quota", "at_prices"):
            assert all(float(row[plan]) >= 0.0 for row in rows)
