"""Sessions on models from files: own sets whose optimum is known, and public ones."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from protocol.errors import BadCommand
from scripts.lab.common.model_sets import read_set
from scripts.lab.simulate import command_line, play
from tests.support import ROOT
from tests.support.commands import run_module

PUBLIC = Path(os.environ.get("INSTANCES", ROOT.parent / "shared" / "instances"))

EARNS = """\
NAME {name}
ROWS
 N profit
 L r1
 L r2
COLUMNS
 x profit {profit} r1 {takes}
 x r2 1
RHS
 rhs r1 1000 r2 1000
BOUNDS
 UP limit x {most}
ENDATA
"""
"""Earns a profit with each x, which uses r1, and 1 of r2."""

SERVES = """\
NAME {name}
ROWS
 N cost
 L r1
 E demand
COLUMNS
 cheap cost 1 r1 1
 cheap demand 1
 dear cost {dear} demand 1
RHS
 rhs r1 1000 demand 3
ENDATA
"""
"""Must make 3, cheaply with the shared r1 or at high cost without it."""


def written(folder: Path, companies: list[str], optimum: float, **capacity: float) -> Path:
    """Write a set of these models."""
    files = [f"company{k + 1}.mps" for k in range(len(companies))]
    for file, text in zip(files, companies, strict=True):
        (folder / file).write_text(text)
    description = {
        "resources": [{"name": name, "capacity": c} for name, c in capacity.items()],
        "companies": [{"file": file} for file in files],
        "optimum": {"utility": optimum},
    }
    (folder / "set.json").write_text(json.dumps(description))
    return folder


def earning(folder: Path, optimum: float = 14.0, **capacity: float) -> Path:
    """Of 6 of r1 the first company uses 4 and earns 12; the second uses the rest and earns 2."""
    companies = [
        EARNS.format(name="first", profit=-3, takes=1, most=4),
        EARNS.format(name="second", profit=-2, takes=2, most=5),
    ]
    return written(folder, companies, optimum, **({"r1": 6.0, "r2": 10.0} | capacity))


def options(*arguments: str) -> argparse.Namespace:
    return command_line().parse_args(["--mode", "exact", "--worth", "0", *arguments])


def test_a_set_with_profits_reaches_its_optimum(tmp_path: Path) -> None:
    """The price of a unit of r1 is 1, that of r2 is 0, and all companies have a plan."""
    figures = play(*read_set(earning(tmp_path)), options())
    assert figures["optimum"] == pytest.approx(14.0)
    assert 0.0 <= figures["dual_gap_weighted"] <= 1e-4
    assert figures["rounds_to_gap"]["0.001"] <= 30
    assert figures["prices"] == pytest.approx([1.0, 0.0], abs=1e-2)
    assert figures["without_plan"] == 0
    assert figures["quota_loss"] <= 1e-3


def test_a_set_that_only_costs_has_gaps_above_its_optimum(tmp_path: Path) -> None:
    """The company with the higher cost elsewhere gets 3 of 4 cheap units; the total cost is 8."""
    companies = [SERVES.format(name=f"c{dear}", dear=dear) for dear in (3, 2)]
    figures = play(*read_set(written(tmp_path, companies, -8.0, r1=4.0)), options())
    assert figures["optimum"] == pytest.approx(-8.0)
    assert 0.0 <= figures["dual_gap_weighted"] <= 1e-4
    assert 0.0 <= figures["quota_loss"] <= 1e-3
    assert figures["without_plan"] == 0


SIMULATE = ("scripts.lab.simulate", "--mode", "exact")


def test_the_command_runs_a_set(tmp_path: Path) -> None:
    """The command ends with exit code 0, prints a table and writes the figures."""
    file = tmp_path / "figures.json"
    done = run_module(*SIMULATE, "--models", earning(tmp_path), "--json", file)
    assert done.returncode == 0, done.stderr
    assert "2 parties" in done.stdout
    figures = json.loads(file.read_text())
    assert figures["optimum"] == pytest.approx(14.0)


def test_options_for_drawing_are_refused_with_models(tmp_path: Path) -> None:
    """An option that describes a drawn problem is refused: exit code 2, and no figures."""
    done = run_module(*SIMULATE, "--models", earning(tmp_path), "--parties", "3")
    assert done.returncode == 2
    assert "--parties describes a drawn problem" in done.stderr


@pytest.mark.parametrize("capacity", [0.0, -5.0])
def test_a_resource_with_nothing_to_divide_is_refused(tmp_path: Path, capacity: float) -> None:
    """A resource with nothing to divide is refused by name."""
    with pytest.raises(BadCommand, match=r"resource 'r2' has capacity .*do not bring enough"):
        read_set(earning(tmp_path, r2=capacity))


def test_negative_consumption_without_floors_is_refused(tmp_path: Path) -> None:
    """A company that brings capacity is refused if the set has no floors."""
    folder = earning(tmp_path)
    first = EARNS.format(name="first", profit=-3, takes=1, most=4)
    (folder / "company1.mps").write_text(first.replace("x r2 1", "x r2 -1\n y r2 1"))
    with pytest.raises(BadCommand, match=r"company1\.mps: the company brings"):
        read_set(folder)


BRINGS = """\
NAME brings
ROWS
 N cost
 L r1
COLUMNS
 x cost 2 r1 -1
RHS
 rhs r1 0
BOUNDS
 UP limit x 7
ENDATA
"""
"""Makes up to 7 of r1 at 2 each, for others."""

WANTS = """\
NAME wants
ROWS
 N cost
 L r1
COLUMNS
 x cost {cost} r1 1
RHS
 rhs r1 0
BOUNDS
 UP limit x {most}
ENDATA
"""


@pytest.mark.parametrize(
    ("capacity", "optimum", "price"),
    [(0.0, 4.0 * 5.0 + 3.0 * 3.0 - 7.0 * 2.0, 3.0), (2.0, 4.0 * 5.0 + 4.0 * 3.0 - 6.0 * 2.0, 2.0)],
)
def test_a_company_that_brings_is_paid(
    tmp_path: Path, capacity: float, optimum: float, price: float
) -> None:
    """One company makes what is missing, and the others pay the price of the last unit.

    With none given, all 7 are wanted at 3 and more; with 2 given, 6 more are enough, at cost.
    """
    companies = [BRINGS, WANTS.format(cost=-5, most=4), WANTS.format(cost=-3, most=4)]
    folder = written(tmp_path, companies, optimum, r1=capacity)
    description: dict[str, Any] = json.loads((folder / "set.json").read_text())
    description["floors"] = [[-7.0], [0.0], [0.0]]
    (folder / "set.json").write_text(json.dumps(description))
    figures = play(*read_set(folder), options("--tolerance", "1e-6"))
    assert figures["dual_gap_weighted"] <= 1e-4
    assert figures["prices"] == pytest.approx([price], rel=1e-2)
    assert figures["without_plan"] == 0
    assert figures["quota_loss"] <= 1e-4
    assert figures["payments"][0] < 0.0
    assert sum(figures["payments"]) == 0.0
    assert all(gain >= -1e-3 for gain in figures["gains"])


def formed(folder: Path, form: str) -> Path:
    """Give the first resource of a set another form."""
    description: dict[str, Any] = json.loads((folder / "set.json").read_text())
    description["resources"][0]["form"] = form
    (folder / "set.json").write_text(json.dumps(description))
    return folder


def test_lower_bounds_on_shared_resources_are_refused(tmp_path: Path) -> None:
    """Only capacities and equalities are supported."""
    with pytest.raises(BadCommand, match=r"resource 'r1' has the form '>='"):
        read_set(formed(earning(tmp_path), ">="))


def test_an_equality_may_have_a_negative_price(tmp_path: Path) -> None:
    """All 10 units must be used, and the second company loses 2 on each unit: the price is -2.

    The first wants 4; the second takes the other 6 only if it is paid.
    """
    companies = [
        WANTS.format(cost=-3, most=4).replace(" L r1", " E r1"),
        WANTS.format(cost=2, most=9).replace(" L r1", " E r1"),
    ]
    folder = formed(written(tmp_path, companies, 4.0 * 3.0 - 6.0 * 2.0, r1=10.0), "=")
    instance, optimum = read_set(folder)
    assert optimum.utility == pytest.approx(0.0)
    figures = play(instance, replace(optimum, utility=1e-9), options("--tolerance", "1e-8"))
    assert figures["prices"][0] - figures["prices"][1] == pytest.approx(-2.0, rel=1e-3)
    assert figures["without_plan"] == 0
    assert figures["quota_utility"] == pytest.approx(0.0, abs=1e-4)
    assert sum(figures["payments"]) == 0.0


def test_a_wrong_optimum_is_refused(tmp_path: Path) -> None:
    """The optimum of a set is computed again before it is used."""
    with pytest.raises(BadCommand, match=r"joint optimum is 14, but set\.json has 15"):
        read_set(earning(tmp_path, optimum=15.0))


def test_a_folder_without_a_set_is_refused(tmp_path: Path) -> None:
    """The error names the missing set.json."""
    with pytest.raises(BadCommand, match=r"is not a set of models: it needs a set\.json"):
        read_set(tmp_path)


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="no sets of public models beside the project")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("netlib-mix-1", ()),
        ("netlib-mix-2", ()),
        ("gap8-4", ()),
        ("ran10x10a", ()),  # all supplies are used up
        ("ran4x64", ()),
        ("p12345", ()),  # in these sets some companies bring capacity
        ("disp3", ()),
        ("p2756", ()),
    ],
)
def test_public_sets_are_solved(name: str, arguments: tuple[str, ...]) -> None:
    """Without worth: 0.1 % in 100 rounds, 0.01 % in 150, and plans within quotas for all."""
    # The tolerance is a fraction of the worth of all capacities, which may be far above the
    # optimum: with the default a session may end before 0.01 %.
    figures = play(*read_set(PUBLIC / name), options("--tolerance", "1e-6", *arguments))
    assert figures["rounds_to_gap"]["0.001"] <= 100
    assert figures["rounds_to_gap"]["0.0001"] <= 150
    assert figures["without_plan"] == 0
    assert figures["quota_loss"] <= 1e-3
