"""Closes connections that fill the memory of this process with unread data.

ZeroMQ limits messages, but neither the frames of one message nor what subscriptions cost. So a
thread compares what the kernel has received on each TCP connection with what was read. It sees
connections and counts, never content. It works on Linux only; elsewhere it does nothing.
"""

import array
import fcntl
import os
import socket
import struct
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct, field

LOOK_SECONDS = 0.05

_SCAN_EVERY = 20
"""Looks after which all descriptors are scanned, even if their number has not changed."""

_DESCRIPTORS = Path("/proc/self/fd")
_RECEIVED = struct.Struct("=Q")
_RECEIVED_AT = 128  # offset of tcpi_bytes_received in Linux's struct tcp_info
_HANDSHAKE_BYTES = 2_048  # bytes of a connection that belong to no message


class BacklogLimit(Struct):
    """A limit on unread bytes that some connections share."""

    limit_bytes: int
    taken: int = 0
    """Bytes that were read, as they travel. The reader of the messages adds to it."""
    _settled: int = 0
    """The part of `taken` that the backlog accounts for."""
    _backlog: int = 0
    """Bytes that were received and not read."""

    def settle(self, connections: "list[_Connection]") -> "_Connection | None":
        """Update the backlog; return the connection to close if it is above the limit."""
        taken, self._settled = self.taken - self._settled, self.taken
        self._backlog = max(0, self._backlog + sum(c.new_bytes for c in connections) - taken)
        if self._backlog <= self.limit_bytes // 8:
            for connection in connections:
                connection.growth = 0
        if self._backlog <= self.limit_bytes or not connections:
            return None
        worst = max(connections, key=lambda c: c.growth)
        self.forget(worst)
        return worst

    def forget(self, connection: "_Connection") -> None:
        """Subtract the unread data of a connection that is closed."""
        self._backlog = max(0, self._backlog - connection.growth)


class _Connection(Struct):
    inode: int
    limit: BacklogLimit | None
    received: int = _HANDSHAKE_BYTES
    """Bytes received so far."""
    new_bytes: int = 0
    """Bytes received since the last look."""
    growth: int = 0
    """Bytes received since the backlog was last small."""

    def update(self, received: int) -> None:
        self.new_bytes = max(0, received - self.received)
        self.received += self.new_bytes
        self.growth += self.new_bytes


class BacklogGuard(Struct):
    """Watches every TCP connection of the process until it is stopped.

    `limit_of` returns the limit of a connection from its own port and its peer's port, or None
    if it has none.
    """

    limit_of: Callable[[int, int], BacklogLimit | None]
    _connections: dict[int, _Connection] = field(default_factory=dict)
    """TCP connections by descriptor."""
    _others: dict[int, int] = field(default_factory=dict)
    """Inodes of descriptors that are no connection."""
    _stopped: threading.Event = field(default_factory=threading.Event)
    _open: int = -1
    """How many descriptors were open at the last scan."""
    _looks: int = 0

    def start(self) -> None:
        threading.Thread(target=self._run, name="backlog", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while _DESCRIPTORS.exists() and not self._stopped.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Count what has arrived, and close the connections that exceed their limit."""
        present = {fd: found for fd in self._candidates() if (found := self._updated(fd))}
        for fd in self._connections.keys() - present.keys():
            gone = self._connections.pop(fd)
            if gone.limit is not None:
                gone.limit.forget(gone)
        self._connections = present
        groups: dict[int, tuple[BacklogLimit, list[_Connection]]] = {}
        for connection in present.values():
            if connection.limit is not None:
                group = groups.setdefault(id(connection.limit), (connection.limit, []))
                group[1].append(connection)
        for limit, connections in groups.values():
            worst = limit.settle(connections)
            if worst is not None:
                self._close(next(fd for fd, c in present.items() if c is worst))

    def _candidates(self) -> list[int]:
        """Return descriptors that may be connections: the known ones if none was opened or closed.

        Most looks find nothing new. With many processes on a machine full scans would add up.
        """
        count, self._looks = _descriptor_count(), self._looks + 1
        known = [fd for fd, c in self._connections.items() if _inode(fd) == c.inode]
        same = count > 0 and count == self._open and len(known) == len(self._connections)
        if same and self._looks % _SCAN_EVERY:
            return known
        self._open = count
        return _descriptors()

    def _updated(self, fd: int) -> _Connection | None:
        """Return the connection of a descriptor with its new count; None if it is none."""
        inode = _inode(fd)
        if inode is None or self._others.get(fd) == inode:
            return None
        connection = self._connections.get(fd)
        try:
            with _borrowed_socket(fd) as tcp:
                info = tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                if connection is None or connection.inode != inode:
                    ports = tcp.getsockname()[1], tcp.getpeername()[1]
                    connection = _Connection(inode, self.limit_of(*ports))
            in_kernel = array.array("i", [0])
            fcntl.ioctl(fd, termios.FIONREAD, in_kernel)
        except (OSError, IndexError):  # closed meanwhile, listening, or no TCP at all
            self._others[fd] = inode
            return None
        if len(info) < _RECEIVED_AT + _RECEIVED.size:
            return None
        connection.update(_RECEIVED.unpack_from(info, _RECEIVED_AT)[0] - in_kernel[0])
        return connection

    def _close(self, fd: int) -> None:
        with suppress(OSError), _borrowed_socket(fd) as tcp:
            tcp.shutdown(socket.SHUT_RDWR)


def _inode(fd: int) -> int | None:
    try:
        return os.fstat(fd).st_ino
    except OSError:
        return None


def _descriptor_count() -> int:
    """Return how many descriptors are open; 0 if the kernel does not say so cheaply."""
    try:
        return os.stat(_DESCRIPTORS).st_size
    except OSError:
        return 0


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_DESCRIPTORS)]
    except OSError:
        return []


@contextmanager
def _borrowed_socket(fd: int) -> Iterator[socket.socket]:
    """Wrap a descriptor in a socket, and leave it open afterwards."""
    borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=fd)
    try:
        yield borrowed
    finally:
        borrowed.detach()
