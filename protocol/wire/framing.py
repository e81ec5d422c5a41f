"""Several messages in one ZeroMQ frame: how a relay passes on what it has collected.

A batch has no meaning of its own and no signature. A receiver reads its messages as if each had
arrived alone. Nothing here looks into a message. SPEC.md §16 has the format.
"""

import struct
from collections.abc import Iterable

from protocol.agreement.model import Agreement
from protocol.wire.codec import SHORTEST_BYTES, max_message_bytes

_MARK = b"\0"  # no message begins with this byte
_LENGTH = struct.Struct(">I")


class Batches:
    """Frames of one session.

    No frame is longer than the longest message or has more messages than there are members. So a
    batch costs a receiver no more than its messages would one by one.
    """

    def __init__(self, agreement: Agreement) -> None:
        self._longest = max_message_bytes(agreement)
        self._most = len(agreement.members)

    def frames(self, messages: Iterable[bytes]) -> list[bytes]:
        """These messages in order, in as few frames as possible. A single one is not wrapped.

        Bytes that are too short for a message are not wrapped either: receivers would drop the
        whole batch.
        """
        frames: list[bytes] = []
        batch: list[bytes] = []
        size = len(_MARK)
        for data in messages:
            if len(data) < SHORTEST_BYTES:
                frames.append(data)
                continue
            added = _LENGTH.size + len(data)
            if batch and (size + added > self._longest or len(batch) == self._most):
                frames.append(_frame(batch))
                batch, size = [], len(_MARK)
            batch.append(data)
            size += added
        return [*frames, _frame(batch)] if batch else frames

    def messages(self, frame: bytes) -> list[bytes]:
        """The messages in a frame: itself, or those of a batch. An invalid batch has none."""
        if frame[:1] != _MARK:
            return [frame]
        messages: list[bytes] = []
        at, end = len(_MARK), len(frame)
        while at < end:
            start = at + _LENGTH.size
            if start > end or len(messages) == self._most:
                return []
            at = start + int(_LENGTH.unpack_from(frame, at)[0])
            if at > end or at - start < SHORTEST_BYTES:
                return []
            messages.append(frame[start:at])
        return messages


def _frame(messages: list[bytes]) -> bytes:
    if len(messages) == 1:
        return messages[0]
    return _MARK + b"".join(_LENGTH.pack(len(data)) + data for data in messages)
