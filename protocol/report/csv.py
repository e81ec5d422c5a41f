"""The public result of a session as a table for spreadsheets.

Every number is that of the outcome, to the last digit. Public numbers only.
"""

import csv

from protocol.agreement.quantities import amounts
from protocol.outcome.outcome import Outcome

COLUMNS = (
    "company", "resource", "unit", "capacity", "price", "currency", "brings", "quota", "payment",
)  # fmt: skip


def public_csv(outcome: Outcome) -> str:
    """One line for each company and resource, and one for each company's payment.

    If only totals can be read, no one knows all quotas and payments: they are left out.
    """
    agreement = outcome.agreement
    rows = Rows()
    rows.add(*COLUMNS)
    currency, prices = plain(agreement.currency), outcome.prices.tolist()
    for k, member in enumerate(agreement.members):
        brings = map(repr, amounts(agreement, outcome.endowment[k], k).tolist())
        quota = [""] * len(prices)
        if not agreement.masked:
            quota = [repr(amount) for amount in amounts(agreement, outcome.quota[k], k).tolist()]
        for resource, price, endowment, own in zip(
            agreement.resources, prices, brings, quota, strict=True
        ):
            capacity = (plain(resource.unit), repr(resource.capacity), repr(price), currency)
            rows.add(member.name, resource.name, *capacity, endowment, own, "")
        if not agreement.masked:
            payment = repr(float(outcome.payments[k]))
            rows.add(member.name, "", "", "", "", currency, "", "", payment)
    return "".join(rows)


class Rows(list[str]):
    """Lines of CSV in which no spreadsheet finds more cells or lines.

    Some spreadsheets also split at semicolons and tabs, or end a line at a carriage return.
    All cells of a line with one of these are quoted, which Python alone does not do.
    """

    def __init__(self) -> None:
        super().__init__()
        self._usual = csv.writer(self, lineterminator="\n")
        self._quoted = csv.writer(self, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def add(self, *cells: str) -> None:
        splits = any(mark in cell for cell in cells for mark in ";\t\r")
        (self._quoted if splits else self._usual).writerow(cells)

    def write(self, line: str) -> None:
        """For `csv.writer`: files and `io` are not allowed here."""
        self.append(line)


_COMPUTED = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")


def plain(text: str) -> str:
    """A text that no spreadsheet computes: an apostrophe stands before one that it would.

    Also before a text that begins with an apostrophe, so that removing one restores the text.
    For texts only: a negative number stays a number.
    """
    return f"'{text}" if text.startswith(_COMPUTED) else text
