"""`party budget`, and sessions that `party join` refuses because of the budget."""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from party.ledger.accounts import accounts
from party.ledger.budget import Limit
from party.ledger.session_ledger import Ledger
from protocol.agreement.model import Agreement
from scripts.lab.common.local_session import party_command
from tests.support import ROOT
from tests.support.budgets import DELTA, agreed, composed, exact_agreement, multiplier, record
from tests.support.ledgers import release
from tests.support.local_sessions import Play, options, play
from tests.support.process_control import Brake, kill
from tests.support.wait import LIMIT, until


def party(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run the real command, on a terminal as wide as its tables."""
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
    """A real session in which a party was killed, and its budget at that time."""

    agreement: Agreement
    ledger: Path
    recorded: int
    budget: Any


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Two parties; one is killed during the session, and started again."""
    folder = tmp_path_factory.mktemp("budget") / "s"
    chosen = real("--epsilon", "8", rounds=150)
    with play(folder, chosen) as playing, pytest.MonkeyPatch.context() as patch:
        cast, ledger = playing.cast, folder / "party1" / "party1.ledger"
        brake = Brake(playing, patch, name="party2", furthest=9)
        cast.start()
        brake.reached()
        kill(playing, "party1")
        told = budget(ledger)
        with closing(sqlite3.connect(ledger)) as base:
            recorded = base.execute("SELECT count(*) FROM releases").fetchone()[0]
        cast.start_party("party1")
        brake.let_go()
        cast.wait(LIMIT)
        return Session(playing.agreement, ledger, recorded, told)


def test_a_killed_party_has_spent_its_recorded_releases(session: Session) -> None:
    """After kill -9 `party budget` counts exactly the recorded releases."""
    (data_set,) = session.budget
    (row,) = data_set["sessions"]
    assert 9 <= row["releases"] == session.recorded < 150
    mu = multiplier(session.agreement) * math.sqrt(session.recorded / 150)
    assert data_set["spent_epsilon"] == row["spent_epsilon"]
    assert data_set["spent_epsilon"] == pytest.approx(composed(mu), rel=0.01)


def test_a_resumed_party_has_spent_the_agreed_budget(session: Session) -> None:
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
                "rounds": 150,
                "releases": 150,
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
        "statement": "Its limit was set to what the first session may spend before anything was "
        "released: all that is ever released of the data set 'main' is covered by epsilon 8 at "
        "delta 0.001, however later sessions are chosen.",
    }


def test_the_table_shows_sessions_and_limit(session: Session) -> None:
    """The table has session, agreed budget, releases and ε; the limit follows."""
    told = party("budget", session.ledger)
    assert (told.returncode, told.stderr) == (0, "")
    cells = [re.split(r"\s*[│┃]\s*", line.strip("│┃ ")) for line in told.stdout.splitlines()]
    assert told.stdout.startswith("data set main: what its sessions have spent")
    assert [session.agreement.session, "ε = 8, δ = 0.001", "150 of 150", "8"] in cells
    assert ["all together", "", "", "8"] in cells
    assert "limit ε = 8 at δ = 0.001; room for one more session of ε = " in told.stdout
    assert "is covered by epsilon 8 at delta 0.001" in " ".join(told.stdout.split())


def test_the_table_shows_any_name_of_a_data_set(tmp_path: Path) -> None:
    """Markup in a name is shown literally, and releases without noise are named."""
    record(tmp_path / "ledger", exact_agreement(), data_set="[/b] spring [1]")
    told = party("budget", tmp_path / "ledger")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("data set [/b] spring [1]: what its sessions have spent")
    assert re.search(r"bare +│ +no privacy │ +3 of 3 │ +no guarantee", told.stdout)
    assert "no limit is set\n" in told.stdout
    assert "Something of the data set '[/b] spring [1]' was released without noise" in told.stdout


def test_no_limit_is_set_after_a_release_without_noise(tmp_path: Path) -> None:
    """Such a limit would refuse every session."""
    ledger = tmp_path / "ledger"
    record(ledger, exact_agreement())
    refused = party("budget", ledger, "--max-epsilon", "20")
    assert (refused.returncode, refused.stdout) == (7, "")
    assert "the data set 'main' can have no limit" in refused.stderr
    assert accounts(ledger)[1] == {}
    assert party("budget", ledger, "--max-epsilon", "20", "--data-set", "spring").returncode == 0


def test_delta_chooses_the_epsilon_shown(session: Session) -> None:
    """`--delta` shows ε at this δ."""
    (data_set,) = budget(session.ledger, "--delta", "1e-6")
    expected = composed(multiplier(session.agreement), delta=1e-6)
    assert data_set["delta"] == 1e-6
    assert data_set["spent_epsilon"] == pytest.approx(expected, rel=0.01)


def test_party_budget_sets_a_limit(session: Session, tmp_path: Path) -> None:
    """`party budget` shows a new limit with the room it leaves, now and later.

    This limit is set after releases and is above the fixed one: the output says what still holds.
    """
    ledger = tmp_path / "ledger"
    shutil.copy(session.ledger, ledger)
    told = party("budget", ledger, "--max-epsilon", "10")
    assert "limit ε = 10 at δ = 0.001; room for one more session of ε = " in told.stdout
    (data_set,) = budget(ledger)
    assert data_set["limit"]["epsilon"] == 10.0
    assert data_set["limit"]["delta"] == DELTA
    assert data_set["covered_by"] is None
    assert "The limit was set or raised after, not fixed before the first" in told.stdout
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
def test_wrong_options_are_refused(
    session: Session, arguments: tuple[str, ...], code: int, text: str
) -> None:
    """A wrong option ends with its exit code and a reason."""
    refused = party("budget", session.ledger, *arguments)
    assert refused.returncode == code
    assert text in refused.stderr
    assert refused.stdout == ""


def test_a_missing_ledger_is_not_made(tmp_path: Path) -> None:
    """`party budget` refuses a file that does not exist."""
    refused = party("budget", tmp_path / "ada.ledger")
    assert refused.returncode == 6
    assert "there is no ledger" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class CountedPorts:
    """A session without members, and coordinator ports that only count connections."""

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
def ports(tmp_path: Path) -> Iterator[CountedPorts]:
    """A session of ε = 1 with counted connections."""
    with ExitStack() as stack:
        playing = stack.enter_context(play(tmp_path / "s", real("--epsilon", "1", rounds=5)))
        port = int(playing.agreement.transport.coordinator.rpartition(":")[2])
        listeners = []
        for number in (port, port + 1):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", number)))
            listener.setblocking(False)
            listeners.append(listener)
        yield CountedPorts(playing, tuple(listeners))


def test_a_session_past_the_limit_is_refused_before_anything_is_sent(ports: CountedPorts) -> None:
    """It ends with exit code 7, also when it is tried again, and opens no connection."""
    first = ports.refused("--max-epsilon", "0.5")
    again = ports.refused()
    for attempt in (first, again):
        assert attempt.returncode == 7
        assert "the data set 'main' would have spent epsilon 1 at delta 0.001" in attempt.stderr
        assert "its limit is epsilon 0.5" in attempt.stderr
        assert "so far it has spent nothing" in attempt.stderr
    assert not ports.knocked()
    (data_set,) = budget(ports.ledger)
    assert data_set["limit"]["epsilon"] == 0.5
    assert [row["releases"] for row in data_set["sessions"]] == [0]


def test_a_raised_limit_lets_the_party_connect(ports: CountedPorts) -> None:
    """With the raised limit the party connects, and its ledger is in use."""
    with closing(Ledger(ports.ledger, ports.play.agreement, "party1")) as ledger:
        ledger.fix_limit(Limit(0.5, DELTA))
    waiting = subprocess.Popen(
        ports.join("--max-epsilon", "1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: waiting.poll() is not None or ports.knocked(), "somebody comes")
        assert waiting.poll() is None
        asked = party("budget", ports.ledger)
        assert asked.returncode == 6
        assert "is in use by another process" in asked.stderr
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(LIMIT) == 130
    finally:
        waiting.kill()
        waiting.wait()
    limit = accounts(ports.ledger)[1]["main"]
    assert (limit.epsilon, limit.delta, limit.fixed) == (1.0, DELTA, (1.0, DELTA))


def test_max_delta_without_max_epsilon_is_refused(ports: CountedPorts) -> None:
    """It is refused before the ledger is made."""
    refused = ports.refused("--max-delta", "0.1")
    assert refused.returncode == 2
    assert "--max-delta needs --max-epsilon" in refused.stderr
    assert not ports.ledger.exists()


def test_a_second_ledger_is_refused_before_it_is_made(ports: CountedPorts, tmp_path: Path) -> None:
    """The key remembers which ledger counts, even if that is moved."""
    assert ports.refused("--max-epsilon", "0.5").returncode == 7
    second, mark = tmp_path / "second.ledger", ports.ledger.with_suffix(".budget")
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    for made in (False, True):
        if made:
            Ledger(second, ports.play.agreement, "party1").close()
        other = ports.refused("--ledger", str(second), "--max-epsilon", "1")
        assert other.returncode == 6
        assert (
            f"that was last at {str(ports.ledger)!r}. Two ledgers are two budgets" in other.stderr
        )
        assert second.exists() == made
    assert not ports.knocked()
    moved = ports.ledger.replace(tmp_path / "moved.ledger")
    assert ports.refused().returncode == 6, "the first one is gone, and would be made anew"
    assert not ports.ledger.exists()
    assert ports.refused("--ledger", str(moved)).returncode == 7, "the same one, with its limit"
    assert repr(str(moved)) in ports.refused().stderr


def test_a_session_cannot_change_its_data_set(ports: CountedPorts) -> None:
    """Resuming with another data set is refused before anything is sent."""
    with closing(Ledger(ports.ledger, ports.play.agreement, "party1", data_set="spring")) as ledger:
        ledger.record_release(release(ports.play.agreement, 0, member="party1"))
    other = ports.refused("--data-set", "autumn")
    assert other.returncode == 6
    assert "was begun with the data set 'spring', not with 'autumn'" in other.stderr
    assert not ports.knocked()
    assert [account.data_set for account in accounts(ports.ledger)[0]] == ["spring"]
