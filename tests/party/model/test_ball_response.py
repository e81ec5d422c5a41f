"""The best response within a ball: optimal, inside, and with a plan where there can be one."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from party.model.ball_response import Trader
from party.model.best_response import Subproblem, responder
from party.model.company_model import CompanyModel, dense
from party.settlement.settle import plan_within
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats
from protocol.privacy.ball import ball

K, M = 20, 3


def agreement(**resource: Any) -> Agreement:
    return from_table(
        {
            "session": "ball",
            "mode": "private",
            "reveal": "totals",
            "rounds": 10,
            "privacy": {"epsilon": 8.0, "delta": 0.001},
            "resource": [
                {"name": f"r{j}", "capacity": 200.0, "worth": 400.0, **resource} for j in range(M)
            ],
            "member": [{"name": f"p{k}", "share": 2.0 / K} for k in range(K)],
        }
    )


AGREEMENT = agreement()


def company(seed: int, *, least: float = 0.0, products: int = 6, most: float = 8.0) -> CompanyModel:
    """Products that need all resources; `least` of each must be used."""
    rng = np.random.default_rng(seed)
    A = rng.uniform(0.2, 1.0, (M, products))
    return dense(
        A=A,
        B=A,
        u=rng.uniform(1.0, 6.0, products),
        row_lower=np.full(M, least),
        row_upper=np.full(M, np.inf),
        lower=np.zeros(products),
        upper=rng.uniform(2.0, most, products),
    )


def size(demand: Floats, row: int = 0, terms: Agreement = AGREEMENT) -> float:
    """How far a demand is from the centre, in half axes."""
    public, unit = ball(terms), quantities(terms).capacity / terms.ticks
    apart = (demand - public.center[row] * unit) / (public.axes[row] * unit)
    return float(np.sqrt((apart * apart).sum()))


@pytest.mark.parametrize("seed", range(4))
def test_no_point_of_the_ball_is_better(seed: int) -> None:
    """The answer is in the ball, and no random point of the ball earns more after its cost."""
    data, rng = company(seed), np.random.default_rng(seed)
    trader = Trader.of(data, AGREEMENT, "p0")
    public, unit = ball(AGREEMENT), quantities(AGREEMENT).capacity / AGREEMENT.ticks
    center, axes = public.center[0] * unit, public.axes[0] * unit
    for _ in range(3):
        prices = rng.uniform(0.2, 4.0, M)
        answer = trader.answer(prices)
        assert answer is not None
        assert size(answer.demand) <= 1.0101
        ways = rng.standard_normal((20, M))
        ways *= (rng.random((20, 1)) ** (1.0 / M)) / np.linalg.norm(ways, axis=1, keepdims=True)
        for point in center + axes * ways:
            plan = plan_within(data, np.maximum(point, 0.0))
            assert plan is not None
            assert plan.utility - prices @ point <= answer.objective + 1e-6


def test_needs_are_met_even_after_a_cut() -> None:
    """A company that must use some of a resource asks for enough to have a plan after the cut."""
    center = ball(AGREEMENT).center[0, 0] * 200.0 / AGREEMENT.ticks
    data = company(1, least=0.97 * center)
    answer = responder(data, AGREEMENT, "p0").answer(np.full(M, 50.0))
    assert answer is not None
    kept = 1.0 - ball(AGREEMENT).margin
    assert plan_within(data, kept * answer.demand * (1.0 + 1e-6)) is not None
    greedy = Subproblem(data, np.full(M, 20.0)).answer(np.full(M, 50.0))
    assert greedy is not None
    assert plan_within(data, kept * greedy.demand) is None


def test_a_company_without_a_plan_in_its_ball_sells() -> None:
    """Its answer is the cheapest point of the ball; the operator is told before joining."""
    data = company(2, least=18.0, most=40.0)
    trader = Trader.of(data, AGREEMENT, "p0")
    assert trader.sells
    prices = np.array([1.0, 3.0, 2.0])
    answer = trader.answer(prices)
    assert answer is not None
    assert size(answer.demand) == pytest.approx(1.0)
    rng = np.random.default_rng(3)
    for way in rng.standard_normal((200, M)):
        unit = quantities(AGREEMENT).capacity / AGREEMENT.ticks
        point = ball(AGREEMENT).center[0] + ball(AGREEMENT).axes[0] * way / np.linalg.norm(way)
        if (point >= 0.0).all():
            assert prices @ answer.demand <= prices @ (point * unit) + 1e-9


def test_whole_numbers_and_concave_objectives_are_answered_in_the_ball() -> None:
    """Cuts also hold for integer and quadratic programs, with needs and without."""
    whole = replace(company(4), integer=np.ones(6, dtype=bool))
    for data in (whole, replace(company(4, least=6.0), integer=np.ones(6, dtype=bool))):
        trader = Trader.of(data, AGREEMENT, "p0")
        assert not trader.sells
        for price in (0.1, 1.0, 3.0):
            answer = trader.answer(np.full(M, price))
            assert answer is not None
            assert size(answer.demand) <= 1.0101


def test_a_resource_that_is_not_traded_stays_at_the_endowment() -> None:
    """Where the half axis is 0, the demand is the centre, whatever the prices are."""
    few = from_table(
        {
            "session": "few",
            "mode": "private",
            "reveal": "totals",
            "rounds": 5,
            "privacy": {"epsilon": 1.0, "delta": 0.001},
            "resource": [{"name": f"r{j}", "capacity": 30.0, "worth": 4.0} for j in range(M)],
            "member": [{"name": f"p{k}", "share": 0.7} for k in range(3)],
        }
    )
    assert not ball(few).trades
    for price in (0.0, 5.0):
        answer = Trader.of(company(5), few, "p0").answer(np.full(M, price))
        assert answer is not None
        assert answer.demand == pytest.approx(ball(few).center[0] * 30.0 / few.ticks)
