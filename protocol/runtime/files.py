"""Reads and writes files: agreements and transcripts within a size limit, private files for the
owner only.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from protocol.errors import BadAgreement, BadKey, BadTranscript

if TYPE_CHECKING:  # it takes time to load, and until then nobody listens to signals
    from protocol.agreement.model import Agreement

AGREEMENT_BYTES = 1 << 24
"""No agreement file is longer: 10 000 members need a sixth of this."""


KEY_BYTES = 1 << 16
"""No key file is longer, nor the file of a member that `party keygen` writes."""


_AT_ONCE = 1 << 20


T = TypeVar("T")


class TooLong(ValueError):
    """A file is longer than any of its kind."""


def read_bounded(path: Path, most: int) -> bytes:
    """All of a file that has at most `most` bytes. Raises `OSError` or `TooLong`.

    What is no plain file may have no length, and no end.
    """
    data = bytearray()
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= most:
            while len(data) <= most and (part := file.read(_AT_ONCE)):
                data += part
            if len(data) <= most:
                return bytes(data)
    raise TooLong(f"it is longer than {most >> 10:,} KiB, which none can be")


def read_agreement(path: Path) -> "Agreement":
    """The agreement in a file."""
    from protocol.agreement import parse as toml

    try:
        # Some editors begin a file with a mark.
        text = read_bounded(path, AGREEMENT_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else reason
        raise BadAgreement(f"the agreement {str(path)!r} cannot be read: {reason}") from None
    try:
        return toml.parse(text)
    except BadAgreement as error:
        raise BadAgreement(f"{path}: {error}") from None


def read_transcript(path: Path, agreement: "Agreement") -> bytes:
    """The bytes of a transcript file of an agreement, not yet verified."""
    from protocol.wire.transcript import most_bytes

    try:
        return read_bounded(path, most_bytes(agreement))
    except (OSError, TooLong) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{error} with this agreement"
        raise BadTranscript(f"the transcript {str(path)!r} cannot be read: {reason}") from None


def write_private(path: Path, text: str) -> None:
    """A new file that only its owner can read. An existing one is never overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadKey(f"{str(path)!r} exists already and is not overwritten") from None
    except OSError as error:
        raise BadKey(f"{str(path)!r} cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def replace_private(path: Path, text: str) -> None:
    """A file that only its owner can read, whole or not at all; takes the place of an older one."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())  # or a power cut may leave an empty file in its place
    draft.replace(path)


def read_private(path: Path, parse: Callable[[str], T]) -> T:
    """What is in a file that only its owner can read; refused if others can.

    `parse` comes first: a file without a secret is not open to others, but the wrong one.
    """
    try:
        mode = path.stat().st_mode
        text = read_bounded(path, KEY_BYTES).decode()
    except (OSError, ValueError):
        raise BadKey(f"the key file {str(path)!r} cannot be read") from None
    secret = parse(text)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadKey(
            f"the key file {str(path)!r} can be read by others; say: chmod 600 {path}, "
            "and make a new key if somebody may have seen it"
        )
    return secret
