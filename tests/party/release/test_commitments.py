"""The gate commits a party to its quota and payment, once, before it seals."""

import hashlib
import math
import random
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from party.ledger.session_ledger import Ledger
from party.release.allocation import own_allocation
from party.release.commitments import commitment, committed_numbers
from party.release.masks import Masks
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.commitment.exchange import adds_up, statement
from protocol.commitment.group import ORDER, commit
from protocol.commitment.layout import MONEY_GRAIN_UNITS, PAYMENT_OFFSET, grain_ticks
from protocol.commitment.range_proof import prove
from protocol.errors import BadCommitment, InternalError
from protocol.outcome.outcome import outcome
from protocol.outcome.payments import unit_of_money
from protocol.outcome.private_quota import Allocation
from protocol.wire.messages import Commitment, Signed
from tests.support.builders import make_agreement, public_key, sign, signer
from tests.support.committed_sessions import CommittedSession, play_until_over

AGREEMENTS = {
    "constant": make_agreement(members=3, rounds=2, reveal="totals"),
    "centre": make_agreement(members=4, rounds=6, reveal="totals", prices={"step": "center"}),
    "one resource": make_agreement(members=5, rounds=2, resources=1, reveal="totals"),
    "shares": make_agreement(
        members=3,
        rounds=3,
        reveal="totals",
        prices={"step": "center"},
        member=[
            {"name": name, "signing_key": public_key(name).hex(), "share": share}
            for name, share in (("ada", 0.5), ("ben", 0.4), ("cyd", 0.3))
        ],
    ),
}


def committed_to(session: CommittedSession, name: str, more: dict[int, int]) -> Signed:
    """Commitments of one member with a true proof, to `more` grains of some numbers.

    Negative numbers are committed modulo the order, with the bits of what they should be.
    """
    agreement, place = session.agreement, session.agreement.place(name)
    gate = session.gates[place]
    honest = gate.release(session.over)
    opening = session.ledgers[place].opening()
    assert opening is not None
    assert isinstance(honest.message, Commitment)
    numbers = [n + more.get(i, 0) for i, n in enumerate(opening.numbers)]
    points = tuple(map(commit, numbers, opening.blindings))
    claim = statement(agreement, session.over.chain_hash, place, points)
    proof = prove(claim, numbers, opening.blindings, b"s" * 32).data
    proof_hash = hashlib.sha256(proof).digest()
    return sign(replace(honest.message, points=points, proof=proof, proof_hash=proof_hash))


@pytest.mark.parametrize("agreement", AGREEMENTS.values(), ids=AGREEMENTS.keys())
@pytest.mark.parametrize("seed", range(3))
def test_honest_commitments_add_up(agreement: Agreement, seed: int) -> None:
    """Whatever companies answer, their commitments open to quota and payment, and add up."""
    session = play_until_over(agreement, seed)
    known = session.sealed()
    assert known.state.committed is not None
    assert known.state.committed.adds_up
    grain = grain_ticks(agreement)
    for place, ledger in enumerate(session.ledgers):
        opening, own = ledger.opening(), ledger.allocation()
        assert opening is not None
        assert own is not None
        points = tuple(map(commit, opening.numbers, opening.blindings))
        assert points == known.state.committed.points[place]
        *quotas, payment = opening.numbers
        for grains, ticks in zip(quotas, own.committed_ticks.tolist(), strict=True):
            assert grains * grain <= ticks < (grains + 1) * grain
        unit = unit_of_money(known.prices, agreement)
        due = own.payment / (unit * MONEY_GRAIN_UNITS)
        assert abs(payment - PAYMENT_OFFSET - due) <= 0.5


def test_blindings_add_up_to_zero_and_differ() -> None:
    """No member sends its blindings, and all of them cancel."""
    session = play_until_over(AGREEMENTS["constant"], 1)
    session.sealed()
    rows = [ledger.opening() for ledger in session.ledgers]
    columns = list(zip(*(row.blindings for row in rows if row is not None), strict=True))
    assert all(sum(column) % ORDER == 0 for column in columns)
    assert len({value for column in columns for value in column}) == 9


def test_commitments_are_made_once(tmp_path: Path) -> None:
    """A second call, and another process, give the same bytes; openings survive."""
    agreement = AGREEMENTS["constant"]
    session = play_until_over(agreement, 2, tmp_path)
    first = session.gates[0].release(session.over)
    assert session.gates[0].release(session.over) == first
    opening = session.ledgers[0].opening()
    session.ledgers[0].close()
    again = Ledger(tmp_path / "ada.ledger", agreement, "ada")
    found = again.opening()
    assert again.commitment() == first
    assert opening is not None
    assert found is not None
    assert found.numbers == opening.numbers
    assert again.own()[-1] == first
    for ledger in (again, *session.ledgers[1:]):
        ledger.close()


def test_member_that_gets_nothing_commits_to_nothing() -> None:
    """A quota of 0 is committed as 0 grains: its claim allows no use."""
    known = play_until_over(AGREEMENTS["constant"], 1).sealed()
    nothing = Allocation(np.zeros(2, dtype=np.int64), 0.0)
    assert committed_numbers(known, nothing) == (0, 0, PAYMENT_OFFSET)


def test_a_grain_of_money_is_small_beside_what_all_is_worth() -> None:
    """A payment of the whole worth has between 2^27 and 2^28 grains, as SPEC.md says."""
    known = play_until_over(AGREEMENTS["centre"], 1).sealed()
    worth = float(known.prices @ quantities(known.agreement).capacity)
    assert worth > 0.0
    whole = committed_numbers(known, Allocation(np.zeros(2, dtype=np.int64), worth))[-1]
    assert 2**27 <= whole - PAYMENT_OFFSET <= 2**28


def test_numbers_of_false_releases_are_cut_to_their_bits() -> None:
    """The largest number of each width can still be proved, and nothing above it is committed."""
    known = play_until_over(AGREEMENTS["constant"], 1).sealed()
    most = Allocation(np.full(2, 1 << 62), 1e30)
    assert committed_numbers(known, most) == (2**25 - 1, 2**25 - 1, 2**29 - 1)


def test_commitments_are_never_made_before_the_last_round() -> None:
    """A session that asks too early gets an error, and nothing is signed or recorded."""
    agreement, session = AGREEMENTS["constant"], play_until_over(AGREEMENTS["constant"], 1)
    ledger, signs = session.ledgers[0], signer("ada")
    masks = Masks(agreement, "ada", ledger, signs)
    early = replace(session.over, uncommitted=False)
    with pytest.raises(InternalError, match="before its rounds were closed"):
        commitment(agreement, "ada", ledger, masks, signs, early)
    assert session.ledgers[0].commitment() is None
    assert session.ledgers[0].opening() is None


def test_allocation_computed_before_gives_the_same_commitments() -> None:
    """A party that stopped after the last round, and wrote its report, commits all the same."""
    agreement = AGREEMENTS["constant"]
    one, other = play_until_over(agreement, 3), play_until_over(agreement, 3)
    own_allocation(outcome(agreement, other.transcript), "ada", other.ledgers[0])
    numbers = []
    for session in (one, other):
        session.gates[0].release(session.over)
        opening = session.ledgers[0].opening()
        assert opening is not None
        numbers.append(opening.numbers)
    assert numbers[0] == numbers[1]


def test_seals_destroy_the_mask_key_and_forgetting_the_openings(tmp_path: Path) -> None:
    """After the seals claims can be made; after `forget` nothing of them is on disk."""
    session = play_until_over(AGREEMENTS["constant"], 4, tmp_path)
    session.sealed()
    ledger = session.ledgers[0]
    opening = ledger.opening()
    assert opening is not None
    secret = opening.blindings[0].to_bytes(32, "little")
    for each in session.ledgers:
        each.commit()
    assert any(secret in path.read_bytes() for path in tmp_path.glob("ada.ledger*"))
    ledger.forget()
    assert ledger.opening() is None
    assert ledger.commitment() is not None
    for each in session.ledgers:
        each.close()
    assert not any(secret in path.read_bytes() for path in tmp_path.glob("ada.ledger*"))


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("sign_of", [1, -1])
def test_lone_liar_gains_at_most_the_slack_of_rounding(index: int, sign_of: int) -> None:
    """A member that commits to other numbers, with a true proof, passes only within a few grains.

    Index 2 is the payment. The sum shows more, and no member can be named for it.
    """
    agreement = AGREEMENTS["centre"]
    session = play_until_over(agreement, 11)
    honest = [gate.release(session.over) for gate in session.gates]
    passed = []
    for more in (1, 2, 4, 8, 9, 50, 1 << 20):
        lie = committed_to(session, "ben", {index: sign_of * more})
        points = [s.message.points for s in (honest[0], lie, *honest[2:])]  # type: ignore[attr-defined]
        if adds_up(agreement, points):
            passed.append(more)
    assert max(passed, default=0) <= len(agreement.members) + 4


@pytest.mark.parametrize("seed", range(8))
def test_lone_liar_of_any_session_gains_a_few_grains_or_voids_all_claims(seed: int) -> None:
    """Whichever members lie, and by any amount: the sum shows what is more than rounding."""
    chance = random.Random(seed)
    agreement = list(AGREEMENTS.values())[seed % len(AGREEMENTS)]
    session = play_until_over(agreement, 100 + seed)
    honest = [gate.release(session.over).message for gate in session.gates]
    rows = [message.points for message in honest if isinstance(message, Commitment)]
    for _ in range(4):
        place, index = chance.randrange(len(rows)), chance.randrange(len(rows[0]))
        more = chance.choice((1, -1)) * chance.choice((1, 3, 7, chance.randrange(8, 1 << 20)))
        name = agreement.members[place].name
        lie = committed_to(session, name, {index: more}).message
        assert isinstance(lie, Commitment)
        points = [lie.points if k == place else row for k, row in enumerate(rows)]
        assert not adds_up(agreement, points) or abs(more) <= len(rows) + 4


def test_short_sale_has_no_proof() -> None:
    """A member that commits to a negative quota, so that another may have more, is named."""
    agreement = AGREEMENTS["centre"]
    session = play_until_over(agreement, 5)
    taken = 1 << 23
    rows = [committed_to(session, m.name, {}) for m in agreement.members]
    rows[0] = committed_to(session, "ada", {0: -(1 << 25)})
    rows[1] = committed_to(session, "ben", {0: taken})
    with pytest.raises(BadCommitment) as refused:
        session.sealed_with(tuple(rows))
    assert refused.value.senders == ("ada",)


def _with_shares(endowment: float, **prices: object) -> Agreement:
    """One resource of which ada may have all, and ben nothing; cyd too if it brings some."""
    return make_agreement(
        members=3,
        rounds=3,
        resources=1,
        reveal="totals",
        prices=prices,
        member=[
            {"name": name, "signing_key": public_key(name).hex(), "share": share, "endowment": own}
            for name, share, own in (
                ("ada", 1.0, endowment),
                ("ben", 0.0, 0.0),
                ("cyd", math.ceil(1.0 - endowment), 1.0 - endowment),
            )
        ],
    )


@pytest.mark.parametrize(
    "agreement",
    [
        _with_shares(1.0, step="center"),
        _with_shares(0.0, step="constant", step_size=1e-6, nonnegative=False, start={"r0": -5.0}),
        _with_shares(0.0, step="constant", step_size=1e-6, start={"r0": 5.0}),
    ],
    ids=["quota", "payment below", "payment above"],
)
def test_false_releases_do_not_keep_an_honest_member_from_its_proof(agreement: Agreement) -> None:
    """A member that releases less than nothing makes numbers of others too large for their bits.

    Their proofs hold all the same, so no honest member is named. Claims do not count.
    """
    everything = sum(agreement.share_ticks_of(m, 0) for m in agreement.members)
    session = play_until_over(agreement, 1, wanted=lambda: 1.0, lies={"ben": -everything})
    known = session.sealed()
    assert known.state.committed is not None
    assert not known.state.committed.adds_up
