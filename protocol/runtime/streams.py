"""Standard output and error as streams that may go away without taking the process with them.

A closed pipe, a full disk, or no stream at all: whoever writes goes on, and what was lost is
known afterwards. Letters that a stream cannot show are spelt out. Nothing that decides may
live here.
"""

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NUMBERS = {"stdin": 0, "stdout": 1, "stderr": 2}


class LossyStream(io.FileIO):
    """A file that takes everything, whether or not it can be written."""

    lost: OSError | None = None

    def write(self, data: "Buffer", /) -> int:
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = error
        return memoryview(data).nbytes


def keep_going() -> None:
    """Let nothing that happens to the standard streams from now on raise.

    A stream that somebody has put in the place of a standard one stays as it is.
    """
    for number in _NUMBERS.values():
        try:
            os.fstat(number)
        except OSError:  # or the next file that is opened, the ledger say, would be in its place
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _patient(stream, _NUMBERS[name]))


def _patient(stream: TextIO | None, number: int) -> TextIO:
    if stream is not None:
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(LossyStream(number, "w", closefd=False)),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="backslashreplace",
        line_buffering=number == _NUMBERS["stderr"] or os.isatty(number),
    )


def lost_output() -> OSError | None:
    """Why not all of standard output was written; None where it was, or where nobody reads it."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    lost = raw.lost if isinstance(raw, LossyStream) else None
    return None if lost is None or lost.errno == errno.EPIPE else lost
