"""Reads and writes files: agreements and transcripts up to a size, private files for their owner.

Never here: what is in a file.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from protocol.errors import BadAgreement, BadCommand, BadKey, BadTranscript, SottoError

if TYPE_CHECKING:  # a command loads it after its signal handlers are set
    from protocol.agreement.model import Agreement

AGREEMENT_BYTES = 1 << 24
"""The longest agreement file. 10,000 members need a sixth of it."""

KEY_BYTES = 1 << 16
"""The longest key file, and the longest member file of `party keygen`."""

_CHUNK_BYTES = 1 << 20

T = TypeVar("T")


class TooLong(ValueError):
    """A file is longer than any file of its kind."""


def read_bounded(path: Path, most: int) -> bytes:
    """Return a file of at most `most` bytes. Raises `OSError` or `TooLong`.

    Never waits: only a path below /dev, such as /dev/stdin, may be no plain file. It may report
    no length, and never end.
    """
    typed, data = path.parts[:2] == ("/", "dev"), bytearray()
    with open(path, "rb", opener=None if typed else _without_waiting) as file:
        found = os.fstat(file.fileno())
        if not typed and not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, no plain file")
        if found.st_size <= most:
            while len(data) <= most and (chunk := file.read(_CHUNK_BYTES)):
                data += chunk
            if len(data) <= most:
                return bytes(data)
    raise TooLong(f"it is longer than {most >> 10:,} KiB, the limit for such a file")


def _without_waiting(path: str, flags: int) -> int:
    """Open without waiting, even a pipe that no program writes to."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no such flag


def read_text(path: Path, most: int, what: str, kind: type[SottoError] = BadCommand) -> str:
    """Return a text of at most `most` bytes. Raises an error of this kind that names `what`."""
    try:
        # Some editors and spreadsheets begin a file with a byte order mark.
        return read_bounded(path, most).decode("utf-8-sig")
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except TooLong as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.strerror}"
    raise kind(f"{what} cannot be read: {reason}")


def read_agreement(path: Path) -> "Agreement":
    """Return the agreement in a file."""
    from protocol.agreement.parse import parse

    with suppress(OSError):  # such as a name that is too long: `read_text` says why
        if not path.exists():
            raise BadAgreement(f"there is no agreement file {str(path)!r}; check its path")
    text = read_text(path, AGREEMENT_BYTES, f"the agreement {str(path)!r}", BadAgreement)
    try:
        return parse(text)
    except BadAgreement as error:
        raise BadAgreement(f"{path}: {error}") from None


def read_transcript(path: Path, agreement: "Agreement") -> bytes:
    """Return the bytes of a transcript file, not yet verified."""
    from protocol.wire.transcript import most_bytes

    try:
        return read_bounded(path, most_bytes(agreement))
    except (OSError, TooLong) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{error} with this agreement"
        raise BadTranscript(f"the transcript {str(path)!r} cannot be read: {reason}") from None


@contextmanager
def writing(path: Path, kind: type[SottoError] = BadCommand) -> Iterator[None]:
    """Raise an error of this kind, with the reason, if the file cannot be written."""
    try:
        yield
    except FileExistsError:
        raise kind(
            f"{str(path)!r}: the file exists and is not overwritten; choose another name"
        ) from None
    except FileNotFoundError:
        raise kind(f"{str(path)!r} cannot be written: the folder does not exist") from None
    except OSError as error:
        raise kind(f"{str(path)!r} cannot be written: {error.strerror}") from None


def require_new(path: Path) -> None:
    """Refuse to write over a file, or into a folder that does not exist."""
    with writing(path):
        if path.exists():
            raise FileExistsError
        path.parent.stat()


def write_new(path: Path, text: str) -> None:
    """Write a new public file. An existing one is never overwritten."""
    with writing(path), path.open("x", encoding="utf-8") as file:
        file.write(text)


def write_private(path: Path, text: str) -> None:
    """Write a new key file, as `create_private` does."""
    create_private(path, text.encode(), BadKey)


def create_private(path: Path, data: bytes, kind: type[SottoError] = BadCommand) -> None:
    """Write a new file that only its owner can read, all of it or nothing.

    A process that is killed leaves no part of it under this name. An existing file is never
    overwritten. Two processes must not write it at the same time.
    """
    draft = path.with_name(f".{path.name}.new")
    with writing(path, kind):
        _write_draft(draft, data)
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links, such as that of most USB sticks
            if os.path.lexists(path):
                raise FileExistsError(path) from None
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def replace_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, and replace an older one atomically."""
    draft = path.with_name(f".{path.name}.new")
    _write_draft(draft, text.encode())
    draft.replace(path)


def _write_draft(draft: Path, data: bytes) -> None:
    """Write a file that only its owner can read, in place of one that was left behind."""
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())  # or a power cut may leave an empty file


def read_private(path: Path, parse: Callable[[str], T]) -> T:
    """Return the parsed content of a file; refuse it if others than its owner can read it.

    `parse` runs first, so that a file without a secret is reported as the wrong file.
    """
    try:
        mode = path.stat().st_mode
        text = read_bounded(path, KEY_BYTES).decode()
    except FileNotFoundError:
        raise BadKey(f"there is no key file {str(path)!r}; check its path") from None
    except (OSError, ValueError):
        raise BadKey(f"the key file {str(path)!r} cannot be read; check its path") from None
    secret = parse(text)
    # Windows has no such bits: there the folder's own rules say who can read a file.
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadKey(
            f"other users can read the key file {str(path)!r}; run: chmod 600 {path}. Make a new "
            "key if others may have seen it"
        )
    return secret
