"""The exchanges of a session: their numbers, and the messages of the newest three.

An exchange is one message of every member: a mask key, the release of a round, or a commitment
after the last one. The session counts exchanges; only `Exchanges` translates between their
numbers and the rounds on the wire. Never here: a decision about what a message proves.
"""

from protocol.agreement.model import Agreement
from protocol.rounds import RoundEngine, RoundState, commitments_in, mask_keys, numbers
from protocol.wire.messages import Commitment, Halt, Hello, MaskKey, Message, Signed


class Exchanges:
    """Numbers the exchanges 0, 1, 2 and so on. Where there are mask keys, they are exchange 0.

    Commitments follow the last round, and count as one more round in messages. So the number of
    an exchange is also how many exchanges are closed before it.
    """

    def __init__(self, agreement: Agreement, opening_hash: bytes) -> None:
        #: The number of the exchange of round 0.
        self._first_round = int(agreement.masked)
        #: The chain hash before the mask keys; empty where there are none.
        self._opening_hash = opening_hash if agreement.masked else b""
        #: How many exchanges a session has at most.
        self.most = agreement.rounds + self._first_round + agreement.commits
        #: The highest round in any message.
        self.highest_round = agreement.rounds + agreement.commits

    def number(self, message: Message) -> int:
        """The exchange to which a message belongs, or the one its sender has reached."""
        before_round_0 = isinstance(message, MaskKey) or (
            isinstance(message, Hello | Halt)
            and message.round == 0
            and message.chain_hash == self._opening_hash
        )
        return self._first_round + (-1 if before_round_0 else message.round)


def next_state(engine: RoundEngine, state: RoundState, messages: tuple[Signed, ...]) -> RoundState:
    """The state after an exchange, from the messages of all members in roster order."""
    if state.unpaired:
        return engine.pair(state, mask_keys(messages))
    if state.uncommitted:
        return engine.commit(state, commitments_in(messages))
    return engine.advance(state, numbers(messages))


class RoundBuffer:
    """The messages of the last, the current and the next exchange, at most one of each member.

    An honest peer is at most one exchange ahead: it cannot close one without our own message.
    """

    def __init__(self, agreement: Agreement, me: str, opening_hash: bytes) -> None:
        self._agreement = agreement
        self._me = me
        #: Translates between exchanges and the rounds on the wire.
        self.numbering = Exchanges(agreement, opening_hash)
        #: The number of the current exchange, which is how many are closed.
        self.exchange = 0
        #: The chain hash under the current exchange.
        self.chain_hash = opening_hash
        #: The exchange that was closed last, in roster order; empty before the first is closed.
        self.last: tuple[Signed, ...] = ()
        #: The current exchange by sender, our own message included.
        self.current: dict[str, Signed] = {}
        #: Messages of peers that are one exchange ahead, by sender.
        self._next: dict[str, Signed] = {}
        #: The bytes of all messages held here, to recognise copies without decoding them.
        self._bytes: set[bytes] = set()
        #: Commitments of the current exchange whose proof does not hold, by sender.
        self._refused: dict[str, Signed] = {}

    def ahead(self, message: Message) -> int:
        """How many exchanges a message is ahead of the current one; below 0, behind."""
        return self.numbering.number(message) - self.exchange

    def diverges(self, message: Message) -> bool:
        """Whether a peer has another chain hash under the current exchange than this party."""
        return (
            message.chain_hash != self.chain_hash
            and self.ahead(message) == 0
            and message.sender != self._me
            and message.agreement == self._agreement.digest
        )

    def claim(self, hello: Hello) -> int:
        """How many of our messages the sender of a Hello says it knows; a seal may count too."""
        return self.numbering.number(hello) + hello.beyond(self._agreement.place(self._me))

    def expects(self, message: Message) -> bool:
        """Whether a message is the first of its sender in the current or the next exchange.

        Commitments need their proof, and count once even if they were refused.
        """
        box = {0: self.current, 1: self._next}.get(self.ahead(message))
        if box is None or (isinstance(message, Commitment) and not message.proof):
            return False
        refused = box is self.current and message.sender in self._refused
        return message.sender not in box and not refused

    def add(self, signed: Signed) -> None:
        """Keep a message that the buffer `expects`."""
        box = self._next if self.ahead(signed.message) else self.current
        box[signed.message.sender] = signed
        self._bytes.add(signed.data)

    def holds(self, data: bytes) -> bool:
        """Whether these bytes are a message that is held here."""
        return data in self._bytes

    def complete(self) -> tuple[Signed, ...]:
        """The current exchange in roster order, once every member's message is here; else ()."""
        if len(self.current) < len(self._agreement.members):
            return ()
        return tuple(self.current[member.name] for member in self._agreement.members)

    def close(self, messages: tuple[Signed, ...], chain_hash: bytes) -> None:
        """Make the next exchange the current one, on top of this chain hash."""
        self.exchange += 1
        self.chain_hash = chain_hash
        self.last = messages
        self.current, self._next = self._next, {}
        self._refused = {}
        self._bytes = {held.data for held in (*messages, *self.current.values())}

    def refuse(self, senders: tuple[str, ...]) -> None:
        """Set aside the commitments of these members, to compare later ones with them."""
        self._refused |= {sender: self.current.pop(sender) for sender in senders}

    def remove_other_kinds(self, kind: type[Message]) -> None:
        """Take out the messages that came early and are of another kind than their exchange."""
        self.current = {n: s for n, s in self.current.items() if isinstance(s.message, kind)}

    def remove_diverging(self) -> list[Signed]:
        """Take out the messages that came early and do not build on the chain hash reached."""
        diverging = [s for s in self.current.values() if self.diverges(s.message)]
        for signed in diverging:
            del self.current[signed.message.sender]
        return diverging

    def of_sender(self, name: str) -> tuple[Signed, ...]:
        """The messages of one member, oldest first."""
        row = self._agreement.place(name)
        boxes = (self._refused, self.current, self._next)
        return (*self.last[row : row + 1], *(box[name] for box in boxes if name in box))

    def known_ahead(self) -> bytes:
        """How many messages of each peer are held beyond the closed exchanges, in roster order."""
        return bytes(
            0 if m.name == self._me else 2 if m.name in self._next else int(m.name in self.current)
            for m in self._agreement.members
        )

    def of_peers(self) -> list[Signed]:
        """All messages that came from peers."""
        held = (*self.last, *self.current.values(), *self._next.values())
        return [signed for signed in held if signed.message.sender != self._me]
