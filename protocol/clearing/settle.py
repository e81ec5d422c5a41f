"""Adds up claims: payments in cents that add up to zero, transfers, and who may use how much.

Where single releases are public, all of it follows from the transcript, without claims.
Never here: reading a file, or trusting a number that was not verified.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from protocol.agreement.quantities import amounts
from protocol.clearing.claims import Claim, payment_grains, quota_ticks
from protocol.commitment.layout import MONEY_GRAIN_UNITS
from protocol.errors import InternalError
from protocol.numeric import round_to_sum
from protocol.outcome.outcome import Outcome
from protocol.outcome.payments import unit_of_money

CENTS = 100
"""Smallest amounts of money in one unit of the currency."""


@dataclass(frozen=True)
class Transfer:
    """One payment between two members, in cents."""

    payer: str
    payee: str
    cents: int


@dataclass(frozen=True)
class Clearing:
    """What a session means for those who move money and run resources."""

    outcome: Outcome
    #: By resource, then by member: what it may use, in units. Only what is known.
    quotas: dict[str, dict[str, float]]
    #: By member: what it pays, in cents, negative if it is paid. Zero together, or not all known.
    payments: dict[str, int]
    #: Members whose claim is missing, by resource; under "" those whose payment is.
    missing: dict[str, tuple[str, ...]]
    #: Why single files do not count, by file.
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def balanced(self) -> bool:
        """Whether the payments of all members are known: then they add up to zero exactly."""
        return len(self.payments) == len(self.outcome.agreement.members)

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """Payments between members that settle all; none unless all payments are known.

        At most one transfer fewer than there are members.
        """
        return netted(self.payments) if self.balanced else ()


def from_transcript(outcome: Outcome) -> Clearing:
    """Everything, where single releases are public."""
    agreement = outcome.agreement
    rows = [amounts(agreement, outcome.quota[k], k).tolist() for k in range(len(agreement.members))]
    names = [m.name for m in agreement.members]
    quotas = {
        resource.name: {name: row[j] for name, row in zip(names, rows, strict=True)}
        for j, resource in enumerate(agreement.resources)
    }
    exact = [Fraction(payment) * CENTS for payment in outcome.payments.tolist()]
    payments = dict(zip(names, round_to_sum(exact), strict=True))
    return Clearing(outcome, quotas, payments, {})


def from_claims(outcome: Outcome, claims: Sequence[Claim], refused: dict[str, str]) -> Clearing:
    """What verified claims show. Of several equal ones the first counts.

    A resource or the payments are looked at if at least one claim is about them. Then every
    member whose claim is missing is named.
    """
    agreement = outcome.agreement
    if not agreement.commits:
        raise InternalError("only sessions with commitments have claims")
    names = [m.name for m in agreement.members]
    found: dict[int, dict[str, Claim]] = {}
    for claim in claims:
        found.setdefault(claim.index, {}).setdefault(names[claim.place], claim)
    money = found.pop(len(agreement.resources), {})
    missing = {"": tuple(name for name in names if name not in money)} if money else {}
    quotas = {}
    for j, held in sorted(found.items()):
        resource = agreement.resources[j].name
        quotas[resource] = {n: _amount(outcome, held[n]) for n in names if n in held}
        missing[resource] = tuple(name for name in names if name not in held)
    payments = _in_cents(outcome, {name: money[name] for name in names if name in money})
    return Clearing(outcome, quotas, payments, {k: v for k, v in missing.items() if v}, refused)


def _amount(outcome: Outcome, claim: Claim) -> float:
    ticks = np.zeros(len(outcome.agreement.resources), dtype=np.int64)
    ticks[claim.index] = quota_ticks(outcome.agreement, claim)
    return float(amounts(outcome.agreement, ticks, claim.place)[claim.index])


def _in_cents(outcome: Outcome, claims: dict[str, Claim]) -> dict[str, int]:
    """Payments in cents. If all are known, what rounding left is spread evenly, and they add up
    to zero exactly."""
    unit = Fraction(unit_of_money(outcome.prices, outcome.agreement))
    grain = unit * MONEY_GRAIN_UNITS * CENTS
    exact = [payment_grains(claim) * grain for claim in claims.values()]
    if len(claims) < len(outcome.agreement.members):
        return dict(zip(claims, map(round, exact), strict=True))
    left = sum(exact, Fraction(0)) / len(exact)
    return dict(zip(claims, round_to_sum([amount - left for amount in exact]), strict=True))


def netted(payments: dict[str, int]) -> tuple[Transfer, ...]:
    """Transfers from those who pay to those who are paid, the largest amounts first."""
    payers = sorted(((n, c) for n, c in payments.items() if c > 0), key=lambda e: (-e[1], e[0]))
    payees = sorted(((n, -c) for n, c in payments.items() if c < 0), key=lambda e: (-e[1], e[0]))
    transfers, at, left = [], 0, payees[0][1] if payees else 0
    for payer, cents in payers:
        due = cents
        while due:
            part = min(due, left)
            transfers.append(Transfer(payer, payees[at][0], part))
            due, left = due - part, left - part
            if not left and at + 1 < len(payees):
                at += 1
                left = payees[at][1]
    return tuple(transfers)
