"""The public page about a session: what anybody with the agreement and a transcript can know.

Everything on it is recomputed from signed releases and costs no privacy, so that it can be
handed to anybody. No private number may ever come here.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from xml.etree.ElementTree import Element

import numpy as np

from protocol.agreement import TICKS, Agreement, Resource
from protocol.arrays import Floats
from protocol.caps import apportion
from protocol.forecast import forecast, statement
from protocol.outcome import Outcome
from protocol.pages.page import (
    Content,
    Line,
    bar,
    callout,
    chart,
    code,
    element,
    facts,
    figure,
    fixed,
    grid,
    number,
    page,
    paragraph,
    section,
    table,
)

CHARTS = 8
"""Resources that are drawn. The tables name more of them."""

ROWS = 40
"""Rows of a table. What the others have is one more row, so that totals stay totals."""

WEAK = 10.0
"""Above this ε the odds may shift by a factor of over 20,000, and the page says what that means."""


def public_page(known: Outcome) -> str:
    """The page for everybody."""
    title = f"{known.agreement.session}: public report"
    return page(title, header(known, "Public report of a session"), *public_sections(known))


def header(known: Outcome, eyebrow: str) -> Element:
    """What the session was, how it stands, and what nobody may overlook about it."""
    agreement, done = known.agreement, known.rounds
    p = agreement.privacy
    budget: tuple[Content, ...] = ("none",)
    if p is not None and not agreement.rehearsal:
        budget = (number(f"ε = {p.epsilon:g},"), " ", number(f"δ = {p.delta:g}"))
    members, resources = len(agreement.members), len(agreement.resources)
    made = element(
        "header",
        element("p", eyebrow, class_="eyebrow"),
        element("h1", agreement.session),
        element(
            "p",
            f"{members} companies share {_counted(resources, 'capacity', 'capacities')} without "
            "showing each other their books.",
            class_="lead",
        ),
        facts(
            ("Companies", str(members)),
            ("Shared capacities", str(resources)),
            ("Rounds", f"{done} of {agreement.rounds}"),
            ("Privacy budget of each", element("span", *budget)),
            ("State", "sealed by all" if known.sealed else "not sealed"),
        ),
    )
    if not known.sealed:
        made.append(
            callout(
                f"This session is not finished: {done} of {agreement.rounds} rounds are closed and "
                "the members have not sealed it. Prices and quotas below are where it stands. They "
                "are not an outcome, and nobody is bound by them."
            )
        )
    if agreement.rehearsal:
        made.append(callout("This is a rehearsal: invented data, repeatable noise, no privacy."))
    return made


def public_sections(known: Outcome) -> list[Element]:
    """All that the session says to everybody, in the order in which people ask."""
    return [_terms(known), _quotas(known), *_courses(known), _privacy(known), _proof(known)]


def _terms(known: Outcome) -> Element:
    agreement = known.agreement
    final, average = known.final_prices, known.average_prices
    shown = zip(agreement.resources[:ROWS], final.tolist(), average.tolist(), strict=False)
    rows = [
        (titled(r), number(amount_text(r, r.capacity)), *(number(figure(p)) for p in prices))
        for r, *prices in shown
    ]
    best = agreement.objective_limit is not None
    names = ("Resource", "Capacity", "Final price per unit", "Averaged price per unit")
    return section(
        "The capacities and their prices",
        paragraph(
            "A price says how scarce a capacity is: what one more unit of it would be worth to the "
            "companies together, as far as the session could find out. The final price is that of "
            + ("the round with the best noisy objective" if best else "the last round")
            + ", the averaged one the mean over the last half of the rounds."
        ),
        table(names, rows),
        *left_out(len(rows), len(agreement.resources), "resources"),
        table(("Company", "May claim, of each capacity"), _members(agreement), kind="narrow"),
    )


def _members(agreement: Agreement) -> list[tuple[str, str]]:
    rows = []
    for member in agreement.members[:ROWS]:
        least, most = (f"{100.0 * bound(member.share):.4g} %" for bound in (min, max))
        limits = most if least == most else f"{least} to {most}"
        rows.append((member.name, f"at most {limits}"))
    if len(agreement.members) > ROWS:
        rows.append((f"and {len(agreement.members) - ROWS} more", ""))
    return rows


def _quotas(known: Outcome) -> Element:
    count = len(known.agreement.resources)
    return section(
        "The quotas",
        paragraph(
            "A quota is the part of a capacity that a company may use. Every company computes all "
            "of them itself, from the numbers that everybody has heard, and gets the same. "
            "The quotas of a resource add up to its capacity exactly: if all stay within theirs, "
            "no capacity is ever overrun."
        ),
        paragraph(
            "That is what sets a quota apart from a plan made at the final prices. Each company "
            "makes its price plan alone, and all price plans together may exceed a capacity. "
            "Quotas never do."
        ),
        grid([_quota_card(known, j) for j in range(min(count, ROWS))]),
        *left_out(min(count, ROWS), count, "resources"),
        element(
            "p",
            f"Quotas are counted in ticks, {fixed(TICKS, 0)} to a capacity. Figures are rounded so "
            "that each column still adds up.",
            class_="small",
        ),
    )


def _quota_card(known: Outcome, j: int) -> Element:
    agreement, resource = known.agreement, known.agreement.resources[j]
    longest = int(known.quota[:, : min(len(agreement.resources), ROWS)].max())
    parts, percents = _quota_counts(known, j)
    decimals = _decimals(resource)
    names, ticks = [m.name for m in agreement.members], known.quota[:, j].tolist()
    columns = [[*column[:ROWS], sum(column[ROWS:])] for column in (ticks, parts, percents)]
    names = [*names[:ROWS], f"and {len(names) - ROWS} more"]
    rows = [
        (name, bar(tick / longest), number(fixed(part, decimals)), number(_percent(percent)))
        for name, tick, part, percent in zip(names, *columns, strict=False)
    ]
    if len(agreement.members) <= ROWS:
        rows.pop()
    total = number(fixed(sum(parts), decimals))
    return table(
        (),
        rows,
        foot=("all together = capacity", total, number(_percent(sum(percents)))),
        caption=titled(resource),
    )


def quota_texts(known: Outcome, row: int, j: int) -> tuple[str, str]:
    """A member's quota of a resource as every page shows it: in units and as a percentage."""
    parts, percents = _quota_counts(known, j)
    return fixed(parts[row], _decimals(known.agreement.resources[j])), _percent(percents[row])


def _quota_counts(known: Outcome, j: int) -> tuple[list[int], list[int]]:
    """Every member's quota of a resource: in its last decimal, and in hundredths of a percent.

    Guarantee: each list adds up to the whole capacity as it is shown.
    """
    resource, ticks = known.agreement.resources[j], known.quota[:, j].tolist()
    whole = round(Fraction(resource.capacity) * 10 ** _decimals(resource))
    return apportion(whole, ticks), apportion(10_000, ticks)


def _courses(known: Outcome) -> list[Element]:
    resources = known.agreement.resources
    if not len(known.overrun):
        return [section("The rounds", paragraph("No round has been closed yet."))]
    shown = range(min(len(resources), CHARTS))
    more = left_out(len(shown), len(resources), "resources")
    noisy, window = known.agreement.privacy is not None, max(1, len(known.overrun) // 10)
    thin = f" The thin line is each round, the thick one the mean of {window} rounds."
    return [
        section(
            "How the prices moved",
            paragraph(
                "Each round, every company answers the prices with what it would take"
                + (", plus noise. " if noisy else ". ")
                + "The price of what is wanted too much rises, that of what is left over falls."
            ),
            grid([_price_chart(known, j) for j in shown]),
            *more,
        ),
        section(
            "What was asked for, against the capacity",
            paragraph(
                f"The {'noisy total' if noisy else 'total'} of all companies in each round, in "
                "percent above or below the capacity." + (thin if window > 1 else "")
            ),
            grid([_overrun_chart(known, j, window) for j in shown]),
            *more,
        ),
    ]


def _price_chart(known: Outcome, j: int) -> Element:
    resource = known.agreement.resources[j]
    note = f"final price {figure(float(known.final_prices[j]))} per {resource.unit or 'unit'}"
    return chart(resource.name, note, [Line(known.prices[:, j].tolist())], first=0)


def _overrun_chart(known: Outcome, j: int, window: int) -> Element:
    values = 100.0 * known.overrun[:, j]
    lines = [Line(values.tolist())]
    if window > 1:
        lines = [Line(values.tolist(), "raw"), Line(trailing_mean(values, window).tolist())]
    name = known.agreement.resources[j].name
    return chart(name, _average_note(known, j), lines, first=1, suffix=" %", level="capacity")


def _average_note(known: Outcome, j: int) -> str:
    """How far off the capacity the rounds were on average that the quota rests on."""
    count = known.position.counted
    if not count:
        return "no average yet"
    mean, noise = known.average
    off = 100.0 * (math.fsum(mean[:, j]) / TICKS - 1.0)
    spread = 100.0 * math.sqrt(math.fsum(noise[:, j] ** 2)) / TICKS
    sign = "+" if off > 0.0 else ""
    note = f"mean of {_counted(count, 'round', 'rounds')}: {sign}{figure(off, digits=2)}\u00a0%"
    return f"{note}, noise ±{figure(spread, digits=2)}\u00a0%" if spread else note


def trailing_mean(values: Floats, window: int) -> Floats:
    """For each round the mean of the last `window` ones, or of as many as there were."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - window, 0)
    means: Floats = (sums[ends] - sums[begins]) / (ends - begins)
    return means


def _privacy(known: Outcome) -> Element:
    return section(
        "Privacy",
        paragraph(element("strong", "The guarantee"), f" — {statement(known.agreement)}."),
        *_plain_words(known.agreement),
        paragraph(str(forecast(known.agreement)["verdict"])),
    )


def _plain_words(agreement: Agreement) -> list[Element]:
    if agreement.rehearsal or agreement.privacy is None:
        return [
            paragraph(
                "In plain words: nothing here hides a company’s answers from the others. Whatever "
                "its data has to do with them can be learned."
            )
        ]
    epsilon, delta = agreement.privacy.epsilon, agreement.privacy.delta
    weak = " So large a factor promises next to nothing." if epsilon > WEAK else ""
    return [
        paragraph(
            "In plain words: all the others together, with whatever else they know, learn only "
            "so much about a company’s data. Their odds between any two data sets that it might "
            f"have shift by a factor of at most {figure(math.exp(epsilon), digits=2)}, which is "
            f"e to the power of ε, but for a chance of about {delta:g}.{weak}"
        ),
        paragraph(
            "It does not hide that a company took part, nor what it says or does outside of the "
            "session. The prices and quotas on this page are computed from the noisy numbers "
            "alone, so that reading it, or sending it on, costs no further privacy."
        ),
    ]


def _proof(known: Outcome) -> Element:
    return section(
        "Check it yourself",
        paragraph(
            "This page proves nothing by itself. With the agreement and the transcript anybody can "
            "check every signature and recompute every price and quota; one changed byte is found. "
            "The digest and the head that this command prints must be these:"
        ),
        element(
            "pre", code("protocol audit session.transcript ", number("--agreement agreement.toml"))
        ),
        element("h3", "Digest of the agreement"),
        paragraph(code(known.agreement.digest.hex())),
        element("h3", f"Common head after {known.rounds} rounds"),
        paragraph(code(known.position.head.hex())),
    )


def titled(resource: Resource) -> Element:
    """A resource and the unit that it is counted in."""
    unit = element("span", f" in {resource.unit}") if resource.unit else ""
    return element("div", resource.name, unit)


def amount_text(resource: Resource, amount: float) -> str:
    """An amount of a resource, to as many decimals as its capacity."""
    decimals = _decimals(resource)
    return fixed(round(Fraction(amount) * 10**decimals), decimals)


def _decimals(resource: Resource) -> int:
    """So many that the last one is at most a ten-thousandth of the capacity."""
    return max(0, 4 - math.floor(math.log10(resource.capacity)))


def _percent(hundredths: int) -> str:
    return f"{fixed(hundredths, 2)} %"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def left_out(
    shown: int, count: int, what: str, where: str = "protocol audit --json"
) -> Sequence[Element]:
    """Says so where not all are shown, and where the others are."""
    if shown >= count:
        return ()
    text = f"The first {shown} of {count} {what} are shown; {where} has all."
    return (element("p", text, class_="small"),)
