"""The words of an LP file: its sections, and the tokens in each of them.

Never here: what the tokens mean. No error contains a number from the text.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NoReturn

from party.model.linear_program import lines
from protocol.errors import BadData

_WORDS = {
    "maximise": ("maximize", "maximise", "maximum", "max"),
    "minimise": ("minimize", "minimise", "minimum", "min"),
    "rows": ("subject to", "such that", "s.t.", "st.", "st"),
    "bounds": ("bounds", "bound"),
    "general": ("generals", "general", "gens", "gen"),
    "integer": ("integers", "integer", "ints", "int"),
    "binary": ("binaries", "binary", "bins", "bin"),
    "semi-continuous columns": ("semi-continuous", "semicontinuous", "semis", "semi"),
    "semi-integer columns": ("semi-integer", "semiinteger", "sins", "sin"),
    "special ordered sets": ("sos", "sos1", "sos2"),
    "lazy rows": ("lazy constraints", "lazy"),
    "user cuts": ("user cuts",),
    "general constraints": ("general constraints", "general constraint", "gencons"),
    "piecewise linear objectives": ("pwlobj",),
    "piecewise linear rows": ("pwl",),
    "several objectives": ("multi-objectives", "multi-objective"),
    "scenarios": ("scenario",),
    "end": ("end",),
}
_INSTEAD = {
    "semi-continuous columns": "a continuous column below its limit times a column that is 0 or 1",
    "lazy rows": "rows under Subject To",
    "user cuts": "rows under Subject To",
    "several objectives": "one weighted sum",
    "piecewise linear objectives": "one column for each piece",
}
"""What to write in place of a section that is not supported."""

_LISTS = ("general", "integer", "binary")
_SUPPORTED = ("maximise", "minimise", "rows", "bounds", *_LISTS, "end")
_SECTIONS = {word: section for section, words in _WORDS.items() for word in words}
_HEADING = re.compile(
    r"\s*("
    + "|".join(
        re.escape(w).replace(r"\ ", r"\s+") for w in sorted(_SECTIONS, key=len, reverse=True)
    )
    + r")"
    r"(?=[\s:]|$)\s*(:?)\s*(.*)",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<label>[^\s:<>=+\-\[\]*^][^\s:<>=]*)\s*:
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    | (?P<indicator><->|->)
    | (?P<sense><\s*=|=\s*<|>\s*=|=\s*>|=\s*=|[<>=])
    | (?P<mark>[-+*^/\[\]])
    | (?P<name>[^\s\d.+\-*^/<>=:\[\]] (?:[^\s+\-*^<>=:\[\]] | \[[^\[\]\s]*\])*)
    )""",
    re.VERBOSE,
)
_INFINITE = ("inf", "infinity")
_FORTRAN = re.compile(r"[dD]\d+")
_LP_SOLVE = "belongs to the format of lp_solve; save the model as MPS or CPLEX LP"
_NO_OBJECTIVE = ("the file must begin with Maximize or Minimize", f"this comment {_LP_SOLVE}")
_HYPHEN = re.compile(r"-[^\W\d]")
_FUNCTION = re.compile(r"(?:abs|min|max|sqrt|exp|log|pow)\((.+)\)", re.IGNORECASE)


class Token(NamedTuple):
    """`kind` is label, number, indicator, sense, mark or name; end after the last one."""

    kind: str
    text: str
    line: int
    #: Whether a name follows a number without a blank, or is in front of a minus and a name.
    tight: bool = False

    @property
    def value(self) -> float:
        return math.inf if self.text.lower() in _INFINITE else float(self.text)

    def is_mark(self, text: str) -> bool:
        return self.kind == "mark" and self.text in text


def refuse(name: str, line: int, what: str) -> NoReturn:
    """Refuse the file with this name because of one of its lines."""
    raise BadData(f"{name!r}, line {line}: {what}")


def sections(name: str, text: str) -> Iterator[tuple[str, int, list[Token]]]:
    """Each section with the line of its heading and its tokens."""
    section, begin, tokens = "", 0, list[Token]()
    for number, line in enumerate(lines(text), 1):
        code = line.partition("\\")[0]
        if not code.strip():
            continue
        if section == "end":
            refuse(name, number, "there is text after End; remove it")
        heading = _heading(name, code, number, section)
        if heading is not None:
            if section:
                yield section, begin, tokens
            section, code = heading
            begin, tokens = number, []
        elif not section:
            refuse(name, number, _NO_OBJECTIVE[line.lstrip().startswith(("/*", "//"))])
        if section not in _SUPPORTED and code:  # HiGHS writes some of them empty
            instead = _INSTEAD.get(section, "rows and columns that are 0 or 1")
            refuse(name, begin, f"{section} are not supported; write them as {instead}")
        tokens += _split(name, code, number)
    if section:
        yield section, begin, tokens


def _heading(name: str, code: str, line: int, section: str) -> tuple[str, str] | None:
    """The section that a line begins, and the rest of the line; None if it begins none."""
    found = _HEADING.fullmatch(code)
    if found is None:
        return None
    word, colon, rest = found[1], found[2], found[3]
    opened = _SECTIONS[" ".join(word.lower().split())]
    if not rest or opened not in _SUPPORTED:
        return opened, rest
    if opened in ("maximise", "minimise"):
        if _SECTIONS.get(rest.lower()) == "several objectives":  # as Gurobi writes them
            return "several objectives", rest
        # Later it is a row or a column that is called max or min.
        return None if section else (opened, rest)
    if opened == "rows" and (not colon or " " in word):
        return opened, rest
    if opened in _LISTS and section in ("bounds", *_LISTS):
        return opened, rest
    refuse(
        name,
        line,
        f"{word!r} begins a section: write it on a line of its own; if it is a name, rename it",
    )


def _split(name: str, code: str, line: int) -> Iterator[Token]:
    code, at, number_end = code.rstrip(), 0, -1
    while at < len(code):
        found = _TOKEN.match(code, at)
        if found is None:
            refuse(name, line, f"the sign {code[at:].strip()[0]!r} is not expected here")
        kind, tight, at = str(found.lastgroup), False, found.end()
        text = found[kind]
        if kind == "name":
            after_number = found.start(kind) == number_end
            if reason := _bad_name(text, after_number=after_number):
                refuse(name, line, reason)
            tight = after_number or _HYPHEN.match(code, at) is not None
            if text.lower() in _INFINITE:
                kind = "number"
        number_end = at if kind == "number" else -1
        yield Token(kind, text, line, tight)


def _bad_name(text: str, *, after_number: bool) -> str:
    """Why this cannot be a name, or an empty text."""
    if after_number and text.startswith(","):
        return "a number has a comma; write decimals with a point, and names without spaces"
    if after_number and _FORTRAN.fullmatch(text):
        return "write the exponent of a number with e, not with d"
    if text.lower() == "nan":
        return "'nan' is in place of a number; correct it, or rename what is called 'nan'"
    if ";" in text:
        return f"a semicolon {_LP_SOLVE}"
    if foreign := [sign for sign in text if sign > "~" and _is_operator(sign)]:
        return (
            f"the sign {foreign[0]!r} is not known; write <=, >=, - or *. If it is in a name, "
            "rename it"
        )
    if after_number and text.startswith("_"):
        return "a number has an underscore; remove it. A name must not begin with a digit"
    if text.endswith(","):
        return "a name ends with a comma; remove it"
    if text.startswith("(") or text.count("(") != text.count(")"):
        return "parentheses are only for names, which have no spaces; write the sum without them"
    return ""


def _is_operator(sign: str) -> bool:
    """Whether a sign outside ASCII is one of mathematics or a dash."""
    return sign == "·" or unicodedata.category(sign) in ("Sm", "Pd")


def refuse_mistaken_names(name: str, text: str, columns: Iterable[str]) -> None:
    """Refuse a name that is a formula of another column, such as x/2 or abs(x) beside x."""
    known = set(columns)
    for column in known:
        if (what := _mistaken(column, known)) is not None:
            line = next(
                i for i, code in enumerate(lines(text), 1) if column in code.partition("\\")[0]
            )
            refuse(name, line, f"{column!r} looks like {what}; rewrite it, or rename the column")


def _mistaken(column: str, known: set[str]) -> str | None:
    """What the name of a column looks like; None if it looks like a name."""
    if column.isascii() and column.isidentifier():
        return None
    whole, _, divisor = column.rpartition("/")
    if whole in known and divisor.replace(".", "").isdigit():
        return "a quotient, which is not supported"
    called = _FUNCTION.fullmatch(column)
    if called and not known.isdisjoint(called[1].split(",")):
        return "a function of columns, which is not supported"
    plain = "".join(sign for sign in column if unicodedata.category(sign) != "No")
    if plain != column and plain in known:
        return "a power or a fraction of a column, which must be written in brackets or as decimals"
    if column.rstrip(".") in known - {column}:
        return "a column with a point behind it"
    return None
