"""Shared rows under the names that they have in the company's own model."""

from pathlib import Path
from typing import Any

import linopy
import numpy as np
import pandas as pd
import pulp
import pyomo.environ as pyo
import pytest
import xarray as xr

from party.model import company_model
from party.model.best_response import Subproblem
from party.model.shared_rows import RowMap, row_map
from protocol.errors import BadCommand, BadData
from tests.support.sample_models import FILES, agree, write

DAYS, LANES = ("mon", "tue"), ("north", "south")
SHARED = agree(*(f"hours-{day}-{lane}" for day in DAYS for lane in LANES))
PROFIT = {
    ("mon", "north"): 5.0,
    ("mon", "south"): 4.0,
    ("tue", "north"): 3.0,
    ("tue", "south"): 2.0,
}
BEST = 14.0 * sum(PROFIT.values())  # at most 7 hours of each, half an hour for a unit


def pyomo_model() -> Any:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(DAYS, LANES, within=pyo.NonNegativeReals)
    model.profit = pyo.Objective(
        expr=sum(PROFIT[k] * model.x[k] for k in PROFIT), sense=pyo.maximize
    )
    model.hours = pyo.Constraint(DAYS, LANES, rule=lambda m, d, n: 0.5 * m.x[d, n] <= 99.0)
    return model


def linopy_model() -> Any:
    model = linopy.Model()
    coords = [pd.Index(DAYS, name="day"), pd.Index(LANES, name="lane")]
    x = model.add_variables(lower=0.0, coords=coords, name="x")
    profit = xr.DataArray([[PROFIT[d, n] for n in LANES] for d in DAYS], coords=coords)
    model.add_objective((profit * x).sum(), sense="max")
    model.add_constraints(0.5 * x <= 99.0, name="hours")
    return model


def pulp_model() -> Any:
    model = pulp.LpProblem("hauls", pulp.LpMaximize)
    x = {k: model.add_variable(f"x {k}", lowBound=0.0) for k in PROFIT}
    model += pulp.lpSum(PROFIT[k] * x[k] for k in PROFIT)
    for day, lane in PROFIT:
        model += 0.5 * x[day, lane] <= 99.0, f"hours {day} {lane}"
    return model


@pytest.mark.parametrize(
    ("build", "row"),
    [
        (pyomo_model, "hours[*,*]"),
        (linopy_model, "hours(*,*)"),
        (pulp_model, "hours_*_*"),
    ],
)
def test_an_indexed_family_of_rows_is_mapped_at_once(build: Any, row: str) -> None:
    """One entry names all rows of a family, as each tool spells them."""
    rows = row_map([f"hours-*-*={row}"])
    data = company_model.read(build(), SHARED, rows)
    answer = Subproblem(data, np.full(4, 7.0)).answer(np.zeros(4))
    assert answer is not None
    assert answer.objective == pytest.approx(BEST)
    assert answer.demand == pytest.approx(np.full(4, 7.0))


@pytest.mark.parametrize("build", [pyomo_model, linopy_model, pulp_model])
def test_every_missing_row_is_named_with_what_may_be_meant(build: Any) -> None:
    """One error lists all resources without a row, the rows that are alike, and what to do."""
    with pytest.raises(BadData) as refused:
        company_model.read(build(), SHARED)
    text = str(refused.value)
    assert "no row for 4 of 4 shared resources" in text
    for day in DAYS:
        for lane in LANES:
            line = next(s for s in text.splitlines() if s.startswith(f"  'hours-{day}-{lane}'"))
            assert "perhaps" in line
            assert day in line.partition("perhaps")[2]
            assert lane in line.partition("perhaps")[2]
    assert "--row RESOURCE=ROW" in text


def test_a_resource_that_is_not_used_needs_no_row(tmp_path: Path) -> None:
    """An empty row says so; the company never demands it."""
    path = write(tmp_path, "plan.lp", FILES["plan.lp"])
    data = company_model.read(path, agree("steel", "water", "power"), row_map(["water="]))
    assert not data.value[data.index == 1].size
    answer = Subproblem(data, np.full(3, 10.0)).answer(np.zeros(3))
    assert answer is not None
    assert answer.demand[1] == 0.0


def test_a_file_of_rows_is_read(tmp_path: Path) -> None:
    """A TOML file, a mapping and texts give the same map."""
    file = tmp_path / "rows.toml"
    file.write_text('[rows]\n"hours-*" = "h[*]"\nlifts = ""\n')
    expected = RowMap((("hours-*", "h[*]"), ("lifts", "")))
    assert row_map(file=file) == expected
    assert row_map({"hours-*": "h[*]", "lifts": None}) == expected
    assert row_map(["hours-*=h[*]", "lifts="]) == expected
    assert expected.row_of("hours-mon") == "h[mon]"
    assert expected.row_of("lifts") == ""
    assert expected.row_of("docks") is None


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["steel"], "must be RESOURCE=ROW"),
        (["steel-*=s"], "as many \\*"),
        (["stele=press"], "no shared resource has that name; they are 'steel', 'power'"),
        (["steel=power"], "the row 'power' is given for two shared resources"),
        (["steel=pres"], "'steel': there is no row 'pres'; perhaps 'press'"),
    ],
)
def test_a_wrong_map_is_refused(tmp_path: Path, texts: list[str], words: str) -> None:
    """The error names the entry."""
    path = write(tmp_path, "plan.lp", FILES["plan.lp"])
    with pytest.raises((BadCommand, BadData), match=words):
        company_model.read(path, agree("steel", "power"), row_map(texts))


@pytest.mark.parametrize("text", ["rows = 3\n", "[rows]\nsteel = 3\n", "[other]\n", "rows\n"])
def test_a_wrong_file_of_rows_is_refused(tmp_path: Path, text: str) -> None:
    """It must be a table of texts."""
    (tmp_path / "rows.toml").write_text(text)
    with pytest.raises(BadCommand, match="--rows"):
        row_map(file=tmp_path / "rows.toml")


@pytest.mark.parametrize("build", [pyomo_model, linopy_model, pulp_model])
def test_reading_a_tools_model_prints_nothing(
    build: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """No banner of a library appears on standard output, which a program may read."""
    model = build()
    capfd.readouterr()
    with pytest.raises(BadData):
        company_model.read(model, SHARED)
    assert capfd.readouterr().out == ""
