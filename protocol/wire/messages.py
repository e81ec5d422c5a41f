"""The five things a party can say. A message that exists is well-formed.

Numbers in a `Release` are noisy ticks, masked where only totals may be read; no other field of
any message may be computed from private data.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from protocol.errors import BadMessage

NONCE_BYTES = 16
HEAD_BYTES = 32
KEY_BYTES = 32
PROOF_BYTES = 64
NO_NONCE = bytes(NONCE_BYTES)

FURTHEST = 2
"""Nobody honest is more releases ahead of the rounds that somebody has closed."""

VALUE_LIMIT = 1 << 48
"""No released number is larger before it is masked; ten thousand add up within 64 bits."""

MAX_ROUND = 0xFFFFFFFF


class Reason(IntEnum):
    """Why a party stops the session for good."""

    EQUIVOCATION = 1
    HEADS_DIFFER = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """Common to all: who, in which session, at which round, on top of which head."""

    sender: str
    agreement: bytes
    round: int
    chain_hash: bytes

    def __post_init__(self) -> None:
        if not 0 <= self.round <= MAX_ROUND:
            raise BadMessage("the round is out of range")
        if len(self.agreement) != HEAD_BYTES:
            raise BadMessage("the agreement's digest has a wrong length")
        if len(self.chain_hash) != HEAD_BYTES:
            raise BadMessage("the head has a wrong length")


@dataclass(frozen=True, kw_only=True, slots=True)
class Hello(Message):
    """I am here, at this round and head.

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
            raise BadMessage("a hello counts its own releases out of range")
        if len(self.nonce_digest) != HEAD_BYTES:
            raise BadMessage("the digest of the nonces has a wrong length")
        if len(self.echo) != NONCE_BYTES:
            raise BadMessage("the answered nonce has a wrong length")
        if self.known_ahead and not 0 < max(self.known_ahead) <= FURTHEST:
            raise BadMessage("a hello says of whom it knows one or two releases ahead, or nothing")


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskKey(Message):
    """My public key for the masks of this session, which I send before my first release.

    `key` is an Ed25519 key made for this session alone. `proof` is a signature that `key` itself
    makes of `possession`: only the owner of a key can announce it.
    """

    key: bytes
    proof: bytes

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        if len(self.key) != KEY_BYTES:
            raise BadMessage("the mask key has a wrong length")
        if len(self.proof) != PROOF_BYTES:
            raise BadMessage("the proof of the mask key has a wrong length")
        if self.round:
            raise BadMessage("a mask key stands before the first round")


def possession(
    *, agreement: bytes, chain_hash: bytes, place: int, signing_key: bytes, key: bytes
) -> bytes:
    """What the owner of a mask key signs with it.

    It names the session, the member and its place in the roster. So a proof is of no use to any
    other member, nor in any other session.
    """
    where = agreement + chain_hash + place.to_bytes(4, "big")
    return b"sotto mask key 1\n" + where + signing_key + key


@dataclass(frozen=True, kw_only=True, slots=True)
class Release(Message):
    """My noisy demand at the prices of this round, in ticks; masked, any numbers of 64 bits."""

    values: tuple[int, ...]
    masked: bool = False

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        if not self.masked and max(map(abs, self.values), default=0) > VALUE_LIMIT:
            raise BadMessage("a released number is out of range")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal(Message):
    """All rounds are closed and this is my final head.

    `has_all_seals` says that the seals of all members have reached me.
    """

    has_all_seals: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Halt(Message):
    """I stop for good. `evidence` holds the signed messages that show why, as they came."""

    reason: Reason
    evidence: tuple[bytes, ...]


class Signed(NamedTuple):
    """A message together with the signed bytes that carry it."""

    message: Message
    data: bytes
