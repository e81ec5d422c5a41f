"""How often something that others can cause may happen again: ever more seldom.

For log lines and the like, so that no peer can fill a disk with them. The caller brings the clock.
"""

from collections.abc import Hashable


class Backoff:
    """For each key: yes at first, then only after a pause, which doubles with each yes."""

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self._next: dict[Hashable, tuple[float, float]] = {}

    def due(self, key: Hashable, now: float) -> bool:
        """Whether it may happen now. If so the caller lets it happen."""
        at, pause = self._next.get(key, (now, self._first))
        if now < at:
            return False
        self._next[key] = now + pause, min(2.0 * pause, self._longest)
        return True
