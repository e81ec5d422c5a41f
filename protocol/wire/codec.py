"""Bytes to messages and back. Only here do bytes from others become messages.

For any bytes `Reader.unpack` returns a verified message or raises `BadMessage`, and no other
exception. Never here: sockets, or what a message means for a session. SPEC.md §2 has the format.
"""

import hashlib
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import msgpack

from protocol.agreement.model import Agreement
from protocol.commitment.layout import POINT_BYTES, proof_bytes
from protocol.errors import BadMessage, Malformed
from protocol.wire.messages import (
    HEAD_BYTES,
    KEY_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    Commitment,
    Halt,
    Hello,
    MaskKey,
    Message,
    Reason,
    Release,
    Seal,
    Signed,
)

VERSION = 2
CONTEXT = b"sotto 2\n"
"""Put before every payload that is signed, so that no other signature is valid for a message."""

SIGNATURE_BYTES = 64
HARD_LIMIT = 1 << 24
"""No message of any session has more bytes."""

SHORTEST_BYTES = 177
"""The length of a message with an empty body. No message is shorter."""

MASK_KEY_BYTES = SHORTEST_BYTES + KEY_BYTES + PROOF_BYTES
SEAL_BYTES = SHORTEST_BYTES + 1

REMEMBERED = 256
"""How many messages a reader remembers: valid ones of each member, and invalid ones of all."""

_KINDS: dict[int, type[Message]] = {
    1: Hello,
    2: Release,
    3: Seal,
    4: Halt,
    5: MaskKey,
    6: Commitment,
}
_CODES = {kind: code for code, kind in _KINDS.items()}
_HELLO = struct.Struct(f">{NONCE_BYTES}s?I{HEAD_BYTES}s{NONCE_BYTES}s")
_HELLO_FIELDS = ("nonce", "wants_reply", "recorded", "nonce_digest", "echo")
_EVIDENCE_BYTES = 28  # what a message of the evidence takes in a Halt beyond a release's length

Sign = Callable[[bytes], bytes]
"""Returns the Ed25519 signature (64 bytes) of some bytes."""


def pack(message: Message, *, key: bytes, sign: Sign) -> Signed:
    """Sign a message. `key` is the sender's public signing key."""
    payload = _payload(message, key)
    proof = message.proof if isinstance(message, Commitment) else b""
    return Signed(message, payload + sign(CONTEXT + payload) + proof)


def as_evidence(signed: Signed) -> bytes:
    """The bytes of a message in a Halt: without the proof of a commitment, which is long."""
    proof = signed.message.proof if isinstance(signed.message, Commitment) else b""
    return signed.data[: len(signed.data) - len(proof)]


def release_bytes(agreement: Agreement) -> int:
    """The length of every release of this session. It does not depend on the numbers."""
    empty = Release(
        sender="",
        agreement=agreement.digest,
        round=0,
        chain_hash=bytes(HEAD_BYTES),
        values=(0,) * agreement.width,
    )
    return len(_payload(empty, bytes(32))) + SIGNATURE_BYTES


def commitment_bytes(agreement: Agreement, *, proof: bool) -> int:
    """The length of every commitment of this session, with or without its proof."""
    resources = len(agreement.resources)
    empty = Commitment(
        sender="",
        agreement=agreement.digest,
        round=0,
        chain_hash=bytes(HEAD_BYTES),
        points=(bytes(POINT_BYTES),) * (resources + 1),
        proof_hash=bytes(HEAD_BYTES),
    )
    signed = len(_payload(empty, bytes(32))) + SIGNATURE_BYTES
    return signed + proof_bytes(resources) if proof else signed


def max_message_bytes(agreement: Agreement) -> int:
    """The longest message of this session.

    That is a Halt with one exchange and one more message, or a commitment with its proof.
    """
    messages = len(agreement.members) + 1
    each, alone = release_bytes(agreement), 0
    if agreement.masked:
        each = max(each, MASK_KEY_BYTES)
    if agreement.commits:
        each = max(each, commitment_bytes(agreement, proof=False))
        alone = commitment_bytes(agreement, proof=True)
    longest = max(alone, messages * (each + _EVIDENCE_BYTES))
    return min(HARD_LIMIT, 512 + longest)  # with room for what a connection adds


class Header(NamedTuple):
    """What a message claims about itself. Nothing of it is verified."""

    kind: type[Message]
    key: bytes
    agreement: bytes
    round: int


_HEADER = struct.Struct(">2sB2s32s2s32s2sI2s")
_MSGPACK = (bytes([0x97, VERSION]), b"\xc4\x20", b"\xc4\x20", b"\xc4\x04", b"\xc4\x20")


def peek_header(data: bytes) -> Header | None:
    """The unverified header of a message, for a relay; None if these bytes are no message."""
    if len(data) < _HEADER.size + HEAD_BYTES + SIGNATURE_BYTES:
        return None
    start, code, a, key, b, agreement, c, number, d = _HEADER.unpack_from(data)
    kind = _KINDS.get(code)
    if kind is None or (start, a, b, c, d) != _MSGPACK:
        return None
    return Header(kind, key, agreement, number)


def claimed_key(data: bytes) -> bytes:
    """The signing key that a message claims, if these bytes are a message. Not verified."""
    return data[5:37]


class Reader:
    """Reads the messages of one session.

    It remembers recent messages, valid or not, so that a repeated message costs little.
    """

    def __init__(self, agreement: Agreement) -> None:
        from protocol.wire.signatures import (
            require_in_group,
            require_owned,
            require_safe_library,
            verify,
        )

        if agreement.masked:
            require_safe_library()
        self._verify = verify
        self._require_owned = require_owned
        self._require_in_group = require_in_group
        #: The length of a commitment up to its signature; what follows is its proof.
        self._commitment_bytes = commitment_bytes(agreement, proof=False)
        self._agreement = agreement
        self._longest = max_message_bytes(agreement)
        #: Names of the members by signing key.
        self._names = {m.signing_key: m.name for m in agreement.members if m.signing_key}
        #: Digests of recent valid messages, by signing key. Each member has its own, so that no
        #: member can push out the messages of another.
        self._valid: dict[bytes, dict[bytes, None]] = {key: {} for key in self._names}
        #: Digests of recent messages with an invalid signature.
        self._invalid: dict[bytes, None] = {}

    def unpack(self, data: bytes, *, verified: bool = False) -> Signed:
        """The message in these bytes, its signature verified against the roster.

        A Hello may belong to another agreement, so that the session can report the difference.
        Any other message must belong to this one. Pass `verified` only for bytes that were
        verified when they arrived and that this process, or its own ledger, has kept since.
        """
        if len(data) > self._longest:
            raise BadMessage(f"{len(data)} bytes are more than any message of this session has")
        if len(data) <= SIGNATURE_BYTES:
            raise BadMessage("the message is too short to have a signature")
        signed, proof = self._without_proof(data)
        payload = signed[:-SIGNATURE_BYTES]
        kind, (key, *fields) = _split(payload)
        sender = self._names.get(key)
        if sender is None:
            raise BadMessage("the signing key of the message is not in the roster")
        digest = hashlib.sha256(data).digest()
        known = digest in self._valid[key]
        if proof and not known and hashlib.sha256(proof).digest() != payload[-HEAD_BYTES:]:
            raise BadMessage("the proof of the commitment is not the one that was signed")
        if not known and not verified:
            self._require_signed(signed, key, digest)
        try:
            message = self._message(kind, sender, fields, proof)
            if not known:
                self._require_sound(message)
        except BadMessage as error:
            raise Malformed(f"from {sender!r}: {error}", sender=sender) from None
        if _payload(message, key) != payload:
            raise Malformed(f"from {sender!r}: the message is not in canonical form", sender=sender)
        if not verified:
            _remember(self._valid[key], digest)
        return Signed(message, data)

    def remembers(self, data: bytes) -> bool:
        """Whether these bytes were found valid not long ago, so that they cost little now."""
        return hashlib.sha256(data).digest() in self._valid.get(claimed_key(data), {})

    def _require_signed(self, signed: bytes, key: bytes, digest: bytes) -> None:
        """Verify the signature, unless it is remembered as invalid."""
        if digest in self._invalid:
            raise BadMessage("the signature does not match the signing key (checked before)")
        payload, signature = signed[:-SIGNATURE_BYTES], signed[-SIGNATURE_BYTES:]
        try:
            self._verify(b"".join((signature, CONTEXT, payload)), key)
        except BadMessage:
            _remember(self._invalid, digest)
            raise

    def _require_sound(self, message: Message) -> None:
        """Check the points in a message, which takes longer than its signature."""
        if isinstance(message, MaskKey):
            place = self._agreement.place(message.sender)
            signing_key = self._agreement.members[place].signing_key
            self._require_owned(message, place=place, signing_key=signing_key)
        if isinstance(message, Commitment):
            self._require_in_group(message)

    def _without_proof(self, data: bytes) -> tuple[bytes, bytes]:
        """The signed bytes of a message, and the proof that follows those of a commitment."""
        end = self._commitment_bytes
        if not self._agreement.commits or len(data) <= end or data[2] != _CODES[Commitment]:
            return data, b""
        return data[:end], data[end:]

    def _message(
        self, kind: type[Message], sender: str, fields: list[bytes], proof: bytes
    ) -> Message:
        """The message with these fields: agreement, round, chain hash and body."""
        agreement, round_bytes, chain_hash, body = fields
        ours = agreement == self._agreement.digest
        if not ours and kind is not Hello:
            raise BadMessage("the message belongs to another agreement")
        common: dict[str, Any] = {
            "sender": sender,
            "agreement": agreement,
            "round": int.from_bytes(round_bytes, "big"),
            "chain_hash": chain_hash,
        }
        if kind is Hello:
            members = len(self._agreement.members) if ours else None
            return Hello(**common, **_read_hello(body, members))
        if kind is Release:
            if len(body) != 8 * self._agreement.width:
                raise BadMessage(f"a release must have {self._agreement.width} numbers")
            values = struct.unpack(f">{self._agreement.width}q", body)
            return Release(**common, values=values, masked=self._agreement.masked)
        if kind is MaskKey:
            if not self._agreement.masked:
                raise BadMessage("this session has no mask keys")
            return MaskKey(**common, key=body[:KEY_BYTES], proof=body[KEY_BYTES:])
        if kind is Commitment:
            return self._commitment(common, body, proof)
        if kind is Seal:
            if body not in (b"\0", b"\1"):
                raise BadMessage("the flag of a seal must be 0 or 1")
            return Seal(**common, has_all_seals=body == b"\1")
        return Halt(**common, **_read_halt(body, len(self._agreement.members)))

    def _commitment(self, common: dict[str, Any], body: bytes, proof: bytes) -> Commitment:
        resources = len(self._agreement.resources)
        if not self._agreement.commits:
            raise BadMessage("this session has no commitments")
        if len(body) != POINT_BYTES * (resources + 1) + HEAD_BYTES:
            raise BadMessage(f"{resources + 1} commitments and the hash of a proof are needed")
        points = [body[at : at + POINT_BYTES] for at in range(0, len(body), POINT_BYTES)]
        if proof and len(proof) != proof_bytes(resources):
            raise BadMessage("the proof of a commitment has a wrong length")
        return Commitment(**common, points=tuple(points[:-1]), proof_hash=points[-1], proof=proof)


def _remember(digests: dict[bytes, None], digest: bytes) -> None:
    digests[digest] = None
    if len(digests) > REMEMBERED:
        del digests[next(iter(digests))]


def _split(payload: bytes) -> tuple[type[Message], list[bytes]]:
    """The kind of a message, and its other fields: key, agreement, round, chain hash, body."""
    try:
        fields = msgpack.unpackb(
            payload, max_array_len=7, max_map_len=0, max_ext_len=0, max_str_len=0
        )
    except Exception:  # msgpack raises many kinds; here they all mean the same
        raise BadMessage("the message is not msgpack of the agreed form") from None
    if not isinstance(fields, list) or len(fields) != 7:
        raise BadMessage("the message is not a list of 7 fields")
    version, code, *rest = fields
    if version != VERSION or type(version) is not int:
        raise BadMessage(f"the message is not of protocol version {VERSION}")
    kind = _KINDS.get(code) if type(code) is int else None
    if kind is None:
        raise BadMessage("the message is of an unknown kind")
    lengths = (32, 32, 4, 32, None)
    for field, length in zip(rest, lengths, strict=True):
        if not isinstance(field, bytes) or length not in (None, len(field)):
            raise BadMessage("a field of the message has a wrong type or length")
    return kind, rest


def _payload(message: Message, key: bytes) -> bytes:
    return bytes(
        msgpack.packb(
            [
                VERSION,
                _CODES[type(message)],
                key,
                message.agreement,
                message.round.to_bytes(4, "big"),
                message.chain_hash,
                _body(message),
            ]
        )
    )


def _body(message: Message) -> bytes:
    if isinstance(message, Release):
        return struct.pack(f">{len(message.values)}q", *message.values)
    if isinstance(message, Seal):
        return b"\1" if message.has_all_seals else b"\0"
    if isinstance(message, Hello):
        fields = (getattr(message, name) for name in _HELLO_FIELDS)
        return _HELLO.pack(*fields) + message.known_ahead
    if isinstance(message, MaskKey):
        return message.key + message.proof
    if isinstance(message, Commitment):
        return b"".join(message.points) + message.proof_hash
    if isinstance(message, Halt):
        return bytes(msgpack.packb([int(message.reason), list(message.evidence)]))
    raise TypeError(f"{type(message).__name__} is not a message of the protocol")


def _read_hello(body: bytes, members: int | None) -> dict[str, Any]:
    """`members` is how many there are, where that is known."""
    if len(body) < _HELLO.size:
        raise BadMessage("the hello is too short")
    known_ahead = body[_HELLO.size :]
    if known_ahead and members not in (None, len(known_ahead)):
        raise BadMessage("a hello must count known releases for every member, or for none")
    fields = dict(zip(_HELLO_FIELDS, _HELLO.unpack_from(body), strict=True))
    return fields | {"known_ahead": known_ahead}


def _read_halt(body: bytes, members: int) -> dict[str, Any]:
    try:
        reason, evidence = msgpack.unpackb(
            body, max_array_len=members + 1, max_map_len=0, max_ext_len=0, max_str_len=0
        )
        reason = Reason(reason)
    except Exception:  # as above: any error of msgpack or of `Reason` means a malformed halt
        raise BadMessage("a halt must have a reason and a list of evidence") from None
    if not isinstance(evidence, list) or not all(isinstance(e, bytes) for e in evidence):
        raise BadMessage("the evidence of a halt must be a list of messages")
    return {"reason": reason, "evidence": tuple(evidence)}
