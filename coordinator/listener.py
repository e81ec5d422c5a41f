"""Opens the coordinator's sockets: encrypted, for members only, with a limit on unread bytes.

The relay and the rendezvous share it. Never here: what a message means.
"""

from typing import Any

import zmq
from zmq.auth.thread import ThreadAuthenticator

from coordinator.connections import Connections
from coordinator.progress import Say
from protocol.agreement.address import listening, needs_ipv6
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand
from protocol.runtime import sockets
from protocol.runtime.backlog_guard import BacklogGuard, BacklogLimit


class Listener:
    """Sockets at the agreed port, or at `listen`, until the `with` block is left."""

    def __init__(
        self, agreement: Agreement, secret: bytes, *, listen: str | None, say: Say
    ) -> None:
        agreed = agreement.transport.coordinator
        everywhere = "[::]" if needs_ipv6(agreed) else "*"
        #: Where it listens.
        self.address = listening(listen or f"tcp://{everywhere}:{agreed.rpartition(':')[2]}")
        if self.address.endswith(":*"):
            raise BadCommand(
                f"--listen {self.address}: name a fixed port; members look for the coordinator "
                "at one port"
            )
        self._agreement = agreement
        self._secret = secret
        self._port = int(self.address.rpartition(":")[2])
        self._context: zmq.Context[Any] = zmq.Context()
        #: What all connections that bring messages may have unread together.
        self._unread = BacklogLimit(sockets.backlog_bytes(agreement))
        self._backlog = BacklogGuard(self._limit)
        self._authenticator = ThreadAuthenticator(self._context)
        self._authenticator.start()
        # Its own key too, for the health check.
        own = agreement.transport.coordinator_key
        self._authenticator.configure_curve_callback("*", sockets.Roster(agreement, say, also=own))
        #: Connections that bring messages, once there is a socket for them.
        self._connections: Connections | None = None
        self._owners = {m.transport_key: m.name for m in agreement.members}

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self._backlog.stop()
        if self._connections is not None:
            self._connections.close()
        self._authenticator.stop()
        self._context.destroy(linger=0)

    def start(self) -> None:
        """Begin to cut off connections that exceed their limit of unread bytes."""
        self._backlog.start()

    def socket(self, kind: int, offset: int = 0) -> zmq.Socket[bytes]:
        """Return a socket that listens `offset` ports above the base address.

        The connections of the one at the base address are followed: they bring the messages.
        """
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        options = sockets.publisher_options if kind == zmq.XPUB else sockets.socket_options
        for name, value in options(self._agreement).items():
            setattr(socket, name, value)
        if not offset:
            self._connections = Connections(socket)
        socket.curve_server = True
        socket.curve_secretkey = self._secret
        address = listening(self.address, offset)
        socket.ipv6 = needs_ipv6(address)
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            raise sockets.cannot_listen(address, zmq.strerror(error.errno or 0)) from None
        return socket

    def receive(self, source: zmq.Socket[bytes]) -> zmq.Frame:
        """Return the first frame of the next message and drop its other frames.

        Raises `zmq.Again` if there is none. `more` of the frame tells whether there were others.
        """
        frame = source.recv(zmq.NOBLOCK, copy=False)
        self._unread.taken += sockets.wire_bytes(len(frame.buffer))
        while source.getsockopt(zmq.RCVMORE):
            self._unread.taken += sockets.wire_bytes(len(source.recv()))
        return frame

    def owner(self, frame: zmq.Frame) -> str | None:
        """The member whose connection brought a frame; None for our own health check."""
        owner = self._owners.get(str(frame.get("User-Id")))
        if owner is not None and self._connections is not None:
            self._connections.brought(frame, owner)
        return owner

    def gone(self) -> list[str]:
        """The members whose last connection was closed since the last call."""
        return [] if self._connections is None else self._connections.gone()

    def register(self, poller: zmq.Poller, *others: zmq.Socket[bytes]) -> None:
        """Let a poller wake for these sockets, and for connections that open or close."""
        events = [] if self._connections is None else [self._connections.events]
        for socket in (*others, *events):
            poller.register(socket, zmq.POLLIN)

    def _limit(self, own_port: int, peer_port: int) -> BacklogLimit | None:  # noqa: ARG002
        """The limit of a connection between these ports."""
        return self._unread if own_port == self._port else BacklogLimit(sockets.SUBSCRIPTION_BYTES)
