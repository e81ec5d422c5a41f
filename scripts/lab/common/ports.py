"""Ports of loopback that no two sessions on this machine take at the same time.

A port that is free now may be taken before its owner binds it. So each is reserved first: a
byte of one file in the temporary folder, locked for as long as this process lives. The
system lets go of it when the process ends, however it ends.
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
"""Below the range from which outgoing connections take theirs."""

_reserved: set[int] = set()
_one_at_a_time = threading.Lock()


def reserve(count: int) -> int:
    """The first of `count` neighbouring ports that are free, and this process's until it ends.

    Guarantee: no other process of this user that reserves its ports gets one of them.
    """
    draw = random.SystemRandom()
    for _ in range(1_000):
        first = draw.randrange(FIRST, LAST - count)
        if _take(range(first, first + count)):
            return first
    raise OSError(f"no {count} free ports on loopback between {FIRST} and {LAST}")


def _take(ports: range) -> bool:
    """Reserve all of them, unless one is reserved or in use. What fails stays reserved, too."""
    with _one_at_a_time:
        if not _reserved.isdisjoint(ports):  # a process is never in the way of its own locks
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
    """Never closed: closing would let go of every reservation."""
    path = Path(tempfile.gettempdir()) / f"sotto-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
