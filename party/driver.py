"""Carries out what a session asks for: the gate's answers, the ledger's records.

The same executor serves a networked party and a simulated one. It moves no bytes itself: it
returns what must be published, and by then everything that had to be durable is.
"""

from collections.abc import Callable, Iterable

from party.ledger.session_ledger import Ledger
from party.release.gate import Gate
from party.release.pacing import Pacer
from protocol.agreement.model import Agreement
from protocol.errors import PeerError, SottoError
from protocol.rounds import RoundState
from protocol.runtime.wait_times import FreeTime, WaitTimes
from protocol.session.effects import Effect, Fail, Finish, Leave, Record, Respond, Send, Warn
from protocol.session.machine import Session
from protocol.session.outbox import Pack
from protocol.session.phases import Phase
from protocol.wire.messages import Release, Signed


class Driver:
    """One party's session together with its gate and ledger."""

    def __init__(
        self,
        agreement: Agreement,
        member: str,
        *,
        nonce: bytes,
        pack: Pack,
        gate: Gate,
        ledger: Ledger,
        clock: Pacer | None = None,
        waits: WaitTimes | None = None,
        now: float = 0.0,
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
            witnessed=ledger.heard(),
            proof=ledger.proof(),
            now=now,
        )
        ledger.require_replayed(self.session.state.round, self.session.state.chain_hash)
        self.finished: RoundState | None = None
        self.left = False
        self.error: SottoError | None = ledger.fault
        self._gate = gate
        self._clock = clock
        self._open: tuple[RoundState, float] | None = None
        self._ledger = ledger
        self._closed: list[tuple[RoundState, tuple[Signed, ...]]] = []
        self._on_round = on_round
        self._on_warning = on_warning
        self._on_wait = on_wait
        self._waited: list[str] = []
        self._waits = WaitTimes(agreement) if waits is None else waits
        self.free = FreeTime(now)

    def begin(self, now: float) -> list[Signed]:
        return self._carried(self.session.begin(now), now)

    def receive(self, signed: Signed, now: float) -> list[Signed]:
        session, message = self.session, signed.message
        due = isinstance(message, Release) and message.round == session.state.round
        news = due and not session.holds(signed.data)
        effects = session.receive(signed, now)
        if news and session.holds(signed.data):  # it was taken for this round
            self._waits.arrived(message.sender, self.free.seconds)
        return self._carried(effects, now) if effects else []

    def tick(self, now: float) -> list[Signed]:
        return self._carried(self.session.tick(now), now)

    def respond(self) -> list[Signed]:
        """Answer the round that has opened, where there is a clock and one has.

        Returns when that is due, which is later. Everything else that is to leave must have left.
        """
        if self._open is None or self._clock is None:
            return []
        (state, opened), self._open = self._open, None
        release = self._clock.release(self._gate, self._ledger, state, opened)
        now = self._clock.now()
        return self._carried(self._submitted(release, now), now)

    def afterwards(self) -> None:
        """Do what no other party waits for, once everything returned so far has been published.

        Tell of closed rounds and long waits. Without a clock, draw the noise that the next
        releases will need; with one, that belongs to the time of a release.
        """
        for sentence in self._waited:
            self._on_wait(sentence)
        self._waited.clear()
        for state, releases in self._closed:
            self._on_round(state, releases)
        self._closed.clear()
        if self._clock is None and self.session.phase is Phase.COLLECTING:
            self._gate.prepare()

    def rest(self) -> None:
        """The process ends, for whatever reason but a crash: what it has heard must not be lost,
        nor why the session is over."""
        self._ledger.record_heard(self.session.witnessed)

    def _submitted(self, release: Signed, now: float) -> list[Effect]:
        """Hand over our own answer: from now on this party waits for others, and only for them."""
        if isinstance(release.message, Release):
            self._waits.begin(self.free.seconds)
        return self.session.submit(release, now)

    def _carried(self, effects: list[Effect], now: float) -> list[Signed]:
        """Guarantee: whatever is returned rests on records that survive a crash."""
        outgoing = list(self._carry(effects, now))
        self._ledger.commit()
        return outgoing

    def _carry(self, effects: list[Effect], now: float) -> Iterable[Signed]:
        for effect in effects:
            if isinstance(effect, Send):
                yield effect.signed
            elif isinstance(effect, Record):
                state = self.session.state  # the one that this round led to
                if effect.round is None:
                    self._ledger.record_mask_keys(effect.messages)
                    continue
                self._ledger.record_round(effect.round, effect.messages, state.chain_hash)
                self._waited += filter(None, [self._waits.closed(effect.round)])
                self._closed.append((state, effect.messages))
            elif isinstance(effect, Respond):
                if self._clock is not None and not effect.state.unpaired:
                    self._open = effect.state, now
                    continue
                release = self._gate.release(effect.state)
                yield from self._carry(self._submitted(release, now), now)
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
                    over = self.session.state.over
                    self._ledger.record_fault(effect.error, over=over)
