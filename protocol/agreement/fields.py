"""Typed reads of one table of an agreement file: each field is taken once, by name, and checked.

Knows kinds of values, not their meaning. An error names the field, its value and what is allowed.
A field that remains untaken is an error too.
"""

import re
import reprlib
import unicodedata
from collections.abc import Mapping
from typing import Any

from protocol.agreement import schema
from protocol.agreement.schema import Form, Range
from protocol.errors import BadAgreement

NAME, NAME_IN_WORDS = schema.NAME
"""The form of a name as a pattern, and in words."""

_TRANSCRIBED = str.maketrans(
    {
        "ä": "ae",
        "ö": "oe",
        "ü": "ue",
        "Ä": "Ae",
        "Ö": "Oe",
        "Ü": "Ue",
        "ß": "ss",
        " ": "-",
        ",": "-",
    }
)

_BRIEF = reprlib.Repr()
_BRIEF.maxstring = 100


def _shown(value: Any) -> str:
    """A value for an error message, shortened if it is long."""
    if value is None:
        return "missing"
    try:
        return _BRIEF.repr(value)
    except ValueError:
        return "a number of thousands of digits"


def wrong_name(name: str) -> str:
    """Why a name cannot be used in an agreement, and which one can; empty if it can be."""
    if re.fullmatch(NAME, name):
        return ""
    plain = unicodedata.normalize("NFKD", name.strip().translate(_TRANSCRIBED))
    plain = re.sub(r"[^\w.-]", "", plain, flags=re.ASCII).lstrip(".-")
    found = re.search(r"[^\w.-]", name, re.ASCII)
    other = re.match(NAME, plain)
    has = f", and has {found.group()!r}" if found else ""
    advice = f"; {other.group()!r} can be used" if other else ""
    return f"it must be {NAME_IN_WORDS}{has}{advice}"


class Fields:
    """The fields of one table that have not been taken yet."""

    def __init__(self, table: Any, path: str) -> None:
        if not isinstance(table, Mapping):
            raise BadAgreement(f"{path} is {_shown(table)}: it must be a table")
        #: Fields that remain.
        self._rest = dict(table)
        #: How errors name this table, such as `member[0]`; empty for the file itself.
        self._path = path

    def where(self, key: str) -> str:
        """How an error names a field."""
        return f"{self._path}.{key}" if self._path else key

    def _wrong(self, key: str, value: Any, allowed: str) -> BadAgreement:
        return BadAgreement(f"{self.where(key)} is {_shown(value)}: it must be {allowed}")

    def number(self, key: str, limits: Range, default: float | None = None) -> float:
        value = self._rest.pop(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not limits.least <= value <= limits.most:
            raise self._wrong(key, value, f"a number from {limits.least:g} to {limits.most:g}")
        return float(value) + 0.0  # turns -0.0 into 0.0, so that both have one digest

    def optional_number(self, key: str, limits: Range) -> float | None:
        return self.number(key, limits) if key in self._rest else None

    def integer(self, key: str, least: int, most: int, default: int | None = None) -> int:
        value = self._rest.pop(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(key, value, f"a whole number from {least} to {most}")
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

    def text(self, key: str, form: Form) -> str:
        """A text of this form, or the empty text."""
        value = self._rest.pop(key, "")
        if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
            raise self._wrong(key, value, "text in UTF-8; this is in another encoding")
        if not isinstance(value, str) or (value and not re.fullmatch(form.pattern, value)):
            raise self._wrong(key, value, form.description)
        return value

    def name(self, key: str) -> str:
        value = self._rest.pop(key, None)
        if not isinstance(value, str):
            raise self._wrong(key, value, NAME_IN_WORDS)
        if why := wrong_name(value):
            raise BadAgreement(f"{self.where(key)} is {_shown(value)}: {why}")
        return value

    def rows(self, key: str, most: int, limits: list[Range]) -> tuple[tuple[float, ...], ...]:
        """At most this many lists of numbers, each with a number for each of the limits."""
        rows = self._rest.pop(key, [])
        if not isinstance(rows, list) or len(rows) > most:
            raise self._wrong(key, rows, f"a list of at most {most} lists of numbers")
        found = []
        for i, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != len(limits):
                raise self._wrong(f"{key}[{i}]", row, f"a list of {len(limits)} numbers")
            fields = Fields({str(j): value for j, value in enumerate(row)}, f"{key}[{i}]")
            found.append(tuple(fields.number(str(j), one) for j, one in enumerate(limits)))
        return tuple(found)

    def has_table(self, key: str) -> bool:
        return isinstance(self._rest.get(key), Mapping)

    def table(self, key: str) -> "Fields":
        return Fields(self._rest.pop(key, {}), self.where(key))

    def tables(self, key: str, least: int, most: int) -> list["Fields"]:
        value = self._rest.pop(key, None)
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise self._wrong(key, value, f"a list of {least} to {most} [[{key}]] tables")
        return [Fields(v, f"{self.where(key)}[{i}]") for i, v in enumerate(value)]

    def forbid(self, keys: tuple[str, ...], condition: str) -> None:
        """Refuse fields that other fields make meaningless."""
        for key in keys:
            if key in self._rest:
                raise BadAgreement(
                    f"{self.where(key)} has no meaning where {condition}; leave it out"
                )

    def done(self) -> None:
        """Refuse unknown fields: a misspelt one must not pass as a default."""
        for key in self._rest:
            raise BadAgreement(f"{self.where(key)} is not a field of an agreement; check the name")
