"""How the state of a party starts, and what its driver may ask."""

import pytest

from protocol.errors import BadAgreement
from protocol.session.phases import Phase
from protocol.session.view import SessionView
from protocol.wire.messages import Signed
from protocol.wire.transcript import Transcript
from tests.support.builders import make_agreement, play, signer
from tests.support.session_harness import NONCE, lying

AGREEMENT = make_agreement(members=3, rounds=2)
TRANSCRIPT, STATES = play(AGREEMENT)
FIRST, LAST = TRANSCRIPT.rounds


def view(
    *,
    closed: int = 0,
    seals: tuple[Signed, ...] = (),
    witnessed: tuple[Signed, ...] = (),
    proof: tuple[Signed, ...] = (),
) -> SessionView:
    """The state of ada after a restart with this ledger."""
    return SessionView(
        AGREEMENT,
        "ada",
        now=0.0,
        nonce=NONCE["ada"],
        pack=signer("ada"),
        past=Transcript(TRANSCRIPT.rounds[:closed], seals),
        own=tuple(messages[0] for messages in TRANSCRIPT.rounds[:closed]),
        witnessed=witnessed,
        proof=proof,
    )


def test_a_party_must_be_in_the_roster() -> None:
    """The error names it."""
    with pytest.raises(BadAgreement, match="'eve' is not a member"):
        SessionView(AGREEMENT, "eve", nonce=bytes(16), pack=signer("ada"), now=0.0)


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_closed_rounds_are_replayed(closed: int) -> None:
    """The state is that after the last of them."""
    party = view(closed=closed)
    assert party.state.chain_hash == STATES[closed].chain_hash
    assert party.phase is Phase.HANDSHAKE
    assert party.missing == ("ben", "cyd")


def test_what_was_witnessed_before_a_shutdown_is_held_again() -> None:
    """Releases of the current and the next round are; closed rounds and other chain hashes not."""
    useful = (FIRST[1], LAST[1])
    useless = (FIRST[0], lying(FIRST[2], chain_hash=bytes(32)))
    party = view(witnessed=(*useful, *useless))
    assert party.witnessed == useful
    assert view(closed=1, witnessed=FIRST[1:]).witnessed == FIRST[1:], "as the last exchange"


def test_seals_are_held_again_at_the_end() -> None:
    """So the party asks only for those that are missing."""
    assert view(closed=2, witnessed=TRANSCRIPT.seals[1:2]).unsealed == ("cyd",)


def test_a_party_with_all_seals_starts_finished() -> None:
    """Nothing has to survive its next shutdown."""
    party = view(closed=2, seals=TRANSCRIPT.seals)
    assert (party.phase, party.unsealed, party.witnessed) == (Phase.FINISHED, (), ())


def test_a_party_with_a_proof_starts_halted() -> None:
    """The proof survives its next shutdown too, and it waits for no peer."""
    proof = FIRST[1], lying(FIRST[1], values=(1, 2))
    party = view(proof=proof)
    assert (party.phase, party.missing, party.witnessed) == (Phase.HALTED, (), proof)
