"""Waiting messages: a bounded share for each sender, which keeps the newest."""

import os

from party.network.inbox import MOST, Inbox, Incoming
from tests.support.builders import make_agreement, play

AGREEMENT = make_agreement(members=3, rounds=8)
ROUNDS = play(AGREEMENT)[0].rounds


def empty(inbox: Inbox) -> list[Incoming]:
    taken = []
    while inbox:
        taken += inbox.take_turn()
    return taken


def claiming(data: bytes, source: str = "") -> Incoming:
    """Other bytes that claim the same sender."""
    return Incoming(source, data[:-64] + os.urandom(64))


def test_a_full_share_drops_its_oldest_message() -> None:
    """The newest messages of a sender stay, in order."""
    inbox = Inbox(AGREEMENT)
    put = [claiming(ROUNDS[0][0].data) for _ in range(MOST + 7)]
    for incoming in put:
        inbox.put(incoming)
    assert empty(inbox) == put[7:]


def test_in_a_mesh_a_share_belongs_to_a_connection() -> None:
    """What ben sends in ada's name fills ben's share, and no message of ada is dropped."""
    inbox = Inbox(AGREEMENT)
    true = [Incoming("ada", releases[0].data) for releases in ROUNDS]
    for incoming in true:
        inbox.put(incoming)
    for _ in range(10 * MOST):
        inbox.put(claiming(ROUNDS[0][0].data, "ben"))
    taken = empty(inbox)
    assert [incoming for incoming in taken if incoming.source == "ada"] == true
    assert len(taken) == len(true) + MOST


def test_a_turn_takes_one_message_of_each_sender() -> None:
    """A sender with many waiting messages gets no more than the others."""
    inbox = Inbox(AGREEMENT)
    for _ in range(5):
        inbox.put(claiming(ROUNDS[0][0].data))
    inbox.put(Incoming("", ROUNDS[0][1].data))
    inbox.put(Incoming("", b"nothing"))
    assert len(inbox.take_turn()) == 3
    assert len(inbox.take_turn()) == 1


def test_a_repeated_message_is_stored_once() -> None:
    """Equal bytes from one source take one slot."""
    inbox = Inbox(AGREEMENT)
    for _ in range(MOST):
        inbox.put(Incoming("", ROUNDS[0][0].data))
    assert len(empty(inbox)) == 1
