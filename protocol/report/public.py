"""The public page about a session: what anyone with the agreement and a transcript can know.

Everything on it is recomputed from signed releases, so it tells no more than the transcript does.
Never here: a private number.
"""

from xml.etree.ElementTree import Element

from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts, pair_prices, quantities
from protocol.outcome.outcome import Outcome
from protocol.planning.privacy_statement import plain, statement, unprotected
from protocol.planning.verdict import verdict
from protocol.report.allocation import masked_allocation, payments, quotas
from protocol.report.certificate import MIXTURES, certificate_figures, certified
from protocol.report.charts import round_sections
from protocol.report.elements import (
    Content,
    callout,
    code,
    element,
    facts,
    lead,
    number,
    page,
    page_header,
    paragraph,
    section,
    small,
    table,
)
from protocol.report.format import (
    ROWS,
    aligned,
    amount_text,
    coins,
    counted,
    figure,
    in_currency,
    in_price_of,
    left_out,
    per,
    percent,
    percent_range,
    titled,
)
from protocol.report.terminal import outcome_figures
from protocol.report.trade import contradiction_figures, contradictions, why_no_trade

NOT_HIDDEN = (
    "The guarantee does not hide that a company takes part, nor what it says or does outside the "
    "session."
)


def public_page(outcome: Outcome) -> str:
    """The page that anyone may see."""
    return page(f"{outcome.agreement.session}: public report", *public_parts(outcome))


def public_parts(outcome: Outcome) -> list[Element]:
    """All elements of the public page."""
    top = header(outcome, "Public report of a session", *summary(outcome))
    return [top, *public_sections(outcome)]


def summary(outcome: Outcome) -> list[Element]:
    """What the session was, and its state."""
    agreement = outcome.agreement
    members, resources = len(agreement.members), len(agreement.resources)
    sent = "numbers with noise"
    if agreement.privacy is None:
        sent = "what it would take at the prices of each round"
        sent += "" if agreement.objective_limit is None else ", and what that would earn"
    masked = " These numbers are masked: only their total over all companies can be read."
    rounds = f"{outcome.rounds} of {agreement.rounds}"
    return [
        lead(
            f"{members} companies share {counted(resources, 'capacity', 'capacities')}. About its "
            f"own data, each company sent the others only this: {sent}."
            + (masked if agreement.masked else "")
        ),
        facts(
            ("Companies", str(members)),
            ("Shared capacities", str(resources)),
            ("Rounds", f"{rounds}, ended by itself" if outcome.ended_by_itself else rounds),
            ("Privacy budget of each", "none" if agreement.rehearsal else budget_text(agreement)),
            ("State", "sealed by all" if outcome.sealed else "not sealed"),
        ),
    ]


def budget_text(agreement: Agreement) -> Content:
    """The agreed privacy budget."""
    p = agreement.privacy
    if p is None:
        return "none"
    return element("span", number(f"ε = {p.epsilon:g},"), " ", number(f"δ = {p.delta:g}"))


def header(outcome: Outcome, eyebrow: str, *content: Content) -> Element:
    """Which session it was, and warnings that every reader must see."""
    agreement = outcome.agreement
    top = page_header(eyebrow, agreement.session, *content)
    if outcome.state.over and not outcome.sealed:
        missing = f": {', '.join(outcome.unsealed)}" if outcome.unsealed else ""
        top.append(
            callout(
                "This outcome is not sealed. All rounds are closed, and everything below was "
                f"computed from all releases. But seals of members are missing here{missing}. The "
                "outcome binds all members once their seals are here. The figures will not change."
            )
        )
    elif not outcome.sealed:
        top.append(
            callout(
                f"This session is not finished: {outcome.rounds} of {agreement.rounds} rounds are "
                "closed, and the members have not sealed it. The prices and quotas below show how "
                "it stands now. They are not an outcome and bind no member."
            )
        )
    for text in why_no_trade(agreement, outcome_figures(outcome)):
        top.append(callout(text))
    if agreement.rehearsal:
        noise = "no noise" if agreement.privacy is None else "repeatable noise"
        top.append(callout(f"This is a rehearsal: invented data, {noise}, no privacy."))
    return top


def public_sections(outcome: Outcome) -> list[Element]:
    """Everything public about the session, in the order in which people ask."""
    masked = outcome.agreement.masked
    return [
        _prices(outcome),
        _certificate(outcome),
        *([masked_allocation(outcome)] if masked else [quotas(outcome), payments(outcome)]),
        *round_sections(outcome),
        _privacy(outcome),
        _check(outcome),
    ]


def _prices(outcome: Outcome) -> Element:
    agreement = outcome.agreement
    capacities = aligned([amount_text(r, r.capacity) for r in agreement.resources[:ROWS]])
    paired = pair_prices(outcome.prices, quantities(agreement).opposites)
    prices = aligned([figure(price) for price in paired[:ROWS].tolist()])
    rows: list[tuple[Content, ...]] = [
        (
            titled(r),
            number(amount),
            in_price_of(r) if r.opposite else element("span", number(price), f" {per(r)}"),
        )
        for r, amount, price in zip(agreement.resources, capacities, prices, strict=False)
    ]
    return section(
        "The capacities and their prices",
        "A price says how scarce a capacity is. It estimates what one more unit would be worth to "
        f"all companies together. {_price_source(outcome)}",
        table(("Resource", "Capacity", in_currency(agreement, "Price")), rows),
        *left_out(len(rows), len(agreement.resources), "resources"),
        members_table(agreement),
        small(_endowment_source(agreement)),
    )


def _endowment_source(agreement: Agreement) -> str:
    """Where the endowments come from."""
    text = "What a company brings is what it would have without the others"
    if agreement.members[0].endowment:
        return f"{text}, as the agreement states."
    return f"{text}. The agreement does not state it: it is in proportion to what each may claim."


def _price_source(outcome: Outcome) -> str:
    """Which rounds the prices of the outcome come from."""
    if outcome.certificate is not None:
        return "It is the average over the rounds, with the weights that prove most."
    if outcome.best_dual is not None:
        return "It is the price of the round with the best noisy objective."
    if outcome.agreement.ball and outcome.rounds:
        return "It is the average over the rounds; later rounds count for more."
    if outcome.late_rounds:
        return "It is the average over the second half of the rounds."
    return "It is the price that the rounds have reached so far."


def members_table(agreement: Agreement) -> Element:
    """What each company may claim and brings, in percent of the capacities."""
    rows = list[tuple[Content, ...]]()
    for k, (member, ticks) in enumerate(
        zip(agreement.members[:ROWS], endowment(agreement), strict=False)
    ):
        brings = (ticks / agreement.ticks).tolist()
        if agreement.banded:
            pairs = zip(amounts(agreement, ticks, k).tolist(), agreement.resources, strict=True)
            brings = [amount / resource.measure for amount, resource in pairs]
        claim: Content = number(f"at most {percent_range(member.share)}")
        if member.floor:
            claim = element("span", f"at least {percent_range(member.floor)}, ", claim)
        rows.append((member.name, claim, percent_range(brings)))
    if len(agreement.members) > ROWS:
        rows.append((f"and {len(agreement.members) - ROWS} more", "", ""))
    return table(("Company", "May claim", "Brings, of each capacity"), rows, kind="narrow")


def _certificate(outcome: Outcome) -> Element:
    figures = certificate_figures(outcome)
    if outcome.no_trade:
        return section(
            "How good the outcome is",
            lead("Without trade, every company is as well off as alone."),
            *map(paragraph, _consistency(outcome)),
        )
    made = section(
        "How good the outcome is, at least",
        lead(certified(outcome.agreement, figures, write=figure)),
    )
    if figures is None:
        return made
    gap = percent(outcome.agreement.pricing.answer_gap or 0.0)
    basis = (
        "Anyone can compute this from the totals of the rounds alone; no company’s objective is "
        "needed. It holds if every company answered all prices with a best plan of its own. If all "
        f"answers together miss the best by up to {gap} of what all capacities are worth, this "
        "statement may be off by the same amount."
    )
    made.extend(map(paragraph, (basis, MIXTURES, *_consistency(outcome))))
    if not figures["fits"]:
        most = coins(outcome.agreement, figures["money"], most=True)
        made.append(
            paragraph(
                "This much is known about the prices. If no best price is above those that the "
                f"rounds searched, they promise all companies together at most {most} more than is "
                "possible."
            )
        )
    return made


def _consistency(outcome: Outcome) -> list[str]:
    """Whether answers contradict each other."""
    none = (
        "The answers do not contradict each other: some companies could have given all of them as "
        "best plans. Whether these are the companies of this session cannot be seen."
    )
    return contradictions(outcome.agreement, contradiction_figures(outcome)) or [none]


def _privacy(outcome: Outcome) -> Element:
    agreement = outcome.agreement
    made = section("Privacy", *guarantee(agreement))
    if not agreement.rehearsal and agreement.privacy is not None:
        what = "totals" if agreement.masked else "quotas"
        made.append(
            paragraph(
                f"{NOT_HIDDEN} The prices and {what} of the public report are computed from the "
                "noisy numbers alone. Reading it, or sending it on, costs no further privacy."
            )
        )
    made.append(paragraph(verdict(agreement)))
    return made


def guarantee(agreement: Agreement) -> list[Element]:
    """The privacy statement, what it means, and what quotas and payments tell beyond it."""
    stated = paragraph(element("strong", "The guarantee"), f" — {statement(agreement)}.")
    return [stated, *map(paragraph, (plain(agreement), *unprotected(agreement)))]


def _check(outcome: Outcome) -> Element:
    what = "total and price" if outcome.agreement.masked else "price and quota"
    return section(
        "Check it yourself",
        "This page proves nothing by itself. With the agreement and the transcript, anyone "
        f"can check every signature and recompute every {what}. One changed byte is found. "
        "This command must print the digest and the chain hash below:",
        element(
            "pre", code("protocol audit session.transcript ", number("--agreement agreement.toml"))
        ),
        element("h3", "Digest of the agreement"),
        paragraph(code(outcome.agreement.digest.hex())),
        element("h3", f"Chain hash after {counted(outcome.rounds, 'round', 'rounds')}"),
        paragraph(code(outcome.state.chain_hash.hex())),
    )
