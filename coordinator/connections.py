"""Follows which members have an open connection to one socket of the coordinator.

libzmq names the connection of every message by its file descriptor, and reports when a descriptor
is accepted and closed. The owner of a connection has proved its transport key. Never here: what a
message means.
"""

import struct

import zmq

_OPENED, _CLOSED = int(zmq.Event.ACCEPTED), int(zmq.Event.DISCONNECTED)
_EVENT = struct.Struct("=Hi")


class Connections:
    """The open connections of one socket. Make it before the socket listens.

    *Guarantee:* a member is gone only if every connection that brought a message of its own has
    been closed. Connections of others never count for it.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        #: Where libzmq reports what happens to connections.
        self.events = socket.get_monitor_socket(_OPENED | _CLOSED)
        self._open: set[int] = set()
        #: The member behind each connection that has brought a message.
        self._owners: dict[int, str] = {}
        #: Members that have lost a connection since the last look.
        self._lost: list[str] = []

    def brought(self, frame: zmq.Frame, owner: str) -> None:
        """The connection of `owner` has brought a frame."""
        # A number is used again after its connection is closed. All events of the earlier one
        # came before this frame, so they are read first.
        self._read_events()
        descriptor = int(frame.get(zmq.SRCFD))
        if descriptor in self._open:
            self._owners[descriptor] = owner
        else:  # closed since: the member was here
            self._lost.append(owner)

    def gone(self) -> list[str]:
        """Members that have no connection any more, each once."""
        self._read_events()
        lost, self._lost = dict.fromkeys(self._lost), []
        return [name for name in lost if name not in self._owners.values()]

    def close(self) -> None:
        self._socket.disable_monitor()
        self.events.close()

    def _read_events(self) -> None:
        while self.events.poll(0):
            kind, descriptor = _EVENT.unpack(self.events.recv_multipart()[0])
            if (owner := self._owners.pop(descriptor, None)) is not None:
                self._lost.append(owner)
            if kind == _OPENED:
                self._open.add(descriptor)
            else:
                self._open.discard(descriptor)
