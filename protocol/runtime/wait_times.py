"""For whom the rounds of a session have waited, and how long: what one observer has seen.

A party and a coordinator both watch when releases arrive. That is a fact about arrival only: a
slow network and a slow member look alike, and other observers see other times. So nothing here
goes into a message or a transcript, and nothing is decided by it. Only public arrivals count,
never how long a party's own answer took.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from protocol.agreement.model import Agreement

LONG_SECONDS = 10.0
"""From this long on a wait is worth a line: in one round, or in all of them together."""

_BUSY_SECONDS = 0.5  # what may pass beside listening, and still be waiting for others
_PACES = 4.0  # where a round takes long by agreement, a long wait takes longer


@dataclass(frozen=True, kw_only=True)
class WaitTime:
    """How long the rounds have waited for one member.

    `seconds` in all rounds together, `longest` in one of them; it came last in `last` rounds.
    """

    name: str
    seconds: float = 0.0
    longest: float = 0.0
    last: int = 0


class FreeTime:
    """The time in which a party could hear others, and had nothing of its own to do.

    A clock that stands still while the party is busy, so that its own solver, disk or machine
    never makes another member look slow.
    """

    def __init__(self, now: float) -> None:
        self.seconds = 0.0
        self._since = now

    def listened(self, now: float, *, meant: float) -> None:
        """The party has listened, and meant to do so for at most this long.

        What it took beyond that, and a little, its own machine was busy or asleep.
        """
        self.seconds += min(now - self._since, max(0.0, meant) + _BUSY_SECONDS)
        self._since = now

    def busy(self, now: float) -> None:
        """Until now the party was busy with an answer of its own."""
        self._since = now


class WaitTimes:
    """What one observer has waited, by a clock of its own, which may stand still at times."""

    def __init__(self, agreement: Agreement, earlier: Iterable[WaitTime] = ()) -> None:
        """`earlier` is what the same observer had seen when it last ended."""
        self.long_seconds = max(LONG_SECONDS, _PACES * (agreement.pace_seconds or 0.0))
        self._seconds = {one.name: one.seconds for one in earlier}
        self._longest = {one.name: one.longest for one in earlier}
        self._last = {one.name: one.last for one in earlier}
        self._since: float | None = None
        self._arrived: dict[str, float] = {}

    def begin(self, now: float) -> None:
        """The observer has all that is not up to others: from now on it waits for them."""
        self._since = now
        self._arrived.clear()

    def arrived(self, name: str, now: float) -> None:
        """A release of the round that is waited for has come."""
        if self._since is not None:
            self._arrived.setdefault(name, now - self._since)

    def closed(self, round: int) -> str:  # noqa: A002
        """The round is complete. A sentence about it if the wait was long, else nothing.

        A round whose beginning was not seen counts for nothing.
        """
        waits = self._arrived
        self._since, self._arrived = None, {}
        if not waits:
            return ""
        # A relay passes on several at once, in the order in which they came: then the last is last.
        last = max(reversed(waits), key=lambda name: waits[name])
        for name, seconds in waits.items():
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds
            if seconds >= self._longest.get(name, 0.0):
                self._longest[name] = seconds
        self._last[last] = self._last.get(last, 0) + 1
        if waits[last] < self.long_seconds:
            return ""
        return f"waited {waits[last]:.0f} s for {last!r} in round {round}"

    @property
    def all(self) -> tuple[WaitTime, ...]:
        """All members that were waited for, the one that was waited for longest first."""
        waited = [
            WaitTime(
                name=name,
                seconds=seconds,
                longest=self._longest.get(name, 0.0),
                last=self._last.get(name, 0),
            )
            for name, seconds in self._seconds.items()
        ]
        return tuple(sorted(waited, key=lambda one: (-one.seconds, -one.last, one.name)))

    @property
    def sentence(self) -> str:
        """For whom the rounds have waited longest, if that was long in all; else nothing."""
        most = next(iter(self.all), None)
        if most is None or most.seconds < self.long_seconds:
            return ""
        return (
            f"waited longest for {most.name!r}: {most.seconds:.0f} s in all, at most "
            f"{most.longest:.0f} s in one round; rounds in which it was last: {most.last}"
        )
