"""Plays all orders of events of a session of three parties, in families of states.

A family holds all states with the same disks and the same contributions and seals of honest
parties in the network. For each party it has the set of its processes, and for all of them one set
of other messages. It stands for every combination of these. Some combinations cannot happen: that
adds behaviour, and hides none. So a promise that holds in all families holds in every state.

As in `explorer`, any message may arrive at any party, at any time, any number of times or never.
Parties that are down start at once: it is the only thing that they can do. Requests for a reply
are forgotten, and every reply is possible at any time (`Players.free_replies`). Never here: how a
party acts, or what must hold.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import Struct, field

from protocol.session.phases import Phase
from protocol.wire.messages import Contribution, Seal
from tests.support.exploration.case import Case
from tests.support.exploration.liveness import Liveness
from tests.support.exploration.party import Event, Step
from tests.support.exploration.promises import Promises

Mask = int
"""A set of messages: bit n for message n."""


class Family(NamedTuple):
    """What all states of a family have in common."""

    #: The disk of each honest party, by its number.
    disks: tuple[int, ...]
    #: The contributions and seals that honest parties have sent.
    signed: Mask
    #: How many crashes are left.
    crashes: int


class Content(Struct):
    """The states of a family: each party in any of its processes, any of these messages sent."""

    processes: list[set[int]]
    #: Hellos, Halts and lies.
    others: Mask = 0
    #: What was played already.
    played: list[set[int]] = field(default_factory=list)
    arrived: Mask = 0
    #: The families that follow, by the party that acts, with its processes and what it sends.
    next: dict[tuple["Family", int], tuple[set[int], list[Mask]]] = field(default_factory=dict)


class Move(NamedTuple):
    """What an event of one process leads to."""

    after: int
    sends: Mask
    crashes: int


class Families:
    """All families of one session within some bounds."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.players = case.players(free_replies=True)
        self.liveness = Liveness(self.players, case.liar)
        self.content: dict[Family, Content] = {}
        self._promises = Promises(self.players, case.liar)
        self._alphabet = case.alphabet(self.players)
        #: The contributions and seals of honest parties among all messages.
        self._binding: Mask = 0
        self._seen = 0
        #: What each event of each process leads to, and which messages change anything.
        self._moves: dict[int, dict[Any, tuple[Move, ...]]] = {}
        self._tried: dict[int, Mask] = {}
        self._matter: dict[int, Mask] = {}

    @property
    def states(self) -> int:
        """How many combinations of processes all families stand for."""
        return sum(math.prod(map(len, one.processes)) for one in self.content.values())

    def run(self) -> Iterator[None]:
        """Explore until nothing is new. Raises `Violation` where a promise breaks."""
        first, content = self._first()
        self.content[first] = content
        queue, waiting = deque([first]), {first}
        while queue:
            family = queue.popleft()
            waiting.discard(family)
            self._saturate(family)
            for after in self._pass_on(family):
                if after not in waiting:
                    waiting.add(after)
                    queue.append(after)
            yield

    def require_ends(self) -> Iterator[None]:
        """From every combination of every family, the session must end. Raises `Violation`."""
        for content in self.content.values():
            for parties in itertools.product(*content.processes):
                self.liveness.require_end(parties)
                yield

    def _first(self) -> tuple[Family, Content]:
        moves = [self._started(self.players.absent(k), 0) for k in self.case.honest]
        sends = 0
        for move in moves:
            sends |= move.sends
        disks = tuple(self.players.disks[move.after] for move in moves)
        content = Content([{move.after} for move in moves], others=sends)
        return Family(disks, 0, self.case.crashes), self._known(0, content)

    # Inside a family

    def _saturate(self, family: Family) -> None:
        """Play every event of every process that is new, and every new message."""
        content = self.content[family]
        content.played = content.played or [set() for _ in self.case.honest]
        while True:
            sent = family.signed | content.others
            fresh = [new - old for new, old in zip(content.processes, content.played, strict=True)]
            arriving = sent & ~content.arrived
            if not arriving and not any(fresh):
                return
            for place in range(len(self.case.honest)):
                for local in tuple(content.processes[place]):
                    new = local in fresh[place]
                    if not new and not arriving & (~self._tried[local] | self._matter[local]):
                        continue
                    for move in self._events(local, sent if new else arriving, new=new):
                        self._take(family, content, place, move)
                content.played[place] |= fresh[place]
            content.arrived = sent

    def _take(self, family: Family, content: Content, place: int, move: Move) -> None:
        if move.crashes > family.crashes:
            return
        disk, signed = self.players.disks[move.after], family.signed | move.sends & self._binding
        if disk == family.disks[place] and signed == family.signed and not move.crashes:
            content.processes[place].add(move.after)
            content.others |= move.sends & ~self._binding
            return
        disks = (*family.disks[:place], disk, *family.disks[place + 1 :])
        after = Family(disks, signed, family.crashes - move.crashes)
        processes, others = content.next.setdefault((after, place), (set(), [0]))
        processes.add(move.after)
        others[0] |= move.sends & ~self._binding

    def _pass_on(self, family: Family) -> Iterator[Family]:
        """Add what this family leads to to the families that follow; those that grow."""
        content = self.content[family]
        for (after, place), (processes, others) in content.next.items():
            target = self.content.get(after)
            if target is None:
                target = Content([set() for _ in self.case.honest])
                self.content[after] = self._known(after.signed, target)
                self._check(after, content, place, processes)
            grown = False
            for k, held in enumerate(target.processes):
                added = processes if k == place else content.processes[k]
                if not added <= held:
                    held |= added
                    grown = True
            sent = content.others | others[0]
            if sent & ~target.others:
                target.others |= sent
                grown = True
            if grown:
                yield after

    def _known(self, signed: Mask, content: Content) -> Content:
        """Add what the liar can sign in a family."""
        if self.case.liar is not None:
            lies = self._alphabet([self.players.messages[n] for n in _numbers(signed)])
            for lie in lies:
                content.others |= 1 << self.players.message_id(lie)
        return content

    def _check(self, family: Family, before: Content, place: int, processes: set[int]) -> None:
        signed = [self.players.messages[n].message for n in _numbers(family.signed)]
        self._promises.check_signed(signed)
        one_each = [next(iter(held)) for held in before.processes]
        one_each[place] = next(iter(processes))
        self._promises.check_ends(one_each)

    # One process

    def _events(self, local: int, messages: Mask, *, new: bool) -> Iterator[Move]:
        """What these messages lead to, and for a new process also its timers and crashes."""
        held = self.players.locals[local]
        if held.driver is None:
            self._tried[local] = self._matter[local] = 0
            return
        moves = self._moves.setdefault(local, {})
        if -1 not in moves:
            self._tried[local] = self._matter[local] = 0
            moves[-1] = tuple(self._own_moves(local))
        if new:
            yield from moves[-1]
        for number in _numbers(messages & ~self._tried[local]):
            view = self.players.view(local, number)
            if view not in moves:
                moves[view] = tuple(self._receipts(local, number))
            if found := moves[view]:
                moves[number] = found
                self._matter[local] |= 1 << number
        self._tried[local] |= messages
        for number in _numbers(messages & self._matter[local]):
            yield from moves[number]

    def _own_moves(self, local: int) -> Iterator[Move]:
        yield from self._results(local, Event("resend"))
        for request in (-1, *range(len(self.players.names))):
            yield from self._results(local, Event("reply", request=request))
        if self.case.crashes:
            yield self._started(self.players.step(local, Event("crash")).after, 1)

    def _receipts(self, local: int, number: int) -> Iterator[Move]:
        event = Event("receive", number)
        yield from self._results(local, event)
        after = self.players.locals[self.players.step(local, event).after].driver
        before = self.players.locals[local].driver
        greeting = before is not None and before.session.phase is Phase.HANDSHAKE
        if greeting and not (after is not None and after.session.phase is Phase.HANDSHAKE):
            # With its last answer a party also replies to a request, if it has any.
            for request in (-1, *range(len(self.players.names))):
                yield from self._results(local, event._replace(request=request))

    def _results(self, local: int, event: Event) -> Iterator[Move]:
        step = self._step(local, event)
        if step.after == local and not step.sends:
            return
        yield self._started(step.after, 0, self._mask(step.sends))
        for fails_at in range(step.power_steps if self.case.crashes else 0):
            failed = self._step(local, event._replace(fails_at=fails_at))
            yield self._started(failed.after, 1)

    def _step(self, local: int, event: Event) -> Step:
        step = self.players.step(local, event)
        self._promises.check_step(local, step)
        return step

    def _started(self, local: int, crashes: int, sends: Mask = 0) -> Move:
        """A move after which an operator starts the party, if it is down and may go on."""
        held = self.players.locals[local]
        ended = held.error is not None or (held.life and held.stored.seals)
        if held.driver is None and not ended:
            step = self._step(local, Event("start"))
            return Move(step.after, sends | self._mask(step.sends), crashes)
        return Move(local, sends, crashes)

    def _mask(self, numbers: tuple[int, ...]) -> Mask:
        mask = 0
        for number in numbers:
            mask |= 1 << number
        for number in range(self._seen, len(self.players.messages)):
            message = self.players.messages[number].message
            honest = self.case.liar is None or message.sender != self.players.names[self.case.liar]
            if honest and isinstance(message, Contribution | Seal):
                self._binding |= 1 << number
        self._seen = len(self.players.messages)
        return mask


def _numbers(mask: Mask) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
