"""A page that moves with a session, served to browsers on this machine and to nobody else.

It listens on loopback only, and answers only under the name and at the secret address that it was
given. The session never waits for a reader: one that is slow or gone is dropped. A newcomer is
always let in, so that idle connections in any number cannot keep the owner out.
Knows nothing of what it shows. An edge of the package, like the command line.
"""

import hmac
import socket
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Protocol

from protocol.errors import BadCommand

LOOK_SECONDS = 0.25
"""How often a reader is told what is new, at most: to draw a page takes time from the session."""

BEAT_SECONDS = 5.0
"""After so long without news a reader is sent a sign of life, which also finds out who is gone."""

PATIENCE_SECONDS = 5.0
"""A reader that takes nothing, or asks for nothing, for so long is dropped."""

READERS = 32
"""Connections at a time. One more takes the place of the oldest that has not asked for a page or
its news, or else of the oldest."""

RETRY_MILLISECONDS = 1_000
"""After so long a browser whose connection was lost asks again."""

HOST = "127.0.0.1"

_CLOSING_SECONDS = 1.0  # for the last news to leave

_HEADERS = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address may hold a secret
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Watched(Protocol):
    """What is shown. It is asked in other threads than it is changed in."""

    @property
    def version(self) -> int:
        """Grows with every change."""

    def page(self) -> str:
        """The whole page, as it is now."""

    def news(self) -> str:
        """All that moves on it, as it is now, in one line: who missed something misses nothing."""


class PageServer:
    """Serves a page until it is closed. `port` 0 is any that is free.

    Guarantee: with a `secret` nothing is shown to whom does not name it, and how it is compared
    tells nothing about it.
    """

    def __init__(self, watched: Watched, *, port: int, secret: str = "") -> None:
        try:
            self._server = _Server(watched, port, f"/{secret}/" if secret else "/")
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "there is no such port"
            raise BadCommand(f"--page {port}: no page can be opened there: {why}") from None
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": LOOK_SECONDS}, daemon=True
        ).start()

    @property
    def address(self) -> str:
        """Where a browser finds the page. As secret as its secret."""
        return f"http://{HOST}:{self._server.port}{self._server.root}"

    @property
    def readers(self) -> int:
        """Connections that are open."""
        return self._server.readers

    def close(self) -> None:
        """Tell all readers the last news, as far as they take it at once, and end."""
        self._server.closing.set()
        until = time.monotonic() + _CLOSING_SECONDS
        while self.readers and time.monotonic() < until:
            time.sleep(0.01)
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingMixIn, TCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, watched: Watched, port: int, root: str) -> None:
        self.root = root
        self.closing = threading.Event()
        self._visits: dict[Any, bool] = {}  # connections, oldest first: whether one has asked
        self._watched = watched
        self._lock = threading.Lock()
        self._drawn: tuple[int, bytes] = (-1, b"")
        super().__init__((HOST, port), _Visit)
        self.port: int = self.server_address[1]

    def page(self) -> bytes:
        return self._watched.page().encode()

    @property
    def version(self) -> int:
        return self._watched.version

    def news(self) -> tuple[int, bytes]:
        """The newest version, drawn once for all readers."""
        with self._lock:
            version = self._watched.version
            if version != self._drawn[0]:
                self._drawn = version, self._watched.news().encode()
            return self._drawn

    @property
    def readers(self) -> int:
        return len(self._visits)

    def asked(self, request: Any) -> None:
        """A reader has asked for what there is: it goes after those that have not."""
        with self._lock:
            if request in self._visits:
                self._visits[request] = True

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            gone = None
            if len(self._visits) >= READERS:
                idle = (visit for visit, asked in self._visits.items() if not asked)
                gone = next(idle, next(iter(self._visits)))
                del self._visits[gone]
            self._visits[request] = False
        if gone is not None:
            with suppress(OSError):  # its own thread closes it
                gone.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._visits.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that has gone away is nobody's error."""


class _Visit(BaseHTTPRequestHandler):
    """One request. Whatever is not the page or its news is not there."""

    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_SECONDS

    def do_GET(self) -> None:
        page, events = (self._asks_for(place) for place in ("", "events"))
        if not self._by_name():
            page = events = False
        if events or page:
            self.server.asked(self.request)
        if events:
            self._tell()
        elif page:
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page())
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _by_name(self) -> bool:
        """Whether the browser meant this machine: a name of somebody else may lead here too."""
        names = (f"{HOST}:{self.server.port}", f"localhost:{self.server.port}")
        return self.headers.get_all("Host", []) in [[name] for name in names]

    def _asks_for(self, place: str) -> bool:
        expected = (self.server.root + place).encode()
        return hmac.compare_digest(self.path.encode("latin-1"), expected)

    def _tell(self) -> None:
        """Send what is new as long as the reader takes it, and the newest when all is over."""
        self.send_response(HTTPStatus.OK)
        self._head("text/event-stream; charset=utf-8")
        self.wfile.write(f"retry: {RETRY_MILLISECONDS}\n\n".encode())
        told, told_at = -1, time.monotonic()
        last = False
        while not last:
            last = self.server.closing.wait(LOOK_SECONDS if told >= 0 else 0.0)
            if self.server.version != told:
                told, news = self.server.news()
                self.wfile.write(b"id: %d\ndata: %s\n\n" % (told, news))
                told_at = time.monotonic()
            elif time.monotonic() >= told_at + BEAT_SECONDS:
                self.wfile.write(b":\n\n")
                told_at = time.monotonic()

    def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self._head(kind)
        self.wfile.write(content)

    def _head(self, kind: str) -> None:
        self.send_header("Content-Type", kind)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Nothing of what was asked for is said again."""
        with suppress(OSError):
            self._answer(HTTPStatus(code), "text/plain; charset=utf-8", b"there is nothing here\n")

    def version_string(self) -> str:
        return "sotto"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Addresses may hold a secret, and belong in no log."""

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()
