"""Models that a modelling tool holds in memory: HiGHS itself, linopy, Pyomo or PuLP.

What comes out is what the tool holds, under the names that its user gave: no file is left behind,
and no tool is imported that is not in use already. Everything here is secret, and no error says a
number of it.
"""

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import highspy
import numpy as np

from party.model import model_file
from party.model.model_file import LinearProgram
from protocol.errors import BadData

TOOLS = ("highspy.Highs", "linopy.Model", "pyomo.ConcreteModel", "pulp.LpProblem")
"""What can be read, for people."""


def taken(model: Any) -> LinearProgram:
    """The program that a tool's model holds. Raises nothing but `BadData`."""
    tool = type(model).__module__.partition(".")[0]
    if isinstance(model, highspy.Highs):
        program = model_file.taken(model)
    elif tool == "linopy":
        program = _of_linopy(model)
    elif tool == "pulp":
        program = _of_pulp(model)
    elif hasattr(model, "component_data_objects"):  # whatever class a Pyomo user has derived
        program = _of_pyomo(model)
    else:
        raise BadData(
            f"a {type(model).__name__} is no model; give a file or one of {', '.join(TOOLS)}"
        )
    for what, names in (("columns", program.columns), ("rows", program.rows)):
        if len(set(names)) < len(names):
            raise BadData(f"the model has two {what} of the same name")
    return program


def _of_linopy(model: Any) -> LinearProgram:
    """linopy puts `#` and a number behind every name."""
    program = model_file.taken(model.to_highspy(explicit_coordinate_names=True, set_names=True))

    def plain(names: list[str]) -> list[str]:
        return [name.rpartition("#")[0] or name for name in names]

    return replace(program, columns=plain(program.columns), rows=plain(program.rows))


def _of_pyomo(model: Any) -> LinearProgram:
    """Pyomo has only writers: its LP file, in a folder of its own, and the true names again."""
    with tempfile.TemporaryDirectory() as folder:
        _, key = model.write(str(Path(folder, "model.lp")))
        program = model_file.read(Path(folder, "model.lp"))
    symbols = model.solutions.symbol_map[key]

    def true(names: list[str]) -> list[str]:
        found = [symbols.getObject(name) for name in names]
        # A constant of the objective has become a column of Pyomo's own.
        return [getattr(o, "name", n) for o, n in zip(found, names, strict=True)]

    return replace(program, columns=true(program.columns), rows=true(program.rows))


def _of_pulp(model: Any) -> LinearProgram:
    """From what PuLP holds: its files round numbers and lose the constant of the objective."""
    if model.sos1 or model.sos2:
        raise BadData("the model has special ordered sets; write them with columns that are 0 or 1")
    rows = model.constraints
    rows = list(rows() if callable(rows) else rows.values())
    columns = model.variables()
    place = {id(variable): j for j, variable in enumerate(columns)}
    entries = [(place[id(v)], i, a) for i, row in enumerate(rows) for v, a in row.items() if a]
    entries.sort(key=lambda entry: entry[:2])
    objective = model.objective
    cost = np.zeros(len(columns))
    for variable, value in [] if objective is None else objective.items():
        cost[place[id(variable)]] = value
    counts = np.bincount([e[0] for e in entries], minlength=len(columns)).astype(np.int64)
    sense = np.array([row.sense for row in rows])
    limit = np.array([-float(row.constant) for row in rows])
    program = LinearProgram(
        columns=[v.name for v in columns],
        rows=[row.name for row in rows],
        maximise=model.sense < 0,
        cost=cost,
        offset=0.0 if objective is None else float(objective.constant),
        lower=np.array([-math.inf if v.lowBound is None else v.lowBound for v in columns], float),
        upper=np.array([math.inf if v.upBound is None else v.upBound for v in columns], float),
        row_lower=np.where(sense < 0, -math.inf, limit),
        row_upper=np.where(sense > 0, math.inf, limit),
        start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        index=np.array([e[1] for e in entries], dtype=np.int32),
        value=np.array([e[2] for e in entries], dtype=np.float64),
        whole=np.array([v.cat == "Integer" for v in columns], dtype=np.bool_),
        quadratic=None,
    )
    if not program.columns:
        raise BadData("the model is empty: it has no columns")
    model_file.refuse_infinite(program)
    return program
