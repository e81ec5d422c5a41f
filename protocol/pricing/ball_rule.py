"""The price rule of the step `ball`: how far prices move is what the noise so far allows.

A scalar Kalman filter for each resource estimates the logarithm of the best price. Its gains
follow from the agreement alone. Sums, products and quotients of float64, elementwise and in a
fixed order, so that all machines get the same bits. Never here: a logarithm, private numbers.

Symbols: y money for a whole capacity, a change of log y in a round, P variance of the error of
log y, h fall of the total demand for each unit of log y, M margin.
"""

import math

import numpy as np
from msgspec import Struct

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks, truncate_to_16_bits
from protocol.privacy.ball import Ball, ball

RESPONSE = 0.3
"""h over the reach of all members: how much of it a price change by a factor e moves."""

LARGEST_CHANGE = 0.7
"""Of log y in one round."""

DRIFT = 0.001
"""Added to P in every round: demand is no exact function of the price."""

LARGEST_FALL, LARGEST_RISE = 20.0, 100.0
"""A price is at least the worth over the first and at most the worth times the second. The second
is large: below the right price members ask for more than there is, and all quotas are cut."""

PRIOR = 0.64
"""Standard deviation of log y over the log of `worth_within`."""


class BallPrices(Struct, frozen=True):
    """The prices of a round in money for a whole capacity, and P."""

    money: Floats
    doubt: Floats


class BallRule:
    """From the total of a round to the next prices."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._ball: Ball = ball(agreement)
        worth = quantities(agreement).worth
        self._worth = np.zeros(len(agreement.resources)) if worth is None else worth
        #: By how much the total answers log prices, as expected, and which resources are traded.
        self._response = RESPONSE * self._ball.reach
        self._traded = self._response > 0.0

    @property
    def first(self) -> BallPrices:
        """The agreed first prices, within the range around the worth."""
        start = np.array(self._agreement.pricing.start) * quantities(self._agreement).capacity
        within = PRIOR * math.log(self._agreement.pricing.worth_within or math.e)
        doubt = float(truncate_to_16_bits(within * within))
        return BallPrices(self._limited(start), np.full(len(start), doubt))

    def next(self, prices: BallPrices, round: int, totals: Ticks) -> BallPrices:  # noqa: A002
        """y ← y·(2 + a)/(2 − a) with a = gain·(total − (1 − M)); a price not traded stays."""
        N, T = self._agreement.ticks, self._agreement.rounds
        h = np.where(self._traded, self._response, 1.0)
        noise = self._ball.noise
        # The noise of this round's total, in log y.
        v = noise * noise * (T * (T + 1) / (2.0 * (round + 1))) / (h * h)
        P = prices.doubt
        gain = P / (P + v) / h
        excess = (totals - N).astype(np.float64) / N + self._ball.margin
        a = np.minimum(np.maximum(gain * excess, -LARGEST_CHANGE), LARGEST_CHANGE)
        moved = self._limited(prices.money * (2.0 + a) / (2.0 - a))
        return BallPrices(
            np.where(self._traded, moved, prices.money),
            np.where(self._traded, P * v / (P + v) + DRIFT, P),
        )

    def _limited(self, money: Floats) -> Floats:
        limited: Floats = np.minimum(
            np.maximum(money, self._worth / LARGEST_FALL), self._worth * LARGEST_RISE
        )
        return limited
