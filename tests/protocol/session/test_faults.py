"""What proves that a member broke the rules, and what does not."""

import random
from dataclasses import replace
from itertools import combinations

import pytest

from protocol.errors import Diverged, Equivocation, InternalError, Unavailable
from protocol.session import faults
from protocol.session.effects import Fail
from protocol.session.exchange import Exchanges
from protocol.session.faults import ENVELOPE_BYTES, EvidenceIndex, clash, fits, opened
from protocol.session.machine import Session
from protocol.wire.codec import Reader, max_message_bytes
from protocol.wire.messages import Halt, Hello, MaskKey, Message, Reason, Release, Seal, Signed
from tests.support import builders
from tests.support.builders import make_agreement, sign
from tests.support.session_harness import forged

AGREEMENT = make_agreement(members=3)
HERE, ELSEWHERE = bytes(32), b"x" * 32
UNMASKED = Exchanges(AGREEMENT, HERE)
MASKED = Exchanges(make_agreement(members=3, reveal="totals"), HERE)


def said(kind: type[Message], chain_hash: bytes, *, sender: str = "ben", round: int = 1) -> Signed:  # noqa: A002
    """A message of some kind that stands on a head."""
    body: dict[type[Message], dict[str, object]] = {
        Hello: {"nonce": bytes(16), "wants_reply": False, "recorded": 0, "nonce_digest": bytes(32)},
        Release: {"values": (1, 2)},
        Seal: {"has_all_seals": False},
        Halt: {"reason": Reason.HEADS_DIFFER, "evidence": ()},
        MaskKey: {"key": bytes(32), "proof": bytes(64)},
    }
    common = {
        "sender": sender,
        "agreement": AGREEMENT.digest,
        "round": round,
        "chain_hash": chain_hash,
    }
    return sign(kind(**common, **body[kind]))  # type: ignore[arg-type]


@pytest.mark.parametrize("one", [Release, Seal, Halt])
@pytest.mark.parametrize("other", [Release, Seal, Halt])
def test_nobody_honest_stands_on_two_heads_in_one_round(
    one: type[Message], other: type[Message]
) -> None:
    """Whatever two messages say so contradict each other; on one head they do not."""
    assert clash(said(one, HERE), said(other, ELSEWHERE), UNMASKED)
    assert not clash(said(one, HERE), said(other, HERE), UNMASKED)


@pytest.mark.parametrize("kind", [Release, Seal, Halt])
def test_two_senders_or_two_rounds_contradict_nothing(kind: type[Message]) -> None:
    """Different heads are no fault of one member."""
    assert not clash(said(kind, HERE), said(kind, ELSEWHERE, sender="cyd"), UNMASKED)
    assert not clash(said(kind, HERE), said(kind, ELSEWHERE, round=2), UNMASKED)


@pytest.mark.parametrize("kind", [Release, Seal, Halt, Hello])
def test_hellos_are_no_promise(kind: type[Message]) -> None:
    """Where somebody greeted from is held against nobody."""
    assert not clash(said(Hello, HERE), said(kind, ELSEWHERE), UNMASKED)
    assert not clash(said(kind, HERE), said(Hello, ELSEWHERE), UNMASKED)


@pytest.mark.parametrize("before", [MaskKey, Halt])
@pytest.mark.parametrize("after", [Release, Halt, Seal])
def test_before_the_first_round_another_head_is_right(
    before: type[Message], after: type[Message]
) -> None:
    """Mask keys, and Halts beside them, stand on the head below the first round's."""
    early, late = said(before, HERE, round=0), said(after, ELSEWHERE, round=0)
    assert not clash(early, late, MASKED)
    assert clash(said(after, HERE, round=0), late, MASKED) == (after is not Halt)


def test_two_mask_keys_of_one_member_contradict_each_other() -> None:
    """Whatever differs between them."""
    key = said(MaskKey, HERE, round=0)
    assert clash(key, forged(key, key=b"y" * 32), MASKED)
    assert clash(key, said(MaskKey, ELSEWHERE, round=0), MASKED)
    assert not clash(key, said(MaskKey, HERE, round=0), MASKED)


def test_two_halts_that_show_different_things_are_no_lie() -> None:
    """Only releases must be the same to the last number."""
    shown = said(Release, HERE)
    halt = Halt(
        sender="ben",
        agreement=AGREEMENT.digest,
        round=1,
        chain_hash=HERE,
        reason=Reason.EQUIVOCATION,
        evidence=(shown.data, b"nothing", forged(shown, values=(3, 4)).data),
    )
    assert not clash(sign(halt), said(Halt, HERE), UNMASKED)
    assert opened(Reader(AGREEMENT), halt) == (shown,), "what cannot be read accuses nobody"


def test_what_fits_can_be_shown() -> None:
    """The room that is left for an envelope is enough for one, however long the messages are."""
    most = max_message_bytes(AGREEMENT)
    for length in range(1, most):
        evidence = (Signed(said(Seal, HERE).message, bytes(length)),)
        if not fits(evidence, most):
            break
        halt = Halt(
            sender="ben",
            agreement=AGREEMENT.digest,
            round=2**32 - 1,
            chain_hash=HERE,
            reason=Reason.EQUIVOCATION,
            evidence=tuple(signed.data for signed in evidence),
        )
        assert len(sign(halt).data) <= most
    assert length > most - ENVELOPE_BYTES - 10


@pytest.mark.parametrize(
    "error",
    [Unavailable("nobody"), Diverged("no proof", sender="ben"), Equivocation("x", sender="ben")],
)
def test_nothing_is_final_without_proof(error: Unavailable | Diverged) -> None:
    """Whoever would say so breaks a promise of the program to itself."""
    assert not Fail(error, final=False).final
    with pytest.raises(InternalError, match="without proof"):
        Fail(error, final=True)


def many(chance: random.Random, count: int) -> list[Signed]:
    """Messages of few senders in few places, now and then on another head or with other values."""
    kinds: list[type[Message]] = [Hello, Release, Seal, Halt, MaskKey]
    some = []
    for _ in range(count):
        kind, sender = chance.choice(kinds), chance.choice(("ben", "cyd"))
        chain_hash = ELSEWHERE if chance.random() < 0.1 else HERE
        at = 0 if kind is MaskKey else chance.choice((0, 1))
        one = said(kind, chain_hash, sender=sender, round=at)
        if isinstance(one.message, Release) and chance.random() < 0.2:
            one = sign(replace(one.message, values=(3, 4)))
        # How long a message is decides whether a Halt can show it, and only Halts differ in that.
        length = chance.choice((180, 180, 180, 500, 900)) if type(one.message) is Halt else 180
        some.append(Signed(one.message, one.data.ljust(length)[:length]))
    return some


@pytest.mark.parametrize("seed", range(300))
def test_two_that_clash_are_found_as_if_all_were_compared_with_all(seed: int) -> None:
    """At the message where that would find the first pair, and never where it would find none."""
    chance = random.Random(seed)
    numbering = chance.choice((UNMASKED, MASKED))
    most = chance.choice((700, 1_200, 100_000))
    messages = many(chance, chance.randrange(2, 14))
    pairs = [
        later
        for (_, one), (later, other) in combinations(enumerate(messages), 2)
        if clash(one, other, numbering) and fits((one, other), most)
    ]
    shown, found = EvidenceIndex(numbering, most), []
    for at, one in enumerate(messages):
        other = shown.add(one)
        if other is not None:
            assert clash(other, one, numbering)
            assert fits((other, one), most)
            found.append(at)
            break
    assert found == ([min(pairs)] if pairs else [])


@pytest.mark.parametrize("alike", ["a round", "seals", "too long to be shown"])
def test_a_long_halt_takes_few_comparisons_for_each_message(
    monkeypatch: pytest.MonkeyPatch, alike: str
) -> None:
    """The number of comparisons grows as the number of messages, also if one member wrote all."""
    compared = 0

    def counting(one: Signed, other: Signed, numbering: Exchanges) -> bool:
        nonlocal compared
        compared += 1
        return clash(one, other, numbering)

    monkeypatch.setattr(faults, "clash", counting)
    seal, release = said(Seal, HERE), said(Release, HERE)
    long = Signed(said(Halt, ELSEWHERE).message, bytes(100_000))
    messages = {
        "a round": [Signed(replace(release.message, sender=f"m{k}"), b"") for k in range(2_000)],
        "seals": [seal] * 1_000 + [release] * 1_000,
        "too long to be shown": [long] + [seal] * 2_000,
    }[alike]
    shown = EvidenceIndex(UNMASKED, 100_000)
    assert not any(shown.add(one) for one in messages)
    assert compared <= 3 * len(messages)


def test_a_party_that_hears_a_long_halt_compares_few_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Halt that shows a round of forty members costs a few comparisons for each of them."""
    monkeypatch.setattr(builders, "NAMES", tuple(f"m{k}" for k in range(40)))
    agreement = make_agreement(members=40, rounds=2)
    transcript, positions = builders.play(agreement, rounds=1)
    session = Session(
        agreement,
        "m0",
        nonce=bytes(16),
        pack=builders.signer("m0"),
        past=transcript,
        own=transcript.rounds[0][:1],
    )
    session.begin(0.0)
    halt = Halt(
        sender="m1",
        agreement=agreement.digest,
        round=1,
        chain_hash=positions[1].chain_hash,
        reason=Reason.HEADS_DIFFER,
        evidence=tuple(signed.data for signed in transcript.rounds[0]),
    )
    compared = 0

    def counting(one: Signed, other: Signed, numbering: Exchanges) -> bool:
        nonlocal compared
        compared += 1
        return clash(one, other, numbering)

    monkeypatch.setattr(faults, "clash", counting)
    assert session.receive(sign(halt), 0.0) == []
    assert 0 < compared <= 6 * 41
