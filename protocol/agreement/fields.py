"""The fields of one table of an agreement, each taken by name and checked as it is taken.

Knows kinds of values, not what they mean. An error names the field, the value and what is
allowed; a field that nobody takes is an error too.
"""

import re
import reprlib
from collections.abc import Mapping
from typing import Any

from protocol.errors import BadAgreement

NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
"""What sessions, members and resources may be called."""

NAME_IN_WORDS = "a name of 1 to 64 letters, digits, '_', '.' and '-'"

_SAME_LOOK = str.maketrans("I1Oo-.", "ll00__")
_SAME_PAIR = (("rn", "m"), ("vv", "w"))


def alike(name: str) -> tuple[str, str]:
    """Two forms of a name. People mistake one name for another where either form is the same.

    The first leaves out the case of letters, the second what looks alike in many fonts: I, l and 1;
    O, o and 0; rn and m; vv and w. In both `-`, `.` and `_` are one.
    """
    look = name.translate(_SAME_LOOK)
    for pair, one in _SAME_PAIR:
        look = look.replace(pair, one)
    return re.sub("[-.]", "_", name.lower()), look


_BRIEF = reprlib.Repr()
_BRIEF.maxstring = 100


def _shown(value: Any) -> str:
    """A value for an error message, no longer than a person reads."""
    if value is None:
        return "missing"
    try:
        return _BRIEF.repr(value)
    except ValueError:
        return "a number of thousands of digits"


class Fields:
    """What nobody has taken yet of one table of the file."""

    def __init__(self, table: Any, path: str) -> None:
        if not isinstance(table, Mapping):
            raise BadAgreement(f"{path} is {_shown(table)}: it must be a table")
        self._rest = dict(table)
        self._path = path

    def where(self, key: str) -> str:
        """How an error names a field."""
        return f"{self._path}.{key}" if self._path else key

    def _wrong(self, key: str, value: Any, allowed: str) -> BadAgreement:
        return BadAgreement(f"{self.where(key)} is {_shown(value)}: it must be {allowed}")

    def number(
        self, key: str, default: float | None = None, *, at_least: float, at_most: float
    ) -> float:
        value = self._rest.pop(key, default)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not at_least <= value <= at_most:
            raise self._wrong(key, value, f"a number from {at_least:g} to {at_most:g}")
        return float(value) + 0.0  # -0.0 becomes 0.0, which is the same number

    def optional_number(self, key: str, *, at_least: float, at_most: float) -> float | None:
        return self.number(key, at_least=at_least, at_most=at_most) if key in self._rest else None

    def integer(self, key: str, at_least: int, at_most: int, default: int | None = None) -> int:
        value = self._rest.pop(key, default)
        if type(value) is not int or not at_least <= value <= at_most:
            raise self._wrong(key, value, f"a whole number from {at_least} to {at_most}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._rest.pop(key, default)
        if type(value) is not bool:
            raise self._wrong(key, value, "true or false")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        value = self._rest.pop(key, default)
        if not isinstance(value, str) or value not in allowed:
            raise self._wrong(key, value, "one of " + ", ".join(map(repr, allowed)))
        return value

    def text(self, key: str, form: tuple[str, str]) -> str:
        value = self._rest.pop(key, "")
        if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
            raise self._wrong(key, value, "text in UTF-8; this came in another encoding")
        if not isinstance(value, str) or (value and not re.fullmatch(form[0], value)):
            raise self._wrong(key, value, form[1])
        return value

    def name(self, key: str) -> str:
        value = self._rest.pop(key, None)
        if not isinstance(value, str) or not re.fullmatch(NAME, value):
            raise self._wrong(key, value, NAME_IN_WORDS)
        return value

    def has_table(self, key: str) -> bool:
        return isinstance(self._rest.get(key), Mapping)

    def table(self, key: str) -> "Fields":
        return Fields(self._rest.pop(key, {}), self.where(key))

    def tables(self, key: str, at_least: int, at_most: int) -> list["Fields"]:
        value = self._rest.pop(key, None)
        if not isinstance(value, list) or not at_least <= len(value) <= at_most:
            raise self._wrong(key, value, f"a list of {at_least} to {at_most} [[{key}]] tables")
        return [Fields(v, f"{self.where(key)}[{i}]") for i, v in enumerate(value)]

    def forbid(self, keys: tuple[str, ...], why: str) -> None:
        for key in keys:
            if key in self._rest:
                raise BadAgreement(f"{self.where(key)} has no meaning where {why}; leave it out")

    def done(self) -> None:
        """Refuse what nobody asked for: a misspelt field must not pass as a default."""
        for key in self._rest:
            raise BadAgreement(f"{self.where(key)} is not a field of an agreement; check the name")
