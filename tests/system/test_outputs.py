"""Lost outputs, early signals, and streams that cannot show all characters."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.lab.common.local_session import environment, party_command
from tests.support import ROOT
from tests.support.local_sessions import RunningSession, assert_undisturbed, options
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(600)


def command(session: RunningSession, name: str, log: str) -> str:
    return shlex.join(party_command(session.folder, name, session.options, log=log))


@pytest.mark.parametrize("log", ["json", "text"])
@pytest.mark.parametrize("where", [">/dev/full 2>/dev/full", ">&- 2>&-", "<&- >&-", "| head -c 1"])
def test_a_session_continues_without_its_outputs(tmp_path: Path, where: str, log: str) -> None:
    """A full disk, closed streams, or a reader that leaves do not change the result."""
    with RunningSession(tmp_path / "s", options("--no-demands", parties=2, rounds=20)) as session:
        session.start_coordinator()
        for name in session.names[1:]:
            session.start_party(name)
        ended = tmp_path / "ended"
        line = f"{{ {command(session, 'party1', log)}; echo $? >{ended}; }} {where}"
        session.launch("party1", ["sh", "-c", line])
        session.wait(LIMIT)
        until(ended.exists, "party1 ends")
        assert int(until(ended.read_text, "its code is written")) == 0
        assert "Traceback" not in session.stderr("party1")
        assert (session.folder / "party1" / "out" / "result.json").exists()
        if log == "json":
            expected = [session.result(name)["prices"] for name in session.names]
            assert expected[0] == expected[1]


def shell(line: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line],
        cwd=ROOT,
        env=environment() | more,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def ours(module: str, *arguments: Any) -> str:
    return shlex.join([sys.executable, "-m", module, *map(str, arguments)])


def test_a_check_fails_even_if_its_output_is_not_read(tmp_path: Path) -> None:
    """`party check` into a closed pipe still ends with the exit code of what it found."""
    with RunningSession(tmp_path / "s", options()) as session:
        folder = session.folder
        files = ["--agreement", folder / "agreement.toml", "--data", folder / "party1/model.npz"]
        checked = ours("party", "check", *files, "--as", "party1", "--key", tmp_path / "none")
        done = shell(f"{checked} | true; exit ${{PIPESTATUS[0]}}", PYTHONUNBUFFERED="1")
        assert (done.returncode, "Traceback" in done.stderr) == (5, False)


def test_a_lost_output_is_an_error_if_it_is_the_purpose(tmp_path: Path) -> None:
    """A plan on a full disk is an error; a reader that leaves early is not."""
    with RunningSession(tmp_path / "s", options()) as session:
        plan = ours("protocol", "plan", session.folder / "agreement.toml")
        full = shell(f"{plan} >/dev/full")
        assert full.returncode == 2
        assert "standard output cannot be written: No space left on device" in full.stderr
        left = shell(f"{plan} | true; exit ${{PIPESTATUS[0]}}")
        assert (left.returncode, left.stderr) == (0, "")
        closed = shell(f"{plan} >&-")
        assert (closed.returncode, closed.stderr) == (0, "")


def test_characters_that_a_stream_cannot_show_are_escaped(tmp_path: Path) -> None:
    """If ε or … cannot be shown, they are escaped, and the rest is printed."""
    chosen = options("--epsilon", "8", rounds=3, parties=2)
    chosen.rehearsal = False
    with RunningSession(tmp_path / "s", chosen) as session:
        agreement = session.folder / "agreement.toml"
        session.start()
        session.wait(LIMIT)
        ledger = session.folder / "party1" / "party1.ledger"
        for encoding in ("ascii", "latin-1", "utf-8"):
            plan = shell(ours("protocol", "plan", agreement), PYTHONIOENCODING=encoding)
            assert (plan.returncode, plan.stderr) == (0, "")
            budget = shell(ours("party", "budget", ledger), PYTHONIOENCODING=encoding, LC_ALL="C")
            assert (budget.returncode, budget.stderr) == (0, "")
            assert "demo-1" in budget.stdout


EARLY = """
import os, signal, sys

class Early:
    def find_spec(self, name, *_):
        if name == os.environ["EARLY"]:
            os.kill(os.getpid(), getattr(signal, os.environ["EARLY_SIGNAL"]))

sys.meta_path.insert(0, Early())
"""
"""Sends a signal to its own process when a module is first imported."""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    "module",
    [
        "protocol.agreement.parse",
        "party.model.company_model",
        "highspy",
        "nacl",
        "party.network.relay_link",
        "zmq",
        "sqlite3",
    ],
)
def test_a_signal_during_the_start_ends_the_command(
    tmp_path: Path, module: str, number: str
) -> None:
    """It ends with the documented code and no traceback, whichever module is loading."""
    (tmp_path / "sitecustomize.py").write_text(EARLY)
    with RunningSession(tmp_path / "s", options()) as session:
        path = os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])
        line = command(session, "party1", "text")
        done = shell(line, PYTHONPATH=path, EARLY=module, EARLY_SIGNAL=number)
        assert done.returncode == 130
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_demonstration_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Its processes end, its folder of keys is removed, and there is no traceback."""
    demo = subprocess.Popen(
        [sys.executable, "-m", "scripts.lab.demo", "--rounds", "100000", "--parties", "2",
         "--mode", "clipped"],
        cwd=ROOT,
        env=environment() | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    try:
        until(lambda: [*tmp_path.glob("sotto-*/party2.out.log")], "the parties start")
        until(lambda: len(children(demo.pid)) == 3, "all processes run")
        started = children(demo.pid)
        demo.send_signal(number)
        output, _ = demo.communicate(timeout=LIMIT)
    finally:
        demo.kill()
        demo.wait()
    assert demo.returncode == 130
    assert "Traceback" not in output
    assert not [*tmp_path.glob("sotto-*/")]
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--epsilon", "2000"], "error: privacy.epsilon is 2000"),
        (["--dir", str(ROOT)], "already exists"),
    ],
)
def test_an_impossible_demonstration_is_refused(arguments: list[str], text: str) -> None:
    """It prints the error that `coordinator new` would print."""
    done = shell(ours("scripts.lab.demo", *arguments))
    assert done.returncode in (2, 3)
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_result_that_cannot_be_written_ends_no_other_session(tmp_path: Path) -> None:
    """The same command writes it later."""
    with RunningSession(tmp_path / "s", options("--no-demands", rounds=12)) as session:
        in_the_way = session.folder / "party1" / "out" / "report.html"
        in_the_way.mkdir(parents=True)
        session.start()
        for name in session.names:
            assert session.processes[name].wait(LIMIT) == (2 if name == "party1" else 0)
        assert "the result cannot be written" in session.stderr("party1")
        in_the_way.rmdir()
        session.start_party("party1")
        assert session.processes["party1"].wait(LIMIT) == 0
        assert_undisturbed(session, "--no-demands")
