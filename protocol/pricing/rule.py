"""How the prices move: from the exact integer totals of a round to the next prices.

Every operation is elementwise float64 in a fixed order, and every sum of floats is the
correctly rounded one, so that all machines get the same bits. No BLAS, no float
reductions of numpy, and no private number.

Symbols of the paper: λ prices, c capacities, ν step, γ momentum. The rules that are defaults
(`center`, `worth`) and `dog` reckon in y = λ·c, money for a whole capacity, so that units do
not matter; `constant`, `sqrt` and `theorem` are the paper's, in λ.
"""

import math
from dataclasses import dataclass

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks, truncate_to_16_bits
from protocol.pricing.center import Center, CenterRule
from protocol.pricing.subgradient import convergence_step, gradient_bound, prices_distance
from protocol.privacy.calibration import Calibration

PRICE_LIMIT = 1e15
"""Prices stop here, so that no round can fail for a price that a solver cannot take."""


@dataclass(frozen=True)
class Prices:
    """λ(t), what came before it, and what the step rule remembers."""

    round: int
    current: Floats
    previous: Floats
    farthest: float = 0.0
    squares: float = 0.0
    center: Center | None = None


class PriceRule:
    """The agreed way from one round's prices to the next."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._pricing = agreement.pricing
        self._start: Floats = np.array(self._pricing.start)
        self._center = _center_rule(agreement) if self._pricing.step == "center" else None
        self._size = self._pricing.step_size or 0.0
        if self._pricing.step in ("worth", "theorem"):
            step = convergence_step(
                M=prices_distance(agreement),
                B=gradient_bound(Calibration(agreement)),
                T=agreement.rounds,
            )
            self._size = float(truncate_to_16_bits(step))
        # How far `dog` moves first, in money for a whole capacity. It finds its scale by
        # itself, but sooner from a public guess.
        guess = quantities(agreement).worth
        worth = 0.0 if guess is None else math.fsum(guess**2)
        self._first_move = math.sqrt(worth) / 10.0 if worth else 1.0

    @property
    def first(self) -> Prices:
        """λ(0)."""
        if self._center is not None:
            return self._asking(0, self._center.first, self._start)
        return Prices(0, self._start, self._start, self._first_move)

    def step_size(self, round: int) -> float:  # noqa: A002
        """ν(t) of the rules that fix it beforehand."""
        return self._size / math.sqrt(round + 1) if self._pricing.step == "sqrt" else self._size

    def next(self, prices: Prices, totals: Ticks) -> Prices:
        """λ(t+1) = λ(t) − ν(t)·(c − Σ s̃) + γ·(λ(t) − λ(t−1)), from Σ s̃ in ticks; or a centre."""
        if self._center is not None and prices.center is not None:
            after = self._center.next(prices.center, totals)
            return self._asking(prices.round + 1, after, prices.current)
        ticks = self._agreement.ticks
        excess = (totals - ticks).astype(np.float64) / ticks
        step, farthest, squares = self.step_size(prices.round), prices.farthest, prices.squares
        if self._pricing.step == "dog":
            away = (prices.current - self._start) * quantities(self._agreement).capacity
            farthest = max(farthest, math.sqrt(math.fsum(away * away)))
            squares = squares + math.fsum(excess * excess)
            step = farthest / math.sqrt(squares) if squares > 0.0 else 0.0
        if self._pricing.step in ("worth", "dog"):
            moved = prices.current + step * excess / quantities(self._agreement).capacity
        else:
            moved = prices.current + step * (excess * quantities(self._agreement).capacity)
        moved = moved + self._pricing.momentum * (prices.current - prices.previous)
        lowest = 0.0 if self._pricing.nonnegative else -PRICE_LIMIT
        moved = np.minimum(np.maximum(moved, lowest), PRICE_LIMIT)
        return Prices(prices.round + 1, moved, prices.current, farthest, squares)

    def _asking(self, round: int, center: Center, previous: Floats) -> Prices:  # noqa: A002
        asked = center.prices / quantities(self._agreement).capacity
        return Prices(round, asked, previous, center=center)


def _center_rule(agreement: Agreement) -> CenterRule:
    start = np.array(agreement.pricing.start) * quantities(agreement).capacity
    return CenterRule(
        members=len(agreement.members),
        resources=len(agreement.resources),
        ticks=agreement.ticks,
        reserve_ticks=math.ceil((agreement.pricing.reserve or 0.0) * agreement.ticks),
        worth=quantities(agreement).worth,
        start=start if start.any() else None,
        limit=PRICE_LIMIT * quantities(agreement).capacity,
    )
