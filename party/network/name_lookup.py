"""Looks up host names of the agreement beside the loop of a party.

libzmq would look a name up in its only IO thread, and one slow name server would then hold up
every connection of the party. So libzmq is given numeric addresses only, and names are looked
up in threads of their own. A lookup that hangs takes one of a few threads. Never blocks the
caller. Knows names and addresses, and nothing of a session.
"""

import queue
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

LOOK_UP_SECONDS = 5.0
"""After this many seconds a lookup counts as slow, and the operator is told."""

AGAIN_SECONDS = 5.0
"""Pause between two lookups of one name."""

_AT_ONCE = 8
_ADDRESSES = 8  # of one name that are tried


@dataclass(frozen=True)
class Found:
    """What a lookup has brought: hosts as they stand in an address, or what went wrong."""

    name: str
    hosts: tuple[str, ...] = ()
    trouble: str = ""


class Names:
    """Lookups of host names, at most one at a time for each name."""

    def __init__(self) -> None:
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._rope.setblocking(False)
        self._wanted: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._results: deque[Found] = deque()
        self._begun: dict[str, float] = {}
        self._again_at: dict[str, float] = {}
        self._threads = 0

    def fileno(self) -> int:
        """Becomes readable when `found` has something to tell."""
        return self._bell.fileno()

    def seek(self, name: str) -> None:
        """Look a name up, unless that is under way or was done a moment ago. Returns at once."""
        now = time.monotonic()
        if name in self._begun or now < self._again_at.get(name, now):
            return
        self._begun[name] = now
        self._wanted.put(name)
        if self._threads < min(_AT_ONCE, len(self._begun)):
            with suppress(RuntimeError):  # no room for one more thread: those that run go on
                threading.Thread(target=self._look_up, name="names", daemon=True).start()
                self._threads += 1

    def slow(self, name: str) -> bool:
        """Whether a lookup of this name is under way and takes long."""
        begun = self._begun.get(name)
        return begun is not None and time.monotonic() > begun + LOOK_UP_SECONDS

    def found(self) -> list[Found]:
        """What has been looked up since the last call."""
        with suppress(BlockingIOError):
            while self._bell.recv(1_024):
                pass
        found = []
        while self._results:
            result = self._results.popleft()
            del self._begun[result.name]
            self._again_at[result.name] = time.monotonic() + AGAIN_SECONDS
            found.append(result)
        return found

    def close(self) -> None:
        """End the threads, each when its lookup is over. Does not wait for them."""
        for _ in range(self._threads):
            self._wanted.put(None)
        self._bell.close()
        self._rope.close()

    def _look_up(self) -> None:
        while (name := self._wanted.get()) is not None:
            self._results.append(_looked_up(name))
            with suppress(OSError):  # closed meanwhile, or it rings already
                self._rope.send(b"\0")


def _looked_up(name: str) -> Found:
    """Ask the system. IPv4 comes first: there most parties listen."""
    try:
        told = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return Found(name, trouble=error.strerror or "it cannot be found")
    except Exception:  # such as a name that no name server takes
        return Found(name, trouble="it cannot be found")
    four = [str(where[0]) for family, *_, where in told if family == socket.AF_INET]
    six = [f"[{where[0]}]" for family, *_, where in told if family == socket.AF_INET6]
    hosts = tuple(dict.fromkeys([*four, *six]))[:_ADDRESSES]
    return Found(name, hosts) if hosts else Found(name, trouble="it has no address")
