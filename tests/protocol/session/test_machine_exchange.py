"""One party in its rounds: releases that close, wait, repeat or are refused."""

import pytest

from protocol.errors import (
    InternalError,
)
from protocol.session.effects import Record
from tests.support.builders import sign
from tests.support.session_harness import (
    FIRST,
    PATIENCE,
    SessionHarness,
    lying,
)

pytestmark = pytest.mark.usefixtures("taken")


def test_a_round_closes_with_the_last_release() -> None:
    """It is recorded, and the gate is asked for the next release."""
    party = SessionHarness().after_handshake()
    assert party.submit() == ["send release 0"]
    assert party.receive(party.release("cyd", 0)) == []
    assert party.missing == ["ben"]
    assert party.receive(party.release("ben", 0)) == ["record 0", "respond 1"]
    record = next(e for e in party.effects if isinstance(e, Record))
    assert record.messages == party.transcript.rounds[0]
    assert party.session.state.chain_hash == party.positions[1].chain_hash


def test_a_release_one_round_ahead_is_kept() -> None:
    """It waits until the round before is closed."""
    party = SessionHarness().collecting()
    assert party.receive(party.release("cyd", 0), party.release("cyd", 1)) == []
    assert party.receive(party.release("ben", 0)) == ["record 0", "respond 1"]
    assert party.submit() == ["send release 1"]
    assert party.missing == ["ben"]
    assert party.receive(party.release("ben", 1)) == ["record 1", "send seal 2"]


def test_a_release_two_rounds_ahead_is_ignored() -> None:
    """No honest peer is that far ahead, so at most one later round is kept."""
    party = SessionHarness(rounds=3).collecting()
    assert party.receive(party.release("ben", 2)) == []
    for closing in range(2):
        party.receive(*(party.release(peer, closing) for peer in party.peers))
        party.submit()
    assert party.missing == ["ben", "cyd"]


def test_releases_that_arrive_during_the_handshake_count() -> None:
    """They close the round as soon as our own release is there."""
    party = SessionHarness()
    party.begin()
    assert party.receive(*(party.release(peer, 0) for peer in party.peers)) == []
    party.receive(*(party.hello(peer) for peer in party.peers))
    assert party.submit() == ["send release 0", "record 0", "respond 1"]


def test_duplicates_are_ignored() -> None:
    """A repeated message of any round has no effect."""
    party = SessionHarness(rounds=3).collecting(2)
    party.receive(party.release("ben", 2))
    for again in (0, 1, 2, 2):
        assert party.receive(party.release("ben", again)) == []
    assert party.missing == ["cyd"]


def test_a_waiting_party_repeats_its_two_newest_messages() -> None:
    """A peer one round behind may lack both."""
    party = SessionHarness(rounds=3).collecting(1)
    assert party.advance_time(FIRST) == ["send release 0", "send release 1"]
    assert party.advance_time(FIRST) == []
    assert party.advance_time(FIRST) == ["send release 0", "send release 1"]
    party.receive(party.release("ben", 1))
    assert party.advance_time(FIRST) == ["send release 0", "send release 1"], (
        "progress shortens the wait"
    )


def test_nothing_is_repeated_while_releases_arrive() -> None:
    """A resend waits until nothing new comes in."""
    party = SessionHarness(members=4).collecting()
    assert party.advance_time(0.9 * FIRST) == []
    party.receive(party.release("ben", 0))
    assert party.advance_time(0.9 * FIRST) == []
    party.receive(party.release("cyd", 0))
    assert party.advance_time(0.9 * FIRST) == []
    assert party.advance_time(0.2 * FIRST) == ["send release 0"]


def test_a_release_is_held_until_its_round_is_out_of_reach() -> None:
    """Only bytes that the session has kept count as held: ignored ones may come again."""
    party = SessionHarness(rounds=4).collecting()
    now, next_, far = (party.release("ben", t) for t in (0, 1, 2))
    party.receive(now, next_, far)
    held = party.session.holds
    assert (held(now.data), held(next_.data), held(far.data)) == (True, True, False)
    party.receive(party.release("cyd", 0))
    party.submit()
    assert (held(now.data), held(next_.data)) == (True, True)
    party.receive(party.release("cyd", 1))
    assert (held(now.data), held(next_.data)) == (False, True)


def test_replies_do_not_delay_resends() -> None:
    """A peer that keeps asking cannot keep others from what they lack."""
    party = SessionHarness().collecting()
    lines = []
    for _ in range(40):
        party.receive(party.hello("cyd", wants_reply=True))
        lines += party.advance_time(0.09)
    assert lines.count("send release 0") >= 4


def test_patience_does_not_run_while_the_own_gate_works() -> None:
    """No peer is missing then."""
    party = SessionHarness().after_handshake()
    assert party.missing == []
    assert party.advance_time(2 * PATIENCE) == []
    assert party.session.deadline > party.now
    assert party.submit() == ["send release 0"]


@pytest.mark.parametrize("what", ["round", "chain hash", "sender", "kind"])
def test_only_the_requested_release_is_sent(what: str) -> None:
    """If the gate returns anything else, nothing is sent."""
    party = SessionHarness().after_handshake()
    wrong = {
        "round": party.release("ada", 1),
        "chain hash": lying(party.release("ada", 0), chain_hash=bytes(32)),
        "sender": party.release("ben", 0),
        "kind": sign(party.seal("ada")),
    }
    with pytest.raises(InternalError, match="something else than this round's release"):
        party.session.submit(wrong[what], party.now)


def test_a_release_that_was_not_requested_is_refused() -> None:
    """Nothing is released before the handshake is complete."""
    party = SessionHarness()
    party.begin()
    with pytest.raises(InternalError, match="SUBMITTED cannot happen while HANDSHAKE"):
        party.submit()
