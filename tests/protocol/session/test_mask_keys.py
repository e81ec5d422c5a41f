"""Stories of one party that masks its releases: mask keys come first, as releases do in a round."""

import numpy as np
import pytest

from party.release.masks import MaskSecret, announcement
from protocol.errors import BadLedger, DifferentPrices, Equivocation, ImpossibleTotal
from protocol.outcome.replay import replay
from protocol.rounds import RoundEngine, mask_keys, session_id
from protocol.session.effects import Fail, Record
from protocol.session.machine import Phase, Session
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
    """A story of which nothing is played beforehand."""

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
        self.hears(*KEYS[1:])
        return self


@pytest.fixture
def story() -> Pairing:
    return Pairing()


def test_keys_come_before_the_first_round(story: Pairing) -> None:
    """When all have greeted the own key is asked for, and the first release once all are in."""
    assert story.begins() == ["send asking hello 0"]
    assert story.hears(story.hello("ben"), story.hello("cyd")) == ["respond 0"]
    assert story.submits(KEYS[0]) == ["send maskkey 0"]
    assert story.missing == ["ben", "cyd"]
    assert story.hears(KEYS[1]) == []
    assert story.hears(KEYS[2]) == ["record -1", "respond 0"]
    assert story.session.state.chain_hash == session_id(BEFORE, mask_keys(KEYS))
    records = [e for e in story.effects if isinstance(e, Record)]
    assert records[0].releases == KEYS
    assert story.submits(release("ada")) == ["send release 0"]
    assert story.hears(release("ben"), release("cyd")) == ["record 0", "respond 1"]


def test_keys_that_came_early_are_not_lost(story: Pairing) -> None:
    """Peers may have their keys out before this party has heard that all have greeted."""
    story.begins()
    story.hears(*KEYS[1:])
    story.hears(story.hello("ben"), story.hello("cyd"))
    assert story.submits(KEYS[0]) == ["send maskkey 0", "record -1", "respond 0"]


def test_a_release_that_came_before_the_keys_is_kept(story: Pairing) -> None:
    """A peer that has all keys is one exchange ahead, and no further."""
    story.greeted()
    story.submits(KEYS[0])
    story.hears(KEYS[1], release("ben"), release("ben", round=1))
    story.hears(KEYS[2])
    story.submits(release("ada"))
    assert story.hears(release("cyd")) == ["record 0", "respond 1"]


def test_key_and_first_release_are_said_again(story: Pairing) -> None:
    """The two newest messages repair every loss, also that of a key."""
    story.paired()
    story.submits(release("ada"))
    assert story.waits(0.2) == ["send maskkey 0", "send release 0"]


def test_only_the_key_that_was_asked_for_is_sent(story: Pairing) -> None:
    """A release in place of the key is a defect of this program."""
    story.greeted()
    with pytest.raises(Exception, match="something else than this round's release"):
        story.submits(release("ada", chain_hash=BEFORE))


def test_a_second_key_is_proof(story: Pairing) -> None:
    """Whoever signs two keys is named, and both are shown."""
    story.paired()
    assert story.hears(key("ben", 1)) == [
        "send halt 0 EQUIVOCATION showing 2",
        "fail for good: Equivocation ben",
    ]
    assert isinstance(story.error, Equivocation)
    assert "signed two different mask keys" in str(story.error)
    assert story.error.evidence == (KEYS[1].data, key("ben", 1).data)


def test_the_same_key_again_is_nothing(story: Pairing) -> None:
    """An identical duplicate is ignored before and after the keys are complete."""
    story.greeted()
    story.submits(KEYS[0])
    assert story.hears(KEYS[1], KEYS[1]) == []
    story.hears(KEYS[2])
    assert story.hears(*KEYS[1:]) == []


def test_who_was_told_another_key_is_not_blamed(story: Pairing) -> None:
    """A peer on another head shows its keys, and the one that signed two is named, not the peer."""
    story.paired()
    story.submits(release("ada"))
    other = (KEYS[0], KEYS[1], key("cyd", 1))
    elsewhere = session_id(BEFORE, mask_keys(other))
    assert story.hears(release("ben", chain_hash=elsewhere)) == [
        "send halt 0 HEADS_DIFFER showing 4"
    ]
    shown = [s.data for s in KEYS]
    halt = story.sent[-1].message
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
    assert story.hears(answer)[-1] == "fail for good: Equivocation cyd"


def test_another_head_from_the_same_keys_is_told(story: Pairing) -> None:
    """A peer that shows the very same keys and stands elsewhere computes something else."""
    story.paired()
    halt = Halt(
        sender="ben",
        agreement=AGREEMENT.digest,
        round=0,
        chain_hash=bytes(32),
        reason=Reason.HEADS_DIFFER,
        evidence=tuple(s.data for s in KEYS),
    )
    story.hears(halt)
    assert isinstance(story.error, DifferentPrices)
    assert "from the same mask keys" in str(story.error)


def test_a_peer_that_has_no_keys_yet_is_no_dispute(story: Pairing) -> None:
    """A hello of round 0 on the head before the keys is from one exchange behind."""
    story.paired()
    assert story.hears(story.hello("ben", heard=1)) == []
    assert story.session.phase is Phase.RESPONDING


def test_a_peer_that_has_all_keys_is_no_dispute_either(story: Pairing) -> None:
    """Nor is one from one exchange ahead, to a party that comes back with its key alone."""
    back = Pairing(own=KEYS[:1])
    back.begins()
    ahead = back.hello("ben", chain_hash=PAIRED.chain_hash, heard=1)
    assert back.hears(ahead, back.hello("cyd", chain_hash=PAIRED.chain_hash, heard=1)) == [
        "respond 0"
    ]
    assert story.session.phase is Phase.HANDSHAKE


def test_a_ledger_without_its_key_is_old() -> None:
    """A peer that knows a key of this party and shows it is believed: no second one is made."""
    story = Pairing()
    story.begins()
    assert story.hears(story.hello("ben", heard=1), story.hello("cyd")) == ["warn"]
    assert story.missing == ["ben"]
    story.hears(KEYS[0])
    assert isinstance(story.error, BadLedger)
    assert "others know the mask key of 'ada', signed with its key" in str(story.error)


def test_who_comes_without_its_key_is_shown_it() -> None:
    """Whoever greets with nothing recorded, and was heard before, gets back what it said."""
    story = Pairing().paired()
    story.hears(story.hello("ben", asking=True, chain_hash=BEFORE))
    story.waits(1.0)
    assert KEYS[1] in story.sent


def test_a_key_that_the_network_gives_back_shows_an_old_ledger() -> None:
    """So does the own key itself, where the ledger does not know it."""
    story = Pairing()
    story.begins()
    story.hears(KEYS[0])
    assert isinstance(story.error, BadLedger)


def test_a_restart_goes_on_with_the_keys_of_the_ledger() -> None:
    """With all keys in the ledger a party stands where they lead, and says its two newest."""
    story = Pairing(own=(KEYS[0], release("ada")), past=Transcript((), keys=KEYS))
    assert story.session.state.chain_hash == PAIRED.chain_hash
    story.begins()
    hellos = [story.hello(peer, chain_hash=PAIRED.chain_hash, heard=2) for peer in story.peers]
    assert story.hears(*hellos) == ["respond 0"]
    assert story.submits(release("ada")) == ["send release 0"]
    assert story.waits(0.2) == ["send maskkey 0", "send release 0"]


@pytest.mark.parametrize("value", [-1, 3 << 20, 1 << 62])
def test_an_impossible_total_ends_the_process_and_names_nobody(story: Pairing, value: int) -> None:
    """What three members cannot have said closes no round and is no fault for good."""
    story.paired()
    story.submits(release("ada", 0))
    effects = story.hears(
        release("ben", 0), release("cyd", value if value != 3 << 20 else value + 1)
    )
    assert effects == ["fail: ImpossibleTotal "]
    assert isinstance(story.error, ImpossibleTotal)
    assert story.error.exit_code == 15
    assert story.error.sender == ""
    assert len(story.error.evidence) == 3
    assert not any(name in str(story.error) for name in NAMES)
    assert not [e for e in story.effects if isinstance(e, Fail) and e.final]
    assert story.session.state.round == 0


def test_sums_are_of_64_bits_that_wrap(story: Pairing) -> None:
    """Numbers that are far beyond any total add up to one."""
    story.paired()
    story.submits(release("ada", (1 << 63) - 5))
    assert story.hears(release("ben", (1 << 63) - 5), release("cyd", 10 + 77)) == [
        "record 0",
        "respond 1",
    ]


def test_a_transcript_replays_from_its_keys() -> None:
    """Keys, rounds and totals verify together, and the head is that of the session."""
    rounds = (tuple(release(name, 5) for name in NAMES),)
    end = replay(AGREEMENT, Transcript(rounds, keys=KEYS))
    values = np.array([[5, 5]] * 3)
    assert end.chain_hash == COURSE.advance(PAIRED, values).chain_hash


def test_hello_of_story_is_of_this_session(story: Pairing) -> None:
    """What the stories say stands on the head before the keys unless they say otherwise."""
    message: Message = story.hello("ben")
    assert message.chain_hash == BEFORE
