"""Chooses the constants of the step `ball`, on companies and seeds that judge nothing.

`scripts/environment python -m scripts.lab.study.ball_constants --rows FILE --page FILE` plays the
sessions that FILE lacks and writes the page. With equal endowments a rule for the radius is a
function of two public numbers, the resources m and κ = z·√(K/(K − t))/(K·μ). So each kind of
companies is played with many κ and ρ, and every rule can be judged by the same sessions.

The sessions are floating-point: the rule, the margin and the quotas of the step `ball`, with
continuous noise and fewer rounds. The real gate judges the result (`ball_table`).

Symbols: e = 1/K endowment, ρ = radius over endowment, M = 2·κ·ρ margin, σ = M/z noise.
"""

import argparse
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, product
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace
from scipy.interpolate import PchipInterpolator
from scipy.stats import norm

from protocol.agreement.schema import OVERRUN, WORTH_WITHIN
from protocol.numeric import Floats
from protocol.outcome.ball_quota import LEAST_TOTAL
from protocol.pricing.ball_rule import (
    DRIFT,
    LARGEST_CHANGE,
    LARGEST_FALL,
    LARGEST_RISE,
    PRIOR,
    RESPONSE,
)
from protocol.privacy import axes
from scripts.lab.attack import page
from scripts.lab.study.ball_kinds import KINDS, Market

ROUNDS = 30
FIRST_SEED = 20_001
KAPPAS = (0.015, 0.03, 0.06, 0.09, 0.12, 0.15)
RHOS = (0.2, 0.5, 0.9, 1.4, 1.8)
MOST_MARGIN = 0.28
"""Sessions that would withhold more are not played: they lose, whatever the companies are."""

LARGEST_GAIN = 10.0
"""In percent of the optimum: a larger gain counts as this, so that no kind decides alone."""


class Row(Struct, frozen=True):
    """The gain of one kind against the split by endowment, in percent of the optimum."""

    kind: str
    parties: int
    resources: int
    kappa: float
    rho: float
    #: One number for each seed.
    gains: tuple[float, ...]

    @property
    def cell(self) -> tuple[str, int, int, float, float]:
        return self.kind, self.parties, self.resources, self.kappa, self.rho

    @property
    def mean(self) -> float:
        return float(np.mean(self.gains))


def play(market: Market, kappa: float, rho: float, seed: int) -> float:
    """What all companies earn in one session, as a fraction of the optimum."""
    K, m = market.share.shape
    e, M = np.full((K, m), 1.0 / K), 2.0 * kappa * rho
    z = float(norm.ppf((1.0 - OVERRUN) ** (1.0 / m)))
    sigma, W, h = M / z, ROUNDS * (ROUNDS + 1) / 2.0, RESPONSE * rho
    center, half = e * (1.0 - M), rho * e
    answer = market.answering(center, half, M)
    noise = np.random.default_rng([seed, K, m]).standard_normal((ROUNDS, m))
    y, P = market.worth.copy(), np.full(m, (PRIOR * math.log(WORTH_WITHIN)) ** 2)
    asked, seen = np.zeros((K, m)), np.zeros(m)
    for t in range(ROUNDS):
        demand = _clipped(answer(y), center, half)
        total = demand.sum(axis=0) + sigma * math.sqrt(W / (t + 1)) * noise[t]
        asked += (t + 1) / W * demand
        seen += (t + 1) / W * total
        v = sigma * sigma * W / (t + 1) / (h * h)
        a = np.clip(P / (P + v) / h * (total - 1.0 + M), -LARGEST_CHANGE, LARGEST_CHANGE)
        lowest, highest = market.worth / LARGEST_FALL, market.worth * LARGEST_RISE
        y = np.clip(y * (2.0 + a) / (2.0 - a), lowest, highest)
        P = P * v / (P + v) + DRIFT
    quota = np.minimum(asked / np.maximum(seen + M, float(LEAST_TOTAL)), market.share)
    return market.earned(quota) / market.best


def _clipped(demand: Floats, center: Floats, half: Floats) -> Floats:
    apart = (demand - center) / half
    size = np.sqrt((apart * apart).sum(axis=1, keepdims=True))
    clipped: Floats = center + half * apart / np.maximum(size, 1.0)
    return clipped


Size = tuple[str, int, int]
"""Kind, parties, resources."""


def played(size: Size, seeds: int, cells: Sequence[tuple[float, float]]) -> Iterable[Row]:
    """The rows of a kind and size with these κ and ρ."""
    kind, parties, resources = size
    numbers = range(FIRST_SEED, FIRST_SEED + seeds)
    markets = [KINDS[kind].drawn(seed, parties, resources) for seed in numbers]
    split = np.full((parties, resources), 1.0 / parties)
    alone = [market.earned(split) / market.best for market in markets]
    for kappa, rho in cells:
        earned = [
            play(market, kappa, rho, seed) for market, seed in zip(markets, numbers, strict=True)
        ]
        gains = (100.0 * (e - a) for e, a in zip(earned, alone, strict=True))
        yield Row(*size, kappa, rho, tuple(round(g, 3) for g in gains))


class Rule(Struct, frozen=True):
    """ρ = c₁ − c₂·κ with c₁ = min(most, first·√m) and c₂ = second·m^power."""

    most: float
    first: float
    second: float
    power: float

    def rho(self, resources: int, kappa: float) -> float:
        c1 = min(self.most, self.first * math.sqrt(resources))
        rho = c1 - self.second * resources**self.power * kappa
        return rho if rho >= axes.LEAST_REACH else 0.0

    def __str__(self) -> str:
        return f"min({self.most:g}, {self.first:g}·√m) − {self.second:g}·m^{self.power:g}·κ"


RULES = tuple(
    Rule(*numbers)
    for numbers in product(
        (1.4, 1.6, 1.8),
        (0.8, 0.9, 1.0, 1.1, 1.2),
        np.arange(6.0, 15.5, 0.5).tolist(),
        (0.0, 0.125, 0.25),
    )
)
CHOSEN = Rule(axes.MOST, axes.FIRST, axes.SECOND, 0.25)
"""The rule of `protocol.privacy.axes`."""

NEAR = (
    *(replace(CHOSEN, first=first) for first in (0.9, 1.0, 1.1, 1.2)),
    *(replace(CHOSEN, second=second) for second in (6.5, 7.0, 7.25, 7.5, 7.75, 8.0, 8.5, 9.0)),
)
"""Rules that differ from it in one constant."""


class Curve:
    """The mean gain by ρ, through those played and 0 at 0; beyond the last, along its slope."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rhos, self._gains = [0.0], [0.0]
        for row in rows:
            self._rhos.append(row.rho)
            self._gains.append(row.mean)
        self._between = PchipInterpolator(self._rhos, self._gains)

    def gain(self, rho: float) -> float:
        rhos, gains = self._rhos, self._gains
        if rho <= rhos[-1]:
            return float(self._between(rho))
        slope = (gains[-1] - gains[-2]) / (rhos[-1] - rhos[-2])
        return gains[-1] + min(slope, 0.0) * (rho - rhos[-1])


Curves = Mapping[Size, Mapping[float, Curve]]
"""By kind and size, and by κ."""


def curves(rows: Iterable[Row]) -> Curves:
    ordered = sorted(rows, key=lambda r: r.cell)
    found: dict[Size, dict[float, Curve]] = {}
    for (*size, kappa), group in groupby(ordered, key=lambda r: r.cell[:4]):
        found.setdefault(tuple(size), {})[kappa] = Curve(group)
    return found


def score(rule: Rule, found: Curves, loss: float) -> float:
    """The mean over kinds of the mean over their cells; a loss counts `loss` times."""
    kinds: dict[str, list[float]] = {}
    for (kind, _, resources), by_kappa in found.items():
        for kappa, curve in by_kappa.items():
            value = min(curve.gain(rule.rho(resources, kappa)), LARGEST_GAIN)
            kinds.setdefault(kind, []).append(value if value >= 0.0 else loss * value)
    return float(np.mean([np.mean(values) for values in kinds.values()]))


def best(found: Curves, loss: float) -> Rule:
    return max(RULES, key=lambda rule: score(rule, found, loss))


def _stored(path: Path | None) -> list[Row]:
    if path is None or not path.exists():
        return []
    found = map(json.loads, path.read_text().splitlines())
    return [Row(**{**row, "gains": tuple(row["gains"])}) for row in found]


def collect(path: Path | None, report: Callable[[str], None] = print) -> list[Row]:
    """All rows: those stored, and those that the file lacks, which are played and stored."""
    rows = _stored(path)
    done = {row.cell for row in rows}
    wanted = [pair for pair in product(KAPPAS, RHOS) if 2.0 * math.prod(pair) <= MOST_MARGIN]
    for kind, what in KINDS.items():
        for parties, resources, seeds in what.sizes:
            size = kind, parties, resources
            lacking = [pair for pair in wanted if (*size, *pair) not in done]
            for row in played(size, seeds, lacking) if lacking else ():
                rows.append(row)
                if path is not None:
                    with path.open("a") as file:
                        file.write(json.dumps(asdict(row)) + "\n")
            report(f"{kind}, K = {parties}, m = {resources}")
    return rows


_HEADING = "How the constants of the step ball were chosen"
_WORDS = (
    "Sessions among companies that judge nothing else, in floating point, with continuous noise "
    f"and {ROUNDS} rounds: gain against the split by endowment, in percent of the optimum. The "
    "public number κ = z·√(K/(K − t))/(K·μ) says how much noise there is for K members: "
    "for m = 5 it is 0.12 with 10 members at ε = 8, 0.06 with 20 at ε = 8, and 0.04 with 50 at "
    "ε = 4. A session with radius ρ (over the endowment) withholds 2κρ of every capacity."
)
_WORDS_RULES = (
    "Each rule sets ρ from κ and m. It is the best of "
    f"{len(RULES)} by the mean over all kinds of companies; a loss counts as often as the first "
    f"column says, and a gain above {LARGEST_GAIN:g} counts as {LARGEST_GAIN:g}. The last row is "
    "the rule of this version. It is none of the others: its balls are larger, so that ten "
    "members trade at ε = 8. Companies that are nearly alike pay for this, and `protocol plan` "
    "advises them against noise. The second table has the mean for this rule with other constants, "
    "a loss counting once and twice."
)
_WORDS_CELLS = (
    "Gain by the rule of this version, with the standard error over seeds at the nearest ρ that "
    "was played, and in brackets the ρ of the rule. “Keeps” means that every member keeps its "
    "endowment."
)


def tables(rows: Sequence[Row]) -> list[str]:
    """The lines of the page."""
    found = curves(rows)
    rules = [(f"{loss:g}", best(found, loss)) for loss in (1.0, 2.0, 4.0, 8.0)]
    lines = [f"# {_HEADING}", "", *textwrap.wrap(_WORDS, 100), "", "## Rules", ""]
    lines += [*textwrap.wrap(_WORDS_RULES, 100), ""]
    kinds = list(KINDS)
    columns = ("a loss counts", "ρ", *(KINDS[kind].title for kind in kinds), "worst cell")
    lines += page.grid(columns, [_rule_row(*pair, found) for pair in [*rules, ("–", CHOSEN)]], 2)
    columns = ("c₁", "c₂", "a loss counts 1", "a loss counts 2")
    lines += ["", *page.grid(columns, [_near_row(rule, found) for rule in NEAR], 2)]
    lines += ["", "## Cells", "", *textwrap.wrap(_WORDS_CELLS, 100), ""]
    columns = ("companies", "K", "m", *(f"κ = {kappa:g}" for kappa in KAPPAS))
    return [*lines, *page.grid(columns, [_cell_row(size, found, rows) for size in found], 1)]


def _near_row(rule: Rule, found: Curves) -> list[str]:
    c1, c2 = f"min({rule.most:g}, {rule.first:g}·√m)", f"{rule.second:g}·m^{rule.power:g}"
    return [c1, c2, *(f"{score(rule, found, loss):.2f}" for loss in (1.0, 2.0))]


def _rule_row(loss: str, rule: Rule, found: Curves) -> list[str]:
    by_kind: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for (kind, _, resources), by_kappa in found.items():
        by_kind[kind] += [c.gain(rule.rho(resources, kappa)) for kappa, c in by_kappa.items()]
    means = [f"{np.mean(values):.1f}" if values else "" for values in by_kind.values()]
    worst = min(value for values in by_kind.values() for value in values)
    return [loss, str(rule), *means, f"{worst:.1f}"]


def _cell_row(size: Size, found: Curves, rows: Sequence[Row]) -> list[str]:
    kind, parties, resources = size
    texts = []
    for kappa in KAPPAS:
        rho, curve = CHOSEN.rho(resources, kappa), found[size][kappa]
        near = min(
            (r for r in rows if r.cell[:4] == (*size, kappa)), key=lambda r: abs(r.rho - rho)
        )
        error = np.std(near.gains) / math.sqrt(max(len(near.gains) - 1, 1))
        value = curve.gain(rho)
        texts.append(f"{value:.1f} ± {error:.1f} ({rho:.2f})" if rho else "keeps")
    return [KINDS[kind].title, str(parties), str(resources), *texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep the sessions in this file")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables to this page")
    chosen = parser.parse_args()
    lines = tables(collect(chosen.rows))
    if chosen.page:
        chosen.page.write_text("\n".join(lines) + "\n")
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
