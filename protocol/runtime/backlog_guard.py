"""Cuts off connections that fill the memory of this process with what nobody can read yet.

ZeroMQ bounds messages, but neither the parts of one message nor what subscriptions cost. So a
thread looks at what the kernel has received on each TCP connection, and at what was made of it.
It knows connections and counts only, never what is said, and where the system does not tell
(only Linux does) it does nothing. An edge of the package, like the command line.
"""

import array
import fcntl
import os
import socket
import struct
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LOOK_SECONDS = 0.05

_ALL_EVERY = 20
"""Looks after which all descriptors are gone through, if their number has not changed before."""

_OPEN = Path("/proc/self/fd")
_RECEIVED = struct.Struct("=Q")
_RECEIVED_AT = 128  # of tcpi_bytes_received in Linux's struct tcp_info
_HANDSHAKE_BYTES = 2_048  # of a connection that are no message


@dataclass
class BacklogLimit:
    """Connections that share a limit on what has come in and was not `taken`.

    `taken` is for whoever reads the messages to count up, in bytes as they travel.
    """

    limit_bytes: int
    taken: int = 0
    _seen_taken: int = 0
    _backlog: int = 0

    def settle(self, connections: "list[_Connection]") -> "_Connection | None":
        """Bring the backlog up to date; the connection to cut off if it is above the limit."""
        taken, self._seen_taken = self.taken - self._seen_taken, self.taken
        self._backlog = max(0, self._backlog + sum(c.news for c in connections) - taken)
        if self._backlog <= self.limit_bytes // 8:
            for connection in connections:
                connection.growth = 0
        if self._backlog <= self.limit_bytes or not connections:
            return None
        worst = max(connections, key=lambda c: c.growth)
        self.forget(worst)
        return worst

    def forget(self, connection: "_Connection") -> None:
        """It is gone, and what it had begun to say is gone with it."""
        self._backlog = max(0, self._backlog - connection.growth)


@dataclass
class _Connection:
    inode: int
    line: BacklogLimit | None
    received: int = _HANDSHAKE_BYTES
    news: int = 0
    growth: int = 0

    def grown(self, received: int) -> None:
        self.news = max(0, received - self.received)
        self.received += self.news
        self.growth += self.news


@dataclass
class BacklogGuard:
    """Watches every TCP connection of the process until it is stopped.

    `line` says for the own and the peer's port on which line a connection is, or None where it
    may receive what it likes.
    """

    line: Callable[[int, int], BacklogLimit | None]
    cut: int = 0
    _connections: dict[int, _Connection] = field(default_factory=dict)
    _others: dict[int, int] = field(default_factory=dict)  # descriptors that are no connection
    _over: threading.Event = field(default_factory=threading.Event)
    _open: int = -1
    _looks: int = 0

    def start(self) -> None:
        threading.Thread(target=self._run, name="meter", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while _OPEN.exists() and not self._over.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Count what has come in, and cut off whoever has sent too much."""
        here = {fd: found for fd in self._candidates() if (found := self._counted(fd))}
        for fd in self._connections.keys() - here.keys():
            gone = self._connections.pop(fd)
            if gone.line is not None:
                gone.line.forget(gone)
        self._connections = here
        lines: dict[int, tuple[BacklogLimit, list[_Connection]]] = {}
        for connection in here.values():
            if connection.line is not None:
                of_line = lines.setdefault(id(connection.line), (connection.line, []))
                of_line[1].append(connection)
        for line, connections in lines.values():
            worst = line.settle(connections)
            if worst is not None:
                self._cut_off(next(fd for fd, c in here.items() if c is worst))

    def _candidates(self) -> list[int]:
        """Where connections may be: where they were, as long as nothing is opened or closed.

        Most looks find nothing new, and with many processes on a machine they add up.
        """
        count, self._looks = _descriptor_count(), self._looks + 1
        known = [fd for fd, c in self._connections.items() if _inode(fd) == c.inode]
        same = count > 0 and count == self._open and len(known) == len(self._connections)
        if same and self._looks % _ALL_EVERY:
            return known
        self._open = count
        return _descriptors()

    def _counted(self, fd: int) -> _Connection | None:
        """The connection behind a descriptor with what is new on it, if it is one."""
        inode = _inode(fd)
        if inode is None or self._others.get(fd) == inode:
            return None
        known = self._connections.get(fd)
        try:
            with _borrowed(fd) as tcp:
                info = tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                if known is None or known.inode != inode:
                    ports = tcp.getsockname()[1], tcp.getpeername()[1]
                    known = _Connection(inode, self.line(*ports))
            waiting = array.array("i", [0])
            fcntl.ioctl(fd, termios.FIONREAD, waiting)
        except (OSError, IndexError):  # closed meanwhile, listening, or no TCP at all
            self._others[fd] = inode
            return None
        if len(info) < _RECEIVED_AT + _RECEIVED.size:
            return None
        known.grown(_RECEIVED.unpack_from(info, _RECEIVED_AT)[0] - waiting[0])
        return known

    def _cut_off(self, fd: int) -> None:
        self.cut += 1
        with suppress(OSError), _borrowed(fd) as tcp:
            tcp.shutdown(socket.SHUT_RDWR)


def _inode(fd: int) -> int | None:
    try:
        return os.fstat(fd).st_ino
    except OSError:
        return None


def _descriptor_count() -> int:
    """How many descriptors are open, where the kernel tells that in one word; else 0."""
    try:
        return os.stat(_OPEN).st_size
    except OSError:
        return 0


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_OPEN)]
    except OSError:
        return []


class _borrowed:  # noqa: N801 - a context, and a verb
    """A socket around a descriptor that stays its owner's."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=fd)

    def __enter__(self) -> socket.socket:
        return self._socket

    def __exit__(self, *_: object) -> None:
        self._socket.detach()
