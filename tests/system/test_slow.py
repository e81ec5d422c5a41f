"""A member that delays the others, in a session of real processes."""

import argparse
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import pytest

from scripts.lab.common import local_session
from tests.support.local_sessions import RunningSession, options
from tests.support.wait import LIMIT

pytestmark = pytest.mark.timeout(600)

LONG_SECONDS = 3.0
"""A wait that is worth a note, in this session."""

_WATCHFUL = f"""
import runpy, sys
from protocol.runtime import wait_times

wait_times.LONG_SECONDS = {LONG_SECONDS}
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""A process that notes shorter waits than usual."""

_SLOW = f"""
import time
from party.ui import console

class Slow(console.JsonView):
    def round(self, state, releases):
        super().round(state, releases)
        if state.round == 3:
            time.sleep({LONG_SECONDS + 2.0})

console.JsonView = Slow
{_WATCHFUL}"""
"""A party that once pauses for longer than its peers tolerate without a note."""


def test_a_slow_member_is_named_by_its_peers_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log, report, result and coordinator name it; it names no other; public files do not."""
    join, serve = local_session.party_command, local_session.coordinator_command

    def running(program: str, command: Sequence[str]) -> list[str]:
        assert command[1] == "-m"
        return [command[0], "-c", program, *command[2:]]

    def chosen(folder: Path, party: str, options: argparse.Namespace) -> list[str]:
        program = _SLOW if party == "party2" else _WATCHFUL
        return running(program, join(folder, party, options))

    monkeypatch.setattr(local_session, "party_command", chosen)
    monkeypatch.setattr(
        local_session, "coordinator_command", lambda folder: running(_WATCHFUL, serve(folder))
    )
    with RunningSession(
        tmp_path / "s", options("--mode", "exact", "--step", "sqrt", rounds=6)
    ) as session:
        session.start()
        session.wait(LIMIT)
        for name in ("party1", "party3"):
            notes = [e["text"] for e in session.events[name] if e["event"] == "note"]
            assert re.fullmatch(r"waited \d+ s for 'party2' in round \d", notes[0])
            assert notes[-1].startswith("waited longest for 'party2': ")
            waiting = session.result(name)["waiting"]
            assert next(iter(waiting)) == "party2", "the one that was waited for longest is first"
            assert waiting["party2"]["longest_seconds"] >= LONG_SECONDS
            report = (session.folder / name / "out" / "report.html").read_text()
            assert "Your party waited longest for 'party2'" in unescape(report)
        own = session.result("party2")["waiting"]
        assert "party2" not in own
        assert not [e for e in session.events["party2"] if e["event"] == "note"]
        assert all(one["longest_seconds"] < LONG_SECONDS for one in own.values())
        public = [session.folder / n / "out" / "public.csv" for n in session.names]
        assert not any("wait" in path.read_text() for path in public)
        assert session.processes["coordinator"].wait(LIMIT) == 0
        log = session.stderr("coordinator")
        assert re.search(r"waited \d+ s for 'party2' in round \d", log)
        assert "this relay has waited longest for 'party2'" in log
