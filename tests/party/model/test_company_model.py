"""Reading the private model: every format, every refusal, and no number in any message."""

import gzip
import io
import math
import os
import pickle
import random
import traceback
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from party.model import company_model, model_file
from party.model.best_response import Subproblem, subproblem
from party.model.company_model import CompanyModel
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.errors import BadData
from protocol.numeric import Floats

INF = math.inf
PLANTED = "7919"
"""Stands at the beginning of every private number below that must not be told."""

LP = """\
\\ the plan of a company
Maximize
 profit: 7919.25 iron + 50 wood - 2 oil
Subject To
 press: iron + wood <= 79.19
 steel: 2 iron + wood <= 7919.5
 balance: iron + oil = 4
 power: - iron - 4 wood + 0.5 oil >= -7919.75
 shift_least: wood - oil >= -79.195
 shift_most: wood - oil <= 7.9195
 oil - wood >= -79.19625
Bounds
 -7.919 <= iron <= 7.919
 wood <= 7.9195
 oil free
End
"""

MPS = """\
* the plan of a company
NAME plan
OBJSENSE
    MAX
ROWS
 N  profit
 L  press
 L  steel
 E  balance
 G  power
 L  shift
 G  last
COLUMNS
    iron      profit    7919.25   press     1.0
    iron      steel     2.0       balance   1.0
    iron      power     -1.0
    wood      profit    50.0      press     1.0
    wood      steel     1.0       power     -4.0
    wood      shift     1.0       last      -1.0
    oil       profit    -2.0      balance   1.0
    oil       power     0.5       shift     -1.0
    oil       last      1.0
RHS
    RHS       press     79.19     steel     7919.5
    RHS       balance   4.0       power     -7919.75
    RHS       shift     7.9195    last      -79.19625
RANGES
    RANGES    shift     87.1145
BOUNDS
 LO BOUNDS    iron      -7.919
 UP BOUNDS    iron      7.919
 UP BOUNDS    wood      7.9195
 FR BOUNDS    oil
ENDATA
"""

ARRAYS: dict[str, Any] = {
    "A": np.array([[2.0, 1.0, 0.0], [1.0, 4.0, -0.5]]),
    "B": np.array(
        [[1, 1, 0], [1, 0, 1], [-1, 0, -1], [0, -1, 1], [0, 1, -1], [0, 1, -1]], dtype=np.int32
    ),
    "b": np.array([79.19, 4.0, -4.0, 79.195, 7.9195, 79.19625]),
    "u": np.array([7919.25, 50.0, -2.0]),
    "lower": np.array([-7.919, 0.0, -INF]),
    "upper": np.array([7.919, 7.9195, INF]),
    "names": np.array(["iron", "wood", "oil"]),
}


def agree(*resources: str, capacity: float = 20.0) -> Agreement:
    return from_table(
        {
            "session": "reading",
            "mode": "exact",
            "rounds": 3,
            "resource": [{"name": name, "capacity": capacity} for name in resources],
            "member": [{"name": "ada"}, {"name": "ben", "share": 0.5}],
        }
    )


SHARED = agree("steel", "power")


def npz(*, packed: bool = False, **arrays: Any) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(stream, **arrays)
    return stream.getvalue()


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def solved(arrays: dict[str, Any], prices: Floats, limit: Floats) -> tuple[float, Floats]:
    """The best objective and plan by another solver, with the allocation as a row of its own."""
    m, n = arrays["A"].shape
    rows = np.block([[arrays["A"], -np.eye(m)], [arrays["B"], np.zeros((len(arrays["b"]), m))]])
    result = linprog(
        -np.concatenate([arrays["u"], -prices]),
        A_ub=rows,
        b_ub=np.concatenate([np.zeros(m), arrays["b"]]),
        bounds=[
            *zip(arrays["lower"], arrays["upper"], strict=True),
            *((0.0, most) for most in limit),
        ],
    )
    assert result.status == 0
    return -result.fun, result.x[:n]


FILES: dict[str, str | bytes] = {
    "plan.mps": MPS,
    "plan.v2.mps": MPS.replace("\n", "\r\n"),
    "PLAN.MPS": MPS,
    "plan.mps.gz": gzip.compress(MPS.encode()),
    "plan.lp": LP,
    "plan.LP": LP.upper().replace("IRON", "iron").replace("WOOD", "wood").replace("OIL", "oil")
    .replace("STEEL", "steel").replace("POWER", "power"),
    "plan.npz": npz(**ARRAYS),
    "packed.npz": npz(packed=True, **{k: ARRAYS[k] for k in reversed(ARRAYS)}),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_answers(tmp_path: Path, name: str) -> None:
    """One model in whichever format has the objective and plan that another solver finds."""
    data = company_model.read(write(tmp_path, name, FILES[name]), SHARED)
    assert data.names == ("iron", "wood", "oil")
    problem = subproblem(data, SHARED, "ben")
    for prices in ([0.0, 0.0], [7.5, 3.25], [4100.0, 11.0], [0.0, 900.0]):
        answer = problem.answer(np.array(prices))
        value, plan = solved(ARRAYS, np.array(prices), np.array([10.0, 10.0]))
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
def test_costs_to_keep_small(tmp_path: Path, name: str, text: str) -> None:
    """A model that keeps costs small is the same as one that makes profits large."""
    data = company_model.read(write(tmp_path, name, text), SHARED)
    answer = Subproblem(data, np.array([10.0, 10.0])).answer(np.array([7.5, 3.25]))
    assert answer is not None
    assert answer.objective == pytest.approx(
        solved(ARRAYS, np.array([7.5, 3.25]), np.array([10.0, 10.0]))[0], rel=1e-9
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
def test_constant_of_the_objective(tmp_path: Path, name: str, text: str, constant: float) -> None:
    """A constant counts as profit or as cost, as the sense of the model says."""
    without = text.replace(" + 12.5", "").replace("-12.5", "0.0")
    values = []
    for content in (text, without):
        data = company_model.read(write(tmp_path, name, content), SHARED)
        answer = Subproblem(data, np.array([10.0, 10.0])).answer(np.array([1.0, 1.0]))
        assert answer is not None
        values.append(answer.objective)
    assert values[0] - values[1] == pytest.approx(constant)


def test_bounds_and_rows_of_every_kind(tmp_path: Path) -> None:
    """Free, negative and fixed bounds, equalities and ranges come in as they were written."""
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
def test_resource_rows_in_any_order(
    tmp_path: Path, name: str, order: tuple[str, ...], rows: list[list[float]]
) -> None:
    """Resource rows are found by name, put in the agreement's order, and as upper limits."""
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
def test_direction_of_a_resource_row(tmp_path: Path, row: str, sign: float | None) -> None:
    """A resource row is an upper limit on consumption, or the same negated; else it is refused."""
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
    """A random model with a known feasible plan: as MPS, as LP and as arrays."""
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
def test_drawn_models(tmp_path: Path, seed: int) -> None:
    """Random models of every kind of row and bound mean the same in each of the formats."""
    mps, lp, arrays = drawn_model(seed)
    rng = np.random.default_rng(seed)
    contents: dict[str, str | bytes] = {"d.mps": mps, "d.lp": lp, "d.npz": npz(**arrays)}
    problems = [
        Subproblem(company_model.read(write(tmp_path, n, c), SHARED), np.array([30.0, 30.0]))
        for n, c in contents.items()
    ]
    for scale in (0.0, 1.0, 10.0):
        prices = scale * rng.uniform(0.0, 1.0, 2)
        value, _ = solved(arrays, prices, np.array([30.0, 30.0]))
        for problem in problems:
            answer = problem.answer(prices)
            assert answer is not None
            assert answer.objective == pytest.approx(value, rel=1e-7, abs=1e-7)


BROKEN_TEXTS: list[tuple[str, str | bytes, str]] = [
    ("semi.lp", LP.replace("End", "Semi-continuous\n wood\nEnd"), "column 'wood' is semi-cont"),
    (
        "sc.mps",
        MPS.replace(" UP BOUNDS    wood", " SC BOUNDS    wood"),
        "column 'wood' is semi-continuous; write it as",
    ),
    (
        "quad.lp",
        LP.replace("- 2 oil", "- 2 oil + [ 7919 oil^2 ] / 2"),
        "objective is not concave to be maximised: it curves the other way in the column 'oil'",
    ),
    (
        "quad.mps",
        MPS.replace("ENDATA", "QUADOBJ\n    oil  oil  7919.125\nENDATA"),
        "objective is not concave to be maximised",
    ),
    (
        "saddle.lp",
        LP.replace("- 2 oil", "- 2 oil + [ - oil^2 - wood^2 + 7919 oil * wood ] / 2"),
        "objective is not concave to be maximised",
    ),
    (
        "least.lp",
        LP.replace("Maximize", "Minimize").replace("- 2 oil", "- 2 oil + [ - 7919 oil^2 ] / 2"),
        "objective is not convex to be minimised",
    ),
    (
        "both.lp",
        LP.replace("- 2 oil", "- 2 oil + [ - 7919 oil^2 ] / 2").replace(
            "End", "General\n wood\nEnd"
        ),
        "has a quadratic objective and integer columns",
    ),
    ("miss.lp", LP.replace("steel:", "stahl:"), "has no row named 'steel'; it needs exactly one"),
    ("miss.mps", MPS.replace("steel", "stahl"), "has no row named 'steel'; it needs exactly one"),
    ("free.mps", MPS.replace(" L  steel", " N  steel"), "has no row named 'steel'"),
    ("twice.lp", LP.replace("press:", "steel:"), "has 2 rows named 'steel'; it needs exactly one"),
    ("twice.mps", MPS.replace(" L  press", " L  steel"), "has two rows or columns of the same"),
    ("typo.mps", MPS.replace("wood      steel", "wood      stele"), "row or column that it does"),
    ("typo2.mps", MPS.replace("RANGES    shift", "RANGES    shitf"), "that it does not define"),
    ("again2.mps", MPS.replace("UP BOUNDS    wood", "UP BOUNDS    iron"), "two values for the"),
    ("again.mps", MPS.replace("wood      shift", "wood      steel"), "two values for the same"),
    ("nan.lp", LP.replace("2 iron", "nan iron"), "has 'nan' where a number is due"),
    ("nan2.lp", LP.replace("7919.25", "NaN"), "has 'nan' where a number is due"),
    ("nan3.lp", LP.replace("<= 79.19\n", "<= nan\n"), "has 'nan' where a number is due"),
    ("nan4.lp", LP.replace("<= 7.919\n", "<= nan\n"), "has 'nan' where a number is due"),
    ("nan.mps", MPS.replace("steel     2.0", "steel     nan"), "has 'nan' where a number is due"),
    ("nan2.mps", MPS.replace("7919.25", "NAN    "), "has 'nan' where a number is due"),
    ("nan3.mps", MPS.replace("79.19 ", "nan   "), "has 'nan' where a number is due"),
    ("nan4.mps", MPS.replace("-7.919", "nan   "), "has 'nan' where a number is due"),
    ("inf.lp", LP.replace("2 iron", "inf iron"), "HiGHS cannot read 'inf.lp' as a model: check"),
    ("inf2.lp", LP.replace("7919.25", "1e30"), "'iron' has a coefficient in the objective that"),
    ("inf.mps", MPS.replace("steel     2.0", "steel     inf"), "and has finite coefficients only"),
    ("inf2.mps", MPS.replace("7919.25", "-inf   "), "'iron' has a coefficient in the objective"),
    ("large.mps", MPS.replace("steel     2.0", "steel     1e17"), "HiGHS cannot read 'large.mps'"),
    ("cross.lp", LP.replace("-7.919 <=", "7.9191 <="), "the bounds have a limit that is not"),
    ("range.lp", LP.replace("press:", "press: 1 <= 1"), "line 5: HiGHS would misread this row"),
    ("range2.lp", LP.replace(" press:", " 1 <= 1"), "line 5: HiGHS would misread this row"),
    ("range3.lp", LP.replace(">= -79.195", ">= 1 <= 79.195"), "line 9: HiGHS would misread"),
    ("const.lp", LP.replace("press: iron", "press: iron + 79.19"), "line 5: HiGHS would misread"),
    ("const2.lp", LP.replace("press: iron", "press:\n79.19\n + iron"), "would misread this row"),
    ("right.lp", LP.replace("<= 7.9195\n oil", "<= 7.9195 + oil\n oil"), "line 10: HiGHS would"),
    ("right2.lp", LP.replace("<= 7.9195\n oil", "<= 7.9195 oil\n oil"), "line 10: HiGHS would"),
    ("comma.mps", MPS.replace(".", ",", 1), "a number has a comma; write decimals with a point"),
    ("comma.lp", LP.replace("7.9195", "7,9195", 1), "a number has a comma; write decimals with"),
    ("rows.mps", MPS.replace("ROWS\n", ""), "not an MPS file: it has no section ROWS"),
    ("cut.mps", MPS[:-60], "'cut.mps' is not an MPS file: it has no section ENDATA"),
    ("cut.lp", LP[:-40], "HiGHS cannot read 'cut.lp' as a model: check that it is a valid LP file"),
    ("cut.mps.gz", gzip.compress(MPS.encode())[:-30], "'cut.mps.gz' is not a readable text in UTF"),
    ("latin.lp", LP.replace("wood", "b\xfcche").encode("latin-1"), "is not a readable text in UTF"),
    ("latin.mps", MPS.replace("wood", "b\xfcch").encode("latin-1"), "is not a readable text in"),
    ("noise.mps", bytes(range(256)) * 4, "'noise.mps' is not a readable text in UTF-8"),
    ("words.lp", "7919 words\nthat are no model 7919.25\n", "HiGHS cannot read 'words.lp' as a"),
    ("words.mps", "7919 words\nthat are no model 7919.25\n", "'words.mps' is not an MPS file"),
    ("none.lp", "", "HiGHS cannot read 'none.lp' as a model"),
    ("none.mps", "", "'none.mps' is not an MPS file: it has no section ROWS"),
    ("empty.lp", "Maximize\n o:\nSubject To\nEnd\n", "a valid LP file that is not empty"),
    ("empty.mps", "NAME\nROWS\n N o\nCOLUMNS\nRHS\nENDATA\n", "a valid MPS file that is not empty"),
    ("plan.txt", LP, "'plan.txt': a model is a .mps, .mps.gz, .lp or .npz file"),
    ("plan.lp.gz", gzip.compress(LP.encode()), "a model is a .mps, .mps.gz, .lp or .npz file"),
]


def without(*keys: str, **more: Any) -> bytes:
    """The arrays of the plan as an .npz, some left out and some replaced or added."""
    return npz(**{k: v for k, v in ARRAYS.items() if k not in keys} | more)


def with_entry(key: str, value: float, *where: int) -> bytes:
    array = ARRAYS[key].astype(np.float64)
    array[where] = value
    return npz(**ARRAYS | {key: array})


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


NOT_ARRAYS = "is not an .npz file of plain arrays"
BROKEN_ARRAYS: list[tuple[str, bytes, str]] = [
    *(
        (f"no {key}", without(key), f"the array '{key}' is missing; an .npz model has A, B, b and")
        for key in "ABbu"
    ),
    ("extra", without(c=np.ones(3)), "the array 'c' is not known; an .npz model has A, B, b and u"),
    ("no row of A", without(A=np.ones((1, 3))), "'A' has shape (1, 3) and must have (2, 3) (one"),
    ("extra row of A", without(A=np.ones((3, 3))), "'A' has shape (3, 3) and must have (2, 3)"),
    ("flat A", without(A=np.ones(6)), "the array 'A' has shape (6,) and must have (2, 3)"),
    ("narrow B", without(B=np.ones((6, 2))), "the array 'B' has shape (6, 2) and must have (6, 3)"),
    ("long b", without(b=np.ones(7)), "the array 'B' has shape (6, 3) and must have (7, 3)"),
    ("square u", without(u=np.ones((3, 3))), "the array 'u' has 2 dimensions and must have 1"),
    ("scalar b", without(b=np.float64(7919.0)), "the array 'b' has 0 dimensions and must have 1"),
    ("short lower", without(lower=np.ones(2)), "'lower' has shape (2,) and must have (3,)"),
    ("short names", without(names=np.array(["a"])), "'names' must have one name for each of 3"),
    ("words", without(u=np.array(["7919", "a", "b"])), "the array 'u' must hold numbers"),
    ("truths", without(u=np.array([True, False, True])), "the array 'u' must hold numbers"),
    ("complex", without(u=np.ones(3, dtype=complex)), "the array 'u' must hold numbers"),
    ("nan in A", with_entry("A", math.nan, 1, 2), "'A' has an entry at (1, 2) that is not a finit"),
    ("inf in A", with_entry("A", INF, 0, 1), "'A' has an entry at (0, 1) that is not a finite"),
    ("large in A", with_entry("A", 7.919e15, 0, 1), "at (0, 1) that is not a finite number below"),
    ("nan in B", with_entry("B", math.nan, 3, 0), "'B' has an entry at (3, 0) that is not a finit"),
    ("inf in B", with_entry("B", -INF, 5, 1), "'B' has an entry at (5, 1) that is not a finite"),
    ("nan in b", with_entry("b", math.nan, 2), "'b' has an entry at (2,) that is not a finite num"),
    ("inf in b", with_entry("b", INF, 2), "'b' has an entry at (2,) that is not a finite number"),
    ("nan in u", with_entry("u", math.nan, 0), "'u' has an entry at (0,) that is not a finite num"),
    ("inf in u", with_entry("u", -INF, 1), "'u' has an entry at (1,) that is not a finite number"),
    ("nan in lower", with_entry("lower", math.nan, 2), "at (2,) that is not a number"),
    ("nan in upper", with_entry("upper", math.nan, 2), "at (2,) that is not a number"),
    ("crossed", with_entry("lower", 7919.25, 1), "column 1: no number is within its bounds"),
    ("inf as lower", with_entry("lower", INF, 2), "column 2: no number is within its bounds"),
    ("-inf as upper", with_entry("upper", -INF, 2), "column 2: no number is within its bounds"),
    (
        "huge",
        without(u=np.full(3, np.longdouble("1e400"))),
        "'u' has an entry at (0,) that is not a finite number below 1e+20",
    ),
    (
        "empty",
        npz(A=np.ones((2, 0)), B=np.ones((0, 0)), b=np.ones(0), u=np.ones(0)),
        "the model is empty: it has no columns",
    ),
    ("objects", without(u=np.array([7919.25, None, 1.0], dtype=object)), NOT_ARRAYS),
    ("pickle", pickle.dumps(ARRAYS), NOT_ARRAYS),
    ("npy", npy(ARRAYS["A"]), NOT_ARRAYS),
    ("cut", npz(**ARRAYS)[:-40], NOT_ARRAYS),
    ("nothing", b"", NOT_ARRAYS),
    ("words instead", LP.encode(), NOT_ARRAYS),
]  # fmt: skip


def tell(action: Callable[[], object]) -> str:
    """The text of the BadData that this raises, after a search of all that it shows."""
    with pytest.raises(BadData) as caught:
        action()
    error = caught.value
    shown = "".join(traceback.format_exception_only(error)) + repr(error) + repr(error.args)
    assert PLANTED not in shown
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    return str(error)


@pytest.mark.parametrize(
    ("name", "content", "expected"), BROKEN_TEXTS, ids=[name for name, _, _ in BROKEN_TEXTS]
)
def test_model_that_cannot_be_used(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    name: str,
    content: str | bytes,
    expected: str,
) -> None:
    """A file that is no linear program is refused for its reason, without a private number."""
    path = write(tmp_path, name, content)
    assert expected in tell(lambda: company_model.read(path, SHARED))
    assert PLANTED not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("content", "expected"),
    [case[1:] for case in BROKEN_ARRAYS],
    ids=[name for name, _, _ in BROKEN_ARRAYS],
)
def test_arrays_that_cannot_be_used(tmp_path: Path, content: bytes, expected: str) -> None:
    """Arrays that make no model are refused by name and place, without a private number."""
    path = write(tmp_path, "plan.npz", content)
    assert expected in tell(lambda: company_model.read(path, SHARED))


@pytest.mark.parametrize(
    "sense", ["OBJSENSE MAXIMIZE\n", "OBJSENSE MAXIMISE\n", "*SENSE:Maximize\n", "* sense = max\n"]
)
def test_maximise_that_would_get_lost(tmp_path: Path, sense: str) -> None:
    """A file that says maximise where HiGHS does not look is refused, for its plan is the worst."""
    path = write(tmp_path, "lost.mps", MPS.replace("OBJSENSE\n    MAX\n", sense))
    with pytest.raises(BadData, match="would be read as minimise"):
        company_model.read(path, agree("steel", "power"))


@pytest.mark.parametrize("sense", ["OBJSENSE MAX\n", "OBJSENSE\n  MAXIMISE\n", "OBJSENSE\n max\n"])
def test_maximise_in_all_its_spellings(tmp_path: Path, sense: str) -> None:
    """A sense that HiGHS understands is taken, with a comment that says the same or without."""
    text = MPS.replace("OBJSENSE\n    MAX\n", "*SENSE:Maximize\n" + sense)
    maximised = company_model.read(write(tmp_path, "kept.mps", text), agree("steel", "power"))
    usual = company_model.read(write(tmp_path, "usual.mps", MPS), agree("steel", "power"))
    assert maximised.utility.tolist() == usual.utility.tolist()


def test_file_that_is_not_there(tmp_path: Path) -> None:
    """A missing file, or a folder in its place, is told by its path."""
    (tmp_path / "folder.mps").mkdir()
    for name in ("missing.mps", "folder.mps"):
        text = tell(lambda name=name: company_model.read(tmp_path / name, SHARED))  # type: ignore[misc]
        assert text == f"there is no model file {str(tmp_path / name)!r}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
@pytest.mark.parametrize("name", ["plan.mps", "plan.lp", "plan.npz"])
def test_file_that_may_not_be_read(tmp_path: Path, name: str) -> None:
    """A file without permission is refused like any other that cannot be read."""
    path = write(tmp_path, name, FILES[name])
    path.chmod(0)
    tell(lambda: company_model.read(path, SHARED))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            (" oil free", " oil <= 7919.25"),
            "the model is infeasible whatever it gets of the shared resources",
        ),
        (
            (" wood <= 7.9195", " 7.9192 <= wood <= 7.9195"),
            "the model is infeasible within this member's share of the shared resources; ",
        ),
        (
            ("oil - wood >= -79.19625\n", "paper - wood >= -79.19625\n"),
            "the model is unbounded: its objective grows without end within the shared ",
        ),
    ],
    ids=["on its own", "within the share", "unbounded"],
)  # fmt: skip
def test_model_without_a_best_plan(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], change: tuple[str, str], expected: str
) -> None:
    """A model with no plan, or no best one, is refused before any price is known."""
    text = LP.replace(*change)
    if "whatever" in expected:
        text = text.replace("iron + oil = 4", "iron + oil = -7919.25")
    if "unbounded" in expected:
        text = text.replace("- 2 oil", "- 2 oil + 7919.5 paper")
    data = company_model.read(write(tmp_path, "plan.lp", text), SHARED)
    assert tell(lambda: subproblem(data, SHARED, "ben")).startswith(expected)
    assert PLANTED not in "".join(capfd.readouterr())


def test_reading_says_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Reading and solving a good model prints nothing at all."""
    for name, content in FILES.items():
        data = company_model.read(write(tmp_path, name, content), SHARED)
        subproblem(data, SHARED, "ada").answer(np.array([1.0, 2.0]))
    assert capfd.readouterr() == ("", "")


def test_nothing_private_is_printable(tmp_path: Path) -> None:
    """The data set, the subproblem and its answers have no printable form."""
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


@given(st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_damaged_arrays(folder: Path, data: st.DataObject) -> None:
    """An .npz with any bytes changed is a model or a BadData."""
    content = bytearray(npz(**ARRAYS))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    try:
        assert isinstance(
            company_model.read(write(folder, "a.npz", bytes(content)), SHARED), CompanyModel
        )
    except BadData:
        return


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


SPACED = """\
NAME          plan
ROWS
 N  profit
 L  steel
 L  power
COLUMNS
    iron ore  profit             3.5   steel               2.
    iron ore  power               1.
RHS
    RHS       steel               4.   power               9.
ENDATA
"""
"""Names with spaces, which only the reader of fixed columns understands."""


@pytest.mark.parametrize("text", [MPS, SPACED], ids=["free", "fixed"])
@pytest.mark.parametrize("blank", ["\n", "   \n", "\r\n"])
def test_empty_lines_in_mps_mean_nothing(tmp_path: Path, text: str, blank: str) -> None:
    """Wherever they stand, the model is the same, and nothing is left of a copy."""
    whole = tmp_path / "whole.mps"
    whole.write_text(text)
    expected = model_file.read(whole)
    lines = text.splitlines(keepends=True)
    for place in range(len(lines) + 1):
        path = tmp_path / "gaps.mps"
        path.write_bytes("".join([*lines[:place], blank, *lines[place:]]).encode())
        found = model_file.read(path)
        for field in ("columns", "rows", "maximise"):
            assert getattr(found, field) == getattr(expected, field)
        for field in ("cost", "lower", "upper", "row_lower", "row_upper", "value"):
            assert np.array_equal(getattr(found, field), getattr(expected, field))


def test_a_comma_in_a_name_is_none_in_a_number(tmp_path: Path) -> None:
    """Names may have commas, as those of indexed variables do."""
    path = tmp_path / "plan.lp"
    path.write_text("max\n p: 3.5 x(1,2) + y\nst\n steel: x(1,2) + 2 y <= 4\nend\n")
    assert model_file.read(path).columns == ["x(1,2)", "y"]


def bombs() -> dict[str, bytes]:
    """Short files that unpack to 64 MiB and more, and a long one."""
    part = gzip.compress(b" " * (16 << 20))
    packed = io.BytesIO()
    np.savez_compressed(packed, A=np.zeros((1, 8 << 20)))
    return {
        "one.mps.gz": gzip.compress(b" " * (64 << 20)),
        "members.mps.gz": part * 4,
        "hidden.mps": part * 4,
        "arrays.npz": packed.getvalue(),
        "plain.lp": b" " * (64 << 20),
    }


@pytest.mark.parametrize(
    "name", ["one.mps.gz", "members.mps.gz", "hidden.mps", "arrays.npz", "plain.lp"]
)
def test_a_model_that_is_too_long_is_refused_before_it_takes_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever is packed into a short file, little is ever held; the error says what to do."""
    (tmp_path / name).write_bytes(bombs()[name])
    monkeypatch.setenv("SOTTO_MODEL_MIB", "2")
    tracemalloc.start()
    try:
        with pytest.raises(BadData, match=f"'{name}' is longer than 2 MiB .* set SOTTO_MODEL_MIB"):
            company_model.read(tmp_path / name, agree("iron"))
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 8 << 20


@pytest.mark.parametrize("told", ["0", "-1", "much", "1.5", "\u0661"])
def test_a_limit_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """A misspelt limit is told, and no model is read without one."""
    (tmp_path / "plan.lp").write_text(LP)
    monkeypatch.setenv("SOTTO_MODEL_MIB", told)
    with pytest.raises(BadData, match="SOTTO_MODEL_MIB must be a whole number"):
        company_model.read(tmp_path / "plan.lp", agree("iron"))
