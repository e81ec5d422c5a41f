"""The statements of the paper, by their labels.

Every expected number is computed here from the paper's formula or by hand, never by the code under
test. The best prices, which no party can know, are used only for comparison.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from party.model.best_response import Answer, Subproblem
from party.model.company_model import CompanyModel, dense
from party.release.noise import Noise, SeededGaussian
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TICKS
from protocol.errors import InternalError
from protocol.numeric import Floats, Ticks
from protocol.pricing.rule import PriceRule
from protocol.pricing.subgradient import (
    convergence_gap,
    convergence_step,
    gradient_bound,
    prices_distance,
)
from protocol.privacy.accountant import rho
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import adaptive_caps, first_caps
from protocol.rounds import RoundEngine, numbers
from scripts.lab.common.instances import Instance, central, draw, dual_value
from tests.support.gates import gates, play_rounds
from tests.support.outcomes import outcome_of

BUDGETS = [(0.1, 1e-3), (1.0, 1e-5), (4.0, 1e-3), (100.0, 0.1)]
CAPACITY = (12.5, 3.0, 40.0)
PAPER = {"step": "theorem"}
STEPS: list[dict[str, Any]] = [{"step": "center"}, {"step": "sqrt", "step_size": 0.1}]


def agree(capacity: Sequence[float], parties: int = 2, rounds: int = 10, **more: Any) -> Agreement:
    """An agreement with every share 1; `mode`, `privacy`, `prices` and `worth` may be given."""
    worth = more.pop("worth", 100.0)
    mode = more.pop("mode", "private")
    privacy = {"epsilon": 1.0, "delta": 1e-3, "accountant": "paper"} if mode != "exact" else {}
    return from_table(
        {
            "session": "paper",
            "mode": mode,
            "rounds": rounds,
            "rehearsal": True,
            "privacy": privacy | more.pop("privacy", {}),
            "prices": more.pop("prices", {}),
            "resource": [
                {"name": f"r{j}", "capacity": c, "worth": worth} for j, c in enumerate(capacity)
            ],
            "member": [
                {"name": f"p{k}", "signing_key": hashlib.sha256(bytes([k])).hexdigest()}
                for k in range(parties)
            ],
            **more,
        }
    )


def matrices(data: CompanyModel) -> tuple[Floats, Floats]:
    """A and B of a data set, dense."""
    full = np.zeros((data.resources + data.private_rows, data.columns))
    columns = np.repeat(np.arange(data.columns), np.diff(data.start))
    full[data.index, columns] = data.value
    return full[: data.resources], full[data.resources :]


def exact_rho(epsilon: float, delta: float) -> float:
    """ρ(ε, δ) from the condition ρ + 2√(ρ L) = ε of thm:zCDPtoLDP, by bisection on fractions."""
    log = Fraction(math.log(1.0 / delta))
    low, high = Fraction(0), Fraction(epsilon)
    for _ in range(120):
        middle = (low + high) / 2
        if Fraction(epsilon) > middle and 4 * middle * log < (Fraction(epsilon) - middle) ** 2:
            low = middle
        else:
            high = middle
    return float(low)


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


# Error bounds


@pytest.mark.parametrize(("parties", "rounds"), [(2, 1), (5, 150), (10, 150)])
def test_eq_b_bound(parties: int, rounds: int) -> None:
    """eq: B bound: B = ‖c‖·√(TmK/2ρ + (K−1)²)."""
    noise = rounds * len(CAPACITY) * parties / (2 * exact_rho(1.0, 1e-3))
    expected = math.hypot(*CAPACITY) * math.sqrt(noise + (parties - 1) ** 2)
    assert bound_of(agree(CAPACITY, parties, rounds, prices=PAPER)) == pytest.approx(expected)
    # In money for a whole capacity every c is 1.
    expected = math.sqrt(3) * math.sqrt(noise + (parties - 1) ** 2)
    assert bound_of(agree(CAPACITY, parties, rounds)) == pytest.approx(expected, rel=1e-12)


def bound_of(agreement: Agreement) -> float:
    return gradient_bound(Calibration(agreement))


@pytest.mark.parametrize("prices", [PAPER, {}], ids=["raw", "money"])
def test_eq_expecnoisy_covers_every_demand_within_smaller_shares(prices: dict[str, Any]) -> None:
    """eq:expecNoisy with shares: ‖c − Σ s‖² plus the noise is at most B² for any s in the caps."""
    rng, shares = np.random.default_rng(2), [0.9, 0.7, 0.8]
    members = [{"name": f"p{k}", "share": share} for k, share in enumerate(shares)]
    calibration = Calibration(agree(CAPACITY, member=members, prices=prices))
    c = np.array(CAPACITY) if prices else np.ones(3)
    variance = (
        (calibration.scales(quantities(calibration.agreement).share_ticks) * c / TICKS) ** 2
    ).sum()
    corners = [np.zeros((3, 3)), np.ones((3, 3)), *rng.uniform(0.0, 1.0, (200, 3, 3))]
    for part in corners:
        s = part * np.array(shares)[:, None] * c
        assert ((c - s.sum(axis=0)) ** 2).sum() + variance <= gradient_bound(calibration) ** 2 * (
            1 + 1e-9
        )


def test_asmp_bound_on_lambda_uses_the_public_worth() -> None:
    """asmp: bound on lambda: M is the norm of worth over capacity, or of worth in money."""
    for start in ("zero", "worth"):
        raw = agree((10.0, 20.0), worth=60.0, prices={"step": "theorem", "start": start})
        assert prices_distance(raw) == pytest.approx(math.hypot(6.0, 3.0))
        money = agree((10.0, 20.0), worth=60.0, prices={"start": start})
        assert prices_distance(money) == pytest.approx(math.hypot(60.0, 60.0))


def test_thm_convergence_formulas() -> None:
    """thm:convergence: ν = M/(B√T) and the bound MB/√T."""
    assert convergence_step(M=3.0, B=4.0, T=25) == pytest.approx(0.15, rel=1e-15)
    assert convergence_gap(M=3.0, B=4.0, T=25) == pytest.approx(2.4, rel=1e-15)


def test_thm_convergence_step_is_the_default_where_there_is_noise() -> None:
    """thm:convergence: the default step is M/(B√T) in money, to 16 bits, in every round."""
    T, K = 150, 5
    noise = T * 3 * K / (2 * exact_rho(1.0, 1e-3)) + (K - 1) ** 2
    raw, money = agree(CAPACITY, K, T, prices=PAPER), agree(CAPACITY, K, T)
    assert (raw.pricing.step, money.pricing.step) == ("theorem", "worth")
    worth = [100.0] * 3
    for agreement, c in ((raw, CAPACITY), (money, (1.0, 1.0, 1.0))):
        rule = PriceRule(agreement)
        M = math.hypot(*(w / length for w, length in zip(worth, c, strict=True)))
        step = M / (math.hypot(*c) * math.sqrt(noise) * math.sqrt(T))
        assert rule.step_size(0) == pytest.approx(step, rel=2**-15)
        assert rule.step_size(T - 1) == rule.step_size(0)
        # What one whole capacity too much raises the price of a unit by.
        moved = rule.next(rule.first, np.full(3, 2 * TICKS)).current
        size = rule.step_size(0) * (
            np.array(CAPACITY) if agreement is raw else 1 / np.array(CAPACITY)
        )
        assert moved == pytest.approx(size, rel=1e-15)


def small_instance(resources: int, parties: int) -> Instance:
    """A problem so tight that prices of 0 are far from the best ones."""
    rng = np.random.default_rng([resources, parties])

    def data() -> CompanyModel:
        return dense(
            A=rng.uniform(0.5, 2.0, (resources, 3)),
            B=np.ones((1, 3)),
            u=rng.uniform(5.0, 10.0, 3),
            row_lower=np.array([-math.inf]),
            row_upper=np.array([40.0]),
            lower=np.zeros(3),
            upper=np.full(3, 40.0),
        )

    capacity = rng.uniform(10.0, 20.0, resources)
    return Instance(capacity, np.ones((parties, resources)), tuple(data() for _ in range(parties)))


def gaps_and_squares(instance: Instance, agreement: Agreement, runs: int) -> tuple[Floats, Floats]:
    """G(0) … G(T−1), averaged over runs, and the squared noisy subgradients of each run."""
    best, measured = central(instance).utility, instance.subproblems()
    gaps, squares = np.zeros((runs, agreement.rounds)), np.zeros((runs, agreement.rounds))
    for run in range(runs):
        path, released = play_rounds(agreement, instance.subproblems(), SeededGaussian(run))
        for t in range(agreement.rounds):
            gaps[run, t] = dual_value(instance, measured, path[t].prices.current) - best
            total = released[t][:, : len(agreement.resources)].sum(axis=0) / TICKS
            squares[run, t] = (((1.0 - total) * instance.capacity) ** 2).sum()
    return gaps.mean(axis=0), squares


@pytest.mark.parametrize(
    ("resources", "parties", "nonnegative"),
    [(1, 2, False), (2, 2, False), (2, 3, False), (2, 2, True)],
)
def test_thm_convergence_holds_in_simulation(
    resources: int, parties: int, nonnegative: bool
) -> None:
    """thm:convergence: min_t E[G(t)] ≤ MB/√T, which the start alone does not meet."""
    # Projection to λ ≥ 0 keeps the theorem: some best price is never negative, and projecting
    # onto a convex set that holds it takes no point further away from it.
    T, instance = 40, small_instance(resources, parties)
    capacity, privacy = instance.capacity.tolist(), {"epsilon": 100.0, "delta": 0.1}
    M = float(np.linalg.norm(central(instance).prices))
    noise = resources * T * parties / (2 * exact_rho(100.0, 0.1))
    B = float(np.linalg.norm(capacity)) * math.sqrt(noise + (parties - 1) ** 2)
    step = {"step": "constant", "step_size": M / (B * math.sqrt(T)), "nonnegative": nonnegative}
    agreement = agree(capacity, parties, T, privacy=privacy, prices=step)
    gaps, squares = gaps_and_squares(instance, agreement, runs=30)
    assert gaps[0] > M * B / math.sqrt(T)
    assert gaps.min() <= M * B / math.sqrt(T)
    assert squares.mean() <= 1.02 * B * B


def momentum_gap(*, M: float, B: float, T: int, step: float) -> float:
    """thm:convergence_tight: min_t E[G(t)] ≤ M²/(2Tν) + νB²/2 for a step in its range."""
    return M * M / (2.0 * T * step) + step * B * B / 2.0


def momentum_step_limit(*, M: float, B: float, T: int, momentum: float, first_gap: float) -> float:
    """The largest step in the range of thm:convergence_tight.

    `first_gap` is G⁰ ≥ 0, the gap at the start: a private number, so that this limit must not
    choose the step of a session.
    """
    root = math.sqrt(first_gap**2 + (1.0 - momentum) * B * B * T * M * M)
    # The same as (root − G⁰) / (B²T), without the cancellation for a large G⁰.
    return (1.0 - momentum) * M * M / (root + first_gap)


def test_thm_convergence_tight_holds_in_simulation() -> None:
    """thm:convergence_tight: with momentum and a step in its range the bound holds on average."""
    T, gamma, instance = 40, 0.3, small_instance(2, 2)
    capacity, privacy = instance.capacity.tolist(), {"epsilon": 100.0, "delta": 0.1}
    M = float(np.linalg.norm(central(instance).prices))
    noise = 2 * T * 2 / (2 * exact_rho(100.0, 0.1))
    B = float(np.linalg.norm(capacity)) * math.sqrt(noise + 1)
    start = dual_value(instance, instance.subproblems(), np.zeros(2)) - central(instance).utility
    step = momentum_step_limit(M=M, B=B, T=T, momentum=gamma, first_gap=start)
    prices = {"step": "constant", "step_size": step, "momentum": gamma, "nonnegative": False}
    agreement = agree(capacity, 2, T, privacy=privacy, prices=prices)
    gaps, _ = gaps_and_squares(instance, agreement, runs=30)
    bound = momentum_gap(M=M, B=B, T=T, step=step)
    assert gaps[0] > bound
    assert gaps.min() <= bound


positive = st.floats(1e-2, 1e3)


@given(
    M=positive,
    B=positive,
    T=st.integers(1, 2000),
    gamma=st.floats(0.01, 0.99),
    start=st.floats(0.0, 1e6),
    part=st.floats(1e-3, 1.0),
)
@example(M=1.0, B=1.0, T=1, gamma=0.01, start=0.0, part=1.0)
@example(M=1e-2, B=1e3, T=2000, gamma=0.99, start=1e6, part=1e-3)
@example(M=1e3, B=1e-2, T=1, gamma=0.99, start=0.0, part=1.0)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_thm_convergence_tight_step_range(
    M: float, B: float, T: int, gamma: float, start: float, part: float
) -> None:
    """thm:convergence_tight: in the step range, and not beyond, the proof's bound is tighter."""

    def unsimplified(step: float) -> float:
        momentum = 2 * step * gamma / (1 - gamma) * start
        return ((1 - gamma) * M * M + momentum + T * (step * B) ** 2 / (1 - gamma)) / (2 * T * step)

    limit = momentum_step_limit(M=M, B=B, T=T, momentum=gamma, first_gap=start)
    within, beyond = part * limit, 1.01 * limit
    assert unsimplified(within) <= momentum_gap(M=M, B=B, T=T, step=within) * (1 + 1e-12)
    assert unsimplified(limit) == pytest.approx(momentum_gap(M=M, B=B, T=T, step=limit), rel=1e-9)
    assert unsimplified(beyond) > momentum_gap(M=M, B=B, T=T, step=beyond)


@given(M=positive, B=positive, T=st.integers(1, 2000))
@example(M=1e-2, B=1e3, T=1)
@example(M=1e3, B=1e-2, T=2000)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_thm_convergence_tight_contains_thm_convergence(M: float, B: float, T: int) -> None:
    """thm:convergence_tight with γ = 0 and G(0) = 0 ends at M/(B√T) and gives MB/√T there."""
    limit = momentum_step_limit(M=M, B=B, T=T, momentum=0.0, first_gap=0.0)
    assert convergence_step(M=M, B=B, T=T) == pytest.approx(limit, rel=1e-12)
    bound = momentum_gap(M=M, B=B, T=T, step=limit)
    assert convergence_gap(M=M, B=B, T=T) == pytest.approx(bound, rel=1e-12)


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
