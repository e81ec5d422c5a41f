"""Loopback ports that no two sessions on this machine use at the same time.

A free port may be taken before its owner binds it. So each port is reserved first: one byte of a
file in the temporary folder, locked while this process lives. The system releases the lock when the
process ends.
"""

import fcntl
import functools
import os
import random
import socket
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

FIRST, LAST = 12_000, 32_000
"""Below the range of ports for outgoing connections."""

_reserved: set[int] = set()
_one_at_a_time = threading.Lock()


def reserve(count: int) -> int:
    """Reserve `count` neighbouring free ports until this process ends; return the first.

    Guarantee: no other process of this user that reserves its ports gets one of them.
    """
    draw = random.SystemRandom()
    for _ in range(1_000):
        first = draw.randrange(FIRST, LAST - count)
        if _take(range(first, first + count)):
            return first
    raise OSError(f"no {count} free ports on loopback between {FIRST} and {LAST}")


def _take(ports: range) -> bool:
    """Reserve all ports, unless one is reserved or in use. Failed ports stay reserved too."""
    with _one_at_a_time:
        if not _reserved.isdisjoint(ports):  # locks do not exclude their own process
            return False
        try:
            fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, len(ports), ports.start)
        except OSError:
            return False
        _reserved.update(ports)
    with ExitStack() as stack:
        try:
            for port in ports:
                stack.enter_context(socket.create_server(("", port)))
        except OSError:
            return False
    return True


@functools.cache
def _locks() -> int:
    """The lock file. It is never closed: closing it would release every reservation."""
    path = Path(tempfile.gettempdir()) / f"sotto-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
