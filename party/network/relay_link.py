"""The link of a session with a relay: all messages go through the coordinator.

It only connects outwards, which suits companies behind firewalls.
"""

import zmq

from party.keys import Identity
from party.network.inbox import Incoming
from party.network.link import Link, port_of
from protocol.agreement.address import address
from protocol.agreement.model import Agreement
from protocol.runtime.backlog_guard import BacklogLimit
from protocol.runtime.sockets import SUBSCRIPTION_BYTES


class RelayLink(Link):
    """Publishes to the coordinator and subscribes to it."""

    def __init__(self, agreement: Agreement, identity: Identity) -> None:
        super().__init__(agreement, identity)
        transport = agreement.transport
        self._receivers = 1
        self._in = self._open_socket(zmq.SUB, transport.coordinator_key)
        self._in.subscribe(b"")
        out = self._open_publisher(transport.coordinator_key)
        for offset, socket in ((1, self._in), (0, out)):  # able to receive before it is heard
            monitor = self._monitor(socket, "the coordinator")
            monitor.connect(address(transport.coordinator, offset))
        self._poller.register(self._in, zmq.POLLIN)
        self._port = port_of(address(transport.coordinator))
        self._guard.start()

    def receive(self, seconds: float) -> list[Incoming]:
        ready = self._poll(seconds)
        return [Incoming("", data) for data in self._drain(self._in)] if ready else []

    def _backlog_limit(self, own_port: int, peer_port: int) -> BacklogLimit | None:  # noqa: ARG002
        return self._backlog if peer_port == self._port + 1 else BacklogLimit(SUBSCRIPTION_BYTES)
