"""The page that a convener sends to all companies before they sign: what an agreement means.

It says what each company reveals and to whom, the guarantee in words, what a session might bring,
and what would bring more. From the agreement alone. Never here: a released or a private number.
"""

from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from protocol.agreement.model import Agreement
from protocol.planning.privacy_statement import by_shares
from protocol.planning.synthetic_market import Expected
from protocol.report.counsel import counsel
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
    table,
)
from protocol.report.format import (
    ROWS,
    amount_text,
    coins,
    counted,
    figure,
    left_out,
    percent,
    price_rule,
    sentence,
    titled,
)
from protocol.report.plan_trials import Variant, gain_in_short, gain_percent, trials
from protocol.report.public import NOT_HIDDEN, budget_text, guarantee, members_table
from protocol.report.terminal import recipients, unmet


def plan_page(agreement: Agreement, figures: dict[str, Any], played: Sequence[Variant]) -> str:
    """The page, from the figures of the forecast and the variants that were tried."""
    return page(
        f"{agreement.session}: before you sign",
        _top(agreement, figures, played[0].expected),
        *trials(agreement, played),
        _revealed(agreement),
        _guarantee(agreement, figures),
        _incentives(figures["incentives"]),
        *_needed(figures),
        _terms(agreement),
        _procedure(agreement, figures),
        counsel(agreement),
        *_approvals(figures),
        _before_signing(agreement),
    )


def _top(agreement: Agreement, figures: dict[str, Any], found: Expected | None) -> Element:
    members, resources = len(agreement.members), len(agreement.resources)
    rounds = "Rounds, at most" if agreement.privacy is None else "Rounds"
    shown: list[tuple[str, Content]] = [
        ("Companies", str(members)),
        ("Shared capacities", str(resources)),
        (rounds, str(agreement.rounds)),
        ("Privacy budget of each", budget_text(agreement)),
    ]
    if found is not None:
        shown.append(("Of the possible gain", number(gain_percent(found.kept))))
    warning = "This agreement is for a rehearsal: it gives no privacy at all."
    return page_header(
        "Before you sign",
        agreement.session,
        lead(
            f"{members} companies are asked to share "
            f"{counted(resources, 'capacity', 'capacities')} without showing each other their "
            f"books. {gain_in_short(found)}"
        ),
        *([callout(warning)] if agreement.rehearsal else []),
        facts(*shown),
        paragraph(figures["verdict"]),
    )


def _revealed(agreement: Agreement) -> Element:
    """Who sees what of a company."""
    noisy = agreement.privacy is not None
    exactness = "with noise" if noisy else "exactly"
    relayed = agreement.transport.topology == "relay"
    seen = f"what it would take at the prices of every round, {exactness}"
    if agreement.objective_limit is not None:
        seen += f", and what that would earn{', with noise' if noisy else ''}"
    seen += "; when it answers; its quota and its payment"
    if agreement.masked:
        seen = (
            "when it answers. Its answers are masked: what can be read is what all companies "
            f"together would take at the prices of every round, {exactness}"
        )
    rows: list[tuple[Content, Content]] = [
        ("Every other company", seen),
        (
            "The coordinator",
            "the same, because it carries the messages, and where they come from"
            if relayed
            else "where each company can be reached, and that the session is over",
        ),
        ("A person with the transcript", "the same as the companies"),
        *_allocation_seen(agreement),
        (
            "Anyone on the network",
            "that messages are sent, when, how large, and between whom; they are encrypted",
        ),
        (
            "Sent to no one",
            "its model, its plan, what it earns"
            + (", its quota, its payment" if agreement.masked else "")
            + (
                ", what it would take without noise"
                if noisy
                else ". The answers can reveal something about all of these"
            ),
        ),
    ]
    made = section(
        "What is revealed of a company, and to whom",
        table(("Who", "Sees of each company"), rows, kind="text"),
    )
    if not noisy:
        totals = ", even if only totals can be read" if agreement.masked else ""
        made.append(
            callout(
                "Without noise, the answers to many prices may reveal much about a company’s data"
                f"{totals}. Choose this among companies that may know it, or agree on noise."
            )
        )
    return made


def _allocation_seen(agreement: Agreement) -> list[tuple[Content, Content]]:
    """What a quota and a payment tell that only their company knows."""
    if not agreement.masked or by_shares(agreement):
        return []
    noise = "" if agreement.privacy is None else ", with only the company’s own part of the noise"
    if agreement.ball:
        noise = ", without noise"
    return [
        (
            "A person who sees what it may use, or uses",
            "its quota, which reveals what it would take on average, without noise",
        ),
        ("A person who moves its payment", f"what that is worth in money{noise}"),
        ("Claims go to", recipients(agreement)),
    ]


def _guarantee(agreement: Agreement, figures: dict[str, Any]) -> Element:
    made = section("The guarantee in words", *guarantee(agreement))
    if agreement.privacy is not None and not agreement.rehearsal:
        made.append(paragraph(NOT_HIDDEN))
    if agreement.privacy is not None:
        made.append(
            paragraph(
                "For this guarantee each release carries noise of up to "
                f"{figure(figures['party_release'], digits=2)} times a capacity. In the total of "
                "all companies, averaged over all rounds, noise of "
                f"{figure(figures['total_average'], digits=2)} times a capacity is left."
            )
        )
    if agreement.pricing.step == "center" and agreement.pricing.tolerance:
        bound = percent(agreement.pricing.tolerance)
        made.append(
            paragraph(
                "In return, the outcome is proved. The session ends with its last round, or when "
                f"any other plan for all companies together would earn at most {bound} more (of "
                "what all capacities are worth). Everyone can check how far it came. No company "
                "loses more than that by joining, if all companies answer with their best plans."
            )
        )
    return made


def _incentives(expected: dict[str, Any]) -> Element:
    """What a member may gain by answering for another company."""
    made = section("If a member lies", paragraph(expected["text"]))
    if expected["warning"] is not None:
        made.append(callout(sentence(expected["warning"])))
    return made


def _needed(figures: dict[str, Any]) -> list[Element]:
    """Which ε, or how many members or rounds, would improve the verdict."""
    meaning = {
        "faint": "prices follow the data roughly",
        "clear": "prices follow the data closely",
        "trade": "quotas follow demand",
        "gain": "invented companies gain",
    }
    rows = [
        (
            f"{word}: {meaning[word]}",
            number(f"ε = {ways['epsilon']:g}" if ways["epsilon"] else "none"),
            number(str(ways["members"] or "none")),
            number(str(ways["rounds"] or "none")),
        )
        for word, ways in unmet(figures).items()
    ]
    if not rows:
        return []
    return [
        section(
            "What would be needed",
            "Each change alone, with everything else as it is. More members share the same "
            "total of shares, so each may claim less and needs less noise. None: no number "
            "that an agreement may state is enough.",
            table(("For the noise to be", "a budget of", "or members", "or rounds"), rows),
        )
    ]


def _terms(agreement: Agreement) -> Element:
    rows = [
        (
            titled(r),
            number(amount_text(r, r.capacity)),
            number("not stated" if r.worth is None else coins(agreement, r.worth)),
        )
        for r in agreement.resources[:ROWS]
    ]
    return section(
        "The capacities and the companies",
        table(("Resource", "Capacity", "Estimated value"), rows),
        *left_out(len(rows), len(agreement.resources), "resources", "the agreement"),
        members_table(agreement),
    )


def _procedure(agreement: Agreement, figures: dict[str, Any]) -> Element:
    most = "at most " if agreement.pricing.step == "center" else ""
    return section(
        "How a session works",
        f"In each of {most}{agreement.rounds} rounds, every company answers the prices. "
        f"{price_rule(agreement)} A company sends {most}{figures['messages_per_party']} "
        f"messages of {figures['release_bytes']} bytes. If a company is away, all others wait "
        "for it, then stop, and name it. Run the same command to continue.",
        paragraph(sentence(figures["duration"])),
        "In the end, each company has a quota of every capacity. It pays if the quota is worth "
        "more than what the company brings, and is paid if it is worth less. All payments add "
        "up to zero. Each company makes its own plan within its quota.",
        *(callout(sentence(text)) for text in figures["warnings"]),
    )


def _approvals(figures: dict[str, Any]) -> list[Element]:
    """Who approved the agreement beforehand, if a folder of approvals was given."""
    lines = figures.get("approvals")
    if not lines:
        return []
    return [section("Who has agreed", *(paragraph(sentence(line)) for line in lines))]


def _before_signing(agreement: Agreement) -> Element:
    return section(
        "Before you sign",
        "Compare this digest with that of your own copy of the agreement. Then check your "
        "model with this command; it sends nothing:",
        element("pre", code("party check --agreement agreement.toml --data MODEL --as NAME")),
        element("h3", "Digest of the agreement"),
        paragraph(code(agreement.digest.hex())),
    )
