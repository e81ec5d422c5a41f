"""The prices of the step `ball`: how far from the worth they can get."""

import numpy as np
import pytest

from protocol.pricing.ball_rule import BallRule
from tests.protocol.privacy.test_ball import equal


@pytest.mark.parametrize(("asked", "last"), [(1.9, 100.0), (0.1, 1.0 / 20.0)])
def test_prices_end_at_their_limits(asked: float, last: float) -> None:
    """Where all ask for too much at every price, prices rise to 100 worths; else they fall to 1/20.

    Nothing is lost at the limit: the next total in the other direction moves prices away from it.
    """
    agreement = equal(100, resources=1, rounds=60, epsilon=16.0)
    rule, worth = BallRule(agreement), 50.0
    prices = rule.first
    totals = np.array([int(asked * agreement.ticks)])
    for number in range(59):
        prices = rule.next(prices, number, totals)
    assert prices.money.tolist() == [worth * 100.0 if last > 1.0 else worth / 20.0]
    back = rule.next(prices, 59, 2 * agreement.ticks - totals)
    assert (back.money < prices.money).all() if last > 1.0 else (back.money > prices.money).all()
