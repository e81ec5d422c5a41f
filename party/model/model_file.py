"""Models in MPS and LP files, read through HiGHS, and what its readers get wrong.

They drop, alter or guess much without a word, and quote private numbers where they do speak.
So a file is looked through before it is read, what HiGHS says is overheard, and whatever it
would misread is refused. No error here says a number from the file.
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
"""HiGHS takes anything from here on for infinite, so a finite number must be smaller."""

LARGE = 1e15
"""HiGHS takes no coefficient of a row from here on."""


MOST_MIB = 512
MOST_MIB_SETTING = "SOTTO_MODEL_MIB"
"""How long a model file may be, unpacked, and the environment variable that says otherwise."""

_AT_ONCE = 1 << 20

_CURVATURE = 1e-9  # of the largest in a block: rounding, where a matrix is semidefinite


@dataclass(frozen=True, repr=False, eq=False)
class Quadratic:
    """Q of a part ½ x·Q x of an objective: its lower triangle, column by column. Secret."""

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
        once = np.where(column == self.index, 0.5, 1.0)
        return math.fsum(once * self.value * x[column] * x[self.index])

    def nonconcave_column(self) -> int | None:
        """A column in which, or with others of which, Q is positive; None where it is nowhere.

        Columns that share no product, not even through others, are looked at apart.
        """
        for block in self._blocks():
            place = {int(i): k for k, i in enumerate(block)}
            dense: Floats = np.zeros((len(block), len(block)))
            for k, i in enumerate(block.tolist()):
                for entry in range(self.start[i], self.start[i + 1]):
                    other = place[int(self.index[entry])]
                    dense[k, other] = dense[other, k] = self.value[entry]
            curvature, along = np.linalg.eigh(dense)
            if curvature[-1] > _CURVATURE * float(np.abs(dense).max()):
                return int(block[np.argmax(np.abs(along[:, -1]))])
        return None

    def _blocks(self) -> "list[Indices]":
        """The columns with an entry, those together that are linked by products."""
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
    """What a model file says, its rows still in its own order and sense. Secret.

    Linear but for columns that are `whole` numbers, and for a `quadratic` part.
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
    whole: Flags
    quadratic: Quadratic | None

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
    program = taken(model)
    if kind == "MPS" and _MAXIMISE.search(text) and not program.maximise:
        raise BadData(
            f"{path.name!r} says maximise where no reader looks, and would be read as minimise; "
            "write OBJSENSE on one line and MAX on the next (in PuLP: with_objsense=True), or LP"
        )
    return program


def taken(model: highspy.Highs) -> LinearProgram:
    """The program that a HiGHS model holds. Raises nothing but `BadData`.

    Guarantee: every coefficient is finite, and every limit a number.
    """
    model.ensureColwise()
    whole = model.getModel()
    program = _program(whole.lp_, _quadratic(whole.hessian_))
    refuse_infinite(program)
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


def _quadratic(hessian: highspy.HighsHessian) -> Quadratic | None:
    if not hessian.dim_:
        return None
    start, index = np.array(hessian.start_, dtype=np.int32), np.array(hessian.index_)
    value = np.array(hessian.value_, dtype=np.float64)
    if hessian.format_ != highspy.HessianFormat.kTriangular:
        column = np.repeat(np.arange(len(start) - 1), np.diff(start))
        kept = index >= column
        start = np.concatenate(
            [[0], np.cumsum(np.bincount(column[kept], minlength=len(start) - 1))]
        )
        index, value = index[kept], value[kept]
    if not value.any():
        return None
    return Quadratic(start.astype(np.int32), index.astype(np.int32), value)


def _program(lp: highspy.HighsLp, quadratic: Quadratic | None) -> LinearProgram:
    columns = list(lp.col_names_)
    if len(columns) != lp.num_col_ or not all(columns):
        columns = [f"x{i}" for i in range(lp.num_col_)]
    whole = np.zeros(lp.num_col_, dtype=np.bool_)
    for i, variable in enumerate(lp.integrality_):
        whole[i] = variable == highspy.HighsVarType.kInteger
        if not whole[i] and variable != highspy.HighsVarType.kContinuous:
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
        whole=whole,
        quadratic=quadratic,
    )


def most_bytes() -> int:
    """How long a model may be when it is unpacked: MOST_MIB, or as the environment says."""
    told = os.environ.get(MOST_MIB_SETTING, "")
    if told and not (told.isascii() and told.isdigit() and 0 < int(told) < 1 << 30):
        raise BadData(f"{MOST_MIB_SETTING} must be a whole number of MiB, from 1 to 2^30 - 1")
    return (int(told) if told else MOST_MIB) << 20


def too_long(name: str, limit: int) -> BadData:
    """What to tell where a model is longer than it may be."""
    return BadData(
        f"{name!r} is longer than {limit >> 20:,} MiB unpacked, and is not read. If that "
        f"is your model, set {MOST_MIB_SETTING} to the MiB that it needs, or make it smaller"
    )


def _text(path: Path) -> str:
    """All of a model file. HiGHS does not say what is wrong with a name that is not UTF-8.

    It is measured before it is read: a short file can unpack to more than a machine has.
    """
    limit = most_bytes()
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            length = 0
            while (part := len(file.read(_AT_ONCE))) and length <= limit:
                length += part
            if length > limit:
                raise too_long(path.name, limit)
            file.seek(0)
            return file.read(limit).decode()
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


def refuse_infinite(program: LinearProgram) -> None:
    """Refuse coefficients that are not finite, and limits that are no numbers or no range."""
    column_of = np.repeat(np.arange(len(program.columns)), np.diff(program.start))
    quadratic = program.quadratic
    curved = (np.zeros(0), column_of) if quadratic is None else (quadratic.value, quadratic.column)
    for place, values, column in (
        ("a constraint", program.value, column_of),
        ("the objective", program.cost, np.arange(len(program.columns))),
        ("the objective", *curved),
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
