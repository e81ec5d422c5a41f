"""The first section of the private report: gain, payment, certainty and privacy at a glance.

All of it is un-noised and secret: for the company's own report only.
"""

from collections.abc import Iterator
from fractions import Fraction
from xml.etree.ElementTree import Element

from msgspec import Struct

from party.model.company_model import CompanyModel
from party.settlement.settle import Settlement
from party.settlement.spending import Spending
from protocol.agreement.model import Agreement
from protocol.outcome.ball_quota import expected_levy, levy_deviation
from protocol.outcome.outcome import Outcome
from protocol.outcome.payments import brought
from protocol.planning.privacy_statement import (
    WEAK,
    at_most,
    in_guesses,
    others,
    payment_cost,
    totals_tell,
)
from protocol.report.allocation import money_decimals, payment_counts
from protocol.report.certificate import largest_cut
from protocol.report.elements import Content, element, facts, lead, number, section, small, verdicts
from protocol.report.format import coins, counted, fixed, money, percent

_DEVIATIONS = 2.0
"""In 1 of 20 sessions the levy is further than this many σ from its public estimate."""


class Account(Struct, frozen=True):
    """The company's money: alone, within its quota, payment and gain, as the page shows them.

    In units of the last decimal, so that the figures add up: each is off by less than two.
    """

    agreement: Agreement
    minimises: bool
    alone: int | None
    within: int | None
    payment: int
    decimals: int

    @classmethod
    def of(
        cls, outcome: Outcome, member: str, data: CompanyModel, settlement: Settlement
    ) -> "Account":
        payment, least = _shown_payment(outcome, member, settlement)
        plans = [settlement.alone, settlement.within_quota]
        utilities = [plan.utility for plan in plans if plan is not None]
        decimals = max(
            least, money_decimals([0.0, *utilities], outcome.agreement) if not payment else 0
        )
        alone, within = (
            None if plan is None else round(Fraction(plan.utility) * 10**decimals) for plan in plans
        )
        payment *= 10 ** (decimals - least)
        return cls(outcome.agreement, data.minimises, alone, within, payment, decimals)

    @property
    def left(self) -> int | None:
        return None if self.within is None else self.within - self.payment

    @property
    def gain(self) -> int | None:
        return None if self.left is None or self.alone is None else self.left - self.alone

    @property
    def earns(self) -> str:
        return "costs" if self.minimises else "earns"

    def amount(self, count: int) -> str:
        """An amount of money without its sign."""
        return money(self.agreement, fixed(abs(count), self.decimals))

    def value(self, utility: int | None) -> str:
        """What a plan earns or costs."""
        if utility is None:
            return "no plan"
        own = -utility if self.minimises else utility
        return money(self.agreement, fixed(own, self.decimals))

    @property
    def gain_text(self) -> str:
        """The gain or loss in money, and in percent of what the plan alone earns."""
        if not self.gain or not self.alone:
            return self.amount(self.gain or 0)
        return f"{self.amount(self.gain)} ({percent(abs(self.gain / self.alone), digits=3)})"


def _shown_payment(outcome: Outcome, member: str, settlement: Settlement) -> tuple[int, int]:
    """The payment as every page shows it, in units of the last decimal, and the decimals."""
    if outcome.agreement.masked:
        decimals = money_decimals([settlement.payment], outcome.agreement)
        return round(Fraction(settlement.payment) * 10**decimals), decimals
    _, paid, decimals = payment_counts(outcome)
    return paid[outcome.agreement.place(member)], decimals


def summary_section(
    outcome: Outcome, member: str, data: CompanyModel, settlement: Settlement, spending: Spending
) -> Element:
    """Is it worth it, what do you pay, how certain is that, and what did you reveal for it."""
    account = Account.of(outcome, member, data, settlement)
    direction = "worse off" if account.gain is not None and account.gain < 0 else "better off"
    return section(
        "What the session is worth to you",
        lead(*_gain(account, settlement)),
        verdicts(
            ("Payment", element("span", *_payment(account, outcome, member))),
            ("Certainty", _certainty(outcome, data)),
            ("Privacy", _privacy(outcome, spending)),
        ),
        facts(
            (f"Alone your plan {account.earns}", account.value(account.alone)),
            (f"Within your quota it {account.earns}", account.value(account.within)),
            ("You get" if account.payment < 0 else "You pay", account.amount(account.payment)),
            (
                "Costs after payment" if account.minimises else "Left after payment",
                account.value(account.left),
            ),
            (
                f"You are {direction} by",
                "no two plans to compare" if account.gain is None else account.gain_text,
            ),
        ),
        small(_unit(outcome.agreement)),
    )


def _gain(account: Account, settlement: Settlement) -> Iterator[Content]:
    """The answer for the case of this company."""
    if account.within is None:
        yield "Within your quota no plan is possible; see below what is missing."
    elif account.gain is None:
        yield "Without the others you have no plan; with your quota you have one."
    elif account.gain and settlement.alike:
        yield "Your quota is what you bring: except for rounding, you are as well off as alone."
    elif account.gain:
        yield f"You are {'worse' if account.gain < 0 else 'better'} off than alone by "
        yield from (element("strong", number(account.gain_text)), ".")
    else:
        yield "You are as well off as alone."


def _payment(account: Account, outcome: Outcome, member: str) -> Iterator[Content]:
    ball = outcome.agreement.ball and outcome.quota_risk
    if not account.payment and not ball:
        yield "You pay nothing and get nothing."
        return
    verb, relation = ("get", "less") if account.payment < 0 else ("pay", "more")
    yield f"You {verb} "
    yield element("strong", number(account.amount(account.payment)))
    if not ball:
        yield f", because your quota is worth {relation} than what you bring."
        return
    yield (
        f" for what you asked for in the rounds, which was worth {relation} than your centre: what "
        "you bring, less your part of what is withheld for noise."
    )
    kept = min(outcome.rule.scale)
    if kept < 1:
        yield (
            " By the noisy totals all together asked for too much. So your quotas are up to "
            f"{percent(float(1 - kept))} less than what you asked for and pay for."
        )
    yield " " + _levy(outcome, member)


def _levy(outcome: Outcome, member: str) -> str:
    """This company's part of the levy of the step `ball`, estimated from public numbers."""
    agreement = outcome.agreement
    part = float(brought(agreement, outcome.prices)[agreement.place(member)])
    levy = part * expected_levy(agreement, outcome.totals, outcome.path)
    open_by = part * _DEVIATIONS * levy_deviation(agreement, outcome.rounds, outcome.path)
    direction = "pay" if levy > 0.0 else "get back"
    return (
        f"When payments are settled, you also {direction} your part of the levy, about "
        f"{coins(agreement, abs(levy))}, plus or minus {coins(agreement, open_by)}. It is not in "
        "the figures below."
    )


def _certainty(outcome: Outcome, data: CompanyModel) -> Content:
    """How far you can rely on it, in two sentences."""
    if outcome.no_trade:
        return "Your figures are exact. There is no trade: your quota is what you bring."
    if data.integer is not None and outcome.certificate is not None:
        return (
            "Your figures are those of your plan. Your model has whole numbers, so what the "
            "session proves is about mixtures of your plans, not about your gain."
        )
    if outcome.certificate is not None and outcome.inconsistencies:
        return (
            "Your own figures are exact. There is no promise that no company loses by joining, "
            "because answers contradict each other; see below."
        )
    if outcome.certificate is not None and outcome.certificate.fits:
        # CERTIFICATE.md, Theorem 4.
        return element(
            "span",
            "Your figures are exact. It is proved: no company, whatever its data, loses more than ",
            element(
                "strong", number(coins(outcome.agreement, outcome.certificate.bound, most=True))
            ),
            " by joining, if all companies answered with best plans of their own.",
        )
    if outcome.certificate is not None and outcome.trade is not None:
        # CERTIFICATE.md, Theorem 8 (c).
        cut = percent(largest_cut(outcome.agreement, max(outcome.trade.excess)))
        most = coins(outcome.agreement, outcome.certificate.bound, most=True)
        return (
            f"Your own figures are exact. Quotas were cut by up to {cut}, because averaged demands "
            "do not fit. Suppose that all companies answered with best plans of their own. Then a "
            f"company that also has a plan with nothing loses by joining at most {most}, plus that "
            "percentage of two amounts: what all capacities are worth, and what it earns above "
            "that plan. A company that needs all that it asked for may lack as much."
        )
    return (
        "Your own figures are exact. There is no promise that no company loses by joining, because "
        f"{_no_promise(outcome)}. A company may well be worse off than alone."
    )


def _no_promise(outcome: Outcome) -> str:
    if outcome.agreement.ball:
        return (
            "prices follow from numbers with noise. Before the quotas were cut to fit, and before "
            "the levy, you had at least what your centre alone earns, if your model is concave"
        )
    if outcome.agreement.privacy is not None:
        return "prices follow from numbers with noise"
    return "the price rule of this session gives no certificate"


def _privacy(outcome: Outcome, spending: Spending) -> str:
    """What the session revealed to others, in a few sentences."""
    agreement, rounds = outcome.agreement, counted(outcome.rounds, "round", "rounds")
    if agreement.masked and agreement.privacy is None:
        return (
            "The others can read what all companies together would take, exactly, at the prices of "
            f"{rounds}. {totals_tell(agreement)} Your quota and payment are exact too: a person "
            "who sees them learns what you would take on average."
        )
    if agreement.privacy is None or agreement.rehearsal:
        noise = "repeatable noise hides nothing" if agreement.privacy is not None else "no noise"
        return (
            f"There is no guarantee ({noise}): the others can know what you would take at the "
            f"prices of {rounds}, and what follows from that."
        )
    cost = spending.session
    weak = " That promises next to nothing." if cost.guessed > WEAK else ""
    text = (
        f"Suppose that you have one of two data sets, both equally likely. Then {others(agreement)}"
        f" guess right in at most {in_guesses(cost.guessed)} cases instead of 50, whatever else "
        f"they know.{weak}"
    )
    payment = payment_cost(agreement)
    if payment is not None and agreement.ball:
        text += (
            " Your quota and your payment follow from your demands without noise: show them only "
            "where you must."
        )
    elif payment is not None:
        text += (
            " The person who moves your payment may learn more, and be right in "
            f"{in_guesses(payment.guessed)} cases (ε = {at_most(payment.epsilon(spending.delta))})."
            " Your quota follows from your demands without noise: show it only where you must."
        )
    return text


def _unit(agreement: Agreement) -> str:
    """The unit of the amounts, which no other party can check."""
    text = "Alone means: with what you bring. The value of a plan is that of your own objective."
    if agreement.currency:
        return f"{text} It is taken to be in {agreement.currency}, as the prices are."
    return (
        f"{text} The agreement names no currency: prices and payments are taken to be in the unit "
        "of that objective."
    )
