"""All that was said in a session: its file, its signatures, and where it leads.

A transcript is public and proves itself: whoever has the agreement can verify it without
trusting whoever kept it. The file format is written down in SPEC.md.
"""

from dataclasses import dataclass

import msgpack

from protocol.agreement.model import Agreement
from protocol.errors import BadMessage, BadTranscript
from protocol.wire.codec import MASK_KEY_BYTES, SEAL_BYTES, Reader, release_bytes
from protocol.wire.messages import Signed

MAGIC = b"sotto transcript 1\n"
_HEADER_BYTES = 5  # the longest that msgpack puts before a list or a message


@dataclass(frozen=True)
class Transcript:
    """The signed releases of each round, members in roster order, then the seals.

    `keys` are the mask keys before the first round, where releases are masked.
    """

    rounds: tuple[tuple[Signed, ...], ...]
    seals: tuple[Signed, ...] = ()
    keys: tuple[Signed, ...] = ()


def frame(
    agreement: Agreement, rounds: list[list[bytes]], seals: list[bytes], keys: list[bytes]
) -> bytes:
    """Signed messages as the file of a transcript."""
    masks = [keys] if agreement.masked else []
    return MAGIC + bytes(msgpack.packb([agreement.digest, rounds, seals, *masks]))


def most_bytes(agreement: Agreement) -> int:
    """No transcript of this agreement is longer. Some more, so that one of another is named."""
    each = len(agreement.members) * (_HEADER_BYTES + release_bytes(agreement))
    ends = len(agreement.members) * (2 * _HEADER_BYTES + MASK_KEY_BYTES + SEAL_BYTES)
    return (1 << 20) + agreement.rounds * (_HEADER_BYTES + each) + ends


def load(agreement: Agreement, data: bytes) -> Transcript:
    """Read a transcript and verify every signature.

    Raises `BadTranscript` that names the round and the member for whatever does not fit.
    """
    if not data.startswith(MAGIC):
        raise BadTranscript(f"not a transcript: it does not begin with {MAGIC.decode().strip()!r}")
    try:
        content = msgpack.unpackb(data[len(MAGIC) :], max_ext_len=0, max_map_len=0)
        digest, rounds, seals, *masks = content
    except Exception:  # msgpack raises many kinds; a damaged file is all they mean here
        raise BadTranscript(
            "the transcript is cut off or damaged: its frame cannot be read"
        ) from None
    lists = [rounds, seals, *masks, *(rounds if isinstance(rounds, list) else ())]
    whole = len(masks) <= 1 and all(isinstance(part, list) for part in lists)
    whole = whole and all(isinstance(d, bytes) for part in [[digest], *lists[1:]] for d in part)
    if not whole or data != MAGIC + bytes(msgpack.packb(content)):
        raise BadTranscript("the transcript is damaged: its frame was changed")
    if digest != agreement.digest:
        raise BadTranscript(
            f"the transcript is of agreement {digest.hex()}, this is {agreement.digest.hex()}"
        )
    if len(masks) != agreement.masked:
        raise BadTranscript("the transcript is damaged: its frame has mask keys, or lacks them")
    keys = masks[0] if masks else []
    reader = Reader(agreement)
    return Transcript(
        keys=_verified(reader, agreement, keys, "the mask keys") if keys else (),
        rounds=tuple(
            _verified(reader, agreement, releases, f"round {t}")
            for t, releases in enumerate(rounds)
        ),
        seals=_verified(reader, agreement, seals, "the seals") if seals else (),
    )


def _verified(
    reader: Reader, agreement: Agreement, parts: list[bytes], where: str
) -> tuple[Signed, ...]:
    if len(parts) != len(agreement.members):
        raise BadTranscript(f"{where}: {len(parts)} messages for {len(agreement.members)} members")
    opened = []
    for member, data in zip(agreement.members, parts, strict=True):
        try:
            signed = reader.unpack(data)
        except BadMessage as error:
            raise BadTranscript(f"{where}, member {member.name!r}: {error}") from None
        if signed.message.sender != member.name:
            raise BadTranscript(
                f"{where}: the message of {member.name!r} is signed by {signed.message.sender!r}"
            )
        opened.append(signed)
    return tuple(opened)
