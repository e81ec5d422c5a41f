"""Plays every order of events of a small session, with the real code of its parties.

A state of the exploration is the state of every party and the set of all messages that were ever
sent. Any of them may arrive at any party at any time, any number of times, or never. So every
loss, repetition, delay and order is covered, without a bound. Crashes are bounded, and a member
that lies signs one kind of lie. Every state is checked, and from every state the session must
reach its end once all parties run and nothing is lost.

States that differ only in the Hellos that were sent are merged: the merged state has the Hellos of
all of them. This can add behaviour, but it never hides any. Never here: how a party acts
(`explored_party`).
"""

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from protocol.agreement.model import Agreement
from protocol.errors import DifferentPrices, Diverged, Equivocation, ImpossibleTotal, Unavailable
from protocol.session.handshake import CONTEXT
from protocol.session.phases import Phase
from protocol.wire.messages import (
    NO_NONCE,
    Commitment,
    Contribution,
    Hello,
    Message,
    Release,
    Seal,
    Signed,
)
from tests.support.explored_party import Event, Players, Step
from tests.support.simulated_disk import Violation

CALM_TURNS = 60
"""Turns of all parties within which a session must end once nothing is lost any more."""

Sent = frozenset[int]
Lie = Callable[[Signed], list[Signed]]
"""What a liar also signs when it sends this message."""


class State(NamedTuple):
    """The states of all parties, what they have sent besides Hellos, and the crashes left."""

    parties: tuple[int, ...]
    sent: Sent
    crashes: int


class Move(NamedTuple):
    """An event at one party, and what it leads to."""

    party: int
    event: Event
    step: Step


class Found(Exception):
    """A broken promise, with the events that led to it."""

    def __init__(self, what: str, trace: list[str]) -> None:
        super().__init__("\n".join([what, *trace]))


class Explorer:
    """All states of one session within some bounds."""

    def __init__(
        self,
        agreement: Agreement,
        *,
        crashes: int = 0,
        liar: int | None = None,
        lie: Lie = lambda _signed: [],
        greeted: bool = False,
    ) -> None:
        """`greeted`: begin after a handshake whose Hellos have all arrived, and only once."""
        self.agreement = agreement
        self.players = Players(agreement)
        self._crashes, self._liar, self._lie, self._greeted = crashes, liar, lie, greeted
        self._honest = [k for k in range(len(agreement.members)) if k != liar]
        #: The Hellos that all parties had received before the first state.
        self._arrived: Sent = frozenset()
        #: The Hellos that were sent on some way to each state.
        self._hellos: dict[State, Sent] = {}
        #: How each state was first reached.
        self._origin: dict[State, tuple[State, Move] | None] = {}
        #: The Hellos that a state had when it was last visited.
        self._visited: dict[State, Sent] = {}
        #: The states after each state, with the Hellos that are sent on the way.
        self._edges: dict[State, dict[State, Sent]] = {}
        #: From these states of all parties the end is reached.
        self._live: set[tuple[int, ...]] = set()
        #: The most events on the shortest way to any state.
        self.depth = 0

    @property
    def states(self) -> int:
        return len(self._origin)

    def run(self, *, most_states: int = 10**9) -> bool:
        """Explore until nothing is new; False if there are more than `most_states`.

        Raises `Found` with the events that lead to a broken promise.
        """
        first = self._first()
        self._origin[first], self._hellos[first] = None, frozenset()
        queue, waiting, depths = deque([first]), {first}, {first: 0}
        while queue and len(self._origin) <= most_states:
            state = queue.popleft()
            waiting.discard(state)
            for move, after, added in self._new_moves(state):
                if after not in self._origin:
                    self._origin[after], self._hellos[after] = (state, move), frozenset()
                    depths[after] = depths[state] + 1
                    waiting.add(after)
                    queue.append(after)
                if move.party != self._liar:
                    self._check(state, move, after)
                edges = self._edges.setdefault(state, {})
                edges[after] = edges.get(after, frozenset()) | added
            for after, added in self._edges.get(state, {}).items():
                grown = self._hellos[after] | self._hellos[state] | added
                if grown != self._hellos[after]:
                    self._hellos[after] = grown
                    if after not in waiting:
                        waiting.add(after)
                        queue.append(after)
        self.depth = max(depths.values())
        return not queue

    # What can happen

    def _first(self) -> State:
        parties = range(len(self.agreement.members))
        state = State(tuple(map(self.players.absent, parties)), frozenset(), self._crashes)
        hellos: Sent = frozenset()
        events = [(k, Event("start")) for k in parties] if self._greeted else []
        while events:
            party, event = events.pop(0)
            move = Move(party, event, self.players.step(state.parties[party], event))
            state, added = self._after(state, move)
            events += [(k, one) for one in _receipts(added - hellos) for k in parties]
            hellos |= added
            if not events and any(self._greeting(local) for local in state.parties):
                events = [(k, Event("resend")) for k in parties]
        self._arrived = hellos
        return state

    def _greeting(self, local: int) -> bool:
        driver = self.players.locals[local].driver
        return driver is not None and driver.session.phase is Phase.HANDSHAKE

    def _new_moves(self, state: State) -> Iterator[tuple[Move, State, Sent]]:
        """All moves from a state; when it comes again, those that new Hellos allow."""
        hellos, before = self._hellos[state], self._visited.get(state)
        self._visited[state] = hellos
        if before is None and self._liar is None:
            self._require_end(state)
        for local in state.parties:
            held = self.players.locals[local]
            if before is not None:
                events = [] if held.driver is None else _receipts(hellos - before)
            elif held.driver is None:
                events = [Event("start")] if self._may_start(local) else []
            else:
                events = [Event("reply"), Event("resend"), *_receipts(state.sent | hellos)]
                events += [Event("crash")] if state.crashes else []
            for event in events:
                step = self._play(state, local, event)
                if step.after == local and not step.sends:
                    continue
                failures = _failures(event, step) if state.crashes else ()
                for one in (event, *failures):
                    move = Move(held.party, one, self._play(state, local, one))
                    yield move, *self._after(state, move)

    def _play(self, state: State, local: int, event: Event) -> Step:
        try:
            return self.players.step(local, event)
        except Exception as error:  # a party must not fail for any order of events
            failed = Move(self.players.locals[local].party, event, Step(local, (), 0))
            raise Found(f"{type(error).__name__}: {error}", self.trace(state, failed)) from error

    def _may_start(self, local: int) -> bool:
        """Whether an operator starts this party: the first time, and after a crash."""
        held = self.players.locals[local]
        return held.error is None and not (held.life and held.stored.seals)

    def _after(self, state: State, move: Move) -> tuple[State, Sent]:
        """The state after a move, and the Hellos that it adds."""
        parties = list(state.parties)
        parties[move.party] = move.step.after
        sends = set(move.step.sends)
        if move.party == self._liar:
            sends.update(*(self._lies(number) for number in move.step.sends))
        hellos = {n for n in sends if isinstance(self.players.messages[n].message, Hello)}
        sent = state.sent | (sends - hellos)
        crashes = state.crashes - move.event.is_crash
        return State(tuple(parties), sent, crashes), frozenset(hellos)

    def _lies(self, number: int) -> list[int]:
        signed = self.players.messages[number]
        if self._liar is None or signed.message.sender != self.players.names[self._liar]:
            return []
        return [self.players.message_id(lie) for lie in self._lie(signed)]

    # What must hold

    def _check(self, before: State, move: Move, after: State) -> None:
        try:
            self._check_start(before, move)
            self._check_made(before, move)
            self._check_sent(before, move, after)
            self._check_party(after.parties[move.party])
            self._check_ends(after)
        except Violation as violation:
            raise Found(str(violation), self.trace(before, move)) from None

    def _messages(self, sent: Sent) -> list[Message]:
        return [self.players.messages[number].message for number in sent]

    def _check_start(self, before: State, move: Move) -> None:
        """A party uses a nonce for one start only."""
        if move.event.kind != "start":
            return
        name = self.players.names[move.party]
        sent = [m for m in self._messages(self._hellos[before] | self._arrived) if m.sender == name]
        for number in move.step.sends:
            message = self.players.messages[number].message
            if not isinstance(message, Hello):
                continue
            if any(isinstance(m, Hello) and m.nonce == message.nonce for m in sent):
                raise Violation(f"{name} used a nonce again")

    def _check_made(self, before: State, move: Move) -> None:
        """A party makes a release only after every peer has answered this start of it."""
        party = move.party
        held = self.players.locals[before.parties[party]]
        then = self.players.locals[move.step.after]
        if held.stored.sent == then.stored.sent:
            return
        nonce, covering = self.players.nonce(party, then.life), self._covering(party, then.life)
        hellos = self._messages(self._hellos[before] | self._arrived)
        answers = [message for message in hellos if isinstance(message, Hello)]
        answered = {a.sender for a in answers if a.echo == nonce or a.nonce_digest in covering}
        missing = set(self.players.names) - answered - {self.players.names[party]}
        if missing:
            name = self.players.names[party]
            raise Violation(f"{name} made a release before {sorted(missing)} answered")

    def _covering(self, party: int, life: int) -> set[bytes]:
        """The digests of nonces that cover this start of a party."""
        lives = range(1, self._crashes + 2)
        choices = [
            [self.players.nonce(k, life)]
            if k == party
            else [NO_NONCE, *(self.players.nonce(k, one) for one in lives)]
            for k in range(len(self.players.names))
        ]
        return {
            hashlib.sha256(b"".join((CONTEXT, *nonces))).digest()
            for nonces in itertools.product(*choices)
        }

    def _check_sent(self, before: State, move: Move, after: State) -> None:
        """Check what an honest party signs against its disk and all that was ever signed."""
        name, stored = self.players.names[move.party], self.players.locals[move.step.after].stored
        once = [pair[1] for pair in (stored.mask, stored.opening) if pair]
        own = [signed.message for signed in (*stored.releases, *once)]
        for number in move.step.sends:
            message = self.players.messages[number].message
            if message.sender != name or not isinstance(message, Contribution | Seal):
                continue
            if not isinstance(message, Seal):
                if message not in own:
                    raise Violation(f"{name} sent a message that its disk does not hold")
                if any(
                    _same_slot(message, m) and m != message for m in self._messages(before.sent)
                ):
                    raise Violation(f"{name} signed two messages for one exchange")
            self._check_chain(message, after)

    def _check_chain(self, message: Message, after: State) -> None:
        """No honest party builds on a round that honest parties closed with other hashes."""
        names = {self.players.names[k] for k in self._honest}
        hashes: dict[int, set[bytes]] = {}
        for other in self._messages(after.sent):
            if other.sender in names and isinstance(other, Release | Commitment | Seal):
                hashes.setdefault(other.round, set()).add(other.chain_hash)
        if len(hashes.get(message.round - 1, ())) > 1:
            raise Violation(f"round {message.round - 1} was closed with different chain hashes")
        if self._liar is None and len(hashes.get(message.round, ())) > 1:
            raise Violation(f"honest parties have different chain hashes in {message.round}")

    def _check_party(self, local: int) -> None:
        """Check how a party ended, or why it stopped."""
        held = self.players.locals[local]
        name, error = self.players.names[held.party], held.error
        if held.stored.seals and held.stored.fault:
            raise Violation(f"{name} both finished and failed")
        if held.stored.seals and held.stored.mask and held.stored.mask[0]:
            raise Violation(f"{name} finished and still has its secret mask key")
        if error is None or isinstance(error, Unavailable):
            return
        liar = None if self._liar is None else self.players.names[self._liar]
        if isinstance(error, Equivocation | DifferentPrices | Diverged) and error.sender == liar:
            return
        if isinstance(error, ImpossibleTotal) and liar is not None and self.agreement.masked:
            return
        raise Violation(f"{name} has no reason for {type(error).__name__}: {error}")

    def _check_ends(self, state: State) -> None:
        """All parties that finished have the same rounds and the same final chain hash."""
        ends = set()
        for k in self._honest:
            stored = self.players.locals[state.parties[k]].stored
            if stored.seals:
                rounds = tuple(signed.data for row in stored.rounds for signed in row)
                ends.add((rounds, *(signed.message.chain_hash for signed in stored.seals)))
        if len(ends) > 1:
            raise Violation("parties finished with different transcripts")

    def _require_end(self, state: State) -> None:
        """From here, with all parties running and nothing lost, the session must end."""
        path, current = [], state.parties
        for _ in range(CALM_TURNS):
            if current in self._live:
                break
            path.append(current)
            if all(self.players.locals[one].stored.seals for one in current):
                break
            current = self._calm_turn(state, current)
        else:
            raise Found("the session does not end although nothing is lost", self.trace(state))
        self._live.update(path)

    def _calm_turn(self, origin: State, parties: tuple[int, ...]) -> tuple[int, ...]:
        """Every party runs, sends again, and receives all that is sent meanwhile."""
        now, pending = list(parties), deque[int]()

        def play(party: int, event: Event) -> None:
            down = self.players.locals[now[party]].driver is None
            if down == (event.kind == "start"):
                step = self._play(origin, now[party], event)
                now[party] = step.after
                pending.extend(step.sends)

        for party, kind in itertools.product(range(len(now)), ("start", "reply", "resend")):
            play(party, Event(kind))
        while pending:
            message = pending.popleft()
            for party in range(len(now)):
                play(party, Event("receive", message))
        return tuple(now)

    # How it came to a state

    def trace(self, state: State, last: Move | None = None) -> list[str]:
        """The events from the first state to this one, and one more, a line each."""
        moves = [] if last is None else [last]
        while (origin := self._origin[state]) is not None:
            state, move = origin
            moves.append(move)
        return [f"{n:3d}  {self._line(move)}" for n, move in enumerate(reversed(moves), start=1)]

    def _line(self, move: Move) -> str:
        name, event = self.players.names[move.party], move.event
        text = f"{name}: {event.kind}"
        if event.kind == "receive":
            text += f" {self._brief(event.message)}"
        if event.fails_at is not None:
            text += f", loses power at step {event.fails_at} of its disk"
        if event.sent is not None:
            text += f", loses power after {event.sent} messages left"
        if move.step.sends:
            text += "; sends " + ", ".join(map(self._brief, move.step.sends))
        return text

    def _brief(self, number: int) -> str:
        message = self.players.messages[number].message
        return f"{type(message).__name__} {message.round} of {message.sender} (#{number})"


def _receipts(messages: Sent) -> list[Event]:
    return [Event("receive", message) for message in sorted(messages)]


def _failures(event: Event, step: Step) -> Iterator[Event]:
    """This event with a loss of power at each step of the disk, and between two messages."""
    for fails_at in range(step.power_steps):
        yield event._replace(fails_at=fails_at)
    for count in range(len(step.sends)):
        yield event._replace(sent=count)


def _same_slot(one: Message, other: Message) -> bool:
    same_kind = type(one) is type(other) and isinstance(one, Contribution)
    return same_kind and (one.sender, one.round) == (other.sender, other.round)
