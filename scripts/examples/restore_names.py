"""Names that a tool changes on the way to a file, put right by HiGHS.

Only names change here: coefficients, bounds and the sense of the objective stay as they are.
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
        path.unlink(missing_ok=True)  # it would be read, under other names
        raise ValueError("HiGHS cannot write these names: none may be empty, twice or have spaces")
