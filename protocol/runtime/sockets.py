"""Options and limits of every socket of a session, and which keys may connect.

The callers open the sockets. CURVE without `Roster` would let in every key.
"""

from collections.abc import Callable

from protocol.agreement.address import address as check_address
from protocol.agreement.model import Agreement
from protocol.errors import BadAgreement, BadCommand
from protocol.wire.codec import max_message_bytes

QUEUE = 4_000
"""Messages that may wait at one socket. ZeroMQ drops others, which are sent again later."""

QUEUE_BYTES = 8 << 20
"""The limit for their total size, if messages are long."""

FEWEST = 64
"""Messages of any length that may wait at one socket."""

MAX_REPORTED_KEYS = 100
"""Unknown keys that are reported, once each. Others are refused silently."""

SUBSCRIPTION_BYTES = 1 << 16
"""What a publisher accepts from one connection, handshake included. An honest subscriber sends
one byte, and libzmq stores about forty for each byte."""

HANDSHAKE_BYTES = 1_000
"""The longest part of a handshake."""

DEAD_AFTER_SECONDS = 6
"""A peer that is silent for this long on the TCP level has gone."""


def socket_options(agreement: Agreement) -> dict[str, int]:
    """Return the ZeroMQ options of every socket, by pyzmq's names.

    TCP finds out whether a peer has gone. ZeroMQ's own heartbeats would close a connection whose
    messages wait to be read. `immediate` drops the queue of a closed connection: reading from a
    queue without a connection aborts libzmq (its issue 3937).
    """
    return {
        "linger": 0,
        # libzmq compares the encrypted length: a full batch of the longest size must pass.
        "maxmsgsize": wire_bytes(max_message_bytes(agreement)),
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
    """Return the options of publishers, which receive only subscriptions."""
    return socket_options(agreement) | {"maxmsgsize": HANDSHAKE_BYTES, "rcvhwm": FEWEST}


def _queue(agreement: Agreement) -> int:
    return max(FEWEST, min(QUEUE, QUEUE_BYTES // max_message_bytes(agreement)))


def backlog_bytes(agreement: Agreement) -> int:
    """Return twice the size of a full queue. Honest peers never have as much unread."""
    return 2 * _queue(agreement) * wire_bytes(max_message_bytes(agreement))


def wire_bytes(length: int) -> int:
    """Return the bytes of a message of one frame on a CURVE connection."""
    sealed = length + 33
    return sealed + (2 if sealed < 256 else 9)


def cannot_listen(address: str, reason: str) -> BadCommand:
    """Return the error for an address that cannot be listened at."""
    return BadCommand(
        f"cannot listen at {address}: {reason}. Stop the process that listens there (perhaps "
        "another run of this command), or choose another address with --listen"
    )


class Roster:
    """Tells pyzmq's authenticator which transport keys may connect: only the members'.

    `also` is one more key: the listener's own, for a health check. `refused` reports other keys.
    """

    def __init__(
        self, agreement: Agreement, refused: Callable[[str], None], *, also: str = ""
    ) -> None:
        keys = (also, *(m.transport_key for m in agreement.members))
        self._allowed = {key.encode() for key in keys if key}
        self._refused = refused
        self._reported: set[bytes] = set()

    def callback(self, domain: str, key: bytes) -> bool:  # noqa: ARG002 - pyzmq's interface
        """Return whether this key may connect. Called for every handshake."""
        if key in self._allowed:
            return True
        if key not in self._reported and len(self._reported) < MAX_REPORTED_KEYS:
            self._reported.add(key)
            self._refused(f"refused a connection with the unknown key {key.decode()}")
        return False


def require_network(agreement: Agreement) -> None:
    """Raise `BadAgreement` for an agreement without the keys and the address of a session."""
    if not agreement.transport.coordinator or not agreement.transport.coordinator_key:
        raise BadAgreement(
            "transport.coordinator and transport.coordinator_key are missing: a session needs the "
            "coordinator's address and key; add both to the agreement"
        )
    check_address(
        agreement.transport.coordinator, 1 if agreement.transport.topology == "relay" else 0
    )
    for member in agreement.members:
        if not member.signing_key or not member.transport_key:
            raise BadAgreement(
                f"member {member.name!r} has no keys; add the keys from its member file"
            )
