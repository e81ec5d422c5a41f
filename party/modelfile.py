"""Models in MPS and LP files, read through HiGHS, and what its readers get wrong.

They drop, alter or guess much without a word, and quote private numbers where they do speak.
So a file is looked through before it is read, what HiGHS says is overheard, and whatever it
would misread is refused. No error here says a number from the file.
"""

import gzip
import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import highspy
import numpy as np

from protocol.arrays import Floats
from protocol.errors import BadData

Indices = np.ndarray[Any, np.dtype[np.int32]]

HUGE = 1e20
"""HiGHS takes anything from here on for infinite, so a finite number must be smaller."""

LARGE = 1e15
"""HiGHS takes no coefficient of a row from here on."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LinearProgram:
    """What a model file says, its rows still in its own order and sense. Secret."""

    columns: list[str]
    rows: list[str]
    maximise: bool
    cost: Floats
    offset: float
    lower: Floats
    upper: Floats
    row_lower: Floats
    row_upper: Floats
    start: Indices
    index: Indices
    value: Floats

    def __repr__(self) -> str:
        return "<private linear program>"


def read(path: Path) -> LinearProgram:
    """The linear program in a `.mps`, `.mps.gz` or `.lp` file. Raises nothing but `BadData`.

    Guarantee: every coefficient is finite, and every limit a number.
    """
    kind = "LP" if path.suffix.lower() == ".lp" else "MPS"
    text = _text(path)
    _refuse_misread(path.name, text, kind)
    with _without_empty_lines(path, text if kind == "MPS" else "") as place:
        model = _taken_in(place, path.name, kind)
    if model.getModel().hessian_.dim_:
        raise BadData(f"{path.name!r} has a quadratic objective; only linear ones can be used")
    program = _program(model.getLp())
    if kind == "MPS" and _MAXIMISE.search(text) and not program.maximise:
        raise BadData(
            f"{path.name!r} says maximise where no reader looks, and would be read as minimise; "
            "write OBJSENSE on one line and MAX on the next (in PuLP: with_objsense=True), or LP"
        )
    _refuse_infinite(program)
    return program


@contextmanager
def _without_empty_lines(path: Path, text: str) -> Iterator[Path]:
    """The file, or where it has empty lines a copy without them: HiGHS may read on for ever.

    The copy is in memory; only a link to it is in a folder, for HiGHS goes by a name's ending.
    """
    lines = text.splitlines()
    if all(line.strip() for line in lines):
        yield path
        return
    content = "".join(f"{line}\n" for line in lines if line.strip())
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            os.fdopen(os.memfd_create("model"), "w", encoding="utf-8") as copy,
        ):
            copy.write(content)
            copy.flush()
            link = Path(folder, "model.mps")
            link.symlink_to(f"/proc/{os.getpid()}/fd/{copy.fileno()}")
            yield link
    except OSError:
        raise BadData(f"{path.name!r} has empty lines, and there is no room for a copy") from None


def _taken_in(path: Path, name: str, kind: str) -> highspy.Highs:
    """HiGHS with the model of a file, of which it left out nothing."""
    unreadable = BadData(
        f"HiGHS cannot read {name!r} as a model: check that it is a valid {kind} file "
        "that is not empty and has finite coefficients only"
    )
    model = highspy.Highs()
    said = _overheard(model)
    try:
        status = model.readModel(str(path))
    except UnicodeDecodeError:  # it quotes a part of a name
        raise unreadable from None
    model.ensureColwise()
    if status == highspy.HighsStatus.kError or not model.getLp().num_col_:
        raise unreadable
    for sign, what in _WARNINGS:
        if any(sign in line for line in said):
            raise BadData(f"{name!r} has {what}; HiGHS would leave one out")
    return model


def _program(lp: highspy.HighsLp) -> LinearProgram:
    columns = list(lp.col_names_)
    if len(columns) != lp.num_col_ or not all(columns):
        columns = [f"x{i}" for i in range(lp.num_col_)]
    for i, variable in enumerate(lp.integrality_):
        if variable != highspy.HighsVarType.kContinuous:
            raise BadData(
                f"column {columns[i]!r} is integer or semi-continuous; prices need a linear "
                "program, so relax it or split it off"
            )
    return LinearProgram(
        columns=columns,
        rows=list(lp.row_names_),
        maximise=lp.sense_ == highspy.ObjSense.kMaximize,
        cost=np.array(lp.col_cost_, dtype=np.float64),
        offset=lp.offset_,
        lower=np.array(lp.col_lower_),
        upper=np.array(lp.col_upper_),
        row_lower=np.array(lp.row_lower_),
        row_upper=np.array(lp.row_upper_),
        start=np.array(lp.a_matrix_.start_, dtype=np.int32),
        index=np.array(lp.a_matrix_.index_, dtype=np.int32),
        value=np.array(lp.a_matrix_.value_, dtype=np.float64),
    )


def _text(path: Path) -> str:
    """All of a model file. HiGHS does not say what is wrong with a name that is not UTF-8."""
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        return data.decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        raise BadData(f"{path.name!r} is not a readable text in UTF-8") from None


def _overheard(model: highspy.Highs) -> list[str]:
    """What HiGHS says while it reads, kept off the screen: it quotes private numbers."""
    said: list[str] = []
    model.setOptionValue("log_to_console", False)
    model.setCallback(lambda _kind, text, *_: said.append(text), None)
    model.startCallback(highspy.cb.HighsCallbackType.kCallbackLogging)
    return said


_WARNINGS = (
    ("same name", "two rows or columns of the same name"),
    ("not defined", "a value for a row or column that it does not define"),
    ("duplicate", "two values for the same place"),
)
_MAXIMISE = re.compile(r"^\s*(?:OBJSENSE\s+|\*.*\bSENSE\W+)MAX", re.IGNORECASE | re.MULTILINE)
_SECTIONS = ("ROWS", "COLUMNS", "ENDATA")
_NAN = re.compile(r"(?<![^\s:<>=+-])nan(?![^\s<>=+-])", re.IGNORECASE)
_LP_COMMA = re.compile(r"(?<![^\s:<>=+*-])\d[\d.]*,")
_MPS_COMMA = re.compile(r"[-+]?\d[\d.]*,\d*(?:[ed][-+]?\d+)?", re.IGNORECASE)
_VALUED = ("COLUMNS", "RHS", "RANGES", "BOUNDS")
_UNVALUED = ("FR", "MI", "PL", "BV")
_COMMENT = re.compile(r"\\.*")
_ROWS = re.compile(
    r"^\s*(?:subject\s+to|such\s+that|s\.t\.|st)(?=[\s:])(.*?)"
    r"^\s*(?:bounds?|general|generals|gen|integers?|binary|binaries|bin|semi\S*|sos|end)\s*$",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_NUMBER = r"(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf(?:inity)?)"
_LIMIT = re.compile(
    rf"(?P<limit>[<>=]\s*[-+]?\s*{_NUMBER}[^\S\n]*(?P<more>\S)?)"
    rf"|(?<![^\s:<>=+-]){_NUMBER}(?=\s*[-+<>=])",
    re.IGNORECASE,
)


def _refuse_misread(name: str, text: str, kind: str) -> None:
    """Refuse what HiGHS drops or alters without a word, or never finishes to read."""
    if _NAN.search(text):
        raise BadData(f"{name!r} has 'nan' where a number is due (or it is used as a name)")
    if kind == "MPS":
        lines = [line.strip() for line in text.rstrip().splitlines()]
        for section in _SECTIONS:
            if section not in lines:
                raise BadData(f"{name!r} is not an MPS file: it has no section {section}")
        _refuse_commas(name, lines)
        return
    bare = _COMMENT.sub("", text)
    if comma := _LP_COMMA.search(bare):
        raise _comma(name, bare.count("\n", 0, comma.start()) + 1)
    rows = _ROWS.search(bare)
    if rows is None:
        return
    for found in _LIMIT.finditer(rows[1]):
        if found["limit"] is None or found["more"]:
            line = rows.string.count("\n", 0, rows.start(1) + found.start()) + 1
            raise BadData(
                f"{name!r}, line {line}: HiGHS would misread this row; write every row as "
                "terms <= number and end the line there, with a range as two rows"
            )


def _refuse_commas(name: str, lines: list[str]) -> None:
    """Refuse numbers of an MPS file that HiGHS would read only as far as their comma."""
    section = ""
    for number, words in enumerate(map(str.split, lines), 1):
        if len(words) == 1:
            section = words[0]
        elif section in _VALUED and words and words[0] not in _UNVALUED:
            values = words[-1:] + words[-3:-2]  # a line has one value at its end, or two
            if any(map(_MPS_COMMA.fullmatch, values)):
                raise _comma(name, number)


def _comma(name: str, line: int) -> BadData:
    return BadData(f"{name!r}, line {line}: a number has a comma; write decimals with a point")


def _refuse_infinite(program: LinearProgram) -> None:
    """Refuse coefficients that are not finite, and limits that are no numbers or no range."""
    column_of = np.repeat(np.arange(len(program.columns)), np.diff(program.start))
    for place, values, column in (
        ("a constraint", program.value, column_of),
        ("the objective", program.cost, np.arange(len(program.columns))),
    ):
        bad = ~(np.abs(values) < HUGE)
        if bad.any():
            name = program.columns[int(column[np.argmax(bad)])]
            raise BadData(f"column {name!r} has a coefficient in {place} that is not finite")
    for name, lower, upper in (
        ("rows", program.row_lower, program.row_upper),
        ("bounds", program.lower, program.upper),
    ):
        if np.isnan(lower).any() or np.isnan(upper).any() or (lower > upper).any():
            raise BadData(f"the {name} have a limit that is not a number or a lower above an upper")
