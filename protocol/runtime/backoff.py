"""Limits how often an event that a peer can cause may be reported.

So no peer can fill a disk with log lines. The caller supplies the time.
"""

from collections.abc import Hashable


class Backoff:
    """Allows an event for each key at once, then after a pause that doubles each time."""

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        #: For each key: when it is allowed again, and the pause after that.
        self._next: dict[Hashable, tuple[float, float]] = {}

    def due(self, key: Hashable, now: float) -> bool:
        """Return whether the event is allowed now, and start the next pause if it is."""
        at, pause = self._next.get(key, (now, self._first))
        if now < at:
            return False
        self._next[key] = now + pause, min(2.0 * pause, self._longest)
        return True
