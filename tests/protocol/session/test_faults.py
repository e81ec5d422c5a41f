"""What proves that a member broke the rules, and what does not."""

import random
from itertools import combinations

import pytest
from msgspec.structs import replace

from protocol.errors import Diverged, Equivocation, InternalError, Unavailable
from protocol.session import faults
from protocol.session.effects import Fail
from protocol.session.exchange import Exchanges, RoundBuffer
from protocol.session.faults import (
    ENVELOPE_BYTES,
    EvidenceIndex,
    FaultDetector,
    clash,
    fits,
)
from protocol.session.machine import Session
from protocol.session.sealing import Sealing
from protocol.wire.codec import max_message_bytes
from protocol.wire.messages import Halt, Hello, MaskKey, Message, Reason, Release, Seal, Signed
from tests.support import builders
from tests.support.builders import make_agreement, sign
from tests.support.session_harness import forged, lying

AGREEMENT = make_agreement(members=3)
HERE, ELSEWHERE = bytes(32), b"x" * 32
UNMASKED = Exchanges(AGREEMENT, HERE)
MASKED = Exchanges(make_agreement(members=3, reveal="totals"), HERE)


def message(
    kind: type[Message],
    chain_hash: bytes,
    *,
    sender: str = "ben",
    round: int = 1,  # noqa: A002
) -> Signed:
    """A message of some kind with this chain hash."""
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
def test_two_chain_hashes_in_one_round_clash(one: type[Message], other: type[Message]) -> None:
    """In messages of any kind; with one chain hash they do not clash."""
    assert clash(message(one, HERE), message(other, ELSEWHERE), UNMASKED)
    assert not clash(message(one, HERE), message(other, HERE), UNMASKED)


@pytest.mark.parametrize("kind", [Release, Seal, Halt])
def test_two_senders_or_two_rounds_do_not_clash(kind: type[Message]) -> None:
    """Different chain hashes there are no fault of one member."""
    assert not clash(message(kind, HERE), message(kind, ELSEWHERE, sender="cyd"), UNMASKED)
    assert not clash(message(kind, HERE), message(kind, ELSEWHERE, round=2), UNMASKED)


@pytest.mark.parametrize("kind", [Release, Seal, Halt, Hello])
def test_hellos_never_clash(kind: type[Message]) -> None:
    """A Hello is no commitment."""
    assert not clash(message(Hello, HERE), message(kind, ELSEWHERE), UNMASKED)
    assert not clash(message(kind, HERE), message(Hello, ELSEWHERE), UNMASKED)


@pytest.mark.parametrize("before", [MaskKey, Halt])
@pytest.mark.parametrize("after", [Release, Halt, Seal])
def test_the_chain_hash_before_the_mask_keys_does_not_clash(
    before: type[Message], after: type[Message]
) -> None:
    """Mask keys, and Halts beside them, come one exchange before round 0."""
    early, late = message(before, HERE, round=0), message(after, ELSEWHERE, round=0)
    assert not clash(early, late, MASKED)
    assert clash(message(after, HERE, round=0), late, MASKED) == (after is not Halt)


def test_two_different_mask_keys_of_one_member_clash() -> None:
    """Whatever differs between them."""
    key = message(MaskKey, HERE, round=0)
    assert clash(key, forged(key, key=b"y" * 32), MASKED)
    assert clash(key, message(MaskKey, ELSEWHERE, round=0), MASKED)
    assert not clash(key, message(MaskKey, HERE, round=0), MASKED)


def test_two_halts_with_different_evidence_do_not_clash(detector: FaultDetector) -> None:
    """Only releases and mask keys must be equal."""
    shown = message(Release, HERE)
    halt = Halt(
        sender="ben",
        agreement=AGREEMENT.digest,
        round=1,
        chain_hash=HERE,
        reason=Reason.EQUIVOCATION,
        evidence=(shown.data, b"nothing", forged(shown, values=(3, 4)).data),
    )
    assert not clash(sign(halt), message(Halt, HERE), UNMASKED)
    signed = sign(halt)
    messages = detector.open(signed, halt)
    assert messages == (signed, shown), "what cannot be decoded accuses no member"


def test_evidence_that_fits_makes_a_valid_halt() -> None:
    """The bytes reserved for the envelope are enough for evidence of any length."""
    most = max_message_bytes(AGREEMENT)
    for length in range(1, most):
        evidence = (Signed(message(Seal, HERE).message, bytes(length)),)
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
    [Unavailable("no peer"), Diverged("no proof", sender="ben"), Equivocation("x", sender="ben")],
)
def test_no_failure_is_final_without_proof(error: Unavailable | Diverged) -> None:
    """Such an effect is a defect of this program."""
    assert not Fail(error, final=False).final
    with pytest.raises(InternalError, match="without proof"):
        Fail(error, final=True)


def random_messages(chance: random.Random, count: int) -> list[Signed]:
    """Messages of few senders in few rounds, some with another chain hash or other values."""
    kinds: list[type[Message]] = [Hello, Release, Seal, Halt, MaskKey]
    some = []
    for _ in range(count):
        kind, sender = chance.choice(kinds), chance.choice(("ben", "cyd"))
        chain_hash = ELSEWHERE if chance.random() < 0.1 else HERE
        at = 0 if kind is MaskKey else chance.choice((0, 1))
        one = message(kind, chain_hash, sender=sender, round=at)
        if isinstance(one.message, Release) and chance.random() < 0.2:
            one = sign(replace(one.message, values=(3, 4)))
        # How long a message is decides whether a Halt can show it, and only Halts differ in that.
        length = chance.choice((180, 180, 180, 500, 900)) if type(one.message) is Halt else 180
        some.append(Signed(one.message, one.data.ljust(length)[:length]))
    return some


@pytest.mark.parametrize("seed", range(300))
def test_the_index_finds_what_comparing_all_pairs_finds(seed: int) -> None:
    """It finds the first clash at the same message, and none where there is none."""
    chance = random.Random(seed)
    numbering = chance.choice((UNMASKED, MASKED))
    most = chance.choice((700, 1_200, 100_000))
    messages = random_messages(chance, chance.randrange(2, 14))
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
    """Their number grows in proportion to the messages, even if one member wrote all."""
    compared = 0

    def counting(one: Signed, other: Signed, numbering: Exchanges) -> bool:
        nonlocal compared
        compared += 1
        return clash(one, other, numbering)

    monkeypatch.setattr(faults, "clash", counting)
    seal, release = message(Seal, HERE), message(Release, HERE)
    long = Signed(message(Halt, ELSEWHERE).message, bytes(100_000))
    messages = {
        "a round": [Signed(replace(release.message, sender=f"m{k}"), b"") for k in range(2_000)],
        "seals": [seal] * 1_000 + [release] * 1_000,
        "too long to be shown": [long] + [seal] * 2_000,
    }[alike]
    shown = EvidenceIndex(UNMASKED, 100_000)
    assert not any(shown.add(one) for one in messages)
    assert compared <= 3 * len(messages)


def test_a_party_compares_few_messages_of_a_long_halt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Halt with a round of forty members costs a few comparisons for each."""
    monkeypatch.setattr(builders, "NAMES", tuple(f"m{k}" for k in range(40)))
    agreement = make_agreement(members=40, rounds=2)
    transcript, positions = builders.play(agreement, rounds=1)
    session = Session(
        agreement,
        "m0",
        nonce=bytes(16),
        now=0.0,
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


# What a party makes of it

TRANSCRIPT, STATES = builders.play(AGREEMENT)


@pytest.fixture
def detector() -> FaultDetector:
    """The detector of ada, which has closed one round."""
    buffer = RoundBuffer(AGREEMENT, "ada", STATES[0].chain_hash)
    buffer.close(TRANSCRIPT.rounds[0], STATES[1].chain_hash)
    return FaultDetector(AGREEMENT, buffer, Sealing(AGREEMENT, "ada"))


def halt_of(sender: str, chain_hash: bytes, *evidence: Signed) -> Signed:
    """A Halt after the first round."""
    return sign(
        Halt(
            sender=sender,
            agreement=AGREEMENT.digest,
            round=1,
            chain_hash=chain_hash,
            reason=Reason.EQUIVOCATION,
            evidence=tuple(signed.data for signed in evidence),
        )
    )


def test_a_second_release_contradicts_the_one_that_is_held(detector: FaultDetector) -> None:
    """The release of a closed round is still compared."""
    held = TRANSCRIPT.rounds[0][1]
    assert detector.contradiction(held) is None
    assert detector.contradiction(lying(held, values=(1, 2))) == held


def test_evidence_proves_equivocation_by_itself(detector: FaultDetector) -> None:
    """Two clashing messages in one Halt need nothing that we hold."""
    pair = message(Release, HERE, round=2), message(Release, ELSEWHERE, round=2)
    halt = halt_of("cyd", STATES[1].chain_hash, *pair)
    assert detector.proof_in((halt, *pair)) == pair


def test_other_prices_need_all_releases_of_our_last_round(detector: FaultDetector) -> None:
    """With one release less a Halt with another chain hash proves nothing."""
    halt = halt_of("ben", bytes(32), *TRANSCRIPT.rounds[0])
    assert detector.proof_in((halt, *TRANSCRIPT.rounds[0])) == (halt,)
    less = halt_of("ben", bytes(32), *TRANSCRIPT.rounds[0][1:])
    assert detector.proof_in((less, *TRANSCRIPT.rounds[0][1:])) == ()


def test_own_evidence_is_published_once_for_each_diverging_peer(detector: FaultDetector) -> None:
    """It is our last exchange and the message that differs."""
    cause = message(Release, bytes(32))
    assert detector.diverge(cause) == (*TRANSCRIPT.rounds[0], cause)
    assert detector.diverge(message(Seal, bytes(32))) is None
    assert detector.diverged == {"ben": cause}


def test_a_commitment_after_a_diverging_hello_is_published_again(detector: FaultDetector) -> None:
    """A Hello alone is no commitment, so a second Hello is not published."""
    hello, release = message(Hello, bytes(32)), message(Release, bytes(32))
    assert detector.diverge(hello) is not None
    assert detector.diverge(hello) is None
    assert detector.diverge(release) == (*TRANSCRIPT.rounds[0], release)


def test_own_evidence_goes_when_no_peer_diverges(detector: FaultDetector) -> None:
    """Peers converge one by one."""
    for sender in ("ben", "cyd"):
        detector.diverge(message(Release, bytes(32), sender=sender))
    detector.converge("ben")
    assert detector.own_evidence is not None
    detector.converge("cyd")
    assert detector.own_evidence is None


def test_an_accusation_without_proof_warns_once(detector: FaultDetector) -> None:
    """Diverging messages in its evidence are remembered."""
    cause = message(Release, bytes(32), sender="cyd")
    halt = halt_of("ben", STATES[1].chain_hash, cause)
    assert isinstance(halt.message, Halt)
    warning = "'ben' sent an accusation without valid evidence; ignored"
    assert detector.dismiss(halt.message, (halt, cause)) == warning
    assert detector.dismiss(halt.message, (halt, cause)) is None
    assert detector.diverged == {"cyd": cause}
