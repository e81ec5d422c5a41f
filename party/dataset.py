"""The private linear program of one company, read from the file it already has.

Everything in a `DataSet` is secret: it has no printable form, and no error here says a
number from it. Only the subproblem reads it.

Symbols of the paper: u utilities, A consumption of the shared resources, B x ≤ b private
limits. Here the private limits are general: lower ≤ B x ≤ upper, with bounds on x.
"""

import gzip
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import highspy
import numpy as np

from protocol.agreement import Agreement
from protocol.arrays import Floats
from protocol.errors import BadData

Indices = np.ndarray[Any, np.dtype[np.int32]]

HUGE = 1e20
"""HiGHS takes anything from here on for infinite, so a finite number must be smaller."""

LARGE = 1e15
"""HiGHS takes no coefficient of a row from here on."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DataSet:
    """max utility·x + offset, subject to consumption ≤ allocation, private rows and bounds.

    The matrix is column-wise; its first rows are the shared resources in the order of the
    agreement, the private rows follow.
    """

    names: tuple[str, ...]
    utility: Floats
    offset: float
    lower: Floats
    upper: Floats
    resources: int
    row_lower: Floats
    row_upper: Floats
    start: Indices
    index: Indices
    value: Floats

    def __repr__(self) -> str:
        return "<private data set>"

    @property
    def columns(self) -> int:
        return len(self.names)

    @property
    def private_rows(self) -> int:
        return len(self.row_lower)


def read(path: str | os.PathLike[str], agreement: Agreement) -> DataSet:
    """Read a model in `.mps`, `.mps.gz`, `.lp` or `.npz`. Raises nothing but `BadData`."""
    path = Path(path)
    if not path.is_file():
        raise BadData(f"there is no model file {str(path)!r}")
    name = path.name.lower()
    if name.endswith(".npz"):
        return from_arrays(_arrays(path), agreement)
    if name.endswith((".mps", ".mps.gz", ".lp")):
        return _from_highs(path, agreement)
    raise BadData(f"{path.name!r}: a model is a .mps, .mps.gz, .lp or .npz file")


def dense(
    *,
    A: Floats,
    B: Floats,
    u: Floats,
    row_lower: Floats,
    row_upper: Floats,
    lower: Floats,
    upper: Floats,
    names: tuple[str, ...] | None = None,
) -> DataSet:
    """A data set from dense matrices whose shapes are known to fit."""
    matrix = np.vstack([A, B]).T
    columns, rows = np.nonzero(matrix)
    counts = np.bincount(columns, minlength=len(u))
    return DataSet(
        names=names or tuple(f"x{i}" for i in range(len(u))),
        utility=u,
        offset=0.0,
        lower=lower,
        upper=upper,
        resources=len(A),
        row_lower=row_lower,
        row_upper=row_upper,
        start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        index=rows.astype(np.int32),
        value=matrix[columns, rows],
    )


def _arrays(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except Exception:  # numpy raises many kinds; here they all mean the same
        raise BadData(f"{path.name!r} is not an .npz file of plain arrays") from None


def from_arrays(arrays: dict[str, Any], agreement: Agreement) -> DataSet:
    """A data set from A, B, b, u, and where given lower (0), upper (∞) and names."""
    for key in sorted({"A", "B", "b", "u"} - arrays.keys()):
        raise BadData(f"the array {key!r} is missing; an .npz model has A, B, b and u")
    for key in sorted(arrays.keys() - {"A", "B", "b", "u", "lower", "upper", "names"}):
        raise BadData(f"the array {key!r} is not known; an .npz model has A, B, b and u")
    for key, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise BadData(f"{key!r} is not a plain array")
    n = _length(arrays, "u")
    if not n:
        raise BadData("the model is empty: it has no columns")
    r = _length(arrays, "b")
    m = len(agreement.resources)
    A, B = _matrix(arrays, "A", m, n, limit=LARGE), _matrix(arrays, "B", r, n, limit=LARGE)
    b, u = _matrix(arrays, "b", r), _matrix(arrays, "u", n)
    lower = _matrix(arrays, "lower", n, limit=np.inf) if "lower" in arrays else np.zeros(n)
    upper = _matrix(arrays, "upper", n, limit=np.inf) if "upper" in arrays else np.full(n, np.inf)
    names = None
    if "names" in arrays:
        names = tuple(str(name) for name in np.ravel(arrays["names"]))
        if len(names) != n:
            raise BadData(f"the array 'names' must have one name for each of {n} columns of A")
        if any("\ud800" <= letter <= "\udfff" for name in names for letter in name):
            raise BadData("the array 'names' has a name that is no text: it cannot be written")
    _ordered(lower, upper)
    return dense(
        A=A, B=B, u=u, row_lower=np.full(r, -np.inf), row_upper=b, lower=lower, upper=upper,
        names=names,
    )  # fmt: skip


def _length(arrays: dict[str, Any], key: str) -> int:
    if arrays[key].ndim != 1:
        raise BadData(f"the array {key!r} has {arrays[key].ndim} dimensions and must have 1")
    return len(arrays[key])


def _matrix(arrays: dict[str, Any], key: str, *shape: int, limit: float = HUGE) -> Floats:
    """An array of finite numbers below `limit`, or of any numbers where that is infinite."""
    array = arrays[key]
    if array.shape != shape:
        hint = " (one row for each shared resource)" if key == "A" else ""
        raise BadData(f"the array {key!r} has shape {array.shape} and must have {shape}{hint}")
    if array.dtype.kind not in "fiu":
        raise BadData(f"the array {key!r} must hold numbers")
    with np.errstate(over="ignore"):
        values = np.asarray(array, dtype=np.float64)
    wrong = np.isnan(values) if np.isinf(limit) else ~(np.abs(values) < limit)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        what = "not a number" if np.isinf(limit) else f"not a finite number below {limit:g}"
        raise BadData(f"the array {key!r} has an entry at {where} that is {what}")
    return values


def _ordered(lower: Floats, upper: Floats) -> None:
    wrong = (lower > upper) | (lower >= HUGE) | (upper <= -HUGE)
    if wrong.any():
        raise BadData(f"column {int(np.argmax(wrong))}: no number is within its bounds")


def _from_highs(path: Path, agreement: Agreement) -> DataSet:
    kind = "LP" if path.suffix.lower() == ".lp" else "MPS"
    unreadable = BadData(
        f"HiGHS cannot read {path.name!r} as a model: check that it is a valid {kind} file "
        "that is not empty and has finite coefficients only"
    )
    text = _text(path)
    _refuse_misread(path.name, text, kind)
    model = highspy.Highs()
    said = _overheard(model)
    try:
        status = model.readModel(str(path))
    except UnicodeDecodeError:  # it quotes a part of a name
        raise unreadable from None
    model.ensureColwise()
    lp = model.getLp()
    if status == highspy.HighsStatus.kError or not lp.num_col_:
        raise unreadable
    for sign, what in _WARNINGS:
        if any(sign in line for line in said):
            raise BadData(f"{path.name!r} has {what}; HiGHS would leave one out")
    if kind == "MPS" and _MAXIMISE.search(text) and lp.sense_ != highspy.ObjSense.kMaximize:
        raise BadData(
            f"{path.name!r} says maximise where no reader looks, and would be read as minimise; "
            "write OBJSENSE on one line and MAX on the next (in PuLP: with_objsense=True), or LP"
        )
    if model.getModel().hessian_.dim_:
        raise BadData(f"{path.name!r} has a quadratic objective; only linear ones can be used")
    columns, rows = list(lp.col_names_), list(lp.row_names_)
    if len(columns) != lp.num_col_ or not all(columns):
        columns = [f"x{i}" for i in range(lp.num_col_)]
    for i, variable in enumerate(lp.integrality_):
        if variable != highspy.HighsVarType.kContinuous:
            raise BadData(
                f"column {columns[i]!r} is integer or semi-continuous; prices need a linear "
                "program, so relax it or split it off"
            )
    return _arranged(lp, columns, rows, agreement)


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
        if not all(lines):
            raise BadData(f"{name!r}, line {lines.index('') + 1}: take the empty line out")
        return
    rows = _ROWS.search(_COMMENT.sub("", text))
    if rows is None:
        return
    for found in _LIMIT.finditer(rows[1]):
        if found["limit"] is None or found["more"]:
            line = rows.string.count("\n", 0, rows.start(1) + found.start()) + 1
            raise BadData(
                f"{name!r}, line {line}: HiGHS would misread this row; write every row as "
                "terms <= number and end the line there, with a range as two rows"
            )


def _arranged(lp: Any, columns: list[str], rows: list[str], agreement: Agreement) -> DataSet:
    """Put the resource rows first, in the order of the agreement and as upper limits."""
    value = np.array(lp.a_matrix_.value_, dtype=np.float64)
    index = np.array(lp.a_matrix_.index_, dtype=np.int32)
    start = np.array(lp.a_matrix_.start_, dtype=np.int32)
    row_lower, row_upper = np.array(lp.row_lower_), np.array(lp.row_upper_)
    cost = np.array(lp.col_cost_, dtype=np.float64)
    lower, upper = np.array(lp.col_lower_), np.array(lp.col_upper_)
    column_of = np.repeat(np.arange(len(columns)), np.diff(start))

    for bad, what in ((~(np.abs(value) < HUGE), "a constraint"), (~(np.abs(cost) < HUGE), None)):
        if bad.any():
            first = int(np.argmax(bad))
            name = columns[int(column_of[first]) if what else first]
            raise BadData(
                f"column {name!r} has a coefficient in {what or 'the objective'} that is not finite"
            )
    for name, bounds in (("rows", (row_lower, row_upper)), ("bounds", (lower, upper))):
        if any(np.isnan(b).any() for b in bounds) or (bounds[0] > bounds[1]).any():
            raise BadData(f"the {name} have a limit that is not a number or a lower above an upper")

    order, sign = [], np.ones(len(rows))
    for resource in agreement.resources:
        found = _rows_of(resource.name, rows)
        if len(found) != 1:
            here = "no row" if not found else f"{len(found)} rows"
            raise BadData(
                f"the model has {here} named {resource.name!r}; it needs exactly one row "
                "for each shared resource, whose left-hand side is what the company consumes"
            )
        order.append(found[0])
        sign[found[0]] = _direction(
            resource.name, row_lower[found[0]], row_upper[found[0]], value[index == found[0]]
        )
    shared = set(order)
    order += [i for i in range(len(rows)) if i not in shared]
    place = np.empty(len(rows), dtype=np.int32)
    place[order] = np.arange(len(rows))
    private = order[len(agreement.resources) :]
    maximise = 1.0 if lp.sense_ == highspy.ObjSense.kMaximize else -1.0
    return DataSet(
        names=tuple(columns),
        utility=maximise * cost,
        offset=maximise * lp.offset_,
        lower=lower,
        upper=upper,
        resources=len(agreement.resources),
        row_lower=row_lower[private],
        row_upper=row_upper[private],
        start=start,
        index=place[index],
        value=value * sign[index],
    )


def _rows_of(resource: str, rows: list[str]) -> list[int]:
    """The rows of a shared resource: of its very name, or of that name as a tool spells it.

    Pyomo writes `c_u_NAME_` or `c_l_NAME_`, linopy `NAME#` with a number.
    """
    exact = [i for i, row in enumerate(rows) if row == resource]
    spelt = re.compile(rf"c_[ul]_{re.escape(resource)}_|{re.escape(resource)}#\d+")
    return exact or [i for i, row in enumerate(rows) if spelt.fullmatch(row)]


def _direction(name: str, lower: float, upper: float, coefficients: Floats) -> float:
    """+1 for a row a·x ≤ r, −1 for the same limit written as −a·x ≥ −r."""
    consumes, returns = bool((coefficients > 0.0).any()), bool((coefficients < 0.0).any())
    if np.isneginf(lower) and (upper >= 0.0 or consumes):
        return 1.0
    if np.isposinf(upper) and not consumes and lower <= 0.0:
        return -1.0
    if np.isposinf(upper) and returns and lower < 0.0:
        return -1.0
    raise BadData(
        f"the row {name!r} of a shared resource is not an upper limit on what is consumed; "
        "write it as consumption <= limit (the limit itself is replaced by the allocation)"
    )
