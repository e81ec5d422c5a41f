"""Limits of each member's connections: what is read within them, and who is named."""

import random
from dataclasses import replace

import pytest

from protocol.errors import BadMessage
from protocol.runtime.admission import (
    BURST,
    INVALID_COST,
    PER_ROUND,
    PER_SECOND,
    TELL_SECONDS,
    Admission,
)
from protocol.session.effects import Effect, Send
from protocol.session.machine import Session
from protocol.wire.messages import Hello, Signed
from tests.support.builders import make_agreement, play, public_key, sign
from tests.support.session_harness import forged

AGREEMENT = make_agreement(members=4, rounds=8)
ROUNDS = play(AGREEMENT)[0].rounds
ADA, BEN = "ada", "ben"
MOST = BURST + 4 * len(AGREEMENT.members)


def hello(name: str, number: int = 0) -> Signed:
    return sign(
        Hello(
            sender=name,
            agreement=AGREEMENT.digest,
            round=0,
            chain_hash=bytes(32),
            nonce=number.to_bytes(16, "big"),
            wants_reply=True,
            recorded=0,
            nonce_digest=bytes(32),
        )
    )


def admitted(checking: Admission, owner: str, data: bytes, *, now: float, of: int = 10_000) -> int:
    """How many of so many messages of a connection are admitted at one time."""
    return sum(checking.admits(owner, data, now) for _ in range(of))


def test_a_valid_message_is_read_and_an_invalid_one_is_charged_to_its_connection() -> None:
    """A forgery in another's name is held against the member that sent it."""
    said: list[str] = []
    checking = Admission(AGREEMENT, said.append)
    release = ROUNDS[0][0]
    assert release.message.sender == ADA
    assert checking.read(BEN, release.data, 0.0) == release, "others may pass it on"
    with pytest.raises(BadMessage):
        checking.read(BEN, forged(release, round=3).data, 0.0)
    assert said == ["ben: its connection sent 1 message not valid in this session; dropped"]


def test_one_connection_cannot_use_up_the_limit_of_another() -> None:
    """However much one member sends in the name of another, that one is read as before."""
    checking = Admission(AGREEMENT, lambda _: None)
    data = ROUNDS[0][0].data
    assert admitted(checking, BEN, data, now=0.0) == MOST
    assert not checking.admits(BEN, data, 0.0)
    assert checking.admits(ADA, data, 0.0)
    assert checking.admits(BEN, ROUNDS[0][1].data, 0.0), "and its own part is still read"
    assert checking.admits(BEN, hello(BEN).data, 0.0)


def test_greetings_without_end_leave_room_for_releases() -> None:
    """A member that signs useless messages has a limit for them, and its releases another."""
    checking = Admission(AGREEMENT, lambda _: None)
    assert admitted(checking, BEN, hello(BEN).data, now=0.0) == MOST
    assert checking.admits(BEN, ROUNDS[0][1].data, 0.0)


def test_room_comes_back_with_time_and_with_rounds() -> None:
    """A second, or a round that all have closed, makes room for more; a long silence for no more
    than at first."""
    checking = Admission(AGREEMENT, lambda _: None)
    data = hello(BEN).data
    admitted(checking, BEN, data, now=0.0)
    assert admitted(checking, BEN, data, now=1.0) == PER_SECOND[1]
    checking.rounds += 3
    assert admitted(checking, BEN, data, now=1.0) == 3 * PER_ROUND
    assert admitted(checking, BEN, data, now=1e6) == MOST


def test_forgeries_use_up_the_limit_sooner() -> None:
    """So a flood of them costs few signatures."""
    checking = Admission(AGREEMENT, lambda _: None)
    verified = 0
    for number in range(1, 10_000):
        data = forged(ROUNDS[0][0], round=number).data
        if checking.admits(BEN, data, number / 8_000.0):
            verified += 1
            with pytest.raises(BadMessage):
                checking.read(BEN, data, number / 8_000.0)
    assert verified <= 1 + (MOST + PER_SECOND[2] * 10_000 / 8_000.0) / INVALID_COST


def test_who_floods_is_named_at_once_and_then_rarely() -> None:
    """A day of flood is a few lines in a log, with the counts."""
    said: list[str] = []
    checking = Admission(AGREEMENT, said.append)
    for second in range(86_400):
        for _ in range(3):
            if checking.admits(BEN, b"", float(second)):
                checking.invalid(BEN, b"", float(second))
    assert said[0].startswith("ben: its connection sent 1 message not valid")
    assert len(said) <= 10 + 86_400 / TELL_SECONDS[1]
    assert all(line.startswith("ben: ") for line in said)


def test_no_honest_traffic_is_beyond_the_limit() -> None:
    """Rounds as fast as can be, all sent twice, answers to Hellos, and help for all others."""
    said: list[str] = []
    checking, draw = Admission(AGREEMENT, said.append), random.Random(1)
    now = 0.0
    for number in range(20_000):
        now += draw.choice((0.0002, 0.001, 0.05))
        checking.rounds = number
        for releases in (ROUNDS[0], ROUNDS[1]) if number % 50 == 0 else (ROUNDS[0][1:2],):
            assert all(checking.admits(BEN, signed.data, now) for signed in releases)
        if draw.random() < 0.1:
            assert checking.admits(BEN, hello(BEN, number).data, now)
    assert not said


def test_nobody_is_blamed_for_what_came_in_while_the_reader_was_busy() -> None:
    """A party of a mesh that solves for minutes finds all that others have sent again since."""
    said: list[str] = []
    checking = Admission(AGREEMENT, said.append)
    checking.looked(0.0, meant=0.1)
    assert admitted(checking, ADA, ROUNDS[0][0].data, now=0.0, of=2) == 2
    checking.looked(300.0, meant=0.1)
    sent_again = 2 * int(300.0 / 1.6)
    assert admitted(checking, ADA, ROUNDS[0][0].data, now=300.0, of=sent_again) == sent_again
    assert not said
    checking.looked(400.0, meant=100.0)
    assert admitted(checking, ADA, ROUNDS[0][0].data, now=400.0) == MOST, "a silence earns no more"


def test_members_that_claim_to_lack_everything_get_no_other_member_named() -> None:
    """Two members ask one that has finished for the releases and seals of all, without end."""
    names = [f"m{number:02d}" for number in range(14)]
    agreement = make_agreement(
        member=[{"name": name, "signing_key": public_key(name).hex()} for name in names]
    )
    past, (*_, last) = play(agreement)
    me, behind, sealing, *_ = names
    own = tuple(releases[0] for releases in past.rounds)
    session = Session(agreement, me, nonce=b"n" * 16, pack=sign, past=past, own=own)
    said: list[str] = []
    checking, passed_on = Admission(agreement, said.append), 0

    def carry(effects: list[Effect], now: float) -> None:
        nonlocal passed_on
        for effect in effects:
            if isinstance(effect, Send):
                passed_on += effect.signed.message.sender != me
                checking.admits(me, effect.signed.data, now)

    carry(session.begin(0.0), 0.0)
    for number in range(1, 200):
        now = number / 40.0
        for name, round_, chain_hash in (
            (behind, last.round - 1, bytes(32)),
            (sealing, last.round, last.chain_hash),
        ):
            asking = Hello(
                sender=name,
                agreement=agreement.digest,
                round=round_,
                chain_hash=chain_hash,
                nonce=number.to_bytes(16, "big"),
                wants_reply=True,
                recorded=0,
                nonce_digest=bytes(32),
            )
            carry(session.receive(sign(asking), now), now)
            seal = replace(past.seals[0].message, sender=name)
            carry(session.receive(sign(seal), now), now)
        carry(session.tick(now), now)
    assert passed_on > 200.0 * now, "they do get much"
    assert not said
