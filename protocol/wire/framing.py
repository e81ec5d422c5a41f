"""Several messages in one frame: how a relay passes on what it has gathered.

A batch is only a way to travel. It says nothing, nobody signs it, and what is in it is read
message by message as if each had come alone. Nothing here looks into a message.
"""

import struct
from collections.abc import Iterable

from protocol.agreement.model import Agreement
from protocol.wire.codec import SHORTEST_BYTES, max_message_bytes

_MARK = b"\0"  # no message begins so
_LENGTH = struct.Struct(">I")


class Batches:
    """Frames of one session: none is longer than its longest message, nor holds more messages
    than it has members. So a batch is nothing that its messages could not be one by one."""

    def __init__(self, agreement: Agreement) -> None:
        self._longest = max_message_bytes(agreement)
        self._most = len(agreement.members)

    def frames(self, messages: Iterable[bytes]) -> list[bytes]:
        """These messages in order, in as few frames as can be. What is alone stays as it is.

        So does what is too short for a message: nobody would read a batch that it is in.
        """
        frames: list[bytes] = []
        waiting: list[bytes] = []
        size = len(_MARK)
        for data in messages:
            if len(data) < SHORTEST_BYTES:
                frames.append(data)
                continue
            more = _LENGTH.size + len(data)
            if waiting and (size + more > self._longest or len(waiting) == self._most):
                frames.append(_frame(waiting))
                waiting, size = [], len(_MARK)
            waiting.append(data)
            size += more
        return [*frames, _frame(waiting)] if waiting else frames

    def messages(self, frame: bytes) -> list[bytes]:
        """What a frame holds: itself, or the messages of a batch; nothing where that is none."""
        if frame[:1] != _MARK:
            return [frame]
        found: list[bytes] = []
        at, end = len(_MARK), len(frame)
        while at < end:
            start = at + _LENGTH.size
            if start > end or len(found) == self._most:
                return []
            at = start + int(_LENGTH.unpack_from(frame, at)[0])
            if at > end or at - start < SHORTEST_BYTES:
                return []
            found.append(frame[start:at])
        return found


def _frame(messages: list[bytes]) -> bytes:
    if len(messages) == 1:
        return messages[0]
    return _MARK + b"".join(_LENGTH.pack(len(data)) + data for data in messages)
