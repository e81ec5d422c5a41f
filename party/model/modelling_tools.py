"""Models that a modelling tool holds in memory: HiGHS itself, linopy, Pyomo or PuLP.

The names are those that the user gave. No file is left behind, and no tool is imported that is
not already in use. Everything here is secret, and no error contains a number of it.
"""

import math
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import highspy
import numpy as np
from msgspec.structs import replace

from party.model import model_file
from party.model.linear_program import LinearProgram, column_wise, refuse_infinite
from protocol.errors import BadData
from protocol.numeric import Floats

TOOLS = ("highspy.Highs", "linopy.Model", "pyomo.ConcreteModel", "pulp.LpProblem")
"""The classes that can be read, for messages."""

_OUTPUT = threading.Lock()


def read(model: Any) -> LinearProgram:
    """The program in a tool's model. Raises only `BadData`."""
    tool = type(model).__module__.partition(".")[0]
    if isinstance(model, highspy.Highs):
        program = model_file.from_highs(model)
    elif tool == "linopy":
        program = _from_linopy(model)
    elif tool == "pulp":
        program = _from_pulp(model)
    elif hasattr(model, "component_data_objects"):  # also a subclass of Pyomo's class
        program = _from_pyomo(model)
    else:
        raise BadData(
            f"a {type(model).__name__} is not a model; give a file or one of {', '.join(TOOLS)}"
        )
    for what, names in (("columns", program.columns), ("rows", program.rows)):
        if len(set(names)) < len(names):
            raise BadData(f"the model has two {what} of the same name; rename one")
    return program


def write_back(model: Any, names: Sequence[str], values: Floats) -> None:
    """Put a plan into the variables of a tool's model, in the order in which they were read."""
    tool = type(model).__module__.partition(".")[0]
    if isinstance(model, highspy.Highs):
        solution = highspy.HighsSolution()
        solution.col_value = values.tolist()
        model.setSolution(solution)
    elif tool == "linopy":
        _into_linopy(model, values)
    elif tool == "pulp":
        for variable, value in zip(model.variables(), values.tolist(), strict=True):
            variable.varValue = value
    elif hasattr(model, "component_data_objects"):
        for name, value in zip(names, values.tolist(), strict=True):
            variable = model.find_component(name)
            if variable is not None:  # None for the column of the objective's constant
                variable.set_value(value, skip_validation=True)
    else:
        raise BadData(f"a {type(model).__name__} has no variables to write to")


def _into_linopy(model: Any, values: Floats) -> None:
    labels = np.asarray(model.matrices.vlabels)
    by_label = np.full(int(labels.max()) + 2, np.nan)  # the label -1 is a masked variable
    by_label[labels] = values
    for name in model.variables:
        variable = model.variables[name]
        filled = by_label[np.asarray(variable.labels)]
        variable.solution = variable.labels.astype(float).copy(data=filled)
    model.status = "ok"  # without it linopy does not show a solution


def _from_linopy(model: Any) -> LinearProgram:
    """Drop the `#` and the number that linopy adds to every name."""
    with _quiet():
        solver = model.to_highspy(explicit_coordinate_names=True, set_names=True)
    program = model_file.from_highs(solver)

    def plain(names: list[str]) -> list[str]:
        return [name.rpartition("#")[0] or name for name in names]

    return replace(program, columns=plain(program.columns), rows=plain(program.rows))


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop what a library writes to standard output: a program may read ours."""
    with _OUTPUT, open(os.devnull, "w") as nowhere:
        sys.stdout.flush()
        before = os.dup(1)
        try:
            os.dup2(nowhere.fileno(), 1)
            yield
        finally:
            os.dup2(before, 1)
            os.close(before)


def _from_pyomo(model: Any) -> LinearProgram:
    """Read the LP file that Pyomo writes into a temporary folder, and restore the names."""
    with tempfile.TemporaryDirectory() as folder:
        _, key = model.write(str(Path(folder, "model.lp")))
        program = model_file.read(Path(folder, "model.lp"))
    symbols = model.solutions.symbol_map[key]

    def original(names: list[str]) -> list[str]:
        found = [symbols.getObject(name) for name in names]
        # Pyomo turns a constant of the objective into a column of its own.
        return [getattr(o, "name", n) for o, n in zip(found, names, strict=True)]

    named = replace(program, columns=original(program.columns), rows=original(program.rows))
    return _with_ranges(named)


def _with_ranges(program: LinearProgram) -> LinearProgram:
    """Merge the two rows that Pyomo writes for each range: they have one name."""
    first = {name: i for i, name in reversed(list(enumerate(program.rows)))}
    if len(first) == len(program.rows):
        return program
    lower, upper = program.row_lower.copy(), program.row_upper.copy()
    for i, name in enumerate(program.rows):
        lower[first[name]] = max(lower[first[name]], program.row_lower[i])
        upper[first[name]] = min(upper[first[name]], program.row_upper[i])
    kept = sorted(first.values())
    position = np.full(len(program.rows), -1, dtype=np.int32)
    position[kept] = np.arange(len(kept))
    index = position[program.index]
    column = np.repeat(np.arange(len(program.columns)), np.diff(program.start))
    entries = index >= 0
    return replace(
        program,
        rows=[program.rows[i] for i in kept],
        row_lower=lower[kept],
        row_upper=upper[kept],
        **column_wise(
            len(program.columns), column[entries], index[entries], program.value[entries]
        ),
    )


def _from_pulp(model: Any) -> LinearProgram:
    """Read PuLP's objects: its files round numbers and lose the constant of the objective."""
    if model.sos1 or model.sos2:
        raise BadData("the model has special ordered sets; write them with columns that are 0 or 1")
    rows = model.constraints
    rows = list(rows() if callable(rows) else rows.values())
    columns = model.variables()
    position = {id(variable): j for j, variable in enumerate(columns)}
    entries = [(position[id(v)], i, a) for i, row in enumerate(rows) for v, a in row.items() if a]
    column, index, value = zip(*entries, strict=True) if entries else ([], [], [])
    objective = model.objective
    cost = np.zeros(len(columns))
    for variable, factor in [] if objective is None else objective.items():
        cost[position[id(variable)]] = factor
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
        **column_wise(len(columns), np.array(column, dtype=np.int32), index, value),
        integer=np.array([v.cat == "Integer" for v in columns], dtype=np.bool_),
        quadratic=None,
    )
    if not program.columns:
        raise BadData("the model is empty: it has no columns")
    refuse_infinite(program)
    return program
