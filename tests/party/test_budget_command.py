"""The budget on the command line: what `party budget` shows, and which sessions are refused."""

import json
import math
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from party.ledger import budget_marker
from party.ledger.accounts import accounts, extent
from party.ledger.budget import Limit
from party.ledger.database import Database
from party.ledger.session_ledger import Ledger
from protocol.agreement.model import Agreement
from protocol.errors import Unavailable
from scripts.lab.common.local_session import party_command
from tests.support import ROOT
from tests.support.budgets import DELTA, agreed, composed, exact_agreement, multiplier, record
from tests.support.ledgers import release
from tests.support.local_sessions import RunningSession, options
from tests.support.process_control import Brake, kill
from tests.support.wait import LIMIT, until

ROUNDS = 30  # each takes the pace of a real session


def party(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run the real command, on a terminal that is wide enough for its tables."""
    return subprocess.run(
        [sys.executable, "-m", "party", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def budget(ledger: Path, *arguments: Any) -> Any:
    """The output of `party budget --json`."""
    done = party("budget", ledger, "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def real(*arguments: str, rounds: int) -> Any:
    """Options of a session of two parties with real noise."""
    chosen = options(*arguments, parties=2, rounds=rounds)
    chosen.rehearsal = False
    return chosen


class Session(Struct, frozen=True):
    """A real session in which a party was killed, and its budget at that moment."""

    agreement: Agreement
    ledger: Path
    recorded: int
    budget: Any


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Two parties; one is killed during the session, its budget is read, and it is resumed."""
    folder = tmp_path_factory.mktemp("budget") / "s"
    chosen = real("--epsilon", "8", rounds=ROUNDS)
    with RunningSession(folder, chosen) as playing, pytest.MonkeyPatch.context() as patch:
        ledger = folder / "party1" / "party1.ledger"
        brake = Brake(playing, patch, name="party2", furthest=9)
        playing.start()
        brake.reached()
        kill(playing, "party1")
        output = budget(ledger)
        with closing(sqlite3.connect(ledger)) as base:
            recorded = base.execute("SELECT count(*) FROM releases").fetchone()[0]
        playing.start_party("party1")
        brake.let_go()
        playing.wait(LIMIT)
        return Session(playing.agreement, ledger, recorded, output)


def test_a_killed_party_has_spent_its_recorded_releases(session: Session) -> None:
    """After kill -9 `party budget` counts exactly the releases in the ledger."""
    (data_set,) = session.budget
    (row,) = data_set["sessions"]
    assert 9 <= row["releases"] == session.recorded < ROUNDS
    mu = multiplier(session.agreement) * math.sqrt(session.recorded / ROUNDS)
    assert data_set["spent_epsilon"] == row["spent_epsilon"]
    assert data_set["spent_epsilon"] == pytest.approx(composed(mu), rel=0.01)


def test_a_resumed_session_costs_what_was_agreed(session: Session) -> None:
    """An interruption does not change the cost of a session."""
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
                "rounds": ROUNDS,
                "releases": ROUNDS,
                "spent_epsilon": pytest.approx(8.0, rel=1e-6),
                "colluders": None,
            }
        ],
        "spent_epsilon": pytest.approx(8.0, rel=1e-6),
        "limit": {
            "epsilon": 8.0,
            "delta": DELTA,
            "asked": False,
            "accountant": "exact",
            "room_epsilon": pytest.approx(0.0, abs=1e-3),
        },
        "covered_by": {"epsilon": 8.0, "delta": DELTA},
        "statement": "The limit of the data set 'main' was set to the budget of the first session "
        "before its first release: epsilon 8 at delta 0.001 covers all its releases, however you "
        "choose later sessions.",
    }


def test_the_table_shows_sessions_costs_and_limit(session: Session) -> None:
    """Without --json there is a table of sessions, then the limit and the statement."""
    done = party("budget", session.ledger)
    assert (done.returncode, done.stderr) == (0, "")
    cells = [re.split(r"\s*[│┃]\s*", line.strip("│┃ ")) for line in done.stdout.splitlines()]
    assert done.stdout.startswith("data set main: what its sessions have spent")
    assert [session.agreement.session, "ε = 8, δ = 0.001", f"{ROUNDS} of {ROUNDS}", "8"] in cells
    assert ["all together", "", "", "8"] in cells
    assert "limit ε = 8 at δ = 0.001; left for one more session: ε = " in done.stdout
    assert "epsilon 8 at delta 0.001 covers all its releases" in " ".join(done.stdout.split())


def test_a_data_set_may_have_any_name(tmp_path: Path) -> None:
    """The table shows brackets in the name as they are."""
    record(tmp_path / "ledger", exact_agreement(), data_set="[/b] spring [1]")
    done = party("budget", tmp_path / "ledger")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("data set [/b] spring [1]: what its sessions have spent")
    assert re.search(r"bare +│ +no privacy │ +3 of 3 │ +no guarantee", done.stdout)
    assert "no limit is set\n" in done.stdout
    assert "Something of the data set '[/b] spring [1]' was released without noise" in done.stdout


def test_no_limit_is_set_after_releases_without_noise(tmp_path: Path) -> None:
    """Such a limit would refuse every session; another data set may have one."""
    ledger = tmp_path / "ledger"
    record(ledger, exact_agreement())
    refused = party("budget", ledger, "--max-epsilon", "20")
    assert (refused.returncode, refused.stdout) == (7, "")
    assert "the data set 'main' can have no limit" in refused.stderr
    assert accounts(ledger)[1] == {}
    assert party("budget", ledger, "--max-epsilon", "20", "--data-set", "spring").returncode == 0


def test_the_budget_can_be_shown_at_another_delta(session: Session) -> None:
    """`--delta` shows the ε at that δ."""
    (data_set,) = budget(session.ledger, "--delta", "1e-6")
    expected = composed(multiplier(session.agreement), delta=1e-6)
    assert data_set["delta"] == 1e-6
    assert data_set["spent_epsilon"] == pytest.approx(expected, rel=0.01)


def test_a_limit_set_after_releases_says_what_it_covers(session: Session, tmp_path: Path) -> None:
    """`party budget --max-epsilon` shows what is left, and that no guarantee is fixed."""
    ledger = tmp_path / "ledger"
    shutil.copy(session.ledger, ledger)
    done = party("budget", ledger, "--max-epsilon", "10")
    assert "limit ε = 10 at δ = 0.001; left for one more session: ε = " in done.stdout
    (data_set,) = budget(ledger)
    assert data_set["limit"]["epsilon"] == 10.0
    assert data_set["limit"]["delta"] == DELTA
    assert data_set["covered_by"] is None
    assert "The limit was set or raised after the first release of" in done.stdout
    left = data_set["limit"]["room_epsilon"]
    assert f"session: ε = {left:.4g} at that δ" in done.stdout
    again = agreed(left, session="more")
    together = composed(multiplier(session.agreement), multiplier(again))
    assert together == pytest.approx(10.0, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--data-set", "autumn"), 2, "there is no data set 'autumn' in "),
        (("--max-delta", "0.1"), 2, "--max-delta needs --max-epsilon too"),
        (("--delta", "1"), 2, "--delta must be between 0 and 1"),
    ],
)
def test_bad_options_are_refused(
    session: Session, arguments: tuple[str, ...], code: int, text: str
) -> None:
    """The command ends with its exit code and says why."""
    refused = party("budget", session.ledger, *arguments)
    assert refused.returncode == code
    assert text in refused.stderr
    assert refused.stdout == ""


def test_a_missing_ledger_is_not_created(tmp_path: Path) -> None:
    """`party budget` of a missing ledger fails and creates no file."""
    refused = party("budget", tmp_path / "ada.ledger")
    assert refused.returncode == 6
    assert "there is no ledger" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_ledger_is_shown_as_such(tmp_path: Path) -> None:
    """After a ledger began anew, `party budget` says that it has nothing yet."""
    Database(tmp_path / "ada.ledger").close()
    shown = party("budget", tmp_path / "ada.ledger")
    assert (shown.returncode, shown.stdout) == (
        0,
        "this ledger has no session yet, and no limit is set\n",
    )


class Unplayed(Struct, frozen=True):
    """A session without a coordinator, and listeners on its ports that notice connections."""

    play: RunningSession
    listeners: tuple[socket.socket, ...]

    @property
    def ledger(self) -> Path:
        return self.play.folder / "party1" / "party1.ledger"

    def join(self, *arguments: str) -> list[str]:
        """The command with which the first party joins."""
        return [*party_command(self.play.folder, "party1", self.play.options), *arguments]

    def refused(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return party(*self.join(*arguments)[3:])

    def connected(self) -> bool:
        """Whether there was a connection since the last call."""
        for listener in self.listeners:
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                continue
            return True
        return False


@pytest.fixture
def unplayed(tmp_path: Path) -> Iterator[Unplayed]:
    """A session of ε = 1 in which no party takes part."""
    with ExitStack() as stack:
        playing = stack.enter_context(
            RunningSession(tmp_path / "s", real("--epsilon", "1", rounds=5))
        )
        port = int(playing.agreement.transport.coordinator.rpartition(":")[2])
        listeners = []
        for number in (port, port + 1):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", number)))
            listener.setblocking(False)
            listeners.append(listener)
        yield Unplayed(playing, tuple(listeners))


def test_joining_over_the_limit_ends_before_anything_is_sent(unplayed: Unplayed) -> None:
    """Every attempt ends with exit code 7 and without a connection."""
    first = unplayed.refused("--max-epsilon", "0.5")
    again = unplayed.refused()
    for attempt in (first, again):
        assert attempt.returncode == 7
        assert "the data set 'main' would have spent epsilon 1 at delta 0.001" in attempt.stderr
        assert "its limit is epsilon 0.5" in attempt.stderr
        assert "So far it has spent nothing" in attempt.stderr
    assert not unplayed.connected()
    (data_set,) = budget(unplayed.ledger)
    assert data_set["limit"]["epsilon"] == 0.5
    assert [row["releases"] for row in data_set["sessions"]] == [0]


def test_joining_with_a_raised_limit_connects(unplayed: Unplayed) -> None:
    """After --max-epsilon the party connects, and its ledger is in use."""
    with closing(Ledger(unplayed.ledger, unplayed.play.agreement, "party1")) as ledger:
        ledger.fix_limit(Limit(0.5, DELTA))
    waiting = subprocess.Popen(
        unplayed.join("--max-epsilon", "1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: waiting.poll() is not None or unplayed.connected(), "the party connects")
        assert waiting.poll() is None
        asked = party("budget", unplayed.ledger)
        assert asked.returncode == 6
        assert "is in use by another process" in asked.stderr
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(LIMIT) == 130
    finally:
        waiting.kill()
        waiting.wait()
    limit = accounts(unplayed.ledger)[1]["main"]
    assert (limit.epsilon, limit.delta, limit.fixed) == (1.0, DELTA, (1.0, DELTA))


def test_joining_with_noise_warns_if_the_data_were_released_without(unplayed: Unplayed) -> None:
    """Check and join name the session that showed the data, and what to do."""
    record(unplayed.ledger, exact_agreement("bare"))
    key = unplayed.ledger.with_suffix(".key")
    budget_marker.mark(key, unplayed.ledger, extent(unplayed.ledger))
    said = "the data set 'main' was released without noise in 'bare'"
    folder = unplayed.play.folder
    checked = party(
        *("check", "--agreement", folder / "agreement.toml", "--as", "party1", "--key", key),
        *("--data", folder / "party1" / "model.npz"),
    )
    assert f"!          {said}" in checked.stdout
    joined = unplayed.refused("--wait", "1")
    assert joined.returncode == Unavailable.exit_code
    assert said in joined.stdout + joined.stderr
    fresh = unplayed.refused("--wait", "1", "--data-set", "spring")
    assert said not in fresh.stdout + fresh.stderr


def test_a_delta_without_an_epsilon_is_refused(unplayed: Unplayed) -> None:
    """The command fails before it creates the ledger."""
    refused = unplayed.refused("--max-delta", "0.1")
    assert refused.returncode == 2
    assert "--max-delta needs --max-epsilon" in refused.stderr
    assert not unplayed.ledger.exists()


def test_a_second_ledger_is_refused_and_not_created(unplayed: Unplayed, tmp_path: Path) -> None:
    """The marker beside the key names the ledger that counts, even after it was moved."""
    assert unplayed.refused("--max-epsilon", "0.5").returncode == 7
    second, marker = tmp_path / "second.ledger", unplayed.ledger.with_suffix(".budget")
    assert stat.S_IMODE(marker.stat().st_mode) == 0o600
    for exists in (False, True):
        if exists:
            Ledger(second, unplayed.play.agreement, "party1").close()
        other = unplayed.refused("--ledger", str(second), "--max-epsilon", "1")
        assert other.returncode == 6
        assert f"that one was last at {str(unplayed.ledger)!r}. Two ledgers are" in other.stderr
        assert second.exists() == exists
    assert not unplayed.connected()
    moved = unplayed.ledger.replace(tmp_path / "moved.ledger")
    assert unplayed.refused().returncode == 6, "the ledger is gone, and a new one would be created"
    assert not unplayed.ledger.exists()
    assert unplayed.refused("--ledger", str(moved)).returncode == 7, (
        "the marked ledger with its limit"
    )
    assert repr(str(moved)) in unplayed.refused().stderr


def test_resuming_with_another_data_set_is_refused(unplayed: Unplayed) -> None:
    """The command fails without a connection, and the ledger stays as it was."""
    with closing(
        Ledger(unplayed.ledger, unplayed.play.agreement, "party1", data_set="spring")
    ) as ledger:
        ledger.record_release(release(unplayed.play.agreement, 0, member="party1"))
    other = unplayed.refused("--data-set", "autumn")
    assert other.returncode == 6
    assert "was started with the data set 'spring', not with 'autumn'" in other.stderr
    assert not unplayed.connected()
    assert [account.data_set for account in accounts(unplayed.ledger)[0]] == ["spring"]
