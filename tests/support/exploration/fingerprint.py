"""What of a running party can influence what it does later, and copies of a party.

Two processes with one fingerprint on one disk act alike for ever. `test_explore` checks this: it
plays every event with both. Never here: a decision about which events there are.
"""

from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from party.driver import Driver
from party.release.noise import Noise
from protocol.agreement.model import Agreement
from protocol.errors import SottoError
from protocol.privacy.calibration import Calibration
from protocol.rounds import RoundEngine, RoundState
from protocol.session.exchange import Exchanges
from protocol.session.handshake import Handshake
from protocol.session.phases import Phase
from protocol.wire.codec import Reader
from protocol.wire.messages import Hello, Signed
from tests.support.simulated_disk import Stored
from tests.support.simulated_party import Problem

_UNCHANGING = (
    *(bytes, str, int, float, tuple, frozenset, type(None), np.ndarray),
    *(Agreement, Calibration, Exchanges, Noise, Problem, RoundEngine, RoundState, Reader),
    *(Stored, SottoError, Phase),
)


_shared: dict[type, bool] = {}


def _shares(kind: type) -> bool:
    if kind not in _shared:
        _shared[kind] = _is_shared(kind)
    return _shared[kind]


def _is_shared(kind: type) -> bool:
    """Whether copies of a party share objects of this type: they never change, or are code."""
    if issubclass(kind, Struct) and kind.__struct_config__.frozen:
        return True
    code = any("__call__" in vars(one) for one in kind.__mro__)
    return code or any(one in kind.__mro__ for one in _UNCHANGING)


def clone(thing: Any, memo: dict[int, Any]) -> Any:
    """A copy of a party's objects that shares everything that never changes."""
    kind = type(thing)
    if kind in (dict, set, list):
        return thing.copy()
    if id(thing) in memo:
        return memo[id(thing)]
    if isinstance(thing, Struct):
        copy = memo[id(thing)] = replace(thing)
        for name, value in asdict(copy).items():
            if not _shares(type(value)):
                setattr(copy, name, clone(value, memo))
        return copy
    copy = memo[id(thing)] = object.__new__(kind)
    held = copy.__dict__
    held.update(vars(thing))
    for name, value in held.items():
        if not _shares(type(value)):
            held[name] = clone(value, memo)
    return copy


def fingerprint(driver: Driver, covering: frozenset[bytes]) -> tuple[Any, ...]:
    """All of a running party, besides its disk, that can influence what it does later.

    `covering` are the digests of nonces that this start can ever have. The handshake compares
    digests only with those, so all others are alike. Once it is over, `answered` and the digest
    that was last sent are not read again. Clocks stand still here, and texts for the operator are
    not compared: so peers that were helped, warned about or doubted leave no trace.
    """
    session = driver.session
    handshake, buffer, sealing = session._handshake, session._buffer, session._sealing
    sends = (
        session.phase,
        session.state.chain_hash,
        session.state.round,
        session._left,
        session._timers.reply_owed,
        bare(session._outbox.messages),
        handshake.recorded,
        tuple(handshake._nonces.values()),
        _requests(handshake, covering),
        bare(handshake._lost),
        bare(sealing._owed),
        driver.left,
        type(driver.error),
    )
    if session.phase is Phase.HALTED:  # it looks at no message any more
        known = sealing.known_ahead() if session.state.final else buffer.known_ahead()
        return *sends, known
    greeting = session.phase is Phase.HANDSHAKE
    own_evidence = session._faults.own_evidence
    return (
        *sends,
        handshake._sent_digest if greeting else b"",
        frozenset(_unverified(driver, covering)),
        frozenset(handshake.answered) if greeting else None,
        frozenset(handshake.other_agreements.items()) if greeting else None,
        bare(buffer.current),
        bare(buffer._next),
        bare(buffer._refused),
        bare(sealing.seals),
        frozenset(sealing.have_all),
        frozenset((name, proves(one)) for name, one in session._faults.diverged.items()),
        None if own_evidence is None else tuple(map(proves, own_evidence)),
    )


def proves(signed: Signed) -> Any:
    """What a message can prove as evidence. Hellos prove only where their sender stands."""
    message = signed.message
    if isinstance(message, Hello):
        return message.sender, message.agreement, message.round, message.chain_hash
    return signed.data


def _requests(handshake: Handshake, covering: frozenset[bytes]) -> tuple[tuple[str, bytes], ...]:
    """Who wants a reply, in order. A digest that can never equal ours is as good as none."""
    requests = handshake._requests.items()
    return tuple((name, digest if digest in covering else b"") for name, digest in requests)


def _unverified(driver: Driver, covering: frozenset[bytes]) -> list[tuple[Any, ...]]:
    """The Hellos that may yet turn out to answer this start.

    Of one that cannot diverge only the digest can matter, and whether it claims too much. Both do
    only during the handshake.
    """
    session = driver.session
    found = list[tuple[Any, ...]]()
    for name, signed in session._handshake.unverified_hellos.items():
        hello = signed.message
        assert isinstance(hello, Hello)
        if hello.nonce_digest not in covering:
            continue
        if may_diverge(driver, hello):
            found.append((name, signed.data))
        elif session.phase is Phase.HANDSHAKE:
            found.append((name, hello.nonce_digest, claims_too_much(driver, hello)))
    return found


def may_diverge(driver: Driver, hello: Hello) -> bool:
    """Whether a Hello has another chain hash than this party, or is ahead of it."""
    buffer = driver.session._buffer
    return buffer.ahead(hello) > 0 or buffer.diverges(hello)


def claims_too_much(driver: Driver, hello: Hello) -> bool:
    """Whether a Hello claims more of our messages than we have; their number stays till then."""
    session = driver.session
    claim = min(session._buffer.claim(hello), session._buffer.numbering.most)
    return claim > session._handshake.recorded


def disk_content(stored: Stored) -> tuple[Any, ...]:
    """A disk as something that can be compared and hashed."""
    return (
        bare(stored.releases),
        bare(stored.rounds),
        bare(stored.seals),
        frozenset(bare(stored.witnessed)),
        stored.fault is not None,
        stored.mask and (stored.mask[0], stored.mask[1].data),
        bare(stored.keys),
        bare(stored.commitments),
        stored.allocation is not None,
        stored.opening and stored.opening[1].data,
    )


def bare(value: Any) -> Any:
    """Signed messages, or collections of them, as bytes that can be compared and hashed."""
    if isinstance(value, Signed):
        return value.data
    if isinstance(value, dict):
        return frozenset((name, bare(held)) for name, held in value.items())
    return tuple(bare(one) for one in value)
