"""Stories of one party: what it hears, and the effects that follow, in order."""

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
    """What somebody says who has heard these, in roster order."""
    return reading.nonce_digest(list(nonces))


@pytest.fixture(autouse=True)
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Row, Phase]]]:
    """Every transition of a party; at its end what must hold of every party is checked."""
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


# Greeting


def test_greeting_asks_and_responds_when_all_have_answered() -> None:
    """A party says hello, and asks its gate once the last peer has answered."""
    party = SessionHarness()
    assert party.begin() == ["send asking hello 0"]
    assert party.receive(party.hello("ben")) == []
    assert party.missing == ["cyd"]
    assert party.receive(party.hello("cyd")) == ["respond 0"]
    assert party.session.phase is Phase.RESPONDING


def test_the_last_asker_is_answered_before_the_round_begins() -> None:
    """Whoever completes the greeting and is still asking hears the answer first."""
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
    assert answer.echo == NONCE["cyd"], "whose own digest does not show that it was heard"


def test_greeting_repeats_itself_with_longer_and_longer_pauses() -> None:
    """An unanswered hello is said again after 0.1, 0.2, 0.4 … and at most 1.6 seconds."""
    party = SessionHarness()
    party.begin()
    for pause in (0.1, 0.2, 0.4, 0.8, 1.6, 1.6, 1.6):
        assert party.session.deadline == pytest.approx(party.now + pause)
        assert party.advance_time(0.9 * pause) == []
        assert party.advance_time(0.11 * pause) == ["send asking hello 0"]


@pytest.mark.parametrize("echo", [NO_NONCE, b"older life of me"], ids=["none", "old"])
def test_a_hello_that_does_not_echo_this_life_proves_nothing(echo: bytes) -> None:
    """Hellos from before this start do not count as answers, however often they come."""
    party = SessionHarness()
    party.begin()
    assert party.receive(*[party.hello(p, echo=echo) for p in ("ben", "cyd", "ben")]) == []
    assert party.missing == ["ben", "cyd"]
    assert party.session.phase is Phase.HANDSHAKE


def test_a_burst_of_hellos_gets_one_answer() -> None:
    """Answers to askers are gathered for a moment and given in one hello to all."""
    party = SessionHarness(members=4).gathering()
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


def test_a_digest_that_rests_on_this_start_is_an_answer() -> None:
    """Who says the digest of all nonces has heard them all, ours among them."""
    party = SessionHarness()
    party.begin()
    here = digest(*(NONCE[name] for name in ("ada", "ben", "cyd")))
    assert party.receive(party.hello("ben", nonce_digest=here)) == [], (
        "cyd's nonce is not known yet"
    )
    assert party.missing == ["ben", "cyd"]
    assert party.receive(party.hello("cyd", nonce_digest=here)) == ["respond 0"]


def test_a_digest_from_before_this_start_proves_nothing() -> None:
    """However often it is played again: it rests on another nonce of ours, or on none."""
    party = SessionHarness()
    party.begin()
    for mine in (NO_NONCE, b"ada in life one!"):
        old = digest(mine, NONCE["ben"], NONCE["cyd"])
        assert (
            party.receive(*(party.hello(p, nonce_digest=old) for p in ("ben", "cyd", "ben"))) == []
        )
    assert party.missing == ["ben", "cyd"]


def test_a_digest_counts_again_when_a_peer_has_started_anew() -> None:
    """A hello that came before the nonce it speaks of is understood when that is heard."""
    party = SessionHarness()
    party.begin()
    party.receive(party.hello("cyd", nonce=b"cyd in life one!", nonce_digest=bytes(32)))
    here = digest(NONCE["ada"], NONCE["ben"], NONCE["cyd"])
    assert party.receive(party.hello("ben", nonce_digest=here)) == []
    party.receive(party.hello("cyd", nonce_digest=bytes(32)))
    assert party.missing == ["cyd"], "ben had heard of that start of cyd's before this party"


def test_whose_digest_differs_is_told_one_by_one() -> None:
    """One in each hello, who asked first comes first; whose digest is ours needs no word."""
    party = SessionHarness(members=4).gathering()
    party.advance_time(HELLO_SECONDS)
    ours = digest(*(NONCE[name] for name in ("ada", "ben", "cyd", "dan")))
    party.receive(
        *(party.hello(p, nonce_digest=bytes(32), wants_reply=True) for p in ("cyd", "ben"))
    )
    party.receive(party.hello("dan", nonce_digest=ours, wants_reply=True))
    for _ in range(3):
        assert "send hello 0" in party.advance_time(HELLO_SECONDS)
        party.receive(party.hello("dan", nonce_digest=ours, wants_reply=True))
    told = [s.message.echo for s in party.sent if isinstance(s.message, Hello)][-3:]
    assert told == [NONCE["cyd"], NONCE["ben"], NO_NONCE]


def test_hellos_take_their_time_while_somebody_is_missing() -> None:
    """Nobody can go on without the last: until it is heard, answers come later and later."""
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


def test_an_answer_is_not_answered() -> None:
    """A hello that does not ask gets no answer, so that greetings come to an end."""
    party = SessionHarness().gathering()
    assert party.receive(party.hello("ben", nonce=b"ben in life two!")) == []
    assert party.advance_time(HELLO_SECONDS) == []


# Rounds


def test_lock_step() -> None:
    """A round closes with the last release, is recorded, and the gate is asked for the next."""
    party = SessionHarness().greeted()
    assert party.submit() == ["send release 0"]
    assert party.receive(party.release("cyd", 0)) == []
    assert party.missing == ["ben"]
    assert party.receive(party.release("ben", 0)) == ["record 0", "respond 1"]
    record = next(e for e in party.effects if isinstance(e, Record))
    assert record.messages == party.transcript.rounds[0]
    assert party.session.state.chain_hash == party.positions[1].chain_hash


def test_a_release_one_round_ahead_is_kept() -> None:
    """A peer may be one round ahead: its release waits until the round before is closed."""
    party = SessionHarness().gathering()
    assert party.receive(party.release("cyd", 0), party.release("cyd", 1)) == []
    assert party.receive(party.release("ben", 0)) == ["record 0", "respond 1"]
    assert party.submit() == ["send release 1"]
    assert party.missing == ["ben"]
    assert party.receive(party.release("ben", 1)) == ["record 1", "send seal 2"]


def test_a_release_two_rounds_ahead_is_ignored() -> None:
    """Nobody honest is two rounds ahead, so that nothing more than one round is ever kept."""
    party = SessionHarness(rounds=3).gathering()
    assert party.receive(party.release("ben", 2)) == []
    for closing in range(2):
        party.receive(*(party.release(peer, closing) for peer in party.peers))
        party.submit()
    assert party.missing == ["ben", "cyd"]


def test_what_is_heard_while_greeting_is_not_lost() -> None:
    """Releases that arrive before the greeting is over count as soon as it is."""
    party = SessionHarness()
    party.begin()
    assert party.receive(*(party.release(peer, 0) for peer in party.peers)) == []
    party.receive(*(party.hello(peer) for peer in party.peers))
    assert party.submit() == ["send release 0", "record 0", "respond 1"]


def test_duplicates_are_ignored() -> None:
    """The same message again, of this round, the next, the last or an older one, is nothing."""
    party = SessionHarness(rounds=3).gathering(2)
    party.receive(party.release("ben", 2))
    for again in (0, 1, 2, 2):
        assert party.receive(party.release("ben", again)) == []
    assert party.missing == ["cyd"]


def test_a_waiting_party_says_its_two_newest_messages_again() -> None:
    """Whatever a peer one round behind may lack is repeated, in order."""
    party = SessionHarness(rounds=3).gathering(1)
    assert party.advance_time(FIRST) == ["send release 0", "send release 1"]
    assert party.advance_time(FIRST) == []
    assert party.advance_time(FIRST) == ["send release 0", "send release 1"]
    party.receive(party.release("ben", 1))
    assert party.advance_time(FIRST) == ["send release 0", "send release 1"], (
        "progress shortens the wait"
    )


def test_nothing_is_repeated_while_releases_still_come_in() -> None:
    """What is sent again costs everybody, so it waits until nothing new comes."""
    party = SessionHarness(members=4).gathering()
    assert party.advance_time(0.9 * FIRST) == []
    party.receive(party.release("ben", 0))
    assert party.advance_time(0.9 * FIRST) == []
    party.receive(party.release("cyd", 0))
    assert party.advance_time(0.9 * FIRST) == []
    assert party.advance_time(0.2 * FIRST) == ["send release 0"]


def test_a_release_is_held_from_its_arrival_until_its_round_is_out_of_reach() -> None:
    """Only bytes that the session has kept count as held: what it ignored may come again."""
    party = SessionHarness(rounds=4).gathering()
    now, next_, far = (party.release("ben", t) for t in (0, 1, 2))
    party.receive(now, next_, far)
    held = party.session.holds
    assert (held(now.data), held(next_.data), held(far.data)) == (True, True, False)
    party.receive(party.release("cyd", 0))
    party.submit()
    assert (held(now.data), held(next_.data)) == (True, True)
    party.receive(party.release("cyd", 1))
    assert (held(now.data), held(next_.data)) == (False, True)


def test_answering_hellos_does_not_put_off_repeating_releases() -> None:
    """A peer that keeps asking cannot keep the others from what they lack."""
    party = SessionHarness().gathering()
    said = []
    for _ in range(40):
        party.receive(party.hello("cyd", wants_reply=True))
        said += party.advance_time(0.09)
    assert said.count("send release 0") >= 4


def test_a_gate_that_takes_its_time_is_nobodys_silence() -> None:
    """While the own gate works, nobody is missing and patience does not run out."""
    party = SessionHarness().greeted()
    assert party.missing == []
    assert party.advance_time(2 * PATIENCE) == []
    assert party.session.deadline > party.now
    assert party.submit() == ["send release 0"]


@pytest.mark.parametrize("what", ["round", "head", "sender", "kind"])
def test_only_the_release_that_was_asked_for_is_sent(what: str) -> None:
    """If the gate comes back with anything else, nothing is sent."""
    party = SessionHarness().greeted()
    wrong = {
        "round": party.release("ada", 1),
        "head": lying(party.release("ada", 0), chain_hash=bytes(32)),
        "sender": party.release("ben", 0),
        "kind": sign(party.seal("ada")),
    }
    with pytest.raises(InternalError, match="something else than this round's release"):
        party.session.submit(wrong[what], party.now)


def test_a_release_that_was_not_asked_for_is_refused() -> None:
    """Nothing is released while the greeting is not over."""
    party = SessionHarness()
    party.begin()
    with pytest.raises(InternalError, match="SUBMITTED cannot happen while HANDSHAKE"):
        party.submit()


# Restart


def test_a_restarted_party_goes_on_from_its_ledger() -> None:
    """Closed rounds are replayed; the recorded release is asked for and said again."""
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
    """With all rounds in the ledger there is nothing to release: nobody's answer is needed."""
    party = SessionHarness(closed=2, released=2)
    assert party.begin() == ["send seal 2"]
    assert party.advance_time(FIRST) == ["send release 1", "send seal 2", "send hello 2"]
    assert party.receive(*map(party.seal, party.peers)) == ["finish 2", "send complete seal 2"]


def test_a_peer_one_round_ahead_does_not_make_a_ledger_old() -> None:
    """A party that lost power with its release on the way goes on where the others wait."""
    party = SessionHarness(rounds=3, closed=0, released=1)
    party.begin()
    hellos = [party.hello(p, round=1, known=1) for p in party.peers]
    assert party.receive(*hellos) == ["respond 0"]
    assert party.submit() == ["send release 0"]


@pytest.mark.parametrize(
    ("round", "heard"), [(0, 1), (1, 0), (2, 2)], ids=["heard", "closed", "both"]
)
def test_an_old_ledger_is_refused_before_anything_is_released(round: int, heard: int) -> None:  # noqa: A002
    """If a peer shows a release of ours that the ledger does not hold, the party stops."""
    party = SessionHarness(rounds=3)
    party.begin()
    count = max(round, heard)
    assert party.receive(party.hello("ben", round=round, known=heard)) == ["warn"]
    assert party.receive(party.release("ada", count - 1)) == ["fail: BadLedger"]
    assert isinstance(party.error, BadLedger)
    text = f"others know release {count} of 'ada', signed with its key, but this ledger holds 0"
    assert text in str(party.error)
    assert party.receive(party.hello("cyd")) == []
    assert party.session.phase is Phase.HANDSHAKE


@pytest.mark.parametrize(
    ("round", "heard"), [(0, 1), (1, 0), (2, 2), (1, 3)], ids=["heard", "closed", "both", "most"]
)
def test_a_claim_without_proof_makes_no_ledger_old(round: int, heard: int) -> None:  # noqa: A002
    """Who says that it knows more releases of ours, and shows none, has not answered: no more."""
    party = SessionHarness(rounds=3)
    party.begin()
    claim = party.hello("ben", round=round, known=heard)
    assert party.receive(claim) == ["warn"]
    assert party.receive(claim, party.hello("cyd")) == [], "told once, and no answer"
    assert party.missing == ["ben"]
    assert party.advance_time(PATIENCE) == ["fail: Unavailable"]
    assert "'ben' claims to know more of our releases" in str(party.error)
    assert party.receive(party.hello("ben")) == ["respond 0"], "the truth is an answer"


@pytest.mark.parametrize("trick", ["claims", "zeros"])
def test_patience_is_not_bought_by_talking(trick: str) -> None:
    """Who claims and takes it back, or never names its start, does not keep us from giving up."""
    party = SessionHarness(rounds=3)
    party.begin()
    told = [party.hello("ben", known=1), party.hello("ben")]
    if trick == "zeros":
        told = [party.hello("ben", nonce=NO_NONCE, nonce_digest=bytes(32))]
    ended: list[str] = []
    for _ in range(12):
        ended += party.advance_time(PATIENCE / 8)
        if "fail: Unavailable" in ended:
            break
        party.receive(*told)
    assert ended[-1] == "fail: Unavailable"
    assert "nothing from" in str(party.error)
    assert "'cyd'" in str(party.error)


@pytest.mark.parametrize(("round", "ahead"), [(3, 2), (4, 0), (10**6, 2)])
def test_a_claim_of_more_than_there_are_is_nonsense(round: int, ahead: int) -> None:  # noqa: A002
    """Nobody can know more releases than there are rounds: not even a warning comes of it."""
    party = SessionHarness(rounds=3)
    party.begin()
    assert party.receive(replace(party.hello("ben", known=ahead), round=round)) == []
    assert party.missing == ["ben", "cyd"]


def test_whoever_lost_its_newest_release_is_given_it_back() -> None:
    """A peer whose hello counts fewer of its own releases than we hold is shown the proof."""
    party = SessionHarness(rounds=3).gathering(1)
    party.advance_time(HELLO_SECONDS)
    told = party.receive(party.hello("ben", round=1, wants_reply=True, has={"ben": 0}))
    told += party.advance_time(0.0)
    assert told == ["send hello 1", "send ben's release 0"]
    party.receive(party.release("ben", 1))
    party.advance_time(HELLO_SECONDS)
    party.receive(party.hello("ben", round=1, wants_reply=True, has={"ben": 1}))
    assert party.advance_time(0.0) == ["send hello 1", "send ben's release 1"], "the newest"
    party.advance_time(HELLO_SECONDS)
    party.receive(party.hello("ben", round=1, wants_reply=True, has={"ben": 2}))
    assert party.advance_time(0.0) == ["send hello 1"], "it has all of them"


def test_a_witness_that_was_started_again_shows_what_it_heard() -> None:
    """What was heard of an open round is held again, and proves a ledger old as before."""
    ben = SessionHarness("ben", rounds=3, witnessed=(SessionHarness(rounds=3).release("ada", 0),))
    ada = SessionHarness(rounds=3)
    ada.begin()
    ben.begin()
    ben.receive(ada.sent[-1])
    ben.advance_time(HELLO_SECONDS)
    assert ada.receive(*ben.sent[-2:]) == ["warn", "fail: BadLedger"]


def test_an_old_ledger_is_found_out_by_what_the_network_gives_back() -> None:
    """A release of our own that the ledger does not hold means that it is an old copy."""
    party = SessionHarness(rounds=3, closed=1, released=1)
    party.begin()
    assert party.receive(party.release("ada", 0)) == []
    assert party.receive(party.release("ada", 1)) == ["fail: BadLedger"]
    text = "others know release 2 of 'ada', signed with its key, but this ledger holds 1"
    assert text in str(party.error)


def test_an_old_hello_cannot_hide_that_a_ledger_is_old() -> None:
    """A hello of a peer's that answered an earlier life is no answer to this one."""
    party = SessionHarness(rounds=3)
    party.begin()
    party.receive(party.hello("ben"))
    assert party.receive(party.hello("cyd", echo=b"ada in life one!")) == []
    assert party.missing == ["cyd"]
    assert party.receive(party.hello("cyd", known=1)) == ["warn"]
    assert party.missing == ["cyd"]


# Sealing


def test_sealing_finishing_and_leaving() -> None:
    """Seals go round, then the news that all have been heard; then everybody may go."""
    party = SessionHarness().gathering(1)
    told = party.receive(*(party.release(peer, 1) for peer in party.peers))
    assert told == ["record 1", "send seal 2"]
    assert party.receive(party.seal("ben")) == []
    assert party.missing == ["cyd"]
    assert party.receive(party.seal("cyd")) == ["finish 2", "send complete seal 2"]
    finish = next(e for e in party.effects if isinstance(e, Finish))
    assert finish.state.chain_hash == party.positions[2].chain_hash
    assert [s.message.sender for s in finish.seals] == ["ada", "ben", "cyd"]
    assert party.missing == ["ben", "cyd"]
    assert party.receive(party.seal("cyd", has_all_seals=True)) == []
    assert party.receive(party.seal("ben", has_all_seals=True)) == ["leave"]


def test_seals_that_came_early_count() -> None:
    """Seals from peers that closed the last round first are kept; ours is still said twice."""
    party = SessionHarness().gathering(1)
    assert party.receive(party.release("ben", 1), *map(party.seal, party.peers)) == []
    told = party.receive(party.release("cyd", 1))
    assert told == ["record 1", "send seal 2", "finish 2", "send complete seal 2"]


def test_a_seal_before_its_time_is_ignored() -> None:
    """A seal of the present round, or of one that is two ahead, says nothing."""
    party = SessionHarness(rounds=3).gathering()
    assert party.receive(party.seal("ben", round=0), party.seal("ben", round=2)) == []
    party.receive(*(party.release(p, 0) for p in party.peers))
    party.submit()
    party.receive(*(party.release(p, 1) for p in party.peers))
    party.submit()
    told = party.receive(party.seal("cyd"), *(party.release(p, 2) for p in party.peers))
    assert told == ["record 2", "send seal 3"]
    assert party.missing == ["ben"]


# An end before the agreed rounds


def test_a_session_that_is_over_early_is_sealed() -> None:
    """Where the rule says that this is the end, a party seals and asks for no more releases."""
    party = SessionHarness(agreement=ending_early()).gathering(2)
    assert party.positions[-1].round == 3 < party.agreement.rounds
    told = party.receive(*(party.release(peer, 2) for peer in party.peers))
    assert told == ["record 2", "send seal 3"]
    assert party.missing == ["ben", "cyd"]
    assert party.receive(*map(party.seal, party.peers)) == ["finish 3", "send complete seal 3"]
    assert party.advance_time(FIRST) == ["send release 2", "send seal 3", "send complete seal 3"]
    finish = next(e for e in party.effects if isinstance(e, Finish))
    assert finish.state.chain_hash == party.positions[-1].chain_hash
    assert [s.message.round for s in finish.seals] == [3, 3, 3]


def test_nobody_is_asked_after_the_end() -> None:
    """A release of a round that there is not moves nothing, and is not answered."""
    party = SessionHarness(agreement=ending_early()).sealing()
    assert party.receive(*(party.release(peer, 3) for peer in party.peers)) == []
    assert party.session.phase is Phase.SEALING
    assert party.missing == ["ben", "cyd"]
    assert [e.state.round for e in party.effects if isinstance(e, Respond)] == [0, 1, 2]
    assert party.receive(*map(party.seal, party.peers)) == ["finish 3", "send complete seal 3"]


def test_a_seal_one_round_ahead_counts_if_that_is_the_end() -> None:
    """A peer that closed the round first knows that it was the last; its seal is kept."""
    party = SessionHarness(agreement=ending_early()).gathering(2)
    assert party.receive(party.release("ben", 2), *map(party.seal, party.peers)) == []
    told = party.receive(party.release("cyd", 2))
    assert told == ["record 2", "send seal 3", "finish 3", "send complete seal 3"]


def test_a_seal_that_claims_an_end_which_is_none_is_ignored() -> None:
    """Whether it comes ahead or in its round; and whoever sent it can still seal the true end."""
    party = SessionHarness(agreement=ending_early()).gathering(1)
    claim = party.seal("ben", round=2)
    assert party.receive(claim) == []
    told = party.receive(*(party.release(peer, 1) for peer in party.peers))
    assert told == ["record 1", "respond 2"]
    assert party.receive(claim) == []
    party.submit()
    assert party.receive(claim) == []
    told = party.receive(*(party.release(peer, 2) for peer in party.peers))
    assert told == ["record 2", "send seal 3"]
    assert party.missing == ["ben", "cyd"]
    assert party.receive(claim) == []
    assert party.receive(*map(party.seal, party.peers)) == ["finish 3", "send complete seal 3"]


@pytest.mark.parametrize("round", [1, 2])
def test_an_early_seal_on_another_head_is_a_dispute(round: int) -> None:  # noqa: A002
    """As soon as the round closes, whether the session is over then or not."""
    party = SessionHarness(agreement=ending_early()).gathering(round)
    assert party.receive(party.seal("cyd", round=round + 1, chain_hash=bytes(32))) == []
    told = party.receive(*(party.release(peer, round) for peer in party.peers))
    last = "send seal 3" if round == 2 else "respond 2"
    assert told == [f"record {round}", f"send halt {round + 1} HEADS_DIFFER showing 4", last]


def test_a_seal_in_our_round_on_another_head_is_a_dispute() -> None:
    """Also where the rounds are not over: nobody honest stands elsewhere."""
    party = SessionHarness(agreement=ending_early()).gathering(1)
    told = party.receive(party.seal("cyd", round=1, chain_hash=bytes(32)))
    assert told == ["send halt 1 HEADS_DIFFER showing 4"]


def test_two_early_seals_on_different_heads_are_equivocation() -> None:
    """What was kept unseen of a sender is compared with what it says next."""
    party = SessionHarness(agreement=ending_early()).gathering(2)
    told = party.receive(party.seal("ben"), party.seal("ben", chain_hash=bytes(32)))
    assert told == ["send halt 2 EQUIVOCATION showing 2", "fail for good: Equivocation ben"]


def test_a_restart_after_an_early_end_seals() -> None:
    """The ledger shows that the session was over; no release is asked for."""
    party = SessionHarness(agreement=ending_early(), closed=3, released=3)
    assert party.begin() == ["send seal 3"]
    assert party.receive(*map(party.seal, party.peers)) == ["finish 3", "send complete seal 3"]


def test_a_restart_after_an_early_end_that_all_sealed_helps_late_peers() -> None:
    """With the seals in the ledger the party is finished from the start."""
    party = SessionHarness(agreement=ending_early(), closed=3, released=3, sealed=True)
    told = party.begin()
    assert told == ["finish 3", "send release 2", "send seal 3", "send complete seal 3"]
    told = party.receive(*(party.seal(peer, has_all_seals=True) for peer in party.peers))
    assert told == ["leave"]


def test_a_restart_one_round_before_an_early_end_goes_on() -> None:
    """Seals that come while it is still greeting are kept for the end."""
    party = SessionHarness(agreement=ending_early(), closed=2, released=3)
    party.begin()
    assert party.receive(*map(party.seal, party.peers)) == []
    told = party.receive(*(party.hello(peer, round=3) for peer in party.peers))
    assert told == ["respond 2"]
    assert party.submit() == ["send release 2"]
    told = party.receive(*(party.release(peer, 2) for peer in party.peers))
    assert told == ["record 2", "send seal 3", "finish 3", "send complete seal 3"]


# Leaving


def test_a_finished_party_waits_a_while_for_the_others() -> None:
    """Without word that all have heard all seals, a party stays for a few seconds."""
    party = SessionHarness().finished()
    last_words = ["send release 1", "send seal 2", "send complete seal 2"]
    assert party.advance_time(FIRST) == last_words
    assert party.advance_time(LINGER_SECONDS - FIRST - 0.001) == last_words
    assert party.advance_time(0.001) == ["leave"]
    assert party.advance_time(LONGEST) == [], "it has left"


def test_a_finished_party_answers_late_peers() -> None:
    """A peer that comes back hears a hello, and one that has not all seals hears ours soon."""
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


def test_what_all_have_sealed_stays_finished() -> None:
    """Nothing that anybody says after the end can undo it."""
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


def test_a_finished_party_that_is_started_again_helps_late_peers() -> None:
    """With all seals in the ledger it says its last words again, answers, and goes."""
    party = SessionHarness(closed=2, released=2, sealed=True)
    last_words = ["send release 1", "send seal 2", "send complete seal 2"]
    assert party.begin() == ["finish 2", *last_words]
    assert party.session.phase is Phase.FINISHED
    party.receive(party.hello("cyd", round=1, known=2, wants_reply=True, has={"cyd": 2}))
    assert party.advance_time(HELLO_SECONDS) == ["send hello 2"]
    assert party.advance_time(FIRST) == [*last_words, "send ben's release 1"]
    assert party.receive(party.seal("cyd")) == []
    assert party.advance_time(FIRST) == last_words
    assert party.receive(*(party.seal(p, has_all_seals=True) for p in party.peers)) == ["leave"]


def test_whatever_comes_first_the_same_seals_are_kept() -> None:
    """A complete seal tells and is not kept: every party has the same seals, byte for byte."""
    kept = []
    for me, order in (("ada", (False, True)), ("ben", (True, False)), ("cyd", (False,))):
        party = SessionHarness(me).sealing()
        for has_all_seals in order:
            assert party.session.phase is (Phase.FINISHED if kept_by(party) else Phase.SEALING)
            party.receive(*(party.seal(peer, has_all_seals=has_all_seals) for peer in party.peers))
        kept.append(kept_by(party))
    assert kept == [[signed.data for signed in party.transcript.seals]] * 3


def kept_by(party: SessionHarness) -> list[bytes]:
    """The seals that a party puts on its disk, if it does."""
    seals = [effect.seals for effect in party.effects if isinstance(effect, Finish)]
    return [signed.data for signed in seals[0]] if seals else []


def test_a_late_peer_finishes_with_parties_that_were_started_again() -> None:
    """A party that lost power before the last seal finishes with one peer that had gone."""
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
    told = late.receive(*back.sent)
    assert told == ["finish 2", "send complete seal 2"]
    back.receive(*late.sent)
    assert back.missing == ["cyd"]


def test_who_was_away_at_the_end_finishes_with_one_peer() -> None:
    """Who had released the last round and not closed it gets what it lacks from any one peer."""
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


def test_who_knows_no_more_than_the_last_round_goes_on_greeting() -> None:
    """A round that is closed with a recorded release, while greeting, lets nobody release more."""
    party = SessionHarness(rounds=3, released=1)
    party.begin()
    told = party.receive(*(party.release(peer, 0) for peer in party.peers))
    assert told == ["record 0"]
    assert party.session.phase is Phase.HANDSHAKE
    assert party.missing == ["ben", "cyd"]
    assert party.receive(*(party.hello(p, round=1) for p in party.peers)) == ["respond 1"]


# An end that not all have sealed


def test_a_seal_is_passed_on_to_who_lacks_it() -> None:
    """Who waits for seals says for which, and anybody gives them, whatever a relay keeps back."""
    ada, ben = SessionHarness("ada").sealing(), SessionHarness("ben").sealing()
    ada.receive(ada.seal("cyd"), ada.seal("ben"))
    assert ada.session.phase is Phase.FINISHED
    ben.receive(*ada.sent[-2:])
    assert ben.advance_time(FIRST) == ["send release 1", "send seal 2", "send hello 2"]
    assert ben.missing == ["cyd"]
    ada.receive(ben.sent[-1])
    passed = [*ada_last_words(ada), "send cyd's seal 2"]
    assert ada.advance_time(FIRST) == passed
    assert ben.receive(*ada.sent) == ["finish 2", "send complete seal 2"]


def ada_last_words(party: SessionHarness) -> list[str]:
    """What a finished party of two rounds says again."""
    end = party.positions[-1].round
    return [f"send release {end - 1}", f"send seal {end}", f"send complete seal {end}"]


def test_who_waits_for_seals_passes_on_those_it_has() -> None:
    """It need not be finished for that."""
    ada = SessionHarness("ada", members=4).sealing()
    ada.receive(ada.seal("cyd"))
    ada.receive(ada.hello("ben", round=2, has={"ben": 3}))
    told = ada.advance_time(FIRST)
    assert told == ["send release 1", "send seal 2", "send cyd's seal 2", "send hello 2"]
    ada.receive(ada.hello("ben", round=2, has={"ben": 3, "cyd": 3}))
    assert "send cyd's seal 2" not in ada.advance_time(LONGEST)


def test_an_end_without_all_seals_is_unsealed_and_can_still_be_sealed() -> None:
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


def test_a_peer_that_lacks_something_is_stayed_for() -> None:
    """A finished party begins its stay anew when it hears of a lack, once for each step."""
    party = SessionHarness().finished()
    party.advance_time(0.9 * LINGER_SECONDS)
    party.receive(party.hello("cyd", round=1, wants_reply=True))
    assert "leave" not in party.advance_time(0.9 * LINGER_SECONDS)
    party.receive(party.hello("cyd", round=1, wants_reply=True))
    assert "leave" in party.advance_time(0.2 * LINGER_SECONDS)


# Silence


def test_silence_while_greeting_ends_with_the_missing_names() -> None:
    """After the agreed patience the party stops and says who did not answer."""
    party = SessionHarness(members=4)
    party.begin()
    party.receive(party.hello("cyd"))
    party.advance_time(PATIENCE - 1.0)
    assert party.advance_time(1.0) == ["fail: Unavailable"]
    assert isinstance(party.error, Unavailable)
    text = "nothing from 'ben', 'dan' for 120 seconds in round 0 of 2."
    assert str(party.error).startswith(text)


def test_silence_in_a_round_ends_with_the_missing_names() -> None:
    """Patience begins again with every release of the round that is heard."""
    party = SessionHarness(members=4).gathering(1)
    party.advance_time(PATIENCE - 1.0)
    party.receive(party.release("dan", 1))
    assert "fail: Unavailable" not in party.advance_time(PATIENCE - 1.0)
    assert party.advance_time(1.0) == ["fail: Unavailable"]
    assert str(party.error).startswith("nothing from 'ben', 'cyd' for 120 seconds in round 1 of 2.")


def test_silence_while_sealing_ends_with_the_missing_names() -> None:
    """A peer that never seals is named, also if it stands on another head."""
    party = SessionHarness().sealing()
    party.receive(party.seal("cyd"), party.seal("ben", chain_hash=bytes(32)))
    assert party.advance_time(PATIENCE) == ["fail: Unsealed"]
    assert "there is no seal of 'ben'; 'ben' has another chain hash" in str(party.error)


# Another agreement


def other_agreement() -> Agreement:
    return make_agreement(members=3, rounds=4)


def test_the_one_who_differs_from_the_most_stops() -> None:
    """Against a majority with another agreement the party stops and names both digests."""
    party, theirs = SessionHarness(), other_agreement()
    party.begin()
    assert party.receive(party.hello("ben", agreement=theirs, echo=NO_NONCE)) == [], "may be old"
    assert party.receive(party.hello("ben", agreement=theirs)) == ["warn"]
    assert party.receive(party.hello("ben", agreement=theirs)) == [], "said once"
    told = party.receive(party.hello("cyd", agreement=theirs))
    assert told == ["fail: DifferentAgreement cyd"]
    assert isinstance(party.error, DifferentAgreement)
    assert theirs.digest.hex() in str(party.error)
    assert party.agreement.digest.hex() in str(party.error)


def test_the_most_warn_and_wait_for_the_one_who_differs() -> None:
    """A minority with another agreement is warned about; it may come back with ours."""
    party, theirs = SessionHarness(), other_agreement()
    party.begin()
    party.receive(party.hello("ben"))
    assert party.receive(party.hello("cyd", agreement=theirs)) == ["warn"]
    warning = next(e for e in party.effects if isinstance(e, Warn))
    assert theirs.digest.hex() in warning.text
    assert party.agreement.digest.hex() in warning.text
    assert party.receive(party.hello("cyd")) == ["respond 0"]


def test_giving_up_tells_who_held_another_agreement() -> None:
    """If the one who differs never comes back, the error says why it is missing."""
    party, theirs = SessionHarness(), other_agreement()
    party.begin()
    party.receive(party.hello("ben"), party.hello("cyd", agreement=theirs))
    assert party.advance_time(PATIENCE) == ["fail: Unavailable"]
    assert f"'cyd' has another agreement, {theirs.digest.hex()}" in str(party.error)


def test_two_parties_with_different_agreements_both_stop() -> None:
    """Between two there is no majority."""
    party = SessionHarness(members=2)
    party.begin()
    told = party.receive(party.hello("ben", agreement=make_agreement(members=2, rounds=9)))
    assert told == ["fail: DifferentAgreement ben"]


def test_another_agreement_is_answered_so_that_the_other_side_can_see_it() -> None:
    """An asker with another agreement hears ours, and a session under way takes no harm."""
    party = SessionHarness().gathering()
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


def test_equivocation_is_named_with_both_messages() -> None:
    """Two different releases of one round are kept as evidence, shown to all, and the end."""
    party = SessionHarness().gathering()
    one, other = party.release("ben", 0), party.release("ben", 0, values=(1, 2))
    assert party.receive(one) == []
    told = party.receive(other)
    assert told == [
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
    """The round before, the round ahead and the seals are compared as well."""
    party = SessionHarness().gathering(1)
    if place == "last":
        other: Signed | Message = party.release("ben", 0, values=(1, 2))
    elif place == "next":
        party = SessionHarness().gathering(0)
        party.receive(party.release("ben", 1))
        other = party.release("ben", 1, values=(1, 2))
    else:
        party.receive(party.seal("ben"))
        other = party.seal("ben", chain_hash=bytes(32))
    told = party.receive(other)
    assert told[1:] == ["fail for good: Equivocation ben"]


def test_one_seal_said_twice_is_no_equivocation() -> None:
    """A seal and the same seal, now complete, stand on one head."""
    party = SessionHarness().gathering(1)
    assert party.receive(party.seal("ben"), party.seal("ben", has_all_seals=True)) == []


def test_a_proof_from_a_peer_ends_the_session_here_too() -> None:
    """A halt with two clashing releases convicts their sender, not the one who shows them."""
    party = SessionHarness().gathering()
    pair = party.release("cyd", 0), party.release("cyd", 0, values=(1, 2))
    told = party.receive(party.halt("ben", 0, *pair, reason=Reason.EQUIVOCATION))
    assert told[1:] == ["fail for good: Equivocation cyd"]


def test_a_halted_party_says_why_for_a_while() -> None:
    """After a final fault the halt is repeated to whoever still plays; then the party goes."""
    party = SessionHarness().gathering()
    party.receive(party.release("ben", 0), party.release("ben", 0, values=(1, 2)))
    again = ["send halt 0 EQUIVOCATION showing 2"]
    assert party.advance_time(FIRST) == again
    assert party.advance_time(2 * FIRST) == again
    assert party.receive(party.hello("cyd", wants_reply=True), party.release("cyd", 0)) == []
    assert party.advance_time(FIRST) == again
    assert "leave" in party.advance_time(LINGER_SECONDS)


def test_two_victims_find_the_equivocator_one_round_later() -> None:
    """Different heads start a dispute; the rounds that both show name the liar."""
    ada, ben = SessionHarness("ada").gathering(), SessionHarness("ben").gathering()
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


def test_a_head_that_differs_is_found_when_the_buffered_round_opens() -> None:
    """A release that came early on another head starts the dispute as soon as it counts."""
    party = SessionHarness().gathering()
    early = lying(party.release("cyd", 1), chain_hash=bytes(32))
    assert party.receive(early, party.release("cyd", 0)) == []
    told = party.receive(party.release("ben", 0))
    assert told == ["record 0", "send halt 1 HEADS_DIFFER showing 4", "respond 1"]
    party.submit()
    assert party.missing == ["ben", "cyd"], "it does not count"


def test_different_heads_in_the_last_round_are_found_by_the_seals() -> None:
    """Nobody finishes on a seal that stands on another head."""
    party = SessionHarness().sealing()
    told = party.receive(party.seal("ben", chain_hash=bytes(32)), party.seal("cyd"))
    assert told == ["send halt 2 HEADS_DIFFER showing 4"]
    assert party.missing == ["ben"]


def test_an_early_seal_on_another_head_does_not_pass() -> None:
    """A seal that was kept unseen is compared before the session is finished."""
    party = SessionHarness().gathering(1)
    party.receive(party.seal("ben", chain_hash=bytes(32)), party.seal("cyd"))
    told = party.receive(*(party.release(p, 1) for p in party.peers))
    assert told == ["record 1", "send halt 2 HEADS_DIFFER showing 4", "send seal 2"]
    assert party.missing == ["ben"]


def test_a_lie_about_the_head_convicts_the_liar_and_not_the_one_who_halts() -> None:
    """The halt shows what differs: whoever heard something else from the liar has the proof."""
    ada, ben = (
        SessionHarness("ada", members=4).gathering(1),
        SessionHarness("ben", members=4).gathering(1),
    )
    truth = ada.release("cyd", 1)
    ada.receive(truth)
    assert ben.receive(lying(truth, chain_hash=bytes(32))) == ["send halt 1 HEADS_DIFFER showing 5"]
    told = ada.receive(ben.sent[-1])
    assert told == ["send halt 1 EQUIVOCATION showing 2", "fail for good: Equivocation cyd"]


def test_without_proof_the_one_who_stands_elsewhere_is_named_and_nothing_is_final() -> None:
    """It has signed so; the one who noticed and showed it is not blamed."""
    ada, ben = (
        SessionHarness("ada", members=4).gathering(1),
        SessionHarness("ben", members=4).gathering(1),
    )
    stray = lying(ada.release("cyd", 1), chain_hash=bytes(32))
    ben.receive(stray)
    assert ada.receive(ben.sent[-1], *(ada.release(p, 1) for p in ("ben", "dan"))) == []
    assert ada.advance_time(PATIENCE) == ["fail: Diverged cyd"]
    assert isinstance(ada.error, Diverged)
    assert ada.error.evidence == (stray.data,)


def test_a_dispute_goes_on_being_shown() -> None:
    """While somebody stands elsewhere our side is said again beside our releases."""
    party = SessionHarness().gathering(1)
    party.receive(lying(party.release("cyd", 1), chain_hash=bytes(32)))
    shown = ["send release 0", "send release 1", "send halt 1 HEADS_DIFFER showing 4"]
    assert party.advance_time(FIRST) == shown


def test_a_hello_on_another_head_is_shown_and_forgiven() -> None:
    """A hello is no promise: who then releases where we stand has settled the dispute."""
    party = SessionHarness().gathering(1)
    assert party.receive(party.hello("ben", round=1, chain_hash=bytes(32))) == [
        "send halt 1 HEADS_DIFFER showing 4"
    ]
    told = party.receive(*(party.release(p, 1) for p in party.peers))
    assert told == ["record 1", "send seal 2"]
    assert "halt" not in str(party.advance_time(FIRST))


def test_a_release_on_another_head_is_not_forgiven() -> None:
    """Who releases one round on two heads has signed the proof."""
    party = SessionHarness().gathering(1)
    party.receive(lying(party.release("ben", 1), chain_hash=bytes(32)))
    told = party.receive(party.release("ben", 1))
    assert told[-1] == "fail for good: Equivocation ben"


# Different prices


class Skewed(RoundEngine):
    """A machine that rounds the first price the other way."""

    def advance(self, state: RoundState, values: Ticks) -> RoundState:
        right = super().advance(state, values)
        return replace(right, chain_hash=bytes(31) + b"!")


def test_a_machine_that_computes_other_prices_is_named() -> None:
    """From the same releases everybody must get the same head; whoever does not is named."""
    ada, ben, cyd = SessionHarness("ada"), SessionHarness("ben"), SessionHarness("cyd")
    ben.session.engine = Skewed(ben.agreement)
    for party in (ada, ben, cyd):
        party.gathering()
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
    assert cyd.advance_time(FIRST) == shown, "it goes on saying so"


def test_other_prices_that_were_claimed_are_not_believed_of_others() -> None:
    """A halt speaks for its sender alone: nobody else is named, and honest heads clear the rest."""
    party = SessionHarness(rounds=3).gathering(1)
    halt = sign(party.halt("ben", 1, *party.transcript.rounds[0], chain_hash=bytes(32)))
    outer = party.halt("cyd", 1, halt)
    assert party.receive(outer)[-1] == "fail for good: DifferentPrices ben"
    party = SessionHarness(rounds=3).gathering(2)
    assert party.receive(party.halt("cyd", 2, halt))[-1] == "fail for good: Equivocation ben", (
        "later"
    )


# Halts that prove nothing


@pytest.mark.parametrize("evidence", ["none", "garbage", "one", "hello", "forged"])
def test_a_halt_that_proves_nothing_stops_nothing(evidence: str) -> None:
    """Without proof there is a warning, once, and the session goes on to its end."""
    party = SessionHarness().gathering(1)
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
    assert party.receive(halt) == [], "told once"
    told = party.receive(*(party.release(peer, 1) for peer in party.peers))
    assert told == ["record 1", "send seal 2"]
    assert party.receive(*map(party.seal, party.peers))[0] == "finish 2"


def test_an_empty_halt_to_one_party_blames_nobody_honest() -> None:
    """What its receiver does about it gives the others no reason to name the receiver."""
    ada, cyd = SessionHarness("ada").gathering(1), SessionHarness("cyd").gathering(1)
    assert ada.receive(ada.halt("ben", 1)) == []
    assert ada.receive(ada.halt("ben", 1, chain_hash=bytes(32))) == [
        "send halt 1 HEADS_DIFFER showing 3"
    ]
    assert cyd.receive(ada.sent[-1]) == []
    told = cyd.receive(*(cyd.release(peer, 1) for peer in cyd.peers))
    assert told == ["record 1", "send seal 2"], "it goes on"


def test_a_halt_on_another_head_than_its_senders_release_convicts_it() -> None:
    """Nobody honest stands on two heads in one round, whatever it shows."""
    party = SessionHarness().gathering(1)
    party.receive(party.release("ben", 1))
    told = party.receive(party.halt("ben", 1, chain_hash=bytes(32)))
    assert told == ["send halt 1 EQUIVOCATION showing 2", "fail for good: Equivocation ben"]


def test_a_halt_too_long_to_be_shown_on_proves_nothing() -> None:
    """Proof that cannot be passed on would leave the others without it."""
    party = SessionHarness().gathering(1)
    party.receive(party.release("ben", 1))
    longest_one = [*party.transcript.rounds[0], sign(party.hello("ben"))]
    halt = party.halt("ben", 1, *longest_one, chain_hash=bytes(32))
    padding = max_message_bytes(party.agreement) - len(sign(halt).data)
    stuffed = replace(halt, evidence=(*halt.evidence[:-1], bytes(padding + 200)))
    assert len(sign(stuffed).data) <= max_message_bytes(party.agreement)
    told = party.receive(stuffed)
    assert told == ["send halt 1 HEADS_DIFFER showing 3"]
    assert party.session.phase is Phase.COLLECTING


def test_a_halt_before_the_first_round_is_about_no_releases() -> None:
    """At round 0 no releases can have been read differently: our side is shown, and that is all."""
    party = SessionHarness().gathering()
    assert party.receive(party.halt("ben", 0, chain_hash=bytes(32))) == [
        "send halt 0 HEADS_DIFFER showing 0"
    ]
    assert party.advance_time(PATIENCE) == ["fail: Diverged ben"]


# Whoever was not there


def test_a_halted_party_that_is_started_again_tells_why() -> None:
    """Who was absent learns of the fault, with its proof, from anybody who is started again."""
    party = SessionHarness().gathering()
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


def test_other_prices_are_told_again_by_who_is_started_again() -> None:
    """That proof is the halt of the one who got them; our own side goes with it."""
    party = SessionHarness().gathering(1)
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
    (Phase.HANDSHAKE, Event.EVERYONE_ANSWERED): lambda: SessionHarness().greeted(),
    (Phase.HANDSHAKE, Event.LAST_ROUND_CLOSED): lambda: SessionHarness(
        closed=2, released=2
    ).greeted(),
    (Phase.HANDSHAKE, Event.ROUND_CLOSED): lambda: [
        (s := SessionHarness(released=1)).begin(),
        s.receive(*(s.release(peer, 0) for peer in s.peers)),
    ],
    (Phase.HANDSHAKE, Event.FAULT): lambda: two_releases(SessionHarness(), 0),
    (Phase.RESPONDING, Event.SUBMITTED): lambda: SessionHarness().gathering(),
    (Phase.RESPONDING, Event.FAULT): lambda: two_releases(SessionHarness().greeted(), 0),
    (Phase.COLLECTING, Event.ROUND_CLOSED): lambda: SessionHarness().gathering(1),
    (Phase.COLLECTING, Event.LAST_ROUND_CLOSED): lambda: SessionHarness().sealing(),
    (Phase.COLLECTING, Event.FAULT): lambda: two_releases(SessionHarness().gathering(), 0),
    (Phase.SEALING, Event.EVERYONE_SEALED): lambda: SessionHarness().finished(),
    (Phase.SEALING, Event.FAULT): lambda: (s := SessionHarness().sealing()).receive(
        s.release("ben", 1, values=(1, 2))
    ),
}


def test_every_row_has_a_story() -> None:
    """The parties below cover the table of transitions, no more and no less."""
    assert ROWS.keys() == TRANSITIONS.keys()


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{row[0].name}-{row[1].name}")
def test_every_row_of_the_table_happens(row: Row, taken: list[tuple[Row, Phase]]) -> None:
    """Each transition of the table is taken in some party."""
    ROWS[row]()
    assert row in [step for step, _ in taken]


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("phase", Phase)
def test_what_is_not_in_the_table_cannot_happen(phase: Phase, event: Event) -> None:
    """Any other transition is a defect and says so."""
    session = SessionHarness().session
    session.phase = phase
    if (phase, event) in TRANSITIONS:
        session._go(event)
        assert session.phase is TRANSITIONS[phase, event]
    else:
        with pytest.raises(InternalError):
            session._go(event)


# Anything at all


@st.composite
def happenings(draw: st.DrawFn) -> list[tuple[str, ...] | tuple[str, int]]:
    """What peers may sign, in any order, true or not; and time, and the gate."""
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
@given(events=happenings(), early=st.booleans())
def test_whatever_is_said_the_party_keeps_its_rules(
    events: list[tuple[object, ...]], early: bool
) -> None:
    """No order of signed messages, time and answers breaks an invariant of a party."""
    SessionHarness.seen = []
    party = SessionHarness(agreement=ending_early()) if early else SessionHarness(rounds=2)
    party.begin()
    for event in events:
        happen(party, event)
    assert_invariants(party)


def happen(party: SessionHarness, event: tuple[object, ...]) -> None:
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
    heads = (party.positions[at].chain_hash, party.session.state.chain_hash, bytes(32), b"x" * 32)
    if event[0] == "hello":
        echo = (None, NO_NONCE, None, b"?" * 16)[b]
        hello = party.hello(sender, round=at, chain_hash=heads[a], echo=echo, wants_reply=b == 2)
        party.receive(hello)
    elif event[0] == "release":
        values = (None, (1, 2), (3, 4), (-5, 6))[b]
        release = party.release(sender, at, values=values)
        party.receive(lying(release, chain_hash=heads[a], round=round_))
    elif event[0] == "seal":
        claimed = at if b % 2 else None
        party.receive(party.seal(sender, has_all_seals=b > 1, chain_hash=heads[a], round=claimed))
    else:
        evidence = [*party.transcript.rounds[b % 2], party.release("cyd", b % 2, values=(a, a))]
        party.receive(party.halt(sender, at, *evidence[: a + 1], chain_hash=heads[b]))
