"""One party after its last round: commitments are its last exchange, and seals follow."""

import hashlib

import numpy as np
import pytest
from msgspec.structs import replace

from party.release.masks import MaskSecret, announcement
from protocol.commitment.exchange import statement
from protocol.commitment.group import ORDER, VALUE_BASE, add, commit, is_valid
from protocol.commitment.layout import PAYMENT_OFFSET, grain_ticks
from protocol.commitment.range_proof import prove
from protocol.errors import BadLedger, BadMessage, BadTranscript, Equivocation, Unsealed
from protocol.outcome.outcome import outcome
from protocol.rounds import RoundEngine, commitments_in, mask_keys, numbers
from protocol.runtime.admission import BURST, COMMITMENT_COST, Admission
from protocol.session.machine import Session
from protocol.session.phases import Phase
from protocol.wire import signatures
from protocol.wire.codec import Reader, as_evidence, commitment_bytes
from protocol.wire.messages import Commitment, Reason, Release, Seal, Signed
from protocol.wire.transcript import Transcript, load
from tests.support.builders import dump, make_agreement, sign, signer
from tests.support.session_harness import NONCE, PATIENCE, SessionHarness

AGREEMENT = make_agreement(members=3, rounds=1, resources=1, reveal="totals")
ENGINE = RoundEngine(AGREEMENT)
NAMES = ("ada", "ben", "cyd")
KEYS = tuple(
    sign(announcement(AGREEMENT, name, ENGINE.opening.chain_hash, MaskSecret(bytes([i + 1]) * 32)))
    for i, name in enumerate(NAMES)
)
KEYED = ENGINE.pair(ENGINE.opening, mask_keys(KEYS))
BLINDINGS = ([7, 8], [9, 10], [ORDER - 16, ORDER - 18])
CAPACITY = AGREEMENT.ticks // grain_ticks(AGREEMENT)
NUMBERS = ([CAPACITY // 2, 5], [CAPACITY // 4, -3], [CAPACITY // 4, -2])


def release(name: str, round: int = 0, chain_hash: bytes = KEYED.chain_hash) -> Signed:  # noqa: A002
    return sign(
        Release(
            sender=name,
            agreement=AGREEMENT.digest,
            round=round,
            chain_hash=chain_hash,
            values=(1000,),
            masked=True,
        )
    )


RELEASES = tuple(map(release, NAMES))
OVER = ENGINE.advance(KEYED, numbers(RELEASES))


def commitment(name: str, more: int = 0, head: bytes = OVER.chain_hash) -> Signed:
    """Commitments of a member, valid, to its numbers and `more` grains of quota."""
    place = NAMES.index(name)
    quota, payment = NUMBERS[place]
    values = [quota + more, payment + PAYMENT_OFFSET]
    points = tuple(map(commit, values, BLINDINGS[place]))
    claim = statement(AGREEMENT, head, place, points)
    proof = prove(claim, values, BLINDINGS[place], b"s" * 32).data
    return sign(
        Commitment(
            sender=name,
            agreement=AGREEMENT.digest,
            round=1,
            chain_hash=head,
            points=points,
            proof_hash=hashlib.sha256(proof).digest(),
            proof=proof,
        )
    )


COMMITMENTS = tuple(map(commitment, NAMES))
FINAL = ENGINE.commit(OVER, commitments_in(COMMITMENTS))


def unproved(name: str = "cyd") -> Signed:
    """Commitments with another point than the proof is about."""
    message = commitment(name).message
    assert isinstance(message, Commitment)
    return sign(replace(message, points=(add(message.points[0], VALUE_BASE), message.points[1])))


def seal(name: str, **changes: object) -> Signed:
    message = Seal(
        sender=name,
        agreement=AGREEMENT.digest,
        round=2,
        chain_hash=FINAL.chain_hash,
        has_all_seals=False,
    )
    return sign(replace(message, **changes))


class CommittingParty(SessionHarness):
    """A party whose rounds are closed."""

    def __init__(
        self,
        *,
        own: tuple[Signed, ...] = (KEYS[0], RELEASES[0]),
        commitments: tuple[Signed, ...] = (),
        witnessed: tuple[Signed, ...] = (),
    ) -> None:
        self.agreement, self.me, self.now = AGREEMENT, "ada", 1000.0
        self.positions = [KEYED, OVER, FINAL]
        past = Transcript((RELEASES,), keys=KEYS, commitments=commitments)
        self.session = Session(
            AGREEMENT,
            "ada",
            nonce=NONCE["ada"],
            pack=signer("ada"),
            past=past,
            own=own,
            witnessed=witnessed,
            now=1000.0,
        )
        self.peers = ["ben", "cyd"]
        self.sent, self.effects = [], []

    def submit_message(self, signed: Signed) -> list[str]:
        return self._after(self.session.submit(signed, self.now))

    def committing(self) -> "CommittingParty":
        """The handshake is done, and the own commitments are sent."""
        self.begin()
        self.receive(self.hello("ben", round=1), self.hello("cyd", round=1))
        self.submit_message(COMMITMENTS[0])
        return self


@pytest.fixture
def party() -> CommittingParty:
    return CommittingParty().committing()


def test_seals_follow_the_commitments(party: CommittingParty) -> None:
    """With all commitments the party seals the chain hash that covers them."""
    assert party.missing == ["ben", "cyd"]
    assert party.receive(COMMITMENTS[1]) == []
    assert party.receive(COMMITMENTS[2]) == ["record commitments", "send seal 2"]
    assert party.session.state.chain_hash == FINAL.chain_hash
    assert party.receive(seal("ben"), seal("cyd"))[0] == "finish 1"


def test_commitments_are_asked_for_after_the_last_round() -> None:
    """The last release closes the round, and the gate is asked for the commitments."""
    party = CommittingParty()
    assert party.begin() == ["send asking hello 1"]
    assert party.receive(party.hello("ben", round=1), party.hello("cyd", round=1)) == ["respond 1"]
    assert party.session.state.awaits is Commitment


def test_restart_goes_on_with_recorded_commitments() -> None:
    """Own commitments in the ledger and those of peers close the exchange in the handshake."""
    party = CommittingParty(own=(KEYS[0], RELEASES[0], COMMITMENTS[0]), witnessed=COMMITMENTS[1:2])
    party.begin()
    assert party.receive(COMMITMENTS[2]) == ["record commitments", "send seal 2"]


def test_restart_after_the_exchange_seals_at_once() -> None:
    """A ledger with all commitments has nothing left but to seal."""
    own = (KEYS[0], RELEASES[0], COMMITMENTS[0])
    assert CommittingParty(own=own, commitments=COMMITMENTS).begin() == ["send seal 2"]


def test_old_ledger_that_lacks_own_commitments_is_found(party: CommittingParty) -> None:
    """A party that receives its own commitments and has none in its ledger stops."""
    other = CommittingParty()
    other.begin()
    other.receive(COMMITMENTS[0])
    assert isinstance(other.error, BadLedger)
    assert party.receive(COMMITMENTS[0]) == []


def test_withheld_commitments_leave_the_outcome_unsealed(party: CommittingParty) -> None:
    """A member that does not commit is named, and the outcome stands without claims."""
    party.receive(COMMITMENTS[1])
    party.advance_time(PATIENCE)
    assert isinstance(party.error, Unsealed)
    assert "no valid commitments of 'cyd'" in str(party.error)
    assert party.session.unsealed == ("cyd",)
    assert party.session.state.over


def test_false_proof_is_named_and_dropped(party: CommittingParty) -> None:
    """Commitments whose proof does not hold count as missing; copies cost nothing."""
    bad = unproved()
    assert party.receive(COMMITMENTS[1], bad) == ["warn"]
    assert party.missing == ["cyd"]
    assert party.session.holds(bad.data)
    assert party.receive(bad) == []
    party.advance_time(PATIENCE)
    assert "'cyd'" in str(party.error)


def test_other_commitments_after_refused_ones_are_equivocation(party: CommittingParty) -> None:
    """A member has one message with commitments, even if its first one was refused."""
    party.receive(COMMITMENTS[1], unproved())
    party.receive(COMMITMENTS[2])
    assert isinstance(party.error, Equivocation)
    assert party.error.sender == "cyd"
    assert party.session.phase is Phase.HALTED


def test_two_valid_commitments_are_equivocation(party: CommittingParty) -> None:
    """Two different messages of one member prove that it lied, and each carries its proof."""
    party.receive(COMMITMENTS[1])
    lines = party.receive(commitment("ben", more=1))
    assert lines == ["send halt 1 EQUIVOCATION showing 2", "fail for good: Equivocation ben"]
    halt = party.sent[-1].message
    assert party.session.phase is Phase.HALTED
    assert [len(data) for data in halt.evidence] == 2 * [commitment_bytes(AGREEMENT, proof=False)]  # type: ignore[attr-defined]


def test_evidence_without_proofs_convinces_others(party: CommittingParty) -> None:
    """A Halt with two clashing commitments halts a party that holds neither."""
    evidence = (COMMITMENTS[1], commitment("ben", more=1))
    halt = party.halt("cyd", 1, reason=Reason.EQUIVOCATION)
    shown = replace(halt, evidence=tuple(map(as_evidence, evidence)))
    party.receive(shown)
    assert isinstance(party.error, Equivocation)
    assert party.error.sender == "ben"


def test_release_in_the_place_of_commitments_is_ignored(party: CommittingParty) -> None:
    """A release after the last round is no contribution, and clashes with commitments."""
    late = release("ben", round=1, chain_hash=OVER.chain_hash)
    assert party.receive(late) == []
    assert party.missing == ["ben", "cyd"]


def test_early_message_of_the_wrong_kind_does_not_stay() -> None:
    """A release for the round that never opens is dropped once the rounds are over."""
    party = CommittingParty()
    past = Transcript((), keys=KEYS)
    party.session = Session(
        AGREEMENT, "ada", nonce=NONCE["ada"], pack=signer("ada"), past=past, own=KEYS[:1], now=0.0
    )
    party.begin()
    party.receive(party.hello("ben"), party.hello("cyd"))
    party.submit_message(RELEASES[0])
    party.receive(release("ben", round=1, chain_hash=OVER.chain_hash), *RELEASES[1:])
    party.submit_message(COMMITMENTS[0])
    assert party.missing == ["ben", "cyd"]


def test_commitments_without_their_proof_do_not_count(party: CommittingParty) -> None:
    """Evidence that is sent as a message is no contribution, and no contradiction."""
    stripped = Reader(AGREEMENT).unpack(as_evidence(COMMITMENTS[1]))
    assert party.receive(stripped) == []
    assert party.missing == ["ben", "cyd"]
    assert party.receive(COMMITMENTS[1]) == []
    assert party.missing == ["cyd"]


def test_commitments_that_do_not_add_up_are_sealed_all_the_same(party: CommittingParty) -> None:
    """One grain too much: every party sees it, none can be named, and the outcome stands."""
    party.receive(COMMITMENTS[1], commitment("cyd", more=1))
    assert party.session.phase is Phase.SEALING
    committed = party.session.state.committed
    assert committed is not None
    assert not committed.adds_up


def test_early_seal_is_kept(party: CommittingParty) -> None:
    """A peer may seal before this party has the last commitments."""
    party.receive(COMMITMENTS[1], seal("ben"))
    lines = party.receive(COMMITMENTS[2], seal("cyd"))
    assert "finish 1" in lines


def test_late_peer_gets_the_commitments_of_others(party: CommittingParty) -> None:
    """A finished party passes on commitments that a late peer lacks."""
    party.receive(*COMMITMENTS[1:], seal("ben"), seal("cyd"))
    party.receive(party.hello("cyd", round=1, chain_hash=OVER.chain_hash, wants_reply=True))
    assert "send ben's commitment 1" in party.advance_time(1.0)


def test_transcript_holds_the_commitments() -> None:
    """A file with commitments and seals verifies, and its outcome says that they add up."""
    seals = tuple(map(seal, NAMES))
    whole = Transcript((RELEASES,), seals, KEYS, COMMITMENTS)
    loaded = load(AGREEMENT, dump(AGREEMENT, whole))
    assert loaded == whole
    known = outcome(AGREEMENT, loaded)
    assert known.sealed
    assert known.state.committed == FINAL.committed
    assert known.rounds == 1


@pytest.mark.parametrize(
    ("commitments", "seals", "error"),
    [
        ((), True, "the commitments before them are missing"),
        ((*COMMITMENTS[:2], unproved()), False, "the proof in the commitments of 'cyd'"),
        ((COMMITMENTS[1], COMMITMENTS[0], COMMITMENTS[2]), False, "is signed by"),
        (COMMITMENTS[:2], False, "2 messages for 3 members"),
    ],
    ids=["missing", "false proof", "wrong order", "too few"],
)
def test_transcript_with_wrong_commitments_is_refused(
    commitments: tuple[Signed, ...], seals: bool, error: str
) -> None:
    """What a session would not accept is found in its file."""
    sealed = tuple(map(seal, NAMES)) if seals else ()
    data = dump(AGREEMENT, Transcript((RELEASES,), sealed, KEYS, commitments))
    with pytest.raises(BadTranscript, match=error):
        outcome(AGREEMENT, load(AGREEMENT, data))


@pytest.mark.parametrize("at", [-1, -64, 200])
def test_changed_byte_is_found_when_the_message_is_read(at: int) -> None:
    """The signature covers the points, and the hash of the proof."""
    data = bytearray(COMMITMENTS[0].data)
    data[at] ^= 1
    with pytest.raises(BadMessage):
        Reader(AGREEMENT).unpack(bytes(data))


def test_proof_of_another_member_is_not_blamed_on_the_signer() -> None:
    """A relay that swaps proofs makes no member look malformed."""
    end = commitment_bytes(AGREEMENT, proof=False)
    swapped = COMMITMENTS[0].data[:end] + COMMITMENTS[1].data[end:]
    with pytest.raises(BadMessage) as refused:
        Reader(AGREEMENT).unpack(swapped)
    assert refused.value.sender == ""


def test_state_after_commitments_keeps_prices() -> None:
    """Commitments change the chain hash and nothing that quotas depend on."""
    assert FINAL.chain_hash != OVER.chain_hash
    assert np.array_equal(FINAL.prices.current, OVER.prices.current)
    assert FINAL.rounds_hash == OVER.chain_hash
    assert (FINAL.round, FINAL.step) == (1, 2)


def test_points_of_a_repeated_message_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that repeats its commitments or its mask key costs a reader little more."""
    checked: list[bytes] = []

    def counted(point: bytes) -> bool:
        checked.append(point)
        return is_valid(point)

    monkeypatch.setattr(signatures, "is_valid", counted)
    reader = Reader(AGREEMENT)
    first = reader.unpack(COMMITMENTS[0].data)
    assert len(checked) == len(COMMITMENTS[0].message.points)  # type: ignore[attr-defined]
    for _ in range(5):
        assert reader.unpack(COMMITMENTS[0].data) == first
    assert len(checked) == 2
    reader.unpack(COMMITMENTS[1].data)
    assert len(checked) == 4


def test_copy_without_its_proof_vouches_for_no_proof() -> None:
    """A reader that has seen the signed part alone still checks the proof that comes later."""
    honest = COMMITMENTS[0].message
    assert isinstance(honest, Commitment)
    proof = honest.proof[:-32] + b"\xff" * 32  # a scalar that is not reduced
    spoilt = sign(replace(honest, proof=proof, proof_hash=hashlib.sha256(proof).digest()))
    reader = Reader(AGREEMENT)
    reader.unpack(as_evidence(spoilt))
    for _ in range(2):
        with pytest.raises(BadMessage, match="out of range"):
            reader.unpack(spoilt.data)


def test_new_commitments_count_as_many_messages() -> None:
    """A member that signs ever new commitments uses up its limit ten times as fast."""
    admission = Admission(AGREEMENT, lambda _: None)
    limit, read = BURST + 4 * len(NAMES), 0
    message = COMMITMENTS[1].message
    assert isinstance(message, Commitment)
    for number in range(1, limit + 1):
        data = sign(replace(message, round=number)).data
        if admission.admits("ben", data, 0.0):
            admission.read("ben", data, 0.0)
            read += 1
    assert read == -(-limit // COMMITMENT_COST)
    copies = 0
    while admission.admits("cyd", COMMITMENTS[2].data, 0.0):
        admission.read("cyd", COMMITMENTS[2].data, 0.0)
        copies += 1
    assert copies == limit - COMMITMENT_COST + 1
