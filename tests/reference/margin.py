"""Reference implementation of SPEC.md §18: joint noise, and the margin of private quotas.

Written from the specification, number by number. Never imports the product.
"""

import math
from fractions import Fraction
from statistics import NormalDist


def short(value: float) -> float:
    """16 significant bits."""
    if value == 0.0:
        return 0.0
    size = 2.0 ** (15 - math.floor(math.log2(abs(value))))
    return round(value * size) / size


def noise_parts(alone: list[float], colluders: int) -> list[float]:
    """The variance that each member adds to one number, from what would hide each alone."""
    count = len(alone)
    place = count // (count - colluders)
    order = sorted(range(count), key=lambda k: (-alone[k], k))
    w = alone[order[place]] / (count - colluders)
    found = [w] * count
    for k in order[:place]:
        found[k] = alone[k] - (count - colluders - 1) * w
    return [v * (1 + 1e-12) for v in found]


class Margin:
    """The round weights W_i, the margins f_j and the pro rata fraction h."""

    def __init__(
        self, sigma: list[list[float]], shares: list[list[float]], T: int, overrun: float
    ) -> None:
        """`sigma` over N and `shares`: for each resource, those of all members."""
        m = len(sigma)
        s = [short(math.sqrt(math.fsum(x * x for x in column))) for column in sigma]
        tail = 1.0 - (1.0 - overrun) ** (1.0 / m)
        z = short(-NormalDist().inv_cdf(tail)) * (1.0 + 2.0**-15)
        self.z = z
        squares = [a * a + max(1.0, sum(b) - 1.0) ** 2 for a, b in zip(s, shares, strict=True)]
        g = 1.0 / (1.0 + math.sqrt(m / (math.fsum(squares) * T)))
        b = [0.1]
        for _ in range(T - 1):
            b.append(b[-1] * g)
        low, high = b[-1], b[0] + z * max(s)
        for _ in range(64):
            x = 0.5 * (low + high)
            total = 0.0
            for value in b:
                total += max(x - value, 0.0) ** 2
            if math.sqrt(total) < z * max(s):
                low = x
            else:
                high = x
        above = [max(high - value, 0.0) for value in b]
        self.weights = [round(a / above[-1] * 65536) for a in above]
        spread = math.sqrt(sum(w * w for w in self.weights)) / sum(self.weights)
        self.f = [short(z * a * spread) for a in s]
        r = max(self.f) / (1.0 + max(self.f))
        self.h = Fraction(round(min(max((r - 0.2) / (0.3 - 0.2), 0.0), 1.0) * 65536), 65536)

    def theta_beta(
        self, totals: list[int], N: int, j: int, caps: list[int]
    ) -> tuple[Fraction, Fraction]:
        """θ and β of resource j from its totals, round by round."""
        W = sum(self.weights[: len(totals)])
        noisy_total = sum(w * n for w, n in zip(self.weights, totals, strict=False))
        U = noisy_total + math.ceil((Fraction(self.f[j]) * N + 1) * sum(self.weights))
        return (1 - self.h) * Fraction(N * W, max(1, U)), self.h * Fraction(N, sum(caps))
