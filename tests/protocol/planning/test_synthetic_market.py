"""Invented companies: drawn from public numbers, with a placebo beside them."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.planning.synthetic_market import MOST_ROUNDS, Companies, expected, without_noise
from protocol.planning.verdict import plan_figures
from protocol.report.plan_trials import variants
from tests.support.builders import make_agreement, public_key


def agreed(mode: str, *, epsilon: float = 1.0, members: int = 4, **more: Any) -> Agreement:
    """An agreement with worths; each member may claim everything."""
    names = [f"m{k}" for k in range(members)]
    return make_agreement(
        **{
            "mode": mode,
            "rounds": 100,
            "prices": {"start": "worth"},
            "privacy": {} if mode == "exact" else {"epsilon": epsilon, "delta": 1e-3},
            "member": [{"name": n, "signing_key": public_key(n).hex()} for n in names],
            "resource": [
                {"name": "hours", "capacity": 120.0, "worth": 9000.0},
                {"name": "docks", "capacity": 16.0, "worth": 4000.0},
            ],
        }
        | more
    )


def test_without_noise_nearly_all_of_the_gain_is_kept() -> None:
    """Every company is better off, and the placebo gains little."""
    found = expected(agreed("exact"), sessions=6)
    assert found is not None
    assert found.kept > 0.999
    assert found.better == 1.0
    assert found.placebo_kept < 0.2
    assert 0.0 < found.gain <= found.possible


def test_masked_releases_keep_the_gain_without_noise() -> None:
    """Private quotas keep nearly all of the possible gain."""
    found = expected(agreed("exact", reveal="totals"), sessions=4)
    assert found is not None
    assert found.kept > 0.999
    assert found.better == 1.0


def test_masked_releases_keep_more_of_the_gain() -> None:
    """For one budget, totals have less noise than single releases."""
    kept = {}
    for reveal in ("each", "totals"):
        found = expected(agreed("private", epsilon=32.0, members=12, reveal=reveal), sessions=6)
        assert found is not None
        kept[reveal] = found.kept
    assert kept["totals"] > kept["each"]


def test_noise_that_swamps_the_data_brings_no_more_than_a_placebo() -> None:
    """With a small budget and few companies hardly any gain is kept."""
    found = expected(agreed("private", epsilon=0.5), sessions=6)
    assert found is not None
    assert found.kept < 0.1
    assert abs(found.kept - found.placebo_kept) < 0.1


def test_the_figures_follow_from_the_agreement_alone() -> None:
    """The same agreement gives the same figures, other terms give other companies."""
    agreement = agreed("exact")
    assert expected(agreement, sessions=3) == expected(agreement, sessions=3)
    other = replace(agreement, session="another")
    assert expected(agreement, sessions=3) != expected(other, sessions=3)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_invented_plan_beats_the_best(number: int) -> None:
    """No split earns more, and no dual value is below it."""
    agreement = agreed("exact")
    companies = Companies.drawn(agreement, number)
    rng = np.random.default_rng(number)
    for _ in range(20):
        split = rng.dirichlet(np.ones(4), 2).T
        assert companies.earned(split).sum() <= companies.best + 1e-9
    at_cost = [float(y) for y in np.quantile(companies.values, np.linspace(0.0, 1.0, 40))]
    duals = [
        y * 2.0 + (companies.earned(companies.demand(np.full(2, y))).sum())
        - y * companies.demand(np.full(2, y)).sum()
        for y in at_cost
    ]  # fmt: skip
    assert min(duals) >= companies.best - 1e-9


def test_invented_companies_keep_to_their_shares() -> None:
    """No demand is above the share, at any price."""
    members = [
        {"name": n, "signing_key": public_key(n).hex(), "share": share}
        for n, share in (("ada", 0.1), ("ben", 0.7), ("cyd", 0.7))
    ]
    agreement = agreed("exact", member=members)
    companies = Companies.drawn(agreement, 0)
    assert (companies.demand(np.zeros(2)) <= quantities(agreement).share + 1e-12).all()
    assert companies.demand(np.full(2, 1e9)).sum() == 0.0
    assert (np.diff(companies.values, axis=2) <= 0.0).all()


def test_too_many_rounds_are_not_played() -> None:
    """Above the limit there is no figure."""
    assert expected(agreed("private", rounds=MOST_ROUNDS)) is None
    found = expected(agreed("private", rounds=MOST_ROUNDS // 3))
    assert found is not None
    assert found.sessions == 3


@pytest.mark.parametrize("truncate", [False, True])
def test_clipped_sessions_are_played_too(truncate: bool) -> None:
    """Adaptive caps work with and without truncation."""
    privacy = {"epsilon": 8.0, "delta": 1e-3, "truncate": truncate}
    found = expected(agreed("clipped", privacy=privacy, rounds=30), sessions=2)
    assert found is not None
    assert found.rounds == 30


def test_the_exact_agreement_keeps_members_and_resources() -> None:
    """It has no noise and uses the centre rule, and companies trade by it."""
    agreement = agreed("private")
    exact = without_noise(agreement)
    found = expected(exact, sessions=2)
    assert found is not None
    assert found.kept > 0.9
    assert (exact.members, exact.resources) == (agreement.members, agreement.resources)
    assert exact.privacy is None
    assert exact.pricing.step == "center"


@pytest.mark.parametrize("rounds", [100, 1000])
def test_all_variants_use_the_same_companies(rounds: int) -> None:
    """The possible gain is the same in every column of the page."""
    agreement = agreed("private", epsilon=8.0, rounds=rounds)
    tried = [variant.expected for variant in variants(agreement, plan_figures(agreement))]
    assert len(tried) > 1
    assert len({(found.possible, found.sessions) for found in tried if found is not None}) == 1
