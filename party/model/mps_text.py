"""Models in the MPS format, free or fixed, with the sections of CPLEX, Gurobi and HiGHS.

The text is read as its author meant it, or refused with its line and what to write instead.
Nothing is dropped or guessed. No error here contains a number from the text.
"""

import math
import re
from collections.abc import Callable
from typing import NoReturn

from party.model.linear_program import Draft, LinearProgram, lines, shown
from party.model.mps_lines import fixed_fields, heading_word, require_sense
from protocol.errors import BadData

_NEEDED = ("ROWS", "COLUMNS", "ENDATA")
_NAMED = ("NAME", "OBJSENSE", "OBJNAME", "QSECTION", "QCMATRIX", "CSECTION")
"""Sections whose heading may be followed by a word."""

_UNSUPPORTED = {
    "SOS": "special ordered sets",
    "SOS1": "special ordered sets",
    "SOS2": "special ordered sets",
    "SETS": "special ordered sets",
    "INDICATORS": "indicator rows",
    "QCMATRIX": "rows with products of columns",
    "CSECTION": "cones",
    "LAZYCONS": "lazy rows",
    "USERCUTS": "user cuts",
    "GENCONS": "general constraints",
    "PWLOBJ": "piecewise linear objectives",
    "SCENARIOS": "scenarios",
}
_SENSES = {
    word: word.startswith("MAX")
    for word in ("MAX", "MAXIMIZE", "MAXIMISE", "MAXIMUM", "MIN", "MINIMIZE", "MINIMISE", "MINIMUM")
}
_COMMA = re.compile(r"[-+]?\d[\d.]*,\d*(?:[ed][-+]?\d+)?", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?inf(?:inity)?", re.IGNORECASE)
_OBJECTIVE, _OTHER_FREE = -1, -2
"""In place of a row number: the objective, and another row of type N, which has no effect."""

_Split = Callable[[str], list[str]]


def read(name: str, text: str) -> LinearProgram:
    """The program in the text of an MPS file called `name`. Raises only `BadData`."""
    headings = {heading_word(line.split()) for line in lines(text) if line.strip()}
    for section in _NEEDED:
        if section not in headings:
            raise BadData(f"{name!r} is not a complete MPS file: it has no section {section}")
    try:
        return _Reader(name, str.split).read(text)
    except BadData as error:
        try:  # a name with spaces is possible in the fixed format
            return _Reader(name, fixed_fields).read(text)
        except BadData:
            raise error from None


class _Reader:
    """Reads the lines of one file into a draft."""

    def __init__(self, name: str, split: _Split) -> None:
        self._name, self._split = name, split
        self._draft = Draft()
        self._line = 0
        self._objective: str | None = None
        self._sense: bool | None = None
        self._rows: dict[str, int] = {}
        self._senses: list[str] = []
        self._ranges: dict[int, float] = {}
        self._column, self._column_rows = "", set[str]()
        self._marked = False
        #: The line of each negative upper bound, by column.
        self._negative: dict[int, int] = {}
        #: The name of the vector that each section uses, and which rows have a right-hand side.
        self._vectors: dict[str, str] = {}
        self._limited: set[str] = set()
        #: A row of type N that is not the objective and has values; empty if there is none.
        self._other_values = ""
        self._matrix: dict[tuple[str, str], float] = {}
        #: Whether both triangles of Q are given (QMATRIX).
        self._whole = False

    def _refuse(self, what: str) -> NoReturn:
        raise BadData(f"{self._name!r}, line {self._line}: {what}")

    def read(self, text: str) -> LinearProgram:
        section = ""
        for self._line, line in enumerate(lines(text), 1):
            if not line.strip() or line.startswith("*"):
                continue
            if section == "ENDATA":
                self._refuse("there is text after ENDATA; remove it")
            words = line.split()
            if self._is_heading(line, words, section):
                section = self._open(words)
            elif section in ("OBJSENSE", "OBJNAME"):
                _READ[section](self, words)
            elif section not in _READ:
                self._refuse("a section must begin before this line, such as OBJSENSE or ROWS")
            elif fields := self._split(line):
                _READ[section](self, fields)
            else:
                self._refuse("a word is not in the columns of one field of the fixed format")
        draft = self._draft
        if not draft.columns:
            raise BadData(f"{self._name!r} is empty: the model has no columns")
        require_sense(self._name, text, self._sense)
        self._require_objective()
        self._require_bounds()
        self._add_products()
        return draft.finished()

    def _add_products(self) -> None:
        for (one, other), value in self._matrix.items():
            if self._whole and (other, one) not in self._matrix:
                raise BadData(
                    f"{self._name!r}: QMATRIX must be symmetric; it has {shown(one)} with "
                    f"{shown(other)} but not {shown(other)} with {shown(one)}. Use QUADOBJ for one "
                    "triangle"
                )
            i, j = sorted((self._draft.columns[c] for c in (one, other)), reverse=True)
            self._draft.quadratic[i, j] = value

    def _is_heading(self, line: str, words: list[str], section: str) -> bool:
        word = heading_word(words)
        if section in ("OBJSENSE", "OBJNAME") and line[0].isspace() and word not in _READ:
            return False
        if len(words) == 1:
            return not line[0].isspace() or word in _READ or word == "ENDATA"
        return not line[0].isspace() and (word in _NAMED or word in _UNSUPPORTED)

    def _open(self, words: list[str]) -> str:
        """Begin a section, and return its name."""
        section = heading_word(words)
        if section in _UNSUPPORTED:
            self._refuse(
                f"{_UNSUPPORTED[section]} ({section}) are not supported; write them as rows and "
                "columns that are 0 or 1"
            )
        for prefix in ("OBJSENSE", "OBJ"):  # OBJSENSEMAX, OBJMAX
            if section.removeprefix(prefix) in _SENSES:
                self._read_sense([section.removeprefix(prefix)])
                return "NAME"
        if section not in (*_READ, "NAME", "ENDATA"):
            self._refuse(
                f"{shown(words[0])} begins no section that is supported; remove it, or indent the "
                "line if it belongs to the section before"
            )
        if section in ("OBJSENSE", "OBJNAME") and len(words) > 1:
            _READ[section](self, words[1:])
        if section == "QSECTION" and self._rows.get(" ".join(words[1:])) != _OBJECTIVE:
            self._refuse("QSECTION must name the objective; products in rows are not supported")
        return section

    def _read_sense(self, words: list[str]) -> None:
        sense = _SENSES.get(words[0].upper())
        if sense is None or len(words) > 1:
            self._refuse("after OBJSENSE write MAX or MIN")
        if self._sense not in (None, sense):
            self._refuse("the file says both MAX and MIN; keep one")
        self._sense = self._draft.maximise = sense

    def _read_objective_name(self, words: list[str]) -> None:
        if self._rows:
            self._refuse("write OBJNAME before ROWS")
        self._objective = " ".join(words)

    def _read_row(self, words: list[str]) -> None:
        kind = words[0].upper()
        if len(words) != 2 or kind not in ("N", "L", "G", "E"):
            self._refuse("a line under ROWS is N, L, G or E and one name without spaces")
        name = words[1]
        if name in self._rows:
            self._refuse(f"there are two rows named {shown(name)}; rename one")
        if name.strip("'\"").upper() == "MARKER":
            self._refuse("the word MARKER marks integers under COLUMNS; rename this row")
        if kind == "N":
            wanted = self._objective in (None, name) and _OBJECTIVE not in self._rows.values()
            self._rows[name] = _OBJECTIVE if wanted else _OTHER_FREE
            return
        self._senses.append(kind)
        self._rows[name] = self._draft.add_row(name, *_limits(kind, 0.0, None))

    def _row(self, name: str) -> int:
        if name not in self._rows:
            self._refuse(
                f"the row {shown(name)} is not under ROWS; correct its name or add it there"
            )
        return self._rows[name]

    def _number(self, word: str) -> float:
        if word.lower() in ("nan", "+nan", "-nan"):
            self._refuse("'nan' is in place of a number; correct it")
        if _COMMA.fullmatch(word):
            self._refuse("a number has a comma; write decimals with a point")
        try:
            # As Fortran writes exponents. Python would take an underscore between digits.
            return float(re.sub("[dD](?=[-+0-9])", "e", word).replace("_", "?"))
        except ValueError:
            self._refuse(
                "a number is expected where there is another word; count the fields of the line. "
                "A name must have no spaces"
            )

    def _pairs(self, words: list[str]) -> list[tuple[str, float]]:
        if len(words) not in (2, 4):
            self._refuse("a line must have one or two pairs of a row and a number")
        return [(words[i], self._number(words[i + 1])) for i in range(0, len(words), 2)]

    def _read_column(self, words: list[str]) -> None:
        if len(words) >= 3 and words[1].strip("'\"").upper() == "MARKER":
            kind = words[2].strip("'\"").upper()
            if kind not in ("INTORG", "INTEND"):
                self._refuse("a marker is INTORG or INTEND; special ordered sets are not supported")
            self._marked = kind == "INTORG"
            return
        name, draft = words[0], self._draft
        if name != self._column:
            if name in draft.columns:
                self._refuse(f"there are two columns named {shown(name)}; keep its lines together")
            self._column, self._column_rows = name, set()
        column = draft.column(name)
        if self._marked:
            draft.integer.add(column)
        for row_name, value in self._pairs(words[1:]):
            row = self._row(row_name)
            if row_name in self._column_rows:
                self._refuse(
                    f"column {shown(name)} has two values in the row {shown(row_name)}; keep one"
                )
            self._column_rows.add(row_name)
            if row == _OBJECTIVE:
                draft.cost[column] = value
            elif row == _OTHER_FREE:
                self._other_values = row_name
            elif value:
                draft.add_entry(column, row, value)

    def _vector(self, section: str, words: list[str], *, named: bool) -> list[str]:
        """The words after the name of the vector, which must be one and the same."""
        name = words[0] if named else ""
        if self._vectors.setdefault(section, name) != name:
            self._refuse(f"there is a second vector under {section}; keep one")
        return words[1:] if named else words

    def _read_rhs(self, words: list[str]) -> None:
        for name, value in self._pairs(self._vector("RHS", words, named=len(words) % 2 == 1)):
            row = self._row(name)
            if name in self._limited:
                self._refuse(f"the row {shown(name)} has two right-hand sides; keep one")
            self._limited.add(name)
            if row == _OBJECTIVE:
                self._draft.offset = -value
            elif row >= 0:
                self._set_limits(row, value)

    def _read_range(self, words: list[str]) -> None:
        for name, value in self._pairs(self._vector("RANGES", words, named=len(words) % 2 == 1)):
            row = self._row(name)
            if row in self._ranges:
                self._refuse(f"the row {shown(name)} has two ranges; keep one")
            if row >= 0:
                self._ranges[row] = value
                low, high = self._draft.row_lower[row], self._draft.row_upper[row]
                self._set_limits(row, high if self._senses[row] == "L" else low)

    def _set_limits(self, row: int, limit: float) -> None:
        low, high = _limits(self._senses[row], limit, self._ranges.get(row))
        self._draft.row_lower[row], self._draft.row_upper[row] = low, high

    def _read_bound(self, words: list[str]) -> None:
        kind = words[0].upper()
        if kind in ("SC", "SI", "SN"):
            self._refuse(
                f"column {shown(words[-2])} is semi-continuous; write it as a continuous column "
                "below its limit times a column that is 0 or 1"
            )
        if kind not in _BOUNDS:
            self._refuse("a bound is UP, LO, FX, FR, MI, PL, BV, LI or UI")
        columns, without_value = self._draft.columns, kind in ("FR", "MI", "PL", "BV")
        named = len(words) == 4 or (
            len(words) == 3
            and without_value
            and not (words[1] in columns and _NUMBER.fullmatch(words[2]))
        )
        if not named and len(words) == 3 and words[2] in columns:
            self._refuse("a bound has no number or no vector; write both")
        rest = self._vector("BOUNDS", words[1:], named=named)
        if len(rest) != 2 and not (len(rest) == 1 and without_value):
            self._refuse("a bound is its kind, a vector, a column and a number")
        if rest[0] not in columns:
            self._refuse(f"{shown(rest[0])} is no column; correct its name or remove its bound")
        value = self._number(rest[1]) if not without_value else 0.0
        self._set_bound(kind, columns[rest[0]], rest[0], value)

    def _set_bound(self, kind: str, column: int, name: str, value: float) -> None:
        lower, upper = _BOUNDS[kind](value)
        draft = self._draft
        if kind in ("BV", "LI", "UI"):
            draft.integer.add(column)
        if not draft.bound(column, lower=lower, upper=upper):
            self._refuse(f"the column {shown(name)} has two values for one bound; keep one")
        if upper is not None and upper < 0.0:
            self._negative[column] = self._line

    def _read_quadratic(self, words: list[str]) -> None:
        """A line of QUADOBJ or QSECTION: one triangle of Q."""
        pair = self._products(words)
        if pair in self._matrix or pair[::-1] in self._matrix:
            self._refuse("a product of columns has two values; keep one, of one triangle")
        self._matrix[pair] = self._number(words[2])

    def _read_matrix(self, words: list[str]) -> None:
        """A line of QMATRIX: all of Q."""
        pair, value = self._products(words), self._number(words[2])
        if self._matrix.get(pair[::-1], value) != value:
            self._refuse("QMATRIX must be symmetric; use QUADOBJ for one triangle")
        self._matrix[pair], self._whole = value, True

    def _products(self, words: list[str]) -> tuple[str, str]:
        if len(words) != 3 or any(word not in self._draft.columns for word in words[:2]):
            self._refuse("a line must have two columns and a number")
        return words[0], words[1]

    def _require_objective(self) -> None:
        if _OBJECTIVE not in self._rows.values():
            named = "" if self._objective is None else f", {shown(self._objective)} of OBJNAME"
            raise BadData(
                f"{self._name!r} has no objective: under ROWS there is no row of type N{named}"
            )
        if self._other_values and not any(self._draft.cost) and not self._matrix:
            raise BadData(
                f"{self._name!r}: the objective, which is the first row of type N, has no values, "
                f"but {shown(self._other_values)} has. Choose one: write OBJNAME on one line and "
                "its name on the next"
            )

    def _require_bounds(self) -> None:
        for name, column in self._draft.columns.items():
            given = self._draft.given[column]
            if column in self._negative and not given[0]:
                self._line = self._negative[column]
                self._refuse(
                    f"the column {shown(name)} has a negative upper bound and no lower bound; "
                    "programs read that differently. Write its MI or LO bound too"
                )
            if column in self._draft.integer and not any(given):
                raise BadData(
                    f"{self._name!r}: the integer column {shown(name)} has no bounds. Some "
                    "programs read it as 0 or 1, others without a limit. Write an UP or a PL "
                    "bound for it"
                )


def _limits(kind: str, limit: float, span: float | None) -> tuple[float, float]:
    """The limits of a row of type L, G or E, perhaps with a range."""
    if span is None:
        return {"L": (-math.inf, limit), "G": (limit, math.inf), "E": (limit, limit)}[kind]
    if kind == "L":
        return limit - abs(span), limit
    if kind == "G" or span > 0.0:
        return limit, limit + abs(span)
    return limit - abs(span), limit


_BOUNDS: dict[str, Callable[[float], tuple[float | None, float | None]]] = {
    "UP": lambda value: (None, value),
    "UI": lambda value: (None, value),
    "LO": lambda value: (value, None),
    "LI": lambda value: (value, None),
    "FX": lambda value: (value, value),
    "FR": lambda _: (-math.inf, math.inf),
    "MI": lambda _: (-math.inf, None),
    "PL": lambda _: (None, math.inf),
    "BV": lambda _: (0.0, 1.0),
}
_READ = {
    "OBJSENSE": _Reader._read_sense,
    "OBJNAME": _Reader._read_objective_name,
    "ROWS": _Reader._read_row,
    "COLUMNS": _Reader._read_column,
    "RHS": _Reader._read_rhs,
    "RANGES": _Reader._read_range,
    "BOUNDS": _Reader._read_bound,
    "QUADOBJ": _Reader._read_quadratic,
    "QSECTION": _Reader._read_quadratic,
    "QMATRIX": _Reader._read_matrix,
}
