"""Looks up host names in threads of its own, beside the loop of a party.

libzmq would look a name up in its only IO thread: one slow name server would hold up every
connection. So libzmq is given numeric addresses only. A lookup that hangs occupies one of a few
threads and never blocks the caller. Nothing here knows about a session.
"""

import queue
import socket
import threading
import time
from collections import deque
from contextlib import suppress

from msgspec import Struct

LOOKUP_SECONDS = 5.0
"""A lookup that takes longer counts as slow, and the operator gets a warning."""

RETRY_SECONDS = 5.0
"""Pause between two lookups of one name."""

_MOST_THREADS = 8
_MOST_ADDRESSES = 8  # of one name that are tried


class LookupResult(Struct, frozen=True):
    """The hosts of a name, written as in an address, or what went wrong."""

    name: str
    hosts: tuple[str, ...] = ()
    error: str = ""


class NameLookup:
    """Lookups of host names, at most one at a time for each name."""

    def __init__(self) -> None:
        #: A lookup thread writes a byte here to wake the loop of the party.
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._results: deque[LookupResult] = deque()
        self._started_at: dict[str, float] = {}
        self._retry_at: dict[str, float] = {}
        self._threads = 0

    def fileno(self) -> int:
        """Becomes readable when `results` returns something."""
        return self._wake_reader.fileno()

    def start(self, name: str) -> None:
        """Look a name up, unless that is under way or was done a moment ago. Returns at once."""
        now = time.monotonic()
        if name in self._started_at or now < self._retry_at.get(name, now):
            return
        self._started_at[name] = now
        self._requests.put(name)
        if self._threads < min(_MOST_THREADS, len(self._started_at)):
            with suppress(RuntimeError):  # the system allows no more threads: the others go on
                threading.Thread(target=self._work, name="names", daemon=True).start()
                self._threads += 1

    def slow(self, name: str) -> bool:
        """Whether a lookup of this name is under way and takes long."""
        started = self._started_at.get(name)
        return started is not None and time.monotonic() > started + LOOKUP_SECONDS

    def results(self) -> list[LookupResult]:
        """The lookups that ended since the last call."""
        with suppress(BlockingIOError):
            while self._wake_reader.recv(1_024):
                pass
        results = []
        while self._results:
            result = self._results.popleft()
            del self._started_at[result.name]
            self._retry_at[result.name] = time.monotonic() + RETRY_SECONDS
            results.append(result)
        return results

    def close(self) -> None:
        """End the threads, each when its lookup is over. Does not wait for them."""
        for _ in range(self._threads):
            self._requests.put(None)
        self._wake_reader.close()
        self._wake_writer.close()

    def _work(self) -> None:
        while (name := self._requests.get()) is not None:
            self._results.append(_look_up(name))
            with suppress(OSError):  # closed meanwhile, or the loop is awake already
                self._wake_writer.send(b"\0")


def _look_up(name: str) -> LookupResult:
    """Ask the system. IPv4 comes first: most parties listen there."""
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return LookupResult(name, error=error.strerror or "it cannot be found")
    except Exception:  # such as a name that no name server accepts
        return LookupResult(name, error="it cannot be found")
    four = [str(where[0]) for family, *_, where in answers if family == socket.AF_INET]
    six = [f"[{where[0]}]" for family, *_, where in answers if family == socket.AF_INET6]
    hosts = tuple(dict.fromkeys([*four, *six]))[:_MOST_ADDRESSES]
    return LookupResult(name, hosts) if hosts else LookupResult(name, error="it has no address")
