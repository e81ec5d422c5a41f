"""A member of a session, written from SPEC.md alone, that takes part with real parties.

Sockets from pyzmq, signatures from PyNaCl, the rest from the reference implementation. It does what
a member does if nothing goes wrong: no ledger, no faults, no private data. It takes part in
sessions whose releases can be read, and in exact sessions with totals. Never imports the product.
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
from tests.reference.masked_session import MaskedSession
from tests.reference.rounds import RoundEngine

HELLO, RELEASE, SEAL, MASK_KEY, COMMITMENT = 1, 2, 3, 5, 6
CONTRIBUTIONS = (RELEASE, MASK_KEY, COMMITMENT)
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
    #: What follows the signature of a commitment.
    proof: bytes
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
            elif len(frames) == 1 and frames[0][:1] != b"\1":  # 1: who is here, for operators
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
        self._demand = demand
        self._signing = SigningKey(bytes.fromhex(keys["signing_secret"]))
        self._names = [m.name for m in self.terms.members]
        self._me = self._names.index(keys["name"])
        self._masked = self.terms.reveal == "totals"
        self.engine = (
            MaskedSession(self.terms, self._me) if self._masked else RoundEngine(self.terms)
        )
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
        #: Messages by exchange and sender. Exchange 0 is that of round 0, or of the mask keys.
        self._boxes: dict[int, dict[int, Received]] = {}
        self._seals: dict[int, bytes] = {}
        self._complete: set[int] = set()
        self._newest: list[bytes] = []
        self._wait, self._sent_at = 0.1, 0.0
        #: The closed exchanges.
        self.transcript: list[list[bytes]] = []

    # What it says

    @property
    def _round(self) -> int:
        """The round of own messages: mask keys are in round 0, commitments after the last."""
        return max(0, len(self.transcript) - self._masked)

    def _signed(self, kind: int, body: bytes) -> bytes:
        key, number = bytes(self._signing.verify_key), self._round
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
        recorded = sum(self._me in found for found in self._boxes.values())
        ahead = [0 if k == self._me else self._ahead(k) for k in range(len(self._names))]
        self._owed, self._hello_at = False, time.monotonic()
        body = reference.hello_body(self._nonce, wants_reply, recorded, digest, echo, ahead)
        self._say(self._signed(HELLO, body))

    def _nonce_digest(self) -> bytes:
        return reference.nonce_digest([self._nonces[k] for k in range(len(self._names))])

    def _ahead(self, member: int) -> int:
        """How many messages of a member are stored beyond the closed exchanges."""
        if self._final:
            return int(member in self._seals)
        closed = len(self.transcript)
        later = [n + 1 - closed for n, found in self._boxes.items() if member in found]
        return max([0, *later])

    @property
    def _final(self) -> bool:
        """Whether only seals are left."""
        settled = not isinstance(self.engine, MaskedSession) or self.engine.adds_up is not None
        return self.engine.over and settled

    def _contribute(self) -> None:
        """The own message of this exchange."""
        kind, body, proof = RELEASE, b"", b""
        if isinstance(self.engine, MaskedSession) and not self.transcript:
            kind, body = MASK_KEY, self.engine.announcement()
        elif isinstance(self.engine, MaskedSession) and self.engine.over:
            kind, (body, proof) = COMMITMENT, self.engine.commitment()
        else:
            values = self._demand(self._round, self.engine.market.now)
            if isinstance(self.engine, MaskedSession):
                values = self.engine.released(values)
            body = reference.release_body(values)
        data = self._signed(kind, body) + proof
        own = Received(kind, self._me, self._round, self.engine.chain_hash, body, proof, data)
        self._boxes.setdefault(len(self.transcript), {})[self._me] = own
        self._newest = [*self._newest, data][-2:]
        self._say(data)

    # What it does

    def play(self, seconds: float) -> bytes:
        """Run until all have sealed and no peer needs this member; return the transcript."""
        until = time.monotonic() + seconds
        try:
            self._greet(until)
            while not self._final:
                self._contribute()
                self._until(until, lambda: len(self._present) == len(self._names))
                self._close()
            self._seal(until)
        finally:
            self._sockets.close()
        return b"sotto transcript 1\n" + reference.array(self._content())

    def _content(self) -> list[bytes]:
        """What a transcript holds, §11."""
        exchanges = [reference.array(list(map(reference.binary, row))) for row in self.transcript]
        seals = [reference.binary(self._seals[k]) for k in range(len(self._names))]
        content = [reference.binary(self._digest)]
        if not self._masked:
            return [*content, reference.array(exchanges), reference.array(seals)]
        keys, *rounds, commitments = exchanges
        return [*content, reference.array(rounds), reference.array(seals), keys, commitments]

    @property
    def _present(self) -> dict[int, Received]:
        return self._boxes.get(len(self.transcript), {})

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
        bodies, engine = [one.body for one in row], self.engine
        if row[0].kind == RELEASE:
            values = [list(struct.unpack(f">{len(body) // 8}q", body)) for body in bodies]
            if isinstance(engine, MaskedSession):
                engine.close_masked(values)
            else:
                engine.close(values)
        elif isinstance(engine, MaskedSession) and row[0].kind == MASK_KEY:
            engine.pair(bodies)
        elif isinstance(engine, MaskedSession):
            engine.commit(bodies, [one.proof for one in row])
        self.transcript.append([one.data for one in row])

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

    def claim(self, index: int) -> bytes:
        """The file of a claim to one number, after a session with totals."""
        assert isinstance(self.engine, MaskedSession)
        text = self.engine.claim_text(index)
        return text + self._signing.sign(text).signature

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
        start, size = {
            0xC4: (113, data[112]),
            0xC5: (114, int.from_bytes(data[112:114], "big")),
            0xC6: (116, int.from_bytes(data[112:116], "big")),
        }[data[111]]
        end = start + size
        body, signature, proof = data[start:end], data[end : end + 64], data[end + 64 :]
        if reference.payload(kind, key, digest, number, chain_hash, body) != data[:end]:
            return None
        if bool(proof) != (kind == COMMITMENT):
            return None
        VerifyKey(key).verify(reference.signed_text(data[:end]), signature)
        return Received(kind, members.index(key), number, chain_hash, body, proof, data)

    def _take(self, received: Received) -> None:
        exchange = received.round + self._masked - (received.kind == MASK_KEY)
        ahead = exchange - len(self.transcript)
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
        elif received.kind in CONTRIBUTIONS and ahead in (0, 1):
            self._boxes.setdefault(exchange, {}).setdefault(received.sender, received)
        elif received.kind == SEAL and ahead in (0, 1):
            if received.body == b"\1":
                self._complete.add(received.sender)
            else:
                self._seals.setdefault(received.sender, received.data)
        elif received.kind not in (*CONTRIBUTIONS, SEAL):
            raise AssertionError(f"{self._names[received.sender]} stops: {received.body.hex()}")
