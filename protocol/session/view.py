"""What one party knows of a session: its parts, how they start, what its driver asks and reports.

Nothing here sends, decides or changes the phase: that is `machine`. Never here: IO or a clock.
"""

from protocol.agreement.model import Agreement
from protocol.agreement.schema import WAIT_SECONDS
from protocol.errors import SottoError
from protocol.rounds import RoundEngine
from protocol.session import explain
from protocol.session.exchange import RoundBuffer, next_state
from protocol.session.faults import FaultDetector
from protocol.session.handshake import Handshake
from protocol.session.outbox import Outbox, Pack
from protocol.session.phases import Phase
from protocol.session.sealing import Sealing
from protocol.session.timers import Timers
from protocol.wire.messages import Contribution, Seal, Signed
from protocol.wire.transcript import Transcript


class SessionView:
    """The state of one party.

    `past` holds the exchanges that the ledger has closed, `own` the party's own mask key and
    releases; both are empty at the first start. A restart has no path of its own: the gate finds
    in the ledger what was released, when the session asks for it again. `witnessed` is what peers
    had sent by the last orderly shutdown. With all seals in `past` the session starts finished,
    and only helps late peers. With the `proof` of a fault it starts halted, and only shows it.
    `wait` is how long it waits for people before the first round. There are ten parameters because
    a ledger gives back these four things, each on its own.
    """

    def __init__(
        self,
        agreement: Agreement,
        me: str,
        *,
        nonce: bytes,
        pack: Pack,
        past: Transcript | None = None,
        own: tuple[Signed, ...] = (),
        witnessed: tuple[Signed, ...] = (),
        proof: tuple[Signed, ...] = (),
        now: float,
        wait: float = WAIT_SECONDS,
    ) -> None:
        agreement.place(me)  # refuses a name that is not in the roster
        self.agreement = agreement
        self.me = me
        #: Only `Session` moves on to another phase, by the table of transitions.
        self.phase = Phase.HANDSHAKE
        #: Computes the next state from the messages of an exchange.
        self.engine = RoundEngine(agreement)
        #: Prices and chain hash before the current exchange.
        self.state = self.engine.opening
        #: Whether `Leave` was returned: the process may end.
        self._left = False
        #: When to send again and when to give up.
        self._timers = Timers(agreement, now, wait)
        #: Our own messages that every resend repeats.
        self._outbox = Outbox(agreement, me, pack, own)
        #: Nonces, and the peers that have answered this start.
        self._handshake = Handshake(agreement, me, nonce, recorded=len(own))
        #: The messages of the last, the current and the next exchange.
        self._buffer = RoundBuffer(agreement, me, self.state.chain_hash)
        #: Seals, and what late peers still need.
        self._sealing = Sealing(agreement, me)
        #: Evidence of faults.
        self._faults = FaultDetector(agreement, self._buffer, self._sealing, proof)
        past = past or Transcript(())
        for messages in past.exchanges:
            self._advance(messages)
        if len(own) > self._buffer.exchange:
            self._buffer.add(own[self._buffer.exchange])
        self._restore(witnessed)
        if past.seals:
            self.phase = Phase.FINISHED
            self._sealing.seals = {signed.message.sender: signed for signed in past.seals}
            for has_all_seals in (False, True):
                self._outbox.seal(self.state, has_all_seals=has_all_seals)
        elif proof:
            self.phase = Phase.HALTED
            self._outbox.accuse(self.state, proof, self._buffer.last)
        self._timers.enter(self.phase, gathering=self._gathering)

    def _advance(self, messages: tuple[Signed, ...]) -> None:
        """Close the current exchange with the messages of all members, in roster order."""
        self.state = next_state(self.engine, self.state, messages)
        self._buffer.close(messages, self.state.chain_hash)

    def _restore(self, witnessed: tuple[Signed, ...]) -> None:
        """Take back what peers sent before the last shutdown, unless it is closed by now."""
        for signed in witnessed:
            message, ahead = signed.message, self._buffer.ahead(signed.message)
            if ahead not in (0, 1) or message.sender == self.me or self._buffer.diverges(message):
                continue
            if isinstance(message, Seal) and (ahead == 0) == self.state.final:
                self._sealing.add(signed)
            elif isinstance(message, Contribution) and self._welcome(message):
                self._buffer.add(signed)

    def _welcome(self, message: Contribution) -> bool:
        """Whether a message is the first of its sender in an exchange that can still take it."""
        if self.state.final or not self._buffer.expects(message):
            return False
        return self._buffer.ahead(message) > 0 or isinstance(message, self.state.awaits)

    @property
    def _gathering(self) -> bool:
        """Whether this party waits for people, not for messages of a session that runs.

        That is so until every peer has answered this start and a round is closed. Members that
        dispute each other's rounds are all here.
        """
        started = self.phase is not Phase.HANDSHAKE and self.state.round > 0
        return not started and not self._faults.diverged

    @property
    def missing(self) -> tuple[str, ...]:
        """The peers that this party is waiting for, in roster order."""
        present = {
            Phase.HANDSHAKE: self._handshake.answered,
            Phase.COLLECTING: self._buffer.current.keys(),
            Phase.SEALING: self._sealing.seals.keys(),
            Phase.FINISHED: self._sealing.have_all,
        }.get(self.phase)
        if present is None:
            return ()
        names = (member.name for member in self.agreement.members)
        return tuple(name for name in names if name != self.me and name not in present)

    @property
    def unsealed(self) -> tuple[str, ...]:
        """The peers whose commitments or seals are missing, in roster order."""
        held = self._sealing.seals if self.state.final else self._buffer.current
        names = (member.name for member in self.agreement.members)
        return tuple(name for name in names if name != self.me and name not in held)

    def _out_of_patience(self, waited: float) -> SottoError:
        known = self._handshake, self._faults.diverged
        return explain.out_of_patience(self.agreement, self.state, self.missing, waited, *known)

    @property
    def deadline(self) -> float:
        """`tick` has nothing to do before this time."""
        return self._timers.deadline

    def left(self, now: float) -> None:
        """Our messages have left only now: the gate took its time. They need no resend yet."""
        self._timers.sent(now)

    def holds(self, data: bytes) -> bool:
        """Whether these bytes are a release or mask key that is held already: skip them."""
        return self._buffer.holds(data)

    @property
    def witnessed(self) -> tuple[Signed, ...]:
        """What must survive an orderly shutdown.

        These are the newest releases of peers, which show a peer that its ledger has lost them,
        and their seals; or the proof of the fault that ended the session.
        """
        if self.phase is Phase.HALTED:
            return self._faults.proof
        if self.phase is Phase.FINISHED:
            return ()
        seals = self._sealing.seals.values()
        return (*self._buffer.of_peers(), *(s for s in seals if s.message.sender != self.me))
