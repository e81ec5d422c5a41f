"""Answers that no company could give as best plans are found; others are not."""

import numpy as np
import pytest
from msgspec.structs import replace

from party.settlement.settle import settle
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome
from protocol.outcome.trade import Obstacle
from protocol.pricing.paths import worst_contradiction
from protocol.report.terminal import outcome_figures
from protocol.report.trade import contradictions, why_no_trade
from scripts.lab.common.instances import draw
from tests.reference.rounds import largest_mean
from tests.support.exact_sessions import (
    Figures,
    agreed,
    allocations,
    honest_session,
    play,
    problems_of,
)
from tests.support.lying_sessions import Liar, Lie, at_random, lying_session


def cap_first(number: int, honest: Floats, most: Floats) -> Floats:
    """All that it may claim for ten rounds, then honest answers."""
    return most if number < 10 else honest


def shaded(number: int, honest: Floats, most: Floats) -> Floats:  # noqa: ARG001
    """A tenth less at every price: as a company that is a tenth smaller would answer."""
    return 0.9 * honest


def beside(lie: Lie, *, reveal: str = "each", demands: bool = True) -> Outcome:
    """A session of five in which the second member lies; `demands`: others need a minimum."""
    instance = draw(1, parties=5, demands=demands)
    agreement = agreed(instance, reveal=reveal, worth=100.0)
    problems = problems_of(agreement, instance)
    public = quantities(agreement)
    problems[1] = Liar(problems[1], lie, (public.share * public.capacity)[1])
    return play(agreement, problems)


@pytest.mark.parametrize("lie", [at_random, cap_first])
def test_a_lie_that_fits_no_company_is_named_with_its_amount(lie: Lie) -> None:
    """The member, an amount above the limit, and the rounds; there is no trade."""
    found = beside(lie)
    assert [one.member for one in found.inconsistencies] == ["party2"]
    [one] = found.inconsistencies
    assert one.amount > 0.01 * found.worth > 0.0
    assert one.amount > 100.0 * one.allowed
    assert len(one.rounds) >= 2
    if lie is cap_first:
        assert min(one.rounds) < 10 <= max(one.rounds)
    assert found.trade is not None
    assert Obstacle.ANSWERS in found.trade.obstacles
    assert found.payments.tolist() == [0.0] * 5
    texts = contradictions(found.agreement, outcome_figures(found)["contradictions"])
    assert "The answers of party2 in the rounds" in texts[0]
    assert ("more than all capacities are worth" in texts[0]) == (one.amount > found.worth)
    refused = " ".join(why_no_trade(found.agreement, outcome_figures(found)))
    assert "cannot be met together" not in refused
    assert ("This shows no shortage" in refused) == bool(found.trade.at_limit)


@pytest.mark.parametrize("lie", [at_random, cap_first])
def test_totals_show_such_a_lie_without_a_name(lie: Lie) -> None:
    """Masks hide whose answers contradict each other, not that they do."""
    found = beside(lie, reveal="totals")
    assert [one.member for one in found.inconsistencies] == [""]
    assert found.trade is not None
    assert Obstacle.ANSWERS in found.trade.obstacles
    assert all(own.payment == 0.0 for own in allocations(found))
    texts = contradictions(found.agreement, outcome_figures(found)["contradictions"])
    assert "of all companies together" in texts[0]
    assert "the agreed pace" not in texts[-1]
    paced = replace(found.agreement, pace_seconds=0.5)
    late = contradictions(paced, outcome_figures(found)["contradictions"])[-1]
    assert "or an answer may have been later than the agreed pace. Masks hide" in late


@pytest.mark.parametrize("reveal", ["each", "totals"])
def test_a_lie_that_fits_another_company_is_not_seen(reveal: str) -> None:
    """Shaded demands are those of a smaller company, and the session ends with a trade."""
    found = beside(shaded, reveal=reveal)
    assert found.inconsistencies == ()
    assert not found.no_trade


def test_honest_members_beside_a_small_lie_lose_no_more_than_proved() -> None:
    """Theorem 9 (d): the certificate, the contradictions and what is allowed bound the loss."""

    def unsteady(number: int, honest: Floats, most: Floats) -> Floats:
        return np.minimum(most, honest * (1.0 + 0.002 * (number % 3)))

    found = beside(unsteady, demands=False)
    assert found.certificate is not None
    assert found.inconsistencies
    assert not found.no_trade
    more = sum(one.amount + one.allowed for one in found.inconsistencies)
    instance, given = draw(1, parties=5, demands=False), allocations(found)
    for k in (0, 2, 3, 4):
        own = settle(instance.data[k], found, found.agreement.members[k].name, given[k])
        assert own.gain is not None
        assert own.gain >= -found.certificate.bound - more - 1e-6


def test_honest_members_lose_no_more_than_proved_beside_ten_lies_in_a_row() -> None:
    """Nor is one of them named."""
    figures = Figures()
    for seed in range(4):
        lying_session(seed, figures)
    assert any("reported, no trade" in kind for kind in figures.kinds)


def test_honest_sessions_of_all_kinds_do_not_contradict_themselves() -> None:
    """Linear, concave and integer companies, also with few rounds, are never reported."""
    figures = Figures()
    for seed in range(15):
        honest_session(seed, figures)
    assert max(figures.worst.values()) < 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_another_method_finds_the_same_worst_contradiction(seed: int) -> None:
    """Karp's method, written for the reference, finds the same largest mean."""
    rng = np.random.default_rng([seed, 719])
    n, m = int(rng.integers(2, 25)), int(rng.integers(1, 4))
    asked, slopes = 10.0 ** rng.uniform(-3.0, 3.0, (n, m)), -rng.uniform(0.0, 1.0, (n, m))
    allowed = rng.uniform(0.0, 0.1, n) * asked.sum(axis=1)
    arcs = [[float(g @ (y - at)) for y in asked] for at, g in zip(asked, slopes, strict=True)]
    arcs = [[arc - less for arc in row] for row, less in zip(arcs, allowed.tolist(), strict=True)]
    found = worst_contradiction(asked, slopes, allowed)
    amount = 0.0 if found is None else found.amount
    assert amount == pytest.approx(max(0.0, largest_mean(arcs)), abs=1e-9 * asked.max())
