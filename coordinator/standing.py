"""How a session stands, as far as that can be told from what is passed on.

Rounds and who is here are taken at the members' word. That the session is over is not: it takes
the signed and complete seals of all. Anybody may pass on the last release and the seals of others:
they say nothing about who is here. Nothing here changes what is passed on.
"""

from collections.abc import Callable

from coordinator.waiting import Waiting
from protocol.agreement import Agreement
from protocol.errors import BadMessage
from protocol.messages import Halt, Hello, MaskKey, Release, Seal
from protocol.wire import Glance, Reader, glance

Say = Callable[[str], None]

QUIET_SECONDS = 30.0
"""After so long without a new round it is said who is missing."""

NAMED = 3
"""So many members that are missing are named as the others come; more are counted."""

LINGER_SECONDS = 6.0
"""A session that is over is left after so much silence: nobody has to hear anything more."""


class Standing:
    """What has been heard of each member of a session."""

    def __init__(self, agreement: Agreement, say: Say, now: float) -> None:
        self._agreement = agreement
        self._say = say
        self._names = {m.signing_key: m.name for m in agreement.members}
        self._here: dict[str, None] = {}
        self._released = dict.fromkeys(self._names.values(), 0)
        self._closed = 0
        self._told = 0
        self._moved_at = self._heard_at = now
        self._reader: Reader | None = None
        self._complete: set[str] = set()
        self._halted: set[str] = set()
        self._waiting = Waiting(agreement)
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

    def hear(self, data: bytes, now: float) -> Glance | None:
        """Look at a message that is passed on; what it claims, if it is one of this session."""
        seen = glance(data)
        if seen is None or seen.agreement != self._agreement.digest:
            return None
        name = self._names.get(seen.key)
        if name is None:
            return None
        self._heard_at = now
        if seen.kind in (Hello, MaskKey):
            self.met(name)
        elif seen.kind is Release:
            if told := self._waiting.hear(name, seen.round, now):
                self._say(told)
            if self._released[name] <= seen.round < self._agreement.rounds:
                if self._released[name]:  # of two of its releases one is not its last
                    self.met(name)
                self._released[name] = seen.round + 1
                self._count(now)
        elif seen.kind is Seal and name not in self._complete:
            self._seal(data, name)
        elif seen.kind is Halt and name not in self._halted and self._signed(data):
            self._halted.add(name)
            self._tell(f"{name} has stopped, and says why to the others")
        return seen

    def met(self, name: str) -> None:
        """A member is here."""
        if name in self._here:
            return
        self._here[name] = None
        waiting = [n for n in self._names.values() if n not in self._here]
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
            missing = [n for n, count in self._released.items() if count <= self._closed]
        if missing:
            self._tell(
                f"round {self._closed} of {self._agreement.rounds}: nothing new for "
                f"{QUIET_SECONDS:g} seconds; waiting for {', '.join(missing)}"
            )

    def _tell(self, trouble: str) -> None:
        self.trouble = trouble
        self._say(trouble)

    def _count(self, now: float) -> None:
        closed = min(self._released.values())
        if closed <= self._closed:
            return
        self._closed, self._moved_at, self.trouble = closed, now, ""
        tenths = 10 * closed // self._agreement.rounds
        if tenths > self._told or closed == 1:
            self._told = tenths
            waited = self._waiting.waits.sentence
            self._say(f"round {closed} of {self._agreement.rounds}" + (waited and f"; {waited}"))

    def _seal(self, data: bytes, name: str) -> None:
        message = self._signed(data)
        if not isinstance(message, Seal) or not message.complete:
            return
        self._complete.add(name)
        if self.over:
            self._say(f"the session is over: all members have sealed {message.round} rounds")
            if waited := self._waiting.waits.sentence:
                self._say(f"this relay has {waited}")

    def _signed(self, data: bytes) -> object:
        """The message, if its signature fits. Made late: most of the time nobody need verify."""
        self._reader = self._reader or Reader(self._agreement)
        try:
            return self._reader.unpack(data).message
        except BadMessage:
            return None
