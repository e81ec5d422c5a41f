"""One party in its handshake: greetings, restarts, old ledgers, silence, other agreements."""

import pytest
from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.agreement.schema import WAIT_SECONDS
from protocol.errors import (
    BadLedger,
    DifferentAgreement,
    Unavailable,
)
from protocol.session.effects import Warn
from protocol.session.phases import Phase
from protocol.session.timers import HELLO_SECONDS
from protocol.wire.messages import (
    NO_NONCE,
    Hello,
)
from tests.reference import codec as reading
from tests.support.builders import make_agreement
from tests.support.session_harness import (
    FIRST,
    NONCE,
    PATIENCE,
    SessionHarness,
)

pytestmark = pytest.mark.usefixtures("taken")


def digest(*nonces: bytes) -> bytes:
    """The digest of these nonces, in roster order."""
    return reading.nonce_digest(list(nonces))


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


def test_the_handshake_takes_one_exchange_if_all_are_there() -> None:
    """The last peer that is heard is replied to at once, and these replies answer all."""
    party = SessionHarness()
    party.begin()
    for peer in ("ben", "cyd"):
        assert party.receive(party.hello(peer, echo=NO_NONCE, wants_reply=True)) == []
    assert party.session.deadline == party.now
    assert party.advance_time(0.0) == ["send asking hello 0"]
    ours = party.sent[-1].message
    assert isinstance(ours, Hello)
    assert ours.nonce_digest == digest(*(NONCE[name] for name in ("ada", "ben", "cyd")))
    replies = [
        party.hello(p, nonce_digest=ours.nonce_digest, wants_reply=True) for p in ("ben", "cyd")
    ]
    assert party.receive(*replies) == ["respond 0"]


def test_only_the_first_hello_of_the_last_peer_is_replied_to_at_once() -> None:
    """A peer that draws nonce after nonce gets a reply every 0.05 seconds, not for each."""
    party = SessionHarness()
    party.begin()
    for peer in ("ben", "cyd"):
        party.receive(party.hello(peer, echo=NO_NONCE, wants_reply=True))
    assert party.advance_time(0.0) == ["send asking hello 0"]
    for life in range(1, 5):
        anew = bytes([life])
        party.receive(party.hello("cyd", nonce=anew * 16, nonce_digest=anew * 32, wants_reply=True))
        assert party.advance_time(0.2 * HELLO_SECONDS) == []
    assert party.advance_time(0.2 * HELLO_SECONDS) == ["send asking hello 0"]


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


def test_a_hello_counts_the_releases_that_are_recorded() -> None:
    """One more would make peers wait for a release that does not exist."""
    party = SessionHarness(rounds=3).collecting()
    party.receive(party.hello("ben", nonce=b"ben in life two!", wants_reply=True))
    party.advance_time(HELLO_SECONDS)
    hello = party.sent[-1].message
    assert isinstance(hello, Hello)
    assert (hello.round, hello.recorded) == (0, 1)


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
    assert party.advance_time(WAIT_SECONDS) == ["fail: Unavailable"]
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
        ended += party.advance_time(WAIT_SECONDS / 8)
        if "fail: Unavailable" in ended:
            break
        party.receive(*effects)
    assert ended[-1] == "fail: Unavailable"
    assert "within 1 day: waited for" in str(party.error)
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


# Silence


def test_a_wait_that_ends_in_the_handshake_names_the_missing() -> None:
    """People may come late: only after the whole wait the error lists those without answer."""
    party = SessionHarness(members=4)
    party.begin()
    party.receive(party.hello("cyd"))
    assert "fail: Unavailable" not in party.advance_time(WAIT_SECONDS - 1.0)
    assert party.advance_time(1.0) == ["fail: Unavailable"]
    assert isinstance(party.error, Unavailable)
    text = "the first round did not close within 1 day: waited for 'ben', 'dan'."
    assert str(party.error).startswith(text)


def test_a_member_may_be_late_by_ten_minutes() -> None:
    """Long after the patience of a round the last member comes, and the first round opens."""
    party = SessionHarness(members=3)
    party.begin()
    party.receive(party.hello("ben"))
    assert "fail: Unavailable" not in party.advance_time(600.0)
    assert "respond 0" in party.receive(party.hello("cyd"))


def test_a_member_that_came_and_left_is_waited_for_before_the_first_round() -> None:
    """All have answered, but one has gone again: patience is for later rounds."""
    party = SessionHarness(members=3).collecting(0)
    assert "fail: Unavailable" not in party.advance_time(10.0 * PATIENCE)


def test_a_dispute_before_the_first_round_is_no_wait_for_people() -> None:
    """Members whose chain hashes differ are all here: patience counts."""
    party = SessionHarness(members=3)
    party.begin()
    party.receive(party.hello("ben"), party.hello("cyd", chain_hash=bytes(32)))
    assert "fail: Diverged cyd" in party.advance_time(PATIENCE)


def test_a_resumed_party_waits_for_people_as_at_the_start() -> None:
    """All processes may have stopped: they need not be started within the patience of a round."""
    party = SessionHarness(members=3, rounds=3, closed=1, released=1)
    party.begin()
    assert "fail: Unavailable" not in party.advance_time(10.0 * PATIENCE)
    assert "fail: Unavailable" in party.advance_time(WAIT_SECONDS)
    assert "for 1 day in round 2 of 3" in str(party.error)


def test_silence_in_a_round_names_the_missing() -> None:
    """Patience begins again with every release of the round."""
    party = SessionHarness(members=4).collecting(1)
    party.advance_time(PATIENCE - 1.0)
    party.receive(party.release("dan", 1))
    assert "fail: Unavailable" not in party.advance_time(PATIENCE - 1.0)
    assert party.advance_time(1.0) == ["fail: Unavailable"]
    assert str(party.error).startswith("nothing from 'ben', 'cyd' for 2 minutes in round 2 of 2.")
    assert "fail: Unavailable" not in party.advance_time(PATIENCE - 1.0), "it is said once"
    assert "fail: Unavailable" in party.advance_time(1.0)


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
    assert party.advance_time(WAIT_SECONDS) == ["fail: Unavailable"]
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
