"""What every socket of a session must be like, as data: limits, timings, who is let in.

Pure: the nodes make the sockets. CURVE without `Roster` would let in anybody with any key.
"""

import re
from collections.abc import Callable

from protocol.agreement import Agreement
from protocol.errors import BadAgreement
from protocol.wire import longest

QUEUE = 4_000
"""Messages that may wait at one socket. What is dropped beyond is sent again later."""

STRANGERS_TOLD = 100
"""Strangers that are named, once each. Whoever comes later is refused without a word."""

HEARTBEAT_MILLISECONDS = 1_000
DEAD_AFTER_MILLISECONDS = 6_000


def socket_options(agreement: Agreement) -> dict[str, int]:
    """The ZeroMQ options of every socket, by pyzmq's names."""
    return {
        "linger": 0,
        "maxmsgsize": longest(agreement),
        "sndhwm": QUEUE,
        "rcvhwm": QUEUE,
        "reconnect_ivl": 50,
        "reconnect_ivl_max": 1_000,
        "heartbeat_ivl": HEARTBEAT_MILLISECONDS,
        "heartbeat_timeout": DEAD_AFTER_MILLISECONDS,
        "heartbeat_ttl": DEAD_AFTER_MILLISECONDS,
        "connect_timeout": 5_000,
        "handshake_ivl": 10_000,
    }


def address(base: str, offset: int = 0) -> str:
    """`tcp://host:port` with the port moved by `offset`."""
    found = re.fullmatch(r"(tcp://[^\s:/]+|tcp://\[[0-9a-fA-F:]+\]):(\d{1,5})", base)
    if not found:
        raise BadAgreement(f"{base!r} is not an address of the form tcp://host:port")
    if not 0 < int(found[2]) <= 65_535 - offset:
        raise BadAgreement(f"{base!r}: its port must be from 1 to {65_535 - offset}")
    return f"{found[1]}:{int(found[2]) + offset}"


class Roster:
    """Decides for pyzmq's authenticator whose transport key is let in: the members' only."""

    def __init__(self, agreement: Agreement, refused: Callable[[str], None]) -> None:
        self._allowed = {m.transport_key.encode() for m in agreement.members if m.transport_key}
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
    address(agreement.transport.coordinator, 1)
    for member in agreement.members:
        if not member.signing_key or not member.transport_key:
            raise BadAgreement(f"member {member.name!r} has no keys; add those that it has sent")
