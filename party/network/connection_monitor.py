"""Connections of a party: who cannot be reached, and why."""

import time
from contextlib import suppress

import zmq
from zmq.utils.monitor import parse_monitor_message

from party.network.name_lookup import LOOK_UP_SECONDS, Found, Names
from protocol.agreement.address import host_and_port, needs_ipv6, numeric
from protocol.runtime.backoff import Backoff

TELL_SECONDS = (0.5, 600.0)
"""A trouble with a peer is told again after this time at the earliest: it doubles each time, up to
the second figure."""


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
