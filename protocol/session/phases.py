"""The phases of a session and every transition between them, as one table.

Nothing here acts: `machine` takes the transitions, `scripts/phases` draws them.
"""

from enum import Enum, auto


class Phase(Enum):
    """What a party is doing."""

    __hash__ = object.__hash__  # each member is one object, and is looked up for every message

    #: It sends Hellos until every peer has answered this start of its process.
    HANDSHAKE = auto()
    #: Its gate computes the message of the current exchange.
    RESPONDING = auto()
    #: It has sent its message and waits for those of its peers.
    COLLECTING = auto()
    #: All exchanges are closed. It has sent its seal and waits for the seals of its peers.
    SEALING = auto()
    #: It has all seals, and stays for a while to help late peers.
    FINISHED = auto()
    #: A fault is proved. It stays for a while to show the evidence.
    HALTED = auto()


class Event(Enum):
    """What moves a party from one phase to the next."""

    #: Every peer has answered.
    EVERYONE_ANSWERED = auto()
    #: The gate has returned the own message.
    SUBMITTED = auto()
    #: The current exchange has a message of every member, and another exchange follows.
    ROUND_CLOSED = auto()
    #: The last exchange has a message of every member.
    LAST_ROUND_CLOSED = auto()
    #: The seals of all members are here.
    EVERYONE_SEALED = auto()
    #: Signed messages prove that a member broke the rules.
    FAULT = auto()


TRANSITIONS: dict[tuple[Phase, Event], Phase] = {
    (Phase.HANDSHAKE, Event.ROUND_CLOSED): Phase.HANDSHAKE,
    (Phase.HANDSHAKE, Event.EVERYONE_ANSWERED): Phase.RESPONDING,
    (Phase.HANDSHAKE, Event.LAST_ROUND_CLOSED): Phase.SEALING,
    (Phase.RESPONDING, Event.SUBMITTED): Phase.COLLECTING,
    (Phase.COLLECTING, Event.ROUND_CLOSED): Phase.RESPONDING,
    (Phase.COLLECTING, Event.LAST_ROUND_CLOSED): Phase.SEALING,
    (Phase.SEALING, Event.EVERYONE_SEALED): Phase.FINISHED,
    (Phase.HANDSHAKE, Event.FAULT): Phase.HALTED,
    (Phase.RESPONDING, Event.FAULT): Phase.HALTED,
    (Phase.COLLECTING, Event.FAULT): Phase.HALTED,
    (Phase.SEALING, Event.FAULT): Phase.HALTED,
}
"""The whole machine. A transition that is not in this table cannot happen.

So a finished session stays finished, and only a proved fault halts one. Messages, effects and
their order are decided in `machine`.
"""
