"""How prices move: from the exact integer totals of a round to the next prices.

Every operation is elementwise float64 in a fixed order, and every sum of floats is the correctly
rounded one. So all machines get the same bits. Never here: BLAS, float reductions of numpy,
private numbers.

Symbols of the paper: λ prices, c capacities, ν step, γ momentum. The default rules (`center`,
`ball`) and `worth` work in y = λ·c, money for a whole capacity, so that units do not matter.
`constant`, `sqrt` and `theorem` are the paper's and work in λ.
"""

import math

import numpy as np
from msgspec import Struct

from protocol.agreement import schema
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks, truncate_to_16_bits
from protocol.pricing.ball_rule import BallPrices, BallRule
from protocol.pricing.center import Center, CenterRule
from protocol.pricing.cutting_planes import Cuts
from protocol.pricing.subgradient import convergence_step, gradient_bound, prices_distance
from protocol.privacy.calibration import Calibration

PRICE_LIMIT = 1e15
"""No price is above this, since a solver could not take it."""


class Prices(Struct, frozen=True):
    """The prices of a round, and what the price rule remembers."""

    round: int
    #: λ(t)
    current: Floats
    #: λ(t−1), for the momentum
    previous: Floats
    #: The state of the centre rule; None for other rules.
    center: Center | None = None
    #: The state of the step `ball`; None for other rules.
    ball: BallPrices | None = None


class PriceRule:
    """The agreed way from one round's prices to the next."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._pricing = agreement.pricing
        self._start: Floats = np.array(self._pricing.start)
        self._center = _center_rule(agreement) if self._pricing.step == "center" else None
        self._ball = BallRule(agreement) if agreement.ball else None
        self._size = self._pricing.step_size or 0.0
        if self._pricing.step in ("worth", "theorem"):
            step = convergence_step(
                M=prices_distance(agreement),
                B=gradient_bound(Calibration(agreement)),
                T=agreement.rounds,
            )
            self._size = float(truncate_to_16_bits(step))

    @property
    def first(self) -> Prices:
        """λ(0)."""
        if self._center is not None:
            return self._prices_of(0, self._center.first, self._start)
        if self._ball is not None:
            return self._ball_prices(0, self._ball.first, self._start)
        return Prices(0, self._start, self._start)

    def step_size(self, round: int) -> float:  # noqa: A002
        """ν(t) of the rules other than `center`."""
        return self._size / math.sqrt(round + 1) if self._pricing.step == "sqrt" else self._size

    def next(self, prices: Prices, totals: Ticks) -> Prices:
        """λ(t+1) = λ(t) − ν(t)·(c − Σ s̃) + γ·(λ(t) − λ(t−1)), from Σ s̃ in ticks; or other rules."""
        if self._center is not None and prices.center is not None:
            after = self._center.next(prices.center, totals)
            return self._prices_of(prices.round + 1, after, prices.current)
        if self._ball is not None and prices.ball is not None:
            moved_to = self._ball.next(prices.ball, prices.round, totals)
            return self._ball_prices(prices.round + 1, moved_to, prices.current)
        ticks, capacity = self._agreement.ticks, quantities(self._agreement).capacity
        excess = (totals - ticks).astype(np.float64) / ticks
        step = self.step_size(prices.round)
        if self._pricing.step == "worth":
            moved = prices.current + step * excess / capacity
        else:
            moved = prices.current + step * (excess * capacity)
        moved = moved + self._pricing.momentum * (prices.current - prices.previous)
        lowest = 0.0 if self._pricing.nonnegative else -PRICE_LIMIT
        moved = np.minimum(np.maximum(moved, lowest), PRICE_LIMIT)
        return Prices(prices.round + 1, moved, prices.current)

    def _prices_of(self, round: int, center: Center, previous: Floats) -> Prices:  # noqa: A002
        asked = center.prices / quantities(self._agreement).capacity
        return Prices(round, asked, previous, center=center)

    def _ball_prices(self, round: int, ball: BallPrices, previous: Floats) -> Prices:  # noqa: A002
        asked = ball.money / quantities(self._agreement).capacity
        return Prices(round, asked, previous, ball=ball)


def rounds_to_carry(agreement: Agreement, prices: Prices) -> tuple[tuple[float, ...], ...]:
    """The rounds that a next session can go on from, as its agreement carries them.

    These are the cuts that the centre rule kept, the newest ones if there are too many. Each has
    the price of every resource and then every total as a fraction of the capacity.
    """
    if prices.center is None:
        return ()
    most = schema.MOST_EARLIER_NUMBERS // (2 * len(agreement.resources))
    cuts = prices.center.cuts[-most:]
    asked = np.minimum(cuts.asked / quantities(agreement).capacity, PRICE_LIMIT)
    totals = 1.0 - _reserve_ticks(agreement) / agreement.ticks - cuts.slopes
    limits = schema.EARLIER_TOTALS_RANGE
    rows = np.concatenate([asked, np.clip(totals, limits.least, limits.most)], axis=1)
    return tuple(map(tuple, rows.tolist()))


def _reserve_ticks(agreement: Agreement) -> int:
    return math.ceil((agreement.pricing.reserve or 0.0) * agreement.ticks)


def _earlier_cuts(agreement: Agreement) -> Cuts:
    """The cuts of the rounds that the agreement carries. All have the number −1."""
    m = len(agreement.resources)
    rows = np.array(agreement.pricing.earlier).reshape(-1, 2 * m)
    return Cuts(
        np.full(len(rows), -1),
        rows[:, :m] * quantities(agreement).capacity,
        1.0 - _reserve_ticks(agreement) / agreement.ticks - rows[:, m:],
    )


def _center_rule(agreement: Agreement) -> CenterRule:
    start = np.array(agreement.pricing.start) * quantities(agreement).capacity
    return CenterRule(
        members=len(agreement.members),
        resources=len(agreement.resources),
        ticks=agreement.ticks,
        reserve_ticks=_reserve_ticks(agreement),
        worth=quantities(agreement).worth,
        start=start if start.any() else None,
        limit=PRICE_LIMIT * quantities(agreement).capacity,
        earlier=_earlier_cuts(agreement),
    )
