"""A disaster drill with real processes: a party loses its disk, and restores what it has.

Only the newest copy finishes the session. Every other one is refused before anything is released.
"""

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from party.ledger.accounts import extent
from party.ledger.budget_marker import marker_path, read
from party.ledger.session_ledger import Ledger
from protocol.errors import BadLedger
from scripts.lab.common.local_session import environment, party_command
from tests.support.local_sessions import RunningSession, options
from tests.support.process_control import Brake, kill, rounds_closed
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(600)

NAME = "party2"


def party(*arguments: Any) -> tuple[int, str]:
    """The exit code and the output of a command of the party."""
    done = subprocess.run(
        [sys.executable, "-m", "party", *map(str, arguments)],
        env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


class Drill:
    """One party of a running session, and its files."""

    def __init__(self, session: RunningSession) -> None:
        self.session = session
        self.home = session.folder / NAME
        self.key, self.ledger = self.home / f"{NAME}.key", self.home / f"{NAME}.ledger"

    def lose_ledger(self) -> None:
        for path in self.home.glob(f"{NAME}.ledger*"):
            path.unlink()

    def copy_by_hand(self, folder: Path, *, log: bool) -> Path:
        """What a plain copy of the files gives, with or without the log."""
        folder.mkdir()
        for path in self.home.glob(f"{NAME}.*"):
            if log or not path.name.endswith("-wal"):
                shutil.copy(path, folder)
        return folder

    def restore(self, source: Path) -> tuple[int, str]:
        return party("restore", "--key", self.key, "--from", source)

    def join_is_refused(self) -> str:
        """Resume the session: it ends with 6, and the ledger gets no release. Returns why."""
        before = extent(self.ledger).releases if self.ledger.exists() else None
        self.session.start_party(NAME)
        assert self.session.processes[NAME].wait(LIMIT) == BadLedger.exit_code
        assert before == (extent(self.ledger).releases if self.ledger.exists() else None)
        return self.session.stderr(NAME)


def test_only_the_newest_copy_finishes_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old copy, a ledger without its log, and a key alone are refused; the newest goes on."""
    chosen = options("--mode", "exact", rounds=12)
    chosen.rehearsal = False
    with RunningSession(tmp_path / "s", chosen) as session:
        drill = Drill(session)
        brake = Brake(session, monkeypatch, name="party1", furthest=3)
        session.start()
        brake.reached()
        session.processes[NAME].terminate()
        assert session.processes[NAME].wait(LIMIT) == 130
        old = tmp_path / "old"
        code, output = party("backup", "--key", drill.key, "--out", old)
        assert (code, "the next release makes this copy old" in output) == (0, True)
        saved = extent(old / f"{NAME}.ledger").releases
        assert 3 <= saved <= 6

        session.start_party(NAME)
        brake.move(8)
        brake.reached()
        until(lambda: rounds_closed(session, NAME) >= 8, f"{NAME} closes round 8")
        kill(session, NAME)
        newest = drill.copy_by_hand(tmp_path / "newest", log=True)
        without_log = drill.copy_by_hand(tmp_path / "without-log", log=False)
        assert (newest / f"{NAME}.ledger-wal").stat().st_size

        drill.lose_ledger()
        assert "and a new one would not be the one" in drill.join_is_refused()
        assert not drill.ledger.exists(), "a key without a ledger began a new budget"
        brake.let_go()
        # The killed process could not note how far it went. The other members know it.
        for copy in (old, without_log):
            assert drill.restore(copy)[0] == 0
            assert "it is an old copy" in drill.join_is_refused()
            drill.lose_ledger()
        assert drill.restore(newest)[0] == 0
        session.start_party(NAME)
        session.wait(LIMIT)
        transcripts = {
            (session.folder / name / "out" / "session.transcript").read_bytes()
            for name in session.names
        }
        assert len(transcripts) == 1

        # After the end no member needs to be asked: the marker says how far the ledger went.
        marked = read(drill.key)
        assert marked is not None
        assert marked.extent == extent(drill.ledger)
        for copy in (old, without_log, newest):
            code, output = drill.restore(copy)
            assert (code, "is an old copy" in output) == (6, True)
        shutil.copy(old / f"{NAME}.ledger", drill.ledger)
        session.stop()
        assert f"is an old copy: it holds {saved} releases" in drill.join_is_refused()


def test_a_key_restored_alone_begins_no_budget(tmp_path: Path) -> None:
    """Without its marker the key joins no session and makes no ledger, until loss is accepted."""
    chosen = options("--mode", "exact", parties=2)
    chosen.rehearsal = False
    with RunningSession(tmp_path / "s", chosen) as session:
        drill = Drill(session)
        marker_path(drill.key).unlink()
        for _ in range(2):
            code, output = _join(session)
            assert (code, "is missing beside this key" in output) == (6, True)
            assert not drill.ledger.exists()
        assert party("restore", "--key", drill.key)[0] == 2
        code, output = party("restore", "--key", drill.key, "--accept-loss")
        assert (code, "are counted nowhere" in output) == (0, True)
        with closing(Ledger(drill.ledger, session.agreement, NAME)) as ledger:
            assert ledger.extent.releases == 0


def _join(session: RunningSession) -> tuple[int, str]:
    command = party_command(session.folder, NAME, session.options, log="text")
    return party(*command[3:])
