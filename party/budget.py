"""The privacy budget of a data set over its lifetime: what it spent, its limit, what is left.

Sessions with one data set add up, whatever they are called and whoever takes part. They add up
as Gaussian mechanisms do, exactly, and not by adding their ε. Public numbers only.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context
from typing import Any

from protocol.agreement import Agreement
from protocol.errors import BadCommand, BudgetExceeded
from protocol.privacy import Calibration, Spent

DATA_SET = "main"
"""What a company's data are called as long as it does not tell data sets apart."""

REHEARSAL = "rehearsal"
"""What the invented data of rehearsals are called, which no budget covers."""

DELTA = 1e-3
"""The δ of a limit, and of what is shown, where nobody says otherwise."""


@dataclass(frozen=True)
class Limit:
    """The most that a data set may ever spend: (ε, δ) for all its sessions together."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0.0 and 0.0 < self.delta < 1.0):
            raise BadCommand(
                f"a limit of epsilon {self.epsilon:g} and delta {self.delta:g} has no meaning: "
                "epsilon must be above 0, delta between 0 and 1"
            )

    def allows(self, spent: Spent) -> bool:
        return spent.delta(self.epsilon) <= self.delta


@dataclass(frozen=True, kw_only=True)
class Account:
    """What one session may cost its data set, and how much of that was released.

    Where releases were masked, it costs no more as long as at most so many members are
    `colluders`, and nobody can break the masks.
    """

    agreement: bytes
    session: str
    data_set: str
    rounds: int
    releases: int
    epsilon: float | None
    delta: float | None
    per_release: Spent
    colluders: int | None = None

    @property
    def spent(self) -> Spent:
        """What its releases have cost: a session that stopped early has spent no more."""
        return self.per_release.times(self.releases)

    @property
    def agreed(self) -> Spent:
        """What all its releases would cost."""
        return self.per_release.times(self.rounds)


def opened(agreement: Agreement, data_set: str | None = None) -> Account:
    """The account of a session that has released nothing yet."""
    privacy = agreement.privacy
    return Account(
        agreement=agreement.digest,
        session=agreement.session,
        data_set=data_set or (REHEARSAL if agreement.rehearsal else DATA_SET),
        rounds=agreement.rounds,
        releases=0,
        epsilon=privacy.epsilon if privacy else None,
        delta=privacy.delta if privacy else None,
        per_release=Calibration(agreement).per_release,
        colluders=privacy.colluders if privacy else None,
    )


def spent(accounts: Iterable[Account], data_set: str) -> Spent:
    """What all sessions with a data set have cost together."""
    return sum((a.spent for a in accounts if a.data_set == data_set), start=Spent())


def require_room(
    accounts: Sequence[Account], agreement: bytes, data_set: str, limit: Limit | None
) -> None:
    """Refuse a session that would take its data set past the limit, were it played to the end.

    Guarantee: with a limit, no sequence of sessions that pass here costs more than it.
    """
    if limit is None or any(a.agreement == agreement and a.releases >= a.rounds for a in accounts):
        return  # a finished session that is joined again releases nothing
    before, after = Spent(), Spent()
    for account in accounts:
        if account.data_set == data_set:
            this = account.agreement == agreement
            before = before + account.spent
            after = after + (account.agreed if this else account.spent)
    if not limit.allows(after):
        raise BudgetExceeded(
            f"with this session the data set {data_set!r} would have spent "
            f"{in_words(after, limit.delta)}, and its limit is epsilon {limit.epsilon:g} at that "
            f"delta; so far it has spent {in_words(before, limit.delta)}. Nothing was sent. "
            "Agree on less, or raise the limit on purpose with --max-epsilon"
        )


def room(spent: Spent, limit: Limit) -> float:
    """The largest ε of one more session, at the limit's δ, that the limit leaves room for.

    Rounded down to four digits: what whole ticks cost depends on the agreement, and is less.
    """
    if not spent.mu_squared:
        return limit.epsilon
    if not limit.allows(spent):
        return 0.0
    low, high = 0.0, 1.0
    while limit.allows(spent + Spent(high)):
        low, high = high, 2.0 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if limit.allows(spent + Spent(middle)) else (low, middle)
    epsilon = Spent(low).epsilon(limit.delta) * (1.0 - 1e-6)
    return float(Context(prec=4, rounding=ROUND_DOWN).create_decimal_from_float(epsilon))


def figures(
    accounts: Iterable[Account], data_set: str, limit: Limit | None, *, delta: float
) -> dict[str, Any]:
    """The figures of `party budget` for one data set. An ε of None is no guarantee at all."""

    mine = [a for a in accounts if a.data_set == data_set]
    total = spent(mine, data_set)
    return {
        "data_set": data_set,
        "delta": delta,
        "sessions": [
            {
                "session": a.session,
                "agreement": a.agreement.hex(),
                "epsilon": a.epsilon,
                "delta": a.delta,
                "rounds": a.rounds,
                "releases": a.releases,
                "spent_epsilon": finite(a.spent.epsilon(delta)),
                "colluders": a.colluders,
            }
            for a in mine
        ],
        "spent_epsilon": finite(total.epsilon(delta)),
        "limit": limit
        and {
            "epsilon": limit.epsilon,
            "delta": limit.delta,
            "room_epsilon": room(total, limit),
        },
    }


def finite(epsilon: float) -> float | None:
    """An ε for JSON, which has no infinity: None is no guarantee at all."""
    return epsilon if math.isfinite(epsilon) else None


def in_words(spent: Spent, delta: float) -> str:
    """What was spent, for people."""
    epsilon = spent.epsilon(delta)
    if math.isinf(epsilon):
        return "everything: something was released without a guarantee"
    return f"epsilon {epsilon:.4g} at delta {delta:g}" if epsilon > 1e-9 else "nothing"
