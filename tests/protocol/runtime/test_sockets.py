"""What sockets must be like: who is let in, and how much is said about the others."""

import zmq

from protocol.runtime.sockets import STRANGERS_TOLD, Roster
from tests.support.builders import make_agreement


def test_each_stranger_is_named_once_and_only_so_many() -> None:
    """However often strangers come, what is written about them has an end."""
    told: list[str] = []
    roster = Roster(make_agreement(), told.append)
    keys = [zmq.curve_keypair()[0] for _ in range(STRANGERS_TOLD + 5)]
    for key in keys * 2:
        assert not roster.callback("*", key)
    assert len(told) == STRANGERS_TOLD
    assert keys[0].decode() in told[0]
