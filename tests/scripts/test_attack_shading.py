"""The measure of lies: the truth gains nothing, known lies gain what mathematics says."""

from itertools import permutations

import numpy as np
import pytest
from msgspec.structs import replace

from party.model.company_model import CompanyModel, dense
from party.model.linear_program import Quadratic
from party.rehearsal.in_process import players as parties
from party.rehearsal.in_process import run
from party.release.allocation import own_allocation
from party.settlement.settle import settle
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.outcome.outcome import outcome
from scripts.lab.attack.lies import LIAR, TRUTH, Answers, Lie, Played, added, alone, grid
from scripts.lab.attack.shading import Setting, Unit, chosen_beforehand, measure, summary
from scripts.lab.common.agreements import players, table
from scripts.lab.common.instances import Instance

SEED = 1


def small(members: int = 3) -> tuple[Instance, Agreement]:
    setting = Setting(members)
    instance = Unit(setting, 0, 0, 2, SEED).instance()
    return instance, setting.agreement(instance)


@pytest.mark.parametrize("reveal", ["each", "totals"])
def test_the_truth_is_a_real_session_and_gains_exactly_nothing(reveal: str) -> None:
    """A lie with all factors 1 leaves each member what real parties in a session have."""
    instance, _ = small()
    agreement = Setting(3).agreement(instance, reveal=reveal)
    with parties(agreement, instance.subproblems(), 1) as members:
        run(members)
        known = outcome(agreement, members[0].ledger.transcript())
        own = [own_allocation(known, m.session.me, m.ledger) for m in members]
    settled = [
        settle(data, known, member.name, allocation)
        for data, member, allocation in zip(instance.data, agreement.members, own, strict=True)
    ]
    real = [s.within_quota.utility - s.payment for s in settled if s.within_quota is not None]
    for lie in (TRUTH, Lie(uses=(2, 1.0))):
        assert Played.of(agreement, instance.data, lie, 0).nets(range(3)) == real


def buyer(first: float, slope: float) -> CompanyModel:
    """Earns first·x − ½·slope·x² with x units of one resource."""
    terms = Quadratic(np.array([0, 1], np.int32), np.array([0], np.int32), np.array([-slope]))
    return _one_product(first, terms)


def _one_product(earns: float, quadratic: Quadratic | None = None) -> CompanyModel:
    model = dense(
        A=np.ones((1, 1)),
        B=np.zeros((0, 1)),
        u=np.array([earns]),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.zeros(1),
        upper=np.full(1, 10.0),
    )
    return replace(model, quadratic=quadratic)


def test_a_seller_gains_what_a_monopolist_gains() -> None:
    """One seller has all 10 units and no use for them; two buyers pay 15 − (what both have).

    If it sells z units, it gets z·(15 − z): 50 for all 10, and most, 56.25, for 7.5.
    """
    data = (_one_product(0.0), buyer(15.0, 2.0), buyer(15.0, 2.0))
    instance = Instance(np.array([10.0]), np.ones((3, 1)), data)
    members = players(3)
    for member, brought in zip(members, (1.0, 0.0, 0.0), strict=True):
        member["endowment"] = brought
    agreement = from_table(
        table(
            session="monopoly",
            mode="exact",
            rounds=100,
            capacity=instance.capacity,
            members=members,
            worth=100.0,
            prices={"step": "center", "tolerance": 1e-6},
        )
    )
    for trade in (1.0, 0.75, 0.5):
        z = 10.0 * trade
        played = Played.of(agreement, data, Lie(trade=trade), 0)
        assert played.nets([LIAR])[0] == pytest.approx(z * (15.0 - z), abs=0.01)
        assert played.outcome.prices[0] == pytest.approx(15.0 - z, abs=0.01)
    # Together they can earn 15·10 − ½·10²; without the seller the others have nothing to trade.
    assert added(instance, agreement) == pytest.approx(100.0, abs=0.01)


def test_no_lie_gains_more_than_its_company_adds_and_no_other_falls_below_alone() -> None:
    """The theorems of docs/incentives.md hold for lies that gain and for lies that lose."""
    instance, agreement = small()
    most = added(instance, agreement)
    lies = [Lie(values=0.7, trade=0.65), Lie(values=1.5), Lie(size=0.6), Lie(uses=(1, 1.25))]
    nets = []
    for lie in lies:
        played = Played.of(agreement, instance.data, lie, 0)
        assert played.outcome.certificate is not None
        own, *others = played.nets(range(3))
        nets.append(own)
        assert own <= most + played.bound()
        for k, net in enumerate(others, start=1):
            assert net >= alone(agreement, instance.data[k], k) - played.bound()
    honest = Played.of(agreement, instance.data, TRUTH, 0).nets([LIAR])[0]
    assert min(nets) < honest - 1.0
    assert max(nets) > honest + 1.0


def test_lies_never_contradict_themselves() -> None:
    """Answers of every lie obey the law of demand around every triangle of prices."""
    instance, agreement = small()
    capacity = quantities(agreement).capacity
    prices = np.random.default_rng(SEED).uniform(0.0, 150.0, (6, len(capacity)))
    for lie in grid(len(capacity)):
        answers = Answers(agreement, instance.data, lie)
        demand = [answers.demand(y)[LIAR] for y in prices]
        assert any(not np.array_equal(demand[0], d) for d in demand[1:])
        for a, b, c in permutations(range(len(prices)), 3):
            around = ((a, b), (b, c), (c, a))
            paid = sum(prices[i] @ (demand[j] - demand[i]) for i, j in around)
            assert paid >= -1e-6, f"{lie} contradicts itself"


def test_the_lie_chosen_beforehand_ignores_the_session_it_is_judged_on() -> None:
    """It is the best on average elsewhere, even if it loses here; otherwise it is the truth."""
    extras = [[9.0, -1.0, -9.0], [-1.0, 2.0, 1.0], [-2.0, 3.0, 4.9]]
    assert chosen_beforehand(extras, 0) == 2
    assert chosen_beforehand(extras, 1) == 0
    assert chosen_beforehand([[5.0], [-1.0], [-1.0]], 0) is None


def test_a_row_of_the_table() -> None:
    """A row states hindsight, never below 0, and the lie chosen beforehand, which may lose."""
    base = {"net": 100.0, "gain": 10.0, "limit": 8.0, "certificate": 0.1, "apart": 0.0}
    rest = {"others": 200.0, "others_lose": 1.0, "others_worst": 2.0}
    lies = len(grid(5))
    results = [{**base, **rest, "extra": [best] + [-1.0] * (lies - 1)} for best in (4.0, -3.0, 6.0)]
    row = summary(Setting(3), [results])
    assert row["hindsight"] == pytest.approx(
        {"median": 0.04, "mean": 1 / 30, "most": 0.06, "least": 0.0}
        | {"money_median": 4.0, "money_most": 6.0}
    )
    assert row["beforehand"]["most"] == pytest.approx(0.06)
    assert row["beforehand"]["least"] == pytest.approx(-0.03)
    assert row["beforehand_loses"] == 1
    assert row["others_worse_than_alone"] == 0


def test_one_liar_is_measured() -> None:
    """Its best lie gains, stays below the limit, and gains as much where only totals are read."""
    found = measure(Unit(Setting(3), 0, 0, 2, SEED))
    assert len(found["extra"]) == len(grid(5))
    assert 1.0 < max(found["extra"]) <= found["limit"] + found["certificate"]
    assert found["apart"] <= 1e-6 * found["net"]
