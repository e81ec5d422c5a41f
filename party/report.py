"""The page for one company: what a session is worth to it, above what everybody may know.

It holds un-noised numbers and is for the company's own files: nothing made here goes into a
message, a log or an error.
"""

from dataclasses import dataclass
from xml.etree.ElementTree import Element

import numpy as np

from party.budget import in_words
from party.dataset import DataSet
from party.settle import Plan, Settlement
from protocol.agreement import Agreement
from protocol.arrays import Floats
from protocol.outcome import Outcome, amounts
from protocol.pages.page import (
    Content,
    bar,
    callout,
    element,
    facts,
    figure,
    grid,
    number,
    page,
    paragraph,
    section,
    table,
)
from protocol.pages.public import (
    ROWS,
    amount_text,
    header,
    left_out,
    public_sections,
    quota_texts,
    titled,
)
from protocol.privacy import Spent

VARIABLES = 50
"""Variables of the plan that the page shows. `plan.csv` has all."""


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What privacy a company's data have spent: in this session, and in all with them."""

    data_set: str
    delta: float
    session: Spent
    lifetime: Spent

    @property
    def sentences(self) -> tuple[str, str]:
        """The same for people."""
        session, lifetime = (in_words(s, self.delta) for s in (self.session, self.lifetime))
        return (
            f"In this session your data spent {session}.",
            f"In all sessions together the data set {self.data_set!r} has spent {lifetime}.",
        )


def private_page(
    known: Outcome, member: str, data: DataSet, settlement: Settlement, spending: Spending
) -> str:
    """The page for one company: its own figures, then all of the public page. Secret."""
    return page(
        f"PRIVATE: {known.agreement.session} for {member}",
        element("p", f"PRIVATE — for {member} only, do not forward", class_="banner", role="alert"),
        header(known, f"Private report for {member}"),
        *_shortfall(known.agreement, settlement),
        _worth(settlement),
        _uses(known, member, settlement),
        _plan(data, settlement),
        section("What privacy was spent", *map(paragraph, spending.sentences)),
        element("p", "From here on: what every company sees", class_="part"),
        *public_sections(known),
        kind="private",
    )


def _worth(settlement: Settlement) -> Element:
    gain, paid = settlement.gain, settlement.paid
    base = settlement.alone
    part = ""
    if gain is not None and base is not None and base.utility:
        part = f" ({_signed(100.0 * gain / abs(base.utility), digits=3)} %)"
    at_prices = settlement.at_prices
    net = None if at_prices is None or paid is None else at_prices.utility - paid
    return section(
        "What the session is worth to you",
        paragraph(
            "Utilities are values of your own objective. Within your quota the capacity is there, "
            "as long as all companies keep to theirs."
        ),
        facts(
            ("Your best plan within your quota", _utility(settlement.within_quota)),
            ("Alone, with what you bring", _utility(base)),
            ("You pay", figure(settlement.payment, digits=6)),
            ("You are better off by", "no plan" if gain is None else _signed(gain) + part),
        ),
        paragraph(
            "At the final prices you would choose another plan. It is not guaranteed to be "
            "available: what all companies want at these prices may together exceed a capacity."
        ),
        facts(
            ("Your price plan (not guaranteed)", _utility(at_prices)),
            ("Payment at the final prices", "no plan" if paid is None else figure(paid, digits=6)),
            ("Left after payment", "no plan" if net is None else figure(net, digits=6)),
        ),
    )


def _shortfall(agreement: Agreement, settlement: Settlement) -> list[Element]:
    """What to say where the quota is too small for any plan."""
    if settlement.within_quota is not None:
        return []
    warning = callout(
        "Your quota is too small: your model has no plan that stays within it, because its own "
        "rows and bounds ask for more."
    )
    heading = "What you need above your quota"
    extra = settlement.extra_ticks
    if extra is None:
        failed = "The smallest addition that would do could not be computed."
        return [section(heading, warning, paragraph(failed))]
    needed = zip(
        agreement.resources, amounts(agreement, extra), 100.0 * extra / agreement.ticks, strict=True
    )
    rows = [
        (titled(r), number(f"+{amount_text(r, float(amount))}"), number(f"+{percent:.4f} %"))
        for r, amount, percent in needed
        if percent
    ]
    return [
        section(
            heading,
            warning,
            paragraph(
                "The smallest addition that would do, in parts of the capacities. Nobody else "
                "knows of it: to ask the others for it is to tell them something about your data."
            ),
            table(("Resource", "Addition", "Of the capacity"), rows),
        )
    ]


def _uses(known: Outcome, member: str, settlement: Settlement) -> Element:
    """Quota, pro-rata split and what the plans use of each resource, as bars."""
    agreement, row = known.agreement, known.agreement.place(member)
    equal = amounts(agreement, settlement.endowment_ticks)
    own = amounts(agreement, settlement.quota_ticks)
    plans = (settlement.within_quota, settlement.at_prices)
    uses = [own, equal, *(plan.uses for plan in plans if plan is not None)]
    longest = max(float((use / agreement.capacity).max()) for use in uses) or 1.0

    def line(name: str, kind: str, use: Floats | None, j: int) -> tuple[Content, ...]:
        if use is None:
            return name, "", "–", "–"
        resource, amount = agreement.resources[j], float(use[j])
        part = amount / resource.capacity
        texts = (amount_text(resource, amount), f"{part:.2%}".replace("%", " %"))
        if use is own:
            texts = quota_texts(known, row, j)
        return name, bar(part / longest, kind), *map(number, texts)

    within, wanted = (None if plan is None else plan.uses for plan in plans)
    cards = [
        table(
            (),
            [
                line("Alone", "half", equal, j),
                line("Your quota", "full", own, j),
                line("Your plan uses", "full", within, j),
                line("At final prices", "open", wanted, j),
            ],
            caption=titled(resource),
        )
        for j, resource in enumerate(agreement.resources[:ROWS])
    ]
    return section(
        "Your quota and what you make of it",
        paragraph(
            "In units and in percent of the whole capacity; all bars have one scale. What you "
            "would take at the prices of the outcome is not guaranteed to be available."
        ),
        grid(cards),
        *left_out(len(cards), len(agreement.resources), "resources", "result.json"),
    )


def _plan(data: DataSet, settlement: Settlement) -> Element:
    chosen = settlement.within_quota or settlement.at_prices
    heading = "Your plan"
    if chosen is None:
        return section(heading, paragraph("There is no plan."))
    order = np.argsort(-np.abs(chosen.values), kind="stable")[:VARIABLES].tolist()
    columns = [
        None if plan is None else plan.values.tolist()
        for plan in (settlement.within_quota, settlement.at_prices)
    ]
    rows = [
        (data.names[i], *(number("–" if c is None else figure(c[i], digits=6)) for c in columns))
        for i in order
    ]
    count = f"The {len(rows)} largest of {data.columns} variables"
    shown = f"All {data.columns} variables" if len(rows) == data.columns else count
    return section(
        heading,
        paragraph(f"{shown}, by size. plan.csv has all of them to the last digit."),
        table(("Variable", "Within your quota", "At the final prices (not guaranteed)"), rows),
    )


def _utility(plan: Plan | None) -> str:
    return "no plan" if plan is None else figure(plan.utility, digits=6)


def _signed(value: float, *, digits: int = 6) -> str:
    return ("+" if value > 0.0 else "") + figure(value, digits=digits)
