"""The lifetime budget: sessions compose, and a session that would exceed the limit is refused.

Another library's accountant computes the cost again, from the noise that sessions really add.
"""

import argparse
import math
import re
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats

from party.ledger.accounts import accounts, set_limit
from party.ledger.budget import (
    RAISED,
    Account,
    Limit,
    colluding,
    limit_for_session,
    opened,
    require_room,
    room,
    spent,
    statement,
    unprotected,
)
from party.ledger.session_ledger import Ledger
from party.options import limit as limit_option
from party.ui.budget_table import figures
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import BadCommand, BadLedger, BudgetExceeded
from protocol.numeric import Floats
from protocol.privacy.accountant import IntegerNoiseCost, PrivacyCost, rho
from protocol.privacy.axes import half_axes
from protocol.privacy.calibration import Calibration
from protocol.privacy.collusion import remaining_noise
from tests.support.budgets import DELTA, agreed, composed, exact_agreement, multiplier, record
from tests.support.builders import public_key

CAPACITY = {"name": "r0", "capacity": 10.0, "worth": 5.0}


def rehearsal() -> Agreement:
    return agreed(1.0, session="rehearsed", rehearsal=True)


def played(agreement: Agreement, releases: int | None = None) -> Account:
    """The account of a session after this many releases (default: all)."""
    return replace(opened(agreement), releases=agreement.rounds if releases is None else releases)


def cost(path: Path, data_set: str = "main") -> PrivacyCost:
    return spent(accounts(path)[0], data_set)


# The cost of sessions together


@pytest.mark.parametrize(
    "budgets", [(1.0, 1.0), (0.5, 1.0, 2.0), (0.1, 4.0), (0.3,) * 10, (8.0, 0.2, 3.0, 1.0)]
)
def test_sessions_compose_as_another_accountant_computes(budgets: tuple[float, ...]) -> None:
    """The total cost is that of composed Gaussians, to 1 %, and less than the sum of the ε."""
    sessions = [agreed(epsilon, session=f"s{i}") for i, epsilon in enumerate(budgets)]
    total = spent([played(agreement) for agreement in sessions], "main").epsilon(DELTA)
    assert total == pytest.approx(composed(*map(multiplier, sessions)), rel=0.01)
    assert max(budgets) < total < 0.999 * sum(budgets)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("mode", ["private", "clipped"])
@pytest.mark.parametrize("accountant", ["exact", "paper"])
def test_a_session_costs_no_more_than_agreed(epsilon: float, mode: str, accountant: str) -> None:
    """All releases cost at most the session's ε; with the exact accountant exactly that."""
    agreement = agreed(epsilon, mode=mode, rounds=30, privacy={"accountant": accountant})
    total = played(agreement).spent.epsilon(DELTA)
    assert total <= epsilon * (1.0 + 1e-8)
    if accountant == "exact":
        assert total == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("releases", [0, 1, 3, 6])
def test_with_the_ball_later_releases_cost_more(tmp_path: Path, releases: int) -> None:
    """After n of T releases a session has spent what the noise of these n rounds does not hide."""
    agreement = agreed(40.0, rounds=6, prices={}, reveal="totals", resource=[CAPACITY])
    assert agreement.ball
    calibration, caps = Calibration(agreement), quantities(agreement).share_ticks
    noise = (calibration.scales(caps, t) ** 2 for t in range(releases))
    moves = (2.0 * half_axes(agreement)) ** 2
    shown = sum(float((moves / remaining_noise(each, 1)).max()) for each in noise)
    record(tmp_path / "ledger", agreement, releases)
    assert cost(tmp_path / "ledger").mu_squared == pytest.approx(shown, rel=1e-9)


@pytest.mark.parametrize(
    "agreement",
    [
        exact_agreement(),
        agreed(1.0),
        agreed(1.0, reveal="totals"),
        agreed(40.0, reveal="totals", prices={}, resource=[CAPACITY]),
    ],
)
def test_an_account_is_there_before_the_first_release(tmp_path: Path, agreement: Agreement) -> None:
    """It is as the agreement says, even if the process dies when it has opened its ledger."""
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    ledger._file._base.close()  # as if the process had ended here
    assert accounts(tmp_path / "ledger") == ((opened(agreement),), {})


def test_data_released_without_noise_get_no_limit(tmp_path: Path) -> None:
    """No limit could hold for them, so none is stored."""
    record(tmp_path / "ledger", exact_agreement(), 1)
    with pytest.raises(BudgetExceeded, match="can have no limit"):
        set_limit(tmp_path / "ledger", "main", Limit(4.0, DELTA))
    assert accounts(tmp_path / "ledger")[1] == {}


def test_a_limit_may_be_asked_for_without_a_delta() -> None:
    """`--max-epsilon` alone means δ = 0.001, as the documents say."""
    asked = limit_option(argparse.Namespace(max_epsilon=4.0, max_delta=None))
    assert asked == Limit(4.0, 0.001)


def test_the_cost_can_be_shown_at_another_delta() -> None:
    """For a cost agreed at one δ, the ε at another δ is that of another accountant."""
    agreement = agreed(2.0)
    for delta in (1e-6, 1e-2):
        expected = composed(multiplier(agreement), delta=delta)
        assert played(agreement).spent.epsilon(delta) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("releases", [1, 3, 9])
def test_a_stopped_session_costs_only_its_releases(tmp_path: Path, releases: int) -> None:
    """After n of T releases a session has spent μ²·n/T."""
    agreement = agreed(2.0, rounds=10)
    record(tmp_path / "ledger", agreement, releases)
    total = cost(tmp_path / "ledger")
    mu = multiplier(agreement) * math.sqrt(releases / 10)
    assert total.mu_squared == pytest.approx(mu * mu, rel=1e-9)
    assert total.epsilon(DELTA) == pytest.approx(composed(mu), rel=0.01)


@pytest.mark.parametrize("agreement", [agreed(1.0), exact_agreement(), rehearsal()])
def test_a_session_without_releases_costs_nothing(tmp_path: Path, agreement: Agreement) -> None:
    """In every mode, joining costs nothing before the first release."""
    record(tmp_path / "ledger", agreement, 0)
    (account,) = accounts(tmp_path / "ledger")[0]
    assert account.releases == 0
    assert account.spent.epsilon(DELTA) == 0.0
    assert account.spent.delta(0.0) == 0.0


@pytest.mark.parametrize("agreement", [exact_agreement(), rehearsal()])
def test_one_release_without_secret_noise_ends_the_guarantee(
    tmp_path: Path, agreement: Agreement
) -> None:
    """A single release without noise, or with seeded noise, has no finite ε."""
    record(tmp_path / "ledger", agreement, 1, data_set="main")
    record(tmp_path / "ledger", agreed(1.0))
    total = cost(tmp_path / "ledger")
    assert math.isinf(total.epsilon(DELTA))
    assert total.delta(1e6) == 1.0
    shown = figures(accounts(tmp_path / "ledger")[0], "main", Limit(100.0, DELTA), delta=DELTA)
    assert shown["spent_epsilon"] is None
    assert shown["limit"]["room_epsilon"] == 0.0


# Data sets


def test_sessions_count_for_main_by_default(tmp_path: Path) -> None:
    """A session counts for another data set only if that is named."""
    path = tmp_path / "ledger"
    record(path, agreed(1.0, session="one"))
    record(path, agreed(1.0, session="two"), data_set="spring")
    record(path, agreed(1.0, session="three"))
    names = [(a.session, a.data_set) for a in accounts(path)[0]]
    assert names == [("one", "main"), ("two", "spring"), ("three", "main")]
    one, both = multiplier(agreed(1.0)), math.sqrt(2.0) * multiplier(agreed(1.0))
    assert cost(path, "spring").epsilon(DELTA) == pytest.approx(composed(one), rel=0.01)
    assert cost(path, "main").epsilon(DELTA) == pytest.approx(composed(both), rel=0.01)


def test_rehearsals_do_not_spend_the_budget(tmp_path: Path) -> None:
    """A rehearsal with invented data costs the data set 'main' nothing."""
    record(tmp_path / "ledger", rehearsal())
    assert cost(tmp_path / "ledger", "main") == PrivacyCost()
    assert math.isinf(cost(tmp_path / "ledger", "rehearsal").epsilon(DELTA))


@pytest.mark.parametrize(("first", "then"), [(None, "spring"), ("spring", "main")])
def test_a_session_stays_with_its_data_set(tmp_path: Path, first: str | None, then: str) -> None:
    """Resuming with another data set is refused and changes nothing."""
    path = tmp_path / "ledger"
    record(path, agreed(1.0), 2, data_set=first)
    before = accounts(path)
    with pytest.raises(BadLedger, match="was started with the data set"):
        Ledger(path, agreed(1.0), "ada", data_set=then)
    assert accounts(path) == before
    with closing(Ledger(path, agreed(1.0), "ada")) as ledger:
        assert ledger.data_set == (first or "main")


# Limits


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.0, DELTA), (-1.0, DELTA), (math.inf, DELTA), (math.nan, DELTA), (1.0, 0.0), (1.0, 1.0)],
)
def test_a_limit_out_of_range_is_refused(epsilon: float, delta: float) -> None:
    """A limit needs a finite positive ε, and δ between 0 and 1."""
    with pytest.raises(BadCommand, match="has no meaning"):
        Limit(epsilon, delta)


@pytest.mark.parametrize("accountant", ["exact", "paper"])
def test_a_session_may_spend_exactly_the_limit(tmp_path: Path, accountant: str) -> None:
    """A session with the ε of the limit is allowed; after it another one is refused."""
    path = tmp_path / "ledger"
    limit = Limit(1.0, DELTA)
    exact = agreed(1.0, privacy={"accountant": accountant})
    with closing(Ledger(path, exact, "ada")) as ledger:
        require_room(ledger.accounts(), exact.digest, ledger.fix_limit(limit))
    record(path, exact)
    another = agreed(1.0, session="two")
    with closing(Ledger(path, another, "ada")) as ledger, pytest.raises(BudgetExceeded):
        require_room(ledger.accounts(), another.digest, ledger.limit())


def test_a_session_that_has_begun_may_end() -> None:
    """A session that was allowed at its start is allowed after each of its releases."""
    agreement, limit = agreed(1.0), Limit(1.0, DELTA)
    for releases in range(agreement.rounds + 1):
        require_room([played(agreement, releases)], agreement.digest, limit)


def test_a_session_counts_as_if_played_to_the_end() -> None:
    """A session that only its last releases would take over the limit is refused at once."""
    stopped, next_one = agreed(1.0), agreed(1.0, session="two")
    begun = [played(stopped, 1), played(next_one, 0)]
    require_room(begun, next_one.digest, Limit(1.2, DELTA))
    with pytest.raises(BudgetExceeded):
        require_room(begun, next_one.digest, Limit(1.0, DELTA))
    with pytest.raises(BudgetExceeded):
        require_room([played(stopped, 1), played(next_one)], stopped.digest, Limit(1.2, DELTA))


def test_without_a_limit_every_session_is_allowed() -> None:
    """Even a session without noise is allowed."""
    require_room([played(exact_agreement())], exact_agreement().digest, None)


def test_an_exact_session_exceeds_every_limit() -> None:
    """With a limit of any size, a session without noise is refused."""
    with pytest.raises(
        BudgetExceeded, match=r"everything.*No limit covers a session without noise"
    ):
        require_room([played(exact_agreement(), 0)], exact_agreement().digest, Limit(1e6, 0.5))


def test_a_limit_for_an_exact_session_is_not_stored(tmp_path: Path) -> None:
    """The request is refused, and the session without the request is allowed later."""
    path = tmp_path / "ledger"
    for releases in (0, 1):
        with closing(Ledger(path, exact_agreement(), "ada")) as ledger:
            with pytest.raises(BudgetExceeded, match="can have no limit"):
                ledger.fix_limit(Limit(20.0, DELTA))
            require_room(ledger.accounts(), exact_agreement().digest, ledger.fix_limit())
        record(path, exact_agreement(), 1 - releases)
    with closing(Ledger(path, agreed(1.0), "ada")) as ledger:
        with pytest.raises(BudgetExceeded, match="can have no limit"):
            ledger.fix_limit(Limit(20.0, DELTA))
        require_room(ledger.accounts(), agreed(1.0).digest, ledger.fix_limit())


def test_other_data_sets_do_not_count() -> None:
    """What other data sets have spent does not matter."""
    fresh = replace(played(agreed(1.0, session="two"), 0), data_set="spring")
    both = [played(agreed(8.0)), fresh]
    require_room(both, fresh.agreement, Limit(1.0, DELTA))


def test_a_refusal_names_data_set_costs_and_limit() -> None:
    """The operator reads what was spent, what would be spent, and that nothing was sent."""
    first, second = agreed(1.0), agreed(2.0, session="two")
    with pytest.raises(BudgetExceeded) as caught:
        require_room([played(first), played(second, 0)], second.digest, Limit(2.0, DELTA))
    text = str(caught.value)
    together = composed(multiplier(first), multiplier(second))
    found = re.search(r"would have spent epsilon ([\d.]+) at delta 0.001", text)
    assert found is not None
    assert float(found[1]) == pytest.approx(together, rel=0.01)
    assert "the data set 'main'" in text
    assert "its limit is epsilon 2 at that delta" in text
    assert "So far it has spent epsilon 1 at delta 0.001" in text
    assert "Nothing was sent" in text


def test_a_limit_is_stored_in_the_ledger(tmp_path: Path) -> None:
    """A limit holds for its data set in every later session, until it is changed."""
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
    """Join a session, and return the limit that holds."""
    with closing(Ledger(path, agreement, "ada")) as ledger:
        limit = ledger.fix_limit(asked)
        require_room(ledger.accounts(), agreement.digest, limit)
        assert ledger.limit() == limit
    return limit


def test_without_a_request_the_first_session_sets_the_limit(tmp_path: Path) -> None:
    """The limit is that session's budget; before the first release another may replace it."""
    path, first, larger = tmp_path / "ledger", agreed(1.0), agreed(2.0, session="two")
    for agreement, epsilon in ((first, 1.0), (larger, 2.0), (first, 1.0)):
        limit = fixed_by(path, agreement)
        assert limit is not None
        assert (limit.epsilon, limit.delta, limit.asked) == (epsilon, DELTA, False)
        assert limit.fixed == (epsilon, DELTA)
    record(path, first, 1)
    assert fixed_by(path, first) == limit, "resuming is not another session"
    with pytest.raises(BudgetExceeded, match=r"\(the budget of its first session\)\. So far"):
        fixed_by(path, larger)
    assert accounts(path)[1] == {"main": limit}


def test_a_limit_that_the_operator_lowers_is_the_operators(tmp_path: Path) -> None:
    """It is no longer called the budget of the first session, and keeps the guarantee."""
    path, session = tmp_path / "ledger", agreed(1.0)
    fixed_by(path, session)
    record(path, session, 1)
    set_limit(path, "main", Limit(0.9, DELTA))
    limit = accounts(path)[1]["main"]
    assert (limit.epsilon, limit.asked, limit.fixed) == (0.9, True, (1.0, DELTA))


def test_before_the_first_release_the_accountant_is_chosen_again() -> None:
    """A session that joined and released nothing does not decide for the next one."""
    first = agreed(1.0)
    stored = Limit(4.0, DELTA, accountant="paper", fixed=(4.0, DELTA))
    for releases, accountant in ((0, "exact"), (1, "paper")):
        limit = limit_for_session(
            [played(first, releases)], first.digest, asked=None, stored=stored
        )
        assert limit is not None
        assert limit.accountant == accountant


def test_a_limit_counts_only_its_own_data() -> None:
    """What other data have spent, even all of it, changes neither limit nor accountant."""
    this = agreed(1.0)
    for other in (agreed(1.0, session="two"), exact_agreement()):
        sessions = [replace(played(other), data_set="others"), opened(this)]
        for asked in (None, Limit(1.0, DELTA)):
            limit = limit_for_session(sessions, this.digest, asked=asked, stored=None)
            assert limit is not None
            assert (limit.accountant, limit.fixed) == ("exact", (1.0, DELTA))


def test_a_statement_says_where_the_limit_comes_from() -> None:
    """It was asked for, or it is what the first session may spend."""
    limit = Limit(4.0, DELTA, fixed=(4.0, DELTA))
    assert "was fixed before its first release" in statement("main", limit)
    own = statement("main", replace(limit, asked=False))
    assert "was set to the budget of the first session before its first release" in own


def test_a_finished_session_can_be_opened_under_any_limit(tmp_path: Path) -> None:
    """It releases nothing more, so a limit below what it spent does not refuse it."""
    path, session = tmp_path / "ledger", agreed(1.0)
    record(path, session)
    set_limit(path, "main", Limit(0.1, DELTA))
    require_room(accounts(path)[0], session.digest, Limit(0.1, DELTA))
    with pytest.raises(BudgetExceeded):
        require_room([played(session, 3)], session.digest, Limit(0.1, DELTA))


@pytest.mark.parametrize("spent_before", [False, True])
@pytest.mark.parametrize("fixed", [None, (1.0, DELTA)])
def test_a_refusal_says_what_raising_the_limit_would_cost(
    fixed: tuple[float, float] | None, spent_before: bool
) -> None:
    """Only a limit that was fixed before a release has a guarantee to lose."""
    large = agreed(2.0, session="two")
    sessions = [played(agreed(0.5), 4 if spent_before else 0), opened(large)]
    with pytest.raises(BudgetExceeded) as refused:
        require_room(sessions, large.digest, Limit(1.0, DELTA, fixed=fixed))
    assert (RAISED in str(refused.value)) == (spent_before and fixed is not None)


@pytest.mark.parametrize("first", [exact_agreement(), rehearsal()])
def test_a_session_without_a_guarantee_sets_no_limit(tmp_path: Path, first: Agreement) -> None:
    """It also removes the limit of a session that never released anything."""
    path = tmp_path / "ledger"
    assert fixed_by(path, agreed(1.0)) is not None
    with closing(Ledger(path, first, "ada", data_set="main")) as ledger:
        assert ledger.fix_limit() is None
    record(path, first, 1, data_set="main")
    assert fixed_by(path, agreed(1.0)) is None
    (shown,) = (figures(accounts(path)[0], "main", None, delta=DELTA),)
    assert shown["covered_by"] is None
    assert "was released without noise: there is no guarantee" in shown["statement"]


def test_only_raising_a_limit_ends_its_guarantee(tmp_path: Path) -> None:
    """Lowering a fixed limit, and restoring it, keeps the guarantee; raising it does not."""
    path, session = tmp_path / "ledger", agreed(1.0)
    limit = fixed_by(path, session, Limit(4.0, DELTA))
    record(path, session, 2)
    for epsilon in (2.0, 4.0):
        now = fixed_by(path, session, Limit(epsilon, DELTA))
        assert now is not None
        assert limit is not None
        assert (now.epsilon, now.fixed, now.factor) == (epsilon, (4.0, DELTA), limit.factor)
        assert "epsilon 4 at delta 0.001 covers all its releases" in statement("main", now)
    raised = fixed_by(path, session, Limit(4.1, DELTA))
    assert raised is not None
    back = fixed_by(path, session, Limit(4.0, DELTA))
    assert back is not None
    assert raised.fixed is back.fixed is None, "a lost guarantee does not come back"


@pytest.mark.parametrize("asked", [Limit(4.1, DELTA), Limit(3.0, 1.001 * DELTA)])
def test_a_larger_epsilon_or_delta_ends_the_guarantee(tmp_path: Path, asked: Limit) -> None:
    """A larger δ ends it even if ε is smaller."""
    path, session = tmp_path / "ledger", agreed(1.0)
    fixed_by(path, session, Limit(4.0, DELTA))
    record(path, session, 2)
    now = fixed_by(path, session, asked)
    assert now is not None
    assert (now.epsilon, now.delta, now.fixed) == (asked.epsilon, asked.delta, None)
    assert "only if you never chose a session because of" in statement("main", now)


def test_releases_before_any_limit_have_no_fixed_guarantee(tmp_path: Path) -> None:
    """Later sessions are allowed, and the statement says what is missing."""
    path = tmp_path / "ledger"
    record(path, agreed(1.0))
    assert fixed_by(path, agreed(1.0, session="two")) is None
    shown = figures(accounts(path)[0], "main", None, delta=DELTA)
    assert shown["statement"].startswith("No limit was fixed before the first release")


def test_choosing_when_to_stop_needs_a_limit_from_the_start() -> None:
    """Without one the stated δ is far exceeded; a limit for all possible sessions holds.

    There are up to 400 sessions of μ = 0.1. The last is the one that first revealed too much.
    """
    each, most, people = 0.1, 400, 20_000
    stated = np.array([PrivacyCost(each**2 * n).epsilon(DELTA) for n in range(1, most + 1)])
    rng = np.random.default_rng(1)
    revealed = np.cumsum(each * rng.standard_normal((people, most)) + each**2 / 2.0, axis=1)
    over = revealed > stated + 0.1
    stop = np.where(over.any(axis=1), over.argmax(axis=1), most - 1)
    ratio = revealed[np.arange(people), stop]

    def passed(epsilon: Floats | float) -> float:
        """The δ that these releases need with this ε."""
        return float(np.maximum(0.0, 1.0 - np.exp(epsilon - ratio)).mean())

    assert passed(stated[stop]) > 4.0 * DELTA
    assert passed(stated[-1]) < 1.2 * DELTA


def test_the_first_session_chooses_the_accountant() -> None:
    """Later the limit refuses what only the other accountant could allow."""
    coarse = PrivacyCost(0.01, IntegerNoiseCost(math.inf, 0.0))
    fine = PrivacyCost(0.01, IntegerNoiseCost(1e-9, 1e-9))
    exact, paper = (Limit(1.0, DELTA).with_accountant(spent) for spent in (fine, coarse))
    assert (exact.accountant, paper.accountant) == ("exact", "paper")
    assert exact.allows(fine)
    assert not exact.allows(coarse)
    assert paper.allows(fine)
    assert paper.allows(coarse)
    much = PrivacyCost(2.0 * rho(epsilon=1.0, delta=DELTA) * 1.01, IntegerNoiseCost(1e-9, 1e-9))
    assert exact.allows(much)
    assert not paper.allows(much), "only the exact accountant would allow it"
    assert exact.factor is not None
    assert not exact.allows(PrivacyCost(0.01, IntegerNoiseCost(1e-9, 1.01 * exact.factor)))
    spent = PrivacyCost(0.01, IntegerNoiseCost(1e-9, exact.factor))
    assert exact.allows(spent)
    assert Limit(1.0, DELTA).with_accountant(PrivacyCost(100.0)).accountant is None, (
        "it does not fit at all"
    )


def test_a_limit_allows_a_session_that_costs_all_of_it() -> None:
    """The limit itself is within the limit, whoever counts."""
    cost = PrivacyCost(0.04)
    for accountant, delta in (
        (None, cost.delta(1.0)),
        ("paper", cost.zcdp_delta(1.0)),
        ("exact", cost.gaussian_delta(1.0)),
    ):
        assert Limit(1.0, delta, accountant=accountant).allows(cost)
        assert not Limit(1.0, 0.999 * delta, accountant=accountant).allows(cost)


def test_half_of_what_the_first_session_leaves_is_set_aside_for_ticks() -> None:
    """δ leaves a factor of e^0.0012 beside the noise of the first session, so e^0.0006 is kept.

    Where δ leaves much more, only a thousandth is set aside.
    """
    first = PrivacyCost(0.04, IntegerNoiseCost(0.0, 4e-4))
    left = first.gaussian_delta(1.0) * math.exp(8e-4)
    limit = Limit(1.0, left).with_accountant(first)
    assert limit.factor == pytest.approx(6e-4, rel=1e-6)
    ticks = [PrivacyCost(0.0, IntegerNoiseCost(0.0, more)) for more in (1.9e-4, 2.1e-4)]
    assert [limit.allows(first + more) for more in ticks] == [True, False]
    assert Limit(1.0, 2.0 * left).with_accountant(first).factor == 1e-3


@pytest.mark.parametrize("accountant", ["exact", "paper"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("share", [1.0, 1e-5])
def test_any_session_fits_the_limit_that_it_sets(
    tmp_path: Path, accountant: str, epsilon: float, share: float
) -> None:
    """Neither rounding nor coarse ticks exclude a session from its own limit."""
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
def test_room_is_the_largest_session_that_fits(mode: str, before: float, limit: float) -> None:
    """A session with the ε that is left is allowed; one with 1 % more is refused."""
    earlier, allowed = played(agreed(before, mode=mode)), Limit(limit, DELTA)
    left = room(earlier.spent, allowed)
    assert limit - before < left < limit
    assert float(f"{left:.4g}") == left, "four digits are enough to type"
    fits = agreed(left, session="two", mode=mode)
    require_room([earlier, played(fits, 0)], fits.digest, allowed)
    large = agreed(1.01 * left, session="two", mode=mode)
    with pytest.raises(BudgetExceeded):
        require_room([earlier, played(large, 0)], large.digest, allowed)


def test_room_is_the_limit_at_first_and_zero_at_last() -> None:
    """Before any release all of the limit is left; when all is spent, nothing is."""
    assert room(PrivacyCost(), Limit(1.0, DELTA)) == 1.0
    assert room(played(agreed(1.0)).spent, Limit(1.0, DELTA)) < 1e-3
    assert room(played(agreed(1.1)).spent, Limit(1.0, DELTA)) == 0.0


histories = st.lists(
    st.tuples(st.integers(0, 4), st.floats(0.05, 3.0), st.integers(1, 6), st.integers(0, 6)),
    max_size=12,
)


@given(histories, st.floats(0.1, 6.0))
@example([(0, 1.0, 4, 4), (1, 0.05, 1, 1)], 1.0)  # all of it spent, then a small session
@example([(0, 1.0, 4, 1), (1, 1.0, 4, 4), (0, 1.0, 4, 3)], 1.0)  # begun, another, resumed
@example([(0, 0.9, 6, 0), (1, 0.9, 6, 6), (0, 0.9, 6, 6)], 1.0)  # begun and nothing released
@settings(max_examples=60)
def test_no_history_of_sessions_exceeds_the_limit(
    history: list[tuple[int, float, int, int]], epsilon: float
) -> None:
    """For sessions begun, stopped and resumed in any order, all releases are (ε, δ) together."""
    limit = Limit(epsilon, DELTA)
    ledger: dict[int, tuple[Agreement, Account]] = {}
    for which, budget, rounds, releases in history:
        if which not in ledger:
            agreement = agreed(budget, session=f"s{which}", rounds=rounds)
            ledger[which] = agreement, opened(agreement)
        agreement, account = ledger[which]
        try:
            require_room([a for _, a in ledger.values()], agreement.digest, limit)
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


def test_a_statement_about_totals_names_its_conditions() -> None:
    """With totals it names the number of colluders, the noise of others and the encryption."""
    each, one, two = (
        replace(opened(agreed(1.0)), colluders=count, agreement=bytes([index]) * 32)
        for index, count in enumerate((None, 1, 2))
    )
    name = each.data_set
    limit = Limit(4.0, DELTA, fixed=(4.0, DELTA))
    assert colluding([each], name) == ()
    assert "encryption" not in statement(name, limit, colluders=colluding([each], name))
    for sessions, words in (
        ([each, one], "at most 1 other member shares what it knows"),
        ([each, one, two], "at most 1 or 2 other members share what they know"),
    ):
        for stored in (limit, None):
            text = figures(sessions, name, stored, delta=DELTA)["statement"]
            assert f"in each of them {words}" in text
            assert "the others add their noise, and no one breaks the encryption" in text
            assert "does not cover what payments, quotas" in text
    assert colluding([one, two], "another") == ()


def test_noise_after_an_exact_session_is_warned_about() -> None:
    """The noise of a session cannot hide what its data set showed before; other data may join."""
    exact = replace(opened(exact_agreement()), releases=3)
    noisy = agreed(1.0, session="noisy")
    text = unprotected([exact, opened(noisy)], noisy.digest)
    assert f"'main' was released without noise in '{exact.session}'" in text
    assert "--data-set NAME" in text
    assert not unprotected([exact, opened(noisy, "other data")], noisy.digest)
    assert not unprotected([replace(exact, releases=0), opened(noisy)], noisy.digest)
    assert not unprotected([exact], exact.agreement)
