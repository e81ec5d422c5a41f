"""What every socket of a session must be like, as data: limits, timings, who is let in.

Pure: the nodes make the sockets. CURVE without `Roster` would let in anybody with any key.
"""

from collections.abc import Callable

from protocol.agreement.address import address
from protocol.agreement.model import Agreement
from protocol.errors import BadAgreement, BadCommand
from protocol.wire.codec import max_message_bytes

QUEUE = 4_000
"""Messages that may wait at one socket. What is dropped beyond is sent again later."""

QUEUE_BYTES = 8 << 20
"""What they may take together, where messages are long."""

FEWEST = 64
"""So many messages may wait however long they are."""

STRANGERS_TOLD = 100
"""Strangers that are named, once each. Whoever comes later is refused without a word."""

SUBSCRIPTION_BYTES = 1 << 16
"""What a publisher takes from one connection, handshake included: an honest subscriber sends one
byte, and libzmq keeps some forty for each that it is sent."""

HANDSHAKE_BYTES = 1_000
"""No part of a handshake is longer."""

DEAD_AFTER_SECONDS = 6


def socket_options(agreement: Agreement) -> dict[str, int]:
    """The ZeroMQ options of every socket, by pyzmq's names.

    Whether a peer is there is asked of TCP. ZeroMQ's own heartbeats give up a connection whose
    messages wait to be read, and `immediate` takes the queue along with a connection that is
    given up: reading from one that outlived its connection aborts libzmq (its issue 3937).
    """
    return {
        "linger": 0,
        "maxmsgsize": max_message_bytes(agreement),
        "sndhwm": _queue(agreement),
        "rcvhwm": _queue(agreement),
        "immediate": 1,
        "reconnect_ivl": 50,
        "reconnect_ivl_max": 1_000,
        "tcp_keepalive": 1,
        "tcp_keepalive_idle": 1,
        "tcp_keepalive_intvl": 1,
        "tcp_keepalive_cnt": DEAD_AFTER_SECONDS - 1,
        "tcp_maxrt": 1_000 * DEAD_AFTER_SECONDS,
        "connect_timeout": 5_000,
        "handshake_ivl": 10_000,
    }


def publisher_options(agreement: Agreement) -> dict[str, int]:
    """Those of a socket to which nobody has to say more than that it listens."""
    return socket_options(agreement) | {"maxmsgsize": HANDSHAKE_BYTES, "rcvhwm": FEWEST}


def _queue(agreement: Agreement) -> int:
    return max(FEWEST, min(QUEUE, QUEUE_BYTES // max_message_bytes(agreement)))


def backlog_bytes(agreement: Agreement) -> int:
    """More than the queue of a socket holds when it is full: nobody honest sends so much unread."""
    return 2 * _queue(agreement) * wire_bytes(max_message_bytes(agreement))


def wire_bytes(length: int) -> int:
    """What a message of one part takes on a CURVE connection."""
    sealed = length + 33
    return sealed + (2 if sealed < 256 else 9)


def cannot_listen(place: str, why: str) -> BadCommand:
    """What to tell where the system does not let this process listen."""
    return BadCommand(
        f"cannot listen at {place}: {why}. End what listens there, this very command perhaps, "
        "or name another place with --listen"
    )


class Roster:
    """Decides for pyzmq's authenticator whose transport key is let in: the members' only.

    `also` is the key of the one who listens, where it may want to hear itself.
    """

    def __init__(
        self, agreement: Agreement, refused: Callable[[str], None], *, also: str = ""
    ) -> None:
        keys = (also, *(m.transport_key for m in agreement.members))
        self._allowed = {key.encode() for key in keys if key}
        self._refused = refused
        self._told: set[bytes] = set()

    def callback(self, domain: str, key: bytes) -> bool:  # noqa: ARG002 - pyzmq's interface
        """Asked for every handshake."""
        if key in self._allowed:
            return True
        if key not in self._told and len(self._told) < STRANGERS_TOLD:
            self._told.add(key)
            self._refused(f"refused a stranger with the transport key {key.decode()}")
        return False


def require_network(agreement: Agreement) -> None:
    """Refuse an agreement that lacks what a session over the network needs."""
    if not agreement.transport.coordinator or not agreement.transport.coordinator_key:
        raise BadAgreement(
            "transport.coordinator and transport.coordinator_key are missing: a session over "
            "the network needs to know where the coordinator is and its key"
        )
    address(agreement.transport.coordinator, 1 if agreement.transport.topology == "relay" else 0)
    for member in agreement.members:
        if not member.signing_key or not member.transport_key:
            raise BadAgreement(f"member {member.name!r} has no keys; add those that it has sent")
