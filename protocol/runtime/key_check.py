"""Answers libzmq, in a thread, whether a transport key may connect (ZAP, RFC 27 of ZeroMQ).

CURVE without such an answer lets in every key. pyzmq's own answer loads asyncio, which takes
longer than a handshake. The caller opens the socket. Never here: which keys may connect.
"""

import threading
from collections.abc import Callable
from typing import Any

ADDRESS = "inproc://zeromq.zap.01"
"""Where libzmq asks. The caller binds a REP socket there, before any socket with keys."""

_LOOK_MILLISECONDS = 50
_VERSION, _YES, _NO = b"1.0", (b"200", b"OK"), (b"400", b"unknown key")
_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


class KeyCheck:
    """Serves a REP socket until it is stopped. `allows` gets a key as in an agreement."""

    def __init__(self, socket: Any, allows: Callable[[bytes], bool]) -> None:
        self._socket = socket
        self._allows = allows
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keys", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with self._socket as socket:
            while not self._stopped.is_set():
                if socket.poll(_LOOK_MILLISECONDS):
                    socket.send_multipart(self._reply(socket.recv_multipart()))

    def _reply(self, request: list[bytes]) -> list[bytes]:
        """Allow a member's CURVE key and nothing else. A connection is known by its key."""
        number, mechanism, key = request[1], request[5:6], b"".join(request[6:])
        text = z85(key)
        allowed = request[:1] == [_VERSION] and mechanism == [b"CURVE"] and self._allows(text)
        return [_VERSION, number, *(_YES if allowed else _NO), text if allowed else b"", b""]


def z85(data: bytes) -> bytes:
    """Bytes as printable characters, five for each four (RFC 32 of ZeroMQ)."""
    digits = bytearray()
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        digits += bytes(_DIGITS[number // 85**power % 85] for power in range(4, -1, -1))
    return bytes(digits)
