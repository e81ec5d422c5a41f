"""A member of a session, written from SPEC.md alone, that takes part with real parties.

Sockets from pyzmq, signatures from PyNaCl, the rest from the reference implementation. It does what
a member does if nothing goes wrong: no ledger, no faults, no private data. Never imports the
product.
"""

import json
import os
import struct
import time
import tomllib
from collections.abc import Callable
from typing import NamedTuple

import zmq
from nacl.signing import SigningKey, VerifyKey
from zmq.auth.thread import ThreadAuthenticator

from tests.reference import codec as reference
from tests.reference.agreement import terms
from tests.reference.rounds import RoundEngine

HELLO, RELEASE, SEAL = 1, 2, 3
NO_NONCE = bytes(16)

Demand = Callable[[int, list[float]], list[int]]
"""What to release, in ticks, from the number of the round and its prices."""


class Received(NamedTuple):
    """A decoded message."""

    kind: int
    sender: int
    round: int
    chain_hash: bytes
    body: bytes
    data: bytes


class Roster:
    """Accepts the transport keys of the members only."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = {key.encode() for key in keys}

    def callback(self, domain: str, key: bytes) -> bool:  # noqa: ARG002 - pyzmq's interface
        return key in self._keys


class Sockets:
    """§16: how a member reaches the others, in both topologies."""

    def __init__(self, table: dict, name: str, secret: bytes) -> None:  # type: ignore[type-arg]
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._secret = secret
        self._keys = {m["name"]: m["transport_key"] for m in table["member"]}
        self._me = name
        transport = table["transport"]
        self._places: dict[str, str] = {}
        self._ears: list[zmq.Socket[bytes]] = []
        self._guard: ThreadAuthenticator | None = None
        self._desk: zmq.Socket[bytes] | None = None
        self._introduced_at = 0.0
        place, key = transport["coordinator"], transport["coordinator_key"]
        if transport.get("topology", "relay") == "relay":
            start, _, port = place.rpartition(":")
            self._mouth = self._client(zmq.PUB, key, place)
            self._listen(self._client(zmq.SUB, key, f"{start}:{int(port) + 1}"))
        else:
            self._guard = ThreadAuthenticator(self._context)
            self._guard.start()
            self._guard.configure_curve_callback("*", Roster(list(self._keys.values())))
            self._mouth = self._socket(zmq.PUB)
            self._mouth.curve_server = True
            self._mouth.bind("tcp://127.0.0.1:*")
            self._desk = self._client(zmq.DEALER, key, place)

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        socket.linger = 500
        socket.curve_secretkey = self._secret
        socket.curve_publickey = zmq.curve_public(self._secret)
        return socket

    def _client(self, kind: int, server: str, place: str) -> zmq.Socket[bytes]:
        socket = self._socket(kind)
        socket.curve_serverkey = server.encode()
        socket.connect(place)
        return socket

    def _listen(self, ear: zmq.Socket[bytes]) -> None:
        ear.subscribe(b"")
        self._ears.append(ear)

    def say(self, data: bytes, *, seal: bool) -> None:
        self._mouth.send(data)
        if seal and self._desk is not None:
            self._desk.send(data)

    def receive(self, seconds: float) -> list[bytes]:
        """The messages that arrive within this time."""
        poller = zmq.Poller()
        for socket in (*self._ears, *([self._desk] if self._desk else [])):
            poller.register(socket, zmq.POLLIN)
        received = []
        for socket, _ in poller.poll(int(seconds * 1000.0)):
            frames = socket.recv_multipart()
            if socket is self._desk:
                self._meet(frames[0])
            elif len(frames) == 1:
                received += reference.unbatched(frames[0])
        self._introduce()
        return received

    def _introduce(self) -> None:
        if self._desk is None:
            return
        lonely = len(self._places) < len(self._keys) - 1
        if time.monotonic() >= self._introduced_at + (0.5 if lonely else 10.0):
            self._introduced_at = time.monotonic()
            address = bytes(self._mouth.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0")
            self._desk.send(string(address))

    def _meet(self, frame: bytes) -> None:
        for name, place in string_map(frame).items():
            if name != self._me and name in self._keys and name not in self._places:
                self._places[name] = place
                self._listen(self._client(zmq.SUB, self._keys[name], place))

    def close(self) -> None:
        if self._guard is not None:
            self._guard.stop()
        self._context.destroy()


def string(text: bytes) -> bytes:
    """A short msgpack str."""
    return (bytes([0xA0 | len(text)]) if len(text) < 32 else bytes([0xD9, len(text)])) + text


def string_map(data: bytes) -> dict[str, str]:
    """A msgpack map of fewer than 16 short strings."""
    at, words = 1, []
    for _ in range(2 * (data[0] & 15)):
        size, at = (data[at + 1], at + 2) if data[at] == 0xD9 else (data[at] & 31, at + 1)
        words.append(data[at : at + size].decode())
        at += size
    return dict(zip(words[::2], words[1::2], strict=True))


class Member:
    """One run of a member, from agreement and key file to the transcript."""

    def __init__(self, agreement: str, key_file: str, demand: Demand) -> None:
        table, keys = tomllib.loads(agreement), json.loads(key_file)
        self.terms = terms(table)
        self.engine = RoundEngine(self.terms)
        self._demand = demand
        self._signing = SigningKey(bytes.fromhex(keys["signing_secret"]))
        self._names = [m.name for m in self.terms.members]
        self._me = self._names.index(keys["name"])
        self._peers = set(range(len(self._names))) - {self._me}
        self._digest = reference.agreement_digest(reference.canonical(self.terms))
        self._sockets = Sockets(table, keys["name"], keys["transport_secret"].encode())
        self._nonce = os.urandom(16)
        self._nonces = dict.fromkeys(range(len(self._names)), NO_NONCE) | {self._me: self._nonce}
        self._unclear: dict[int, bytes] = {}
        self._asked: dict[int, bytes] = {}
        self._answered: set[int] = set()
        self._owed = False
        self._hello_at = 0.0
        self._releases: dict[int, dict[int, bytes]] = {}
        self._values: dict[bytes, list[int]] = {}
        self._seals: dict[int, bytes] = {}
        self._complete: set[int] = set()
        self._newest: list[bytes] = []
        self._wait, self._sent_at = 0.1, 0.0
        self.transcript: list[list[bytes]] = []

    # What it says

    def _signed(self, kind: int, body: bytes) -> bytes:
        key, number = bytes(self._signing.verify_key), len(self.transcript)
        payload = reference.payload(kind, key, self._digest, number, self.engine.chain_hash, body)
        return payload + self._signing.sign(reference.signed_text(payload)).signature

    def _say(self, data: bytes, *, seal: bool = False) -> None:
        self._sent_at = time.monotonic()
        self._sockets.say(data, seal=seal)

    def _hello(self, *, wants_reply: bool) -> None:
        digest = self._nonce_digest()
        apart = [k for k, theirs in self._asked.items() if theirs != digest]
        echo = self._nonces[apart[0]] if apart else NO_NONCE
        self._asked = {k: self._asked[k] for k in apart[1:]}
        recorded = sum(self._me in found for found in self._releases.values())
        ahead = [0 if k == self._me else self._ahead(k) for k in range(len(self._names))]
        self._owed, self._hello_at = False, time.monotonic()
        body = reference.hello_body(self._nonce, wants_reply, recorded, digest, echo, ahead)
        self._say(self._signed(HELLO, body))

    def _nonce_digest(self) -> bytes:
        return reference.nonce_digest([self._nonces[k] for k in range(len(self._names))])

    def _ahead(self, member: int) -> int:
        """How many messages of a member are stored beyond the closed rounds."""
        if self.engine.over:
            return int(member in self._seals)
        closed = len(self.transcript)
        later = [n + 1 - closed for n, found in self._releases.items() if member in found]
        return max([0, *later])

    def _release(self) -> None:
        number = len(self.transcript)
        values = self._demand(number, self.engine.market.now)
        data = self._signed(RELEASE, reference.release_body(values))
        self._values[data] = values
        self._releases.setdefault(number, {})[self._me] = data
        self._newest = [*self._newest, data][-2:]
        self._say(data)

    # What it does

    def play(self, seconds: float) -> bytes:
        """Run until all have sealed and no peer needs this member; return the transcript."""
        until = time.monotonic() + seconds
        try:
            self._greet(until)
            while not self.engine.over:
                self._release()
                self._until(until, lambda: len(self._present) == len(self._names))
                self._close()
            self._seal(until)
        finally:
            self._sockets.close()
        rounds = [reference.array([reference.binary(d) for d in row]) for row in self.transcript]
        seals = [reference.binary(self._seals[k]) for k in range(len(self._names))]
        content = [reference.binary(self._digest), reference.array(rounds), reference.array(seals)]
        return b"sotto transcript 1\n" + reference.array(content)

    @property
    def _present(self) -> dict[int, bytes]:
        return self._releases.get(len(self.transcript), {})

    def _greet(self, until: float) -> None:
        self._hello(wants_reply=True)
        while self._answered < self._peers:
            self._look(until)
            if time.monotonic() >= self._sent_at + self._wait:
                self._wait = min(2.0 * self._wait, 1.6)
                self._hello(wants_reply=True)
        if self._owed:
            self._hello(wants_reply=True)

    def _close(self) -> None:
        row = [self._present[k] for k in range(len(self._names))]
        self.engine.close([self._values[data] for data in row])
        self.transcript.append(row)

    def _seal(self, until: float) -> None:
        first = self._signed(SEAL, b"\0")
        self._seals[self._me] = first
        self._newest = [*self._newest[-1:], first]
        self._say(first, seal=True)
        self._until(until, lambda: len(self._seals) == len(self._names))
        last = self._signed(SEAL, b"\1")
        self._newest.append(last)
        self._say(last, seal=True)
        leave = min(until, time.monotonic() + 5.0)
        self._until(until, lambda: self._complete == self._peers or time.monotonic() > leave)

    def _until(self, until: float, done: Callable[[], bool]) -> None:
        self._wait = 0.1
        while not done():
            self._look(until)
            if time.monotonic() >= self._sent_at + self._wait:
                self._wait = min(2.0 * self._wait, 1.6)
                for data in self._newest:
                    self._say(data)

    def _look(self, until: float) -> None:
        if time.monotonic() > until:
            raise TimeoutError(f"nothing moves in round {len(self.transcript)}")
        for data in self._sockets.receive(0.02):
            received = self._read(data)
            if received is not None and received.sender != self._me:
                self._take(received)
        if self._owed and time.monotonic() >= self._hello_at + 0.05:
            self._hello(wants_reply=self._answered < self._peers)

    # What it receives

    def _read(self, data: bytes) -> Received | None:
        """§2, for messages of this agreement; a Halt is not expected, and fails."""
        if len(data) < 178 or data[:2] != b"\x97\x02":
            return None
        kind, key, digest = data[2], data[5:37], data[39:71]
        number, chain_hash = struct.unpack(">I", data[73:77])[0], data[79:111]
        members = [m.signing_key for m in self.terms.members]
        if digest != self._digest or key not in members:
            return None
        body = data[{0xC4: 113, 0xC5: 114, 0xC6: 116}[data[111]] : -64]
        if reference.payload(kind, key, digest, number, chain_hash, body) != data[:-64]:
            return None
        VerifyKey(key).verify(reference.signed_text(data[:-64]), data[-64:])
        return Received(kind, members.index(key), number, chain_hash, body, data)

    def _take(self, received: Received) -> None:
        ahead = received.round - len(self.transcript)
        if received.kind == HELLO:
            self._nonces[received.sender] = received.body[:16]
            if received.body[16] == 1:
                self._owed = True
                self._asked.pop(received.sender, None)
                self._asked[received.sender] = received.body[21:53]
            self._unclear[received.sender] = received.body
            digest = self._nonce_digest()
            for sender, body in list(self._unclear.items()):
                if digest == body[21:53] or self._nonce == body[53:69]:
                    self._answered.add(sender)
        elif received.kind == RELEASE and ahead in (0, 1):
            values = struct.unpack(f">{len(received.body) // 8}q", received.body)
            self._values[received.data] = list(values)
            self._releases.setdefault(received.round, {}).setdefault(received.sender, received.data)
        elif received.kind == SEAL and ahead in (0, 1):
            if received.body == b"\1":
                self._complete.add(received.sender)
            else:
                self._seals.setdefault(received.sender, received.data)
        elif received.kind not in (RELEASE, SEAL):
            raise AssertionError(f"{self._names[received.sender]} stops: {received.body.hex()}")
