"""All that was said in a session: its file, its signatures, and where it leads.

A transcript is public and proves itself: whoever has the agreement can verify it without
trusting whoever kept it. The file format is written down in SPEC.md.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import msgpack

from protocol.agreement import Agreement
from protocol.course import Course, Position, numbers
from protocol.errors import BadMessage, BadTranscript
from protocol.messages import Release, Seal, Signed
from protocol.wire import Reader

MAGIC = b"sotto transcript 1\n"


@dataclass(frozen=True)
class Transcript:
    """The signed releases of each round, members in roster order, then the seals."""

    rounds: tuple[tuple[Signed, ...], ...]
    seals: tuple[Signed, ...] = ()


def frame(agreement: Agreement, rounds: list[list[bytes]], seals: list[bytes]) -> bytes:
    """Signed messages as the file of a transcript."""
    return MAGIC + bytes(msgpack.packb([agreement.digest, rounds, seals]))


def load(agreement: Agreement, data: bytes) -> Transcript:
    """Read a transcript and verify every signature.

    Raises `BadTranscript` that names the round and the member for whatever does not fit.
    """
    if not data.startswith(MAGIC):
        raise BadTranscript(f"not a transcript: it does not begin with {MAGIC.decode().strip()!r}")
    try:
        digest, rounds, seals = msgpack.unpackb(data[len(MAGIC) :], max_ext_len=0, max_map_len=0)
    except Exception:  # msgpack raises many kinds; a damaged file is all they mean here
        raise BadTranscript("the transcript is damaged: its frame cannot be read") from None
    lists = [rounds, seals, *(rounds if isinstance(rounds, list) else ())]
    whole = all(isinstance(part, list) for part in lists)
    whole = whole and all(isinstance(d, bytes) for part in [[digest], *lists[1:]] for d in part)
    if not whole or data != MAGIC + bytes(msgpack.packb([digest, rounds, seals])):
        raise BadTranscript("the transcript is damaged: its frame was changed")
    if digest != agreement.digest:
        raise BadTranscript(
            f"the transcript is of agreement {digest.hex()}, this is {agreement.digest.hex()}"
        )
    reader = Reader(agreement)
    return Transcript(
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


def positions(agreement: Agreement, transcript: Transcript) -> Iterator[Position]:
    """Every position from the opening on, each price and head recomputed.

    Guarantee: a position that is given is one at which every member that signed for its round
    stood, and with the last one the seals fit too. Raises `BadTranscript` at the first round
    and member that do not.
    """
    course = Course(agreement)
    position = course.opening
    if len(transcript.rounds) > agreement.rounds:
        raise BadTranscript(
            f"{len(transcript.rounds)} rounds of releases, but the agreement allows "
            f"{agreement.rounds}"
        )
    for releases in transcript.rounds:
        for signed in releases:
            _check(signed, position, Release)
        yield position
        position = course.advance(position, numbers(releases))
    for signed in transcript.seals:
        if position.round < agreement.rounds:
            raise BadTranscript(f"sealed after {position.round} of {agreement.rounds} rounds")
        _check(signed, position, Seal)
    yield position


def replay(agreement: Agreement, transcript: Transcript) -> Position:
    """The last of the positions, all of which are verified on the way."""
    return deque(positions(agreement, transcript), maxlen=1)[0]


def _check(signed: Signed, position: Position, kind: type) -> None:
    message = signed.message
    where = f"round {position.round}, member {message.sender!r}"
    if not isinstance(message, kind) or message.round != position.round:
        raise BadTranscript(f"{where}: a message of another kind or round stands here")
    if message.head != position.head:
        raise BadTranscript(f"{where}: it stands on another head than the rounds before it give")
