"""Standard output and error that may be lost without ending the process.

After a closed pipe, on a full disk, or without a stream, the process continues and knows later
what was lost. Characters that a stream cannot show are escaped. Never here: what is written.
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
    """A file that accepts everything, even if it cannot be written."""

    #: Why writing failed, if it did.
    lost: OSError | None = None

    def write(self, data: "Buffer", /) -> int:
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = error
        return memoryview(data).nbytes


def survive_lost_streams() -> None:
    """Replace the standard streams by ones that never raise.

    A stream that other code has put in their place stays.
    """
    for number in _NUMBERS.values():
        try:
            os.fstat(number)
        except OSError:  # or the next opened file, such as the ledger, would get this number
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _lossy(stream, _NUMBERS[name]))


def _lossy(stream: TextIO | None, number: int) -> TextIO:
    """Return a text stream on this descriptor that never raises."""
    if stream is not None:
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(LossyStream(number, "w", closefd=False)),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="backslashreplace",
        line_buffering=number == _NUMBERS["stderr"] or os.isatty(number),
    )


def lost_output() -> OSError | None:
    """Return why standard output was not fully written; None if it was, or its reader left."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    lost = raw.lost if isinstance(raw, LossyStream) else None
    return None if lost is None or lost.errno == errno.EPIPE else lost
