"""The two ways a party reaches the others: through the relay, or as a mesh.

A link moves bytes and knows nothing of what they say. It may lose them; the session sends
again. It never blocks without a limit.
"""

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgpack
import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import parse_monitor_message

from party.keys import Identity
from party.ledger.session_ledger import Ledger
from party.network.inbox import Heard
from party.network.name_lookup import LOOK_UP_SECONDS, Found, Names
from protocol.agreement.address import address, host_and_port, listening, needs_ipv6, numeric
from protocol.agreement.model import Agreement
from protocol.errors import BadAgreement, BadCommand
from protocol.runtime.backlog_guard import BacklogGuard, BacklogLimit
from protocol.runtime.backoff import Backoff
from protocol.runtime.file_limits import SOCKETS_OF_MESH, SPARE, party_files, require_files
from protocol.runtime.sockets import (
    SUBSCRIPTION_BYTES,
    Roster,
    backlog_bytes,
    cannot_listen,
    publisher_options,
    require_network,
    socket_options,
    wire_bytes,
)
from protocol.wire.framing import Batches

INTRODUCE_SECONDS = 0.5
"""How often a party of a mesh says where it listens until it knows where all others do."""

TELL_SECONDS = (0.5, 600.0)
"""A trouble with a peer is told again after this time at the earliest: it doubles each time, up to
the second figure."""

_FLUSH_MILLISECONDS = 500  # at the end, for the last seal to leave
_TAKEN = 1_000  # messages read from a socket before anything else is looked at


_TROUBLE: dict[int, str] = {
    zmq.Event.HANDSHAKE_FAILED_AUTH: "it does not accept our transport key",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "it breaks off the handshake: its transport key is not "
    "the one in the agreement, or it does not speak this protocol",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "it does not speak this protocol",
    zmq.Event.CONNECT_RETRIED: "nobody answers there",
}

_GIVEN_UP = (zmq.Event.HANDSHAKE_FAILED_AUTH, zmq.Event.HANDSHAKE_FAILED_PROTOCOL)
"""After these libzmq does not connect again by itself."""

_LOST = zmq.Event.DISCONNECTED
_SOUGHT = zmq.Event.CONNECT_RETRIED | zmq.Event.CONNECTED | zmq.Event.HANDSHAKE_SUCCEEDED
"""Mostly it does when a connection is lost. It does not after what it takes for a violation of
its protocol, such as a message that is too long: then nothing of this follows."""


class Watch:
    """Keeps a socket connected to one peer, and tells each trouble with that once.

    libzmq is given numeric addresses only. A name is looked up beside the loop, and again as
    long as there is no connection, so that a changed entry is followed.
    """

    def __init__(self, socket: zmq.Socket[bytes], who: str, names: Names) -> None:
        self._watched = socket
        self._who = who
        self._names = names
        self._name, self._port = "", ""  # to look up, where the peer has a name for its host
        self._place = ""  # where libzmq connects to
        self._connected = False
        self._told: set[object] = set()
        self._sentences: list[str] = []
        self._seldom = Backoff(*TELL_SECONDS)
        self._given_up = False
        self._lost, self._still_lost = False, False
        self.socket = socket.get_monitor_socket(sum(_TROUBLE) | _LOST | _SOUGHT)

    def connect(self, place: str) -> None:
        """Reach the peer at this place, and no longer where it was before.

        A place that cannot be connected to is a trouble like any other: it is told, and the
        peer is not reached.
        """
        self._name, self._port = ("", "") if numeric(place) else host_and_port(place)
        if not self._name:
            self._reach(place)
        elif needs_ipv6(place):
            self._name = ""
            self._tell(None, f"cannot reach {self._who} at {place}: no IPv6 address")
        else:
            self._names.seek(self._name)

    def found(self, found: Found) -> None:
        """Take in what a lookup has brought, if it is about this peer.

        Of several addresses each is tried in turn.
        """
        self._absorb()
        if found.name != self._name or self._connected:
            return
        places = [f"tcp://{host}:{self._port}" for host in found.hosts]
        places = [place for place in places if numeric(place)]
        if not places:
            trouble = found.trouble or "it has no address that can be used"
            self._tell("lookup", f"cannot find the host {self._name!r} of {self._who}: {trouble}")
            return
        tried = places.index(self._place) if self._place in places else -1
        if (place := places[(tried + 1) % len(places)]) != self._place:
            self._reach(place)

    def news(self) -> list[str]:
        """What has gone wrong since the last look. A peer that refused us is asked again."""
        self._absorb()
        if self._name and not self._connected:
            self._names.seek(self._name)
            if self._names.slow(self._name):
                slow = f"takes longer than {LOOK_UP_SECONDS:g} s to look up; still waiting for it"
                self._tell("slow", f"the host {self._name!r} of {self._who} {slow}")
        if (self._given_up or (self._lost and self._still_lost)) and self._place:
            self._reach(self._place)
            self._lost = False
        self._given_up, self._still_lost = False, self._lost
        sentences, self._sentences = self._sentences, []
        return sentences

    def close(self) -> None:
        self._watched.disable_monitor()

    def _reach(self, place: str) -> None:
        if self._place:
            with suppress(zmq.ZMQError):  # libzmq may have let go of it already
                self._watched.disconnect(self._place)
        self._watched.ipv6 = needs_ipv6(place)
        self._connected = False
        try:
            self._watched.connect(place)
        except zmq.ZMQError as error:
            self._tell(None, f"cannot reach {self._who} at {place}: {error}")
            place = ""
        self._place = place

    def _absorb(self) -> None:
        """Bring up to date what is known of the connection."""
        while self.socket.poll(0):
            event = parse_monitor_message(self.socket.recv_multipart())
            kind, place = event["event"], event["endpoint"].decode()
            self._given_up = self._given_up or kind in _GIVEN_UP
            self._lost = (self._lost or kind == _LOST) and not kind & _SOUGHT
            if kind == zmq.Event.HANDSHAKE_SUCCEEDED:
                self._connected = True
                self._told.clear()
                continue
            self._connected = self._connected and kind != _LOST
            if kind == zmq.Event.CONNECT_RETRIED and self._told:
                continue  # it does answer, and what is wrong with that has been told
            if kind in _TROUBLE:
                named = f"{self._name} ({place})" if self._name else place
                self._tell(kind, f"cannot reach {self._who} at {named}: {_TROUBLE[kind]}")

    def _tell(self, kind: object, sentence: str) -> None:
        """Tell a kind of trouble once until the peer is reached, and ever more seldom if it comes
        back: a peer that moves or breaks off all the time must not fill a log."""
        if kind in self._told or not self._seldom.due(kind, time.monotonic()):
            return
        if kind is not None:
            self._told.add(kind)
        self._sentences.append(sentence)


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
