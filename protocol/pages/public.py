"""The public page about a session: what anybody with the agreement and a transcript can know.

Everything on it is recomputed from signed releases and costs no privacy, so that it can be
handed to anybody. No private number may ever come here.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from xml.etree.ElementTree import Element

import numpy as np

from protocol.agreement import Agreement, Resource
from protocol.arrays import Floats
from protocol.caps import apportion
from protocol.forecast import statement, verdict
from protocol.outcome import Outcome
from protocol.pages.certificate import certificate_figures, certified, money
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
from protocol.payments import balanced

CHARTS = 8
"""Resources that are drawn. The tables name more of them."""

ROWS = 40
"""Rows of a table. What the others have is one more row, so that totals stay totals."""

_HUNDREDTHS = 10_000  # of a percent, in a whole

WEAK = 10.0
"""Above this ε the odds may shift by a factor of over 20,000, and the page says what that means."""


def public_page(known: Outcome) -> str:
    """The page for everybody."""
    title = f"{known.agreement.session}: public report"
    top = header(known, "Public report of a session", *summary(known))
    return page(title, top, *public_sections(known))


def summary(known: Outcome) -> list[Element]:
    """What the session was, and how it stands."""
    agreement = known.agreement
    p = agreement.privacy
    budget: tuple[Content, ...] = ("none",)
    if p is not None and not agreement.rehearsal:
        budget = (number(f"ε = {p.epsilon:g},"), " ", number(f"δ = {p.delta:g}"))
    members, resources = len(agreement.members), len(agreement.resources)
    told = "numbers with noise"
    if p is None:
        told = "what it would take at the prices asked"
        told += "" if agreement.objective_limit is None else ", and what that would earn"
    rounds = f"{known.rounds} of {agreement.rounds}"
    return [
        element(
            "p",
            f"{members} companies share {_counted(resources, 'capacity', 'capacities')}. Of its "
            f"books each has told the others nothing but {told}.",
            class_="lead",
        ),
        facts(
            ("Companies", str(members)),
            ("Shared capacities", str(resources)),
            ("Rounds", f"{rounds}, ended by itself" if known.ended_by_itself else rounds),
            ("Privacy budget of each", element("span", *budget)),
            ("State", "sealed by all" if known.sealed else "not sealed"),
        ),
    ]


def header(known: Outcome, eyebrow: str, *content: Content) -> Element:
    """Which session it was, and what nobody may overlook about it."""
    agreement, done = known.agreement, known.rounds
    made = element(
        "header",
        element("p", eyebrow, class_="eyebrow"),
        element("h1", agreement.session),
        *content,
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
        noise = "no noise" if agreement.privacy is None else "repeatable noise"
        made.append(callout(f"This is a rehearsal: invented data, {noise}, no privacy."))
    return made


def public_sections(known: Outcome) -> list[Element]:
    """All that the session says to everybody, in the order in which people ask."""
    return [
        _terms(known),
        _certificate(known),
        _quotas(known),
        _payments(known),
        *_courses(known),
        _privacy(known),
        _proof(known),
    ]


def _terms(known: Outcome) -> Element:
    agreement = known.agreement
    shown = zip(agreement.resources[:ROWS], known.prices.tolist(), strict=False)
    rows = [
        (titled(r), number(amount_text(r, r.capacity)), _price(agreement, r, price))
        for r, price in shown
    ]
    names = ("Resource", "Capacity", "Price")
    return section(
        "The capacities and their prices",
        paragraph(
            "A price says how scarce a capacity is: what one more unit of it would be worth to the "
            "companies together, as far as the session could find out. It is " + _meaning(known)
        ),
        table(names, rows),
        *left_out(len(rows), len(agreement.resources), "resources"),
        table(("Company", "May claim", "Brings, of each capacity"), _members(known), kind="narrow"),
        element("p", _brought(agreement), class_="small"),
    )


def _price(agreement: Agreement, resource: Resource, price: float) -> Element:
    amount = number(money(agreement, figure(price)))
    return element("span", amount, f" per {resource.unit or 'unit'}")


def _brought(agreement: Agreement) -> str:
    """Where it is from that a company brings so much."""
    said = "What a company brings is what it would have without the others"
    if agreement.members[0].endowment:
        return f"{said}, as the agreement says."
    return (
        f"{said}. The agreement does not say more, so it is in proportion to what each may claim."
    )


def _meaning(known: Outcome) -> str:
    """Of which rounds the prices of the outcome are."""
    if known.certificate is not None:
        return "the average over the rounds, weighed so that it proves most."
    if known.position.best is not None:
        return "that of the round with the best noisy objective."
    if known.position.tail_count:
        return "the mean over the last half of the rounds."
    return "where the rounds have come to so far."


def _members(known: Outcome) -> list[tuple[str, str, str]]:
    agreement = known.agreement
    rows = []
    for member, ticks in zip(agreement.members[:ROWS], known.endowment.tolist(), strict=False):
        brings = _range([tick / agreement.ticks for tick in ticks])
        rows.append((member.name, f"at most {_range(member.share)}", brings))
    if len(agreement.members) > ROWS:
        rows.append((f"and {len(agreement.members) - ROWS} more", "", ""))
    return rows


def _range(parts: Sequence[float]) -> str:
    least, most = (f"{100.0 * bound(parts):.4g} %" for bound in (min, max))
    return most if least == most else f"{least} to {most}"


def _certificate(known: Outcome) -> Element:
    figures = certificate_figures(known)
    made = section(
        "How good the outcome is, at least",
        element("p", certified(known.agreement, figures, write=figure), class_="lead"),
    )
    if figures is None or known.certificate is None:
        return made
    made.append(
        paragraph(
            "It is computed from the totals of the rounds alone, by everybody alike, and nobody’s "
            "objective is needed for it. It rests on every company having answered all prices "
            "with a best plan of its own, which nobody but itself can know."
        )
    )
    if not figures["fits"]:
        most = money(known.agreement, figure(figures["money"]))
        made.append(
            paragraph(
                f"Of the prices this much is known: if no best price is above those that the "
                f"rounds have searched, what they promise all companies together is at most {most} "
                "more than can be had."
            )
        )
    return made


def _quotas(known: Outcome) -> Element:
    count = len(known.agreement.resources)
    return section(
        "The quotas",
        paragraph(
            "A quota is the part of a capacity that a company may use. Every company computes all "
            "of them itself, from the numbers that everybody has heard, and gets the same. "
            + _filling(known)
            + " If all stay within theirs, no capacity is ever overrun."
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


def _filling(known: Outcome) -> str:
    """How much of a capacity the quotas are, together."""
    if known.certificate is None:
        return "The quotas of a resource add up to its capacity exactly."
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
    decimals = _decimals(resource)
    names = [m.name for m in agreement.members]
    ticks, brought = known.quota[:, j].tolist(), known.endowment[:, j].tolist()
    columns = [[*column[:ROWS], sum(column[ROWS:])] for column in (ticks, brought, parts, percents)]
    names = [*names[:ROWS], f"and {len(names) - ROWS} more"]
    rows = [
        (
            name,
            bar(tick / longest, mark=mark / longest),
            number(fixed(part, decimals)),
            number(_percent(percent)),
        )
        for name, tick, mark, part, percent in zip(names, *columns, strict=False)
    ]
    if len(agreement.members) <= ROWS:
        rows.pop()
    full = sum(parts) == _whole(resource) and sum(percents) == _HUNDREDTHS
    total = "all together = capacity"
    if not full:
        total = f"all together, of {amount_text(resource, resource.capacity)}"
    return table(
        (),
        rows,
        foot=(total, number(fixed(sum(parts), decimals)), number(_percent(sum(percents)))),
        caption=titled(resource),
    )


def quota_texts(known: Outcome, row: int, j: int) -> tuple[str, str]:
    """A member's quota of a resource as every page shows it: in units and as a percentage."""
    parts, percents = _quota_counts(known, j)
    return fixed(parts[row], _decimals(known.agreement.resources[j])), _percent(percents[row])


def _quota_counts(known: Outcome, j: int) -> tuple[list[int], list[int]]:
    """Every member's quota of a resource: in its last decimal, and in hundredths of a percent.

    Guarantee: each list adds up to what all quotas are together, as that is shown.
    """
    resource, ticks = known.agreement.resources[j], known.quota[:, j].tolist()
    used = Fraction(sum(ticks), known.agreement.ticks)
    if not used:
        return [0] * len(ticks), [0] * len(ticks)
    wholes = (round(used * _whole(resource)), round(used * _HUNDREDTHS))
    units, percents = (apportion(whole, ticks) for whole in wholes)
    return units, percents


def _payments(known: Outcome) -> Element:
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
    paid = balanced([Fraction(payment) * unit for payment in known.payments.tolist()])
    values = [Fraction(y) for y in (known.prices * known.agreement.capacity).tolist()]
    used = [Fraction(total, ticks) for total in known.quota.sum(axis=0).tolist()]
    brought = [
        sum(y * u * e for y, u, e in zip(values, used, row, strict=True)) * Fraction(unit, ticks)
        for row in known.endowment.tolist()
    ]
    return [round(value) for value in brought], paid, decimals


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
    price = money(known.agreement, figure(float(known.prices[j])))
    note = f"price {price} per {resource.unit or 'unit'}"
    return chart(resource.name, note, [Line(known.path[:, j].tolist())], first=0)


def _overrun_chart(known: Outcome, j: int, window: int) -> Element:
    values = 100.0 * known.overrun[:, j]
    lines = [Line(values.tolist())]
    if window > 1:
        lines = [Line(values.tolist(), "raw"), Line(trailing_mean(values, window).tolist())]
    name = known.agreement.resources[j].name
    return chart(name, _average_note(known, j), lines, first=1, suffix=" %", level="capacity")


def _average_note(known: Outcome, j: int) -> str:
    """How far off the capacity the rounds were on average that the quota rests on."""
    if known.certificate is not None:
        return f"weighed as the quotas are: {_signed(_weighed_overrun(known, j))}\u00a0%"
    count = known.position.counted
    if not count:
        return "no average yet"
    mean, noise = known.average
    off = 100.0 * (math.fsum(mean[:, j]) / known.agreement.ticks - 1.0)
    spread = 100.0 * math.sqrt(math.fsum(noise[:, j] ** 2)) / known.agreement.ticks
    note = f"mean of {_counted(count, 'round', 'rounds')}: {_signed(off)}\u00a0%"
    return f"{note}, noise ±{figure(spread, digits=2)}\u00a0%" if spread else note


def _weighed_overrun(known: Outcome, j: int) -> float:
    """In percent of the capacity, and exact until it is: what is left over may be very little."""
    weights = known.certificate.weights if known.certificate is not None else ()
    totals = known.released[:, :, j].sum(axis=1).tolist()
    asked = sum(w * total for w, total in zip(weights, totals, strict=False))
    return float(100 * (Fraction(asked, sum(weights) * known.agreement.ticks) - 1))


def _signed(value: float) -> str:
    return ("+" if value > 0.0 else "") + figure(value, digits=2)


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
        paragraph(verdict(known.agreement)),
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


def _whole(resource: Resource) -> int:
    """A capacity, counted in the last decimal that is shown."""
    scale: int = 10 ** _decimals(resource)
    return round(Fraction(resource.capacity) * scale)


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
