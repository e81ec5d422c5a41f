"""The centre rule: each round cuts away prices that cannot be best, the next are amid the rest.

From public numbers alone: the exact totals of the rounds, and what the agreement says. Every
operation is elementwise float64 in a fixed order, and every sum either takes its terms one
after the other or is the correctly rounded one, so that all machines get the same bits. No BLAS
or LAPACK, no float reductions of numpy, no function of the machine's mathematics library but
the square root, no private number; and no exception, whatever the totals say.

Prices are in money for a whole capacity here, y = λ·c, so that nothing depends on the units
that the capacities are counted in.

Symbols: y prices, U the box 0 ≤ y ≤ U, g = 1 − reserve − total/c the slope of the dual value at
the prices asked, w weights, X the certificate. CERTIFICATE.md has the theorems and says how each
number is computed.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from protocol.numeric import Floats, Ticks, apportion, column_sums, ordered_sum, row_sums
from protocol.pricing.cutting_planes import Cuts, Flags, Polytope, find_interior, tightest
from protocol.pricing.weights import Basis, best_weights

WHOLE = 2**50
"""The weights of the rounds are whole numbers that add up to this."""

_FACTOR = 4.0  # between prices while their scale is sought, and from the highest to the box
_SEEKING = 32  # rounds in which the scale is sought, at most
_LIMIT = 1e100  # of prices where nobody sets one: squares and products stay finite
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
            return self._centered(after, find_interior(center.cuts, center.box, center.prices, cut))

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
        enough = raised.any() and ordered_sum(np.where(raised, slope * y, 0.0)) >= 0.0
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
            inside = find_interior(kept, center.box, y, cut)
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
        y, view = Polytope(cuts, center.box).center(inside)
        best, basis = self._proved(cuts, center.box, center.basis)
        if center.best is not None and not best.gap < center.best.gap:
            best = center.best
        if view is not None and len(cuts.rounds) > self._most_cuts:
            needed = np.array([number in basis for number in cuts.rounds.tolist()])
            cuts = cuts[tightest(view, self._most_cuts, needed)]
        return replace(center, prices=y, cuts=cuts, basis=basis, best=best, exact=view is None)

    def _proved(self, cuts: Cuts, box: Floats, basis: Basis | None) -> tuple[Certificate, Basis]:
        """The certificate of the weights that prove most, and the basis that gave them."""
        weights, basis = best_weights(
            rounds=cuts.rounds.tolist(),
            paid=row_sums(cuts.slopes * cuts.asked),
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
        y, g = column_sums(w * cuts.asked), column_sums(weighed)
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
