"""The further sections of the private report: quota, plan, certainty, what went wrong.

All of it is un-noised and secret: for the company's own report only.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from xml.etree.ElementTree import Element

import numpy as np

from party.model.company_model import CompanyModel
from party.settlement.settle import Settlement
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts
from protocol.clearing.claims import file_name
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome, no_claims
from protocol.report.allocation import money_decimals, quota_texts
from protocol.report.certificate import certificate_figures, certified
from protocol.report.elements import (
    Content,
    bar,
    callout,
    code,
    facts,
    grid,
    number,
    paragraph,
    section,
    table,
)
from protocol.report.format import (
    ROWS,
    amount_text,
    coins,
    decimals_of,
    figure,
    fixed,
    left_out,
    money,
    titled,
)
from protocol.report.terminal import outcome_figures
from protocol.report.trade import why_no_trade
from protocol.runtime.wait_times import WaitTimes

VARIABLES = 50
"""Variables of the plan that the page shows. `plan.csv` has all."""


_PROVED = """You committed to your quota and payment. Each claim shows one recipient one number,
which can be checked and not changed."""
_STATED = """Each claim shows one recipient one number, and you sign it. With noise nothing proves
that it is true, so recipients check only limits and sums. Your privacy budget covers none of these
numbers: a recipient learns what you asked for on average, or what that is worth in money."""


def shortfall(agreement: Agreement, settlement: Settlement) -> list[Element]:
    """What is missing if the quota is too small for any plan."""
    if settlement.within_quota is not None:
        return []
    if settlement.unsolved:
        failed = (
            "The solver found no plan within your quota, and did not prove that there is none. "
            "Scale the coefficients of your model closer to 1, and run party result."
        )
        return [section("No plan was found", callout(failed))]
    heading, extra = "What you need above your quota", settlement.extra_ticks
    warning = callout(
        "Your quota is too small: the rows and bounds of your model need more, so no plan stays "
        "within it."
    )
    if extra is None:
        failed = "The smallest addition that is enough could not be computed."
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
            "The smallest addition that is enough, in fractions of the capacities. No one "
            "else knows it. If you ask the others for it, you reveal something about your data.",
            table(("Resource", "Addition", "Of the capacity"), rows),
        )
    ]


def unanswered_rounds(outcome: Outcome, rounds: int) -> list[Element]:
    """The rounds in which the solver had no answer, if there were any."""
    if not rounds:
        return []
    return [
        section(
            "Rounds without an answer",
            paragraph(
                f"In {rounds} of {outcome.rounds} rounds your solver had no answer in time. Each "
                "of them counted as no demand, so your quota may be smaller than you would have "
                "asked for. No one else knows. For the next session agree on a longer pace, or "
                "make the model smaller. The pace that your model needs is printed by ",
                code("party check"),
                ".",
            ),
        )
    ]


def quota_and_use(outcome: Outcome, member: str, settlement: Settlement) -> Element:
    """Endowment, quota and what the plans use of each resource, as bars."""
    agreement, row = outcome.agreement, outcome.agreement.place(member)
    endowment = amounts(agreement, settlement.endowment_ticks, row)
    quota = amounts(agreement, settlement.quota_ticks, row)
    plans = (settlement.within_quota, settlement.at_prices)
    within, wanted = (None if plan is None else plan.uses for plan in plans)
    measures = np.array([r.measure for r in agreement.resources])
    uses = [use for use in (quota, endowment, within, wanted) if use is not None]
    # A bar of 30 % is 30 % long, unless one of them needs more than there is.
    longest = max(1.0, *(float((use / measures).max()) for use in uses))

    def line(name: str, kind: str, use: Floats | None, j: int) -> tuple[Content, ...]:
        if use is None:
            return name, "", "–", "–"
        resource, amount = agreement.resources[j], float(use[j])
        fraction = amount / resource.measure
        texts = (amount_text(resource, amount), f"{fraction:.2%}".replace("%", " %"))
        last_decimal = 10.0 ** -decimals_of(resource)
        uses_all = use is within and abs(amount - float(quota[j])) <= last_decimal
        if (use is quota or uses_all) and not agreement.banded:
            # A plan that uses all of its quota must not seem to use more.
            texts = quota_texts(outcome, row, int(settlement.quota_ticks[j]), j)
        return name, bar(max(0.0, fraction / longest), kind), *map(number, texts)

    cards = [
        table(
            (),
            [
                line("You bring", "half", endowment, j),
                line("Your quota", "full", quota, j),
                line("You use", "full", within, j),
                line("At the prices", "open", wanted, j),
            ],
            caption=titled(resource),
        )
        for j, resource in enumerate(agreement.resources[:ROWS])
    ]
    return section(
        "Your quota and how you use it",
        "In units and in percent of the capacity; all bars have the same scale. What you would "
        "take at the prices of the outcome is not guaranteed to be available.",
        grid(cards),
        *left_out(len(cards), len(agreement.resources), "resources", "result.json"),
    )


def plan_table(data: CompanyModel, settlement: Settlement) -> Element:
    """The largest variables of the plan within the quota and of the plan at the prices."""
    chosen = settlement.within_quota or settlement.at_prices
    heading = "Your plan"
    if chosen is None:
        return section(heading, "There is no plan.")
    order = np.argsort(-np.abs(chosen.values), kind="stable")[:VARIABLES].tolist()
    columns = [
        None if plan is None else plan.values.tolist()
        for plan in (settlement.within_quota, settlement.at_prices)
    ]
    decimals = _plan_decimals([abs(c[i]) for c in columns if c is not None for i in order])
    rows = [
        (data.names[i], *(number("–" if c is None else _value(c[i], decimals)) for c in columns))
        for i in order
    ]
    shown = f"The {len(rows)} largest of {data.columns} variables"
    if len(rows) == data.columns:
        shown = f"All {data.columns} variables"
    return section(
        heading,
        f"{shown}, by size. plan.csv has all of them to the last digit.",
        table(("Variable", "Within your quota", "At the prices (not guaranteed)"), rows),
    )


def _plan_decimals(sizes: Sequence[float]) -> int | None:
    """Enough that the largest value has six digits; None if it is extremely large or small."""
    largest = max(sizes, default=0.0)
    if largest == 0.0:
        return 0
    size = math.floor(math.log10(largest))
    return max(0, 5 - size) if -5 <= size < 15 else None


def _value(value: float, decimals: int | None) -> str:
    """A value of the plan; all values of a column have the same number of decimals."""
    if decimals is None:
        return figure(value, digits=6)
    return fixed(round(Fraction(value) * 10**decimals), decimals)


def certainty(outcome: Outcome, data: CompanyModel, settlement: Settlement) -> Element:
    """Whether the quota is available, what the session proves, and what that is about."""
    available = "What your quota allows is available if all companies stay within theirs."
    if outcome.quota_risk:
        available += (
            f" Even then there is a risk, of at most {100.0 * outcome.quota_risk:g} %, that all "
            "quotas together are more than some capacity."
        )
    texts = [
        f"The figures above are yours exactly: your own model was solved for them. {available}",
        *(why_no_trade(outcome.agreement, outcome_figures(outcome)) or [_certified(outcome)]),
    ]
    if outcome.certificate is not None and data.integer is not None:
        # CERTIFICATE.md §7.
        texts.append(
            "Your model has whole numbers. The certificate is then about mixtures of your plans, "
            "each of them used for a part of the time. It bounds what all companies could earn "
            "together, with or without whole numbers. It does not promise that your own plan "
            "within your quota is as good as that, nor that you are better off than alone. What "
            "you gain or lose is stated above, exactly."
        )
    if settlement.mixture_loss is not None:
        most = coins(outcome.agreement, settlement.mixture_loss, most=True)
        texts.append(
            f"Mixtures of your plans within your quota would earn at most {most} more than your "
            "plan. No one else knows this amount."
        )
    return section("How certain that is", *map(paragraph, texts))


def _certified(outcome: Outcome) -> str:
    return certified(outcome.agreement, certificate_figures(outcome), write=figure)


def loss_with_integers(settlement: Settlement) -> list[Element]:
    """A warning before the company acts, if its integer plan leaves it worse off than alone."""
    if not settlement.loses:
        return []
    return [
        section(
            "Before you act",
            callout(
                "Your model has whole numbers. Your best plan within your quota, less your "
                "payment, leaves you worse off than alone. No one else knows this, and the session "
                "is sealed all the same. If you ask the others for another quota, you reveal "
                "something about your data."
            ),
        )
    ]


def price_plan(outcome: Outcome, data: CompanyModel, settlement: Settlement) -> list[Element]:
    """The plan of the paper, which is not guaranteed."""
    wanted, paid = settlement.at_prices, settlement.paid
    if wanted is None or paid is None:
        return []

    decimals, sign = (
        money_decimals([wanted.utility, paid], outcome.agreement),
        -1 if data.minimises else 1,
    )

    def amount(value: float) -> str:
        return money(outcome.agreement, fixed(round(Fraction(value) * 10**decimals), decimals))

    earns, left = ("costs", "Costs") if data.minimises else ("earns", "Left")
    return [
        section(
            "If you could buy whatever you want",
            "If you could buy all that you use at the prices of the outcome, you would choose "
            "this plan. It is not guaranteed to be available: what all companies want at these "
            "prices may together exceed a capacity.",
            facts(
                (f"Your price plan (not guaranteed) {earns}", amount(sign * wanted.utility)),
                ("What it uses would cost", amount(paid)),
                (f"{left} after that", amount(sign * (wanted.utility - paid))),
            ),
        )
    ]


def waiting(waits: WaitTimes | None) -> list[Element]:
    """The member that this party waited for longest, if that was long."""
    if waits is None or not waits.sentence:
        return []
    return [
        section(
            "How long your party waited",
            f"Your party {waits.sentence}.",
            "The time runs from when your release was sent until the other one arrived. A slow "
            "network and a slow member look alike, and other parties may have seen something else.",
        )
    ]


def claims(outcome: Outcome, member: str) -> list[Element]:
    """Which claims the company can make, and where to send them."""
    agreement = outcome.agreement
    if not agreement.masked:
        return []
    if no_claims(outcome):
        missing = (
            f"No claims can be made in this session: {no_claims(outcome)}. Your quota and payment "
            "stand, but you cannot show them with a claim."
        )
        return [section("Claims", paragraph(missing))]
    rows = [
        (
            f"your quota of {resource.name}",
            resource.operator.name if resource.operator else "who runs it",
            f"party claim --for {resource.name}",
            file_name(agreement, member, resource.name),
        )
        for resource in agreement.resources
    ]
    office = agreement.clearing.name if agreement.clearing else "who moves the money"
    payment = file_name(agreement, member, None)
    rows.append(("your payment", office, "party claim --payment", payment))
    shown = [
        paragraph(f"{_PROVED if agreement.commits else _STATED} Add --agreement and --key."),
        table(
            ("Claim", "send it to", "command", "it writes"),
            [(what, to, code(command), code(file)) for what, to, command, file in rows],
        ),
    ]
    if agreement.commits:
        last = (
            "When all claims are made, party forget destroys the secrets behind them. After that "
            "no claim can be made."
        )
        shown.append(paragraph(last))
    return [section("Claims", *shown)]
