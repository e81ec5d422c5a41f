"""Noise that members add jointly: enough against any colluders, and no more.

Everything is computed a second time here: over all coalitions, by a linear program, by convolving
discrete Gaussians term by term, and by the accountant of another library.
"""

import itertools
import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.optimize import linprog

from protocol.agreement.quantities import quantities
from protocol.errors import BadAgreement
from protocol.numeric import Floats
from protocol.privacy.calibration import LEAST_PART, Calibration
from protocol.privacy.collusion import divide_noise, remaining_noise
from tests.support.noisy_agreements import agree_totals as agree


def least_left(added: Floats, member: int, colluders: int) -> float:
    """What hides a member from the worst coalition of others, by enumeration."""
    others = [k for k in range(len(added)) if k != member]
    return min(
        math.fsum(added[k] for k in range(len(added)) if k not in coalition)
        for coalition in itertools.combinations(others, colluders)
    )


def least_total(needed: Floats, colluders: int) -> float:
    """The smallest total variance that hides every member, by a linear program."""
    members = range(len(needed))
    rows, limits = [], []
    for i in members:
        for coalition in itertools.combinations([k for k in members if k != i], colluders):
            rows.append([0.0 if k in coalition else -1.0 for k in members])
            limits.append(-needed[i])
    found = linprog(np.ones(len(needed)), A_ub=np.array(rows), b_ub=np.array(limits))
    assert found.success
    return float(found.fun)


NEEDS = st.lists(
    st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-4, 1.0)), min_size=3, max_size=7
)


@given(needed=NEEDS, data=st.data())
@settings(max_examples=120, deadline=None, derandomize=True)
def test_divided_noise_hides_every_member_with_the_least_total(
    needed: list[float], data: st.DataObject
) -> None:
    """Enough remains against any coalition, and no smaller total would do."""
    colluders = data.draw(st.integers(1, len(needed) - 2))
    column = np.array(needed)
    added = divide_noise(column[:, None], colluders)[:, 0]
    for member in range(len(needed)):
        assert least_left(added, member, colluders) >= needed[member]
    assert added.min() >= 0.0
    assert math.fsum(added) == pytest.approx(least_total(column, colluders), rel=1e-9, abs=1e-12)
    assert math.fsum(added) <= math.fsum(needed) * (1.0 + 1e-9)  # never more than `each` has


@given(
    added=st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.5]), min_size=3, max_size=7), data=st.data()
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_remaining_noise_is_that_of_the_worst_coalition(
    added: list[float], data: st.DataObject
) -> None:
    """This holds for any number of colluders, and with ties."""
    colluders = data.draw(st.integers(0, len(added) - 1))
    found = remaining_noise(np.array(added)[:, None], colluders)[:, 0]
    expected = [least_left(np.array(added), k, colluders) for k in range(len(added))]
    assert found == pytest.approx(expected, abs=1e-12)


def test_equal_caps_divide_the_noise_equally() -> None:
    """Each member adds one part in K − t of what hides one member."""
    assert divide_noise(np.full((10, 2), 9.0), 1) == pytest.approx(np.full((10, 2), 1.0))
    assert divide_noise(np.full((10, 2), 9.0), 7) == pytest.approx(np.full((10, 2), 3.0))


def composed_epsilon(multiplier: float, delta: float) -> float:
    """ε by the accountant of another library."""
    other = pld.from_gaussian_mechanism(1.0 / multiplier, value_discretization_interval=1e-3)
    return float(other.get_epsilon_for_delta(delta))


SHARES = st.one_of(
    st.sampled_from([0.0, 0.2, 1.0]),
    st.floats(1e-3, 1.0),
    st.fixed_dictionaries({"r0": st.floats(0.0, 1.0), "r1": st.floats(0.0, 1.0)}),
)


@given(
    shares=st.lists(SHARES, min_size=2, max_size=5),
    data=st.data(),
    epsilon=st.sampled_from([0.5, 4.0, 16.0]),
    noise=st.sampled_from(["component", "norm"]),
    accountant=st.sampled_from(["exact", "paper"]),
)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_no_coalition_learns_more_than_agreed(
    shares: list[Any], data: st.DataObject, epsilon: float, noise: str, accountant: str
) -> None:
    """Another accountant, on what the worst coalition sees of each member, stays within ε."""
    all_shares = [*shares, {"r0": 1.0, "r1": 1.0}]
    colluders = data.draw(st.integers(1, len(all_shares) - 2))
    terms: dict[str, Any] = {"noise": noise, "accountant": accountant, "colluders": colluders}
    try:
        agreement = agree(all_shares, epsilon=epsilon, **terms)
        variances = Calibration(agreement).scales(quantities(agreement).share_ticks) ** 2
    except BadAgreement:
        reject()
    members, worst = range(len(all_shares)), 0.0
    for victim in members:
        caps = quantities(agreement).share_ticks[victim].tolist()
        for coalition in itertools.combinations([k for k in members if k != victim], colluders):
            rest = [k for k in members if k not in coalition]
            hiding = variances[rest].sum(axis=0).tolist()
            spent = sum(cap**2 / v for cap, v in zip(caps, hiding, strict=True) if cap)
            worst = max(worst, math.sqrt(agreement.rounds * spent))
    assert composed_epsilon(worst, 1e-3) <= epsilon * 1.002


def test_against_gives_the_cost_for_more_colluders() -> None:
    """Up to t it is as agreed; beyond, it grows, as another accountant confirms."""
    agreement = agree([0.2] * 10, epsilon=4.0, colluders=2)
    calibration = Calibration(agreement)
    found = [calibration.against(count).epsilon(1e-3) for count in range(10)]
    assert found == sorted(found)
    assert found[2] == pytest.approx(4.0, rel=1e-6)
    for count in (0, 5, 9):
        multiplier = calibration.mu * math.sqrt(8.0 / (10 - count))
        assert found[count] == pytest.approx(composed_epsilon(multiplier, 1e-3), rel=2e-3)


@pytest.mark.parametrize("colluders", [0, 1, 2, 3])
def test_against_is_about_the_worst_member(colluders: int) -> None:
    """With different shares, enumeration of the members finds the same cost."""
    shares = [{"r0": 0.9, "r1": 0.1}, {"r0": 0.3, "r1": 0.3}, {"r0": 0.05, "r1": 0.02}, 0.5, 0.2]
    agreement = agree(shares, epsilon=4.0, colluders=1)
    calibration = Calibration(agreement)
    caps, variances = (
        quantities(agreement).share_ticks,
        calibration.scales(quantities(agreement).share_ticks) ** 2,
    )
    told_of = []
    for k in range(len(shares)):
        others = np.delete(variances, k, axis=0)
        least = np.sort(others, axis=0)[: len(others) - colluders]  # the colluders know the rest
        hiding = variances[k] + least.sum(axis=0)
        told_of.append(agreement.rounds * float((caps[k] ** 2 / hiding).sum()))
    assert max(told_of) > 1.05 * min(told_of), "or it says nothing which one was taken"
    assert calibration.against(colluders).mu_squared == pytest.approx(max(told_of), rel=1e-12)


def test_a_rehearsal_promises_nothing() -> None:
    """Noise that can be repeated hides nothing."""
    calibration = Calibration(replace(agree([0.5] * 3), rehearsal=True))
    assert math.isinf(calibration.against(1).mu_squared)
    assert math.isinf(calibration.per_release.mu_squared)


def test_noise_below_three_ticks_is_refused() -> None:
    """The same agreement with a larger share is accepted."""
    tiny = [{"r0": 1.0}, *[{"r0": 2e-6}] * 40]
    with pytest.raises(BadAgreement, match=r"would add noise of 0\.\d+ ticks. Below 3"):
        Calibration(agree(tiny, epsilon=64.0, rounds=1))
    fine = [{"r0": 1.0}, *[{"r0": 1e-3}] * 40]
    agreement = agree(fine, epsilon=64.0, rounds=1)
    assert Calibration(agreement).scales(quantities(agreement).share_ticks).min() >= LEAST_PART


def test_only_the_member_with_a_cap_adds_noise() -> None:
    """If one member alone can use a resource, its own noise hides it."""
    agreement = agree([{"r0": 1.0, "r1": 1.0}, {"r0": 1.0, "r1": 0.0}, {"r0": 1.0, "r1": 0.0}])
    scales = Calibration(agreement).scales(quantities(agreement).share_ticks)
    assert (scales[1:, 1] == 0.0).all()
    assert scales[0, 1] > 0.0


def gaussian(z: int, variance: Any) -> Any:
    """The discrete Gaussian without its normaliser."""
    return mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * variance))


@pytest.mark.parametrize("variances", [(9, 9), (9, 25), (9, 9, 9), (9, 400)])
def test_a_sum_of_discrete_gaussians_is_a_discrete_gaussian(variances: tuple[int, ...]) -> None:
    """Convolved term by term, they agree to 6·10⁻³⁹ per term."""
    with mpmath.workdps(60):
        reach = 14 * math.isqrt(sum(variances)) + 14
        law = {0: mpmath.mpf(1)}
        for variance in variances:
            one = {z: gaussian(z, variance) for z in range(-reach, reach + 1)}
            whole = mpmath.fsum(one.values())
            law = {
                x: mpmath.fsum(law[y] * one[x - y] / whole for y in law if abs(x - y) <= reach)
                for x in range(-reach, reach + 1)
            }
        total = sum(variances)
        plain = mpmath.fsum(gaussian(z, total) for z in range(-4 * reach, 4 * reach + 1))
        near = range(-4 * math.isqrt(total), 4 * math.isqrt(total) + 1)
        worst = max(abs(mpmath.log(law[z] * plain / gaussian(z, total))) for z in near)
        assert worst <= (len(variances) - 1) * mpmath.mpf("6e-39")
