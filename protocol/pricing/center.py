"""The centre rule: rounds cut off prices that cannot be best; the next are the centre of the rest.

From public numbers alone: the exact totals of the rounds and the agreement. Every operation is
elementwise float64 in a fixed order, and every sum is ordered or correctly rounded, so all
machines get the same bits. Never here: BLAS, LAPACK, float reductions of numpy, functions of the
machine's mathematics library except the square root, private numbers, or an exception because of
some totals. Prices are in money for a whole capacity, y = λ·c, so that units do not matter.

Symbols: y prices, U the box 0 ≤ y ≤ U, g = 1 − reserve − total/c the slope of the dual value at
the prices asked, w weights, X the certificate. CERTIFICATE.md has the theorems, and in §6 how each
number is computed.
"""

import math
from functools import cached_property

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from protocol.numeric import Flags, Floats, Ticks, apportion, column_sums, ordered_sum, row_sums
from protocol.pricing.cutting_planes import BarrierPoint, Cuts, Polytope, tightest
from protocol.pricing.epigraph import center_in_value
from protocol.pricing.paths import Paths, consistent
from protocol.pricing.weights import Basis, best_weights

WHOLE = 2**50
"""The weights of the rounds are integers that add up to this."""

MOST_EXCESS = 2.0**-20
"""Averaged demands that exceed a capacity by more than this fraction of it do not fit."""

_FACTOR = 4.0  # between prices while their scale is searched, and from the highest to the box
_JUMP = 16.0  # between such prices where their scale is unknown and demand hardly falls
_HARDLY = 15.0 / 16.0  # of the demand before: if more is left, demand hardly falls
_SEARCH_ROUNDS = 32  # rounds in which the scale is searched, at most
_LIMIT = 1e100  # of prices, by default: squares and products stay finite
_SMALL = 2.0**-10  # of what all capacities are worth: a contradiction is longer, a gap is near
_ROUNDING = 2.0**-48  # CERTIFICATE.md §5


class Certificate(Struct, frozen=True):
    """Weights of the rounds, and what they prove about the averages over the rounds.

    Guarantee (CERTIFICATE.md §2): for the full capacity, the dual value at ȳ is at most `bound`
    above the optimum, and the averaged plans together earn at least the optimum less `bound`. If
    the averaged demands fit the capacity (`fits`), this needs nothing else. If they do not, the
    first half needs the best prices to be in the box.
    """

    #: Integers by round that add up to `WHOLE`; later rounds have none.
    weights: tuple[int, ...]
    #: ȳ = Σ w·y
    prices: Floats
    bound: float
    #: The bound without reserve and rounding. It says when to stop, and proves nothing.
    gap: float
    fits: bool
    #: By how much the averaged demands may exceed each capacity, as a fraction of it.
    excess: Floats

    def within(self, tolerance: float, prices: Floats | None = None) -> bool:
        """Whether the gap is at most this fraction of what all capacities are worth at ȳ.

        `prices` are ȳ, net of opposites if there are any. The averaged demands must fit too, except
        for what rounding takes: the gap says little about demands that do not fit, if best prices
        are above the box.
        """
        near = self.gap <= tolerance * math.fsum(self.prices if prices is None else prices)
        return near and not np.any(self.excess > MOST_EXCESS)


class Search(Struct, frozen=True):
    """The state of the search for the scale of the prices."""

    #: Resources whose total exceeded the capacity in some round.
    raised: Flags
    #: All prices go down.
    falling: bool = False


class Center(Struct, frozen=True):
    """Everything that the rule remembers between two rounds."""

    round: int
    #: The prices to ask next, within `box`.
    prices: Floats
    box: Floats
    cuts: Cuts
    #: None once there is a box.
    search: Search | None
    #: The longest paths among the cuts.
    paths: Paths = field(default_factory=Paths)
    #: The last answer contradicted others. It was set aside, and its prices are asked again.
    again: bool = False
    #: Where the simplex method starts when one more round is there.
    basis: Basis | None = None
    #: The best certificate so far; None only before the first round.
    best: Certificate | None = None
    #: Float64 gets no nearer. The session must stop, since later rounds change nothing.
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
        earlier: Cuts | None = None,
    ) -> None:
        """`worth` and `start` are in money for a whole capacity; values up to 0 mean unknown.

        The first prices are `start`, or else `worth`, or else 1. Guarantee: no price is above a
        fourth of `limit` while the scale is searched, and none reaches it later. `earlier` cuts,
        all with the number −1, choose prices and are in no certificate. With them the scale is
        known, and the first prices are their centre.
        """
        self._members, self._ticks, self._reserve = members, ticks, reserve_ticks
        self._most_cuts = 4 * resources + 16
        #: What no price reaches, and what none exceeds while the scale is searched.
        self._limit: Floats = np.full(resources, _LIMIT) if limit is None else limit
        self._ceiling: Floats = self._limit / _FACTOR
        guess: Floats = np.zeros(resources) if worth is None else np.maximum(worth, 0.0)
        asked: Floats = guess if start is None else np.maximum(start, 0.0)
        highest = float(np.max(np.maximum(guess, asked)))
        #: Whether a worth or a first price tells the scale; if none does, it begins at 1.
        self._known = highest > 0.0
        self._highest = highest if self._known else 1.0
        unit = np.where(guess > 0.0, guess, self._highest)
        self._unit: Floats = np.minimum(unit, self._ceiling)
        self._start = self._unit if start is None else np.minimum(asked, self._ceiling)
        self._earlier = earlier

    @cached_property
    def first(self) -> Center:
        """The state before the first round."""
        with np.errstate(all="ignore"):
            center = self._continued()
        if center is not None:
            return center
        m = len(self._unit)
        none = Cuts(np.zeros(0, dtype=np.int64), np.zeros((0, m)), np.zeros((0, m)))
        search = Search(np.zeros(m, dtype=np.bool_))
        return Center(0, self._start, self._box(self._start), none, search)

    def _continued(self) -> Center | None:
        """The centre of the earlier cuts that agree; None if there is none."""
        if self._earlier is None or not len(self._earlier.rounds):
            return None
        box = self._box(np.minimum(np.maximum(self._start, self._earlier.asked[-1]), self._ceiling))
        cuts, y = _agreeing(self._earlier, box)
        if not len(cuts.rounds):
            return None
        center = _consistent(Center(0, y, box, cuts, None))
        y, view = self._center(center, self._gap(center.cuts, box))
        return None if view is None else replace(center, prices=y)

    def next(self, center: Center, totals: Ticks) -> Center:
        """The state after a round that asked `center.prices` and had these totals, in ticks."""
        if center.exact:
            return replace(center, round=center.round + 1)
        with np.errstate(all="ignore"):
            slope = (self._ticks - self._reserve - totals) / self._ticks
            cut = Cuts(np.array([center.round]), center.prices[None], slope[None])
            after = replace(center, round=center.round + 1, cuts=center.cuts + cut)
            if not slope.any() or not (center.prices.any() or np.any(slope < 0.0)):
                # All is sold to the tick, or all is free and nothing is scarce: these are best.
                return self._certify_last(replace(after, exact=True))
            if center.search is not None:
                return self._search_step(after, center.search, slope)
            return self._take_cut(center, after)

    def _search_step(self, center: Center, search: Search, slope: Floats) -> Center:
        """While the scale is searched: the prices to ask next, or the first centre."""
        over = bool(np.any(slope < 0.0))
        if center.round == 1 and not over:
            # Nothing is scarce at these prices. Is anything if all is free?
            return self._ask(center, np.zeros_like(slope), replace(search, falling=True))
        if center.round >= _SEARCH_ROUNDS:
            return self._first_center(center)
        if not search.falling:
            return self._raise_prices(center, search, slope)
        if not center.prices.any():
            return self._ask(center, self._start / _FACTOR, search)
        if not over:
            return self._ask(center, center.prices / _FACTOR, search)
        return self._first_center(center)

    def _raise_prices(self, center: Center, search: Search, slope: Floats) -> Center:
        """Raise the prices of all scarce resources, until nothing is scarce.

        Each rises by a factor, and at least to the level of the others. In a tight problem
        something is always scarce. So it also ends where g·y over all raised resources is not
        negative: then no higher scale of these is better. And it ends at the ceiling of the prices.
        """
        y, over, raised = center.prices, slope < 0.0, search.raised
        enough = raised.any() and ordered_sum(np.where(raised, slope * y, 0.0)) >= 0.0
        if enough or not over.any():
            return self._first_center(center)
        level = float(np.max(y / self._unit))
        lifted = (level if level > 0.0 else 1.0) * self._unit
        factor = self._factor(center, over, level)
        higher = np.minimum(np.maximum(y * factor, lifted), self._ceiling)
        prices = np.where(over, higher, y)
        if not np.any(prices > y):
            return self._first_center(center)
        return self._ask(center, prices, Search(raised | over))

    def _factor(self, center: Center, over: Flags, level: float) -> float:
        """How much the prices of scarce resources rise: more if the scale seems far away.

        That is so if no worth is known, and later if what is scarce is demanded as before.
        """
        if center.round == 1:
            return _FACTOR if self._known else _JUMP
        demands = np.where(over, (1.0 - center.cuts.slopes[-2:]) * self._unit, 0.0)
        before, now = row_sums(demands).tolist()
        return _JUMP if level >= _JUMP and now > _HARDLY * before else _FACTOR

    def _ask(self, center: Center, prices: Floats, search: Search) -> Center:
        box = self._box(prices)
        return self._certify_last(replace(center, prices=prices, box=box, search=search))

    def _box(self, prices: Floats) -> Floats:
        """A factor above the highest price, for every resource: a low price may rise."""
        highest = float(np.max(prices))
        box = np.full_like(prices, _FACTOR * (highest if highest > 0.0 else self._highest))
        return np.minimum(box, self._limit)

    def _certify_last(self, center: Center) -> Center:
        """Add the certificate of the last round alone, while there is no centre."""
        return replace(center, best=self._certificate(center.cuts[-1:], [WHOLE], center.box))

    def _first_center(self, center: Center) -> Center:
        """The first centre in the box: of the last round and all that agree with it."""
        kept, y = _agreeing(center.cuts, center.box)
        if not len(kept.rounds):
            return self._certify_last(replace(center, exact=True))
        center = replace(center, prices=y, cuts=kept, search=None)
        return self._move_to_center(_consistent(center))

    def _take_cut(self, before: Center, after: Center) -> Center:
        """Add the newest cut. If it contradicts others, ask again; if it still does, believe it.

        If there are earlier cuts, they are given up first: the models may have changed.
        """
        own = after.cuts.rounds >= 0
        paths = before.paths.add(after.cuts.asked, after.cuts.slopes)
        if paths.doubt <= _most_doubt(before):
            after = replace(after, paths=paths, again=False)
        elif not own.all():
            after = _consistent(replace(after, cuts=after.cuts[own]))
        elif not before.again:
            return replace(before, round=after.round, again=True)
        else:
            after = _consistent(after)
        return self._move_to_center(after)

    def _move_to_center(self, center: Center) -> Center:
        """Certify, and move to the centre, from prices inside all cuts but the newest."""
        best, basis = self._best(center)
        higher = self._higher_box(center, best)
        if np.any(higher > center.box):
            center = replace(center, box=higher, basis=None, best=None)
            best, basis = self._best(center)
        cuts, own = center.cuts, center.cuts.rounds >= 0
        y, view = self._center(center, best.gap if own.all() else self._gap(cuts, center.box))
        if view is None and not own.all():
            # Earlier cuts may be in the way: go on without them.
            return self._move_to_center(replace(center, cuts=cuts[own], paths=center.paths[own]))
        center = replace(center, prices=y, basis=basis, best=best, exact=view is None)
        if view is None or len(cuts.rounds) <= self._most_cuts:
            return center
        needed = own & np.array([number in basis for number in cuts.rounds.tolist()])
        kept = tightest(view, self._most_cuts, needed)
        return replace(center, cuts=cuts[kept], paths=center.paths[kept])

    def _center(self, center: Center, gap: float) -> tuple[Floats, BarrierPoint | None]:
        """The centre in prices and value, or else that of the cuts; None if there is neither."""
        cuts, box, y = center.cuts, center.box, center.prices
        return center_in_value(cuts, center.paths, box, y, gap) or _center_of_cuts(cuts, box, y)

    def _gap(self, cuts: Cuts, box: Floats) -> float:
        """The gap of all cuts, earlier ones included. It steers, and proves nothing."""
        return self._certify(replace(cuts, rounds=np.arange(len(cuts.rounds))), box, None)[0].gap

    def _best(self, center: Center) -> tuple[Certificate, Basis]:
        """The certificate of the best weights, or that of earlier rounds if it is better."""
        own = center.cuts[center.cuts.rounds >= 0]
        best, basis = self._certify(own, center.box, center.basis)
        if center.best is not None and not best.gap < center.best.gap:
            best = center.best
        return best, basis

    def _higher_box(self, center: Center, best: Certificate) -> Floats:
        """The box, a factor higher where best prices seem to be above it.

        That is where averaged demands do not fit, although the gap is small. It is also where they
        do not fit, and the resource was still scarce at the newest price, above half of the box.
        """
        box, newest = center.box, center.cuts[-1:]
        above = best.excess > MOST_EXCESS
        if best.gap > _SMALL * math.fsum(best.prices):
            above &= (newest.asked[0] >= box / 2.0) & (newest.slopes[0] < 0.0)
        return np.where(above, np.minimum(_FACTOR * box, self._limit), box)

    def _certify(self, cuts: Cuts, box: Floats, basis: Basis | None) -> tuple[Certificate, Basis]:
        """The certificate of the best weights, and the basis that gave them."""
        weights, basis = best_weights(
            rounds=cuts.rounds.tolist(),
            paid=row_sums(cuts.slopes * cuts.asked),
            slopes=cuts.slopes,
            box=box,
            basis=basis,
        )
        chosen = np.flatnonzero(weights)
        integers = apportion(WHOLE, [int(w * 2.0**60) for w in weights[chosen].tolist()])
        return self._certificate(cuts[chosen], integers, box), basis

    def _certificate(self, cuts: Cuts, integers: list[int], box: Floats) -> Certificate:
        """What these weights of the cuts prove (CERTIFICATE.md §2, rounded up by §5)."""
        reserve, e = self._reserve / self._ticks, self._members / (2 * self._ticks)
        w: Floats = np.array(integers)[:, None] / WHOLE
        weighed = w * cuts.slopes
        y, g = column_sums(w * cuts.asked), column_sums(weighed)
        paid = math.fsum((weighed * cuts.asked).ravel().tolist())
        room = g + reserve - e
        rounding = _ROUNDING * (1.0 + self._members + float(np.max(np.abs(cuts.slopes))))
        short = box * np.maximum(-room, 0.0)
        terms = np.concatenate([(reserve + e) * y, short, rounding * y, rounding * box])
        weights = [0] * (int(cuts.rounds[-1]) + 1)
        for number, weight in zip(cuts.rounds.tolist(), integers, strict=True):
            weights[number] = weight
        return Certificate(
            weights=tuple(weights),
            prices=y,
            bound=math.fsum([paid, *terms.tolist()]),
            gap=math.fsum([paid, *(box * np.maximum(-g, 0.0)).tolist()]),
            fits=float(np.min(room)) >= rounding,
            excess=np.maximum(-room, 0.0),
        )


def _center_of_cuts(cuts: Cuts, box: Floats, y: Floats) -> tuple[Floats, BarrierPoint | None]:
    """The centre of the cuts alone, from prices inside all but the newest; None if not found."""
    inside = Polytope(cuts[:-1], box).enter(y, cuts.asked[-1], cuts.slopes[-1])
    return (y, None) if inside is None else Polytope(cuts, box).center(inside)


def _agreeing(cuts: Cuts, box: Floats) -> tuple[Cuts, Floats]:
    """The newest cut and all that agree with it, and prices inside them."""
    y: Floats = box / 2.0
    kept = cuts[:0]
    for number in reversed(range(len(cuts.rounds))):
        cut = cuts[number : number + 1]
        inside = Polytope(kept, box).enter(y, cut.asked[0], cut.slopes[0])
        if inside is not None:
            kept, y = cut + kept, inside
    return kept, y


def _most_doubt(center: Center) -> float:
    """The length of a cycle above which rounds contradict each other, in money.

    A fraction of what is known of the worth of all capacities. Whole numbers and a solver's
    tolerance stay below it, and values that are off by that amount still help.
    """
    best = center.best
    if best is None or np.any(center.cuts.rounds < 0):
        return _SMALL * math.fsum(center.prices)
    return _SMALL * max(best.gap, math.fsum(best.prices))


def _consistent(center: Center) -> Center:
    """Give up the rounds that contradict newer ones, and what they proved."""
    cuts = center.cuts
    kept, paths = consistent(cuts.asked, cuts.slopes, _most_doubt(center))
    return replace(center, cuts=cuts[kept], paths=paths, again=False, basis=None, best=None)
