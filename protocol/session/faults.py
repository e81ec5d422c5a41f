"""What proves that a member broke the rules: messages that this member signed, nothing else.

A Halt is an envelope. Its claim counts for nothing; its evidence is examined here. Nothing in
this file may rely on the word of any member except the accused.
"""

from contextlib import suppress

from protocol.agreement.model import Agreement
from protocol.errors import BadMessage
from protocol.session.exchange import Exchanges, RoundBuffer
from protocol.session.sealing import Sealing
from protocol.wire.codec import Reader, as_evidence, max_message_bytes
from protocol.wire.messages import Contribution, Halt, Hello, Reason, Signed

ENVELOPE_BYTES = 200
"""A Halt without its evidence is shorter."""

_MARK_BYTES = 5  # before each message in the evidence


def clash(one: Signed, other: Signed, numbering: Exchanges) -> bool:
    """Whether one member has signed two messages that no honest party signs both.

    Those are two different releases, mask keys or commitments of one exchange, or any two
    messages of one exchange with different chain hashes. Hellos never clash: they bind no member.
    """
    a, b = one.message, other.message
    if a.sender != b.sender or Hello in (type(a), type(b)):
        return False
    if numbering.number(a) != numbering.number(b):
        return False
    contributions = isinstance(a, Contribution) and isinstance(b, Contribution)
    return a.chain_hash != b.chain_hash or (contributions and a != b)


def fits(evidence: tuple[Signed, ...], max_bytes: int) -> bool:
    """Whether one Halt can carry all of this. Evidence that does not fit convinces no peer."""
    return sum(len(as_evidence(s)) + _MARK_BYTES for s in evidence) + ENVELOPE_BYTES <= max_bytes


class EvidenceIndex:
    """The messages of one Halt by sender and exchange, so that two that clash are found fast.

    Messages that do not clash share their chain hash and release. So one of each kind is enough to
    compare the next message with. Of several messages of one kind the shortest is kept: a message
    that does not fit into a Halt with it fits with none.
    """

    def __init__(self, numbering: Exchanges, max_bytes: int) -> None:
        self._numbering = numbering
        self._max_bytes = max_bytes
        #: By sender and exchange, then by kind and chain hash: the shortest message.
        self._held: dict[tuple[str, int], dict[tuple[bool, bytes], Signed]] = {}

    def add(self, one: Signed) -> Signed | None:
        """An earlier message that clashes with this one, if one Halt can carry both.

        Guarantee: returns one whenever any earlier message clashes and fits.
        """
        message = one.message
        if isinstance(message, Hello):
            return None
        held = self._held.setdefault((message.sender, self._numbering.number(message)), {})
        for other in held.values():
            if clash(other, one, self._numbering) and fits((other, one), self._max_bytes):
                return other
        kind = isinstance(message, Contribution), message.chain_hash
        if kind not in held or len(one.data) < len(held[kind].data):
            held[kind] = one
        return None


class FaultDetector:
    """Looks for equivocation and for diverging chain hashes in what this party holds."""

    def __init__(
        self,
        agreement: Agreement,
        buffer: RoundBuffer,
        sealing: Sealing,
        proof: tuple[Signed, ...] = (),
    ) -> None:
        #: Decodes and verifies evidence.
        self._reader = Reader(agreement)
        #: No message is longer.
        self._max_bytes = max_message_bytes(agreement)
        #: What this party holds, to compare new messages with.
        self._buffer = buffer
        self._sealing = sealing
        #: The messages that prove the fault that ended the session; empty until then.
        self.proof = proof
        #: The peers with another chain hash in the current exchange, each with what shows it.
        self.diverged: dict[str, Signed] = {}
        #: What this party shows of itself while a peer has diverged, at every resend.
        self.own_evidence: tuple[Signed, ...] | None = None
        #: The peers whose accusations without proof the operator was warned of.
        self._warned: set[str] = set()

    def contradiction(self, signed: Signed) -> Signed | None:
        """A message of the same sender that clashes with this one, among those held here."""
        sender = signed.message.sender
        held = (
            *self._buffer.of_sender(sender),
            self._sealing.seals.get(sender),
            self.diverged.get(sender),
        )
        numbering = self._buffer.numbering
        for one in held:
            if one is None or not clash(one, signed, numbering):
                continue
            if fits((one, signed), self._max_bytes):
                return one
        return None

    def open(self, signed: Signed, halt: Halt) -> tuple[Signed, ...]:
        """A Halt, then the part of its evidence that can be decoded. The rest accuses no member."""
        messages = [signed]
        for data in halt.evidence:
            with suppress(BadMessage):
                messages.append(self._reader.unpack(data))
        return tuple(messages)

    def proof_in(self, messages: tuple[Signed, ...]) -> tuple[Signed, ...]:
        """What proves a fault: two messages that clash, or one Halt after other prices; else ().

        The messages are those of one Halt. They may clash with each other or with held ones.
        """
        index = EvidenceIndex(self._buffer.numbering, self._max_bytes)
        for one in messages:
            other = self.contradiction(one) or index.add(one)
            if other is not None:
                return other, one
        return next(((one,) for one in messages if self._has_other_prices(one)), ())

    def _has_other_prices(self, signed: Signed) -> bool:
        """Whether a Halt shows our last exchange, but its sender has another chain hash."""
        message, last = signed.message, self._buffer.last
        if not isinstance(message, Halt) or not self._buffer.diverges(message) or not last:
            return False
        if len(message.evidence) < len(last) or not fits((signed,), self._max_bytes):
            return False
        shown = {s.message for s in self.open(signed, message)}
        return {s.message for s in last} <= shown

    def diverge(self, cause: Signed) -> tuple[Signed, ...] | None:
        """Note a peer whose chain hash differs. Returns the evidence to publish for it, if any.

        The evidence is our last exchange and the message that differs. A peer that received
        other messages than we did finds the proof in it. One publication for each peer is enough,
        and a second one where a Hello, which is no commitment, is followed by a real message.
        """
        before = self.diverged.get(cause.message.sender)
        if before is not None and not isinstance(before.message, Hello):
            return None
        self.diverged[cause.message.sender] = cause
        if before is not None and isinstance(cause.message, Hello):
            return None
        differing = () if isinstance(cause.message, Halt) else (cause,)
        self.own_evidence = (*self._buffer.last, *differing)
        return self.own_evidence

    def converge(self, sender: str) -> None:
        """A peer that had diverged has our chain hash now."""
        if self.diverged.pop(sender, None) and not self.diverged:
            self.own_evidence = None

    def forget(self) -> None:
        """An exchange is closed: what diverged before it is settled."""
        self.diverged.clear()
        self.own_evidence = None

    def dismiss(self, halt: Halt, messages: tuple[Signed, ...]) -> str | None:
        """A Halt proves nothing. Note which peers it shows to have diverged.

        Returns a warning for the first accusation of each sender.
        """
        for one in messages:
            if self._buffer.diverges(one.message):
                self.diverged.setdefault(one.message.sender, one)
        if halt.reason is not Reason.EQUIVOCATION or halt.sender in self._warned:
            return None
        self._warned.add(halt.sender)
        return f"{halt.sender!r} sent an accusation without valid evidence; ignored"
