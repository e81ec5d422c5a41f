"""The centre rule: each round cuts away prices that cannot be best, the next are amid the rest.

From public numbers alone: the exact totals of the rounds, and what the agreement says. Every
operation is elementwise float64 in a fixed order, and every sum either takes its terms one
after the other or is the correctly rounded one, so that all machines get the same bits. No BLAS
or LAPACK, no float reductions of numpy, no function of the machine's mathematics library but
the square root, no private number; and no exception, whatever the totals say.

Prices are in money for a whole capacity here, y = λ·c, so that nothing depends on the units
that the capacities are counted in.

Symbols: m resources, y prices, U the box 0 ≤ y ≤ U, g = 1 − reserve − total/c the slope of the
dual value at the prices asked, s = g·(asked − y) the slack of a cut, R = g/s, H the second
derivative of −Σ log s − Σ log y − Σ log(U − y), w weights, X the certificate. CERTIFICATE.md
has the theorems and says how each number is computed.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from protocol.arrays import Floats, Ticks
from protocol.caps import apportion
from protocol.weights import Basis, best_weights

WHOLE = 2**50
"""The weights of the rounds are whole numbers that add up to this."""

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]

_FACTOR = 4.0  # between prices while their scale is sought, and from the highest to the box
_SEEKING = 32  # rounds in which the scale is sought, at most
_STEPS = 20  # of Newton's method, at most; three are the rule
_NEAR = 0.1  # decrement from which one whole step is safe, and comes as near as matters
_PIVOT = 1e-15  # of a scaled matrix: at or below, it is not positive to float64
_TINY = 1e-300
_LIMIT = 1e100  # of prices where nobody sets one: squares and products stay finite
_SMALL = 15  # resources up to which one product of all cuts is faster than one of each
_ROUNDING = 2.0**-48  # CERTIFICATE.md §5


@dataclass(frozen=True)
class Certificate:
    """Weights of the rounds, and what they prove about the averages that they make.

    `weights` are whole numbers by round that add up to `WHOLE`; rounds after the last of them
    have none. `prices` are ȳ = Σ w·y.

    Guarantee (CERTIFICATE.md §2): with all the capacity to be shared out, the dual value at ȳ
    is at most `bound` above the optimum, and the averaged plans together earn at least the
    optimum less `bound`. Where the averaged demands fit the capacity (`fits`) this needs
    nothing else; where they do not, the first part needs the best prices to be in the box.
    `gap` is the same number for the capacity that the rounds clear and for the totals as they
    are: it says when to stop, and is no proof.
    """

    weights: tuple[int, ...]
    prices: Floats
    bound: float
    gap: float
    fits: bool

    def within(self, tolerance: float) -> bool:
        """Whether the gap is at most this part of what all capacities are worth at ȳ."""
        return self.gap <= tolerance * math.fsum(self.prices)


@dataclass(frozen=True)
class Cuts:
    """Which rounds still count, in their order, the prices asked there, and the slopes found."""

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

    `raised`: what was wanted too much in some round; `calm`: for how many rounds running the
    prices of these have been high enough, all in all; `falling`: whether all prices go down.
    """

    raised: Flags
    calm: int = 0
    falling: bool = False


@dataclass(frozen=True)
class Center:
    """Everything that the rule remembers after some rounds.

    `prices` are to be asked next and are within `box`. `basis` is where the weights are found
    from when one more round is there. `best` is the best certificate so far, None only before
    the first round. Where it is `exact`, float64 gets no nearer, and the
    session has to stop: later rounds change nothing.
    """

    round: int
    prices: Floats
    box: Floats
    cuts: Cuts
    search: Search | None
    basis: Basis | None = None
    best: Certificate | None = None
    exact: bool = False


class CenterRule:
    """The agreed way from one round's prices to the next."""

    def __init__(
        self,
        *,
        members: int,
        resources: int,
        ticks: int,
        reserve_ticks: int = 0,
        worth: Floats | None = None,
        start: Floats | None = None,
        limit: Floats | None = None,
    ) -> None:
        """`worth` and `start` are in money for a whole capacity; what is not above 0 is unknown.

        The first prices are `start`, or else `worth`, or else 1 of the money. Guarantee: no
        price is ever above a fourth of `limit` while the scale is sought, nor reaches it later.
        """
        self._members, self._ticks, self._reserve = members, ticks, reserve_ticks
        self._most_cuts = 4 * resources + 16
        self._limit: Floats = np.full(resources, _LIMIT) if limit is None else limit
        self._ceiling: Floats = self._limit / _FACTOR
        known: Floats = np.zeros(resources) if worth is None else np.maximum(worth, 0.0)
        asked: Floats = known if start is None else np.maximum(start, 0.0)
        highest = float(np.max(np.maximum(known, asked)))
        self._highest = highest if highest > 0.0 else 1.0
        unit = np.where(known > 0.0, known, self._highest)
        self._unit: Floats = np.minimum(unit, self._ceiling)
        self._start = self._unit if start is None else np.minimum(asked, self._ceiling)

    @property
    def first(self) -> Center:
        """Before the first round."""
        m = len(self._unit)
        none = Cuts(np.zeros(0, dtype=np.int64), np.zeros((0, m)), np.zeros((0, m)))
        search = Search(np.zeros(m, dtype=np.bool_))
        return Center(0, self._start, self._box(self._start), none, search)

    def next(self, center: Center, totals: Ticks) -> Center:
        """What follows from the totals, in ticks, of the round that asked `center.prices`."""
        if center.exact:
            return replace(center, round=center.round + 1)
        with np.errstate(all="ignore"):
            slope = (self._ticks - self._reserve - totals) / self._ticks
            cut = Cuts(np.array([center.round]), center.prices[None], slope[None])
            after = replace(center, round=center.round + 1, cuts=center.cuts + cut)
            if not slope.any() or not (center.prices.any() or np.any(slope < 0.0)):
                # All is sold to the tick, or it is free and nothing lacks: none are better.
                return self._alone(replace(after, exact=True))
            if center.search is not None:
                return self._sought(after, center.search, slope)
            return self._centered(after, _entered(center.cuts, center.box, center.prices, cut))

    def _sought(self, center: Center, search: Search, slope: Floats) -> Center:
        """While the scale is sought: what to ask next, or the first centre."""
        over = bool(np.any(slope < 0.0))
        if center.round == 1 and not over:
            # Nothing lacks at these prices. Does anything if it is free?
            return self._asking(center, np.zeros_like(slope), replace(search, falling=True))
        if center.round >= _SEEKING:
            return self._boxed(center)
        if search.falling and not center.prices.any():
            return self._asking(center, self._start / _FACTOR, search)
        if search.falling and not over:
            return self._asking(center, center.prices / _FACTOR, search)
        return self._risen(center, search, slope)

    def _risen(self, center: Center, search: Search, slope: Floats) -> Center:
        """Raise the price of all that is wanted too much, until nothing is.

        Each by a factor, and at least to the level of the others. In a tight problem something
        is always wanted too much; so it also ends when g·y over what was raised so far has not
        been negative for some rounds running: no higher scale would be better then. And it ends
        where prices may not rise any more.
        """
        y, over, raised = center.prices, slope < 0.0, search.raised
        enough = raised.any() and _total(np.where(raised, slope * y, 0.0)) >= 0.0
        calm = search.calm + 1 if enough else 0
        if not over.any() or calm >= 2 + math.isqrt(len(y)):
            return self._boxed(center)
        level = float(np.max(y / self._unit))
        lifted = (level if level > 0.0 else 1.0) * self._unit
        higher = np.minimum(np.maximum(y * _FACTOR, lifted), self._ceiling)
        prices = np.where(over, higher, y)
        if not np.any(prices > y):
            return self._boxed(center)
        return self._asking(center, prices, Search(raised | over, calm))

    def _asking(self, center: Center, prices: Floats, search: Search) -> Center:
        return self._alone(replace(center, prices=prices, box=self._box(prices), search=search))

    def _box(self, prices: Floats) -> Floats:
        """A factor above the highest price, for every resource: what is cheap may become dear."""
        highest = float(np.max(prices))
        box = np.full_like(prices, _FACTOR * (highest if highest > 0.0 else self._highest))
        return np.minimum(box, self._limit)

    def _alone(self, center: Center) -> Center:
        """With the certificate of the newest round on its own, while there is no centre."""
        return replace(center, best=self._certificate(center.cuts[-1:], [WHOLE], center.box))

    def _boxed(self, center: Center) -> Center:
        """The first centre, now that there is a box: of the newest round and all that agree."""
        y: Floats = center.box / 2.0
        kept = center.cuts[:0]
        for number in reversed(range(center.round)):
            cut = center.cuts[number : number + 1]
            inside = _entered(kept, center.box, y, cut)
            if inside is not None:
                kept, y = cut + kept, inside
        if not len(kept.rounds):
            return self._alone(replace(center, exact=True))
        return self._centered(replace(center, cuts=kept, search=None, best=None), y)

    def _centered(self, center: Center, inside: Floats | None) -> Center:
        """The centre of the cuts, from a point inside, and what it proves."""
        if inside is None:
            return replace(center, exact=True)
        cuts = center.cuts
        y, view = _Set(cuts, center.box).center(inside)
        best, basis = self._proved(cuts, center.box, center.basis)
        if center.best is not None and not best.gap < center.best.gap:
            best = center.best
        if view is not None and len(cuts.rounds) > self._most_cuts:
            needed = np.array([number in basis for number in cuts.rounds.tolist()])
            cuts = cuts[_tightest(view, self._most_cuts, needed)]
        return replace(center, prices=y, cuts=cuts, basis=basis, best=best, exact=view is None)

    def _proved(self, cuts: Cuts, box: Floats, basis: Basis | None) -> tuple[Certificate, Basis]:
        """The certificate of the weights that prove most, and the basis that gave them."""
        weights, basis = best_weights(
            rounds=cuts.rounds.tolist(),
            paid=_rows(cuts.slopes * cuts.asked),
            slopes=cuts.slopes,
            box=box,
            basis=basis,
        )
        counted = np.flatnonzero(weights)
        whole = apportion(WHOLE, [int(w * 2.0**60) for w in weights[counted].tolist()])
        return self._certificate(cuts[counted], whole, box), basis

    def _certificate(self, cuts: Cuts, whole: list[int], box: Floats) -> Certificate:
        """What these weights of the cuts prove (CERTIFICATE.md §2, rounded up by §5)."""
        reserve, e = self._reserve / self._ticks, self._members / (2 * self._ticks)
        w: Floats = np.array(whole)[:, None] / WHOLE
        weighed = w * cuts.slopes
        y, g = _columns(w * cuts.asked), _columns(weighed)
        paid = math.fsum((weighed * cuts.asked).ravel().tolist())
        room = g + reserve - e
        rounding = _ROUNDING * (1.0 + self._members + float(np.max(np.abs(cuts.slopes))))
        short = box * np.maximum(-room, 0.0)
        terms = np.concatenate([(reserve + e) * y, short, rounding * y, rounding * box])
        weights = [0] * (int(cuts.rounds[-1]) + 1)
        for number, weight in zip(cuts.rounds.tolist(), whole, strict=True):
            weights[number] = weight
        return Certificate(
            weights=tuple(weights),
            prices=y,
            bound=math.fsum([paid, *terms.tolist()]),
            gap=math.fsum([paid, *(box * np.maximum(-g, 0.0)).tolist()]),
            fits=float(np.min(room)) >= rounding,
        )


class _View(NamedTuple):
    """What Newton's method needs to know of the set at a point: s, R, 1/y and 1/(U − y)."""

    slack: Floats
    R: Floats
    below: Floats
    above: Floats


class _Set:
    """The prices that no cut rules out, within the box."""

    def __init__(self, cuts: Cuts, box: Floats) -> None:
        self._asked, self._slopes, self._box = cuts.asked, cuts.slopes, box

    def view(self, y: Floats) -> _View | None:
        """From a point inside; None from any other."""
        room, slack = self._box - y, _rows(self._slopes * (self._asked - y))
        if not np.minimum.reduce(np.concatenate([slack, y, room])) > 0.0:
            return None
        return _View(slack, self._slopes / slack[:, None], 1.0 / y, 1.0 / room)

    def center(self, y: Floats) -> tuple[Floats, _View | None]:
        """The analytic centre, from a point inside, and the view from it; None if not found.

        Newton's method, with the length of each step searched for until it is near, and one
        whole step then. The weights of the rounds do not come from here, so that no more digits
        are of use. Where it gets no nearer, this is as far as float64 goes.
        """
        point = y
        for _ in range(_STEPS):
            view = self.view(point)
            if view is None:
                break
            y = point
            gradient = _total(view.R) - view.below + view.above
            step = _solved(_second(view), -gradient)
            squared = -1.0 if step is None else -float(_total(gradient * step))
            if step is None or not squared >= 0.0:
                break
            if squared < _NEAR * _NEAR:
                point = y + step
                nearer = self.view(point)
                return (y, view) if nearer is None else (point, nearer)
            point = y + _length(_changes(view, step), squared) * step
        return y, None


def _tightest(view: _View, count: int, needed: Flags) -> Ticks:
    """The cuts that shape the set most, seen from its centre, and always those needed."""
    squares = view.R * view.R
    diagonal = _total(squares) + (view.below * view.below + view.above * view.above)
    pull = _rows(squares / diagonal)
    pull[needed] = pull[-1] = math.inf
    return np.sort(np.argsort(-pull, kind="stable")[:count])


def _entered(cuts: Cuts, box: Floats, y: Floats, cut: Cuts) -> Floats | None:
    """A point inside the cuts and one more, from a point inside the cuts; None if none is found.

    Along −H⁻¹·g: where the new slack grows most for what the others lose.
    """
    left, asked, slope = _Set(cuts, box), cut.asked[0], cut.slopes[0]
    for _ in range(_STEPS):
        slack = float(_total(slope * (asked - y)))
        view = left.view(y)
        if view is None:
            return None
        if slack > 0.0:
            return y
        step = _solved(_second(view), -slope)
        gain = 0.0 if step is None else -float(_total(slope * step))
        if step is None or not gain > 0.0:
            return None
        length = 0.7 / math.sqrt(gain)
        if slack < 0.0:
            longest = _longest(_changes(view, step))
            length = min(0.9 * longest, (longest - slack / gain) / 2.0)
        y = y + length * step
    return None


def _changes(view: _View, step: Floats) -> Floats:
    """By what part of itself each slack grows along a step."""
    return np.concatenate([-_rows(view.R * step), step * view.below, -step * view.above])


def _longest(changes: Floats) -> float:
    """How many steps there are to where the first slack is used up."""
    return -1.0 / min(float(changes.min()), -_TINY)


def _length(changes: Floats, fall: float) -> float:
    """How many steps there are to where −Σ log slack is least, if it falls so fast at first.

    Roughly: to where the slope is a tenth of what it was.
    """
    low, high = 0.0, _longest(changes)
    length = 1.0 / (1.0 + math.sqrt(fall))
    for _ in range(8):
        part = changes / (1.0 + length * changes)
        slope = -float(_total(part))
        if abs(slope) <= 0.1 * fall:
            break
        low, high = (length, high) if slope < 0.0 else (low, length)
        length = length - slope / float(_total(part * part))
        if not low < length < high:
            length = (low + high) / 2.0
    return length


def _second(view: _View) -> Floats:
    """H, cut after cut: the same bits either way."""
    R, m = view.R, len(view.below)
    H: Floats = np.zeros((m, m))
    if m <= _SMALL and len(R):
        H = _total(R[:, :, None] * R[:, None, :])
    elif m > _SMALL:
        product = np.empty((m, m))
        for row in R:
            H += np.multiply(row[:, None], row, out=product)
    H.reshape(-1)[:: m + 1] += view.below * view.below + view.above * view.above
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
    x = _eliminated_small(A.tolist()) if m <= _SMALL else _eliminated(A)
    return None if x is None else x / scale


def _eliminated(A: Floats) -> Floats | None:
    m = len(A)
    for j in range(m):
        pivot = A[j, j]
        if not pivot > _PIVOT:
            return None
        A[j + 1 :, j + 1 :] -= (A[j + 1 :, j] / pivot)[:, None] * A[j, j + 1 :]
    x = A[:, m]
    for j in reversed(range(m)):
        x[j] /= A[j, j]
        x[:j] -= A[:j, j] * x[j]
    return x


def _eliminated_small(A: list[list[float]]) -> Floats | None:
    """The same, number by number: the same bits, and faster where there are few."""
    m = len(A)
    for j, row in enumerate(A):
        if not row[j] > _PIVOT:
            return None
        for i in range(j + 1, m):
            lower = A[i]
            factor = lower[j] / row[j]
            for k in range(j + 1, m + 1):
                lower[k] -= factor * row[k]
    x = [row[m] for row in A]
    for j in reversed(range(m)):
        x[j] /= A[j][j]
        for i in range(j):
            x[i] -= A[i][j] * x[j]
    return np.array(x)


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
