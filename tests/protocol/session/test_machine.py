"""One party: the events that it gets, and the effects that follow, in order."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.agreement.model import Agreement
from protocol.errors import (
    BadLedger,
    DifferentAgreement,
    DifferentPrices,
    Diverged,
    Equivocation,
    InternalError,
    Unavailable,
    Unsealed,
)
from protocol.numeric import Ticks
from protocol.rounds import RoundEngine, RoundState
from protocol.session.effects import Finish, Record, Respond, Warn
from protocol.session.machine import Session
from protocol.session.phases import TRANSITIONS, Event, Phase
from protocol.session.timers import HELLO_SECONDS, LINGER_SECONDS
from protocol.wire.codec import max_message_bytes
from protocol.wire.messages import (
    NO_NONCE,
    Halt,
    Hello,
    Message,
    Reason,
    Signed,
)
from tests.reference import codec as reading
from tests.support.builders import make_agreement, release_at, sign
from tests.support.session_harness import (
    FIRST,
    LONGEST,
    NONCE,
    PATIENCE,
    SessionHarness,
    assert_invariants,
    ending_early,
    forged,
    lying,
)

Row = tuple[Phase, Event]


def digest(*nonces: bytes) -> bytes:
    """The digest of these nonces, in roster order."""
    return reading.nonce_digest(list(nonces))


@pytest.fixture(autouse=True)
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Row, Phase]]]:
    """All transitions of a test. At its end the invariants of every party are checked."""
    steps: list[tuple[Row, Phase]] = []
    step = Session._go

    def watched(session: Session, event: Event) -> None:
        before = session.phase
        step(session, event)
        steps.append(((before, event), session.phase))

    monkeypatch.setattr(Session, "_go", watched)
    SessionHarness.seen = []
    yield steps
    assert all(TRANSITIONS.get(row) is phase for row, phase in steps)
    for party in SessionHarness.seen:
        assert_invariants(party)


# Handshake


def test_the_gate_is_asked_when_all_peers_have_answered() -> None:
    """A party sends a Hello, and asks its gate once the last peer has answered."""
    party = SessionHarness()
    assert party.begin() == ["send asking hello 0"]
    assert party.receive(party.hello("ben")) == []
    assert party.missing == ["cyd"]
    assert party.receive(party.hello("cyd")) == ["respond 0"]
    assert party.session.phase is Phase.RESPONDING


def test_the_last_peer_gets_its_reply_before_the_round_begins() -> None:
    """A peer that completes the handshake and still wants a reply gets it first."""
    party = SessionHarness()
    party.begin()
    party.receive(party.hello("ben"))
    assert party.receive(party.hello("cyd", wants_reply=True)) == [
        "send asking hello 0",
        "respond 0",
    ]
    answer = party.sent[-1].message
    assert isinstance(answer, Hello)
    assert answer.nonce_digest == digest(*(NONCE[name] for name in ("ada", "ben", "cyd")))
    assert answer.echo == NONCE["cyd"], "its digest differs from ours"


def test_hellos_are_repeated_with_growing_pauses() -> None:
    """A Hello without answer is sent again after 0.1, 0.2, 0.4 … and at most 1.6 seconds."""
    party = SessionHarness()
    party.begin()
    for pause in (0.1, 0.2, 0.4, 0.8, 1.6, 1.6, 1.6):
        assert party.session.deadline == pytest.approx(party.now + pause)
        assert party.advance_time(0.9 * pause) == []
        assert party.advance_time(0.11 * pause) == ["send asking hello 0"]


@pytest.mark.parametrize("echo", [NO_NONCE, b"older life of me"], ids=["none", "old"])
def test_a_hello_that_does_not_echo_this_start_proves_nothing(echo: bytes) -> None:
    """Hellos from before this start are not answers, however often they come."""
    party = SessionHarness()
    party.begin()
    assert party.receive(*[party.hello(p, echo=echo) for p in ("ben", "cyd", "ben")]) == []
    assert party.missing == ["ben", "cyd"]
    assert party.session.phase is Phase.HANDSHAKE


def test_a_burst_of_hellos_gets_one_reply() -> None:
    """Requests for a reply are collected for a moment and answered with one Hello."""
    party = SessionHarness(members=4).collecting()
    party.advance_time(HELLO_SECONDS)
    hellos = [
        party.hello(p, wants_reply=True, nonce=p.encode() * 5 + b"!") for p in ("ben", "cyd", "dan")
    ]
    assert party.receive(*hellos) == []
    assert party.advance_time(0.0) == ["send hello 0"]
    answer = party.sent[-1].message
    assert isinstance(answer, Hello)
    assert answer.nonce_digest == digest(NONCE["ada"], *(h.nonce for h in hellos))
    assert answer.echo == hellos[0].nonce
    assert party.receive(*hellos) == []
    assert party.advance_time(0.5 * HELLO_SECONDS) == []
    assert party.advance_time(0.5 * HELLO_SECONDS) == ["send hello 0"]


def test_a_digest_that_covers_this_start_is_an_answer() -> None:
    """A peer that sends the digest of all nonces knows ours."""
    party = SessionHarness()
    party.begin()
    here = digest(*(NONCE[name] for name in ("ada", "ben", "cyd")))
    assert party.receive(party.hello("ben", nonce_digest=here)) == [], (
        "cyd's nonce is not known yet"
    )
    assert party.missing == ["ben", "cyd"]
    assert party.receive(party.hello("cyd", nonce_digest=here)) == ["respond 0"]


def test_a_digest_from_before_this_start_proves_nothing() -> None:
    """A replayed digest covers another nonce of ours, or none."""
    party = SessionHarness()
    party.begin()
    for mine in (NO_NONCE, b"ada in life one!"):
        old = digest(mine, NONCE["ben"], NONCE["cyd"])
        assert (
            party.receive(*(party.hello(p, nonce_digest=old) for p in ("ben", "cyd", "ben"))) == []
        )
    assert party.missing == ["ben", "cyd"]


def test_an_early_digest_counts_once_its_nonces_are_known() -> None:
    """A Hello that came before a nonce in its digest becomes an answer when that nonce arrives."""
    party = SessionHarness()
    party.begin()
    party.receive(party.hello("cyd", nonce=b"cyd in life one!", nonce_digest=bytes(32)))
    here = digest(NONCE["ada"], NONCE["ben"], NONCE["cyd"])
    assert party.receive(party.hello("ben", nonce_digest=here)) == []
    party.receive(party.hello("cyd", nonce_digest=bytes(32)))
    assert party.missing == ["cyd"], "ben met this start of cyd before we did"


def test_peers_with_another_digest_are_echoed_one_by_one() -> None:
    """Each Hello echoes the peer that asked first; a peer with our digest needs no echo."""
    party = SessionHarness(members=4).collecting()
    party.advance_time(HELLO_SECONDS)
    ours = digest(*(NONCE[name] for name in ("ada", "ben", "cyd", "dan")))
    party.receive(
        *(party.hello(p, nonce_digest=bytes(32), wants_reply=True) for p in ("cyd", "ben"))
    )
    party.receive(party.hello("dan", nonce_digest=ours, wants_reply=True))
    for _ in range(3):
        assert "send hello 0" in party.advance_time(HELLO_SECONDS)
        party.receive(party.hello("dan", nonce_digest=ours, wants_reply=True))
    effects = [s.message.echo for s in party.sent if isinstance(s.message, Hello)][-3:]
    assert effects == [NONCE["cyd"], NONCE["ben"], NO_NONCE]


def test_replies_slow_down_while_a_peer_is_missing() -> None:
    """Until the last peer is met, replies come later and later."""
    party = SessionHarness(members=4)
    party.begin()
    pauses, since = [], party.now
    for life in range(1, 7):
        anew = bytes([life])
        party.receive(party.hello("ben", nonce=anew * 16, nonce_digest=anew * 32, wants_reply=True))
        while party.advance_time(0.01) == []:
            pass
        pauses.append(party.now - since)
        since = party.now
    assert pauses[0] == pytest.approx(HELLO_SECONDS)
    assert pauses == sorted(pauses)
    assert pauses[-1] > 8.0 * HELLO_SECONDS
    party.receive(
        *(party.hello(p, nonce_digest=bytes(32), wants_reply=True) for p in ("cyd", "dan"))
    )
    assert party.advance_time(HELLO_SECONDS) == ["send asking hello 0"]


def test_a_hello_that_wants_no_reply_gets_none() -> None:
    """So handshakes come to an end."""
    party = SessionHarness().collecting()
    assert party.receive(party.hello("ben", nonce=b"ben in life two!")) == []
    assert party.advance_time(HELLO_SECONDS) == []


# Rounds


def test_a_round_closes_with_the_last_release() -> None:
    """It is recorded, and the gate is asked for the next release."""
    party = SessionHarness().after_handshake()
    assert party.submit() == ["send release 0"]
    assert party.receive(party.release("cyd", 0)) == []
    assert party.missing == ["ben"]
    assert party.receive(party.release("ben", 0)) == ["record 0", "respond 1"]
    record = next(e for e in party.effects if isinstance(e, Record))
    assert record.messages == party.transcript.rounds[0]
    assert party.session.state.chain_hash == party.positions[1].chain_hash


def test_a_release_one_round_ahead_is_kept() -> None:
    """It waits until the round before is closed."""
    party = SessionHarness().collecting()
    assert party.receive(party.release("cyd", 0), party.release("cyd", 1)) == []
    assert party.receive(party.release("ben", 0)) == ["record 0", "respond 1"]
    assert party.submit() == ["send release 1"]
    assert party.missing == ["ben"]
    assert party.receive(party.release("ben", 1)) == ["record 1", "send seal 2"]


def test_a_release_two_rounds_ahead_is_ignored() -> None:
    """No honest peer is that far ahead, so at most one later round is kept."""
    party = SessionHarness(rounds=3).collecting()
    assert party.receive(party.release("ben", 2)) == []
    for closing in range(2):
        party.receive(*(party.release(peer, closing) for peer in party.peers))
        party.submit()
    assert party.missing == ["ben", "cyd"]


def test_releases_that_arrive_during_the_handshake_count() -> None:
    """They close the round as soon as our own release is there."""
    party = SessionHarness()
    party.begin()
    assert party.receive(*(party.release(peer, 0) for peer in party.peers)) == []
    party.receive(*(party.hello(peer) for peer in party.peers))
    assert party.submit() == ["send release 0", "record 0", "respond 1"]


def test_duplicates_are_ignored() -> None:
    """A repeated message of any round has no effect."""
    party = SessionHarness(rounds=3).collecting(2)
    party.receive(party.release("ben", 2))
    for again in (0, 1, 2, 2):
        assert party.receive(party.release("ben", again)) == []
    assert party.missing == ["cyd"]


def test_a_waiting_party_repeats_its_two_newest_messages() -> None:
    """A peer one round behind may lack both."""
    party = SessionHarness(rounds=3).collecting(1)
    assert party.advance_time(FIRST) == ["send release 0", "send release 1"]
    assert party.advance_time(FIRST) == []
    assert party.advance_time(FIRST) == ["send release 0", "send release 1"]
    party.receive(party.release("ben", 1))
    assert party.advance_time(FIRST) == ["send release 0", "send release 1"], (
        "progress shortens the wait"
    )


def test_nothing_is_repeated_while_releases_arrive() -> None:
    """A resend waits until nothing new comes in."""
    party = SessionHarness(members=4).collecting()
    assert party.advance_time(0.9 * FIRST) == []
    party.receive(party.release("ben", 0))
    assert party.advance_time(0.9 * FIRST) == []
    party.receive(party.release("cyd", 0))
    assert party.advance_time(0.9 * FIRST) == []
    assert party.advance_time(0.2 * FIRST) == ["send release 0"]


def test_a_release_is_held_until_its_round_is_out_of_reach() -> None:
    """Only bytes that the session has kept count as held: ignored ones may come again."""
    party = SessionHarness(rounds=4).collecting()
    now, next_, far = (party.release("ben", t) for t in (0, 1, 2))
    party.receive(now, next_, far)
    held = party.session.holds
    assert (held(now.data), held(next_.data), held(far.data)) == (True, True, False)
    party.receive(party.release("cyd", 0))
    party.submit()
    assert (held(now.data), held(next_.data)) == (True, True)
    party.receive(party.release("cyd", 1))
    assert (held(now.data), held(next_.data)) == (False, True)


def test_replies_do_not_delay_resends() -> None:
    """A peer that keeps asking cannot keep others from what they lack."""
    party = SessionHarness().collecting()
    lines = []
    for _ in range(40):
        party.receive(party.hello("cyd", wants_reply=True))
        lines += party.advance_time(0.09)
    assert lines.count("send release 0") >= 4


def test_patience_does_not_run_while_the_own_gate_works() -> None:
    """No peer is missing then."""
    party = SessionHarness().after_handshake()
    assert party.missing == []
    assert party.advance_time(2 * PATIENCE) == []
    assert party.session.deadline > party.now
    assert party.submit() == ["send release 0"]


@pytest.mark.parametrize("what", ["round", "chain hash", "sender", "kind"])
def test_only_the_requested_release_is_sent(what: str) -> None:
    """If the gate returns anything else, nothing is sent."""
    party = SessionHarness().after_handshake()
    wrong = {
        "round": party.release("ada", 1),
        "chain hash": lying(party.release("ada", 0), chain_hash=bytes(32)),
        "sender": party.release("ben", 0),
        "kind": sign(party.seal("ada")),
    }
    with pytest.raises(InternalError, match="something else than this round's release"):
        party.session.submit(wrong[what], party.now)


def test_a_release_that_was_not_requested_is_refused() -> None:
    """Nothing is released before the handshake is complete."""
    party = SessionHarness()
    party.begin()
    with pytest.raises(InternalError, match="SUBMITTED cannot happen while HANDSHAKE"):
        party.submit()


# Restart and old ledgers


def test_a_restarted_party_resumes_from_its_ledger() -> None:
    """Closed rounds are replayed; the recorded release is requested and sent again."""
    party = SessionHarness(rounds=3, closed=1, released=2)
    assert party.begin() == ["send asking hello 1"]
    hello = party.sent[-1].message
    assert hello.chain_hash == party.positions[1].chain_hash
    assert isinstance(hello, Hello)
    assert (hello.recorded, hello.known_ahead) == (2, b"")
    assert party.receive(*(party.hello(p, round=1, known=2) for p in party.peers)) == ["respond 1"]
    assert party.submit() == ["send release 1"]
    assert party.advance_time(FIRST) == ["send release 0", "send release 1"]
    assert party.receive(*(party.release(p, 1) for p in party.peers)) == ["record 1", "respond 2"]


def test_a_party_that_restarts_after_the_last_round_seals() -> None:
    """With all rounds in the ledger it waits for no answer."""
    party = SessionHarness(closed=2, released=2)
    assert party.begin() == ["send seal 2"]
    assert party.advance_time(FIRST) == ["send release 1", "send seal 2", "send hello 2"]
    assert party.receive(*map(party.seal, party.peers)) == ["finish 2", "send complete seal 2"]


def test_a_peer_one_round_ahead_does_not_make_a_ledger_old() -> None:
    """A party that lost power while its release was on the way resumes there."""
    party = SessionHarness(rounds=3, closed=0, released=1)
    party.begin()
    hellos = [party.hello(p, round=1, known=1) for p in party.peers]
    assert party.receive(*hellos) == ["respond 0"]
    assert party.submit() == ["send release 0"]


@pytest.mark.parametrize(
    ("round", "known"), [(0, 1), (1, 0), (2, 2)], ids=["known", "closed", "both"]
)
def test_an_old_ledger_is_refused_before_any_release(round: int, known: int) -> None:  # noqa: A002
    """The party stops if a peer shows a release of ours that the ledger lacks."""
    party = SessionHarness(rounds=3)
    party.begin()
    count = max(round, known)
    assert party.receive(party.hello("ben", round=round, known=known)) == ["warn"]
    assert party.receive(party.release("ada", count - 1)) == ["fail: BadLedger"]
    assert isinstance(party.error, BadLedger)
    text = f"others know release {count} of 'ada', signed with its key, but this ledger holds 0"
    assert text in str(party.error)
    assert party.receive(party.hello("cyd")) == []
    assert party.session.phase is Phase.HANDSHAKE


@pytest.mark.parametrize(
    ("round", "known"), [(0, 1), (1, 0), (2, 2), (1, 3)], ids=["known", "closed", "both", "most"]
)
def test_a_claim_without_proof_does_not_make_a_ledger_old(round: int, known: int) -> None:  # noqa: A002
    """A peer that claims more of our releases than we have, and shows none, has not answered."""
    party = SessionHarness(rounds=3)
    party.begin()
    claim = party.hello("ben", round=round, known=known)
    assert party.receive(claim) == ["warn"]
    assert party.receive(claim, party.hello("cyd")) == [], "one warning, and no answer"
    assert party.missing == ["ben"]
    assert party.advance_time(PATIENCE) == ["fail: Unavailable"]
    assert "'ben' claims to know more of our releases" in str(party.error)
    assert party.receive(party.hello("ben")) == ["respond 0"], "the truth is an answer"


@pytest.mark.parametrize("trick", ["claims", "zeros"])
def test_a_peer_cannot_buy_patience_by_talking(trick: str) -> None:
    """Withdrawn claims and Hellos without a nonce do not prolong the wait."""
    party = SessionHarness(rounds=3)
    party.begin()
    effects = [party.hello("ben", known=1), party.hello("ben")]
    if trick == "zeros":
        effects = [party.hello("ben", nonce=NO_NONCE, nonce_digest=bytes(32))]
    ended: list[str] = []
    for _ in range(12):
        ended += party.advance_time(PATIENCE / 8)
        if "fail: Unavailable" in ended:
            break
        party.receive(*effects)
    assert ended[-1] == "fail: Unavailable"
    assert "nothing from" in str(party.error)
    assert "'cyd'" in str(party.error)


@pytest.mark.parametrize(("round", "ahead"), [(3, 2), (4, 0), (10**6, 2)])
def test_a_claim_beyond_the_last_round_is_ignored(round: int, ahead: int) -> None:  # noqa: A002
    """It causes not even a warning."""
    party = SessionHarness(rounds=3)
    party.begin()
    assert party.receive(replace(party.hello("ben", known=ahead), round=round)) == []
    assert party.missing == ["ben", "cyd"]


def test_a_peer_that_lost_its_newest_release_gets_it_back() -> None:
    """If its Hello counts fewer own releases than we hold, we send the newest back."""
    party = SessionHarness(rounds=3).collecting(1)
    party.advance_time(HELLO_SECONDS)
    effects = party.receive(party.hello("ben", round=1, wants_reply=True, has={"ben": 0}))
    effects += party.advance_time(0.0)
    assert effects == ["send hello 1", "send ben's release 0"]
    party.receive(party.release("ben", 1))
    party.advance_time(HELLO_SECONDS)
    party.receive(party.hello("ben", round=1, wants_reply=True, has={"ben": 1}))
    assert party.advance_time(0.0) == ["send hello 1", "send ben's release 1"], "the newest"
    party.advance_time(HELLO_SECONDS)
    party.receive(party.hello("ben", round=1, wants_reply=True, has={"ben": 2}))
    assert party.advance_time(0.0) == ["send hello 1"], "it has all of them"


def test_a_restarted_witness_still_exposes_an_old_ledger() -> None:
    """It kept the releases of the open round."""
    ben = SessionHarness("ben", rounds=3, witnessed=(SessionHarness(rounds=3).release("ada", 0),))
    ada = SessionHarness(rounds=3)
    ada.begin()
    ben.begin()
    ben.receive(ada.sent[-1])
    ben.advance_time(HELLO_SECONDS)
    assert ada.receive(*ben.sent[-2:]) == ["warn", "fail: BadLedger"]


def test_an_own_release_from_the_network_exposes_an_old_ledger() -> None:
    """The ledger is an old copy if it lacks a release that we signed."""
    party = SessionHarness(rounds=3, closed=1, released=1)
    party.begin()
    assert party.receive(party.release("ada", 0)) == []
    assert party.receive(party.release("ada", 1)) == ["fail: BadLedger"]
    text = "others know release 2 of 'ada', signed with its key, but this ledger holds 1"
    assert text in str(party.error)


def test_an_old_hello_cannot_hide_an_old_ledger() -> None:
    """A Hello that answered an earlier start does not answer this one."""
    party = SessionHarness(rounds=3)
    party.begin()
    party.receive(party.hello("ben"))
    assert party.receive(party.hello("cyd", echo=b"ada in life one!")) == []
    assert party.missing == ["cyd"]
    assert party.receive(party.hello("cyd", known=1)) == ["warn"]
    assert party.missing == ["cyd"]


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


# Silence


def test_silence_in_the_handshake_names_the_missing() -> None:
    """After the agreed patience the error lists the peers without answer."""
    party = SessionHarness(members=4)
    party.begin()
    party.receive(party.hello("cyd"))
    party.advance_time(PATIENCE - 1.0)
    assert party.advance_time(1.0) == ["fail: Unavailable"]
    assert isinstance(party.error, Unavailable)
    text = "nothing from 'ben', 'dan' for 120 seconds in round 0 of 2."
    assert str(party.error).startswith(text)


def test_silence_in_a_round_names_the_missing() -> None:
    """Patience begins again with every release of the round."""
    party = SessionHarness(members=4).collecting(1)
    party.advance_time(PATIENCE - 1.0)
    party.receive(party.release("dan", 1))
    assert "fail: Unavailable" not in party.advance_time(PATIENCE - 1.0)
    assert party.advance_time(1.0) == ["fail: Unavailable"]
    assert str(party.error).startswith("nothing from 'ben', 'cyd' for 120 seconds in round 1 of 2.")


def test_silence_while_sealing_names_the_missing() -> None:
    """A peer that never seals is named, even if its chain hash differs."""
    party = SessionHarness().sealing()
    party.receive(party.seal("cyd"), party.seal("ben", chain_hash=bytes(32)))
    assert party.advance_time(PATIENCE) == ["fail: Unsealed"]
    assert "there is no seal of 'ben'; 'ben' has another chain hash" in str(party.error)


# Another agreement


def other_agreement() -> Agreement:
    return make_agreement(members=3, rounds=4)


def test_a_party_stops_if_most_peers_have_another_agreement() -> None:
    """The error has both digests."""
    party, theirs = SessionHarness(), other_agreement()
    party.begin()
    assert party.receive(party.hello("ben", agreement=theirs, echo=NO_NONCE)) == [], "may be old"
    assert party.receive(party.hello("ben", agreement=theirs)) == ["warn"]
    assert party.receive(party.hello("ben", agreement=theirs)) == [], "one warning"
    effects = party.receive(party.hello("cyd", agreement=theirs))
    assert effects == ["fail: DifferentAgreement cyd"]
    assert isinstance(party.error, DifferentAgreement)
    assert theirs.digest.hex() in str(party.error)
    assert party.agreement.digest.hex() in str(party.error)


def test_a_minority_with_another_agreement_is_waited_for() -> None:
    """The operator is warned; the peer may come back with ours."""
    party, theirs = SessionHarness(), other_agreement()
    party.begin()
    party.receive(party.hello("ben"))
    assert party.receive(party.hello("cyd", agreement=theirs)) == ["warn"]
    warning = next(e for e in party.effects if isinstance(e, Warn))
    assert theirs.digest.hex() in warning.text
    assert party.agreement.digest.hex() in warning.text
    assert party.receive(party.hello("cyd")) == ["respond 0"]


def test_the_error_names_a_missing_peer_with_another_agreement() -> None:
    """If that peer never comes back, the error says why it is missing."""
    party, theirs = SessionHarness(), other_agreement()
    party.begin()
    party.receive(party.hello("ben"), party.hello("cyd", agreement=theirs))
    assert party.advance_time(PATIENCE) == ["fail: Unavailable"]
    assert f"'cyd' has another agreement, {theirs.digest.hex()}" in str(party.error)


def test_two_parties_with_different_agreements_both_stop() -> None:
    """Between two there is no majority."""
    party = SessionHarness(members=2)
    party.begin()
    effects = party.receive(party.hello("ben", agreement=make_agreement(members=2, rounds=9)))
    assert effects == ["fail: DifferentAgreement ben"]


def test_a_hello_of_another_agreement_gets_a_reply() -> None:
    """So the other side sees the difference; a running session is not disturbed."""
    party = SessionHarness().collecting()
    asking = party.hello(
        "ben", agreement=other_agreement(), wants_reply=True, nonce=b"ben in life two!"
    )
    assert party.receive(asking) == []
    assert party.advance_time(HELLO_SECONDS) == ["send hello 0"]
    answer = party.sent[-1].message
    assert isinstance(answer, Hello)
    assert answer.echo == b"ben in life two!"
    assert answer.agreement == party.agreement.digest


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
    assert "'ben' signed two different messages for round 0" in str(party.error)
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
    assert "'ben' got other prices than 'cyd' from the same releases of round 0" in str(cyd.error)
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


# The table


def two_releases(party: SessionHarness, round: int) -> list[str]:  # noqa: A002
    return party.receive(party.release("ben", round), party.release("ben", round, values=(1, 2)))


ROWS: dict[Row, Callable[[], object]] = {
    (Phase.HANDSHAKE, Event.EVERYONE_ANSWERED): lambda: SessionHarness().after_handshake(),
    (Phase.HANDSHAKE, Event.LAST_ROUND_CLOSED): lambda: SessionHarness(
        closed=2, released=2
    ).after_handshake(),
    (Phase.HANDSHAKE, Event.ROUND_CLOSED): lambda: [
        (s := SessionHarness(released=1)).begin(),
        s.receive(*(s.release(peer, 0) for peer in s.peers)),
    ],
    (Phase.HANDSHAKE, Event.FAULT): lambda: two_releases(SessionHarness(), 0),
    (Phase.RESPONDING, Event.SUBMITTED): lambda: SessionHarness().collecting(),
    (Phase.RESPONDING, Event.FAULT): lambda: two_releases(SessionHarness().after_handshake(), 0),
    (Phase.COLLECTING, Event.ROUND_CLOSED): lambda: SessionHarness().collecting(1),
    (Phase.COLLECTING, Event.LAST_ROUND_CLOSED): lambda: SessionHarness().sealing(),
    (Phase.COLLECTING, Event.FAULT): lambda: two_releases(SessionHarness().collecting(), 0),
    (Phase.SEALING, Event.EVERYONE_SEALED): lambda: SessionHarness().finished(),
    (Phase.SEALING, Event.FAULT): lambda: (s := SessionHarness().sealing()).receive(
        s.release("ben", 1, values=(1, 2))
    ),
}


def test_every_transition_has_a_scenario() -> None:
    """The scenarios cover exactly the table of transitions."""
    assert ROWS.keys() == TRANSITIONS.keys()


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{row[0].name}-{row[1].name}")
def test_every_transition_of_the_table_happens(row: Row, taken: list[tuple[Row, Phase]]) -> None:
    """Each one is taken in its scenario."""
    ROWS[row]()
    assert row in [step for step, _ in taken]


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("phase", Phase)
def test_a_transition_outside_the_table_is_a_defect(phase: Phase, event: Event) -> None:
    """It raises an internal error."""
    session = SessionHarness().session
    session.phase = phase
    if (phase, event) in TRANSITIONS:
        session._go(event)
        assert session.phase is TRANSITIONS[phase, event]
    else:
        with pytest.raises(InternalError):
            session._go(event)


# Random events


@st.composite
def random_events(draw: st.DrawFn) -> list[tuple[str, ...] | tuple[str, int]]:
    """Anything that peers may sign, true or not, and time, and the gate."""
    sender = st.sampled_from(("ben", "cyd"))
    small = st.integers(0, 3)
    one = st.one_of(
        st.tuples(st.just("hello"), sender, small, small, small),
        st.tuples(st.just("release"), sender, small, small, small),
        st.tuples(st.just("release"), sender, small, st.just(0), st.just(0)),
        st.tuples(st.just("seal"), sender, small, small, small),
        st.tuples(st.just("halt"), sender, small, small, small),
        st.tuples(st.just("answer")),
        st.tuples(st.just("wait"), st.sampled_from((0.05, 0.1, 1.0, 200.0))),
        st.tuples(st.just("honest"), sender),
    )
    return draw(st.lists(one, max_size=40))


@settings(max_examples=400)
@given(events=random_events(), early=st.booleans())
def test_no_sequence_of_events_breaks_an_invariant(
    events: list[tuple[object, ...]], early: bool
) -> None:
    """Signed messages, time and the gate come in any order."""
    SessionHarness.seen = []
    party = SessionHarness(agreement=ending_early()) if early else SessionHarness(rounds=2)
    party.begin()
    for event in events:
        apply_event(party, event)
    assert_invariants(party)


def apply_event(party: SessionHarness, event: tuple[object, ...]) -> None:
    if event[0] == "answer":
        if party.session.phase is Phase.RESPONDING:
            party.submit()
        return
    if event[0] == "wait":
        party.advance_time(float(str(event[1])))
        return
    sender = str(event[1])
    if event[0] == "honest":
        here = party.session.state
        if not here.over:
            party.receive(party.hello(sender), release_at(party.agreement, sender, here))
        else:
            party.receive(replace(party.seal(sender), round=here.round, chain_hash=here.chain_hash))
        return
    round_, a, b = (int(str(n)) for n in event[2:])
    at = min(round_, len(party.positions) - 1)
    hashes = (party.positions[at].chain_hash, party.session.state.chain_hash, bytes(32), b"x" * 32)
    if event[0] == "hello":
        echo = (None, NO_NONCE, None, b"?" * 16)[b]
        hello = party.hello(sender, round=at, chain_hash=hashes[a], echo=echo, wants_reply=b == 2)
        party.receive(hello)
    elif event[0] == "release":
        values = (None, (1, 2), (3, 4), (-5, 6))[b]
        release = party.release(sender, at, values=values)
        party.receive(lying(release, chain_hash=hashes[a], round=round_))
    elif event[0] == "seal":
        claimed = at if b % 2 else None
        party.receive(party.seal(sender, has_all_seals=b > 1, chain_hash=hashes[a], round=claimed))
    else:
        evidence = [*party.transcript.rounds[b % 2], party.release("cyd", b % 2, values=(a, a))]
        party.receive(party.halt(sender, at, *evidence[: a + 1], chain_hash=hashes[b]))
