"""Half axes: how far a member's answers may be from its endowment."""

import math

import numpy as np
import pytest

from protocol.agreement.endowment import endowment
from protocol.agreement.schema import TICKS
from protocol.privacy.axes import LEAST_REACH, deviations, half_axes, noise_ratio, reach, widest
from tests.support.builders import make_agreement
from tests.support.noisy_agreements import agree_ball as agree
from tests.support.noisy_agreements import equal, unequal


def test_without_noise_for_totals_no_ball_is_large_enough() -> None:
    """The noise that a ball needs is infinite, in ratio to the ball, if there is no joint noise."""
    assert noise_ratio(make_agreement(mode="exact")) == math.inf
    each = make_agreement(mode="private", privacy={"epsilon": 1.0, "delta": 0.001})
    assert noise_ratio(each) == math.inf


def test_a_risk_of_one_half_withholds_nothing() -> None:
    """Noise exceeds 0 in half of all cases; with two resources that risk is not enough."""
    assert deviations(agree([{"share": 0.5}] * 4, resources=1, overrun=0.5)) == 0.0
    assert deviations(agree([{"share": 0.5}] * 4, resources=2, overrun=0.5)) > 0.5


def test_a_resource_of_which_little_can_be_traded_is_not_traded() -> None:
    """Below a tenth of the capacity all half axes are 0; from a tenth on they are not."""
    traded = []
    for spare in np.linspace(0.0, 0.1, 41).tolist():
        agreement = equal(10, epsilon=4.0, resources=5, spare=spare)
        axes, e = half_axes(agreement), endowment(agreement)
        wanted = spare / (2.0 * noise_ratio(agreement))  # what the spare capacity pays for
        able = reach(axes, e, widest(5)).sum(axis=0) / TICKS
        assert (axes.any(axis=0) == (able >= LEAST_REACH)).all()
        assert axes.any() == (10 * math.floor(wanted * TICKS) >= 0.1 * TICKS)
        traded.append(bool(axes.any()))
    assert traded == sorted(traded)
    assert 5 < sum(traded) < 36


@pytest.mark.parametrize("seed", range(4))
def test_balls_are_as_large_as_the_noise_allows(seed: int) -> None:
    """Σ_k max(0, c₁ − r/e_k) = 8·m^¼·Z for the radius r of each resource that is traded."""
    agreement = unequal(seed, epsilon=20.0)
    axes, e = half_axes(agreement), endowment(agreement) / TICKS
    c1, wanted = widest(3), 8.0 * 3.0**0.25 * noise_ratio(agreement)
    traded = 0
    for j in range(3):
        if axes[:, j].any():
            r = float(axes[:, j].max()) / TICKS  # the largest owner's is not cut by what it has
            brought = sum(max(0.0, c1 - r / own) for own in e[:, j] if own)
            assert brought == pytest.approx(wanted, rel=1e-3)
            traded += 1
    assert traded
