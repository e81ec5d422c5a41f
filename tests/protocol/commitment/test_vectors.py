"""The product and the independent implementation of SPEC §19 and §20 agree on every byte."""

import hashlib
import json
import random
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from party.release.masks import blinding_stream
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.clearing.claims import NO_RECIPIENT, Claim
from protocol.commitment.exchange import adds_up, committed_hash, statement, without_proof
from protocol.commitment.group import ORDER, VALUE_BASE, commit, proof_bases
from protocol.commitment.range_proof import invalid, parse, prove
from protocol.errors import BadMessage
from protocol.wire.codec import Reader, pack
from protocol.wire.messages import Commitment
from tests.reference import commitments as reference
from tests.reference import make_message_vectors as message_vectors
from tests.reference.make_commitment_vectors import vectors
from tests.support import ROOT
from tests.support.builders import make_agreement

VECTORS = json.loads((ROOT / "tests" / "reference" / "vectors" / "commitments.json").read_text())
DIGEST, HEAD = bytes.fromhex(VECTORS["digest"]), bytes.fromhex(VECTORS["head"])
AGREEMENT = make_agreement(members=3, resources=1, reveal="totals")
AGREEMENT.__dict__["digest"] = DIGEST  # a cached property


def points(member: dict[str, Any]) -> tuple[bytes, ...]:
    return tuple(map(bytes.fromhex, member["points"]))


def test_reference_makes_these_vectors() -> None:
    """The file is what the reference implementation writes."""
    assert vectors() == VECTORS


def test_bases_are_those_of_the_vectors() -> None:
    """Elligator in plain integers and in libsodium give the same points."""
    assert VALUE_BASE.hex() == VECTORS["value_base"]
    assert [base.hex() for base in proof_bases(3)] == VECTORS["proof_bases"]


def test_blindings_and_points_are_those_of_the_vectors() -> None:
    """From the pair secrets of the masks follow the blindings, and with the numbers the points."""
    for place, member in enumerate(VECTORS["members"]):
        sums = [0, 0]
        for other, pair in member["pairs"].items():
            sign = 1 if int(other) > place else -1
            for i, scalar in enumerate(blinding_stream(bytes.fromhex(pair), HEAD, 2)):
                sums[i] += sign * scalar
        blindings = [total % ORDER for total in sums]
        assert [f"{blinding:064x}" for blinding in blindings] == member["blindings"]
        assert tuple(map(commit, member["numbers"], blindings)) == points(member)


def test_proofs_of_the_reference_hold() -> None:
    """The product verifies what the reference proved, and computes the same chain hash."""
    members = VECTORS["members"]
    proved = [(points(m), bytes.fromhex(m["proof"])) for m in members]
    assert without_proof(AGREEMENT, HEAD, proved) == []
    hashed = [(p, hashlib.sha256(proof).digest()) for p, proof in proved]
    assert committed_hash(HEAD, hashed).hex() == VECTORS["closed_hash"]
    assert adds_up(AGREEMENT, [points(m) for m in members]) == VECTORS["adds_up"] is True


def test_proofs_of_the_product_hold_in_the_reference() -> None:
    """The reference verifies what the product proved, by the equations as they are written."""
    chance = random.Random(3)
    values, blindings = (5, 2**28 + 77), [chance.randrange(ORDER) for _ in range(2)]
    own = tuple(map(commit, values, blindings))
    proof = prove(statement(AGREEMENT, HEAD, 1, own), values, blindings, b"s" * 32)
    text = reference.label(DIGEST, HEAD, 1, list(own))
    assert reference.holds(text, list(own), proof.data)
    other = replace(proof, responses=(proof.responses[0] + 1, *proof.responses[1:]))
    assert not reference.holds(text, list(own), other.data)


def test_claims_have_the_bytes_of_the_vectors() -> None:
    """A claim is written as SPEC §20 says."""
    for place, member in enumerate(VECTORS["members"]):
        claim = Claim(
            agreement=DIGEST,
            chain_hash=HEAD,
            place=place,
            index=0,
            recipient=NO_RECIPIENT,
            number=member["numbers"][0],
            blinding=int(member["blindings"][0], 16),
        )
        assert claim.text.hex() == member["claim"]


MESSAGES = json.loads(message_vectors.PATH.read_text())["committing"]


def test_reference_makes_these_messages() -> None:
    """The part of messages.json about commitments is what the reference implementation writes."""
    assert message_vectors.vectors() == MESSAGES


@pytest.fixture(scope="module")
def committing() -> Agreement:
    agreement = from_table(MESSAGES["agreement"])
    assert agreement.digest.hex() == MESSAGES["digest"]
    return agreement


@pytest.mark.parametrize("vector", MESSAGES["valid"], ids=lambda v: v["name"].replace(" ", "-"))
def test_valid_messages_are_read_and_written(vector: dict[str, Any], committing: Agreement) -> None:
    """Each is read as the message beside it and written as the same bytes, and its proof holds."""
    data, fields = bytes.fromhex(vector["bytes"]), vector["message"]
    message = Reader(committing).unpack(data).message
    assert isinstance(message, Commitment)
    shown = {k: v.hex() for k, v in asdict(message).items() if isinstance(v, bytes)}
    points = [point.hex() for point in message.points]
    plain = {"kind": "Commitment", "sender": message.sender, "round": message.round}
    assert {**plain, **shown, "points": points} == fields
    key = committing.members[1].signing_key
    end = len(data) - len(message.proof)
    assert pack(message, key=key, sign=lambda _: data[end - 64 : end]).data == data
    if message.proof:
        claim = statement(committing, message.chain_hash, 1, message.points)
        assert not invalid([(claim, parse(message.proof))])


@pytest.mark.parametrize("vector", MESSAGES["invalid"], ids=lambda v: v["name"].replace(" ", "-"))
def test_invalid_messages_are_refused(vector: dict[str, Any], committing: Agreement) -> None:
    """Each is refused with the error beside it, also the second time."""
    reader = Reader(committing)
    for _ in range(2):
        with pytest.raises(BadMessage) as refused:
            reader.unpack(bytes.fromhex(vector["bytes"]))
        assert str(refused.value) == vector["error"]
