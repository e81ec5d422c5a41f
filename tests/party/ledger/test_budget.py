"""The lifetime budget: sessions add up as they compose, and none is joined that would pass it.

What sessions cost together is computed a second time here, from the noise they really add, by
another library's accountant.
"""

import math
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from party.ledger import accounts as lifetime
from party.ledger.accounts import accounts, set_limit
from party.ledger.budget import (
    Account,
    Limit,
    colluding,
    opened,
    require_room,
    room,
    spent,
    statement,
)
from party.ledger.session_ledger import Ledger
from party.ui.budget_table import figures
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand, BadLedger, BudgetExceeded
from protocol.numeric import Floats
from protocol.privacy.accountant import IntegerNoiseCost, PrivacyCost, rho
from tests.support.budgets import DELTA, agreed, composed, hidden, multiplier, record
from tests.support.builders import public_key


def rehearsal() -> Agreement:
    return agreed(1.0, session="rehearsed", rehearsal=True)


def played(agreement: Agreement, releases: int | None = None) -> Account:
    """The account of a session after so many releases, or all."""
    return replace(opened(agreement), releases=agreement.rounds if releases is None else releases)


def cost(path: Path, data_set: str = "main") -> PrivacyCost:
    return spent(accounts(path)[0], data_set)


# What sessions cost together


@pytest.mark.parametrize(
    "budgets", [(1.0, 1.0), (0.5, 1.0, 2.0), (0.1, 4.0), (0.3,) * 10, (8.0, 0.2, 3.0, 1.0)]
)
def test_sessions_compose_as_another_accountant_says(budgets: tuple[float, ...]) -> None:
    """Together they cost what the composed Gaussians cost, to 1 %: less than the sum of their ε."""
    sessions = [agreed(epsilon, session=f"s{i}") for i, epsilon in enumerate(budgets)]
    total = spent([played(agreement) for agreement in sessions], "main").epsilon(DELTA)
    assert total == pytest.approx(composed(*map(multiplier, sessions)), rel=0.01)
    assert max(budgets) < total < 0.999 * sum(budgets)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("mode", ["private", "clipped"])
@pytest.mark.parametrize("accountant", ["exact", "paper"])
def test_session_costs_what_was_agreed_and_no_more(
    epsilon: float, mode: str, accountant: str
) -> None:
    """All releases of a session cost at most its ε; with the exact accountant all of it."""
    agreement = agreed(epsilon, mode=mode, rounds=30, privacy={"accountant": accountant})
    total = played(agreement).spent.epsilon(DELTA)
    assert total <= epsilon * (1.0 + 1e-8)
    if accountant == "exact":
        assert total == pytest.approx(epsilon, rel=1e-6)


def test_cost_at_another_delta() -> None:
    """What was agreed at one δ can be told at another, as another accountant tells it."""
    agreement = agreed(2.0)
    for delta in (1e-6, 1e-2):
        expected = composed(multiplier(agreement), delta=delta)
        assert played(agreement).spent.epsilon(delta) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("releases", [1, 3, 9])
def test_halted_session_counts_what_it_released(tmp_path: Path, releases: int) -> None:
    """After n of T releases a session has spent μ²·n/T and nothing else."""
    agreement = agreed(2.0, rounds=10)
    record(tmp_path / "ledger", agreement, releases)
    total = cost(tmp_path / "ledger")
    mu = multiplier(agreement) * math.sqrt(releases / 10)
    assert total.mu_squared == pytest.approx(mu * mu, rel=1e-9)
    assert total.epsilon(DELTA) == pytest.approx(composed(mu), rel=0.01)


@pytest.mark.parametrize("agreement", [agreed(1.0), hidden(), rehearsal()])
def test_session_without_releases_costs_nothing(tmp_path: Path, agreement: Agreement) -> None:
    """Joining costs nothing, in whatever mode, as long as nothing is released."""
    record(tmp_path / "ledger", agreement, 0)
    (account,) = accounts(tmp_path / "ledger")[0]
    assert account.releases == 0
    assert account.spent.epsilon(DELTA) == 0.0
    assert account.spent.delta(0.0) == 0.0


@pytest.mark.parametrize("agreement", [hidden(), rehearsal()])
def test_one_release_without_noise_to_trust_leaves_no_guarantee(
    tmp_path: Path, agreement: Agreement
) -> None:
    """A single release without noise, or with noise that can be repeated, has no ε at all."""
    record(tmp_path / "ledger", agreement, 1, data_set="main")
    record(tmp_path / "ledger", agreed(1.0))
    total = cost(tmp_path / "ledger")
    assert math.isinf(total.epsilon(DELTA))
    assert total.delta(1e6) == 1.0
    shown = figures(accounts(tmp_path / "ledger")[0], "main", Limit(100.0, DELTA), delta=DELTA)
    assert shown["spent_epsilon"] is None
    assert shown["limit"]["room_epsilon"] == 0.0


# Data sets


def test_one_data_set_unless_told(tmp_path: Path) -> None:
    """Sessions count for 'main' by themselves, and for another data set only where told."""
    path = tmp_path / "ledger"
    record(path, agreed(1.0, session="one"))
    record(path, agreed(1.0, session="two"), data_set="spring")
    record(path, agreed(1.0, session="three"))
    names = [(a.session, a.data_set) for a in accounts(path)[0]]
    assert names == [("one", "main"), ("two", "spring"), ("three", "main")]
    one, both = multiplier(agreed(1.0)), math.sqrt(2.0) * multiplier(agreed(1.0))
    assert cost(path, "spring").epsilon(DELTA) == pytest.approx(composed(one), rel=0.01)
    assert cost(path, "main").epsilon(DELTA) == pytest.approx(composed(both), rel=0.01)


def test_rehearsals_do_not_touch_the_budget(tmp_path: Path) -> None:
    """A rehearsal with invented data leaves the data set 'main' as it was."""
    record(tmp_path / "ledger", rehearsal())
    assert cost(tmp_path / "ledger", "main") == PrivacyCost()
    assert math.isinf(cost(tmp_path / "ledger", "rehearsal").epsilon(DELTA))


@pytest.mark.parametrize(("first", "then"), [(None, "spring"), ("spring", "main")])
def test_session_stays_with_its_data_set(tmp_path: Path, first: str | None, then: str) -> None:
    """Resuming under another data set is refused and changes nothing."""
    path = tmp_path / "ledger"
    record(path, agreed(1.0), 2, data_set=first)
    before = accounts(path)
    with pytest.raises(BadLedger, match="was begun with the data set"):
        Ledger(path, agreed(1.0), "ada", data_set=then)
    assert accounts(path) == before
    with closing(Ledger(path, agreed(1.0), "ada")) as ledger:
        assert ledger.data_set == (first or "main")


# Limits


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.0, DELTA), (-1.0, DELTA), (math.inf, DELTA), (math.nan, DELTA), (1.0, 0.0), (1.0, 1.0)],
)
def test_limit_without_meaning(epsilon: float, delta: float) -> None:
    """A limit that no session could keep, or that all could, is refused."""
    with pytest.raises(BadCommand, match="has no meaning"):
        Limit(epsilon, delta)


@pytest.mark.parametrize("accountant", ["exact", "paper"])
def test_session_at_exactly_the_limit(tmp_path: Path, accountant: str) -> None:
    """A session with the ε of the limit is allowed, and after it not even a small one."""
    path = tmp_path / "ledger"
    limit = Limit(1.0, DELTA)
    exact = agreed(1.0, privacy={"accountant": accountant})
    with closing(Ledger(path, exact, "ada")) as ledger:
        require_room(ledger.accounts(), exact.digest, "main", ledger.fix_limit(limit))
    record(path, exact)
    another = agreed(1.0, session="two")
    with closing(Ledger(path, another, "ada")) as ledger, pytest.raises(BudgetExceeded):
        require_room(ledger.accounts(), another.digest, "main", ledger.limit())


def test_session_begun_may_be_ended() -> None:
    """A session that was allowed at its beginning is allowed after every release of it."""
    agreement, limit = agreed(1.0), Limit(1.0, DELTA)
    for releases in range(agreement.rounds + 1):
        require_room([played(agreement, releases)], agreement.digest, "main", limit)


def test_session_is_counted_as_if_played_to_the_end() -> None:
    """What would pass the limit only with its last releases is refused before its first."""
    halted, next_one = agreed(1.0), agreed(1.0, session="two")
    begun = [played(halted, 1), played(next_one, 0)]
    require_room(begun, next_one.digest, "main", Limit(1.2, DELTA))
    with pytest.raises(BudgetExceeded):
        require_room(begun, next_one.digest, "main", Limit(1.0, DELTA))
    with pytest.raises(BudgetExceeded):
        require_room(
            [played(halted, 1), played(next_one)], halted.digest, "main", Limit(1.2, DELTA)
        )


def test_no_limit_no_refusal() -> None:
    """Without a limit of its own a company may join whatever it likes."""
    require_room([played(hidden())], hidden().digest, "main", None)


def test_hidden_session_passes_no_limit() -> None:
    """With a limit, a session without noise is refused, however large the limit is."""
    with pytest.raises(
        BudgetExceeded, match=r"everything.*No limit covers a session without noise"
    ):
        require_room([played(hidden(), 0)], hidden().digest, "main", Limit(1e6, 0.5))


def test_limit_for_a_hidden_session_is_not_kept(tmp_path: Path) -> None:
    """A limit that its own session cannot keep is refused, and does not bar that session later."""
    path = tmp_path / "ledger"
    for releases in (0, 1):
        with closing(Ledger(path, hidden(), "ada")) as ledger:
            with pytest.raises(BudgetExceeded, match="can have no limit"):
                ledger.fix_limit(Limit(20.0, DELTA))
            require_room(ledger.accounts(), hidden().digest, "main", ledger.fix_limit())
        record(path, hidden(), 1 - releases)
    with closing(Ledger(path, agreed(1.0), "ada")) as ledger:
        with pytest.raises(BudgetExceeded, match="can have no limit"):
            ledger.fix_limit(Limit(20.0, DELTA))
        require_room(ledger.accounts(), agreed(1.0).digest, "main", ledger.fix_limit())


def test_other_data_sets_do_not_count() -> None:
    """A data set has room whatever others have spent."""
    fresh = replace(played(agreed(1.0, session="two"), 0), data_set="spring")
    both = [played(agreed(8.0)), fresh]
    require_room(both, fresh.agreement, "spring", Limit(1.0, DELTA))


def test_refusal_says_what_and_how_much() -> None:
    """The refusal names the data set, what it has spent, what it would have, and the limit."""
    first, second = agreed(1.0), agreed(2.0, session="two")
    with pytest.raises(BudgetExceeded) as caught:
        require_room([played(first), played(second, 0)], second.digest, "main", Limit(2.0, DELTA))
    text = str(caught.value)
    together = composed(multiplier(first), multiplier(second))
    told = re.search(r"would have spent epsilon ([\d.]+) at delta 0.001", text)
    assert told is not None
    assert float(told[1]) == pytest.approx(together, rel=0.01)
    assert "the data set 'main'" in text
    assert "its limit is epsilon 2 at that delta" in text
    assert "so far it has spent epsilon 1 at delta 0.001" in text
    assert "Nothing was sent" in text


def test_limit_is_kept_in_the_ledger(tmp_path: Path) -> None:
    """A limit holds for its data set in every later session, until it is set anew."""
    path = tmp_path / "ledger"
    with closing(Ledger(path, agreed(1.0), "ada")) as ledger:
        assert ledger.limit() is None
        first = ledger.fix_limit(Limit(3.0, 1e-5))
    with closing(Ledger(path, agreed(1.0, session="two"), "ada")) as ledger:
        assert ledger.limit() == first
    set_limit(path, "main", Limit(4.0, DELTA))
    with closing(Ledger(path, agreed(1.0, session="s"), "ada", data_set="spring")) as ledger:
        assert ledger.limit() is None
    assert accounts(path)[1] == {"main": Limit(4.0, DELTA, fixed=(4.0, DELTA))}


def fixed_by(path: Path, agreement: Agreement, asked: Limit | None = None) -> Limit | None:
    """The limit with which a session is joined."""
    with closing(Ledger(path, agreement, "ada")) as ledger:
        limit = ledger.fix_limit(asked)
        require_room(ledger.accounts(), agreement.digest, "main", limit)
        assert ledger.limit() == limit
    return limit


def test_the_first_session_sets_the_limit_that_nobody_asked_for(tmp_path: Path) -> None:
    """It is what that session may spend; as long as nothing is released another may set it."""
    path, first, larger = tmp_path / "ledger", agreed(1.0), agreed(2.0, session="two")
    for agreement, epsilon in ((first, 1.0), (larger, 2.0), (first, 1.0)):
        limit = fixed_by(path, agreement)
        assert limit is not None
        assert (limit.epsilon, limit.delta, limit.asked) == (epsilon, DELTA, False)
        assert limit.fixed == (epsilon, DELTA)
    record(path, first, 1)
    assert fixed_by(path, first) == limit, "to go on is no other session"
    with pytest.raises(BudgetExceeded, match="for no other was asked for; so far it has spent"):
        fixed_by(path, larger)
    assert accounts(path)[1] == {"main": limit}


@pytest.mark.parametrize("first", [hidden(), rehearsal()])
def test_a_session_without_a_guarantee_sets_no_limit(tmp_path: Path, first: Agreement) -> None:
    """There is nothing to limit, and a limit of a session that never began does not bar it."""
    path = tmp_path / "ledger"
    assert fixed_by(path, agreed(1.0)) is not None
    with closing(Ledger(path, first, "ada", data_set="main")) as ledger:
        assert ledger.fix_limit() is None
    record(path, first, 1, data_set="main")
    assert fixed_by(path, agreed(1.0)) is None
    (shown,) = (figures(accounts(path)[0], "main", None, delta=DELTA),)
    assert shown["covered_by"] is None
    assert "was released without noise: there is no guarantee" in shown["statement"]


def test_what_was_fixed_beforehand_is_lost_only_by_more(tmp_path: Path) -> None:
    """Less than was fixed, and all of it again, leave the statement; more than it does not."""
    path, session = tmp_path / "ledger", agreed(1.0)
    limit = fixed_by(path, session, Limit(4.0, DELTA))
    record(path, session, 2)
    for epsilon in (2.0, 4.0):
        now = fixed_by(path, session, Limit(epsilon, DELTA))
        assert now is not None
        assert limit is not None
        assert (now.epsilon, now.fixed, now.factor) == (epsilon, (4.0, DELTA), limit.factor)
        assert "covered by epsilon 4 at delta 0.001" in statement("main", now)
    raised = fixed_by(path, session, Limit(4.1, DELTA))
    assert raised is not None
    back = fixed_by(path, session, Limit(4.0, DELTA))
    assert back is not None
    assert raised.fixed is back.fixed is None, "what was lost does not come back"


@pytest.mark.parametrize("asked", [Limit(4.1, DELTA), Limit(3.0, 1.001 * DELTA)])
def test_a_limit_with_more_of_either_is_not_what_was_fixed(tmp_path: Path, asked: Limit) -> None:
    """A larger ε, or a larger δ though ε is smaller: the statement of before is lost."""
    path, session = tmp_path / "ledger", agreed(1.0)
    fixed_by(path, session, Limit(4.0, DELTA))
    record(path, session, 2)
    now = fixed_by(path, session, asked)
    assert now is not None
    assert (now.epsilon, now.delta, now.fixed) == (asked.epsilon, asked.delta, None)
    assert "only if it was not decided in the light of earlier ones" in statement("main", now)


def test_sessions_before_any_limit_have_none_to_rest_on(tmp_path: Path) -> None:
    """A ledger from before limits were fixed goes on, and says what that means."""
    path = tmp_path / "ledger"
    record(path, agreed(1.0))
    assert fixed_by(path, agreed(1.0, session="two")) is None
    shown = figures(accounts(path)[0], "main", None, delta=DELTA)
    assert shown["statement"].startswith("No limit was fixed before the first release")


def test_who_stops_in_the_light_of_releases_needs_a_limit_from_the_start() -> None:
    """Without one the stated δ is passed by far; a limit for all that might be played holds.

    Up to 400 sessions of μ = 0.1, and the last is the one that has just told too much.
    """
    each, most, people = 0.1, 400, 20_000
    stated = np.array([PrivacyCost(each**2 * n).epsilon(DELTA) for n in range(1, most + 1)])
    rng = np.random.default_rng(1)
    told = np.cumsum(each * rng.standard_normal((people, most)) + each**2 / 2.0, axis=1)
    over = told > stated + 0.1
    stop = np.where(over.any(axis=1), over.argmax(axis=1), most - 1)
    ratio = told[np.arange(people), stop]

    def passed(epsilon: Floats | float) -> float:
        """The δ that these releases need beside such an ε."""
        return float(np.maximum(0.0, 1.0 - np.exp(epsilon - ratio)).mean())

    assert passed(stated[stop]) > 4.0 * DELTA
    assert passed(stated[-1]) < 1.2 * DELTA


def test_one_accountant_keeps_a_limit() -> None:
    """It is chosen with the first session: what only the other could count is not let in later."""
    coarse = PrivacyCost(0.01, IntegerNoiseCost(math.inf, 0.0))
    fine = PrivacyCost(0.01, IntegerNoiseCost(1e-9, 1e-9))
    exact, paper = (Limit(1.0, DELTA).counting(spent) for spent in (fine, coarse))
    assert (exact.accountant, paper.accountant) == ("exact", "paper")
    assert exact.allows(fine)
    assert not exact.allows(coarse)
    assert paper.allows(fine)
    assert paper.allows(coarse)
    much = PrivacyCost(2.0 * rho(epsilon=1.0, delta=DELTA) * 1.01, IntegerNoiseCost(1e-9, 1e-9))
    assert exact.allows(much)
    assert not paper.allows(much), "the exact one would allow it, and was not chosen"
    assert exact.factor is not None
    assert not exact.allows(PrivacyCost(0.01, IntegerNoiseCost(1e-9, 1.01 * exact.factor)))
    spent = PrivacyCost(0.01, IntegerNoiseCost(1e-9, exact.factor))
    assert exact.allows(spent)
    assert Limit(1.0, DELTA).counting(PrivacyCost(100.0)).accountant is None, (
        "it does not fit at all"
    )


@pytest.mark.parametrize("accountant", ["exact", "paper"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("share", [1.0, 1e-5])
def test_any_session_fits_the_limit_that_it_sets(
    tmp_path: Path, accountant: str, epsilon: float, share: float
) -> None:
    """No rounding, and no ticks however coarse, keep a session out of its own limit."""
    first = agreed(
        epsilon,
        privacy={"accountant": accountant},
        member=[
            {
                "name": name,
                "signing_key": public_key(name).hex(),
                "share": {"r0": most, "r1": most},
            }
            for name, most in (("ada", share), ("ben", 1.0), ("cleo", 1.0))
        ],
    )
    limit = fixed_by(tmp_path / "ledger", first)
    assert limit is not None
    assert limit.accountant in ("exact", "paper")


@pytest.mark.parametrize("mode", ["private", "clipped"])
@pytest.mark.parametrize(("before", "limit"), [(0.1, 1.0), (0.9, 1.0), (1.5, 2.0), (2.4, 8.0)])
def test_room_is_what_fits(mode: str, before: float, limit: float) -> None:
    """A session of the ε that is said to be left passes, and one of 1 % more does not."""
    earlier, allowed = played(agreed(before, mode=mode)), Limit(limit, DELTA)
    left = room(earlier.spent, allowed)
    assert limit - before < left < limit
    fits = agreed(left, session="two", mode=mode)
    require_room([earlier, played(fits, 0)], fits.digest, "main", allowed)
    large = agreed(1.01 * left, session="two", mode=mode)
    with pytest.raises(BudgetExceeded):
        require_room([earlier, played(large, 0)], large.digest, "main", allowed)


def test_room_at_both_ends() -> None:
    """Where nothing was spent all of the limit is left, and where all was, nothing."""
    assert room(PrivacyCost(), Limit(1.0, DELTA)) == 1.0
    assert room(played(agreed(1.0)).spent, Limit(1.0, DELTA)) < 1e-3
    assert room(played(agreed(1.1)).spent, Limit(1.0, DELTA)) == 0.0


stories = st.lists(
    st.tuples(st.integers(0, 4), st.floats(0.05, 3.0), st.integers(1, 6), st.integers(0, 6)),
    max_size=12,
)


@given(stories, st.floats(0.1, 6.0))
@example([(0, 1.0, 4, 4), (1, 0.05, 1, 1)], 1.0)  # all of it spent, and then a little
@example([(0, 1.0, 4, 1), (1, 1.0, 4, 4), (0, 1.0, 4, 3)], 1.0)  # begun, another, resumed
@example([(0, 0.9, 6, 0), (1, 0.9, 6, 6), (0, 0.9, 6, 6)], 1.0)  # begun and nothing released
@settings(max_examples=60)
def test_no_story_of_sessions_passes_the_limit(
    story: list[tuple[int, float, int, int]], epsilon: float
) -> None:
    """Whatever is begun, halted and resumed in whatever order, all releases are (ε, δ) together."""
    limit = Limit(epsilon, DELTA)
    ledger: dict[int, tuple[Agreement, Account]] = {}
    for which, budget, rounds, releases in story:
        if which not in ledger:
            agreement = agreed(budget, session=f"s{which}", rounds=rounds)
            ledger[which] = agreement, opened(agreement)
        agreement, account = ledger[which]
        try:
            require_room([a for _, a in ledger.values()], agreement.digest, "main", limit)
        except BudgetExceeded:
            continue
        count = min(agreement.rounds, account.releases + releases)
        ledger[which] = agreement, replace(account, releases=count)
    squares = [multiplier(a) ** 2 * b.releases / a.rounds for a, b in ledger.values()]
    mu = math.sqrt(math.fsum(squares))
    if mu > 0.0:
        curve = stats.norm.cdf(mu / 2 - epsilon / mu)
        curve -= math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        assert curve <= DELTA * (1.0 + 1e-6)


# Which ledger counts


@pytest.fixture
def key(tmp_path: Path) -> Path:
    (tmp_path / "ada.key").write_text("secret")
    return tmp_path / "ada.key"


def test_of_two_ledgers_that_come_at_once_one_counts(
    key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither finds a mark when it looks, unless the other has to wait until there is one."""
    both, look = threading.Barrier(2), lifetime.require_only

    def looked(key: Path, path: Path, id: bytes) -> None:  # noqa: A002
        look(key, path, id)
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)

    def comes(one: bytes) -> bool:
        try:
            lifetime.count_here(key, key.with_name(f"{one.hex()}.ledger"), one)
        except BadLedger:
            return False
        return True

    monkeypatch.setattr(lifetime, "require_only", looked)
    with ThreadPoolExecutor(2) as pool:
        came = dict(zip((b"a", b"b"), pool.map(comes, (b"a", b"b")), strict=True))
    assert sorted(came.values()) == [False, True]
    assert {one: comes(one) for one in came} == came


def test_a_mark_that_cannot_be_read_lets_no_second_ledger_in(key: Path) -> None:
    """It is there: whatever keeps it from being read, it does not say that any ledger will do."""
    lifetime.count_here(key, key.with_name("a.ledger"), b"a")
    mark = lifetime.mark(key)
    mark.unlink()
    mark.symlink_to(mark)
    for other in (b"b", None):
        with pytest.raises(BadLedger, match="and cannot be read"):
            lifetime.require_only(key, key.with_name("b.ledger"), other)


def test_a_mark_is_on_the_disk_before_it_is_in_its_place(
    key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a power cut could leave an empty one, which lets no ledger in."""
    done: list[str] = []
    sync, replace_file = os.fsync, Path.replace

    def synced(file: int) -> None:
        done.append(f"{os.fstat(file).st_size} bytes synchronised")
        sync(file)

    def replaced(draft: Path, path: Path) -> Path:
        done.append(f"{draft.stat().st_size} bytes in place")
        return replace_file(draft, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    lifetime.count_here(key, key.with_name("a.ledger"), b"a")
    size = lifetime.mark(key).stat().st_size
    assert done == [f"{size} bytes synchronised", f"{size} bytes in place"]


def test_what_a_budget_says_of_totals_names_what_it_rests_on() -> None:
    """With totals: so many colluders in each session, the others' noise, and ciphers."""
    each, one, two = (
        replace(opened(agreed(1.0)), colluders=count, agreement=bytes([index]) * 32)
        for index, count in enumerate((None, 1, 2))
    )
    name = each.data_set
    limit = Limit(4.0, DELTA, fixed=(4.0, DELTA))
    assert colluding([each], name) == ()
    assert "ciphers" not in statement(name, limit, colluders=colluding([each], name))
    for counted, words in (
        ([each, one], "at most 1 other member tells"),
        ([each, one, two], "at most 1 or 2 other members tell"),
    ):
        for kept in (limit, None):
            told = figures(counted, name, kept, delta=DELTA)["statement"]
            assert f"in each of them {words} what they know" in told
            assert "the rest add their noise, and nobody breaks the ciphers" in told
            assert "does not count what payments, quotas" in told
    assert colluding([one, two], "another") == ()
