"""Restores names that a tool changes when it writes a file.

Only names change: coefficients, bounds and the sense of the objective stay.
"""

from collections.abc import Callable
from pathlib import Path

import highspy


def save(model: highspy.Highs, path: Path, name: Callable[[str], str] = str) -> None:
    """Write the model as MPS, with `name(label)` for the label of each row and column."""
    model.silent()
    program = model.getLp()
    program.col_names_ = [name(label) for label in program.col_names_]
    program.row_names_ = [name(label) for label in program.row_names_]
    done = model.passModel(program), model.writeModel(str(path))
    if any(status != highspy.HighsStatus.kOk for status in done):
        path.unlink(missing_ok=True)  # the file would be readable, but with other names
        raise ValueError("HiGHS cannot write these names: each must be unique and without spaces")
