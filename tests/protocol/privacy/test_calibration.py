"""The noise is never less than the guarantee needs, and follows its stated distribution.

Everything is computed a second time here: with 40 digits from the formulas of PRIVACY.md, by
summing the discrete Gaussian itself, or by the accountant of another library.
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
from scipy import stats

from party.model.best_response import Subproblem
from party.model.company_model import dense
from party.release.gate import Gate
from party.release.noise import DiscreteGaussian, Noise, SeededGaussian
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TICKS
from protocol.errors import BadAgreement, LocalError
from protocol.numeric import Floats, Ticks
from protocol.privacy.accountant import (
    IntegerNoiseCost,
    PrivacyCost,
    discreteness,
    gaussian_delta,
    gaussian_epsilon,
    last_true,
)
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import next_caps
from protocol.wire.codec import pack
from tests.reference import accountant
from tests.support.ledgers import in_memory
from tests.support.noisy_agreements import DELTA
from tests.support.noisy_agreements import agree_each as agree
from tests.support.privacy_bounds import Number, assert_enough, curve, discrete_cost, lattice

RARE = 1e-7
"""How often a statistical test of noise that is right may fail."""


def multiplier(agreement: Agreement) -> float:
    """μ of the noise: √(Σ Δ²/σ²) over all numbers and rounds of the first member."""
    caps = quantities(agreement).share_ticks[0]
    sigma = Calibration(agreement).scales(caps)
    return math.sqrt(agreement.rounds * float(((caps / sigma) ** 2).sum()))


# Accountants

TABLE = [
    (0.1, 0.0268, 0.0575),
    (0.5, 0.1322, 0.2169),
    (1.0, 0.2599, 0.3884),
    (2.0, 0.5039, 0.6919),
    (4.0, 0.9538, 1.2150),
]


@pytest.mark.parametrize(("epsilon", "paper", "exact"), TABLE)
def test_accountants_reproduce_a_known_table(epsilon: float, paper: float, exact: float) -> None:
    """Both accountants allow the multipliers that were tabulated before this code existed."""
    assert multiplier(agree(epsilon=epsilon, accountant="paper")) == pytest.approx(paper, abs=5e-5)
    assert multiplier(agree(epsilon=epsilon, accountant="exact")) == pytest.approx(exact, abs=5e-5)


@pytest.mark.parametrize("epsilon", [row[0] for row in TABLE])
def test_exact_agrees_with_another_accountant_for_the_gaussian(epsilon: float) -> None:
    """A privacy loss distribution of the continuous Gaussian gives the same ε to 1 %."""
    mu = multiplier(agree(epsilon=epsilon))
    other = pld.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=epsilon / 1000)
    assert other.get_epsilon_for_delta(DELTA) == pytest.approx(epsilon, rel=0.01)


@pytest.mark.parametrize(("rounds", "epsilon"), [(1, 0.5), (1, 4.0), (8, 1.0), (30, 2.0)])
def test_exact_agrees_with_another_accountant_for_the_discrete_gaussian(
    rounds: int, epsilon: float
) -> None:
    """Noise of few ticks, composed over the rounds as discrete Gaussians, spends ε to 1 %."""
    cap = 128
    agreement = agree(rounds=rounds, epsilon=epsilon, capacity=(10.0,), shares=(cap / TICKS, 1.0))
    assert quantities(agreement).share_ticks[0, 0] == cap
    sigma = float(Calibration(agreement).scales(quantities(agreement).share_ticks[0])[0])
    assert sigma < 2000
    once = pld.from_discrete_gaussian_mechanism(
        sigma, cap, value_discretization_interval=epsilon / 10_000
    )
    spent = once.self_compose(rounds).get_epsilon_for_delta(DELTA)
    assert spent == pytest.approx(epsilon, rel=0.01)


@given(mu=st.floats(1e-3, 10.0), epsilon=st.floats(1e-3, 64.0))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_gaussian_delta_and_gaussian_epsilon_are_inverse(mu: float, epsilon: float) -> None:
    """The ε found for the δ of some ε is that ε again, and never below it."""
    delta = gaussian_delta(mu=mu, epsilon=epsilon)
    if not 1e-12 < delta < 0.5:
        reject()
    found = gaussian_epsilon(mu=mu, delta=delta)
    assert found == pytest.approx(epsilon, rel=1e-6)
    assert found >= epsilon * (1 - 1e-9)


@given(mu=st.floats(1e-3, 10.0), epsilon=st.floats(0.0, 64.0))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_gaussian_delta_is_the_curve(mu: float, epsilon: float) -> None:
    """δ is Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), evaluated with 40 digits."""
    expected = float(curve(mpmath.mpf(mu), mpmath.mpf(epsilon)))
    assert gaussian_delta(mu=mu, epsilon=epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_gaussian_epsilon_is_zero_if_delta_alone_is_enough() -> None:
    """With δ above Φ(μ/2) − Φ(−μ/2) no ε is needed."""
    assert gaussian_epsilon(mu=0.1, delta=0.05) == 0.0
    assert gaussian_delta(mu=0.0, epsilon=0.0) == 0.0


# Never too little noise

mpmath.mp.dps = 40
"""A number of mpmath, which has no types."""


@st.composite
def agreements(draw: st.DrawFn) -> Agreement:
    m, K = draw(st.integers(1, 8)), draw(st.integers(2, 12))
    part = st.one_of(
        st.just(1.0), st.just(0.0), st.floats(0.0, 1.0), st.floats(-6.5, 0.0).map(lambda x: 10**x)
    )
    each = st.fixed_dictionaries({f"r{j}": part for j in range(m)})
    shares = draw(st.lists(st.one_of(part, each), min_size=K - 1, max_size=K - 1))
    privacy: dict[str, Any] = {
        "epsilon": 10.0 ** draw(st.floats(-3.0, math.log10(64.0))),
        "delta": 10.0 ** draw(st.floats(-8.0, math.log10(0.05))),
        "accountant": draw(st.sampled_from(["paper", "exact"])),
        "noise": draw(st.sampled_from(["component", "norm"])),
        "truncate": draw(st.booleans()),
    }
    mode = draw(st.sampled_from(["private", "clipped"]))
    if mode == "clipped":
        privacy["alpha"] = draw(st.floats(1.0, 2.0))
    if mode == "clipped" or privacy["truncate"]:
        privacy["tau"] = 10.0 ** draw(st.floats(-4.0, math.log10(0.5)))
    if draw(st.booleans()):
        privacy |= {"share_objective": True, "objective_limit": 100.0}
    return agree(
        mode=mode,
        rounds=draw(st.one_of(st.integers(1, 20), st.integers(1, 2000))),
        capacity=tuple(draw(st.lists(st.floats(0.1, 1e3), min_size=m, max_size=m))),
        shares=(*shares, 1.0),
        **privacy,
    )


@given(agreement=agreements(), seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_noise_is_never_less_than_the_guarantee_needs(agreement: Agreement, seed: int) -> None:
    """For any agreement and caps, T releases of a member are (ε, δ)-LDP."""
    try:
        calibration = Calibration(agreement)
    except BadAgreement:
        reject()  # more noise than can be carried: no session, nothing released
    K, m = quantities(agreement).share.shape
    rng = np.random.default_rng(seed)
    greedy = np.full((K, m), TICKS)
    greedy[rng.integers(K)] = -TICKS
    for released in (greedy, rng.integers(-TICKS, 2 * TICKS, (K, m))):
        caps = next_caps(agreement, released)
        rows = {
            tuple(row): sigma
            for row, sigma in zip(caps.tolist(), calibration.scales(caps), strict=True)
        }
        for row, sigma in rows.items():
            assert_enough(agreement, np.array(row), sigma)


EDGES = [
    *itertools.product([1e-3, 0.1, 1.0, 8.0, 64.0], [1e-5, 1e-3, 0.05], [1, 150]),
    (1.0, 1e-5, 20_000),
]


@pytest.mark.parametrize(("epsilon", "delta", "rounds"), EDGES)
def test_the_multiplier_is_on_the_safe_side_of_the_root(
    epsilon: float, delta: float, rounds: int
) -> None:
    """In 40 digits the multiplier keeps (ε, δ), and one larger by a millionth does not."""
    agreement = agree(rounds=rounds, epsilon=epsilon, delta=delta, capacity=(10.0,))
    caps = quantities(agreement).share_ticks[0]
    sigma = Calibration(agreement).scales(caps)
    assert_enough(agreement, caps, sigma)
    with pytest.raises(AssertionError):
        assert_enough(agreement, caps, sigma / (1.0 + 1e-6))


@pytest.mark.parametrize("end", [1e-9, 0.3, 1.0, math.pi, 1000.0, 2.0**40])
def test_a_root_is_approached_from_within(end: float) -> None:
    """The result still holds, and is the end of the interval to twelve digits."""
    found = last_true(lambda x: x <= end)
    assert found <= end
    assert found == pytest.approx(end, rel=1e-12)


def discrete_delta(shift: int, sigma: float, epsilon: float) -> float:
    """δ of the discrete Gaussian itself: Σ_z (p(z) − e^ε·p(z − shift))⁺."""
    reach = shift + math.ceil(40 * sigma)
    z = np.arange(-reach, reach + 1)
    log_p = -(z**2) / (2 * sigma**2)
    log_p -= np.log(np.exp(log_p).sum())
    loss = (shift**2 - 2 * z * shift) / (2 * sigma**2)
    heavy = loss > epsilon
    return float((np.exp(log_p[heavy]) * -np.expm1(epsilon - loss[heavy])).sum())


def test_noise_is_enough_if_caps_fall_to_single_ticks() -> None:
    """With many members and a small τ, noise of a tick is accounted for or refused."""
    fields: dict[str, Any] = {"epsilon": 24.145, "delta": 1.43e-10, "tau": 1e-4, "alpha": 1.0}
    try:
        agreement = agree(mode="clipped", rounds=1, capacity=(10.0,), shares=(1.0,) * 200, **fields)
        calibration = Calibration(agreement)
    except BadAgreement:
        return
    for cap in (1, 2, 5):
        sigma = float(calibration.scales(np.array([cap]))[0])
        assert discrete_delta(cap, sigma, fields["epsilon"]) <= fields["delta"]


@pytest.mark.parametrize("sigma", [1.0, 3.0, 4.5, 8.0, 25.0])
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_discreteness_covers_the_discrete_gaussian(sigma: float, mu: float) -> None:
    """At every ε the discrete δ, summed, is within the Gaussian curve at the stated cost."""
    shift = max(1, math.floor(mu * sigma))
    once = (shift / sigma) ** 2
    spent = PrivacyCost(once, discreteness(np.array([sigma]), rounds=1, dearest=once, total=once))
    assert spent.discreteness.reserve < once
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0):
        assert discrete_delta(shift, sigma, epsilon) <= spent.gaussian_delta(epsilon)


def test_discreteness_refuses_noise_below_one_tick() -> None:
    """Below σ = 1 nothing is proved and no multiplier is allowed; no noise costs nothing."""
    few = discreteness(np.array([50.0, 0.999]), rounds=1, dearest=1.0, total=2.0)
    assert PrivacyCost(1.0, few).gaussian_delta(5.0) == 1.0
    assert PrivacyCost(1.0, few).epsilon(DELTA) == pytest.approx(
        0.5 + 2 * math.sqrt(0.5 * math.log(1e3))
    )
    assert discreteness(np.array([]), rounds=10, dearest=1.0, total=1.0) == IntegerNoiseCost()


@pytest.mark.parametrize("noise", ["component", "norm"])
@pytest.mark.parametrize("share", [1.0, 2e-7])
def test_whole_ticks_cost_what_the_real_noise_needs(noise: str, share: float) -> None:
    """One number takes an equal part of the budget of a round; with `norm` it may take it all."""
    agreement = agree(rounds=20, shares=(share, 1.0), epsilon=4.0, noise=noise)
    calibration, caps = Calibration(agreement), quantities(agreement).share_ticks[0]
    sigma = calibration.scales(caps)
    parts = (caps / sigma) ** 2
    dearest = float(parts.max() if noise == "component" else parts.sum())
    needed = discreteness(sigma, rounds=20, dearest=dearest, total=calibration.mu**2).reserve
    counted = calibration.per_release.discreteness.reserve
    assert counted == pytest.approx(needed, rel=1e-9, abs=0.0)


def test_whole_ticks_cost_no_delta_of_their_own() -> None:
    """However small δ is, the noise is that of the Gaussian curve."""
    agreement = agree(rounds=40, delta=1e-10, capacity=(10.0,), shares=(300 / TICKS, 1.0))
    mu = mpmath.mpf(multiplier(agreement))
    assert 0.9999 < curve(mu, mpmath.mpf(1)) / mpmath.mpf(1e-10) <= 1


@pytest.mark.parametrize("sigma", [1.0, 3.0])
@pytest.mark.parametrize("smooth", [0.3, 0.7, 2.0])
def test_a_smoothed_discrete_gaussian_is_below_a_continuous_one(
    sigma: float, smooth: float
) -> None:
    """PRIVACY.md §4: N_Z(0, σ²) + N(0, s²) has at most 1 + θ times the density of N(0, σ² + s²)."""
    s, sd = mpmath.mpf(sigma), mpmath.mpf(smooth)
    z = range(-math.ceil(14 * sigma), math.ceil(14 * sigma) + 1)
    p = [mpmath.npdf(k, 0, s) for k in z]
    kappa = s * sd / mpmath.sqrt(s**2 + sd**2)
    for y in (mpmath.mpf(step) / 4 for step in range(24)):
        density = sum(q * mpmath.npdf(y - k, 0, sd) for q, k in zip(p, z, strict=True)) / sum(p)
        most = lattice(kappa, 0) * mpmath.npdf(y, 0, mpmath.sqrt(s**2 + sd**2))
        assert density <= most * (1 + mpmath.mpf("1e-30"))


@pytest.mark.parametrize("sigma", [1.0, 3.0, 5.5, 1e6])
@pytest.mark.parametrize("rounds", [1, 150, 1_000_000])
def test_discreteness_covers_the_proved_cost(sigma: float, rounds: int) -> None:
    """The counted cost is what the proof needs: no less, and not noticeably more."""
    for numbers in (1, 4):
        cost = discreteness(np.full(numbers, sigma), rounds=rounds, dearest=0.01, total=1.0)
        exact = [mpmath.mpf(sigma)] * numbers
        reserve, factor = discrete_cost(exact, mpmath.mpf("0.01"), mpmath.mpf(1), rounds)
        if math.isinf(reserve):
            assert math.isinf(cost.reserve)
            continue
        assert cost.reserve == pytest.approx(float(reserve), rel=1e-12)
        assert mpmath.exp(cost.factor) >= factor * (1 - mpmath.mpf("1e-12"))
        assert cost.factor == pytest.approx(float(mpmath.log(factor)), rel=1e-3)


def rounded_gaussian(z: int, sigma: Number) -> Number:
    """The probability that a continuous Gaussian rounds to z."""
    low, high = (abs(z) - mpmath.mpf("0.5")) / sigma, (abs(z) + mpmath.mpf("0.5")) / sigma
    return mpmath.ncdf(-low) - mpmath.ncdf(-high)


@pytest.mark.parametrize("sigma", [3.0, 3.3, 5.0, 12.0, 30.0])
def test_total_variation_between_discrete_and_rounded_gaussian(sigma: float) -> None:
    """PRIVACY.md §11: the total variation is at most 1/(16σ²) for σ ≥ 3."""
    s = mpmath.mpf(sigma)
    total = sum(
        (1 if z == 0 else 2) * abs(rounded_gaussian(z, s) - mpmath.npdf(z, 0, s) / lattice(s, 0))
        for z in range(math.ceil(15 * sigma))
    )
    assert 1 / (100 * s**2) < total / 2 <= 1 / (16 * s**2)


CORNERS = [*itertools.product([1e-6, 1e-5, 1e-3, 1.0, 64.0, 100.0], [1e-10, 1e-9, 1e-6, 0.1])]


@pytest.mark.parametrize(("epsilon", "delta"), CORNERS)
def test_rounding_never_exceeds_the_agreed_delta(epsilon: float, delta: float) -> None:
    """At every corner of the allowed values, μ in 40 digits keeps δ and is not far below."""
    mu = last_true(lambda mu: gaussian_delta(mu=mu, epsilon=epsilon) <= delta)
    assert curve(mpmath.mpf(mu), mpmath.mpf(epsilon)) <= mpmath.mpf(delta)
    assert curve(mpmath.mpf(mu) * (1 + mpmath.mpf("1e-6")), mpmath.mpf(epsilon)) > delta


def test_random_agreements_have_enough_noise_and_hardly_more() -> None:
    """The summed discrete Gaussian confirms it, often with caps of few ticks.

    `python -m tests.reference.accountant` checks many more.
    """
    few = many = 0
    for seed, found in accountant.verdicts(range(60)):
        if found is None:
            continue
        assert found.used <= 1.0, f"seed {seed}: too little noise, {found}"
        if found.sigma >= 3.0:
            few, many = few + (found.total < 200.0), many + (found.total >= 200.0)
            most = 1.002 if found.total >= 200.0 else 1.05
            assert found.excess <= most, f"seed {seed}: too much noise, {found}"
    assert few >= 2
    assert many >= 10


# The noise itself


def draws(noise: Noise, sigma: float, count: int) -> Ticks:
    """Many draws, a release of a thousand numbers at a time."""
    zeros, scales = np.zeros(1000, dtype=np.int64), np.full(1000, sigma)
    parts = [noise.add(zeros, scales, member="p0", round=t) for t in range(count // 1000)]
    return np.concatenate(parts)


def discrete_gaussian(sigma: float) -> tuple[Ticks, Floats]:
    """The integers within 12σ and their probabilities under N_Z(0, σ²)."""
    z = np.arange(-math.ceil(12 * sigma), math.ceil(12 * sigma) + 1)
    p = np.exp(-(z**2) / (2 * sigma**2))
    return z, p / p.sum()


@pytest.mark.parametrize("sigma", [0.7, 3.0, 41.5])
def test_real_noise_is_the_discrete_gaussian(sigma: float) -> None:
    """20,000 real draws have the mean, the variance and the frequencies of N_Z(0, σ²)."""
    sample = draws(DiscreteGaussian(), sigma, 20_000)
    z, p = discrete_gaussian(sigma)
    variance = float((z**2 * p).sum())
    fourth = float((z**4 * p).sum())
    limit = stats.norm.isf(RARE / 2)
    assert abs(sample.mean()) <= limit * math.sqrt(variance / len(sample))
    spread = math.sqrt((fourth - variance**2) / len(sample))
    assert abs((sample.astype(float) ** 2).mean() - variance) <= limit * spread
    edges = np.unique(z[np.searchsorted(np.cumsum(p), np.linspace(0.01, 0.99, 50))])
    cells = np.searchsorted(edges, z)
    expected = np.bincount(cells, weights=p) * len(sample)
    found = np.bincount(np.searchsorted(edges, sample), minlength=len(expected))
    chi_square = float(((found - expected) ** 2 / expected).sum())
    assert chi_square <= stats.chi2.isf(RARE, len(expected) - 1)


def test_real_noise_is_gaussian_up_to_the_largest_scale() -> None:
    """Noise of millions of capacities neither saturates nor loses its shape."""
    sigma = float(1 << 42)
    sample = draws(DiscreteGaussian(), sigma, 10_000)
    assert stats.kstest(sample / sigma, "norm").pvalue > RARE


def test_real_noise_is_independent_across_numbers_and_rounds() -> None:
    """Neighbours in a release and equal numbers of consecutive rounds are uncorrelated."""
    sample = draws(DiscreteGaussian(), 20.0, 20_000) / 20.0
    for lag in (1, 1000):
        correlation = float((sample[:-lag] * sample[lag:]).mean())
        assert abs(correlation) <= stats.norm.isf(RARE / 2) / math.sqrt(len(sample) - lag)


@pytest.mark.parametrize("noise", [DiscreteGaussian(), SeededGaussian(5)])
def test_each_number_gets_its_own_noise(noise: Noise) -> None:
    """Each draw has the σ of its number, and a σ of 0 adds nothing."""
    values = np.tile([7, -3, 1 << 40], 2000)
    noisy = noise.add(values, np.tile([50.0, 0.0, 4000.0], 2000), member="p0", round=0)
    apart = (noisy - values).reshape(2000, 3)
    assert (apart[:, 1] == 0).all()
    for place, sigma in ((0, 50.0), (2, 4000.0)):
        assert apart[:, place].std() == pytest.approx(sigma, rel=0.1)
    assert values.tolist() == [7, -3, 1 << 40] * 2000


def test_real_noise_differs_each_time() -> None:
    """A second draw for a member and round differs: only the ledger repeats a release."""
    zeros, scales = np.zeros(8, dtype=np.int64), np.full(8, 1e9)
    once, again = (DiscreteGaussian().add(zeros, scales, member="a", round=1) for _ in range(2))
    assert (once != again).all()


def test_noise_drawn_ahead_is_used_once() -> None:
    """Such draws have the right distribution and serve the next value of their σ only."""
    noise, values, scales = DiscreteGaussian(), np.arange(1000), np.full(1000, 41.5)
    sample = []
    for t in range(10):
        noise.prefetch(scales)
        noise.prefetch(scales)
        sample.append(noise.add(values, scales, member="a", round=t) - values)
    z, p = discrete_gaussian(41.5)
    variance = float((z**2 * p).sum())
    together = np.concatenate(sample).astype(float)
    assert together.std() == pytest.approx(math.sqrt(variance), rel=0.05)
    for one, other in itertools.pairwise(sample):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.2
    noise.prefetch(scales)
    once = noise.add(values, scales, member="a", round=10)
    assert (noise.add(values, scales, member="a", round=11) != once).any()
    noise.prefetch(scales)
    assert (noise.add(values, np.zeros(1000), member="a", round=12) == values).all()


def test_seeded_noise_repeats_for_its_key_and_only_for_it() -> None:
    """Seed, member and round determine the draw; any other gives another draw."""
    zeros, scales = np.zeros(8, dtype=np.int64), np.full(8, 1e9)
    first = SeededGaussian(1).add(zeros, scales, member="p1", round=1)
    assert (SeededGaussian(1).add(zeros, scales, member="p1", round=1) == first).all()
    for seed, member, turn in ((2, "p1", 1), (1, "p11", 1), (1, "p1", 11), (1, "p", 11)):
        other = SeededGaussian(seed).add(zeros, scales, member=member, round=turn)
        assert (other != first).all()


def test_seeded_noise_has_the_right_distribution() -> None:
    """The draws of a rehearsal are Gaussian with the agreed σ."""
    sample = draws(SeededGaussian(3), 41.5, 20_000)
    cells = stats.norm.ppf((np.arange(0.5, 20_000.0)) / 20_000) * 41.5
    assert np.abs(np.sort(sample) - cells).mean() < 0.02 * 41.5
    assert (
        stats.kstest(
            (sample + np.random.default_rng(0).uniform(-0.5, 0.5, 20_000)) / 41.5, "norm"
        ).pvalue
        > 1e-3
    )


def gate_with(agreement: Agreement, noise: Noise) -> Gate:
    data = dense(
        A=np.ones((3, 1)),
        B=np.ones((1, 1)),
        u=np.ones(1),
        row_lower=np.full(1, -math.inf),
        row_upper=np.ones(1),
        lower=np.zeros(1),
        upper=np.ones(1),
    )
    return Gate(
        agreement,
        "p0",
        subproblem=Subproblem(data, quantities(agreement).capacity),
        noise=noise,
        ledger=in_memory(agreement, "p0"),
        pack=lambda m: pack(m, key=agreement.members[0].signing_key, sign=lambda _: bytes(64)),
    )


def test_a_real_session_refuses_seeded_noise() -> None:
    """Noise that can be repeated is for rehearsals only."""
    with pytest.raises(LocalError, match="seeded noise gives no privacy"):
        gate_with(agree(), SeededGaussian(1))
    gate_with(agree(rehearsal=True), SeededGaussian(1))
    gate_with(agree(), DiscreteGaussian())
