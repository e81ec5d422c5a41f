"""What the relay link and the mesh link share: sockets, polling, warnings, a bound on backlog.

A link moves bytes and knows nothing of their meaning. It may lose them: the session sends them
again. It never blocks without a limit.
"""

import math
import os
from typing import Any

import zmq

from party.keys import Identity
from party.network.connection_monitor import ConnectionMonitor
from party.network.inbox import Incoming
from party.network.name_lookup import NameLookup
from protocol.agreement.model import Agreement
from protocol.runtime import sockets
from protocol.runtime.backlog_guard import BacklogGuard, BacklogLimit
from protocol.runtime.file_limits import party_files, require_files
from protocol.runtime.presence import Away
from protocol.wire.framing import Batches

_FLUSH_MILLISECONDS = 500  # at the end, for the last seal to leave
_MOST_AT_ONCE = 1_000  # messages read from a socket before anything else is looked at


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


class Link:
    """One party's connection to the others. A subclass opens and binds or connects `_out`."""

    #: Who receives what this party publishes: the relay, or the peers.
    _receivers: int

    def __init__(self, agreement: Agreement, identity: Identity) -> None:
        sockets.require_network(agreement)
        require_files(party_files(agreement), f"party {identity.name!r}")
        self._agreement = agreement
        self._identity = identity
        self._context: zmq.Context[Any] = zmq.Context()
        self._poller = zmq.Poller()
        self._lookup = NameLookup()
        self._poller.register(self._lookup.fileno(), zmq.POLLIN)
        self._monitors: list[ConnectionMonitor] = []
        #: Shared by all connections that bring messages of the session.
        self._backlog = BacklogLimit(sockets.backlog_bytes(agreement))
        self._batches = Batches(agreement)
        self._guard = BacklogGuard(self._backlog_limit)
        #: Subscriptions that have arrived at the publisher.
        self._subscribed = 0

    @property
    def complete(self) -> bool:
        """Whether this party reaches all others, and they reach it. Earlier messages are lost."""
        self._read_subscriptions()
        heard = self._subscribed >= self._receivers
        return heard and all(monitor.connected for monitor in self._monitors)

    def publish(self, data: bytes) -> None:
        """Send bytes to all others."""
        self._out.send(data)

    def receive(self, seconds: float) -> list[Incoming]:
        """Return what has arrived, after waiting at most `seconds` for the first message."""
        raise NotImplementedError

    def warnings(self) -> list[str]:
        """New sentences about peers that cannot be reached."""
        return [warning for monitor in self._monitors for warning in monitor.warnings()]

    @property
    def unreached(self) -> str:
        """What cannot be reached at present, and why; empty if all can be."""
        return next((m.trouble for m in self._monitors if m.trouble), "")

    def away(self) -> Away:
        """The other members that this link knows not to be here, for the operator."""
        return {}

    def report(self, data: bytes) -> None:
        """Show a seal to a coordinator that does not carry it."""

    def close(self) -> None:
        self._guard.stop()
        for monitor in self._monitors:
            monitor.close()
        self._lookup.close()
        self._context.destroy(linger=_FLUSH_MILLISECONDS)

    def _backlog_limit(self, own_port: int, peer_port: int) -> BacklogLimit | None:
        """How much a connection between these ports may bring in; asked by the guard."""
        raise NotImplementedError

    def _open_socket(self, kind: int, server_key: str = "") -> zmq.Socket[bytes]:
        """Open a CURVE socket: a client of `server_key`, or a server if none is given."""
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        options = sockets.publisher_options if kind == zmq.XPUB else sockets.socket_options
        for name, value in options(self._agreement).items():
            setattr(socket, name, value)
        socket.curve_secretkey = self._identity.transport_secret
        socket.curve_publickey = self._identity.transport_key
        if server_key:
            socket.curve_serverkey = server_key.encode()
        else:
            socket.curve_server = True
        return socket

    def _open_publisher(self, server_key: str = "") -> zmq.Socket[bytes]:
        """Open the socket for what this party publishes. It shows every subscription."""
        self._out = self._open_socket(zmq.XPUB, server_key)
        self._out.xpub_verbose = True
        return self._out

    def _monitor(self, socket: zmq.Socket[bytes], peer: str) -> ConnectionMonitor:
        monitor = ConnectionMonitor(socket, peer, self._lookup)
        self._monitors.append(monitor)
        return monitor

    def _poll(self, seconds: float) -> list[zmq.Socket[bytes]]:
        """Return the sockets that have messages, after at most `seconds`.

        On a crowded machine other processes run first, and their messages are then read together.
        If no process wants to run, that takes no time.
        """
        self._read_subscriptions()
        # Rounded up, so that a poll does not end early, and bounded.
        milliseconds = min(60_000, math.ceil(max(0.0, seconds) * 1000.0))
        ready = [socket for socket, _ in self._poller.poll(milliseconds)]
        if self._lookup.fileno() in ready:
            ready.remove(self._lookup.fileno())
            for result in self._lookup.results():
                for monitor in self._monitors:
                    monitor.resolved(result)
        if ready:
            os.sched_yield()
        return ready

    def _read_subscriptions(self) -> None:
        """Count the subscriptions at the publisher. All must be read, or they fill its queue."""
        try:
            for _ in range(_MOST_AT_ONCE):
                self._subscribed += self._out.recv(zmq.NOBLOCK) == b"\1"
        except zmq.Again:
            return

    def _drain(self, socket: zmq.Socket[bytes]) -> list[bytes]:
        """Return the messages that wait at a socket, up to a limit.

        No message of the protocol has several frames. One that does, and a damaged batch, count as
        one empty message, so that its sender is charged for it.
        """
        messages: list[bytes] = []
        taken = 0
        try:
            for _ in range(_MOST_AT_ONCE):
                data = socket.recv(zmq.NOBLOCK)
                taken += sockets.wire_bytes(len(data))
                if not socket.getsockopt(zmq.RCVMORE):
                    messages += self._batches.messages(data) or [b""]
                    if len(messages) >= _MOST_AT_ONCE:
                        break
                    continue
                while socket.getsockopt(zmq.RCVMORE):
                    taken += sockets.wire_bytes(len(socket.recv(zmq.NOBLOCK)))
                messages.append(b"")
        except zmq.Again:
            pass
        self._backlog.taken += taken
        return messages
