"""The public result of a session as a table for spreadsheets.

Every number is the one that the outcome has, to the last digit. Public numbers only.
"""

import csv

from protocol.outcome import Outcome, amounts

COLUMNS = (
    "company", "resource", "unit", "capacity", "price", "currency", "brings", "quota", "payment",
)  # fmt: skip


def public_csv(known: Outcome) -> str:
    """One line for each company and resource, and one for what the company pays for all of them."""
    agreement = known.agreement
    lines: list[str] = []
    rows = csv.writer(_Lines(lines), lineterminator="\n")
    rows.writerow(COLUMNS)
    currency, prices = _plain(agreement.currency), known.prices.tolist()
    companies = zip(
        agreement.members, known.endowment, known.quota, known.payments.tolist(), strict=True
    )
    for member, endowment, quota, payment in companies:
        for resource, price, brings, may in zip(
            agreement.resources,
            prices,
            amounts(agreement, endowment).tolist(),
            amounts(agreement, quota).tolist(),
            strict=True,
        ):
            capacity = (_plain(resource.unit), repr(resource.capacity), repr(price), currency)
            rows.writerow((member.name, resource.name, *capacity, repr(brings), repr(may), ""))
        rows.writerow((member.name, "", "", "", "", currency, "", "", repr(payment)))
    return "".join(lines)


class _Lines:
    """What a writer of CSV writes to, where there is no file."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def write(self, line: str) -> int:
        self._lines.append(line)
        return len(line)


def _plain(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text
