"""Seals, who has all of them, and what late peers need."""

import pytest
from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.session.exchange import RoundBuffer
from protocol.session.sealing import Sealing
from protocol.wire.messages import Hello, Signed
from tests.support.builders import make_agreement, play
from tests.support.session_harness import SessionHarness, lying

AGREEMENT = make_agreement(members=3, rounds=2)
TRANSCRIPT, STATES = play(AGREEMENT)
ADA, BEN, CYD = TRANSCRIPT.seals


@pytest.fixture
def sealing() -> Sealing:
    return Sealing(AGREEMENT, "ada")


def closed_rounds(agreement: Agreement) -> RoundBuffer:
    """The buffer of ada after the last round."""
    transcript, states = play(agreement)
    buffer = RoundBuffer(agreement, "ada", states[0].chain_hash)
    for messages, state in zip(transcript.rounds, states[1:], strict=True):
        buffer.close(messages, state.chain_hash)
    return buffer


@pytest.fixture
def buffer() -> RoundBuffer:
    return closed_rounds(AGREEMENT)


def hello(sender: str, round: int, **has: int) -> Hello:  # noqa: A002
    """A Hello of a peer that has these numbers of messages."""
    SessionHarness.seen = []
    return SessionHarness(agreement=AGREEMENT).hello(sender, round=round, has=has)


def add(sealing: Sealing, *seals: Signed) -> None:
    for seal in seals:
        sealing.add(seal)


def test_a_seal_counts_once(sealing: Sealing) -> None:
    """A repeated seal, even the same object, is not the first of its sender."""
    assert sealing.add(BEN)
    assert not sealing.add(BEN)
    assert list(sealing.seals) == ["ben"]


def test_all_members_must_seal(sealing: Sealing) -> None:
    """Our own seal is one of them; the seals come out in roster order."""
    add(sealing, CYD, BEN)
    assert not sealing.everyone_sealed
    add(sealing, ADA)
    assert sealing.everyone_sealed
    assert sealing.complete() == TRANSCRIPT.seals


def test_a_party_may_leave_when_all_peers_have_all_seals(sealing: Sealing) -> None:
    """Its own word is not needed."""
    sealing.have_all.add("ben")
    assert not sealing.everyone_has_all
    sealing.have_all.add("cyd")
    assert sealing.everyone_has_all


def test_early_seals_are_checked_at_the_end(sealing: Sealing) -> None:
    """Only those of the final chain hash stay."""
    wrong = lying(BEN, chain_hash=bytes(32))
    add(sealing, wrong, CYD)
    assert sealing.recheck(STATES[-1]) == [wrong]
    assert sealing.seals == {"cyd": CYD}


def test_early_seals_go_if_the_session_is_not_over(sealing: Sealing) -> None:
    """Those with the right chain hash are not reported, but their senders must seal again."""
    add(sealing, lying(BEN, chain_hash=STATES[1].chain_hash))
    assert sealing.recheck(STATES[1]) == []
    assert sealing.seals == {}


def test_our_hello_lists_the_seals_of_peers(sealing: Sealing) -> None:
    """In roster order, without our own."""
    add(sealing, ADA, CYD)
    assert sealing.known_ahead() == bytes([0, 0, 1])


def test_a_peer_at_the_end_is_owed_the_seals_it_lacks(
    sealing: Sealing, buffer: RoundBuffer
) -> None:
    """Not its own and not ours, which we repeat anyway."""
    add(sealing, ADA, BEN, CYD)
    assert sealing.owe(hello("ben", 2), buffer)
    assert sealing.take_owed(besides=()) == [CYD]
    assert sealing.take_owed(besides=()) == [], "once"
    assert not sealing.owe(hello("ben", 2, cyd=3), buffer)
    assert sealing.take_owed(besides=()) == []


def test_a_peer_one_round_behind_is_owed_releases(sealing: Sealing, buffer: RoundBuffer) -> None:
    """Those of the last round, of members other than itself and us."""
    assert sealing.owe(hello("ben", 1), buffer)
    assert sealing.take_owed(besides=()) == [TRANSCRIPT.rounds[-1][2]]


def test_a_peer_further_behind_is_owed_nothing(sealing: Sealing, buffer: RoundBuffer) -> None:
    """This party no longer has those rounds at hand."""
    assert not sealing.owe(hello("ben", 0), buffer)
    assert sealing.take_owed(besides=()) == []


def test_a_party_stays_once_for_each_exchange_of_a_late_peer(
    sealing: Sealing, buffer: RoundBuffer
) -> None:
    """So a late peer cannot keep it forever."""
    add(sealing, CYD)
    late = hello("ben", 1)
    stays = [sealing.owe(late, buffer) for _ in range(2)]
    stays += [sealing.owe(hello("ben", 2), buffer) for _ in range(2)]
    assert stays == [True, False, True, False]


def test_what_two_peers_lack_is_sent_once() -> None:
    """Nor is anything sent that goes out besides."""
    agreement = make_agreement(members=4, rounds=2)
    transcript, states = play(agreement)
    sealing, buffer = Sealing(agreement, "ada"), closed_rounds(agreement)
    add(sealing, *transcript.seals)
    lacks_all = replace(hello("ben", 2), chain_hash=states[-1].chain_hash)
    for name in ("ben", "cyd"):
        sealing.owe(replace(lacks_all, sender=name), buffer)
    _, ben, cyd, dan = transcript.seals
    assert sealing.take_owed(besides=[ben]) == [cyd, dan]
