"""Agreements with real Ed25519 keys, and messages signed with them."""

import hashlib
from functools import cache
from typing import Any

import numpy as np
from nacl.signing import SigningKey

from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.rounds import RoundEngine, RoundState
from protocol.session.outbox import Pack
from protocol.wire.codec import pack
from protocol.wire.messages import Message, Release, Seal, Signed
from protocol.wire.transcript import Transcript, frame

NAMES = ("ada", "ben", "cyd", "dan", "eve")


@cache
def signing_key(name: str) -> SigningKey:
    """The key of a member, equal in every run."""
    return SigningKey(hashlib.sha256(f"sotto test key of {name}".encode()).digest())


def public_key(name: str) -> bytes:
    return bytes(signing_key(name).verify_key)


def table(
    *,
    members: int = 3,
    rounds: int = 3,
    resources: int = 2,
    patience: float = 120.0,
    **more: Any,
) -> dict[str, Any]:
    """The table of an agreement file; `more` replaces fields."""
    return {
        "session": "test",
        "mode": "exact",
        "rounds": rounds,
        "prices": {"step": "constant", "step_size": 0.25},
        "transport": {"patience_seconds": patience},
        "resource": [{"name": f"r{j}", "capacity": 10.0 * (j + 1)} for j in range(resources)],
        "member": [
            {"name": name, "signing_key": public_key(name).hex()} for name in NAMES[:members]
        ],
        **more,
    }


def make_agreement(**fields: Any) -> Agreement:
    return from_table(table(**fields))


def signer(name: str) -> Pack:
    """The function with which a session signs as this member."""
    key = signing_key(name)

    def sign(data: bytes) -> bytes:
        return key.sign(data).signature

    return lambda message: pack(message, key=bytes(key.verify_key), sign=sign)


def sign(message: Message) -> Signed:
    """The message, signed by its sender."""
    return signer(message.sender)(message)


def release_at(
    agreement: Agreement, name: str, state: RoundState, values: tuple[int, ...] | None = None
) -> Signed:
    """The release of a member in a round; every number depends on member and round.

    Three members together want each capacity. With the centre rule they want 1.5 times as much
    in the first two rounds, so that a session ends by itself after the third.
    """
    if values is None:
        row = agreement.place(name)
        fraction = 2 if agreement.pricing.step == "center" and state.round < 2 else 3
        values = tuple(
            agreement.ticks // fraction + 1000 * (row + 1) + 10 * state.round + j
            for j in range(agreement.width)
        )
    return sign(
        Release(
            sender=name,
            agreement=agreement.digest,
            round=state.round,
            chain_hash=state.chain_hash,
            values=values,
        )
    )


def play(agreement: Agreement, *, rounds: int | None = None) -> tuple[Transcript, list[RoundState]]:
    """A transcript of this many rounds (default: complete and sealed), and all its states."""
    engine = RoundEngine(agreement)
    states = [engine.opening]
    closed: list[tuple[Signed, ...]] = []
    while len(closed) != rounds and (rounds is not None or not states[-1].over):
        releases = tuple(release_at(agreement, m.name, states[-1]) for m in agreement.members)
        values = [r.message.values for r in releases if isinstance(r.message, Release)]
        states.append(engine.advance(states[-1], np.array(values, dtype=np.int64)))
        closed.append(releases)
    seals: tuple[Signed, ...] = ()
    if rounds is None:
        seals = tuple(
            sign(
                Seal(
                    sender=m.name,
                    agreement=agreement.digest,
                    round=states[-1].round,
                    chain_hash=states[-1].chain_hash,
                    has_all_seals=False,
                )
            )
            for m in agreement.members
        )
    return Transcript(rounds=tuple(closed), seals=seals), states


def dump(agreement: Agreement, transcript: Transcript) -> bytes:
    """A transcript as its file."""
    rounds = [[signed.data for signed in releases] for releases in transcript.rounds]
    seals, keys, commitments = (
        [signed.data for signed in messages]
        for messages in (transcript.seals, transcript.keys, transcript.commitments)
    )
    return frame(agreement, rounds, seals, keys, commitments)
