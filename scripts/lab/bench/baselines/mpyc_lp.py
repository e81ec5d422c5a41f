"""Runs MPyC's secure linear programming on a joint problem, where MPyC is at hand.

MPyC is what a user may pick who wants nothing revealed: parties hold shares of all numbers, and a
simplex method runs on the shares. Its solver is a demonstration in MPyC's repository and not in its
package. So `--mpyc` names a clone, and the interpreter that `--mpyc-python` names must have `mpyc`
installed. None of its code is here. Never here: a measurement of our own sessions.
"""

import csv
import math
import re
import subprocess
import time
from pathlib import Path

import numpy as np
from msgspec import Struct

from party.model.company_model import CompanyModel
from protocol.numeric import Floats
from scripts.lab.common.instances import Instance
from scripts.lab.common.local_session import LIMIT_SECONDS

SOLVERS = ("np_lpsolver.py", "lpsolver.py")
"""Two versions of one method: with secure arrays, and without."""

SLOT = "uvlp"
"""The demonstration reads the first of its data sets from this file in the working folder."""


class Tableau(Struct, frozen=True):
    """max cost·x, rows·x ≤ limit, x ≥ 0, in whole numbers."""

    cost: Floats
    rows: Floats
    limit: Floats

    @property
    def bits(self) -> int:
        """Enough for every number of a simplex method on whole numbers.

        Every entry of a tableau is a determinant of at most as many of the problem's rows as there
        are (Hadamard's bound), and comparisons multiply two of them.
        """
        both = np.vstack([np.append(self.cost, 0.0), np.column_stack([self.rows, self.limit])])
        lengths = np.sqrt((both**2).sum(axis=1))
        return 2 * math.ceil(sum(math.log2(max(2.0, length)) for length in lengths)) + 2


def matrix(data: CompanyModel) -> Floats:
    """All rows of a company's model, shared ones first, as a dense matrix."""
    dense = np.zeros((data.resources + data.private_rows, data.columns))
    dense[data.index, np.repeat(np.arange(data.columns), np.diff(data.start))] = data.value
    return dense


def joint(instance: Instance) -> Tableau:
    """The problem of all companies together, which no company knows."""
    m, widths = len(instance.capacity), [d.columns for d in instance.data]
    rows = np.zeros((m + sum(d.private_rows for d in instance.data), sum(widths)))
    limit = np.concatenate([instance.capacity, *(d.row_upper for d in instance.data)])
    row, column = m, 0
    for d in instance.data:
        own, end = matrix(d), column + d.columns
        rows[:m, column:end] = own[:m]
        rows[row : row + d.private_rows, column:end] = own[m:]
        row, column = row + d.private_rows, end
    return Tableau(np.concatenate([d.utility for d in instance.data]), rows, limit)


class Solved(Struct, frozen=True):
    """What MPyC found, and what it took."""

    optimum: float
    seconds: float
    bytes_sent: int
    pivots: int


class Mpyc(Struct, frozen=True):
    """A clone of MPyC's repository, and an interpreter that has the package."""

    clone: Path
    python: str

    def missing(self) -> str:
        """What is not there, or nothing."""
        if not all((self.clone / "demos" / name).is_file() for name in SOLVERS):
            return f"MPyC (no demos/{SOLVERS[0]} in {self.clone}; --mpyc names a clone)"
        done = subprocess.run([self.python, "-c", "import mpyc"], capture_output=True, check=False)
        return "" if done.returncode == 0 else f"mpyc for {self.python}"

    def solve(self, problem: Tableau, parties: int, folder: Path, solver: str) -> Solved:
        """Solve a problem among this many local processes; `folder` is for the problem's file."""
        file = folder / "data" / "lp" / f"{SLOT}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", newline="") as handle:
            writer = csv.writer(handle)
            writer.writerow([*(-problem.cost).astype(int).tolist(), 0])
            for row, limit in zip(problem.rows, problem.limit, strict=True):
                writer.writerow([*row.astype(int).tolist(), int(limit)])
        script = self.clone.resolve() / "demos" / solver
        command = [self.python, str(script), f"-M{parties}", "-i", "0", "-l", str(problem.bits)]
        began = time.monotonic()
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        seconds = time.monotonic() - began
        said = done.stdout + done.stderr
        best = re.search(r"max = .* = (\S+) in (\d+) iterations", said)
        sent = re.search(r"bytes sent: (\d+)", said)
        if done.returncode or best is None or sent is None or "y >= 0: True" not in said:
            raise RuntimeError(f"MPyC failed: {said[-2_000:].strip()}")
        each = int(sent[1])  # of one party; all send alike
        return Solved(float(best[1]), seconds, each * parties, int(best[2]))
