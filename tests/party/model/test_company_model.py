"""A private model means the same in every format, and it is never printed."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from party.model import company_model
from party.model.best_response import Subproblem, subproblem
from protocol.errors import BadData
from tests.support.sample_models import (
    ARRAYS,
    FILES,
    INF,
    LP,
    MPS,
    PLANTED,
    SHARED,
    agree,
    best_by_scipy,
    npz,
    write,
)


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_equal_answers(tmp_path: Path, name: str) -> None:
    """One model in any format has the objective and plan that another solver finds."""
    data = company_model.read(write(tmp_path, name, FILES[name]), SHARED)
    assert data.names == ("iron", "wood", "oil")
    problem = subproblem(data, SHARED, "ben")
    for prices in ([0.0, 0.0], [7.5, 3.25], [4100.0, 11.0], [0.0, 900.0]):
        answer = problem.answer(np.array(prices))
        value, plan = best_by_scipy(ARRAYS, np.array(prices), np.array([10.0, 10.0]))
        assert answer is not None
        assert answer.objective == pytest.approx(value, rel=1e-9)
        assert answer.plan == pytest.approx(plan, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.lp", LP.replace("Maximize", "Minimize").replace("7919.25", "-7919.25")
         .replace("+ 50", "- 50").replace("- 2 oil", "+ 2 oil")),
        ("a.mps", MPS.replace("MAX", "MIN").replace("7919.25", "-7919.25")
         .replace("profit    50", "profit    -50").replace("profit    -2", "profit    2")),
        ("b.mps", MPS.replace("OBJSENSE\n    MAX\n", "").replace("7919.25", "-7919.25")
         .replace("profit    50", "profit    -50").replace("profit    -2", "profit    2")),
    ],
    ids=["lp", "mps", "mps without a sense"],
)  # fmt: skip
def test_minimising_costs_equals_maximising_profit(tmp_path: Path, name: str, text: str) -> None:
    """A model that minimises costs gives the answer of one that maximises profit."""
    data = company_model.read(write(tmp_path, name, text), SHARED)
    answer = Subproblem(data, np.array([10.0, 10.0])).answer(np.array([7.5, 3.25]))
    assert answer is not None
    assert answer.objective == pytest.approx(
        best_by_scipy(ARRAYS, np.array([7.5, 3.25]), np.array([10.0, 10.0]))[0], rel=1e-9
    )


@pytest.mark.parametrize(
    ("name", "text", "constant"),
    [
        ("a.lp", LP.replace("- 2 oil", "- 2 oil + 12.5"), 12.5),
        ("b.lp", LP.replace("Maximize", "Minimize").replace("- 2 oil", "- 2 oil + 12.5"), -12.5),
        ("a.mps", MPS.replace("RHS\n", "RHS\n    RHS       profit    -12.5\n", 1), 12.5),
        (
            "b.mps",
            MPS.replace("MAX", "MIN").replace("RHS\n", "RHS\n    RHS  profit  -12.5\n", 1),
            -12.5,
        ),
    ],
)
def test_a_constant_in_the_objective_counts(
    tmp_path: Path, name: str, text: str, constant: float
) -> None:
    """It is a profit or a cost, depending on the sense of the model."""
    without = text.replace(" + 12.5", "").replace("-12.5", "0.0")
    values = []
    for content in (text, without):
        data = company_model.read(write(tmp_path, name, content), SHARED)
        answer = Subproblem(data, np.array([10.0, 10.0])).answer(np.array([1.0, 1.0]))
        assert answer is not None
        values.append(answer.objective)
    assert values[0] - values[1] == pytest.approx(constant)


def test_every_kind_of_bound_and_row_is_read(tmp_path: Path) -> None:
    """Free, negative and fixed bounds, equalities and ranges are read as written."""
    text = """\
NAME kinds
ROWS
 N  cost
 L  steel
 E  equal
 G  least
 L  most
 E  up
 E  down
 G  above
COLUMNS
    a  cost  1  steel  1
    a  equal  1  least  1
    a  most  1  up  1
    a  down  1  above  1
    b  cost  1
    c  cost  1
    d  cost  1
    e  cost  1
    f  cost  1
RHS
    R  steel  5  equal  3
    R  least  2  most  4
    R  up  10  down  20
    R  above  7
RANGES
    R  most  1.5  up  2.5
    R  down  -3.5  above  4.5
BOUNDS
 FR B b
 MI B c
 UP B c -1
 FX B d -2.5
 LO B e -3
 UP B e 4
 PL B f
ENDATA
"""
    data = company_model.read(write(tmp_path, "kinds.mps", text), agree("steel"))
    assert data.lower.tolist() == [0.0, -INF, -INF, -2.5, -3.0, 0.0]
    assert data.upper.tolist() == [INF, INF, -1.0, -2.5, 4.0, INF]
    assert data.row_lower.tolist() == [3.0, 2.0, 2.5, 10.0, 16.5, 7.0]
    assert data.row_upper.tolist() == [3.0, INF, 4.0, 12.5, 20.0, 11.5]
    assert data.utility.tolist() == [-1.0] * 6


@pytest.mark.parametrize(
    ("order", "rows"),
    [
        (("steel", "power"), [[2.0, 1.0, 0.0], [1.0, 4.0, -0.5]]),
        (("power", "steel"), [[1.0, 4.0, -0.5], [2.0, 1.0, 0.0]]),
        (("power",), [[1.0, 4.0, -0.5]]),
        (("press", "power", "steel"), [[1.0, 1.0, 0.0], [1.0, 4.0, -0.5], [2.0, 1.0, 0.0]]),
    ],
)
@pytest.mark.parametrize("name", ["plan.lp", "plan.mps"])
def test_resource_rows_may_be_in_any_order(
    tmp_path: Path, name: str, order: tuple[str, ...], rows: list[list[float]]
) -> None:
    """They are found by name, and put first in the order of the agreement."""
    data = company_model.read(write(tmp_path, name, FILES[name]), agree(*order))
    matrix = np.zeros((data.resources + data.private_rows, data.columns))
    for column in range(data.columns):
        entries = slice(data.start[column], data.start[column + 1])
        matrix[data.index[entries], column] = data.value[entries]
    assert matrix[: len(order)].tolist() == rows


@pytest.mark.parametrize(
    ("row", "sign"),
    [
        ("2 iron + wood <= 5", 1.0),
        ("2 iron + wood <= -5", 1.0),
        ("2 iron - wood <= 5", 1.0),
        ("- 2 iron - wood >= -5", -1.0),
        ("- 2 iron - wood >= 0", -1.0),
        ("- 2 iron + wood >= -5", -1.0),
        ("2 iron + wood >= 5", None),
        ("2 iron + wood >= -5", None),
        ("2 iron + wood >= 0", None),
        ("- 2 iron + wood >= 0", None),
        ("- 2 iron - wood >= 5", None),
        ("- 2 iron - wood <= -5", None),
        ("2 iron + wood = 5", None),
        ("- 2 iron - wood = 0", None),
    ],
)
def test_a_resource_row_must_be_an_upper_limit(
    tmp_path: Path, row: str, sign: float | None
) -> None:
    """An upper limit on consumption, or its negation, is accepted; all else is refused."""
    text = LP.replace("2 iron + wood <= 7919.5", row)
    path = write(tmp_path, "plan.lp", text)
    if sign is None:
        with pytest.raises(BadData, match="'steel' of a shared resource is not an upper limit"):
            company_model.read(path, SHARED)
        return
    data = company_model.read(path, SHARED)
    written = float(row.split("iron")[0].replace(" ", ""))
    assert data.value[data.index == 0][0] == sign * written


def drawn_model(seed: int) -> tuple[str, str, dict[str, Any]]:
    """A random model with a feasible plan, as MPS, as LP and as arrays."""
    rng = random.Random(seed)
    n, r = rng.randint(2, 6), rng.randint(1, 6)
    plan = [rng.uniform(-3, 3) for _ in range(n)]
    utility = [rng.uniform(-5, 10) for _ in range(n)]
    A = [[rng.choice([0.0, rng.uniform(0.1, 2)]) for _ in range(n)] for _ in range(2)]
    B = [[rng.choice([0.0, rng.uniform(-2, 2)]) for _ in range(n)] for _ in range(r)]
    for row in B:
        row[rng.randrange(n)] = 1.5
    kinds = [rng.choice("LGER") for _ in range(r)]
    at = [sum(a * x for a, x in zip(row, plan, strict=True)) for row in B]
    low = [v if k == "E" else v - rng.uniform(0.1, 2) for v, k in zip(at, kinds, strict=True)]
    high = [v if k == "E" else v + rng.uniform(0.1, 2) for v, k in zip(at, kinds, strict=True)]
    lower = [x - rng.uniform(0.5, 4) for x in plan]
    upper = [x + rng.uniform(0.5, 4) for x in plan]
    free = rng.randrange(n)
    lower[free], utility[free] = -INF, abs(utility[free])

    mps = ["NAME drawn", "OBJSENSE", " MAX", "ROWS", " N o", " G power", " L steel"]
    mps += [f" {'L' if k == 'R' else k} p{i}" for i, k in enumerate(kinds)] + ["COLUMNS"]
    for j in range(n):
        entries = [("o", utility[j]), ("power", -A[1][j]), ("steel", A[0][j])]
        entries += [(f"p{i}", B[i][j]) for i in range(r)]
        mps += [f" x{j} {row} {value!r}" for row, value in entries if value]
    mps += ["RHS", " R steel 9.0", " R power -9.0"]
    mps += [f" R p{i} {(low if k == 'G' else high)[i]!r}" for i, k in enumerate(kinds)]
    mps += ["RANGES"]
    mps += [f" R p{i} {high[i] - low[i]!r}" for i, k in enumerate(kinds) if k == "R"]
    mps += ["BOUNDS", f" MI B x{free}"]
    mps += [f" LO B x{j} {lower[j]!r}" for j in range(n) if j != free]
    mps += [f" UP B x{j} {upper[j]!r}" for j in range(n)] + ["ENDATA", ""]

    def terms(row: list[float]) -> str:
        return "".join(f" {'+' if a >= 0 else '-'} {abs(a)!r} x{j}" for j, a in enumerate(row))

    lp = ["maximize", f" o:{terms(utility)}", "st", f" power:{terms([-a for a in A[1]])} >= -9"]
    for i, kind in enumerate(kinds):
        if kind in "LR":
            lp += [f" p{i}:{terms(B[i])}", f" <= {high[i]!r}"]
        if kind in "GR":
            lp += [f" q{i}:{terms(B[i])} >= {low[i]!r}"]
        if kind == "E":
            lp += [f" p{i}:{terms(B[i])} = {high[i]!r}"]
    lp += [f" steel:{terms(A[0])} <= 9", "bounds", f" -inf <= x{free} <= {upper[free]!r}"]
    lp += [f" {lower[j]!r} <= x{j} <= {upper[j]!r}" for j in range(n) if j != free] + ["end", ""]

    rows = [(B[i], high[i]) for i in range(r) if kinds[i] in "LRE"]
    rows += [([-a for a in B[i]], -low[i]) for i in range(r) if kinds[i] in "GRE"]
    arrays = {
        "A": np.array(A),
        "B": np.array([row for row, _ in rows]),
        "b": np.array([limit for _, limit in rows]),
        "u": np.array(utility),
        "lower": np.array(lower),
        "upper": np.array(upper),
    }
    return "\n".join(mps), "\n".join(lp), arrays


@pytest.mark.parametrize("seed", range(12))
def test_random_models_mean_the_same_in_each_format(tmp_path: Path, seed: int) -> None:
    """With every kind of row and bound, each format gives the optimum of another solver."""
    mps, lp, arrays = drawn_model(seed)
    rng = np.random.default_rng(seed)
    contents: dict[str, str | bytes] = {"d.mps": mps, "d.lp": lp, "d.npz": npz(**arrays)}
    problems = [
        Subproblem(company_model.read(write(tmp_path, n, c), SHARED), np.array([30.0, 30.0]))
        for n, c in contents.items()
    ]
    for scale in (0.0, 1.0, 10.0):
        prices = scale * rng.uniform(0.0, 1.0, 2)
        value, _ = best_by_scipy(arrays, prices, np.array([30.0, 30.0]))
        for problem in problems:
            answer = problem.answer(prices)
            assert answer is not None
            assert answer.objective == pytest.approx(value, rel=1e-7, abs=1e-7)


def test_reading_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Reading and solving a good model leaves stdout and stderr empty."""
    for name, content in FILES.items():
        data = company_model.read(write(tmp_path, name, content), SHARED)
        subproblem(data, SHARED, "ada").answer(np.array([1.0, 2.0]))
    assert capfd.readouterr() == ("", "")


def test_nothing_private_is_printable(tmp_path: Path) -> None:
    """The model, the subproblem and its answers have no printable form."""
    data = company_model.read(write(tmp_path, "plan.lp", LP), SHARED)
    problem = subproblem(data, SHARED, "ada")
    answer = problem.answer(np.array([7.5, 3.25]))
    assert answer is not None
    private = {*data.utility.tolist(), *data.upper.tolist(), *answer.plan.tolist()}
    for thing in (data, answer, problem):
        text = f"{thing} {thing!r} {[thing]} {(thing,)}"
        assert PLANTED not in text
        assert not any(repr(number) in text for number in private if abs(number) > 10.0)
    assert repr(data) == "<private data set>"
    assert repr(answer) == "<private answer>"
