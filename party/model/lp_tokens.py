"""The words of an LP file: its sections, and the tokens in each of them.

Never here: what the tokens mean. No error contains a number from the text.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from protocol.errors import BadData

_WORDS = {
    "maximise": ("maximize", "maximise", "maximum", "max"),
    "minimise": ("minimize", "minimise", "minimum", "min"),
    "rows": ("subject to", "such that", "s.t.", "st.", "st"),
    "bounds": ("bounds", "bound"),
    "integer": ("generals", "general", "gens", "gen", "integers", "integer", "ints", "int"),
    "binary": ("binaries", "binary", "bins", "bin"),
    "semi-continuous columns": ("semi-continuous", "semicontinuous", "semis", "semi"),
    "special ordered sets": ("sos", "sos1", "sos2"),
    "lazy rows": ("lazy constraints", "lazy"),
    "user cuts": ("user cuts",),
    "general constraints": ("general constraints", "general constraint", "gencons"),
    "piecewise linear objectives": ("pwlobj",),
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

_SUPPORTED = ("maximise", "minimise", "rows", "bounds", "integer", "binary", "end")
_SECTIONS = {word: section for section, words in _WORDS.items() for word in words}
_HEADING = re.compile(
    r"\s*(" + "|".join(map(re.escape, sorted(_SECTIONS, key=len, reverse=True))) + r")"
    r"(?=[\s:]|$)\s*(:?)\s*(.*)",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<label>[^\s:<>=+\-\[\]*^][^\s:<>=]*)\s*:
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    | (?P<indicator>->)
    | (?P<sense><=|=<|>=|=>|==|[<>=])
    | (?P<mark>[-+*^/\[\]])
    | (?P<name>[^\s\d.+\-*^/<>=:\[\]] (?:[^\s+\-*^<>=:\[\]] | \[[^\[\]\s]*\])*)
    )""",
    re.VERBOSE,
)
_INFINITE = ("inf", "infinity")
_FORTRAN = re.compile(r"[dD]\d+")


class Token(NamedTuple):
    """`kind` is label, number, indicator, sense, mark or name; end after the last one."""

    kind: str
    text: str
    line: int

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
    for number, line in enumerate(text.splitlines(), 1):
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
            refuse(name, number, "the file must begin with Maximize or Minimize")
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
    opened = _SECTIONS[word.lower()]
    if not rest or opened not in _SUPPORTED:
        return opened, rest
    if opened in ("maximise", "minimise"):
        # Later it is a row or a column that is called max or min.
        return None if section else (opened, rest)
    if opened == "rows" and (not colon or " " in word):
        return opened, rest
    if opened in ("integer", "binary") and section in ("bounds", "integer", "binary"):
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
        kind = str(found.lastgroup)
        text = found[kind]
        if kind == "name":
            if reason := _bad_name(text, after_number=found.start(kind) == number_end):
                refuse(name, line, reason)
            if text.lower() in _INFINITE:
                kind = "number"
        at = found.end()
        number_end = at if kind == "number" else -1
        yield Token(kind, text, line)


def _bad_name(text: str, *, after_number: bool) -> str:
    """Why this cannot be a name, or an empty text."""
    if after_number and text.startswith(","):
        return "a number has a comma; write decimals with a point"
    if after_number and _FORTRAN.fullmatch(text):
        return "write the exponent of a number with e, not with d"
    if text.lower() == "nan":
        return "'nan' is in place of a number; correct it, or rename what is called 'nan'"
    if ";" in text:
        return "a semicolon belongs to the format of lp_solve; save the model as MPS or CPLEX LP"
    return ""
