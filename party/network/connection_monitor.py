"""Keeps one socket connected to one peer, and turns its failures into sentences for the operator.

libzmq is given numeric addresses only. Never here: the meaning of a message.
"""

import struct
import time
from contextlib import suppress

import zmq

from party.network.name_lookup import LOOKUP_SECONDS, LookupResult, NameLookup
from protocol.agreement.address import host_and_port, needs_ipv6, numeric
from protocol.runtime.backoff import Backoff

WARN_SECONDS = (0.5, 600.0)
"""Least time between two warnings of one kind: it doubles each time, from the first to the second
figure."""

_FAILURES: dict[int, str] = {
    zmq.Event.HANDSHAKE_FAILED_AUTH: "it does not accept our transport key",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "it breaks off the handshake: its transport key is not "
    "the one in the agreement, or it uses another protocol",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "it uses another protocol",
    zmq.Event.CONNECT_RETRIED: "nothing answers there",
}

_GIVEN_UP = (zmq.Event.HANDSHAKE_FAILED_AUTH, zmq.Event.HANDSHAKE_FAILED_PROTOCOL)
"""After these libzmq does not connect again by itself."""

_LOST = zmq.Event.DISCONNECTED
_RETRYING = zmq.Event.CONNECT_RETRIED | zmq.Event.CONNECTED | zmq.Event.HANDSHAKE_SUCCEEDED
"""libzmq mostly reconnects after a lost connection, and one of these follows. None follows after a
violation of its protocol, such as a message that is too long: then this module reconnects."""


_EVENT = struct.Struct("=Hi")
"""The first frame of an event of libzmq: its kind and a value. pyzmq's parser loads asyncio."""


class ConnectionMonitor:
    """Keeps a socket connected to one peer, and reports each kind of failure once.

    A host name is looked up again while there is no connection, so that a changed entry is
    followed.
    """

    def __init__(self, socket: zmq.Socket[bytes], peer: str, lookup: NameLookup) -> None:
        self._socket = socket
        self._peer = peer
        self._lookup = lookup
        #: Host name and port of the peer, empty if its address is numeric.
        self._name, self._port = "", ""
        #: The numeric address that libzmq connects to.
        self._address = ""
        self._connected = False
        #: When the connection was last lost, as `time.time` counts; None before the first one.
        self.lost_at: float | None = None
        #: Kinds of failure that were reported since the last connection.
        self._reported: set[object] = set()
        self._warnings: list[str] = []
        #: The last failure, as a sentence, until the peer is reached; then it is empty.
        self._trouble = ""
        self._backoff = Backoff(*WARN_SECONDS)
        self._given_up = False
        #: Whether the connection is lost, now and at the last `warnings` call.
        self._lost, self._still_lost = False, False
        #: Where libzmq reports what happens to the connection.
        self.events = socket.get_monitor_socket(sum(_FAILURES) | _LOST | _RETRYING)

    @property
    def connected(self) -> bool:
        self._read_events()
        return self._connected

    @property
    def trouble(self) -> str:
        """Why the peer cannot be reached, as a sentence; empty if it can be."""
        self._read_events()
        return self._trouble

    def connect(self, address: str) -> None:
        """Connect to the peer at this address, and no longer to an earlier one.

        An address that cannot be used gives a warning like any other failure.
        """
        self._name, self._port = ("", "") if numeric(address) else host_and_port(address)
        if not self._name:
            self._connect(address)
        elif needs_ipv6(address):
            self._name = ""
            self._warn(None, f"cannot reach {self._peer} at {address}: no IPv6 address")
        else:
            self._lookup.start(self._name)

    def resolved(self, result: LookupResult) -> None:
        """Use the result of a lookup, if it is about this peer. Tries its addresses in turn."""
        self._read_events()
        if result.name != self._name or self._connected:
            return
        addresses = [f"tcp://{host}:{self._port}" for host in result.hosts]
        addresses = [address for address in addresses if numeric(address)]
        if not addresses:
            error = result.error or "it has no address that can be used"
            self._warn("lookup", f"cannot find the host {self._name!r} of {self._peer}: {error}")
            return
        tried = addresses.index(self._address) if self._address in addresses else -1
        if (address := addresses[(tried + 1) % len(addresses)]) != self._address:
            self._connect(address)

    def warnings(self) -> list[str]:
        """New warnings since the last call. Connects again to a peer that refused us."""
        self._read_events()
        if self._name and not self._connected:
            self._lookup.start(self._name)
            if self._lookup.slow(self._name):
                slow = f"takes longer than {LOOKUP_SECONDS:g} s to look up; still waiting for it"
                self._warn("slow", f"the host {self._name!r} of {self._peer} {slow}")
        if (self._given_up or (self._lost and self._still_lost)) and self._address:
            self._connect(self._address)
            self._lost = False
        self._given_up, self._still_lost = False, self._lost
        warnings, self._warnings = self._warnings, []
        return warnings

    def close(self) -> None:
        self._socket.disable_monitor()

    def _connect(self, address: str) -> None:
        if self._address:
            with suppress(zmq.ZMQError):  # libzmq may have dropped it already
                self._socket.disconnect(self._address)
        self._socket.ipv6 = needs_ipv6(address)
        if self._connected:
            self._connected, self.lost_at = False, time.time()
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self._warn(None, f"cannot reach {self._peer} at {address}: {error}")
            address = ""
        self._address = address

    def _read_events(self) -> None:
        while self.events.poll(0):
            event, endpoint = self.events.recv_multipart()
            kind, address = zmq.Event(_EVENT.unpack(event)[0]), endpoint.decode()
            self._given_up = self._given_up or kind in _GIVEN_UP
            self._lost = (self._lost or kind == _LOST) and not kind & _RETRYING
            if kind == zmq.Event.HANDSHAKE_SUCCEEDED:
                self._connected, self._trouble = True, ""
                self._reported.clear()
                continue
            if self._connected and kind == _LOST:
                self._connected, self.lost_at = False, time.time()
            if kind == zmq.Event.CONNECT_RETRIED and self._reported:
                continue  # the peer does answer, and the failure was reported
            if kind in _FAILURES:
                where = f"{self._name} ({address})" if self._name else address
                self._warn(kind, f"cannot reach {self._peer} at {where}: {_FAILURES[kind]}")

    def _warn(self, kind: object, warning: str) -> None:
        """Report a kind of failure once until the peer is reached, and less often if it returns.

        A peer that moves or disconnects all the time must not fill a log.
        """
        self._trouble = warning
        if kind in self._reported or not self._backoff.due(kind, time.monotonic()):
            return
        if kind is not None:
            self._reported.add(kind)
        self._warnings.append(warning)
