"""What waits to be read: a share for each sender, of which the newest messages are kept."""

import os

from party.network.inbox import MOST, Heard, Inbox
from tests.support.builders import make_agreement, play

AGREEMENT = make_agreement(members=3, rounds=8)
ROUNDS = play(AGREEMENT)[0].rounds


def emptied(inbox: Inbox) -> list[Heard]:
    taken = []
    while inbox:
        taken += inbox.turn()
    return taken


def claiming(data: bytes, source: str = "") -> Heard:
    """Other bytes that claim to be from the same member."""
    return Heard(source, data[:-64] + os.urandom(64))


def test_the_oldest_message_goes_when_a_share_is_full() -> None:
    """The newest release of a member is what the others wait for."""
    inbox = Inbox(AGREEMENT)
    put = [claiming(ROUNDS[0][0].data) for _ in range(MOST + 7)]
    for heard in put:
        inbox.put(heard)
    assert emptied(inbox) == put[7:]


def test_in_a_mesh_a_share_belongs_to_a_connection() -> None:
    """What ben sends in ada's name fills ben's share, and ada's messages all wait."""
    inbox = Inbox(AGREEMENT)
    true = [Heard("ada", releases[0].data) for releases in ROUNDS]
    for heard in true:
        inbox.put(heard)
    for _ in range(10 * MOST):
        inbox.put(claiming(ROUNDS[0][0].data, "ben"))
    taken = emptied(inbox)
    assert [heard for heard in taken if heard.source == "ada"] == true
    assert len(taken) == len(true) + MOST


def test_each_sender_has_its_turn() -> None:
    """One message of each sender is taken in a turn, however many of one wait."""
    inbox = Inbox(AGREEMENT)
    for _ in range(5):
        inbox.put(claiming(ROUNDS[0][0].data))
    inbox.put(Heard("", ROUNDS[0][1].data))
    inbox.put(Heard("", b"nothing"))
    assert len(inbox.turn()) == 3
    assert len(inbox.turn()) == 1


def test_what_waits_already_waits_once() -> None:
    """A repetition takes no room."""
    inbox = Inbox(AGREEMENT)
    for _ in range(MOST):
        inbox.put(Heard("", ROUNDS[0][0].data))
    assert len(emptied(inbox)) == 1
