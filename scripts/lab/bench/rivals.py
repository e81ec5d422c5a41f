"""`scripts/bench rivals`: one problem, solved by this project, by MPyC and by DISROPT.

MPyC reveals nothing but the plan and takes long; DISROPT hides nothing and signs nothing. All three
run as separate processes on loopback, from launch to the last result. The problem has whole numbers
only, because MPyC's exact method needs them. The table says what each reveals.
"""

import argparse
import math
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from party.model.company_model import CompanyModel, dense
from scripts.lab.bench.baselines.disropt_prices import LIMIT, best_in_hindsight
from scripts.lab.bench.baselines.mpi import Mpi, found
from scripts.lab.bench.baselines.mpyc_lp import SOLVERS, Mpyc, joint, matrix
from scripts.lab.bench.measure.interleave import in_turns, plain, ratio, spread
from scripts.lab.bench.measure.sessions import prepared, session
from scripts.lab.bench.measure.traffic import relayed
from scripts.lab.common.instances import Instance, central, draw


class Size(Struct, frozen=True):
    """How many companies share how many resources; how many products and own limits each has."""

    parties: int
    resources: int
    products: int
    limits: int
    turns: int = 3


SIZES = (Size(3, 2, 4, 2), Size(3, 3, 8, 4), Size(5, 3, 8, 4))
QUICK = (Size(3, 2, 4, 2, turns=1),)

NEAR, PACE_ROUNDS = 0.001, 100

REVEALED = {
    "session": "to all members: the total demand in every round, prices, and the certificate",
    "MPyC": "to all parties: number of pivots, value and pivot after each, and the whole plan",
    "DISROPT": "to all agents: the prices that each agent would set, in every round; unsigned",
}


def whole(seed: int, size: Size) -> Instance:
    """A small instance as in the paper, rounded to whole numbers."""
    instance = draw(seed, parties=size.parties, resources=size.resources, demands=False)
    return replace(
        instance,
        capacity=np.rint(instance.capacity),
        data=tuple(_rounded(d, size) for d in instance.data),
    )


def _rounded(data: CompanyModel, size: Size) -> CompanyModel:
    """The first products and limits of a company, in whole numbers; every product uses capacity."""
    n, rows = size.products, matrix(data)
    return dense(
        A=np.maximum(1.0, np.rint(rows[: size.resources, :n])),
        B=np.rint(5.0 * rows[size.resources : size.resources + size.limits, :n]),
        u=np.rint(data.utility[:n]),
        row_lower=np.full(size.limits, -math.inf),
        row_upper=np.rint(5.0 * data.row_upper[: size.limits]),
        lower=np.zeros(n),
        upper=np.full(n, math.inf),
    )


def measure(size: Size, seed: int, mpyc: Mpyc | None, mpi: Mpi) -> dict[str, Any]:
    """Seconds and bytes of each contestant for one problem, in turns, and what each found."""
    instance = whole(seed, size)
    ways: dict[str, Callable[[], dict[str, float]]] = {
        "session": partial(_ours, instance, size, seed)
    }
    if mpi.disropt:
        ways["DISROPT"] = partial(_disropt, mpi, instance, size, seed)
    if mpyc is not None:
        for solver in SOLVERS:
            ways[f"MPyC {solver}"] = partial(_mpyc, mpyc, instance, size, solver)
    got = in_turns(ways, size.turns)
    ours = [figures["seconds"] for figures in got["session"]]
    return {
        "parties": size.parties,
        "rows": len(joint(instance).limit),
        "columns": len(joint(instance).cost),
        "optimum": central(instance).utility,
        "ways": {
            name: {
                **{key: spread(figures[key] for figures in turns) for key in turns[0]},
                "times_the_session": ratio([figures["seconds"] for figures in turns], ours),
            }
            for name, turns in got.items()
        },
    }


def _ours(instance: Instance, size: Size, seed: int) -> dict[str, float]:
    """An exact session in which only totals can be read, over a relay that counts bytes."""
    options = session(size.parties, 150, "relay", seed, "--mode", "exact", "--reveal", "totals")
    counts = relayed(options, instance)
    return {
        "seconds": counts["seconds"],
        "bytes": counts["up"] + counts["down"],
        "found": counts["utility"],
    }


def _mpyc(mpyc: Mpyc, instance: Instance, size: Size, solver: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
        done = mpyc.solve(joint(instance), size.parties, Path(folder), solver)
    return {"seconds": done.seconds, "bytes": done.bytes_sent, "found": done.optimum}


def _disropt(mpi: Mpi, instance: Instance, size: Size, seed: int) -> dict[str, float]:
    """Until the dual value is within 0.1 %, with the best step for this problem in hindsight.

    Its agents have no plan that fits then, and no measure of how near they are.
    """
    rounds = best_in_hindsight(instance, (NEAR,))[NEAR].rounds or LIMIT
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
        prepared(Path(folder), session(size.parties, 150, "relay", seed), instance)
        figures = mpi.run("disropt_session.py", size.parties, folder, PACE_ROUNDS)
    seconds = figures["ready_seconds"] + rounds / figures["rounds_per_second"]
    return {"seconds": seconds, "bytes": math.nan, "found": math.nan}


def rivals(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Measure each size and print one table. What is not installed is named."""
    mpyc = Mpyc(options.mpyc, options.mpyc_python)
    mpi = found(options.mpi_python)
    absent = mpyc.missing()
    missing = [*filter(None, [absent]), *mpi.missing]
    rows = []
    for size in QUICK if options.quick else SIZES:
        with console.status(f"rivals: {size.parties} companies, {size.turns} turns"):
            rows.append(measure(size, options.seed, None if absent else mpyc, mpi))
    console.print(shown(rows))
    for name, text in REVEALED.items():
        console.print(f"{name} reveals {text}", markup=False)
    if missing:
        console.print(f"left out, because not installed: {', '.join(missing)}", markup=False)
    figures: list[dict[str, Any]] = plain(rows)
    return figures


def shown(rows: list[dict[str, Any]]) -> Table:
    """A row for each problem and contestant."""
    table = Table(
        title="one problem, several ways to solve it together",
        caption="median, and below it lowest–highest; from launch to the last result; bytes of all",
    )
    for name in ("companies", "problem", "", "seconds", "÷ session", "kB", "of the optimum"):
        table.add_column(name, justify="left" if not name else "right")
    for row in rows:
        for way, figures in row["ways"].items():
            table.add_row(
                str(row["parties"]),
                f"{row['rows']} × {row['columns']}",
                way,
                figures["seconds"].shown(".1f"),
                figures["times_the_session"].shown(".1f"),
                _known(figures["bytes"].median / 1e3, ",.0f"),
                _known(figures["found"].median / row["optimum"], ".4%"),
            )
    return table


def _known(number: float, form: str) -> str:
    return f"{number:{form}}" if math.isfinite(number) else "–"
