"""Quotas and payments of the step `ball`: the agreed risk, the floor, the levy."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from party.model.best_response import responder
from party.model.scaling import rescaled
from party.release.gate import within_ball
from party.settlement.settle import plan_within
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import amounts, quantities
from protocol.numeric import Floats, Ticks
from protocol.outcome.ball_quota import (
    ball_allocation,
    ball_prices,
    ball_rule,
    expected_levy,
    large_levy,
    levied,
    levy_deviation,
)
from protocol.outcome.public_quota import average_release
from protocol.privacy.ball import ball
from protocol.privacy.calibration import Calibration
from scripts.lab.common.instances import draw


def agree(K: int, *, resources: int, epsilon: float = 8.0, **terms: Any) -> Agreement:
    spare = terms.pop("spare", None)
    more = {} if spare is None else {"spare": spare}
    return from_table(
        {
            "session": "quota",
            "mode": "private",
            "reveal": "totals",
            "rounds": 8,
            "privacy": {"epsilon": epsilon, "delta": 0.001, **terms},
            "resource": [
                {"name": f"r{j}", "capacity": 240.0, "worth": 100.0, **more}
                for j in range(resources)
            ],
            "member": [{"name": f"p{k}", "share": 2.0 / K} for k in range(K)],
        }
    )


def noises(agreement: Agreement, rng: np.random.Generator, sessions: int) -> Ticks:
    """Sessions by rounds by resources: the noise of totals, as agreed."""
    calibration, shares = Calibration(agreement), quantities(agreement).share_ticks
    scales = np.array([calibration.scales(shares, t) for t in range(agreement.rounds)])
    drawn = np.rint(rng.standard_normal((sessions, *scales.shape)) * scales)
    total: Ticks = drawn.sum(axis=2).astype(np.int64)
    return total


@pytest.mark.parametrize("spare", [None, 0.04])
def test_quotas_exceed_a_capacity_as_rarely_as_agreed(spare: float | None) -> None:
    """Demands that fill what the rounds aim at: overruns within five deviations of the risk."""
    agreement = agree(20, resources=2, overrun=0.1, spare=spare)
    public, rng, sessions = ball(agreement), np.random.default_rng(11), 1000
    assert public.trades
    demands = public.center
    shares = quantities(agreement).share_ticks.tolist()
    over = 0
    for noise in noises(agreement, rng, sessions):
        rule = ball_rule(agreement, demands.sum(axis=0) + noise)
        weight = sum(rule.weights)
        rows = zip(demands.tolist(), shares, strict=True)
        quotas = np.array([rule.quota([weight * d for d in own], cap) for own, cap in rows])
        most = (1.0 + (spare or 0.0)) * agreement.ticks
        over += bool((quotas.sum(axis=0) > most).any())
    deviation = math.sqrt(0.1 * 0.9 / sessions)
    assert over / sessions <= 0.1 + 5.0 * deviation
    if spare is None:
        assert over / sessions >= 0.1 - 5.0 * deviation, "more is withheld than the risk requires"


@pytest.mark.parametrize("seed", [1, 2])
def test_no_company_has_less_than_its_centre_before_the_cut(seed: int) -> None:
    """At any prices whatsoever: what it earns within its mean demand, less its payment."""
    agreement = agree(20, resources=5)
    instance, rng = (
        draw(seed, parties=20, share_total=2.0, demands=False),
        np.random.default_rng(seed),
    )
    agreement = agree(20, resources=len(instance.capacity))
    path: Floats = rng.uniform(0.02, 4.0, (agreement.rounds + 1, 5)) * 100.0 / 240.0
    unit = 240.0 / instance.capacity  # the companies' units, as fractions of a capacity
    weights = np.arange(1, agreement.rounds + 1)
    for row in range(4):
        data = instance.data[row]
        scaled = rescaled(data, unit)
        company = responder(scaled, agreement, f"p{row}")
        answers = [company.answer(prices) for prices in path[:-1]]
        demands = np.array(
            [within_ball(agreement, row, a.demand) for a in answers if a is not None]
        )
        assert len(demands) == agreement.rounds
        rule = ball_rule(agreement, np.tile(np.full(5, agreement.ticks), (agreement.rounds, 1)))
        own = ball_allocation(
            agreement, rule, row, demands=demands, path=path, prices=path.mean(axis=0)
        )
        mean = (weights[:, None] * demands).sum(axis=0) // weights.sum()
        earned = plan_within(scaled, amounts(agreement, mean + 1, row))
        alone = plan_within(scaled, amounts(agreement, ball(agreement).center[row], row))
        assert earned is not None
        assert alone is not None
        assert earned.utility - own.payment >= alone.utility * (1.0 - 1e-5)


def test_payments_with_the_levy_add_up_to_zero() -> None:
    """Exactly, and members with equal endowments bear equal parts."""
    agreement, rng = agree(12, resources=3), np.random.default_rng(2)
    prices = rng.uniform(0.1, 1.0, 3)
    due = np.round(rng.normal(0.0, 5.0, 12), 6)
    paid = levied(agreement, prices, due)
    assert sum(map(Fraction, paid.tolist())) == 0
    assert paid - due == pytest.approx(np.full(12, -due.sum() / 12), abs=1e-4)


def test_the_public_totals_tell_the_levy_up_to_noise() -> None:
    """Without noise in the totals the estimate is minus the sum of all payments."""
    agreement, rng = agree(12, resources=3, epsilon=20.0), np.random.default_rng(3)
    public = ball(agreement)
    path = rng.uniform(0.1, 1.0, (agreement.rounds + 1, 3))
    moves = rng.integers(-900, 900, (agreement.rounds, 12, 3))
    demands = public.center + moves
    totals = demands.sum(axis=1)
    rule = ball_rule(agreement, totals)
    paid = [
        ball_allocation(
            agreement, rule, k, demands=demands[:, k], path=path, prices=path[0]
        ).payment
        for k in range(12)
    ]
    assert expected_levy(agreement, totals, path) == pytest.approx(-sum(paid), abs=1e-6)


def test_if_nothing_is_traded_quotas_are_the_endowments() -> None:
    """To the tick, without payments."""
    agreement = agree(5, resources=2, epsilon=0.5)
    center = ball(agreement).center
    assert not ball(agreement).trades
    demands = np.tile(center, (agreement.rounds, 1, 1))
    rule = ball_rule(agreement, demands.sum(axis=1))
    path = np.full((agreement.rounds + 1, 2), 0.4)
    for k in range(5):
        own = ball_allocation(agreement, rule, k, demands=demands[:, k], path=path, prices=path[0])
        assert own.quota.tolist() == center[k].tolist()
        assert own.payment == 0.0


def test_prices_are_averaged_with_weights_that_grow() -> None:
    """Round t has weight t + 1; before the first round the only prices count."""
    path = np.array([[6.0, 0.0], [3.0, 12.0], [2.0, 4.0], [99.0, 99.0]])
    assert ball_prices(path, 3).tolist() == [3.0, 6.0]
    assert ball_prices(path, 1).tolist() == [6.0, 0.0]
    assert ball_prices(path[:1], 0).tolist() == [6.0, 0.0]


def test_the_estimate_of_the_levy_is_off_as_much_as_stated() -> None:
    """Over many sessions its spread is `levy_deviation`, also if a session ends early."""
    agreement, rng = agree(12, resources=3, epsilon=20.0), np.random.default_rng(4)
    path = rng.uniform(0.1, 1.0, (agreement.rounds + 1, 3))
    center = ball(agreement).center.sum(axis=0)
    drawn = noises(agreement, rng, 2_000)
    for rounds in (agreement.rounds, 3):
        found = [expected_levy(agreement, center + noise[:rounds], path) for noise in drawn]
        assert np.std(found) == pytest.approx(levy_deviation(agreement, rounds, path), rel=0.06)


def test_the_noise_of_an_average_is_that_of_all_its_rounds() -> None:
    """Every round has its own scale; variances of rounds and members add up."""
    agreement = agree(12, resources=3)
    shares, rounds = quantities(agreement).share_ticks, agreement.rounds
    scales = [Calibration(agreement).scales(shares, t) for t in range(rounds)]
    expected = np.sqrt(np.square(scales).sum(axis=(0, 1))) / rounds
    released = np.zeros((rounds, 12, 3), dtype=np.int64)
    _, noise = average_release(agreement, released)
    assert noise[0] == pytest.approx(expected, rel=1e-3)
    assert scales[0] != pytest.approx(scales[-1], rel=0.1)


@pytest.mark.parametrize(("resources", "part"), [(1, 0.4), (2, 0.4), (3, 0.25), (5, 0.25)])
def test_a_levy_is_large_beside_what_all_members_can_trade(resources: int, part: float) -> None:
    """Whether it is collected or returned, and whatever sign prices have."""
    agreement = agree(20, resources=resources, epsilon=16.0)
    prices = np.array([2.0, -0.5, 1.0, 3.0, 0.25])[:resources]
    most = part * float(np.abs(prices) @ (240.0 * ball(agreement).reach))
    assert 0.5 < float(ball(agreement).reach.min()) != 1.0
    for sign in (-1.0, 1.0):
        assert large_levy(agreement, prices, sign * 1.001 * most)
        assert not large_levy(agreement, prices, sign * 0.999 * most)
