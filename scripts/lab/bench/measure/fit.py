"""Fits of how a cost grows: y = a·xᵇ by least squares on logarithms, and y = a + b·x.

The exponent says how it grows; the line is what extrapolations rest on.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls
from scipy.stats import t as student

TELLING = 1.0
"""An interval that is wider cannot tell what is in proportion from what does not grow."""


@dataclass(frozen=True)
class Power:
    """y = factor·x^exponent. The interval holds the exponent with 95 % if errors are normal."""

    factor: float
    exponent: float
    low: float
    high: float
    points: int

    def figures(self) -> dict[str, Any]:
        return asdict(self)

    def shown(self) -> str:
        """The exponent and its interval, where that says more; – if the points do not tell."""
        width = self.high - self.low
        if self.low <= 0.0 <= self.high:
            return "0" if width <= TELLING / 2 else "–"
        if width > TELLING:
            return "–"
        low, value, high = (f"{x:.2f}" for x in (self.low, self.exponent, self.high))
        return value if low == high else f"{value} ({low} to {high})"


def power(x: Sequence[float], y: Sequence[float]) -> Power:
    """At least three points, all positive."""
    logs, heights = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    count = len(logs)
    if count < 3:
        raise ValueError("three points are the least that an exponent can be fitted to")
    away = logs - logs.mean()
    exponent = float(away @ heights / (away @ away))
    level = float(heights.mean() - exponent * logs.mean())
    left = heights - level - exponent * logs
    error = float(np.sqrt(left @ left / (count - 2) / (away @ away)))
    reach = float(student.ppf(0.975, count - 2)) * error
    return Power(float(np.exp(level)), exponent, exponent - reach, exponent + reach, count)


def upper(x: Sequence[float], y: Sequence[float]) -> Power:
    """Of the upper half of the points, where what does not grow no longer hides what does."""
    first = min(len(x) // 2, len(x) - 3)
    return power(x[first:], y[first:])


@dataclass(frozen=True)
class Line:
    """y = fixed + each·x."""

    fixed: float
    each: float

    def at(self, x: float) -> float:
        return self.fixed + self.each * x


def line(x: Sequence[float], y: Sequence[float]) -> Line:
    """Errors count in proportion, so that the smallest point says as much as the largest. No
    cost falls: neither number is below 0."""
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    rows = np.column_stack([np.ones_like(xs), xs]) / ys[:, None]
    fixed, each = nnls(rows, np.ones_like(ys))[0].tolist()
    return Line(fixed, each)
