"""Model files on disk: their text, their size, and the programs in HiGHS objects.

`lp_text` and `mps_text` read the text. No error here contains a number from a file.
"""

import os
import zlib
from pathlib import Path

import highspy
import numpy as np

from party.model.linear_program import LinearProgram, Quadratic, refuse_infinite
from protocol.errors import BadData

MAX_MIB = 512
MAX_MIB_VARIABLE = "SOTTO_MODEL_MIB"
"""The largest size of an unpacked model, and the environment variable that changes it."""

_CHUNK_BYTES = 1 << 20


def read(path: Path) -> LinearProgram:
    """Read a `.mps`, `.mps.gz` or `.lp` file. Raises only `BadData`.

    Guarantee: every coefficient is finite, and every limit is a number.
    """
    if path.suffix.lower() == ".lp":
        from party.model.lp_text import read as parse
    else:
        from party.model.mps_text import read as parse
    program = parse(path.name, _read_text(path))
    refuse_infinite(program)
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
    """The text of a model file, which must be UTF-8, with or without a mark at its beginning.

    The size is measured first: a short file can unpack to more than the memory holds.
    """
    import gzip

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
            return file.read(limit).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        raise BadData(f"{path.name!r} is not a readable text in UTF-8; convert it") from None
