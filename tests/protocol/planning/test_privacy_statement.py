"""The privacy statement is true for payments, quotas and guesses."""

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Ticks
from protocol.outcome.allocation_rule import AllocationRule, noisy_rule
from protocol.outcome.private_quota import Allocation, allocate
from protocol.planning.privacy_statement import (
    at_most,
    by_shares,
    in_guesses,
    payment_cost,
    plain,
    session_cost,
    statement,
    unprotected,
)
from protocol.planning.verdict import plan_figures
from protocol.privacy.accountant import IntegerNoiseCost, PrivacyCost, rho
from protocol.privacy.calibration import Calibration
from protocol.report.terminal import plan_text
from tests.reference.accountant import delta
from tests.support.builders import make_agreement

DELTA = 1e-3
PRICES = np.array([3.0])


def crowd(count: int, epsilon: float | None, **more: Any) -> Agreement:
    """One resource, members with shares of 2/K."""
    terms: dict[str, Any] = {"prices": {}}
    if epsilon is not None:
        terms = {"mode": "private", "privacy": {"epsilon": epsilon, "delta": DELTA}}
        terms["prices"] = {"step": "worth", "start": "worth"}
    terms |= {
        "rounds": 50,
        "reveal": "totals",
        "resource": [{"name": "hours", "capacity": 10.0, "worth": 30.0}],
        "member": [{"name": f"p{k}", "share": 2.0 / count} for k in range(count)],
    }
    return make_agreement(**terms | more)


@pytest.mark.parametrize(("count", "epsilon", "stated"), [(10, 4.0, 17.2), (100, 1.0, 18.7)])
def test_a_payment_has_its_own_epsilon(count: int, epsilon: float, stated: float) -> None:
    """The noise of one member, summed tick by tick, gives that ε and hardly less."""
    agreement = crowd(count, epsilon)
    found = plan_figures(agreement)["totals"]["payment_epsilon"]
    assert found == pytest.approx(stated, abs=0.05)
    own = float(Calibration(agreement).scales(quantities(agreement).share_ticks)[0, 0])
    numbers = [(int(quantities(agreement).share_ticks[0, 0]), own)]
    assert delta(numbers, agreement.rounds, found) <= DELTA
    assert delta(numbers, agreement.rounds, 0.995 * found) > DELTA
    assert delta(numbers, agreement.rounds, epsilon) > 0.2, "the agreed one does not cover it"
    for text in (plan_text(agreement, plan_figures(agreement)), " ".join(unprotected(agreement))):
        assert f"{stated:g} instead of {epsilon:g}" in text


def settled(
    agreement: Agreement, rng: np.random.Generator, *, everything: bool
) -> tuple[AllocationRule, Ticks, Allocation]:
    """One session of a member that demands all or nothing, among others."""
    T, (K, m) = agreement.rounds, quantities(agreement).share.shape
    caps, sigma = (
        quantities(agreement).share_ticks,
        Calibration(agreement).scales(quantities(agreement).share_ticks),
    )
    asked = np.broadcast_to(caps // 2, (T, K, m)).copy()
    asked[:, 0] = caps[0] if everything else 0
    unmasked_releases = asked + np.rint(rng.normal(size=(T, K, m)) * sigma).astype(np.int64)
    totals = unmasked_releases.sum(axis=1)
    rule = noisy_rule(agreement, totals)
    own = allocate(
        agreement,
        rule,
        0,
        demands=asked[:, 0],
        unmasked=unmasked_releases[:, 0],
        totals=totals,
        prices=PRICES,
    )
    return rule, totals, own


def guess_from_payment(
    agreement: Agreement, rule: AllocationRule, totals: Ticks, payment: float
) -> float:
    """What a bank can compute from a payment and the public totals: the member's average."""
    N, weights = agreement.ticks, rule.weights
    total = Fraction(sum(w * t for w, t in zip(weights, totals[:, 0].tolist(), strict=True)))
    used = rule.scale[0] * total / sum(weights) + rule.pro_rata[0] * int(
        quantities(agreement).share_ticks.sum()
    )
    due = Fraction(payment) * N / Fraction(float(PRICES[0] * quantities(agreement).capacity[0]))
    brought = Fraction(int(endowment(agreement)[0, 0]), N) * used
    bought = due + brought - rule.pro_rata[0] * int(quantities(agreement).share_ticks[0, 0])
    return float(bought / rule.scale[0])


def test_a_payment_reveals_no_more_than_stated() -> None:
    """Guesses from payments beat the agreed ε, but not the stated one."""
    agreement, rng, right, times = crowd(10, 4.0), np.random.default_rng(5), 0, 1_500
    paid = payment_cost(agreement)
    assert paid is not None
    for number in range(times):
        everything = bool(number % 2)
        rule, totals, own = settled(agreement, rng, everything=everything)
        guess = (
            guess_from_payment(agreement, rule, totals, own.payment)
            > quantities(agreement).share_ticks[0, 0] / 2
        )
        right += guess == everything
    spare = 5.0 * math.sqrt(0.25 / times)
    assert right / times > session_cost(agreement).guessed + spare
    assert right / times < paid.guessed + spare


def test_a_quota_reveals_the_demand_without_noise() -> None:
    """It reveals the average demand to a tick, whatever the noise was."""
    agreement, rng = crowd(50, 4.0), np.random.default_rng(6)
    cap = int(quantities(agreement).share_ticks[0, 0])
    for everything in (False, True):
        rule, _, own = settled(agreement, rng, everything=everything)
        demand = (int(own.quota[0]) - rule.pro_rata[0] * cap) / rule.scale[0]
        assert abs(demand - (cap if everything else 0)) <= 1 / rule.scale[0]
    text = " ".join(unprotected(agreement))
    assert "a company’s quota follows from its own demands without noise" in text


def test_pro_rata_quotas_reveal_nothing_more() -> None:
    """With much noise, quota and payment do not depend on the demands."""
    agreement = crowd(5, 1.0)
    assert by_shares(agreement)
    assert payment_cost(agreement) is None
    seen = []
    for everything in (False, True):
        rule, _, own = settled(agreement, np.random.default_rng(7), everything=everything)
        seen.append((own.quota.tolist(), own.payment))
        assert rule.scale == (Fraction(0),)
    assert seen[0] == seen[1]
    assert "Quotas and payments follow from public numbers" in " ".join(unprotected(agreement))
    assert plan_figures(agreement)["totals"]["payment_epsilon"] == 1.0
    assert "payment nothing more" in plan_text(agreement, plan_figures(agreement))


@pytest.mark.parametrize("accountant", ["exact", "paper"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_guesses_are_those_of_the_noise(epsilon: float, accountant: str) -> None:
    """The figure is Φ(μ/2), which the summed discrete Gaussian confirms."""
    privacy = {"epsilon": epsilon, "delta": DELTA, "accountant": accountant}
    agreement = crowd(4, epsilon, reveal="each", privacy=privacy)
    guessed = session_cost(agreement).guessed
    sigma = float(Calibration(agreement).scales(quantities(agreement).share_ticks)[0, 0])
    cap = int(quantities(agreement).share_ticks[0, 0])
    mu = math.sqrt(agreement.rounds) * cap / sigma
    assert guessed == pytest.approx(NormalDist().cdf(mu / 2.0), rel=1e-6)
    true = 0.5 + 0.5 * delta([(cap, sigma)], agreement.rounds, 0.0)
    assert true <= guessed + 1e-9
    assert guessed <= 1.001 * true
    if accountant == "paper":
        assert mu == pytest.approx(math.sqrt(2.0 * rho(epsilon=epsilon, delta=DELTA)))
    assert f"at most {in_guesses(guessed)}" in plain(agreement)
    assert f"at most          {in_guesses(guessed)} times" in plan_text(
        agreement, plan_figures(agreement)
    )


def test_guesses_with_coarse_ticks_and_without_noise() -> None:
    """Pinsker's bound with coarse ticks, certainty without noise."""
    coarse = PrivacyCost(0.04, IntegerNoiseCost(reserve=math.inf))
    assert coarse.guessed == pytest.approx(0.55)
    assert PrivacyCost(math.inf).guessed == 1.0
    assert PrivacyCost().guessed == 0.5
    for d, sigma in ((1, 0.4), (1, 0.7), (2, 1.1)):
        spent = PrivacyCost((d / sigma) ** 2, IntegerNoiseCost(reserve=math.inf))
        true = 0.5 + 0.5 * delta([(d, sigma)], 1, 0.0)
        assert true <= spent.guessed


def test_figures_are_rounded_to_the_safe_side() -> None:
    """Neither a number of guesses nor an ε is below the true one."""
    assert in_guesses(0.7201) == "73 of 100"
    assert in_guesses(0.5) == "50 of 100"
    assert in_guesses(1.0) == "100 of 100"
    assert at_most(17.201) == "17.3"
    assert at_most(4.0) == "4"


@pytest.mark.parametrize("count", [3, 8])
def test_totals_without_noise_are_no_promise(count: int) -> None:
    """Every text says that totals can reveal a company's demands."""
    agreement = crowd(count, None)
    figures = plan_figures(agreement)
    for text in (plain(agreement), figures["verdict"], statement(agreement)):
        assert "can reveal" in text
        assert "no one can read" not in text.lower()
        assert "nothing can be read" not in text.lower()
    assert ("With three companies" in plain(agreement)) == (count == 3)
    assert "that may reveal much about one of them" in plan_text(agreement, figures)
    assert "follow from its exact demands" in " ".join(unprotected(agreement))


def test_quotas_and_payments_of_readable_releases_cost_nothing_more() -> None:
    """They follow from noisy numbers; a rehearsal states nothing."""
    agreement = crowd(4, 1.0, reveal="each")
    assert payment_cost(agreement) is None
    assert "Prices, quotas and payments follow from the noisy numbers alone" in " ".join(
        unprotected(agreement)
    )
    rehearsed = replace(crowd(10, 4.0), rehearsal=True)
    assert unprotected(rehearsed) == []
    assert "no guarantee, as in all of a rehearsal" in plan_text(rehearsed, plan_figures(rehearsed))
