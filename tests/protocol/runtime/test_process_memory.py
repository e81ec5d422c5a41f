"""Other processes of the same user cannot read the memory of a private process."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.ledgers import run_python

WATCHED = """
import ctypes, os, signal, sys
from protocol.runtime.process_memory import keep_private
from protocol.runtime import backlog_guard

system = ctypes.CDLL(None, use_errno=True)


def become_another_user():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    system.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: as for any process of this user


def run(task):
    child = os.fork()
    if not child:
        task()
        os._exit(0)
    return child


def victim():
    become_another_user()
    if sys.argv[1] == "private":
        keep_private()
    guarded = len(backlog_guard._descriptors()) > 3, backlog_guard._descriptor_count() >= 0
    print("guard", *guarded, flush=True)
    os.write(ready, b"x")
    signal.pause()


def spy():
    become_another_user()
    try:
        open(f"/proc/{watched}/mem", "rb").close()
        print("memory read", flush=True)
    except PermissionError:
        print("memory refused", flush=True)
    attached = system.ptrace(16, watched, 0, 0)  # PTRACE_ATTACH
    print("debugger", "refused" if attached else "attached", flush=True)


is_ready, ready = os.pipe()
watched = run(victim)
os.read(is_ready, 1)
os.waitpid(run(spy), 0)
os.kill(watched, 9)  # the debugger has left it stopped
os.waitpid(watched, 0)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can become another user"
)
@pytest.mark.parametrize("private", [True, False])
def test_no_process_of_the_same_user_reads_the_memory(private: bool) -> None:
    """A debugger and /proc/PID/mem are refused; the process still sees its own descriptors."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if not private and scope.exists() and int(scope.read_text()):
        pytest.skip("this machine refuses debuggers anyway")
    done = run_python(WATCHED, "private" if private else "open")
    expected = ["memory refused", "debugger refused"]
    if not private:  # otherwise this test could not fail
        expected = ["memory read", "debugger attached"]
    assert done.stdout.splitlines() == ["guard True True", *expected], done.stderr
