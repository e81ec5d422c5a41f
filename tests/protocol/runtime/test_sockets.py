"""Which keys may connect, and how many others are reported."""

import zmq

from protocol.runtime.sockets import MAX_REPORTED_KEYS, Roster
from tests.support.builders import make_agreement


def test_each_unknown_key_is_reported_once_up_to_a_limit() -> None:
    """Repeated connections with unknown keys cannot fill a log."""
    lines: list[str] = []
    roster = Roster(make_agreement(), lines.append)
    keys = [zmq.curve_keypair()[0] for _ in range(MAX_REPORTED_KEYS + 5)]
    for key in keys * 2:
        assert not roster.callback("*", key)
    assert len(lines) == MAX_REPORTED_KEYS
    assert keys[0].decode() in lines[0]
