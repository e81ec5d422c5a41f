"""`scripts/bench scale`: cost by number of parties K, resources m, columns n and rounds.

One real party with simulated peers (`measure.single_party`) shows what a party computes, up to
sizes that one machine cannot run as processes. Sessions of real processes show the rest. Only
measured points are printed and written: nothing is fitted and nothing is extrapolated.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from party.release.noise import DRAWN_AHEAD
from scripts.lab.bench.measure.interleave import in_turns
from scripts.lab.bench.measure.points import alone, crowd, endurance, mesh, network, wire_bytes
from scripts.lab.bench.measure.single_party import Setting
from scripts.lab.bench.scale_tables import page, tables


class Plan(Struct, frozen=True):
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
    """Real parties in one session of 40 rounds: as many as this machine can hold."""
    far: tuple[Setting, ...] = ()
    """Sizes at which one party is measured although no session of that size fits here."""


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
    """Measure all points, print their tables, and write them to SCALE.md where --out is given."""
    figures = measure(QUICK if options.quick else FULL, options.seed, console)
    for table in tables(figures):
        console.print(table.printed())
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        path: Path = options.out / "SCALE.md"
        path.write_text(page(figures))
        console.print(f"wrote {path}")
    return figures


def measure(plan: Plan, seed: int, console: Console) -> dict[str, Any]:
    """All points, as plain numbers."""
    with console.status("scale: one party with simulated peers"):
        figures = sweeps(plan, seed)
    with console.status("scale: real processes"):
        figures["processes"] = [network(parties, seed) for parties in plan.processes]
        figures["meshes"] = [mesh(parties, seed) for parties in plan.meshes]
        figures["crowds"] = [crowd(plan.crowd, 40, seed)] if plan.crowd else []
    with console.status(f"scale: {plan.long} rounds"):
        figures["long"] = endurance(plan.long, seed)
    with console.status("scale: bytes"):
        figures["bytes"] = [wire_bytes(parties, seed) for parties in plan.bytes_for]
    return figures


def sweeps(plan: Plan, seed: int) -> dict[str, Any]:
    """One party at every setting. One dimension grows at a time; all points take turns."""
    base = Setting(seed=seed)
    settings = {
        **{f"parties {k}": _with_parties(base, k) for k in plan.parties},
        **{
            f"resources {m}": replace(base, parties=10, resources=m, columns=60)
            for m in plan.resources
        },
        **{f"columns {n}": replace(base, columns=n) for n in plan.columns},
    }
    contestants = {name: partial(alone, setting) for name, setting in settings.items()}
    medians = {name: _median(values) for name, values in in_turns(contestants, plan.turns).items()}
    return {
        dimension: [row for name, row in medians.items() if name.startswith(f"{dimension} ")]
        for dimension in ("parties", "resources", "columns")
    } | {"far": [alone(replace(setting, seed=seed)) for setting in plan.far]}


def _with_parties(setting: Setting, parties: int) -> Setting:
    """Fewer rounds with many parties, to bound the time of a point.

    The count is a multiple of DRAWN_AHEAD, because one round draws the noise of that many.
    """
    return replace(setting, parties=parties, rounds=DRAWN_AHEAD * max(1, min(6, 300 // parties)))


def _median(values: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All figures of the turn with the median CPU, so that its components still add up."""
    ordered = sorted(values, key=lambda figures: float(figures["cpu_microseconds"]))
    cpu = [figures["cpu_microseconds"] for figures in ordered]
    return {**ordered[len(ordered) // 2], "turns_cpu_microseconds": cpu}
