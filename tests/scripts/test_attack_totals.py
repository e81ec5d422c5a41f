"""The attack on exact totals: it finds steps of one company, and its claims are true."""

import numpy as np
import pytest
from msgspec.structs import replace

from party.rehearsal.in_process import players, run
from protocol.outcome.outcome import outcome
from scripts.lab.attack.totals import Attacker, Step, answering, attacked, steps, terms, true_steps
from scripts.lab.common.instances import draw
from tests.support.ledgers import keep_demands


@pytest.mark.parametrize(("rule", "sessions"), [("center", 10), ("worth", 1)])
def test_three_members_do_not_hide_one(rule: str, sessions: int) -> None:
    """Ten sessions of the centre rule, or one with small steps, reveal most steps of a company."""
    found = [attacked(s, members=3, rule=rule, sessions=sessions) for s in (1, 2, 3)]
    assert sum(f["found"] for f in found) >= 0.7 * sum(f["steps"] for f in found)
    assert max(error for f in found for error in f["errors"]) < 0.01
    assert sum(f["placebo"] for f in found) == 0, "another company's data fit no claim"
    assert sum(f["named"] for f in found) >= 5, "with other members the victim's steps stay"
    assert sum(f["misnamed"] for f in found) == 0


def test_claims_are_steps_of_one_company() -> None:
    """Companies asked again change their demand as claimed, one company at a time."""
    instance = draw(4, parties=3, demands=False)
    agreement = terms(instance, 3, "worth")
    _, *others = (answering(p, agreement) for p in instance.subproblems())
    attacker = Attacker(agreement, others)
    attacker.session()
    assert len(attacker.claims) >= 4
    for claim in attacker.claims:
        changes = [
            p.answer(claim.low / instance.capacity).demand  # type: ignore[union-attr]
            - p.answer(claim.high / instance.capacity).demand  # type: ignore[union-attr]
            for p in instance.subproblems()[1:]
        ]
        changed = [c / instance.capacity for c in changes if np.abs(c).max() > 1e-5]
        assert len(changed) == 1
        np.testing.assert_allclose(changed[0], claim.size, atol=1e-5)


def test_the_last_member_to_answer_knows_the_demand_of_all_others() -> None:
    """In a real session, masked releases of the others and the own masks add up to their demand.

    A mask does not depend on what it hides, so this is known before the own answer is made.
    """
    instance = draw(1, parties=3, demands=False)
    agreement = replace(terms(instance, 3, "center"), rehearsal=True)  # it is only played
    with players(agreement, instance.subproblems(), 1) as members:
        kept = [keep_demands(member.ledger) for member in members]
        run(members)
        result = outcome(agreement, members[0].ledger.transcript())
    demands = [np.array([unmasked for _, unmasked in rows]) for rows in kept]
    masks = result.released[:, 0] - demands[0]
    others = result.released[:, 1:].sum(axis=1) + masks
    assert result.rounds > 5
    np.testing.assert_array_equal(others, demands[1] + demands[2])
    assert not (result.released[:, 1:] == np.stack(demands[1:], axis=1)).any(), "they are masked"


def test_steps_of_a_known_demand() -> None:
    """Two steps of a demand are found, with their prices and sizes."""

    def asked(price: float) -> np.ndarray:
        return np.array([0.5 * (price < 30.0) + 0.25 * (price < 70.0), 0.125 * (price < 70.0)])

    first, second = true_steps(asked)
    assert (first.price, second.price) == pytest.approx((30.0, 70.0), abs=1e-4)
    assert first.size.tolist() == [0.5, 0.0]
    assert second.size.tolist() == [0.25, 0.125]
    wide = steps({10.0: asked(10.0), 90.0: asked(90.0)})[0]
    assert not wide.narrow
    assert not wide.like(first)
    assert first.like(Step(29.9, 30.1, np.array([0.5, 0.0])))
