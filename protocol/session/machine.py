"""The lock-step state machine of one party. Events go in, a list of effects comes out.

No IO: whoever runs a `Session` brings the clock, the network, the gate and the disk, and
must carry out the effects in order; how long to wait is asked of `Timers`. Nothing private
passes through here: a session sees prices and releases only, and there is no second
implementation of the protocol anywhere.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from protocol.agreement.model import Agreement
from protocol.errors import (
    BadLedger,
    DifferentAgreement,
    DifferentPrices,
    Diverged,
    Equivocation,
    ImpossibleTotal,
    InternalError,
    PeerError,
    Unavailable,
    Unsealed,
)
from protocol.rounds import RoundEngine, mask_keys, numbers
from protocol.session.effects import Effect, Fail, Finish, Leave, Record, Respond, Send, Warn
from protocol.session.faults import Shown, clash, fits, opened, place
from protocol.session.handshake import Handshake
from protocol.session.timers import Timers
from protocol.wire.codec import Reader, max_message_bytes
from protocol.wire.messages import (
    Halt,
    Hello,
    MaskKey,
    Message,
    Reason,
    Release,
    Seal,
    Signed,
)
from protocol.wire.transcript import Transcript


class Phase(Enum):
    __hash__ = object.__hash__  # each is one object, and asked for with every message

    HANDSHAKE = auto()
    RESPONDING = auto()
    COLLECTING = auto()
    SEALING = auto()
    FINISHED = auto()
    HALTED = auto()


class Event(Enum):
    EVERYONE_ANSWERED = auto()
    SUBMITTED = auto()
    ROUND_CLOSED = auto()
    LAST_ROUND_CLOSED = auto()
    EVERYONE_SEALED = auto()
    FAULT = auto()


TRANSITIONS: dict[tuple[Phase, Event], Phase] = {
    (Phase.HANDSHAKE, Event.ROUND_CLOSED): Phase.HANDSHAKE,
    (Phase.HANDSHAKE, Event.EVERYONE_ANSWERED): Phase.RESPONDING,
    (Phase.HANDSHAKE, Event.LAST_ROUND_CLOSED): Phase.SEALING,
    (Phase.RESPONDING, Event.SUBMITTED): Phase.COLLECTING,
    (Phase.COLLECTING, Event.ROUND_CLOSED): Phase.RESPONDING,
    (Phase.COLLECTING, Event.LAST_ROUND_CLOSED): Phase.SEALING,
    (Phase.SEALING, Event.EVERYONE_SEALED): Phase.FINISHED,
    (Phase.HANDSHAKE, Event.FAULT): Phase.HALTED,
    (Phase.RESPONDING, Event.FAULT): Phase.HALTED,
    (Phase.COLLECTING, Event.FAULT): Phase.HALTED,
    (Phase.SEALING, Event.FAULT): Phase.HALTED,
}
"""The whole machine. What is not in this table cannot happen: what every party has sealed
stays finished, whatever anybody says later, and only a fault that is proved halts. Only
messages, effects and their order are decided elsewhere."""

_IGNORED: dict[Phase, tuple[type[Message], ...]] = {
    Phase.FINISHED: (MaskKey, Release, Halt),
    Phase.HALTED: (Message,),
}
"""What a party no longer looks at."""

_SPOILT = (
    "The same command will find the same. Compare versions with the others. Then `party abandon "
    "--out DIR` ends the session here and destroys its secrets, and the next session can begin at "
    "the prices reached (`coordinator new --from`)"
)
"""What an operator can do about a round that will never close."""


Pack = Callable[[Message], Signed]


class Session:
    """One party's view of a session.

    `past` holds the rounds that the ledger has closed and `own` the party's own releases;
    both are empty at the first start. Restart has no path of its own: what was released is
    found in the ledger by the gate when the session asks for it again. `heard` is what peers
    had said by the last orderly end, so that it is known still. With all seals in `past` the
    session is finished from the start, and stays only to help late peers; with the `proof` of
    a fault it is halted, and stays only to show it.

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
        proof: tuple[Signed, ...] = (),
        now: float = 0.0,
    ) -> None:
        self.agreement = agreement
        self.me = me
        self.phase = Phase.HANDSHAKE
        self.engine = RoundEngine(agreement)
        self._pack = pack
        self._nonce = nonce
        self._reader = Reader(agreement)
        self._longest = max_message_bytes(agreement)
        self._names = tuple(m.name for m in agreement.members)
        self._peers = frozenset(self._names) - {me}
        agreement.place(me)
        self._own_count = len(own)
        self._newest: tuple[Signed, ...] = own[-2:]
        self._greeting = Handshake(self._names, me, nonce)
        self._said_met = b""
        self._unclear: dict[str, Signed] = {}
        self._answered: set[str] = set()
        self._claimed: set[str] = set()
        self._foreign: dict[str, bytes] = {}
        self._now_releases: dict[str, Signed] = {}
        self._next_releases: dict[str, Signed] = {}
        self._last_releases: tuple[Signed, ...] = ()
        self._held: set[bytes] = set()
        self._seals: dict[str, Signed] = {}
        self._complete: set[str] = set()
        self._lost: dict[str, Signed] = {}
        self._lacked: dict[str, tuple[Signed, ...]] = {}
        self._helped: set[tuple[str, int]] = set()
        self._strays: dict[str, Signed] = {}
        self._side: Signed | None = None
        self._heeded_not: set[str] = set()
        self._proof = proof
        self._left = False
        self.state = self.engine.opening
        self._keyless = self.state.chain_hash if agreement.masked else b""
        if past is not None:
            for said in (past.keys, *past.rounds) if past.keys else past.rounds:
                self._step(said)
        if len(own) > self._closed:
            self._now_releases[me] = own[self._closed]
        self._recall(heard)
        self._timers = Timers(agreement, now)
        if past is not None and past.seals:
            self.phase = Phase.FINISHED
            self._seals = {signed.message.sender: signed for signed in past.seals}
            seals = (self._signed(Seal, complete=complete) for complete in (False, True))
            self._newest = (*own[-1:], *seals)
        elif proof:
            self.phase = Phase.HALTED
            self._newest = self._halts(proof)
        self._timers.greeting = self.phase is Phase.HANDSHAKE

    # What the executor may ask

    @property
    def missing(self) -> tuple[str, ...]:
        """The peers that this party is waiting for, in roster order."""
        here = {
            Phase.HANDSHAKE: self._answered,
            Phase.COLLECTING: self._now_releases.keys(),
            Phase.SEALING: self._seals.keys(),
            Phase.FINISHED: self._complete,
        }.get(self.phase, self._peers)
        return tuple(n for n in self._names if n in self._peers and n not in here)

    @property
    def unsealed(self) -> tuple[str, ...]:
        """Whose seals are not known, in roster order."""
        return tuple(n for n in self._names if n != self.me and n not in self._seals)

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
        """What must not be forgotten when the process ends.

        What peers have released in the newest rounds, which shows a peer that its ledger has lost
        it, and their seals; or the proof of the fault that ended the session.
        """
        if self.phase is Phase.HALTED:
            return self._proof
        if self.phase is Phase.FINISHED:
            return ()
        newest = (*self._last_releases, *self._now_releases.values(), *self._next_releases.values())
        said = (*newest, *self._seals.values())
        return tuple(signed for signed in said if signed.message.sender != self.me)

    # Events

    def begin(self, now: float) -> list[Effect]:
        """The process has started."""
        self._timers.progressed(now)
        if self.phase is Phase.FINISHED:
            return [self._finish(), *(self._send(signed, now) for signed in self._newest)]
        if self.phase is Phase.HALTED:
            return [self._send(signed, now) for signed in self._newest]
        if self.state.over:
            return self._seal(now)  # there is nothing to release any more: no answer to wait for
        return [*self._greet(now), *self._close_if_full(now)]

    def submit(self, release: Signed, now: float) -> list[Effect]:
        """The gate has answered `Respond`."""
        message = release.message
        kind = MaskKey if self.state.unpaired else Release
        right = isinstance(message, kind) and message.sender == self.me
        if (
            not right
            or message.round != self.state.round
            or message.chain_hash != self.state.chain_hash
        ):
            raise InternalError("the gate answered with something else than this round's release")
        self._go(Event.SUBMITTED)
        self._own_count = max(self._own_count, self._closed + 1)
        self._now_releases[self.me] = release
        self._newest = (*[s for s in self._newest if s.message != message], release)[-2:]
        self._timers.progressed(now)
        return [self._send(release, now), *self._close_if_full(now)]

    def receive(self, signed: Signed, now: float) -> list[Effect]:
        """A message has come in, its signature verified."""
        message = signed.message
        if self.phase is Phase.HALTED and message.sender != self.me:
            self._timers.hurried()  # somebody still plays: say soon again why not
        if self.phase in _IGNORED and isinstance(message, _IGNORED[self.phase]):
            return []
        if message.sender == self.me:
            return self._receive_own(message)
        if isinstance(message, Release | MaskKey):
            return self._receive_release(signed, message, now)
        if isinstance(message, Hello):
            return self._receive_hello(signed, message, now)
        if isinstance(message, Seal):
            return self._receive_seal(signed, message, now)
        if isinstance(message, Halt):
            return self._receive_halt(signed, message, now)
        raise InternalError(f"no rule for a {type(message).__name__}")

    def tick(self, now: float) -> list[Effect]:
        """Time has passed. Re-sends, answers, and gives up when patience is at its end."""
        effects: list[Effect] = []
        if self._timers.answer_due(now):
            effects.extend(self._greet(now))
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
            effects.extend(self._again(now))
        return effects

    def _again(self, now: float) -> list[Effect]:
        """What may have been lost; and what others lack, whoever said it first."""
        said = [] if self.phase is Phase.HANDSHAKE else list(self._newest)
        if self._side is not None and not self._lingering:
            said.append(self._side)
        for lacked in self._lacked.values():
            said += [signed for signed in lacked if signed not in said]
        self._lacked.clear()
        # Who waits for seals says which: somebody else may have them.
        asks = self.phase in (Phase.HANDSHAKE, Phase.SEALING)
        return [
            *(self._send(signed, now) for signed in said),
            *(self._greet(now) if asks else ()),
        ]

    # Greeting

    def _greet(self, now: float) -> list[Effect]:
        """A hello to all; and with it, to whoever may have lost it, its own newest release."""
        asking, ahead = self.phase is Phase.HANDSHAKE, bytes(map(self._beyond, self._names))
        self._timers.greeted(now, waiting=asking and not self._greeting.complete)
        if asking:
            self._timers.sent(now)  # an answer must not put off what is due to be sent again
        self._said_met = self._greeting.met
        hello = self._signed(
            Hello,
            nonce=self._nonce,
            asking=asking,
            recorded=self._own_count,
            met=self._said_met,
            answer=self._greeting.answer(),
            ahead=ahead if any(ahead) else b"",
        )
        lost = tuple(self._lost.values())
        self._lost.clear()
        return [Send(signed) for signed in (hello, *lost)]

    def _beyond(self, name: str) -> int:
        """How many releases of a peer are known beyond the closed rounds; at the end its seal."""
        if name == self.me:
            return 0
        if self.state.over:
            return int(name in self._seals)
        return 2 if name in self._next_releases else int(name in self._now_releases)

    def _receive_hello(self, signed: Signed, hello: Hello, now: float) -> list[Effect]:
        ours = hello.agreement == self.agreement.digest
        news = self._meet(hello, ours, now)
        if not ours:
            return self._receive_foreign(hello)
        claim = self._claim(hello)
        most = self.agreement.rounds + self.agreement.masked
        if hello.round > self.agreement.rounds or claim > most + 1:
            return []  # there are not so many: nonsense
        self._look_what_lacks(hello, now)
        if self.phase is Phase.FINISHED:
            return []
        self._unclear[hello.sender] = signed
        effects: list[Effect] = []
        # What could not be told of others' hellos may be clear with this nonce.
        for one in tuple(self._unclear.values()) if news else (signed,):
            if isinstance(one.message, Hello) and self._greeting.known_by(one.message):
                del self._unclear[one.message.sender]
                effects += self._receive_answer(one, one.message, now)
        if self.phase is not Phase.HANDSHAKE:
            self._unclear.clear()
        return effects

    def _meet(self, hello: Hello, ours: bool, now: float) -> bool:
        """Remember who is there; whether that start of it is news."""
        greeting = self.phase is Phase.HANDSHAKE
        first = self._greeting.first(hello.sender)
        news = self._greeting.heard(hello)
        if greeting and first and news:
            self._timers.excused(now)
        # Who has heard what we said last needs no answer while we go on saying it.
        told = greeting and ours and hello.met == self._said_met
        if hello.asking and not told:
            self._greeting.asked(hello, comparable=ours)
            self._timers.answer_owed = True
        if news and self._greeting.complete:
            self._timers.all_here()
        return news

    def _claim(self, hello: Hello) -> int:
        """How many releases of ours its sender says to know. A seal may count too."""
        return self._index(hello) + hello.beyond(self.agreement.place(self.me))

    def _receive_answer(self, signed: Signed, hello: Hello, now: float) -> list[Effect]:
        """A hello that was made after our start. All others prove nothing."""
        if not self._ahead(hello) and hello.chain_hash != self.state.chain_hash:
            return self._dispute(signed, now)
        if self.phase is not Phase.HANDSHAKE:
            return []
        claim = min(self._claim(hello), self.agreement.rounds + self.agreement.masked)
        if claim > self._own_count:
            return self._doubt(hello.sender, claim)
        if hello.sender in self._answered:
            return []
        self._foreign.pop(hello.sender, None)
        self._answered.add(hello.sender)
        if hello.sender not in self._claimed:  # to claim, and take it back, buys no patience
            if self._greeting.complete:
                self._timers.progressed(now)
            else:
                self._timers.excused(now)  # nobody can go on yet: no reason to ask sooner
        if self._answered != self._peers:
            return []
        # The last to answer must hear that it was answered: an asker's hello is due first.
        effects: list[Effect] = self._greet(now) if self._timers.answer_owed else []
        self._go(Event.EVERYONE_ANSWERED)
        return [*effects, Respond(self.state)]

    def _look_what_lacks(self, hello: Hello, now: float) -> None:
        """What its sender has not, by its own word, and we have.

        Its own newest release, which it must have had: it is given back, as the proof that its
        ledger is an old copy. And at the end of a session what others have said, who may be gone.
        """
        sender, stands, row = hello.sender, self._index(hello), self.agreement.place
        last = self._last_releases[row(sender) : row(sender) + 1]
        boxes = (self._now_releases, self._next_releases)
        said = [*last, *(box[sender] for box in boxes if sender in box)]
        if hello.asking and said and self._index(said[-1].message) >= hello.recorded:
            self._lost[sender] = said[-1]
        if not self.state.over or self._ahead(hello) not in (-1, 0):
            return
        held = self._seals
        if self._ahead(hello) < 0:
            held = dict(zip(self._names, self._last_releases, strict=True))
        lacked = tuple(
            signed
            for name, signed in held.items()
            if name not in (self.me, sender) and not hello.beyond(row(name))
        )
        self._lacked[sender] = lacked
        if lacked and (sender, stands) not in self._helped:
            self._helped.add((sender, stands))
            self._timers.progressed(now)  # stays for it, once for each step

    def _doubt(self, sender: str, claim: int) -> list[Effect]:
        """A claim is no proof: our ledger stands, but its sender has not answered either."""
        self._answered.discard(sender)
        if sender in self._claimed:
            return []
        self._claimed.add(sender)
        return [
            Warn(
                f"{sender!r} says that it knows {claim} releases of {self.me!r}, but this ledger "
                f"holds {self._own_count}; waiting for it to show one of them, or to answer rightly"
            )
        ]

    def _receive_foreign(self, hello: Hello) -> list[Effect]:
        """Somebody holds another agreement: the few who differ from the most must stop."""
        if hello.answer != self._nonce or self.phase is not Phase.HANDSHAKE:
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
        """What we have signed ourselves. A release that the ledger lacks proves it to be old."""
        if not isinstance(message, Release | MaskKey) or self._index(message) < self._own_count:
            return []
        self._left = True
        what = f"release {message.round + 1}" if isinstance(message, Release) else "the mask key"
        error = BadLedger(
            f"others know {what} of {self.me!r}, signed with its key, but this ledger holds "
            f"{self._own_count} {self._said}: it is an old copy. Nothing was released. Bring "
            "back the newest copy of the ledger; without it this session cannot go on"
        )
        return [Fail(error, final=False)]

    # Rounds

    def _receive_release(
        self, signed: Signed, message: Release | MaskKey, now: float
    ) -> list[Effect]:
        sender, ahead = message.sender, self._ahead(message)
        if ahead not in (-1, 0, 1):
            return []  # older rounds are closed; nobody honest is further ahead
        if other := self._contradicted(signed):
            return self._convict(other, signed, now)
        box = self._now_releases if ahead == 0 else self._next_releases
        if ahead == -1 or self.state.over or sender in box:
            return []
        if ahead == 0 and message.chain_hash != self.state.chain_hash:
            return self._dispute(signed, now)
        box[sender] = signed
        self._held.add(signed.data)
        if ahead == 0:
            self._settled(sender)
            self._timers.progressed(now)
        return self._close_if_full(now)

    def _recall(self, heard: tuple[Signed, ...]) -> None:
        """Hold again what was held when the process last ended, where it is not closed by now."""
        for signed in heard:
            message, ahead = signed.message, self._ahead(signed.message)
            here = ahead == 0 and message.chain_hash == self.state.chain_hash
            if message.sender not in self._peers or not (here or ahead == 1):
                continue
            if isinstance(message, Seal) and here == self.state.over:
                self._seals[message.sender] = signed
            elif isinstance(message, Release | MaskKey) and not self.state.over:
                box = self._now_releases if ahead == 0 else self._next_releases
                box[message.sender] = signed
                self._held.add(signed.data)

    def _close_if_full(self, now: float) -> list[Effect]:
        """Close the round with all its releases. While greeting, too: ours was recorded before."""
        gathering = self.phase in (Phase.HANDSHAKE, Phase.COLLECTING)
        if not gathering or len(self._now_releases) < len(self._names):
            return []
        releases = tuple(self._now_releases[name] for name in self._names)
        try:
            self._step(releases)
        except ImpossibleTotal as error:
            # Everybody sees it who has these releases, and they prove nothing against anybody.
            shown = tuple(signed.data for signed in releases)
            return [Fail(ImpossibleTotal(f"{error}. {_SPOILT}", evidence=shown), final=False)]
        self._now_releases, self._next_releases = self._next_releases, {}
        self._held = {held.data for held in (*releases, *self._now_releases.values())}
        self._strays.clear()
        self._side = None
        effects: list[Effect] = [Record(self.state.round - 1, releases)]
        for kept in (self._now_releases, self._seals):
            for signed in [
                s for s in kept.values() if s.message.chain_hash != self.state.chain_hash
            ]:
                del kept[signed.message.sender]
                effects += self._dispute(signed, now)
        if self.state.over:
            return [*effects, *self._seal(now)]
        self._seals.clear()  # of who sealed too early: it has to seal again
        self._go(Event.ROUND_CLOSED)
        return [*effects, Respond(self.state)] if self.phase is Phase.RESPONDING else effects

    def _step(self, releases: tuple[Signed, ...]) -> None:
        """Close the present round, or before the first one the exchange of mask keys."""
        if self.state.unpaired:
            self.state = self.engine.pair(self.state, mask_keys(releases))
        else:
            self.state = self.engine.advance(self.state, numbers(releases))
        self._last_releases = releases

    @property
    def _closed(self) -> int:
        """How many exchanges are closed: rounds, and the mask keys where there are such."""
        paired = self.agreement.masked and not self.state.unpaired
        return self.state.round + paired

    def _index(self, message: Message) -> int:
        """How many exchanges come before the one in which a message stands."""
        return place(message, self._keyless) + self.agreement.masked

    def _ahead(self, message: Message) -> int:
        """How many exchanges a message is ahead of where this party stands."""
        return self._index(message) - self._closed

    # Sealing

    def _seal(self, now: float) -> list[Effect]:
        self._go(Event.LAST_ROUND_CLOSED)
        self._timers.progressed(now)
        return [self._send_seal(now), *self._finish_if_sealed(now)]

    def _send_seal(self, now: float) -> Send:
        """Ours, then that all have been heard: which says so, and is kept by nobody."""
        complete = self.phase is Phase.FINISHED
        seal = self._signed(Seal, complete=complete)
        if not complete:
            self._seals[self.me] = seal
            self._newest = self._newest[-1:]
        self._newest = (*self._newest, seal)
        return self._send(seal, now)

    def _receive_seal(self, signed: Signed, message: Seal, now: float) -> list[Effect]:
        ahead = self._ahead(message)
        if ahead != 0 and (ahead != 1 or self.state.over):
            return []  # nobody honest is further ahead
        if other := self._contradicted(signed):
            return [] if self.phase is Phase.FINISHED else self._convict(other, signed, now)
        if ahead == 0 and message.chain_hash != self.state.chain_hash:
            return self._dispute(signed, now)
        if ahead == 0 and not self.state.over:
            return []  # the rounds are not over, whoever says so
        if message.complete:
            if ahead == 0:
                self._complete.add(message.sender)
        elif message.sender not in self._seals:
            self._seals[message.sender] = signed
            self._settled(message.sender)
            self._timers.progressed(now)
        elif self.phase is Phase.FINISHED and message.sender not in self._complete:
            # It has not heard all seals: say ours again, at most once in a while.
            self._timers.hurried()
        return self._finish_if_sealed(now)

    def _finish_if_sealed(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self.phase is Phase.SEALING and self._peers <= self._seals.keys():
            self._go(Event.EVERYONE_SEALED)
            self._timers.progressed(now)
            effects = [self._finish(), self._send_seal(now)]
        if self.phase is Phase.FINISHED and self._complete == self._peers and not self._left:
            self._left = True
            effects.append(Leave())
        return effects

    def _finish(self) -> Finish:
        return Finish(self.state, tuple(self._seals[name] for name in self._names))

    # Faults

    def _contradicted(self, signed: Signed) -> Signed | None:
        """Something else of the same sender that nobody honest signs beside this."""
        sender = signed.message.sender
        place = self.agreement.place(sender)
        boxes = (self._now_releases, self._next_releases, self._seals, self._strays)
        held = (*self._last_releases[place : place + 1], *(box.get(sender) for box in boxes))
        return next((one for one in held if one is not None and self._clash(one, signed)), None)

    def _clash(self, one: Signed, other: Signed) -> bool:
        return clash(one, other, self._keyless) and fits((one, other), self._longest)

    def _dispute(self, cause: Signed, now: float) -> list[Effect]:
        """Somebody stands on another head: show our side and what differs from it.

        Nothing ends by that. Whoever was told other things than we were finds the proof in it.
        """
        sender, strays = cause.message.sender, self._strays
        if sender in strays and not isinstance(strays[sender].message, Hello):
            return []
        news = sender not in strays
        strays[sender] = cause
        if not news and isinstance(cause.message, Hello):
            return []
        if news:
            self._timers.progressed(now)
        differing = () if isinstance(cause.message, Halt) else (cause,)
        self._side = self._halt(Reason.HEADS_DIFFER, (*self._last_releases, *differing))
        return [self._send(self._side, now)]

    def _settled(self, sender: str) -> None:
        """Somebody who seemed to stand elsewhere stands here."""
        if self._strays.pop(sender, None) and not self._strays:
            self._side = None

    def _receive_halt(self, signed: Signed, halt: Halt, now: float) -> list[Effect]:
        """Somebody shows something. Look for proof in it, alone and beside what we hold."""
        shown = opened(self._reader, halt)
        said, before = (signed, *shown), Shown(self._keyless, self._longest)
        for one in said:
            if one.message.sender == self.me and (old := self._receive_own(one.message)):
                return old
            if other := self._contradicted(one) or before.add(one):
                return self._convict(other, one, now)
        for one in said:
            if self._got_other_prices(one):
                return self._convict_of_prices(one, now)
        if self._differs(signed):
            return self._dispute(signed, now)
        for one in filter(self._differs, shown):
            self._strays.setdefault(one.message.sender, one)
        if halt.reason is not Reason.EQUIVOCATION or halt.sender in self._heeded_not:
            return []
        self._heeded_not.add(halt.sender)
        return [Warn(f"{halt.sender!r} says that somebody lied and proves it of nobody; going on")]

    def _differs(self, signed: Signed) -> bool:
        """Whether a peer stands on another head in the round in which we stand."""
        message = signed.message
        here = not self._ahead(message) and message.agreement == self.agreement.digest
        return (
            here and message.chain_hash != self.state.chain_hash and message.sender in self._peers
        )

    def _got_other_prices(self, signed: Signed) -> bool:
        """Whether a Halt shows the releases of our last round, and stands on another head."""
        message, last = signed.message, self._last_releases
        if not isinstance(message, Halt) or not self._differs(signed) or not last:
            return False
        if len(message.evidence) < len(last) or not fits((signed,), self._longest):
            return False
        return {s.message for s in last} <= {s.message for s in opened(self._reader, message)}

    def _convict(self, one: Signed, other: Signed, now: float) -> list[Effect]:
        sender = one.message.sender
        what = f"different messages for round {one.message.round}"
        if isinstance(one.message, MaskKey) and isinstance(other.message, MaskKey):
            what = "different mask keys"
        error = Equivocation(
            f"{sender!r} signed two {what}; both are kept as evidence and the session is over",
            sender=sender,
            evidence=(one.data, other.data),
        )
        return self._stop((one, other), error, now)

    def _convict_of_prices(self, halt: Signed, now: float) -> list[Effect]:
        sender = halt.message.sender
        error = DifferentPrices(
            f"{sender!r} got other prices than {self.me!r} from the same {self._last}; "
            "compare versions and machines",
            sender=sender,
            evidence=(halt.data,),
        )
        return self._stop((halt,), error, now)

    def _stop(self, proof: tuple[Signed, ...], error: PeerError, now: float) -> list[Effect]:
        """The session is over for good: tell why, and show it."""
        self._go(Event.FAULT)
        self._timers.progressed(now)
        self._proof = proof
        self._newest = self._halts(proof)
        sent = [self._send(signed, now) for signed in self._newest]
        return [*sent, Fail(error, final=True)]

    def _halts(self, proof: tuple[Signed, ...]) -> tuple[Signed, ...]:
        """What shows a proof to others. About prices there are two sides, and ours is shown too."""
        if len(proof) > 1:
            return (self._halt(Reason.EQUIVOCATION, proof),)
        ours = self._halt(Reason.HEADS_DIFFER, self._last_releases)
        return ours, self._halt(Reason.HEADS_DIFFER, proof)

    def _halt(self, reason: Reason, evidence: tuple[Signed, ...]) -> Signed:
        return self._signed(Halt, reason=reason, evidence=tuple(s.data for s in evidence))

    def _give_up(self) -> Fail:
        """Patience is at its end. Nothing is final: the same command goes on."""
        astray = [name for name in self.missing if name in self._strays]
        names = ", ".join(repr(name) for name in self.missing)
        hints = "".join(
            [
                *(f"; {name!r} stands on another head" for name in astray),
                *(
                    f"; {name!r} holds another agreement, {digest.hex()}"
                    for name, digest in self._foreign.items()
                ),
                *(
                    f"; {name!r} claims to know more of our releases than this ledger holds, and "
                    "has shown none"
                    for name in self.missing
                    if name in self._claimed
                ),
            ]
        )
        patience = self.agreement.transport.patience_seconds
        done = f"round {self.state.round} of {self.agreement.rounds}"
        if self.phase is Phase.SEALING:
            return Fail(
                Unsealed(
                    f"all rounds are closed, but there is no seal of {names}{hints}. The outcome "
                    "stands as it is, unsealed; give the same command again when they are back, "
                    "or anybody who has their seals"
                ),
                final=False,
            )
        if astray:
            first = astray[0]
            return Fail(
                Diverged(
                    f"{first!r} stands on another head in {done}, and for {patience:g} seconds "
                    "nobody has shown why. Nothing is lost: the same command goes on",
                    sender=first,
                    evidence=(self._strays[first].data,),
                ),
                final=False,
            )
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
        closed = self.state.round
        return f"releases of round {closed - 1}" if closed else "mask keys"

    def _go(self, event: Event) -> None:
        try:
            self.phase = TRANSITIONS[self.phase, event]
        except KeyError:
            raise InternalError(f"{event.name} cannot happen while {self.phase.name}") from None
        self._timers.greeting = self.phase is Phase.HANDSHAKE

    def _signed(self, kind: type[Message], **body: Any) -> Signed:
        """A message from where this party stands."""
        message = kind(
            sender=self.me,
            agreement=self.agreement.digest,
            round=self.state.round,
            chain_hash=self.state.chain_hash,
            **body,
        )
        return self._pack(message)

    def _send(self, signed: Signed, now: float) -> Send:
        self._timers.sent(now)
        return Send(signed)
