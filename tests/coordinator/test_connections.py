"""Which members have an open connection, as real sockets show it."""

from contextlib import closing

import zmq

from coordinator.connections import Connections
from tests.support.wait import LIMIT, until

MILLISECONDS = int(LIMIT * 1000.0)


def test_a_member_that_connects_again_at_once_is_not_gone() -> None:
    """The new connection has the number of the old one, whose end is read after the message."""
    with (
        zmq.Context() as context,
        context.socket(zmq.PULL) as server,
        closing(Connections(server)) as connections,
    ):
        port = server.bind_to_random_port("tcp://127.0.0.1")
        numbers = []
        for _ in range(10):
            with context.socket(zmq.PUSH) as client:
                client.connect(f"tcp://127.0.0.1:{port}")
                client.send(b"hello")
                assert server.poll(MILLISECONDS), "the message came"
                frame = server.recv(copy=False)
                numbers.append(frame.get(zmq.SRCFD))
                connections.brought(frame, "ada")
                assert connections.gone() == []
            assert connections.events.poll(MILLISECONDS), "the connection was closed"
        assert len(set(numbers)) < len(numbers), "a number was used again"
        until(lambda: connections.gone() == ["ada"], "its last connection is gone")
