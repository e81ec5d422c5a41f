"""Outcomes of entire sessions: plans always fit, and quotas earn more than a pro rata split."""

import argparse
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from party.model.company_model import CompanyModel
from party.rehearsal.in_process import players, run
from party.settlement.settle import settle
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome, outcome
from scripts.lab.common.agreements import agreement_table, drawn, session_options
from scripts.lab.common.instances import Instance
from scripts.lab.simulate import simulate

pytestmark = pytest.mark.timeout(900)

PARSER = argparse.ArgumentParser()
session_options(PARSER)


def options(**chosen: Any) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(PARSER.parse_args([])), "rehearsal": True, **chosen})


def played(chosen: argparse.Namespace) -> tuple[Instance, Outcome]:
    """A simulated session and its outcome."""
    instance = drawn(chosen)
    agreement = from_table(agreement_table(instance, chosen))
    with players(agreement, instance.subproblems(), chosen.seed) as members:
        run(members)
        known = outcome(agreement, members[0].ledger.transcript())
    assert known.sealed
    return instance, known


def consumption(data: CompanyModel, plan: Floats) -> list[Fraction]:
    """What a plan uses of each resource, exactly, from the stored matrix."""
    total = [Fraction(0)] * data.resources
    for column, value in enumerate(plan.tolist()):
        for entry in range(data.start[column], data.start[column + 1]):
            if data.index[entry] < data.resources:
                total[data.index[entry]] += Fraction(float(data.value[entry])) * Fraction(value)
    return total


def any_session(seed: int) -> argparse.Namespace:
    """Options of a session of any kind, size and noise."""
    rng = random.Random(seed)
    parties = rng.randint(2, 4)
    return options(
        seed=seed,
        parties=parties,
        rounds=rng.randint(1, 5),
        mode=rng.choice(["exact", "private", "private", "clipped"]),
        epsilon=10.0 ** rng.uniform(-3, 2),
        accountant=rng.choice(["exact", "paper"]),
        noise=rng.choice(["component", "norm"]),
        truncate=rng.random() < 0.3,
        start=rng.choice(["zero", "worth"]),
        momentum=rng.choice([0.0, 0.5]),
        share_total=rng.choice([None, 1.0, 1.5, 2.0]),
        demands=rng.random() < 0.5,
    )


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_no_capacity_is_ever_exceeded(first: int) -> None:
    """In 400 sessions with any noise, all plans within quotas together fit exactly."""
    without = 0
    for seed in range(first, first + 100):
        instance, known = played(any_session(seed))
        agreement = known.agreement
        total = [Fraction(0)] * len(agreement.resources)
        for data, member in zip(instance.data, agreement.members, strict=True):
            plan = settle(data, known, member.name).within_quota
            if plan is None:
                without += 1
                continue
            total = [a + b for a, b in zip(total, consumption(data, plan.values), strict=True)]
        for used, capacity in zip(total, quantities(agreement).capacity.tolist(), strict=True):
            assert used <= Fraction(capacity), f"seed {seed}"
    assert without < 200  # of about 300 companies: the test is about those that have a plan


def utilities(seeds: int, **chosen: Any) -> tuple[float, float]:
    """Mean utility in quota and in proportion to shares, over the optimum, K = 10, shares 2/K."""
    rows = [
        simulate(
            options(seed=seed, parties=10, share_total=2.0, demands=False, **chosen), lambda _: None
        )
        for seed in range(1, seeds + 1)
    ]
    assert all(row["quota_plans"] == row["prorata_plans"] == 10 for row in rows)
    quota = np.mean([row["quota_utility"] / row["optimum"] for row in rows])
    equal = np.mean([row["prorata_utility"] / row["optimum"] for row in rows])
    return float(quota), float(equal)


@pytest.mark.parametrize("epsilon", [0.1, 8.0])
def test_quotas_lose_nothing_if_noise_is_large(epsilon: float) -> None:
    """With much noise the quota is worth as much as the pro rata split, to 1 %."""
    quota, equal = utilities(4, epsilon=epsilon)
    assert quota >= 0.99 * equal


def test_quotas_gain_if_noise_is_small() -> None:
    """With ε = 64 the quota earns clearly more than the pro rata split."""
    quota, equal = utilities(4, epsilon=64.0)
    assert quota >= 1.04 * equal


def test_quota_is_nearly_the_optimum_without_noise() -> None:
    """In exact mode quotas earn what one owner of all data could, up to the tolerance."""
    quota, equal = utilities(4, mode="exact")
    assert quota >= 0.9995
    assert equal <= 0.85


@pytest.mark.parametrize("parties", [5, 10])
def test_sixty_rounds_without_noise_reach_the_optimum(parties: int) -> None:
    """Prices are right to 0.001 %, quotas to 0.01 %, all have a plan, and it is certified."""
    rows = [
        simulate(
            options(seed=seed, parties=parties, mode="exact", rounds=60, tolerance=0.0),
            lambda _: None,
        )
        for seed in (1, 2, 3)
    ]
    assert np.mean([row["dual_gap_last"] for row in rows]) <= 1e-5
    assert min(row["quota_utility"] / row["optimum"] for row in rows) >= 0.9999
    assert not any(row["without_plan"] for row in rows)
    for row in rows:
        assert row["dual_gap_weighted"] <= row["certificate"] <= 1e-4


@pytest.mark.parametrize("demands", [True, False])
def test_a_session_ends_by_itself_without_loss(demands: bool) -> None:
    """It is certified to 0.01 % long before the last agreed round, and no company loses."""
    for seed in (1, 2, 3, 4):
        row = simulate(options(seed=seed, mode="exact", demands=demands), lambda _: None)
        assert row["rounds_played"] <= 65
        assert not row["without_plan"]
        lost = row["certificate"] * row["optimum"]
        assert all(gain is None or gain >= -lost for gain in row["gains"])


def test_figures_show_overrun_and_shortfall() -> None:
    """Plans at prices may exceed capacities, and quotas may be too small."""
    figures = simulate(options(seed=3, parties=5, epsilon=1.0, rounds=20), lambda _: None)
    assert figures["price_plan_overrun"] > 0.1
    assert figures["quota_plans"] < 5
    assert 0.0 < figures["shortfall"] < 5.0
    assert math.isfinite(figures["quota_utility"])
