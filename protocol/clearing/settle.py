"""Adds up claims: payments in coins that add up to zero, transfers, and who may use how much.

Where single releases are public, all of it follows from the transcript, without claims. With
noise and totals, claims are what members state, and the sums of them are checked too.
Never here: reading a file, or trusting a number that was not verified.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from msgspec import Struct, field

from protocol.agreement.currency import money_places
from protocol.agreement.quantities import amounts, quantities
from protocol.clearing.claims import Claim, payment_grains, quota_ticks
from protocol.clearing.statements import Sum, money_grain, payment_sum, quota_sum
from protocol.numeric import round_to_sum
from protocol.outcome.outcome import Outcome
from protocol.outcome.payments import with_levy

PLACES = 2
"""Decimals of amounts in a currency that people do not pay in, or more."""

COINS_OF_WORTH = 10**6
"""Then all capacities together are worth at least this many coins, so that no payment vanishes."""


class Transfer(Struct, frozen=True):
    """One payment between two members, in coins."""

    payer: str
    payee: str
    coins: int


class Clearing(Struct, frozen=True):
    """What a session means for those who move money and run resources."""

    outcome: Outcome
    #: By resource, then by member: what it may use, in units. Only what is known.
    quotas: dict[str, dict[str, float]]
    #: By member: what it pays, in coins, negative if it is paid. Zero together, or not all known.
    payments: dict[str, int]
    #: Members whose claim is missing, by resource; under "" those whose payment is.
    missing: dict[str, tuple[str, ...]]
    #: Why single files do not count, by file.
    refused: dict[str, str] = field(default_factory=dict)
    #: With noise, by member: the payment that it states, before the levy, in coins.
    stated: dict[str, int] = field(default_factory=dict)
    #: With noise: what members state together, of each resource and of the payments.
    sums: tuple[Sum, ...] = ()

    @property
    def places(self) -> int:
        """The decimals of a coin."""
        return coin_places(self.outcome)

    @property
    def levy(self) -> int:
        """With noise: what all pay in addition to what they state, in coins; below 0, less."""
        return -sum(self.stated.values()) if self.balanced else 0

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


def coin_places(outcome: Outcome) -> int:
    """The decimals of the smallest coin: two for EUR, none for JPY.

    Without a currency that people pay in, such as kEUR, a coin is small beside what all is worth.
    """
    places = money_places(outcome.agreement.currency)
    if places is not None:
        return places
    money = outcome.prices * quantities(outcome.agreement).capacity
    worth, places = sum(abs(Fraction(y)) for y in money.tolist()), PLACES
    while 0 < worth * 10**places < COINS_OF_WORTH:
        places += 1
    return places


def _coins(outcome: Outcome) -> int:
    """How many coins one unit of the currency is."""
    return int(10 ** coin_places(outcome))


def from_transcript(outcome: Outcome) -> Clearing:
    """Everything, where single releases are public."""
    agreement = outcome.agreement
    rows = [amounts(agreement, outcome.quota[k], k).tolist() for k in range(len(agreement.members))]
    names = [m.name for m in agreement.members]
    quotas = {
        resource.name: {name: row[j] for name, row in zip(names, rows, strict=True)}
        for j, resource in enumerate(agreement.resources)
    }
    exact = [Fraction(payment) * _coins(outcome) for payment in outcome.payments.tolist()]
    payments = dict(zip(names, round_to_sum(exact), strict=True))
    return Clearing(outcome, quotas, payments, {})


def from_claims(outcome: Outcome, claims: Sequence[Claim], refused: dict[str, str]) -> Clearing:
    """What verified claims show. Of several equal ones the first counts.

    A resource or the payments are looked at if at least one claim is about them. Then every
    member whose claim is missing is named.
    """
    agreement = outcome.agreement
    names = [m.name for m in agreement.members]
    found: dict[int, dict[str, Claim]] = {}
    for claim in claims:
        found.setdefault(claim.index, {}).setdefault(names[claim.place], claim)
    money = found.pop(len(agreement.resources), {})
    missing = {"": tuple(name for name in names if name not in money)} if money else {}
    quotas, sums = {}, []
    for j, held in sorted(found.items()):
        resource = agreement.resources[j].name
        quotas[resource] = {n: _amount(outcome, held[n]) for n in names if n in held}
        missing[resource] = tuple(name for name in names if name not in held)
        ticks = sum(quota_ticks(agreement, claim) for claim in held.values())
        sums.append(quota_sum(outcome, j, ticks))
    due = [payment_grains(money[name]) * money_grain(outcome) for name in names if name in money]
    payers = [name for name in names if name in money]
    if len(payers) == len(names):
        sums.append(payment_sum(outcome, sum(due, Fraction(0))))
    noisy = not agreement.commits
    return Clearing(
        outcome,
        quotas,
        payments=dict(zip(payers, _in_coins(outcome, due), strict=True)),
        missing={what: absent for what, absent in missing.items() if absent},
        refused=refused,
        stated=dict(zip(payers, _rounded(outcome, due), strict=True)) if noisy else {},
        sums=tuple(sums) if noisy else (),
    )


def _amount(outcome: Outcome, claim: Claim) -> float:
    ticks = np.zeros(len(outcome.agreement.resources), dtype=np.int64)
    ticks[claim.index] = quota_ticks(outcome.agreement, claim)
    return float(amounts(outcome.agreement, ticks, claim.place)[claim.index])


def _rounded(outcome: Outcome, due: list[Fraction]) -> list[int]:
    return [round(amount * _coins(outcome)) for amount in due]


def _in_coins(outcome: Outcome, due: list[Fraction]) -> list[int]:
    """Payments in coins. If all are known, the levy makes them add up to zero exactly.

    Without noise the levy is only what rounding left.
    """
    if len(due) < len(outcome.agreement.members):
        return _rounded(outcome, due)
    levied = with_levy(outcome.agreement, outcome.prices, due)
    return round_to_sum([amount * _coins(outcome) for amount in levied])


def netted(payments: dict[str, int]) -> tuple[Transfer, ...]:
    """Transfers from those who pay to those who are paid, the largest amounts first."""
    payers = sorted(((n, c) for n, c in payments.items() if c > 0), key=lambda e: (-e[1], e[0]))
    payees = sorted(((n, -c) for n, c in payments.items() if c < 0), key=lambda e: (-e[1], e[0]))
    transfers, at, left = [], 0, payees[0][1] if payees else 0
    for payer, coins in payers:
        due = coins
        while due:
            part = min(due, left)
            transfers.append(Transfer(payer, payees[at][0], part))
            due, left = due - part, left - part
            if not left and at + 1 < len(payees):
                at += 1
                left = payees[at][1]
    return tuple(transfers)
