"""A dense interior-point method for concave models that HiGHS cannot solve.

HiGHS' active-set method for quadratic objectives fails on some models at every scale. This one is
slow and dense, but needs no active set. Everything here is secret.

Symbols: minimise ½ z·H z + g·z subject to M z = b and lower ≤ z ≤ upper. z holds the columns and
one slack for each row that is no equation; y are duals of M, v and w of the bounds.
"""

import highspy
import numpy as np

from party.model.linear_program import Indices
from protocol.numeric import Floats
from protocol.records import Opaque

LARGEST = 1500
"""Unknowns of a program that is still solved: the effort grows with their cube."""

_STEPS = 200
_ACCURATE = 1e-9
_ACCEPTED = 1e-6
_STAY_INSIDE = 0.995
_REGULAR, _TINY = 1e-12, 1e-100


class _Program(Opaque, frozen=True):
    """A program in the form above. Secret."""

    H: Floats
    g: Floats
    M: Floats
    b: Floats
    lower: Floats
    upper: Floats
    columns: int


def solved(lp: highspy.HighsLp, quadratic: highspy.HighsHessian) -> Floats | None:
    """The best column values of a program to be maximised, or None if the method fails."""
    if lp.num_col_ + 2 * lp.num_row_ > LARGEST:
        return None
    with np.errstate(all="ignore"):
        try:
            values = _solve_unfixed(_standard(lp, quadratic))
        except (np.linalg.LinAlgError, OverflowError):
            return None
    if values is None:
        return None
    return np.clip(values, np.array(lp.col_lower_), np.array(lp.col_upper_))


def _standard(lp: highspy.HighsLp, quadratic: highspy.HighsHessian) -> _Program:
    n, r = lp.num_col_, lp.num_row_
    start: Indices = np.array(lp.a_matrix_.start_, dtype=np.int32)
    index = np.array(lp.a_matrix_.index_, dtype=np.int32)
    A = np.zeros((r, n))
    A[index, np.repeat(np.arange(n), np.diff(start))] = np.array(lp.a_matrix_.value_)
    row_lower, row_upper = np.array(lp.row_lower_), np.array(lp.row_upper_)
    equation = row_lower == row_upper
    slack = np.flatnonzero(~equation)
    M = np.hstack([A, np.zeros((r, len(slack)))])
    M[slack, n + np.arange(len(slack))] = -1.0
    H = np.zeros((n + len(slack), n + len(slack)))
    starts: Indices = np.array(quadratic.start_, dtype=np.int32)
    column = np.repeat(np.arange(n), np.diff(starts))
    rows = np.array(quadratic.index_, np.int32)
    H[rows, column] = H[column, rows] = -np.array(quadratic.value_)
    return _Program(
        H=H,
        g=np.concatenate([-np.array(lp.col_cost_), np.zeros(len(slack))]),
        M=M,
        b=np.where(equation, row_lower, 0.0),
        lower=np.concatenate([np.array(lp.col_lower_), row_lower[slack]]),
        upper=np.concatenate([np.array(lp.col_upper_), row_upper[slack]]),
        columns=n,
    )


class _Point(Opaque, frozen=True):
    """Where the method is: z, y and the duals v and w. Secret."""

    z: Floats
    y: Floats
    v: Floats
    w: Floats

    def moved(self, by: "_Point", reach: float) -> "_Point":
        return _Point(
            self.z + reach * by.z,
            self.y + reach * by.y,
            self.v + reach * by.v,
            self.w + reach * by.w,
        )


def _solve_unfixed(p: _Program) -> Floats | None:
    """Solve for the unknowns whose bounds leave room, with the others at their bounds."""
    room = p.lower < p.upper
    fixed = np.where(room, 0.0, p.lower)
    values = _solve(
        _Program(
            H=p.H[np.ix_(room, room)],
            g=(p.g + p.H @ fixed)[room],
            M=p.M[:, room],
            b=p.b - p.M @ fixed,
            lower=p.lower[room],
            upper=p.upper[room],
            columns=int(room.sum()),
        )
    )
    if values is None:
        return None
    fixed[room] = values
    return fixed[: p.columns]


def _solve(p: _Program) -> Floats | None:
    """Mehrotra's predictor and corrector, from a point inside the bounds."""
    below, above = np.isfinite(p.lower), np.isfinite(p.upper)
    count = max(1, int(below.sum() + above.sum()))
    lower, upper = np.where(below, p.lower, 0.0), np.where(above, p.upper, 0.0)
    inside = np.minimum(1.0, np.where(below & above, 0.5 * (upper - lower), 1.0))
    start = np.where(below, lower + inside, np.where(above, upper - inside, 0.0))
    at = _Point(start, np.zeros(len(p.b)), below.astype(float), above.astype(float))
    size = 1.0 + max(np.abs(p.g).max(), np.abs(p.b).max(initial=0.0))
    best, error = at.z, np.inf
    for _ in range(_STEPS):
        s = np.where(below, np.maximum(at.z - lower, _TINY), 1.0)
        t = np.where(above, np.maximum(upper - at.z, _TINY), 1.0)
        dual = p.H @ at.z + p.g - p.M.T @ at.y - at.v + at.w
        primal = p.b - p.M @ at.z
        mu = float(s @ at.v + t @ at.w) / count
        now = max(np.abs(dual).max(), np.abs(primal).max(initial=0.0), mu) / size
        if now < error:
            best, error = at.z, now
        if not now > _ACCURATE:  # also if it is not a number
            break
        newton = _Newton(p, at, s, t, dual, primal)
        first = newton.direction(-s * at.v, -t * at.w)
        ahead = at.moved(first, newton.reach(first))
        s_ahead, t_ahead = (
            np.where(below, ahead.z - lower, 0.0),
            np.where(above, upper - ahead.z, 0),
        )
        after = max(0.0, float(s_ahead @ ahead.v + t_ahead @ ahead.w) / count)
        target = after**3 / mu**2 if mu > _TINY else 0.0
        second = newton.direction(
            (target - first.z * first.v - s * at.v) * below,
            (target + first.z * first.w - t * at.w) * above,
        )
        at = at.moved(second, _STAY_INSIDE * newton.reach(second))
    return best[: p.columns] if error <= _ACCEPTED else None


class _Newton:
    """The Newton system of one point, and how far a direction stays inside the bounds."""

    def __init__(
        self, p: _Program, at: _Point, s: Floats, t: Floats, dual: Floats, primal: Floats
    ) -> None:
        self._at, self._s, self._t, self._dual, self._primal = at, s, t, dual, primal
        self._below, self._above = np.isfinite(p.lower), np.isfinite(p.upper)
        n, r = len(at.z), len(at.y)
        system = np.zeros((n + r, n + r))
        system[:n, :n] = p.H
        system[np.arange(n), np.arange(n)] += at.v / s + at.w / t + _REGULAR
        system[:n, n:], system[n:, :n] = -p.M.T, p.M
        system[np.arange(n, n + r), np.arange(n, n + r)] = _REGULAR
        self._system = system

    def direction(self, sv: Floats, tw: Floats) -> _Point:
        """Towards products s·v and t·w that change by these amounts."""
        at, s, t, n = self._at, self._s, self._t, len(self._at.z)
        right = np.concatenate([-self._dual + sv / s - tw / t, self._primal])
        step = np.linalg.solve(self._system, right)
        z = step[:n]
        return _Point(z, step[n:], (sv - at.v * z) / s, (tw + at.w * z) / t)

    def reach(self, by: _Point) -> float:
        """The longest step, up to 1, after which nothing is negative."""
        at, longest = self._at, 1.0
        for now, change, bounded in (
            (self._s, by.z, self._below),
            (self._t, -by.z, self._above),
            (at.v, by.v, self._below),
            (at.w, by.w, self._above),
        ):
            falling = (change < 0.0) & bounded
            if falling.any():
                longest = min(longest, float((now[falling] / -change[falling]).min()))
        return longest
