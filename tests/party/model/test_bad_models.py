"""A model that cannot be used is refused with its reason and without a private number."""

import gzip
import io
import math
import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from party.model import company_model
from party.model.best_response import subproblem
from party.model.company_model import CompanyModel
from protocol.errors import BadData
from tests.support.sample_models import (
    ARRAYS,
    FILES,
    INF,
    LP,
    MPS,
    PLANTED,
    SHARED,
    npz,
    write,
)

BROKEN_TEXTS: list[tuple[str, str | bytes, str]] = [
    (
        "semi.lp",
        LP.replace("End", "Semi-continuous\n wood\nEnd"),
        "line 16: semi-continuous columns are not supported; write them as",
    ),
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
    (
        "miss.lp",
        LP.replace("steel:", "stahl:"),
        "has no row for 1 of 2 shared resources:\n  'steel'",
    ),
    (
        "miss.mps",
        MPS.replace("steel", "stahl"),
        "has no row for 1 of 2 shared resources:\n  'steel'",
    ),
    ("free.mps", MPS.replace(" L  steel", " N  steel"), "no row for 1 of 2 shared"),
    ("twice.lp", LP.replace("press:", "steel:"), "has 2 rows named 'steel'; it needs exactly one"),
    (
        "twice.mps",
        MPS.replace(" L  press", " L  steel"),
        "there are two rows named 'steel'; rename",
    ),
    (
        "typo.mps",
        MPS.replace("wood      steel", "wood      stele"),
        "row 'stele' is not under ROWS; correct",
    ),
    (
        "typo2.mps",
        MPS.replace("RANGES    shift", "RANGES    shitf"),
        "line 28: the row 'shitf' is not under",
    ),
    (
        "again2.mps",
        MPS.replace("UP BOUNDS    wood", "UP BOUNDS    iron"),
        "'iron' has two values for one",
    ),
    (
        "again.mps",
        MPS.replace("wood      shift", "wood      steel"),
        "two values in the row 'steel'",
    ),
    ("nan.lp", LP.replace("2 iron", "nan iron"), "'nan' is in place of a number"),
    ("nan2.lp", LP.replace("7919.25", "NaN"), "'nan' is in place of a number"),
    ("nan3.lp", LP.replace("<= 79.19\n", "<= nan\n"), "'nan' is in place of a number"),
    ("nan4.lp", LP.replace("<= 7.919\n", "<= nan\n"), "'nan' is in place of a number"),
    ("nan.mps", MPS.replace("steel     2.0", "steel     nan"), "'nan' is in place of a number"),
    ("nan2.mps", MPS.replace("7919.25", "NAN    "), "'nan' is in place of a number"),
    ("nan3.mps", MPS.replace("79.19 ", "nan   "), "'nan' is in place of a number"),
    ("nan4.mps", MPS.replace("-7.919", "nan   "), "'nan' is in place of a number"),
    ("inf.lp", LP.replace("2 iron", "inf iron"), "line 6: the coefficient of 'iron' is not"),
    ("inf2.lp", LP.replace("7919.25", "1e30"), "'iron' has a coefficient in the objective that"),
    (
        "inf.mps",
        MPS.replace("steel     2.0", "steel     inf"),
        "'iron' has a coefficient in a row that is",
    ),
    ("inf2.mps", MPS.replace("7919.25", "-inf   "), "'iron' has a coefficient in the objective"),
    ("large.mps", MPS.replace("steel     2.0", "steel     1e17"), "a finite number below 1e+15"),
    ("cross.lp", LP.replace("-7.919 <=", "7.9191 <="), "within the limits of column 'iron'"),
    ("range3.lp", LP.replace(">= -79.195", ">= 1 <= 79.195"), "line 9: a row ends with its limit"),
    ("const.lp", LP.replace("press: iron", "press: iron + 79.19"), "line 5: a row has a constant"),
    ("const2.lp", LP.replace("press: iron", "press:\n79.19\n + iron"), "line 6: a row has a const"),
    ("right.lp", LP.replace("<= 7.9195\n oil", "<= 7.9195 + oil\n oil"), "line 10: a row ends"),
    ("right2.lp", LP.replace("<= 7.9195\n oil", "<= 7.9195 oil\n oil"), "line 10: a row ends"),
    ("comma.mps", MPS.replace(".", ",", 1), "a number has a comma; write decimals with a point"),
    ("comma.lp", LP.replace("7.9195", "7,9195", 1), "a number has a comma; write decimals with"),
    ("rows.mps", MPS.replace("ROWS\n", ""), "not a complete MPS file: it has no section ROWS"),
    ("cut.mps", MPS[:-60], "'cut.mps' is not a complete MPS file: it has no section ENDATA"),
    ("cut.lp", LP[:-40], "'cut.lp' has no line End: it may be cut off"),
    ("cut.mps.gz", gzip.compress(MPS.encode())[:-30], "'cut.mps.gz' is not a readable text in UTF"),
    ("latin.lp", LP.replace("wood", "b\xfcche").encode("latin-1"), "is not a readable text in UTF"),
    ("latin.mps", MPS.replace("wood", "b\xfcch").encode("latin-1"), "is not a readable text in"),
    ("noise.mps", bytes(range(256)) * 4, "'noise.mps' is not a readable text in UTF-8"),
    ("words.lp", "7919 words\nthat are no model 7919.25\n", "line 1: the file must begin with"),
    (
        "words.mps",
        "7919 words\nthat are no model 7919.25\n",
        "is not a complete MPS file",
    ),
    ("none.lp", "", "'none.lp' has no line End"),
    ("none.mps", "", "'none.mps' is not a complete MPS file: it has no section ROWS"),
    ("empty.lp", "Maximize\n o:\nSubject To\nEnd\n", "'empty.lp' is empty: the model has no"),
    ("empty.mps", "NAME\nROWS\n N o\nCOLUMNS\nRHS\nENDATA\n", "is empty: the model has no columns"),
    ("plan.txt", LP, "'plan.txt' is not a .mps, .mps.gz, .lp or .npz file; save"),
    ("plan.lp.gz", gzip.compress(LP.encode()), "is not a .mps, .mps.gz, .lp or .npz file"),
]


def without(*keys: str, **more: Any) -> bytes:
    """The arrays as an .npz, without `keys` and with `more` replaced or added."""
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
    ("extra", without(c=np.ones(3)), "the array 'c' is unknown; an .npz model has A, B, b, u"),
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
        "the model is empty: the array 'u' has no columns",
    ),
    ("objects", without(u=np.array([7919.25, None, 1.0], dtype=object)), NOT_ARRAYS),
    ("pickle", pickle.dumps(ARRAYS), NOT_ARRAYS),
    ("npy", npy(ARRAYS["A"]), NOT_ARRAYS),
    ("cut", npz(**ARRAYS)[:-40], NOT_ARRAYS),
    ("nothing", b"", NOT_ARRAYS),
    ("words instead", LP.encode(), NOT_ARRAYS),
]  # fmt: skip


def refusal(action: Callable[[], object]) -> str:
    """The text of the BadData that this raises; no part of the error has a private number."""
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
def test_a_bad_model_file_is_refused_without_a_private_number(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    name: str,
    content: str | bytes,
    expected: str,
) -> None:
    """The error names the file and the reason; nothing is printed."""
    path = write(tmp_path, name, content)
    assert expected in refusal(lambda: company_model.read(path, SHARED))
    assert PLANTED not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("content", "expected"),
    [case[1:] for case in BROKEN_ARRAYS],
    ids=[name for name, _, _ in BROKEN_ARRAYS],
)
def test_bad_arrays_are_refused_without_a_private_number(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    """The error names the array and the entry."""
    path = write(tmp_path, "plan.npz", content)
    assert expected in refusal(lambda: company_model.read(path, SHARED))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The error has the path of a missing file, or of a folder in its place."""
    missing, folder = tmp_path / "missing.mps", tmp_path / "folder.mps"
    folder.mkdir()
    text = refusal(lambda: company_model.read(missing, SHARED))
    assert text == f"there is no model file {str(missing)!r}; check --data"
    text = refusal(lambda: company_model.read(folder, SHARED))
    assert text == f"--data {str(folder)!r} is a folder; name the model file in it"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
@pytest.mark.parametrize("name", ["plan.mps", "plan.lp", "plan.npz"])
def test_a_file_without_permission_is_refused(tmp_path: Path, name: str) -> None:
    """It is an error like any other unreadable file."""
    path = write(tmp_path, name, FILES[name])
    path.chmod(0)
    refusal(lambda: company_model.read(path, SHARED))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            (" oil free", " oil <= 7919.25"),
            "the model is infeasible for any amount of the shared resources",
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
def test_a_model_without_a_best_plan_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], change: tuple[str, str], expected: str
) -> None:
    """An infeasible or unbounded model is refused before the first price."""
    text = LP.replace(*change)
    if "any amount" in expected:
        text = text.replace("iron + oil = 4", "iron + oil = -7919.25")
    if "unbounded" in expected:
        text = text.replace("- 2 oil", "- 2 oil + 7919.5 paper")
    data = company_model.read(write(tmp_path, "plan.lp", text), SHARED)
    assert refusal(lambda: subproblem(data, SHARED, "ben")).startswith(expected)
    assert PLANTED not in "".join(capfd.readouterr())


@given(st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_damaged_npz_is_a_model_or_an_error(folder: Path, data: st.DataObject) -> None:
    """An .npz with random bytes changed raises nothing but BadData."""
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
