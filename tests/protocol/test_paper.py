"""The statements of the paper, by their labels.

Every expected number is computed here from the paper's formula or by hand, never by the code under
test. The best prices, which no party can know, are used only for comparison.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.optimize import linprog

from party.model.best_response import Answer, Subproblem
from party.model.company_model import CompanyModel, dense
from party.release.noise import Noise, SeededGaussian
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TICKS
from protocol.errors import InternalError
from protocol.numeric import Floats, Ticks
from protocol.pricing.rule import PriceRule
from protocol.privacy.accountant import rho
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import adaptive_caps, first_caps
from protocol.rounds import RoundEngine, numbers
from scripts.lab.common.instances import central, draw, dual_value
from tests.support.gates import gates, play_rounds
from tests.support.outcomes import outcome_of
from tests.support.paper_terms import CAPACITY, agree, exact_rho

BUDGETS = [(0.1, 1e-3), (1.0, 1e-5), (4.0, 1e-3), (100.0, 0.1)]
STEPS: list[dict[str, Any]] = [{"step": "center"}, {"step": "sqrt", "step_size": 0.1}]


def matrices(data: CompanyModel) -> tuple[Floats, Floats]:
    """A and B of a data set, dense."""
    full = np.zeros((data.resources + data.private_rows, data.columns))
    columns = np.repeat(np.arange(data.columns), np.diff(data.start))
    full[data.index, columns] = data.value
    return full[: data.resources], full[data.resources :]


# Decomposition


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_eqn_org_model_and_eqn_sec_model_have_the_same_optimum(seed: int) -> None:
    """Z_P of eqn:org_model_obj equals Z_𝒫 of eqn:sec_model_obj, and both the central optimum."""
    instance = draw(seed, parties=3)
    c, m = instance.capacity, len(instance.capacity)
    A, B = zip(*(matrices(d) for d in instance.data), strict=True)
    n = [d.columns for d in instance.data]
    u = np.concatenate([d.utility for d in instance.data])
    bounds = [b for d in instance.data for b in zip(d.lower, d.upper, strict=True)]
    private = np.zeros((sum(len(b) for b in B), sum(n)))
    consumption = np.zeros((3 * m, sum(n)))
    row, column = 0, 0
    for k in range(3):
        private[row : row + len(B[k]), column : column + n[k]] = B[k]
        consumption[k * m : (k + 1) * m, column : column + n[k]] = A[k]
        row, column = row + len(B[k]), column + n[k]
    limits = np.concatenate([d.row_upper for d in instance.data])
    joint = linprog(
        -u, A_ub=np.vstack([np.hstack(A), private]), b_ub=np.append(c, limits), bounds=bounds
    )
    split = linprog(
        np.append(-u, np.zeros(3 * m)),
        A_ub=np.block([[consumption, -np.eye(3 * m)], [private, np.zeros((len(limits), 3 * m))]]),
        b_ub=np.append(np.zeros(3 * m), limits),
        A_eq=np.hstack([np.zeros((m, sum(n))), np.tile(np.eye(m), 3)]),
        b_eq=c,
        bounds=bounds + [(0.0, None)] * (3 * m),
    )
    assert -joint.fun == pytest.approx(-split.fun, rel=1e-9)
    assert central(instance).utility == pytest.approx(-joint.fun, rel=1e-9)


@pytest.mark.parametrize(("seed", "parties"), [(1, 2), (2, 3), (3, 5)])
def test_eq_dual_is_never_below_the_optimum(seed: int, parties: int) -> None:
    """L(λ) ≥ Z* of eq:dual for every λ, of either sign, with and without limited shares."""
    rng = np.random.default_rng(seed)
    for total in (None, 1.5):
        instance = draw(seed, parties=parties, share_total=total)
        best, problems = central(instance).utility, instance.subproblems()
        for scale in (1.0, 10.0, 100.0):
            for _ in range(10):
                prices = scale * rng.uniform(-0.5, 1.0, len(instance.capacity))
                assert dual_value(instance, problems, prices) >= best * (1 - 1e-9)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_eq_dual_meets_the_optimum_at_the_best_prices(seed: int) -> None:
    """Strong duality after eq:dual: L(λ*) = Z* at the prices of the central problem."""
    instance = draw(seed, parties=4, share_total=None if seed % 2 else 2.0)
    optimum = central(instance)
    value = dual_value(instance, instance.subproblems(), optimum.prices)
    assert value == pytest.approx(optimum.utility, rel=1e-8)


def test_eqn_subproblem_agrees_with_another_solver() -> None:
    """g(λ; D_k) of eqn:subproblem with s ≤ c is what an independent solver finds."""
    instance = draw(7, parties=2)
    c, data, problem = instance.capacity, instance.data[0], instance.subproblems()[0]
    A, B = matrices(data)
    m, r = len(A), len(B)
    rng = np.random.default_rng(7)
    for _ in range(5):
        prices = rng.uniform(-2.0, 40.0, m)
        other = linprog(
            np.append(-data.utility, prices),
            A_ub=np.block([[A, -np.eye(m)], [B, np.zeros((r, m))]]),
            b_ub=np.append(np.zeros(m), data.row_upper),
            bounds=[*zip(data.lower, data.upper, strict=True), *((0.0, x) for x in c)],
        )
        answer = problem.answer(prices)
        assert answer is not None
        assert answer.objective == pytest.approx(-other.fun, rel=1e-8)


PATH = [np.array([[1.0, 0.25], [0.5, 0.0]]), np.array([[1.0, 0.5], [0.0, 0.5]])]
"""Two rounds of releases as parts of the capacities (8, 4): excess (4, −3), then none."""


def prices_after(prices: dict[str, Any]) -> list[list[float]]:
    table = {"step": "constant", "step_size": 0.5, "start": {"r0": 1.0, "r1": 2.0}} | prices
    engine = RoundEngine(agree((8.0, 4.0), mode="exact", prices=table))
    state, path = engine.opening, []
    for parts in PATH:
        state = engine.advance(state, (parts * TICKS).astype(np.int64))
        path.append(state.prices.current.tolist())
    return path


def test_eq_subup_by_hand() -> None:
    """eq:subup moves each price by ν times the excess demand in units."""
    assert prices_after({"nonnegative": False}) == [[3.0, 0.5], [3.0, 0.5]]


def test_eqn_dp_momentum_by_hand() -> None:
    """eqn:dp_momentum adds γ times the last move; projection then cuts off below 0."""
    assert prices_after({"momentum": 0.5, "nonnegative": False})[1] == [4.0, -0.25]
    assert prices_after({"momentum": 0.5})[1] == [4.0, 0.0]


def test_eq_subup_with_a_falling_step() -> None:
    """The step ν/√(t+1) is the size given, then that over √2, √3, 2."""
    rule = PriceRule(agree((8.0,), prices={"step": "sqrt", "step_size": 3.0}))
    steps = [rule.step_size(t) for t in range(4)]
    assert steps == pytest.approx([3.0, 3.0 / 2**0.5, 3.0 / 3**0.5, 1.5], rel=1e-15)


def ticks_demanded(agreement: Agreement, problems: list[Subproblem], prices: Floats) -> Ticks:
    """s_k(λ) of every party in whole ticks: what exact mode releases."""
    answers = [problem.answer(prices) for problem in problems]
    parts = np.array([a.demand / quantities(agreement).capacity for a in answers if a])
    whole: Ticks = np.rint(parts * agreement.ticks).astype(np.int64)
    return whole


@pytest.mark.parametrize("prices", STEPS)
def test_eq_subup0_is_what_gates_release_in_exact_mode(prices: dict[str, Any]) -> None:
    """In exact mode the gates publish the s_k of eq:subup0, rounded to ticks and no more."""
    instance = draw(3, parties=3)
    agreement = agree(instance.capacity.tolist(), 3, 15, mode="exact", prices=prices)
    path, released = play_rounds(agreement, instance.subproblems(), SeededGaussian(1))
    assert len(released) == 15
    problems = instance.subproblems()
    for state, values in zip(path, released, strict=False):
        assert (values == ticks_demanded(agreement, problems, state.prices.current)).all()


@pytest.mark.parametrize("parties", [5, 10])
def test_eq_subup_with_the_default_step_ends_by_itself(parties: int) -> None:
    """Mode exact by default: 20 problems end before round 150, as near as certified."""
    gaps = []
    for seed in range(1, 21):
        instance = draw(seed, parties=parties)
        problems = instance.subproblems()
        agreement = agree(instance.capacity.tolist(), parties=parties, mode="exact", rounds=150)
        engine = RoundEngine(agreement)
        state = engine.opening
        while not state.over:
            demanded = ticks_demanded(agreement, problems, state.prices.current)
            state = engine.advance(state, demanded)
        assert state.round < agreement.rounds
        assert state.certificate is not None
        value = dual_value(instance, problems, state.certificate.prices / instance.capacity)
        best = central(instance).utility
        assert value - best <= state.certificate.bound
        gaps.append(value / best - 1.0)
    assert sum(gaps) / len(gaps) <= 1e-4


# Differential privacy


class Recorder(Noise):
    """Adds no noise and records the exact values of the gate."""

    private = False

    def __init__(self) -> None:
        self.seen: list[Ticks] = []

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002, ARG002
        self.seen.append(values.copy())
        return values.copy()


def any_data(rng: np.random.Generator, resources: int) -> CompanyModel:
    """A feasible, bounded problem: gains and losses, demands from 0 to far too much."""
    n = int(rng.integers(1, 5))
    data = dense(
        A=rng.uniform(-0.5, 10.0 ** rng.uniform(-3, 3), (resources, n)),
        B=rng.uniform(0.0, 1.0, (1, n)),
        u=rng.uniform(-1.0, 10.0 ** rng.uniform(0, 6), n),
        row_lower=np.array([-math.inf]),
        row_upper=np.array([10.0 ** rng.uniform(-2, 3)]),
        lower=np.zeros(n),
        upper=np.full(n, 1e3),
    )
    return replace(data, offset=rng.uniform(-1.0, 1.0) * 10.0 ** rng.uniform(0, 6))


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_eq_bound_on_s_holds_for_any_data(seed: int, clipped: bool) -> None:
    """eq: bound on s: the value before noise lies in [0, cap], for any data set."""
    rng = np.random.default_rng(seed)
    agreement = agree(
        CAPACITY, mode="clipped" if clipped else "private", privacy={"share_objective": True}
    )
    released = rng.integers(-(2**30), 2**30, (2, 3))
    caps = adaptive_caps(agreement, released) if clipped else first_caps(agreement)
    opening = RoundEngine(agreement).opening
    recorder = Recorder()
    problems = [Subproblem(any_data(rng, 3), np.array(CAPACITY)) for _ in range(2)]
    prices = replace(opening.prices, current=rng.uniform(-1.0, 1.0, 3) * 10.0 ** rng.uniform(-3, 9))
    for gate in gates(agreement, problems, recorder):
        gate.release(replace(opening, caps=caps, prices=prices))
    assert len(recorder.seen) == 2
    for row, values in enumerate(recorder.seen):
        assert values.dtype == np.int64
        assert (values >= 0).all()
        assert (values <= [*caps[row], TICKS]).all()


class Broken(Subproblem):
    """A problem whose solver fails, or returns a demand that is no number."""

    fixed_answer: Answer | None = None

    def answer(self, prices: Floats) -> Answer | None:  # noqa: ARG002
        return self.fixed_answer


@pytest.mark.parametrize(
    ("demand", "expected"),
    [(None, 0), (math.nan, 0), (-math.inf, 0), (-1e-14, 0), (math.inf, 1), (1e300, 1)],
)
@pytest.mark.parametrize("prices", STEPS)
def test_eq_bound_on_s_holds_when_the_solver_fails(
    demand: float | None, expected: int, prices: dict[str, Any]
) -> None:
    """eq: bound on s: a failed or invalid answer is clamped to the same range."""
    agreement = agree(CAPACITY, mode="exact", prices=prices)
    problem = Broken(any_data(np.random.default_rng(1), 3), np.array(CAPACITY))
    if demand is not None:
        problem.fixed_answer = Answer(objective=0.0, demand=np.full(3, demand), plan=np.zeros(1))
    release = gates(agreement, [problem] * 2, SeededGaussian(1))[0].release(
        RoundEngine(agreement).opening
    )
    assert numbers((release,)).tolist() == [[expected * agreement.ticks] * 3]


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_thm_zcdp_to_ldp_is_met_with_equality(epsilon: float, delta: float) -> None:
    """thm:zCDPtoLDP: ρ(ε, δ) + √(4ρ log 1/δ) = ε, and ρ is the one of prop:diffPriv."""
    value = rho(epsilon=epsilon, delta=delta)
    assert value + math.sqrt(4.0 * value * math.log(1.0 / delta)) == pytest.approx(
        epsilon, rel=1e-13
    )
    assert value == pytest.approx(exact_rho(epsilon, delta), rel=1e-13)


def test_rho_is_about_its_approximation_for_a_small_budget() -> None:
    """After thm:convergence: ρ(ε, δ) ≈ ε² / (4 log 1/δ)."""
    assert rho(epsilon=1e-4, delta=1e-3) == pytest.approx(1e-8 / (4 * math.log(1e3)), rel=1e-4)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_prop_diffpriv_variance(epsilon: float, delta: float) -> None:
    """prop:diffPriv: the variance of ω_kj is T·m·c_j²/2ρ, to 12 digits."""
    T, m = 150, len(CAPACITY)
    calibration = Calibration(
        agree(CAPACITY, rounds=T, privacy={"epsilon": epsilon, "delta": delta})
    )
    sigma = (
        calibration.scales(quantities(calibration.agreement).share_ticks)
        * np.array(CAPACITY)
        / TICKS
    )
    for row in sigma:
        for s, c in zip(row, CAPACITY, strict=True):
            assert s * s == pytest.approx(
                T * m * c * c / (2 * exact_rho(epsilon, delta)), rel=1e-12
            )


@pytest.mark.parametrize("shape", ["component", "norm"])
@pytest.mark.parametrize("objective", [False, True])
def test_thm_zcdp_comp_spends_the_budget_and_no_more(shape: str, objective: bool) -> None:
    """thm:zCDPComp: Σ_t Σ_j Δ²/2σ² over all T rounds and all numbers is ρ(ε, δ)."""
    T = 77
    privacy = {"epsilon": 2.0, "noise": shape, "share_objective": objective}
    calibration = Calibration(agree(CAPACITY, rounds=T, privacy=privacy))
    sigma = calibration.scales(quantities(calibration.agreement).share_ticks)
    assert sigma.shape == (2, 4 if objective else 3)
    spent = T * (TICKS**2 / (2 * sigma**2)).sum(axis=1)
    assert spent == pytest.approx([exact_rho(2.0, 1e-3)] * 2, rel=1e-12)


def test_eq_overall_function_has_one_variance_for_all() -> None:
    """After eq: overall function: with `norm` every variance is T‖c‖²/2ρ."""
    T = 30
    calibration = Calibration(agree(CAPACITY, rounds=T, privacy={"noise": "norm"}))
    sigma = (
        calibration.scales(quantities(calibration.agreement).share_ticks)
        * np.array(CAPACITY)
        / TICKS
    )
    expected = T * sum(c * c for c in CAPACITY) / (2 * exact_rho(1.0, 1e-3))
    assert (sigma**2).ravel() == pytest.approx([expected] * 6, rel=1e-12)


def test_alg_dpra_makes_exactly_t_releases() -> None:
    """alg:dpra as accounted: T releases and no more, though the printed loop would make T+1."""
    instance = draw(1, parties=2)
    agreement = agree(instance.capacity.tolist(), rounds=3)
    engine, noise = RoundEngine(agreement), SeededGaussian(1)
    all_gates = gates(agreement, instance.subproblems(), noise)
    state = engine.opening
    for _ in range(3):
        state = engine.advance(state, numbers(tuple(d.release(state) for d in all_gates)))
    with pytest.raises(InternalError, match="more releases than agreed"):
        all_gates[0].release(state)


# Clipping


@pytest.mark.parametrize(("parties", "alpha"), [(2, 1.0), (3, 1.5), (7, 2.0)])
def test_eq_subupdpclip_first_caps(parties: int, alpha: float) -> None:
    """s̄(0) = c̄/K with c̄ = α·c, to one tick, and the caps of a resource add up to α·c."""
    caps = first_caps(agree(CAPACITY, parties, mode="clipped", privacy={"alpha": alpha}))
    assert (np.abs(caps - alpha * TICKS / parties) < 1).all()
    assert caps.sum(axis=0).tolist() == [alpha * TICKS] * 3


def test_eq_subupdpclip_4_by_hand() -> None:
    """eq:subupdpClip-4: releases of 1/2, −3 and 5 capacities weigh 1/2, τ and 1."""
    agreement = agree((8.0,), 3, mode="clipped", privacy={"alpha": 1.5, "tau": 0.25})
    released = np.array([[TICKS // 2], [-3 * TICKS], [5 * TICKS]])
    weights = Fraction(1, 2), Fraction(1, 4), Fraction(1)
    expected = [Fraction(3, 2) * TICKS * w / sum(weights) for w in weights]
    assert expected == pytest.approx([449389.714, 224694.857, 898779.429])
    caps = adaptive_caps(agreement, released)[:, 0].tolist()
    assert caps == [449390, 224695, 898779]


@given(
    parties=st.integers(2, 12),
    alpha=st.integers(1024, 2048).map(lambda n: n / 1024),
    tau=st.floats(1e-4, 0.5),
    seed=st.integers(0, 2**32),
)
@example(parties=2, alpha=1.0, tau=0.5, seed=1)
@example(parties=2, alpha=2.0, tau=1e-4, seed=2)
@example(parties=12, alpha=2.0, tau=0.5, seed=3)
@example(parties=12, alpha=1.0, tau=1e-4, seed=4)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_eq_subupdpclip_4_adds_up_to_the_enlarged_capacity(
    parties: int, alpha: float, tau: float, seed: int
) -> None:
    """eq:subupdpClip-4: caps follow the formula to a tick and add up to α·c exactly."""
    agreement = agree(CAPACITY, parties, mode="clipped", privacy={"alpha": alpha, "tau": tau})
    size = 2 ** np.random.default_rng(seed).integers(1, 45)
    released = np.random.default_rng(seed).integers(-size, size + 1, (parties, 3))
    caps = adaptive_caps(agreement, released)
    assert caps.sum(axis=0).tolist() == [alpha * TICKS] * 3
    floor = math.ceil(tau * TICKS)
    for j in range(3):
        weights = [max(min(TICKS, int(s)), floor) for s in released[:, j]]
        for cap, weight in zip(caps[:, j].tolist(), weights, strict=True):
            assert abs(cap - Fraction(alpha) * TICKS * weight / sum(weights)) < 1


@pytest.mark.parametrize("shape", ["component", "norm"])
def test_cor_difprivclip_spends_the_same_in_every_round(shape: str) -> None:
    """cor:difPrivClip: whatever the caps, a round spends ρ/T, that is μ²/T with μ² = 2ρ."""
    T, rng = 40, np.random.default_rng(5)
    privacy = {"epsilon": 4.0, "noise": shape}
    calibration = Calibration(agree(CAPACITY, 4, rounds=T, mode="clipped", privacy=privacy))
    caps = rng.integers(1, TICKS + 1, (200, 3))
    spent = (caps / calibration.scales(caps)) ** 2
    assert spent.sum(axis=1) == pytest.approx([2 * exact_rho(4.0, 1e-3) / T] * 200, rel=1e-12)


def test_eq_subupdpclip_2_variance() -> None:
    """eq:subupdpClip-2: the variance of w_kj is T·m·s̄_kj²/2ρ."""
    T, caps = 40, np.array([1_000, 250_000, TICKS])
    calibration = Calibration(agree(CAPACITY, 4, rounds=T, mode="clipped"))
    expected = T * 3 * caps.astype(float) ** 2 / (2 * exact_rho(1.0, 1e-3))
    assert calibration.scales(caps) ** 2 == pytest.approx(expected, rel=1e-12)


# The Remark after thm:convergence_tight


@pytest.mark.parametrize("prices", STEPS)
def test_remark_the_objective_is_the_number_after_the_resources(prices: dict[str, Any]) -> None:
    """The Remark: with shared objectives a release has m+1 numbers, the last the objective's."""
    instance = draw(1, parties=2)
    limit = 5_000.0
    agreement = agree(
        instance.capacity.tolist(),
        mode="exact",
        prices=prices,
        privacy={"share_objective": True, "objective_limit": limit},
    )
    recorder = Recorder()
    asked = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    opening = RoundEngine(agreement).opening
    state = replace(opening, prices=replace(opening.prices, current=asked))
    release = gates(agreement, instance.subproblems(), recorder)[0].release(state)
    values = numbers((release,))[0]
    answer = instance.subproblems()[0].answer(asked)
    assert answer is not None
    assert len(values) == 6
    assert 0 < answer.objective < limit
    assert values[5] == round(answer.objective / limit * agreement.ticks)


def test_remark_the_budget_covers_one_number_more() -> None:
    """The Remark: the variances grow by (m+1)/m, and the objective's is T·(m+1)·limit²/2ρ."""
    T, limit = 20, 700.0
    privacy = {"share_objective": True, "objective_limit": limit}
    calibration = Calibration(agree(CAPACITY, rounds=T, privacy=privacy))
    sigma = calibration.scales(quantities(calibration.agreement).share_ticks[0]) / TICKS
    unit = T * 4 / (2 * exact_rho(1.0, 1e-3))
    assert (sigma[:3] * np.array(CAPACITY)) ** 2 == pytest.approx(
        [unit * c * c for c in CAPACITY], rel=1e-12
    )
    assert (sigma[3] * limit) ** 2 == pytest.approx(unit * limit**2, rel=1e-12)


def test_remark_the_best_noisy_dual_value_is_kept() -> None:
    """The Remark: of all prices, those whose noisy c·λ + Σ g is the smallest are kept."""
    agreement = agree(
        (10.0,),
        rounds=4,
        mode="exact",
        prices={"step": "constant", "step_size": 0.1, "start": {"r0": 1.0}},
        privacy={"share_objective": True, "objective_limit": 128.0},
    )
    # Excess of a whole capacity in each round: λ = 1, 2, 3, 4 and then 5, which has no value.
    # Dual values 10·λ + Σ g: 10 + 96, 20 + 64, 30 + 80, 40 + 44.
    rounds = [
        [[TICKS, objective * TICKS // 128] for objective in objectives]
        for objectives in ((64, 32), (96, -32), (40, 40), (22, 22))
    ]
    outcome = outcome_of(agreement, rounds)
    assert outcome.last_prices.tolist() == [5.0]
    assert outcome.best_dual is not None
    assert outcome.best_dual[0] == 84.0
    assert outcome.best_dual[1].tolist() == [2.0]


def test_remark_without_objectives_no_price_is_known_to_be_best() -> None:
    """The Remark: if only s̃ is shared, there is no dual value."""
    agreement = agree((10.0,), mode="exact", prices={"step": "constant", "step_size": 0.1})
    assert outcome_of(agreement, [[[TICKS], [TICKS]]]).best_dual is None
