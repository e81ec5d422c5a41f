"""The public result of a session as a table for spreadsheets.

Every number is the one that the outcome has, to the last digit. Public numbers only.
"""

import csv
from typing import Protocol

from protocol.agreement.quantities import amounts
from protocol.outcome.outcome import Outcome

COLUMNS = (
    "company", "resource", "unit", "capacity", "price", "currency", "brings", "quota", "payment",
)  # fmt: skip


def public_csv(known: Outcome) -> str:
    """One line for each company and resource, and one for what the company pays for all of them.

    Where only totals can be read, nobody knows all quotas and payments: they are not in it.
    """
    agreement = known.agreement
    lines: list[str] = []
    rows = Rows(_Lines(lines))
    rows.write(*COLUMNS)
    currency, prices = plain(agreement.currency), known.prices.tolist()
    for k, member in enumerate(agreement.members):
        brings = map(repr, amounts(agreement, known.endowment[k], k).tolist())
        quota = [""] * len(prices)
        if not agreement.masked:
            quota = [repr(amount) for amount in amounts(agreement, known.quota[k], k).tolist()]
        for resource, price, own, may in zip(
            agreement.resources, prices, brings, quota, strict=True
        ):
            capacity = (plain(resource.unit), repr(resource.capacity), repr(price), currency)
            rows.write(member.name, resource.name, *capacity, own, may, "")
        if not agreement.masked:
            payment = repr(float(known.payments[k]))
            rows.write(member.name, "", "", "", "", currency, "", "", payment)
    return "".join(lines)


class _Sink(Protocol):
    def write(self, line: str, /) -> object: ...


class Rows:
    """Writes lines of CSV, so that no spreadsheet finds more cells or lines in them.

    Some split lines at semicolons and tabs too, or end them at carriage returns. A line with one of
    these has all its cells quoted, which Python alone does not do.
    """

    def __init__(self, sink: _Sink) -> None:
        self._usual = csv.writer(sink, lineterminator="\n")
        self._quoted = csv.writer(sink, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def write(self, *cells: str) -> None:
        split = any(mark in cell for cell in cells for mark in ";\t\r")
        (self._quoted if split else self._usual).writerow(cells)


class _Lines:
    """What a writer of CSV writes to, where there is no file."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def write(self, line: str) -> int:
        self._lines.append(line)
        return len(line)


_COMPUTED = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")


def plain(text: str) -> str:
    """A text that no spreadsheet computes: an apostrophe stands before one that it would.

    Also before one that begins with an apostrophe, so that to take one away gives the text again.
    For texts only: a negative number stays a number.
    """
    return f"'{text}" if text.startswith(_COMPUTED) else text
