"""One party of an exploration: what each event in each of its states leads to.

A party is deterministic: one event in one state always has the same result. So each pair is
played once, with the real driver, gate, session, codec and signatures, and remembered. Never
here: a second implementation of the protocol. Only clock, disk, noise and private problem are
replaced, and `FreeTimers` lets every deadline pass at any time.
"""

import hashlib
import itertools
from contextlib import suppress
from typing import Any, NamedTuple, cast

from party.driver import Driver
from party.ledger.session_ledger import Ledger
from party.model.best_response import Subproblem
from party.release.gate import Gate
from party.release.masks import Masks
from party.release.noise import Noise
from protocol.agreement.model import Agreement
from protocol.errors import BadMessage, PeerError, SottoError
from protocol.numeric import Floats, Ticks
from protocol.session.handshake import CONTEXT
from protocol.session.phases import Phase
from protocol.session.timers import Timers
from protocol.wire.codec import Reader
from protocol.wire.messages import NO_NONCE, Halt, Hello, Signed
from tests.support.builders import signer
from tests.support.exploration.fingerprint import (
    claims_too_much,
    clone,
    disk_content,
    fingerprint,
    may_diverge,
    proves,
)
from tests.support.simulated_disk import Disk, Stored, Violation
from tests.support.simulated_party import Problem

_QUIET, _REPLY, _RESEND, _EXPIRE = 0.0, 1.0, 2.0, 3.0
_TIMES = {"reply": _REPLY, "resend": _RESEND, "expire": _EXPIRE}


class FreeTimers(Timers):
    """Deadlines that pass when the exploration says so, in any order."""

    def reply_due(self, now: float) -> bool:
        return self.reply_owed and now == _REPLY

    def resend_due(self, now: float) -> bool:
        return now == _RESEND

    def expired(self, now: float) -> bool:
        return now == _EXPIRE


class Crash(Exception):
    """A party loses power at a step of its disk."""


class Fuse:
    """Counts the steps at which the power of a party may fail, and fails at one of them."""

    def __init__(self, fails_at: int | None) -> None:
        self.steps = 0
        self._fails_at = fails_at

    def __call__(self, step: str) -> None:
        if self.steps == self._fails_at:
            raise Crash(step)
        self.steps += 1


class LifeNoise(Noise):
    """Noise that differs in each life of a party, so that a round answered twice is noticed."""

    private = True

    def __init__(self, life: int) -> None:
        self._life = life

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002, ARG002
        return values + 1 + self._life


class LifeMasks(Masks):
    """Masks whose keys differ in each life of a party."""

    life = 0

    def _random(self) -> bytes:
        return hashlib.sha256(f"mask {self._member} {self.life}".encode()).digest()


class Event(NamedTuple):
    """One thing that can happen to one party."""

    #: start, receive, reply, resend, expire or crash.
    kind: str
    #: The number of the message that arrives.
    message: int = -1
    #: Where replies are free: the requests that this party has at the time. None for no request,
    #: -1 for requests that its next Hello answers by its digest, or the place of a peer that wants
    #: its nonce repeated.
    request: int | None = None
    #: The step of the disk at which the power fails; None if it does not.
    fails_at: int | None = None
    #: How many messages leave before the power fails; None if it does not.
    sent: int | None = None

    @property
    def is_crash(self) -> bool:
        return self.kind == "crash" or self.fails_at is not None or self.sent is not None


class Local(NamedTuple):
    """The state of one party: its disk, its lives, and its process while it runs."""

    party: int
    life: int
    stored: Stored
    driver: Driver | None
    #: Why the last process ended, or what it knows to be wrong.
    error: SottoError | None
    #: The peers whose answer to this start has arrived, by place.
    heard: frozenset[int] = frozenset()
    #: The nonces of all starts so far.
    nonces: tuple[bytes, ...] = ()


class Step(NamedTuple):
    """What one event in one state of a party leads to."""

    after: int
    #: The numbers of the messages that the party sends.
    sends: tuple[int, ...]
    #: At how many steps of its disk the power could have failed.
    power_steps: int


class Players:
    """All states of single parties that were met, and what each event leads to. Played once."""

    def __init__(self, agreement: Agreement, *, lives: int, free_replies: bool = False) -> None:
        """`lives`: how often a party starts at most.

        `free_replies`: a party forgets after each event which peers wait for its reply, and may
        reply to any of them at any time. So it does all that a party does that remembers.
        """
        self.agreement = agreement
        self.names = tuple(member.name for member in agreement.members)
        self.messages: list[Signed] = []
        self.locals: list[Local] = []
        #: The number of the disk of each state; states that differ in their process share it.
        self.disks: list[int] = []
        self._lives, self._free_replies = lives, free_replies
        self._message_ids: dict[bytes, int] = {}
        self._halt_views: dict[int, Any] = {}
        self._local_ids: dict[Any, int] = {}
        self._disk_ids: dict[Any, int] = {}
        self._steps: dict[tuple[int, Event, bool], Step] = {}
        self._covering: dict[tuple[int, int], frozenset[bytes]] = {}
        self._reader = Reader(agreement)
        #: How many events were really played.
        self.played = 0

    def message_id(self, signed: Signed) -> int:
        found = self._message_ids.setdefault(signed.data, len(self.messages))
        if found == len(self.messages):
            self.messages.append(signed)
            if isinstance(signed.message, Halt):
                self._halt_views[found] = self._halt_view(signed.message)
        return found

    def _halt_view(self, halt: Halt) -> Any:
        """What any party can read from a Halt."""
        evidence = []
        for data in halt.evidence:
            with suppress(BadMessage):
                evidence.append(proves(self._reader.unpack(data)))
        return halt.sender, halt.round, halt.chain_hash, halt.reason, tuple(evidence)

    def absent(self, party: int) -> int:
        """A party that has never started."""
        return self._local_id(Local(party, 0, Stored(), None, None))

    def nonce(self, party: int, life: int) -> bytes:
        """The nonce of a start."""
        return hashlib.sha256(f"nonce {self.names[party]} {life}".encode()).digest()[:16]

    def covering(self, party: int, life: int) -> frozenset[bytes]:
        """The digests of nonces that cover this start of a party."""
        if (party, life) not in self._covering:
            lives = range(1, self._lives + 1)
            choices = [
                [self.nonce(k, life)]
                if k == party
                else [NO_NONCE, *(self.nonce(k, one) for one in lives)]
                for k in range(len(self.names))
            ]
            self._covering[party, life] = frozenset(
                hashlib.sha256(b"".join((CONTEXT, *nonces))).digest()
                for nonces in itertools.product(*choices)
            )
        return self._covering[party, life]

    def view(self, local: int, number: int) -> Any:
        """What a party that forgets requests can read from a message: messages alike act alike."""
        held, message = self.locals[local], self.messages[number].message
        if isinstance(message, Halt):
            return self._halt_views[number]
        if not isinstance(message, Hello) or held.driver is None:
            return number
        if message.agreement != self.agreement.digest or may_diverge(held.driver, message):
            return number
        covers = message.nonce_digest in self.covering(held.party, held.life)
        return (
            message.sender,
            message.nonce,
            message.nonce_digest if covers else b"",
            message.echo == self.nonce(held.party, held.life),
            claims_too_much(held.driver, message),
        )

    def step(self, local: int, event: Event, *, exact: bool = False) -> Step:
        """What an event leads to; `exact`: even where replies are free, remember requests."""
        key = local, event, exact
        if key not in self._steps:
            self._steps[key] = self._play(self.locals[local], event, exact)
        return self._steps[key]

    def _play(self, local: Local, event: Event, exact: bool) -> Step:
        self.played += 1
        if event.kind == "crash":
            return Step(self._local_id(local._replace(driver=None, error=None)), (), 0)
        fuse = Fuse(event.fails_at)
        if event.kind == "start":
            disk = Disk(fuse, self._reader.unpack)
            disk.put_back(local.stored)
            local = local._replace(life=local.life + 1, heard=frozenset())
            driver = self._process(local, disk)
        else:
            driver = clone(local.driver, {})
            disk = cast(Disk, driver._ledger)
            disk._power = fuse
        if event.request is not None:
            names = [self.names[event.request]] if event.request >= 0 else []
            driver.session._handshake._requests = dict.fromkeys(names, b"")
            driver.session._timers.reply_owed = True
        try:
            if event.kind == "start":
                outgoing = driver.begin(_QUIET)
            elif event.kind == "receive":
                local = self._hear(local, self.messages[event.message])
                outgoing = driver.receive(self.messages[event.message], _QUIET)
            else:
                outgoing = driver.tick(_TIMES[event.kind])
            driver.run_idle_work()
        except Crash:
            return Step(self._local_id(local._replace(stored=disk.durable, driver=None)), (), 0)
        if disk.pending is not disk.durable:
            raise Violation(f"{self.names[local.party]} sends what would not survive a crash")
        if driver.finished is not None and not disk.durable.seals:
            raise Violation(f"{self.names[local.party]} finished, and its disk has no seals")
        sends = tuple(self.message_id(signed) for signed in outgoing)
        error, running = driver.error, event.sent is None
        if not running:
            sends, error = sends[: event.sent], None
        elif driver.left or (error is not None and driver.session.phase is not Phase.HALTED):
            driver.shutdown()
            running = False
        if self._free_replies and not exact:
            _forget_requests(driver)
        if event.kind == "start":
            hellos = [s.message.nonce for s in outgoing if isinstance(s.message, Hello)]
            if set(hellos) & set(local.nonces):
                raise Violation(f"{self.names[local.party]} used a nonce again")
            local = local._replace(nonces=(*local.nonces, *hellos[:1]))
        after = local._replace(stored=disk.durable, driver=driver if running else None, error=error)
        return Step(self._local_id(after), sends, fuse.steps)

    def _hear(self, local: Local, signed: Signed) -> Local:
        """Note a Hello that was made after this start: it repeats or covers its nonce."""
        hello = signed.message
        if not isinstance(hello, Hello) or hello.sender == self.names[local.party]:
            return local
        ours = self.nonce(local.party, local.life)
        if hello.echo != ours and hello.nonce_digest not in self.covering(local.party, local.life):
            return local
        return local._replace(heard=local.heard | {self.names.index(hello.sender)})

    def _process(self, local: Local, disk: Disk) -> Driver:
        name, ledger = self.names[local.party], cast(Ledger, disk)
        gate = Gate(
            self.agreement,
            name,
            subproblem=cast(Subproblem, Problem(2.0 + local.party)),
            noise=LifeNoise(local.life),
            ledger=ledger,
            pack=signer(name),
        )
        if self.agreement.masked:
            gate._masks = LifeMasks(self.agreement, name, ledger, signer(name))
            gate._masks.life = local.life
        driver = Driver(
            self.agreement,
            name,
            nonce=self.nonce(local.party, local.life),
            pack=signer(name),
            gate=gate,
            ledger=ledger,
        )
        timers = FreeTimers(self.agreement, _QUIET)
        timers.enter(driver.session.phase, gathering=driver.session._gathering)
        driver.session._timers = timers
        return driver

    def _local_id(self, local: Local) -> int:
        if local.driver is None:
            local = local._replace(heard=frozenset())
        process = None
        if local.driver is not None:
            process = fingerprint(local.driver, self.covering(local.party, local.life))
        error = local.error
        why = type(error), error.sender if isinstance(error, PeerError) else None
        disk = local.party, local.life, local.driver is None, disk_content(local.stored), why
        key = disk, process, local.heard
        found = self._local_ids.setdefault(key, len(self.locals))
        if found == len(self.locals):
            self.locals.append(local)
            self.disks.append(self._disk_ids.setdefault(disk, len(self._disk_ids)))
        return found


def _forget_requests(driver: Driver) -> None:
    """Forget which peers wait for a reply or lack messages, as after replies that were lost.

    What they lack are messages of others, which this party has received: they are in the network.
    """
    handshake = driver.session._handshake
    handshake._requests, handshake._lost, driver.session._sealing._owed = {}, {}, {}
    handshake._sent_digest = handshake.nonce_digest
    driver.session._timers.reply_owed = False
