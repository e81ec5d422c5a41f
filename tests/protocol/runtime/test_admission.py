"""Limits of each member's connections: what is read, and which member is named."""

import random

import pytest
from msgspec.structs import replace

from protocol.errors import BadMessage
from protocol.runtime.admission import (
    BURST,
    INVALID_COST,
    PER_ROUND,
    PER_SECOND,
    REPORT_SECONDS,
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


def admitted(admission: Admission, owner: str, data: bytes, *, now: float, of: int = 10_000) -> int:
    """How many of `of` messages from a connection are admitted at one time."""
    return sum(admission.admits(owner, data, now) for _ in range(of))


def test_a_forgery_is_charged_to_the_connection_that_brought_it() -> None:
    """The member that it claims to be from is not named."""
    lines: list[str] = []
    admission = Admission(AGREEMENT, lines.append)
    release = ROUNDS[0][0]
    assert release.message.sender == ADA
    assert admission.read(BEN, release.data, 0.0) == release, "others may pass it on"
    with pytest.raises(BadMessage):
        admission.read(BEN, forged(release, round=3).data, 0.0)
    assert lines == ["ben: its connection sent 1 message not valid in this session; dropped"]


def test_one_connection_cannot_use_up_the_limit_of_another() -> None:
    """A member that sends messages of another uses up its own limit."""
    admission = Admission(AGREEMENT, lambda _: None)
    data = ROUNDS[0][0].data
    assert admitted(admission, BEN, data, now=0.0) == MOST
    assert not admission.admits(BEN, data, 0.0)
    assert admission.admits(ADA, data, 0.0)
    assert admission.admits(BEN, ROUNDS[0][1].data, 0.0), "its own releases are still read"
    assert admission.admits(BEN, hello(BEN).data, 0.0)


def test_a_flood_of_hellos_leaves_room_for_releases() -> None:
    """A member's hellos and its releases have separate limits."""
    admission = Admission(AGREEMENT, lambda _: None)
    assert admitted(admission, BEN, hello(BEN).data, now=0.0) == MOST
    assert admission.admits(BEN, ROUNDS[0][1].data, 0.0)


def test_a_limit_refills_with_time_and_with_rounds() -> None:
    """A long silence does not raise it above the first limit."""
    admission = Admission(AGREEMENT, lambda _: None)
    data = hello(BEN).data
    admitted(admission, BEN, data, now=0.0)
    assert admitted(admission, BEN, data, now=1.0) == PER_SECOND[1]
    admission.rounds += 3
    assert admitted(admission, BEN, data, now=1.0) == 3 * PER_ROUND
    assert admitted(admission, BEN, data, now=1e6) == MOST


def test_forgeries_use_up_the_limit_sooner() -> None:
    """A flood of them costs few verifications."""
    admission = Admission(AGREEMENT, lambda _: None)
    verified = 0
    for number in range(1, 10_000):
        data = forged(ROUNDS[0][0], round=number).data
        if admission.admits(BEN, data, number / 8_000.0):
            verified += 1
            with pytest.raises(BadMessage):
                admission.read(BEN, data, number / 8_000.0)
    assert verified <= 1 + (MOST + PER_SECOND[2] * 10_000 / 8_000.0) / INVALID_COST


def test_a_flooder_is_named_at_once_and_then_rarely() -> None:
    """A day of flood gives a few log lines, with the counts."""
    lines: list[str] = []
    admission = Admission(AGREEMENT, lines.append)
    for second in range(86_400):
        for _ in range(3):
            if admission.admits(BEN, b"", float(second)):
                admission.invalid(BEN, b"", float(second))
    assert lines[0].startswith("ben: its connection sent 1 message not valid")
    assert len(lines) <= 10 + 86_400 / REPORT_SECONDS[1]
    assert all(line.startswith("ben: ") for line in lines)


def test_honest_traffic_stays_within_the_limit() -> None:
    """Fast rounds, repeated messages, hellos, and help for all other members."""
    lines: list[str] = []
    admission, draw = Admission(AGREEMENT, lines.append), random.Random(1)
    now = 0.0
    for number in range(20_000):
        now += draw.choice((0.0002, 0.001, 0.05))
        admission.rounds = number
        for releases in (ROUNDS[0], ROUNDS[1]) if number % 50 == 0 else (ROUNDS[0][1:2],):
            assert all(admission.admits(BEN, signed.data, now) for signed in releases)
        if draw.random() < 0.1:
            assert admission.admits(BEN, hello(BEN, number).data, now)
    assert not lines


def test_no_member_is_blamed_for_messages_that_waited_for_a_busy_reader() -> None:
    """A party of a mesh that solves for minutes then finds many repeated messages."""
    lines: list[str] = []
    admission = Admission(AGREEMENT, lines.append)
    admission.looked(0.0, meant=0.1)
    assert admitted(admission, ADA, ROUNDS[0][0].data, now=0.0, of=2) == 2
    admission.looked(300.0, meant=0.1)
    sent_again = 2 * int(300.0 / 1.6)
    assert admitted(admission, ADA, ROUNDS[0][0].data, now=300.0, of=sent_again) == sent_again
    assert not lines
    admission.looked(400.0, meant=100.0)
    assert admitted(admission, ADA, ROUNDS[0][0].data, now=400.0) == MOST, "a silence adds nothing"


def test_members_that_ask_for_everything_get_no_other_member_named() -> None:
    """Two members ask a finished one for all releases and seals, again and again."""
    names = [f"m{number:02d}" for number in range(14)]
    agreement = make_agreement(
        member=[{"name": name, "signing_key": public_key(name).hex()} for name in names]
    )
    past, (*_, last) = play(agreement)
    me, behind, sealing, *_ = names
    own = tuple(releases[0] for releases in past.rounds)
    session = Session(agreement, me, nonce=b"n" * 16, pack=sign, past=past, own=own, now=0.0)
    lines: list[str] = []
    admission, passed_on = Admission(agreement, lines.append), 0

    def carry(effects: list[Effect], now: float) -> None:
        nonlocal passed_on
        for effect in effects:
            if isinstance(effect, Send):
                passed_on += effect.signed.message.sender != me
                admission.admits(me, effect.signed.data, now)

    carry(session.begin(0.0), 0.0)
    for number in range(1, 200):
        now = number / 40.0
        for name, round_, chain_hash in (
            (behind, last.round - 1, bytes(32)),
            (sealing, last.round, last.chain_hash),
        ):
            question = Hello(
                sender=name,
                agreement=agreement.digest,
                round=round_,
                chain_hash=chain_hash,
                nonce=number.to_bytes(16, "big"),
                wants_reply=True,
                recorded=0,
                nonce_digest=bytes(32),
            )
            carry(session.receive(sign(question), now), now)
            seal = replace(past.seals[0].message, sender=name)
            carry(session.receive(sign(seal), now), now)
        carry(session.tick(now), now)
    assert passed_on > 200.0 * now, "they do get much"
    assert not lines
