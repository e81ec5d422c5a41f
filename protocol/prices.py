"""How the prices move: from the exact integer totals of a round to the next prices.

Every operation is elementwise float64 in a fixed order, and every sum of floats is the
correctly rounded one, so that all machines get the same bits. No BLAS, no float
reductions of numpy, and no private number.

Symbols of the paper: λ prices, c capacities, ν step, γ momentum.
"""

import math
from dataclasses import dataclass

import numpy as np

from protocol.agreement import TICKS, Agreement
from protocol.arrays import Floats, Ticks
from protocol.privacy import (
    Calibration,
    convergence_step,
    gradient_bound,
    prices_distance,
    shortened,
)

PRICE_LIMIT = 1e15
"""Prices stop here, so that no round can fail for a price that a solver cannot take."""


@dataclass(frozen=True)
class Prices:
    """λ(t), what came before it, and what the step rule remembers."""

    round: int
    current: Floats
    previous: Floats
    farthest: float
    squares: float = 0.0


class PriceRule:
    """The agreed way from one round's prices to the next."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._pricing = agreement.pricing
        self._size = self._pricing.step_size or 0.0
        if self._pricing.step == "theorem":
            step = convergence_step(
                M=prices_distance(agreement),
                B=gradient_bound(Calibration(agreement)),
                T=agreement.rounds,
            )
            self._size = float(shortened(step))
        self._start: Floats = np.array(self._pricing.start)
        # How far `dog` moves first, in money for a whole capacity. It finds its scale by
        # itself, but sooner from a public guess.
        worth = 0.0 if agreement.worth is None else math.fsum(agreement.worth**2)
        self._first_move = math.sqrt(worth) / 10.0 if worth else 1.0

    @property
    def first(self) -> Prices:
        """λ(0)."""
        return Prices(0, self._start, self._start, self._first_move)

    def step_size(self, round: int) -> float:  # noqa: A002
        """ν(t) of the rules that fix it beforehand."""
        return self._size / math.sqrt(round + 1) if self._pricing.step == "sqrt" else self._size

    def next(self, prices: Prices, totals: Ticks) -> Prices:
        """λ(t+1) = λ(t) − ν(t)·(c − Σ s̃) + γ·(λ(t) − λ(t−1)), from Σ s̃ in ticks."""
        c = self._agreement.capacity
        excess = (totals - TICKS).astype(np.float64) / TICKS
        farthest, squares = prices.farthest, prices.squares
        if self._pricing.step == "dog":
            away = (prices.current - self._start) * c
            farthest = max(farthest, math.sqrt(math.fsum(away * away)))
            squares = squares + math.fsum(excess * excess)
            step = farthest / math.sqrt(squares) if squares > 0.0 else 0.0
            moved = prices.current + step * excess / c
        else:
            moved = prices.current + self.step_size(prices.round) * (excess * c)
        moved = moved + self._pricing.momentum * (prices.current - prices.previous)
        lowest = 0.0 if self._pricing.nonnegative else -PRICE_LIMIT
        moved = np.minimum(np.maximum(moved, lowest), PRICE_LIMIT)
        return Prices(prices.round + 1, moved, prices.current, farthest, squares)
