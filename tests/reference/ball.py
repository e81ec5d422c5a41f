"""Reference implementation of SPEC.md §22: the step `ball`.

Lists and loops, number by number, from the specification. Never imports the product.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from tests.reference.agreement import Refused, Terms
from tests.reference.margin import noise_parts

Rows = list[list[int]]


def short(value: float) -> float:
    """Rounded to 16 significant bits, ties to even."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, 16)), exponent - 16)


def normal(x: float) -> float:
    """Φ."""
    return math.erfc(-x / math.sqrt(2.0)) / 2.0


def gaussian(mu: float, epsilon: float) -> float:
    """A − B + 2⁻⁴⁸·(1 + ε + x²)·(A + B) of §14."""
    above, below = normal(mu / 2.0 - epsilon / mu), normal(-mu / 2.0 - epsilon / mu)
    rest = math.exp(epsilon) * below
    x = (epsilon / mu + mu / 2.0) ** 2 / 2.0
    return above - rest + 2.0**-48 * (1.0 + epsilon + x) * (above + rest)


def largest(holds: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2.0 * high
    while low < (low + high) / 2.0 < high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


class Ball:
    """Everything of §22 that follows from the agreement."""

    def __init__(self, terms: Terms, endowment: Rows) -> None:
        privacy = terms.privacy
        if privacy is None:
            raise Refused("ball without noise")
        self.terms, self.privacy, self.e = terms, privacy, endowment
        self.K, self.m, self.N = len(terms.members), len(terms.resources), terms.ticks
        self.z = self._deviations()
        self.R = [r.spare or 0.0 for r in terms.resources]
        self.A, self.g = self._axes()
        self.mu = self._mu()
        self.sigma = [[math.sqrt(v) / self.mu for v in row] for row in self.parts]
        self._check()
        T = terms.rounds
        self.s, self.f = [], []
        for j in range(self.m):
            total = math.sqrt(math.fsum((row[j] / self.N) ** 2 for row in self.sigma))
            self.s.append(short(total * (1.0 / math.sqrt(T * (T + 1) / 2))))
            self.f.append(short(self.z * self.s[j]))
        self.M = [max(f - r, 0.0) for f, r in zip(self.f, self.R, strict=True)]
        self.center = [[self._center(k, j) for j in range(self.m)] for k in range(self.K)]

    def _deviations(self) -> float:
        tail = 1.0 - (1.0 - self.privacy.overrun) ** (1.0 / self.m)
        if tail > 0.5 - 1e-12:
            return 0.0
        return short(-NormalDist().inv_cdf(tail)) * (1.0 + 2.0**-15)

    def _first_mu(self) -> float:
        L = math.log(1.0 / self.privacy.delta)
        rho = (self.privacy.epsilon / (math.sqrt(L + self.privacy.epsilon) + math.sqrt(L))) ** 2
        self.paper = math.sqrt(2.0 * rho)
        if self.privacy.accountant == "paper":
            return short(self.paper)
        epsilon, delta = self.privacy.epsilon, self.privacy.delta
        return short(largest(lambda mu: gaussian(mu, epsilon) <= delta))

    def _axes(self) -> tuple[Rows, Rows]:
        N, K = self.N, self.K
        Z = self.z * math.sqrt(K / (K - self.privacy.colluders)) / self._first_mu()
        c1, c2 = min(1.8, 1.1 * math.sqrt(self.m)), 8.0 * math.sqrt(math.sqrt(self.m))
        A: Rows = [[0] * self.m for _ in range(K)]
        g: Rows = [[0] * self.m for _ in range(K)]
        for j in range(self.m):
            column = [row[j] for row in self.e]
            r, sums = 0.0, 0.0
            for n, e in enumerate(sorted((e for e in column if e > 0), reverse=True), start=1):
                sums = sums + 1.0 / (e / N) if n > 1 else 1.0 / (e / N)
                r = max(r, (n * c1 - c2 * Z) / sums)
            if self.R[j]:
                r = max(r, self.R[j] / (2.0 * Z)) if Z else math.inf
            wide = [max(c1 * e, float(self.terms.share_ticks[k][j])) for k, e in enumerate(column)]
            axes = [math.floor(min(r * N, w)) for w in wide]
            able = [min(a, math.floor(c1 * e)) for a, e in zip(axes, column, strict=True)]
            if sum(able) >= 0.1 * N:
                for k in range(K):
                    A[k][j], g[k][j] = axes[k], able[k]
        return A, g

    def _mu(self) -> float:
        """μ of §14 for the joint noise; also the variances at μ = 1, in the first round."""
        T, t = self.terms.rounds, self.privacy.colluders
        spread = math.sqrt(T * (T + 1) / 2)
        columns = [
            noise_parts([(spread * 2.0 * row[j]) ** 2 for row in self.A], t) for j in range(self.m)
        ]
        self.parts = [list(row) for row in zip(*columns, strict=True)]
        smallest = []
        for j, column in enumerate(columns):
            left = []
            for k in range(self.K):
                if self.A[k][j]:
                    others = sorted((v for i, v in enumerate(column) if i != k), reverse=True)
                    left.append(math.fsum(column) - math.fsum(others[:t]))
            if left:
                smallest.append(math.sqrt(min(left)) / math.sqrt(T))
        paper = self.paper * (1.0 - 1e-13)
        if self.privacy.accountant == "paper":
            return paper
        found = largest(lambda mu: self._kept(mu, smallest))
        return max(paper, found * (1.0 - 1e-9))

    def _kept(self, mu: float, smallest: list[float]) -> bool:
        T, reserve, factor = self.terms.rounds, 0.0, 0.0
        if smallest:
            q, n, M = (min(smallest) / mu) ** 2, T * len(smallest), (T + 1) / 2
            if q < 1.0:
                return False
            y = math.log(20.0 * n * M * q)
            k = y / (2.0 * math.pi**2)
            if k >= q:
                return False
            reserve = mu**2 / M * k / (q - k)
            factor = n * 2.0 * math.exp(-y) / (1.0 - math.exp(-3.0 * y))
        curve = gaussian(math.sqrt(mu**2 + reserve), self.privacy.epsilon)
        return curve * math.exp(factor) <= self.privacy.delta

    def _check(self) -> None:
        found = [s for row in self.sigma for s in row if s > 0.0]
        if found and max(found) > 2.0**42:
            raise Refused("too much noise")
        if found and min(found) * (1.0 / math.sqrt(self.terms.rounds)) < 3.0:
            raise Refused("too little noise")

    def _center(self, k: int, j: int) -> int:
        able = sum(row[j] for row in self.g)
        withheld = Fraction(self.M[j]) * self.N * self.g[k][j] / able if able else Fraction(0)
        return max(0, self.e[k][j] - math.floor(withheld))

    def demand(self, k: int, asked: list[int]) -> list[int]:
        """What the member has behind its release, from what it asks for in ticks."""
        A, center, caps = self.A[k], self.center[k], self.terms.share_ticks[k]
        apart = []
        for a, c, cap, wanted in zip(A, center, caps, asked, strict=True):
            apart.append(max(0, min(wanted, cap)) - c if a else 0)
        L = math.lcm(*(a for a in A if a))
        n = sum((x * L // a) ** 2 for x, a in zip(apart, A, strict=True) if a)
        if n > L * L:
            F = math.isqrt(L * L * 2**96 // n)
            apart = [int(math.copysign(1, x)) * (abs(x) * F // 2**48) for x in apart]
        return [c + x for c, x in zip(center, apart, strict=True)]

    def possible(self, number: int, totals: list[int]) -> bool:
        """Whether members who do as agreed can release these totals in the round of this number."""
        T, shares = self.terms.rounds, self.terms.share_ticks
        for j, total in enumerate(totals):
            low = high = 0
            for c, a, share in zip(self.center, self.A, shares, strict=True):
                low += max(0, c[j] - a[j])
                high += min(c[j] + a[j], max(share[j], c[j]))
            s = self.s[j] * math.sqrt(T * (T + 1) / (2.0 * (number + 1)))
            b = math.ceil(8.0 * s * self.N)
            if not low - b <= total <= high + b:
                return False
        return True

    def theta(self, totals: Rows) -> list[Fraction]:
        """θ of each resource from the totals, round by round."""
        T, N = self.terms.rounds, self.N
        weights = range(1, len(totals) + 1)
        found = []
        for j in range(self.m):
            total = sum(w * row[j] for w, row in zip(weights, totals, strict=True))
            b = 1 if any(row[j] for row in self.A) else 0

            def above(x: float, total: int = total, b: int = b) -> Fraction:
                margin = math.ceil((Fraction(x) * N + b) * (T * (T + 1) // 2))
                return max(Fraction(1, 20), Fraction(total + margin, N * sum(weights)))

            rest = (1 + Fraction(self.R[j])) / above(self.f[j])
            found.append(min(1 / above(self.M[j]), rest))
        return found

    def quota(self, k: int, demands: Rows, totals: Rows) -> list[int]:
        W = len(demands) * (len(demands) + 1) // 2
        found = []
        for j, theta in enumerate(self.theta(totals)):
            d = Fraction(sum((i + 1) * row[j] for i, row in enumerate(demands)), W)
            found.append(min(self.terms.share_ticks[k][j], max(0, math.floor(theta * d))))
        return found

    def payment(self, k: int, demands: Rows, path: list[list[float]], prices: list[float]) -> float:
        W = len(demands) * (len(demands) + 1) // 2
        due = Fraction(0)
        for i, (row, asked) in enumerate(zip(demands, path, strict=False)):
            for j, c in enumerate(self.terms.capacity):
                due += (i + 1) * Fraction(asked[j] * c) * (row[j] - self.center[k][j])
        worth = math.fsum(abs(p * c) for p, c in zip(prices, self.terms.capacity, strict=True))
        unit = math.ldexp(1.0, math.frexp(worth)[1] - 40) or 1.0
        return round(due / (W * self.N) / Fraction(unit)) * unit


class BallMarket:
    """The prices of §22."""

    def __init__(self, ball: Ball) -> None:
        self.ball, self.terms = ball, ball.terms
        worth = self.terms.worth
        if worth is None:
            raise Refused("worth")
        self.low, self.high = [w / 20.0 for w in worth], [w * 100.0 for w in worth]
        pairs = zip(self.terms.pricing.start, self.terms.capacity, strict=True)
        self.y = self._cut([start * c for start, c in pairs])
        within = 0.64 * math.log(self.terms.pricing.worth_within or math.e)
        self.P = [short(within * within)] * ball.m
        self.round = 0
        self.now = self._prices()

    def _cut(self, money: list[float]) -> list[float]:
        limits = zip(money, self.low, self.high, strict=True)
        return [min(max(y, low), high) for y, low, high in limits]

    def _prices(self) -> list[float]:
        return [y / c for y, c in zip(self.y, self.terms.capacity, strict=True)]

    def move(self, rows: Any) -> None:
        ball, T, N = self.ball, self.terms.rounds, self.ball.N
        moved = list(self.y)
        for j in range(ball.m):
            able = sum(row[j] for row in ball.g)
            if not able:
                continue
            h, s, P = 0.3 * (able / N), ball.s[j], self.P[j]
            v = s * s * (T * (T + 1) / (2.0 * (self.round + 1))) / (h * h)
            n = sum(row[j] for row in rows)
            a = P / (P + v) / h * (float(n - N) / N + ball.M[j])
            a = min(max(a, -0.7), 0.7)
            moved[j] = self.y[j] * (2.0 + a) / (2.0 - a)
            self.P[j] = P * v / (P + v) + 0.001
        cut = self._cut(moved)
        traded = [any(row[j] for row in ball.g) for j in range(ball.m)]
        self.y = [new if on else old for new, old, on in zip(cut, self.y, traded, strict=True)]
        self.round += 1
        self.now = self._prices()
