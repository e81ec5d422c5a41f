"""The report for one company: what a session is worth to it, followed by the public page.

It holds un-noised numbers and is for the company's own files. Never here: anything that goes into
a message, a log or an error.
"""

from xml.etree.ElementTree import Element

from party.model.company_model import CompanyModel
from party.settlement import private_sections
from party.settlement.private_summary import summary_section
from party.settlement.settle import Settlement
from party.settlement.spending import Spending
from protocol.outcome.outcome import Outcome
from protocol.report.elements import element, page, paragraph, section
from protocol.report.public import header, public_sections, summary
from protocol.runtime.wait_times import WaitTimes


def private_document(outcome: Outcome, member: str, parts: list[Element]) -> str:
    """The private page of these parts. Secret."""
    title = f"PRIVATE: {outcome.agreement.session} for {member}"
    return page(title, *parts, kind="private")


def private_parts(
    outcome: Outcome,
    member: str,
    data: CompanyModel,
    settlement: Settlement,
    spending: Spending,
    *,
    waits: WaitTimes | None = None,
    unanswered: int = 0,
    written: str = "",
) -> list[Element]:
    """All elements of the private page, with what a manager asks first. Secret.

    `unanswered` counts rounds in which the company's solver had no answer. `written` is a date.
    """
    eyebrow = ", ".join(filter(None, [f"Private report for {member}", written]))
    return [
        element("p", f"PRIVATE — for {member} only, do not forward", class_="banner", role="alert"),
        header(outcome, eyebrow),
        summary_section(outcome, member, data, settlement, spending),
        *private_sections.shortfall(outcome.agreement, settlement),
        *private_sections.loss_with_integers(settlement),
        *private_sections.unanswered_rounds(outcome, unanswered),
        private_sections.quota_and_use(outcome, member, settlement),
        *private_sections.claims(outcome, member),
        private_sections.plan_table(data, settlement),
        private_sections.certainty(outcome, data, settlement),
        *private_sections.price_plan(outcome, data, settlement),
        section("What privacy was spent", *map(paragraph, spending.sentences)),
        *private_sections.waiting(waits),
        element("p", "From here on: what every company sees", class_="part"),
        element("section", *summary(outcome)),
        *public_sections(outcome),
    ]
