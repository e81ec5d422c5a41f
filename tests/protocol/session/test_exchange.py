"""The numbers of exchanges, and the messages of the newest three."""

import pytest

from protocol.rounds import RoundEngine
from protocol.session.exchange import Exchanges, RoundBuffer, next_state
from protocol.wire.messages import Halt, MaskKey, Message, Reason, Signed
from tests.support.builders import make_agreement, play, sign
from tests.support.session_harness import SessionHarness, lying

AGREEMENT = make_agreement(members=3, rounds=3)
MASKED = make_agreement(members=3, rounds=3, reveal="totals")
TRANSCRIPT, STATES = play(AGREEMENT)
OPENING = RoundEngine(MASKED).opening.chain_hash


def halt(round: int, chain_hash: bytes) -> Halt:  # noqa: A002
    return Halt(
        sender="ben",
        agreement=MASKED.digest,
        round=round,
        chain_hash=chain_hash,
        reason=Reason.HEADS_DIFFER,
        evidence=(),
    )


def mask_key(chain_hash: bytes = OPENING) -> MaskKey:
    return MaskKey(
        sender="ben",
        agreement=MASKED.digest,
        round=0,
        chain_hash=chain_hash,
        key=bytes(32),
        proof=bytes(64),
    )


@pytest.mark.parametrize("round", [0, 1, 2])
def test_without_masks_an_exchange_has_the_number_of_its_round(round: int) -> None:  # noqa: A002
    """There is nothing before round 0."""
    numbering = Exchanges(AGREEMENT, STATES[0].chain_hash)
    assert numbering.number(TRANSCRIPT.rounds[round][0].message) == round
    assert numbering.most == 3


@pytest.mark.parametrize(
    ("message", "number"),
    [
        (mask_key(), 0),
        (mask_key(bytes(32)), 0),
        (halt(0, OPENING), 0),
        (halt(0, bytes(32)), 1),
        (halt(2, OPENING), 3),
    ],
    ids=["key", "key on another hash", "halt before keys", "halt after keys", "later halt"],
)
def test_with_masks_the_mask_keys_are_exchange_0(message: Message, number: int) -> None:
    """The chain hash tells whether a Halt of round 0 comes before or after the keys."""
    numbering = Exchanges(MASKED, OPENING)
    assert numbering.number(message) == number
    assert numbering.most == 5


def test_the_next_state_is_that_of_the_engine() -> None:
    """A round of releases leads to the same state as in a replay."""
    engine = RoundEngine(AGREEMENT)
    state = next_state(engine, engine.opening, TRANSCRIPT.rounds[0])
    assert state.chain_hash == STATES[1].chain_hash


@pytest.fixture
def buffer() -> RoundBuffer:
    return RoundBuffer(AGREEMENT, "ada", STATES[0].chain_hash)


def release(name: str, round: int) -> Signed:  # noqa: A002
    return TRANSCRIPT.rounds[round][AGREEMENT.place(name)]


def test_the_current_and_the_next_exchange_are_expected_once(buffer: RoundBuffer) -> None:
    """Later, earlier and repeated messages are not."""
    expected = [buffer.expects(release("ben", t).message) for t in range(3)]
    assert expected == [True, True, False]
    buffer.add(release("ben", 0))
    assert not buffer.expects(lying(release("ben", 0), values=(7, 7)).message)
    buffer.close(TRANSCRIPT.rounds[0], STATES[1].chain_hash)
    assert not buffer.expects(release("cyd", 0).message)


def test_an_exchange_is_complete_with_a_message_of_every_member(buffer: RoundBuffer) -> None:
    """In roster order, whatever the order of arrival."""
    for name in ("cyd", "ada"):
        buffer.add(release(name, 0))
    assert buffer.complete() == ()
    buffer.add(release("ben", 0))
    assert buffer.complete() == TRANSCRIPT.rounds[0]


def test_closing_makes_the_next_exchange_the_current_one(buffer: RoundBuffer) -> None:
    """What came early counts now, and the closed exchange stays for comparisons."""
    buffer.add(release("ben", 1))
    buffer.close(TRANSCRIPT.rounds[0], STATES[1].chain_hash)
    assert buffer.exchange == 1
    assert buffer.current == {"ben": release("ben", 1)}
    assert buffer.of_sender("ben") == (release("ben", 0), release("ben", 1))
    assert buffer.holds(release("cyd", 0).data)
    buffer.close(TRANSCRIPT.rounds[1], STATES[2].chain_hash)
    assert not buffer.holds(release("cyd", 0).data)


def test_an_early_message_with_another_chain_hash_is_removed(buffer: RoundBuffer) -> None:
    """It could not be checked before its exchange became the current one."""
    early = lying(release("ben", 1), chain_hash=bytes(32))
    buffer.add(early)
    buffer.add(release("cyd", 1))
    assert not buffer.diverges(early.message)
    buffer.close(TRANSCRIPT.rounds[0], STATES[1].chain_hash)
    assert buffer.diverges(early.message)
    assert buffer.remove_diverging() == [early]
    assert buffer.current == {"cyd": release("cyd", 1)}


def test_only_peers_of_this_agreement_diverge(buffer: RoundBuffer) -> None:
    """Our own messages and those of another agreement are no divergence."""
    assert buffer.diverges(lying(release("ben", 0), chain_hash=bytes(32)).message)
    assert not buffer.diverges(lying(release("ada", 0), chain_hash=bytes(32)).message)
    other = lying(release("ben", 0), chain_hash=bytes(32), agreement=bytes(32))
    assert not buffer.diverges(other.message)


def test_messages_ahead_are_counted_by_peer(buffer: RoundBuffer) -> None:
    """Two for a peer whose next message is here; our own are not counted."""
    for signed in (release("ada", 0), release("ben", 0), release("cyd", 0), release("cyd", 1)):
        buffer.add(signed)
    assert buffer.known_ahead() == bytes([0, 1, 2])


def test_only_messages_of_peers_are_witnessed(buffer: RoundBuffer) -> None:
    """Our own are in our ledger."""
    buffer.close(TRANSCRIPT.rounds[0], STATES[1].chain_hash)
    buffer.add(release("ada", 1))
    buffer.add(release("ben", 1))
    assert buffer.of_peers() == [release("ben", 0), release("cyd", 0), release("ben", 1)]


def test_a_claim_counts_closed_exchanges_and_messages_ahead(buffer: RoundBuffer) -> None:
    """A peer that closed one exchange and has our next message knows two."""
    SessionHarness.seen = []
    party = SessionHarness(agreement=AGREEMENT)
    assert buffer.claim(party.hello("ben", round=1)) == 1
    assert buffer.claim(party.hello("ben", round=1, known=2)) == 2


def test_a_message_with_another_signature_is_another_message(buffer: RoundBuffer) -> None:
    """Copies are recognised by their bytes alone."""
    buffer.add(release("ben", 0))
    assert buffer.holds(release("ben", 0).data)
    assert not buffer.holds(sign(lying(release("ben", 0), values=(7, 7)).message).data)
