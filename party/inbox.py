"""What has come in and was not looked at yet: a bounded queue with a fair share for each sender.

Whoever says much fills its own share and nobody else's. What is dropped here is sent again by
whoever meant it. Looks at who a message claims to be from, and at nothing else in it.
"""

from protocol.agreement import Agreement
from protocol.transport import QUEUE_BYTES
from protocol.wire import claimed_key, longest

MOST, FEWEST = 64, 4
"""Messages in one share: fewer where they are long, so that all shares together are bounded."""


class Inbox:
    """The messages that wait, by the member that they claim to be from."""

    def __init__(self, agreement: Agreement) -> None:
        keys = [m.signing_key for m in agreement.members]
        each = QUEUE_BYTES // (longest(agreement) * (len(keys) + 1))
        self._most = max(FEWEST, min(MOST, each))
        # A share is in order of arrival, and what waits in it already waits only once.
        self._shares: dict[bytes, dict[bytes, None]] = {key: {} for key in (*keys, b"")}
        self._waiting: dict[bytes, dict[bytes, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, data: bytes) -> None:
        """Let a message wait. If it is one too many for its sender, the oldest goes."""
        key = claimed_key(data)
        share = self._shares.get(key)
        if share is None:
            key, share = b"", self._shares[b""]
        share[data] = None
        if len(share) > self._most:
            del share[next(iter(share))]
        self._waiting[key] = share

    def turn(self) -> list[bytes]:
        """Take the oldest message of each sender that has one waiting."""
        taken = []
        for key, share in list(self._waiting.items()):
            data = next(iter(share))
            del share[data]
            taken.append(data)
            if not share:
                del self._waiting[key]
        return taken
