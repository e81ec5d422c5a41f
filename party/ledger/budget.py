"""The privacy budget of a data set over its lifetime: what it spent, its limit, what is left.

Sessions with one data set add up, whatever they are called and whoever takes part. They add up
as Gaussian mechanisms do, exactly, and not by adding their ε. What can be said of all of them rests
on a limit that was fixed before the first. Public numbers only.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context

from protocol.agreement.model import Agreement
from protocol.errors import BadCommand, BudgetExceeded
from protocol.privacy.accountant import IntegerNoiseCost, PrivacyCost
from protocol.privacy.calibration import Calibration

DATA_SET = "main"
"""What a company's data are called as long as it does not tell data sets apart."""

REHEARSAL = "rehearsal"
"""What the invented data of rehearsals are called, which no budget covers."""

DELTA = 1e-3
"""The δ of a limit, and of what is shown, where nobody says otherwise."""


_FOR_TICKS = 1e-3
"""The largest part of a limit's δ that is set aside for whole ticks, before they are known."""


@dataclass(frozen=True)
class Limit:
    """The most that a data set may ever spend: (ε, δ) for all its sessions together.

    `fixed` is the (ε, δ) of a limit that was there before the first release, and was never
    exceeded by a later one. The `accountant` that keeps it, and by how much whole ticks may
    multiply its δ in all (e^factor), are fixed with the first session, before that releases
    anything. Where nobody `asked` for a limit it is what the first session may spend.

    Guarantee: with `fixed`, all that the data set ever releases in sessions that `require_room`
    lets pass is (ε, δ)-LDP for these ε and δ, however later sessions are chosen in the light of
    earlier ones, and whenever there are no more (PRIVACY.md §6). With totals that is computational,
    and against at most the agreed colluders in each session (§10).
    """

    epsilon: float
    delta: float
    asked: bool = True
    accountant: str | None = None
    factor: float | None = None
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

    def counting(self, first: PrivacyCost) -> "Limit":
        """This limit with its accountant, which what is spent `first` decides, if it fits at all.

        That is the exact one, unless ticks are so coarse that only the paper's says anything.
        """
        if replace(self, accountant="exact", factor=None).allows(first):
            factor = first.discreteness.factor
            smooth = first.gaussian_delta(self.epsilon) * math.exp(-factor)
            left = math.log(self.delta / smooth) / 2.0 if smooth else math.inf
            return replace(self, accountant="exact", factor=max(factor, min(left, _FOR_TICKS)))
        paper = replace(self, accountant="paper", factor=None)
        return paper if paper.allows(first) else replace(self, accountant=None, factor=None)

    def changed(self, asked: "Limit") -> "Limit":
        """What somebody asks for after something was released: what was fixed may only be kept."""
        if self.fixed and asked.epsilon <= self.fixed[0] and asked.delta <= self.fixed[1]:
            return replace(self, epsilon=asked.epsilon, delta=asked.delta, asked=True)
        return Limit(asked.epsilon, asked.delta)


@dataclass(frozen=True, kw_only=True)
class Account:
    """What one session may cost its data set, and how much of that was released.

    Where releases were masked, it costs no more as long as at most so many members are
    `colluders`, the others add their noise, and nobody can break the masks.
    """

    agreement: bytes
    session: str
    data_set: str
    rounds: int
    releases: int
    epsilon: float | None
    delta: float | None
    per_release: PrivacyCost
    colluders: int | None = None

    @property
    def spent(self) -> PrivacyCost:
        """What its releases have cost: a session that stopped early has spent no more."""
        return self.per_release.times(self.releases)

    @property
    def agreed(self) -> PrivacyCost:
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


def spent(accounts: Iterable[Account], data_set: str) -> PrivacyCost:
    """What all sessions with a data set have cost together."""
    return sum((a.spent for a in accounts if a.data_set == data_set), start=PrivacyCost())


def released(accounts: Iterable[Account], data_set: str) -> bool:
    """Whether anything of a data set was ever released."""
    return any(a.releases for a in accounts if a.data_set == data_set)


def wished(asked: Limit, kept: Limit | None, *, released: bool) -> Limit:
    """The limit that holds when somebody asks for one, with what can be said of it."""
    if not released:
        return Limit(asked.epsilon, asked.delta, fixed=(asked.epsilon, asked.delta))
    return (kept or asked).changed(asked)


def require_limitable(spent: PrivacyCost, data_set: str) -> None:
    """Refuse a limit that no session could keep: it would bar all of them, and for ever."""
    if math.isinf(spent.mu_squared):
        raise BudgetExceeded(
            f"the data set {data_set!r} can have no limit: with what is released of it without "
            "noise it spends everything. Nothing was sent, and no limit is set. Leave "
            "--max-epsilon out; data that are to keep a limit need a name of their own, with "
            "--data-set"
        )


def limited(
    accounts: Sequence[Account], agreement: bytes, *, asked: Limit | None, kept: Limit | None
) -> Limit | None:
    """The limit of a data set from now on, before this session releases anything.

    It is what is asked for, or else what was kept. Where there is neither, and nothing was ever
    released, it is what this session may spend: none, if that has no guarantee.
    """
    this = next(a for a in accounts if a.agreement == agreement)
    begun = released(accounts, this.data_set)
    if asked is not None:
        require_limitable(_before_and_after(accounts, this)[1], this.data_set)
    limit = kept if asked is None else wished(asked, kept, released=begun)
    if not begun and (limit is None or not limit.asked):
        if this.epsilon is None or this.delta is None or math.isinf(this.agreed.mu_squared):
            return None
        stated = this.epsilon, this.delta
        limit = Limit(*stated, asked=False, fixed=stated)
    if limit is None or (begun and limit.accountant):
        return limit
    _, after = _before_and_after(accounts, this)
    return limit.counting(after)


def require_room(
    accounts: Sequence[Account], agreement: bytes, data_set: str, limit: Limit | None
) -> None:
    """Refuse a session that would take its data set past the limit, were it played to the end.

    Guarantee: no sequence of sessions that pass here, each with the same limit, spends more than
    it, whatever made somebody choose them.
    """
    if limit is None or any(a.agreement == agreement and a.releases >= a.rounds for a in accounts):
        return  # a finished session that is joined again releases nothing
    this = next((a for a in accounts if a.agreement == agreement), None)
    before, after = _before_and_after([a for a in accounts if a.data_set == data_set], this)
    if not limit.allows(after):
        origin = "" if limit.asked else ", as its first session could, for no other was asked for"
        if math.isinf(after.mu_squared):
            way = (
                "No limit covers a session without noise: agree on noise, or, if this model is "
                "about other data, name them with --data-set"
            )
        else:
            way = "Agree on less, or raise the limit on purpose with --max-epsilon" + (
                "" if limit.fixed is None or not before.mu_squared else "; " + RAISED
            )
        raise BudgetExceeded(
            f"with this session the data set {data_set!r} would have spent "
            f"{in_words(after, limit.delta)}, and its limit is epsilon {limit.epsilon:g} at that "
            f"delta{origin}; so far it has spent {in_words(before, limit.delta)}. Nothing was "
            f"sent. {way}"
        )


RAISED = (
    "a limit that is raised after something was released holds only if that was not decided in "
    "the light of what was released"
)


def _before_and_after(
    accounts: Iterable[Account], this: Account | None
) -> tuple[PrivacyCost, PrivacyCost]:
    """What a data set has spent, and what it will have if this session is played to the end."""
    before, after = PrivacyCost(), PrivacyCost()
    for account in accounts:
        if this is None or account.data_set == this.data_set:
            before = before + account.spent
            played = this is not None and account.agreement == this.agreement
            after = after + (account.agreed if played else account.spent)
    return before, after


def colluding(accounts: Iterable[Account], data_set: str) -> tuple[int, ...]:
    """How many colluders the sessions of a data set allow for, where only totals are read."""
    counts = {a.colluders for a in accounts if a.data_set == data_set and a.colluders}
    return tuple(sorted(counts))


def statement(
    data_set: str,
    limit: Limit | None,
    *,
    everything: bool = False,
    colluders: Sequence[int] = (),
) -> str:
    """What can be said of all releases of a data set together, for people.

    `colluders` are those that its sessions with totals allow for: what is said of them rests on
    more than noise.
    """
    name = f"the data set {data_set!r}"
    if everything:
        return f"Something of {name} was released without noise: there is no guarantee for it."
    if limit is not None and limit.fixed is not None:
        epsilon, delta = limit.fixed
        made = "fixed" if limit.asked else "set to what the first session may spend"
        return (
            f"Its limit was {made} before anything was released: all that is ever released of "
            f"{name} is covered by epsilon {epsilon:g} at delta {delta:g}, however later sessions "
            f"are chosen.{_rests_on(colluders)}"
        )
    what = "No limit was fixed" if limit is None else "The limit was set or raised after, not fixed"
    return (
        f"{what} before the first release of {name}: what it has spent covers its releases only if "
        "it was not decided in the light of earlier ones how many sessions there are."
        f"{_rests_on(colluders)}"
    )


def _rests_on(colluders: Sequence[int]) -> str:
    """What else must hold for sessions in which only totals can be read."""
    if not colluders:
        return ""
    few = " or ".join(map(str, colluders))
    many = "member tells" if few == "1" else "members tell"
    return (
        f" For sessions with totals this holds if in each of them at most {few} other {many} what "
        "they know, the rest add their noise, and nobody breaks the ciphers. It does not count "
        "what payments, quotas and the use of capacities tell."
    )


def room(spent: PrivacyCost, limit: Limit) -> float:
    """The largest ε of one more session, at the limit's δ, that the limit leaves room for.

    Rounded down to four digits: what whole ticks cost depends on the agreement, and is less.
    """
    if not spent.mu_squared:
        return limit.epsilon
    if not limit.allows(spent):
        return 0.0
    low, high = 0.0, 1.0
    while limit.allows(spent + PrivacyCost(high)):
        low, high = high, 2.0 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if limit.allows(spent + PrivacyCost(middle)) else (low, middle)
    epsilon = PrivacyCost(low).epsilon(limit.delta) * (1.0 - 1e-6)
    return float(Context(prec=4, rounding=ROUND_DOWN).create_decimal_from_float(epsilon))


def finite(epsilon: float) -> float | None:
    """An ε for JSON, which has no infinity: None is no guarantee at all."""
    return epsilon if math.isfinite(epsilon) else None


def in_words(spent: PrivacyCost, delta: float) -> str:
    """What was spent, for people."""
    epsilon = spent.epsilon(delta)
    if math.isinf(epsilon):
        return "everything: something was released without a guarantee"
    return f"epsilon {epsilon:.4g} at delta {delta:g}" if epsilon > 1e-9 else "nothing"
