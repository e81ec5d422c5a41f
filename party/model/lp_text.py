"""Models in the LP format of CPLEX, Gurobi, HiGHS and the modelling tools.

The text is read as its author meant it, or refused with its line and what to write instead.
Nothing is dropped or guessed. No error here contains a number from the text.
"""

import math
from collections.abc import Iterator
from typing import NoReturn

from party.model.linear_program import Draft, LinearProgram, shown
from party.model.lp_tokens import Token, refuse, refuse_mistaken_names, sections
from protocol.errors import BadData

_Terms = dict[int, float]
_Limits = tuple[float | None, float | None]


def read(name: str, text: str) -> LinearProgram:
    """The program in the text of an LP file called `name`. Raises only `BadData`."""
    draft, section, objective = Draft(), "", False
    binary, integer = list[tuple[int, Token]](), list[tuple[int, Token]]()
    for section, line, tokens in sections(name, text):
        reader = _Reader(name, draft, tokens)
        if section in ("maximise", "minimise"):
            if objective:
                refuse(name, line, "a second objective begins here; keep one")
            objective, draft.maximise = True, section == "maximise"
            reader.read_objective()
        elif section == "rows":
            reader.read_rows()
        elif section == "bounds":
            reader.read_bounds()
        elif section == "general":
            draft.integer.update(column for column, _ in reader.listed())
        elif section == "integer":
            integer += reader.listed()
        elif section == "binary":
            binary += reader.listed()
    if section != "end":
        raise BadData(
            f"{name!r} has no line End: it may be cut off. If it is complete, write End as its "
            "last line"
        )
    if not draft.columns:
        raise BadData(f"{name!r} is empty: the model has no columns")
    _set_integer(name, draft, integer)
    _set_binary(name, draft, binary)
    refuse_mistaken_names(name, text, draft.columns)
    return draft.finished()


def _set_integer(name: str, draft: Draft, listed: list[tuple[int, Token]]) -> None:
    """Make the columns under Integers integer. They must have bounds."""
    for column, token in listed:
        if not any(draft.given[column]):  # binary in CPLEX and Xpress, not in Gurobi and HiGHS
            refuse(
                name,
                token.line,
                f"{shown(token.text)} is under Integers and has no bounds. Some programs read that "
                "as 0 or 1, others without a limit. List it under General or Binary instead",
            )
        draft.integer.add(column)


def _set_binary(name: str, draft: Draft, listed: list[tuple[int, Token]]) -> None:
    """Make columns binary. Their bounds may stand before or behind the list."""
    for column, token in listed:
        lower, upper = draft.lower[column], draft.upper[column]
        if lower < 0.0 or (draft.given[column][1] and upper > 1.0):
            refuse(
                name,
                token.line,
                f"{shown(token.text)} is binary, but its bounds allow more than 0 and 1; "
                "remove them, or list it under General",
            )
        draft.integer.add(column)
        draft.upper[column] = min(upper, 1.0)


class _Reader:
    """Reads the tokens of one section into the draft."""

    def __init__(self, name: str, draft: Draft, tokens: list[Token]) -> None:
        self._name, self._draft, self._tokens = name, draft, tokens
        self._end = Token("end", "", tokens[-1].line if tokens else 0)
        self._at = 0

    def _refuse(self, what: str, line: int | None = None) -> NoReturn:
        refuse(self._name, self._peek().line if line is None else line, what)

    def _peek(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else self._end

    def _next(self) -> Token:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, mark: str) -> bool:
        """Skip this mark, if it is the next token."""
        found = self._peek().is_mark(mark)
        self._at += found
        return found

    def _sign(self) -> float:
        sign = 1.0
        while self._peek().is_mark("+-"):
            sign = -sign if self._next().text == "-" else sign
        return sign

    def _number(self) -> float:
        sign = self._sign()
        if self._peek().kind != "number":
            self._refuse("a limit must be a number; move columns to the other side")
        return sign * self._next().value

    def read_objective(self) -> None:
        if self._peek().kind == "label":
            self._next()
        terms, self._draft.offset = self._expression(objective=True)
        if self._peek().kind != "end":
            self._refuse("the objective must end before Subject To")
        for column, factor in terms.items():
            self._draft.cost[column] = factor

    def _expression(self, *, objective: bool = False) -> tuple[_Terms, float]:
        """Terms by column, with repeated columns added up, and the constant."""
        terms, constant, first, tight = _Terms(), 0.0, True, set[int]()
        while self._peek().kind in ("mark", "number", "name"):
            if self._peek().is_mark("/"):
                self._refuse("a number is divided; write the result of the division")
            if not first and not self._peek().is_mark("+-"):
                self._refuse(
                    f"there is no + or - in front of {shown(self._peek().text)}; add it. A name "
                    "has no spaces, and a row ends with its limit"
                )
            first, sign = False, self._sign()
            if self._peek().is_mark("["):
                if not objective:
                    self._refuse("rows with products of columns are not supported")
                self._products(sign)
                continue
            factor, column = self._term()
            if column is None:
                constant += sign * factor
            else:
                token = self._tokens[self._at - 1]
                if token.tight:
                    tight.add(column)
                if column in terms and column in tight:
                    self._refuse(
                        f"{shown(token.text)} appears twice. If it is part of a name, rename that: "
                        "a name has no hyphen and no digit at its beginning. If not, write blanks "
                        "around the name",
                        token.line,
                    )
                terms[column] = terms.get(column, 0.0) + sign * factor
        return terms, constant

    def _term(self) -> tuple[float, int | None]:
        """A factor and its column; no column for a constant."""
        factor, product, line = 1.0, False, self._peek().line
        if self._peek().kind == "number":
            factor = self._next().value
            product = self._take("*")
            if self._peek().kind != "name" and not product:
                if self._peek().kind == "number":
                    self._refuse(
                        "there are two numbers in a row. If one is part of a name, rename that: a "
                        "name does not begin with a digit and is not 'inf' or 'infinity'"
                    )
                return factor, None
        if self._peek().kind != "name":
            self._refuse("a term is incomplete; check its signs", line)
        name = self._next().text
        if self._peek().is_mark("*^"):
            self._refuse(
                "a product of columns is supported only in the objective and in brackets, as "
                "[ 2 x ^ 2 + 4 x * y ] / 2; write a number in front of its column"
            )
        if math.isinf(factor):
            self._refuse(f"the coefficient of {shown(name)} is not finite; correct it", line)
        return factor, self._draft.column(name)

    def _products(self, sign: float) -> None:
        """[ products ] / 2 of the objective."""
        line, entries, first = self._next().line, self._draft.quadratic, True
        while not self._take("]"):
            if not first and not self._peek().is_mark("+-"):
                self._refuse("there is no + or - between two products; add it", line)
            first = False
            factor = sign * self._sign()
            if self._peek().kind == "number":
                factor *= self._next().value
                self._take("*")
            names = [self._next()]
            if self._take("^") and self._next().text == "2":
                names *= 2
            elif self._take("*"):
                names.append(self._next())
            if len(names) != 2 or any(token.kind != "name" for token in names):
                self._refuse("in brackets only x ^ 2 and x * y are supported", line)
            i, j = sorted((self._draft.column(token.text) for token in names), reverse=True)
            # Half of the brackets counts, and Q has a product of two columns twice.
            entries[i, j] = entries.get((i, j), 0.0) + factor * (1.0 if i == j else 0.5)
        if not (self._take("/") and self._next().text == "2"):
            self._refuse("write / 2 after the brackets, and double what is in them", line)

    def read_rows(self) -> None:
        while self._peek().kind != "end":
            name = self._next().text if self._peek().kind == "label" else ""
            self._read_row(name or f"row_{len(self._draft.rows) + 1}")

    def _read_row(self, name: str) -> None:
        line = self._peek().line
        terms, constant = self._expression()
        limits: _Limits = None, None
        empty = self._tokens[self._at - 1].kind == "label"  # as tools write a row without columns
        sense = self._sense()
        if not terms and not empty:  # number <= terms, perhaps with another limit
            limits = _limits(_turned(sense), constant)
            terms, constant = self._expression()
            sense = "" if self._row_ends() else self._sense()
        if not terms and not empty:
            self._refuse("a row has no columns; remove it", line)
        if constant:
            self._refuse(
                "a row has a constant among its columns; move it to the side of the limit", line
            )
        if sense:
            limits = self._merged(limits, _limits(sense, self._number()))
            if not self._row_ends():
                self._refuse(
                    "a row ends with its limit; write each row on a line of its own, as terms <= "
                    "number or number <= terms <= number"
                )
        lower, upper = limits
        row = self._draft.add_row(
            name, -math.inf if lower is None else lower, math.inf if upper is None else upper
        )
        for column, factor in terms.items():
            self._draft.add_entry(column, row, factor)

    def _row_ends(self) -> bool:
        token, last = self._peek(), self._tokens[self._at - 1]
        return token.kind in ("end", "label") or (token.kind != "sense" and token.line > last.line)

    def _sense(self) -> str:
        token = self._next()
        after = self._tokens[self._at : self._at + 3]
        turned = [t.text for t in after[1:]] == ["<", "-"]  # column = 1 <- row
        if turned or "indicator" in (token.kind, *(t.kind for t in after[:2])):
            self._refuse(
                "indicator rows (->) are not supported; write the row with a large number times "
                "its column that is 0 or 1",
                token.line,
            )
        if token.kind == "label":
            self._refuse(
                f"there is no limit in front of {shown(token.text)}: a row is terms <= number. If "
                "this is the end of a name, write the name without spaces",
                token.line,
            )
        if token.kind != "sense":
            self._refuse("a row or a bound has no limit: write it as terms <= number", token.line)
        return token.text

    def _merged(self, one: _Limits, other: _Limits) -> _Limits:
        """Two limits of one row or bound, which must be on different sides."""
        if any(a is not None and b is not None for a, b in zip(one, other, strict=True)):
            self._refuse("the two limits are on the same side; keep one", self._end_line())
        lower, upper = (b if a is None else a for a, b in zip(one, other, strict=True))
        return lower, upper

    def _end_line(self) -> int:
        return self._tokens[self._at - 1].line

    def read_bounds(self) -> None:
        while self._peek().kind != "end":
            self._read_bound()

    def _read_bound(self) -> None:
        line = self._peek().line
        limits: _Limits = None, None
        if self._peek().kind != "name":
            limit = self._number()
            if self._peek().kind == "name":
                self._refuse(
                    f"the bound of {shown(self._peek().text)} has a coefficient; divide the bound "
                    "by it, or write it as a row",
                )
            limits = _limits(_turned(self._sense()), limit)
        token = self._next()
        if token.kind != "name":
            self._refuse("a bound is number <= column <= number, without coefficients", line)
        column = self._known(token)
        if limits == (None, None) and self._peek().text.lower() == "free":
            self._next()
            limits = -math.inf, math.inf
        elif limits == (None, None) or self._peek().kind == "sense":
            limits = self._merged(limits, _limits(self._sense(), self._number()))
        if self._peek().kind != "end" and self._peek().line == self._end_line():
            self._refuse("write one bound on each line, as number <= column <= number")
        lower, upper = limits
        if not self._draft.bound(column, lower=lower, upper=upper):
            self._refuse(f"the column {shown(token.text)} has two different bounds; keep one", line)

    def listed(self) -> Iterator[tuple[int, Token]]:
        """The columns that this section lists."""
        return ((self._known(token), token) for token in self._tokens)

    def _known(self, token: Token) -> int:
        column = self._draft.columns.get(token.text)
        if column is None:
            self._refuse(
                f"{shown(token.text)} is in no row and not in the objective; correct its name or "
                "remove it here",
                token.line,
            )
        return column


def _turned(sense: str) -> str:
    """The sense of a limit that stands on the left."""
    return sense.translate(str.maketrans("<>", "><"))


def _limits(sense: str, limit: float) -> _Limits:
    """The lower and the upper limit that a sense states."""
    return (None if "<" in sense else limit), (None if ">" in sense else limit)
