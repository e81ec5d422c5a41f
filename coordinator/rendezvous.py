"""The rendezvous of a mesh: tells each member where the others listen.

The rounds of a mesh do not pass here. Members need not trust it: they prove their keys to each
other. Never here: a name that a member's process would have to look up.
"""

import time

import msgpack
import zmq

from coordinator.listener import Listener
from coordinator.observer import LOOK_SECONDS, SessionObserver
from coordinator.progress import Say
from protocol.agreement.address import numeric_address
from protocol.agreement.model import Agreement
from protocol.runtime.backoff import Backoff
from protocol.wire.codec import peek_header

MOVE_SECONDS = (1.0, 60.0)
"""The shortest time between two changes of a member's address. It doubles with each change, up
to the second figure. Each change is logged, and sent to all members."""

QUERY = bytes(msgpack.packb(None))
"""Asks for the addresses of the others and announces none."""


class Rendezvous:
    """Answers each member's announcement with the addresses of all members."""

    def __init__(
        self, agreement: Agreement, listener: Listener, observer: SessionObserver, say: Say
    ) -> None:
        self._agreement = agreement
        self._listener = listener
        self._observer = observer
        self._admission = observer.admission
        self._say = say
        #: Where each member listens.
        self._addresses: dict[str, str] = {}
        #: ZeroMQ's name for each member's connection.
        self._routes: dict[str, bytes] = {}
        self._moves = Backoff(*MOVE_SECONDS)
        #: Members that were named for an invalid address.
        self._named: set[str] = set()
        self._socket = listener.socket(zmq.ROUTER)
        say(f"introducing the members of {agreement.session!r} at {listener.address}")

    def run(self) -> None:
        """Answer members until interrupted, or until the session is over."""
        self._listener.start()
        poller = zmq.Poller()
        self._listener.register(poller, self._socket)
        while self._observer.continues(now := time.monotonic()):
            ready = dict(poller.poll(int(LOOK_SECONDS * 1000.0)))
            self._observer.lost(self._listener.gone(), now)
            if self._socket not in ready:
                continue
            route = self._socket.recv()
            frame = self._listener.receive(self._socket)
            for known in self._routes_to_answer(route, frame, now):
                self._socket.send_multipart([known, msgpack.packb(self._addresses)])

    def _routes_to_answer(self, route: bytes, frame: zmq.Frame, now: float) -> list[bytes]:
        """Take in a message, and return the routes to which all addresses are to be sent."""
        data = frame.bytes
        owner = self._listener.owner(frame)
        if owner is None:
            own_key = str(frame.get("User-Id")) == self._agreement.transport.coordinator_key
            return [route] if own_key and data == QUERY and not frame.more else []
        if not self._admission.admits(owner, data, now):
            return []
        if frame.more:
            self._admission.invalid(owner, data, now)
            return []
        if peek_header(data) is not None:
            self._observer.read(owner, data, now)
            return []
        try:
            content = msgpack.unpackb(data, max_array_len=0, max_map_len=0)
            address = None if data == QUERY else numeric_address(content)
        except Exception as error:  # an invalid address concerns its sender alone
            self._name_once(owner, error)
            return []
        self._observer.progress.arrived(owner, now)
        self._routes[owner] = route
        if address is None or not self._moved(owner, address, now):
            return [route]
        return list(self._routes.values())

    def _name_once(self, owner: str, error: Exception) -> None:
        if owner not in self._named:
            self._named.add(owner)
            self._say(f"{owner} has announced an invalid address: {f'{error}'[:200]}")

    def _moved(self, owner: str, address: str, now: float) -> bool:
        """Store a new address of a member, unless it changes too often."""
        if self._addresses.get(owner) == address or not self._moves.due(owner, now):
            return False
        self._addresses[owner] = address
        count = f"{len(self._addresses)} of {len(self._agreement.members)} known"
        self._say(f"{owner} listens at {address} ({count})")
        return True
