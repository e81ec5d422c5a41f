"""Reference implementation of the centre rule, CERTIFICATE.md §6.

Slow and plain: lists, loops and one operation at a time. Tests compare the product with it bit for
bit, and both with the vectors. Never imports the product.
"""

import math
from dataclasses import dataclass, field

WHOLE = 1125899906842624

Vector = list[float]


@dataclass
class Proof:
    """A certificate."""

    weights: list[int]
    prices: Vector
    bound: float
    gap: float
    fits: bool
    excess: Vector

    def within(self, tolerance: float, net: Vector) -> bool:
        near = self.gap <= tolerance * math.fsum(net)
        return near and not any(part > 2.0**-20 for part in self.excess)

    @property
    def small(self) -> float:
        """What counts as little money."""
        return 2.0**-10 * math.fsum(self.prices)


@dataclass
class Region:
    """Cuts and bounds; the barrier counts upper bounds several times."""

    asked: list[Vector]
    slopes: list[Vector]
    low: Vector
    high: Vector
    times: Vector


def in_box(asked: list[Vector], slopes: list[Vector], box: Vector) -> Region:
    return Region(asked, slopes, [0.0] * len(box), box, [1.0] * len(box))


@dataclass
class Reader:
    """Reads the totals of one session, round after round."""

    members: int
    m: int
    ticks: int
    reserve: int = 0
    worth: Vector | None = None
    start: Vector | None = None
    limit: Vector | None = None
    earlier: list[tuple[Vector, Vector]] = field(default_factory=list)
    round: int = 0
    exact: bool = False
    seeking: bool = True
    falling: bool = False
    again: bool = False
    paths: list[Vector] = field(default_factory=list)
    doubt: float = 0.0
    basis: list[int] | None = None
    best: Proof | None = None
    rounds: list[int] = field(default_factory=list)
    asked: list[Vector] = field(default_factory=list)
    slopes: list[Vector] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = [w if w > 0.0 else 0.0 for w in self.worth or [0.0] * self.m]
        first = known if self.start is None else [s if s > 0.0 else 0.0 for s in self.start]
        self.guessed = any(number > 0.0 for number in known + first)
        self.highest = max(known + first) or 1.0
        self.most = self.limit or [1e100] * self.m
        self.ceiling = [most / 4.0 for most in self.most]
        self.unit = [min(known[j] or self.highest, self.ceiling[j]) for j in range(self.m)]
        self.origin = self.unit
        if self.start is not None:
            self.origin = [min(first[j], self.ceiling[j]) for j in range(self.m)]
        self.prices = list(self.origin)
        self.box = self.box_of(self.prices)
        self.raised = [False] * self.m
        self.go_on()

    def go_on(self) -> None:
        """Begin at the centre of the earlier cuts, if they have one."""
        if not self.earlier:
            return
        last = self.earlier[-1][0]
        first = [
            min(max(p, y), most) for p, y, most in zip(self.origin, last, self.ceiling, strict=True)
        ]
        prices, box, self.box = self.prices, self.box, self.box_of(first)
        self.rounds = [-1] * len(self.earlier)
        self.asked, self.slopes = map(list, zip(*self.earlier, strict=True))
        y = self.agreeing()
        found = None
        if self.rounds:
            self.prices = y
            self.give_up()
            found = self.next_centre(y, self.gap())
        if found is not None:
            self.prices, self.seeking = found[0], False
        else:
            self.prices, self.box = prices, box
            self.rounds, self.asked, self.slopes, self.paths, self.doubt = [], [], [], [], 0.0

    def box_of(self, prices: Vector) -> Vector:
        top = 4.0 * (max(prices) or self.highest)
        return [min(top, most) for most in self.most]

    def read(self, totals: list[int]) -> None:
        """One round."""
        self.round += 1
        if self.exact:
            return
        g = [float(self.ticks - self.reserve - total) / self.ticks for total in totals]
        over = [slope < 0.0 for slope in g]
        number, asked = self.round - 1, self.prices
        free = not any(asked)
        if not any(g) or (free and not any(over)):
            self.keep(number, asked, g)
            self.exact = True
            self.alone()
        elif self.seeking:
            self.keep(number, asked, g)
            self.seek(g, over, free)
        else:
            self.take(number, asked, g)

    def take(self, number: int, asked: Vector, g: Vector) -> None:
        """One more cut, unless it contradicts others for the first time."""
        paths, doubt = lengthened(self.paths, self.doubt, [*self.asked, asked], [*self.slopes, g])
        if doubt <= self.most_doubt():
            self.keep(number, asked, g)
            self.paths, self.doubt, self.again = paths, doubt, False
            self.centre(asked)
        elif -1 in self.rounds:
            self.only([i for i, number in enumerate(self.rounds) if number >= 0])
            self.keep(number, asked, g)
            self.give_up()
            self.centre(asked)
        elif not self.again:
            self.again = True
        else:
            self.keep(number, asked, g)
            self.give_up()
            self.centre(asked)

    def most_doubt(self) -> float:
        if self.best is None or -1 in self.rounds:
            return 2.0**-10 * math.fsum(self.prices)
        return 2.0**-10 * max(self.best.gap, math.fsum(self.best.prices))

    def give_up(self) -> None:
        """Keep the cuts that do not contradict newer ones."""
        limit, last = self.most_doubt(), len(self.rounds) - 1
        kept = [last]
        paths, doubt = [[0.0]], 0.0
        for i in range(last - 1, max(-1, last - 1 - 256), -1):
            order = [*kept, i]
            more, found = lengthened(
                paths, doubt, [self.asked[k] for k in order], [self.slopes[k] for k in order]
            )
            if found <= limit:
                kept, paths, doubt = order, more, found
        kept.reverse()
        self.only(kept)
        self.paths, self.doubt = [row[::-1] for row in reversed(paths)], doubt
        self.again, self.basis, self.best = False, None, None

    def only(self, kept: list[int]) -> None:
        self.rounds = [self.rounds[i] for i in kept]
        self.asked = [self.asked[i] for i in kept]
        self.slopes = [self.slopes[i] for i in kept]

    def keep(self, number: int, asked: Vector, g: Vector) -> None:
        self.rounds = [*self.rounds, number]
        self.asked = [*self.asked, asked]
        self.slopes = [*self.slopes, g]

    def seek(self, g: Vector, over: list[bool], free: bool) -> None:
        if self.round == 1 and not any(over):
            self.falling = True
            self.ask([0.0] * self.m)
        elif self.round >= 32:
            self.settle()
        elif self.falling and free:
            self.ask([y / 4.0 for y in self.origin])
        elif self.falling and not any(over):
            self.ask([y / 4.0 for y in self.prices])
        elif self.falling:
            self.settle()
        else:
            self.rise(g, over)

    def rise(self, g: Vector, over: list[bool]) -> None:
        y = self.prices
        terms = [g[j] * y[j] if self.raised[j] else 0.0 for j in range(self.m)]
        enough = any(self.raised) and in_order(terms) >= 0.0
        if not any(over) or enough:
            self.settle()
            return
        level = max(y[j] / self.unit[j] for j in range(self.m)) or 1.0
        times = 16.0 if self.far_away(over, level) else 4.0
        higher = [
            min(max(y[j] * times, level * self.unit[j]), self.ceiling[j]) for j in range(self.m)
        ]
        asked = [higher[j] if over[j] else y[j] for j in range(self.m)]
        if not any(asked[j] > y[j] for j in range(self.m)):
            self.settle()
            return
        self.raised = [self.raised[j] or over[j] for j in range(self.m)]
        self.ask(asked)

    def far_away(self, over: list[bool], level: float) -> bool:
        """Whether the scale of the prices seems far away."""
        if self.round == 1:
            return not self.guessed
        demands = [
            in_order([(1.0 - g[j]) * self.unit[j] if over[j] else 0.0 for j in range(self.m)])
            for g in self.slopes[-2:]
        ]
        return level >= 16.0 and demands[1] > 15.0 / 16.0 * demands[0]

    def ask(self, prices: Vector) -> None:
        self.prices = prices
        self.box = self.box_of(prices)
        self.alone()

    def alone(self) -> None:
        last = slice(-1, None)
        self.best = self.proof(self.rounds[last], self.asked[last], self.slopes[last], [WHOLE])

    def settle(self) -> None:
        """The scale is found: the box stays, and the first centre is sought."""
        rounds, asked, slopes = self.rounds, self.asked, self.slopes
        y = self.agreeing()
        if not self.rounds:
            self.rounds, self.asked, self.slopes, self.exact = rounds, asked, slopes, True
            self.alone()
            return
        self.prices, self.seeking = y, False
        self.give_up()
        self.centre(y)

    def agreeing(self) -> Vector:
        """Keep the newest cut and all that agree with it. Prices inside them."""
        y = [u / 2.0 for u in self.box]
        rounds: list[int] = []
        asked: list[Vector] = []
        slopes: list[Vector] = []
        for i in range(len(self.rounds) - 1, -1, -1):
            inside = entered(in_box(asked, slopes, self.box), y, self.asked[i], self.slopes[i])
            if inside is not None:
                y = inside
                rounds.insert(0, self.rounds[i])
                asked.insert(0, self.asked[i])
                slopes.insert(0, self.slopes[i])
        self.rounds, self.asked, self.slopes = rounds, asked, slopes
        return y

    def centre(self, y: Vector) -> None:
        before = self.basis, self.best
        best = self.improved()
        grow = [
            best.excess[j] > 2.0**-20
            and (
                best.gap <= best.small
                or (self.slopes[-1][j] < 0.0 and self.asked[-1][j] >= self.box[j] / 2.0)
            )
            for j in range(self.m)
        ]
        most = zip(self.box, self.most, grow, strict=True)
        higher = [min(4.0 * u, limit) if yes else u for u, limit, yes in most]
        if any(h > u for h, u in zip(higher, self.box, strict=True)):
            self.box, self.basis, self.best = higher, None, None
            before = None, None
            best = self.improved()
        own = [i for i, number in enumerate(self.rounds) if number >= 0]
        mixed = len(own) < len(self.rounds)
        found = self.next_centre(y, self.gap() if mixed else best.gap)
        if found is None and mixed:
            self.basis, self.best = before
            self.only(own)
            self.paths = [[self.paths[a][i] for i in own] for a in own]
            self.centre(y)
            return
        self.best = best
        if found is None:
            self.exact = True
            return
        self.prices, region, point = found
        most_cuts = 4 * self.m + 16
        if len(self.rounds) > most_cuts:
            needed = [number >= 0 and number in (self.basis or []) for number in self.rounds]
            kept = tightest(region, point, most_cuts, needed)
            self.only(kept)
            self.paths = [[self.paths[a][i] for i in kept] for a in kept]

    def next_centre(self, y: Vector, gap: float) -> tuple[Vector, Region, Vector] | None:
        found = centre_in_value(self.asked, self.slopes, self.paths, self.doubt, self.box, y, gap)
        return self.centre_of_cuts(y) if found is None else found

    def centre_of_cuts(self, y: Vector) -> tuple[Vector, Region, Vector] | None:
        before = in_box(self.asked[:-1], self.slopes[:-1], self.box)
        inside = entered(before, y, self.asked[-1], self.slopes[-1])
        self.prices = y
        if inside is None:
            return None
        region = in_box(self.asked, self.slopes, self.box)
        self.prices, found = centre_of(region, inside)
        return (self.prices, region, self.prices) if found else None

    def improved(self) -> Proof:
        """The certificate of the best weights, if it is better than the one before."""
        own = [i for i, number in enumerate(self.rounds) if number >= 0]
        new, self.basis = self.weighed(own, [self.rounds[i] for i in own], self.basis)
        return new if self.best is None or new.gap < self.best.gap else self.best

    def gap(self) -> float:
        """The gap of all cuts, earlier ones too."""
        every = list(range(len(self.rounds)))
        return self.weighed(every, every, None)[0].gap

    def weighed(
        self, cuts: list[int], numbers: list[int], basis: list[int] | None
    ) -> tuple[Proof, list[int]]:
        """The certificate of the best weights of some cuts, and its basis."""
        asked, slopes = [self.asked[i] for i in cuts], [self.slopes[i] for i in cuts]
        paid = [
            in_order([g * a for g, a in zip(*rows, strict=True)])
            for rows in zip(slopes, asked, strict=True)
        ]
        weights, basis = best_weights(numbers, paid, slopes, self.box, basis)
        counted = [i for i in range(len(weights)) if weights[i] != 0.0]
        proof = self.proof(
            [numbers[i] for i in counted],
            [asked[i] for i in counted],
            [slopes[i] for i in counted],
            shared_out([int(weights[i] * 2.0**60) for i in counted]),
        )
        return proof, basis

    def proof(
        self, rounds: list[int], asked: list[Vector], slopes: list[Vector], whole: list[int]
    ) -> Proof:
        n, columns = range(len(rounds)), range(self.m)
        r, e = self.reserve / self.ticks, self.members / (2 * self.ticks)
        w = [part / WHOLE for part in whole]
        y = [math.fsum(w[i] * asked[i][j] for i in n) for j in columns]
        g = [math.fsum(w[i] * slopes[i][j] for i in n) for j in columns]
        paid = math.fsum(w[i] * slopes[i][j] * asked[i][j] for i in n for j in columns)
        room = [g[j] + r - e for j in columns]
        steepest = 1.0 + self.members + max(abs(slopes[i][j]) for i in n for j in columns)
        tiny = 2.0**-48 * steepest
        terms = [paid]
        terms += [(r + e) * y[j] for j in columns]
        terms += [self.box[j] * max(-room[j], 0.0) for j in columns]
        terms += [tiny * y[j] for j in columns] + [tiny * self.box[j] for j in columns]
        weights = [0] * (rounds[-1] + 1)
        for i in n:
            weights[rounds[i]] = whole[i]
        return Proof(
            weights=weights,
            prices=y,
            bound=math.fsum(terms),
            gap=math.fsum([paid] + [self.box[j] * max(-g[j], 0.0) for j in columns]),
            fits=all(room[j] >= tiny for j in columns),
            excess=[max(-room[j], 0.0) for j in columns],
        )


def in_order(terms: Vector) -> float:
    """The sum of terms, one after the other."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def shared_out(weights: list[int]) -> list[int]:
    """WHOLE in proportion to the weights, by largest remainder."""
    whole = sum(weights)
    parts = [WHOLE * weight // whole for weight in weights]
    ranked = sorted((-(WHOLE * weights[i] % whole), i) for i in range(len(weights)))
    for _, i in ranked[: WHOLE - sum(parts)]:
        parts[i] += 1
    return parts


def slacks(asked: list[Vector], slopes: list[Vector], y: Vector) -> Vector:
    columns = range(len(y))
    return [
        in_order([g[j] * (a[j] - y[j]) for j in columns])
        for a, g in zip(asked, slopes, strict=True)
    ]


def lengthened(
    paths: list[Vector], doubt: float, asked: list[Vector], slopes: list[Vector]
) -> tuple[list[Vector], float]:
    """The longest paths with one more round, the last, and the longest cycle."""
    n, (y, g) = len(paths), (asked[-1], slopes[-1])
    if n == 0:
        return [[0.0]], doubt
    columns = range(len(y))
    to = [in_order([slopes[a][j] * (y[j] - asked[a][j]) for j in columns]) for a in range(n)]
    back = [in_order([g[j] * (asked[i][j] - y[j]) for j in columns]) for i in range(n)]
    into = [max(paths[a][k] + to[k] for k in range(n)) for a in range(n)]
    out = [max(back[k] + paths[k][i] for k in range(n)) for i in range(n)]
    cycle = max(0.0, *(into[a] + out[a] for a in range(n)))
    into = [length - cycle / 2.0 for length in into]
    out = [length - cycle / 2.0 for length in out]
    longer = [
        [0.0 if a == i else max(paths[a][i], into[a] + out[i]) for i in range(n)] + [into[a]]
        for a in range(n)
    ]
    return [*longer, [*out, 0.0]], max(doubt, cycle)


def centre_in_value(
    asked: list[Vector],
    slopes: list[Vector],
    paths: list[Vector],
    doubt: float,
    box: Vector,
    y: Vector,
    gap: float,
) -> tuple[Vector, Region, Vector] | None:
    n, m = len(asked), len(box)
    heights = [max(paths[a][i] for a in range(n)) for i in range(n)]
    r = heights.index(min(heights))
    d = [(1.0 - 0.6) * paths[r][i] - 0.6 * paths[i][r] for i in range(n)]
    top = min(d)
    planes = [
        in_order([slopes[i][j] * (y[j] - asked[i][j]) for j in range(m)]) + d[i] for i in range(n)
    ]
    region = Region(
        [[*asked[i], d[i]] for i in range(n)],
        [[*slopes[i], -1.0] for i in range(n)],
        [0.0] * m + [-math.inf],
        [*box, math.inf],
        [1.0] * (m + 1),
    )
    level, down = [0.0] * m + [top], [0.0] * m + [1.0]
    inside = entered(region, [*y, max(planes) + gap], level, down)
    if inside is None:
        return None
    region.high, region.times = [*box, top], [1.0] * m + [max(1.0, n / 2.0)]
    point, found = centre_of(region, inside)
    if not found or not top - point[m] > max(doubt, 2.0**-8 * gap):
        return None
    return point[:m], region, point


def outside(region: Region, slack: Vector, y: Vector) -> bool:
    under = [a - b for a, b in zip(y, region.low, strict=True)]
    room = [a - b for a, b in zip(region.high, y, strict=True)]
    return not all(number > 0.0 for number in [*slack, *under, *room])


def sides(region: Region, y: Vector) -> tuple[Vector, Vector]:
    """below and above."""
    below = [1.0 / (a - b) for a, b in zip(y, region.low, strict=True)]
    return below, [1.0 / (a - b) for a, b in zip(region.high, y, strict=True)]


def bends(region: Region, y: Vector) -> Vector:
    """What the bounds add to the diagonal of H."""
    below, above = sides(region, y)
    return [b * b + t * (a * a) for b, a, t in zip(below, above, region.times, strict=True)]


def curvature(region: Region, R: list[Vector], y: Vector) -> list[Vector]:
    """H."""
    m = len(y)
    H = [[in_order([row[j] * row[k] for row in R] or [0.0]) for k in range(m)] for j in range(m)]
    for j, more in enumerate(bends(region, y)):
        H[j][j] += more
    return H


def solution(H: list[Vector], right: Vector) -> Vector | None:
    m = len(right)
    scale = [math.sqrt(H[j][j]) for j in range(m)]
    A = [[H[j][k] / scale[j] / scale[k] for k in range(m)] for j in range(m)]
    x = [right[j] / scale[j] for j in range(m)]
    for j in range(m):
        if not A[j][j] > 1e-15:
            return None
        for i in range(j + 1, m):
            factor = A[i][j] / A[j][j]
            for k in range(j + 1, m):
                A[i][k] = A[i][k] - factor * A[j][k]
            x[i] = x[i] - factor * x[j]
    for j in range(m - 1, -1, -1):
        x[j] = x[j] / A[j][j]
        for i in range(j):
            x[i] = x[i] - A[i][j] * x[j]
    return [x[j] / scale[j] for j in range(m)]


def growth(region: Region, R: list[Vector], y: Vector, step: Vector) -> Vector:
    """By what part of itself each slack grows along a step."""
    columns, (below, above) = range(len(y)), sides(region, y)
    cuts = [-in_order([row[j] * step[j] for j in columns]) for row in R]
    return cuts + [step[j] * below[j] for j in columns] + [-step[j] * above[j] for j in columns]


def longest(changes: Vector) -> float:
    return -1.0 / min(min(changes), -1e-300)


def length_of(changes: Vector, times: Vector, fall: float) -> float:
    times = [1.0] * (len(changes) - len(times)) + times
    low, high = 0.0, longest(changes)
    t = 1.0 / (1.0 + math.sqrt(fall))
    for _ in range(8):
        part = [change / (1.0 + t * change) for change in changes]
        slope = -in_order([n * p for n, p in zip(times, part, strict=True)])
        if abs(slope) <= 0.1 * fall:
            break
        if slope < 0.0:
            low = t
        else:
            high = t
        t = t - slope / in_order([n * (p * p) for n, p in zip(times, part, strict=True)])
        if not low < t < high:
            t = (low + high) / 2.0
    return t


def pulls(region: Region, slack: Vector) -> list[Vector]:
    """R."""
    return [[a / s for a in row] for row, s in zip(region.slopes, slack, strict=True)]


def entered(region: Region, y: Vector, point: Vector, g: Vector) -> Vector | None:
    """From a point inside the cuts to one inside one more."""
    columns = range(len(y))
    for _ in range(40):
        new = in_order([g[j] * (point[j] - y[j]) for j in columns])
        slack = slacks(region.asked, region.slopes, y)
        if outside(region, slack, y):
            return None
        if new > 0.0:
            return y
        R = pulls(region, slack)
        step = solution(curvature(region, R, y), [-slope for slope in g])
        if step is None:
            return None
        gain = -in_order([g[j] * step[j] for j in columns])
        if not gain > 0.0:
            return None
        t = 0.7 / math.sqrt(gain)
        if new < 0.0:
            far = longest(growth(region, R, y, step))
            t = min(0.9 * far, (far - new / gain) / 2.0)
        y = [y[j] + t * step[j] for j in columns]
    return None


def centre_of(region: Region, y: Vector) -> tuple[Vector, bool]:
    columns = range(len(y))
    point = y
    for _ in range(40):
        slack = slacks(region.asked, region.slopes, point)
        if outside(region, slack, point):
            break
        y = point
        R, (below, above) = pulls(region, slack), sides(region, y)
        gradient = [
            in_order([row[j] for row in R]) - below[j] + region.times[j] * above[j] for j in columns
        ]
        step = solution(curvature(region, R, y), [-slope for slope in gradient])
        if step is None:
            break
        squared = -in_order([gradient[j] * step[j] for j in columns])
        if not squared >= 0.0:
            break
        if squared < 0.1 * 0.1:
            point = [y[j] + step[j] for j in columns]
            lost = outside(region, slacks(region.asked, region.slopes, point), point)
            return (y if lost else point), True
        t = length_of(growth(region, R, y, step), region.times, squared)
        point = [y[j] + t * step[j] for j in columns]
    return y, False


def tightest(region: Region, y: Vector, most: int, needed: list[bool]) -> list[int]:
    columns, R = range(len(y)), pulls(region, slacks(region.asked, region.slopes, y))
    more = bends(region, y)
    diagonal = [in_order([row[j] * row[j] for row in R]) + more[j] for j in columns]
    pull = [in_order([row[j] * row[j] / diagonal[j] for j in columns]) for row in R]
    pull = [math.inf if needed[i] else pull[i] for i in range(len(pull))]
    pull[-1] = math.inf
    ranked = sorted(range(len(pull)), key=lambda i: (-pull[i], i))
    return sorted(ranked[:most])


def best_weights(
    rounds: list[int], paid: Vector, slopes: list[Vector], box: Vector, basis: list[int] | None
) -> tuple[Vector, list[int]]:
    """The weights that prove most, and the basis to start from next time."""
    program = Program(rounds, paid, slopes, box)
    if basis is None or not program.enter(basis):
        program = Program(rounds, paid, slopes, box)
        program.enter(alone(rounds, paid, slopes, box))
    program.improve()
    return program.weights(), [program.labels[place] for place in program.basic]


def alone(rounds: list[int], paid: Vector, slopes: list[Vector], box: Vector) -> list[int]:
    m = len(box)
    gaps = [
        cost - in_order([min(g[j], 0.0) * box[j] for j in range(m)])
        for cost, g in zip(paid, slopes, strict=True)
    ]
    best = gaps.index(min(gaps))
    return [-1 - j if slopes[best][j] < 0.0 else -1 - m - j for j in range(m)] + [rounds[best]]


class Program:
    """The table of the simplex method, a list for each row."""

    def __init__(self, rounds: list[int], paid: Vector, slopes: list[Vector], box: Vector) -> None:
        n, m = len(rounds), len(box)
        scale = max(*(abs(cost) for cost in paid), *box)
        self.n, self.m = n, m
        self.rows = []
        for j in range(m):
            v = [1.0 if k == j else 0.0 for k in range(m)]
            t = [-1.0 if k == j else 0.0 for k in range(m)]
            self.rows.append([g[j] for g in slopes] + v + t + [0.0])
        self.rows.append([1.0] * n + [0.0] * (2 * m) + [1.0])
        self.rows.append([c / scale for c in [*paid, *box]] + [0.0] * (m + 1))
        self.labels = [*rounds, *(-1 - k for k in range(2 * m))]
        self.basic = [0] * (m + 1)

    def enter(self, basis: list[int]) -> bool:
        rows, m = self.rows, self.m
        free = list(range(m + 1))
        for label in sorted(basis):
            place = self.labels.index(label)
            if label < 0:
                row = (-1 - label) % m
                if row not in free:
                    return False
                sign, cost = rows[row][place], rows[m + 1][place]
                rows[row] = [sign * a for a in rows[row]]
                rows[m + 1] = [a - cost * b for a, b in zip(rows[m + 1], rows[row], strict=True)]
                self.basic[row] = place
            else:
                size = max(abs(rows[r][place]) for r in free)
                row = next(r for r in free if abs(rows[r][place]) == size)
                if not size > 1e-9:
                    return False
                self.pivot(row, place)
            free.remove(row)
        return all(rows[r][-1] >= -1e-9 for r in range(m + 1))

    def improve(self) -> None:
        for _ in range(64 + 8 * self.m):
            costs = self.rows[self.m + 1][:-1]
            least = min(costs)
            if not least < -1e-12:
                return
            place = costs.index(least)
            reach = [
                max(row[-1], 0.0) / row[place] if row[place] > 1e-9 else math.inf
                for row in self.rows[: self.m + 1]
            ]
            if not min(reach) < math.inf:
                return
            self.pivot(reach.index(min(reach)), place)

    def pivot(self, row: int, place: int) -> None:
        divisor = self.rows[row][place]
        own = self.rows[row] = [a / divisor for a in self.rows[row]]
        for i in range(self.m + 2):
            if i != row:
                factor = self.rows[i][place]
                self.rows[i] = [a - factor * b for a, b in zip(self.rows[i], own, strict=True)]
        self.basic[row] = place

    def weights(self) -> Vector:
        found = [0.0] * self.n
        used = [r for r in range(self.m + 1) if self.basic[r] < self.n]
        for r in used:
            found[self.basic[r]] = max(0.0, self.rows[r][-1])
        if not (all(map(math.isfinite, found)) and max(found) * len(used) > 0.5):
            found = [0.0] * self.n
            found[self.basic[used[0]] if used else 0] = 1.0
        return found
