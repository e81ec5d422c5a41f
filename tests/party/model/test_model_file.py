"""MPS and LP files: senses, empty lines, names, and files that are too large."""

import gzip
import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from party.model import company_model, model_file
from protocol.errors import BadData
from tests.support.sample_models import (
    LP,
    MPS,
    agree,
    write,
)


@pytest.mark.parametrize(
    "sense", ["*SENSE:Maximize\n", "* sense = max\n", "*SENSE:Maximize\nOBJSENSE MIN\n"]
)
def test_a_maximise_that_is_only_a_comment_is_refused(tmp_path: Path, sense: str) -> None:
    """Every reader would minimise, and find the worst plan."""
    path = write(tmp_path, "lost.mps", MPS.replace("OBJSENSE\n    MAX\n", sense))
    with pytest.raises(BadData, match="would be read as minimise"):
        company_model.read(path, agree("steel", "power"))


@pytest.mark.parametrize(
    "sense",
    [
        "OBJSENSE MAX\n",
        "OBJSENSE MAXIMIZE\n",
        "OBJSENSE\n  MAXIMISE\n",
        "OBJSENSE\n max\n",
        "OBJSENSE\nMAX\n",
        "OBJMAX\n",
        "OBJSENSEMAX\n",
    ],
)
def test_every_spelling_of_maximise_is_read(tmp_path: Path, sense: str) -> None:
    """The sense may be on its line or the next, also beside a comment with the sense."""
    text = MPS.replace("OBJSENSE\n    MAX\n", "*SENSE:Maximize\n" + sense)
    maximised = company_model.read(write(tmp_path, "kept.mps", text), agree("steel", "power"))
    usual = company_model.read(write(tmp_path, "usual.mps", MPS), agree("steel", "power"))
    assert maximised.utility.tolist() == usual.utility.tolist()


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
"""Names with spaces, which only the fixed format allows."""


@pytest.mark.parametrize("text", [MPS, SPACED], ids=["free", "fixed"])
@pytest.mark.parametrize("blank", ["\n", "   \n", "\r\n"])
def test_empty_lines_in_mps_are_ignored(tmp_path: Path, text: str, blank: str) -> None:
    """An empty line anywhere does not change the model."""
    original = tmp_path / "original.mps"
    original.write_text(text)
    expected = model_file.read(original)
    lines = text.splitlines(keepends=True)
    for at in range(len(lines) + 1):
        path = tmp_path / "gaps.mps"
        path.write_bytes("".join([*lines[:at], blank, *lines[at:]]).encode())
        found = model_file.read(path)
        for field in ("columns", "rows", "maximise"):
            assert getattr(found, field) == getattr(expected, field)
        for field in ("cost", "lower", "upper", "row_lower", "row_upper", "value"):
            assert np.array_equal(getattr(found, field), getattr(expected, field))


def test_a_name_may_have_a_comma(tmp_path: Path) -> None:
    """Indexed variables have commas in their names; only numbers must not."""
    path = tmp_path / "plan.lp"
    path.write_text("max\n p: 3.5 x(1,2) + y\nst\n steel: x(1,2) + 2 y <= 4\nend\n")
    assert model_file.read(path).columns == ["x(1,2)", "y"]


def bombs() -> dict[str, bytes]:
    """Short files that unpack to 64 MiB or more, and a long one."""
    member = gzip.compress(b" " * (16 << 20))
    packed = io.BytesIO()
    np.savez_compressed(packed, A=np.zeros((1, 8 << 20)))
    return {
        "one.mps.gz": gzip.compress(b" " * (64 << 20)),
        "members.mps.gz": member * 4,
        "hidden.mps": member * 4,
        "arrays.npz": packed.getvalue(),
        "plain.lp": b" " * (64 << 20),
    }


@pytest.mark.parametrize(
    "name", ["one.mps.gz", "members.mps.gz", "hidden.mps", "arrays.npz", "plain.lp"]
)
def test_a_model_that_is_too_long_is_refused_before_it_fills_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Little of it is ever in memory, and the error says what to do."""
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


@pytest.mark.parametrize("setting", ["0", "-1", "much", "1.5", "\u0661"])
def test_a_bad_size_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """No model is read with a limit that is not a positive whole number."""
    (tmp_path / "plan.lp").write_text(LP)
    monkeypatch.setenv("SOTTO_MODEL_MIB", setting)
    with pytest.raises(BadData, match="SOTTO_MODEL_MIB must be a whole number"):
        company_model.read(tmp_path / "plan.lp", agree("iron"))
