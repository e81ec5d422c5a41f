"""What noise leaves with few companies: the step `ball` beside the step `worth`, cell by cell.

`scripts/environment python -m scripts.lab.study.ball_table --rows DIR --page FILE` plays the
sessions that DIR lacks and writes the page. Stopped, it goes on where it was. `ball_cells` says
what a session is.
"""

import argparse
import gzip
import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from msgspec.structs import asdict, replace
from scipy.stats import beta

from party.release.noise import DiscreteGaussian
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Ticks
from protocol.outcome.margin import growing_weights
from protocol.privacy.ball import ball
from protocol.privacy.calibration import Calibration
from scripts.lab.attack import page
from scripts.lab.study.ball_cells import BOTH, CELLS, FIRST_SEED, ROUNDS, Cell, Played, play

Found = Mapping[Cell, Mapping[str, Sequence[Played]]]
"""The sessions of each cell, by step."""

NOISE_CELLS = (Cell(10, 8.0, 1), Cell(10, 8.0, 2), Cell(10, 8.0))
"""Cells whose noise alone is drawn in many sessions."""

NOISE_SESSIONS = 2_000

ENOUGH = 30
"""Cells with fewer seeds are rough."""

SESSIONS, NOISE = "sessions.jsonl.gz", "noise.json"
"""The files in the folder of rows."""


def collect(
    path: Path | None,
    cells: Sequence[Cell] = CELLS,
    steps: Sequence[str] = BOTH,
    report: Callable[[str], None] = print,
) -> Found:
    """The sessions of these cells: those stored, and those lacking, which are played and stored.

    With no `steps` nothing is played. A cell that lacks sessions has those seeds that all steps
    have, and is left out if there are none.
    """
    stored = _stored(path)
    by_cell: dict[Cell, dict[str, list[Played]]] = {}
    for cell in cells:
        seeds = range(FIRST_SEED, FIRST_SEED + cell.seeds)
        for seed, step in product(seeds, steps):
            if (key := (_key(cell), step, seed)) not in stored:
                stored[key] = play(cell, seed, step)
                if path is not None:
                    with gzip.open(path, "at") as file:
                        file.write(_line(cell, step, seed, stored[key]))
        common = [s for s in seeds if all((_key(cell), step, s) in stored for step in BOTH)]
        if common:
            by_cell[cell] = {
                step: [stored[_key(cell), step, seed] for seed in common] for step in BOTH
            }
            report("| " + " | ".join(row(cell, by_cell[cell])) + " |")
    return by_cell


def _key(cell: Cell) -> Cell:
    """A cell without the number of its seeds, which may grow."""
    return replace(cell, seeds=0)


def _stored(path: Path | None) -> dict[tuple[Cell, str, int], Played]:
    exists = path is not None and path.exists()
    lines = gzip.decompress(path.read_bytes()).decode().splitlines() if path and exists else []
    return {
        (_key(Cell(**line["cell"])), line["step"], line["seed"]): Played(**line["played"])
        for line in map(json.loads, lines)
    }


def _line(cell: Cell, step: str, seed: int, played: Played) -> str:
    stored = {"cell": asdict(cell), "step": step, "seed": seed, "played": asdict(played)}
    return json.dumps(stored) + "\n"


def row(cell: Cell, found: Mapping[str, Sequence[Played]]) -> list[str]:
    """One line of the table."""
    now, then = found["ball"], found["totals"]
    against = [100.0 * (p.quota - p.alone) for p in now]
    beside = [100.0 * (p.quota - q.quota) for p, q in zip(now, then, strict=True)]
    return [
        str(cell.parties), str(cell.resources), f"{cell.epsilon:g}", _kind(cell), str(len(now)),
        _mean([100.0 * p.alone for p in now]), _mean([100.0 * p.quota for p in then]),
        _mean([100.0 * p.quota for p in now]), _mean([100.0 * p.oracle for p in now]),
        _mean(against), _mean(beside),
        f"{_part(then, 'plans')} → {_part(now, 'plans')}",
        f"{_part(then, 'worse')} → {_part(now, 'worse')}",
        f"{100.0 * min(p.worst for p in now):.0f} %",
        f"{min(p.floor for p in now):.3g}",
    ]  # fmt: skip


def _kind(cell: Cell) -> str:
    words = {"paper": "", "demands": "minimum demands", "valley": "demonstration"}[cell.kind]
    more = {"equal": "", "half": "one has half", "dirichlet": "Dirichlet"}[cell.endowments]
    spare = "" if cell.spare is None else f"spare {100.0 * cell.spare:g} %"
    return ", ".join(filter(None, (words, more, spare))) or "–"


def _mean(values: Sequence[float]) -> str:
    if any(math.isnan(value) for value in values):
        return "–"
    error = float(np.std(values)) / math.sqrt(max(len(values) - 1, 1))
    return f"{float(np.mean(values)):.1f} ± {error:.1f}"


def _part(played: Sequence[Played], name: str) -> str:
    return f"{100.0 * float(np.mean([getattr(p, name) for p in played])):.0f} %"


def bounds(count: int, sessions: int) -> tuple[float, float]:
    """The 95 % confidence interval of Clopper and Pearson, in percent."""
    low = float(beta.ppf(0.025, count, sessions - count + 1)) if count else 0.0
    high = float(beta.ppf(0.975, count + 1, sessions - count)) if count < sessions else 1.0
    return 100.0 * low, 100.0 * high


def below_margin(agreement: Agreement, sessions: int) -> int:
    """In how many sessions the noise alone lets quotas exceed some capacity, whatever is asked.

    Draws the noise of the real gate. Quotas are demands over U, and U counts the noise and what is
    withheld for it (SPEC.md §22). So all quotas exceed the capacity just if the weighted noise is
    below −(z·σ·N + 1)·W, unless shares cut them.
    """
    calibration, public, noise = Calibration(agreement), ball(agreement), DiscreteGaussian()
    shares, m = quantities(agreement).share_ticks, len(agreement.resources)
    weights = growing_weights(agreement.rounds)
    total: Ticks = np.zeros((sessions, m), dtype=np.int64)
    nothing = np.zeros(sessions * m, dtype=np.int64)
    for number, weight in enumerate(weights):
        for own in calibration.scales(shares, number):
            scales = np.tile(own, sessions)
            drawn = noise.add(nothing, scales, member="", round=number)
            total += weight * drawn.reshape(sessions, m)
    least = np.ceil((public.deviation * agreement.ticks + 1.0) * sum(weights))
    return int((total < -least).any(axis=1).sum())


COLUMNS = (
    *("K", "m", "ε", "kind", "seeds", "endowments alone", "step worth", "step ball", "oracle"),
    *("ball − alone", "ball − worth", "with a plan", "worse off", "worst", "least above floor"),
)
_HEADING = "What noise leaves with few companies"
_WORDS = (
    f"Sessions of {ROUNDS} rounds, δ = 0.001, one colluder, 5 % overrun risk, shares twice the "
    "endowments, worth 100. What the companies earn within their quotas, in percent of the "
    "optimum, with standard errors. *Oracle*: the best plan for all that leaves the same margin "
    "unused; it knows all books and no member is held to its ball. *With a plan* and *worse off* "
    "(than alone by more than a ten-thousandth, after payment and levy): step worth → step ball. "
    "*Worst*: the largest loss of one company. *Least above floor*: the smallest distance to the "
    "floor of PRIVACY.md, Theorem 16, as a fraction of it. Where ball − alone is 0.0 ± 0.0 the "
    "noise leaves nothing to trade, and every member keeps its endowment. The constants were "
    "chosen on other companies and seeds (BALL_CONSTANTS.md). Earlier rows of this table, with one "
    "resource, showed that prices stopped too low; their upper limit was then raised."
)
_WORDS_OVER = (
    "Sessions in which all quotas together exceed some capacity with its spare fraction. The "
    "agreed risk is 5 %. The second table draws the noise of the real gate alone: quotas exceed a "
    "capacity just if the noise is below the margin, whatever the companies ask for."
)


def _over_rows(found: Found) -> list[list[str]]:
    """All sessions of the table that trade, by number of companies."""
    rows, sums = [], [0, 0]
    for K in sorted({cell.parties for cell in found}):
        groups = [steps["ball"] for cell, steps in found.items() if cell.parties == K]
        played = [p for group in groups for p in group if p.quota != p.alone]
        count = sum(p.over for p in played)
        if played:
            rows.append([str(K), *_over(count, len(played))])
            sums = [sums[0] + count, sums[1] + len(played)]
    return [*rows, ["all", *_over(*sums)]] if sums[1] else rows


def _over(count: int, sessions: int) -> list[str]:
    low, high = bounds(count, sessions)
    part = f"{100.0 * count / sessions:.1f} % ({low:.1f} to {high:.1f})"
    return [str(sessions), str(count), part]


def noise_rows(path: Path | None, sessions: int = NOISE_SESSIONS) -> list[list[str]]:
    """The overruns by noise alone, stored or drawn; the noise of a real gate cannot be repeated."""
    counts = json.loads(path.read_text()) if path is not None and path.exists() else []
    for cell in NOISE_CELLS[len(counts) :]:
        agreement = cell.agreement(cell.instance(FIRST_SEED), "ball")
        counts.append([sessions, below_margin(agreement, sessions)])
        if path is not None:
            path.write_text(json.dumps(counts) + "\n")
    return [
        [str(cell.parties), str(cell.resources), f"{cell.epsilon:g}", *_over(count, played)]
        for cell, (played, count) in zip(NOISE_CELLS, counts, strict=True)
    ]


def _few(found: Found) -> str:
    """Which cells have fewer sessions than the others."""
    few = [cell for cell, steps in found.items() if len(steps["ball"]) < ENOUGH]
    if not few:
        return f"All cells have at least {ENOUGH} seeds."
    return (
        f"{len(few)} of {len(found)} cells have fewer than {ENOUGH} seeds, as the column says: "
        "their figures are rough."
    )


def tables(found: Found, noise: Sequence[Sequence[str]]) -> list[str]:
    """The lines of the page."""
    lines = [f"# {_HEADING}", "", *textwrap.wrap(f"{_WORDS} {_few(found)}", 100), ""]
    lines += page.grid(COLUMNS, [row(cell, steps) for cell, steps in found.items()], 4)
    lines += ["", "## Over a capacity", "", *textwrap.wrap(_WORDS_OVER, 100), ""]
    counts = ("sessions", "over", "of all (95 % interval)")
    lines += page.grid(("K", *counts), _over_rows(found), 1)
    return [*lines, "", *page.grid(("K", "m", "ε", *counts), noise, 3)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cells", type=int, nargs="*", help="numbers of cells, from 0 (all)")
    parser.add_argument(
        "--steps",
        nargs="*",
        default=BOTH,
        choices=BOTH,
        help="play only these steps; without any, play nothing",
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="at most N seeds in each cell")
    parser.add_argument("--rows", type=Path, metavar="DIR", help="keep the sessions in this folder")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables to this page")
    chosen = parser.parse_args()
    cells = [CELLS[n] for n in chosen.cells or range(len(CELLS))]
    if chosen.seeds:
        cells = [replace(cell, seeds=min(cell.seeds, chosen.seeds)) for cell in cells]
    found = collect(chosen.rows and chosen.rows / SESSIONS, cells, chosen.steps)
    if chosen.page:
        noise = noise_rows(chosen.rows and chosen.rows / NOISE)
        chosen.page.write_text("\n".join(tables(found, noise)) + "\n")


if __name__ == "__main__":
    main()
