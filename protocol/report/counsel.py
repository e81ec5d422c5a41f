"""The part of the plan page for a lawyer: what is exchanged, with whom, and what never is.

In the words that competition law asks for. Every sentence states a fact that PRIVACY.md or
limits.md has, from the agreement alone. Never here: legal advice, or a released number.
"""

from xml.etree.ElementTree import Element

from protocol.agreement.model import Agreement
from protocol.planning.privacy_statement import statement, totals_tell
from protocol.report.elements import Content, callout, paragraph, section, table
from protocol.report.format import counted
from protocol.report.terminal import recipients

_EACH_EXACT = (
    "This agreement shows every company the exact demand of every other company at every price of "
    "the session. That is individual, current and detailed data about how a company reacts to "
    "prices, and may be competitively sensitive information. With "
    'reveal = "totals" only the demand of all companies together can be read.'
)

_EACH_WITH_NOISE = (
    "This agreement shows every company the demand of every other company with noise. The numbers "
    "are about one company each. What the noise hides is stated above."
)

FEW = 5
"""With this many companies or fewer, the page warns that a total says much about each."""


def counsel(agreement: Agreement) -> Element:
    """Facts about the exchange of information, for a legal assessment."""
    rows: list[tuple[Content, Content]] = [
        ("What is exchanged", _exchanged(agreement)),
        ("Individual or aggregated", _aggregation(agreement)),
        ("What is never exchanged", _never(agreement)),
        ("Prices", _PRICES),
        ("Age of the data", _AGE),
        ("Detail and frequency", _granularity(agreement)),
        ("Public or not", _PUBLIC),
        ("Who has access", _access(agreement)),
        ("Third parties", _third_parties(agreement)),
        ("Safeguards", _safeguards(agreement)),
        ("Retention", _retention(agreement)),
        ("Decisions", _DECISIONS),
    ]
    made = section(
        "For your counsel",
        paragraph(
            "Facts about the information that the companies exchange, for a lawyer to assess. "
            "This is no legal advice, and it does not say that the exchange is lawful. Whether "
            "companies compete with each other is not known here."
        ),
    )
    made.extend(callout(text) for text in cautions(agreement))
    made.append(table(("Question", "Answer"), rows, kind="text"))
    return made


def cautions(agreement: Agreement) -> list[str]:
    """What a lawyer should read first; empty if there is nothing."""
    noisy = agreement.privacy is not None and not agreement.rehearsal
    if agreement.masked:
        found = [] if noisy else [totals_tell(agreement)]
    else:
        found = [_EACH_WITH_NOISE if noisy else _EACH_EXACT]
    if len(agreement.members) <= FEW:
        others = len(agreement.members) - 1
        found.append(
            f"There are only {len(agreement.members)} companies. Each knows its own demand, so a "
            f"total tells it what the {counted(others, 'other asks', 'others ask')} for "
            "together. The fewer they are, the more that says about each of them."
        )
    return found


def _exchanged(agreement: Agreement) -> str:
    exactness = "exactly" if agreement.privacy is None else "with noise"
    what = f"how much of each capacity a company would use at the prices of a round, {exactness}"
    if agreement.objective_limit is not None:
        what += f"; and what its plan would earn, {exactness}"
    return (
        f"In each round: {what}. Before the session: the agreement, with the names of the "
        "companies, the capacities, the part of each that a company may claim and has without "
        "the others, and estimates of what capacities are worth, if stated. Also who takes part, "
        "and when each answers."
    )


def _aggregation(agreement: Agreement) -> str:
    count = len(agreement.members)
    if agreement.masked:
        return (
            f"Aggregated over {count} companies. Each answer is masked before it is sent: no other "
            "company, and not the coordinator, can read it by itself. Only the sum over all "
            "companies can be read. If all other companies act together, they can subtract their "
            "own answers from it."
        )
    return f"Individual: the answers of each of {count} companies can be read one by one."


def _never(agreement: Agreement) -> str:
    exception = (
        "" if agreement.objective_limit is None else " (except for what its plan would earn)"
    )
    quota = " No company sees the quota or the payment of another." if agreement.masked else ""
    return (
        "A company’s model and plan never leave its machine. So its customers, orders, costs, "
        "margins, output and the prices of its own products are not exchanged"
        f"{exception}.{quota} The answers that are exchanged can reveal something about these."
    )


_PRICES = (
    "The prices of a session are those of the shared capacities. A public rule computes them from "
    "the answers, and every company can recompute them. The agreement may state first prices and "
    "worths of the capacities; after that no company proposes a price. Prices of the companies’ "
    "own products do not occur."
)

_AGE = (
    "Current: answers are about the plans that companies make now, for the time that the shared "
    "capacities are used. They are exchanged while the session runs. They are no historical data."
)

_PUBLIC = (
    "Not public: only the companies of the session get the answers. A company that passes on its "
    "transcript shows what all companies see."
)


def _granularity(agreement: Agreement) -> str:
    most = "at most " if agreement.pricing.step == "center" else ""
    resources = counted(len(agreement.resources), "capacity", "capacities")
    return (
        f"One number for each of {resources} in {most}{agreement.rounds} rounds, in units of the "
        "capacity. How often there is a session is for the companies to agree. Several sessions "
        "with the same data reveal more than one."
    )


def _access(agreement: Agreement) -> str:
    seen = "the totals" if agreement.masked else "the answers of all companies"
    carried = (
        "The coordinator carries the messages and sees the same, and no more."
        if agreement.transport.topology == "relay"
        else "The coordinator sees where companies can be reached, and carries no answers."
    )
    return (
        f"Every company of the session sees {seen}. {carried} The person who runs the coordinator "
        "may work for one of the companies or for none: the agreement does not say. A person who "
        "is given the transcript sees the same as the companies."
    )


def _third_parties(agreement: Agreement) -> str:
    if not agreement.masked:
        return "None is needed: quotas and payments follow from the answers."
    text = (
        f"Payments and quotas are shown to: {recipients(agreement)}."
        if agreement.commits
        else ("Payments and quotas are shown to those who move the money and run the capacities.")
    )
    return (
        f"{text} Each learns the number that a company shows it, which reveals what the company "
        "asked for on average, or what that is worth. No third party sees single answers, and none "
        "is trusted to add them up."
    )


def _safeguards(agreement: Agreement) -> str:
    masks = ". Masks cancel only in the sum of all companies" if agreement.masked else ""
    paced = (
        ". Answers are sent at fixed times, so that the time reveals nothing"
        if agreement.pace_seconds is not None
        else ""
    )
    return (
        f"Messages are encrypted between the machines and signed by their company{masks}{paced}. "
        "Every company computes prices and outcome itself. A transcript lets an auditor check all "
        f"of it. Guarantee: {statement(agreement)}."
    )


def _retention(agreement: Agreement) -> str:
    own = (
        " It destroys its mask keys and its own unmasked demands when the session is sealed or "
        "given up."
        if agreement.masked
        else ""
    )
    return (
        "Each company’s ledger and transcript keep the signed messages of all companies. The "
        f"software deletes neither; the companies decide how long they keep them.{own}"
    )


_DECISIONS = (
    "Each company decides alone about its plan within its quota. It need not tell the others what "
    "it does with it."
)
