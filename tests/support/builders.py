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
    """The key of a member: the same in every run."""
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
    """An agreement as it would be read from its file; `more` replaces whole fields."""
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
    """What a session calls to sign as this member."""
    key = signing_key(name)

    def sign(data: bytes) -> bytes:
        return key.sign(data).signature

    return lambda message: pack(message, key=bytes(key.verify_key), sign=sign)


def sign(message: Message) -> Signed:
    """A message signed by the member that it names as its sender."""
    return signer(message.sender)(message)


def release_at(
    agreement: Agreement, name: str, state: RoundState, values: tuple[int, ...] | None = None
) -> Signed:
    """The release of a member at a position: all its numbers told apart by member and round.

    Three members want all there is. With the centre rule they want half as much again in the
    first two rounds, so that a session ends by itself after the third and not before.
    """
    if values is None:
        place = agreement.place(name)
        parts = 2 if agreement.pricing.step == "center" and state.round < 2 else 3
        values = tuple(
            agreement.ticks // parts + 1000 * (place + 1) + 10 * state.round + j
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
    """A transcript of this many rounds (until it is over, and sealed, unless told).

    With every position from the opening on.
    """
    engine = RoundEngine(agreement)
    positions = [engine.opening]
    closed: list[tuple[Signed, ...]] = []
    while len(closed) != rounds and (rounds is not None or not positions[-1].over):
        releases = tuple(release_at(agreement, m.name, positions[-1]) for m in agreement.members)
        values = [r.message.values for r in releases if isinstance(r.message, Release)]
        positions.append(engine.advance(positions[-1], np.array(values, dtype=np.int64)))
        closed.append(releases)
    seals: tuple[Signed, ...] = ()
    if rounds is None:
        seals = tuple(
            sign(
                Seal(
                    sender=m.name,
                    agreement=agreement.digest,
                    round=positions[-1].round,
                    chain_hash=positions[-1].chain_hash,
                    has_all_seals=False,
                )
            )
            for m in agreement.members
        )
    return Transcript(rounds=tuple(closed), seals=seals), positions


def dump(agreement: Agreement, transcript: Transcript) -> bytes:
    """A transcript as its file."""
    rounds = [[signed.data for signed in releases] for releases in transcript.rounds]
    seals, keys = ([signed.data for signed in part] for part in (transcript.seals, transcript.keys))
    return frame(agreement, rounds, seals, keys)
