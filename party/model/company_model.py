"""The private model of one company, with its rows in the order of the agreement.

Everything in a `CompanyModel` is secret: it has no printable form, and no error here contains a
number from it. Only the best response reads it.

Symbols of the paper: u utilities, A consumption of the shared resources, B x ≤ b private limits.
Here the private limits are general: lower ≤ B x ≤ upper, with bounds on x. Some columns may be
integer, or the objective may have concave quadratic terms ½ x·Q x.
"""

import math
import os
import stat
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from party.model import model_file
from party.model.linear_program import (
    HUGE,
    LARGE,
    Indices,
    LinearProgram,
    Quadratic,
    column_wise,
)
from party.model.shared_rows import OWN_NAMES, RowMap, locate
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand, BadData
from protocol.numeric import Flags, Floats
from protocol.records import Opaque
from protocol.runtime.process_memory import keep_private


class CompanyModel(Opaque, frozen=True, kw_only=True):
    """max utility·x + offset, subject to consumption ≤ allocation, private rows and bounds.

    The matrix is column-wise: first the rows of the shared resources in the order of the
    agreement, then the private rows. No model has both integer columns and quadratic terms.
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
    #: Whether the model file minimises: its objective is then the cost −(utility·x + offset).
    minimises: bool = False
    #: Which columns are integer; None if none is.
    integer: Flags | None = None
    #: Q of the terms ½ x·Q x of the objective; it has no positive curvature.
    quadratic: Quadratic | None = None

    def __repr__(self) -> str:
        return "<private data set>"

    def earns(self, plan: Floats) -> float:
        """The utility of a plan, always to be maximised. Secret."""
        terms = [*(self.utility * plan), self.offset]
        if self.quadratic is not None:
            terms.append(self.quadratic.value_at(plan))
        return math.fsum(terms)

    @property
    def columns(self) -> int:
        return len(self.names)

    @property
    def private_rows(self) -> int:
        return len(self.row_lower)


def uses(data: CompanyModel, plan: Floats) -> Floats:
    """How much of each resource a plan needs, up to rounding. Secret."""
    columns = np.repeat(np.arange(data.columns), np.diff(data.start))
    shared = data.index < data.resources
    needed = np.zeros(data.resources)
    np.add.at(needed, data.index[shared], data.value[shared] * plan[columns[shared]])
    return needed


Model = str | os.PathLike[str] | Any
"""A model file (`.mps`, `.mps.gz`, `.lp` or `.npz`), or a model of a tool in `TOOLS`."""


def read(model: Model, agreement: Agreement, rows: RowMap = OWN_NAMES) -> CompanyModel:
    """Read a model from a file or from a modelling tool. Raises only `BadData`.

    `rows` names the rows of resources that have other names in the model. It first closes the
    memory of this process to other processes.
    """
    keep_private()
    if not isinstance(model, str | os.PathLike):
        from party.model import modelling_tools

        return _arrange(modelling_tools.read(model), agreement, rows)
    path = Path(model)
    if path.is_dir():
        raise BadData(f"--data {str(path)!r} is a folder; name the model file in it")
    if not path.is_file():
        raise BadData(f"there is no model file {str(path)!r}; check --data")
    name = path.name.lower()
    if name.endswith(".npz"):
        if rows != OWN_NAMES:
            raise BadCommand(
                f"{path.name!r} has no names of rows: its A has one row for each shared resource, "
                "in the order of the agreement. Leave out --row and --rows"
            )
        return from_arrays(_read_arrays(path), agreement)
    if name.endswith((".mps", ".mps.gz", ".lp")):
        return _arrange(model_file.read(path), agreement, rows)
    raise BadData(f"{path.name!r} is not a .mps, .mps.gz, .lp or .npz file; save it as one")


def seen_by_others(model: Model) -> str | None:
    """A warning if other users of this machine can read the model file, or None."""
    if not isinstance(model, str | os.PathLike):
        return None
    with suppress(OSError):
        if os.name == "posix" and Path(model).stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            return f"other users of this machine can read the model file; run: chmod 600 {model}"
    return None


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
) -> CompanyModel:
    """A model from dense matrices of matching shapes."""
    matrix = np.vstack([A, B]).T
    columns, rows = np.nonzero(matrix)
    return CompanyModel(
        names=names or tuple(f"x{i}" for i in range(len(u))),
        utility=u,
        offset=0.0,
        lower=lower,
        upper=upper,
        resources=len(A),
        row_lower=row_lower,
        row_upper=row_upper,
        **column_wise(len(u), columns, rows, matrix[columns, rows]),
    )


def _read_arrays(path: Path) -> dict[str, Any]:
    limit = model_file.max_bytes()
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            length = sum(entry.file_size for entry in archive.infolist())
        if length > limit:
            raise model_file.too_long(path.name, limit)
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except BadData:
        raise
    except Exception:  # numpy raises many kinds of errors for a bad file
        raise BadData(
            f"{path.name!r} is not an .npz file of plain arrays; write it with numpy.savez"
        ) from None


def from_arrays(arrays: dict[str, Any], agreement: Agreement) -> CompanyModel:
    """A model from A, B, b, u and, optionally, lower (default 0), upper (∞) and names."""
    for key in sorted({"A", "B", "b", "u"} - arrays.keys()):
        raise BadData(f"the array {key!r} is missing; an .npz model has A, B, b and u")
    for key in sorted(arrays.keys() - {"A", "B", "b", "u", "lower", "upper", "names"}):
        raise BadData(
            f"the array {key!r} is unknown; an .npz model has A, B, b, u and may have lower, upper "
            "and names"
        )
    for key, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise BadData(f"{key!r} is not a plain array of numpy")
    n = _length(arrays, "u")
    if not n:
        raise BadData("the model is empty: the array 'u' has no columns")
    r = _length(arrays, "b")
    m = len(agreement.resources)
    A, B = _numbers(arrays, "A", m, n, limit=LARGE), _numbers(arrays, "B", r, n, limit=LARGE)
    b, u = _numbers(arrays, "b", r), _numbers(arrays, "u", n)
    lower = _numbers(arrays, "lower", n, limit=np.inf) if "lower" in arrays else np.zeros(n)
    upper = _numbers(arrays, "upper", n, limit=np.inf) if "upper" in arrays else np.full(n, np.inf)
    names = None
    if "names" in arrays:
        names = tuple(str(name) for name in np.ravel(arrays["names"]))
        if len(names) != n:
            raise BadData(f"the array 'names' must have one name for each of {n} columns of A")
        if any("\ud800" <= letter <= "\udfff" for name in names for letter in name):
            raise BadData("the array 'names' has a name with half a surrogate pair; rename it")
    _require_ordered(lower, upper)
    return dense(
        A=A, B=B, u=u, row_lower=np.full(r, -np.inf), row_upper=b, lower=lower, upper=upper,
        names=names,
    )  # fmt: skip


def _length(arrays: dict[str, Any], key: str) -> int:
    if arrays[key].ndim != 1:
        raise BadData(f"the array {key!r} has {arrays[key].ndim} dimensions and must have 1")
    return len(arrays[key])


def _numbers(arrays: dict[str, Any], key: str, *shape: int, limit: float = HUGE) -> Floats:
    """An array of finite numbers below `limit`; with an infinite limit ±∞ are allowed too."""
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


def _require_ordered(lower: Floats, upper: Floats) -> None:
    wrong = (lower > upper) | (lower >= HUGE) | (upper <= -HUGE)
    if wrong.any():
        raise BadData(
            f"column {int(np.argmax(wrong))}: no number is within its bounds; correct 'lower' or "
            "'upper'"
        )


def _arrange(program: LinearProgram, agreement: Agreement, row_map: RowMap) -> CompanyModel:
    """Put the resource rows first, in the order of the agreement and as upper limits."""
    program, order = locate(program, agreement, row_map)
    opposites = {r.opposite for r in agreement.resources}
    rows, index = program.rows, program.index
    sign = np.ones(len(rows))
    for resource, row in zip(agreement.resources, order, strict=True):
        if resource.name not in opposites:
            sign[row] = _direction(rows[row], program, row)
    shared = set(order)
    order += [i for i in range(len(rows)) if i not in shared]
    position = np.empty(len(rows), dtype=np.int32)
    position[order] = np.arange(len(rows))
    private = order[len(agreement.resources) :]
    maximise = 1.0 if program.maximise else -1.0
    quadratic = program.quadratic and program.quadratic.times(maximise)
    if quadratic is not None:
        _require_solvable(program, quadratic)
    return CompanyModel(
        names=tuple(program.columns),
        utility=maximise * program.cost,
        offset=maximise * program.offset,
        lower=program.lower,
        upper=program.upper,
        resources=len(agreement.resources),
        row_lower=program.row_lower[private],
        row_upper=program.row_upper[private],
        start=program.start,
        index=position[index],
        value=program.value * sign[index],
        minimises=not program.maximise,
        integer=program.integer if program.integer.any() else None,
        quadratic=quadratic,
    )


def _require_solvable(program: LinearProgram, quadratic: Quadratic) -> None:
    """Refuse a quadratic objective that HiGHS cannot solve to optimality."""
    if program.integer.any():
        raise BadData(
            "the model has a quadratic objective and integer columns, and HiGHS solves no model "
            "with both; make the objective piecewise linear, or relax the integer columns"
        )
    column = quadratic.nonconcave_column()
    if column is not None:
        way = "concave to be maximised" if program.maximise else "convex to be minimised"
        raise BadData(
            f"the quadratic objective is not {way}: it curves the other way in the column "
            f"{program.columns[column]!r} or in one that shares a product with it. Prices cannot "
            "lead to the best plan then. Change the sign of those terms, or make them linear"
        )


def _direction(name: str, program: LinearProgram, row: int) -> float:
    """+1 for a row a·x ≤ r, −1 for a row −a·x ≥ −r."""
    lower, upper = program.row_lower[row], program.row_upper[row]
    coefficients = program.value[program.index == row]
    consumes, returns = bool((coefficients > 0.0).any()), bool((coefficients < 0.0).any())
    if np.isneginf(lower) and (upper >= 0.0 or consumes):
        return 1.0
    if np.isposinf(upper) and not consumes and lower <= 0.0:
        return -1.0
    if np.isposinf(upper) and returns and lower < 0.0:
        return -1.0
    raise BadData(
        f"the row {name!r} of a shared resource is not an upper limit on consumption; write it as "
        "consumption <= limit (the session replaces the limit by what you are given)"
    )
