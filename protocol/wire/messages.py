"""The six messages of a party. A message that exists is well-formed.

The numbers of a `Release` are ticks, with noise or masks as agreed. A `Commitment` hides the
numbers that it is about. No other field of any message may be computed from private data.
"""

from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import astuple

from protocol.errors import BadMessage

NONCE_BYTES = 16
HEAD_BYTES = 32
KEY_BYTES = 32
PROOF_BYTES = 64
NO_NONCE = bytes(NONCE_BYTES)

FURTHEST = 2
"""An honest peer is at most this many releases ahead of the rounds that are closed."""

VALUE_LIMIT = 1 << 48
"""The largest released number before masking. Ten thousand of them add up within 64 bits."""

MAX_ROUND = 0xFFFFFFFF


class Reason(IntEnum):
    """Why a party stops the session for good."""

    EQUIVOCATION = 1
    HEADS_DIFFER = 2


class Message(Struct, frozen=True, kw_only=True):
    """Fields of every message."""

    sender: str
    #: The digest of the agreement.
    agreement: bytes
    round: int
    #: The hash over everything up to this round.
    chain_hash: bytes

    def __post_init__(self) -> None:
        if not 0 <= self.round <= MAX_ROUND:
            raise BadMessage("the round is out of range")
        if len(self.agreement) != HEAD_BYTES:
            raise BadMessage("the digest of the agreement has a wrong length")
        if len(self.chain_hash) != HEAD_BYTES:
            raise BadMessage("the chain hash has a wrong length")


class Hello(Message, frozen=True, kw_only=True):
    """I am here, at this round and chain hash.

    `nonce` is fresh for each start of the process. `wants_reply` asks for a Hello in return.
    `recorded` is how many releases of its own the sender's ledger holds. `nonce_digest` covers
    the newest nonces of all members, and `echo` may be one of them. Either shows a peer that this
    Hello is newer than its own start. `known_ahead` counts for each member the releases that the
    sender holds beyond the rounds it has closed; it is empty if all counts are zero.
    """

    nonce: bytes
    wants_reply: bool
    recorded: int
    nonce_digest: bytes
    echo: bytes = NO_NONCE
    known_ahead: bytes = b""

    def beyond(self, place: int) -> int:
        """How many releases of the member at this place are known beyond the closed rounds."""
        return self.known_ahead[place] if self.known_ahead else 0

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        if len(self.nonce) != NONCE_BYTES:
            raise BadMessage("the nonce has a wrong length")
        if not 0 <= self.recorded <= MAX_ROUND:
            raise BadMessage("the count of recorded releases is out of range")
        if len(self.nonce_digest) != HEAD_BYTES:
            raise BadMessage("the digest of the nonces has a wrong length")
        if len(self.echo) != NONCE_BYTES:
            raise BadMessage("the echoed nonce has a wrong length")
        if self.known_ahead and not 0 < max(self.known_ahead) <= FURTHEST:
            raise BadMessage("counts of known releases must be from 0 to 2, and not all 0")


class MaskKey(Message, frozen=True, kw_only=True):
    """The sender's public key for masks. It is sent before the first release."""

    #: An Ed25519 key made for this session only.
    key: bytes
    #: A signature of `possession` with that key: only its owner can announce it.
    proof: bytes

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        if len(self.key) != KEY_BYTES:
            raise BadMessage("the mask key has a wrong length")
        if len(self.proof) != PROOF_BYTES:
            raise BadMessage("the proof of the mask key has a wrong length")
        if self.round:
            raise BadMessage("the round of a mask key must be 0")


def possession(
    *, agreement: bytes, chain_hash: bytes, place: int, signing_key: bytes, key: bytes
) -> bytes:
    """The bytes that the owner of a mask key signs with it.

    They name the session, the member and its place in the roster. So no other member can use the
    proof, and no other session.
    """
    session_and_place = agreement + chain_hash + place.to_bytes(4, "big")
    return b"sotto mask key 1\n" + session_and_place + signing_key + key


class Release(Message, frozen=True, kw_only=True):
    """The sender's demand at the prices of this round, in ticks, with noise as agreed."""

    #: One number for each resource. Masked, they may be any numbers of 64 bits.
    values: tuple[int, ...]
    masked: bool = False

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        if not self.masked and max(map(abs, self.values), default=0) > VALUE_LIMIT:
            raise BadMessage("a released number is out of range")


class Commitment(Message, frozen=True, kw_only=True):
    """The sender's commitments to its quota and its payment. `round` is how many are closed.

    The signature covers the hash of the proof. So evidence can leave out the proof, which is long.
    """

    #: One point for the quota of each resource, then one for the payment.
    points: tuple[bytes, ...]
    #: SHA-256 of the proof that the committed numbers are small.
    proof_hash: bytes
    #: The proof; empty in evidence. Two messages that differ only here are one message.
    proof: bytes = b""

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        if any(len(point) != KEY_BYTES for point in self.points):
            raise BadMessage("a commitment has a wrong length")
        if len(self.proof_hash) != HEAD_BYTES:
            raise BadMessage("the hash of the proof has a wrong length")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Commitment) and self._signed == other._signed

    def __hash__(self) -> int:
        return hash(self._signed)

    @property
    def _signed(self) -> tuple[object, ...]:
        """All fields but the proof."""
        return astuple(self)[:-1]


Contribution = MaskKey | Release | Commitment
"""What a member sends once in each exchange."""


class Seal(Message, frozen=True, kw_only=True):
    """All exchanges are closed and this is my final chain hash.

    `has_all_seals` says that the seals of all members have reached me.
    """

    has_all_seals: bool


class Halt(Message, frozen=True, kw_only=True):
    """The sender stops for good."""

    reason: Reason
    #: The signed messages that prove the reason, unchanged.
    evidence: tuple[bytes, ...]


class Signed(NamedTuple):
    """A message together with the signed bytes that carry it."""

    message: Message
    data: bytes
