"""The record of who has sent what: verified messages, in order, and never many of them."""

import random

from coordinator.collector import KEYS, MAX_AHEAD, SEALS, RoundCollector
from protocol.wire.messages import MaskKey, Signed
from tests.support.builders import make_agreement, play, sign
from tests.support.session_harness import lying

AGREEMENT = make_agreement(members=3, rounds=20)
TRANSCRIPT = play(AGREEMENT)[0]
NAMES = [m.name for m in AGREEMENT.members]


def closed(collector: RoundCollector, *messages: Signed) -> list[int]:
    """The numbers of the exchanges that these messages close."""
    return [e.number for s in messages for e in collector.collect(s, 0.0).closed]


def test_a_round_closes_with_the_last_release() -> None:
    """Not before all members have released, and then with the release of each."""
    collector = RoundCollector(AGREEMENT)
    *others, last = TRANSCRIPT.rounds[0]
    assert closed(collector, *others) == []
    [exchange] = collector.collect(last, 0.0).closed
    assert collector.in_roster_order(exchange) == TRANSCRIPT.rounds[0]
    assert collector.closed == 1


def test_mask_keys_come_before_the_rounds() -> None:
    """In a masked session the first exchange is the one of mask keys."""
    agreement = make_agreement(members=3, rounds=4, reveal="totals")
    transcript = play(agreement)[0]
    keys = [
        sign(
            MaskKey(
                sender=name,
                agreement=agreement.digest,
                round=0,
                chain_hash=bytes(32),
                key=bytes(32),
                proof=bytes(64),
            )
        )
        for name in NAMES
    ]
    collector = RoundCollector(agreement)
    assert closed(collector, *keys) == [KEYS]
    assert collector.closed == 0
    assert closed(collector, *transcript.rounds[0]) == [0]


def test_only_first_messages_of_the_current_exchange_are_first() -> None:
    """Neither repeated messages nor messages of another round."""
    collector = RoundCollector(AGREEMENT)
    release = TRANSCRIPT.rounds[0][0]
    assert collector.collect(release, 0.0).first
    assert not collector.collect(release, 0.0).first
    assert not collector.collect(TRANSCRIPT.rounds[1][0], 0.0).first


def test_a_late_coordinator_continues_where_all_members_are() -> None:
    """It jumps to the first exchange that all members have reached, and no further."""
    collector = RoundCollector(AGREEMENT)
    resent = [TRANSCRIPT.rounds[number][place] for place in (0, 1) for number in (7, 8)]
    assert closed(collector, *resent) == []
    assert closed(collector, TRANSCRIPT.rounds[7][2]) == [7]
    assert closed(collector, TRANSCRIPT.rounds[8][2]) == [8], "the releases of round 8 are kept"


def test_one_member_cannot_stop_a_late_coordinator_from_counting_rounds() -> None:
    """Its releases of later rounds push out its own ones, but not what the others have reached."""
    collector = RoundCollector(AGREEMENT)
    for releases in TRANSCRIPT.rounds[5:15]:
        hostile, *honest = releases
        ahead = [lying(hostile, round=number) for number in (17, 18, 19)]
        closed(collector, hostile, *ahead, *honest)
    assert collector.closed >= 13


def test_a_round_that_arrives_after_the_next_one_is_not_lost() -> None:
    """A coordinator that was killed may get the two newest rounds in any order."""
    collector = RoundCollector(AGREEMENT)
    assert closed(collector, *TRANSCRIPT.rounds[1]) == []
    assert closed(collector, *TRANSCRIPT.rounds[0]) == [0, 1]


def test_a_release_signed_before_its_time_does_not_count() -> None:
    """Parties ignore it, so a round never closes with it."""
    collector = RoundCollector(AGREEMENT)
    early = lying(TRANSCRIPT.rounds[0][0], round=5)
    closed(collector, early)
    for number in range(5):
        assert closed(collector, *TRANSCRIPT.rounds[number]) == [number]
        closed(collector, *(lying(early, round=number + n) for n in (3, 4)))
    assert closed(collector, *TRANSCRIPT.rounds[5][1:]) == []
    [exchange] = collector.collect(TRANSCRIPT.rounds[5][0], 0.0).closed
    assert collector.in_roster_order(exchange) == TRANSCRIPT.rounds[5]


def test_one_member_alone_moves_nothing() -> None:
    """Whatever rounds it signs, the others' round stays the current one."""
    collector = RoundCollector(AGREEMENT)
    first = TRANSCRIPT.rounds[0][0]
    for number in (*range(AGREEMENT.rounds), AGREEMENT.rounds, 1 << 31):
        assert closed(collector, lying(first, round=number)) == []
    assert collector.closed == 0
    assert collector.missing() == NAMES[1:]


def test_rounds_close_once_and_in_order_whatever_one_member_signs() -> None:
    """The releases of the honest members are in every round, and no round is skipped."""
    chance = random.Random(5)
    for _ in range(20):
        collector, numbers = RoundCollector(AGREEMENT), []
        for releases in TRANSCRIPT.rounds:
            sent = [*releases]
            for _ in range(chance.randrange(6)):
                other = lying(releases[2], round=chance.randrange(AGREEMENT.rounds))
                sent.insert(chance.randrange(len(sent)), other)
            for exchange in (e for s in sent for e in collector.collect(s, 0.0).closed):
                numbers.append(exchange.number)
                honest = TRANSCRIPT.rounds[exchange.number][:2]
                assert collector.in_roster_order(exchange)[:2] == honest
        assert numbers == list(range(AGREEMENT.rounds))


def test_little_is_stored_whatever_is_signed() -> None:
    """One message per member for the current, the next and a few later exchanges."""
    chance, first = random.Random(3), TRANSCRIPT.rounds[0]
    collector = RoundCollector(AGREEMENT)
    for _ in range(2_000):
        signed = chance.choice(first[:2])
        closed(collector, lying(signed, round=chance.randrange(AGREEMENT.rounds)))
        closed(collector, lying(TRANSCRIPT.seals[0], round=chance.randrange(AGREEMENT.rounds)))
        stored = sum(len(e.messages) for e in collector._open.values())
        assert stored <= 2 * (2 + MAX_AHEAD)
        assert all(e.messages for e in collector._open.values())
    assert len(collector._seals) <= 1


def test_seals_close_when_all_agree() -> None:
    """Seals of another history do not, and a later seal changes nothing."""
    collector = RoundCollector(AGREEMENT)
    for releases in TRANSCRIPT.rounds:
        closed(collector, *releases)
    other = lying(TRANSCRIPT.seals[0], chain_hash=bytes(32))
    assert closed(collector, other, *TRANSCRIPT.seals[1:]) == []
    assert closed(collector, TRANSCRIPT.seals[0]) == [SEALS]
    closed(collector, other)
    assert collector.seals == TRANSCRIPT.seals


def test_seals_before_the_end_are_forgotten() -> None:
    """A seal of fewer rounds than are closed is no seal of this session."""
    collector = RoundCollector(AGREEMENT)
    closed(collector, lying(TRANSCRIPT.seals[0], round=0))
    closed(collector, *TRANSCRIPT.rounds[0])
    assert not collector._seals


def test_the_session_is_over_when_every_member_confirms() -> None:
    """The seals of all do not end it without their word that they have all seals."""
    collector = RoundCollector(AGREEMENT)
    for signed in (s for part in (*TRANSCRIPT.rounds, TRANSCRIPT.seals) for s in part):
        collector.collect(signed, 0.0)
    assert not collector.over
    for seal in TRANSCRIPT.seals:
        collector.collect(lying(seal, has_all_seals=True), 0.0)
    assert collector.over
