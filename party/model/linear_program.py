"""A linear program as its author wrote it: names, sense, coefficients, limits and bounds.

`Draft` collects one while a file is read. Everything here is secret: nothing has a printable form,
and no error contains a number from a model.
"""

import math
import re
from array import array
from typing import Any

import numpy as np

from protocol.errors import BadData
from protocol.numeric import Flags, Floats
from protocol.records import Opaque

Indices = np.ndarray[Any, np.dtype[np.int32]]

HUGE = 1e20
"""HiGHS treats numbers from here on as infinite, so a finite number must be smaller."""

LARGE = 1e15
"""HiGHS refuses coefficients of a row from here on."""

_CURVATURE = 1e-9  # of the largest entry of a block: what rounding adds to a semidefinite matrix


class Quadratic(Opaque, frozen=True):
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


class LinearProgram(Opaque, frozen=True, kw_only=True):
    """The content of a model, in its own order and sense. Secret.

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


class Draft:
    """A linear program while its file is read. Columns and rows are numbered as they appear."""

    def __init__(self) -> None:
        self.maximise = False
        self.columns: dict[str, int] = {}
        self.lower, self.upper, self.cost = array("d"), array("d"), array("d")
        #: For each column, whether the file gives its lower and its upper bound.
        self.given: list[list[bool]] = []
        self.integer: set[int] = set()
        self.rows: list[str] = []
        self.row_lower, self.row_upper = array("d"), array("d")
        #: Q of ½ x·Q x by (larger column, smaller column).
        self.quadratic: dict[tuple[int, int], float] = {}
        self.offset = 0.0
        self._column, self._row, self._value = array("i"), array("i"), array("d")

    def column(self, name: str) -> int:
        """The number of a column, which is new if its name is."""
        number = self.columns.setdefault(name, len(self.columns))
        if number == len(self.lower):
            self.lower.append(0.0)
            self.upper.append(math.inf)
            self.cost.append(0.0)
            self.given.append([False, False])
        return number

    def add_row(self, name: str, lower: float, upper: float) -> int:
        self.rows.append(name)
        self.row_lower.append(lower)
        self.row_upper.append(upper)
        return len(self.rows) - 1

    def add_entry(self, column: int, row: int, value: float) -> None:
        self._column.append(column)
        self._row.append(row)
        self._value.append(value)

    def bound(self, column: int, *, lower: float | None = None, upper: float | None = None) -> bool:
        """Set bounds of a column. False if another value was set before."""
        fresh = True
        for side, values, value in ((0, self.lower, lower), (1, self.upper, upper)):
            if value is not None:
                fresh &= not self.given[column][side] or values[column] == value
                values[column], self.given[column][side] = value, True
        return fresh

    def finished(self) -> LinearProgram:
        n = len(self.columns)
        column, row = np.array(self._column, np.int32), np.array(self._row, np.int32)
        integer: Flags = np.zeros(n, dtype=np.bool_)
        integer[list(self.integer)] = True
        return LinearProgram(
            columns=list(self.columns),
            rows=self.rows,
            maximise=self.maximise,
            cost=np.array(self.cost),
            offset=self.offset,
            lower=unlimited(np.array(self.lower)),
            upper=unlimited(np.array(self.upper)),
            row_lower=unlimited(np.array(self.row_lower)),
            row_upper=unlimited(np.array(self.row_upper)),
            **column_wise(n, column, row, np.array(self._value)),
            integer=integer,
            quadratic=self._terms(n),
        )

    def _terms(self, columns: int) -> Quadratic | None:
        entries = sorted((j, i, v) for (i, j), v in self.quadratic.items() if v)
        if not entries:
            return None
        column, row, value = zip(*entries, strict=True)
        return Quadratic(**column_wise(columns, np.array(column), row, value))


def lines(text: str) -> list[str]:
    """The lines of a model file. Other signs that Unicode calls line ends may be in comments."""
    return re.split("\r\n|\r|\n", text)


def shown(word: str) -> str:
    """A word of a model file for an error. A number is secret: it may be in the wrong field."""
    first = word.lstrip("([{")[:1]
    return "a number" if first and (first in "+-." or first.isdigit()) else repr(word)


def unlimited(limits: Floats) -> Floats:
    """Limits with infinity in place of every number that solvers take for it."""
    return np.where(np.abs(limits) >= HUGE, np.copysign(math.inf, limits), limits)


def refuse_infinite(program: LinearProgram) -> None:
    """Refuse coefficients that are not finite, and limits that no number can satisfy."""
    column_of = np.repeat(np.arange(len(program.columns)), np.diff(program.start))
    quadratic = program.quadratic
    squares = (np.zeros(0), column_of) if quadratic is None else (quadratic.value, quadratic.column)
    for where, values, column, limit in (
        ("a row", program.value, column_of, LARGE),
        ("the objective", program.cost, np.arange(len(program.columns)), HUGE),
        ("the objective", *squares, HUGE),
    ):
        bad = ~(np.abs(values) < limit)
        if bad.any():
            name = program.columns[int(column[np.argmax(bad)])]
            raise BadData(
                f"column {name!r} has a coefficient in {where} that is not a finite number below "
                f"{limit:g}; correct it"
            )
    for what, names, lower, upper in (
        ("row", program.rows, program.row_lower, program.row_upper),
        ("column", program.columns, program.lower, program.upper),
    ):
        # `not <=` is also true for nan.
        bad = ~(lower <= upper) | (lower >= HUGE) | (upper <= -HUGE)
        if bad.any():
            number = int(np.argmax(bad))
            name = repr(names[number]) if names else str(number)
            raise BadData(
                f"no number is within the limits of {what} {name}: its lower limit is above its "
                "upper one, or one of them is not a number. Correct them; a column without a "
                "stated lower bound starts at 0"
            )
