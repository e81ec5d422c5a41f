"""The messages that a party signs, and those that it repeats."""

import pytest

from protocol.session.outbox import Outbox
from protocol.wire.messages import Halt, Reason, Seal
from tests.support.builders import make_agreement, play, signer
from tests.support.session_harness import lying

AGREEMENT = make_agreement(members=3, rounds=3)
TRANSCRIPT, STATES = play(AGREEMENT)
OWN = tuple(messages[0] for messages in TRANSCRIPT.rounds)


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(AGREEMENT, "ada", signer("ada"), OWN[:1])


def test_the_two_newest_releases_are_repeated(outbox: Outbox) -> None:
    """A release that is submitted again after a restart is not repeated twice."""
    outbox.add(OWN[0])
    assert outbox.messages == OWN[:1]
    outbox.add(OWN[1])
    outbox.add(OWN[2])
    assert outbox.messages == OWN[1:]
    assert Outbox(AGREEMENT, "ada", signer("ada"), OWN).messages == OWN[1:]


def test_at_the_end_the_last_release_and_both_seals_are_repeated(outbox: Outbox) -> None:
    """First the seal, then the news of having all seals."""
    outbox.add(OWN[1])
    seal = outbox.seal(STATES[-1], has_all_seals=False)
    assert list(outbox.messages) == [OWN[1], seal]
    news = outbox.seal(STATES[-1], has_all_seals=True)
    assert list(outbox.messages) == [OWN[1], seal, news]
    assert isinstance(seal.message, Seal)
    assert seal.message.chain_hash == STATES[-1].chain_hash


def test_after_equivocation_only_its_proof_is_repeated(outbox: Outbox) -> None:
    """One Halt carries both messages."""
    pair = TRANSCRIPT.rounds[0][1], lying(TRANSCRIPT.rounds[0][1], values=(1, 2))
    [halt] = outbox.accuse(STATES[0], pair, ())
    assert outbox.messages == (halt,)
    assert isinstance(halt.message, Halt)
    assert halt.message.reason is Reason.EQUIVOCATION
    assert halt.message.evidence == tuple(signed.data for signed in pair)


def test_other_prices_are_shown_beside_our_own_last_exchange(outbox: Outbox) -> None:
    """So that others can compare both."""
    theirs = outbox.halt(STATES[1], Reason.HEADS_DIFFER, TRANSCRIPT.rounds[0])
    ours, shown = outbox.accuse(STATES[1], (theirs,), TRANSCRIPT.rounds[0])
    assert isinstance(ours.message, Halt)
    assert ours.message.evidence == tuple(signed.data for signed in TRANSCRIPT.rounds[0])
    assert isinstance(shown.message, Halt)
    assert shown.message.evidence == (theirs.data,)
