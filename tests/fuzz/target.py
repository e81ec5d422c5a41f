"""What a fuzzing target is, and how its input becomes edits of something valid."""

import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from protocol.errors import InternalError, SottoError
from tests.support.builders import NAMES, public_key, signing_key

CORPUS = Path(__file__).parent / "corpus"

_HEADER = 5  # bytes before the content of an edit: place (3), kind, length
_OVERWRITE, _INSERT, _DELETE = range(3)


class Target(ABC):
    """One reader of foreign bytes.

    `feed` returns for any bytes, or it has found a defect: an error outside our tree, a broken
    promise, or no end.
    """

    #: The modules whose lines count as reached.
    modules: ClassVar[tuple[str, ...]]
    #: Words that the fuzzer may insert.
    words: ClassVar[tuple[str, ...]] = ()
    longest: ClassVar[int] = 4096

    @abstractmethod
    def seeds(self) -> list[bytes]:
        """Valid inputs. Code makes them, so that a change of format cannot make them stale."""

    @abstractmethod
    def read(self, data: bytes) -> None:
        """Read bytes as the program would. Raises our errors only."""

    def close(self) -> None:  # noqa: B027 - most targets have nothing to close
        """Give back what the target holds."""

    def feed(self, data: bytes) -> None:
        """Read bytes; a refusal is fine, a defect is not."""
        try:
            self.read(data)
        except InternalError:
            raise  # in our tree, but it means a defect
        except SottoError as refusal:
            if not str(refusal):
                raise AssertionError("a refusal says nothing") from refusal


def edited(base: bytes, script: bytes) -> bytes:
    """The base after the edits of a script: overwritten, inserted or deleted bytes."""
    data, at = bytearray(base), 0
    while at + _HEADER <= len(script):
        place = int.from_bytes(script[at : at + 3], "big") % (len(data) + 1)
        kind, length = script[at + 3] % 3, script[at + 4]
        content = script[at + _HEADER : at + _HEADER + length]
        if kind == _DELETE:
            del data[place : place + length]
            at += _HEADER
            continue
        data[place : place + (len(content) if kind == _OVERWRITE else 0)] = content
        at += _HEADER + length
    return bytes(data)


def edit(place: int, content: bytes) -> bytes:
    """One edit of a script, for seeds."""
    return place.to_bytes(3, "big") + bytes([_OVERWRITE, len(content)]) + content


def signature(key: bytes, data: bytes) -> bytes:
    """The signature of the member with this public key, or zeros if there is none."""
    for name in NAMES:
        if public_key(name) == key:
            return signing_key(name).sign(data).signature
    return bytes(64)


def folder() -> Path:
    """A new folder for files, in memory where the system has such a place."""
    memory = Path("/dev/shm")  # noqa: S108 - a new folder with a random name
    return Path(tempfile.mkdtemp(prefix="sotto-fuzz-", dir=memory if memory.is_dir() else None))
