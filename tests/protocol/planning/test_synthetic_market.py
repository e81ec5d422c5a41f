"""What invented companies may expect: drawn from public numbers, honest about noise and placebo."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.planning.synthetic_market import MOST_ROUNDS, Companies, expected, without_noise
from protocol.planning.verdict import forecast
from protocol.report.plan_trials import variants
from tests.support.builders import make_agreement, public_key


def agreed(mode: str, *, epsilon: float = 1.0, members: int = 4, **more: Any) -> Agreement:
    """An agreement with worths, of so many members that may claim everything."""
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


def test_without_noise_nearly_all_there_is_to_gain_is_gained() -> None:
    """The exact session earns what is possible and everybody is better off; the placebo not."""
    found = expected(agreed("exact"), sessions=6)
    assert found is not None
    assert found.kept > 0.999
    assert found.better == 1.0
    assert found.placebo_kept < 0.2
    assert 0.0 < found.gain <= found.possible


def test_only_totals_earn_the_same_without_noise() -> None:
    """With quotas that each knows alone, nearly all there is to gain is gained as well."""
    found = expected(agreed("exact", reveal="totals"), sessions=4)
    assert found is not None
    assert found.kept > 0.999
    assert found.better == 1.0


def test_less_noise_in_totals_keeps_more() -> None:
    """For one budget, totals let through more of the gain than single releases do."""
    kept = {}
    for reveal in ("each", "totals"):
        found = expected(agreed("private", epsilon=32.0, members=12, reveal=reveal), sessions=6)
        assert found is not None
        kept[reveal] = found.kept
    assert kept["totals"] > kept["each"]


def test_noise_that_drowns_the_data_brings_no_more_than_a_placebo() -> None:
    """With a small budget and few companies it says that nothing is left."""
    found = expected(agreed("private", epsilon=0.5), sessions=6)
    assert found is not None
    assert found.kept < 0.1
    assert abs(found.kept - found.placebo_kept) < 0.1


def test_the_figures_follow_from_the_agreement_alone() -> None:
    """Two who hold one agreement see the same; other terms give other companies."""
    agreement = agreed("exact")
    assert expected(agreement, sessions=3) == expected(agreement, sessions=3)
    other = replace(agreement, session="another")
    assert expected(agreement, sessions=3) != expected(other, sessions=3)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_invented_plan_beats_the_best(number: int) -> None:
    """The best of all is above every split, and reached where prices clear the market."""
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
    """Nobody asks for more than it may claim, for nothing or at any price."""
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
    """Where it would take too long nothing is said instead of something wrong."""
    assert expected(agreed("private", rounds=MOST_ROUNDS)) is None
    found = expected(agreed("private", rounds=MOST_ROUNDS // 3))
    assert found is not None
    assert found.sessions == 3


@pytest.mark.parametrize("truncate", [False, True])
def test_caps_that_adapt_are_played_too(truncate: bool) -> None:
    """Every mode that an agreement may have is played as it would be."""
    privacy = {"epsilon": 8.0, "delta": 1e-3, "truncate": truncate}
    found = expected(agreed("clipped", privacy=privacy, rounds=30), sessions=2)
    assert found is not None
    assert found.rounds == 30


def test_without_noise_is_the_same_companies() -> None:
    """What is compared with has the capacities, shares and members of the agreement."""
    agreement = agreed("private")
    exact = without_noise(agreement)
    assert (exact.members, exact.resources) == (agreement.members, agreement.resources)
    assert exact.privacy is None
    assert exact.pricing.step == "center"


@pytest.mark.parametrize("rounds", [100, 1000])
def test_all_that_is_compared_is_played_among_the_same_companies(rounds: int) -> None:
    """No column of the page shows more than the most that its companies could earn."""
    agreement = agreed("private", epsilon=8.0, rounds=rounds)
    tried = [variant.expected for variant in variants(agreement, forecast(agreement))]
    assert len(tried) > 1
    assert len({(found.possible, found.sessions) for found in tried if found is not None}) == 1
