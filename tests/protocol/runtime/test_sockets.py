"""Which keys may connect, how many others are reported, and how long a frame may be."""

import zmq

from protocol.runtime.sockets import MAX_REPORTED_KEYS, Roster, publisher_options, socket_options
from protocol.wire.codec import max_message_bytes
from protocol.wire.framing import Batches
from tests.support.builders import make_agreement

AWAIT_MILLISECONDS = 20_000


def test_each_unknown_key_is_reported_once_up_to_a_limit() -> None:
    """Repeated connections with unknown keys cannot fill a log."""
    lines: list[str] = []
    roster = Roster(make_agreement(), lines.append)
    keys = [zmq.curve_keypair()[0] for _ in range(MAX_REPORTED_KEYS + 5)]
    for key in keys * 2:
        assert not roster.callback("*", key)
    assert len(lines) == MAX_REPORTED_KEYS
    assert keys[0].decode() in lines[0]


def test_the_longest_batch_arrives_and_keeps_the_connection() -> None:
    """A batch of the longest size passes the limit of a socket, encrypted as it is.

    A frame above the limit closes the connection of every member that the relay sends it to.
    """
    agreement = make_agreement(members=5, resources=2)
    longest = max_message_bytes(agreement)
    first = b"\x97" * 300
    messages = [first, b"\x97" * (longest - len(first) - 9)]
    [batch] = Batches(agreement).frames(messages)
    assert len(batch) == longest
    public, secret = zmq.curve_keypair()
    with zmq.Context() as context, context.socket(zmq.XPUB) as relay, context.socket(zmq.SUB) as me:
        for name, value in publisher_options(agreement).items():
            setattr(relay, name, value)
        relay.curve_server, relay.curve_secretkey = True, secret
        for name, value in socket_options(agreement).items():
            setattr(me, name, value)
        me.curve_publickey, me.curve_secretkey = zmq.curve_keypair()
        me.curve_serverkey = public
        port = relay.bind_to_random_port("tcp://127.0.0.1")
        me.subscribe(b"")
        me.connect(f"tcp://127.0.0.1:{port}")
        while not relay.poll(20):  # the subscription, which leaves when `me` is looked at
            assert not me.poll(20)
        for frame in (batch, first):
            relay.send(frame)
            assert me.poll(AWAIT_MILLISECONDS)
            assert me.recv() == frame
