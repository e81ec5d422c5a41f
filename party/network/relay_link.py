"""The link of a session with a relay: all messages go through the coordinator.

It only connects outwards, which suits companies behind firewalls.
"""

import time

import zmq

from party.keys import Identity
from party.network.inbox import Incoming
from party.network.link import Link, port_of
from protocol.agreement.address import address
from protocol.agreement.model import Agreement
from protocol.runtime.backlog_guard import BacklogLimit
from protocol.runtime.presence import MARK, Away, merged, unpacked
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
        self._names = tuple(m.name for m in agreement.members)
        #: Who is not here, as the coordinator said last; None before it has said anything.
        self._away: Away | None = None
        self._port = port_of(address(transport.coordinator))
        self._guard.start()

    def receive(self, seconds: float) -> list[Incoming]:
        until = time.monotonic() + seconds
        while True:
            ready = self._poll(until - time.monotonic())
            messages = self._drain(self._in) if ready else []
            told = [data for data in messages if data[:1] == MARK]
            if told:
                self._away = merged(self._away, unpacked(self._names, told[-1]))
                messages = [data for data in messages if data[:1] != MARK]
            if messages or not told or time.monotonic() >= until:  # who is away is no message
                return [Incoming("", data) for data in messages]

    def away(self) -> Away:
        """As the coordinator said last; it is not trusted with more."""
        return {n: at for n, at in (self._away or {}).items() if n != self._identity.name}

    def _backlog_limit(self, own_port: int, peer_port: int) -> BacklogLimit | None:  # noqa: ARG002
        return self._backlog if peer_port == self._port + 1 else BacklogLimit(SUBSCRIPTION_BYTES)
