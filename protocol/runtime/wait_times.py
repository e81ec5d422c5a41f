"""Measures how long the rounds of a session have waited for each member, at one observer.

A party and a coordinator both see when releases arrive. A slow network and a slow member look
the same, and other observers measure other times. So nothing here decides anything, or goes into
a message or a transcript. Never here: how long a party's own answer took.
"""

from collections.abc import Iterable

from msgspec import Struct

from protocol.agreement.model import Agreement

LONG_SECONDS = 10.0
"""A wait of at least this long is reported: in one round, or in all rounds together."""

_BUSY_SECONDS = 0.5  # spent on other things between two waits, and still counted as waiting
_PACES = 4.0  # with a slow pace, only waits of this many paces are long


class WaitTime(Struct, frozen=True):
    """How long the rounds have waited for one member."""

    name: str
    seconds: float = 0.0
    """In all rounds together."""
    longest: float = 0.0
    """In one round, in seconds."""
    last: int = 0
    """In how many rounds it was the last to arrive."""


class FreeTime:
    """A clock that stops while the party is busy.

    So its own solver, disk or machine never makes another member look slow.
    """

    def __init__(self, now: float) -> None:
        self.seconds = 0.0
        self._since = now

    def listened(self, now: float, *, meant: float) -> None:
        """Count the time of a wait for messages of up to `meant` seconds.

        If it took longer by more than a little, the machine was busy or asleep.
        """
        self.seconds += min(now - self._since, max(0.0, meant) + _BUSY_SECONDS)
        self._since = now

    def busy(self, now: float) -> None:
        """Skip the time until now, in which the party computed its own answer."""
        self._since = now


class WaitTimes:
    """The waits of one observer, by its own clock.

    `earlier` has the waits from before a restart of the same observer.
    """

    def __init__(self, agreement: Agreement, earlier: Iterable[WaitTime] = ()) -> None:
        self.long_seconds = max(LONG_SECONDS, _PACES * (agreement.pace_seconds or 0.0))
        self._waits = {wait.name: wait for wait in earlier}
        #: When the observer began to wait in the current round.
        self._since: float | None = None
        #: How long the current round has waited for each member that has arrived.
        self._arrived: dict[str, float] = {}

    def begin(self, now: float) -> None:
        """Start to wait for the other members in this round."""
        self._since = now
        self._arrived.clear()

    def arrived(self, name: str, now: float) -> None:
        """Note the first release of a member in this round."""
        if self._since is not None:
            self._arrived.setdefault(name, now - self._since)

    def closed(self, round: int) -> str:  # noqa: A002
        """Add the waits of a complete round; return a sentence if one was long, else nothing.

        A round in which `begin` was not called does not count.
        """
        arrived = self._arrived
        self._since, self._arrived = None, {}
        if not arrived:
            return ""
        # A relay passes on several releases together, in order of arrival: the last one counts.
        last = max(reversed(arrived), key=lambda name: arrived[name])
        for name, seconds in arrived.items():
            wait = self._waits.get(name, WaitTime(name=name))
            self._waits[name] = WaitTime(
                name=name,
                seconds=wait.seconds + seconds,
                longest=max(wait.longest, seconds),
                last=wait.last + (name == last),
            )
        if arrived[last] < self.long_seconds:
            return ""
        return f"waited {arrived[last]:.0f} s for {last!r} in round {round + 1}"

    @property
    def all(self) -> tuple[WaitTime, ...]:
        """The waits for all members, the longest first."""
        return tuple(sorted(self._waits.values(), key=lambda w: (-w.seconds, -w.last, w.name)))

    @property
    def sentence(self) -> str:
        """A sentence about the longest wait, if it is long in all; else empty."""
        waits = self.all
        if not waits or waits[0].seconds < self.long_seconds:
            return ""
        longest = waits[0]
        return (
            f"waited longest for {longest.name!r}: {longest.seconds:.0f} s in all, at most "
            f"{longest.longest:.0f} s in one round; rounds in which it was last: {longest.last}"
        )
