"""One party of an exploration: what each event in each of its states leads to.

A party is deterministic: one event in one state always has the same result. So each pair is
played once, with the real driver, gate, session, codec and signatures, and remembered. Never
here: a second implementation of the protocol. Only clock, disk, noise and private problem are
replaced, and `FreeTimers` lets every deadline pass at any time.
"""

import hashlib
from typing import Any, NamedTuple, cast

import numpy as np

from party.driver import Driver
from party.ledger.session_ledger import Ledger
from party.model.best_response import Subproblem
from party.release.gate import Gate
from party.release.masks import Masks
from party.release.noise import Noise
from protocol.agreement.model import Agreement
from protocol.errors import SottoError
from protocol.numeric import Floats, Ticks
from protocol.rounds import RoundEngine, RoundState
from protocol.session.phases import Phase
from protocol.session.timers import Timers
from protocol.wire.codec import Reader
from protocol.wire.messages import Signed
from tests.support.builders import signer
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


_UNCHANGING = (
    *(bytes, str, int, float, tuple, frozenset, type(None), np.ndarray),
    *(Agreement, RoundEngine, RoundState, Reader, Stored, SottoError, Phase),
)


_shared: dict[type, bool] = {}


def _is_shared(kind: type) -> bool:
    """Whether copies of a party share objects of this type: they never change, or are code."""
    if kind not in _shared:
        code = any("__call__" in vars(one) for one in kind.__mro__)
        _shared[kind] = code or issubclass(kind, _UNCHANGING)
    return _shared[kind]


def clone(thing: Any, memo: dict[int, Any]) -> Any:
    """A copy of a party's objects that shares everything that never changes."""
    kind = type(thing)
    if _is_shared(kind):
        return thing
    if kind in (dict, set, list):
        return thing.copy()
    if id(thing) in memo:
        return memo[id(thing)]
    copy = memo[id(thing)] = object.__new__(kind)
    for name, value in vars(thing).items():
        copy.__dict__[name] = value if _is_shared(type(value)) else clone(value, memo)
    return copy


def fingerprint(driver: Driver) -> tuple[Any, ...]:
    """All of a running party, besides its disk, that can influence what it does later."""
    session = driver.session
    handshake, buffer = session._handshake, session._buffer
    sealing, faults = session._sealing, session._faults
    return (
        session.phase,
        session.state.chain_hash,
        session.state.round,
        session._left,
        session._timers.reply_owed,
        _bare(session._outbox.messages),
        handshake.recorded,
        tuple(handshake._nonces.values()),
        handshake._sent_digest,
        tuple(handshake._requests.items()),
        _bare(handshake.unverified_hellos),
        frozenset(handshake.answered),
        frozenset(handshake.stale_claims),
        frozenset(handshake.other_agreements.items()),
        _bare(handshake._lost),
        _bare(buffer.current),
        _bare(buffer._next),
        _bare(buffer._refused),
        _bare(sealing.seals),
        frozenset(sealing.have_all),
        _bare(sealing._owed),
        frozenset(sealing._helped),
        _bare(faults.proof),
        _bare(faults.diverged),
        None if faults.own_evidence is None else _bare(faults.own_evidence),
        frozenset(faults._warned),
        driver.left,
        type(driver.error),
    )


def _bare(value: Any) -> Any:
    """Signed messages, or collections of them, as bytes that can be compared and hashed."""
    if isinstance(value, Signed):
        return value.data
    if isinstance(value, dict):
        return frozenset((name, _bare(held)) for name, held in value.items())
    return tuple(_bare(one) for one in value)


class Event(NamedTuple):
    """One thing that can happen to one party."""

    #: start, receive, reply, resend, expire or crash.
    kind: str
    #: The number of the message that arrives.
    message: int = -1
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


class Step(NamedTuple):
    """What one event in one state of a party leads to."""

    after: int
    #: The numbers of the messages that the party sends.
    sends: tuple[int, ...]
    #: At how many steps of its disk the power could have failed.
    power_steps: int


class Players:
    """All states of single parties that were met, and what each event leads to. Played once."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self.names = tuple(member.name for member in agreement.members)
        self.messages: list[Signed] = []
        self.locals: list[Local] = []
        self._message_ids: dict[bytes, int] = {}
        self._local_ids: dict[Any, int] = {}
        self._steps: dict[tuple[int, Event], Step] = {}
        self._reader = Reader(agreement)
        #: How many events were really played.
        self.played = 0

    def message_id(self, signed: Signed) -> int:
        found = self._message_ids.setdefault(signed.data, len(self.messages))
        if found == len(self.messages):
            self.messages.append(signed)
        return found

    def absent(self, party: int) -> int:
        """A party that has never started."""
        return self._local_id(Local(party, 0, Stored(), None, None))

    def nonce(self, party: int, life: int) -> bytes:
        return hashlib.sha256(f"nonce {self.names[party]} {life}".encode()).digest()[:16]

    def step(self, local: int, event: Event) -> Step:
        key = local, event
        if key not in self._steps:
            self._steps[key] = self._play(self.locals[local], event)
        return self._steps[key]

    def _play(self, local: Local, event: Event) -> Step:
        self.played += 1
        if event.kind == "crash":
            return Step(self._local_id(local._replace(driver=None, error=None)), (), 0)
        fuse = Fuse(event.fails_at)
        if event.kind == "start":
            disk = Disk(fuse, self._reader.unpack)
            disk.put_back(local.stored)
            local = local._replace(life=local.life + 1)
            driver = self._process(local, disk)
        else:
            driver = clone(local.driver, {})
            disk = cast(Disk, driver._ledger)
            disk._power = fuse
        try:
            if event.kind == "start":
                outgoing = driver.begin(_QUIET)
            elif event.kind == "receive":
                outgoing = driver.receive(self.messages[event.message], _QUIET)
            else:
                outgoing = driver.tick(_TIMES[event.kind])
            driver.run_idle_work()
        except Crash:
            down = Local(local.party, local.life, disk.durable, None, None)
            return Step(self._local_id(down), (), 0)
        if disk.pending is not disk.durable:
            raise Violation(f"{self.names[local.party]} sends what would not survive a crash")
        sends = tuple(self.message_id(signed) for signed in outgoing)
        error, running = driver.error, event.sent is None
        if not running:
            sends, error = sends[: event.sent], None
        elif driver.left or (error is not None and driver.session.phase is not Phase.HALTED):
            driver.shutdown()
            running = False
        after = Local(local.party, local.life, disk.durable, driver if running else None, error)
        return Step(self._local_id(after), sends, fuse.steps)

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
        timers.enter(driver.session.phase)
        driver.session._timers = timers
        return driver

    def _local_id(self, local: Local) -> int:
        stored = local.stored
        content = (
            _bare(stored.releases),
            _bare(stored.rounds),
            _bare(stored.seals),
            frozenset(_bare(stored.witnessed)),
            stored.fault is not None,
            stored.mask and (stored.mask[0], stored.mask[1].data),
            _bare(stored.keys),
            _bare(stored.commitments),
            stored.allocation is not None,
            stored.opening and stored.opening[1].data,
        )
        process = None if local.driver is None else fingerprint(local.driver)
        key = local.party, local.life, content, process, type(local.error)
        found = self._local_ids.setdefault(key, len(self.locals))
        if found == len(self.locals):
            self.locals.append(local)
        return found
