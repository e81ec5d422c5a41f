"""The event loop of a party process: link, driver and view, until the session ends.

It decides nothing: the session decides, the gate releases, the ledger remembers.
"""

import gc
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from party.driver import Driver
from party.keys import Identity
from party.ledger.session_ledger import Ledger
from party.network.inbox import Inbox, Incoming
from party.network.link import Link
from party.network.relay_link import RelayLink
from party.release.gate import Gate
from party.release.pacing import Pacer
from party.ui.console import View
from protocol.agreement.model import Agreement
from protocol.agreement.schema import WAIT_SECONDS
from protocol.errors import BadMessage, Malformed, PeerError, SottoError, Unsealed
from protocol.runtime.admission import Admission
from protocol.runtime.wait_times import WaitTimes
from protocol.session.phases import Phase
from protocol.wire.messages import NONCE_BYTES, Seal, Signed

if TYPE_CHECKING:  # computed when a session is over
    from protocol.outcome.outcome import Outcome

_MEET_SECONDS = 0.1
"""How long the first Hello waits at most for connections to all others."""

_LOOK_SECONDS = 0.005
"""How often the party looks for them meanwhile."""


class PartyLoop:
    """Runs one party over the network."""

    def __init__(
        self,
        agreement: Agreement,
        identity: Identity,
        *,
        gate: Gate,
        ledger: Ledger,
        view: View,
        on_outcome: Callable[["Outcome"], None],
        listen: str | None = None,
        wait: float = WAIT_SECONDS,
    ) -> None:
        self._agreement = agreement
        self._ledger = ledger
        self._view = view
        self._on_outcome = on_outcome
        #: The message that was sent last: a relay sends it back.
        self._last_sent = b""
        #: Senders of malformed messages that the operator was warned about.
        self._malformed: set[str] = set()
        self._waits = WaitTimes(agreement, ledger.waits())
        self._admission = Admission(agreement, view.warn)
        self._inbox = Inbox(agreement)
        self._driver = Driver(
            agreement,
            identity.name,
            nonce=os.urandom(NONCE_BYTES),
            pack=identity.pack,
            gate=gate,
            ledger=ledger,
            pacer=None if agreement.pace_seconds is None else Pacer(agreement.pace_seconds),
            waits=self._waits,
            now=time.monotonic(),
            wait=wait,
            on_round=view.round,
            on_warning=view.warn,
            on_wait=view.note,
        )
        # Last: a ledger that cannot be used is found before anything is sent.
        self._link = _link(agreement, identity, ledger, listen, view)

    def run(self) -> None:
        """Run until the session is over and no peer needs this party any more.

        Raises the error that ends the session. The same call in a later process resumes it.
        """
        driver, session = self._driver, self._driver.session
        gc.freeze()  # what is loaded by now stays: no need to examine it between rounds
        if driver.error is not None:
            self._view.warn(f"{driver.error}; showing the others the evidence for a few seconds")
        if session.state.round:
            self._view.resumed(session.state)
        try:
            self._meet()
            self._publish(driver.begin(time.monotonic()))
            # A party that has found a fault stays for a while to show the others.
            while not driver.left and (driver.error is None or session.phase is Phase.HALTED):
                self._turn()
        finally:
            try:
                driver.shutdown()
                self._ledger.record_waits(self._waits.all)
            finally:
                self._link.close()
        if self._waits.sentence:
            self._view.note(self._waits.sentence)
        self._conclude()

    def _meet(self) -> None:
        """Wait a moment for connections. A Hello or a reply that is sent before is lost."""
        until = time.monotonic() + _MEET_SECONDS
        while time.monotonic() < until and not self._link.complete:
            self._receive(_LOOK_SECONDS)

    def _turn(self) -> None:
        """Wait for messages until the session's next deadline, and handle one of each sender."""
        driver, deadline = self._driver, self._driver.session.deadline
        # Sockets are emptied first: a member that floods this party fills its own share only.
        self._receive(0.0 if self._inbox else deadline - time.monotonic())
        for incoming in self._inbox.take_turn():
            self._handle(incoming)
        if time.monotonic() >= deadline:
            self._publish(driver.tick(time.monotonic()))
            self._show_missing()

    def _receive(self, wait: float) -> None:
        """Put what arrives within this time into the inbox, up to the limit of each member."""
        arrived, now = self._link.receive(wait), time.monotonic()
        self._driver.free.listened(now, meant=wait)
        self._admission.looked(now, meant=wait)
        self._admission.rounds = self._driver.session.state.round
        for incoming in arrived:
            if self._admission.admits(*incoming, now):
                self._inbox.put(incoming)

    def _handle(self, incoming: Incoming) -> None:
        source, data = incoming
        if data == self._last_sent or self._driver.session.holds(data):
            return  # our own from the relay, or a repeated release: no need to verify it again
        try:
            signed = self._admission.read(source, data, time.monotonic())
        except BadMessage as error:
            self._view.dropped(str(error))
            if isinstance(error, Malformed) and error.sender not in self._malformed:
                self._malformed.add(error.sender)
                self._view.warn(f"dropped a message {error}")
        else:
            self._publish(self._driver.receive(signed, time.monotonic()))

    def _publish(self, outgoing: list[Signed]) -> None:
        """Send messages, then the release of a round that has opened, when it is due."""
        while True:
            for signed in outgoing:
                self._last_sent = signed.data
                self._link.publish(signed.data)
                if isinstance(signed.message, Seal):
                    self._link.report(signed.data)
            if outgoing:
                self._driver.run_idle_work()
                self._driver.published(outgoing, time.monotonic())
            outgoing = self._driver.respond()
            if not outgoing:
                return

    def _show_missing(self) -> None:
        warnings = self._link.warnings()
        if self._driver.finished is not None:
            return  # members that have left by now are no longer needed
        for warning in warnings:
            self._view.warn(warning)
        if self._driver.error is None:
            session = self._driver.session
            self._view.unreached(self._link.unreached)
            self._view.waiting(session.phase, session.missing, self._link.away())

    def _conclude(self) -> None:
        """Hand over the outcome of a session with all rounds closed, and raise what went wrong.

        Called after the link is closed: how long it takes to use the outcome is private.
        """
        driver, error = self._driver, self._driver.error
        sealed = driver.finished is not None
        if driver.session.state.over and (sealed or isinstance(error, Unsealed | PeerError)):
            unsealed = () if sealed else driver.session.unsealed
            from protocol.outcome.outcome import outcome_of

            state = driver.session.state
            try:
                self._on_outcome(
                    outcome_of(self._agreement, state, sealed=sealed, unsealed=unsealed)
                )
            except SottoError as failed:
                if not isinstance(error, PeerError):
                    raise failed from None
        if error is not None:
            raise error


def _link(
    agreement: Agreement, identity: Identity, ledger: Ledger, listen: str | None, view: View
) -> Link:
    if agreement.transport.topology == "mesh":
        from party.network.mesh_link import MeshLink

        return MeshLink(agreement, identity, ledger, listen, view.warn)
    return RelayLink(agreement, identity)
