"""Carries out the effects of a session: releases from the gate, records in the ledger.

The driver serves a networked party and a simulated one alike. It moves no bytes: it returns the
messages to publish, and what they rest on is durable by then.
"""

from collections.abc import Callable, Iterable

from party.ledger.session_ledger import Ledger
from party.release.gate import Gate
from party.release.pacing import Pacer
from protocol.agreement.model import Agreement
from protocol.agreement.schema import WAIT_SECONDS
from protocol.errors import PeerError, SottoError
from protocol.rounds import RoundState
from protocol.runtime.wait_times import FreeTime, WaitTimes
from protocol.session.effects import Effect, Fail, Finish, Leave, Record, Respond, Send, Warn
from protocol.session.machine import Session
from protocol.session.outbox import Pack
from protocol.session.phases import Phase
from protocol.wire.messages import Commitment, Hello, MaskKey, Release, Signed


class Driver:
    """One party's session together with its gate and ledger.

    `begin`, `receive`, `tick` and `respond` return messages. The caller publishes them, then calls
    `run_idle_work`, then `respond`.
    """

    # More than 8 parameters: each is one thing that a simulated party replaces.
    def __init__(
        self,
        agreement: Agreement,
        member: str,
        *,
        nonce: bytes,
        pack: Pack,
        gate: Gate,
        ledger: Ledger,
        pacer: Pacer | None = None,
        waits: WaitTimes | None = None,
        now: float = 0.0,
        wait: float = WAIT_SECONDS,
        on_round: Callable[[RoundState, tuple[Signed, ...]], None] = lambda *_: None,
        on_warning: Callable[[str], None] = lambda _: None,
        on_wait: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.session = Session(
            agreement,
            member,
            nonce=nonce,
            pack=pack,
            past=ledger.transcript(),
            own=ledger.own(),
            witnessed=ledger.witnessed(),
            proof=ledger.proof(),
            now=now,
            wait=wait,
        )
        ledger.require_replayed(self.session.state.round, self.session.state.rounds_hash)
        #: The final state, once all members have sealed it.
        self.finished: RoundState | None = None
        #: Whether no peer needs this party any more.
        self.left = False
        #: Why the session cannot go on here.
        self.error: SottoError | None = ledger.fault
        #: A clock that stands still while this party is busy itself.
        self.free = FreeTime(now)
        self._gate = gate
        self._pacer = pacer
        self._ledger = ledger
        self._waits = WaitTimes(agreement) if waits is None else waits
        #: The round to answer and when it opened, until it is answered.
        self._due: tuple[RoundState, float] | None = None
        #: Closed rounds and long waits that were not reported yet.
        self._closed: list[tuple[RoundState, tuple[Signed, ...]]] = []
        self._long_waits: list[str] = []
        self._on_round, self._on_warning, self._on_wait = on_round, on_warning, on_wait

    def begin(self, now: float) -> list[Signed]:
        return self._execute(self.session.begin(now), now)

    def receive(self, signed: Signed, now: float) -> list[Signed]:
        session, message = self.session, signed.message
        current = isinstance(message, Release) and message.round == session.state.round
        new = current and not session.holds(signed.data)
        effects = session.receive(signed, now)
        if new and session.holds(signed.data):  # the session accepted it for this round
            self._waits.arrived(message.sender, self.free.seconds)
        return self._execute(effects, now) if effects else []

    def tick(self, now: float) -> list[Signed]:
        return self._execute(self.session.tick(now), now)

    def respond(self) -> list[Signed]:
        """Answer the open round of a session with a pace, at the time when its release is due.

        Blocks until then: publish everything else first. Without a pace, or without an open
        round, there is nothing to do.
        """
        if self._due is None:
            return []
        outgoing = list(self._respond())
        self._ledger.commit()
        return outgoing

    def run_idle_work(self) -> None:
        """Do work that no peer waits for. Publish everything returned so far first.

        Report closed rounds and long waits. Without a pace, draw the noise of the next releases;
        with one, that belongs to the time of a release.
        """
        for sentence in self._long_waits:
            self._on_wait(sentence)
        self._long_waits.clear()
        for state, releases in self._closed:
            self._on_round(state, releases)
        self._closed.clear()
        if self._pacer is None and self.session.phase is Phase.COLLECTING:
            self._gate.prepare(self.session.state.round + 1)

    def published(self, outgoing: list[Signed], now: float) -> None:
        """These messages have left, and this party is no longer busy.

        Only now it waits for others. A mere reply must not delay a resend: a Hello, and what it
        gives back to peers that have lost their own newest message.
        """
        self.free.busy(now)
        own = [signed.message for signed in outgoing if signed.message.sender == self.session.me]
        if not all(isinstance(message, Hello) for message in own):
            self.session.left(now)

    def shutdown(self) -> None:
        """Persist peer messages and fault proof when the process ends in good order."""
        self._ledger.record_witnessed(self.session.witnessed)

    def _execute(self, effects: list[Effect], now: float) -> list[Signed]:
        """Carry out effects. Guarantee: what returned messages rest on survives a crash."""
        outgoing = list(self._carry_out(effects, now))
        self._ledger.commit()
        return outgoing

    def _respond(self) -> Iterable[Signed]:
        """Make and submit the release that is due: the only path from Respond to a message.

        The gate records it before it returns it. From then on this party waits for others only.
        """
        if self._due is None:
            return
        (state, now), self._due = self._due, None
        if self._pacer is None or state.unpaired or state.uncommitted:
            release = self._gate.release(state)
        else:
            release = self._pacer.release(self._gate, self._ledger, state, now)
            now = self._pacer.now()
        if isinstance(release.message, Release):
            self._waits.begin(self.free.seconds)
        yield from self._carry_out(self.session.submit(release, now), now)

    def _carry_out(self, effects: list[Effect], now: float) -> Iterable[Signed]:
        for effect in effects:
            if isinstance(effect, Send):
                yield effect.signed
            elif isinstance(effect, Record):
                self._record(effect)
            elif isinstance(effect, Respond):
                self._due = effect.state, now
                state = effect.state
                if self._pacer is None or state.unpaired or state.uncommitted:
                    yield from self._respond()
            elif isinstance(effect, Finish):
                self._ledger.record_seals(effect.seals)
                self.finished = effect.state
            elif isinstance(effect, Leave):
                self.left = True
            elif isinstance(effect, Warn):
                self._on_warning(effect.text)
            elif isinstance(effect, Fail):
                self.error = effect.error
                if effect.final and isinstance(effect.error, PeerError):
                    self._ledger.record_fault(effect.error, over=self.session.state.over)

    def _record(self, effect: Record) -> None:
        """Record a closed exchange; the session's state is the one that it led to."""
        if effect.kind is MaskKey:
            self._ledger.record_mask_keys(effect.messages)
        elif effect.kind is Commitment:
            self._ledger.record_commitments(effect.messages)
        if effect.round is None:
            return
        state = self.session.state
        self._ledger.record_round(effect.round, effect.messages, state.chain_hash)
        self._long_waits += filter(None, [self._waits.closed(effect.round)])
        self._closed.append((state, effect.messages))
