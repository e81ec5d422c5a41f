"""The transcript: all signed messages of a session, and its file.

A transcript is public. Anyone with the agreement can verify it without trusting its source. Never
here: prices or outcomes, which `protocol.outcome` computes from it. SPEC.md §11 has the format.
"""

import msgpack
from msgspec import Struct

from protocol.agreement.model import Agreement
from protocol.errors import BadMessage, BadTranscript
from protocol.wire.codec import (
    MASK_KEY_BYTES,
    SEAL_BYTES,
    Reader,
    commitment_bytes,
    release_bytes,
)
from protocol.wire.messages import Commitment, Signed

MAGIC = b"sotto transcript 1\n"
_HEADER_BYTES = 5  # what msgpack puts before a list or a message, at most
_EXTRA_BYTES = 1 << 20  # so that a longer file of another agreement is still read, and named


class Transcript(Struct, frozen=True):
    """The signed messages of a session, members in roster order."""

    #: The releases of each round.
    rounds: tuple[tuple[Signed, ...], ...]
    #: The seals; empty until the session is sealed.
    seals: tuple[Signed, ...] = ()
    #: The mask keys, where releases are masked.
    keys: tuple[Signed, ...] = ()
    #: The commitments, where members make them after the last round.
    commitments: tuple[Signed, ...] = ()

    @property
    def exchanges(self) -> tuple[tuple[Signed, ...], ...]:
        """All closed exchanges in order: mask keys, rounds, commitments."""
        return tuple(filter(None, (self.keys, *self.rounds, self.commitments)))


def frame(
    agreement: Agreement,
    rounds: list[list[bytes]],
    seals: list[bytes],
    keys: list[bytes],
    commitments: list[bytes],
) -> bytes:
    """The file of a transcript with these signed messages."""
    optional = [keys] * agreement.masked + [commitments] * agreement.commits
    return MAGIC + bytes(msgpack.packb([agreement.digest, rounds, seals, *optional]))


def most_bytes(agreement: Agreement) -> int:
    """The length above which a file cannot be a transcript of this agreement."""
    each = len(agreement.members) * (_HEADER_BYTES + release_bytes(agreement))
    keys_and_seals = len(agreement.members) * (2 * _HEADER_BYTES + MASK_KEY_BYTES + SEAL_BYTES)
    commitments = 0
    if agreement.commits:
        commitment = commitment_bytes(agreement, proof=True)
        commitments = len(agreement.members) * (_HEADER_BYTES + commitment)
    return _EXTRA_BYTES + agreement.rounds * (_HEADER_BYTES + each) + keys_and_seals + commitments


def load(agreement: Agreement, data: bytes) -> Transcript:
    """Read a transcript and verify every signature.

    Raises `BadTranscript`, which names the round and the member of the first wrong message.
    """
    rounds, seals, keys, commitments = _unpack(agreement, data)
    reader = Reader(agreement)
    return Transcript(
        keys=_verify(reader, agreement, keys, "the mask keys") if keys else (),
        rounds=tuple(
            _verify(reader, agreement, releases, f"round {number}")
            for number, releases in enumerate(rounds, start=1)
        ),
        seals=_verify(reader, agreement, seals, "the seals") if seals else (),
        commitments=_verify(reader, agreement, commitments, "the commitments")
        if commitments
        else (),
    )


def _unpack(
    agreement: Agreement, data: bytes
) -> tuple[list[list[bytes]], list[bytes], list[bytes], list[bytes]]:
    """Rounds, seals, mask keys and commitments in a file. No signature is verified."""
    if not data.startswith(MAGIC):
        raise BadTranscript(f"not a transcript: it does not begin with {MAGIC.decode().strip()!r}")
    try:
        content = msgpack.unpackb(data[len(MAGIC) :], max_ext_len=0, max_map_len=0)
        digest, rounds, seals, *optional = content
    except Exception:  # msgpack raises many kinds; here they all mean a damaged file
        raise BadTranscript(
            "the transcript is cut off or damaged: its frame cannot be read; get another copy"
        ) from None
    lists = [rounds, seals, *optional, *(rounds if isinstance(rounds, list) else ())]
    well_formed = len(optional) <= 2 and all(isinstance(entry, list) for entry in lists)
    well_formed = well_formed and all(
        isinstance(d, bytes) for entry in [[digest], *lists[1:]] for d in entry
    )
    if not well_formed or data != MAGIC + bytes(msgpack.packb(content)):
        raise BadTranscript("the transcript is damaged: its frame was changed; get another copy")
    if digest != agreement.digest:
        raise BadTranscript(
            f"the transcript is of agreement {digest.hex()}, this is {agreement.digest.hex()}; "
            "use the agreement file of that session"
        )
    for at, (due, what) in enumerate(
        ((agreement.masked, "mask keys"), (agreement.commits, "commitments"))
    ):
        if (len(optional) > at) != due:
            fault = "lacks its list of" if due else "must not have"
            raise BadTranscript(f"the transcript is damaged: its frame {fault} {what}")
    keys, commitments = (*optional, [], [])[:2]
    return rounds, seals, keys, commitments


def _verify(
    reader: Reader, agreement: Agreement, messages: list[bytes], where: str
) -> tuple[Signed, ...]:
    """The verified messages of one exchange, one of each member in roster order."""
    count = len(agreement.members)
    if len(messages) != count:
        raise BadTranscript(f"{where}: {len(messages)} messages for {count} members")
    verified = []
    for member, data in zip(agreement.members, messages, strict=True):
        try:
            signed = reader.unpack(data)
        except BadMessage as error:
            raise BadTranscript(f"{where}, member {member.name!r}: {error}") from None
        if signed.message.sender != member.name:
            raise BadTranscript(
                f"{where}: the message of {member.name!r} is signed by {signed.message.sender!r}"
            )
        if isinstance(signed.message, Commitment) and not signed.message.proof:
            raise BadTranscript(f"{where}, member {member.name!r}: the proof is missing")
        verified.append(signed)
    return tuple(verified)
