"""The masks of one party: what it adds to its releases so that only the sum of all can be read.

Every two members share a secret, from keys made for this session alone, and with it a stream of
numbers for each round that the earlier of the two adds and the later takes away: in the sum of
all releases nothing is left of them, and anything less than all says nothing (SPEC.md §18).
X25519, BLAKE2b and the stream are libsodium's and the standard library's. The secret key is in
the ledger until the session is sealed; neither it nor a mask goes into any log, error or message.
"""

import hashlib
from collections.abc import Callable

import numpy as np
from nacl.bindings import (
    crypto_scalarmult,
    crypto_scalarmult_base,
    randombytes_buf_deterministic,
)
from nacl.utils import random as random_bytes

from party.ledger import Ledger
from protocol.agreement import Agreement
from protocol.arrays import Ticks
from protocol.course import Position, mask_keys
from protocol.messages import KEY_BYTES, MaskKey, Message, Signed
from protocol.totals import session_id


def pair_secret(secret: bytes, theirs: bytes, session: bytes) -> bytes:
    """What a member shares with another in this session; the other one finds the same."""
    shared = crypto_scalarmult(secret, theirs)
    return hashlib.blake2b(b"sotto pair\n" + session, key=shared, digest_size=32).digest()


def stream(pair: bytes, position: Position, width: int) -> bytes:
    """The numbers of two members for a round, 8 bytes each, big-endian.

    Guarantee: a round and the head below it have a stream of their own, and no two pairs share
    any. So a mask is used twice only for the same round on the same head.
    """
    return _stream(pair, _place(position), 8 * width)


def _place(position: Position) -> bytes:
    return b"sotto mask\n" + position.round.to_bytes(4, "big") + position.head


def _stream(pair: bytes, place: bytes, size: int) -> bytes:
    seed = hashlib.blake2b(place, key=pair, digest_size=32).digest()
    return randombytes_buf_deterministic(size, seed)


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

    def key(self, position: Position) -> Signed:
        """The signed public key: the recorded one, or a new one.

        Guarantee: when this returns, the secret key survives any crash, and a session that has
        one cannot get another.
        """
        recorded = self._ledger.mask_key()
        if recorded is not None:
            return recorded
        secret = self._secret()
        said = self._pack(
            MaskKey(
                sender=self._member,
                agreement=self._agreement.digest,
                round=position.round,
                head=position.head,
                key=crypto_scalarmult_base(secret),
            )
        )
        self._ledger.record_mask_key(secret, said)
        return said

    def _secret(self) -> bytes:
        return random_bytes(KEY_BYTES)

    def masked(self, values: Ticks, position: Position) -> Ticks:
        """Values as they are released, modulo 2^64.

        Guarantee: whoever does not hold the secret key of this party, nor those of all others,
        sees numbers that do not depend on the values, but for their sum with the numbers of all
        whose keys it does not hold (as long as X25519, BLAKE2b and ChaCha20 are what they are
        taken for).
        """
        self._pairs = self._pairs or self._shared()
        width, place = len(values), _place(position)
        streams = b"".join([_stream(pair, place, 8 * width) for pair in self._pairs])
        rows = np.frombuffer(streams, dtype=">i8").astype(np.int64).reshape(-1, width)
        before, after = rows[: self._row], rows[self._row :]
        masked: Ticks = values - before.sum(axis=0) + after.sum(axis=0)  # all of it wraps
        return masked

    def _shared(self) -> list[bytes]:
        """The secrets that are shared with the others, in roster order."""
        said, secret = self._ledger.mask_keys(), self._ledger.mask_secret()
        keys = mask_keys(said)
        session = session_id(said[0].message.head, keys)
        others = keys[: self._row] + keys[self._row + 1 :]
        return [pair_secret(secret, theirs, session) for theirs in others]
