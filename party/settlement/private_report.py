"""The page for one company: what a session is worth to it, above what everybody may know.

It holds un-noised numbers and is for the company's own files: nothing made here goes into a
message, a log or an error.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from xml.etree.ElementTree import Element

import numpy as np

from party.ledger.budget import Limit, in_words, statement
from party.model.company_model import CompanyModel
from party.settlement.settle import Settlement
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome
from protocol.planning.privacy_statement import (
    WEAK,
    at_most,
    in_guesses,
    others,
    payment_cost,
    totals_tell,
)
from protocol.privacy.accountant import PrivacyCost
from protocol.report.allocation import money_decimals, own_quota_texts, payment_counts, quota_texts
from protocol.report.certificate import certificate_figures, certified, money
from protocol.report.format import ROWS, amount_text, counted, decimals_of, left_out, titled
from protocol.report.html import (
    Content,
    bar,
    callout,
    element,
    facts,
    figure,
    fixed,
    grid,
    number,
    page,
    paragraph,
    section,
    table,
    verdicts,
)
from protocol.report.public import header, public_sections, summary
from protocol.runtime.wait_times import WaitTimes

VARIABLES = 50
"""Variables of the plan that the page shows. `plan.csv` has all."""


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What privacy a company's data have spent, here and in all sessions, and their limit."""

    data_set: str
    delta: float
    session: PrivacyCost
    lifetime: PrivacyCost
    limit: Limit | None = None
    colluders: tuple[int, ...] = ()

    @property
    def sentences(self) -> tuple[str, str, str]:
        """The same for people."""
        session, lifetime = (in_words(s, self.delta) for s in (self.session, self.lifetime))
        told = f"In this session your data spent {session}."
        if math.isinf(self.session.epsilon(self.delta)):
            told = (
                "This session counts as all of a budget: what it told has no guarantee in numbers."
            )
        return (
            told,
            f"In all sessions together the data set {self.data_set!r} has spent {lifetime}.",
            statement(
                self.data_set,
                self.limit,
                everything=math.isinf(self.lifetime.mu_squared),
                colluders=self.colluders,
            ),
        )


def private_page(
    known: Outcome,
    member: str,
    data: CompanyModel,
    settlement: Settlement,
    spending: Spending,
    *,
    waits: WaitTimes | None = None,
    written: str = "",
    unanswered: int = 0,
) -> str:
    """The page for one company: its own figures, then all of the public page. Secret."""
    told = known, member, data, settlement, spending
    parts = private_parts(*told, waits=waits, written=written, unanswered=unanswered)
    return private_document(known, member, parts)


def private_document(known: Outcome, member: str, parts: list[Element]) -> str:
    """The private page with these contents."""
    return page(f"PRIVATE: {known.agreement.session} for {member}", *parts, kind="private")


def private_parts(
    known: Outcome,
    member: str,
    data: CompanyModel,
    settlement: Settlement,
    spending: Spending,
    *,
    waits: WaitTimes | None = None,
    written: str = "",
    unanswered: int = 0,
) -> list[Element]:
    """All that is on it, with what a manager asks first. Secret. `written` is a date, or empty.

    `unanswered` is in how many rounds the company's solver had no answer.
    """
    return [
        element("p", f"PRIVATE — for {member} only, do not forward", class_="banner", role="alert"),
        header(known, ", ".join(filter(None, [f"Private report for {member}", written]))),
        _worth(known, member, data, settlement, spending),
        *_shortfall(known.agreement, settlement),
        *_unanswered(known, unanswered),
        _uses(known, member, settlement),
        _plan(data, settlement),
        _certain(known, data, settlement),
        *_at_prices(known, data, settlement),
        section("What privacy was spent", *map(paragraph, spending.sentences)),
        *_waiting(waits),
        element("p", "From here on: what every company sees", class_="part"),
        element("section", *summary(known)),
        *public_sections(known),
    ]


def _waiting(waits: WaitTimes | None) -> list[Element]:
    """For whom this party has waited longest, where that was long."""
    if waits is None or not waits.sentence:
        return []
    return [
        section(
            "How long your party waited",
            paragraph(f"Your party {waits.sentence}."),
            paragraph(
                "It counted from when its own release left until the other one arrived. A slow "
                "network and a slow member look alike, and others may have seen something else."
            ),
        )
    ]


def _unanswered(known: Outcome, rounds: int) -> list[Element]:
    """Tell of rounds in which the solver had no answer, where there were some."""
    if not rounds:
        return []
    return [
        section(
            "Rounds without an answer",
            paragraph(
                f"In {rounds} of {known.rounds} rounds your solver had no answer when it was due. "
                "Each of them counted as no demand, so your quota may be smaller than you would "
                "have asked for. Nobody else knows. For the next session agree on a longer pace "
                "(`party check` says which your model needs), or make the model smaller."
            ),
        )
    ]


@dataclass(frozen=True)
class Account:
    """Alone, within the quota, payment and what comes of them, in the last decimal shown.

    Counted so that the figures on the page add up: each is off by less than two.
    """

    alone: int | None
    within: int | None
    payment: int
    decimals: int

    @classmethod
    def of(cls, known: Outcome, member: str, settlement: Settlement) -> "Account":
        paid, least = _shown_payment(known, member, settlement)
        plans = [settlement.alone, settlement.within_quota]
        utilities = [plan.utility for plan in plans if plan is not None]
        decimals = max(least, money_decimals([0.0, *utilities]) if not paid else 0)
        alone, within = (
            None if plan is None else round(Fraction(plan.utility) * 10**decimals) for plan in plans
        )
        payment = paid * 10 ** (decimals - least)
        return cls(alone, within, payment, decimals)

    @property
    def left(self) -> int | None:
        return None if self.within is None else self.within - self.payment

    @property
    def gain(self) -> int | None:
        return None if self.left is None or self.alone is None else self.left - self.alone


def _shown_payment(known: Outcome, member: str, settlement: Settlement) -> tuple[int, int]:
    """What this company pays, counted in the last of so many decimals, as every page shows it."""
    if known.agreement.masked:
        decimals = money_decimals([settlement.payment])
        return round(Fraction(settlement.payment) * 10**decimals), decimals
    _, paid, decimals = payment_counts(known)
    return paid[known.agreement.place(member)], decimals


def _worth(
    known: Outcome, member: str, data: CompanyModel, settlement: Settlement, spending: Spending
) -> Element:
    """Is it worth it, what is to be paid, can it be relied on, what was given away for it."""
    account = Account.of(known, member, settlement)
    earns = "costs" if data.minimises else "earns"
    sign = -1 if data.minimises else 1

    def told(count: int | None, factor: int = 1) -> str:
        if count is None:
            return "no plan"
        return money(known.agreement, fixed(factor * count, account.decimals))

    part = ""
    if account.gain and account.alone:
        part = f"({figure(abs(100.0 * account.gain / account.alone), digits=3)} %)"
    pays = "You get" if account.payment < 0 else "You pay"
    off = "worse off" if account.gain is not None and account.gain < 0 else "better off"
    gain: Content = "no two plans to compare"
    if account.gain is not None:
        gain = element("span", told(abs(account.gain)), " ", number(part))
    return section(
        "What the session is worth to you",
        element(
            "p",
            *_gained(account, settlement, told, part),
            *_plans(account, earns, told, sign),
            class_="lead",
        ),
        verdicts(
            ("Payment", element("span", *_paid(account, told))),
            ("Certainty", _certainty(known, data)),
            ("Privacy", _privacy(known, spending)),
        ),
        facts(
            (f"Alone your best plan {earns}", told(account.alone, sign)),
            (f"Within your quota it {earns}", told(account.within, sign)),
            (pays, told(abs(account.payment))),
            (
                "Costs after payment" if data.minimises else "Left after payment",
                told(account.left, sign),
            ),
            (f"You are {off} by", gain),
        ),
        element("p", _unit(known.agreement), class_="small"),
    )


def _gained(
    account: Account, settlement: Settlement, told: Callable[..., str], part: str
) -> Iterator[Content]:
    """The answer, for the case that this company is in."""
    if account.within is None:
        yield "Within your quota your model has no plan: what is missing is said below. "
    elif account.gain is None:
        yield "Without the others you could not work at all; together with them you can. "
    elif account.gain and settlement.alike:
        yield "Your quota is what you bring: but for rounding you are as well off as alone. "
    elif account.gain:
        yield f"You are {'worse' if account.gain < 0 else 'better'} off than alone by "
        yield from (element("strong", number(f"{told(abs(account.gain))} {part}".strip())), ". ")
    else:
        yield "You are as well off as alone. "


def _plans(account: Account, earns: str, told: Callable[..., str], sign: int) -> Iterator[Content]:
    """What the answer rests on."""
    if account.alone is None:
        yield "Alone, with what you bring, your model has no plan"
    else:
        yield f"Alone, with what you bring, your best plan {earns} "
        yield number(told(account.alone, sign))
    if account.within is not None:
        yield f"; within your quota it {earns} "
        yield number(told(account.within, sign))
    yield "."


def _paid(account: Account, told: Callable[..., str]) -> Iterator[Content]:
    if not account.payment:
        yield "You pay nothing and get nothing."
        return
    side, pays = ("below", "get") if account.payment < 0 else ("above", "pay")
    yield f"You {pays} "
    yield element("strong", number(told(abs(account.payment))))
    yield f" for what your quota is worth {side} what you bring."


def _certainty(known: Outcome, data: CompanyModel) -> Content:
    """Whether it can be relied on, in a sentence or two."""
    if data.integer is not None and known.certificate is not None:
        return (
            "Your figures are those of your plan. Your model has whole numbers, so that what the "
            "session proves is about the models without that condition, not about your gain."
        )
    if known.certificate is not None and known.certificate.fits:
        # CERTIFICATE.md, Theorem 4.
        return element(
            "span",
            "Your figures are exact. It is proved that no company loses more than ",
            element("strong", number(money(known.agreement, figure(known.certificate.bound)))),
            " by joining, if all have answered with best plans of their own.",
        )
    return (
        "Your own figures are exact. That nobody loses by joining is not promised here, because "
        f"{_no_promise(known)}."
    )


def _there(known: Outcome) -> str:
    """Whether what a quota allows is there."""
    if known.quota_risk:
        return (
            "What your quota allows is there as long as all companies keep to theirs, but for a "
            f"chance of {100.0 * known.quota_risk:g} % at most that all quotas together are more "
            "than some capacity."
        )
    return "What your quota allows is there as long as all companies keep to theirs."


def _no_promise(known: Outcome) -> str:
    if known.agreement.privacy is not None:
        return "prices follow from numbers with noise"
    if known.certificate is not None:
        return "quotas were cut, and may be less than what a company asked for"
    return "the rounds were not played by the rule that has a certificate"


def _privacy(known: Outcome, spending: Spending) -> Content:
    """What was given away, in a sentence or two."""
    agreement, rounds = known.agreement, counted(known.rounds, "round", "rounds")
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
            f"prices of {rounds}, and what follows from it."
        )
    cost = spending.session
    weak = ", which promises next to nothing" if cost.guessed > WEAK else ""
    told = (
        f"If you might have either of two data sets, both equally likely, {others(agreement)} "
        f"guess right in at most {in_guesses(cost.guessed)} cases instead of 50, whatever else "
        f"they know{weak}."
    )
    paid = payment_cost(agreement)
    if paid is not None:
        told += (
            " The one who moves your payment may learn more, and be right in "
            f"{in_guesses(paid.guessed)} cases (ε = {at_most(paid.epsilon(spending.delta))}). "
            "Your quota follows from your demands without noise: show it only where you must."
        )
    return told


def _certain(known: Outcome, data: CompanyModel, settlement: Settlement) -> Element:
    """What holds for the figures above whatever the others do, what is proved, and what is not."""
    agreement = known.agreement
    made = section(
        "How certain that is",
        paragraph(
            "The figures above are yours exactly: your own model was solved for them. "
            + _there(known)
        ),
        paragraph(certified(agreement, certificate_figures(known), write=figure)),
    )
    certificate = known.certificate
    if certificate is not None and data.integer is not None:
        # CERTIFICATE.md §7.
        made.append(
            paragraph(
                "Your model has whole numbers. The certificate is then about mixtures of your "
                "plans, of which each is made for a part of the time: it bounds what all companies "
                "could earn together, with or without whole numbers, and is no promise that your "
                "own plan within your quota is as good as that, nor that you are better off than "
                "alone. What you gain or lose stands above, exactly."
            )
        )
        return made
    if certificate is not None and certificate.fits:
        # CERTIFICATE.md, Theorem 4.
        made.append(
            paragraph(
                "So nobody loses by joining: for no company can it be worth less than being alone "
                "by more than that, ",
                number(money(agreement, figure(certificate.bound))),
                ", whatever its data, if all companies have answered with best plans of their own.",
            )
        )
        return made
    gain, told = settlement.gain, ""
    if gain is not None:
        told = " Here it is not so." if gain >= 0.0 else " Here it is so."
        if settlement.alike:
            told = " Here it is not so, but for rounding."
    made.append(
        paragraph(
            "There is no promise that nobody loses by joining, because "
            f"{_no_promise(known)}: a company may well be worse off than alone.{told}"
        )
    )
    return made


def _at_prices(known: Outcome, data: CompanyModel, settlement: Settlement) -> list[Element]:
    """The plan of the paper, which nobody can count on."""
    wanted, paid = settlement.at_prices, settlement.paid
    if wanted is None or paid is None:
        return []
    earns = "costs" if data.minimises else "earns"
    return [
        section(
            "If you could buy whatever you want",
            paragraph(
                "At the prices of the outcome, and with all that you use to be bought, you would "
                "choose this plan. It is not guaranteed to be available: what all companies want "
                "at these prices may together exceed a capacity."
            ),
            facts(
                (
                    f"Your price plan (not guaranteed) {earns}",
                    _value(known, data, wanted.utility),
                ),
                ("What it uses would cost", money(known.agreement, figure(paid, digits=6))),
                (
                    "Costs after that" if data.minimises else "Left after that",
                    _value(known, data, wanted.utility - paid),
                ),
            ),
        )
    ]


def _value(known: Outcome, data: CompanyModel, utility: float) -> str:
    """A utility as the company's own model puts it: as what it earns, or as what it costs."""
    own = -utility if data.minimises else utility
    return money(known.agreement, figure(own, digits=6))


def _unit(agreement: Agreement) -> str:
    """In what all of this is, which nobody else can check."""
    if agreement.currency:
        return (
            "What plans earn or cost is the value of your own objective, which is taken to be in "
            f"{agreement.currency} as the prices are."
        )
    return (
        "What plans earn or cost is the value of your own objective. The agreement names no "
        "currency: prices and payments are taken to be in the unit of that objective."
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
    """Quota, endowment and what the plans use of each resource, as bars."""
    agreement, row = known.agreement, known.agreement.place(member)
    equal = amounts(agreement, settlement.endowment_ticks, row)
    own = amounts(agreement, settlement.quota_ticks, row)
    plans = (settlement.within_quota, settlement.at_prices)
    within, wanted = (None if plan is None else plan.uses for plan in plans)
    uses = [own, equal, *(plan.uses for plan in plans if plan is not None)]
    measures = np.array([r.measure for r in agreement.resources])
    longest = max(0.0, *(float((use / measures).max()) for use in uses)) or 1.0

    def line(name: str, kind: str, use: Floats | None, j: int) -> tuple[Content, ...]:
        if use is None:
            return name, "", "–", "–"
        resource, amount = agreement.resources[j], float(use[j])
        part = amount / resource.measure
        texts = (amount_text(resource, amount), f"{part:.2%}".replace("%", " %"))
        last_decimal = 10.0 ** -decimals_of(resource)
        all_of_it = use is within and abs(amount - float(own[j])) <= last_decimal
        if (use is own or all_of_it) and not agreement.banded:
            # A plan that uses all of its quota must not seem to use more.
            texts = (
                own_quota_texts(known, int(settlement.quota_ticks[j]), j)
                if agreement.masked
                else quota_texts(known, row, j)
            )
        return name, bar(max(0.0, part / longest), kind), *map(number, texts)

    cards = [
        table(
            (),
            [
                line("You bring", "half", equal, j),
                line("Your quota", "full", own, j),
                line("Your plan uses", "full", within, j),
                line("At the prices", "open", wanted, j),
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


def plan_decimals(sizes: Sequence[float]) -> int | None:
    """So many that the largest has six digits; None where that is out of all proportion."""
    largest = max(sizes, default=0.0)
    if largest == 0.0:
        return 0
    size = math.floor(math.log10(largest))
    return max(0, 5 - size) if -5 <= size < 15 else None


def in_line(value: float, decimals: int | None) -> str:
    """A value of the plan, such that the digits of a column stand below each other."""
    if decimals is None:
        return figure(value, digits=6)
    return fixed(round(Fraction(value) * 10**decimals), decimals)


def _plan(data: CompanyModel, settlement: Settlement) -> Element:
    chosen = settlement.within_quota or settlement.at_prices
    heading = "Your plan"
    if chosen is None:
        return section(heading, paragraph("There is no plan."))
    order = np.argsort(-np.abs(chosen.values), kind="stable")[:VARIABLES].tolist()
    columns = [
        None if plan is None else plan.values.tolist()
        for plan in (settlement.within_quota, settlement.at_prices)
    ]
    decimals = plan_decimals([abs(c[i]) for c in columns if c is not None for i in order])
    rows = [
        (data.names[i], *(number("–" if c is None else in_line(c[i], decimals)) for c in columns))
        for i in order
    ]
    count = f"The {len(rows)} largest of {data.columns} variables"
    shown = f"All {data.columns} variables" if len(rows) == data.columns else count
    return section(
        heading,
        paragraph(f"{shown}, by size. plan.csv has all of them to the last digit."),
        table(("Variable", "Within your quota", "At the prices (not guaranteed)"), rows),
    )
