"""How a session stands, as far as that can be told from what is passed on.

Only verified messages count. A member is here if its own connection has brought a message that it
signed; what others pass on for it says nothing about that. The session is over with the complete
seals of all. Nothing here changes what is passed on.
"""

from collections.abc import Callable

from coordinator.wait_times import RelayWaits
from protocol.agreement.model import Agreement
from protocol.wire.messages import Halt, Message, Reason, Release, Seal

Say = Callable[[str], None]

QUIET_SECONDS = 30.0
"""After so long without a new round it is said who is missing."""

NAMED = 3
"""So many members that are missing are named as the others come; more are counted."""

LINGER_SECONDS = 6.0
"""A session that is over is left after so much silence: nobody has to hear anything more."""


_HALTS = {
    Reason.EQUIVOCATION: "has stopped, and says why to the others",
    Reason.HEADS_DIFFER: "does not agree with another member about the rounds so far, and shows "
    "the others what it has; that says nothing about which of the two is right",
}
"""What a Halt tells a relay, which does not look into it. A member that shows its side of a
dispute (SPEC.md §7) has not stopped, and another member can make it do so."""


class SessionProgress:
    """What has been heard of each member of a session."""

    def __init__(self, agreement: Agreement, say: Say, now: float) -> None:
        self._agreement = agreement
        self._say = say
        self._names = tuple(m.name for m in agreement.members)
        self._here: dict[str, None] = {}
        self._released = dict.fromkeys(self._names, 0)
        self.closed = 0
        """Rounds in which every member has released, as far as was heard."""
        self._told = 0
        self._moved_at = self._heard_at = now
        self._complete: set[str] = set()
        self._halted: set[str] = set()
        self._waiting = RelayWaits(agreement)
        self.trouble = ""
        """What keeps the session from going on, in a sentence, until it goes on."""

    @property
    def here(self) -> tuple[str, ...]:
        """The members that have spoken themselves."""
        return tuple(self._here)

    @property
    def over(self) -> bool:
        """Whether every member has said that it has all seals."""
        return len(self._complete) == len(self._names)

    def left(self, now: float) -> bool:
        """Whether the session is over and nobody has spoken for a while."""
        return self.over and now >= self._heard_at + LINGER_SECONDS

    def hear(self, message: Message, owner: str, now: float) -> None:
        """A verified message came in over the connection of the member `owner`."""
        if message.agreement != self._agreement.digest:
            return
        self._heard_at = now
        name = message.sender
        if name == owner:
            self.met(name)
        if isinstance(message, Release):
            if told := self._waiting.hear(name, message.round, now):
                self._say(told)
            if self._released[name] <= message.round < self._agreement.rounds:
                self._released[name] = message.round + 1
                self._count(now)
        elif isinstance(message, Seal) and message.has_all_seals and name not in self._complete:
            self._complete.add(name)
            if self.over:
                self._say(f"the session is over: all members have sealed {message.round} rounds")
                if waited := self._waiting.waits.sentence:
                    self._say(f"this relay has {waited}")
        elif isinstance(message, Halt) and name not in self._halted:
            self._halted.add(name)
            self._tell(f"{name} {_HALTS[message.reason]}")

    def met(self, name: str) -> None:
        """A member is here."""
        if name in self._here:
            return
        self._here[name] = None
        waiting = [n for n in self._names if n not in self._here]
        then = "all members are here"
        if waiting:
            few = len(waiting) <= NAMED
            then = f"waiting for {', '.join(waiting) if few else f'{len(waiting)} others'}"
        self._say(f"{name} is here ({len(self._here)} of {len(self._names)}); {then}")

    def look(self, now: float) -> None:
        """Say who is missing if nothing has moved for long. The rounds of a mesh pass elsewhere."""
        missing = [n for n, count in self._released.items() if not count and n not in self._here]
        nobody = len(missing) == len(self._names)
        if self.over or nobody or now < self._moved_at + QUIET_SECONDS:
            return
        self._moved_at = now
        if not missing and self._agreement.transport.topology == "relay":
            missing = [n for n, count in self._released.items() if count <= self.closed]
        if missing:
            self._tell(
                f"round {self.closed} of {self._agreement.rounds}: nothing new for "
                f"{QUIET_SECONDS:g} seconds; waiting for {', '.join(missing)}"
            )

    def _tell(self, trouble: str) -> None:
        self.trouble = trouble
        self._say(trouble)

    def _count(self, now: float) -> None:
        closed = min(self._released.values())
        if closed <= self.closed:
            return
        self.closed, self._moved_at, self.trouble = closed, now, ""
        tenths = 10 * closed // self._agreement.rounds
        if tenths > self._told or closed == 1:
            self._told = tenths
            waited = self._waiting.waits.sentence
            self._say(f"round {closed} of {self._agreement.rounds}" + (waited and f"; {waited}"))
