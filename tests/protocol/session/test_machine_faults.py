"""One party and members that break the protocol: proofs, disputes, and Halts without proof."""

import pytest
from msgspec.structs import replace

from protocol.errors import (
    DifferentPrices,
    Diverged,
    Equivocation,
)
from protocol.numeric import Ticks
from protocol.rounds import RoundEngine, RoundState
from protocol.session.phases import Phase
from protocol.session.timers import LINGER_SECONDS
from protocol.wire.codec import max_message_bytes
from protocol.wire.messages import (
    Halt,
    Message,
    Reason,
    Signed,
)
from tests.support.builders import sign
from tests.support.session_harness import (
    FIRST,
    PATIENCE,
    SessionHarness,
    forged,
    lying,
)

pytestmark = pytest.mark.usefixtures("taken")


# Equivocation


def test_equivocation_ends_the_session_with_both_messages() -> None:
    """Two different releases of one round are stored as evidence and shown to all."""
    party = SessionHarness().collecting()
    one, other = party.release("ben", 0), party.release("ben", 0, values=(1, 2))
    assert party.receive(one) == []
    effects = party.receive(other)
    assert effects == [
        "send halt 0 EQUIVOCATION showing 2",
        "fail for good: Equivocation ben",
    ]
    assert isinstance(party.error, Equivocation)
    assert party.error.evidence == (one.data, other.data)
    assert "'ben' signed two different messages for round 1" in str(party.error)
    halt = party.sent[-1].message
    assert isinstance(halt, Halt)
    assert halt.evidence == (one.data, other.data)


@pytest.mark.parametrize("place", ["last", "next", "seal"])
def test_equivocation_is_found_wherever_messages_are_kept(place: str) -> None:
    """The last round, the next round and the seals are compared as well."""
    party = SessionHarness().collecting(1)
    if place == "last":
        other: Signed | Message = party.release("ben", 0, values=(1, 2))
    elif place == "next":
        party = SessionHarness().collecting(0)
        party.receive(party.release("ben", 1))
        other = party.release("ben", 1, values=(1, 2))
    else:
        party.receive(party.seal("ben"))
        other = party.seal("ben", chain_hash=bytes(32))
    effects = party.receive(other)
    assert effects[1:] == ["fail for good: Equivocation ben"]


def test_both_seals_of_a_member_are_no_equivocation() -> None:
    """A seal and the later news of having all seals have one chain hash."""
    party = SessionHarness().collecting(1)
    assert party.receive(party.seal("ben"), party.seal("ben", has_all_seals=True)) == []


def test_a_proof_from_a_peer_ends_the_session_here_too() -> None:
    """A Halt with two clashing releases convicts their sender, not the peer that shows them."""
    party = SessionHarness().collecting()
    pair = party.release("cyd", 0), party.release("cyd", 0, values=(1, 2))
    effects = party.receive(party.halt("ben", 0, *pair, reason=Reason.EQUIVOCATION))
    assert effects[1:] == ["fail for good: Equivocation cyd"]


def test_a_halted_party_repeats_its_proof_for_a_while() -> None:
    """Peers that still run receive the Halt again; then the party leaves."""
    party = SessionHarness().collecting()
    party.receive(party.release("ben", 0), party.release("ben", 0, values=(1, 2)))
    again = ["send halt 0 EQUIVOCATION showing 2"]
    assert party.advance_time(FIRST) == again
    assert party.advance_time(2 * FIRST) == again
    assert party.receive(party.hello("cyd", wants_reply=True), party.release("cyd", 0)) == []
    assert party.advance_time(FIRST) == again
    assert "leave" in party.advance_time(LINGER_SECONDS)


def test_two_victims_find_the_equivocator_one_round_later() -> None:
    """Their chain hashes differ, and the rounds that both show name the liar."""
    ada, ben = SessionHarness("ada").collecting(), SessionHarness("ben").collecting()
    to_ada, to_ben = ada.release("cyd", 0), ada.release("cyd", 0, values=(1, 2))
    assert ada.receive(ben.sent[-1], to_ada) == ["record 0", "respond 1"]
    assert ben.receive(ada.sent[-1], to_ben) == ["record 0", "respond 1"]
    assert ada.session.state.chain_hash != ben.session.state.chain_hash
    ada.submit()
    ben.submit()
    assert ada.receive(ben.sent[-1]) == ["send halt 1 HEADS_DIFFER showing 4"]
    convicted = ["send halt 1 EQUIVOCATION showing 2", "fail for good: Equivocation cyd"]
    assert ben.receive(ada.sent[-1]) == convicted
    assert isinstance(ben.error, Equivocation)
    assert set(ben.error.evidence) == {to_ada.data, to_ben.data}
    assert ada.receive(ben.sent[-1]) == convicted
    assert isinstance(ada.error, Equivocation)
    assert set(ada.error.evidence) == {to_ada.data, to_ben.data}


def test_an_early_release_with_another_chain_hash_is_reported() -> None:
    """As soon as its round is the current one."""
    party = SessionHarness().collecting()
    early = lying(party.release("cyd", 1), chain_hash=bytes(32))
    assert party.receive(early, party.release("cyd", 0)) == []
    effects = party.receive(party.release("ben", 0))
    assert effects == ["record 0", "send halt 1 HEADS_DIFFER showing 4", "respond 1"]
    party.submit()
    assert party.missing == ["ben", "cyd"], "it does not count"


def test_seals_reveal_different_chain_hashes_of_the_last_round() -> None:
    """No party finishes on a seal with another chain hash."""
    party = SessionHarness().sealing()
    effects = party.receive(party.seal("ben", chain_hash=bytes(32)), party.seal("cyd"))
    assert effects == ["send halt 2 HEADS_DIFFER showing 4"]
    assert party.missing == ["ben"]


def test_an_early_seal_is_checked_before_the_session_finishes() -> None:
    """One with another chain hash is reported and does not count."""
    party = SessionHarness().collecting(1)
    party.receive(party.seal("ben", chain_hash=bytes(32)), party.seal("cyd"))
    effects = party.receive(*(party.release(p, 1) for p in party.peers))
    assert effects == ["record 1", "send halt 2 HEADS_DIFFER showing 4", "send seal 2"]
    assert party.missing == ["ben"]


def test_a_false_chain_hash_convicts_the_liar_and_not_the_reporter() -> None:
    """A peer that received another message of the liar finds the proof in the Halt."""
    ada, ben = (
        SessionHarness("ada", members=4).collecting(1),
        SessionHarness("ben", members=4).collecting(1),
    )
    truth = ada.release("cyd", 1)
    ada.receive(truth)
    assert ben.receive(lying(truth, chain_hash=bytes(32))) == ["send halt 1 HEADS_DIFFER showing 5"]
    effects = ada.receive(ben.sent[-1])
    assert effects == ["send halt 1 EQUIVOCATION showing 2", "fail for good: Equivocation cyd"]


def test_without_proof_the_diverging_peer_is_named_and_nothing_is_final() -> None:
    """The peer that reported the difference is not blamed."""
    ada, ben = (
        SessionHarness("ada", members=4).collecting(1),
        SessionHarness("ben", members=4).collecting(1),
    )
    stray = lying(ada.release("cyd", 1), chain_hash=bytes(32))
    ben.receive(stray)
    assert ada.receive(ben.sent[-1], *(ada.release(p, 1) for p in ("ben", "dan"))) == []
    assert ada.advance_time(PATIENCE) == ["fail: Diverged cyd"]
    assert isinstance(ada.error, Diverged)
    assert ada.error.evidence == (stray.data,)


def test_own_evidence_is_repeated_while_a_peer_diverges() -> None:
    """It is sent beside our releases."""
    party = SessionHarness().collecting(1)
    party.receive(lying(party.release("cyd", 1), chain_hash=bytes(32)))
    shown = ["send release 0", "send release 1", "send halt 1 HEADS_DIFFER showing 4"]
    assert party.advance_time(FIRST) == shown


def test_a_hello_with_another_chain_hash_is_reported_and_forgiven() -> None:
    """A Hello is no commitment: a later release with our chain hash settles the matter."""
    party = SessionHarness().collecting(1)
    assert party.receive(party.hello("ben", round=1, chain_hash=bytes(32))) == [
        "send halt 1 HEADS_DIFFER showing 4"
    ]
    effects = party.receive(*(party.release(p, 1) for p in party.peers))
    assert effects == ["record 1", "send seal 2"]
    assert "halt" not in str(party.advance_time(FIRST))


def test_a_release_with_another_chain_hash_is_not_forgiven() -> None:
    """A second release of the round, with our chain hash, is the proof."""
    party = SessionHarness().collecting(1)
    party.receive(lying(party.release("ben", 1), chain_hash=bytes(32)))
    effects = party.receive(party.release("ben", 1))
    assert effects[-1] == "fail for good: Equivocation ben"


# Different prices


class Skewed(RoundEngine):
    """An engine that computes another chain hash."""

    def advance(self, state: RoundState, values: Ticks) -> RoundState:
        right = super().advance(state, values)
        return replace(right, chain_hash=bytes(31) + b"!")


def test_a_party_that_computes_other_prices_is_named() -> None:
    """The same releases must give all parties the same chain hash."""
    ada, ben, cyd = SessionHarness("ada"), SessionHarness("ben"), SessionHarness("cyd")
    ben.session.engine = Skewed(ben.agreement)
    for party in (ada, ben, cyd):
        party.collecting()
        party.receive(*(party.release(p, 0) for p in party.peers))
        party.submit()
    assert ada.receive(ben.sent[-1]) == ["send halt 1 HEADS_DIFFER showing 4"]
    assert cyd.receive(ada.sent[-1]) == []
    shown = ["send halt 1 HEADS_DIFFER showing 3", "send halt 1 HEADS_DIFFER showing 1"]
    assert ben.receive(ada.sent[-1]) == [*shown, "fail for good: DifferentPrices ada"]
    assert ada.receive(*ben.sent[-2:]) == [*shown, "fail for good: DifferentPrices ben"]
    assert cyd.receive(ada.sent[-1]) == [*shown, "fail for good: DifferentPrices ben"], "passed on"
    assert isinstance(cyd.error, DifferentPrices)
    assert "'ben' got other prices than 'cyd' from the same releases of round 1" in str(cyd.error)
    assert cyd.advance_time(FIRST) == shown, "it repeats that"


def test_a_halt_convicts_only_its_sender_of_other_prices() -> None:
    """No other member is named for it."""
    party = SessionHarness(rounds=3).collecting(1)
    halt = sign(party.halt("ben", 1, *party.transcript.rounds[0], chain_hash=bytes(32)))
    outer = party.halt("cyd", 1, halt)
    assert party.receive(outer)[-1] == "fail for good: DifferentPrices ben"
    party = SessionHarness(rounds=3).collecting(2)
    assert party.receive(party.halt("cyd", 2, halt))[-1] == "fail for good: Equivocation ben", (
        "later"
    )


# Halts that prove nothing


@pytest.mark.parametrize("evidence", ["none", "garbage", "one", "hello", "forged"])
def test_a_halt_without_proof_stops_nothing(evidence: str) -> None:
    """The operator is warned once, and the session goes on to its end."""
    party = SessionHarness().collecting(1)
    release = party.release("cyd", 0)
    shown = {
        "none": (),
        "garbage": (Signed(release.message, b"garbage"), Signed(release.message, b"")),
        "one": (release, release),
        "hello": (sign(party.hello("cyd")), sign(party.hello("cyd", wants_reply=True))),
        "forged": (release, forged(release, values=(1, 2))),
    }[evidence]
    halt = party.halt("ben", 1, *shown, reason=Reason.EQUIVOCATION)
    assert party.receive(halt) == ["warn"]
    assert party.receive(halt) == [], "one warning"
    effects = party.receive(*(party.release(peer, 1) for peer in party.peers))
    assert effects == ["record 1", "send seal 2"]
    assert party.receive(*map(party.seal, party.peers))[0] == "finish 2"


def test_an_own_release_in_a_halt_is_looked_at_before_any_fault() -> None:
    """An old ledger must be found first: then nothing is final (SPEC §7, step 1)."""
    party = SessionHarness()
    party.begin()
    lie = party.release("cyd", 0), party.release("cyd", 0, values=(1, 2))
    assert party.receive(party.halt("ben", 0, *lie, party.release("ada", 0))) == ["fail: BadLedger"]


def test_an_empty_halt_to_one_party_blames_no_honest_member() -> None:
    """The reaction of its receiver gives the others no reason to blame the receiver."""
    ada, cyd = SessionHarness("ada").collecting(1), SessionHarness("cyd").collecting(1)
    assert ada.receive(ada.halt("ben", 1)) == []
    assert ada.receive(ada.halt("ben", 1, chain_hash=bytes(32))) == [
        "send halt 1 HEADS_DIFFER showing 3"
    ]
    assert cyd.receive(ada.sent[-1]) == []
    effects = cyd.receive(*(cyd.release(peer, 1) for peer in cyd.peers))
    assert effects == ["record 1", "send seal 2"], "it goes on"


def test_a_halt_and_a_release_with_different_chain_hashes_convict() -> None:
    """No honest party has two chain hashes in one round."""
    party = SessionHarness().collecting(1)
    party.receive(party.release("ben", 1))
    effects = party.receive(party.halt("ben", 1, chain_hash=bytes(32)))
    assert effects == ["send halt 1 EQUIVOCATION showing 2", "fail for good: Equivocation ben"]


def test_a_halt_that_is_too_long_to_pass_on_proves_nothing() -> None:
    """Others could not verify such a proof."""
    party = SessionHarness().collecting(1)
    party.receive(party.release("ben", 1))
    longest_one = [*party.transcript.rounds[0], sign(party.hello("ben"))]
    halt = party.halt("ben", 1, *longest_one, chain_hash=bytes(32))
    padding = max_message_bytes(party.agreement) - len(sign(halt).data)
    stuffed = replace(halt, evidence=(*halt.evidence[:-1], bytes(padding + 200)))
    assert len(sign(stuffed).data) <= max_message_bytes(party.agreement)
    effects = party.receive(stuffed)
    assert effects == ["send halt 1 HEADS_DIFFER showing 3"]
    assert party.session.phase is Phase.COLLECTING


def test_a_halt_in_round_0_cannot_prove_other_prices() -> None:
    """There are no earlier releases, so we only show our evidence."""
    party = SessionHarness().collecting()
    assert party.receive(party.halt("ben", 0, chain_hash=bytes(32))) == [
        "send halt 0 HEADS_DIFFER showing 0"
    ]
    assert party.advance_time(PATIENCE) == ["fail: Diverged ben"]


# Restart after a fault


def test_a_halted_party_shows_its_proof_after_a_restart() -> None:
    """A party that was absent learns of the fault from any member that restarts."""
    party = SessionHarness().collecting()
    pair = party.release("ben", 0), party.release("ben", 0, values=(1, 2))
    party.receive(*pair)
    assert party.session.witnessed == pair
    again, absent = (
        SessionHarness(released=1, proof=party.session.witnessed),
        SessionHarness("cyd", released=1),
    )
    absent.begin()
    assert again.begin() == ["send halt 0 EQUIVOCATION showing 2"]
    assert absent.receive(*again.sent)[-1] == "fail for good: Equivocation ben"
    again.receive(*absent.sent)
    assert again.advance_time(FIRST) == ["send halt 0 EQUIVOCATION showing 2"]
    assert "leave" in again.advance_time(LINGER_SECONDS)


def test_proof_of_other_prices_is_shown_after_a_restart() -> None:
    """The Halt of the accused is sent together with our own last round."""
    party = SessionHarness().collecting(1)
    halt = sign(party.halt("ben", 1, *party.transcript.rounds[0], chain_hash=bytes(32)))
    party.receive(halt)
    again = SessionHarness(closed=1, released=2, proof=party.session.witnessed)
    shown = ["send halt 1 HEADS_DIFFER showing 3", "send halt 1 HEADS_DIFFER showing 1"]
    assert again.begin() == shown
    absent = SessionHarness("cyd", closed=1, released=1)
    absent.begin()
    assert absent.receive(*again.sent)[-1] == "fail for good: DifferentPrices ben"
