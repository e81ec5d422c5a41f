"""Tells the convener how a session is going: who is here, which round, who is missing.

A member is here while a connection of its own is open that has brought a message which it signed.
What others forward for it does not count. Only verified messages come in, and nothing here changes
what is passed on.
"""

import time
from collections.abc import Callable

from coordinator.collector import KEYS, SEALS, Collected, Exchange, RoundCollector
from protocol.agreement.model import Agreement
from protocol.runtime.backoff import Backoff
from protocol.runtime.presence import Presence, clock_text, state_text
from protocol.runtime.wait_times import WaitTimes
from protocol.wire.messages import Halt, Message, Reason

Say = Callable[[str], None]

QUIET_SECONDS = 30.0
"""After this time without a closed exchange the missing members are named."""

REPEAT_SECONDS = (60.0, 3_600.0)
"""Least time until the same members are named again: it doubles each time, up to the second figure.
People may wait for a day."""

MAX_NAMED = 3
"""Up to this many missing members are named when another one arrives; more are counted."""

LINGER_SECONDS = 6.0
"""The coordinator leaves a session that is over after this much silence."""

_HALTS = {
    Reason.EQUIVOCATION: "has stopped, and has sent its reason to the other members",
    Reason.HEADS_DIFFER: "disagrees with another member about the rounds so far, and has sent its "
    "messages to all members; this does not show which of the two is right",
}
"""The relay does not examine the evidence of a Halt. A member that publishes its side of a
dispute (SPEC.md §7) has not stopped, and another member can make it do so."""


class SessionProgress:
    """The state of a session as the convener reads it in the log and on the page."""

    def __init__(
        self, agreement: Agreement, collector: RoundCollector, say: Say, now: float
    ) -> None:
        self._agreement = agreement
        self._collector = collector
        self._say = say
        #: Who is here, and who has left.
        self.presence = Presence(collector.names)
        #: Tenths of all rounds that have been reported.
        self._reported_tenths = 0
        self._closed_at = self._received_at = now
        #: When each member arrived first since the last exchange was closed.
        self._arrived_at: dict[str, float] = {}
        self._halted: set[str] = set()
        self._over = False
        self._waits = WaitTimes(agreement)
        #: The digests of the agreement that each member has instead of this one.
        self._other_digests: dict[str, list[bytes]] = {}
        #: How often the members that are waited for are named.
        self._quiet = Backoff(*REPEAT_SECONDS)
        #: What stops the session from continuing, as a sentence: an event, or a wait for members.
        self._event = self._wait = ""

    @property
    def trouble(self) -> str:
        """What stops the session from continuing, as a sentence; empty once it continues."""
        return self._event or self._wait

    @property
    def here(self) -> tuple[str, ...]:
        """The members that are here, in order of arrival."""
        return self.presence.here

    def states(self, now: float) -> dict[str, str]:
        """Whether each member is here, in words. A member that has finished is done."""
        away, done = self.presence.away(now), self._collector.finished
        return {
            name: "done" if name in done else state_text(away, name)
            for name in self._collector.names
        }

    def ended(self, now: float) -> bool:
        """Whether the session is over and no message has come for a while."""
        return self._collector.over and now >= self._received_at + LINGER_SECONDS

    def add(self, message: Message, owner: str, collected: Collected, now: float) -> None:
        """Take note of a verified message that the connection of `owner` brought."""
        if message.agreement != self._agreement.digest:
            if message.sender == owner:
                self._report_other_agreement(message)
            return
        self._other_digests.pop(message.sender, None)
        self._received_at = now
        if message.sender == owner:
            self.arrived(owner, now)
        for exchange in collected.closed:
            self._report_closed(exchange, now)
        if self._collector.over and not self._over:
            self._over = True
            rounds = message.round - self._agreement.commits
            self._say(f"the session is over: all members have sealed {rounds} rounds")
            if waited := self._waits.sentence:
                self._say(f"this relay has {waited}")
        if isinstance(message, Halt) and message.sender not in self._halted:
            self._halted.add(message.sender)
            self._report_event(f"{message.sender} {_HALTS[message.reason]}")

    def _report_other_agreement(self, message: Message) -> None:
        """Name a member that has another agreement: at most `MAX_NAMED` times, if it changes."""
        seen = self._other_digests.setdefault(message.sender, [])
        if message.agreement in seen or len(seen) == MAX_NAMED:
            return
        seen.append(message.agreement)
        self._report_event(
            f"{message.sender} has another agreement, digest {message.agreement.hex()}; this is "
            f"{self._agreement.digest.hex()}. Send {message.sender} this file, or compare the two "
            "with `protocol diff`"
        )

    def arrived(self, name: str, now: float) -> None:
        """The connection of a member has brought a message of its own."""
        if name not in self.presence.here:
            self.presence.arrived(name)
            self._arrived_at.setdefault(name, now)
            self._report_presence(now)

    def left(self, name: str, now: float) -> None:
        """The last connection of a member is gone."""
        self.presence.left(name, now)
        self._report_presence(now)

    def _report_presence(self, now: float) -> None:
        """Log who has come and gone. Members that have finished may go."""
        for name in self.presence.unreported(now):
            here, names = self.here, self._collector.names
            count = f"{len(here)} of {len(names)}"
            absent = [n for n in names if n not in here and n not in self._collector.finished]
            rest = "all members are here"
            if absent:
                few = len(absent) <= MAX_NAMED
                rest = f"waiting for {', '.join(absent) if few else f'{len(absent)} members'}"
            if name in here:
                self._say(f"{name} is here ({count}); {rest}")
            elif name not in self._collector.finished:
                self._say(f"{name} is {self.states(now)[name]} ({count} here); {rest}")

    def check(self, now: float) -> None:
        """Log who has come and gone; name the missing members if no exchange has closed for long.

        The rounds of a mesh do not pass here, so there only absent members are named.
        """
        if self._collector.over:
            return
        self._report_presence(now)
        here, missing = self.here, self._collector.missing()
        absent = [name for name in missing if name not in here]
        relayed = self._agreement.transport.topology == "relay"
        named = absent or (missing if relayed else [])
        # Once all are here they need a moment. A member that comes and goes counts once.
        since = self._closed_at if absent else max((self._closed_at, *self._arrived_at.values()))
        alone = len(absent) == len(self._collector.names)
        if not named or alone or now < since + QUIET_SECONDS:
            self._wait = ""
            return
        states, at = self.states(now), clock_text(time.time() - (now - since))
        self._wait = f"waiting for {', '.join(f'{name} ({states[name]})' for name in named)}"
        if relayed:
            rounds = f"{self._collector.closed} of {self._agreement.rounds} rounds are closed"
            self._wait = f"{rounds}, nothing new since {at}; {self._wait}"
        if self._quiet.due(tuple(named), now):
            self._say(self._wait)

    def _report_event(self, event: str) -> None:
        self._event = event
        self._say(event)

    def _report_closed(self, exchange: Exchange, now: float) -> None:
        self._closed_at, self._event, self._wait = now, "", ""
        self._arrived_at.clear()
        self._quiet = Backoff(*REPEAT_SECONDS)
        if exchange.number in (KEYS, SEALS) or exchange.committed:
            return
        if waited := self._wait_in(exchange):
            self._say(waited)
        closed, rounds = exchange.number + 1, self._agreement.rounds
        tenths = 10 * closed // rounds
        if tenths > self._reported_tenths or closed == 1:
            self._reported_tenths = tenths
            waited = self._waits.sentence
            self._say(self._agreement.counted(closed) + (waited and f"; {waited}"))

    def _wait_in(self, exchange: Exchange) -> str:
        """Return a sentence if the round has waited long for a member.

        The member that released first has waited for all others since. Releases sent before
        their round was open do not count, so that no member can make another one look slow.
        """
        if exchange.arrivals:
            self._waits.begin(min(exchange.arrivals.values()))
        for name, at in exchange.arrivals.items():
            self._waits.arrived(name, at)
        return self._waits.closed(exchange.number)
