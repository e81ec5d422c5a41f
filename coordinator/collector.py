"""Tracks which member has sent which message of each exchange: the only such record here.

Batching, progress, journal and page all read it. Only verified messages come in. One message of
a member is stored for each of a few exchanges, so that no member can fill the memory.
Never here: sockets, files, arithmetic.
"""

from msgspec import Struct, field

from protocol.agreement.model import Agreement
from protocol.wire.messages import Commitment, MaskKey, Message, Release, Seal, Signed

KEYS = -1
"""The number of the exchange of mask keys. Round 0 follows it."""

SEALS = -2
"""The number of the exchange of seals."""

MAX_AHEAD = 2
"""Exchanges after the next one for which messages of a member are stored. Members send their
newest two messages again, which lets a coordinator that was started late catch up."""


class Exchange(Struct):
    """The messages of one exchange: mask keys, the releases of a round, commitments, or seals."""

    number: int
    """The round, or `KEYS` or `SEALS`. Commitments count as one more round."""
    messages: dict[str, Signed] = field(default_factory=dict)
    """The newest message of each member."""
    arrivals: dict[str, float] = field(default_factory=dict)
    """When each member's first message came, if this was the current exchange then."""

    @property
    def committed(self) -> bool:
        """Whether these are commitments. A closed exchange has messages of one kind."""
        return any(isinstance(signed.message, Commitment) for signed in self.messages.values())


class Collected(Struct, frozen=True):
    """What one message has changed."""

    first: bool = False
    """It is the first message of its sender in the current exchange, or its first seal."""
    closed: tuple[Exchange, ...] = ()
    """The exchanges that have a message of every member now."""


class RoundCollector:
    """Collects verified messages exchange by exchange.

    A member answers an exchange only when it has all messages of the one before. So honest
    members send messages of the current exchange, or of the next one if this process has missed
    messages. Messages further ahead count only if every member has sent one: then this process
    has missed the exchanges in between, and it continues from there.
    """

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self.names = tuple(m.name for m in agreement.members)
        #: The number of the current exchange.
        self._current = KEYS if agreement.masked else 0
        #: Exchanges from the current one on that have messages.
        self._open: dict[int, Exchange] = {}
        #: The latest exchange of which each member has sent a message.
        self._reached: dict[str, int] = {}
        #: Each member's newest seal of the rounds closed so far.
        self._seals: dict[str, Signed] = {}
        #: The seals of all members, if they agree.
        self.seals: tuple[Signed, ...] = ()
        #: Whether the commitments of all members were received, after the last round.
        self.committed = False
        #: Members that have confirmed that they have all seals.
        self.finished: set[str] = set()

    @property
    def closed(self) -> int:
        """How many rounds have a release of every member."""
        return max(0, self._current - self.committed)

    @property
    def over(self) -> bool:
        """Whether every member has confirmed that it has all seals."""
        return len(self.finished) == len(self.names)

    def missing(self) -> list[str]:
        """The members that have sent nothing since the last exchange was closed.

        A member with a message of a later exchange is not missing: this process may have missed
        the exchanges in between. So what one member signs never makes another one missing.
        """
        present = set(self.finished if self.seals else self._seals)
        present.update(*(exchange.messages for exchange in self._open.values()))
        return [name for name in self.names if name not in present]

    def in_roster_order(self, exchange: Exchange) -> tuple[Signed, ...]:
        """The messages of an exchange that is closed."""
        return tuple(exchange.messages[name] for name in self.names)

    def collect(self, signed: Signed, now: float) -> Collected:
        """Take in a verified message.

        Until its exchange closes, the newest message of a member counts: parties ignore what was
        signed long before its round. A closed exchange never changes.
        """
        message = signed.message
        if message.agreement != self._agreement.digest:
            return Collected()
        if isinstance(message, Seal):
            return self._collect_seal(message, signed)
        number = self._number(message)
        if number is None or number < self._current or self.committed:
            return Collected()
        exchange = self._open.setdefault(number, Exchange(number))
        current = number == self._current
        first = current and message.sender not in exchange.messages
        exchange.messages[message.sender] = signed
        self._reached[message.sender] = max(number, self._reached.get(message.sender, number))
        if current:
            exchange.arrivals.setdefault(message.sender, now)
        else:
            self._forget_oldest(message.sender)
        if number > self._current + 1:
            self._catch_up()
        return Collected(first, self._close(exchange))

    def _number(self, message: Message) -> int | None:
        """The exchange that a message belongs to, if any."""
        if isinstance(message, MaskKey):
            return KEYS
        if isinstance(message, Release) and message.round < self._agreement.rounds:
            return message.round
        complete = isinstance(message, Commitment) and bool(message.proof)
        return message.round if complete and message.round <= self._agreement.rounds else None

    def _forget_oldest(self, sender: str) -> None:
        """Limit what is stored of one member that is far ahead."""
        ahead = [
            number
            for number, exchange in self._open.items()
            if number > self._current + 1 and sender in exchange.messages
        ]
        if len(ahead) > MAX_AHEAD:
            oldest = min(ahead)
            del self._open[oldest].messages[sender]
            if not self._open[oldest].messages:
                del self._open[oldest]

    def _catch_up(self) -> None:
        """Continue from the exchange that every member has reached, if that is further ahead.

        What one member signs neither causes nor prevents this.
        """
        reached = min(self._reached.get(name, KEYS) for name in self.names)
        if reached > self._current + 1:
            self._current = reached
            self._open = {n: e for n, e in self._open.items() if n >= reached}
            self._forget_seals()

    def _close(self, exchange: Exchange) -> tuple[Exchange, ...]:
        """Close an exchange that has all messages, and then the next one if it has them too.

        Messages further ahead are forgotten then. Parties ignored them, so they are no releases.
        """
        if not self._has_all(exchange):
            return ()
        closed = []
        while (current := self._open.get(self._current)) and self._has_all(current):
            closed.append(current)
            self._current += 1
            self.committed = current.committed
            self._open = {n: e for n, e in self._open.items() if n == self._current}
        if closed:
            self._forget_seals()
        return tuple(closed)

    def _forget_seals(self) -> None:
        """Forget seals of fewer rounds than are closed: they are no seals of this session."""
        reached = max(0, self._current)
        self._seals = {n: s for n, s in self._seals.items() if s.message.round >= reached}

    def _has_all(self, exchange: Exchange) -> bool:
        """Whether every member has sent a message, and all of one kind."""
        kinds = {type(signed.message) for signed in exchange.messages.values()}
        return len(exchange.messages) == len(self.names) and len(kinds) == 1

    def _collect_seal(self, seal: Seal, signed: Signed) -> Collected:
        if seal.has_all_seals:
            self.finished.add(seal.sender)
            return Collected()
        current = max(0, self._current)
        if self.seals or seal.round not in (current, current + 1):
            return Collected()
        first = seal.sender not in self._seals
        self._seals[seal.sender] = signed
        if len(self._seals) < len(self.names):
            return Collected(first)
        endings = {(s.message.round, s.message.chain_hash) for s in self._seals.values()}
        if endings != {(current, seal.chain_hash)}:
            return Collected(first)
        exchange = Exchange(SEALS, self._seals)
        self.seals = self.in_roster_order(exchange)
        return Collected(first, (exchange,))
