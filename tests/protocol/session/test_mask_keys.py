"""Stories of one party that masks its releases: mask keys come first, as releases do in a round."""

import numpy as np
import pytest

from party.release.masks import MaskSecret, announcement
from protocol.errors import BadLedger, DifferentPrices, Equivocation, ImpossibleTotal
from protocol.outcome.replay import replay
from protocol.rounds import RoundEngine, mask_keys, session_id
from protocol.session.effects import Fail, Record
from protocol.session.machine import Session
from protocol.session.phases import Phase
from protocol.wire.messages import Halt, Message, Reason, Release, Signed
from protocol.wire.transcript import Transcript
from tests.support.builders import make_agreement, sign, signer
from tests.support.session_harness import NONCE, SessionHarness

AGREEMENT = make_agreement(members=3, rounds=2, reveal="totals")
COURSE = RoundEngine(AGREEMENT)
NAMES = ("ada", "ben", "cyd")
BEFORE = COURSE.opening.chain_hash


def key(name: str, seed: int = 0, chain_hash: bytes = BEFORE) -> Signed:
    """A mask key that a member signs."""
    secret = MaskSecret(bytes([NAMES.index(name) + 1, seed]) * 16)
    return sign(announcement(AGREEMENT, name, chain_hash, secret))


KEYS = tuple(key(name) for name in NAMES)
PAIRED = COURSE.pair(COURSE.opening, mask_keys(KEYS))


def release(
    name: str,
    value: int = 1000,
    chain_hash: bytes = PAIRED.chain_hash,
    round: int = 0,  # noqa: A002
) -> Signed:
    return sign(
        Release(
            sender=name,
            agreement=AGREEMENT.digest,
            round=round,
            chain_hash=chain_hash,
            values=(value, value),
            masked=True,
        )
    )


class Pairing(SessionHarness):
    """A party of which nothing is played beforehand."""

    def __init__(self, *, own: tuple[Signed, ...] = (), past: Transcript | None = None) -> None:
        self.agreement, self.me, self.now = AGREEMENT, "ada", 1000.0
        self.positions = [COURSE.opening]
        self.session = Session(
            AGREEMENT, "ada", nonce=NONCE["ada"], pack=signer("ada"), past=past, own=own, now=1000.0
        )
        self.peers = ["ben", "cyd"]
        self.sent, self.effects = [], []

    def submits(self, signed: Signed) -> list[str]:
        return self._after(self.session.submit(signed, self.now))

    def paired(self) -> "Pairing":
        """All keys are known."""
        self.greeted()
        self.submits(KEYS[0])
        self.receive(*KEYS[1:])
        return self


@pytest.fixture
def party() -> Pairing:
    return Pairing()


def test_keys_come_before_the_first_round(party: Pairing) -> None:
    """When all have greeted the own key is asked for, and the first release once all are in."""
    assert party.begin() == ["send asking hello 0"]
    assert party.receive(party.hello("ben"), party.hello("cyd")) == ["respond 0"]
    assert party.submits(KEYS[0]) == ["send maskkey 0"]
    assert party.missing == ["ben", "cyd"]
    assert party.receive(KEYS[1]) == []
    assert party.receive(KEYS[2]) == ["record keys", "respond 0"]
    assert party.session.state.chain_hash == session_id(BEFORE, mask_keys(KEYS))
    records = [e for e in party.effects if isinstance(e, Record)]
    assert records[0].messages == KEYS
    assert party.submits(release("ada")) == ["send release 0"]
    assert party.receive(release("ben"), release("cyd")) == ["record 0", "respond 1"]


def test_keys_that_came_early_are_not_lost(party: Pairing) -> None:
    """Peers may have their keys out before this party has heard that all have greeted."""
    party.begin()
    party.receive(*KEYS[1:])
    party.receive(party.hello("ben"), party.hello("cyd"))
    assert party.submits(KEYS[0]) == ["send maskkey 0", "record keys", "respond 0"]


def test_a_release_that_came_before_the_keys_is_kept(party: Pairing) -> None:
    """A peer that has all keys is one exchange ahead, and no further."""
    party.greeted()
    party.submits(KEYS[0])
    party.receive(KEYS[1], release("ben"), release("ben", round=1))
    party.receive(KEYS[2])
    party.submits(release("ada"))
    assert party.receive(release("cyd")) == ["record 0", "respond 1"]


def test_key_and_first_release_are_said_again(party: Pairing) -> None:
    """The two newest messages repair every loss, also that of a key."""
    party.paired()
    party.submits(release("ada"))
    assert party.advance_time(0.2) == ["send maskkey 0", "send release 0"]


def test_only_the_key_that_was_asked_for_is_sent(party: Pairing) -> None:
    """A release in place of the key is a defect of this program."""
    party.greeted()
    with pytest.raises(Exception, match="something else than this round's release"):
        party.submits(release("ada", chain_hash=BEFORE))


def test_a_second_key_is_proof(party: Pairing) -> None:
    """Whoever signs two keys is named, and both are shown."""
    party.paired()
    assert party.receive(key("ben", 1)) == [
        "send halt 0 EQUIVOCATION showing 2",
        "fail for good: Equivocation ben",
    ]
    assert isinstance(party.error, Equivocation)
    assert "signed two different mask keys" in str(party.error)
    assert party.error.evidence == (KEYS[1].data, key("ben", 1).data)


def test_the_same_key_again_is_nothing(party: Pairing) -> None:
    """An identical duplicate is ignored before and after the keys are complete."""
    party.greeted()
    party.submits(KEYS[0])
    assert party.receive(KEYS[1], KEYS[1]) == []
    party.receive(KEYS[2])
    assert party.receive(*KEYS[1:]) == []


def test_who_was_told_another_key_is_not_blamed(party: Pairing) -> None:
    """A peer on another head shows its keys, and the one that signed two is named, not the peer."""
    party.paired()
    party.submits(release("ada"))
    other = (KEYS[0], KEYS[1], key("cyd", 1))
    elsewhere = session_id(BEFORE, mask_keys(other))
    assert party.receive(release("ben", chain_hash=elsewhere)) == [
        "send halt 0 HEADS_DIFFER showing 4"
    ]
    shown = [s.data for s in KEYS]
    halt = party.sent[-1].message
    assert isinstance(halt, Halt)
    assert list(halt.evidence[:3]) == shown
    answer = Halt(
        sender="ben",
        agreement=AGREEMENT.digest,
        round=0,
        chain_hash=elsewhere,
        reason=Reason.HEADS_DIFFER,
        evidence=tuple(s.data for s in other),
    )
    assert party.receive(answer)[-1] == "fail for good: Equivocation cyd"


def test_another_head_from_the_same_keys_is_told(party: Pairing) -> None:
    """A peer that shows the very same keys and stands elsewhere computes something else."""
    party.paired()
    halt = Halt(
        sender="ben",
        agreement=AGREEMENT.digest,
        round=0,
        chain_hash=bytes(32),
        reason=Reason.HEADS_DIFFER,
        evidence=tuple(s.data for s in KEYS),
    )
    party.receive(halt)
    assert isinstance(party.error, DifferentPrices)
    assert "from the same mask keys" in str(party.error)


def test_a_peer_that_has_no_keys_yet_is_no_dispute(party: Pairing) -> None:
    """A hello of round 0 on the head before the keys is from one exchange behind."""
    party.paired()
    assert party.receive(party.hello("ben", known=1)) == []
    assert party.session.phase is Phase.RESPONDING


def test_a_peer_that_has_all_keys_is_no_dispute_either(party: Pairing) -> None:
    """Nor is one from one exchange ahead, to a party that comes back with its key alone."""
    back = Pairing(own=KEYS[:1])
    back.begin()
    ahead = back.hello("ben", chain_hash=PAIRED.chain_hash, known=1)
    assert back.receive(ahead, back.hello("cyd", chain_hash=PAIRED.chain_hash, known=1)) == [
        "respond 0"
    ]
    assert party.session.phase is Phase.HANDSHAKE


def test_a_ledger_without_its_key_is_old() -> None:
    """A peer that knows a key of this party and shows it is believed: no second one is made."""
    party = Pairing()
    party.begin()
    assert party.receive(party.hello("ben", known=1), party.hello("cyd")) == ["warn"]
    assert party.missing == ["ben"]
    party.receive(KEYS[0])
    assert isinstance(party.error, BadLedger)
    assert "others know the mask key of 'ada', signed with its key" in str(party.error)


def test_who_comes_without_its_key_is_shown_it() -> None:
    """Whoever greets with nothing recorded, and was heard before, gets back what it said."""
    party = Pairing().paired()
    party.receive(party.hello("ben", wants_reply=True, chain_hash=BEFORE))
    party.advance_time(1.0)
    assert KEYS[1] in party.sent


def test_a_key_that_the_network_gives_back_shows_an_old_ledger() -> None:
    """So does the own key itself, where the ledger does not know it."""
    party = Pairing()
    party.begin()
    party.receive(KEYS[0])
    assert isinstance(party.error, BadLedger)


def test_a_restart_goes_on_with_the_keys_of_the_ledger() -> None:
    """With all keys in the ledger a party stands where they lead, and says its two newest."""
    party = Pairing(own=(KEYS[0], release("ada")), past=Transcript((), keys=KEYS))
    assert party.session.state.chain_hash == PAIRED.chain_hash
    party.begin()
    hellos = [party.hello(peer, chain_hash=PAIRED.chain_hash, known=2) for peer in party.peers]
    assert party.receive(*hellos) == ["respond 0"]
    assert party.submits(release("ada")) == ["send release 0"]
    assert party.advance_time(0.2) == ["send maskkey 0", "send release 0"]


@pytest.mark.parametrize("value", [-1, 3 << 20, 1 << 62])
def test_an_impossible_total_ends_the_process_and_names_nobody(party: Pairing, value: int) -> None:
    """What three members cannot have said closes no round and is no fault for good."""
    party.paired()
    party.submits(release("ada", 0))
    effects = party.receive(
        release("ben", 0), release("cyd", value if value != 3 << 20 else value + 1)
    )
    assert effects == ["fail: ImpossibleTotal "]
    assert isinstance(party.error, ImpossibleTotal)
    assert party.error.exit_code == 15
    assert party.error.sender == ""
    assert len(party.error.evidence) == 3
    assert not any(name in str(party.error) for name in NAMES)
    assert not [e for e in party.effects if isinstance(e, Fail) and e.final]
    assert party.session.state.round == 0


def test_sums_are_of_64_bits_that_wrap(party: Pairing) -> None:
    """Numbers that are far beyond any total add up to one."""
    party.paired()
    party.submits(release("ada", (1 << 63) - 5))
    assert party.receive(release("ben", (1 << 63) - 5), release("cyd", 10 + 77)) == [
        "record 0",
        "respond 1",
    ]
    assert party.session.state.released.shape == (1, 2)


def test_a_transcript_replays_from_its_keys() -> None:
    """Keys, rounds and totals verify together, and the head is that of the session."""
    rounds = (tuple(release(name, 5) for name in NAMES),)
    end = replay(AGREEMENT, Transcript(rounds, keys=KEYS))
    values = np.array([[5, 5]] * 3)
    assert end.chain_hash == COURSE.advance(PAIRED, values).chain_hash


def test_hello_of_story_is_of_this_session(party: Pairing) -> None:
    """What the parties say stands on the head before the keys unless they say otherwise."""
    message: Message = party.hello("ben")
    assert message.chain_hash == BEFORE
