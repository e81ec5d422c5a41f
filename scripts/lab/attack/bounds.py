"""Lower bounds on ε from guesses about which data set was used.

The guess is a threshold of the likelihood ratio, fixed in advance. Its success rate, with
Clopper-Pearson bounds, proves a lower bound on ε. There are three ways: without assumptions, which
takes hundreds of thousands of sessions; if the trade-off curve is that of a Gaussian of any μ; and
if the noise is Gaussian of any size, which takes the fewest sessions.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest
from statistics import NormalDist

import numpy as np
from msgspec import Struct
from scipy.special import betaincinv

from protocol.numeric import Floats
from protocol.privacy.accountant import gaussian_epsilon

CONFIDENCE = 0.95

_PARTS = (1.0, 0.8, 0.5)
_NORMAL = NormalDist()


class Seen(Struct, frozen=True):
    """The sessions of each data set, and how many were classified as `everything`.

    There is one count for each threshold. `far` counts the sessions whose ratio was more than μ
    away from its value without noise, where the noise has its agreed size.
    """

    nothing: int = 0
    everything: int = 0
    false: tuple[int, ...] = ()
    true: tuple[int, ...] = ()
    far: int = 0

    def __add__(self, other: "Seen") -> "Seen":
        def added(ours: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(map(sum, zip_longest(ours, theirs, fillvalue=0)))

        return Seen(
            self.nothing + other.nothing,
            self.everything + other.everything,
            added(self.false, other.false),
            added(self.true, other.true),
            self.far + other.far,
        )

    def bounds(self) -> Iterator[tuple[float, float]]:
        """Lower bound of how often `everything` is recognised, upper bound of how often `nothing`
        is mistaken for it. All bounds hold at once with the given confidence."""
        alpha = (1.0 - CONFIDENCE) / 2.0 / max(1, len(self.true))
        for false, true in zip(self.false, self.true, strict=True):
            right, missed = self.nothing - false, self.everything - true
            least = float(betaincinv(true, missed + 1, alpha)) if true else 0.0
            most = float(betaincinv(false + 1, right, 1.0 - alpha)) if right else 1.0
            yield least, most

    def epsilon(self, delta: float) -> float:
        """A lower bound on ε of any (ε, δ)-LDP mechanism, without assumptions."""
        proved = (
            math.log((least - delta) / most) for least, most in self.bounds() if least > delta
        )
        return max(0.0, *proved, 0.0)

    def gaussian_epsilon(self, delta: float) -> float:
        """A lower bound on ε if the trade-off curve is that of a Gaussian."""
        proved = (
            gaussian_epsilon(mu=_NORMAL.inv_cdf(least) - _NORMAL.inv_cdf(most), delta=delta)
            for least, most in self.bounds()
            if 0.0 < most < least < 1.0
        )
        return max(0.0, *proved, 0.0)

    def noise_epsilon(self, mu: float, delta: float, *, at_once: int = 1) -> float:
        """A lower bound on ε if the gate adds Gaussian noise of any size to the demand.

        μ is that of the agreed noise. Fewer sessions suffice, because they only need to show how
        large the noise is. `bounds` such bounds hold at once.
        """
        count = self.nothing + self.everything
        if not 0 < self.far < count:
            return 0.0
        sure = 1.0 - (1.0 - CONFIDENCE) / at_once
        most = float(betaincinv(self.far + 1, count - self.far, sure))
        largest = 1.0 / _NORMAL.inv_cdf(1.0 - most / 2.0)  # noise over agreed noise
        return gaussian_epsilon(mu=mu / largest, delta=delta)


def seen(nothing: Floats, everything: Floats, tried: Sequence[float], mu: float) -> Seen:
    """How often each data set is classified as `everything`, at every threshold."""
    false, true = (
        tuple(int((ratios > threshold).sum()) for threshold in tried)
        for ratios in (nothing, everything)
    )
    off = np.concatenate([nothing + mu**2 / 2.0, everything - mu**2 / 2.0])
    return Seen(len(nothing), len(everything), false, true, int((np.abs(off) > mu).sum()))


@cache
def thresholds(mu: float, delta: float, sessions: int) -> tuple[float, ...]:
    """The best likelihood ratios from which to guess `everything`, for `sessions` of each.

    One is for the agreed noise, others for less noise: with less noise the ratios of extreme
    sessions are smaller, and one threshold alone would not detect it.
    """
    return tuple(part**2 * _best_threshold(mu / part, delta, sessions) for part in _PARTS)


def _best_threshold(mu: float, delta: float, sessions: int) -> float:
    def promised(threshold: float) -> float:
        false, true = (1.0 - _NORMAL.cdf(threshold / mu + s * mu / 2.0) for s in (1.0, -1.0))
        taken = (round(sessions * false),), (round(sessions * true),)
        return Seen(sessions, sessions, *taken).epsilon(delta)

    tried: list[float] = np.linspace(-2.0 * mu, 6.0 * mu, 161).tolist()
    return max(tried, key=promised)
