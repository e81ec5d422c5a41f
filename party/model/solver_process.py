"""The best response in a process of its own, so that a slow solver never delays a release.

The party sends prices, and later takes the answer, if there is one. The process runs only in
between: at all other times it is stopped, so that its work cannot shift the moment of a release.
Answers are un-noised: only the gate may read them. `child_process` starts the process; run as a
program, this module is the process.
"""

import pickle  # only between this program and itself, never for data from outside
import signal
import socket
import struct
import sys
import threading
from contextlib import suppress
from typing import IO

import numpy as np

from party.model.best_response import USUAL, Answer, MipLimits, Responder, responder
from party.model.child_process import Child, begin, fork
from party.model.company_model import CompanyModel
from protocol.agreement.model import Agreement
from protocol.errors import BadData, NoSolver
from protocol.numeric import Floats

_QUESTION = struct.Struct("=Q")
"""The header of a question: its number. The prices follow."""

_ANSWER = struct.Struct("=Q?d")
"""The header of an answer: the number of the question, whether there is a plan, its objective."""

_SILENT_ROUNDS = 3
"""A solver without an answer for this many rounds is replaced. The number doubles with each
replacement, so that a solver that is only slow can finish."""

_LOADING_ROUNDS = 100
"""A new process may take this many rounds to read its model."""

_SEARCH_FRACTION = 0.9
"""The fraction of its time that a solver may search for an integer plan."""


class Solver:
    """Answers prices as a `Subproblem` does, but in another process.

    A model that cannot be used is refused here, before the party connects. The next question
    replaces a process that has died or has been silent for some rounds, as soon as the system
    allows it. The questions of the old process get no answer.
    """

    def __init__(
        self,
        data: CompanyModel,
        agreement: Agreement,
        member: str,
        *,
        limits: MipLimits = USUAL,
        seconds: float,
        child: Child | None = None,
    ) -> None:
        """`seconds` is the time from each question to its answer. `child` comes from `early`."""
        self._model = data, agreement, member, limits, seconds
        self._answer_bytes = _ANSWER.size + 8 * len(agreement.resources)
        #: The number of the last question.
        self._asked = 0
        #: How many rounds without an answer are allowed.
        self._patience = _SILENT_ROUNDS
        #: Rounds without an answer of this process, and whether it has read its model.
        self._silent, self._ready = 0, False
        try:
            self._start(child or begin())
        except OSError as error:
            raise NoSolver(
                f"the solver's process cannot be started: {error.strerror}. Nothing was sent. "
                "Check this user's limits on memory, processes and open files"
            ) from None
        try:
            self._await_ready()
        except BaseException:
            self.close()
            raise

    def ask(self, prices: Floats) -> None:
        """Let the process run with these prices. Returns at once."""
        self._asked += 1
        question = _QUESTION.pack(self._asked) + prices.tobytes()
        with suppress(OSError):  # the process cannot start, has died or does not read: no answer
            dead = self._process.poll() is not None
            hung = self._silent >= (self._patience if self._ready else _LOADING_ROUNDS)
            if hung and not dead:
                self._patience *= 2
            if dead or hung:
                self.close()
                self._start(begin())
            if self._socket.send(question, socket.MSG_DONTWAIT) < len(question):
                self._process.kill()  # after half a question it would misread all others
        self._process.send_signal(signal.SIGCONT)

    def answer(self, prices: Floats) -> Answer | None:  # noqa: ARG002 - the last asked
        """Stop the process. The answer to the last question, or None if there is none yet."""
        self._process.send_signal(signal.SIGSTOP)
        with suppress(OSError):
            while data := self._socket.recv(1 << 20, socket.MSG_DONTWAIT):
                self._received += data
        self._silent += 1
        while len(self._received) >= self._answer_bytes:
            self._silent, self._ready = 0, True
            answer = bytes(self._received[: self._answer_bytes])
            del self._received[: self._answer_bytes]
            number, found, objective = _ANSWER.unpack_from(answer)
            if number == self._asked and found:
                demand = np.frombuffer(answer, dtype=np.float64, offset=_ANSWER.size)
                return Answer(objective, demand, np.empty(0))
        return None

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self._socket.close()

    def _start(self, child: Child) -> None:
        """Send the model to a process that has none yet, in a thread because it may be large."""
        self._process, self._socket = child
        self._received = bytearray()
        self._silent, self._ready = 0, False
        into = self._process.stdin
        try:
            threading.Thread(target=self._send_model, args=(into,), daemon=True).start()
        except RuntimeError:  # no more threads allowed: the process ends without its model
            if into is not None:
                into.close()

    def _send_model(self, into: IO[bytes] | None) -> None:
        with suppress(OSError):
            if into is not None:
                with into:
                    pickle.dump(self._model, into)

    def _await_ready(self) -> None:
        """Wait for the first answer, number 0, or for the text of an error."""
        reply = bytearray()
        while len(reply) < self._answer_bytes and (data := self._socket.recv(1 << 16)):
            reply += data
        if len(reply) < self._answer_bytes or reply[: _QUESTION.size] != _QUESTION.pack(0):
            while data := self._socket.recv(1 << 16):
                reply += data
            if not reply:
                raise NoSolver(
                    f"the solver's process ended with {self._process.wait()} before it had read "
                    "the model. Nothing was sent. Check this user's limits on memory and processes"
                )
            raise BadData(reply.decode())
        self._ready = True
        self._process.send_signal(signal.SIGSTOP)


def _pack(number: int, answer: Answer | None, resources: int) -> bytes:
    if answer is None:
        return _ANSWER.pack(number, False, 0.0) + bytes(8 * resources)
    return _ANSWER.pack(number, True, answer.objective) + answer.demand.tobytes()


def _answer(problem: Responder, prices: Floats) -> Answer | None:
    try:
        return problem.answer(prices)
    except Exception:  # no answer: the party goes on, and no error leaves this process
        return None


def early() -> Child | None:
    """A process for the first solver, if this one may fork. Call it before secrets are read."""
    return fork(_serve)


def _serve(party: socket.socket, model: IO[bytes]) -> None:
    """Answer the newest question, until the party is gone."""
    data, agreement, member, limits, seconds = pickle.load(model)  # noqa: S301 - from our own party
    try:
        problem = responder(data, agreement, member, limits)
    except BadData as error:
        party.sendall(str(error).encode())
        return
    problem.limit_search(_SEARCH_FRACTION * seconds)
    resources = len(agreement.resources)
    party.sendall(_pack(0, None, resources))
    length, received = _QUESTION.size + 8 * resources, bytearray()
    while chunk := party.recv(1 << 20):
        received += chunk
        end = len(received) // length * length
        if not end:
            continue
        question = bytes(received[end - length : end])
        del received[:end]
        (number,) = _QUESTION.unpack_from(question)
        prices = np.frombuffer(question, dtype=np.float64, offset=_QUESTION.size)
        party.sendall(_pack(number, _answer(problem, prices), resources))


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as party_socket:
        _serve(party_socket, sys.stdin.buffer)
