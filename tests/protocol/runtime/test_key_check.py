"""Who may connect: the real library asks, and members' keys alone get in."""

import random
from collections.abc import Iterator

import pytest
import zmq
from zmq.utils import z85 as reference

from protocol.runtime.key_check import ADDRESS, KeyCheck, z85
from tests.support.wait import LIMIT

MEMBER, STRANGER = zmq.curve_keypair(), zmq.curve_keypair()
SERVER = zmq.curve_keypair()


@pytest.fixture
def context() -> Iterator["zmq.Context[zmq.Socket[bytes]]"]:
    """A context in which one key may connect."""
    with zmq.Context() as opened:
        questions = opened.socket(zmq.REP)
        questions.bind(ADDRESS)
        keys = KeyCheck(questions, MEMBER[0].__eq__)
        yield opened
        keys.stop()


@pytest.mark.parametrize(
    ("keys", "verdict"),
    [
        pytest.param(MEMBER, zmq.Event.HANDSHAKE_SUCCEEDED, id="member"),
        pytest.param(STRANGER, zmq.Event.HANDSHAKE_FAILED_AUTH, id="stranger"),
    ],
)
def test_a_member_is_let_in_under_its_key_and_a_stranger_is_not(
    context: "zmq.Context[zmq.Socket[bytes]]", keys: tuple[bytes, bytes], verdict: zmq.Event
) -> None:
    """A message shows the key whose owner sent it."""
    with context.socket(zmq.PULL) as server, context.socket(zmq.PUSH) as client:
        server.linger = client.linger = 0
        server.curve_secretkey, server.curve_server = SERVER[1], True
        port = server.bind_to_random_port("tcp://127.0.0.1")
        client.curve_publickey, client.curve_secretkey = keys
        client.curve_serverkey = SERVER[0]
        ends = zmq.Event.HANDSHAKE_SUCCEEDED | zmq.Event.HANDSHAKE_FAILED_AUTH
        with client.get_monitor_socket(ends) as events:
            client.connect(f"tcp://127.0.0.1:{port}")
            assert events.poll(int(1000 * LIMIT))
            assert int.from_bytes(events.recv_multipart()[0][:2], "little") == verdict
            client.disable_monitor()
        if keys is MEMBER:
            client.send(b"something")
            assert server.recv(copy=False).get("User-Id") == MEMBER[0].decode()


@pytest.mark.parametrize("mechanism", [b"NULL", b"PLAIN", b"curve", b""])
@pytest.mark.parametrize("version", [b"1.0", b"2.0"])
def test_only_curve_is_let_in(
    context: "zmq.Context[zmq.Socket[bytes]]", mechanism: bytes, version: bytes
) -> None:
    """A member's key does not count in another mechanism."""
    with context.socket(zmq.REQ) as asker:
        asker.connect(ADDRESS)
        key = reference.decode(MEMBER[0])
        asker.send_multipart([version, b"7", b"", b"127.0.0.1", b"", mechanism, key])
        assert asker.recv_multipart()[1:3] == [b"7", b"400"]


def test_keys_are_written_as_in_an_agreement() -> None:
    """Our text of a key equals that of pyzmq."""
    draw = random.Random(1)
    for _ in range(100):
        key = draw.randbytes(32)
        assert z85(key) == reference.encode(key)
