"""Calibration where noise is nothing, too much, or too little, and what it then promises."""

import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TICKS
from protocol.errors import BadAgreement, InternalError
from protocol.numeric import Floats
from protocol.privacy.accountant import PrivacyCost
from protocol.privacy.axes import half_axes
from protocol.privacy.calibration import Calibration
from tests.support.builders import make_agreement
from tests.support.noisy_agreements import agree_ball, agree_totals
from tests.support.noisy_agreements import agree_each as agree
from tests.support.privacy_bounds import assert_enough, discrete_cost


def epsilon_for(mu: float, delta: float) -> float:
    """ε that prop:diffPriv needs for this μ: ρ + 2√(ρ·ln(1/δ)) with ρ = μ²/2."""
    rho = mu * mu / 2.0
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))


def test_noise_of_four_million_capacities_is_the_most() -> None:
    """2⁴² ticks can be carried; what needs a millionth more is refused."""
    epsilon = epsilon_for(mu=math.sqrt(150.0) * TICKS / 2.0**42, delta=1e-3)
    terms: dict[str, Any] = {"capacity": (10.0,), "accountant": "paper"}
    allowed = Calibration(agree(epsilon=epsilon * (1.0 + 1e-6), **terms))
    assert allowed.scales(np.array([TICKS]))[0] == pytest.approx(2.0**42, rel=1e-5)
    with pytest.raises(BadAgreement, match="more than a release can carry"):
        Calibration(agree(epsilon=epsilon * (1.0 - 1e-6), **terms))


def test_without_noise_nothing_is_promised() -> None:
    """In mode `exact` there is no noise, and the cost of a release is infinite."""
    calibration = Calibration(make_agreement(mode="exact"))
    shares = quantities(calibration.agreement).share_ticks
    assert not calibration.scales(shares).any()
    assert calibration.per_release == PrivacyCost(mu_squared=math.inf)
    assert calibration.against(1) == PrivacyCost(mu_squared=math.inf)


def test_joint_noise_needs_the_caps_of_all_members() -> None:
    """The part of one member depends on those of the others."""
    agreement = agree_totals([0.5] * 4)
    calibration, caps = Calibration(agreement), quantities(agreement).share_ticks
    assert calibration.scales(caps).shape == caps.shape
    with pytest.raises(InternalError, match="caps of all members"):
        calibration.scales(caps[:3])


@pytest.mark.parametrize("rounds", [1, 20])
def test_all_releases_together_multiply_delta_by_what_whole_ticks_cost(rounds: int) -> None:
    """PRIVACY.md §4: by e to the power of about 1/(10Nσ²), for N equal numbers in all rounds."""
    agreement = agree(rounds=rounds, shares=(300 / TICKS, 1.0))
    calibration = Calibration(agreement)
    sigma = calibration.scales(quantities(agreement).share_ticks).min()
    factor = calibration.per_release.times(rounds).discreteness.factor
    assert factor == pytest.approx(1.0 / (10.0 * rounds * 3 * sigma**2), rel=1e-3, abs=0.0)


def left(variances: Floats, colluders: int) -> Floats:
    """What hides each number of each member from the worst coalition: its own and the least."""
    found = np.zeros_like(variances)
    for k in range(len(variances)):
        others = np.sort(np.delete(variances, k, axis=0), axis=0)
        found[k] = variances[k] + others[: len(others) - colluders].sum(axis=0)
    return found


ONE_TICK = 2.0**-20


@pytest.mark.parametrize("colluders", [1, 10, 39])
def test_who_may_claim_one_tick_counts_too(colluders: int) -> None:
    """Against all others, a member with a cap of one tick is the one that is hidden least."""
    agreement = agree_totals([1.0, *[ONE_TICK] * 39], epsilon=0.01)
    calibration, caps = Calibration(agreement), quantities(agreement).share_ticks
    assert caps[1:].max() == 1
    worst = (caps**2 / left(calibration.scales(caps) ** 2, colluders)).max()
    found = calibration.against(colluders).mu_squared
    assert found == pytest.approx(agreement.rounds * worst)
    assert found == pytest.approx(calibration.mu**2 * 39.0 / (40.0 - colluders))


def test_who_may_claim_nothing_is_not_counted() -> None:
    """Two members have no cap in the second resource: nothing of theirs must be hidden there."""
    agreement = agree_totals([{"r0": 1.0, "r1": 1.0}, *[{"r0": 1.0, "r1": 0.0}] * 2])
    calibration, caps = Calibration(agreement), quantities(agreement).share_ticks
    sigma = np.sqrt(left(calibration.scales(caps) ** 2, 1))
    worst = max((caps[0] / sigma[0]) ** 2)  # each resource takes half of what a round may cost
    found = calibration.against(1)
    assert found.mu_squared == pytest.approx(agreement.rounds * 2.0 * worst, rel=1e-9)
    assert found.epsilon(1e-3) == pytest.approx(4.0, rel=1e-6)


@pytest.mark.parametrize("colluders", [0, 1, 5])
def test_whole_ticks_count_one_number_for_each_resource(colluders: int) -> None:
    """With ten members and one resource a round has one total, not ten."""
    agreement = agree_totals([1e-3] * 9 + [1.0], rounds=7)
    calibration, caps = Calibration(agreement), quantities(agreement).share_ticks
    sigma = np.sqrt(left(calibration.scales(caps) ** 2, colluders))
    parts = (caps / sigma) ** 2
    dearest, least = float(parts.max()), float(sigma.min())
    reserve, _ = discrete_cost([mpmath.mpf(least)], dearest, 7 * dearest, 7)
    counted = calibration.against(colluders).discreteness.reserve
    assert counted == pytest.approx(float(reserve), rel=1e-9, abs=0.0)


@pytest.mark.parametrize("colluders", [1, 2, 3])
def test_the_cost_of_a_ball_is_that_of_its_worst_member(colluders: int) -> None:
    """A half axis of one tick is hidden least here; who has none in a resource costs nothing."""
    tiny = {"share": {"r0": ONE_TICK, "r1": 0.0}, "endowment": 0.0}
    agreement = agree_ball([{"endowment": 1.0}, *[tiny] * 3], rounds=1000, spare=0.5)
    calibration, axes = Calibration(agreement), half_axes(agreement)
    assert axes[0].min() > 100_000
    assert axes[1:].tolist() == [[1, 0]] * 3
    variances = calibration.scales(quantities(agreement).share_ticks) ** 2
    worst = ((2.0 * axes)[axes > 0] ** 2 / left(variances, colluders)[axes > 0]).max()
    found = calibration.against(colluders).mu_squared
    assert found == pytest.approx(1000 * 1001 / 2 * worst, rel=1e-3)
    assert found == pytest.approx(calibration.mu**2 * 3.0 / (4.0 - colluders), rel=1e-3)


def test_one_tick_in_one_round_has_enough_noise() -> None:
    """The smallest number that can be hidden decides how much noise whole ticks need."""
    agreement = agree(rounds=1, epsilon=0.5, capacity=(10.0,), shares=(ONE_TICK, 1.0))
    caps = quantities(agreement).share_ticks
    for row, sigma in zip(caps, Calibration(agreement).scales(caps), strict=True):
        assert_enough(agreement, row, sigma)


def test_caps_that_could_fall_to_nothing_are_refused() -> None:
    """With τ = 10⁻⁴, 105 ticks, a cap of 105 members is one tick at least; of 106, none."""
    terms: dict[str, Any] = {"mode": "clipped", "capacity": (10.0,), "tau": 1e-4, "alpha": 1.0}
    accepted = Calibration(agree(shares=(1.0,) * 105, **terms))
    assert accepted.scales(np.array([1]))[0] > 0.0
    with pytest.raises(BadAgreement, match="a cap could fall to 0"):
        Calibration(agree(shares=(1.0,) * 106, **terms))


@pytest.mark.parametrize("noise", ["component", "norm"])
def test_a_number_that_is_always_zero_gets_no_noise(noise: str) -> None:
    """A member without a share of one resource has noise in the others only."""
    agreement = agree(shares=({"r0": 0.5, "r1": 0.0, "r2": 1.0}, 1.0), noise=noise)
    scales = Calibration(agreement).scales(quantities(agreement).share_ticks)
    assert (scales > 0.0).tolist() == [[True, False, True], [True] * 3]
