"""The centre rule: every round cuts away prices that cannot be best; the next are amid the rest.

From public numbers alone: the exact totals of the rounds, and what the agreement says. Every
operation is elementwise float64 in a fixed order, and every sum either goes through its terms
one after the other or is the correctly rounded one, so that all machines get the same bits. No
BLAS or LAPACK, no float reductions of numpy, no function of the machine's mathematics library
but the square root, no private number, and no exception, whatever the totals say.

Prices are in money for a whole capacity here: y = λ·c. Nothing depends on the units that the
capacities are counted in.

Symbols: m resources, y prices, U the box 0 ≤ y ≤ U, g = 1 − reserve − total/c the slope of the
dual value at the prices asked, s the slack g·(asked − y) of a cut, R = g/s, H the second
derivative of −Σ log s − Σ log y − Σ log(U − y), δ the Newton decrement, w weights, X the
certificate. CERTIFICATE.md has the theorems.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from protocol.agreement import TICKS
from protocol.arrays import Floats, Ticks
from protocol.caps import apportion

WHOLE = 2**40
"""The weights of the rounds are whole numbers that add up to this."""

_FACTOR = 4.0  # between two prices of one resource while the scale is sought, and above them
_SEEKING = 32  # rounds in which the scale is sought, at most
_STEPS = 20  # of Newton's method in a round, at most; four or five are the rule
_NEAR = 1e-5  # a decrement from which one more step gets as near as matters
_CLOSE = 0.1  # a decrement from which whole steps are safe, and each must halve it
_LOST = 1e-2  # a decrement that ends a session if no step brings it down
_PIVOT = 1e-15  # of a scaled matrix: below this it is not positive to float64
_TINY = 1e-300
_BLOCK = 2**15  # numbers in a block of products
_ROUNDING = 2.0**-48  # see CERTIFICATE.md, rounding

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True)
class Certificate:
    """Weights of the rounds, and what they prove about the averages they make.

    `weights` are whole numbers by round that add up to `WHOLE`; rounds after the last have
    none. `prices` is ȳ. Guarantee, with all capacity to be given away: the dual value at ȳ is
    at most `bound` above the optimum, and the averaged plans together earn at least the
    optimum less `bound`. If the averaged demands `fit` the capacity, both hold whatever the
    best prices are; otherwise the first needs them within the box. `gap` is the same for the
    capacity that the rounds clear, and as the totals say: when to stop, not what is proved.
    """

    weights: tuple[int, ...]
    prices: Floats
    bound: float
    gap: float
    fits: bool

    def within(self, tolerance: float) -> bool:
        """Whether the rounds may stop: what all capacities fetch, to this part of it."""
        return self.gap <= tolerance * math.fsum(self.prices)


@dataclass(frozen=True)
class Cuts:
    """Which rounds still count, the prices asked there, and the slopes that came back."""

    rounds: Ticks
    asked: Floats
    slopes: Floats

    def __getitem__(self, kept: "slice | Ticks") -> "Cuts":
        return Cuts(self.rounds[kept], self.asked[kept], self.slopes[kept])

    def __add__(self, more: "Cuts") -> "Cuts":
        return Cuts(
            np.concatenate([self.rounds, more.rounds]),
            np.concatenate([self.asked, more.asked]),
            np.concatenate([self.slopes, more.slopes]),
        )


@dataclass(frozen=True)
class Search:
    """How far the search for the scale of the prices has come.

    `raised`: the resources that were wanted too much in some round; `calm`: in how many rounds
    running these were paid for; `falling`: whether all prices go down.
    """

    raised: Flags
    calm: int = 0
    falling: bool = False


@dataclass(frozen=True)
class Center:
    """Everything the rule remembers after some rounds.

    `prices` are to be asked next. `best` is the best certificate so far. If it is `exact`,
    float64 cannot get any nearer and the session has to stop.
    """

    round: int
    prices: Floats
    box: Floats
    cuts: Cuts
    search: Search | None
    best: Certificate | None = None
    exact: bool = False


class CenterRule:
    """The agreed way from one round's prices to the next."""

    def __init__(
        self,
        *,
        members: int,
        resources: int,
        reserve_ticks: int = 0,
        worth: Floats | None = None,
        start: Floats | None = None,
    ) -> None:
        """`worth` and `start` are in money for a whole capacity; what is not above 0 is unknown.

        Without either, the first prices are 1 in money.
        """
        self._members = members
        self._reserve = reserve_ticks
        nothing = np.zeros(resources)
        known = nothing if worth is None else np.where(worth > 0.0, worth, 0.0)
        asked = known if start is None else np.where(start > 0.0, start, 0.0)
        highest = float(np.max(np.maximum(known, asked)))
        self._unit: Floats = np.where(known > 0.0, known, highest if highest > 0.0 else 1.0)
        self._start: Floats = self._unit if start is None else asked
        self._most_cuts = 8 * resources + 24

    @property
    def first(self) -> Center:
        """Before the first round."""
        m = len(self._unit)
        none = Cuts(np.zeros(0, dtype=np.int64), np.zeros((0, m)), np.zeros((0, m)))
        search = Search(np.zeros(m, dtype=np.bool_))
        return Center(0, self._start, self._box(self._start), none, search)

    def next(self, center: Center, totals: Ticks) -> Center:
        """What follows from the totals of a round, in ticks, at `center.prices`."""
        if center.exact:
            return replace(center, round=center.round + 1)
        with np.errstate(all="ignore"):
            slope = (TICKS - self._reserve - totals) / TICKS
            cut = Cuts(np.array([center.round]), center.prices[None], slope[None])
            after = replace(center, round=center.round + 1, cuts=center.cuts + cut)
            if not slope.any() or not (center.prices.any() or np.any(slope < 0.0)):
                # Demand is the capacity, or below it for nothing: these prices are best.
                return self._alone(replace(after, exact=True))
            if center.search is not None:
                return self._sought(after, center.search, slope)
            return self._centered(after, _entered(center.cuts, center.box, center.prices, cut))

    def _sought(self, center: Center, search: Search, slope: Floats) -> Center:
        """While the scale is sought: which prices to ask next, or the first centre."""
        y, over = center.prices, slope < 0.0
        if center.round == 1 and not over.any():
            # Nothing is scarce at these prices. Is anything, if it is free?
            search = replace(search, falling=True)
            return self._alone(replace(center, prices=np.zeros_like(y), search=search))
        last = center.round >= _SEEKING
        if search.falling:
            return self._fallen(center, scarce=bool(y.any() and over.any()), last=last)
        return self._risen(center, search, slope, last=last)

    def _fallen(self, center: Center, *, scarce: bool, last: bool) -> Center:
        """All prices go down until something is wanted too much."""
        y = center.prices if center.prices.any() else self._start
        if scarce or last:
            return self._boxed(replace(center, box=self._box(y * _FACTOR)))
        return self._alone(replace(center, prices=y / _FACTOR, box=self._box(y)))

    def _risen(self, center: Center, search: Search, slope: Floats, *, last: bool) -> Center:
        """Prices of what is wanted too much go up, at least to the highest, until nothing is.

        In a tight problem something always is. So it also ends when those raised so far have
        been paid for, all in all, for some rounds running: no higher scale is then better.
        """
        y, over, raised = center.prices, slope < 0.0, search.raised
        paid = raised.any() and _total(np.where(raised, slope * y, 0.0)) >= 0.0
        search = Search(raised | over, search.calm + 1 if paid else 0)
        if last or not over.any() or search.calm >= 2 + math.isqrt(len(y)):
            return self._boxed(center)
        prices = np.where(over, np.maximum(y * _FACTOR, self._top(y) * self._unit), y)
        return self._alone(replace(center, prices=prices, box=self._box(prices), search=search))

    def _top(self, prices: Floats) -> float:
        top = float(np.max(prices / self._unit))
        return top if top > 0.0 else 1.0

    def _box(self, prices: Floats) -> Floats:
        return _FACTOR * self._top(prices) * self._unit

    def _alone(self, center: Center) -> Center:
        """With the certificate of the newest round on its own, as long as there is no centre."""
        return replace(center, best=self._certificate(center.cuts[-1:], [WHOLE], center.box))

    def _boxed(self, center: Center) -> Center:
        """The first centre, when the box is known: of all rounds so far that agree with it."""
        y: Floats = center.box / 2.0
        cuts = center.cuts[:0]
        for number in range(center.round):
            cut = center.cuts[number : number + 1]
            inside = _entered(cuts, center.box, y, cut)
            if inside is not None:
                cuts, y = cuts + cut, inside
        return self._centered(replace(center, cuts=cuts, search=None, best=None), y)

    def _centered(self, center: Center, inside: Floats | None) -> Center:
        """The centre of the cuts, from a point inside, and what it proves."""
        if inside is None:
            return replace(center, exact=True)
        within = _Set(center.cuts, center.box)
        y, near = within.center(inside)
        cuts = center.cuts
        best = self._better(center.best, within.weights(y), cuts, center.box)
        if len(cuts.rounds) > self._most_cuts:
            cuts = cuts[within.tightest(y, self._most_cuts)]
        return replace(center, prices=y, cuts=cuts, best=best, exact=not near)

    def _better(
        self, best: Certificate | None, weights: Floats, cuts: Cuts, box: Floats
    ) -> Certificate:
        whole = apportion(WHOLE, [int(w * 2.0**52) for w in weights.tolist()])
        new = self._certificate(cuts, whole, box)
        return new if best is None or new.gap < best.gap else best

    def _certificate(self, cuts: Cuts, whole: list[int], box: Floats) -> Certificate:
        """What whole-number weights of these cuts prove: the theorem of CERTIFICATE.md."""
        reserve, e = self._reserve / TICKS, self._members / (2 * TICKS)
        w: Floats = np.array(whole)[:, None] / WHOLE
        y = _columns(w * cuts.asked)
        g = _columns(w * cuts.slopes)
        paid = math.fsum((w * cuts.slopes * cuts.asked).ravel())
        gap = paid + math.fsum(box * np.maximum(-g, 0.0))
        full = g + reserve
        worst = np.maximum(e * y, (e - full) * box - e * y)
        steepest = 1.0 + self._members + float(np.max(np.abs(cuts.slopes)))
        rounding = _ROUNDING * steepest * math.fsum([*y, *box])
        bound = math.fsum([paid, *(reserve * y), *worst, rounding])
        weights = [0] * (int(cuts.rounds[-1]) + 1)
        for number, weight in zip(cuts.rounds.tolist(), whole, strict=True):
            weights[number] = weight
        fits = bool(np.all(full - _ROUNDING * steepest >= e))
        return Certificate(tuple(weights), y, bound, gap, fits)


class _View(NamedTuple):
    """The set seen from a point: what Newton's method needs there."""

    slack: Floats
    R: Floats
    below: Floats
    above: Floats


class _Set:
    """The prices that no cut has ruled out, within the box."""

    def __init__(self, cuts: Cuts, box: Floats) -> None:
        self._asked, self._slopes, self._box = cuts.asked, cuts.slopes, box

    def view(self, y: Floats) -> _View | None:
        """From a point inside; None from any other."""
        room = self._box - y
        slack = _rows(self._slopes * (self._asked - y))
        least = min(y.min(), room.min(), slack.min(initial=1.0))
        if not least > 0.0:
            return None
        return _View(slack, self._slopes / slack[:, None], 1.0 / y, 1.0 / room)

    def center(self, y: Floats) -> tuple[Floats, bool]:
        """The analytic centre, from a point inside, and whether it was found."""
        last, point = math.inf, y
        for _ in range(_STEPS):
            view = self.view(point)
            if view is None:
                break
            y = point
            gradient = _total(view.R) - view.below + view.above
            step = _solved(_second(view), -gradient)
            if step is None:
                break
            squared = -float(_total(gradient * step))
            if not squared >= 0.0:
                break
            decrement = math.sqrt(squared)
            if last < _CLOSE and decrement > last / 2.0:
                break
            last = decrement
            close = decrement < _CLOSE
            length = 1.0 if close else _length(_changes(view, step), squared)
            point = y + length * step
            if decrement <= _NEAR:
                return (y if self.view(point) is None else point), True
        return y, last <= _LOST

    def weights(self, y: Floats) -> Floats:
        """1/s of each cut, the largest of them 1."""
        slack = _rows(self._slopes * (self._asked - y))
        return np.min(slack) / slack

    def tightest(self, y: Floats, count: int) -> Ticks:
        """The cuts that shape the set most, seen from its centre, and always the newest."""
        view = self.view(y)
        if view is None:
            return np.arange(len(self._slopes))[-count:]
        H = _second(view)
        pull = _rows(view.R * view.R / np.diagonal(H))
        pull[-1] = math.inf
        return np.sort(np.argsort(-pull, kind="stable")[:count])


def _entered(cuts: Cuts, box: Floats, y: Floats, cut: Cuts) -> Floats | None:
    """A point inside the cuts and one more, from a point inside the cuts; None if none is found.

    Along −H⁻¹g, the way in which the new slack grows fastest for what the others lose.
    """
    within, asked, slope = _Set(cuts, box), cut.asked[0], cut.slopes[0]
    for _ in range(_STEPS):
        slack = float(_total(slope * (asked - y)))
        if slack > 0.0:
            return y
        view = within.view(y)
        step = None if view is None else _solved(_second(view), -slope)
        if view is None or step is None:
            return None
        gain = -float(_total(slope * step))
        if not gain > 0.0:
            return None
        longest = _longest(_changes(view, step))
        enough = (longest - slack / gain) / 2.0
        y = y + (0.7 / math.sqrt(gain) if slack == 0.0 else min(0.9 * longest, enough)) * step
    return None


def _changes(view: _View, step: Floats) -> Floats:
    """By what part of itself each slack grows along a step."""
    return np.concatenate([-_rows(view.R * step), step * view.below, -step * view.above])


def _longest(changes: Floats) -> float:
    """How far to go along a step to where the first slack is used up."""
    return -1.0 / min(float(changes.min()), -_TINY)


def _length(changes: Floats, slope: float) -> float:
    """How far to go along a step to where −Σ log slack is least, roughly.

    `slope` is how fast it falls at first.
    """
    low, high = 0.0, _longest(changes)
    length = 1.0 / (1.0 + math.sqrt(slope))
    for _ in range(8):
        part = changes / (1.0 + length * changes)
        rise = -float(_total(part))
        if abs(rise) <= 0.1 * slope:
            break
        low, high = (length, high) if rise < 0.0 else (low, length)
        length = length - rise / float(_total(part * part))
        if not low < length < high:
            length = (low + high) / 2.0
    return length


def _second(view: _View) -> Floats:
    """H, cut by cut."""
    R, m = view.R, len(view.below)
    H: Floats = np.zeros((m, m))
    size = max(1, _BLOCK // (m * m))
    for first in range(0, len(R), size):
        block = R[first : first + size]
        products = block[:, :, None] * block[:, None, :]
        products[0] += H
        H = _total(products)
    H[np.arange(m), np.arange(m)] += view.below * view.below + view.above * view.above
    return H


def _solved(H: Floats, right: Floats) -> Floats | None:
    """H⁻¹·right by Cholesky's method without roots, with H scaled by its diagonal.

    None if H is not positive to float64.
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
    for j in range(m - 1, -1, -1):
        x[j] /= A[j, j]
        x[:j] -= A[:j, j] * x[j]
    x = x / scale
    return x if np.isfinite(x).all() else None


def _total(terms: Floats) -> Floats:
    """The sum over the first axis, one after the other: numpy's own sum has no fixed order."""
    total: Floats = np.add.accumulate(terms)[-1]
    return total


def _rows(terms: Floats) -> Floats:
    """The sum of each row, from left to right."""
    sums: Floats = np.add.accumulate(terms, axis=1)[:, -1]
    return sums


def _columns(terms: Floats) -> Floats:
    """The correctly rounded sum of each column."""
    return np.array([math.fsum(column) for column in terms.T.tolist()])
