"""What a party tells of the peers that it cannot reach."""

import zmq

from party.link import Watch


def test_a_peer_that_moves_all_the_time_fills_no_log() -> None:
    """The first place that cannot be used is told at once, and not each one after it."""
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        watch = Watch(socket, "'ada'")
        try:
            watch.connect("tcp://a b:99999")
            [told] = watch.news()
            more = []
            for port in range(100_000, 101_000):
                watch.connect(f"tcp://a b:{port}")
                more += watch.news()
        finally:
            watch.close()
            watch.socket.close()
        assert told.startswith("cannot reach 'ada' at tcp://a b:99999: ")
        assert len(more) < 10
