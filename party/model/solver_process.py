"""The subproblem in a process of its own, so that a deadline can be kept whatever it does.

The party says prices, and takes the answer at a time of its own choosing, if there is one. Only in
between does the other process run: at all other times it is stopped, so that nothing that it
does can move the moment at which the party speaks. What passes here is un-noised: only the gate
may read it. Run as a program this module is the other side.
"""

import os
import pickle  # between a program and itself: nothing from outside is ever unpickled
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np

from party.model.best_response import USUAL, Answer, MipLimits, Subproblem, subproblem
from party.model.company_model import CompanyModel
from protocol.agreement.model import Agreement
from protocol.errors import BadData, NoSolver
from protocol.numeric import Floats

_NUMBER = struct.Struct("=Q?d")
"""What an answer begins with: to which question, whether there is a plan, its objective."""

_QUESTION = struct.Struct("=Q")

_HERE = str(Path(__file__).parents[2])
"""Where the packages of this very program are, installed or not."""

_BEGIN = """
import os, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: before it has the model
if os.getppid() != int(sys.argv[2]):
    sys.exit()
import runpy
runpy.run_module("party.model.solver_process", run_name="__main__")
"""
"""How the other side begins: it ends with the thread that started it, even while it is stopped.
A stopped process cannot see for itself that nobody is left, and that the system ends stopped
orphans is not to be relied on: it does so neither where the stop was still on its way nor where
who adopts them belongs to the same session, as in many a container. Before anything else is
read, since from then on it may be stopped at any time."""

_SILENT_ROUNDS = 3
"""After this many rounds without a word a solver is taken to hang, and is replaced. Twice as many
after each replacement, so that a solver which is only slow comes to its answer."""

_LOADING_ROUNDS = 100
"""The rounds that a new process has for reading its model."""

_SEARCHING = 0.9
"""Whole numbers: what part of its time a solver may search, so that the answer is there in time."""


class Solver:
    """Answers prices as a `Subproblem` does, but beside the party that asks.

    A model that cannot be used is refused here, before anybody is spoken to. A process that
    has died, or says nothing for some rounds, is replaced with the next question, or when the
    system lets it; what it was asked has no answer.
    """

    def __init__(
        self,
        data: CompanyModel,
        agreement: Agreement,
        member: str,
        *,
        effort: MipLimits = USUAL,
        seconds: float,
    ) -> None:
        """`seconds` is how long it will be given from each question to its answer."""
        self._model = data, agreement, member, effort, seconds
        self._asked = 0
        self._answer_bytes = _NUMBER.size + 8 * len(agreement.resources)
        self._patience = _SILENT_ROUNDS
        self._silent, self._ready = 0, False
        self._process: subprocess.Popen[bytes]
        try:
            self._start()
        except OSError as error:
            raise NoSolver(
                f"the solver's process cannot be started: {error.strerror}. Nothing was sent. The "
                "system may lack memory, processes or open files for this user"
            ) from None
        try:
            self._await_ready()
        except BaseException:
            self.close()
            raise

    def ask(self, prices: Floats) -> None:
        """Let the other process run, with these prices. Returns at once."""
        self._asked += 1
        question = _QUESTION.pack(self._asked) + prices.tobytes()
        with suppress(OSError):  # no room for a process, it has just died, or it is full: no answer
            if self._process.poll() is not None:
                self.close()
                self._start()
            elif self._silent >= (self._patience if self._ready else _LOADING_ROUNDS):
                self._patience *= 2
                self.close()
                self._start()
            if self._talk.send(question, socket.MSG_DONTWAIT) < len(question):
                self._process.kill()  # what comes after half a question would be misread for ever
        self._process.send_signal(signal.SIGCONT)

    def answer(self, prices: Floats) -> Answer | None:  # noqa: ARG002 - those that were asked
        """What it has to say by now to the prices that were asked last; None if nothing yet."""
        self._process.send_signal(signal.SIGSTOP)
        with suppress(OSError):
            while data := self._talk.recv(1 << 20, socket.MSG_DONTWAIT):
                self._heard += data
        self._silent += 1
        while len(self._heard) >= self._answer_bytes:
            self._silent, self._ready = 0, True
            said = bytes(self._heard[: self._answer_bytes])
            del self._heard[: self._answer_bytes]
            number, found, objective = _NUMBER.unpack_from(said)
            if number == self._asked and found:
                demand = np.frombuffer(said, dtype=np.float64, offset=_NUMBER.size)
                return Answer(objective, demand, np.empty(0))
        return None

    def close(self) -> None:
        """End the other process."""
        self._process.kill()
        self._process.wait()
        self._talk.close()

    def _start(self) -> None:
        self._talk, theirs = socket.socketpair()
        self._heard = bytearray()
        self._silent, self._ready = 0, False
        with theirs, ExitStack() as undo:
            undo.callback(self._talk.close)  # unless the process starts
            # A group of its own: the keys that end the party do not reach it.
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                [sys.executable, "-P", "-c", _BEGIN, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                process_group=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [_HERE, *sys.path]))},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # whatever a solver has to say is secret
                stderr=subprocess.DEVNULL,
            )
            undo.pop_all()
        try:
            threading.Thread(target=self._hand_over, args=(self._process,), daemon=True).start()
        except RuntimeError:  # no room for a thread: it ends without its model
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _hand_over(self, process: "subprocess.Popen[bytes]") -> None:
        """Give the model to the other process: beside, for it may be large."""
        with suppress(OSError):
            if process.stdin is not None:
                with process.stdin as theirs:
                    pickle.dump(self._model, theirs)

    def _await_ready(self) -> None:
        heard = bytearray()
        while len(heard) < self._answer_bytes and (data := self._talk.recv(1 << 16)):
            heard += data
        if len(heard) < self._answer_bytes or heard[: _QUESTION.size] != _QUESTION.pack(0):
            while data := self._talk.recv(1 << 16):
                heard += data
            if not heard:
                raise NoSolver(
                    f"the solver's process ended with {self._process.wait()} before it had read "
                    "the model. Nothing was sent. The system may lack memory or processes"
                )
            raise BadData(heard.decode())
        self._ready = True
        self._process.send_signal(signal.SIGSTOP)


def _packed(number: int, answer: Answer | None, resources: int) -> bytes:
    if answer is None:
        return _NUMBER.pack(number, False, 0.0) + bytes(8 * resources)
    return _NUMBER.pack(number, True, answer.objective) + answer.demand.tobytes()


def _answered(problem: Subproblem, prices: Floats) -> Answer | None:
    try:
        return problem.answer(prices)
    except Exception:  # whatever it is: the party goes on, and nobody is told
        return None


def _serve(talk: socket.socket) -> None:
    """Answer the newest question, until the party is gone."""
    model = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own party
    data, agreement, member, effort, seconds = model
    try:
        problem = subproblem(data, agreement, member, effort)
    except BadData as error:
        talk.sendall(str(error).encode())
        return
    problem.hurry(_SEARCHING * seconds)
    resources = len(agreement.resources)
    talk.sendall(_packed(0, None, resources))
    length, waiting = _QUESTION.size + 8 * resources, bytearray()
    while heard := talk.recv(1 << 20):
        waiting += heard
        whole = len(waiting) // length * length
        if not whole:
            continue
        question = bytes(waiting[whole - length : whole])
        del waiting[:whole]
        (number,) = _QUESTION.unpack_from(question)
        prices = np.frombuffer(question, dtype=np.float64, offset=_QUESTION.size)
        talk.sendall(_packed(number, _answered(problem, prices), resources))


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as own:
        _serve(own)
