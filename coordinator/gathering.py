"""What a relay keeps back for a moment, so that a round goes out as one message and not as K.

Nobody can close a round before all have spoken, so that nothing is late by it. What a message
claims is taken at its word: who lies about that makes batches smaller, and nothing else. What
is kept is bounded, and so is for how long; nothing is changed, made up or left out.
"""

from dataclasses import dataclass, field

from protocol.agreement import Agreement
from protocol.messages import MaskKey, Message, Release, Seal
from protocol.timers import first_wait
from protocol.wire import MASK_KEY_BYTES, SEAL_BYTES, Glance, release_bytes

EXCHANGES = 4
"""Rounds that are gathered at once. Honest members are in one, or on the step to the next."""


@dataclass
class _Exchange:
    """Who has spoken in a round, and what of that has not been passed on yet."""

    until: float
    spoken: set[bytes] = field(default_factory=set)
    held: dict[bytes, None] = field(default_factory=dict)


class Gathering:
    """Gathers what all members say once in a round.

    It goes out when all have spoken, or half as long after the first as members wait before
    they send anything again. What is said a second time waits for nobody, and nothing is kept
    that is longer or shorter than what it claims to be: nobody would read it.
    """

    def __init__(self, agreement: Agreement) -> None:
        self._members = len(agreement.members)
        self._hold_seconds = 0.5 * first_wait(agreement)
        self._lengths: dict[type[Message], int] = {
            Release: release_bytes(agreement),
            MaskKey: MASK_KEY_BYTES,
            Seal: SEAL_BYTES,
        }
        self._exchanges: dict[tuple[type[Message], int], _Exchange] = {}

    def hear(self, seen: Glance | None, data: bytes, now: float) -> list[bytes]:
        """What is to be passed on now that this has come in."""
        if seen is None or self._lengths.get(seen.kind) != len(data):
            return [data]
        at, released = (seen.kind, seen.round), list[bytes]()
        exchange = self._exchanges.get(at)
        if exchange is None:
            if len(self._exchanges) == EXCHANGES:
                released += self._exchanges.pop(next(iter(self._exchanges))).held
            exchange = self._exchanges[at] = _Exchange(now)
        if data in exchange.held:
            return released  # it is on its way
        if seen.key in exchange.spoken:
            return [*released, data]
        if not exchange.held:
            exchange.until = now + self._hold_seconds
        exchange.spoken.add(seen.key)
        exchange.held[data] = None
        if len(exchange.spoken) == self._members:
            exchange.until = now
        return [*released, *self.due(now)]

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
