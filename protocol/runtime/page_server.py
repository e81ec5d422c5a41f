"""Serves a page that follows a session to browsers on this machine only.

It listens on loopback, and answers only under its own name and at its secret address. Metrics and
health for a monitor stand beside the page, under the same conditions. The session
never waits for a reader: a slow one is dropped. A new connection is always accepted, so that idle
connections cannot keep the owner out. Never here: what the page shows.
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
"""The shortest time between two updates. Drawing a page takes time from the session."""

BEAT_SECONDS = 5.0
"""After this time without an update a reader gets an empty line, which shows whether it is gone."""

PATIENCE_SECONDS = 5.0
"""A reader that reads nothing, or requests nothing, for this long is dropped."""

HUNG_SECONDS = 30.0
"""A program that has reported that it works counts as failed after this silence."""

READERS = 32
"""Connections at a time. One more replaces the oldest that has not requested the page or its
updates, or else the oldest."""

RETRY_MILLISECONDS = 1_000
"""A browser that has lost its connection tries again after this time."""

HOST = "127.0.0.1"

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format."""

_CLOSING_SECONDS = 1.0  # for the last update to be sent

_HEADERS = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address may hold a secret
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class PageSource(Protocol):
    """What the page shows. The server reads it in other threads than the session changes it."""

    @property
    def version(self) -> int:
        """Grows with every change."""

    def page(self) -> str:
        """The whole page as it is now."""

    def news(self) -> str:
        """Everything on the page that changes, in one line. It never depends on earlier news."""

    def metrics(self) -> str:
        """The session in Prometheus' text format."""

    def health(self) -> tuple[bool, str]:
        """Whether the process works, and a line of JSON about it."""


class PageServer:
    """Serves a page until it is closed. `port` 0 is any free port.

    *Guarantee:* with a `secret`, requests without it see nothing, and the time of the comparison
    tells nothing about it.
    """

    def __init__(self, source: PageSource, *, port: int, secret: str = "") -> None:
        try:
            self._server = _Server(source, port, f"/{secret}/" if secret else "/")
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "there is no such port"
            raise BadCommand(
                f"--page {port}: the page cannot be opened: {reason}; choose another port"
            ) from None
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": LOOK_SECONDS}, daemon=True
        ).start()

    @property
    def address(self) -> str:
        """Where a browser finds the page. It contains the secret."""
        return f"http://{HOST}:{self._server.port}{self._server.root}"

    @property
    def readers(self) -> int:
        """The number of open connections."""
        return len(self._server.connections)

    def beat(self) -> None:
        """The program works. After the first such report, a health check expects more of them."""
        self._server.beat_at = time.monotonic()

    def close(self) -> None:
        """Send the last update to readers that accept it at once, and stop."""
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

    def __init__(self, source: PageSource, port: int, root: str) -> None:
        self.root = root
        self.closing = threading.Event()
        #: Open connections, oldest first, and whether each has requested anything.
        self.connections: dict[Any, bool] = {}
        self.source = source
        #: When the program last said that it works; infinite if it never does.
        self.beat_at = float("inf")
        self._lock = threading.Lock()
        #: The newest update with its version, drawn once for all readers.
        self._drawn: tuple[int, bytes] = (-1, b"")
        super().__init__((HOST, port), _Request)
        self.port: int = self.server_address[1]

    def news(self) -> tuple[int, bytes]:
        """Return the newest version and its update."""
        with self._lock:
            version = self.source.version
            if version != self._drawn[0]:
                self._drawn = version, self.source.news().encode()
            return self._drawn

    def mark_active(self, connection: Any) -> None:
        """Note that a connection has requested the page, so that idle ones are closed before it."""
        with self._lock:
            if connection in self.connections:
                self.connections[connection] = True

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            replaced = None
            if len(self.connections) >= READERS:
                idle = (other for other, active in self.connections.items() if not active)
                replaced = next(idle, next(iter(self.connections)))
                del self.connections[replaced]
            self.connections[request] = False
        if replaced is not None:
            with suppress(OSError):  # its own thread closes it
                replaced.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self.connections.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore it: a reader may leave at any time."""


class _Request(BaseHTTPRequestHandler):
    """One request: for the page, its updates, metrics or health, or not found."""

    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_SECONDS

    def do_GET(self) -> None:
        asked = [name for name in ("", "events", "metrics", "healthz") if self._is_path(name)]
        if not asked or not self._is_for_this_host():
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.server.mark_active(self.request)
        source, status = self.server.source, HTTPStatus.OK
        if asked == ["events"]:
            self._send_updates()
        elif asked == ["metrics"]:
            self._send(status, METRICS_TYPE, source.metrics().encode())
        elif asked == ["healthz"]:
            works, text = source.health()
            if not works or time.monotonic() > self.server.beat_at + HUNG_SECONDS:
                status = HTTPStatus.SERVICE_UNAVAILABLE
            self._send(status, "application/json", text.encode())
        else:
            self._send(status, "text/html; charset=utf-8", source.page().encode())

    def _is_for_this_host(self) -> bool:
        """Whether the browser used a name of this machine: other names may resolve to it too."""
        names = (f"{HOST}:{self.server.port}", f"localhost:{self.server.port}")
        return self.headers.get_all("Host", []) in [[name] for name in names]

    def _is_path(self, name: str) -> bool:
        expected = (self.server.root + name).encode()
        return hmac.compare_digest(self.path.encode("latin-1"), expected)

    def _send_updates(self) -> None:
        """Send updates while the reader accepts them, and the newest one before the end."""
        self.send_response(HTTPStatus.OK)
        self._send_headers("text/event-stream; charset=utf-8")
        self.wfile.write(f"retry: {RETRY_MILLISECONDS}\n\n".encode())
        sent, sent_at = -1, time.monotonic()
        closing = False
        while not closing:
            closing = self.server.closing.wait(LOOK_SECONDS if sent >= 0 else 0.0)
            if self.server.source.version != sent:
                sent, news = self.server.news()
                self.wfile.write(b"id: %d\ndata: %s\n\n" % (sent, news))
                sent_at = time.monotonic()
            elif time.monotonic() >= sent_at + BEAT_SECONDS:
                self.wfile.write(b":\n\n")
                sent_at = time.monotonic()

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self._send_headers(kind)
        self.wfile.write(content)

    def _send_headers(self, kind: str) -> None:
        self.send_header("Content-Type", kind)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Send an error that repeats nothing of the request."""
        with suppress(OSError):
            self._send(HTTPStatus(code), "text/plain; charset=utf-8", b"there is nothing here\n")

    def version_string(self) -> str:
        return "sotto"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: addresses may contain a secret."""

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()
