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
    round: int = 0
    exact: bool = False
    seeking: bool = True
    falling: bool = False
    calm: int = 0
    basis: list[int] | None = None
    best: Proof | None = None
    rounds: list[int] = field(default_factory=list)
    asked: list[Vector] = field(default_factory=list)
    slopes: list[Vector] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = [w if w > 0.0 else 0.0 for w in self.worth or [0.0] * self.m]
        first = known if self.start is None else [s if s > 0.0 else 0.0 for s in self.start]
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
        higher = [
            min(max(y[j] * 4.0, level * self.unit[j]), self.ceiling[j]) for j in range(self.m)
        ]
        asked = [higher[j] if over[j] else y[j] for j in range(self.m)]
        if not any(asked[j] > y[j] for j in range(self.m)):
            self.settle()
            return
        self.raised = [self.raised[j] or over[j] for j in range(self.m)]
        self.ask(asked)

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
        paid = [
            in_order([g * a for g, a in zip(*rows, strict=True)])
            for rows in zip(self.slopes, self.asked, strict=True)
        ]
        weights, self.basis = best_weights(self.rounds, paid, self.slopes, self.box, self.basis)
        counted = [i for i in range(len(weights)) if weights[i] != 0.0]
        new = self.proof(
            [self.rounds[i] for i in counted],
            [self.asked[i] for i in counted],
            [self.slopes[i] for i in counted],
            shared_out([int(weights[i] * 2.0**60) for i in counted]),
        )
        if self.best is None or new.gap < self.best.gap:
            self.best = new
        self.prices, self.exact = y, not found
        most = 4 * self.m + 16
        if found and len(self.rounds) > most:
            needed = [number in self.basis for number in self.rounds]
            kept = tightest(self.asked, self.slopes, self.box, y, most, needed)
            self.rounds = [self.rounds[i] for i in kept]
            self.asked = [self.asked[i] for i in kept]
            self.slopes = [self.slopes[i] for i in kept]

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
        t = 0.7 / math.sqrt(gain)
        if new < 0.0:
            far = longest(growth(R, box, y, step))
            t = min(0.9 * far, (far - new / gain) / 2.0)
        y = [y[j] + t * step[j] for j in columns]
    return None


def centre_of(
    asked: list[Vector], slopes: list[Vector], box: Vector, y: Vector
) -> tuple[Vector, bool]:
    columns = range(len(y))
    point = y
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
        if squared < 0.1 * 0.1:
            point = [y[j] + step[j] for j in columns]
            lost = outside(slacks(asked, slopes, point), box, point)
            return (y if lost else point), True
        t = length_of(growth(R, box, y, step), squared)
        point = [y[j] + t * step[j] for j in columns]
    return y, False


def tightest(
    asked: list[Vector],
    slopes: list[Vector],
    box: Vector,
    y: Vector,
    most: int,
    needed: list[bool],
) -> list[int]:
    columns, slack = range(len(y)), slacks(asked, slopes, y)
    R = [[a / s for a in row] for row, s in zip(slopes, slack, strict=True)]
    H = curvature(R, box, y)
    pull = [in_order([row[j] * row[j] / H[j][j] for j in columns]) for row in R]
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
