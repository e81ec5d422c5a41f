"""`scripts/bench scale`: how cost grows with parties K, resources m, columns n and rounds T.

What one party computes is measured with one real party among peers that are only keys
(`alone`), up to numbers that no single machine could run as processes; what the network
takes, with real processes up to what this machine can; and what follows for more is written
down in SCALE.md (`scale_page`), never measured by guessing.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from party.release.noise import DRAWN_AHEAD
from scripts.lab.bench.measure.fit import Power
from scripts.lab.bench.measure.growth import curves, exponents
from scripts.lab.bench.measure.interleave import in_turns
from scripts.lab.bench.measure.points import (
    alone,
    crowd,
    curve_microseconds,
    endurance,
    mesh,
    network,
    wire_bytes,
)
from scripts.lab.bench.measure.single_party import Setting

RESULTS = Path(__file__).parents[2] / "results"


@dataclass(frozen=True)
class Plan:
    """Which points are measured, and how often."""

    parties: tuple[int, ...]
    resources: tuple[int, ...]
    columns: tuple[int, ...]
    processes: tuple[int, ...]
    meshes: tuple[int, ...]
    bytes_for: tuple[int, ...]
    long: int
    turns: int
    crowd: int = 0
    """Real parties of one session of 40 rounds: as many as this machine can hold."""
    far: tuple[Setting, ...] = ()
    """Single points beyond what a session on this machine could be, computed by one party."""


FULL = Plan(
    parties=(2, 5, 10, 20, 50, 100, 200, 500, 1000),
    resources=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    columns=(15, 30, 60, 125, 250, 500, 1000, 2000),
    processes=(2, 3, 5, 10, 20, 40, 60),
    meshes=(3, 5, 10, 20),
    bytes_for=(3, 5, 10, 20, 40, 60),
    crowd=200,
    long=5_000,
    turns=3,
    far=(
        Setting(parties=10_000, rounds=DRAWN_AHEAD, skipped=1),
        Setting(parties=1_000, resources=1_000, columns=60, rounds=DRAWN_AHEAD, skipped=1),
    ),
)
QUICK = Plan(
    parties=(2, 10, 50, 200),
    resources=(1, 5, 20, 50),
    columns=(15, 60, 250, 1000),
    processes=(2, 4, 8),
    meshes=(),
    bytes_for=(3,),
    long=500,
    turns=1,
)


def scale(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Fitted exponents of what a party computes, what the relay carries, memory and bytes."""
    plan = QUICK if options.quick else FULL
    figures = measure(plan, options.seed, console)
    for table in tables(figures):
        console.print(table)
    out = options.out or (None if options.quick else RESULTS)
    if out is not None:
        from scripts.lab.bench.scale_figure import draw  # matplotlib: only for who wants a figure
        from scripts.lab.bench.scale_page import page

        (out / "scale").mkdir(parents=True, exist_ok=True)
        draw(figures, out / "scale")
        (out / "SCALE.md").write_text(page(figures))
        console.print("SCALE.md and its figure are written")
    return figures


def measure(plan: Plan, seed: int, console: Console) -> dict[str, Any]:
    """All points, as plain numbers."""
    with console.status("scale: one party among keys"):
        alone_figures = sweeps(plan, seed)
    with console.status("scale: real processes"):
        processes = [network(parties, seed) for parties in plan.processes]
        meshes = [mesh(parties, seed) for parties in plan.meshes]
        crowds = [crowd(plan.crowd, 40, seed)] if plan.crowd else []
    with console.status(f"scale: {plan.long} rounds"):
        long = endurance(plan.long, seed)
    with console.status("scale: bytes"):
        carried = [wire_bytes(parties, seed) for parties in plan.bytes_for]
        curve = {size: curve_microseconds(size) for size in (217, 8178)}
    figures = {
        **alone_figures,
        "processes": processes,
        "meshes": meshes,
        "crowds": crowds,
        "long": long,
        "bytes": carried,
        "curve_microseconds": curve,
    }
    return {**figures, "exponents": exponents(figures)}


def sweeps(plan: Plan, seed: int) -> dict[str, Any]:
    """One thing grows at a time, in turns over all points."""
    simple = Setting(seed=seed)
    settings = {
        **{f"parties {k}": _among(simple, k) for k in plan.parties},
        **{
            f"resources {m}": replace(simple, parties=10, resources=m, columns=60)
            for m in plan.resources
        },
        **{f"columns {n}": replace(simple, columns=n) for n in plan.columns},
    }
    ways = {name: partial(alone, setting) for name, setting in settings.items()}
    got = {name: _median(values) for name, values in in_turns(ways, plan.turns).items()}
    return {
        what: [figures for name, figures in got.items() if name.startswith(f"{what} ")]
        for what in ("parties", "resources", "columns")
    } | {"far": [alone(replace(setting, seed=seed)) for setting in plan.far]}


def _among(setting: Setting, parties: int) -> Setting:
    """Fewer rounds with many parties, so that no point takes for ever. Always whole batches of
    noise: one round in so many draws for all of them."""
    return replace(setting, parties=parties, rounds=DRAWN_AHEAD * max(1, min(6, 300 // parties)))


def _median(values: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The turn with the median CPU, whole: its parts then add up."""
    ordered = sorted(values, key=lambda figures: float(figures["cpu_microseconds"]))
    cpu = [figures["cpu_microseconds"] for figures in ordered]
    return {**ordered[len(ordered) // 2], "turns_cpu_microseconds": cpu}


def tables(figures: dict[str, Any]) -> list[Table]:
    fits = Table(
        title="how cost grows: y ~ x to the power of",
        caption="least squares on logarithms, 95 % interval; 0: no growth is seen, 1: in "
        "proportion, –: the points do not tell",
    )
    for column in ("what", "from", "to", "smallest", "largest", "exponent", "of the upper half"):
        fits.add_column(column, justify="left" if column == "what" else "right")
    for title, x, y in curves(figures):
        if title in figures["exponents"]:
            fit = figures["exponents"][title]
            fits.add_row(
                title,
                f"{x[0]:,.0f}",
                f"{x[-1]:,.0f}",
                f"{y[0]:,.4g}",
                f"{y[-1]:,.4g}",
                Power(**fit["all"]).shown(),
                Power(**fit["upper"]).shown(),
            )
    late = Table(
        title=f"{figures['long']['rounds']:,} rounds of three parties: early and late",
        caption="over real processes; memory of one party at the end of each stretch",
    )
    for column in ("rounds", "µs a round", "CPU µs a round, a party", "memory MB"):
        late.add_column(column, justify="right")
    for window in figures["long"]["windows"]:
        cpu, memory = window["cpu_microseconds_per_round"], window["memory_bytes"]
        late.add_row(
            f"{window['first_round']:,}–{window['last_round']:,}",
            f"{window['median_round_microseconds']:,.0f}",
            "–" if cpu is None else f"{cpu:,.0f}",
            "–" if memory is None else f"{memory / 1e6:.1f}",
        )
    return [fits, late]
