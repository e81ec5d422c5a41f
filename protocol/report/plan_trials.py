"""Sessions of invented companies under an agreement, and the part of the plan page about them.

From the agreement alone. Never here: a released or a private number.
"""

from collections.abc import Callable, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from msgspec import Struct
from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.planning.synthetic_market import SESSIONS, Expected, expected, without_noise
from protocol.report.elements import Content, number, section, table
from protocol.report.format import coins, counted, percent
from protocol.report.terminal import unmet

_MEASURES: tuple[tuple[str, Callable[[Expected], float]], ...] = (
    ("All together earn more than alone, by", lambda e: e.gain),
    ("That is, of the possible gain", lambda e: e.kept),
    ("With a placebo, of the possible gain", lambda e: e.placebo_kept),
    ("Companies better off than alone", lambda e: e.better),
    ("Companies worse off than alone", lambda e: e.worse),
    ("The largest loss, of what a company earns alone", lambda e: e.worst),
)


class Variant(Struct, frozen=True):
    """A variant of an agreement, in words, and what its sessions gave; None if too long."""

    words: str
    expected: Expected | None


def variants(agreement: Agreement, figures: dict[str, Any]) -> list[Variant]:
    """The agreement as it is, with budgets that would improve it, and without noise.

    All with the same invented companies and the same number of sessions.
    """
    first = expected(agreement)
    found = [Variant("as agreed", first)]
    if agreement.privacy is None:
        return found
    sessions = SESSIONS if first is None else first.sessions
    for word, ways in unmet(figures).items():
        if epsilon := ways["epsilon"]:
            privacy = replace(agreement.privacy, epsilon=epsilon)
            other = replace(agreement, privacy=privacy)
            tried = expected(other, sessions=sessions, among=agreement)
            kind = "" if agreement.ball else f", {word} noise"
            found.append(Variant(f"with ε = {epsilon:g}{kind}", tried))
    exact = expected(without_noise(agreement), sessions=sessions, among=agreement)
    found.append(Variant("without noise", exact))
    return found


def gain_percent(fraction: float) -> str:
    """A gain as a percentage; gains that are next to nothing are 0."""
    return percent(fraction) if abs(fraction) >= 5e-5 else "0 %"


def gain_in_short(found: Expected | None) -> str:
    """What the agreement brings invented companies, in two sentences."""
    if found is None:
        return "What that might bring was not tried: there are too many rounds to try."
    text = (
        "Invented companies in their place could together earn at most "
        f"{gain_percent(found.possible)} more than alone. "
    )
    if found.kept > 0.5 and found.kept > 2.0 * found.placebo_kept:
        return f"{text}With this agreement they earn {gain_percent(found.gain)} more."
    if found.gain > 0.01 * found.possible and found.gain > 2.0 * found.placebo_gain:
        return f"{text}With this agreement they earn only {gain_percent(found.gain)} more."
    if found.gain < -0.01 * found.possible:
        return (
            f"{text}With this agreement they earn {gain_percent(-found.gain)} less than alone: "
            "what is withheld for noise costs more than trading brings."
        )
    return f"{text}This agreement brings them nothing of that: its noise hides too much."


def gain_in_money(agreement: Agreement, found: Expected | None) -> str:
    """What the agreement brings invented companies, in money and in two sentences."""
    if found is None:
        return gain_in_short(found)
    more = "more" if found.gain >= 0.0 else "LESS"
    gain, possible = (
        gain_percent(part)
        if quantities(agreement).worth is None  # then no amount in money can be stated
        else f"{coins(agreement, part * found.alone)} ({gain_percent(part)})"
        for part in (abs(found.gain), found.possible)
    )
    losers = "None of them is worse off than alone."
    if found.worse:
        losers = (
            f"{gain_percent(found.worse)} of them end worse off than alone, by at most "
            f"{gain_percent(found.worst)} of what they earn alone."
        )
    return (
        f"Invented companies in their place earn {gain} {more} together than alone, in one "
        f"session; {possible} more is possible. {losers}"
    )


def trials(agreement: Agreement, played: Sequence[Variant]) -> list[Element]:
    """What the sessions gave, beside a placebo; nothing if they take too long."""
    columns = [(variant.words, variant.expected) for variant in played if variant.expected]
    if not columns:
        return []
    found = [e for _, e in columns]
    rows: list[tuple[Content, ...]] = [
        (name, *(number(gain_percent(value(e))) for e in found)) for name, value in _MEASURES
    ]
    rows.append(("Rounds", *(number(str(e.rounds)) for e in found)))
    worth = "the worths that the agreement states"
    if quantities(agreement).worth is None:
        worth = "one worth for all capacities, because the agreement states none"
    noise = "" if agreement.privacy is None else " The noise has its true size."
    sessions = found[0].sessions
    made = section(
        "What it might bring",
        f"{counted(sessions, 'session was', 'sessions were')} played to the end with invented "
        "companies. There are as many as here, with the same shares, and with demands around "
        f"{worth}. The rounds, the quotas and the payments are real.{noise} Real companies "
        "differ. So this shows what an agreement lets through, not what you will earn.",
        gain_in_money(agreement, played[0].expected),
        table(("", *(words for words, _ in columns)), rows),
        "For the placebo, quotas and prices come from other companies’ sessions. A gain that is "
        "not clearly above the placebo has nothing to do with any company’s data. A company counts "
        "as better off if it earns more than alone after its payment. The companies are drawn from "
        "the digest of the agreement, so everyone who makes this page gets these figures.",
    )
    return [made]
