"""Plays every order of events of a small session, one state after the other.

A state of the exploration is the state of every party and the set of all messages that were ever
sent. Any of them may arrive at any party at any time, any number of times, or never. So every
loss, repetition, delay and order is covered, without a bound. Crashes are bounded, and one member
may lie. Every state is checked; then, from every state, the session must reach its end. States are
visited breadth first, so the first broken promise has a shortest trace.

States that differ only in the Hellos that were sent are merged: the merged state has the Hellos of
all of them. This can add behaviour, but it never hides any. Never here: how a party acts
(`party`), or what must hold (`promises`).
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from protocol.session.phases import Phase
from protocol.wire.messages import Contribution, Hello, Seal, Signed
from tests.support.exploration.case import Case
from tests.support.exploration.liveness import Liveness
from tests.support.exploration.party import Event, Step
from tests.support.exploration.promises import Promises
from tests.support.exploration.trace import Found, Move, line
from tests.support.simulated_disk import Violation

Sent = frozenset[int]


class State(NamedTuple):
    """The states of all honest parties, what they sent besides Hellos, and the crashes left."""

    parties: tuple[int, ...]
    sent: Sent
    crashes: int


class Explorer:
    """All states of one session within some bounds."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.players = case.players()
        self.liveness = Liveness(self.players, case.liar)
        self._promises = Promises(self.players, case.liar)
        self._alphabet = case.alphabet(self.players)
        #: All that a liar can sign once these messages are sent.
        self._lies: dict[Sent, Sent] = {}
        #: The Hellos that were sent on some way to each state.
        self._hellos: dict[State, Sent] = {}
        #: How each state was first reached, and in how many events.
        self._origin: dict[State, tuple[State, Move] | None] = {}
        self._depths: dict[State, int] = {}
        #: The Hellos that a state had when it was last visited.
        self._visited: dict[State, Sent] = {}
        #: The states after each state, with the Hellos that are sent on the way.
        self._edges: dict[State, dict[State, Sent]] = {}
        #: The events before the first state, if the handshake is over then.
        self._greetings: list[Move] = []

    @property
    def states(self) -> int:
        return len(self._origin)

    @property
    def depth(self) -> int:
        """The most events on the shortest way to any state."""
        return max(self._depths.values())

    def run(self) -> Iterator[None]:
        """Explore until nothing is new. Raises `Found` with the events to a broken promise."""
        first = self._first()
        self._origin[first], self._hellos[first], self._depths[first] = None, frozenset(), 0
        queue, waiting = deque([first]), {first}
        while queue:
            state = queue.popleft()
            waiting.discard(state)
            for move, after, added in self._new_moves(state):
                if after not in self._origin:
                    self._origin[after], self._hellos[after] = (state, move), frozenset()
                    self._depths[after] = self._depths[state] + 1
                    waiting.add(after)
                    queue.append(after)
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
            yield
        for state in self._origin:
            self._require_end(state)
            yield

    # What can happen

    def _first(self) -> State:
        parties = [self.players.absent(place) for place in self.case.honest]
        state = State(tuple(parties), frozenset(), self.case.crashes)
        hellos: Sent = frozenset()
        places = range(len(parties))
        events = [(k, Event("start")) for k in places] if self.case.greeted else []
        if events and self.case.lies is not None:  # a liar that begins as agreed
            agreed = replace(self.case, lies=()).alphabet(self.players)([])
            hellos = frozenset(self.players.message_id(one) for one in agreed if _is_hello(one))
            events += [(k, one) for one in _receipts(hellos) for k in places]
        while events:
            party, event = events.pop(0)
            move = self._move(state, party, event)
            self._greetings.append(move)
            state, added = self._after(state, party, move)
            new = _receipts(added - hellos)
            events += [(k, one) for one in new for k in places]
            hellos |= added
            if not events and any(self._greeting(local) for local in state.parties):
                events = [(k, Event("resend")) for k in places]
        return state

    def _greeting(self, local: int) -> bool:
        driver = self.players.locals[local].driver
        return driver is not None and driver.session.phase is Phase.HANDSHAKE

    def _new_moves(self, state: State) -> Iterator[tuple[Move, State, Sent]]:
        """All moves from a state; when it comes again, those that new Hellos allow."""
        hellos, before = self._hellos[state], self._visited.get(state)
        self._visited[state] = hellos
        for at, local in enumerate(state.parties):
            held = self.players.locals[local]
            if before is not None:
                events = [] if held.driver is None else _receipts(hellos - before)
            elif held.driver is None:
                events = [Event("start")] if self._may_start(local) else []
            else:
                sent = state.sent | hellos | self._lies_after(state.sent)
                events = [Event("reply"), Event("resend"), *_receipts(sent)]
                events += [Event("crash")] if state.crashes else []
            for event in events:
                step = self._move(state, at, event).step
                if step.after == local and not step.sends:
                    continue
                failures = _failures(event, step) if state.crashes else ()
                for one in (event, *failures):
                    move = self._move(state, at, one)
                    yield move, *self._after(state, at, move)

    def _move(self, state: State, at: int, event: Event) -> Move:
        local = state.parties[at]
        party = self.players.locals[local].party
        try:
            return Move(party, event, self.players.step(local, event))
        except Exception as error:  # a party must not fail for any order of events
            failed = Move(party, event, Step(local, (), 0))
            raise Found(_what(error), self.trace(state, failed)) from error

    def _may_start(self, local: int) -> bool:
        """Whether an operator starts this party: the first time, and after a crash."""
        held = self.players.locals[local]
        return held.error is None and not (held.life and held.stored.seals)

    def _after(self, state: State, at: int, move: Move) -> tuple[State, Sent]:
        """The state after a move, and the Hellos that it adds."""
        parties = (*state.parties[:at], move.step.after, *state.parties[at + 1 :])
        sends = set(move.step.sends)
        hellos = {n for n in sends if _is_hello(self.players.messages[n])}
        crashes = state.crashes - move.event.is_crash
        return State(parties, state.sent | (sends - hellos), crashes), frozenset(hellos)

    def _lies_after(self, sent: Sent) -> Sent:
        if sent not in self._lies:
            seen = [self.players.messages[number] for number in sorted(sent)]
            binding = [one for one in seen if isinstance(one.message, Contribution | Seal)]
            lies = self._alphabet(binding)
            self._lies[sent] = frozenset(self.players.message_id(lie) for lie in lies)
        return self._lies[sent]

    # What must hold

    def _check(self, before: State, move: Move, after: State) -> None:
        at = self.case.honest.index(move.party)
        try:
            self._promises.check_step(before.parties[at], move.step)
            if after.sent != before.sent:
                sent = (self.players.messages[number].message for number in after.sent)
                self._promises.check_signed(sent)
            self._promises.check_ends(after.parties)
        except Violation as violation:
            raise Found(str(violation), self.trace(before, move)) from None

    def _require_end(self, state: State) -> None:
        try:
            self.liveness.require_end(state.parties)
        except Exception as error:
            raise Found(_what(error), self.trace(state)) from error

    def trace(self, state: State, last: Move | None = None) -> list[str]:
        """The events from the start to this state, and one more, a line each."""
        moves = [] if last is None else [last]
        while (origin := self._origin.get(state)) is not None:
            state, move = origin
            moves.append(move)
        return [line(self.players, move) for move in (*self._greetings, *reversed(moves))]


def _what(error: Exception) -> str:
    return str(error) if isinstance(error, Violation) else repr(error)


def _is_hello(signed: Signed) -> bool:
    return isinstance(signed.message, Hello)


def _receipts(messages: Sent) -> list[Event]:
    return [Event("receive", message) for message in sorted(messages)]


def _failures(event: Event, step: Step) -> Iterator[Event]:
    """This event with a loss of power at each step of the disk, and between two messages."""
    for fails_at in range(step.power_steps):
        yield event._replace(fails_at=fails_at)
    for count in range(len(step.sends)):
        yield event._replace(sent=count)
