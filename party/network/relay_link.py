"""A link moves bytes between parties."""

import zmq

from party.keys import Identity
from party.network.inbox import Heard
from party.network.link import Link, _port
from protocol.agreement.address import address
from protocol.agreement.model import Agreement
from protocol.runtime.backlog_guard import BacklogLimit
from protocol.runtime.sockets import (
    SUBSCRIPTION_BYTES,
)


class RelayLink(Link):
    """Connects outwards only, to the coordinator: suits companies behind firewalls."""

    def __init__(self, agreement: Agreement, identity: Identity) -> None:
        super().__init__(agreement, identity)
        transport = agreement.transport
        self._out = self._socket(zmq.PUB, transport.coordinator_key)
        self._in = self._socket(zmq.SUB, transport.coordinator_key)
        self._in.subscribe(b"")
        for offset, socket in enumerate((self._out, self._in)):
            watch = self._watch(socket, "the coordinator")
            watch.connect(address(transport.coordinator, offset))
        self._poller.register(self._in, zmq.POLLIN)
        self._port = _port(address(transport.coordinator))
        self._meter.start()

    def _line(self, own_port: int, peer_port: int) -> BacklogLimit | None:  # noqa: ARG002
        return self._incoming if peer_port == self._port + 1 else BacklogLimit(SUBSCRIPTION_BYTES)

    def publish(self, data: bytes) -> None:
        self._out.send(data)

    def receive(self, seconds: float) -> list[Heard]:
        ready = self._ready(seconds)
        return [Heard("", data) for data in self._drained(self._in)] if ready else []
