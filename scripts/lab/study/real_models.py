"""Other models: public sets, integer columns, concave objectives, and narrow bands.

Runs sessions without a network and writes one page, `REAL.md`, with the terms of every row. Rows
are stored in a file beside it, so that sets can be run one after the other. The joint optimum
judges the sessions and never influences them.
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from rich.console import Console
from rich.progress import track

from protocol.agreement.schema import DRAFT_ROUNDS, DRAFT_ROUNDS_PER_RESOURCE, REVEALS
from protocol.runtime.cli import run
from scripts.lab.common.convergence import gap
from scripts.lab.common.instances import (
    Instance,
    Optimum,
    central,
    curved,
    draw,
    dual_value,
    knapsacks,
    placebo,
)
from scripts.lab.common.model_sets import read_set
from scripts.lab.simulate import command_line, play

Row = dict[str, Any]

ROUNDS, TOLERANCE = 400, 1e-5
"""For the sets: the most rounds, and the tolerance. The worth of all capacities may be far above
the optimum, by which sessions are judged here; so the tolerance is a tenth of the usual one."""

MANY = (50, 100, 171)
"""Resources of drawn companies with default settings."""

SEEDS = range(1, 6)
WIDTHS = (1.0, 0.5, 0.25)
EPSILONS = (8.0, 64.0)


def set_row(folder: Path) -> Row:
    """One public set without noise and without worth."""
    instance, optimum = read_set(folder)
    figures = _played(instance, optimum, "--rounds", str(ROUNDS), "--tolerance", str(TOLERANCE))
    return {
        "resources": len(instance.capacity),
        "columns": sum(d.columns for d in instance.data),
        "brought": instance.floor is not None,
        **figures,
    }


def default_row(instance: Instance, optimum: Optimum) -> Row:
    """An exact session as `coordinator new` sets it up where no option is given."""
    count = len(instance.capacity)
    most = DRAFT_ROUNDS + DRAFT_ROUNDS_PER_RESOURCE * count
    figures = _played(instance, optimum, "--rounds", str(most), "--reveal", "totals")
    return {"resources": count, "rounds": most, **figures}


def default_set_row(folder: Path) -> Row:
    """One public set with default settings."""
    return default_row(*read_set(folder))


def default_drawn_row(resources: int, seed: int) -> Row:
    """Ten companies as in the paper with many resources and default settings."""
    instance = draw(seed, parties=10, resources=resources)
    return default_row(instance, central(instance))


def kind_row(kind: str, resources: int, seed: int) -> Row:
    """Ten companies that are not linear, compared with the joint problem."""
    make = knapsacks if kind == "whole" else curved
    instance = make(seed, parties=10, resources=resources)
    return _played(instance, central(instance))


def _played(instance: Instance, optimum: Optimum, *arguments: str) -> Row:
    options = command_line().parse_args(["--mode", "exact", "--worth", "0", *arguments])
    figures = play(instance, optimum, options)
    kept = ("parties", "rounds_played", "dual_gap_weighted", "certificate", "quota_loss")
    gains = [gain for gain in figures["gains"] if gain is not None]
    loss = -min([0.0, *gains]) / abs(optimum.utility)
    return {
        **{key: figures[key] for key in kept},
        "certificate_part": figures["certificate_part"],
        "obstacles": figures["trade"]["obstacles"],
        "contradictions": len(figures["contradictions"]),
        "without_plan": figures["without_plan"],
        "worse_off": sum(gain < 0.0 for gain in gains),
        "largest_loss": loss,
        "beyond": max(0.0, loss - figures["certificate"]),
    }


def banded(instance: Instance, width: float) -> Instance:
    """These companies with floors: an equal share of all but a fraction `band` of a capacity."""
    count = len(instance.data)
    low = np.full_like(instance.share, (1.0 - width) / count)
    floor = low * instance.capacity
    above = instance.capacity - floor.sum(axis=0)
    share = np.minimum(1.0, width * instance.capacity / above * np.ones_like(instance.share))
    return replace(instance, floor=floor, share=share)


def band_row(reveal: str, epsilon: float, width: float, seed: int) -> Row:
    """Prices learned through noise in a narrow band: from own data, and from a placebo."""
    plain = draw(seed, parties=10, demands=False)
    own = banded(plain, width)
    other = banded(placebo(plain, seed + 1000, demands=False), width)
    optimum = central(own)
    options = command_line().parse_args(
        [
            *("--epsilon", str(epsilon), "--reveal", reveal),
            *("--rounds", "50", "--worth", "100", "--seed", str(seed)),
        ]
    )
    gaps, noise = [], 0.0
    for companies in (own, other):
        figures = play(companies, central(companies), options)
        # That is of one of them, all alike, and of what is above the floors.
        noise = figures["noise_std_over_capacity"] * width * math.sqrt(len(companies.data))
        dual = dual_value(own, own.subproblems(), np.array(figures["prices"]))
        gaps.append(gap(dual, optimum.utility))
    return {"noise": noise, "own": gaps[0], "placebo": gaps[1]}


def work(folders: Sequence[Path], quick: bool) -> Iterator[tuple[str, Any]]:
    """What to run: a key for each row, and the call that makes it."""
    for folder in folders:
        yield f"set {folder.name}", partial(set_row, folder)
    for folder in folders:
        yield f"default {folder.name}", partial(default_set_row, folder)
    seeds = SEEDS[:1] if quick else SEEDS
    for m, seed in product(MANY, seeds[:3]):
        yield f"default drawn {m} {seed}", partial(default_drawn_row, m, seed)
    for kind, counts in (("whole", (1, 3)), ("curved", (3, 5))):
        for m in counts:
            for seed in seeds:
                yield f"kind {kind} {m} {seed}", partial(kind_row, kind, m, seed)
    for reveal, epsilon, width, seed in product(REVEALS, EPSILONS, WIDTHS, seeds):
        played = partial(band_row, reveal, epsilon, width, seed)
        yield f"band {reveal} {epsilon:g} {width:g} {seed}", played


def page(rows: dict[str, Row]) -> str:
    """The page."""
    return "\n".join([*_sets(rows), *_defaults(rows), *_kinds(rows), *_bands(rows)]) + "\n"


SETS = """\
# Other models

Written by `scripts/environment python -m scripts.lab.study.real_models DIR --out FOLDER`,
where `DIR` holds sets of models. [The page above](../README.md) says what a set of models is.

## Public sets

Linear models from public collections, split into companies. Without noise, without a stated worth,
with a tolerance of 10⁻⁵ and at most 400 rounds, in one process.

- *Prices*: how far the dual value at the prices of the outcome is above the joint optimum.
- *Proved*: the certificate, as a fraction of the optimum.
- *Quotas*: what all plans within the quotas lose of the optimum.
- *Worse off*: companies that lose by joining, and the largest loss as a fraction of the optimum.
"""

DEFAULTS = """
## Default settings

Exact sessions as `coordinator new --mode exact` sets them up where no option is given: only totals
can be read, no worth, a tolerance of 10⁻⁴, a trade limit of 1 %, and 150 rounds with 4 more for
each resource. *Drawn*: ten companies of the paper with many resources, and a seed.

- *Proved*: the certificate, as a fraction of what all capacities are worth.
- *Quotas*: what all plans within the quotas lose of the optimum.
- *Worse off*: the largest loss of a company by joining, less the certificate, as a fraction of the
  optimum.
"""

OTHER_KINDS = """
## Integer columns and concave objectives

Ten companies each. `whole`: thirty binary columns, half of which fit. `curved`: the paper's
products, whose unit value falls with the quantity. Results are compared with the optimum of the
joint problem. For integer columns that is the bound that the joint solver proves.
"""

BANDS = """
## Narrow bands

Ten companies of the paper without minimum demands, 50 rounds, a worth of 100, from prices 0. Each
has (1 − *band*)/10 of every capacity for certain and may have *band* more; the optimum is that
within the bands. *Noise*: in the total of a round, as a fraction of the capacity.
*Own* and *placebo*: how far prices learned from own data, and from other companies', are from the
optimum.
"""


def _table(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def _sets(rows: dict[str, Row]) -> Iterator[str]:
    yield SETS
    names = ("set", "companies", "resources", "columns", "some bring", "rounds", "prices")
    yield _table(*names, "proved", "quotas", "without a plan", "worse off")
    for key in sorted(rows):
        if key.startswith("set "):
            r = rows[key]
            worse = f"{r['worse_off']}, {r['largest_loss']:.1e}" if r["worse_off"] else "0"
            yield (
                f"| `{key[4:]}` | {r['parties']} | {r['resources']} | {r['columns']} | "
                f"{'yes' if r['brought'] else ''} | {r['rounds_played']} | "
                f"{_percent(r['dual_gap_weighted'])} | {_percent(r['certificate'])} | "
                f"{_percent(r['quota_loss'])} | {r['without_plan']} | {worse} |"
            )


def _defaults(rows: dict[str, Row]) -> Iterator[str]:
    yield DEFAULTS
    names = ("companies of", "resources", "rounds", "at most", "trade", "proved", "quotas")
    yield _table(*names, "without a plan", "worse off")
    for key in sorted(rows, key=lambda key: (key.startswith("default drawn"), key)):
        if key.startswith("default "):
            r = rows[key]
            yield (
                f"| `{key[8:]}` | {r['resources']} | {r['rounds_played']} | {r['rounds']} | "
                f"{', '.join(r['obstacles']) or 'yes'} | {_percent(r['certificate_part'])} | "
                f"{_percent(r['quota_loss'])} | {r['without_plan']} | {_percent(r['beyond'])} |"
            )


def _kinds(rows: dict[str, Row]) -> Iterator[str]:
    yield OTHER_KINDS
    names = ("kind", "resources", "sessions", "rounds at most", "quotas, on average", "at worst")
    yield _table(*names, "without a plan")
    for kind, m in sorted({tuple(k.split()[1:3]) for k in rows if k.startswith("kind ")}):
        found = [rows[k] for k in rows if k.startswith(f"kind {kind} {m} ")]
        lost = [r["quota_loss"] for r in found if r["quota_loss"] is not None]
        yield (
            f"| {kind} | {m} | {len(found)} | {max(r['rounds_played'] for r in found)} | "
            f"{_percent(_mean(lost))} | {_percent(max(lost, default=None))} | "
            f"{sum(r['without_plan'] for r in found)} |"
        )


def _bands(rows: dict[str, Row]) -> Iterator[str]:
    yield BANDS
    names = ("revealed", "ε", "band", "noise", "own", "placebo")
    yield _table(*names, "of the placebo's gap, own data remove")
    for reveal, epsilon, width in product(REVEALS, EPSILONS, WIDTHS):
        begins = f"band {reveal} {epsilon:g} {width:g} "
        played = [rows[k] for k in rows if k.startswith(begins)]
        if not played:
            continue
        noise, own, other = (_mean([r[n] for r in played]) for n in ("noise", "own", "placebo"))
        removed = None if own is None or not other else 1.0 - own / other
        noise_text = "–" if noise is None else f"{noise:.3g}"
        yield (
            f"| {reveal} | {epsilon:g} | {width:g} | {noise_text} | {_percent(own)} | "
            f"{_percent(other)} | {_percent(removed)} |"
        )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100.0 * value:.2g} %"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts.lab.study.real_models",
        description="Run the sets of a folder and companies that are not linear; write a page.",
    )
    parser.add_argument("sets", type=Path, metavar="DIR", help="a folder of sets of models")
    parser.add_argument("--out", type=Path, default=Path("real"), metavar="FOLDER")
    parser.add_argument(
        "--only",
        nargs="*",
        metavar="WORD",
        help="only rows with these prefixes, such as 'set gap'",
    )
    parser.add_argument("--quick", action="store_true", help="one seed of each instead of five")
    parser.set_defaults(run=_written)
    run(parser)


def _written(options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "rows.json"
    rows: dict[str, Row] = json.loads(kept.read_text()) if kept.exists() else {}
    folders = sorted(path.parent for path in options.sets.glob("*/set.json"))
    todo = [
        (key, make_row)
        for key, make_row in work(folders, options.quick)
        if key not in rows and (not options.only or any(map(key.startswith, options.only)))
    ]
    for key, make_row in track(todo, "rows", console=Console(stderr=True)):
        rows[key] = make_row()
        kept.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
    (options.out / "REAL.md").write_text(page(rows))


if __name__ == "__main__":
    main()
