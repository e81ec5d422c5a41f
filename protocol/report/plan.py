"""The page that a convener sends around before anybody signs: what an agreement means.

What each company reveals and to whom, the guarantee in words, what a session might bring, and
what would bring more. From the agreement alone: nothing that was released, and nothing private,
may ever change what is said here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.etree.ElementTree import Element

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.outcome.payments import endowment
from protocol.planning.forecast import CLEAR, FAINT
from protocol.planning.privacy_statement import by_shares, statement
from protocol.planning.synthetic_market import SESSIONS, Expected, expected, without_noise
from protocol.report.certificate import money
from protocol.report.charts import moves
from protocol.report.format import ROWS, amount_text, counted, left_out, part_range, titled
from protocol.report.html import (
    Content,
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
from protocol.report.public import plain_words

_MEASURES: tuple[tuple[str, Callable[[Expected], float]], ...] = (
    ("All earn more than alone by", lambda e: e.gain),
    ("That is, of what there is to gain", lambda e: e.kept),
    ("With a placebo, of what there is to gain", lambda e: e.placebo_kept),
    ("Companies better off than alone", lambda e: e.better),
)


@dataclass(frozen=True)
class Variant:
    """An agreement that was tried, in words, and what came of it."""

    words: str
    expected: Expected | None


def variants(agreement: Agreement, figures: dict[str, Any]) -> list[Variant]:
    """The agreement as it is, with the budgets that would make it better, and without noise.

    All among the same companies, in as many sessions.
    """
    first = expected(agreement)
    found = [Variant("as agreed", first)]
    if agreement.privacy is None:
        return found
    sessions = SESSIONS if first is None else first.sessions
    for word, limit in (("faint", FAINT), ("clear", CLEAR)):
        epsilon = figures["needed"][word]["epsilon"]
        if epsilon and figures["total_average"] > limit:
            privacy = replace(agreement.privacy, epsilon=epsilon)
            other = replace(agreement, privacy=privacy)
            tried = expected(other, sessions=sessions, among=agreement)
            found.append(Variant(f"with ε = {epsilon:g}, {word} noise", tried))
    exact = expected(without_noise(agreement), sessions=sessions, among=agreement)
    found.append(Variant("without noise", exact))
    return found


def plan_page(agreement: Agreement, figures: dict[str, Any], played: Sequence[Variant]) -> str:
    """The page. `figures` are those of the forecast, `played` what was tried."""
    return page(
        f"{agreement.session}: before you sign",
        _top(agreement, figures, played[0].expected),
        _brings(agreement, played),
        _revealed(agreement),
        _guarantee(agreement, figures),
        *_better(figures),
        _terms(agreement),
        _course(agreement, figures),
        _signing(agreement),
    )


def _top(agreement: Agreement, figures: dict[str, Any], found: Expected | None) -> Element:
    p = agreement.privacy
    members, resources = len(agreement.members), len(agreement.resources)
    budget: Content = "none"
    if p is not None:
        budget = element("span", number(f"ε = {p.epsilon:g},"), " ", number(f"δ = {p.delta:g}"))
    made = element(
        "header",
        element("p", "Before you sign", class_="eyebrow"),
        element("h1", agreement.session),
        element(
            "p",
            f"{members} companies are asked to share "
            f"{counted(resources, 'capacity', 'capacities')} without showing each other their "
            f"books. {_in_short(found)}",
            class_="lead",
        ),
    )
    if agreement.rehearsal:
        made.append(callout("This agreement is for a rehearsal: it gives no privacy at all."))
    shown: list[tuple[str, Content]] = [
        ("Companies", str(members)),
        ("Shared capacities", str(resources)),
        ("Rounds, at most" if p is None else "Rounds", str(agreement.rounds)),
        ("Privacy budget of each", budget),
    ]
    if found is not None:
        shown.append(("Of what there is to gain", number(_percent(found.kept))))
    made.append(facts(*shown))
    made.append(paragraph(figures["verdict"]))
    return made


def _in_short(found: Expected | None) -> str:
    """What invented companies make of it, in a sentence that is so for what it found."""
    if found is None:
        return "What that might bring is not tried here: there are too many rounds to play."
    most = f"{_percent(found.possible)} more than alone"
    if found.kept > 0.5 and found.kept > 2.0 * found.placebo_kept:
        return (
            f"Invented companies in their place could earn at most {most} together, and by this "
            f"agreement earn {_percent(found.gain)} more."
        )
    if found.gain > 0.01 * found.possible and found.gain > 2.0 * found.placebo_gain:
        return (
            f"Invented companies in their place could earn at most {most} together; by this "
            f"agreement they get no further than {_percent(found.gain)}."
        )
    return (
        f"Invented companies in their place could earn at most {most} together; this agreement "
        "brings them nothing of that: the noise it asks for hides too much."
    )


def _brings(agreement: Agreement, played: Sequence[Variant]) -> Element:
    known = [(variant.words, variant.expected) for variant in played if variant.expected]
    heading = "What it might bring"
    if not known:
        return section(
            heading,
            paragraph("Nothing was tried: sessions of so many rounds take too long to play."),
        )
    expectations = [e for _, e in known]
    rows: list[tuple[Content, ...]] = [
        (name, *(number(_percent(value(e))) for e in expectations)) for name, value in _MEASURES
    ]
    rows.append(("Rounds", *(number(str(e.rounds)) for e in expectations)))
    count = known[0][1].sessions
    guess = "the worths that the agreement states"
    if quantities(agreement).worth is None:
        guess = "one worth for all capacities, because the agreement states none"
    real = "The rounds, the quotas and the payments are real."
    if agreement.privacy is not None:
        real = "The rounds, the quotas and the payments are real, and the noise has its true size."
    return section(
        heading,
        paragraph(
            f"{counted(count, 'session', 'sessions')} played to the end with companies that are "
            f"invented: as many as here, with the same shares, and with demands around {guess}. "
            f"{real} Real companies differ, so that this says what an agreement lets through, and "
            "not what you will earn."
        ),
        table(("", *(words for words, _ in known)), rows),
        paragraph(
            "The placebo is the same figure where quotas and prices come from other companies’ "
            "sessions: what is not clearly above it has nothing to do with anybody’s data. "
            "Companies count as better off where they earn more than alone after their payment. "
            "The companies are drawn from the digest of the agreement, so that everybody who makes "
            "this page gets these figures."
        ),
    )


def _percent(part: float) -> str:
    return f"{figure(100.0 * part, digits=2)} %" if abs(part) >= 5e-5 else "0 %"


def _revealed(agreement: Agreement) -> Element:
    """What is seen of a company, by whom."""
    noisy = agreement.privacy is not None
    exact = "what it would take at the prices of every round" + ("" if noisy else ", exactly")
    demand = f"{exact}{', with noise' if noisy else ''}"
    if agreement.objective_limit is not None:
        demand += f", and what that would earn{', with noise' if noisy else ''}"
    relayed = agreement.transport.topology == "relay"
    told = f"{demand}; when it answers; its quota and its payment"
    if agreement.masked:
        told = (
            "when it answers. Its answers are masked: what can be read is what all companies "
            "together would take at the prices of every round, "
            f"{'with noise' if noisy else 'exactly'}"
        )
    rows: list[tuple[Content, Content]] = [
        ("Every other company", told),
        (
            "The coordinator",
            "the same, because it carries the messages, and from where they come"
            if relayed
            else "where each company can be reached, and that the session is over",
        ),
        ("A person with the transcript", "the same as the companies"),
        *_own_part(agreement),
        (
            "Everybody on the network",
            "that messages are sent, when, how large and between whom; they are encrypted",
        ),
        (
            "Sent to nobody",
            "the model, its plan, what it earns"
            + (", its quota, its payment" if agreement.masked else "")
            + (", what it would take without noise" if noisy else "")
            + ("" if noisy else ". The answers can tell something of all of these"),
        ),
    ]
    made = section(
        "What is revealed of a company, and to whom",
        table(("Who", "Sees of each company"), rows, kind="text"),
    )
    if not noisy:
        totals = ", also where only totals can be read" if agreement.masked else ""
        made.append(
            callout(
                "Without noise, the answers to many prices may tell much of a company’s data"
                f"{totals}. Choose this among companies that may know it, or agree on noise."
            )
        )
    return made


def _own_part(agreement: Agreement) -> list[tuple[Content, Content]]:
    """What is seen of a quota and a payment that only their company knows."""
    if not agreement.masked or by_shares(agreement):
        return []
    noise = "" if agreement.privacy is None else ", with its own part of the noise only"
    return [
        (
            "A person who sees what it may use, or uses",
            "its quota, which tells what it would take on average, without noise",
        ),
        (
            "A person who moves its payment",
            f"what that is worth in money{noise}",
        ),
    ]


def _guarantee(agreement: Agreement, figures: dict[str, Any]) -> Element:
    made = section(
        "The guarantee in words",
        paragraph(element("strong", "The guarantee"), f" — {statement(agreement)}."),
        *plain_words(agreement),
    )
    if agreement.privacy is not None and not agreement.rehearsal:
        made.append(
            paragraph(
                "It does not hide that a company takes part, nor what it says or does outside of "
                "the session."
            )
        )
    if agreement.privacy is not None:
        noise = f"{figure(figures['party_release'], digits=2)} times"
        left = f"{figure(figures['total_average'], digits=2)} times"
        made.append(
            paragraph(
                f"For the guarantee each release carries noise of up to {noise} a capacity; "
                f"of the total of all companies, averaged over all rounds, {left} a capacity are "
                "left."
            )
        )
    if agreement.pricing.step == "center" and agreement.pricing.tolerance:
        part = f"{figure(100.0 * agreement.pricing.tolerance, digits=2)} %"
        made.append(
            paragraph(
                "In return the outcome is proved: the session ends once no other plan for all "
                f"companies together can earn more than {part} of all worth more, or with its last "
                "round, and everybody can check how far it came. Nobody loses by joining by more "
                "than that, if all answer with their best plans."
            )
        )
    return made


def _better(figures: dict[str, Any]) -> list[Element]:
    """Which ε, or how many members, would be needed."""
    limits = {"faint": FAINT, "clear": CLEAR}
    meaning = {
        "faint": "prices follow the data roughly",
        "clear": "prices follow the data closely",
    }
    rows = [
        (
            f"{word}: {meaning[word]}",
            number(f"ε = {ways['epsilon']:g}" if ways["epsilon"] else "none"),
            number(str(ways["members"]) if ways["members"] else "none"),
            number(str(ways["rounds"]) if ways["rounds"] else "none"),
        )
        for word, ways in (figures["needed"] or {}).items()
        if figures["total_average"] > limits[word]
    ]
    if not rows:
        return []
    return [
        section(
            "What would be needed",
            paragraph(
                "Each alone, with all else as it is. More members share the same total of shares "
                "among them, so that each may claim less and needs less noise. None: no number "
                "that an agreement may state would do."
            ),
            table(("For the noise to be", "a budget of", "or members", "or rounds"), rows),
        )
    ]


def _terms(agreement: Agreement) -> Element:
    rows = [
        (
            titled(r),
            number(amount_text(r, r.capacity)),
            number("not said" if r.worth is None else money(agreement, figure(r.worth))),
        )
        for r in agreement.resources[:ROWS]
    ]
    brought = endowment(agreement) / agreement.ticks
    members = [
        (m.name, number(f"at most {part_range(m.share)}"), number(part_range(row)))
        for m, row in zip(agreement.members[:ROWS], brought.tolist(), strict=False)
    ]
    return section(
        "The capacities and the companies",
        table(("Resource", "Capacity", "All of it might fetch"), rows),
        *left_out(len(rows), len(agreement.resources), "resources", "the agreement"),
        table(("Company", "May claim", "Brings, of each capacity"), members, kind="narrow"),
        *left_out(len(members), len(agreement.members), "companies", "the agreement"),
    )


def _course(agreement: Agreement, figures: dict[str, Any]) -> Element:
    most = "at most " if agreement.pricing.step == "center" else ""
    made = section(
        "How it is played",
        paragraph(
            f"In each of {most}{agreement.rounds} rounds every company answers the prices. "
            f"{moves(agreement)} A company sends {most}"
            f"{figures['messages_per_party']} messages of {figures['release_bytes']} bytes. One "
            "that stays away stops all others until it is back, and is named; the same command "
            "goes on."
        ),
        paragraph(f"{figures['duration'][0].upper()}{figures['duration'][1:]}."),
        paragraph(
            "In the end each company has a quota of every capacity and pays for what that is worth "
            "above what it brings, or is paid; payments add up to zero. It plans within its quota "
            "by itself."
        ),
    )
    for text in figures["warnings"]:
        made.append(callout(f"{text[0].upper()}{text[1:]}."))
    return made


def _signing(agreement: Agreement) -> Element:
    return section(
        "Before you sign",
        paragraph(
            "Compare the digest with the one that your own copy of the agreement has, and let your "
            "model be checked; nothing is sent:"
        ),
        element("pre", code("party check --agreement agreement.toml --data MODEL --as NAME")),
        element("h3", "Digest of the agreement"),
        paragraph(code(agreement.digest.hex())),
    )
