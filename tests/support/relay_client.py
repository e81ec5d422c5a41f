"""What a client with a member's transport key can do at a relay: receive everything, and send."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zmq

from party import keys as identity
from protocol.agreement.address import address
from protocol.runtime.presence import MARK
from protocol.wire.codec import pack
from protocol.wire.framing import Batches
from protocol.wire.messages import Hello, Release
from tests.support.local_sessions import RunningSession
from tests.support.wait import LIMIT


def key_file(session: RunningSession, name: str) -> Path:
    return session.folder / name / f"{name}.key"


@contextmanager
def _socket(session: RunningSession, kind: int, name: str) -> Iterator[zmq.Socket[bytes]]:
    keys = identity.load(key_file(session, name))
    with zmq.Context() as context, context.socket(kind) as socket:
        socket.linger = 0
        socket.curve_publickey, socket.curve_secretkey = keys.transport_key, keys.transport_secret
        socket.curve_serverkey = session.agreement.transport.coordinator_key.encode()
        yield socket


@contextmanager
def recording(session: RunningSession, name: str = "party2") -> Iterator[list[bytes]]:
    """All messages that the relay publishes meanwhile, received with a member's transport key."""
    received: list[bytes] = []
    over = threading.Event()

    def listen() -> None:
        with _socket(session, zmq.SUB, name) as subscriber:
            subscriber.subscribe(b"")
            subscriber.connect(address(session.agreement.transport.coordinator, 1))
            while not over.is_set():
                if subscriber.poll(50):
                    frame = subscriber.recv()
                    if frame[:1] != MARK:
                        received.extend(Batches(session.agreement).messages(frame))

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield received
    finally:
        over.set()
        thread.join()


@contextmanager
def speaking(session: RunningSession, name: str = "party1") -> Iterator[zmq.Socket[bytes]]:
    """A publisher with the transport key of a member, once it is connected to the relay."""
    with _socket(session, zmq.XPUB, name) as publisher:
        publisher.connect(session.agreement.transport.coordinator)
        assert publisher.poll(int(LIMIT * 1000.0)), "the relay does not answer"
        yield publisher


def hello(session: RunningSession, name: str, *, number: int = 0) -> bytes:
    """A Hello that a member has signed; each number gives another one."""
    message = Hello(
        sender=name,
        agreement=session.agreement.digest,
        round=0,
        chain_hash=bytes(32),
        nonce=number.to_bytes(16, "big"),
        wants_reply=False,
        recorded=0,
        nonce_digest=bytes(32),
    )
    return identity.load(key_file(session, name)).pack(message).data


def forged(session: RunningSession, name: str, number: int) -> bytes:
    """A release in a member's name with an invalid signature."""
    [member] = [m for m in session.agreement.members if m.name == name]
    message = Release(
        sender=name,
        agreement=session.agreement.digest,
        round=number,
        chain_hash=bytes(32),
        values=(0,) * session.agreement.width,
    )
    return pack(message, key=member.signing_key, sign=lambda _: bytes(64)).data
