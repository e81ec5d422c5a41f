"""Whether the members of an exact session trade: decided from public numbers, alike everywhere."""

import json
import math
from typing import Any

import numpy as np
import pytest

from party.model.company_model import CompanyModel, dense
from protocol.agreement.parse import from_table
from protocol.errors import BadAgreement
from protocol.outcome.outcome import Outcome
from protocol.outcome.trade import EXCESS_LIMIT, Obstacle
from protocol.report.public import public_page
from protocol.report.terminal import audit_text, outcome_figures
from protocol.report.trade import why_no_trade
from scripts.lab.common.instances import Instance, draw
from tests.reference.make_trade_vectors import FILE
from tests.support.exact_sessions import (
    Figures,
    agreed,
    allocations,
    play,
    problems_of,
    small_session,
)
from tests.support.outcomes import outcome_of

VECTORS = json.loads(FILE.read_text())


def session(instance: Instance, **terms: Any) -> Outcome:
    agreement = agreed(instance, **terms)
    return play(agreement, problems_of(agreement, instance))


def company(*, needs: float = 0.0, worth: float = 1.0, most: float = 10.0) -> CompanyModel:
    """A company that earns `worth` for each unit, needs some and can use `most`."""
    return dense(
        A=np.array([[1.0]]),
        B=np.zeros((0, 1)),
        u=np.array([worth]),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.array([needs]),
        upper=np.array([most]),
    )


def companies(*data: CompanyModel, capacity: float = 10.0) -> Instance:
    return Instance(np.array([capacity]), np.ones((len(data), 1)), data)


@pytest.mark.parametrize("name", VECTORS)
def test_every_implementation_decides_as_recorded(name: str) -> None:
    """Obstacles, quotas and payments are those of the vectors, made by the reference."""
    case = VECTORS[name]
    found = outcome_of(from_table(case["agreement"]), case["rounds"])
    assert found.trade is not None
    assert list(found.trade.obstacles) == case["obstacles"]
    assert found.quota.tolist() == case["quota"]
    assert [float(payment).hex() for payment in found.payments] == case["payments"]


@pytest.mark.parametrize("reveal", ["each", "totals"])
def test_without_enough_proof_every_member_keeps_its_endowment(reveal: str) -> None:
    """After few rounds quotas are endowments and payments are exactly 0."""
    found = session(draw(4, parties=3), rounds=4, reveal=reveal, endowment=[0.2, 0.3, 0.5])
    assert found.trade is not None
    assert Obstacle.CERTIFICATE in found.trade.obstacles
    given = allocations(found)
    assert [own.payment for own in given] == [0.0] * 3
    assert np.array([own.quota for own in given]).tolist() == found.endowment.tolist()
    assert found.endowment.sum(axis=0).tolist() == [found.agreement.ticks] * 5


@pytest.mark.parametrize("reveal", ["each", "totals"])
def test_with_enough_rounds_the_same_companies_trade(reveal: str) -> None:
    """There is no obstacle, and quotas differ from endowments."""
    found = session(draw(4, parties=3), reveal=reveal, endowment=[0.2, 0.3, 0.5], worth=100.0)
    assert not found.no_trade
    assert (np.array([own.quota for own in allocations(found)]) != found.endowment).any()


def test_needs_that_cannot_be_met_together_end_without_trade() -> None:
    """Payments are 0, and the text names the resource and by how much it is short."""
    found = session(companies(company(needs=7.0), company(needs=6.0), company()))
    assert found.trade is not None
    assert {Obstacle.EXCESS, Obstacle.PRICES} <= set(found.trade.obstacles)
    assert found.payments.tolist() == [0.0] * 3
    assert found.trade.excess[0] == pytest.approx(0.3, abs=0.01)
    for text in (audit_text(found), public_page(found)):
        assert "r0 by 30" in text
        assert "cannot be met together" in text


def test_needing_every_unit_is_no_obstacle() -> None:
    """Where averaged demands fit only but for rounding, there is a trade all the same."""
    found = session(companies(company(needs=4.0, worth=2.0), company(needs=6.0), company()))
    assert found.certificate is not None
    assert found.trade is not None
    assert not found.certificate.fits
    assert max(found.trade.excess) < EXCESS_LIMIT
    assert not found.no_trade


def test_free_capacity_is_a_trade() -> None:
    """If nothing is scarce, prices are 0, and each company gets what it asks for."""
    small = [company(most=2.0), company(most=3.0), company(most=4.0)]
    found = session(companies(*small), endowment=[0.8, 0.1, 0.1])
    assert not found.no_trade
    assert found.prices.tolist() == [0.0]
    wanted = (found.agreement.ticks * np.array([0.2, 0.3, 0.4])).astype(np.int64)
    assert (found.quota[:, 0] >= wanted - 1).all()


def test_the_text_says_what_would_help() -> None:
    """More rounds or a worth, where the certificate is the obstacle."""
    found = session(draw(4, parties=3), rounds=4)
    texts = why_no_trade(found.agreement, outcome_figures(found))
    assert texts[0].startswith("There is no trade")
    assert any("More rounds would help" in text for text in texts)
    assert not why_no_trade(
        found.agreement, outcome_figures(session(draw(4, parties=3), worth=100.0))
    )


def test_a_limit_below_the_tolerance_is_refused() -> None:
    """The rounds would stop where no trade is allowed."""
    with pytest.raises(BadAgreement, match=r"prices\.trade_limit is 0\.001, below prices\.toler"):
        agreed(draw(1, parties=3), tolerance=0.01, trade_limit=0.001)
    assert agreed(draw(1, parties=3), tolerance=0.2).pricing.trade_limit == 0.2


def test_small_sessions_keep_every_promise() -> None:
    """Certificates cover losses, payments add up, no company loses: with and without trade."""
    figures = Figures()
    for seed in range(12):
        small_session(seed, figures)
    assert {"trade", "no trade", "fits"} <= set(figures.kinds)
    assert all(math.isfinite(value) for value in figures.worst.values())
