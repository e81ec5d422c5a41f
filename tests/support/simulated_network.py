"""A session on a hostile network, all of it from one seed: network, clocks, disks and operators.

Sessions, drivers, gates, codec and signatures are the real ones. The network loses, repeats,
delays and alters messages. Parties lose power between any two steps and start from old or damaged
disks. Every step checks what must hold; when the faults stop, every party must reach an end.
"""

import hashlib
import heapq
import itertools
import random
import re
from collections.abc import Callable
from functools import cache, partial
from typing import cast

from party.driver import Driver
from party.ledger.session_ledger import Ledger
from party.model.best_response import Subproblem
from protocol.agreement.model import Agreement
from protocol.errors import (
    BadLedger,
    BadMessage,
    DifferentPrices,
    Diverged,
    Equivocation,
    ImpossibleTotal,
    SottoError,
    Unavailable,
)
from protocol.session.phases import Phase
from protocol.wire.codec import Reader
from protocol.wire.messages import (
    Commitment,
    Hello,
    MaskKey,
    Message,
    Release,
    Seal,
    Signed,
)
from protocol.wire.transcript import Transcript
from tests.support.adversary import Adversary, Faults
from tests.support.builders import dump, make_agreement, signer
from tests.support.outcomes import replay
from tests.support.simulated_disk import Disk, Stored, Violation, flip_bit
from tests.support.simulated_party import (
    FreshNoise,
    FreshProblem,
    Party,
    Problem,
    SeededMasks,
    WatchedGate,
)

PATIENCE_SECONDS = 3.0
WAITS_SECONDS = (1.0, 3.0, 9.0)
"""How long a process waits for people: less than patience, as long, and longer."""

CHAOS_SECONDS = 5.0
CALM_SECONDS = 60.0


class Crash(Exception):
    """A party loses power; the text says at which step."""


@cache
def agreement_of(members: int, rounds: int | None, masked: bool) -> Agreement:
    """An agreement with this number of rounds; None: its price rule ends the session."""
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
    """One simulated session, from start to end."""

    def __init__(
        self, seed: int, *, faults: Faults, members: int, rounds: int | None, masked: bool = False
    ) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.agreement = agreement_of(members, rounds, masked)
        #: What goes wrong; None once the faults stop.
        self.faults: Faults | None = faults
        self.now = 0.0
        #: What happened: when, in words, and the message, if it was one.
        self._log: list[tuple[float, str, Message | None]] = []
        #: Numbers actions, so that those of the same time keep their order.
        self._count = itertools.count()
        #: What happens later: when, and the action.
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._reader = Reader(self.agreement)
        #: Every message that was delivered, decoded; None if it is not valid.
        self._read: dict[bytes, Signed | None] = {}
        #: The Hellos that each party has sent, to replay them.
        self._hellos: dict[str, list[bytes]] = {}
        #: The side of each party while the network is split.
        self._sides: dict[str, int] = {}
        #: The chain hashes under which honest parties signed, by round.
        self._chain_hashes: dict[int, set[bytes]] = {}
        #: The transcripts of the parties that finished, as files.
        self._files: set[bytes] = set()
        self.parties = [self._party(m.name) for m in self.agreement.members]
        self.liar = self.chance.choice(self.parties) if faults.liar else None
        self.honest = [p for p in self.parties if p is not self.liar]
        self.adversary = Adversary(
            self.agreement,
            self.chance,
            [p.name for p in self.honest],
            first_lies=rounds or 4,
            copies=faults.liar and masked,
            note=self._note,
        )
        #: The sender and the receiver between which all seals are lost.
        self.withheld: tuple[str, str] | None = None
        if faults.withhold:
            a, b = self.chance.sample(self.parties, 2)
            self.withheld = a.name, b.name
        #: The parties that stay away: no operator starts them.
        self.away: set[str] = set()
        #: The party that loses power for long, after its release of this round or a later one.
        self._last_release: tuple[Party, int] | None = None
        #: The sender, the receiver and the kind of messages that are always lost.
        once = (MaskKey, Commitment) if masked else ()
        kinds = (Hello, Release, Seal, *once)
        self.dropped: set[tuple[str, str, type[Message]]] = {
            (a.name, b.name, self.chance.choice(kinds))
            for a in self.parties
            for b in self.parties
            if faults.selective and self.chance.random() < 0.3
        }

    @property
    def log(self) -> str:
        """All that happened, one line each."""
        return "\n".join(
            f"{time:8.3f}  {text}{_brief(message) if message else ''}"
            for time, text, message in self._log
        )

    def _party(self, name: str) -> Party:
        disk = Disk(lambda step: self._power(party, step), self._reader.unpack)
        party = Party(name, disk, self.chance)
        return party

    # A run

    def run(self) -> None:
        """First safety under faults, then liveness when the faults stop."""
        for party in self.parties:
            self._at(self.chance.uniform(0.0, 1.0), partial(self.start, party))
        self._at(self.chance.expovariate(1.0), self._storm)
        absent = self.faults is not None and self.faults.absent
        self.pass_time(self.chance.uniform(0.0, CHAOS_SECONDS) if absent else CHAOS_SECONDS)
        self._note("the faults stop")
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
        """One party leaves before the others end. Later it is back, with one other party."""
        absent = self.chance.choice(self.parties)
        if absent.witness_of is not None or absent.newest is not None:
            return
        self.withheld = None  # with few parties there may be no other path between two
        self._last_release = absent, self.chance.choice((self.agreement.rounds - 1, 0, 1, 2, 3))
        self._operate()
        self.pass_time(2.0 * PATIENCE_SECONDS)
        self._note(f"{absent.name} stays away")
        self._last_release = None
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
            self._note(f"{absent.name} is back, with only {helper.name}")
            self._operate()
            self.pass_time(CALM_SECONDS)
            if not absent.disk.durable.seals or not helper.disk.durable.seals:
                raise Violation(f"{absent.name} did not finish with {helper.name}")
        self.away = set()

    def _over(self, party: Party) -> bool:
        """Whether a party has closed all exchanges: only seals may be missing."""
        stored = party.disk.durable
        past = Transcript(stored.rounds, keys=stored.keys, commitments=stored.commitments)
        return replay(self.agreement, past).final

    @property
    def ends(self) -> set[int]:
        """After how many rounds the finished parties ended."""
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

    def _note(self, text: str, message: Message | None = None) -> None:
        self._log.append((self.now, text, message))

    # Processes

    def start(self, party: Party) -> None:
        if party.driver is not None or party.name in self.away:
            return
        stored = party.disk.durable
        party.life += 1
        nonce = hashlib.sha256(f"{self.seed} {party.name} {party.life}".encode()).digest()[:16]
        problem = Problem(self.chance.uniform(1.0, 9.0))
        if self.agreement.masked:
            problem = FreshProblem(self.chance)
        gate = WatchedGate(
            self.agreement,
            party.name,
            subproblem=cast(Subproblem, problem),
            noise=FreshNoise(self.chance, 1 if self.agreement.masked else 1 << 30),
            ledger=cast(Ledger, party.disk),
            pack=signer(party.name),
        )
        gate.watch = partial(self._check_signed, party)
        if self.agreement.masked:
            disk, name = cast(Ledger, party.disk), party.name
            gate._masks = SeededMasks(self.agreement, name, disk, signer(name))
            gate._masks.chance = self.chance
        try:
            party.driver = Driver(
                self.agreement,
                party.name,
                nonce=nonce,
                pack=signer(party.name),
                gate=gate,
                ledger=cast(Ledger, party.disk),
                now=party.clock(self.now),
                wait=WAITS_SECONDS[(self.seed + party.life) % len(WAITS_SECONDS)],
            )
        except BadLedger as error:
            self._repair(party, error)
            return
        party.received = {p.name: stored.closed for p in self.parties}
        self._note(
            f"{party.name} starts, life {party.life}, with {len(stored.releases)} releases, "
            f"{len(stored.rounds)} rounds, {len(stored.seals)} seals"
        )
        if self.faults and self.chance.random() < self.faults.replay:
            self._replay_hellos(party)
        self._do(party, Driver.begin)

    def _do(self, party: Party, event: Callable[[Driver, float], list[Signed]]) -> None:
        """Pass an event to a running party, and publish what it sends."""
        driver = party.driver
        if driver is None:
            return
        try:
            for signed in event(driver, party.clock(self.now)):
                self._power(party, "before sending")
                self._publish(party, signed)
        except Crash as crash:
            self._crash(party, str(crash))
            return
        if driver.error is not None and party.error is not driver.error:
            self._fail(party, driver.error)
        if driver.left or (driver.error and driver.session.phase is not Phase.HALTED):
            self._end(party)
        else:
            self._set_alarm(party, driver.session.deadline)

    def _set_alarm(self, party: Party, deadline: float) -> None:
        due = max(party.time(deadline), self.now + 0.001)
        if not self.now < party.wake_at <= due:
            party.wake_at = due
            self._at(due - self.now, partial(self._wake, party, party.life, due))

    def _wake(self, party: Party, life: int, due: float) -> None:
        if party.life == life and party.wake_at == due:
            self._do(party, Driver.tick)

    def _fail(self, party: Party, error: SottoError) -> None:
        self._note(f"{party.name} fails: {type(error).__name__}: {error}")
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
        else:  # an impossible total comes again at once, so operators wait
            self._at(self.chance.uniform(0.1, 4.0), partial(self.start, party))

    def stop(self, party: Party) -> None:
        """An orderly shutdown."""
        self._note(f"{party.name} ends")
        if party.driver is not None:
            party.driver.shutdown()
        party.driver = None

    def _operate(self) -> None:
        """Every operator runs the same command again, even after a fault."""
        for party in self.parties:
            self._at(self.chance.uniform(0.0, 0.5), partial(self.start, party))

    # Power and disks

    def _power(self, party: Party, step: str) -> None:
        faults = self.faults
        # The rarer a step is, the likelier is a power failure there.
        rare = "seals" in step or "commitments" in step
        rarity = 0.3 if step == "before sending" else 20.0 if rare else 6.0
        if faults and party.witness_of is None and self.chance.random() < rarity * faults.crash:
            raise Crash(step)

    def _storm(self) -> None:
        """A party loses power between two events; the network splits and heals."""
        if self.faults is None:
            return
        party = self.chance.choice(self.parties)
        if party.driver is not None:
            try:
                self._power(party, "while waiting")
            except Crash as crash:
                self._crash(party, str(crash))
        if self.faults.partition:
            apart = self.chance.random() < 0.5
            self._sides = {p.name: self.chance.randrange(2) for p in self.parties} if apart else {}
            self._note(f"partition {self._sides}")
        self._at(self.chance.expovariate(2.0), self._storm)

    def cut_power(self, party: Party) -> None:
        party.driver = None
        party.disk.pending = party.disk.durable

    def _crash(self, party: Party, step: str) -> None:
        self._note(f"{party.name} loses power {step}")
        self.cut_power(party)
        if self.faults and self.chance.random() < self.faults.restore:
            self._restore(party, self.chance.choice(party.disk.copies))
        if self.faults and self.chance.random() < self.faults.damage:
            party.disk.flip(self.chance)
        self._at(self.chance.uniform(0.05, 3.0), partial(self.start, party))

    def _repair(self, party: Party, error: BadLedger) -> None:
        """A party finds its disk damaged before it sends anything. A good copy is put back."""
        self._note(f"{party.name} does not begin: {error}")
        if party.disk.good is None:
            raise Violation(f"{party.name} has no reason for BadLedger: {error}")
        party.disk.put_back(party.disk.good)
        party.disk.good = None
        self._at(self.chance.uniform(0.05, 1.0), partial(self.start, party))

    def _restore(self, party: Party, copy: Stored) -> None:
        """Put back an old copy of a disk, if a peer knows the releases that the copy lacks.

        Rounds on another disk are known for good. What a running party has received is known
        while it runs. So this witness must run until the old copy has been refused.
        """
        newest = (party.newest or party.disk.durable).sent
        count = copy.sent
        peers = [p for p in self.parties if p is not party and p.newest is None]
        if count < newest and not any(p.disk.durable.closed > count for p in peers):
            running = [p for p in peers if p.driver and p.received[party.name] > count]
            running = [p for p in running if p.witness_of in (None, party)]
            if not running:
                return
            running[0].witness_of = party
        if count < newest:
            party.newest = party.newest or party.disk.durable
        self._note(f"{party.name} gets an old disk: {count} of {newest} own messages")
        party.disk.put_back(copy)

    def _bring_back(self, party: Party) -> None:
        """The operator finds the newest copy of the disk. The old one must be unchanged."""
        if party.newest is None:
            return
        self._note(f"{party.name} gets its newest disk back")
        if party.disk.durable not in party.disk.copies:
            raise Violation(f"{party.name} wrote on an old disk")
        party.driver = None
        party.disk.put_back(party.newest)
        party.newest = None
        for witness in self.parties:
            if witness.witness_of is party:
                witness.witness_of = None
        self._at(self.chance.uniform(0.1, 1.0), partial(self.start, party))

    # The network

    def _publish(self, sender: Party, signed: Signed) -> None:
        self._note(f"{sender.name} sends ", signed.message)
        if sender.disk.pending is not sender.disk.durable:
            raise Violation(f"{sender.name} sends what would not survive a loss of power")
        own = signed.message.sender == sender.name
        if isinstance(signed.message, Seal) and own:
            self._check_signed(sender, signed.message)
        for receiver in self.parties:
            data = signed.data
            if sender is self.liar and receiver is not sender and own:
                state = receiver.driver.session.state if receiver.driver else None
                data = self.adversary.lie(
                    receiver.name, state, signed, faulty=self.faults is not None
                )
            key = isinstance(signed.message, MaskKey)
            hidden = self.adversary.copies and sender is self.liar and receiver is sender and key
            if not hidden:  # the true key of a copier was never sent, so it cannot be replayed
                self.adversary.published.append(data)
            if isinstance(signed.message, Hello):
                self._hellos.setdefault(sender.name, []).append(data)
            self._carry(sender, receiver, data, type(signed.message))
        who, last = self._last_release or (None, 0)
        answer = isinstance(signed.message, Release | Commitment)
        if who is sender and answer and signed.message.round >= last:
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
            self._at(late, partial(self._deliver, victim, chance.choice(self.adversary.published)))
        if chance.random() < faults.loss:
            return
        for _ in range(1 + (chance.random() < faults.duplicate)):
            copy = flip_bit(data, chance) if chance.random() < faults.flip else data
            late = chance.expovariate(1.0 / faults.delay_seconds)
            self._at(late, partial(self._deliver, receiver, copy))

    def _deliver(self, receiver: Party, data: bytes) -> None:
        if receiver.driver is None:
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
        self._note(f"    {receiver.name} receives {message.sender}'s ", message)
        if isinstance(message, Release | MaskKey | Commitment):
            received = receiver.received
            before = not isinstance(message, MaskKey) and self.agreement.masked
            received[message.sender] = max(received[message.sender], message.round + before + 1)
        self._do(receiver, lambda driver, now: driver.receive(signed, now))

    def _replay_hellos(self, party: Party) -> None:
        """The relay sends old Hellos of its peers to a party that starts."""
        for name, hellos in self._hellos.items():
            if name != party.name:
                late = self.chance.uniform(0.0, 0.001)
                self._at(late, partial(self._deliver, party, self.chance.choice(hellos)))

    # What must hold

    def _check_signed(self, party: Party, message: Message) -> None:
        """Check what an honest party signs: mask key, release or seal."""
        if party is self.liar:
            return
        if isinstance(message, MaskKey):
            if self.adversary.keys.setdefault(party.name, message) != message:
                raise Violation(f"{party.name} sent two mask keys")
            return
        if isinstance(message, Release):
            if self.adversary.copies:
                raise Violation(f"{party.name} released after a mask key was copied")
            known = self.adversary.released.setdefault((party.name, message.round), message)
            if known != message:
                raise Violation(f"{party.name} released round {message.round} twice")
        if isinstance(message, Commitment) and (
            self.adversary.committed.setdefault(party.name, message) != message
        ):
            raise Violation(f"{party.name} sent two messages with commitments")
        if len(self._chain_hashes.get(message.round - 1, ())) > 1:
            raise Violation(f"round {message.round - 1} was closed with different chain hashes")
        self._chain_hashes.setdefault(message.round, set()).add(message.chain_hash)
        if self.liar is None and len(self._chain_hashes[message.round]) > 1:
            raise Violation(f"honest parties have different chain hashes in round {message.round}")

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
            transcript = Transcript(stored.rounds, stored.seals, stored.keys, stored.commitments)
            end = replay(self.agreement, transcript)
            if end.committed is not None and not end.committed.adds_up and self.liar is None:
                raise Violation(f"{party.name} finished with commitments that do not add up")
            if stored.mask is not None and stored.mask[0]:
                raise Violation(f"{party.name} finished and still has its secret mask key")
            if self._chain_hashes[end.step] != {end.chain_hash}:
                raise Violation(
                    f"{party.name} finished, but not all honest parties sealed the same"
                )
            if party.disk.good is None:  # a damaged ledger would refuse to write one
                self._files.add(dump(self.agreement, transcript))
            if len(self._files) > 1:
                raise Violation(f"{party.name} has another transcript than a party before it")
        elif self.liar is None:
            raise Violation(f"{party.name} did not finish")
        elif self.adversary.copies and silent(party.error) == self.liar.name:
            return  # the copier is missing, and no party released
        elif self.adversary.miscommits and silent(party.error) == self.liar.name:
            return  # no valid commitments of the liar came, and the outcome is unsealed
        elif not stored.fault and not isinstance(party.error, ImpossibleTotal):
            raise Violation(f"{party.name} neither finished nor has a proof: {party.error}")


def silent(error: SottoError | None) -> str:
    """The member that an error names as silent, if it names exactly one."""
    patterns = (
        r"nothing from '(\w+)' for ",
        r"the first round did not close within .*: waited for '(\w+)'\.",
        r".* no valid commitments of '(\w+)'\.",
    )
    found = next(filter(None, (re.match(pattern, str(error)) for pattern in patterns)), None)
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
