"""Bytes to messages and back. The only door through which foreign bytes come in.

`unpack` gives a verified message or raises `BadMessage`, and nothing else, for any bytes.
Nothing here reads or writes a socket. The format is written down in SPEC.md.
"""

import hashlib
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import msgpack

from protocol.agreement.model import Agreement
from protocol.errors import BadMessage, Malformed
from protocol.wire.messages import (
    HEAD_BYTES,
    KEY_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
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
"""Stands before every payload that is signed, so that no other signature can be one."""

SIGNATURE_BYTES = 64
HARD_LIMIT = 1 << 24

SHORTEST_BYTES = 177
"""A message without a body has so many; none has fewer."""

MASK_KEY_BYTES = SHORTEST_BYTES + KEY_BYTES + PROOF_BYTES
"""The length of a message with a mask key."""

SEAL_BYTES = SHORTEST_BYTES + 1
"""The length of a seal."""

REMEMBERED = 256
"""Messages of each sender, and forgeries of all, whose signature is not verified once more."""

_KINDS: dict[int, type[Message]] = {1: Hello, 2: Release, 3: Seal, 4: Halt, 5: MaskKey}
_CODES = {kind: code for code, kind in _KINDS.items()}
_HELLO = struct.Struct(f">{NONCE_BYTES}s?I{HEAD_BYTES}s{NONCE_BYTES}s")
_SHOWN_BYTES = 28  # what a message may take in a Halt beside a release of its own

Sign = Callable[[bytes], bytes]
"""Makes the Ed25519 signature (64 bytes) of some bytes."""


def pack(message: Message, *, key: bytes, sign: Sign) -> Signed:
    """Sign a message. `key` is the sender's public signing key."""
    payload = _payload(message, key)
    return Signed(message, payload + sign(CONTEXT + payload))


def release_bytes(agreement: Agreement) -> int:
    """The length of every release of this session, whatever it says."""
    empty = Release(
        sender="",
        agreement=agreement.digest,
        round=0,
        chain_hash=bytes(HEAD_BYTES),
        values=(0,) * agreement.width,
    )
    return len(_payload(empty, bytes(32))) + SIGNATURE_BYTES


def max_message_bytes(agreement: Agreement) -> int:
    """No message of this session is longer: a Halt that shows a whole exchange and one more."""
    shown = len(agreement.members) + 1
    each = max(release_bytes(agreement), MASK_KEY_BYTES if agreement.masked else 0)
    return min(HARD_LIMIT, 512 + shown * (each + _SHOWN_BYTES))


class Header(NamedTuple):
    """What a message claims to be. Nothing of it is verified."""

    kind: type[Message]
    key: bytes
    agreement: bytes
    round: int


_GLANCE = struct.Struct(">2sB2s32s2s32s2sI2s")
_FRAME = (bytes([0x97, VERSION]), b"\xc4\x20", b"\xc4\x20", b"\xc4\x04", b"\xc4\x20")


def peek_header(data: bytes) -> Header | None:
    """What these bytes claim, for who only passes them on; None where that is nothing."""
    if len(data) < _GLANCE.size + HEAD_BYTES + SIGNATURE_BYTES:
        return None
    start, code, a, key, b, agreement, c, number, d = _GLANCE.unpack_from(data)
    kind = _KINDS.get(code)
    if kind is None or (start, a, b, c, d) != _FRAME:
        return None
    return Header(kind, key, agreement, number)


def claimed_key(data: bytes) -> bytes:
    """The signing key that a message claims to be signed with, if it is a message."""
    return data[5:37]


class Reader:
    """Reads the messages of one session.

    To read again what was read not long ago costs no signature, whether it fitted or not.
    """

    def __init__(self, agreement: Agreement) -> None:
        from protocol.wire.signatures import require_owned, require_safe_library, verify

        if agreement.masked:
            require_safe_library()
        self._verify = verify
        self._require_owned = require_owned
        self._agreement = agreement
        self._longest = max_message_bytes(agreement)
        self._names = {m.signing_key: m.name for m in agreement.members if m.signing_key}
        self._fitted: dict[bytes, dict[bytes, None]] = {key: {} for key in self._names}
        self._forged: dict[bytes, None] = {}

    def unpack(self, data: bytes, *, verified: bool = False) -> Signed:
        """The message in these bytes, its signature verified against the roster.

        A Hello may belong to another agreement, so that the difference can be told; any
        other message must belong to this one. `verified` is for bytes that were verified
        when they came in and have been in our own keeping since.
        """
        if len(data) > self._longest:
            raise BadMessage(f"{len(data)} bytes are more than any message of this session has")
        if len(data) <= SIGNATURE_BYTES:
            raise BadMessage("too short to be signed")
        payload = data[:-SIGNATURE_BYTES]
        kind, (key, *fields) = self._frame(payload)
        sender = self._names.get(key)
        if sender is None:
            raise BadMessage("signed by somebody who is not in the roster")
        if not verified:
            self._check(data, payload, key)
        try:
            message = self._message(kind, sender, fields)
        except BadMessage as error:
            raise Malformed(f"from {sender!r}: {error}", sender=sender) from None
        if _payload(message, key) != payload:
            raise Malformed(f"from {sender!r}: not in canonical form", sender=sender)
        return Signed(message, data)

    def _check(self, data: bytes, payload: bytes, key: bytes) -> None:
        """Verify the signature, unless that was done. Nobody can crowd out another's messages."""
        digest = hashlib.sha256(data).digest()
        if digest in self._fitted[key]:
            return
        if digest in self._forged:
            raise BadMessage("the signature still does not fit the key that it claims")
        try:
            self._verify(b"".join((data[-SIGNATURE_BYTES:], CONTEXT, payload)), key)
        except BadMessage:
            _remember(self._forged, digest)
            raise
        _remember(self._fitted[key], digest)

    def _frame(self, payload: bytes) -> tuple[type[Message], list[bytes]]:
        try:
            fields = msgpack.unpackb(
                payload, max_array_len=7, max_map_len=0, max_ext_len=0, max_str_len=0
            )
        except Exception:  # msgpack raises many kinds; here they all mean the same
            raise BadMessage("not msgpack of the agreed shape") from None
        if not isinstance(fields, list) or len(fields) != 7:
            raise BadMessage("not a message")
        version, code, *rest = fields
        if version != VERSION or type(version) is not int:
            raise BadMessage(f"not version {VERSION} of the protocol")
        kind = _KINDS.get(code) if type(code) is int else None
        if kind is None:
            raise BadMessage("an unknown kind of message")
        lengths = (32, 32, 4, 32, None)
        for field, length in zip(rest, lengths, strict=True):
            if not isinstance(field, bytes) or length not in (None, len(field)):
                raise BadMessage("a field has a wrong type or length")
        return kind, rest

    def _message(self, kind: type[Message], sender: str, fields: list[bytes]) -> Message:
        agreement, round_bytes, chain_hash, body = fields
        ours = agreement == self._agreement.digest
        if not ours and kind is not Hello:
            raise BadMessage("it belongs to another agreement")
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
                raise BadMessage(f"a release carries {self._agreement.width} numbers")
            values = struct.unpack(f">{self._agreement.width}q", body)
            return Release(**common, values=values, masked=self._agreement.masked)
        if kind is MaskKey:
            if not self._agreement.masked:
                raise BadMessage("nothing is masked in this session")
            said = MaskKey(**common, key=body[:KEY_BYTES], proof=body[KEY_BYTES:])
            place = self._agreement.place(sender)
            signing_key = self._agreement.members[place].signing_key
            self._require_owned(said, place=place, signing_key=signing_key)
            return said
        if kind is Seal:
            if body not in (b"\0", b"\1"):
                raise BadMessage("a seal is complete or not")
            return Seal(**common, has_all_seals=body == b"\1")
        return Halt(**common, **_read_halt(body, len(self._agreement.members)))


def _remember(digests: dict[bytes, None], digest: bytes) -> None:
    digests[digest] = None
    if len(digests) > REMEMBERED:
        del digests[next(iter(digests))]


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
        fields = (message.nonce, message.wants_reply, message.recorded, message.nonce_digest)
        return _HELLO.pack(*fields, message.echo) + message.known_ahead
    if isinstance(message, MaskKey):
        return message.key + message.proof
    if isinstance(message, Halt):
        return bytes(msgpack.packb([int(message.reason), list(message.evidence)]))
    raise TypeError(f"{type(message).__name__} is not a message of the protocol")


def _read_hello(body: bytes, members: int | None) -> dict[str, Any]:
    """`members` is how many there are, where that is known."""
    if len(body) < _HELLO.size:
        raise BadMessage("a hello is cut off")
    nonce, wants_reply, recorded, nonce_digest, echo = _HELLO.unpack_from(body)
    known_ahead = body[_HELLO.size :]
    if known_ahead and members not in (None, len(known_ahead)):
        raise BadMessage("a hello says of every member how much it knows ahead, or of none")
    return {
        "nonce": nonce,
        "wants_reply": wants_reply,
        "recorded": recorded,
        "nonce_digest": nonce_digest,
        "echo": echo,
        "known_ahead": known_ahead,
    }


def _read_halt(body: bytes, members: int) -> dict[str, Any]:
    try:
        reason, evidence = msgpack.unpackb(
            body, max_array_len=members + 1, max_map_len=0, max_ext_len=0, max_str_len=0
        )
        reason = Reason(reason)
    except Exception:  # as above: whatever msgpack or the two lines say, the halt is malformed
        raise BadMessage("a halt gives a reason and its evidence") from None
    if not isinstance(evidence, list) or not all(isinstance(e, bytes) for e in evidence):
        raise BadMessage("the evidence of a halt is a list of messages")
    return {"reason": reason, "evidence": tuple(evidence)}
