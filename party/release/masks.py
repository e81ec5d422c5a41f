"""The masks of one party: numbers that it adds to its releases, so that only totals can be read.

Every two members share a secret, made from keys for this session alone. It gives a stream of
numbers for each round, which the earlier of the two adds and the later subtracts. In the sum of
all releases the streams cancel; a sum over fewer members tells nothing (SPEC.md §18).
Ed25519, X25519 and the stream are libsodium's, BLAKE2b is the standard library's. The secret key
is in the ledger until the session is sealed. Neither it nor a mask goes into a log, an error or a
message.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from nacl.bindings import (
    crypto_scalarmult,
    crypto_sign,
    crypto_sign_BYTES,
    crypto_sign_ed25519_pk_to_curve25519,
    crypto_sign_ed25519_sk_to_curve25519,
    crypto_sign_seed_keypair,
    randombytes_buf_deterministic,
)
from nacl.utils import random as random_bytes

from party.ledger.session_ledger import Ledger
from protocol.agreement.model import Agreement
from protocol.numeric import Ticks
from protocol.rounds import RoundState, mask_keys, session_id
from protocol.wire.messages import KEY_BYTES, MaskKey, Message, Signed, possession


@dataclass(frozen=True)
class MaskSecret:
    """The secret mask key of one member, as the 32 bytes that it is made from. Secret."""

    seed: bytes

    def __repr__(self) -> str:
        return "<secret mask key>"

    @property
    def public(self) -> bytes:
        return bytes(crypto_sign_seed_keypair(self.seed)[0])

    def sign(self, text: bytes) -> bytes:
        """The Ed25519 signature of a text."""
        return bytes(crypto_sign(text, crypto_sign_seed_keypair(self.seed)[1])[:crypto_sign_BYTES])

    def shared(self, theirs: bytes) -> bytes:
        """X25519 between the images of both keys on the Montgomery curve."""
        own = crypto_sign_ed25519_sk_to_curve25519(crypto_sign_seed_keypair(self.seed)[1])
        return bytes(crypto_scalarmult(own, crypto_sign_ed25519_pk_to_curve25519(theirs)))


def pair_secret(
    secret: MaskSecret, keys: list[bytes], own: int, other: int, chain_hash: bytes
) -> bytes:
    """What the members at the places `own` and `other` share. Both compute the same.

    `head` is the session id, to which all `keys` lead.

    Guarantee: the hash names both places and both announced keys. So two different pairs have
    different secrets, whatever keys a member announces (PRIVACY.md §10.1).
    """
    first, last = sorted((own, other))
    pair = first.to_bytes(4, "big") + last.to_bytes(4, "big") + keys[first] + keys[last]
    text = b"sotto pair 2\n" + chain_hash + pair
    return hashlib.blake2b(text, key=secret.shared(keys[other]), digest_size=32).digest()


def stream(pair: bytes, state: RoundState, width: int) -> bytes:
    """The numbers of two members for a round, 8 bytes each, big-endian.

    Guarantee: each pair, round and head has a stream of its own. A mask is used twice only for
    the same round on the same head, and a party makes one release for each round.
    """
    return _stream(pair, _place(state), 8 * width)


def _place(state: RoundState) -> bytes:
    return b"sotto mask\n" + state.round.to_bytes(4, "big") + state.chain_hash


def _stream(pair: bytes, place: bytes, size: int) -> bytes:
    seed = hashlib.blake2b(place, key=pair, digest_size=32).digest()
    return randombytes_buf_deterministic(size, seed)


def announcement(
    agreement: Agreement, member: str, chain_hash: bytes, secret: MaskSecret
) -> MaskKey:
    """The message in which a member announces its mask key and proves that it owns it."""
    place = agreement.place(member)
    text = possession(
        agreement=agreement.digest,
        chain_hash=chain_hash,
        place=place,
        signing_key=agreement.members[place].signing_key,
        key=secret.public,
    )
    return MaskKey(
        sender=member,
        agreement=agreement.digest,
        round=0,
        chain_hash=chain_hash,
        key=secret.public,
        proof=secret.sign(text),
    )


class Masks:
    """Makes the mask key of a session, once, and the masks of its rounds."""

    def __init__(
        self, agreement: Agreement, member: str, ledger: Ledger, pack: Callable[[Message], Signed]
    ) -> None:
        self._agreement = agreement
        self._member = member
        self._row = agreement.place(member)
        self._ledger = ledger
        self._pack = pack
        self._pairs: list[bytes] = []

    def key(self, state: RoundState) -> Signed:
        """The signed public key: the recorded one, or a new one.

        Guarantee: when this returns, the secret key survives any crash, and a session that has
        one cannot get another.
        """
        recorded = self._ledger.mask_key()
        if recorded is not None:
            return recorded
        secret = MaskSecret(self._random())
        said = self._pack(announcement(self._agreement, self._member, state.chain_hash, secret))
        self._ledger.record_mask_key(secret.seed, said)
        return said

    def _random(self) -> bytes:
        return random_bytes(KEY_BYTES)

    def masked(self, values: Ticks, state: RoundState) -> Ticks:
        """Values as they are released, modulo 2^64.

        Guarantee: an adversary that controls the network and some members, but not this party and
        at least one other, learns the sum of the values of the members that it does not control,
        and nothing else about this party's values. This holds as long as X25519, BLAKE2b and
        ChaCha20 are secure, whatever the adversary's members announce or send.
        """
        self._pairs = self._pairs or self._shared()
        width, place = len(values), _place(state)
        streams = b"".join([_stream(pair, place, 8 * width) for pair in self._pairs])
        rows = np.frombuffer(streams, dtype=">i8").astype(np.int64).reshape(-1, width)
        before, after = rows[: self._row], rows[self._row :]
        masked: Ticks = values - before.sum(axis=0) + after.sum(axis=0)  # all of it wraps
        return masked

    def _shared(self) -> list[bytes]:
        """The secrets that are shared with the others, in roster order."""
        said, secret = self._ledger.mask_keys(), MaskSecret(self._ledger.mask_secret())
        announced = mask_keys(said)
        session = session_id(announced[0].chain_hash, announced)
        keys = [mask_key.key for mask_key in announced]
        others = (place for place in range(len(keys)) if place != self._row)
        return [pair_secret(secret, keys, self._row, other, session) for other in others]
