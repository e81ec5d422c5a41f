"""How the solver's process begins: as a fork of this one, or as a new interpreter.

A fork shares all that is loaded, so it is there at once. A new interpreter takes as long to start
as a party. Either way the process ends with its party, has a process group of its own, inherits no
open file, and others cannot read its memory. Never here: what the process computes.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias

_SOURCE = str(Path(__file__).parents[2])
"""The folder with the packages of this program, installed or not."""

_SET_PDEATHSIG, _SET_DUMPABLE = 1, 4  # of prctl(2)

_START = f"""
import os, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl({_SET_PDEATHSIG}, {signal.SIGKILL.value})
    ctypes.CDLL(None).prctl({_SET_DUMPABLE}, 0, 0, 0, 0)  # before it has the model
if os.getppid() != int(sys.argv[2]):
    sys.exit()
import runpy
runpy.run_module("party.model.solver_process", run_name="__main__")
"""
"""How a new interpreter begins: the system kills it when the party's thread ends.

A stopped process cannot notice that its party is gone. The system does not always end stopped
orphans: not if the stop comes too late, and not in containers where the new parent has the same
session. This runs before anything is read, because the process may be stopped from then on."""

Serve: TypeAlias = Callable[[socket.socket, IO[bytes]], None]
"""The work of the process, from its end of the socket and the file with its model."""


class Forked:
    """A forked process. It has what the solver needs of `subprocess.Popen`."""

    def __init__(self, pid: int, stdin: IO[bytes]) -> None:
        self.pid, self.stdin = pid, stdin
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or None while it is there."""
        return self._awaited(os.WNOHANG)

    def wait(self) -> int:
        """Wait for its end."""
        return self._awaited(0) or 0

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _awaited(self, options: int) -> int | None:
        if self._exit_code is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # SIGCHLD is ignored, so the system kept no exit code
                pid, status = self.pid, 0
            self._exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self._exit_code


class Child(NamedTuple):
    """The solver's process, and the party's end of the socket to it."""

    process: "subprocess.Popen[bytes] | Forked"
    socket: socket.socket


def begin() -> Child:
    """Start a new interpreter. Raises OSError if the system refuses."""
    ours, theirs = socket.socketpair()
    with theirs, ExitStack() as undo:
        undo.callback(ours.close)  # unless the process starts
        # In its own group, so that Ctrl-C reaches only the party.
        process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-P", "-c", _START, str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            process_group=0,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",  # threads of numpy cost more to start than they gain
                "PYTHONPATH": os.pathsep.join(filter(None, [_SOURCE, *sys.path])),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # a solver's output is secret
            stderr=subprocess.DEVNULL,
        )
        undo.pop_all()
    return Child(process, ours)


def fork(serve: Serve) -> Child | None:
    """Fork this process; None if it cannot be done here.

    Call it before this process reads a key or a model: the fork has a copy of all its memory. It is
    not done while other threads run, because the fork could wait for a lock that one of them holds.
    """
    with suppress(OSError):  # a new interpreter will say what the system refuses
        if sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1:
            return _forked(serve)
    return None


def _forked(serve: Serve) -> Child:
    party = os.getpid()
    with ExitStack() as undo:
        ours, theirs = socket.socketpair()
        undo.callback(ours.close)
        undo.callback(theirs.close)
        out, into = os.pipe()
        reading, writing = os.fdopen(out, "rb"), os.fdopen(into, "wb")
        undo.callback(reading.close)
        undo.callback(writing.close)
        pid = os.fork()
        if not pid:
            _serve_until_the_end(serve, theirs, reading, party)
        undo.pop_all()
    theirs.close()
    reading.close()
    return Child(Forked(pid, writing), ours)


def _serve_until_the_end(
    serve: Serve, party_socket: socket.socket, model: IO[bytes], party: int
) -> None:
    """Runs in the fork, and never returns: what its parent has begun must not end here too."""
    try:
        os.setpgid(0, 0)
        libc = ctypes.CDLL(None)
        libc.prctl(_SET_PDEATHSIG, signal.SIGKILL.value)
        libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
        if os.getppid() == party:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            _keep_files(party_socket.fileno(), model.fileno())
            serve(party_socket, model)
    finally:
        os._exit(0)


def _keep_files(*kept: int) -> None:
    """Close all other files. What is printed goes nowhere: a solver's output is secret."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            with suppress(OSError):  # the file of this list itself is closed by now
                os.close(int(name))
