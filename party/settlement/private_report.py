"""The report for one company: what a session is worth to it, followed by the public page.

It holds un-noised numbers and is for the company's own files. Never here: anything that goes into
a message, a log or an error.
"""

from dataclasses import dataclass
from functools import cached_property
from xml.etree.ElementTree import Element

from party.model.company_model import CompanyModel
from party.settlement.private_sections import (
    certainty,
    plan_table,
    price_plan,
    quota_and_use,
    shortfall,
    unanswered_rounds,
    waiting,
)
from party.settlement.private_summary import summary_section
from party.settlement.settle import Settlement
from party.settlement.spending import Spending
from protocol.outcome.outcome import Outcome
from protocol.report.html import element, page, paragraph, section
from protocol.report.public import header, public_sections, summary
from protocol.runtime.wait_times import WaitTimes


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PrivateReport:
    """The private report of one company, built once. Secret."""

    outcome: Outcome
    member: str
    data: CompanyModel
    settlement: Settlement
    spending: Spending
    #: How long the party waited for the others.
    waits: WaitTimes | None = None
    #: Rounds in which the company's solver had no answer.
    unanswered: int = 0
    #: The date, or empty.
    written: str = ""

    @cached_property
    def html(self) -> str:
        """The report as a page."""
        title = f"PRIVATE: {self.outcome.agreement.session} for {self.member}"
        return page(title, *self.parts, kind="private")

    @cached_property
    def parts(self) -> list[Element]:
        """All elements of the page, with what a manager asks first."""
        outcome, member, data, settlement = self.outcome, self.member, self.data, self.settlement
        eyebrow = ", ".join(filter(None, [f"Private report for {member}", self.written]))
        banner = f"PRIVATE — for {member} only, do not forward"
        return [
            element("p", banner, class_="banner", role="alert"),
            header(outcome, eyebrow),
            summary_section(outcome, member, data, settlement, self.spending),
            *shortfall(outcome.agreement, settlement),
            *unanswered_rounds(outcome, self.unanswered),
            quota_and_use(outcome, member, settlement),
            plan_table(data, settlement),
            certainty(outcome, data, settlement),
            *price_plan(outcome, data, settlement),
            section("What privacy was spent", *map(paragraph, self.spending.sentences)),
            *waiting(self.waits),
            element("p", "From here on: what every company sees", class_="part"),
            element("section", *summary(outcome)),
            *public_sections(outcome),
        ]
