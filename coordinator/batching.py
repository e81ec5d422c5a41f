"""What a relay keeps back for a moment, so that a round goes out as one message and not as K.

A round closes only with the releases of all members, so keeping one back makes nothing late. A
member that signs messages of other rounds makes batches smaller, and nothing else. What is passed
on for others is never gathered: old releases of a member, sent again by another, hold up nothing.
What is kept is bounded, and so is for how long. Nothing is changed, made up or left out.
"""

from dataclasses import dataclass, field

from protocol.agreement.model import Agreement
from protocol.agreement.timing import first_wait
from protocol.wire.messages import MaskKey, Message, Release, Seal, Signed

EXCHANGES = 4
"""Rounds that are gathered at once. Honest members are in one, or on the step to the next."""


@dataclass
class _Exchange:
    """Who has spoken in a round, and what of that has not been passed on yet."""

    until: float
    spoken: set[str] = field(default_factory=set)
    held: dict[bytes, None] = field(default_factory=dict)


class Batching:
    """Gathers what all members say once in a round.

    It goes out when all have spoken, or half as long after the first as members wait before
    they send anything again. What is said a second time is passed on at once.
    """

    def __init__(self, agreement: Agreement) -> None:
        self._members = len(agreement.members)
        self._hold_seconds = 0.5 * first_wait(agreement)
        self._exchanges: dict[tuple[type[Message], int], _Exchange] = {}

    def hear(self, signed: Signed, owner: str, now: float) -> list[bytes]:
        """What is to be passed on now that the connection of `owner` brought this message."""
        message, data = signed
        if not isinstance(message, Release | MaskKey | Seal) or message.sender != owner:
            return [data]
        exchange, released = self._exchange(message, now)
        if data in exchange.held:
            return released  # it is on its way
        if message.sender in exchange.spoken:
            return [*released, data]
        if not exchange.held:
            exchange.until = now + self._hold_seconds
        exchange.spoken.add(message.sender)
        exchange.held[data] = None
        if len(exchange.spoken) == self._members:
            exchange.until = now
        return [*released, *self.due(now)]

    def _exchange(self, message: Message, now: float) -> tuple[_Exchange, list[bytes]]:
        """Where a message belongs, and what is passed on to make room for that.

        One member alone cannot push out a round that others are in: of the rounds in which it
        alone has spoken only the newest is kept. Of the others the oldest goes, one that is
        complete before one that is not.
        """
        at = (type(message), message.round)
        if at in self._exchanges:
            return self._exchanges[at], []
        alone = [k for k, e in self._exchanges.items() if e.spoken == {message.sender}]
        if not alone and len(self._exchanges) == EXCHANGES:
            oldest = min(self._exchanges.items(), key=lambda e: len(e[1].spoken) < self._members)
            alone = [oldest[0]]
        released = [data for gone in alone for data in self._exchanges.pop(gone).held]
        self._exchanges[at] = _Exchange(now)
        return self._exchanges[at], released

    @property
    def deadline(self) -> float | None:
        """When something is due that is kept back, if anything is."""
        return min((e.until for e in self._exchanges.values() if e.held), default=None)

    def due(self, now: float) -> list[bytes]:
        """What has been kept back for long enough."""
        released: list[bytes] = []
        for exchange in self._exchanges.values():
            if exchange.held and now >= exchange.until:
                released += exchange.held
                exchange.held = {}
        return released
