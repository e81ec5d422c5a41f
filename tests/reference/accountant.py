"""Checks the noise of random agreements against the summed discrete Gaussian.

`scripts/environment python -m tests.reference.accountant 500` checks 500 agreements: that T
releases at full caps keep (ε, δ), and how much of the noise is not needed. It sums the privacy loss
of whole ticks, number by number. Only a sum of draws that covers very many ticks counts as
continuous. Of the product it uses the noise alone.
"""

import hashlib
import itertools
import math
import random
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.schema import TICKS
from protocol.errors import BadAgreement
from protocol.numeric import Floats
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import first_caps, smallest_cap

FINE = 1000.0
"""From this variance in ticks a sum counts as continuous: relative error 1/(24·1000)."""

REACH = 9.5
"""Standard deviations that are summed; the rest has probability below 10⁻²⁰."""


@dataclass(frozen=True)
class Judged:
    """The result for one agreement."""

    sigma: float
    """The smallest noise of a number, in ticks."""
    total: float
    """The variance in ticks that the coarsest number has in all rounds together."""
    used: float
    """The true δ over the agreed one."""
    excess: float
    """The noise over the least noise that keeps (ε, δ)."""


def judged(agreement: Agreement) -> Judged:
    """The noise of all members, at their largest and their smallest caps. May be refused."""
    calibration, privacy, found = Calibration(agreement), agreement.privacy, []
    assert privacy is not None
    largest = first_caps(agreement)
    smallest = largest
    if agreement.mode == "clipped":
        smallest = np.minimum(largest, smallest_cap(agreement))
    for caps in {tuple(row) for row in [*largest.tolist(), *smallest.tolist()]}:
        sigma = calibration.scales(np.array(caps))
        ranges = [*caps, *[agreement.ticks] * (agreement.width - len(caps))]
        numbers = [(d, float(s)) for d, s in zip(ranges, sigma, strict=True) if d]
        if numbers:
            least = min(s for _, s in numbers)
            used = delta(numbers, agreement.rounds, privacy.epsilon) / privacy.delta
            excess = 1.0 / tightest(numbers, agreement.rounds, privacy.epsilon, privacy.delta)
            found.append(Judged(least, agreement.rounds * least**2, used, excess))
    if not found:
        return Judged(math.inf, math.inf, 0.0, 1.0)
    return Judged(
        min(one.sigma for one in found),
        min(one.total for one in found),
        max(one.used for one in found),
        min(one.excess for one in found),
    )


def tightest(
    numbers: list[tuple[int, float]], rounds: int, epsilon: float, allowed: float
) -> float:
    """The fraction of this noise that suffices; 1e-5 less would not."""

    def enough(part: float) -> bool:
        return delta([(d, s * part) for d, s in numbers], rounds, epsilon) <= allowed

    low, high = 0.5, 1.0
    while high - low > 1e-5:
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def delta(numbers: list[tuple[int, float]], rounds: int, epsilon: float) -> float:
    """The δ of these rounds at ε, each with numbers of sensitivity d and noise σ.

    Under the first of two data sets the loss is Σ d·(2z + d)/2σ² with z discrete Gaussian, and
    δ is the mean of (1 − e^(ε − loss))⁺. Equal numbers are summed up beforehand.
    """
    smooth, coarse = 0.0, []
    for (d, sigma), count in Counter(numbers).items():
        times = count * rounds
        if sigma >= 3.0 and times * sigma**2 >= FINE:
            smooth += times * (d / sigma) ** 2
        else:
            coarse.append((d, sigma, times))
    coarse.sort(key=lambda number: number[2] * number[1] ** 2)
    last = coarse.pop() if coarse and not smooth else None
    left, chance = np.array([epsilon]), np.array([1.0])
    for number in coarse:
        loss, p = losses(*number)
        left = (left[:, None] - loss[None, :]).ravel()
        chance = (chance[:, None] * p[None, :]).ravel()
        likely = chance > 1e-22
        left, chance = left[likely], chance[likely]
    given = summed(left, *losses(*last)) if last else continuous(left, math.sqrt(smooth))
    return float((chance * given).sum())


def losses(d: int, sigma: float, times: int) -> tuple[Floats, Floats]:
    """The joint losses of equal numbers, in rising order, and their probabilities."""
    reach = math.ceil(REACH * sigma * math.sqrt(times)) + 2
    z = np.arange(-reach, reach + 1)
    if sigma >= 3.0 or times == 1:  # a sum of these is discrete Gaussian to 38 digits
        p = np.exp(-(z**2) / (2.0 * times * sigma**2))
    else:
        p = np.array([1.0])
        draw = np.arange(-math.ceil(12.0 * sigma) - 1, math.ceil(12.0 * sigma) + 2)
        power = np.exp(-(draw**2) / (2.0 * sigma**2))
        power /= power.sum()
        for bit in reversed(bin(times)[2:]):
            if bit == "1":
                p = cut(np.convolve(p, power), reach)
            power = cut(np.convolve(power, power), reach)
        short = reach - len(p) // 2
        p = np.pad(p, short)
    loss: Floats = ((d * z + times * d * d / 2.0) / sigma**2).astype(np.float64)
    return loss, p / p.sum()


def cut(p: Floats, reach: int) -> Floats:
    """The terms within reach of the middle."""
    over = max(0, len(p) // 2 - reach)
    return p[over : len(p) - over]


def summed(left: Floats, loss: Floats, p: Floats) -> Floats:
    """The mean of (1 − e^(left − loss))⁺, for each that is left."""
    above = np.append(np.cumsum(p[::-1])[::-1], 0.0)
    with np.errstate(divide="ignore"):
        weight = np.log(p) - loss
    other = np.append(np.logaddexp.accumulate(weight[::-1])[::-1], -math.inf)
    first = np.searchsorted(loss, left, side="right")
    with np.errstate(over="ignore"):
        found: Floats = np.maximum(above[first] - np.exp(left + other[first]), 0.0)
    return found


def continuous(left: Floats, mu: float) -> Floats:
    """That mean for a continuous Gaussian of multiplier μ."""
    above = special.ndtr(mu / 2.0 - left / mu)
    rest = np.exp(left + special.log_ndtr(-mu / 2.0 - left / mu))
    found: Floats = np.maximum(above - rest, 0.0)
    return found


def drawn(chance: random.Random) -> Agreement:
    """A random agreement with noise: all shapes and modes, extremes, often caps of few ticks."""
    m, K = chance.choice((1, 1, 2, 3)), chance.randint(2, 5)
    clipped = chance.random() < 0.2

    def share() -> float:
        ticks = chance.choice((1, 2, 3, chance.randint(1, 60), 10.0 ** chance.uniform(0.0, 6.0)))
        return min(1.0, math.ceil(ticks) / TICKS)

    def corner(low: float, high: float) -> float:
        return math.pow(
            10.0, chance.choice((low, high, *(chance.uniform(low, high) for _ in range(8))))
        )

    privacy: dict[str, Any] = {
        "epsilon": min(64.0, corner(-2.0, math.log10(64.0))),
        "delta": min(0.1, max(1e-10, corner(-10.0, -1.0))),
        "noise": chance.choice(("component", "norm")),
    }
    if chance.random() < 0.03:
        privacy |= {"epsilon": 1e-6, "delta": 1e-10}
    if clipped:
        privacy |= {"alpha": chance.uniform(1.0, 2.0), "tau": 10.0 ** chance.uniform(-5.0, -0.5)}
    if chance.random() < 0.1:
        privacy |= {"share_objective": True, "objective_limit": 100.0}
    return from_table(
        {
            "session": "judged",
            "mode": "clipped" if clipped else "private",
            "rounds": chance.choice((1, 2, 3, chance.randint(1, 40), chance.randint(1, 3000))),
            "privacy": privacy,
            "prices": {"step": "constant", "step_size": 1.0},
            "resource": [
                {"name": f"r{j}", "capacity": 10.0 ** chance.uniform(0.0, 2.0)} for j in range(m)
            ],
            "member": [
                {
                    "name": f"p{k}",
                    "share": {f"r{j}": share() if k else 1.0 for j in range(m)},
                    "signing_key": hashlib.sha256(k.to_bytes(2, "big")).hexdigest(),
                }
                for k in range(K)
            ],
        }
    )


def verdicts(seeds: Iterable[int]) -> Iterable[tuple[int, Judged | None]]:
    """The result for each agreement of these seeds; None if it is refused."""
    for seed in seeds:
        try:
            yield seed, judged(drawn(random.Random(seed)))
        except BadAgreement:
            yield seed, None


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    kinds: dict[str, list[Judged]] = {}
    seeds = itertools.count()
    found = refused = 0
    for seed, one in verdicts(seeds):
        refused += one is None
        if one is None:
            continue
        if one.used > 1.0:
            raise AssertionError(f"seed {seed}: {one}: this is less noise than it takes")
        kinds.setdefault(kind(one), []).append(one)
        found += 1
        if found == count:
            break
    for name, judgements in sorted(kinds.items()):
        most = max(one.excess for one in judgements)
        within = sum(one.excess <= 1.002 for one in judgements)
        used = max(one.used for one in judgements)
        print(
            f"{len(judgements):6} {name}: at most {most:.5f} of the noise that it takes, "
            f"{within} within 1.002; {used:.6f} of δ used"
        )
    print(f"{found:6} agreements: none has less noise than it takes ({refused} were refused)")


def kind(one: Judged) -> str:
    if one.sigma < 3.0:
        return "below 3 ticks"
    return f"3 ticks or more, rounds·σ² {'from' if one.total >= 200.0 else 'below'} 200"


if __name__ == "__main__":
    main()
