"""The lifetime privacy budget of a data set: what it has spent, its limit, what is left.

All sessions with one data set add up. They compose exactly, as Gaussian mechanisms do; their ε
are not added. A guarantee for all of them needs a limit fixed before the first release. Public
numbers only.
"""

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_DOWN, Context

from msgspec import Struct
from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.errors import BadCommand, BudgetExceeded
from protocol.privacy.accountant import IntegerNoiseCost, PrivacyCost, last_true
from protocol.privacy.calibration import Calibration

DATA_SET = "main"
"""The name of a company's data set unless it names another."""

REHEARSAL = "rehearsal"
"""The name of the data set of rehearsals. Their data are invented, and no budget covers them."""

DELTA = 1e-3
"""The default δ of a limit and of the figures shown."""

_TICK_FACTOR = 1e-3
"""The largest factor that a limit sets aside for integer noise, before later sessions are known."""


class Limit(Struct, frozen=True):
    """The most that a data set may ever spend: (ε, δ) for all its sessions together.

    Guarantee: with `fixed`, all releases of the data set together, in sessions that
    `require_room` allows, are (ε, δ)-LDP for these ε and δ. This holds even if later sessions are
    chosen because of earlier ones, and whenever there are no more (PRIVACY.md §6). With totals it
    is computational, and against at most the agreed colluders in each session (§10).
    """

    epsilon: float
    delta: float
    #: Whether the operator asked for it. Otherwise it is what the first session may spend.
    asked: bool = True
    #: "exact" or "paper"; the first session decides, before it releases anything.
    accountant: str | None = None
    #: Integer noise may multiply δ by e^factor in all; fixed together with the accountant.
    factor: float | None = None
    #: The (ε, δ) that was set before the first release and never raised after it.
    fixed: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0.0 and 0.0 < self.delta < 1.0):
            raise BadCommand(
                f"a limit of epsilon {self.epsilon:g} and delta {self.delta:g} has no meaning: "
                "epsilon must be above 0, delta between 0 and 1"
            )

    def allows(self, spent: PrivacyCost) -> bool:
        if self.accountant is None:
            return spent.delta(self.epsilon) <= self.delta
        if self.accountant == "paper":
            return spent.zcdp_delta(self.epsilon) <= self.delta
        ticks = spent.discreteness
        if self.factor is not None:
            if ticks.factor > self.factor:
                return False
            spent = replace(spent, discreteness=IntegerNoiseCost(ticks.reserve, self.factor))
        return spent.gaussian_delta(self.epsilon) <= self.delta

    def with_accountant(self, first: PrivacyCost) -> "Limit":
        """This limit with the accountant that counts the `first` cost; none if it does not fit.

        That is the exact one, unless ticks are so coarse that only the paper's gives a bound.
        """
        if replace(self, accountant="exact", factor=None).allows(first):
            factor = first.discreteness.factor
            smooth = first.gaussian_delta(self.epsilon) * math.exp(-factor)
            left = math.log(self.delta / smooth) / 2.0 if smooth else math.inf
            return replace(self, accountant="exact", factor=max(factor, min(left, _TICK_FACTOR)))
        paper = replace(self, accountant="paper", factor=None)
        return paper if paper.allows(first) else replace(self, accountant=None, factor=None)


class Account(Struct, frozen=True, kw_only=True):
    """What one session may cost its data set, and how much it has released."""

    agreement: bytes
    session: str
    data_set: str
    rounds: int
    releases: int
    epsilon: float | None
    delta: float | None
    per_release: PrivacyCost
    #: With masked releases the cost holds if at most this many members collude, the others add
    #: their noise, and no one breaks the encryption of the masks.
    colluders: int | None
    #: Step `ball`: release n costs n times as much as the first. `per_release` is the average.
    growing: bool

    @property
    def spent(self) -> PrivacyCost:
        """The cost of its releases so far."""
        cost = self.per_release.times(self.releases)
        if not self.growing:
            return cost
        fraction = (self.releases + 1) / (self.rounds + 1)
        return replace(cost, mu_squared=cost.mu_squared * fraction)

    @property
    def agreed(self) -> PrivacyCost:
        """The cost of all its releases, if it runs to its end."""
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
        growing=agreement.ball,
    )


def spent(accounts: Iterable[Account], data_set: str) -> PrivacyCost:
    """The cost of all sessions with a data set together."""
    return sum((a.spent for a in accounts if a.data_set == data_set), start=PrivacyCost())


def released(accounts: Iterable[Account], data_set: str) -> bool:
    """Whether anything of a data set was ever released."""
    return any(a.releases for a in accounts if a.data_set == data_set)


def requested_limit(asked: Limit, stored: Limit | None, *, released: bool) -> Limit:
    """The limit after the operator asks for one. Raising it after a release loses `fixed`."""
    if not released:
        return Limit(asked.epsilon, asked.delta, fixed=(asked.epsilon, asked.delta))
    if (
        stored
        and stored.fixed
        and asked.epsilon <= stored.fixed[0]
        and asked.delta <= stored.fixed[1]
    ):
        return replace(stored, epsilon=asked.epsilon, delta=asked.delta, asked=True)
    return Limit(asked.epsilon, asked.delta)


def require_limitable(spent: PrivacyCost, data_set: str) -> None:
    """Refuse a limit that would refuse every session from now on."""
    if math.isinf(spent.mu_squared):
        raise BudgetExceeded(
            f"the data set {data_set!r} can have no limit: releases without noise spend "
            "everything. Nothing was sent, and no limit is set. Leave out --max-epsilon. If you "
            "want a limit for other data, give them their own name with --data-set"
        )


def limit_for_session(
    accounts: Sequence[Account], agreement: bytes, *, asked: Limit | None, stored: Limit | None
) -> Limit | None:
    """The limit of a session's data set, before the session releases anything.

    It is the limit asked for, or else the stored one. Without either, and before the first
    release, it is this session's own budget, or none if the session has no guarantee.
    """
    this = next(a for a in accounts if a.agreement == agreement)
    begun = released(accounts, this.data_set)
    if asked is not None:
        require_limitable(cost_before_and_after(accounts, this)[1], this.data_set)
    limit = stored if asked is None else requested_limit(asked, stored, released=begun)
    if not begun and (limit is None or not limit.asked):
        if this.epsilon is None or this.delta is None or math.isinf(this.agreed.mu_squared):
            return None
        stated = this.epsilon, this.delta
        limit = Limit(*stated, asked=False, fixed=stated)
    if limit is None or (begun and limit.accountant):
        return limit
    _, after = cost_before_and_after(accounts, this)
    return limit.with_accountant(after)


def require_room(accounts: Sequence[Account], agreement: bytes, limit: Limit | None) -> None:
    """Refuse a session that would exceed its data set's limit if it ran to its end.

    Guarantee: no sequence of sessions that pass here with one limit spends more than that limit,
    even if later sessions are chosen because of earlier ones.
    """
    this = next(a for a in accounts if a.agreement == agreement)
    if limit is None or this.releases >= this.rounds:
        return  # a finished session releases nothing more
    before, after = cost_before_and_after(accounts, this)
    if not limit.allows(after):
        origin = "" if limit.asked else " (the budget of its first session)"
        if math.isinf(after.mu_squared):
            way = (
                "No limit covers a session without noise. Agree on noise, or name other data with "
                "--data-set"
            )
        else:
            way = "Agree on less, or raise the limit with --max-epsilon" + (
                "" if limit.fixed is None or not before.mu_squared else "; " + RAISED
            )
        raise BudgetExceeded(
            f"with this session the data set {this.data_set!r} would have spent "
            f"{in_words(after, limit.delta)}, and its limit is epsilon {limit.epsilon:g} at that "
            f"delta{origin}. So far it has spent {in_words(before, limit.delta)}. Nothing was "
            f"sent. {way}"
        )


RAISED = "a limit raised after a release holds only if no release was the reason to raise it"


def cost_before_and_after(
    accounts: Iterable[Account], this: Account
) -> tuple[PrivacyCost, PrivacyCost]:
    """What a data set has spent, and what it will have spent once this session has ended."""
    own = [account for account in accounts if account.data_set == this.data_set]
    costs = (a.agreed if a.agreement == this.agreement else a.spent for a in own)
    return spent(own, this.data_set), sum(costs, start=PrivacyCost())


def colluding(accounts: Iterable[Account], data_set: str) -> tuple[int, ...]:
    """The numbers of colluders that the sessions with totals of a data set allow."""
    counts = {a.colluders for a in accounts if a.data_set == data_set and a.colluders}
    return tuple(sorted(counts))


def unprotected(accounts: Iterable[Account], agreement: bytes) -> str:
    """A warning if a session with noise uses data that a session without noise has released."""
    every = tuple(accounts)
    this = next(a for a in every if a.agreement == agreement)
    bare = [
        a.session
        for a in every
        if a.data_set == this.data_set and a.releases and math.isinf(a.per_release.mu_squared)
    ]
    if this.epsilon is None or not bare:
        return ""
    return (
        f"the data set {this.data_set!r} was released without noise in "
        f"{', '.join(map(repr, bare))}. The noise of this session cannot hide what was "
        "shown there. If these are other data, join with --data-set NAME"
    )


def statement(
    data_set: str,
    limit: Limit | None,
    *,
    everything: bool = False,
    colluders: Sequence[int] = (),
) -> str:
    """The guarantee for all releases of a data set together, in words.

    `everything` is whether something was released without noise. `colluders` are the numbers that
    its sessions with totals allow: their guarantee rests on more than noise.
    """
    name = f"the data set {data_set!r}"
    if everything:
        return f"Something of {name} was released without noise: there is no guarantee for it."
    if limit is not None and limit.fixed is not None:
        epsilon, delta = limit.fixed
        origin = "fixed" if limit.asked else "set to the budget of the first session"
        return (
            f"The limit of {name} was {origin} before its first release: epsilon {epsilon:g} at "
            f"delta {delta:g} covers all its releases, however you choose later sessions."
            f"{_totals_condition(colluders)}"
        )
    what = "No limit was fixed before" if limit is None else "The limit was set or raised after"
    return (
        f"{what} the first release of {name}. What it has spent covers its releases only if you "
        f"never chose a session because of earlier releases.{_totals_condition(colluders)}"
    )


def _totals_condition(colluders: Sequence[int]) -> str:
    """What else must hold in sessions that show only totals."""
    if not colluders:
        return ""
    few = " or ".join(map(str, colluders))
    many = "member shares what it knows" if few == "1" else "members share what they know"
    return (
        f" For sessions with totals this holds if in each of them at most {few} other {many}, "
        "the others add their noise, and no one breaks the encryption. It does not "
        "cover what payments, quotas and the use of capacities show."
    )


def room(spent: PrivacyCost, limit: Limit) -> float:
    """The largest ε of one more session, at the limit's δ, that the limit allows.

    Rounded down to four digits: the cost of integer noise depends on the agreement, and is less.
    """
    if not spent.mu_squared:
        return limit.epsilon
    if not limit.allows(spent):
        return 0.0
    most = last_true(lambda mu_squared: limit.allows(spent + PrivacyCost(mu_squared)))
    epsilon = PrivacyCost(most).epsilon(limit.delta) * (1.0 - 1e-6)
    return float(Context(prec=4, rounding=ROUND_DOWN).create_decimal_from_float(epsilon))


def in_words(spent: PrivacyCost, delta: float) -> str:
    """What was spent, for people."""
    epsilon = spent.epsilon(delta)
    if math.isinf(epsilon):
        return "everything: something was released without a guarantee"
    return f"epsilon {epsilon:.4g} at delta {delta:g}" if epsilon > 1e-9 else "nothing"
