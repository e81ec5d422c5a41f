"""A link moves bytes between parties."""

import math
import os
from typing import Any

import zmq

from party.keys import Identity
from party.network.connection_monitor import Watch
from party.network.inbox import Heard
from party.network.name_lookup import Names
from protocol.agreement.model import Agreement
from protocol.runtime.backlog_guard import BacklogGuard, BacklogLimit
from protocol.runtime.file_limits import party_files, require_files
from protocol.runtime.sockets import (
    backlog_bytes,
    publisher_options,
    require_network,
    socket_options,
    wire_bytes,
)
from protocol.wire.framing import Batches

_FLUSH_MILLISECONDS = 500  # at the end, for the last seal to leave


_TAKEN = 1_000  # messages read from a socket before anything else is looked at


def _port(place: str) -> int:
    return int(place.rpartition(":")[2])


def _milliseconds(seconds: float) -> int:
    """For a poll that must not end before its time, nor wait for ever."""
    return min(60_000, math.ceil(max(0.0, seconds) * 1000.0))


class Link:
    """A publisher, a subscriber, and what has gone wrong with them."""

    def __init__(self, agreement: Agreement, identity: Identity) -> None:
        require_network(agreement)
        require_files(party_files(agreement), f"party {identity.name!r}")
        self._agreement = agreement
        self._identity = identity
        self._context: zmq.Context[Any] = zmq.Context()
        self._poller = zmq.Poller()
        self._names = Names()
        self._poller.register(self._names.fileno(), zmq.POLLIN)
        self._watches: list[Watch] = []
        self._incoming = BacklogLimit(backlog_bytes(agreement))
        self._batches = Batches(agreement)
        self._meter = BacklogGuard(self._line)

    def _line(self, own_port: int, peer_port: int) -> BacklogLimit | None:
        """What a connection between these ports may bring in: asked by the meter."""
        raise NotImplementedError

    def _socket(self, kind: int, server_key: str = "") -> zmq.Socket[bytes]:
        """A CURVE socket: a client of `server_key`, or a server where none is given."""
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        options = publisher_options if kind == zmq.PUB else socket_options
        for name, value in options(self._agreement).items():
            setattr(socket, name, value)
        socket.curve_secretkey = self._identity.transport_secret
        socket.curve_publickey = self._identity.transport_key
        if server_key:
            socket.curve_serverkey = server_key.encode()
        else:
            socket.curve_server = True
        return socket

    def _watch(self, socket: zmq.Socket[bytes], who: str) -> Watch:
        watch = Watch(socket, who, self._names)
        self._watches.append(watch)
        return watch

    def publish(self, data: bytes) -> None:
        raise NotImplementedError

    def receive(self, seconds: float) -> list[Heard]:
        """What has come in, after waiting at most `seconds` for something to come."""
        raise NotImplementedError

    def _ready(self, seconds: float) -> list[zmq.Socket[bytes]]:
        """The sockets at which something waits, after at most `seconds`.

        On a crowded machine others run first, and what they say meanwhile is read in one go;
        where nobody wants to run this takes no time.
        """
        ready = [socket for socket, _ in self._poller.poll(_milliseconds(seconds))]
        if self._names.fileno() in ready:
            ready.remove(self._names.fileno())
            for found in self._names.found():
                for watch in self._watches:
                    watch.found(found)
        if ready:
            os.sched_yield()
        return ready

    def _drained(self, socket: zmq.Socket[bytes]) -> list[bytes]:
        """The messages that wait at a socket now, or the most of them that are taken at once.

        No message has parts. What has some, or is a damaged batch, counts as one empty message, so
        that its sender is charged for it.
        """
        drained: list[bytes] = []
        taken = 0
        try:
            for _ in range(_TAKEN):
                data = socket.recv(zmq.NOBLOCK)
                taken += wire_bytes(len(data))
                if not socket.getsockopt(zmq.RCVMORE):
                    drained += self._batches.messages(data) or [b""]
                    if len(drained) >= _TAKEN:
                        break
                    continue
                while socket.getsockopt(zmq.RCVMORE):
                    taken += wire_bytes(len(socket.recv(zmq.NOBLOCK)))
                drained.append(b"")
        except zmq.Again:
            pass
        self._incoming.taken += taken
        return drained

    def troubles(self) -> list[str]:
        """Sentences about peers that cannot be reached, each told once."""
        return [sentence for watch in self._watches for sentence in watch.news()]

    def report(self, data: bytes) -> None:
        """Show a seal to a coordinator that does not carry it."""

    def close(self) -> None:
        self._meter.stop()
        for watch in self._watches:
            watch.close()
        self._names.close()
        self._context.destroy(linger=_FLUSH_MILLISECONDS)
