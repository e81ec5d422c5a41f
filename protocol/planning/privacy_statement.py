"""What an agreement promises about privacy, and what it does not, in words for people.

Every sentence here must hold against a member that lies. It must name those against whom the
promise does not hold. From the agreement alone. Never here: released or private numbers.
"""

import math
from decimal import ROUND_UP, Context

from protocol.agreement.model import Agreement
from protocol.outcome.margin import quota_margin
from protocol.privacy.accountant import PrivacyCost
from protocol.privacy.calibration import Calibration

WEAK = 0.9
"""If guesses may be right more often than this, the text says that the promise is weak."""


def statement(agreement: Agreement) -> str:
    """The privacy statement of a session."""
    p = agreement.privacy
    if agreement.rehearsal and p is not None:
        return "none: this is a rehearsal, and its noise can be repeated"
    if p is None and agreement.masked:
        return (
            "none in numbers: single demands are masked, but totals are shown without noise, and "
            "totals can reveal what one company asked for"
        )
    if p is None:
        return "none: mode 'exact' shows the demands without noise"
    if agreement.masked:
        shape = "noise for a ball" if agreement.ball else f"{p.noise} noise"
        who = "any one other member" if p.colluders == 1 else f"any {p.colluders} other members"
        return (
            "all that the messages of a session reveal about a party's data is "
            f"(ε={p.epsilon:g}, δ={p.delta:g})-differentially private ({p.accountant} accountant, "
            f"{shape}) against {who}, the coordinator and everybody outside, together. "
            "This holds if the remaining members add their noise as agreed, and if X25519, BLAKE2b "
            "and ChaCha20 are not broken"
        )
    return (
        f"all releases of each party together are (ε={p.epsilon:g}, δ={p.delta:g})-locally "
        f"differentially private ({p.accountant} accountant, {p.noise} noise)"
    )


def others(agreement: Agreement) -> str:
    """Those against whom the promise holds, even if they combine all they know."""
    colluders = None if agreement.privacy is None else agreement.privacy.colluders
    if colluders is None:
        return "all the others together"
    count = "any one other company" if colluders == 1 else f"any {colluders} other companies"
    return f"{count}, the coordinator and everybody outside together"


def plain(agreement: Agreement) -> str:
    """The statement in plain words."""
    if agreement.masked and agreement.privacy is None:
        return (
            "In plain words: everyone with the transcript can read the exact total demand of "
            "each round, and each company can subtract its own demand from it. "
            f"{totals_tell(agreement)}"
        )
    if agreement.rehearsal or agreement.privacy is None:
        return (
            "In plain words: nothing here hides a company’s demands from the others. They can "
            "learn whatever its demands reveal about its data."
        )
    cost = session_cost(agreement)
    weak = " That promises next to nothing." if cost.guessed > WEAK else ""
    return (
        "In plain words: suppose that a company has one of two data sets, both equally likely, and "
        f"that {others(agreement)} know everything else. Without the session they guess right in "
        f"50 of 100 cases. With it they guess right in at most {in_guesses(cost.guessed)}.{weak}"
    )


def totals_tell(agreement: Agreement) -> str:
    """The warning about totals without noise."""
    few = ""
    if len(agreement.members) == 3:
        few = "With three companies, as here, each sees what the two others ask for together. "
    return (
        f"Totals without noise can reveal one company’s demands. {few}They reveal most with three "
        "companies, over several sessions with the same data, and if the others’ data are "
        "known. A company that lies can steer the prices to learn more."
    )


def in_guesses(guessed: float) -> str:
    """At most how many of 100 guesses are right."""
    return f"{min(math.ceil(100.0 * guessed), 100)} of 100"


def at_most(epsilon: float) -> str:
    """An upper bound on ε: three digits, rounded up."""
    rounded = Context(prec=3, rounding=ROUND_UP).create_decimal_from_float(epsilon)
    return f"{float(rounded):g}"


def session_cost(agreement: Agreement) -> PrivacyCost:
    """What a session reveals to those against whom the promise holds."""
    return Calibration(agreement).per_release.times(agreement.rounds)


def by_shares(agreement: Agreement) -> bool:
    """Whether the agreement alone makes private quotas pro rata."""
    noisy = agreement.privacy is not None and agreement.masked
    return noisy and quota_margin(agreement).pro_rata == 1


def payment_cost(agreement: Agreement) -> PrivacyCost | None:
    """What a session reveals about a company to a person who also sees its payment.

    None if payments follow from public numbers. Guarantee: with noisy totals, a payment is
    computed from numbers that carry the company's own noise. It reveals no more than all other
    members together know (PRIVACY.md §11). With the step `ball` it carries no noise (§15).
    """
    if agreement.privacy is None or not agreement.masked or by_shares(agreement):
        return None
    if agreement.ball:
        return PrivacyCost(mu_squared=math.inf)  # it carries no noise at all
    return Calibration(agreement).against(len(agreement.members) - 1)


_EXACT = (
    "A company’s quota and payment follow from its exact demands. A person who sees what it may "
    "use, or uses, learns its average demand. A person who moves its payment learns what that "
    "demand is worth."
)
_NOISY = (
    "Prices, quotas and payments follow from the noisy numbers alone, and cost no further privacy."
)
_BY_SHARES = (
    "Prices follow from the noisy totals alone. The noise is so large here that quotas are pro "
    "rata. Quotas and payments follow from public numbers, and cost no further privacy."
)
_ENDOWED = (
    "The noise would be so large here that every company keeps its endowment and pays nothing. "
    "Messages, quotas and payments follow from the agreement alone, and reveal nothing."
)
_UNCOVERED = (
    "Prices follow from the noisy totals alone, and cost no further privacy. Quotas and payments "
    "do cost: both follow from a company’s own demands without noise. A person who sees what the "
    "company may use, or uses, learns its average demand. A person who moves its payment learns "
    "what it bought, in money. No guarantee covers either. From its part of the levy a company "
    "learns the exact sum of all payments, and no guarantee covers that."
)
_OWN = (
    "Prices follow from the noisy totals alone, and cost no further privacy. Quotas do cost: a "
    "company’s quota follows from its own demands without noise. A person who sees what the "
    "company may use, or uses, learns its average demand. No guarantee covers that."
)


def unprotected(agreement: Agreement) -> list[str]:
    """What quotas and payments reveal beyond the promise, and to whom."""
    p = agreement.privacy
    if agreement.rehearsal or (p is None and not agreement.masked):
        return []
    if p is None:
        return [_EXACT]
    if not agreement.masked:
        return [_NOISY]
    paid = payment_cost(agreement)
    if paid is None:
        return [_ENDOWED if agreement.ball else _BY_SHARES]
    if agreement.ball:
        return [_UNCOVERED]
    payment = (
        "A company’s payment carries only the company’s own noise. A person who handles the money "
        "learns from it as much as all other companies together could: up to "
        f"ε = {at_most(paid.epsilon(p.delta))} instead of {p.epsilon:g}. Between two data sets, "
        f"that person guesses right in at most {in_guesses(paid.guessed)} cases instead of "
        f"{in_guesses(session_cost(agreement).guessed)}."
    )
    return [_OWN, payment]
