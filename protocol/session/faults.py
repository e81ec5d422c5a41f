"""What proves that a member broke the rules: signed messages of its own, and nothing else.

A Halt is an envelope. What it claims counts for nothing, what it shows is looked at here.
Nothing in this file may rest on the word of anybody but the one who is accused.
"""

from protocol.errors import BadMessage
from protocol.wire.codec import Reader
from protocol.wire.messages import Halt, Hello, MaskKey, Message, Release, Signed

ENVELOPE_BYTES = 200
"""A Halt without its evidence is shorter."""

_MARK_BYTES = 5  # before each message that is shown


def place(message: Message, keyless: bytes) -> int:
    """The round in which a message stands; −1 for the exchange of mask keys before the first.

    `keyless` is the head below the mask keys, empty where there are none. A Hello or a Halt on
    it stands before the first round, as a mask key does.
    """
    before = isinstance(message, MaskKey)
    if isinstance(message, Hello | Halt):
        before = message.round == 0 and message.chain_hash == keyless
    return -1 if before else message.round


def clash(one: Signed, other: Signed, keyless: bytes) -> bool:
    """Whether one member has signed two things that no honest party signs both.

    Two releases of one round, or two mask keys, that differ in anything, or any two messages
    that stand on different heads in one round. Hellos aside: they are no promise.
    """
    a, b = one.message, other.message
    if a.sender != b.sender or Hello in (type(a), type(b)):
        return False
    if place(a, keyless) != place(b, keyless):
        return False
    said = isinstance(a, Release | MaskKey) and type(a) is type(b)
    return a.chain_hash != b.chain_hash or (said and a != b)


def opened(reader: Reader, halt: Halt) -> tuple[Signed, ...]:
    """What a Halt shows, as far as it can be read: the rest accuses nobody."""
    shown = []
    for data in halt.evidence:
        try:
            shown.append(reader.unpack(data))
        except BadMessage:
            continue
    return tuple(shown)


def fits(evidence: tuple[Signed, ...], longest: int) -> bool:
    """Whether one Halt can show all of this. What cannot be shown on proves nothing to others."""
    return sum(len(s.data) + _MARK_BYTES for s in evidence) + ENVELOPE_BYTES <= longest


class Shown:
    """The messages of one Halt, by sender and place, so that two that clash are found at once.

    Messages that clash with none of those held stand on the same head and hold the same release.
    So one of each is enough to compare the next one with, however many there are. Of messages
    that differ in length the shortest is held: what does not fit beside it fits beside none.
    """

    def __init__(self, keyless: bytes, longest: int) -> None:
        self._keyless = keyless
        self._longest = longest
        self._held: dict[tuple[str, int], dict[tuple[bool, bytes], Signed]] = {}

    def add(self, one: Signed) -> Signed | None:
        """One that was added before and clashes with this one, if a Halt can show the two.

        Guarantee: there is one whenever any of those added before clashes and fits.
        """
        message = one.message
        if isinstance(message, Hello):
            return None
        held = self._held.setdefault((message.sender, place(message, self._keyless)), {})
        for other in held.values():
            if clash(other, one, self._keyless) and fits((other, one), self._longest):
                return other
        kind = isinstance(message, Release | MaskKey), message.chain_hash
        if kind not in held or len(one.data) < len(held[kind].data):
            held[kind] = one
        return None
