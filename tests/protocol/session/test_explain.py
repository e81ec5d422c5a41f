"""What the operator reads when a session warns, runs out of patience or fails."""

import pytest

from protocol.errors import (
    DifferentPrices,
    Diverged,
    Equivocation,
    ImpossibleTotal,
    SottoError,
    Unavailable,
    Unsealed,
)
from protocol.session import explain
from protocol.session.handshake import Handshake
from protocol.wire.messages import Signed
from tests.support.builders import make_agreement, play
from tests.support.session_harness import NONCE, lying

AGREEMENT = make_agreement(members=3, rounds=2)
TRANSCRIPT, STATES = play(AGREEMENT)
BEN = TRANSCRIPT.rounds[0][1]


def out_of_patience(at: int, **diverged: Signed) -> SottoError:
    handshake = Handshake(AGREEMENT, "ada", NONCE["ada"])
    handshake.other_agreements["cyd"] = b"\1" * 32
    handshake.stale_claims.add("ben")
    missing = ("ben", "cyd")
    return explain.out_of_patience(AGREEMENT, STATES[at], missing, 120.0, handshake, diverged)


def test_silence_names_the_peers_the_round_and_the_known_reasons() -> None:
    """And says that the same command resumes the session."""
    error = out_of_patience(1)
    assert isinstance(error, Unavailable)
    text = str(error)
    assert text.startswith("nothing from 'ben', 'cyd' for 2 minutes in round 2 of 2; ")
    assert f"'cyd' has another agreement, {'01' * 32}" in text
    assert "'ben' claims to know more of our releases" in text
    assert "run the same command again" in text


def test_nobody_came_names_the_option_that_sets_the_wait() -> None:
    """Before the first round is closed the party waits for people, as long as --wait says."""
    text = str(out_of_patience(0))
    assert text.startswith(
        "the first round did not close within 2 minutes: waited for 'ben', 'cyd'"
    )
    assert "--wait" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.0, "3 seconds"), (0.25, "0.2 seconds"), (60.01, "1 minute"), (120.0, "2 minutes"),
     (5_400.0, "1.5 hours"), (86_399.99, "1 day"), (172_800.0, "2 days")],
)  # fmt: skip
def test_a_wait_is_written_in_the_largest_unit_that_it_fills(seconds: float, text: str) -> None:
    """People read 1 day, not 86400 seconds."""
    assert explain.duration(seconds) == text


def test_two_seals_are_called_seals() -> None:
    """They belong to no round."""
    pair = TRANSCRIPT.seals[1], lying(TRANSCRIPT.seals[1], chain_hash=bytes(32))
    assert "'ben' signed two different seals" in str(explain.fault(pair, "ada", STATES[2]))


def test_a_diverged_peer_is_named_with_its_message() -> None:
    """The error names that peer and carries what it signed."""
    error = out_of_patience(1, ben=BEN)
    assert isinstance(error, Diverged)
    assert (error.sender, error.evidence) == ("ben", (BEN.data,))


def test_after_the_last_round_only_seals_are_missing() -> None:
    """The outcome is valid without them."""
    error = out_of_patience(2, ben=BEN)
    assert isinstance(error, Unsealed)
    assert "there is no seal of 'ben', 'cyd'; 'ben' has another chain hash" in str(error)
    assert "The outcome is valid but unsealed" in str(error)


def test_two_messages_prove_equivocation() -> None:
    """Both are the evidence."""
    pair = BEN, lying(BEN, values=(1, 2))
    error = explain.fault(pair, "ada", STATES[0])
    assert isinstance(error, Equivocation)
    assert "'ben' signed two different messages for round 1" in str(error)
    assert error.evidence == tuple(signed.data for signed in pair)


@pytest.mark.parametrize(("at", "inputs"), [(0, "mask keys"), (2, "releases of round 2")])
def test_one_halt_proves_other_prices(at: int, inputs: str) -> None:
    """The error says from which messages the prices follow."""
    error = explain.fault((BEN,), "ada", STATES[at])
    assert isinstance(error, DifferentPrices)
    assert f"'ben' got other prices than 'ada' from the same {inputs}" in str(error)


def test_an_old_ledger_is_named_with_what_it_lacks() -> None:
    """And the operator reads what to restore."""
    text = str(explain.old_ledger(BEN.message, AGREEMENT, 0))
    assert text.startswith("others know release 1 of 'ben', signed with its key, but this ledger")
    assert "holds 0 releases: it is an old copy" in text
    assert "Restore the newest copy" in text


def test_an_impossible_total_says_how_to_go_on() -> None:
    """Its evidence is the whole round."""
    error = explain.impossible_total(ImpossibleTotal("the sum is wrong"), TRANSCRIPT.rounds[0])
    assert str(error).startswith("the sum is wrong. Running the same command again")
    assert "party abandon --out DIR" in str(error)
    assert len(error.evidence) == 3
