"""The sections of the public page about quotas and payments.

All figures follow from the outcome; those of a column add up as they are shown. If only totals
can be read, no quota and no payment is here: each company computes its own and sends it to no one.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from xml.etree.ElementTree import Element

import numpy as np

from protocol.agreement.currency import money_places
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import apportion, round_to_sum
from protocol.outcome.ball_quota import expected_levy, large_levy
from protocol.outcome.outcome import Outcome, no_claims
from protocol.report.elements import Content, bar, grid, number, section, small, table
from protocol.report.format import (
    ROWS,
    amount_text,
    capacity_count,
    coins,
    decimals_of,
    fixed,
    fixed_percent,
    in_currency,
    left_out,
    titled,
)
from protocol.report.terminal import recipients

LEVY_WARNING = (
    "This is a large part of what all members can trade, at these prices. Honest answers rarely "
    "lead to that, and one member that lies can. Find out why before anyone pays."
)

_HUNDREDTHS = 10_000  # hundredths of a percent in 100 %
_QUOTA = "A quota is how much of a capacity a company may use. "
_UNUSED = (
    "They leave unused what rounding cuts off and what companies with full shares cannot take."
)


def masked_allocation(outcome: Outcome) -> Element:
    """What anyone may know about quotas and payments that only their companies know."""
    agreement = outcome.agreement
    totals = outcome.weighted_total[:ROWS].tolist()
    rows = [
        (
            titled(resource),
            number(amount_text(resource, resource.capacity)),
            number(amount_text(resource, total)),
            number(_of_capacity(total, resource.capacity)),
        )
        for resource, total in zip(agreement.resources, totals, strict=False)
    ]
    demand = "Average total demand" + ("" if agreement.privacy is None else ", with noise")
    return section(
        "The quotas and who pays whom",
        f"{_QUOTA}In this session only totals can be read. Each company computes its own quota "
        "and sends it to no one. The quota follows from the company’s own demands and from the "
        "totals, by a rule that is the same for all. " + _masked_rule(outcome),
        table(("Resource", "Capacity", demand, "Of the capacity"), rows),
        *left_out(len(rows), len(agreement.resources), "resources"),
        f"{_what_is_paid(outcome)} Each company computes its own payment and sends it to no one; "
        f"the person who moves the money sees it. {_sum_of_payments(outcome)}",
        *([] if no_claims(outcome) else [f"Claims go to {recipients(agreement)}."]),
    )


def _what_is_paid(outcome: Outcome) -> str:
    if outcome.agreement.ball and outcome.quota_risk:
        return (
            "A company pays for what it asked for in each round beyond its centre, at the prices "
            "of that round. If it asked for less, it is paid."
        )
    return (
        "A company pays if its quota is worth more than what it brings, at the prices of the "
        "outcome. If it is worth less, the company is paid."
    )


def _sum_of_payments(outcome: Outcome) -> str:
    """What all payments add up to, if only totals can be read."""
    agreement = outcome.agreement
    if not agreement.ball or not outcome.quota_risk:
        return (
            "All payments add up to zero, except for rounding: less than a hundred-millionth of "
            "what all capacities are worth."
        )
    expected = expected_levy(agreement, outcome.totals, outcome.path)
    levy = coins(agreement, expected)
    warning = f" {LEVY_WARNING}" if large_levy(agreement, outcome.prices, expected) else ""
    return (
        "Payments need not add up to zero. The person who moves the money collects "
        f"the difference, about {levy} by the public totals, in proportion to what the companies "
        f"bring. If the amount is negative, it is returned.{warning}"
    )


def _of_capacity(total: float, capacity: float) -> str:
    """A total in percent of a capacity. There is none of a joint capacity of 0 or below."""
    return fixed_percent(round(_HUNDREDTHS * total / capacity)) if capacity > 0.0 else "–"


def _masked_rule(outcome: Outcome) -> str:
    if outcome.no_trade:
        return "There is no trade: it is what the company brings."
    if outcome.agreement.privacy is None:
        return (
            "It is the company’s average demand, plus a part of what is left over, in proportion "
            "to what the company may claim. If all companies answered truthfully, the quotas of a "
            f"resource never add up to more than its capacity. {_UNUSED}"
        )
    if not outcome.quota_risk and outcome.agreement.ball:
        return (
            "The noise in the totals would be so large that nothing is traded: each quota is what "
            "the company brings."
        )
    if outcome.quota_margin is None or not outcome.quota_risk:
        return (
            "The noise in the totals is so large that demand does not count: each quota is in "
            "proportion to what the company may claim. All quotas together fill each capacity, "
            "except for rounding."
        )
    shares = float(outcome.quota_margin.pro_rata)
    partly = f"; {100.0 * shares:.0f} % of it follows what the company may claim" if shares else ""
    return (
        f"It follows the company’s average demand{partly}. Because the totals have noise, about "
        f"{100.0 * outcome.quota_margin.withheld:.0f} % of each capacity is withheld. The risk "
        "that all quotas together exceed some capacity is at most "
        f"{100.0 * outcome.quota_risk:g} %."
    )


def quotas(outcome: Outcome) -> Element:
    count = len(outcome.agreement.resources)
    return section(
        "The quotas",
        f"{_QUOTA}Every company computes all quotas itself, from the same public numbers, and "
        f"gets the same result. {_quota_rule(outcome)} If all companies stay within their "
        "quotas, no capacity is exceeded." + _floor_note(outcome),
        "A plan made at the prices alone is different. Each company makes its price plan by "
        "itself, and all price plans together may exceed a capacity. Quotas never do. The mark "
        "in a bar shows what the company brings.",
        grid([_quota_card(outcome, j) for j in range(min(count, ROWS))]),
        *left_out(min(count, ROWS), count, "resources"),
        small(
            f"Quotas are counted in ticks: {fixed(outcome.agreement.ticks, 0)} ticks make a "
            "capacity. Figures are rounded so that each column still adds up."
        ),
    )


def _floor_note(outcome: Outcome) -> str:
    """How to read bars and percentages if members have floors."""
    if not outcome.agreement.banded:
        return ""
    return (
        " Every company has at least its floor. A company with a quota below 0 brings that amount. "
        "Bars and percentages show what it has above its floor, of all that is above the floors."
    )


def _quota_rule(outcome: Outcome) -> str:
    """How quotas follow from demand, and how much of a capacity they use together."""
    if outcome.no_trade:
        return "There is no trade: each quota is what the company brings."
    if outcome.certificate is None:
        return "The quotas of a resource add up to its capacity exactly."
    if not outcome.certificate.fits:
        return (
            "Each quota is the company’s average demand. Where all companies together asked for "
            "more than there is, every demand is cut by the same percentage. The quotas of a "
            "resource never add up to more than its capacity."
        )
    return (
        "Each quota is the company’s average demand, plus a part of what is left over. The quotas "
        f"of a resource never add up to more than its capacity. {_UNUSED}"
    )


def _quota_card(outcome: Outcome, j: int) -> Element:
    agreement, resource = outcome.agreement, outcome.agreement.resources[j]
    shown = slice(min(len(agreement.resources), ROWS))
    most = max(outcome.quota[:, shown].max(), outcome.endowment[:, shown].max())
    longest = max(agreement.ticks, int(most))  # a bar of 30 % is 30 % long
    units, percents = _quota_counts(outcome, j)
    decimals = decimals_of(resource)
    columns = outcome.quota[:, j].tolist(), outcome.endowment[:, j].tolist(), units, percents
    rows: list[tuple[Content, ...]] = [
        (
            name,
            bar(ticks / longest, mark=mark / longest),
            number(fixed(unit, decimals)),
            number(fixed_percent(hundredths)),
        )
        for name, (ticks, mark, unit, hundredths) in _summed_rows(outcome, columns)
    ]
    total = "total = capacity"
    if sum(units) != capacity_count(resource) or sum(percents) != _HUNDREDTHS:
        total = f"total, of {amount_text(resource, resource.capacity)}"
    return table(
        (),
        rows,
        foot=(total, number(fixed(sum(units), decimals)), number(fixed_percent(sum(percents)))),
        caption=titled(resource),
    )


def _summed_rows(
    outcome: Outcome, columns: Sequence[Sequence[int]]
) -> list[tuple[str, tuple[int, ...]]]:
    """Each member with its cell of every column; members above `ROWS` are summed in one row."""
    names = [member.name for member in outcome.agreement.members]
    rows = list(zip(names, zip(*columns, strict=True), strict=True))
    if len(rows) > ROWS:
        rest = tuple(sum(column[ROWS:]) for column in columns)
        rows[ROWS:] = [(f"and {len(names) - ROWS} more", rest)]
    return rows


def quota_texts(outcome: Outcome, row: int, ticks: int, j: int) -> tuple[str, str]:
    """A member's quota as every page shows it, in units and as a percentage.

    If only its company knows the quota, it is never rounded up.
    """
    agreement, resource = outcome.agreement, outcome.agreement.resources[j]
    if agreement.masked:
        units = ticks * capacity_count(resource) // agreement.ticks
        hundredths = ticks * _HUNDREDTHS // agreement.ticks
    else:
        units, hundredths = (counts[row] for counts in _quota_counts(outcome, j))
    return fixed(units, decimals_of(resource)), fixed_percent(hundredths)


def _quota_counts(outcome: Outcome, j: int) -> tuple[list[int], list[int]]:
    """Every member's quota of a resource: in its last decimal, and in hundredths of a percent.

    With floors, units include the floor and percentages are above it.
    Guarantee: each list adds up to what all quotas are together, as that is shown.
    """
    agreement, ticks = outcome.agreement, outcome.quota[:, j].tolist()
    used = Fraction(sum(ticks), agreement.ticks)
    percents = apportion(round(used * _HUNDREDTHS), ticks) if used else [0] * len(ticks)
    if agreement.banded:
        return _banded_units(outcome, j, ticks), percents
    total = round(used * capacity_count(agreement.resources[j]))
    return apportion(total, ticks) if used else [0] * len(ticks), percents


def _banded_units(outcome: Outcome, j: int, ticks: list[int]) -> list[int]:
    """Floor plus ticks in the last decimal, rounded by largest remainders."""
    agreement = outcome.agreement
    unit = Fraction(agreement.above_floors(j)) / agreement.ticks
    scale = 10 ** decimals_of(agreement.resources[j])
    exact = [
        (Fraction(floor) + tick * unit) * scale
        for floor, tick in zip(quantities(agreement).floor[:, j].tolist(), ticks, strict=True)
    ]
    return round_to_sum(exact, round(sum(exact)))


def payments(outcome: Outcome) -> Element:
    agreement = outcome.agreement
    endowment, paid, decimals = payment_counts(outcome)
    columns = endowment, [e + p for e, p in zip(endowment, paid, strict=True)], paid

    def written(counts: Sequence[int]) -> list[Element]:
        return [number(fixed(count, decimals)) for count in counts]

    headings = ("What it brings is worth", "Its quota is worth", "It pays")
    return section(
        "Who pays whom",
        "A company pays if its quota is worth more than what it brings, at the prices of the "
        "outcome. If it is worth less, the company is paid: its payment is below 0. All "
        "payments add up to zero.",
        table(
            ("Company", *(in_currency(agreement, heading) for heading in headings)),
            [(name, *written(counts)) for name, counts in _summed_rows(outcome, columns)],
            foot=("total", *written([sum(column) for column in columns])),
        ),
        small(_payment_note(outcome)),
    )


def _payment_note(outcome: Outcome) -> str:
    """How to read the figures of the payments."""
    text = "Figures are rounded so that rows and columns still add up."
    if not outcome.agreement.currency:
        text += (
            " The agreement names no currency: amounts are in the unit of the companies’ "
            "objectives and of the worths in the agreement."
        )
    used = outcome.quota.sum(axis=0) / outcome.agreement.ticks
    if bool((np.rint(used * _HUNDREDTHS) < _HUNDREDTHS).any()):
        text += (
            " Where the quotas leave a part of a capacity unused, every company counts as having "
            "brought less, in the same proportion."
        )
    return text


def money_decimals(amounts: Sequence[float], agreement: Agreement) -> int:
    """Those of the agreed currency.

    Without a currency that people pay in: two, and more if the largest of the amounts would have
    fewer than four digits.
    """
    places = money_places(agreement.currency)
    if places is not None:
        return places
    largest = max(map(abs, amounts))
    return min(max(2, 3 - math.floor(math.log10(largest))), 15) if largest > 0.0 else 2


def payment_counts(outcome: Outcome) -> tuple[list[int], list[int], int]:
    """The value of each endowment and each payment, in units of the last decimal; the decimals.

    Guarantee: payments as they are shown add up to zero, and each is off by less than one unit.
    """
    agreement = outcome.agreement
    decimals = money_decimals(outcome.payments.tolist(), agreement)
    unit = 10**decimals
    paid = round_to_sum([Fraction(payment) * unit for payment in outcome.payments.tolist()])
    values = [Fraction(y) for y in (outcome.prices * quantities(agreement).capacity).tolist()]
    used = [Fraction(total, agreement.ticks) for total in outcome.quota.sum(axis=0).tolist()]
    worth = [
        sum(y * u * e for y, u, e in zip(values, used, row, strict=True))
        * Fraction(unit, agreement.ticks)
        for row in outcome.endowment.tolist()
    ]
    return [round(value) for value in worth], paid, decimals
