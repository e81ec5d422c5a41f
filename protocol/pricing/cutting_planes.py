"""The prices that no round has ruled out, and their analytic centre.

Each round proves g·(y − asked) ≤ 0 for the best prices y. Here is the geometry of such cuts in a
box: points inside, and the analytic centre by Newton's method. Elementwise float64 in a fixed
order, so that all machines get the same bits. Never here: BLAS, float sums of numpy, functions of
the machine's mathematics library except the square root.

Symbols: m resources, y prices, U the box 0 ≤ y ≤ U, g the slope found at the prices asked, s =
g·(asked − y) the slack of a cut, R = g/s, H the second derivative of −Σ log s − Σ log y −
Σ log(U − y). CERTIFICATE.md §6 says how each number is computed.
"""

import math
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from protocol.numeric import Flags, Floats, Ticks, ordered_sum, row_sums

_STEPS = 40  # of Newton's method, at most; usually three
_NEAR = 0.1  # decrement from which one full step is safe, and near enough
_PIVOT = 1e-15  # of a scaled matrix: at or below, it is not positive definite in float64
_TINY = 1e-300
_SMALL = 15  # up to this many resources, one product of all cuts is faster than one of each


class Cuts(Struct, frozen=True):
    """The rounds whose cuts are kept, in order, with the prices asked and the slopes found."""

    rounds: Ticks
    asked: Floats
    slopes: Floats

    def __getitem__(self, kept: "slice | Ticks | Flags") -> "Cuts":
        return Cuts(self.rounds[kept], self.asked[kept], self.slopes[kept])

    def __add__(self, more: "Cuts") -> "Cuts":
        return Cuts(
            np.concatenate([self.rounds, more.rounds]),
            np.concatenate([self.asked, more.asked]),
            np.concatenate([self.slopes, more.slopes]),
        )


class BarrierPoint(NamedTuple):
    """What Newton's method needs at a point inside: R, 1/(y − low), 1/(high − y) and its times."""

    R: Floats
    below: Floats
    above: Floats
    times: Floats

    @property
    def gradient(self) -> Floats:
        slope: Floats = ordered_sum(self.R) - self.below + self.times * self.above
        return slope

    @property
    def bends(self) -> Floats:
        """What the bounds add to the diagonal of H."""
        return self.below * self.below + self.times * (self.above * self.above)


class Polytope:
    """The points that no cut rules out, within bounds.

    A lower bound of −∞ and an upper one of ∞ are none. The barrier counts each upper bound as
    many `times` as given, once by default.
    """

    def __init__(
        self,
        cuts: Cuts,
        high: Floats,
        *,
        low: Floats | float = 0.0,
        times: Floats | None = None,
    ) -> None:
        self._asked, self._slopes, self._low, self._high = cuts.asked, cuts.slopes, low, high
        self._times: Floats = np.ones(len(high)) if times is None else times

    def view(self, y: Floats) -> BarrierPoint | None:
        """The barrier at a point; None if the point is not inside."""
        slack = row_sums(self._slopes * (self._asked - y))
        under, room = y - self._low, self._high - y
        if not np.minimum.reduce(np.concatenate([slack, under, room])) > 0.0:
            return None
        return BarrierPoint(self._slopes / slack[:, None], 1.0 / under, 1.0 / room, self._times)

    def center(self, y: Floats) -> tuple[Floats, BarrierPoint | None]:
        """The analytic centre, from a point inside, and the barrier there; None if not found.

        Newton's method with a line search until it is near, then one full step. More digits
        would be useless, since the weights of the rounds come from elsewhere. If it gets no
        nearer, float64 allows no more.
        """
        point = y
        for _ in range(_STEPS):
            view = self.view(point)
            if view is None:
                break
            y, gradient = point, view.gradient
            step = _solve(_hessian(view), -gradient)
            squared = -1.0 if step is None else -float(ordered_sum(gradient * step))
            if step is None or not squared >= 0.0:
                break
            if squared < _NEAR * _NEAR:
                point = y + step
                nearer = self.view(point)
                return (y, view) if nearer is None else (point, nearer)
            point = y + _line_search(view, step, squared) * step
        return y, None

    def enter(self, y: Floats, asked: Floats, slope: Floats) -> Floats | None:
        """A point inside one more cut, from a point inside; None if not found.

        Along −H⁻¹·g, where the new slack grows most for what the others lose.
        """
        for _ in range(_STEPS):
            slack = float(ordered_sum(slope * (asked - y)))
            view = self.view(y)
            if view is None:
                return None
            if slack > 0.0:
                return y
            step = _solve(_hessian(view), -slope)
            gain = 0.0 if step is None else -float(ordered_sum(slope * step))
            if step is None or not gain > 0.0:
                return None
            length = 0.7 / math.sqrt(gain)
            if slack < 0.0:
                longest = _longest(_changes(view, step))
                length = min(0.9 * longest, (longest - slack / gain) / 2.0)
            y = y + length * step
        return None


def tightest(view: BarrierPoint, count: int, needed: Flags) -> Ticks:
    """Indices of the `count` cuts that shape the set most at its centre; `needed` ones first."""
    squares = view.R * view.R
    pull = row_sums(squares / (ordered_sum(squares) + view.bends))
    pull[needed] = pull[-1] = math.inf
    return np.sort(np.argsort(-pull, kind="stable")[:count])


def _changes(view: BarrierPoint, step: Floats) -> Floats:
    """The relative growth of each slack along a step."""
    return np.concatenate([-row_sums(view.R * step), step * view.below, -step * view.above])


def _longest(changes: Floats) -> float:
    """The number of steps until the first slack is 0."""
    return -1.0 / min(float(changes.min()), -_TINY)


def _line_search(view: BarrierPoint, step: Floats, fall: float) -> float:
    """The number of steps that roughly minimises −Σ log slack, given its initial `fall`.

    It stops where the slope is at most a tenth of the initial one.
    """
    changes = _changes(view, step)
    times = np.concatenate([np.ones(len(changes) - len(step)), view.times])
    low, high = 0.0, _longest(changes)
    length = 1.0 / (1.0 + math.sqrt(fall))
    for _ in range(8):
        relative = changes / (1.0 + length * changes)
        slope = -float(ordered_sum(times * relative))
        if abs(slope) <= 0.1 * fall:
            break
        low, high = (length, high) if slope < 0.0 else (low, length)
        length = length - slope / float(ordered_sum(times * (relative * relative)))
        if not low < length < high:
            length = (low + high) / 2.0
    return length


def _hessian(view: BarrierPoint) -> Floats:
    """H, summed cut by cut. Both ways give the same bits."""
    R, m = view.R, len(view.below)
    H: Floats = np.zeros((m, m))
    if m <= _SMALL and len(R):
        H = ordered_sum(R[:, :, None] * R[:, None, :])
    elif m > _SMALL:
        product = np.empty((m, m))
        for row in R:
            H += np.multiply(row[:, None], row, out=product)
    H.reshape(-1)[:: m + 1] += view.bends
    return H


def _solve(H: Floats, right: Floats) -> Floats | None:
    """H⁻¹·right by Cholesky's method without roots, with H scaled by its diagonal.

    None if H is not positive definite in float64.
    """
    m = len(right)
    scale = np.sqrt(np.diagonal(H))
    A: Floats = np.empty((m, m + 1))
    A[:, :m] = H / scale[:, None] / scale
    A[:, m] = right / scale
    for j in range(m):
        pivot = A[j, j]
        if not pivot > _PIVOT:
            return None
        A[j + 1 :, j + 1 :] -= (A[j + 1 :, j] / pivot)[:, None] * A[j, j + 1 :]
    x = A[:, m]
    for j in reversed(range(m)):
        x[j] /= A[j, j]
        x[:j] -= A[:j, j] * x[j]
    return x / scale
