"""What has come in and was not looked at yet: a bounded queue with a fair share for each sender.

In a mesh a sender is the member whose connection brought the bytes. Over a relay, which verifies
what it passes on, it is the member that a message claims to be from. A sender that says much fills
its own share alone. What is dropped here is sent again by a member that meant it.
"""

from typing import NamedTuple

from protocol.agreement.model import Agreement
from protocol.runtime.sockets import QUEUE_BYTES
from protocol.wire.codec import claimed_key, max_message_bytes

MOST, FEWEST = 64, 4
"""Messages in one share: fewer where they are long, so that all shares together are bounded."""


class Heard(NamedTuple):
    """Bytes that came in, and the member whose connection brought them: none over a relay."""

    source: str
    data: bytes


class Inbox:
    """The messages that wait, by sender."""

    def __init__(self, agreement: Agreement) -> None:
        members = agreement.members
        each = QUEUE_BYTES // (max_message_bytes(agreement) * (len(members) + 1))
        self._most = max(FEWEST, min(MOST, each))
        self._names = {m.signing_key: m.name for m in members}
        # A share is in order of arrival, and what waits in it already waits only once.
        self._shares: dict[str, dict[Heard, None]] = {n: {} for n in (*self._names.values(), "")}
        self._waiting: dict[str, dict[Heard, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, heard: Heard) -> None:
        """Let a message wait. If it is one too many for its sender, the oldest goes."""
        sender = heard.source or self._names.get(claimed_key(heard.data), "")
        share = self._shares[sender]
        share[heard] = None
        if len(share) > self._most:
            del share[next(iter(share))]
        self._waiting[sender] = share

    def turn(self) -> list[Heard]:
        """Take the oldest message of each sender that has one waiting."""
        taken = []
        for sender, share in list(self._waiting.items()):
            heard = next(iter(share))
            del share[heard]
            taken.append(heard)
            if not share:
                del self._waiting[sender]
        return taken
