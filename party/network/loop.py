"""Runs one party over the network: link, executor, view, until the session ends.

The only loop of a party process. It decides nothing: the session decides, the gate
releases, the ledger remembers.
"""

import gc
import os
import time
from collections.abc import Callable

from party.driver import Driver
from party.keys import Identity
from party.ledger.session_ledger import Ledger
from party.model.best_response import Responder
from party.network.inbox import Heard, Inbox
from party.network.links import Link, MeshLink, RelayLink
from party.release.gate import Gate
from party.release.noise import Noise
from party.release.pacing import Pacer
from party.ui.console import View
from protocol.agreement.model import Agreement
from protocol.errors import BadMessage, Malformed, PeerError, SottoError, Unsealed
from protocol.outcome.outcome import Outcome, outcome
from protocol.runtime.admission import Admission
from protocol.runtime.wait_times import WaitTimes
from protocol.session.phases import Phase
from protocol.wire.messages import NONCE_BYTES, Seal, Signed


class PartyLoop:
    """A party process."""

    def __init__(
        self,
        agreement: Agreement,
        identity: Identity,
        *,
        subproblem: Responder,
        noise: Noise,
        ledger: Ledger,
        view: View,
        on_finish: Callable[[Outcome], None],
        listen: str | None = None,
    ) -> None:
        self._agreement = agreement
        self._ledger = ledger
        self._view = view
        self._said = b""
        self._malformed: set[str] = set()
        self._waits = WaitTimes(agreement, ledger.waits())
        self._checking = Admission(agreement, view.warn)
        self._inbox = Inbox(agreement)
        self._executor = Driver(
            agreement,
            identity.name,
            nonce=os.urandom(NONCE_BYTES),
            pack=identity.pack,
            gate=Gate(
                agreement,
                identity.name,
                subproblem=subproblem,
                noise=noise,
                ledger=ledger,
                pack=identity.pack,
            ),
            ledger=ledger,
            clock=None if agreement.pace_seconds is None else Pacer(agreement.pace_seconds),
            waits=self._waits,
            now=time.monotonic(),
            on_round=view.round,
            on_warning=view.warn,
            on_wait=view.note,
        )
        # Only now: a ledger that cannot be used is found before anybody is spoken to.
        self._link = _link(agreement, identity, ledger, listen, view)
        self._on_finish = on_finish

    def run(self) -> None:
        """Play until the session is over and nobody needs this party any more.

        Raises what the session fails with; the same call goes on in a later process.
        """
        executor, session = self._executor, self._executor.session
        gc.freeze()  # what is loaded by now stays: no need to look through it between rounds
        if executor.error is not None:
            self._view.warn(f"{executor.error}; showing the others why, for a few seconds")
        try:
            self._publish(executor.begin(time.monotonic()))
            # A party that has found a fault stays for a while to tell the others.
            while not executor.left and (executor.error is None or session.phase is Phase.HALTED):
                deadline = session.deadline
                # Taken off the sockets first, and read in turns: a member that floods this party
                # waits in a queue of its own.
                wait = 0.0 if self._inbox else deadline - time.monotonic()
                heard, now = self._link.receive(wait), time.monotonic()
                executor.free.listened(now, meant=wait)
                self._checking.looked(now, meant=wait)
                self._checking.rounds = session.state.round
                for each in heard:
                    if self._checking.admits(*each, now):
                        self._inbox.put(each)
                for each in self._inbox.turn():
                    self._hear(each)
                if time.monotonic() >= deadline:
                    self._publish(executor.tick(time.monotonic()))
                    self._look_around()
        finally:
            try:
                executor.rest()
                self._ledger.record_waits(self._waits.all)
            finally:
                self._link.close()
        if self._waits.sentence:
            self._view.note(self._waits.sentence)
        error = executor.error
        ended = executor.finished is not None or isinstance(error, Unsealed | PeerError)
        if ended and session.state.over:
            # Whoever has all rounds has the outcome, whatever others do about it. Only now that
            # they are gone: how long it takes to make something of it is not theirs to know.
            try:
                self._tell_outcome()
            except SottoError as unwritten:
                if not isinstance(error, PeerError):
                    raise unwritten from None
        if error is not None:
            raise error

    def _hear(self, heard: Heard) -> None:
        source, data = heard
        if data == self._said or self._executor.session.holds(data):
            return  # our own from the relay, or a release sent again: nothing to verify anew
        try:
            signed = self._checking.read(source, data, time.monotonic())
        except BadMessage as error:
            self._view.dropped(str(error))
            if isinstance(error, Malformed) and error.sender not in self._malformed:
                self._malformed.add(error.sender)
                self._view.warn(f"dropped a message {error}")
        else:
            self._publish(self._executor.receive(signed, time.monotonic()))

    def _look_around(self) -> None:
        troubles = self._link.troubles()
        if self._executor.finished is not None:
            return  # who has left by now was needed no more
        for sentence in troubles:
            self._view.warn(sentence)
        if self._executor.error is not None:
            return  # waits for nobody: it is there for others
        self._view.waiting(self._executor.session.phase, self._executor.session.missing)

    def _publish(self, outgoing: list[Signed]) -> None:
        while True:
            for signed in outgoing:
                self._said = signed.data
                self._link.publish(signed.data)
                if isinstance(signed.message, Seal):
                    self._link.report(signed.data)
            if outgoing:
                self._executor.afterwards()
                self._executor.free.busy(time.monotonic())
            # A round may have opened. Its answer is due later, and nothing may wait for it here.
            outgoing = self._executor.respond()
            if not outgoing:
                return

    def _tell_outcome(self) -> None:
        sealed = self._executor.finished is not None
        missing = () if sealed else self._executor.session.unsealed
        known = outcome(self._agreement, self._ledger.transcript(), unsealed=missing)
        self._on_finish(known)


def _link(
    agreement: Agreement, identity: Identity, ledger: Ledger, listen: str | None, view: View
) -> Link:
    if agreement.transport.topology == "mesh":
        return MeshLink(agreement, identity, ledger, listen, view.warn)
    return RelayLink(agreement, identity)
