"""The lock-step state machine of one party. Events go in, a list of effects comes out.

No IO: whoever runs a `Session` brings the clock, the network, the gate and the disk, and
must carry out the effects in order; how long to wait is asked of `Timers`. Nothing private
passes through here: a session sees prices and releases only, and there is no second
implementation of the protocol anywhere.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from protocol.agreement import Agreement
from protocol.course import Course, mask_keys, numbers
from protocol.effects import Effect, Fail, Finish, Leave, Record, Respond, Send, Warn
from protocol.errors import (
    BadLedger,
    BadMessage,
    BrokenInvariant,
    DifferentAgreement,
    DifferentPrices,
    Equivocation,
    ImpossibleTotal,
    PeerHalted,
    SottoError,
    Unavailable,
)
from protocol.messages import (
    NO_NONCE,
    Echo,
    Halt,
    Hello,
    MaskKey,
    Message,
    Reason,
    Release,
    Seal,
    Signed,
)
from protocol.timers import Timers
from protocol.transcript import Transcript
from protocol.wire import Reader


class Phase(Enum):
    __hash__ = object.__hash__  # each is one object, and asked for with every message

    GREETING = auto()
    RESPONDING = auto()
    GATHERING = auto()
    SEALING = auto()
    FINISHED = auto()
    DISPUTING = auto()
    HALTED = auto()


class Event(Enum):
    EVERYONE_ANSWERED = auto()
    SUBMITTED = auto()
    ROUND_CLOSED = auto()
    LAST_ROUND_CLOSED = auto()
    EVERYONE_SEALED = auto()
    HEADS_DIFFER = auto()
    FAULT = auto()


TRANSITIONS: dict[tuple[Phase, Event], Phase] = {
    (Phase.GREETING, Event.EVERYONE_ANSWERED): Phase.RESPONDING,
    (Phase.GREETING, Event.LAST_ROUND_CLOSED): Phase.SEALING,
    (Phase.RESPONDING, Event.SUBMITTED): Phase.GATHERING,
    (Phase.GATHERING, Event.ROUND_CLOSED): Phase.RESPONDING,
    (Phase.GATHERING, Event.LAST_ROUND_CLOSED): Phase.SEALING,
    (Phase.SEALING, Event.EVERYONE_SEALED): Phase.FINISHED,
    (Phase.GREETING, Event.HEADS_DIFFER): Phase.DISPUTING,
    (Phase.RESPONDING, Event.HEADS_DIFFER): Phase.DISPUTING,
    (Phase.GATHERING, Event.HEADS_DIFFER): Phase.DISPUTING,
    (Phase.SEALING, Event.HEADS_DIFFER): Phase.DISPUTING,
    (Phase.GREETING, Event.FAULT): Phase.HALTED,
    (Phase.RESPONDING, Event.FAULT): Phase.HALTED,
    (Phase.GATHERING, Event.FAULT): Phase.HALTED,
    (Phase.SEALING, Event.FAULT): Phase.HALTED,
    (Phase.DISPUTING, Event.FAULT): Phase.HALTED,
}
"""The whole machine. What is not in this table cannot happen: what every party has sealed
stays finished, whatever anybody says later. Only messages, effects and their order are
decided elsewhere."""

_IGNORED: dict[Phase, tuple[type[Message], ...]] = {
    Phase.FINISHED: (MaskKey, Release, Halt),
    Phase.DISPUTING: (MaskKey, Release, Seal),
    Phase.HALTED: (Message,),
}
"""What a party no longer looks at. In a dispute only proof counts."""


Pack = Callable[[Message], Signed]


class Session:
    """One party's view of a session.

    `past` holds the rounds that the ledger has closed and `own` the party's own releases;
    both are empty at the first start. Restart has no path of its own: what was released is
    found in the ledger by the gate when the session asks for it again. `heard` is what peers
    had released by the last orderly end, so that it is known of them still. With all seals in
    `past` the session is finished from the start, and stays only to help late peers.

    Where releases are masked, mask keys are exchanged before the first round, in the way in
    which releases are in a round; the own one is the first of `own`.
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
        heard: tuple[Signed, ...] = (),
        now: float = 0.0,
    ) -> None:
        self.agreement = agreement
        self.me = me
        self.phase = Phase.GREETING
        self.course = Course(agreement)
        self._pack = pack
        self._nonce = nonce
        self._reader = Reader(agreement)
        self._names = tuple(m.name for m in agreement.members)
        self._peers = frozenset(self._names) - {me}
        agreement.place(me)
        self._own_count = len(own)
        self._newest: tuple[Signed, ...] = own[-2:]
        self._nonces: dict[str, bytes] = {}
        self._answered: set[str] = set()
        self._foreign: dict[str, bytes] = {}
        self._now_releases: dict[str, Signed] = {}
        self._next_releases: dict[str, Signed] = {}
        self._last_releases: tuple[Signed, ...] = ()
        self._held: set[bytes] = set()
        self._seals: dict[str, Signed] = {}
        self._complete: set[str] = set()
        self._accused: str | None = None
        self._left = False
        self.position = self.course.opening
        self._keyless = self.position.head if agreement.masked else b""
        if past is not None:
            for said in (past.keys, *past.rounds) if past.keys else past.rounds:
                self._step(said)
        self._recall(heard)
        self._timers = Timers(agreement, now)
        if past is not None and past.seals:
            self.phase = Phase.FINISHED
            self._seals = {signed.message.sender: signed for signed in past.seals}
            self._newest = (*own[-1:], self._seals[me])

    # What the executor may ask

    @property
    def missing(self) -> tuple[str, ...]:
        """The peers that this party is waiting for, in roster order."""
        here = {
            Phase.GREETING: self._answered,
            Phase.GATHERING: self._now_releases.keys(),
            Phase.SEALING: self._seals.keys(),
            Phase.FINISHED: self._complete,
        }.get(self.phase, self._peers)
        return tuple(n for n in self._names if n in self._peers and n not in here)

    @property
    def deadline(self) -> float:
        """`tick` has nothing to do before this time."""
        return self._timers.deadline(lingering=self._lingering)

    @property
    def _lingering(self) -> bool:
        return self.phase in (Phase.FINISHED, Phase.HALTED)

    def holds(self, data: bytes) -> bool:
        """Whether these bytes are a release that is held already: to read it again says nothing."""
        return data in self._held

    @property
    def heard(self) -> tuple[Signed, ...]:
        """What peers have released in the newest rounds, and might have lost when they are back."""
        if self.phase is Phase.FINISHED:
            return ()
        newest = (*self._last_releases, *self._now_releases.values(), *self._next_releases.values())
        return tuple(signed for signed in newest if signed.message.sender != self.me)

    # Events

    def begin(self, now: float) -> list[Effect]:
        """The process has started."""
        self._timers.progressed(now)
        if self.phase is Phase.FINISHED:
            return [self._finish(), *(self._send(signed, now) for signed in self._newest)]
        return [self._hello(now)]

    def submit(self, release: Signed, now: float) -> list[Effect]:
        """The gate has answered `Respond`."""
        message = release.message
        kind = MaskKey if self.position.unpaired else Release
        right = isinstance(message, kind) and message.sender == self.me
        if not right or message.round != self.position.round or message.head != self.position.head:
            raise BrokenInvariant("the gate answered with something else than this round's release")
        self._go(Event.SUBMITTED)
        self._own_count = max(self._own_count, self._closed + 1)
        self._now_releases[self.me] = release
        self._newest = (*[s for s in self._newest if s.message != message], release)[-2:]
        self._timers.progressed(now)
        return [self._send(release, now), *self._close_if_full(now)]

    def receive(self, signed: Signed, now: float) -> list[Effect]:
        """A message has come in, its signature verified."""
        message = signed.message
        if message.sender == self.me:
            return self._receive_own(message)
        if self.phase is Phase.HALTED:
            self._timers.hurried()  # somebody still plays: say soon again why not
        if self.phase in _IGNORED and isinstance(message, _IGNORED[self.phase]):
            return []
        if isinstance(message, Release | MaskKey):
            return self._receive_release(signed, message, now)
        if isinstance(message, Hello):
            return self._receive_hello(signed, message, now)
        if isinstance(message, Seal):
            return self._receive_seal(signed, message, now)
        if isinstance(message, Halt):
            return self._receive_halt(signed, message, now)
        raise BrokenInvariant(f"no rule for a {type(message).__name__}")

    def tick(self, now: float) -> list[Effect]:
        """Time has passed. Re-sends, answers, and gives up when patience is at its end."""
        effects: list[Effect] = []
        if self._timers.answer_due(now):
            effects.append(self._hello(now))
        if self.phase is Phase.RESPONDING:
            self._timers.excused(now)  # it is our own gate that takes its time: nobody is silent
        if self._timers.given_up(now, lingering=self._lingering):
            if not self._lingering:
                self._timers.excused(now)
                return [*effects, self._give_up()]
            if not self._left:
                self._left = True
                effects.append(Leave())
        if not self._left and self._timers.resend_due(now):
            if self.phase is Phase.GREETING:
                effects.append(self._hello(now))
            else:
                effects.extend(self._send(signed, now) for signed in self._newest)
        return effects

    # Greeting

    def _hello(self, now: float) -> Send:
        asking, echoes = self.phase is Phase.GREETING, tuple(map(self._echo, self._names))
        self._timers.greeted(now)
        if asking:
            self._timers.sent(now)  # an answer must not put off what is due to be sent again
        return Send(self._signed(Hello, nonce=self._nonce, asking=asking, echoes=echoes))

    def _echo(self, name: str) -> Echo:
        heard = self._closed + (name in self._now_releases)
        if name == self.me:
            heard = self._own_count
        elif name in self._next_releases:
            heard = self._closed + 2
        return Echo(self._nonces.get(name, NO_NONCE), heard)

    def _receive_hello(self, signed: Signed, hello: Hello, now: float) -> list[Effect]:
        self._nonces[hello.sender] = hello.nonce
        self._timers.answer_owed |= hello.asking
        if hello.agreement != self.agreement.digest:
            return self._receive_foreign(hello)
        mine = hello.echoes[self.agreement.place(self.me)]
        if mine.nonce != self._nonce or self.phase is Phase.FINISHED:
            return []  # an old hello, or one from before this party was heard: proves nothing
        if max(mine.heard, hello.round) > self._own_count:
            return self._stale_ledger(repr(hello.sender), max(mine.heard, hello.round))
        if not self._ahead(hello) and hello.head != self.position.head:
            return self._dispute(signed, now)
        if self.phase is not Phase.GREETING or hello.sender in self._answered:
            return []
        self._foreign.pop(hello.sender, None)
        self._answered.add(hello.sender)
        self._timers.progressed(now)
        if self._answered != self._peers:
            return []
        # The last to answer must hear that it was answered: an asker's hello is due first.
        effects: list[Effect] = [self._hello(now)] if self._timers.answer_owed else []
        if self.position.over:
            return [*effects, *self._seal(now)]
        self._go(Event.EVERYONE_ANSWERED)
        return [*effects, Respond(self.position)]

    def _receive_foreign(self, hello: Hello) -> list[Effect]:
        """Somebody holds another agreement: the few who differ from the most must stop."""
        if self._nonce not in (e.nonce for e in hello.echoes) or self.phase is not Phase.GREETING:
            return []
        news = self._foreign.get(hello.sender) != hello.agreement
        self._foreign[hello.sender] = hello.agreement
        text = (
            f"{hello.sender!r} holds agreement {hello.agreement.hex()}, "
            f"this is {self.agreement.digest.hex()}"
        )
        if 2 * len(self._foreign) > len(self._peers):
            self._left = True
            error = DifferentAgreement(f"{text}; all need the same file", sender=hello.sender)
            return [Fail(error, final=False)]
        return [Warn(f"{text}; waiting for {hello.sender!r} to come with ours")] if news else []

    def _receive_own(self, message: Message) -> list[Effect]:
        """The relay gives back what we say; what we do not remember saying is a warning."""
        if isinstance(message, Release | MaskKey):
            count = self._closed + self._ahead(message) + 1
            if count > self._own_count:
                return self._stale_ledger("the network", count)
        return []

    def _stale_ledger(self, witness: str, known: int) -> list[Effect]:
        self._left = True
        error = BadLedger(
            f"{witness} knows {known} {self._said} of {self.me!r}, but this ledger holds "
            f"{self._own_count}: it is an old copy. Nothing was released. Bring back the newest "
            "copy of the ledger; without it this session cannot go on"
        )
        return [Fail(error, final=False)]

    # Rounds

    def _receive_release(
        self, signed: Signed, message: Release | MaskKey, now: float
    ) -> list[Effect]:
        sender, ahead = message.sender, self._ahead(message)
        if ahead == -1:
            index = self.agreement.place(sender)
            return self._compare(self._last_releases[index], signed, now)
        if ahead not in (0, 1):
            return []  # older rounds are closed; nobody honest is further ahead
        box = self._now_releases if ahead == 0 else self._next_releases
        if sender in box:
            return self._compare(box[sender], signed, now)
        if ahead == 0 and message.head != self.position.head:
            return self._dispute(signed, now)
        box[sender] = signed
        self._held.add(signed.data)
        if ahead == 0:
            self._timers.progressed(now)
        return self._close_if_full(now)

    def _recall(self, heard: tuple[Signed, ...]) -> None:
        """Hold again what was held when the process last ended, where it is not closed by now."""
        for signed in heard:
            message, ahead = signed.message, self._ahead(signed.message)
            fits = ahead == 1 or (ahead == 0 and message.head == self.position.head)
            if isinstance(message, Release | MaskKey) and message.sender in self._peers and fits:
                box = self._now_releases if ahead == 0 else self._next_releases
                box[message.sender] = signed
                self._held.add(signed.data)

    def _compare(self, known: Signed, new: Signed, now: float) -> list[Effect]:
        """An identical duplicate is nothing; a different one is equivocation."""
        if known.message == new.message:
            return []
        return self._convict(known, new, now)

    def _close_if_full(self, now: float) -> list[Effect]:
        if self.phase is not Phase.GATHERING or len(self._now_releases) < len(self._names):
            return []
        releases = tuple(self._now_releases[name] for name in self._names)
        try:
            self._step(releases)
        except ImpossibleTotal as error:
            # Everybody sees it who has these releases, and they prove nothing against anybody.
            error.evidence = tuple(signed.data for signed in releases)
            return [Fail(error, final=False)]
        self._now_releases, self._next_releases = self._next_releases, {}
        self._held = {held.data for held in (*releases, *self._now_releases.values())}
        effects: list[Effect] = [Record(self.position.round - 1, releases)]
        for signed in (*self._now_releases.values(), *self._seals.values()):
            if signed.message.head != self.position.head:
                return [*effects, *self._dispute(signed, now)]
        if self.position.over:
            return [*effects, *self._seal(now)]
        self._seals.clear()  # of who sealed too early: it has to seal again
        self._go(Event.ROUND_CLOSED)
        return [*effects, Respond(self.position)]

    def _step(self, releases: tuple[Signed, ...]) -> None:
        """Close the present round, or before the first one the exchange of mask keys."""
        if self.position.unpaired:
            self.position = self.course.pair(self.position, mask_keys(releases))
        else:
            self.position = self.course.advance(self.position, numbers(releases))
        self._last_releases = releases

    @property
    def _closed(self) -> int:
        """How many exchanges are closed: rounds, and the mask keys where there are such."""
        paired = self.agreement.masked and not self.position.unpaired
        return self.position.round + paired

    def _ahead(self, message: Message) -> int:
        """How many exchanges a message is ahead of where this party stands."""
        if not self._keyless:
            return message.round - self.position.round
        keyless = isinstance(message, MaskKey)
        if isinstance(message, Hello | Halt):
            keyless = message.round == 0 and message.head == self._keyless
        return message.round + (not keyless) - self._closed

    # Sealing

    def _seal(self, now: float) -> list[Effect]:
        self._go(Event.LAST_ROUND_CLOSED)
        self._timers.progressed(now)
        return [self._send_seal(now), *self._finish_if_sealed(now)]

    def _send_seal(self, now: float) -> Send:
        seal = self._signed(Seal, complete=self.phase is Phase.FINISHED)
        releases = [s for s in self._newest if isinstance(s.message, Release)]
        self._newest = (*releases, seal)[-2:]
        return self._send(seal, now)

    def _receive_seal(self, signed: Signed, message: Seal, now: float) -> list[Effect]:
        ahead = self._ahead(message)
        if ahead != 0 and (ahead != 1 or self.position.over):
            return []  # nobody honest is further ahead
        known = self._seals.get(message.sender)
        if known is not None and _clash(known, signed):
            return [] if self.phase is Phase.FINISHED else self._convict(known, signed, now)
        if ahead == 0 and message.head != self.position.head:
            return self._dispute(signed, now)
        if ahead == 0 and not self.position.over:
            return []  # the rounds are not over, whoever says so
        if known is None:
            self._seals[message.sender] = signed
            self._timers.progressed(now)
        if message.complete and message.sender not in self._complete:
            self._complete.add(message.sender)
        elif self.phase is Phase.FINISHED and not message.complete and not self._left:
            # It has not heard all seals: say ours again, at most once in a while.
            self._timers.hurried()
        return self._finish_if_sealed(now)

    def _finish_if_sealed(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self.phase is Phase.SEALING and self._peers <= self._seals.keys():
            for signed in self._seals.values():
                if signed.message.head != self.position.head:
                    return self._dispute(signed, now)
            self._go(Event.EVERYONE_SEALED)
            self._timers.progressed(now)
            last = self._send_seal(now)
            self._seals[self.me] = last.signed
            effects = [self._finish(), last]
        if self.phase is Phase.FINISHED and self._complete == self._peers and not self._left:
            self._left = True
            effects.append(Leave())
        return effects

    def _finish(self) -> Finish:
        return Finish(self.position, tuple(self._seals[name] for name in self._names))

    # Faults

    def _dispute(self, cause: Signed, now: float) -> list[Effect]:
        """Heads differ: show the last round and what differs, so that the liar can be named."""
        if self.phase is Phase.DISPUTING:
            return []
        self._go(Event.HEADS_DIFFER)
        self._accused = cause.message.sender
        self._timers.progressed(now)
        differing = () if isinstance(cause.message, Halt) else (cause,)
        return [self._send_halt(Reason.HEADS_DIFFER, (*self._last_releases, *differing), now)]

    def _convict(self, one: Signed, other: Signed, now: float) -> list[Effect]:
        sender = one.message.sender
        self._go(Event.FAULT)
        self._timers.progressed(now)
        what = f"different messages for round {one.message.round}"
        if isinstance(one.message, MaskKey):
            what = "different mask keys"
        error = Equivocation(
            f"{sender!r} signed two {what}; both are kept as evidence and the session is over",
            sender=sender,
            evidence=(one.data, other.data),
        )
        return [self._send_halt(Reason.EQUIVOCATION, (one, other), now), Fail(error, final=True)]

    def _send_halt(self, reason: Reason, evidence: tuple[Signed, ...], now: float) -> Send:
        halt = self._signed(Halt, reason=reason, evidence=tuple(s.data for s in evidence))
        self._newest = (halt,)
        return self._send(halt, now)

    def _receive_halt(self, signed: Signed, halt: Halt, now: float) -> list[Effect]:
        """Somebody stopped. Look for two clashing messages, in its evidence and against ours."""
        shown = self._opened(halt)
        ours = (*self._last_releases, *self._now_releases.values(), *self._next_releases.values())
        for one in shown:
            for other in (*ours, *self._seals.values(), *shown):
                if _clash(one, other):
                    return self._convict(other, one, now)
        here = not self._ahead(halt)
        same = {s.message for s in self._last_releases} <= {s.message for s in shown}
        if here and halt.head != self.position.head and same and self._last_releases:
            self._go(Event.FAULT)
            self._timers.progressed(now)
            error = DifferentPrices(
                f"{halt.sender!r} got other prices than {self.me!r} from the same {self._last}; "
                "compare versions and machines",
                sender=halt.sender,
                evidence=(signed.data,),
            )
            ours_too = self._send_halt(Reason.HEADS_DIFFER, self._last_releases, now)
            return [ours_too, Fail(error, final=True)]
        # Show our side, and wait for proof.
        return self._dispute(next(filter(self._differs, shown), signed), now)

    def _differs(self, signed: Signed) -> bool:
        """Whether somebody stands on another head in the round in which we stand."""
        message = signed.message
        here = not self._ahead(message) and message.agreement == self.agreement.digest
        return here and message.head != self.position.head

    def _opened(self, halt: Halt) -> tuple[Signed, ...]:
        shown = []
        for data in halt.evidence:
            try:
                shown.append(self._reader.unpack(data))
            except BadMessage:
                continue  # evidence that does not verify accuses nobody
        return tuple(shown)

    def _give_up(self) -> Fail:
        if self.phase is Phase.DISPUTING:
            self._go(Event.FAULT)
            error: SottoError = PeerHalted(
                f"{self._accused!r} stopped the session or stands on another head at round "
                f"{self.position.round}, and nobody has shown proof of a fault",
                sender=self._accused or "",
            )
            return Fail(error, final=True)
        names = ", ".join(repr(name) for name in self.missing)
        hints = "".join(
            f"; {name!r} holds another agreement, {digest.hex()}"
            for name, digest in self._foreign.items()
        )
        patience = self.agreement.transport.patience_seconds
        done = f"round {self.position.round} of {self.agreement.rounds}"
        error = Unavailable(
            f"nothing from {names} for {patience:g} seconds in {done}{hints}. "
            "Nothing is lost: give the same command again when they are back"
        )
        return Fail(error, final=False)

    # Small things

    @property
    def _said(self) -> str:
        return "messages" if self.agreement.masked else "releases"

    @property
    def _last(self) -> str:
        """What the head rests on last, in words."""
        closed = self.position.round
        return f"releases of round {closed - 1}" if closed else "mask keys"

    def _go(self, event: Event) -> None:
        try:
            self.phase = TRANSITIONS[self.phase, event]
        except KeyError:
            raise BrokenInvariant(f"{event.name} cannot happen while {self.phase.name}") from None

    def _signed(self, kind: type[Message], **body: Any) -> Signed:
        """A message from where this party stands."""
        message = kind(
            sender=self.me,
            agreement=self.agreement.digest,
            round=self.position.round,
            head=self.position.head,
            **body,
        )
        return self._pack(message)

    def _send(self, signed: Signed, now: float) -> Send:
        self._timers.sent(now)
        return Send(signed)


def _clash(one: Signed, other: Signed) -> bool:
    """Two different releases of one party for one round, two mask keys, or seals on two heads."""
    a, b = one.message, other.message
    if a.sender != b.sender or a.round != b.round:
        return False
    if isinstance(a, Seal) and isinstance(b, Seal):
        return a.head != b.head
    kinds = (Release, MaskKey)
    return isinstance(a, kinds) and isinstance(b, kinds) and type(a) is type(b) and a != b
