"""The ball around the endowment: what is clipped, what hides it, and what it withholds."""

import math
import random
from fractions import Fraction
from itertools import combinations
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from scipy import stats

from protocol.agreement.endowment import endowment
from protocol.agreement.quantities import quantities
from protocol.privacy.accountant import discreteness
from protocol.privacy.axes import deviations
from protocol.privacy.ball import ball, clip
from protocol.privacy.calibration import Calibration
from tests.support.noisy_agreements import agree_ball as agree
from tests.support.noisy_agreements import equal, unequal


def test_the_step_is_the_default_for_noisy_totals() -> None:
    """An agreement that names no step has the ball and begins at the worths."""
    agreement = equal(10)
    assert agreement.ball
    assert agreement.pricing.start == (5.0, 5.0)


def test_a_clipped_answer_is_in_the_ball_exactly() -> None:
    """In fractions, for any answer; an answer inside is not moved, and one outside ends near it."""
    rng = random.Random(1)
    for _ in range(500):
        axes = [rng.choice((0, 1, 7, rng.randrange(1, 1 << 20))) for _ in range(4)]
        center = [rng.randrange(1 << 20) for _ in axes]
        asked = [rng.randrange(-(1 << 20), 1 << 21) for _ in axes]
        apart = [x - c for x, c in zip(clip(asked, center, axes), center, strict=True)]

        def size(x: list[int], axes: list[int] = axes) -> Fraction:
            pairs = zip(x, axes, strict=True)
            return sum((Fraction(d, a) ** 2 for d, a in pairs if a), start=Fraction(0))

        assert size(apart) <= 1
        assert all(x == 0 for x, a in zip(apart, axes, strict=True) if a == 0)
        again = [c + x for c, x in zip(center, apart, strict=True)]
        assert clip(again, center, axes) == again
        wanted = [d - c if a else 0 for d, c, a in zip(asked, center, axes, strict=True)]
        if size(wanted) > 1:  # straight towards the centre, to a tick
            factor = 1.0 / math.sqrt(size(wanted))
            assert apart == pytest.approx([factor * w for w in wanted], abs=1.001)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("accountant", ["exact", "paper"])
def test_no_two_answers_spend_more_than_the_budget(seed: int, accountant: str) -> None:
    """For every member and any colluders, opposite points of the ball cost at most μ² in all."""
    agreement = unequal(seed, epsilon=20.0, colluders=2, accountant=accountant)
    calibration, public = Calibration(agreement), ball(agreement)
    assert public.trades
    shares = quantities(agreement).share_ticks
    rng, rows = np.random.default_rng(seed), range(len(agreement.members))
    spent = np.zeros(len(agreement.members))
    for number in range(agreement.rounds):
        squares = calibration.scales(shares, number) ** 2
        for k in rows:
            worst = max(
                _cost(squares, public.axes[k], [i for i in rows if i not in out], rng)
                for out in _coalitions(squares, k)
            )
            spent[k] += worst
    assert spent.max() <= calibration.mu**2 * (1.0 + 1e-9)
    assert spent.max() >= calibration.mu**2 * 0.999


def _coalitions(squares: Any, k: int) -> list[tuple[int, ...]]:
    """The two others that add most to some number."""
    others = [i for i in range(len(squares)) if i != k]
    best = {
        tuple(sorted(others, key=lambda i: -squares[i, j])[:2]) for j in range(squares.shape[1])
    }
    return [*best, *list(combinations(others, 2))[:3]]


def _cost(squares: Any, axes: Any, honest: list[int], rng: np.random.Generator) -> float:
    """Σ Δ²/σ² of two opposite points of the ball, in the worst of some directions."""
    left = squares[honest].sum(axis=0)
    used = axes > 0
    if not used.any():
        return 0.0
    ways = np.vstack([np.eye(len(axes)), rng.standard_normal((20, len(axes)))])[:, used]
    ways /= np.linalg.norm(ways, axis=1, keepdims=True).clip(1e-12)
    costs = ((2.0 * axes[used] * ways) ** 2 / left[used]).sum(axis=1)
    return float(costs.max())


def test_too_few_members_trade_nothing_and_spend_nothing() -> None:
    """Then every answer is the endowment, there is no noise, and no budget is spent."""
    agreement = equal(5, epsilon=1.0)
    public, calibration = ball(agreement), Calibration(agreement)
    assert not public.trades
    assert (public.center == endowment(agreement)).all()
    assert not calibration.scales(quantities(agreement).share_ticks).any()
    assert calibration.per_release.mu_squared == 0.0
    assert calibration.against(4).mu_squared == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_centres_leave_the_margin(seed: int) -> None:
    """All centres together leave the margin of each capacity, and no centre is below 0."""
    agreement = unequal(seed, epsilon=20.0)
    public = ball(agreement)
    assert (public.center >= 0).all()
    left = agreement.ticks - public.center.sum(axis=0)
    assert left == pytest.approx(public.margin * agreement.ticks, abs=2.0 * len(agreement.members))


def test_spare_capacity_lets_few_members_trade() -> None:
    """What can be had in addition pays for noise: balls grow, and less is withheld."""
    without, little = (
        equal(10, epsilon=4.0, resources=5),
        equal(10, epsilon=4.0, resources=5, spare=0.05),
    )
    assert not ball(without).trades
    assert ball(little).trades
    assert ball(little).deviation.max() == pytest.approx(0.05, rel=1e-3)
    assert ball(little).margin.max() < 1e-4


def test_the_noise_of_the_average_does_not_depend_on_the_rounds() -> None:
    """Weights in proportion to the budget: margins are the same for 1 round and for 200."""
    margins = [ball(equal(20, rounds=T)).margin for T in (1, 10, 200)]
    for margin in margins[1:]:
        assert margin == pytest.approx(margins[0], rel=1e-3)


def test_more_colluders_than_agreed_weaken_the_promise_slowly() -> None:
    """Against the agreed number ε holds; against all others the member's own noise remains."""
    calibration = Calibration(equal(20, epsilon=4.0))
    costs = [calibration.against(c).epsilon(0.001) for c in (1, 2, 19)]
    assert costs[0] == pytest.approx(4.0, rel=1e-6)
    assert costs[0] <= 4.0 < costs[1] < costs[2] < math.inf


@pytest.mark.parametrize("risk", [1e-6, 0.001, 0.01, 0.05, 0.3])
@pytest.mark.parametrize("resources", [1, 2, 7])
def test_deviations_are_never_below_the_agreed_risk(risk: float, resources: int) -> None:
    """z is the quantile for one of independent resources, or up to one part in 16,000 above it."""
    z = deviations(agree([{"share": 0.5}] * 4, resources=resources, overrun=risk))
    with mpmath.workdps(40):
        each = 1 - (1 - mpmath.mpf(risk)) ** (mpmath.mpf(1) / resources)
        exact = float(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * each))
    assert exact <= z <= exact * (1.0 + 2.0**-14)


def test_without_spare_capacity_the_whole_deviation_is_withheld() -> None:
    """A resource that names no spare has none."""
    bare, ample = ball(equal(20)), ball(equal(20, spare=0.01))
    assert bare.margin.tolist() == bare.deviation.tolist()
    assert bare.margin.min() > 0.01
    assert ample.margin == pytest.approx(ample.deviation - 0.01)


def test_the_quantile_is_on_the_safe_side() -> None:
    """z is rounded to 16 bits and never below the exact quantile of the agreed risk."""
    for risk in np.linspace(0.01, 0.4, 40).tolist():
        exact = float(stats.norm.isf(1.0 - math.sqrt(1.0 - risk)))
        z = deviations(equal(10, overrun=risk))
        assert exact * (1.0 - 1e-12) <= z <= exact * (1.0 + 2.0**-14)


def test_the_burden_is_what_is_withheld_over_what_can_be_traded() -> None:
    """For one resource both are fractions of its capacity, and no currency counts."""
    agreement = equal(40, resources=1)
    public = ball(agreement)
    tradable = public.axes.sum() / agreement.ticks
    for worth in (50.0, 5e7):
        burden = public.burden(np.array([worth]))
        assert burden == pytest.approx(public.margin[0] / tradable, rel=1e-12)


@pytest.mark.parametrize("K", [20, 60])
def test_the_cost_against_the_agreed_colluders_is_the_agreed_one(K: int) -> None:
    """Counted from the noise of all members, or of one: the smallest noise is in the last round."""
    calibration = Calibration(equal(K))
    counted, agreed = calibration.against(1), calibration.per_release.times(12)
    assert counted.mu_squared == pytest.approx(agreed.mu_squared, rel=1e-6)
    reserves = counted.discreteness.reserve, agreed.discreteness.reserve
    assert reserves[0] == pytest.approx(reserves[1], rel=1e-3, abs=0.0)


def test_who_brings_nothing_of_a_resource_has_its_centre_at_zero() -> None:
    """No tick of a resource is promised to a member that has none of it."""
    brings_none = 0
    for seed in range(8):
        agreement = unequal(seed)
        none = endowment(agreement) == 0
        brings_none += int(none.sum())
        assert not ball(agreement).center[none].any()
    assert brings_none > 10


@pytest.mark.parametrize("K", [20, 60])
def test_whole_ticks_cost_what_the_noise_of_the_last_round_needs(K: int) -> None:
    """One resource may take all of the last round, against the noise of all but one member."""
    agreement = equal(K)
    calibration, rounds = Calibration(agreement), agreement.rounds
    scales = calibration.scales(quantities(agreement).share_ticks, rounds - 1)
    sigma = np.sqrt((scales[1:] ** 2).sum(axis=0))
    dearest = float(((2.0 * ball(agreement).axes[0] / sigma) ** 2).max())
    needed = discreteness(sigma, rounds=rounds, dearest=dearest, total=calibration.mu**2)
    counted = calibration.per_release.discreteness
    assert counted.reserve == pytest.approx(needed.reserve, rel=1e-6, abs=0.0)
