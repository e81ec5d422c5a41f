"""The coordinator: carries bytes between the members, or tells them where to find each other.

Nobody has to trust it. It cannot read more than the members make public, cannot alter what
they signed, and knows no private number. All it can do is be silent, and then the members
say so.
"""

from collections.abc import Callable
from typing import Any

import msgpack
import zmq
from zmq.auth.thread import ThreadAuthenticator

from protocol.agreement import Agreement
from protocol.errors import BadAgreement
from protocol.transport import QUEUE, Roster, address, require_network, socket_options

Say = Callable[[str], None]

_LOOK_UP_MILLISECONDS = 1_000  # for a signal that came just before the wait


class Coordinator:
    """Listens where the agreement says, or at `listen` where that is another name for it."""

    def __init__(
        self, agreement: Agreement, secret: bytes, *, listen: str | None, say: Say
    ) -> None:
        require_network(agreement)
        self._agreement = agreement
        self._secret = secret
        self._say = say
        self._context: zmq.Context[Any] = zmq.Context()
        port = agreement.transport.coordinator.rpartition(":")[2]
        self._base = listen or f"tcp://*:{port}"
        self._guard = ThreadAuthenticator(self._context)
        self._guard.start()
        self._guard.configure_curve_callback("*", Roster(agreement, say))

    def serve(self) -> None:
        """Serve until interrupted."""
        try:
            if self._agreement.transport.topology == "mesh":
                self._introduce()
            else:
                self._relay()
        finally:
            self._guard.stop()
            self._context.destroy(linger=0)

    def _listening(self, kind: int, offset: int) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        for name, value in socket_options(self._agreement).items():
            setattr(socket, name, value)
        socket.curve_server = True
        socket.curve_secretkey = self._secret
        place = address(self._base, offset)
        try:
            socket.bind(place)
        except zmq.ZMQError as error:
            raise BadAgreement(f"cannot listen at {place}: {error}") from None
        return socket

    def _relay(self) -> None:
        """Everything any member publishes reaches every member, unread."""
        incoming, outgoing = self._listening(zmq.XSUB, 0), self._listening(zmq.XPUB, 1)
        self._say(f"relaying {self._agreement.session!r} at {self._base} and the port above")
        poller = zmq.Poller()
        poller.register(incoming, zmq.POLLIN)
        poller.register(outgoing, zmq.POLLIN)
        while True:  # not zmq.proxy, which misses signals while it is busy
            ready = dict(poller.poll(_LOOK_UP_MILLISECONDS))
            if incoming in ready:
                _carry(incoming, outgoing)
            if outgoing in ready:
                _carry(outgoing, incoming)

    def _introduce(self) -> None:
        """Tell every member where the others listen."""
        desk = self._listening(zmq.ROUTER, 0)
        self._say(f"introducing the members of {self._agreement.session!r} at {self._base}")
        names = {m.transport_key: m.name for m in self._agreement.members}
        places: dict[str, str] = {}
        routes: dict[str, bytes] = {}
        while True:
            route, frame = desk.recv_multipart(copy=False)[:2]
            try:
                name = names[str(frame.get("User-Id"))]
                place = msgpack.unpackb(frame.bytes, max_array_len=0, max_map_len=0)
                place = address(place)
            except Exception:  # noqa: S112 - whatever a member says wrong concerns nobody else
                continue
            routes[name] = route.bytes
            news = places.get(name) != place
            places[name] = place
            if news:
                self._say(f"{name} listens at {place} ({len(places)} of {len(names)} known)")
            for known in routes if news else (name,):
                desk.send_multipart([routes[known], msgpack.packb(places)])


def _carry(source: zmq.Socket[bytes], sink: zmq.Socket[bytes]) -> None:
    """Pass on what waits now. No message of a session has parts: what has some goes nowhere."""
    try:
        for _ in range(QUEUE):
            parts = source.recv_multipart(zmq.NOBLOCK)
            if len(parts) == 1:
                sink.send(parts[0])
    except zmq.Again:
        return
