"""Messages that arrived and are not read yet: a bounded queue with one share per sender.

In a mesh the sender is the member that owns the connection. Over a relay, which verifies what it
passes on, it is the member that the message claims to be from. A member that floods this party
fills only its own share. A dropped message is no loss: an honest sender sends it again.
"""

from typing import NamedTuple

from protocol.agreement.model import Agreement
from protocol.runtime.sockets import QUEUE_BYTES
from protocol.wire.codec import claimed_key, max_message_bytes

MOST, FEWEST = 64, 4
"""Messages in one share: fewer if messages are long, so that all shares together are bounded."""


class Incoming(NamedTuple):
    """Bytes that arrived, and the member that owns the connection ("" over a relay)."""

    source: str
    data: bytes


class Inbox:
    """Waiting messages by sender."""

    def __init__(self, agreement: Agreement) -> None:
        members = agreement.members
        fitting = QUEUE_BYTES // (max_message_bytes(agreement) * (len(members) + 1))
        self._most = max(FEWEST, min(MOST, fitting))
        self._names = {m.signing_key: m.name for m in members}
        #: Messages of each sender in order of arrival; equal messages are stored once.
        self._shares: dict[str, dict[Incoming, None]] = {n: {} for n in (*self._names.values(), "")}
        #: The shares that are not empty.
        self._waiting: dict[str, dict[Incoming, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, incoming: Incoming) -> None:
        """Add a message. If its sender's share is full, the oldest message there is dropped."""
        sender = incoming.source or self._names.get(claimed_key(incoming.data), "")
        share = self._shares[sender]
        share[incoming] = None
        if len(share) > self._most:
            del share[next(iter(share))]
        self._waiting[sender] = share

    def take_turn(self) -> list[Incoming]:
        """Remove and return the oldest message of each sender that has one."""
        taken = []
        for sender, share in list(self._waiting.items()):
            oldest = next(iter(share))
            del share[oldest]
            taken.append(oldest)
            if not share:
                del self._waiting[sender]
        return taken
