"""The prices of the step `ball`: how far from the worth they can get."""

import numpy as np
import pytest

from protocol.agreement.parse import from_table
from protocol.pricing.ball_rule import BallRule
from scripts.lab.common.agreements import players, table


@pytest.mark.parametrize(("asked", "last"), [(1.9, 100.0), (0.1, 1.0 / 20.0)])
def test_prices_end_at_their_limits(asked: float, last: float) -> None:
    """Where all ask for too much at every price, prices rise to 100 worths; else they fall to 1/20.

    Nothing is lost at the limit: the next total in the other direction moves prices away from it.
    """
    worth = 50.0
    terms = table(
        session="limits",
        mode="private",
        reveal="totals",
        rounds=60,
        capacity=np.array([10.0]),
        share=np.full((100, 1), 0.02),
        members=players(100),
        worth=worth,
        privacy={"epsilon": 16.0, "delta": 0.001},
        rehearsal=True,
    )
    agreement = from_table(terms)
    rule = BallRule(agreement)
    prices = rule.first
    totals = np.array([int(asked * agreement.ticks)])
    for number in range(59):
        prices = rule.next(prices, number, totals)
    assert prices.money.tolist() == [worth * 100.0 if last > 1.0 else worth / 20.0]
    back = rule.next(prices, 59, 2 * agreement.ticks - totals)
    assert (back.money < prices.money).all() if last > 1.0 else (back.money > prices.money).all()
