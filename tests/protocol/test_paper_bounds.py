"""The error bounds and the convergence theorems of the paper, by their labels.

Every expected number is computed here from the paper's formula or by hand, never by the code under
test. The best prices, which no party can know, are used only for comparison.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from party.model.company_model import CompanyModel, dense
from party.release.noise import SeededGaussian
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TICKS
from protocol.numeric import Floats
from protocol.pricing.rule import PriceRule
from protocol.pricing.subgradient import (
    convergence_gap,
    convergence_step,
    gradient_bound,
    prices_distance,
)
from protocol.privacy.calibration import Calibration
from scripts.lab.common.instances import Instance, central, dual_value
from tests.support.gates import play_rounds
from tests.support.paper_terms import CAPACITY, PAPER, agree, exact_rho


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
