"""The lifetime budget: sessions add up as they compose, and none is joined that would pass it.

What sessions cost together is computed a second time here, from the noise they really add, by
another library's accountant.
"""

import json
import math
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from party.budget import Account, Limit, figures, opened, require_room, room, spent
from party.ledger import Ledger, accounts, set_limit
from protocol.agreement import Agreement
from protocol.errors import BadCommand, BadLedger, BudgetExceeded
from protocol.privacy import Calibration, Spent
from scripts.processes import party_command
from tests.kit import ROOT
from tests.kit.builders import make_agreement
from tests.kit.processes import LIMIT, Play, options, play
from tests.party.test_ledger import release

DELTA = 1e-3


def agreed(epsilon: float, *, session: str = "one", rounds: int = 4, **more: Any) -> Agreement:
    """A session with this ε at δ = 0.001."""
    privacy = {"epsilon": epsilon, "delta": DELTA, **more.pop("privacy", {})}
    return make_agreement(
        **{
            "session": session,
            "rounds": rounds,
            "mode": "private",
            "privacy": privacy,
            "prices": {"step": "dog"},
            **more,
        }
    )


def hidden(session: str = "bare") -> Agreement:
    return make_agreement(session=session, mode="hidden")


def rehearsal() -> Agreement:
    return agreed(1.0, session="rehearsed", rehearsal=True)


def played(agreement: Agreement, releases: int | None = None) -> Account:
    """The account of a session after so many releases, or all."""
    return replace(opened(agreement), releases=agreement.rounds if releases is None else releases)


def multiplier(agreement: Agreement) -> float:
    """μ as the noise has it: √(Σ cap²/σ²) over all numbers and rounds of a member."""
    caps = agreement.share_ticks[0]
    sigma = Calibration(agreement).scales(caps)
    return math.sqrt(agreement.rounds * float(((caps / sigma) ** 2).sum()))


def composed(*multipliers: float, delta: float = DELTA) -> float:
    """The ε of Gaussian mechanisms with these multipliers together, by another library."""
    total = None
    for mu in multipliers:
        one = pld.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=1e-3)
        total = one if total is None else total.compose(one)
    assert total is not None
    return float(total.get_epsilon_for_delta(delta))


def record(
    path: Path, agreement: Agreement, releases: int | None = None, *, data_set: str | None = None
) -> None:
    """A session in a ledger, after so many releases, or all."""
    with closing(Ledger(path, agreement, "ada", data_set=data_set)) as ledger:
        for t in range(agreement.rounds if releases is None else releases):
            ledger.record_release(release(agreement, t))


def cost(path: Path, data_set: str = "main") -> Spent:
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
    assert cost(tmp_path / "ledger", "main") == Spent()
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
        ledger.set_limit(limit)
        require_room(ledger.accounts(), exact.digest, "main", limit)
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
    with pytest.raises(BudgetExceeded, match="everything"):
        require_room([played(hidden(), 0)], hidden().digest, "main", Limit(1e6, 0.5))


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
        ledger.set_limit(Limit(3.0, 1e-5))
    with closing(Ledger(path, agreed(1.0, session="two"), "ada")) as ledger:
        assert ledger.limit() == Limit(3.0, 1e-5)
    set_limit(path, "main", Limit(4.0, DELTA))
    with closing(Ledger(path, agreed(1.0, session="s"), "ada", data_set="spring")) as ledger:
        assert ledger.limit() is None
    assert accounts(path)[1] == {"main": Limit(4.0, DELTA)}


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
    assert room(Spent(), Limit(1.0, DELTA)) == 1.0
    assert room(played(agreed(1.0)).spent, Limit(1.0, DELTA)) < 1e-3
    assert room(played(agreed(1.1)).spent, Limit(1.0, DELTA)) == 0.0


stories = st.lists(
    st.tuples(st.integers(0, 4), st.floats(0.05, 3.0), st.integers(1, 6), st.integers(0, 6)),
    max_size=12,
)


@given(stories, st.floats(0.1, 6.0))
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


# The commands


def party(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run the real command, on a terminal as wide as its tables."""
    return subprocess.run(
        [sys.executable, "-m", "party", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def budget(ledger: Path, *arguments: Any) -> Any:
    """What `party budget --json` tells."""
    told = party("budget", ledger, "--json", *arguments)
    assert (told.returncode, told.stderr) == (0, "")
    return json.loads(told.stdout)


def real(*arguments: str, rounds: int) -> Any:
    """Options of a session of two parties with real noise."""
    chosen = options(*arguments, parties=2, rounds=rounds)
    chosen.rehearsal = False
    return chosen


@dataclass(frozen=True)
class Session:
    """A real session in which a party was killed on the way, and what was told of it then."""

    agreement: Agreement
    ledger: Path
    recorded: int
    budget: Any


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Two parties, one of them killed in mid-session, asked for its budget, and started again."""
    folder = tmp_path_factory.mktemp("budget") / "s"
    with play(folder, real("--epsilon", "8", rounds=150)) as playing:
        cast, ledger = playing.cast, folder / "party1" / "party1.ledger"
        cast.start()
        assert playing.until_round("party1", 9)
        cast.processes["party1"].kill()
        cast.processes["party1"].wait()
        told = budget(ledger)
        with closing(sqlite3.connect(ledger)) as base:
            recorded = base.execute("SELECT count(*) FROM releases").fetchone()[0]
        cast.start_party("party1")
        cast.wait(LIMIT)
        return Session(playing.agreement, ledger, recorded, told)


def test_killed_party_has_spent_what_is_in_its_ledger(session: Session) -> None:
    """After kill -9 in mid-session `party budget` counts the recorded releases, exactly."""
    (data_set,) = session.budget
    (row,) = data_set["sessions"]
    assert 9 <= row["releases"] == session.recorded < 150
    mu = multiplier(session.agreement) * math.sqrt(session.recorded / 150)
    assert data_set["spent_epsilon"] == row["spent_epsilon"]
    assert data_set["spent_epsilon"] == pytest.approx(composed(mu), rel=0.01)


def test_resumed_party_has_spent_what_was_agreed(session: Session) -> None:
    """A session that was interrupted and resumed costs what it would have cost in one go."""
    (data_set,) = budget(session.ledger)
    assert data_set == {
        "data_set": "main",
        "delta": DELTA,
        "sessions": [
            {
                "session": session.agreement.session,
                "agreement": session.agreement.digest.hex(),
                "epsilon": 8.0,
                "delta": DELTA,
                "rounds": 150,
                "releases": 150,
                "spent_epsilon": pytest.approx(8.0, rel=1e-6),
            }
        ],
        "spent_epsilon": pytest.approx(8.0, rel=1e-6),
        "limit": None,
    }


def test_budget_for_people(session: Session) -> None:
    """The table names session, what was agreed, releases and ε; then there is the limit."""
    told = party("budget", session.ledger)
    assert (told.returncode, told.stderr) == (0, "")
    cells = [re.split(r"\s*[│┃]\s*", line.strip("│┃ ")) for line in told.stdout.splitlines()]
    assert told.stdout.startswith("data set main: what its sessions have spent")
    assert [session.agreement.session, "ε = 8, δ = 0.001", "150 of 150", "8"] in cells
    assert ["all together", "", "", "8"] in cells
    assert "no limit is set: say --max-epsilon E" in told.stdout


def test_budget_of_a_data_set_of_any_name(tmp_path: Path) -> None:
    """The name of a data set is shown as it is, and what was released without noise is too."""
    record(tmp_path / "ledger", hidden(), data_set="[/b] spring [1]")
    told = party("budget", tmp_path / "ledger")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("data set [/b] spring [1]: what its sessions have spent")
    assert re.search(r"bare +│ +no privacy │ +3 of 3 │ +no guarantee", told.stdout)


def test_budget_at_another_delta(session: Session) -> None:
    """`--delta` shows the ε that goes with it."""
    (data_set,) = budget(session.ledger, "--delta", "1e-6")
    expected = composed(multiplier(session.agreement), delta=1e-6)
    assert data_set["delta"] == 1e-6
    assert data_set["spent_epsilon"] == pytest.approx(expected, rel=0.01)


def test_budget_sets_a_limit(session: Session, tmp_path: Path) -> None:
    """A limit that `party budget` sets is told with the room it leaves, then and later."""
    ledger = tmp_path / "ledger"
    shutil.copy(session.ledger, ledger)
    told = party("budget", ledger, "--max-epsilon", "10")
    assert "limit ε = 10 at δ = 0.001; room for one more session of ε = " in told.stdout
    (data_set,) = budget(ledger)
    assert data_set["limit"]["epsilon"] == 10.0
    assert data_set["limit"]["delta"] == DELTA
    left = data_set["limit"]["room_epsilon"]
    assert f"session of ε = {left:.4g} at that δ" in told.stdout
    again = agreed(left, session="more")
    together = composed(multiplier(session.agreement), multiplier(again))
    assert together == pytest.approx(10.0, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--data-set", "autumn"), 2, "there is no data set 'autumn' in "),
        (("--max-delta", "0.1"), 2, "--max-delta needs --max-epsilon beside it"),
        (("--delta", "1"), 2, "--delta must be between 0 and 1"),
    ],
)
def test_budget_refuses(session: Session, arguments: tuple[str, ...], code: int, text: str) -> None:
    """What cannot be answered ends with its exit code and says why."""
    refused = party("budget", session.ledger, *arguments)
    assert refused.returncode == code
    assert text in refused.stderr
    assert refused.stdout == ""


def test_budget_of_no_ledger(tmp_path: Path) -> None:
    """A ledger that is not there is not made by asking for its budget."""
    refused = party("budget", tmp_path / "ada.ledger")
    assert refused.returncode == 6
    assert "there is no ledger" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class Door:
    """A session that nobody plays, and a coordinator's ports that only count who knocks."""

    play: Play
    listeners: tuple[socket.socket, ...]

    @property
    def ledger(self) -> Path:
        return self.play.cast.folder / "party1" / "party1.ledger"

    def join(self, *arguments: str) -> list[str]:
        """The command with which the first party joins."""
        return [*party_command(self.play.cast.folder, "party1", self.play.options), *arguments]

    def refused(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return party(*self.join(*arguments)[3:])

    def knocked(self) -> bool:
        """Whether anybody has connected since this was last asked."""
        for listener in self.listeners:
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                continue
            return True
        return False


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """A session of ε = 1 that waits behind counted ports."""
    with ExitStack() as stack:
        playing = stack.enter_context(play(tmp_path / "s", real("--epsilon", "1", rounds=5)))
        port = int(playing.agreement.transport.coordinator.rpartition(":")[2])
        listeners = []
        for number in (port, port + 1):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", number)))
            listener.setblocking(False)
            listeners.append(listener)
        yield Door(playing, tuple(listeners))


def test_join_past_the_limit_ends_before_anything_is_sent(door: Door) -> None:
    """A session past the limit ends with 7, then and whenever it is tried again, and in silence."""
    first = door.refused("--max-epsilon", "0.5")
    again = door.refused()
    for attempt in (first, again):
        assert attempt.returncode == 7
        assert "the data set 'main' would have spent epsilon 1 at delta 0.001" in attempt.stderr
        assert "its limit is epsilon 0.5" in attempt.stderr
        assert "so far it has spent nothing" in attempt.stderr
    assert not door.knocked()
    (data_set,) = budget(door.ledger)
    assert data_set["limit"]["epsilon"] == 0.5
    assert [row["releases"] for row in data_set["sessions"]] == [0]


def test_join_with_a_raised_limit_goes_to_the_coordinator(door: Door) -> None:
    """Once the limit is raised on purpose the party connects, and its ledger is in use."""
    with closing(Ledger(door.ledger, door.play.agreement, "party1")) as ledger:
        ledger.set_limit(Limit(0.5, DELTA))
    waiting = subprocess.Popen(
        door.join("--max-epsilon", "1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + LIMIT
        while not door.knocked():
            assert waiting.poll() is None
            assert time.monotonic() < until, "nobody came"
            time.sleep(0.02)
        asked = party("budget", door.ledger)
        assert asked.returncode == 6
        assert "is in use by another process" in asked.stderr
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(30) == 130
    finally:
        waiting.kill()
        waiting.wait()
    assert accounts(door.ledger)[1] == {"main": Limit(1.0, DELTA)}


def test_join_with_half_a_limit(door: Door) -> None:
    """A δ without an ε is refused before the ledger is made."""
    refused = door.refused("--max-delta", "0.1")
    assert refused.returncode == 2
    assert "--max-delta needs --max-epsilon" in refused.stderr
    assert not door.ledger.exists()


def test_join_resumed_under_another_data_set(door: Door) -> None:
    """A session begun with one data set is not joined with another, and nobody is told."""
    Ledger(door.ledger, door.play.agreement, "party1", data_set="spring").close()
    other = door.refused("--data-set", "autumn")
    assert other.returncode == 6
    assert "was begun with the data set 'spring', not with 'autumn'" in other.stderr
    assert not door.knocked()
    assert [account.data_set for account in accounts(door.ledger)[0]] == ["spring"]
