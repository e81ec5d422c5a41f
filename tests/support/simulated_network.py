"""A session in a hostile world, all of it from one seed: network, clocks, disks and people.

The sessions, executors, gates, wire and signatures are the real ones. The world loses,
repeats, delays and alters bytes, cuts the power between any two steps, brings back old
disks or flips their bits, keeps somebody away from the end, and may have a member that lies.
What must hold is checked at every step; when the faults stop, everybody must come to an end.
"""

import hashlib
import heapq
import itertools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, cast

import numpy as np

from party.driver import Driver
from party.ledger.session_ledger import Ledger
from party.model.best_response import Answer, Subproblem
from party.release.gate import Gate
from party.release.masks import Masks, MaskSecret, announcement
from party.release.noise import Noise
from protocol.agreement.model import Agreement
from protocol.errors import (
    BadLedger,
    BadMessage,
    DifferentPrices,
    Diverged,
    Equivocation,
    ImpossibleTotal,
    InternalError,
    PeerError,
    SottoError,
    Unavailable,
)
from protocol.numeric import Floats, Ticks
from protocol.outcome.replay import replay
from protocol.rounds import RoundState
from protocol.session.phases import Phase
from protocol.wire.codec import Reader, pack
from protocol.wire.messages import (
    FURTHEST,
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
from tests.support.builders import dump, make_agreement, public_key, sign, signer

PATIENCE_SECONDS = 3.0
CHAOS_SECONDS = 5.0
CALM_SECONDS = 60.0


class Violation(AssertionError):
    """Something happened that must never happen."""


class Crash(Exception):
    """The power of one party fails; the text says at which step."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong while the chaos lasts, as probabilities of each step."""

    loss: float = 0.0
    duplicate: float = 0.0
    flip: float = 0.0
    replay: float = 0.0
    delay_seconds: float = 0.01
    crash: float = 0.0
    restore: float = 0.0
    partition: bool = False
    selective: bool = False
    damage: float = 0.0
    withhold: bool = False
    absent: bool = False
    liar: bool = False

    @staticmethod
    def drawn(chance: random.Random, *, liar: bool = False) -> "Faults":
        """A mix in which each kind is often absent, so that the others can get far."""

        def some(most: float) -> float:
            return chance.choice((0.0, chance.uniform(0.0, most)))

        return Faults(
            loss=some(0.6),
            duplicate=some(0.5),
            flip=some(0.2),
            replay=some(0.5),
            delay_seconds=chance.choice((0.001, 0.02, 0.2, 1.0)),
            crash=some(0.05),
            restore=0.0 if liar else chance.choice((0.0, 0.5, 1.0)),
            partition=chance.random() < 0.3,
            selective=chance.random() < 0.3,
            damage=some(0.3),
            withhold=chance.random() < 0.3,
            absent=not liar and chance.random() < 0.4,
            liar=liar,
        )


@dataclass(frozen=True)
class Stored:
    """What a disk holds."""

    releases: tuple[Signed, ...] = ()
    rounds: tuple[tuple[Signed, ...], ...] = ()
    seals: tuple[Signed, ...] = ()
    heard: tuple[Signed, ...] = ()
    fault: PeerError | None = None
    mask: tuple[bytes, Signed] | None = None
    keys: tuple[Signed, ...] = ()

    @property
    def said(self) -> int:
        """How many messages of its own it holds that may be said once: mask key and releases."""
        return len(self.releases) + (self.mask is not None)

    @property
    def closed(self) -> int:
        """How many exchanges are closed: of mask keys, and rounds."""
        return len(self.rounds) + bool(self.keys)


class Disk:
    """Stands in for the ledger. Only what was committed survives the end of the power."""

    def __init__(self, power: Callable[[str], None], read: Callable[[bytes], Signed]) -> None:
        self.durable = self.pending = Stored()
        self.copies = [self.durable]
        self.good: Stored | None = None
        """What was on the disk before a bit of it flipped."""
        self._power = power
        self._read = read

    def transcript(self) -> Transcript:
        return Transcript(self.durable.rounds, self.durable.seals, self.durable.keys)

    def own(self) -> tuple[Signed, ...]:
        key = self.mask_key()
        return self.durable.releases if key is None else (key, *self.durable.releases)

    def mask_key(self) -> Signed | None:
        return None if self.pending.mask is None else self.pending.mask[1]

    def mask_keys(self) -> tuple[Signed, ...]:
        return self.pending.keys

    def mask_secret(self) -> bytes:
        if self.pending.mask is None or not self.pending.mask[0]:
            raise InternalError("the secret of a session that goes on must be there")
        return self.pending.mask[0]

    def record_mask_key(self, secret: bytes, said: Signed) -> None:
        self._power("before the mask key is written")
        self._write(mask=(secret, said))
        self.commit()
        self._power("after the mask key is written")

    def record_mask_keys(self, keys: tuple[Signed, ...]) -> None:
        self._write(keys=keys)

    def heard(self) -> tuple[Signed, ...]:
        return () if self.durable.fault else self.durable.heard

    def flip(self, chance: random.Random) -> None:
        """One bit of what was said is another one now, in any message that is stored."""
        said = [s for releases in self.durable.rounds for s in releases]
        said += [*self.durable.releases, *self.durable.heard]
        if said and self.good is None:
            old = chance.choice(said)
            new = old._replace(data=_flipped(old.data, chance))

            def swapped(messages: tuple[Signed, ...]) -> tuple[Signed, ...]:
                return tuple(new if s is old else s for s in messages)

            self.good = self.durable
            self.put_back(
                replace(
                    self.durable,
                    rounds=tuple(map(swapped, self.durable.rounds)),
                    releases=swapped(self.durable.releases),
                    heard=swapped(self.durable.heard),
                )
            )

    @property
    def fault(self) -> PeerError | None:
        return self.durable.fault

    def proof(self) -> tuple[Signed, ...]:
        return self.durable.heard if self.durable.fault else ()

    def require_replayed(self, rounds: int, chain_hash: bytes) -> None:
        """What a ledger finds by its checksums, and then does not begin."""
        rows = (*self.durable.rounds, self.durable.releases, self.durable.heard)
        for signed in itertools.chain(*rows):
            if sign(signed.message).data != signed.data:
                raise BadLedger(
                    f"a bit has flipped in {rounds} rounds, or before {chain_hash.hex()}"
                )

    def release(self, round: int) -> Signed | None:  # noqa: A002
        recorded = self.pending.releases
        return recorded[round] if round < len(recorded) else None

    def record_release(
        self,
        release: Signed,
        demand: object = None,  # noqa: ARG002
        *,
        answered: bool = True,  # noqa: ARG002
    ) -> None:
        if release.message.round != len(self.pending.releases):
            raise InternalError("releases are recorded in order, once")
        self._power("before the release is written")
        self._write(releases=(*self.pending.releases, release))
        self.commit()
        self._power("after the release is written")

    def record_round(self, round: int, releases: tuple[Signed, ...], chain_hash: bytes) -> None:  # noqa: A002, ARG002
        if round == len(self.pending.rounds):
            self._write(rounds=(*self.pending.rounds, releases))

    def record_seals(self, seals: tuple[Signed, ...]) -> None:
        self._power("before the seals are written")
        self._write(seals=seals, mask=self.pending.mask and (b"", self.pending.mask[1]))
        self.commit()
        self._power("after the seals are written")

    def record_heard(self, releases: tuple[Signed, ...]) -> None:
        self._write(heard=releases)
        self.commit()

    def record_fault(self, error: PeerError, *, over: bool = False) -> None:  # noqa: ARG002
        if not error.evidence:
            raise Violation(f"{error} is final without proof")
        self._write(fault=error, heard=tuple(map(self._read, error.evidence)))
        self.commit()

    def commit(self) -> None:
        if self.durable is not self.pending:
            self.durable = self.pending
            self.copies.append(self.durable)

    def put_back(self, copy: Stored) -> None:
        self.durable = self.pending = copy

    def _write(self, **changes: Any) -> None:
        self.pending = replace(self.pending, **changes)


class Problem:
    """Stands in for the private problem: cheap, and it depends on the prices."""

    def __init__(self, scale: float) -> None:
        self._scale = scale

    def answer(self, prices: Floats) -> Answer:
        demand = self._scale / (1.0 + prices)
        return Answer(objective=0.0, demand=demand, plan=demand)


class FreshNoise(Noise):
    """Noise that is never the same again: a round answered twice cannot go unseen."""

    private = True

    def __init__(self, chance: random.Random, most: int) -> None:
        self._chance = chance
        self._most = most

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002, ARG002
        noise = [self._chance.randrange(self._most) for _ in values]
        return values + np.array(noise, dtype=np.int64)


class SeededMasks(Masks):
    """Masks whose keys are the same in every run."""

    chance: random.Random

    def _random(self) -> bytes:
        return self.chance.randbytes(32)


class WatchedGate(Gate):
    """The real gate, and somebody who looks at all that it hands out."""

    watch: Callable[[Message], None]

    def release(self, state: RoundState) -> Signed:
        release = super().release(state)
        self.watch(release.message)
        return release


class Party:
    """One company: its disk, which outlives the process, and the process while it runs."""

    def __init__(self, name: str, disk: Disk, chance: random.Random) -> None:
        self.name = name
        self.disk = disk
        self.life = 0
        self.executor: Driver | None = None
        self.error: SottoError | None = None
        self.heard: dict[str, int] = {}
        self.newest: Stored | None = None
        self.witness_of: Party | None = None
        self.wake_at = 0.0
        self._offset = chance.uniform(0.0, 1000.0)
        self._rate = chance.uniform(0.9, 1.1)

    def clock(self, time: float) -> float:
        return self._offset + self._rate * time

    def time(self, clock: float) -> float:
        return (clock - self._offset) / self._rate


@cache
def agreement_of(members: int, rounds: int | None, masked: bool) -> Agreement:
    """Of so many rounds; or, without a number, one that ends by itself, sooner or later."""
    reveal = {"reveal": "totals"} if masked else {}
    prices = {"prices": {"step": "center", "tolerance": 0.05}} if rounds is None else {}
    return make_agreement(
        members=members,
        rounds=rounds or 12,
        resources=1,
        patience=PATIENCE_SECONDS,
        **prices,
        **reveal,
    )


class SimulatedNetwork:
    """Everything that happens in one seed."""

    def __init__(
        self, seed: int, *, faults: Faults, members: int, rounds: int | None, masked: bool = False
    ) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.agreement = agreement_of(members, rounds, masked)
        self.faults: Faults | None = faults
        self.now = 0.0
        self._story: list[tuple[float, str, Message | None]] = []
        self._count = itertools.count()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._reader = Reader(self.agreement)
        self._read: dict[bytes, Signed | None] = {}
        self._said: list[bytes] = []
        self._greetings: dict[str, list[bytes]] = {}
        self._sides: dict[str, int] = {}
        self._released: dict[tuple[str, int], Release] = {}
        self._keys: dict[str, MaskKey] = {}
        self._heads: dict[int, set[bytes]] = {}
        self._files: set[bytes] = set()
        self.parties = [self._party(m.name) for m in self.agreement.members]
        self.liar = self.chance.choice(self.parties) if faults.liar else None
        self.honest = [p for p in self.parties if p is not self.liar]
        self._deceived = {p.name for p in self.honest if self.chance.random() < 0.5}
        self._lies_from = self.chance.randrange(rounds or 4)
        self._two_faced = self.chance.random() < 0.5
        self._bluff_chance = 0.1
        self._rushes = self.chance.random() < 0.3
        self.bluffs = self.chance.random() < 0.3
        self.boasts = self.chance.random() < 0.3
        self.copies = faults.liar and masked and self.chance.random() < 0.3
        """The liar announces the mask key of another member as its own, and never another one."""
        self.withheld: tuple[str, str] | None = None
        if faults.withhold:
            a, b = self.chance.sample(self.parties, 2)
            self.withheld = a.name, b.name
        self.away: set[str] = set()
        self._last_words: tuple[Party, int] | None = None
        """Who loses its power for long, and after the release of which round, or of a later one."""
        kinds = (Hello, MaskKey, Release, Seal) if masked else (Hello, Release, Seal)
        self.dropped: set[tuple[str, str, type[Message]]] = {
            (a.name, b.name, self.chance.choice(kinds))
            for a in self.parties
            for b in self.parties
            if faults.selective and self.chance.random() < 0.3
        }

    @property
    def story(self) -> str:
        """All that happened, a line each."""
        return "\n".join(
            f"{time:8.3f}  {text}{_brief(message) if message else ''}"
            for time, text, message in self._story
        )

    def _party(self, name: str) -> Party:
        disk = Disk(lambda step: self._power(party, step), self._reader.unpack)
        party = Party(name, disk, self.chance)
        return party

    # The two parts of a run

    def run(self) -> None:
        """First safety under faults, then liveness when the faults stop."""
        for party in self.parties:
            self._at(self.chance.uniform(0.0, 1.0), partial(self.start, party))
        self._at(self.chance.expovariate(1.0), self._storm)
        absent = self.faults is not None and self.faults.absent
        self.pass_time(self.chance.uniform(0.0, CHAOS_SECONDS) if absent else CHAOS_SECONDS)
        self._tell("the faults stop")
        self.faults, self._sides = None, {}
        if absent:
            self._end_without_one()
        self._operate()
        self.pass_time(CALM_SECONDS)
        for party in self.honest:
            self._check_end(party)
        if len(self.ends) > 1:
            raise Violation(f"honest parties ended after {sorted(self.ends)} rounds")

    def _end_without_one(self) -> None:
        """One party goes before the others end. Then it is back, and one of them besides."""
        absent = self.chance.choice(self.parties)
        if absent.witness_of is not None or absent.newest is not None:
            return
        self.withheld = None  # with few present there may be no other way between two
        self._last_words = absent, self.chance.choice((self.agreement.rounds - 1, 0, 1, 2, 3))
        self._operate()
        self.pass_time(2.0 * PATIENCE_SECONDS)
        self._tell(f"{absent.name} stays away")
        self._last_words = None
        self.cut_power(absent)
        self.away = {absent.name}
        self._operate()
        self.pass_time(3.0 * PATIENCE_SECONDS)
        others = [p for p in self.parties if p is not absent]
        for party in others:
            self.stop(party)
        over = all(self._over(p) for p in others)
        helper = self.chance.choice(others)
        self.away = {p.name for p in others if over and p is not helper}
        if over:
            self._tell(f"{absent.name} is back, and only {helper.name} besides")
            self._operate()
            self.pass_time(CALM_SECONDS)
            if not absent.disk.durable.seals or not helper.disk.durable.seals:
                raise Violation(f"{absent.name} did not finish with {helper.name}")
        self.away = set()

    def _over(self, party: Party) -> bool:
        """Whether a party has all rounds, and so the outcome."""
        stored = party.disk.durable
        return replay(self.agreement, Transcript(stored.rounds, keys=stored.keys)).over

    @property
    def ends(self) -> set[int]:
        """After how many rounds those who finished did so."""
        return {len(p.disk.durable.rounds) for p in self.honest if p.disk.durable.seals}

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            waited_for = [p for p in self.honest if p.name not in self.away]
            if all(p.disk.durable.seals or p.disk.durable.fault for p in waited_for):
                return
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = until

    def _at(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + seconds, next(self._count), action))

    def _tell(self, text: str, message: Message | None = None) -> None:
        self._story.append((self.now, text, message))

    # Processes

    def start(self, party: Party) -> None:
        if party.executor is not None or party.name in self.away:
            return
        stored = party.disk.durable
        party.life += 1
        nonce = hashlib.sha256(f"{self.seed} {party.name} {party.life}".encode()).digest()[:16]
        gate = WatchedGate(
            self.agreement,
            party.name,
            subproblem=cast(Subproblem, Problem(self.chance.uniform(1.0, 9.0))),
            noise=FreshNoise(self.chance, 1_000 if self.agreement.masked else 1 << 30),
            ledger=cast(Ledger, party.disk),
            pack=signer(party.name),
        )
        gate.watch = partial(self._stand, party)
        if self.agreement.masked:
            disk, name = cast(Ledger, party.disk), party.name
            gate._masks = SeededMasks(self.agreement, name, disk, signer(name))
            gate._masks.chance = self.chance
        try:
            party.executor = Driver(
                self.agreement,
                party.name,
                nonce=nonce,
                pack=signer(party.name),
                gate=gate,
                ledger=cast(Ledger, party.disk),
                now=party.clock(self.now),
            )
        except BadLedger as error:
            self._repair(party, error)
            return
        party.heard = {p.name: stored.closed for p in self.parties}
        self._tell(
            f"{party.name} starts, life {party.life}, with {len(stored.releases)} releases, "
            f"{len(stored.rounds)} rounds, {len(stored.seals)} seals"
        )
        if self.faults and self.chance.random() < self.faults.replay:
            self._greet_falsely(party)
        self._do(party, Driver.begin)

    def _do(self, party: Party, event: Callable[[Driver, float], list[Signed]]) -> None:
        """Let something happen to a running party, and carry what it says."""
        executor = party.executor
        if executor is None:
            return
        try:
            for signed in event(executor, party.clock(self.now)):
                self._power(party, "before sending")
                self._publish(party, signed)
        except Crash as crash:
            self._crash(party, str(crash))
            return
        if executor.error is not None and party.error is not executor.error:
            self._fail(party, executor.error)
        if executor.left or (executor.error and executor.session.phase is not Phase.HALTED):
            self._end(party)
        else:
            self._set_alarm(party, executor.session.deadline)

    def _set_alarm(self, party: Party, deadline: float) -> None:
        due = max(party.time(deadline), self.now + 0.001)
        if not self.now < party.wake_at <= due:
            party.wake_at = due
            self._at(due - self.now, partial(self._wake, party, party.life, due))

    def _wake(self, party: Party, life: int, due: float) -> None:
        if party.life == life and party.wake_at == due:
            self._do(party, Driver.tick)

    def _fail(self, party: Party, error: SottoError) -> None:
        self._tell(f"{party.name} fails: {type(error).__name__}: {error}")
        party.error = error
        if party is not self.liar:
            self._check_error(party, error)

    def _end(self, party: Party) -> None:
        self.stop(party)
        if party.witness_of is not None:
            self._bring_back(party.witness_of)
        if isinstance(party.error, BadLedger):
            self._bring_back(party)
        elif self.faults is None and not isinstance(party.error, ImpossibleTotal):
            self._operate()
        else:  # a total that cannot be is found again at once: people wait before they try
            self._at(self.chance.uniform(0.1, 4.0), partial(self.start, party))

    def stop(self, party: Party) -> None:
        """An orderly end."""
        self._tell(f"{party.name} ends")
        if party.executor is not None:
            party.executor.rest()
        party.executor = None

    def _operate(self) -> None:
        """People give the same command again, those who know of a fault as well."""
        for party in self.parties:
            self._at(self.chance.uniform(0.0, 0.5), partial(self.start, party))

    # The power and the disks

    def _power(self, party: Party, step: str) -> None:
        faults = self.faults
        # The rarer a step is, the likelier the power fails there.
        rarity = 0.3 if step == "before sending" else 20.0 if "seals" in step else 6.0
        if faults and party.witness_of is None and self.chance.random() < rarity * faults.crash:
            raise Crash(step)

    def _storm(self) -> None:
        """The power fails between two events; the network falls apart and heals."""
        if self.faults is None:
            return
        party = self.chance.choice(self.parties)
        if party.executor is not None:
            try:
                self._power(party, "while waiting")
            except Crash as crash:
                self._crash(party, str(crash))
        if self.faults.partition:
            apart = self.chance.random() < 0.5
            self._sides = {p.name: self.chance.randrange(2) for p in self.parties} if apart else {}
            self._tell(f"partition {self._sides}")
        self._at(self.chance.expovariate(2.0), self._storm)

    def cut_power(self, party: Party) -> None:
        party.executor = None
        party.disk.pending = party.disk.durable

    def _crash(self, party: Party, step: str) -> None:
        self._tell(f"{party.name} loses power {step}")
        self.cut_power(party)
        if self.faults and self.chance.random() < self.faults.restore:
            self._restore(party, self.chance.choice(party.disk.copies))
        if self.faults and self.chance.random() < self.faults.damage:
            party.disk.flip(self.chance)
        self._at(self.chance.uniform(0.05, 3.0), partial(self.start, party))

    def _repair(self, party: Party, error: BadLedger) -> None:
        """A damaged disk is found at home, before anything is said, and a good copy put back."""
        self._tell(f"{party.name} does not begin: {error}")
        if party.disk.good is None:
            raise Violation(f"{party.name} has no reason for BadLedger: {error}")
        party.disk.put_back(party.disk.good)
        party.disk.good = None
        self._at(self.chance.uniform(0.05, 1.0), partial(self.start, party))

    def _restore(self, party: Party, copy: Stored) -> None:
        """Bring back an old copy of a disk, if somebody knows of the releases it lacks.

        Known for good are the rounds on another disk. What a running party has heard is
        known for as long as it runs: so it must, until the old copy has been refused.
        """
        known = (party.newest or party.disk.durable).said
        count = copy.said
        peers = [p for p in self.parties if p is not party and p.newest is None]
        if count < known and not any(p.disk.durable.closed > count for p in peers):
            awake = [p for p in peers if p.executor and p.heard[party.name] > count]
            awake = [p for p in awake if p.witness_of in (None, party)]
            if not awake:
                return
            awake[0].witness_of = party
        if count < known:
            party.newest = party.newest or party.disk.durable
        self._tell(f"{party.name} gets an old disk: {count} of {known} own messages")
        party.disk.put_back(copy)

    def _bring_back(self, party: Party) -> None:
        """Somebody finds the newest copy of the disk. The old one must not have been used."""
        if party.newest is None:
            return
        self._tell(f"{party.name} gets its newest disk back")
        if party.disk.durable not in party.disk.copies:
            raise Violation(f"{party.name} wrote on an old disk")
        party.executor = None
        party.disk.put_back(party.newest)
        party.newest = None
        for witness in self.parties:
            if witness.witness_of is party:
                witness.witness_of = None
        self._at(self.chance.uniform(0.1, 1.0), partial(self.start, party))

    # The network

    def _publish(self, sender: Party, signed: Signed) -> None:
        self._tell(f"{sender.name} says ", signed.message)
        if sender.disk.pending is not sender.disk.durable:
            raise Violation(f"{sender.name} speaks of what would not survive the end of the power")
        own = signed.message.sender == sender.name
        if isinstance(signed.message, Seal) and own:
            self._stand(sender, signed.message)
        for receiver in self.parties:
            data = signed.data
            if sender is self.liar and receiver is not sender and own:
                data = self._lie(receiver, signed)
            kept = self.copies and sender is self.liar and isinstance(signed.message, MaskKey)
            if not kept or receiver is not sender:  # what a copier does not say cannot be replayed
                self._said.append(data)
            if isinstance(signed.message, Hello):
                self._greetings.setdefault(sender.name, []).append(data)
            self._carry(sender, receiver, data, type(signed.message))
        who, last = self._last_words or (None, 0)
        if who is sender and isinstance(signed.message, Release) and signed.message.round >= last:
            self.away = {sender.name}
            raise Crash("for good, it seems")

    def _carry(self, sender: Party, receiver: Party, data: bytes, kind: type) -> None:
        chance, faults = self.chance, self.faults
        if kind is Seal and (sender.name, receiver.name) == self.withheld:
            return
        if faults is None:
            self._at(chance.uniform(0.001, 0.02), partial(self._deliver, receiver, data))
            return
        apart = self._sides and self._sides[sender.name] != self._sides[receiver.name]
        if apart or (sender.name, receiver.name, kind) in self.dropped:
            return
        if chance.random() < faults.replay:
            victim = chance.choice(self.parties)
            late = chance.expovariate(1.0 / faults.delay_seconds)
            self._at(late, partial(self._deliver, victim, chance.choice(self._said)))
        if chance.random() < faults.loss:
            return
        for _ in range(1 + (chance.random() < faults.duplicate)):
            copy = _flipped(data, chance) if chance.random() < faults.flip else data
            late = chance.expovariate(1.0 / faults.delay_seconds)
            self._at(late, partial(self._deliver, receiver, copy))

    def _deliver(self, receiver: Party, data: bytes) -> None:
        if receiver.executor is None:
            return
        if data not in self._read:
            try:
                self._read[data] = self._reader.unpack(data)
            except BadMessage:
                self._read[data] = None
        signed = self._read[data]
        if signed is None:
            return
        message = signed.message
        self._tell(f"    {receiver.name} hears {message.sender}'s ", message)
        if isinstance(message, Release | MaskKey):
            heard = receiver.heard
            before = isinstance(message, Release) and self.agreement.masked
            heard[message.sender] = max(heard[message.sender], message.round + before + 1)
        self._do(receiver, lambda executor, now: executor.receive(signed, now))

    def _greet_falsely(self, party: Party) -> None:
        """The relay plays to a party that starts what its peers said in an earlier life."""
        for name, hellos in self._greetings.items():
            if name != party.name:
                late = self.chance.uniform(0.0, 0.001)
                self._at(late, partial(self._deliver, party, self.chance.choice(hellos)))

    # The liar

    def only_claim(self) -> None:
        """Let the liar sign no two things that contradict each other, and say whatever else."""
        self._deceived = set()
        self._rushes = False
        self.bluffs = self.boasts = True
        self._bluff_chance = 0.3

    def _lie(self, receiver: Party, signed: Signed) -> bytes:
        """What the liar says to this receiver instead: signed, but not what others hear."""
        message = signed.message
        if self.copies and isinstance(message, MaskKey):
            return self._copied(signed, message)
        if self.faults and self.bluffs and self.chance.random() < self._bluff_chance:
            return sign(self._bogus_halt(message)).data
        if self.faults and self.boasts and isinstance(message, Hello):
            return sign(self._boast(receiver, message)).data
        if self._rushes and isinstance(message, Release) and self.chance.random() < 0.1:
            return sign(self._claimed_end(message)).data
        if receiver.name not in self._deceived or message.round < self._lies_from:
            return signed.data
        fields: dict[str, Any] = {}
        if isinstance(message, Release):
            fields["values"] = tuple(value + 1 for value in message.values)
        here = receiver.executor and receiver.executor.session.state
        if self._two_faced and here and here.round == message.round:
            fields["chain_hash"] = here.chain_hash
        if isinstance(message, MaskKey):
            other = MaskSecret(hashlib.sha256(message.key).digest())
            chain_hash = fields.get("chain_hash", message.chain_hash)
            return sign(announcement(self.agreement, message.sender, chain_hash, other)).data
        return sign(replace(message, **fields)).data

    def _copied(self, signed: Signed, own: MaskKey) -> bytes:
        """The key of another member, under one of the proofs that the liar can have."""
        known = [key for name, key in self._keys.items() if name != own.sender]
        if not known:
            return bytes(len(signed.data))  # it waits until there is something to copy
        theirs = self.chance.choice(known)
        key = theirs.key
        if self.chance.random() < 0.3:  # the same point of X25519 in another encoding
            key = key[:-1] + bytes([key[-1] ^ 0x80])
        proof = self.chance.choice((own.proof, theirs.proof))
        self._tell(f"{own.sender} copies the mask key of {theirs.sender}")
        return sign(replace(own, key=key, proof=proof)).data

    def _claimed_end(self, message: Release) -> Seal:
        """Where the liar should release it says that the session is over."""
        return Seal(
            sender=message.sender,
            agreement=message.agreement,
            round=message.round,
            chain_hash=message.chain_hash,
            has_all_seals=self.chance.random() < 0.5,
        )

    def _boast(self, receiver: Party, hello: Hello) -> Hello:
        """The liar claims to know more than there is, or than it can show."""
        place, claim = self.agreement.place(receiver.name), self.chance.choice((1, 2, 10**6))
        ahead = bytearray(hello.known_ahead or bytes(len(self.agreement.members)))
        ahead[place] = min(FURTHEST, ahead[place] + claim)
        further = claim if self.chance.random() < 0.3 else 0
        return replace(hello, round=hello.round + further, known_ahead=bytes(ahead))

    def _bogus_halt(self, message: Message) -> Halt:
        shown = self.chance.sample(self._said, self.chance.randrange(min(3, len(self._said) + 1)))
        if self._released:
            victim = self.chance.choice(list(self._released.values()))
            forged = replace(victim, values=(7,) * self.agreement.width)
            shown.append(pack(forged, key=public_key(victim.sender), sign=lambda _: bytes(64)).data)
        return Halt(
            sender=message.sender,
            agreement=message.agreement,
            round=message.round,
            chain_hash=self.chance.choice((message.chain_hash, bytes(32)))
            if self._deceived
            else message.chain_hash,
            reason=self.chance.choice(tuple(Reason)),
            evidence=tuple(shown),
        )

    # What must hold

    def _stand(self, party: Party, message: Message) -> None:
        """An honest party has put its name to a release or a seal on top of some head."""
        if party is self.liar:
            return
        if isinstance(message, MaskKey):
            if self._keys.setdefault(party.name, message) != message:
                raise Violation(f"{party.name} gave out two mask keys")
            return
        if isinstance(message, Release):
            if self.copies:
                raise Violation(f"{party.name} released beside a copied mask key")
            known = self._released.setdefault((party.name, message.round), message)
            if known != message:
                raise Violation(f"{party.name} gave out round {message.round} twice")
        if len(self._heads.get(message.round - 1, ())) > 1:
            raise Violation(f"round {message.round - 1} was closed on different heads")
        self._heads.setdefault(message.round, set()).add(message.chain_hash)
        if self.liar is None and len(self._heads[message.round]) > 1:
            raise Violation(f"honest parties stand on different heads at round {message.round}")

    def _check_error(self, party: Party, error: SottoError) -> None:
        if isinstance(error, Unavailable):
            return
        if isinstance(error, BadLedger) and party.newest is not None:
            return
        if self.liar is not None:
            if isinstance(error, Equivocation | DifferentPrices) and error.sender == self.liar.name:
                return
            if isinstance(error, Diverged) and error.sender == self.liar.name:
                return
            if isinstance(error, ImpossibleTotal) and self.agreement.masked:
                return
        raise Violation(f"{party.name} has no reason for {type(error).__name__}: {error}")

    def _check_end(self, party: Party) -> None:
        stored = party.disk.durable
        if stored.seals and stored.fault:
            raise Violation(f"{party.name} both finished and failed")
        if stored.seals:
            end = replay(self.agreement, Transcript(stored.rounds, stored.seals, stored.keys))
            if stored.mask is not None and stored.mask[0]:
                raise Violation(f"{party.name} finished and still has its secret mask key")
            if self._heads[end.round] != {end.chain_hash}:
                raise Violation(f"{party.name} finished, but not all honest parties sealed that")
            if party.disk.good is None:  # or its ledger would refuse to write one
                whole = Transcript(stored.rounds, stored.seals, stored.keys)
                self._files.add(dump(self.agreement, whole))
            if len(self._files) > 1:
                raise Violation(f"{party.name} has another transcript than those before it")
        elif self.liar is None:
            raise Violation(f"{party.name} did not finish")
        elif self.copies and silent(party.error) == self.liar.name:
            return  # the copier has lost its place, and nothing was released
        elif not stored.fault and not isinstance(party.error, ImpossibleTotal):
            raise Violation(f"{party.name} neither finished nor has a proof: {party.error}")


def silent(error: SottoError | None) -> str:
    """Who is named as silent, where exactly one is."""
    found = re.match(r"nothing from '(\w+)' for ", str(error))
    return found[1] if found and isinstance(error, Unavailable) else ""


def _brief(message: Message) -> str:
    text = f"{type(message).__name__} {message.round} on {message.chain_hash.hex()[:8]}"
    if isinstance(message, Hello):
        text += f" of {message.nonce.hex()[:4]} wants_reply={message.wants_reply}"
        text += f" nonce_digest={message.nonce_digest.hex()[:4]} echo={message.echo.hex()[:4]}"
        text += f" recorded={message.recorded} known_ahead={message.known_ahead.hex()}"
    elif isinstance(message, Release):
        text += f" values={message.values}"
    elif isinstance(message, Seal):
        text += f" has_all_seals={message.has_all_seals}"
    return text


def _flipped(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
