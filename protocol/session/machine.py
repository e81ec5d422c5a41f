"""The lock-step state machine of one party. Events go in, a list of effects comes out.

No IO: the caller brings clock, network, gate and disk, and carries out the effects in order.
Nothing private passes through here: a session sees prices and releases only.
"""

from typing import get_args

from protocol.errors import BadCommitment, ImpossibleTotal, InternalError, SottoError
from protocol.session import explain
from protocol.session.effects import Effect, Fail, Finish, Leave, Record, Respond, Send, Warn
from protocol.session.phases import TRANSITIONS, Event, Phase
from protocol.session.view import SessionView
from protocol.wire.messages import Contribution, Halt, Hello, Message, Reason, Seal, Signed

_IGNORED: dict[Phase, tuple[type[Message], ...]] = {
    Phase.FINISHED: (*get_args(Contribution), Halt),
    Phase.HALTED: (Message,),
}
"""The messages that a party no longer looks at."""

_ENDED = (Phase.FINISHED, Phase.HALTED)


class Session(SessionView):
    """One party that takes part in a session. `SessionView` has its state."""

    # Events

    def begin(self, now: float) -> list[Effect]:
        """The process has started."""
        self._timers.progressed(now)
        if self.phase in _ENDED:
            finished = self.phase is Phase.FINISHED
            finish = [Finish(self.state, self._sealing.complete())] if finished else []
            return [*finish, *self._send(now, *self._outbox.messages)]
        if self.state.final:
            return self._seal(now)  # nothing is left to release, so there is no answer to await
        return [*self._say_hello(now), *self._close_if_full(now)]

    def submit(self, release: Signed, now: float) -> list[Effect]:
        """The gate has answered `Respond`."""
        message, buffer = release.message, self._buffer
        if (
            not isinstance(message, self.state.awaits)
            or message.sender != self.me
            or buffer.ahead(message) != 0
            or message.chain_hash != self.state.chain_hash
        ):
            raise InternalError("the gate answered with something else than this round's release")
        self._go(Event.SUBMITTED)
        self._handshake.recorded = max(self._handshake.recorded, buffer.exchange + 1)
        buffer.add(release)
        self._outbox.add(release)
        self._timers.progressed(now)
        return [*self._send(now, release), *self._close_if_full(now)]

    def receive(self, signed: Signed, now: float) -> list[Effect]:
        """A message has come in, its signature verified."""
        message = signed.message
        if self.phase is Phase.HALTED and message.sender != self.me:
            self._timers.reset_backoff()  # a peer does not know yet: show the proof soon
        if self.phase in _IGNORED and isinstance(message, _IGNORED[self.phase]):
            return []
        if message.sender == self.me:
            return self._receive_own(message)
        if isinstance(message, Contribution):
            return self._receive_contribution(signed, message, now)
        if isinstance(message, Hello):
            return self._receive_hello(signed, message, now)
        if isinstance(message, Seal):
            return self._receive_seal(signed, message, now)
        if isinstance(message, Halt):
            return self._receive_halt(signed, message, now)
        raise InternalError(f"no rule for a {type(message).__name__}")

    def tick(self, now: float) -> list[Effect]:
        """Time has passed. Replies, sends again, and gives up when patience has run out."""
        effects = self._say_hello(now) if self._timers.reply_due(now) else []
        self._timers.enter(self.phase, gathering=self._gathering)
        if self.phase is Phase.RESPONDING:
            self._timers.reset_patience(now)  # our own gate is working: no peer is late
        if self._timers.expired(now):
            if self.phase not in _ENDED:
                waited = self._timers.seconds_waited(now)
                self._timers.reset_patience(now)
                return [*effects, Fail(self._out_of_patience(waited), final=False)]
            effects += self._leave()
        if self._left or not self._timers.resend_due(now):
            return effects
        messages = [] if self.phase is Phase.HANDSHAKE else list(self._outbox.messages)
        if (evidence := self._faults.own_evidence) is not None and self.phase not in _ENDED:
            messages.append(self._outbox.halt(self.state, Reason.HEADS_DIFFER, evidence))
        messages += self._sealing.take_owed(besides=messages)
        effects += self._send(now, *messages)
        # A Hello shows which seals are missing: any peer may have them.
        asks = self.phase in (Phase.HANDSHAKE, Phase.SEALING)
        return [*effects, *(self._say_hello(now) if asks else ())]

    # Handshake

    def _say_hello(self, now: float) -> list[Effect]:
        """A Hello to all, and to each peer whose ledger lacks it its own newest message."""
        asks = self.phase is Phase.HANDSHAKE
        self._timers.hello_sent(now, waiting=asks and not self._handshake.all_met)
        if asks:
            self._timers.sent(now)  # a mere reply must not delay what is due to be sent again
        known = self._sealing.known_ahead() if self.state.final else self._buffer.known_ahead()
        fields = self._handshake.compose(wants_reply=asks, known_ahead=known)
        hello = self._outbox.sign(Hello, self.state, **fields)
        return [Send(signed) for signed in (hello, *self._handshake.take_lost())]

    def _receive_hello(self, signed: Signed, hello: Hello, now: float) -> list[Effect]:
        handshake, buffer, asks = self._handshake, self._buffer, self.phase is Phase.HANDSHAKE
        arrival = handshake.meet(hello, repeating=asks)
        self._timers.hello_received(now, arrival, all_met=handshake.all_met)
        if hello.agreement != self.agreement.digest:
            return self._report(handshake.reject(hello) if asks else None)
        claim = buffer.claim(hello)
        if hello.round > buffer.numbering.highest_round or claim > buffer.numbering.most + 1:
            return []  # an agreement has no such exchange
        handshake.find_lost(hello, buffer)
        if self.state.final and self._sealing.owe(hello, buffer):
            self._timers.progressed(now)  # stays for it, once at each exchange
        if self.phase is Phase.FINISHED:
            return []
        effects: list[Effect] = []
        for one, answer in handshake.verify(signed, new_nonce=arrival.new_nonce):
            effects += self._receive_answer(one, answer, now)
        if self.phase is not Phase.HANDSHAKE:
            handshake.unverified_hellos.clear()
        return effects

    def _receive_answer(self, signed: Signed, hello: Hello, now: float) -> list[Effect]:
        """A Hello that was made after our start. Other Hellos prove nothing."""
        handshake, sender = self._handshake, hello.sender
        if self._buffer.diverges(hello):
            return self._report_divergence(signed, now)
        if self.phase is not Phase.HANDSHAKE:
            return []
        claim = min(self._buffer.claim(hello), self._buffer.numbering.most)
        if claim > handshake.recorded:
            return self._report(handshake.doubt(sender, claim))
        if not handshake.accept(sender):
            return []
        if sender not in handshake.stale_claims:  # a false claim must not buy patience
            self._timers.answered(now, all_met=handshake.all_met)
        if not handshake.complete:
            return []
        # The last peer to answer may still wait for our reply: send it before the round begins.
        effects = self._say_hello(now) if self._timers.reply_owed else []
        self._go(Event.EVERYONE_ANSWERED)
        return [*effects, Respond(self.state)]

    # Exchanges

    def _receive_own(self, message: Message) -> list[Effect]:
        """A message with our own signature. If our ledger lacks it, the ledger is an old copy."""
        number, recorded = self._buffer.numbering.number(message), self._handshake.recorded
        if not isinstance(message, Contribution) or number < recorded:
            return []
        return self._report(explain.old_ledger(message, self.agreement, recorded))

    def _receive_contribution(
        self, signed: Signed, message: Contribution, now: float
    ) -> list[Effect]:
        ahead = self._buffer.ahead(message)
        if ahead not in (-1, 0, 1):
            return []  # older exchanges are closed, and no honest peer is further ahead
        if other := self._faults.contradiction(signed):
            return self._stop(now, other, signed)
        if not self._welcome(message):
            return []
        if self._buffer.diverges(message):
            return self._report_divergence(signed, now)
        self._buffer.add(signed)
        if ahead == 0:
            self._faults.converge(message.sender)
            self._timers.progressed(now)
        return self._close_if_full(now)

    def _close_if_full(self, now: float) -> list[Effect]:
        """Close the exchange once it is complete; in the handshake too, if ours was recorded."""
        waiting = self.phase in (Phase.HANDSHAKE, Phase.COLLECTING)
        if not waiting or not (messages := self._buffer.complete()):
            return []
        try:
            self._advance(messages)
        except ImpossibleTotal as error:
            return [Fail(explain.impossible_total(error, messages), final=False)]
        except BadCommitment as error:
            self._buffer.refuse(error.senders)
            return [Warn(explain.bad_commitment(error))]
        self._faults.forget()
        effects: list[Effect] = [Record(messages)]
        self._buffer.remove_other_kinds(self.state.awaits)
        for signed in self._buffer.remove_diverging() + self._sealing.recheck(self.state):
            effects += self._report_divergence(signed, now)
        if self.state.final:
            return [*effects, *self._seal(now)]
        self._go(Event.ROUND_CLOSED)
        return [*effects, Respond(self.state)] if self.phase is Phase.RESPONDING else effects

    # Sealing

    def _seal(self, now: float) -> list[Effect]:
        """Send our seal once all exchanges are closed; with all seals, finish and say so."""
        effects: list[Effect] = []
        if self.phase in (Phase.HANDSHAKE, Phase.COLLECTING) and self.state.final:
            self._go(Event.LAST_ROUND_CLOSED)
            self._timers.progressed(now)
            seal = self._outbox.seal(self.state, has_all_seals=False)
            self._sealing.seals[self.me] = seal
            effects += self._send(now, seal)
        if self.phase is Phase.SEALING and self._sealing.everyone_sealed:
            self._go(Event.EVERYONE_SEALED)
            self._timers.progressed(now)
            effects.append(Finish(self.state, self._sealing.complete()))
            effects += self._send(now, self._outbox.seal(self.state, has_all_seals=True))
        done = self.phase is Phase.FINISHED and self._sealing.everyone_has_all
        return [*effects, *(self._leave() if done else ())]

    def _receive_seal(self, signed: Signed, seal: Seal, now: float) -> list[Effect]:
        sealing, ahead = self._sealing, self._buffer.ahead(seal)
        if ahead not in (0, 1) or (ahead == 1 and self.state.final):
            return []  # no honest peer is further ahead
        if other := self._faults.contradiction(signed):
            return [] if self.phase is Phase.FINISHED else self._stop(now, other, signed)
        if self._buffer.diverges(seal):
            return self._report_divergence(signed, now)
        if ahead == 0 and not self.state.final:
            return []  # the session is not over, so this seal is false
        if seal.has_all_seals:
            if ahead == 0:
                sealing.have_all.add(seal.sender)
        elif sealing.add(signed):
            self._faults.converge(seal.sender)
            self._timers.progressed(now)
        elif self.phase is Phase.FINISHED and seal.sender not in sealing.have_all:
            self._timers.reset_backoff()  # it lacks seals: send ours again soon
        return self._seal(now)

    # Faults

    def _receive_halt(self, signed: Signed, halt: Halt, now: float) -> list[Effect]:
        """A peer shows evidence. Look for proof in it, alone and beside what this party holds."""
        evidence = self._faults.open(signed, halt)
        for one in evidence:
            if one.message.sender == self.me and (effects := self._receive_own(one.message)):
                return effects
        if proof := self._faults.proof_in(evidence):
            return self._stop(now, *proof)
        if self._buffer.diverges(halt):
            return self._report_divergence(signed, now)
        return self._report(self._faults.dismiss(halt, evidence))

    def _report_divergence(self, cause: Signed, now: float) -> list[Effect]:
        """A peer's chain hash differs: publish our last exchange and the differing message.

        This ends nothing. A peer that received other messages than we did finds the proof in it.
        """
        if cause.message.sender not in self._faults.diverged:
            self._timers.progressed(now)
        if (evidence := self._faults.diverge(cause)) is None:
            return []
        return self._send(now, self._outbox.halt(self.state, Reason.HEADS_DIFFER, evidence))

    def _stop(self, now: float, *proof: Signed) -> list[Effect]:
        """A fault is proved: end the session for good and show why."""
        self._go(Event.FAULT)
        self._timers.progressed(now)
        self._faults.proof = proof
        halts = self._outbox.accuse(self.state, proof, self._buffer.last)
        error = explain.fault(proof, self.me, self.state)
        return [*self._send(now, *halts), Fail(error, final=True)]

    # Small steps

    def _report(self, finding: SottoError | str | None) -> list[Effect]:
        """Stop with an error that is not final, or warn, or do nothing."""
        if isinstance(finding, SottoError):
            self._left = True
            return [Fail(finding, final=False)]
        return [Warn(finding)] if finding else []

    def _leave(self) -> list[Effect]:
        first, self._left = not self._left, True
        return [Leave()] if first else []

    def _go(self, event: Event) -> None:
        try:
            self.phase = TRANSITIONS[self.phase, event]
        except KeyError:
            raise InternalError(f"{event.name} cannot happen while {self.phase.name}") from None
        self._timers.enter(self.phase, gathering=self._gathering)

    def _send(self, now: float, *messages: Signed) -> list[Effect]:
        self._timers.sent(now)
        return [Send(signed) for signed in messages]
