"""One party that masks its releases: mask keys are its first exchange."""

import numpy as np
import pytest

from party.release.masks import MaskSecret, announcement
from protocol.errors import BadLedger, DifferentPrices, Equivocation, ImpossibleTotal
from protocol.rounds import RoundEngine, mask_keys, session_id
from protocol.session.effects import Fail, Record
from protocol.session.machine import Session
from protocol.session.phases import Phase
from protocol.wire.messages import Halt, Message, Reason, Release, Signed
from protocol.wire.transcript import Transcript
from tests.support.builders import make_agreement, sign, signer
from tests.support.outcomes import replay
from tests.support.session_harness import NONCE, SessionHarness

AGREEMENT = make_agreement(members=3, rounds=2, reveal="totals")
ENGINE = RoundEngine(AGREEMENT)
NAMES = ("ada", "ben", "cyd")
OPENING_HASH = ENGINE.opening.chain_hash


def key(name: str, seed: int = 0, chain_hash: bytes = OPENING_HASH) -> Signed:
    """A mask key that a member signs."""
    secret = MaskSecret(bytes([NAMES.index(name) + 1, seed]) * 16)
    return sign(announcement(AGREEMENT, name, chain_hash, secret))


KEYS = tuple(key(name) for name in NAMES)
KEYED = ENGINE.pair(ENGINE.opening, mask_keys(KEYS))


def release(
    name: str,
    value: int = 1000,
    chain_hash: bytes = KEYED.chain_hash,
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


class MaskedParty(SessionHarness):
    """A party of a masked session, with nothing prepared."""

    def __init__(self, *, own: tuple[Signed, ...] = (), past: Transcript | None = None) -> None:
        self.agreement, self.me, self.now = AGREEMENT, "ada", 1000.0
        self.positions = [ENGINE.opening]
        self.session = Session(
            AGREEMENT, "ada", nonce=NONCE["ada"], pack=signer("ada"), past=past, own=own, now=1000.0
        )
        self.peers = ["ben", "cyd"]
        self.sent, self.effects = [], []

    def submit_message(self, signed: Signed) -> list[str]:
        return self._after(self.session.submit(signed, self.now))

    def with_all_keys(self) -> "MaskedParty":
        """All mask keys have arrived."""
        self.after_handshake()
        self.submit_message(KEYS[0])
        self.receive(*KEYS[1:])
        return self


@pytest.fixture
def party() -> MaskedParty:
    return MaskedParty()


def test_mask_keys_come_before_the_first_round(party: MaskedParty) -> None:
    """The own key is requested after the handshake, the first release after all keys."""
    assert party.begin() == ["send asking hello 0"]
    assert party.receive(party.hello("ben"), party.hello("cyd")) == ["respond 0"]
    assert party.submit_message(KEYS[0]) == ["send maskkey 0"]
    assert party.missing == ["ben", "cyd"]
    assert party.receive(KEYS[1]) == []
    assert party.receive(KEYS[2]) == ["record keys", "respond 0"]
    assert party.session.state.chain_hash == session_id(OPENING_HASH, mask_keys(KEYS))
    records = [e for e in party.effects if isinstance(e, Record)]
    assert records[0].messages == KEYS
    assert party.submit_message(release("ada")) == ["send release 0"]
    assert party.receive(release("ben"), release("cyd")) == ["record 0", "respond 1"]


def test_early_mask_keys_are_not_lost(party: MaskedParty) -> None:
    """Peers may send their keys before this party has completed the handshake."""
    party.begin()
    party.receive(*KEYS[1:])
    party.receive(party.hello("ben"), party.hello("cyd"))
    assert party.submit_message(KEYS[0]) == ["send maskkey 0", "record keys", "respond 0"]


def test_a_release_that_comes_before_the_last_key_is_kept(party: MaskedParty) -> None:
    """A peer that has all keys is one exchange ahead, and no further."""
    party.after_handshake()
    party.submit_message(KEYS[0])
    party.receive(KEYS[1], release("ben"), release("ben", round=1))
    party.receive(KEYS[2])
    party.submit_message(release("ada"))
    assert party.receive(release("cyd")) == ["record 0", "respond 1"]


def test_key_and_first_release_are_repeated(party: MaskedParty) -> None:
    """The two newest messages repair every loss, even that of a key."""
    party.with_all_keys()
    party.submit_message(release("ada"))
    assert party.advance_time(0.2) == ["send maskkey 0", "send release 0"]


def test_only_the_requested_key_is_sent(party: MaskedParty) -> None:
    """A release in place of the key is a defect of this program."""
    party.after_handshake()
    with pytest.raises(Exception, match="something else than this round's release"):
        party.submit_message(release("ada", chain_hash=OPENING_HASH))


def test_a_second_key_is_proof(party: MaskedParty) -> None:
    """A member that signs two keys is named, and both are shown."""
    party.with_all_keys()
    assert party.receive(key("ben", 1)) == [
        "send halt 0 EQUIVOCATION showing 2",
        "fail for good: Equivocation ben",
    ]
    assert isinstance(party.error, Equivocation)
    assert "signed two different mask keys" in str(party.error)
    assert party.error.evidence == (KEYS[1].data, key("ben", 1).data)


def test_a_repeated_key_has_no_effect(party: MaskedParty) -> None:
    """Both before and after the keys are complete."""
    party.after_handshake()
    party.submit_message(KEYS[0])
    assert party.receive(KEYS[1], KEYS[1]) == []
    party.receive(KEYS[2])
    assert party.receive(*KEYS[1:]) == []


def test_a_peer_that_received_another_key_is_not_blamed(party: MaskedParty) -> None:
    """It shows its keys, and the member that signed two is named."""
    party.with_all_keys()
    party.submit_message(release("ada"))
    other = (KEYS[0], KEYS[1], key("cyd", 1))
    elsewhere = session_id(OPENING_HASH, mask_keys(other))
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


def test_another_chain_hash_from_the_same_keys_is_proof(party: MaskedParty) -> None:
    """A peer that shows the same keys and another chain hash computed something else."""
    party.with_all_keys()
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


def test_a_peer_without_all_keys_does_not_diverge(party: MaskedParty) -> None:
    """Its Hello with the chain hash before the keys is one exchange behind."""
    party.with_all_keys()
    assert party.receive(party.hello("ben", known=1)) == []
    assert party.session.phase is Phase.RESPONDING


def test_a_peer_with_all_keys_does_not_diverge(party: MaskedParty) -> None:
    """It is one exchange ahead of a party that restarts with its key alone."""
    back = MaskedParty(own=KEYS[:1])
    back.begin()
    ahead = back.hello("ben", chain_hash=KEYED.chain_hash, known=1)
    assert back.receive(ahead, back.hello("cyd", chain_hash=KEYED.chain_hash, known=1)) == [
        "respond 0"
    ]
    assert party.session.phase is Phase.HANDSHAKE


def test_a_ledger_without_its_key_is_old() -> None:
    """A peer shows the key of this party, so no second one is made."""
    party = MaskedParty()
    party.begin()
    assert party.receive(party.hello("ben", known=1), party.hello("cyd")) == ["warn"]
    assert party.missing == ["ben"]
    party.receive(KEYS[0])
    assert isinstance(party.error, BadLedger)
    assert "others know the mask key of 'ada', signed with its key" in str(party.error)


def test_a_peer_that_lost_its_key_gets_it_back() -> None:
    """Its Hello says that nothing is recorded, but we have its key."""
    party = MaskedParty().with_all_keys()
    party.receive(party.hello("ben", wants_reply=True, chain_hash=OPENING_HASH))
    party.advance_time(1.0)
    assert KEYS[1] in party.sent


def test_an_own_key_from_the_network_exposes_an_old_ledger() -> None:
    """The ledger is an old copy if it lacks a key that we signed."""
    party = MaskedParty()
    party.begin()
    party.receive(KEYS[0])
    assert isinstance(party.error, BadLedger)


def test_a_restart_resumes_with_the_keys_of_the_ledger() -> None:
    """It has the chain hash after the keys, and repeats its two newest messages."""
    party = MaskedParty(own=(KEYS[0], release("ada")), past=Transcript((), keys=KEYS))
    assert party.session.state.chain_hash == KEYED.chain_hash
    party.begin()
    hellos = [party.hello(peer, chain_hash=KEYED.chain_hash, known=2) for peer in party.peers]
    assert party.receive(*hellos) == ["respond 0"]
    assert party.submit_message(release("ada")) == ["send release 0"]
    assert party.advance_time(0.2) == ["send maskkey 0", "send release 0"]


@pytest.mark.parametrize("value", [-1, 3 << 20, 1 << 62])
def test_an_impossible_total_ends_the_process_and_names_no_member(
    party: MaskedParty, value: int
) -> None:
    """The round stays open, and the error is not final."""
    party.with_all_keys()
    party.submit_message(release("ada", 0))
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


def test_masked_sums_wrap_at_64_bits(party: MaskedParty) -> None:
    """Numbers far beyond any total can add up to a valid one."""
    party.with_all_keys()
    party.submit_message(release("ada", (1 << 63) - 5))
    assert party.receive(release("ben", (1 << 63) - 5), release("cyd", 10 + 77)) == [
        "record 0",
        "respond 1",
    ]


def test_a_transcript_replays_from_its_keys() -> None:
    """Keys, rounds and totals verify together, and lead to the session's chain hash."""
    rounds = (tuple(release(name, 5) for name in NAMES),)
    end = replay(AGREEMENT, Transcript(rounds, keys=KEYS))
    values = np.array([[5, 5]] * 3)
    assert end.chain_hash == ENGINE.advance(KEYED, values).chain_hash


def test_the_hello_of_the_harness_comes_before_the_keys(party: MaskedParty) -> None:
    """Unless a test says otherwise."""
    message: Message = party.hello("ben")
    assert message.chain_hash == OPENING_HASH
