"""The masks of one party: numbers added to its releases, so that only totals are readable.

Every two members derive a secret from keys for this session. It gives a stream of numbers for each
round: the earlier member adds it, the later one subtracts it. In the total the streams cancel; a
sum over fewer members reveals nothing (SPEC.md §18). Ed25519, X25519 and the stream are
libsodium's, BLAKE2b is the standard library's. The ledger holds the secret key until the session
is sealed. Never here: a secret key or a mask in a log, an error or a message.
"""

import hashlib
from collections.abc import Callable

import numpy as np
from msgspec import Struct
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
from protocol.commitment.group import ORDER
from protocol.numeric import Ticks
from protocol.rounds import RoundState, mask_keys, session_id
from protocol.wire.messages import KEY_BYTES, MaskKey, Message, Signed, possession

_WIDE_BYTES = 64  # twice the length of a scalar: reduced, they have no bias


class MaskSecret(Struct, frozen=True):
    """The 32-byte seed of a member's mask key. Secret."""

    seed: bytes

    def __repr__(self) -> str:
        return "<secret mask key>"

    @property
    def public(self) -> bytes:
        return bytes(crypto_sign_seed_keypair(self.seed)[0])

    def sign(self, text: bytes) -> bytes:
        """Ed25519 signature of a text."""
        return bytes(crypto_sign(text, crypto_sign_seed_keypair(self.seed)[1])[:crypto_sign_BYTES])

    def shared(self, theirs: bytes) -> bytes:
        """X25519 between the images of both keys on the Montgomery curve."""
        own = crypto_sign_ed25519_sk_to_curve25519(crypto_sign_seed_keypair(self.seed)[1])
        return bytes(crypto_scalarmult(own, crypto_sign_ed25519_pk_to_curve25519(theirs)))


def pair_secret(
    secret: MaskSecret, keys: list[bytes], own: int, other: int, chain_hash: bytes
) -> bytes:
    """The secret of the members with the roster indices `own` and `other`. Both compute the same.

    `chain_hash` is the session id, which commits to all `keys`.

    Guarantee: the hash covers both indices and both announced keys. So two different pairs have
    different secrets, whatever keys a member announces (PRIVACY.md §10.1).
    """
    first, last = sorted((own, other))
    pair = first.to_bytes(4, "big") + last.to_bytes(4, "big") + keys[first] + keys[last]
    text = b"sotto pair 2\n" + chain_hash + pair
    return hashlib.blake2b(text, key=secret.shared(keys[other]), digest_size=32).digest()


def stream(pair: bytes, state: RoundState, width: int) -> bytes:
    """The numbers of two members for a round, 8 bytes each, big-endian.

    Guarantee: each pair, round and chain hash has its own stream. A mask is used twice only for
    the same round and chain hash, and a party makes one release for each round.
    """
    context = b"sotto mask\n" + state.round.to_bytes(4, "big") + state.chain_hash
    seed = hashlib.blake2b(context, key=pair, digest_size=32).digest()
    return randombytes_buf_deterministic(8 * width, seed)


def blinding_stream(pair: bytes, chain_hash: bytes, count: int) -> list[int]:
    """The scalars of two members for their commitments, one for each number.

    Guarantee: each pair and chain hash has its own scalars, which no mask uses.
    """
    context = b"sotto blinding 1\n" + chain_hash
    seed = hashlib.blake2b(context, key=pair, digest_size=32).digest()
    data = randombytes_buf_deterministic(_WIDE_BYTES * count, seed)
    starts = range(0, len(data), _WIDE_BYTES)
    return [int.from_bytes(data[at : at + _WIDE_BYTES], "little") % ORDER for at in starts]


def announcement(
    agreement: Agreement, member: str, chain_hash: bytes, secret: MaskSecret
) -> MaskKey:
    """The message in which a member announces its mask key and proves that it owns it."""
    index = agreement.place(member)
    text = possession(
        agreement=agreement.digest,
        chain_hash=chain_hash,
        place=index,
        signing_key=agreement.members[index].signing_key,
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
    """Makes the mask key of a session once, and the masks of its rounds."""

    def __init__(
        self, agreement: Agreement, member: str, ledger: Ledger, pack: Callable[[Message], Signed]
    ) -> None:
        self._agreement = agreement
        self._member = member
        self._row = agreement.place(member)
        self._ledger = ledger
        self._pack = pack
        #: The secrets shared with the other members, in roster order.
        self._pairs: list[bytes] = []

    def key(self, state: RoundState) -> Signed:
        """The signed public key: recorded, or new.

        Guarantee: when this returns, the secret key survives a crash, and the session cannot get
        another one.
        """
        recorded = self._ledger.mask_key()
        if recorded is not None:
            return recorded
        secret = MaskSecret(self._random())
        signed = self._pack(announcement(self._agreement, self._member, state.chain_hash, secret))
        self._ledger.record_mask_key(secret.seed, signed)
        return signed

    def _random(self) -> bytes:
        return random_bytes(KEY_BYTES)

    def masked(self, values: Ticks, state: RoundState) -> Ticks:
        """Values as they are released, modulo 2^64.

        Guarantee: consider an adversary that controls the network and some members, but not this
        party and at least one other. It learns the sum of the values of the members that it does
        not control, and nothing else about this party's values. This holds if X25519, BLAKE2b and
        ChaCha20 are secure, whatever the adversary's members announce or send.
        """
        self._pairs = self._pairs or self._pair_secrets()
        width = len(values)
        streams = b"".join([stream(pair, state, width) for pair in self._pairs])
        rows = np.frombuffer(streams, dtype=">i8").astype(np.int64).reshape(-1, width)
        before, after = rows[: self._row], rows[self._row :]
        masked: Ticks = values - before.sum(axis=0) + after.sum(axis=0)  # wraps modulo 2^64
        return masked

    def blindings(self, state: RoundState, count: int) -> tuple[int, ...]:
        """The blindings of this party's commitments, which over all members add up to zero.

        Guarantee: as for `masked`. The sum of the blindings of the members that an adversary does
        not control is known to it, and each of them alone is uniform.
        """
        self._pairs = self._pairs or self._pair_secrets()
        sums = [0] * count
        for index, pair in enumerate(self._pairs):
            sign = -1 if index < self._row else 1
            for at, scalar in enumerate(blinding_stream(pair, state.chain_hash, count)):
                sums[at] += sign * scalar
        return tuple(total % ORDER for total in sums)

    def proof_secret(self, state: RoundState) -> bytes:
        """What the nonces of the proof come from. Secret."""
        text = b"sotto proof secret 1\n" + state.chain_hash
        return hashlib.blake2b(text, key=self._ledger.mask_secret(), digest_size=32).digest()

    def _pair_secrets(self) -> list[bytes]:
        secret = MaskSecret(self._ledger.mask_secret())
        announced = mask_keys(self._ledger.mask_keys())
        session = session_id(announced[0].chain_hash, announced)
        keys = [mask_key.key for mask_key in announced]
        others = (index for index in range(len(keys)) if index != self._row)
        return [pair_secret(secret, keys, self._row, other, session) for other in others]
