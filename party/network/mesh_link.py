"""A link moves bytes between parties."""

import time
from collections.abc import Callable

import msgpack
import zmq
from zmq.auth.thread import ThreadAuthenticator

from party.keys import Identity
from party.ledger.session_ledger import Ledger
from party.network.connection_monitor import Watch
from party.network.inbox import Heard
from party.network.link import Link, _port
from protocol.agreement.address import address, listening, needs_ipv6, numeric
from protocol.agreement.model import Agreement
from protocol.errors import BadAgreement, BadCommand
from protocol.runtime.backlog_guard import BacklogLimit
from protocol.runtime.file_limits import SOCKETS_OF_MESH, SPARE
from protocol.runtime.sockets import (
    SUBSCRIPTION_BYTES,
    Roster,
    cannot_listen,
)

INTRODUCE_SECONDS = 0.5
"""How often a party of a mesh says where it listens until it knows where all others do."""


class MeshLink(Link):
    """Binds its own publisher and subscribes to every other party's.

    The coordinator tells where the others listen. Once that is known it is not needed: the
    ledger remembers, and so a restart finds the others without it.
    """

    def __init__(
        self,
        agreement: Agreement,
        identity: Identity,
        ledger: Ledger,
        listen: str | None,
        refused: Callable[[str], None],
    ) -> None:
        super().__init__(agreement, identity)
        self._ledger = ledger
        self._keys = {m.name: m.transport_key for m in agreement.members}
        sockets = SPARE + SOCKETS_OF_MESH * len(agreement.members)
        self._context.max_sockets = max(self._context.max_sockets, sockets)
        self._guard = ThreadAuthenticator(self._context)
        self._guard.start()
        self._guard.configure_curve_callback("*", Roster(agreement, refused))
        self._refused = refused
        self._refused_of: set[str] = set()
        known = {n: p for n, p in ledger.addresses().items() if numeric(p)}
        fixed = {m.name: m.address for m in agreement.members if m.address}
        self._out = self._socket(zmq.PUB)
        self._address = self._bind(listen, fixed.get(identity.name), known.get(identity.name))
        self._places: dict[str, str] = {}
        self._moved_at: dict[str, float] = {}
        self._subscribers: dict[str, zmq.Socket[bytes]] = {}
        self._sources: dict[zmq.Socket[bytes], str] = {}
        self._reach: dict[str, Watch] = {}
        self._desk = self._socket(zmq.DEALER, agreement.transport.coordinator_key)
        self._watch(self._desk, "the coordinator").connect(address(agreement.transport.coordinator))
        self._poller.register(self._desk, zmq.POLLIN)
        self._introduced_at = float("-inf")
        self._meet({**known, **fixed})
        if self._address is not None:
            ledger.record_addresses({identity.name: self._address})
        self._meter.start()

    def _line(self, own_port: int, peer_port: int) -> BacklogLimit | None:  # noqa: ARG002
        return BacklogLimit(SUBSCRIPTION_BYTES) if own_port == self._own_port else self._incoming

    def _bind(self, listen: str | None, fixed: str | None, known: str | None) -> str | None:
        """Listen where told, where agreed, or where this party listened before.

        Returns what to announce. A name in the agreement is not announced: each member looks it
        up for itself.
        """
        everywhere = "[::]" if fixed and needs_ipv6(fixed) else "*"
        place = listen or (fixed and f"tcp://{everywhere}:{_port(fixed)}") or known
        if not place:
            raise BadAgreement(
                f"member {self._identity.name!r} has no address in the agreement: a mesh needs "
                "one, or --listen tcp://HOST:PORT (port * for any that is free)"
            )
        if place.endswith(":*") and known:
            place = known
        self._out.ipv6 = needs_ipv6(place)
        try:
            self._out.bind(listening(place))
        except zmq.ZMQError as error:
            raise cannot_listen(place, zmq.strerror(error.errno or 0)) from None
        bound = bytes(self._out.getsockopt(zmq.LAST_ENDPOINT)).decode().rstrip("\0")
        self._own_port = _port(bound)
        if fixed:
            return fixed if numeric(fixed) else None
        if not numeric(bound):
            raise BadCommand(
                f"--listen {place}: others cannot reach {bound!r}. Name the host by which they "
                "reach this one, or add it as the address of this member to the agreement, which "
                "keeps its digest"
            )
        return bound

    def publish(self, data: bytes) -> None:
        self._out.send(data)

    def receive(self, seconds: float) -> list[Heard]:
        now = time.monotonic()
        lonely = len(self._places) < len(self._keys) - 1
        if lonely:
            seconds = min(seconds, INTRODUCE_SECONDS)
        if now >= self._introduced_at + (INTRODUCE_SECONDS if lonely else 10.0):
            self._introduced_at = now
            self._say_where()
        heard: list[Heard] = []
        for socket in self._ready(seconds):
            drained = self._drained(socket)
            if socket is not self._desk:
                heard += [Heard(self._sources[socket], data) for data in drained]
            elif drained:
                self._hear_where(drained[-1])
        return heard

    def report(self, data: bytes) -> None:
        try:
            self._desk.send(data, zmq.NOBLOCK)
        except zmq.Again:
            return  # it only wants to know

    def _say_where(self) -> None:
        try:
            self._desk.send(msgpack.packb(self._address), zmq.NOBLOCK)
        except zmq.Again:
            return  # the coordinator is away; the next time will do

    def _hear_where(self, data: bytes) -> None:
        try:
            places = msgpack.unpackb(data, max_bin_len=0, max_ext_len=0)
            told = {n: p for n, p in places.items() if n in self._keys}
        except Exception:  # the coordinator is not trusted: nonsense is the same as silence
            return
        for name in told.keys() - self._refused_of:
            if not numeric(told[name]):
                self._refused_of.add(name)
                self._refused(
                    f"the coordinator says that {name!r} listens at {str(told[name])[:300]!r}: "
                    "ignored, for only numeric addresses are announced"
                )
        self._meet({name: place for name, place in told.items() if numeric(place)})

    def _meet(self, places: dict[str, str]) -> None:
        """Subscribe to those whose place is new. A wrong place only means a failed handshake.

        Who moves is followed at a pace that nobody can drive: each move is written down.
        """
        now = time.monotonic()
        news = {
            name: place
            for name, place in places.items()
            if name != self._identity.name
            and self._places.get(name) != place
            and now >= self._moved_at.get(name, now - INTRODUCE_SECONDS) + INTRODUCE_SECONDS
        }
        self._moved_at |= dict.fromkeys(news, now)
        for name, place in news.items():
            if name not in self._subscribers:
                socket = self._socket(zmq.SUB, self._keys[name])
                socket.subscribe(b"")
                self._reach[name] = self._watch(socket, repr(name))
                self._subscribers[name] = socket
                self._sources[socket] = name
                self._poller.register(socket, zmq.POLLIN)
            self._reach[name].connect(place)
        self._places |= news
        # A name stands in the agreement: only what was told of need be remembered.
        if remembered := {name: place for name, place in news.items() if numeric(place)}:
            self._ledger.record_addresses(remembered)

    def close(self) -> None:
        self._guard.stop()
        super().close()
