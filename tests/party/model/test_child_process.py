"""The solver's process begins as a fork of a party that holds nothing private yet."""

import signal
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.ledgers import run_python
from tests.support.wait import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks only on Linux")

AGREED = """
import os
os.environ["OMP_NUM_THREADS"] = "1"  # as the command sets it
import signal, socket, sys, threading, time
from contextlib import closing
import numpy as np
from party.model import solver_process
from party.model.solver_process import Solver, early
from tests.support.builders import make_agreement
from scripts.lab.common.instances import draw

INSTANCE = draw(4, parties=3, resources=3, demands=False)
RESOURCES = [{"name": f"r{j}", "capacity": c} for j, c in enumerate(INSTANCE.capacity.tolist())]
AGREEMENT = make_agreement(members=3, resource=RESOURCES, pace_seconds=0.05)

def solver(child):
    return closing(Solver(INSTANCE.data[0], AGREEMENT, "ada", seconds=1.0, child=child))

def answer(beside):
    while True:
        beside.ask(np.ones(3))
        time.sleep(0.02)
        if (found := beside.answer(np.ones(3))) is not None:
            return found.demand.tolist()
"""


def printed(script: str, *, code: int = 0) -> str:
    """What a new interpreter prints; it has one thread, as `party join` has at its start."""
    done = run_python(AGREED + textwrap.dedent(script))
    assert done.returncode == code, done.stderr
    return done.stdout


def test_a_fork_answers_as_a_new_interpreter_does() -> None:
    """It reads the same model and solves the same program, and is ended with its solver."""
    out = printed(
        """
        child = early()
        with solver(child) as forked:
            assert forked._process is child.process
            first = answer(forked)
        assert child.process.poll() == -signal.SIGKILL
        with solver(None) as new:
            assert answer(new) == first
        print("equal")
        """
    )
    assert out == "equal\n"


def test_a_dead_fork_is_replaced_by_a_new_interpreter() -> None:
    """The party holds secrets by then, so it does not fork again."""
    out = printed(
        """
        with solver(early()) as forked:
            first, before = answer(forked), forked._process
            before.kill()
            before.wait()
            assert answer(forked) == first
            print(type(before).__name__, type(forked._process).__name__)
        """
    )
    assert out == "Forked Popen\n"


def test_a_fork_has_no_file_of_its_party() -> None:
    """It has its end of the socket and three null files; nothing that it prints is seen."""
    out = printed(
        """
        secret = open("/proc/self/status")
        with solver(early()) as forked:
            answer(forked)
            files = f"/proc/{forked._process.pid}/fd"
            targets = sorted(os.readlink(f"{files}/{name}") for name in os.listdir(files))
        print(*(target.partition(":")[0] for target in targets))
        """
    )
    assert out == "/dev/null /dev/null /dev/null pipe socket\n"


def test_a_fork_does_not_answer_signals_for_its_party() -> None:
    """A signal ends it. Its party's handlers are not run there, and Ctrl-C does not reach it."""
    out = printed(
        """
        signal.signal(signal.SIGTERM, lambda *_: print("handled", flush=True))
        with solver(early()) as forked:
            answer(forked)
            assert os.getpgid(forked._process.pid) != os.getpgid(0)
            os.kill(forked._process.pid, signal.SIGTERM)
            os.kill(forked._process.pid, signal.SIGCONT)
            print(forked._process.wait())
        """
    )
    assert out == f"{-signal.SIGTERM}\n"


def test_what_its_party_had_not_written_yet_is_written_once() -> None:
    """Text in a buffer is copied by a fork, and must not be printed by both."""
    out = printed(
        """
        sys.stdout.write("once")
        with solver(early()) as forked:
            answer(forked)
        """
    )
    assert out == "once"


def test_no_fork_beside_other_threads() -> None:
    """A lock that another thread holds would never be released in a fork."""
    out = printed(
        """
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
        print(early())
        """
    )
    assert out == "None\n"


@pytest.mark.parametrize("lacking", ["os.fork", "os.pipe", "socket.socketpair", "os.listdir"])
def test_a_system_without_room_for_a_fork_gets_a_new_interpreter(lacking: str) -> None:
    """Then that start says what is missing. No file stays open."""
    out = printed(
        f"""
        def no_room(*_):
            raise BlockingIOError(11, "no room")

        files = len(os.listdir("/proc/self/fd"))
        there, {lacking} = {lacking}, no_room
        child, {lacking} = early(), there
        print(child, len(os.listdir("/proc/self/fd")) - files)
        """
    )
    assert out == "None 0\n"


def test_a_fork_ends_where_the_system_keeps_no_exit_codes() -> None:
    """A program that ignores SIGCHLD passes that on to the party that it starts."""
    out = printed(
        """
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        with solver(early()) as forked:
            first, before = answer(forked), forked._process
            os.kill(before.pid, signal.SIGKILL)
            assert answer(forked) == first
        with solver(early()) as forked:
            assert answer(forked) == first
        print("ended")
        """
    )
    assert out == "ended\n"


@pytest.mark.parametrize("moment", ["before it has its model", "after"])
def test_no_fork_outlives_its_party(moment: str) -> None:
    """A killed party leaves no process that has its model."""
    script = """
        child = early()
        if {after}:
            Solver(INSTANCE.data[0], AGREEMENT, "ada", seconds=1.0, child=child)
        print(child.process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    out = printed(script.format(after=moment == "after"), code=-signal.SIGKILL)
    until(lambda: state(int(out)) in ("", "Z"), "the fork is gone, too")


def state(process: int) -> str:
    """The state of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
