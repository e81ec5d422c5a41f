"""The margin of private quotas: enough for the agreed risk, and not more.

Sessions are played as numbers alone: demands that react to earlier totals, noise as agreed.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from protocol.agreement.endowment import prorata
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks
from protocol.outcome.allocation_rule import noisy_rule, weighted_sums
from protocol.outcome.margin import FIRST_ROUND, HEEDED, IGNORED, quota_margin
from protocol.privacy.axes import deviations
from protocol.privacy.ball import ball
from protocol.privacy.calibration import Calibration
from protocol.privacy.collusion import divide_noise
from scripts.lab.common.agreements import players, table
from tests.reference.margin import Margin, noise_parts

RARE = 1e-6
"""How often a statistical test of quotas that are right may fail."""


def agree(
    members: int,
    epsilon: float,
    *,
    resources: int = 3,
    rounds: int = 60,
    shares: float = 2.0,
    **privacy: Any,
) -> Agreement:
    """Equal members. Together they may claim each capacity `shares` times."""
    capacity = np.linspace(10.0, 20.0, resources)
    share = np.full((members, resources), shares / members)
    terms = table(
        session="hedge",
        mode="private",
        rounds=rounds,
        capacity=capacity,
        share=share,
        members=players(members),
        worth=100.0,
        privacy={"epsilon": epsilon, "delta": 1e-3} | privacy,
        prices={"step": "worth"},
    )
    return from_table(terms | {"reveal": "totals"})


def noise_of_total(agreement: Agreement) -> Floats:
    """The noise of one round's total, in ticks."""
    sigma = Calibration(agreement).scales(quantities(agreement).share_ticks)
    together: Floats = np.sqrt((sigma**2).sum(axis=0))
    return together


def quotas(agreement: Agreement, asked: Ticks, totals: Ticks) -> Ticks:
    """Members by resources: the rule, applied to demands (rounds by members by resources)."""
    rule = noisy_rule(agreement, totals)
    shares = quantities(agreement).share_ticks.tolist()
    rows = [
        rule.quota(weighted_sums(rule.weights, asked[:, k]), own) for k, own in enumerate(shares)
    ]
    return np.array(rows, dtype=np.int64)


def test_sessions_exceed_a_capacity_no_more_often_than_agreed() -> None:
    """Demands react to earlier noise and always fill the capacity; 5 % of sessions exceed it."""
    agreement = agree(20, 16.0, overrun=0.05)
    rng = np.random.default_rng(5)
    sigma, T = noise_of_total(agreement), agreement.rounds
    weights = np.array(quota_margin(agreement).weights, dtype=np.float64)
    sessions, over = 20_000, 0
    margin = np.array(quota_margin(agreement).margin) * agreement.ticks
    for _ in range(sessions):
        noise = rng.normal(0.0, sigma, (T, 3))
        react = 0.3 * np.cumsum(noise, axis=0) / np.arange(1, T + 1)[:, None]
        demand = agreement.ticks * (1.0 + 0.2 * rng.random((T, 3)))
        demand[1:] -= react[:-1]
        asked, noisy_total = (weights @ sums / weights.sum() for sums in (demand, demand + noise))
        over += bool((asked > noisy_total + margin).any())
    assert stats.binomtest(over, sessions, 0.05, alternative="greater").pvalue > RARE
    assert over / sessions > 0.04  # the margin is not needlessly large


def test_quotas_fit_every_capacity_if_noise_is_within_the_margin() -> None:
    """Quotas are whole ticks within shares and capacities."""
    agreement = agree(20, 16.0)
    rng = np.random.default_rng(7)
    margin = np.array(quota_margin(agreement).margin) * agreement.ticks
    for lean in (0.999, 0.0, -0.999):
        asked = rng.integers(
            0, quantities(agreement).share_ticks[0, 0] + 1, (agreement.rounds, 20, 3)
        )
        totals = asked.sum(axis=1) - np.floor(lean * margin).astype(np.int64)
        found = quotas(agreement, asked, totals)
        assert (found.sum(axis=0) <= agreement.ticks).all()
        assert (found <= quantities(agreement).share_ticks).all()
        assert (found >= 0).all()
        assert (found.sum(axis=0) > 0.6 * agreement.ticks).all()


def test_quotas_are_pro_rata_if_noise_swamps_demands() -> None:
    """Whatever the demands and totals, each quota is within a tick of the pro rata split."""
    agreement = agree(10, 1.0)
    margin = quota_margin(agreement)
    assert margin.withheld > IGNORED
    assert margin.pro_rata == 1
    rng = np.random.default_rng(3)
    asked = rng.integers(0, quantities(agreement).share_ticks[0, 0] + 1, (agreement.rounds, 10, 3))
    found = quotas(agreement, asked, rng.integers(-(10**9), 10**9, (agreement.rounds, 3)))
    assert (np.abs(found - prorata(agreement)) <= 1).all()
    assert (found.sum(axis=0) <= agreement.ticks).all()


@pytest.mark.parametrize(
    ("members", "epsilon"), [(100, 64.0), (50, 4.0), (20, 16.0), (10, 16.0), (10, 0.1)]
)
def test_quotas_are_blended_by_the_withheld_fraction(members: int, epsilon: float) -> None:
    """Up to HEEDED quotas follow demand, from IGNORED they are pro rata, in between both."""
    margin = quota_margin(agree(members, epsilon, resources=5, rounds=150))
    expected = min(max((margin.withheld - HEEDED) / (IGNORED - HEEDED), 0.0), 1.0)
    assert float(margin.pro_rata) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("risk", "resources"), [(0.05, 1), (0.05, 5), (0.001, 3), (0.5, 2), (1e-6, 40)]
)
def test_deviations_are_those_of_the_normal_distribution(risk: float, resources: int) -> None:
    """All resources together have at most the agreed risk, and hardly less."""
    z = deviations(agree(10, 4.0, resources=resources, overrun=risk))
    together = -math.expm1(resources * math.log1p(-stats.norm.sf(z)))
    assert together <= risk
    assert together == pytest.approx(risk, rel=2e-3)


@pytest.mark.parametrize(("members", "epsilon"), [(10, 4.0), (50, 4.0), (100, 64.0)])
def test_no_weights_lose_less(members: int, epsilon: float) -> None:
    """A general solver finds no better weights for the same objective."""
    agreement = agree(members, epsilon, resources=2, rounds=24)
    z = deviations(agreement)
    sigma = noise_of_total(agreement)[:2] / agreement.ticks
    bound = math.sqrt(2.0 / (24 * float((sigma**2 + 1.0).sum())))
    far = FIRST_ROUND / (1.0 + bound) ** np.arange(24)

    def lost(weights: Floats) -> float:
        return float(z * sigma.max() * np.linalg.norm(weights) + weights @ far)

    found = np.array(quota_margin(agreement).weights, dtype=np.float64)
    best = minimize(
        lost,
        np.full(24, 1.0 / 24),
        bounds=[(0.0, 1.0)] * 24,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert lost(found / found.sum()) <= best.fun * (1.0 + 1e-5)


@pytest.mark.parametrize(
    ("members", "epsilon", "resources", "rounds", "colluders", "shares"),
    [
        (10, 16.0, 5, 150, 1, 2.0),
        (10, 16.0, 2, 40, 1, 9.0),
        (50, 4.0, 5, 150, 1, 2.0),
        (6, 2.0, 1, 7, 4, 2.0),
        (30, 64.0, 2, 400, 12, 2.0),
        (4, 30.0, 3, 1, 2, 2.0),
    ],
)
def test_the_reference_withholds_the_same(
    members: int, epsilon: float, resources: int, rounds: int, colluders: int, shares: float
) -> None:
    """Weights, margins, θ and β of the reference implementation are the same bits."""
    terms: dict[str, Any] = {"rounds": rounds, "resources": resources, "shares": shares}
    agreement = agree(members, epsilon, **terms, colluders=colluders)
    sigma = Calibration(agreement).scales(quantities(agreement).share_ticks) / agreement.ticks
    margin = quota_margin(agreement)
    reference = Margin(
        sigma.T.tolist(),
        quantities(agreement).share.T.tolist(),
        rounds,
        agreement.privacy.overrun,  # type: ignore[union-attr, arg-type]
    )
    assert reference.z == deviations(agreement)
    assert reference.weights == list(margin.weights)
    assert reference.f == list(margin.margin)
    assert reference.h == margin.pro_rata
    totals = np.random.default_rng(2).integers(
        -agreement.ticks, 3 * agreement.ticks, (rounds, resources)
    )
    rule = noisy_rule(agreement, totals)
    for j in range(resources):
        caps = quantities(agreement).share_ticks[:, j].tolist()
        assert reference.theta_beta(totals[:, j].tolist(), agreement.ticks, j, caps) == (
            rule.scale[j],
            rule.pro_rata[j],
        )


@pytest.mark.parametrize("colluders", [1, 2, 5, 6])
def test_the_reference_adds_the_same_noise(colluders: int) -> None:
    """The noise of each member agrees, including ties and members without noise."""
    rng = np.random.default_rng(colluders)
    alone = np.round(rng.uniform(0.0, 3.0, (8, 4)), 0) * rng.uniform(1.0, 2.0, 4)
    found = divide_noise(alone, colluders)
    for j in range(4):
        assert found[:, j].tolist() == pytest.approx(
            noise_parts(alone[:, j].tolist(), colluders), rel=1e-15
        )


@pytest.mark.parametrize(("members", "epsilon", "kept"), [(3, 0.5, 1), (60, 8.0, 0)])
def test_without_trade_members_keep_what_they_brought(
    members: int, epsilon: float, kept: int
) -> None:
    """With the step `ball`, too much noise leaves no trade, and every quota is the endowment."""
    agreement = from_table(
        {
            "session": "ball",
            "mode": "private",
            "reveal": "totals",
            "rounds": 12,
            "privacy": {"epsilon": epsilon, "delta": 0.001},
            "resource": [{"name": "r0", "capacity": 10.0, "worth": 50.0}],
            "member": [{"name": f"p{k}"} for k in range(members)],
        }
    )
    assert ball(agreement).trades == (not kept)
    assert quota_margin(agreement).pro_rata == kept
