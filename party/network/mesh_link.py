"""The link of a session without relay: every party publishes to all others directly.

The coordinator introduces the parties. It is not trusted: a wrong address only means a failed
handshake, and the ledger remembers the addresses for a restart without the coordinator.
"""

import time
from collections.abc import Callable

import msgpack
import zmq
from zmq.auth.thread import ThreadAuthenticator

from party.keys import Identity
from party.ledger.session_ledger import Ledger
from party.network.connection_monitor import ConnectionMonitor
from party.network.inbox import Incoming
from party.network.link import Link, port_of
from protocol.agreement.address import address, listening, needs_ipv6, numeric
from protocol.agreement.model import Agreement
from protocol.errors import BadAgreement, BadCommand
from protocol.runtime.backlog_guard import BacklogLimit
from protocol.runtime.file_limits import SOCKETS_OF_MESH, SPARE
from protocol.runtime.presence import Away
from protocol.runtime.sockets import SUBSCRIPTION_BYTES, Roster, cannot_listen

INTRODUCE_SECONDS = 0.5
"""How often a party announces its address until it knows the addresses of all others."""

_REPEAT_SECONDS = 10.0  # how often it does so afterwards


class MeshLink(Link):
    """Binds its own publisher and subscribes to the publisher of every other party."""

    def __init__(
        self,
        agreement: Agreement,
        identity: Identity,
        ledger: Ledger,
        listen: str | None,
        warn: Callable[[str], None],
    ) -> None:
        super().__init__(agreement, identity)
        self._ledger = ledger
        self._warn = warn
        self._keys = {m.name: m.transport_key for m in agreement.members}
        sockets = SPARE + SOCKETS_OF_MESH * len(agreement.members)
        self._context.max_sockets = max(self._context.max_sockets, sockets)
        self._authenticator = ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback("*", Roster(agreement, warn))
        remembered = {n: a for n, a in ledger.addresses().items() if numeric(a)}
        agreed = {m.name: m.address for m in agreement.members if m.address}
        own = identity.name
        self._receivers = len(agreement.members) - 1
        self._open_publisher()
        #: The address that this party announces, if any.
        self._address = self._bind(listen, agreed.get(own), remembered.get(own))
        #: Where each other party listens, and when it last moved.
        self._addresses: dict[str, str] = {}
        self._moved_at: dict[str, float] = {}
        #: Members about whose announced address the operator was warned.
        self._warned_about: set[str] = set()
        self._peers: dict[str, ConnectionMonitor] = {}
        self._sources: dict[zmq.Socket[bytes], str] = {}
        self._rendezvous = self._open_socket(zmq.DEALER, agreement.transport.coordinator_key)
        coordinator = self._monitor(self._rendezvous, "the coordinator")
        coordinator.connect(address(agreement.transport.coordinator))
        self._poller.register(self._rendezvous, zmq.POLLIN)
        #: When this party last announced its address.
        self._announced_at = float("-inf")
        self._connect({**remembered, **agreed})
        if self._address is not None:
            ledger.record_addresses({own: self._address})
        self._guard.start()

    def receive(self, seconds: float) -> list[Incoming]:
        now = time.monotonic()
        incomplete = len(self._addresses) < len(self._keys) - 1
        if incomplete:
            seconds = min(seconds, INTRODUCE_SECONDS)
        if now >= self._announced_at + (INTRODUCE_SECONDS if incomplete else _REPEAT_SECONDS):
            told = self._tell_coordinator(msgpack.packb(self._address))
            self._announced_at = now if told else float("-inf")
            # Without a connection, wait until there is one.
            self._poller.register(self._rendezvous, zmq.POLLIN | (0 if told else zmq.POLLOUT))
        incoming: list[Incoming] = []
        for socket in self._poll(seconds):
            messages = self._drain(socket)
            if socket is not self._rendezvous:
                incoming += [Incoming(self._sources[socket], data) for data in messages]
            elif messages:
                self._read_addresses(messages[-1])
        return incoming

    def away(self) -> Away:
        """The peers to which this party has no connection: each has proved its transport key."""
        known = {name: self._peers[name] for name in self._keys if name in self._peers}
        return {
            name: known[name].lost_at if name in known else None
            for name in self._keys
            if name != self._identity.name and not (name in known and known[name].connected)
        }

    def report(self, data: bytes) -> None:
        self._tell_coordinator(data)

    def close(self) -> None:
        self._authenticator.stop()
        super().close()

    def _backlog_limit(self, own_port: int, peer_port: int) -> BacklogLimit | None:  # noqa: ARG002
        return BacklogLimit(SUBSCRIPTION_BYTES) if own_port == self._own_port else self._backlog

    def _bind(self, listen: str | None, agreed: str | None, remembered: str | None) -> str | None:
        """Listen at the address of --listen, of the agreement, or of an earlier start.

        Returns the address to announce. A name in the agreement is not announced: each member
        looks it up for itself.
        """
        everywhere = "[::]" if agreed and needs_ipv6(agreed) else "*"
        endpoint = listen or (agreed and f"tcp://{everywhere}:{port_of(agreed)}") or remembered
        if not endpoint:
            raise BadAgreement(
                f"member {self._identity.name!r} has no address in the agreement: a mesh needs "
                "one, or --listen tcp://HOST:PORT (port * for any free port)"
            )
        if endpoint.endswith(":*") and remembered:
            endpoint = remembered
        self._out.ipv6 = needs_ipv6(endpoint)
        try:
            self._out.bind(listening(endpoint))
        except zmq.ZMQError as error:
            raise cannot_listen(endpoint, zmq.strerror(error.errno or 0)) from None
        bound = bytes(self._out.getsockopt(zmq.LAST_ENDPOINT)).decode().rstrip("\0")
        self._own_port = port_of(bound)
        if agreed:
            return agreed if numeric(agreed) else None
        if not numeric(bound):
            raise BadCommand(
                f"--listen {endpoint}: others cannot reach {bound!r}. Name a host by which they "
                "reach this one, or add it to the agreement as the address of this member: the "
                "digest stays the same"
            )
        return bound

    def _tell_coordinator(self, data: bytes) -> bool:
        """Whether it was sent. If not, addresses are sent again; seals are for the log only."""
        try:
            self._rendezvous.send(data, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def _read_addresses(self, data: bytes) -> None:
        """Connect to the addresses that the coordinator reports."""
        try:
            decoded = msgpack.unpackb(data, max_bin_len=0, max_ext_len=0)
            addresses = {name: a for name, a in decoded.items() if name in self._keys}
        except Exception:  # the coordinator is not trusted: invalid bytes count as silence
            return
        for name in addresses.keys() - self._warned_about:
            if not numeric(addresses[name]):
                self._warned_about.add(name)
                self._warn(
                    f"the coordinator reports {str(addresses[name])[:300]!r} as the address of "
                    f"{name!r}: ignored, because only numeric addresses are announced"
                )
        self._connect({name: a for name, a in addresses.items() if numeric(a)})

    def _connect(self, addresses: dict[str, str]) -> None:
        """Subscribe to the parties whose address is new.

        Moves of one party are followed at a limited rate, because each is recorded on the disk.
        """
        now = time.monotonic()
        moved = {
            name: endpoint
            for name, endpoint in addresses.items()
            if name != self._identity.name
            and self._addresses.get(name) != endpoint
            and now >= self._moved_at.get(name, now - INTRODUCE_SECONDS) + INTRODUCE_SECONDS
        }
        self._moved_at |= dict.fromkeys(moved, now)
        for name, endpoint in moved.items():
            if name not in self._peers:
                socket = self._open_socket(zmq.SUB, self._keys[name])
                socket.subscribe(b"")
                self._peers[name] = self._monitor(socket, repr(name))
                self._sources[socket] = name
                self._poller.register(socket, zmq.POLLIN)
            self._peers[name].connect(endpoint)
        self._addresses |= moved
        # Host names are in the agreement; only announced addresses need to be remembered.
        if announced := {name: endpoint for name, endpoint in moved.items() if numeric(endpoint)}:
            self._ledger.record_addresses(announced)
