"""One party at the end of a session: seals, early ends, late peers, missing seals."""

import pytest

from protocol.errors import (
    Unsealed,
)
from protocol.session.effects import Finish, Respond
from protocol.session.phases import Phase
from protocol.session.timers import HELLO_SECONDS, LINGER_SECONDS
from protocol.wire.messages import (
    Hello,
    Reason,
)
from tests.support.session_harness import (
    FIRST,
    LONGEST,
    PATIENCE,
    SessionHarness,
    ending_early,
    lying,
)

pytestmark = pytest.mark.usefixtures("taken")


# Sealing


def test_parties_seal_finish_and_leave() -> None:
    """First come the seals, then the news that all seals have arrived."""
    party = SessionHarness().collecting(1)
    effects = party.receive(*(party.release(peer, 1) for peer in party.peers))
    assert effects == ["record 1", "send seal 2"]
    assert party.receive(party.seal("ben")) == []
    assert party.missing == ["cyd"]
    assert party.receive(party.seal("cyd")) == ["finish 2", "send complete seal 2"]
    finish = next(e for e in party.effects if isinstance(e, Finish))
    assert finish.state.chain_hash == party.positions[2].chain_hash
    assert [s.message.sender for s in finish.seals] == ["ada", "ben", "cyd"]
    assert party.missing == ["ben", "cyd"]
    assert party.receive(party.seal("cyd", has_all_seals=True)) == []
    assert party.receive(party.seal("ben", has_all_seals=True)) == ["leave"]


def test_early_seals_count() -> None:
    """Seals of peers that closed the last round first are kept."""
    party = SessionHarness().collecting(1)
    assert party.receive(party.release("ben", 1), *map(party.seal, party.peers)) == []
    effects = party.receive(party.release("cyd", 1))
    assert effects == ["record 1", "send seal 2", "finish 2", "send complete seal 2"]


def test_a_seal_of_the_wrong_round_is_ignored() -> None:
    """One of the current round, or two rounds ahead, has no effect."""
    party = SessionHarness(rounds=3).collecting()
    assert party.receive(party.seal("ben", round=0), party.seal("ben", round=2)) == []
    party.receive(*(party.release(p, 0) for p in party.peers))
    party.submit()
    party.receive(*(party.release(p, 1) for p in party.peers))
    party.submit()
    effects = party.receive(party.seal("cyd"), *(party.release(p, 2) for p in party.peers))
    assert effects == ["record 2", "send seal 3"]
    assert party.missing == ["ben"]


def test_each_seal_begins_patience_again() -> None:
    """A party that has just heard a seal does not give up on the others."""
    party = SessionHarness().sealing()
    party.advance_time(PATIENCE - 1.0)
    party.receive(party.seal("ben"))
    assert not any(line.startswith("fail") for line in party.advance_time(PATIENCE - 1.0))
    assert party.receive(party.seal("cyd")) == ["finish 2", "send complete seal 2"]


def test_a_repeated_seal_does_not_make_a_party_send_more() -> None:
    """While seals are missing, the waits between its messages stay long."""
    party = SessionHarness().sealing()
    party.receive(party.seal("ben"))
    for _ in range(8):
        party.advance_time(LONGEST)
    assert party.receive(party.seal("ben")) == []
    assert party.advance_time(0.9 * LONGEST) == []
    assert "send seal 2" in party.advance_time(0.1 * LONGEST)


# An early end


def test_a_session_that_ends_early_is_sealed() -> None:
    """When the price rule ends the session, no more releases are requested."""
    party = SessionHarness(agreement=ending_early()).collecting(2)
    assert party.positions[-1].round == 3 < party.agreement.rounds
    effects = party.receive(*(party.release(peer, 2) for peer in party.peers))
    assert effects == ["record 2", "send seal 3"]
    assert party.missing == ["ben", "cyd"]
    assert party.receive(*map(party.seal, party.peers)) == ["finish 3", "send complete seal 3"]
    assert party.advance_time(FIRST) == ["send release 2", "send seal 3", "send complete seal 3"]
    finish = next(e for e in party.effects if isinstance(e, Finish))
    assert finish.state.chain_hash == party.positions[-1].chain_hash
    assert [s.message.round for s in finish.seals] == [3, 3, 3]


def test_a_release_after_the_end_has_no_effect() -> None:
    """A release of a round that does not exist changes nothing."""
    party = SessionHarness(agreement=ending_early()).sealing()
    assert party.receive(*(party.release(peer, 3) for peer in party.peers)) == []
    assert party.session.phase is Phase.SEALING
    assert party.missing == ["ben", "cyd"]
    assert [e.state.round for e in party.effects if isinstance(e, Respond)] == [0, 1, 2]
    assert party.receive(*map(party.seal, party.peers)) == ["finish 3", "send complete seal 3"]


def test_a_seal_one_round_ahead_counts_if_the_session_ends_there() -> None:
    """A peer that closed the last round first knows the end; its seal is kept."""
    party = SessionHarness(agreement=ending_early()).collecting(2)
    assert party.receive(party.release("ben", 2), *map(party.seal, party.peers)) == []
    effects = party.receive(party.release("cyd", 2))
    assert effects == ["record 2", "send seal 3", "finish 3", "send complete seal 3"]


def test_a_seal_of_a_false_end_is_ignored() -> None:
    """Its sender can still seal the true end."""
    party = SessionHarness(agreement=ending_early()).collecting(1)
    claim = party.seal("ben", round=2)
    assert party.receive(claim) == []
    effects = party.receive(*(party.release(peer, 1) for peer in party.peers))
    assert effects == ["record 1", "respond 2"]
    assert party.receive(claim) == []
    party.submit()
    assert party.receive(claim) == []
    effects = party.receive(*(party.release(peer, 2) for peer in party.peers))
    assert effects == ["record 2", "send seal 3"]
    assert party.missing == ["ben", "cyd"]
    assert party.receive(claim) == []
    assert party.receive(*map(party.seal, party.peers)) == ["finish 3", "send complete seal 3"]


@pytest.mark.parametrize("round", [1, 2])
def test_an_early_seal_with_another_chain_hash_is_reported(round: int) -> None:  # noqa: A002
    """As soon as the round closes, whether the session is over then or not."""
    party = SessionHarness(agreement=ending_early()).collecting(round)
    assert party.receive(party.seal("cyd", round=round + 1, chain_hash=bytes(32))) == []
    effects = party.receive(*(party.release(peer, round) for peer in party.peers))
    last = "send seal 3" if round == 2 else "respond 2"
    assert effects == [f"record {round}", f"send halt {round + 1} HEADS_DIFFER showing 4", last]


def test_a_seal_of_our_round_with_another_chain_hash_is_reported() -> None:
    """Even while the session is not over."""
    party = SessionHarness(agreement=ending_early()).collecting(1)
    effects = party.receive(party.seal("cyd", round=1, chain_hash=bytes(32)))
    assert effects == ["send halt 1 HEADS_DIFFER showing 4"]


def test_two_early_seals_with_different_chain_hashes_are_equivocation() -> None:
    """A kept message is compared with what its sender sends next."""
    party = SessionHarness(agreement=ending_early()).collecting(2)
    effects = party.receive(party.seal("ben"), party.seal("ben", chain_hash=bytes(32)))
    assert effects == ["send halt 2 EQUIVOCATION showing 2", "fail for good: Equivocation ben"]


def test_a_restart_after_an_early_end_seals() -> None:
    """The ledger shows the end; no release is requested."""
    party = SessionHarness(agreement=ending_early(), closed=3, released=3)
    assert party.begin() == ["send seal 3"]
    assert party.receive(*map(party.seal, party.peers)) == ["finish 3", "send complete seal 3"]


def test_a_restart_with_all_seals_of_an_early_end_helps_late_peers() -> None:
    """The party is finished from the start."""
    party = SessionHarness(agreement=ending_early(), closed=3, released=3, sealed=True)
    effects = party.begin()
    assert effects == ["finish 3", "send release 2", "send seal 3", "send complete seal 3"]
    effects = party.receive(*(party.seal(peer, has_all_seals=True) for peer in party.peers))
    assert effects == ["leave"]


def test_a_restart_one_round_before_an_early_end_resumes() -> None:
    """Seals that come during the handshake are kept for the end."""
    party = SessionHarness(agreement=ending_early(), closed=2, released=3)
    party.begin()
    assert party.receive(*map(party.seal, party.peers)) == []
    effects = party.receive(*(party.hello(peer, round=3) for peer in party.peers))
    assert effects == ["respond 2"]
    assert party.submit() == ["send release 2"]
    effects = party.receive(*(party.release(peer, 2) for peer in party.peers))
    assert effects == ["record 2", "send seal 3", "finish 3", "send complete seal 3"]


# Late peers


def test_a_finished_party_stays_for_a_few_seconds() -> None:
    """Unless all peers say earlier that they have all seals."""
    party = SessionHarness().finished()
    last_messages = ["send release 1", "send seal 2", "send complete seal 2"]
    assert party.advance_time(FIRST) == last_messages
    assert party.advance_time(LINGER_SECONDS - FIRST - 0.001) == last_messages
    assert party.advance_time(0.001) == ["leave"]
    assert party.advance_time(LONGEST) == [], "it has left"


def test_a_finished_party_helps_late_peers() -> None:
    """It replies to Hellos, and repeats its seal to a peer that lacks some."""
    party = SessionHarness().finished()
    for _ in range(3):
        party.advance_time(FIRST)
    party.receive(party.hello("cyd", round=2, nonce=b"cyd in life two!", wants_reply=True))
    assert party.advance_time(HELLO_SECONDS) == ["send hello 2"]
    answer = party.sent[-1].message
    assert isinstance(answer, Hello)
    assert answer.echo == b"cyd in life two!"
    assert answer.known_ahead == bytes([0, 1, 1]), "all rounds, and the seals of both"
    party.advance_time(LONGEST)
    party.receive(party.seal("cyd"))
    assert party.advance_time(FIRST) == ["send release 1", "send seal 2", "send complete seal 2"]


def test_a_finished_session_stays_finished() -> None:
    """No later message can undo it."""
    party = SessionHarness().finished()
    other = lying(party.release("ben", 1), values=(7, 7))
    late = (
        other,
        party.halt("cyd", 2, party.release("ben", 1), other, reason=Reason.EQUIVOCATION),
        party.halt("cyd", 2, *party.transcript.rounds[1], chain_hash=bytes(32)),
        party.seal("ben", chain_hash=bytes(32)),
        party.hello("ben", round=2, chain_hash=bytes(32)),
        party.hello("ben", round=2, known=4),
        party.release("ben", 0),
    )
    assert party.receive(*late) == []
    assert party.session.phase is Phase.FINISHED
    assert party.receive(*(party.seal(p, has_all_seals=True) for p in party.peers)) == ["leave"]


def test_a_finished_party_that_restarts_helps_late_peers() -> None:
    """It repeats its last messages, replies, and leaves."""
    party = SessionHarness(closed=2, released=2, sealed=True)
    last_messages = ["send release 1", "send seal 2", "send complete seal 2"]
    assert party.begin() == ["finish 2", *last_messages]
    assert party.session.phase is Phase.FINISHED
    party.receive(party.hello("cyd", round=1, known=2, wants_reply=True, has={"cyd": 2}))
    assert party.advance_time(HELLO_SECONDS) == ["send hello 2"]
    assert party.advance_time(FIRST) == [*last_messages, "send ben's release 1"]
    assert party.receive(party.seal("cyd")) == []
    assert party.advance_time(FIRST) == last_messages
    assert party.receive(*(party.seal(p, has_all_seals=True) for p in party.peers)) == ["leave"]


def test_the_same_seals_are_kept_in_any_order() -> None:
    """The news of having all seals is not kept, so all parties keep equal bytes."""
    kept = []
    for me, order in (("ada", (False, True)), ("ben", (True, False)), ("cyd", (False,))):
        party = SessionHarness(me).sealing()
        for has_all_seals in order:
            assert party.session.phase is (Phase.FINISHED if kept_by(party) else Phase.SEALING)
            party.receive(*(party.seal(peer, has_all_seals=has_all_seals) for peer in party.peers))
        kept.append(kept_by(party))
    assert kept == [[signed.data for signed in party.transcript.seals]] * 3


def kept_by(party: SessionHarness) -> list[bytes]:
    """The seals that a party has recorded, if any."""
    seals = [effect.seals for effect in party.effects if isinstance(effect, Finish)]
    return [signed.data for signed in seals[0]] if seals else []


def test_a_late_peer_finishes_with_a_restarted_party() -> None:
    """A party that lost power before the last seal needs one peer that has all."""
    late, back = (
        SessionHarness("ada", closed=2, released=2),
        SessionHarness("ben", closed=2, released=2, sealed=True),
    )
    assert late.begin() == ["send seal 2"]
    back.begin()
    assert late.receive(*back.sent) == []
    assert late.missing == ["cyd"]
    late.advance_time(FIRST)
    back.receive(*late.sent)
    assert "send cyd's seal 2" in back.advance_time(FIRST)
    effects = late.receive(*back.sent)
    assert effects == ["finish 2", "send complete seal 2"]
    back.receive(*late.sent)
    assert back.missing == ["cyd"]


def test_a_party_that_missed_the_end_finishes_with_one_peer() -> None:
    """Any peer sends it the releases of the last round and the seals."""
    late, back = (
        SessionHarness("ada", closed=1, released=2),
        SessionHarness("ben", closed=2, released=2, sealed=True),
    )
    assert late.begin() == ["send asking hello 1"]
    back.begin()
    back.receive(late.sent[-1])
    back.advance_time(HELLO_SECONDS)
    assert "send cyd's release 1" in back.advance_time(FIRST)
    assert late.receive(*back.sent) == ["record 1", "send seal 2"]
    late.advance_time(FIRST)
    back.receive(*late.sent)
    back.advance_time(FIRST)
    assert late.receive(*back.sent) == ["finish 2", "send complete seal 2"]


def test_closing_a_round_during_the_handshake_does_not_end_it() -> None:
    """A round closed with a recorded release lets no party release more."""
    party = SessionHarness(rounds=3, released=1)
    party.begin()
    effects = party.receive(*(party.release(peer, 0) for peer in party.peers))
    assert effects == ["record 0"]
    assert party.session.phase is Phase.HANDSHAKE
    assert party.missing == ["ben", "cyd"]
    assert party.receive(*(party.hello(p, round=1) for p in party.peers)) == ["respond 1"]


# Missing seals


def test_a_seal_is_passed_on_to_a_peer_that_lacks_it() -> None:
    """A waiting peer lists its missing seals, and any member sends them."""
    ada, ben = SessionHarness("ada").sealing(), SessionHarness("ben").sealing()
    ada.receive(ada.seal("cyd"), ada.seal("ben"))
    assert ada.session.phase is Phase.FINISHED
    ben.receive(*ada.sent[-2:])
    assert ben.advance_time(FIRST) == ["send release 1", "send seal 2", "send hello 2"]
    assert ben.missing == ["cyd"]
    ada.receive(ben.sent[-1])
    passed = [*ada_last_messages(ada), "send cyd's seal 2"]
    assert ada.advance_time(FIRST) == passed
    assert ben.receive(*ada.sent) == ["finish 2", "send complete seal 2"]


def ada_last_messages(party: SessionHarness) -> list[str]:
    """What a finished party of two rounds sends again."""
    end = party.positions[-1].round
    return [f"send release {end - 1}", f"send seal {end}", f"send complete seal {end}"]


def test_a_party_that_waits_for_seals_passes_on_its_own() -> None:
    """It need not be finished for that."""
    ada = SessionHarness("ada", members=4).sealing()
    ada.receive(ada.seal("cyd"))
    ada.receive(ada.hello("ben", round=2, has={"ben": 3}))
    effects = ada.advance_time(FIRST)
    assert effects == ["send release 1", "send seal 2", "send cyd's seal 2", "send hello 2"]
    ada.receive(ada.hello("ben", round=2, has={"ben": 3, "cyd": 3}))
    assert "send cyd's seal 2" not in ada.advance_time(LONGEST)


def test_an_unsealed_outcome_can_be_sealed_later() -> None:
    """After patience the outcome stands without the missing seals; later they are added."""
    party = SessionHarness().sealing()
    party.receive(party.seal("cyd"))
    assert party.advance_time(PATIENCE) == ["fail: Unsealed"]
    assert isinstance(party.error, Unsealed)
    assert "there is no seal of 'ben'" in str(party.error)
    assert party.session.unsealed == ("ben",)
    again = SessionHarness(closed=2, released=2, witnessed=party.session.witnessed)
    assert again.begin() == ["send seal 2"]
    assert again.missing == ["ben"], "cyd's was remembered"
    assert again.receive(again.seal("ben")) == ["finish 2", "send complete seal 2"]


def test_a_finished_party_stays_longer_for_a_late_peer() -> None:
    """Once for each exchange that the peer has reached."""
    party = SessionHarness().finished()
    party.advance_time(0.9 * LINGER_SECONDS)
    party.receive(party.hello("cyd", round=1, wants_reply=True))
    assert "leave" not in party.advance_time(0.9 * LINGER_SECONDS)
    party.receive(party.hello("cyd", round=1, wants_reply=True))
    assert "leave" in party.advance_time(0.2 * LINGER_SECONDS)
