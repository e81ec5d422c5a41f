"""Tells the convener how a session is going: who is here, which round, who is missing.

A member is here if its own connection has brought a message that it signed. What others forward
for it does not count. Only verified messages come in, and nothing here changes what is passed on.
"""

from collections.abc import Callable

from coordinator.collector import KEYS, SEALS, Collected, Exchange, RoundCollector
from protocol.agreement.model import Agreement
from protocol.runtime.wait_times import WaitTimes
from protocol.wire.messages import Halt, Message, Reason

Say = Callable[[str], None]

QUIET_SECONDS = 30.0
"""After this time without a closed exchange the missing members are named."""

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
        #: Members whose own connection has brought a message, in order of arrival.
        self._here: dict[str, None] = {}
        #: Tenths of all rounds that have been reported.
        self._reported_tenths = 0
        self._closed_at = self._received_at = now
        self._halted: set[str] = set()
        self._over = False
        self._waits = WaitTimes(agreement)
        #: What stops the session from continuing, as a sentence; empty once it continues.
        self.trouble = ""

    @property
    def here(self) -> tuple[str, ...]:
        """The members that are here, in order of arrival."""
        return tuple(self._here)

    def ended(self, now: float) -> bool:
        """Whether the session is over and no message has come for a while."""
        return self._collector.over and now >= self._received_at + LINGER_SECONDS

    def add(self, message: Message, owner: str, collected: Collected, now: float) -> None:
        """Take note of a verified message that the connection of `owner` brought."""
        if message.agreement != self._agreement.digest:
            return
        self._received_at = now
        if message.sender == owner:
            self.arrived(owner)
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
            self._report_trouble(f"{message.sender} {_HALTS[message.reason]}")

    def arrived(self, name: str) -> None:
        """Report a member whose own connection has brought a message for the first time."""
        if name in self._here:
            return
        self._here[name] = None
        absent = [n for n in self._collector.names if n not in self._here]
        rest = "all members are here"
        if absent:
            named = ", ".join(absent) if len(absent) <= MAX_NAMED else f"{len(absent)} others"
            rest = f"waiting for {named}"
        self._say(f"{name} is here ({len(self._here)} of {len(self._collector.names)}); {rest}")

    def check(self, now: float) -> None:
        """Name the missing members if no exchange has closed for long.

        The rounds of a mesh do not pass here, so there only absent members are named.
        """
        if self._collector.over or now < self._closed_at + QUIET_SECONDS:
            return
        missing = self._collector.missing()
        absent = [name for name in missing if name not in self._here]
        if len(absent) == len(self._collector.names):
            return
        self._closed_at = now
        relayed = self._agreement.transport.topology == "relay"
        if named := absent or (missing if relayed else []):
            self._report_trouble(
                f"round {self._collector.closed} of {self._agreement.rounds}: nothing new for "
                f"{QUIET_SECONDS:g} seconds; waiting for {', '.join(named)}"
            )

    def _report_trouble(self, trouble: str) -> None:
        self.trouble = trouble
        self._say(trouble)

    def _report_closed(self, exchange: Exchange, now: float) -> None:
        self._closed_at, self.trouble = now, ""
        if exchange.number in (KEYS, SEALS) or exchange.committed:
            return
        if waited := self._wait_in(exchange):
            self._say(waited)
        closed, rounds = exchange.number + 1, self._agreement.rounds
        tenths = 10 * closed // rounds
        if tenths > self._reported_tenths or closed == 1:
            self._reported_tenths = tenths
            waited = self._waits.sentence
            self._say(f"round {closed} of {rounds}" + (waited and f"; {waited}"))

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
