"""A second reading of the centre rule, CERTIFICATE.md §6: no numpy, and nothing of ours.

Slow and plain: lists, loops and one operation at a time. What the program computes is compared
with this bit for bit, and both with the vectors.
"""

import math
from dataclasses import dataclass, field

TICKS = 1048576
WHOLE = 1099511627776

Vector = list[float]


@dataclass
class Proof:
    """A certificate."""

    weights: list[int]
    prices: Vector
    bound: float
    gap: float
    fits: bool


@dataclass
class Reader:
    """Reads the totals of one session, round after round."""

    members: int
    m: int
    reserve: int = 0
    worth: Vector | None = None
    start: Vector | None = None
    round: int = 0
    exact: bool = False
    seeking: bool = True
    falling: bool = False
    calm: int = 0
    best: Proof | None = None
    rounds: list[int] = field(default_factory=list)
    asked: list[Vector] = field(default_factory=list)
    slopes: list[Vector] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = [w if w > 0.0 else 0.0 for w in self.worth or [0.0] * self.m]
        first = known if self.start is None else [s if s > 0.0 else 0.0 for s in self.start]
        self.highest = max(known + first) or 1.0
        self.unit = [w or self.highest for w in known]
        self.origin = self.unit if self.start is None else first
        self.prices = list(self.origin)
        self.box = self.box_of(self.prices)
        self.raised = [False] * self.m

    def box_of(self, prices: Vector) -> Vector:
        return [4.0 * (max(prices) or self.highest)] * self.m

    def read(self, totals: list[int]) -> None:
        """One round."""
        self.round += 1
        if self.exact:
            return
        g = [float(TICKS - self.reserve - total) / TICKS for total in totals]
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
            inside = entered(self.asked, self.slopes, self.box, asked, asked, g)
            self.keep(number, asked, g)
            if inside is None:
                self.exact = True
            else:
                self.centre(inside)

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
        else:
            self.falling = False
            self.rise(g, over)

    def rise(self, g: Vector, over: list[bool]) -> None:
        y = self.prices
        terms = [g[j] * y[j] if self.raised[j] else 0.0 for j in range(self.m)]
        enough = any(self.raised) and in_order(terms) >= 0.0
        self.calm = self.calm + 1 if enough else 0
        if not any(over) or self.calm >= 2 + math.isqrt(self.m):
            self.settle()
            return
        level = max(y[j] / self.unit[j] for j in range(self.m)) or 1.0
        self.raised = [self.raised[j] or over[j] for j in range(self.m)]
        self.ask(
            [max(y[j] * 4.0, level * self.unit[j]) if over[j] else y[j] for j in range(self.m)]
        )

    def ask(self, prices: Vector) -> None:
        self.prices = prices
        self.box = self.box_of(prices)
        self.alone()

    def alone(self) -> None:
        last = slice(-1, None)
        self.best = self.proof(self.rounds[last], self.asked[last], self.slopes[last], [WHOLE])

    def settle(self) -> None:
        """The scale is found: the box stays, and the first centre is sought."""
        y = [u / 2.0 for u in self.box]
        rounds: list[int] = []
        asked: list[Vector] = []
        slopes: list[Vector] = []
        for i in range(len(self.rounds) - 1, -1, -1):
            inside = entered(asked, slopes, self.box, y, self.asked[i], self.slopes[i])
            if inside is not None:
                y = inside
                rounds.insert(0, self.rounds[i])
                asked.insert(0, self.asked[i])
                slopes.insert(0, self.slopes[i])
        if not rounds:
            self.exact = True
            self.alone()
            return
        self.rounds, self.asked, self.slopes = rounds, asked, slopes
        self.seeking, self.best = False, None
        self.centre(y)

    def centre(self, inside: Vector) -> None:
        y, found = centre_of(self.asked, self.slopes, self.box, inside)
        slack = slacks(self.asked, self.slopes, y)
        weights = [int(min(slack) / s * 2.0**52) for s in slack]
        new = self.proof(self.rounds, self.asked, self.slopes, shared_out(weights))
        if self.best is None or new.gap < self.best.gap:
            self.best = new
        self.prices, self.exact = y, not found
        most = 4 * self.m + 16
        if len(self.rounds) > most:
            kept = tightest(self.asked, self.slopes, self.box, y, most)
            self.rounds = [self.rounds[i] for i in kept]
            self.asked = [self.asked[i] for i in kept]
            self.slopes = [self.slopes[i] for i in kept]

    def proof(
        self, rounds: list[int], asked: list[Vector], slopes: list[Vector], whole: list[int]
    ) -> Proof:
        n, columns = range(len(rounds)), range(self.m)
        r, e = self.reserve / TICKS, self.members / 2097152
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


def outside(slack: Vector, box: Vector, y: Vector) -> bool:
    room = [box[j] - y[j] for j in range(len(y))]
    return not all(number > 0.0 for number in [*slack, *y, *room])


def curvature(R: list[Vector], box: Vector, y: Vector) -> list[Vector]:
    """H."""
    m = len(y)
    H = [[in_order([row[j] * row[k] for row in R] or [0.0]) for k in range(m)] for j in range(m)]
    for j in range(m):
        below, above = 1.0 / y[j], 1.0 / (box[j] - y[j])
        H[j][j] += below * below + above * above
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


def growth(R: list[Vector], box: Vector, y: Vector, step: Vector) -> Vector:
    """By what part of itself each slack grows along a step."""
    columns = range(len(y))
    cuts = [-in_order([row[j] * step[j] for j in columns]) for row in R]
    below = [step[j] * (1.0 / y[j]) for j in columns]
    above = [-step[j] * (1.0 / (box[j] - y[j])) for j in columns]
    return cuts + below + above


def longest(changes: Vector) -> float:
    return -1.0 / min(min(changes), -1e-300)


def length_of(changes: Vector, fall: float) -> float:
    low, high = 0.0, longest(changes)
    t = 1.0 / (1.0 + math.sqrt(fall))
    for _ in range(8):
        part = [change / (1.0 + t * change) for change in changes]
        slope = -in_order(part)
        if abs(slope) <= 0.1 * fall:
            break
        if slope < 0.0:
            low = t
        else:
            high = t
        t = t - slope / in_order([p * p for p in part])
        if not low < t < high:
            t = (low + high) / 2.0
    return t


def entered(
    asked: list[Vector], slopes: list[Vector], box: Vector, y: Vector, point: Vector, g: Vector
) -> Vector | None:
    """From a point inside the cuts to one inside one more."""
    columns = range(len(y))
    for _ in range(20):
        new = in_order([g[j] * (point[j] - y[j]) for j in columns])
        slack = slacks(asked, slopes, y)
        if outside(slack, box, y):
            return None
        if new > 0.0:
            return y
        R = [[a / s for a in row] for row, s in zip(slopes, slack, strict=True)]
        step = solution(curvature(R, box, y), [-slope for slope in g])
        if step is None:
            return None
        gain = -in_order([g[j] * step[j] for j in columns])
        if not gain > 0.0:
            return None
        far = longest(growth(R, box, y, step))
        t = 0.7 / math.sqrt(gain) if new == 0.0 else min(0.9 * far, (far - new / gain) / 2.0)
        y = [y[j] + t * step[j] for j in columns]
    return None


def centre_of(
    asked: list[Vector], slopes: list[Vector], box: Vector, y: Vector
) -> tuple[Vector, bool]:
    columns = range(len(y))
    last, point = math.inf, y
    for _ in range(20):
        slack = slacks(asked, slopes, point)
        if outside(slack, box, point):
            break
        y = point
        R = [[a / s for a in row] for row, s in zip(slopes, slack, strict=True)]
        gradient = [
            in_order([row[j] for row in R]) - 1.0 / y[j] + 1.0 / (box[j] - y[j]) for j in columns
        ]
        step = solution(curvature(R, box, y), [-slope for slope in gradient])
        if step is None:
            break
        squared = -in_order([gradient[j] * step[j] for j in columns])
        if not squared >= 0.0:
            break
        decrement = math.sqrt(squared)
        if last < 0.1 and decrement > last / 2.0:
            break
        last = decrement
        t = length_of(growth(R, box, y, step), squared) if decrement >= 0.1 else 1.0
        point = [y[j] + t * step[j] for j in columns]
        if decrement <= 1e-5:
            lost = outside(slacks(asked, slopes, point), box, point)
            return (y if lost else point), True
    return y, last <= 1e-2


def tightest(
    asked: list[Vector], slopes: list[Vector], box: Vector, y: Vector, most: int
) -> list[int]:
    columns, slack = range(len(y)), slacks(asked, slopes, y)
    R = [[a / s for a in row] for row, s in zip(slopes, slack, strict=True)]
    H = curvature(R, box, y)
    pull = [in_order([row[j] * row[j] / H[j][j] for j in columns]) for row in R]
    pull[-1] = math.inf
    ranked = sorted(range(len(pull)), key=lambda i: (-pull[i], i))
    return sorted(ranked[:most])
