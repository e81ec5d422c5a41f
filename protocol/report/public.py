"""The public page about a session: what anybody with the agreement and a transcript can know.

Everything on it is recomputed from signed releases, so that it tells no more than the transcript
does. No private number may ever come here.
"""

from xml.etree.ElementTree import Element

import numpy as np

from protocol.agreement.model import Agreement, Resource
from protocol.agreement.quantities import amounts
from protocol.outcome.outcome import Outcome
from protocol.planning.privacy_statement import plain, statement, unprotected
from protocol.planning.verdict import verdict
from protocol.report.allocation import own_parts, payments, quotas
from protocol.report.certificate import certificate_figures, certified, money
from protocol.report.charts import courses
from protocol.report.format import (
    ROWS,
    amount_text,
    counted,
    left_out,
    part_range,
    per,
    titled,
)
from protocol.report.html import (
    Content,
    aligned,
    callout,
    code,
    element,
    facts,
    figure,
    number,
    page,
    paragraph,
    section,
    table,
)


def public_page(known: Outcome) -> str:
    """The page for everybody."""
    return page(f"{known.agreement.session}: public report", *public_parts(known))


def public_parts(known: Outcome) -> list[Element]:
    """All that is on it."""
    top = header(known, "Public report of a session", *summary(known))
    return [top, *public_sections(known)]


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
    if agreement.masked:
        told += ", masked so that only the total of all can be read"
    rounds = f"{known.rounds} of {agreement.rounds}"
    return [
        element(
            "p",
            f"{members} companies share {counted(resources, 'capacity', 'capacities')}. Of its "
            f"books each has sent the others nothing but {told}.",
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
    if known.state.over and not known.sealed:
        missing = f": those of {', '.join(known.unsealed)}" if known.unsealed else ""
        made.append(
            callout(
                f"This outcome is not sealed. All rounds are closed, and what follows was computed "
                f"from all that was released, but seals of members are missing here{missing}. It "
                "binds everybody once they are there, and does not change by that."
            )
        )
    elif not known.sealed:
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
        *([own_parts(known)] if known.agreement.masked else [quotas(known), payments(known)]),
        *courses(known),
        _privacy(known),
        _proof(known),
    ]


def _terms(known: Outcome) -> Element:
    agreement = known.agreement
    amounts = aligned([amount_text(r, r.capacity) for r in agreement.resources[:ROWS]])
    prices = aligned([figure(price) for price in known.prices[:ROWS].tolist()])
    shown = zip(agreement.resources, amounts, prices, strict=False)
    rows = [(titled(r), number(amount), _price(r, price)) for r, amount, price in shown]
    currency = f", {agreement.currency}" if agreement.currency else ""
    names = ("Resource", "Capacity", f"Price{currency}")
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


def _price(resource: Resource, price: str) -> Element:
    return element("span", number(price), f" {per(resource)}")


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
    if known.best_dual is not None:
        return "that of the round with the best noisy objective."
    if known.late_rounds:
        return "the mean over the last half of the rounds."
    return "where the rounds have come to so far."


def _members(known: Outcome) -> list[tuple[Content, ...]]:
    agreement = known.agreement
    rows = list[tuple[Content, ...]]()
    for member, ticks in zip(agreement.members[:ROWS], known.endowment.tolist(), strict=False):
        brings = part_range([tick / agreement.ticks for tick in ticks])
        if agreement.banded:
            own = amounts(agreement, np.array(ticks), agreement.place(member.name)).tolist()
            parts = zip(own, agreement.resources, strict=True)
            brings = part_range([amount / r.measure for amount, r in parts])
        claim: Content = number(f"at most {part_range(member.share)}")
        if member.floor:
            claim = element("span", f"at least {part_range(member.floor)}, ", claim)
        rows.append((member.name, claim, brings))
    if len(agreement.members) > ROWS:
        rows.append((f"and {len(agreement.members) - ROWS} more", "", ""))
    return rows


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


def _privacy(known: Outcome) -> Element:
    return section(
        "Privacy",
        paragraph(element("strong", "The guarantee"), f" — {statement(known.agreement)}."),
        *plain_words(known.agreement),
        *_unhidden(known.agreement),
        paragraph(verdict(known.agreement)),
    )


def plain_words(agreement: Agreement) -> list[Element]:
    """What the guarantee means, and what quotas and payments tell beyond it, for people."""
    return [paragraph(text) for text in (plain(agreement), *unprotected(agreement))]


def _unhidden(agreement: Agreement) -> list[Element]:
    if agreement.rehearsal or agreement.privacy is None:
        return []
    found = "totals" if agreement.masked else "quotas"
    return [
        paragraph(
            "It does not hide that a company took part, nor what it says or does outside of the "
            f"session. The prices and {found} on this page are computed from the noisy numbers "
            "alone, so that reading it, or sending it on, costs no further privacy."
        ),
    ]


def _proof(known: Outcome) -> Element:
    what = "total and price" if known.agreement.masked else "price and quota"
    return section(
        "Check it yourself",
        paragraph(
            "This page proves nothing by itself. With the agreement and the transcript anybody can "
            f"check every signature and recompute every {what}; one changed byte is found. "
            "The digest and the head that this command prints must be these:"
        ),
        element(
            "pre", code("protocol audit session.transcript ", number("--agreement agreement.toml"))
        ),
        element("h3", "Digest of the agreement"),
        paragraph(code(known.agreement.digest.hex())),
        element("h3", f"Common head after {known.rounds} rounds"),
        paragraph(code(known.state.chain_hash.hex())),
    )
