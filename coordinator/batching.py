"""Holds messages back for a moment, so that a relay sends a round as one frame and not as K.

A round closes only with the releases of all members, so holding one back delays no member.
Messages of other rounds, repeated and forwarded messages pass at once. At most one message per
member and exchange is held, for half of the time after which members send again.
Never here: changing or dropping a message.
"""

from coordinator.collector import Collected
from protocol.agreement.model import Agreement
from protocol.agreement.timing import first_wait
from protocol.wire.messages import Signed


class Batching:
    """The messages of the current exchange that have not been passed on yet."""

    def __init__(self, agreement: Agreement) -> None:
        self._hold_seconds = 0.5 * first_wait(agreement)
        #: In order of arrival.
        self._held: dict[bytes, None] = {}
        #: When held messages are due, if there are any.
        self.deadline: float | None = None

    def add(self, signed: Signed, owner: str, collected: Collected, now: float) -> list[bytes]:
        """Return the messages to pass on now that the connection of `owner` brought this one.

        A member can make batches smaller by what it signs, and nothing else.
        """
        message, data = signed
        passing = []
        if collected.first and message.sender == owner:
            self._held[data] = None
            if self.deadline is None:
                self.deadline = now + self._hold_seconds
        elif data not in self._held:
            passing = [data]
        return [*(self._release() if collected.closed else ()), *passing]

    def due(self, now: float) -> list[bytes]:
        """Return the messages that have been held for long enough."""
        return self._release() if self.deadline is not None and now >= self.deadline else []

    def _release(self) -> list[bytes]:
        released = list(self._held)
        self._held, self.deadline = {}, None
        return released
