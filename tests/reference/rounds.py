"""Reference implementation of a session, SPEC.md §5, §8, §9 and §12 to §14.

From the terms and the releases to chain hashes, prices, caps, noise, quotas and payments. Lists and
loops, no numpy. Never imports the product.
"""

import math
from fractions import Fraction
from typing import Any

from tests.reference import codec as reference
from tests.reference.agreement import Refused, Terms
from tests.reference.ball import Ball, BallMarket
from tests.reference.center import Proof, Reader

Rows = list[list[int]]
"""One for each member."""


def short(value: float) -> float:
    """Rounded to 16 significant bits, ties to even."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, 16)), exponent - 16)


def normal(x: float) -> float:
    """Φ."""
    return math.erfc(-x / math.sqrt(2.0)) / 2.0


class Noise:
    """σ of every number, §14."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.m = len(terms.resources)
        self.width = self.m + (terms.objective_limit is not None)
        self.mu = self._mu() if terms.privacy is not None else 0.0
        if max(max(self.sigma(row)) for row in terms.share_ticks) > 2.0**42:
            raise Refused("too much noise")

    def sigma(self, caps: list[int]) -> list[float]:
        """Of each number of a member with these caps."""
        if self.terms.privacy is None:
            return [0.0] * self.width
        return [spread / self.mu for spread in self.spreads(caps)]

    def spreads(self, caps: list[int]) -> list[float]:
        T, c = self.terms.rounds, self.terms.capacity
        R = math.sqrt(T * self.width / self.m)
        units = [a * c[i] for i, a in enumerate(caps)]
        found = []
        for j, a in enumerate(caps):
            if self.terms.privacy is None or a == 0:
                found.append(0.0)
            elif self.terms.privacy.noise == "component":
                found.append(math.sqrt(self.m) * a * R)
            else:
                found.append(math.sqrt(sum(u * u for u in units)) / c[j] * R)
        if self.width > self.m:
            found.append(math.sqrt(T * self.width) * self.terms.ticks)
        return found

    def smallest_caps(self) -> Rows:
        terms = self.terms
        if terms.mode != "clipped":
            return terms.share_ticks
        N, K = terms.ticks, len(terms.members)
        least = math.floor(terms.alpha * N) * max(1, math.ceil(terms.tau * N)) // (K * N)
        if least == 0:
            raise Refused("a cap could fall to nothing")
        return [[min(a, least) for a in row] for row in terms.share_ticks]

    def _mu(self) -> float:
        privacy = self.terms.privacy
        if privacy is None:
            return 0.0
        L = math.log(1.0 / privacy.delta)
        rho = (privacy.epsilon / (math.sqrt(L + privacy.epsilon) + math.sqrt(L))) ** 2
        paper = math.sqrt(2.0 * rho) * (1.0 - 1e-13)
        if privacy.accountant == "paper":
            return paper
        numbers = zip(*map(self.spreads, self.smallest_caps()), strict=True)
        smallest = [min(filter(None, column)) for column in numbers if any(column)]
        low, high = 0.0, 1.0
        while self.kept(high, smallest):
            low, high = high, 2.0 * high
        while low < (low + high) / 2.0 < high:
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.kept(middle, smallest) else (low, middle)
        return max(paper, low * (1.0 - 1e-9))

    def kept(self, mu: float, smallest: list[float]) -> bool:
        """Whether so large a μ keeps ε and δ."""
        privacy = self.terms.privacy
        if privacy is None:
            return False
        T, W, m = self.terms.rounds, self.width, self.m
        reserve = factor = 0.0
        if smallest:
            q, n = (min(smallest) / mu) ** 2, T * len(smallest)
            N = T * W if privacy.noise == "component" else T * W / m
            if q < 1.0:
                return False
            x = math.log(20.0 * n * N * q)
            k = x / (2.0 * math.pi**2)
            if k >= q:
                return False
            reserve = mu**2 / N * k / (q - k)
            factor = n * 2.0 * math.exp(-x) / (1.0 - math.exp(-3.0 * x))
        mu, epsilon = math.sqrt(mu**2 + reserve), privacy.epsilon
        above, below = normal(mu / 2.0 - epsilon / mu), normal(-mu / 2.0 - epsilon / mu)
        rest = math.exp(epsilon) * below
        far = (epsilon / mu + mu / 2.0) ** 2 / 2.0
        rounded = 2.0**-48 * (1.0 + epsilon + far) * (above + rest)
        return (above - rest + rounded) * math.exp(factor) <= privacy.delta


def theorem_step(terms: Terms, noise: Noise, caps: Rows) -> float:
    """ν of the steps `theorem` and `worth`, §8."""
    worth, N = terms.worth, terms.ticks
    if worth is None:
        raise Refused("worth")
    lengths = terms.capacity if terms.pricing.step == "theorem" else [1.0] * len(worth)
    sigma = [noise.sigma(row) for row in caps]
    M = math.sqrt(math.fsum((w / x) ** 2 for w, x in zip(worth, lengths, strict=True)))
    B = 0.0
    for j, x in enumerate(lengths):
        over = max(1.0, math.fsum(row[j] for row in terms.shares) - 1.0)
        B += x * x * (math.fsum((row[j] / N) ** 2 for row in sigma) + over * over)
    return short(M / (math.sqrt(B) * math.sqrt(terms.rounds)))


class Centred:
    """The market of the step `center`, §8."""

    def __init__(self, terms: Terms) -> None:
        start = [s * c for s, c in zip(terms.pricing.start, terms.capacity, strict=True)]
        self.capacity = terms.capacity
        self.reader = Reader(
            members=len(terms.members),
            m=len(terms.resources),
            ticks=terms.ticks,
            reserve=math.ceil((terms.pricing.reserve or 0.0) * terms.ticks),
            worth=terms.worth,
            start=start if any(terms.pricing.start) else None,
            limit=[1e15 * c for c in terms.capacity],
            earlier=self._earlier(terms),
        )
        self._look()

    def _earlier(self, terms: Terms) -> list[tuple[list[float], list[float]]]:
        m, reserve = len(terms.resources), math.ceil((terms.pricing.reserve or 0.0) * terms.ticks)
        return [
            (
                [row[j] * terms.capacity[j] for j in range(m)],
                [1.0 - reserve / terms.ticks - row[m + j] for j in range(m)],
            )
            for row in terms.pricing.earlier
        ]

    def move(self, rows: Rows) -> None:
        self.reader.read([sum(row[j] for row in rows) for j in range(len(self.capacity))])
        self._look()

    def _look(self) -> None:
        self.now = [y / c for y, c in zip(self.reader.prices, self.capacity, strict=True)]


class RoundEngine:
    """One session, as far as its rounds are closed."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.m = len(terms.resources)
        self.ball = Ball(terms, self.endowment) if terms.pricing.step == "ball" else None
        self.noise = Noise(terms) if self.ball is None else None
        self.rounds: list[Rows] = []
        self.caps = self._caps(None)
        self.market = self._market()
        self.path = [self.market.now]
        self.chain_hash = reference.first_head(
            reference.agreement_digest(reference.canonical(terms)), self.market.now
        )
        self.variance = [[0.0] * self.m for _ in terms.members]
        self.best: tuple[float, list[float]] | None = None

    def _market(self) -> Any:
        terms, pricing = self.terms, self.terms.pricing
        if pricing.step == "center":
            return Centred(terms)
        if self.ball is not None:
            return BallMarket(self.ball)
        size = pricing.step_size or 0.0
        if pricing.step in ("theorem", "worth") and self.noise is not None:
            size = theorem_step(terms, self.noise, self.caps)
        return reference.Market(
            capacity=terms.capacity,
            start=pricing.start,
            rule=pricing.step,
            size=size,
            momentum=pricing.momentum,
            nonnegative=pricing.nonnegative,
            worth=terms.worth,
        )

    def _caps(self, rows: Rows | None) -> Rows:
        if self.terms.mode != "clipped":
            return self.terms.share_ticks
        return reference.clipped_caps(
            rows, shares=self.terms.shares, alpha=self.terms.alpha, tau=self.terms.tau
        )

    @property
    def first_counted(self) -> int:
        """The first round of those that an average is made of."""
        T = self.terms.rounds
        return T - (T + 1) // 2 if self.terms.mode == "exact" else 0

    def close(self, rows: Rows, totals: list[int] | None = None) -> None:
        """One more round. Where rows are masked, only their totals are read."""
        number = len(self.rounds)
        if self.noise is not None and number >= self.first_counted:
            for own, caps in zip(self.variance, self.caps, strict=True):
                sigma = self.noise.sigma(caps)
                own[:] = [v + sigma[j] * sigma[j] for j, v in enumerate(own)]
        limit = self.terms.objective_limit
        if limit is not None:
            money = zip(self.market.now, self.terms.capacity, strict=True)
            objective = float(sum(row[-1] for row in rows)) * (limit / self.terms.ticks)
            dual = math.fsum(p * c for p, c in money) + objective
            if self.best is None or dual < self.best[0]:
                self.best = (dual, self.market.now)
        read = rows if totals is None else [totals]
        self.market.move(read)
        self.rounds.append(read)
        self.path.append(self.market.now)
        self.chain_hash = reference.next_head(self.chain_hash, number, rows, self.market.now)
        self.caps = self._caps(rows)

    @property
    def certificate(self) -> Proof | None:
        return self.market.reader.best if isinstance(self.market, Centred) else None

    @property
    def over(self) -> bool:
        if len(self.rounds) >= self.terms.rounds:
            return True
        proof, tolerance = self.certificate, self.terms.pricing.tolerance
        if proof is None or tolerance is None:
            return False
        return bool(self.market.reader.exact) or proof.within(tolerance, self.net(proof.prices))

    def net(self, y: list[float]) -> list[float]:
        """Prices of whole capacities, less what a resource and its opposite share, §1."""
        found, c = list(y), self.terms.capacity
        names = [resource.name for resource in self.terms.resources]
        for j, resource in enumerate(self.terms.resources):
            if resource.opposite:
                i = names.index(resource.opposite)
                ratio = c[i] / c[j]
                found[i] = max(y[i] - y[j] * ratio, 0.0)
                found[j] = max(y[j] * ratio - y[i], 0.0) / ratio
        return found

    @property
    def prices(self) -> list[float]:
        """Those of the outcome."""
        if self.certificate is not None:
            money = zip(self.certificate.prices, self.terms.capacity, strict=True)
            return [y / c for y, c in money]
        if self.best is not None:
            return self.best[1]
        T = self.terms.rounds
        if self.ball is not None:
            return self._weighted_prices()
        half = self.path[1:][T - (T + 1) // 2 :]
        if not half:
            return list(self.market.now)
        total = [0.0] * self.m
        for prices in half:
            total = [a + p for a, p in zip(total, prices, strict=True)]
        return [a / len(half) for a in total]

    def _weighted_prices(self) -> list[float]:
        """Those of §22."""
        if not self.rounds:
            return list(self.market.now)
        total = [1.0 * p for p in self.path[0]]
        for i in range(1, len(self.rounds)):
            total = [a + (i + 1.0) * p for a, p in zip(total, self.path[i], strict=True)]
        return [a / (len(self.rounds) * (len(self.rounds) + 1) // 2) for a in total]

    @property
    def average(self) -> tuple[list[list[float]], list[list[float]]]:
        """y and s of every member, §12 step 1."""
        counted = self.rounds[self.first_counted :]
        n = len(counted) or 1
        y = []
        for k in range(len(self.terms.members)):
            sums = [sum(rows[k][j] for rows in counted) for j in range(self.m)]
            y.append([float((total + 2**63) % 2**64 - 2**63) / n for total in sums])
        return y, [[short(math.sqrt(v) / n) for v in row] for row in self.variance]

    @property
    def obstacles(self) -> list[str]:
        """Why there is no trade, §12."""
        proof, found = self.certificate, []
        if proof is None:
            return []
        limit = (self.terms.pricing.trade_limit or 0.0) * math.fsum(self.net(proof.prices))
        if not proof.gap <= limit:
            found.append("certificate")
        whole = sum(proof.weights) * self.terms.ticks
        chosen = [(i, w) for i, w in enumerate(proof.weights) if w]
        totals = [
            sum(w * sum(row[j] for row in self.rounds[i]) for i, w in chosen) for j in range(self.m)
        ]
        if any(10**6 * total > (10**6 + 1) * whole for total in totals):
            found.append("excess")
        if any(price >= 1e15 / 8 for i, _ in chosen for price in self.path[i]):
            found.append("prices")
        if math.fsum(self.contradictions) > limit:
            found.append("answers")
        return found

    @property
    def contradictions(self) -> list[float]:
        """Y of each member, §12, where each release can be read; else one of the totals."""
        K, N, c = len(self.terms.members), self.terms.ticks, self.terms.capacity
        chosen = list(range(len(self.rounds)))
        if len(chosen) > 1000:
            chosen = chosen[:500] + chosen[-500:]
        y = [[price * c[j] for j, price in enumerate(self.path[i])] for i in chosen]
        worth, net = [ordered(row) for row in y], [ordered(self.net(row)) for row in y]
        least = math.fsum(self.net(self.certificate.prices)) if self.certificate else 0.0
        gap = (self.terms.pricing.answer_gap or 0.0) / K
        rows = len(self.rounds[0]) if self.rounds else K
        M = 1.0 if rows == K else float(K)
        allowed = [
            M * (gap * max(own, least) + 2.0 / N * each)
            for own, each in zip(net, worth, strict=True)
        ]
        found = []
        for k in range(rows):
            x = [[-(n / N) for n in self.rounds[i][k][: self.m]] for i in chosen]
            arcs = [
                [
                    ordered([x[a][j] * (y[b][j] - y[a][j]) for j in range(self.m)]) - allowed[a]
                    for b in range(len(y))
                ]
                for a in range(len(y))
            ]
            found.append(max(0.0, largest_mean(arcs)))
        return found

    @property
    def by_weights(self) -> Rows:
        """Quotas by weights, if there is a trade."""
        terms, weights = self.terms, self.certificate.weights if self.certificate else []
        return reference.weighted_quota(self.rounds, weights, terms.shares, terms.ticks)

    @property
    def quota(self) -> Rows:
        """What each may use, in ticks."""
        terms = self.terms
        if self.obstacles:
            return self.endowment
        if self.certificate is not None:
            return self.by_weights
        caps = terms.share_ticks
        members = zip(*self.average, caps, strict=True)
        estimates = [
            [estimate(*number) for number in zip(*member, strict=True)] for member in members
        ]
        return shared(terms.ticks, estimates, caps)

    @property
    def prorata(self) -> Rows:
        return shared(self.terms.ticks, self.terms.share_ticks, self.terms.share_ticks)

    @property
    def endowment(self) -> Rows:
        """What each brings, §13 step 1, and above floors §1."""
        if self.terms.banded:
            return self._above_floors()
        if not self.terms.members[0].endowment:
            return self.prorata
        columns = []
        for j in range(self.m):
            parts = [Fraction(member.endowment[j]) for member in self.terms.members]
            whole = math.lcm(*(part.denominator for part in parts))
            columns.append(reference.split(self.terms.ticks, [int(p * whole) for p in parts]))
        return [list(row) for row in zip(*columns, strict=True)]

    def _above_floors(self) -> Rows:
        terms, wanted = self.terms, []
        for member, floors, caps in zip(
            terms.members, terms.floors, terms.share_ticks, strict=True
        ):
            row = []
            for j, r in enumerate(terms.resources):
                if member.endowment:
                    own = Fraction(member.endowment[j]) * Fraction(r.whole)
                else:
                    shares = [max(Fraction(0), Fraction(m.share[j])) for m in terms.members]
                    s = max(Fraction(0), Fraction(member.share[j]))
                    own = Fraction(r.capacity) * s / sum(shares) if s else Fraction(0)
                e = (own - Fraction(floors[j])) * terms.ticks / Fraction(terms.capacity[j])
                row.append(max(0, min(round(e), caps[j])))
            wanted.append(row)
        return shared(terms.ticks, wanted, terms.share_ticks)

    @property
    def payments(self) -> list[float]:
        return reference.payments(
            prices=self.prices,
            capacity=self.terms.capacity,
            quota=self.quota,
            endowment=self.endowment,
            ticks=self.terms.ticks,
        )


def ordered(terms: list[float]) -> float:
    """Σ→."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def largest_mean(arcs: list[list[float]]) -> float:
    """The largest mean of a cycle of at least two rounds, by Karp's method."""
    n = len(arcs)
    if n < 2:
        return 0.0
    walks = [[0.0] * n]
    for _ in range(n):
        last = walks[-1]
        walks.append([max(last[a] + arcs[a][b] for a in range(n) if a != b) for b in range(n)])
    return max(min((walks[n][b] - walks[k][b]) / (n - k) for k in range(n)) for b in range(n))


def fading(z: float) -> float:
    """E."""
    part, power = z / 256.0, 1.0
    for n in range(8, 0, -1):
        power = 1.0 - (part / n) * power
    for _ in range(8):
        power = power * power
    return power


def estimate(y: float, s: float, cap: int) -> int:
    """§12 step 2."""
    a = float(cap)
    top = min(max(y, 0.0), a)
    if s == 0.0:
        return round(top)
    d, R = abs(y - top), 2.0 * 40.0 * s * s
    reach = R / (d + math.sqrt(d * d + R))
    low, high = max(top - reach, 0.0), min(top + reach, a)
    h = (high - low) / 128.0
    mass = moment = 0.0
    for i in range(129):
        w = 1.0 if i in (0, 128) else 4.0 if i % 2 else 2.0
        x = low + i * h
        p = w * fading((x - top) * (x + top - 2.0 * y) / (2.0 * s * s))
        mass, moment = mass + p, moment + p * (x - low)
    return round(min(max(low + moment / mass, 0.0), a))


def shared(ticks: int, weights: Rows, caps: Rows) -> Rows:
    """§12 step 3 for every resource."""
    columns = zip(zip(*weights, strict=True), zip(*caps, strict=True), strict=True)
    parts = [filled(ticks, list(w), list(a)) for w, a in columns]
    return [list(row) for row in zip(*parts, strict=True)]


def filled(ticks: int, weights: list[int], caps: list[int]) -> list[int]:
    parts, left = [0] * len(caps), ticks
    remaining = [k for k, weight in enumerate(weights) if weight > 0]
    while remaining:
        k = max(remaining, key=lambda i: Fraction(weights[i], max(caps[i], 1)))
        if left * weights[k] < caps[k] * sum(weights[i] for i in remaining):
            break
        parts[k], left = caps[k], left - caps[k]
        remaining.remove(k)
    by, order = weights, sorted(remaining, key=lambda i: Fraction(weights[i], caps[i]))
    if not remaining:
        by, order = caps, [k for k, weight in enumerate(weights) if weight == 0]
    if left:
        for k, part in zip(order, reference.split(left, [by[k] for k in order]), strict=True):
            parts[k] = part
    return parts
