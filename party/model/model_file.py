"""Models in MPS and LP files, read by HiGHS, with checks for what HiGHS reads wrongly.

The readers of HiGHS drop, change or guess content without an error, and their warnings quote
private numbers. So this module checks the text first, captures HiGHS' messages, and refuses what
HiGHS would misread. No error here contains a number from the file.
"""

import gzip
import math
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

from protocol.errors import BadData
from protocol.numeric import Floats

Indices = np.ndarray[Any, np.dtype[np.int32]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

HUGE = 1e20
"""HiGHS treats numbers from here on as infinite, so a finite number must be smaller."""

LARGE = 1e15
"""HiGHS refuses coefficients of a row from here on."""

MAX_MIB = 512
MAX_MIB_VARIABLE = "SOTTO_MODEL_MIB"
"""The largest size of an unpacked model, and the environment variable that changes it."""

_CHUNK_BYTES = 1 << 20

_CURVATURE = 1e-9  # of the largest entry of a block: what rounding adds to a semidefinite matrix


@dataclass(frozen=True, repr=False, eq=False)
class Quadratic:
    """Q of quadratic terms ½ x·Q x: its lower triangle, column by column. Secret."""

    start: Indices
    index: Indices
    value: Floats

    def __repr__(self) -> str:
        return "<private quadratic>"

    def times(self, sign: float) -> "Quadratic":
        return Quadratic(self.start, self.index, sign * self.value)

    @property
    def column(self) -> Indices:
        """The column of each entry."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    def value_at(self, x: Floats) -> float:
        """½ x·Q x."""
        column = self.column
        weight = np.where(column == self.index, 0.5, 1.0)
        return math.fsum(weight * self.value * x[column] * x[self.index])

    def nonconcave_column(self) -> int | None:
        """A column along which Q has positive curvature, alone or with others; or None.

        Each block of columns that share products is checked by itself.
        """
        for block in self._blocks():
            position = {int(i): k for k, i in enumerate(block)}
            dense: Floats = np.zeros((len(block), len(block)))
            for k, i in enumerate(block.tolist()):
                for entry in range(self.start[i], self.start[i + 1]):
                    other = position[int(self.index[entry])]
                    dense[k, other] = dense[other, k] = self.value[entry]
            curvature, direction = np.linalg.eigh(dense)
            if curvature[-1] > _CURVATURE * float(np.abs(dense).max()):
                return int(block[np.argmax(np.abs(direction[:, -1]))])
        return None

    def _blocks(self) -> "list[Indices]":
        """The columns with an entry, grouped by products that link them."""
        count = len(self.start) - 1
        label, column = np.arange(count, dtype=np.int32), self.column
        while True:
            least = np.minimum(label[column], label[self.index])
            before = label.copy()
            np.minimum.at(label, column, least)
            np.minimum.at(label, self.index, least)
            label = label[label]
            if np.array_equal(label, before):
                break
        used: Flags = np.zeros(count, dtype=np.bool_)
        used[column] = used[self.index] = True
        members = np.flatnonzero(used).astype(np.int32)
        order = members[np.argsort(label[members], kind="stable")]
        return np.split(order, np.flatnonzero(np.diff(label[order])) + 1) if len(order) else []


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LinearProgram:
    """The content of a model file, in its own order and sense. Secret.

    Some columns may be `integer`, and the objective may have `quadratic` terms.
    """

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
    integer: Flags
    quadratic: Quadratic | None

    def __repr__(self) -> str:
        return "<private linear program>"


def column_wise(columns: int, column: Any, row: Any, value: Any) -> dict[str, Any]:
    """The fields `start`, `index` and `value` of a matrix with these entries."""
    order = np.argsort(column, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=columns))])
    return {
        "start": start.astype(np.int32),
        "index": np.asarray(row, dtype=np.int32)[order],
        "value": np.asarray(value, dtype=np.float64)[order],
    }


def read(path: Path) -> LinearProgram:
    """Read a `.mps`, `.mps.gz` or `.lp` file. Raises only `BadData`.

    Guarantee: every coefficient is finite, and every limit is a number.
    """
    kind = "LP" if path.suffix.lower() == ".lp" else "MPS"
    text = _read_text(path)
    _refuse_misread(path.name, text, kind)
    with _without_empty_lines(path, text if kind == "MPS" else "") as source:
        model = _load(source, path.name, kind)
    program = from_highs(model)
    if kind == "MPS" and _MAXIMISE.search(text) and not program.maximise:
        raise BadData(
            f"{path.name!r} says maximise where HiGHS does not look: it would be read as minimise. "
            "Write OBJSENSE on one line and MAX on the next (in PuLP: with_objsense=True), or LP"
        )
    return program


def from_highs(model: highspy.Highs) -> LinearProgram:
    """The program in a HiGHS object. Raises only `BadData`.

    Guarantee: every coefficient is finite, and every limit is a number.
    """
    model.ensureColwise()
    content = model.getModel()
    program = _program(content.lp_, _quadratic(content.hessian_))
    refuse_infinite(program)
    return program


@contextmanager
def _without_empty_lines(path: Path, text: str) -> Iterator[Path]:
    """The file, or a copy without empty lines, at which HiGHS may never stop reading.

    The copy is in memory. A link to it is in a folder, because HiGHS needs the file extension.
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
        raise BadData(
            f"{path.name!r} has empty lines, and a copy without them does not fit; remove them"
        ) from None


def _load(path: Path, name: str, kind: str) -> highspy.Highs:
    """HiGHS with the complete model of a file."""
    unreadable = BadData(
        f"HiGHS cannot read {name!r} as a model: check that it is a valid {kind} file "
        "that is not empty and has finite coefficients only"
    )
    model = highspy.Highs()
    warnings = _capture_messages(model)
    try:
        status = model.readModel(str(path))
    except UnicodeDecodeError:  # HiGHS has cut a name within a character
        raise unreadable from None
    model.ensureColwise()
    if status == highspy.HighsStatus.kError or not model.getLp().num_col_:
        raise unreadable
    for words, what in _WARNINGS:
        if any(words in line for line in warnings):
            raise BadData(f"{name!r} has {what}; HiGHS would drop one. Correct the file")
    return model


def _quadratic(hessian: highspy.HighsHessian) -> Quadratic | None:
    if not hessian.dim_:
        return None
    value = np.array(hessian.value_, dtype=np.float64)  # HiGHS holds the lower triangle
    if not value.any():
        return None
    start, index = (np.array(part, dtype=np.int32) for part in (hessian.start_, hessian.index_))
    return Quadratic(start, index, value)


def _program(lp: highspy.HighsLp, quadratic: Quadratic | None) -> LinearProgram:
    columns = list(lp.col_names_)
    if len(columns) != lp.num_col_ or not all(columns):
        columns = [f"x{i}" for i in range(lp.num_col_)]
    integer = np.zeros(lp.num_col_, dtype=np.bool_)
    for i, variable in enumerate(lp.integrality_):
        integer[i] = variable == highspy.HighsVarType.kInteger
        if not integer[i] and variable != highspy.HighsVarType.kContinuous:
            raise BadData(
                f"column {columns[i]!r} is semi-continuous; write it as a continuous column "
                "below its limit times a column that is 0 or 1"
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
        integer=integer,
        quadratic=quadratic,
    )


def max_bytes() -> int:
    """The largest size of an unpacked model: MAX_MIB unless the environment changes it."""
    setting = os.environ.get(MAX_MIB_VARIABLE, "")
    if setting and not (setting.isascii() and setting.isdigit() and 0 < int(setting) < 1 << 30):
        raise BadData(f"{MAX_MIB_VARIABLE} must be a whole number of MiB, from 1 to 2^30 - 1")
    return (int(setting) if setting else MAX_MIB) << 20


def too_long(name: str, limit: int) -> BadData:
    """The error for a model that is too large."""
    return BadData(
        f"{name!r} is longer than {limit >> 20:,} MiB unpacked, and was not read. If it is your "
        f"model, set {MAX_MIB_VARIABLE} to the MiB that it needs, or make it smaller"
    )


def _read_text(path: Path) -> str:
    """The text of a model file, which must be UTF-8: HiGHS gives no reason for other names.

    The size is measured first: a short file can unpack to more than the memory holds.
    """
    limit = max_bytes()
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            length = 0
            while (read := len(file.read(_CHUNK_BYTES))) and length <= limit:
                length += read
            if length > limit:
                raise too_long(path.name, limit)
            file.seek(0)
            return file.read(limit).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        raise BadData(f"{path.name!r} is not a readable text in UTF-8; convert it") from None


def _capture_messages(model: highspy.Highs) -> list[str]:
    """A list that HiGHS fills while it reads; its messages quote private numbers."""
    messages: list[str] = []
    model.setOptionValue("log_to_console", False)
    model.setCallback(lambda _kind, text, *_: messages.append(text), None)
    model.startCallback(highspy.cb.HighsCallbackType.kCallbackLogging)
    return messages


_WARNINGS = (
    ("same name", "two rows or columns of the same name"),
    ("not defined", "a value for a row or column that it does not define"),
    ("duplicate", "two values for the same entry"),
)
_MAXIMISE = re.compile(r"^\s*(?:OBJSENSE\s+|\*.*\bSENSE\W+)MAX", re.IGNORECASE | re.MULTILINE)
_SECTIONS = ("ROWS", "COLUMNS", "ENDATA")
_NAN = re.compile(r"(?<![^\s:<>=+-])nan(?![^\s<>=+-])", re.IGNORECASE)
_LP_COMMA = re.compile(r"(?<![^\s:<>=+*-])\d[\d.]*,")
_MPS_COMMA = re.compile(r"[-+]?\d[\d.]*,\d*(?:[ed][-+]?\d+)?", re.IGNORECASE)
_SECTIONS_WITH_VALUES = ("COLUMNS", "RHS", "RANGES", "BOUNDS")
_BOUNDS_WITHOUT_VALUE = ("FR", "MI", "PL", "BV")
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
    """Refuse what HiGHS silently drops or changes, or never finishes reading."""
    if _NAN.search(text):
        raise BadData(
            f"{name!r} has 'nan' in place of a number; correct it, or rename what is called 'nan'"
        )
    if kind == "MPS":
        lines = [line.strip() for line in text.rstrip().splitlines()]
        for section in _SECTIONS:
            if section not in lines:
                raise BadData(f"{name!r} is not a complete MPS file: it has no section {section}")
        _refuse_commas(name, lines)
        return
    code = _COMMENT.sub("", text)
    if comma := _LP_COMMA.search(code):
        raise _comma(name, code.count("\n", 0, comma.start()) + 1)
    rows = _ROWS.search(code)
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
    """Refuse numbers of an MPS file that HiGHS would read only up to their comma."""
    section = ""
    for number, words in enumerate(map(str.split, lines), 1):
        if len(words) == 1:
            section = words[0]
        elif section in _SECTIONS_WITH_VALUES and words and words[0] not in _BOUNDS_WITHOUT_VALUE:
            values = words[-1:] + words[-3:-2]  # a line has one value at its end, or two
            if any(map(_MPS_COMMA.fullmatch, values)):
                raise _comma(name, number)


def _comma(name: str, line: int) -> BadData:
    return BadData(f"{name!r}, line {line}: a number has a comma; write decimals with a point")


def refuse_infinite(program: LinearProgram) -> None:
    """Refuse coefficients that are not finite, and limits that are not numbers or not ordered."""
    column_of = np.repeat(np.arange(len(program.columns)), np.diff(program.start))
    quadratic = program.quadratic
    squares = (np.zeros(0), column_of) if quadratic is None else (quadratic.value, quadratic.column)
    for where, values, column in (
        ("a constraint", program.value, column_of),
        ("the objective", program.cost, np.arange(len(program.columns))),
        ("the objective", *squares),
    ):
        bad = ~(np.abs(values) < HUGE)
        if bad.any():
            name = program.columns[int(column[np.argmax(bad)])]
            raise BadData(f"column {name!r} has a coefficient in {where} that is not finite")
    for name, lower, upper in (
        ("rows", program.row_lower, program.row_upper),
        ("bounds", program.lower, program.upper),
    ):
        if np.isnan(lower).any() or np.isnan(upper).any() or (lower > upper).any():
            raise BadData(
                f"the {name} have a limit that is not a number, or a lower limit above the upper"
            )
