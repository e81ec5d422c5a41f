"""The part of the public page about who gets what of each capacity, and who pays whom for it.

All figures follow from the outcome; those of a column add up as they are shown. Where only totals
can be read no quota and no payment is here: each company works out its own, and sends it to nobody.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from xml.etree.ElementTree import Element

import numpy as np

from protocol.agreement.quantities import quantities
from protocol.numeric import apportion, balance_to_zero
from protocol.outcome.outcome import Outcome
from protocol.report.format import (
    ROWS,
    amount_text,
    decimals_of,
    left_out,
    percent,
    titled,
    whole_units,
)
from protocol.report.html import (
    bar,
    element,
    fixed,
    grid,
    number,
    paragraph,
    section,
    table,
)

_HUNDREDTHS = 10_000  # of a percent, in a whole


def own_parts(known: Outcome) -> Element:
    """What everybody may know of quotas and payments that only their companies know."""
    agreement = known.agreement
    shown = min(len(agreement.resources), ROWS)
    rows = []
    asked = known.weighted_total.tolist()
    for resource, total in zip(agreement.resources[:shown], asked, strict=False):
        rows.append(
            (
                titled(resource),
                number(amount_text(resource, resource.capacity)),
                number(amount_text(resource, total)),
                number(percent(round(_HUNDREDTHS * total / resource.capacity))),
            )
        )
    asking = "Asked for by all together" + ("" if agreement.privacy is None else ", with noise")
    return section(
        "The quotas and who pays whom",
        paragraph(
            "A quota is the part of a capacity that a company may use. Only totals can be read in "
            "this session, so that each company works out its own quota and sends it to nobody. It "
            "follows from what the company asked for itself and from the totals, by a rule that is "
            "the same for all. " + _rule_in_words(known)
        ),
        table(("Resource", "Capacity", asking, "Of the capacity"), rows),
        *left_out(shown, len(agreement.resources), "resources"),
        paragraph(
            "For what its quota is worth above what it brings a company pays at the prices of the "
            "outcome; below 0 it is paid. Each works out its own payment and sends it to nobody; "
            "the person who moves the money sees it. All of them together are zero, but for "
            "rounding: less than a hundred-millionth of what all capacities are worth."
            # at most K / UNITS
        ),
    )


def _rule_in_words(known: Outcome) -> str:
    if known.agreement.privacy is None:
        return (
            "It is what the company asked for on average, and a part of what is left over in "
            "proportion to what it may claim. If all companies answered truly, the quotas of a "
            "resource never add up to more than its capacity; they leave what rounding takes, and "
            "what shares that are full cannot take."
        )
    if known.quota_margin is None or not known.quota_risk:
        return (
            "The noise in the totals is so large that it is in proportion to what the company may "
            "claim, whatever was asked for; all quotas together fill each capacity, but for "
            "rounding."
        )
    shares = float(known.quota_margin.pro_rata)
    partly = f", and {100.0 * shares:.0f} % of it by what it may claim" if shares else ""
    return (
        "It goes by what the company asked for on average"
        f"{partly}. Because the totals have noise, about "
        f"{100.0 * known.quota_margin.withheld:.0f} % of each capacity is kept back. All quotas "
        f"together exceed some capacity with a risk of at most {100.0 * known.quota_risk:g} %."
    )


def own_quota_texts(known: Outcome, ticks: int, j: int) -> tuple[str, str]:
    """A quota that only its company knows, in units and as a percentage, and never rounded up."""
    resource, N = known.agreement.resources[j], known.agreement.ticks
    units = ticks * whole_units(resource) // N
    return fixed(units, decimals_of(resource)), percent(ticks * _HUNDREDTHS // N)


def quotas(known: Outcome) -> Element:
    count = len(known.agreement.resources)
    return section(
        "The quotas",
        paragraph(
            "A quota is the part of a capacity that a company may use. Every company computes all "
            "of them itself, from the numbers that everybody has heard, and gets the same. "
            + _filling(known)
            + " If all stay within theirs, no capacity is ever overrun."
            + _floors(known)
        ),
        paragraph(
            "That is what sets a quota apart from a plan made at the prices alone. Each company "
            "makes its price plan by itself, and all price plans together may exceed a capacity. "
            "Quotas never do. The mark in a bar is what the company brings."
        ),
        grid([_quota_card(known, j) for j in range(min(count, ROWS))]),
        *left_out(min(count, ROWS), count, "resources"),
        element(
            "p",
            f"Quotas are counted in ticks, {fixed(known.agreement.ticks, 0)} to a capacity. "
            "Figures are rounded so that each column still adds up.",
            class_="small",
        ),
    )


def _floors(known: Outcome) -> str:
    """How bars and percentages are to be read where members have floors."""
    if not known.agreement.banded:
        return ""
    return (
        " Every company has its floor in any case, and one below 0 brings that much; bars and "
        "percentages are what it has above its floor, of all that is above the floors."
    )


def _filling(known: Outcome) -> str:
    """How much of a capacity the quotas are, together."""
    if known.certificate is None:
        return "The quotas of a resource add up to its capacity exactly."
    if not known.certificate.fits:
        return (
            "Each is what the company asked for on average, cut by the same part where all "
            "together asked for more than there is. The quotas of a resource never add up to more "
            "than its capacity."
        )
    return (
        "Each is what the company asked for on average, and a part of what is left over. The "
        "quotas of a resource never add up to more than its capacity; they leave what rounding "
        "takes, and what shares that are full cannot take."
    )


def _quota_card(known: Outcome, j: int) -> Element:
    agreement, resource = known.agreement, known.agreement.resources[j]
    shown = slice(min(len(agreement.resources), ROWS))
    longest = int(max(known.quota[:, shown].max(), known.endowment[:, shown].max()))
    parts, percents = _quota_counts(known, j)
    decimals = decimals_of(resource)
    names = [m.name for m in agreement.members]
    ticks, brought = known.quota[:, j].tolist(), known.endowment[:, j].tolist()
    columns = [[*column[:ROWS], sum(column[ROWS:])] for column in (ticks, brought, parts, percents)]
    names = [*names[:ROWS], f"and {len(names) - ROWS} more"]
    rows = [
        (
            name,
            bar(tick / longest, mark=mark / longest),
            number(fixed(part, decimals)),
            number(percent(hundredths)),
        )
        for name, tick, mark, part, hundredths in zip(names, *columns, strict=False)
    ]
    if len(agreement.members) <= ROWS:
        rows.pop()
    full = sum(parts) == whole_units(resource) and sum(percents) == _HUNDREDTHS
    longest = longest or 1
    total = "all together = capacity"
    if not full:
        total = f"all together, of {amount_text(resource, resource.capacity)}"
    return table(
        (),
        rows,
        foot=(total, number(fixed(sum(parts), decimals)), number(percent(sum(percents)))),
        caption=titled(resource),
    )


def quota_texts(known: Outcome, row: int, j: int) -> tuple[str, str]:
    """A member's quota of a resource as every page shows it: in units and as a percentage."""
    parts, percents = _quota_counts(known, j)
    return fixed(parts[row], decimals_of(known.agreement.resources[j])), percent(percents[row])


def _quota_counts(known: Outcome, j: int) -> tuple[list[int], list[int]]:
    """Every member's quota of a resource: in its last decimal, and in hundredths of a percent.

    Guarantee: each list adds up to what all quotas are together, as that is shown.
    """
    resource, ticks = known.agreement.resources[j], known.quota[:, j].tolist()
    used = Fraction(sum(ticks), known.agreement.ticks)
    if known.agreement.banded:
        return _banded_counts(known, j)
    if not used:
        return [0] * len(ticks), [0] * len(ticks)
    wholes = (round(used * whole_units(resource)), round(used * _HUNDREDTHS))
    units, percents = (apportion(whole, ticks) for whole in wholes)
    return units, percents


def _banded_counts(known: Outcome, j: int) -> tuple[list[int], list[int]]:
    """The same where members have floors: with them in units, above them as a percentage."""
    agreement, ticks = known.agreement, known.quota[:, j].tolist()
    unit = Fraction(agreement.above_floors(j)) / agreement.ticks
    scale = 10 ** decimals_of(agreement.resources[j])
    exact = [
        (Fraction(floor) + tick * unit) * scale
        for floor, tick in zip(quantities(agreement).floor[:, j].tolist(), ticks, strict=True)
    ]
    whole = [math.floor(part) for part in exact]
    order = sorted(range(len(whole)), key=lambda k: (whole[k] - exact[k], k))
    for k in order[: round(sum(exact)) - sum(whole)]:
        whole[k] += 1
    hundredths = round(Fraction(sum(ticks), agreement.ticks) * _HUNDREDTHS)
    return whole, apportion(hundredths, ticks) if sum(ticks) else [0] * len(ticks)


def payments(known: Outcome) -> Element:
    agreement = known.agreement
    brought, paid, decimals = payment_counts(known)
    quota = [e + p for e, p in zip(brought, paid, strict=True)]
    columns = [[*column[:ROWS], sum(column[ROWS:])] for column in (brought, quota, paid)]
    names = [*(m.name for m in agreement.members[:ROWS]), f"and {len(paid) - ROWS} more"]
    rows = [
        (name, *(number(fixed(count, decimals)) for count in counts))
        for name, *counts in zip(names, *columns, strict=False)
    ]
    if len(paid) <= ROWS:
        rows.pop()
    unit = f", {agreement.currency}" if agreement.currency else ""
    totals = [number(fixed(sum(column), decimals)) for column in columns]
    return section(
        "Who pays whom",
        paragraph(
            "A company pays for what its quota is worth above what it brings, at the prices of the "
            "outcome; below 0 it is paid. What is paid and what is got add up to zero."
        ),
        table(
            ("Company", f"What it brings is worth{unit}", f"Its quota{unit}", f"It pays{unit}"),
            rows,
            foot=("all together", *totals),
        ),
        element("p", _small_print(known), class_="small"),
    )


def _small_print(known: Outcome) -> str:
    """How the figures of the payments are to be read."""
    text = "Figures are rounded so that rows and columns still add up."
    if not known.agreement.currency:
        text += " The agreement names no currency: money is what worths and objectives are in."
    used = known.quota.sum(axis=0) / known.agreement.ticks
    if bool((np.rint(used * _HUNDREDTHS) < _HUNDREDTHS).any()):
        text += (
            " Of a capacity that the quotas leave in part, everybody is taken to have brought "
            "that much less."
        )
    return text


def money_decimals(amounts: Sequence[float]) -> int:
    """Two, and more where the largest of the amounts would not have four digits."""
    largest = max(map(abs, amounts))
    return min(max(2, 3 - math.floor(math.log10(largest))), 15) if largest > 0.0 else 2


def payment_counts(known: Outcome) -> tuple[list[int], list[int], int]:
    """What each brings is worth and what it pays, counted in the last of so many decimals.

    Guarantee: payments as they are shown add up to zero, and each is off by less than one.
    """
    decimals = money_decimals(known.payments.tolist())
    unit, ticks = 10**decimals, known.agreement.ticks
    paid = balance_to_zero([Fraction(payment) * unit for payment in known.payments.tolist()])
    values = [Fraction(y) for y in (known.prices * quantities(known.agreement).capacity).tolist()]
    used = [Fraction(total, ticks) for total in known.quota.sum(axis=0).tolist()]
    brought = [
        sum(y * u * e for y, u, e in zip(values, used, row, strict=True)) * Fraction(unit, ticks)
        for row in known.endowment.tolist()
    ]
    return [round(value) for value in brought], paid, decimals
