"""Who is here, who was here and has left, and since when: as one observer knows it.

A member is here while a connection that has proved its transport key brings its own messages. What
others forward or claim never counts, so no member can make another one look here or away. A relay
tells parties what it knows, for their operators only: no decision of a session rests on it. SPEC.md
§16 has the format. Never here: a socket.
"""

import struct
import time
from collections.abc import Iterable, Mapping, Sequence

from protocol.runtime.backoff import Backoff

MARK = b"\1"
"""The first byte of a frame in which a relay tells who is here. No message begins with it."""

REPORT_SECONDS = (1.0, 600.0)
"""The least time between two reports about one member. It doubles each time, up to the second
figure, so that a member that connects all the time cannot fill a log."""

_NEVER, _HERE, _AWAY = 0, 1, 2
_MOST = 2**32 - 1

Away = Mapping[str, float | None]
"""The members that are not here: when each of them left, as `time.time` counts, or None if it was
never here."""


class Presence:
    """What one observer knows. The caller brings the time of a clock that only goes forward."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        #: The members that are here, in order of arrival.
        self._here: dict[str, None] = {}
        #: When each member that was here has left.
        self._left: dict[str, float] = {}
        #: Of which members the last report said that they are here.
        self._reported: dict[str, bool] = {}
        self._backoff = Backoff(*REPORT_SECONDS)

    @property
    def here(self) -> tuple[str, ...]:
        return tuple(self._here)

    @property
    def snapshot(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Who is here, and who was here and has left. It changes when either does."""
        return self.here, tuple(self._left)

    def resumed(self, since: float) -> None:
        """An earlier process of this observer has seen all members, and none since then."""
        self._left = dict.fromkeys(self._names, since)

    def arrived(self, name: str) -> None:
        self._here[name] = None
        self._left.pop(name, None)

    def left(self, name: str, now: float) -> None:
        if name in self._here:
            del self._here[name]
            self._left[name] = now

    def unreported(self, now: float) -> list[str]:
        """Members that have come or gone since the last report about them, if one is due."""
        changed = [
            name
            for name in self._names
            if self._reported.get(name, False) != (name in self._here)
            and self._backoff.due(name, now)
        ]
        self._reported.update((name, name in self._here) for name in changed)
        return changed

    def away(self, now: float) -> dict[str, float | None]:
        """The members that are not here, as `Away` has them."""
        wall = time.time() - now
        return {
            name: wall + self._left[name] if name in self._left else None
            for name in self._names
            if name not in self._here
        }

    def packed(self, now: float) -> bytes:
        """The frame that tells parties: a number for each member, in roster order."""
        values = [
            _HERE
            if name in self._here
            else min(_MOST, _AWAY + max(0, int(now - self._left[name])))
            if name in self._left
            else _NEVER
            for name in self._names
        ]
        return MARK + struct.pack(f">{len(values)}I", *values)


def unpacked(names: Sequence[str], frame: bytes) -> dict[str, float | None] | None:
    """Read a frame of `packed` as `Away`; None if it is no such frame of this session."""
    layout = struct.Struct(f">{len(names)}I")
    if frame[: len(MARK)] != MARK or len(frame) != len(MARK) + layout.size:
        return None
    values, wall = layout.unpack_from(frame, len(MARK)), time.time()
    return {
        name: wall - (value - _AWAY) if value >= _AWAY else None
        for name, value in zip(names, values, strict=True)
        if value != _HERE
    }


def merged(before: Away | None, told: Away | None) -> Away | None:
    """What a relay tells now, completed by what it told before a restart; None is nothing.

    A relay that was started again does not know who was here before. Its parties do: such a
    member is away since then, and not one that never came.
    """
    if before is None or told is None:
        return before if told is None else told
    return {n: before.get(n, time.time()) if at is None else at for n, at in told.items()}


def absences(away: Away) -> frozenset[tuple[str, bool]]:
    """Who is away, and whether each of them was here before. The time is left out."""
    return frozenset((name, left is not None) for name, left in away.items())


def state_text(away: Away, name: str) -> str:
    """Whether a member is here, in words: here, not seen yet, or away since 17:00.

    An observer that was started again has not seen a member that left before.
    """
    if name not in away:
        return "here"
    left = away[name]
    return "not seen yet" if left is None else f"away since {clock_text(left)}"


def clock_text(at: float) -> str:
    """A time of day, with the date unless it is today's. Here people read whole minutes."""
    then, today = time.localtime(at), time.localtime()
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M" if same_day else "%H:%M on %d %B", then)
