"""`scripts/bench certify`: rounds of an exact session until it is certified, and the rule's time.

The companies of the paper, and public sets if a folder is given, at the default tolerance. All
answers and prices are computed in one process. Nothing here influences a session.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from party.release.gate import clamped
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.rounds import RoundEngine
from scripts.lab.common.agreements import players, table
from scripts.lab.common.instances import Instance, draw
from scripts.lab.common.model_sets import read_set

MOST_ROUNDS = 900
"""More than any of these sessions needs."""

SIZES = (
    *((5, worth, parties) for worth in (100.0, None) for parties in (5, 10, 20)),
    *((resources, 100.0, parties) for resources in (10, 20) for parties in (5, 10, 20)),
)
"""Resources, the worth of each, companies."""


def played(instance: Instance, worth: float | None) -> dict[str, Any]:
    """One session: rounds, whether it is certified, and milliseconds of the rule per round."""
    agreement = from_table(
        table(
            session="certify",
            mode="exact",
            rounds=MOST_ROUNDS,
            capacity=instance.capacity,
            share=instance.share,
            floor=instance.floor,
            opposites=instance.opposites,
            names=instance.names,
            worth=worth,
            members=players(len(instance.data)),
        )
    )
    engine, problems = RoundEngine(agreement), instance.subproblems()
    floor, state, spent = quantities(agreement).floor, engine.opening, 0.0
    while not state.over:
        answers = [problem.answer(state.prices.current) for problem in problems]
        rows = [
            np.zeros_like(least) if answer is None else answer.demand - least
            for answer, least in zip(answers, floor, strict=True)
        ]
        values = clamped(agreement, np.array(rows), np.zeros(len(rows)), state.caps)
        begin = time.process_time()
        state = engine.advance(state, values)
        spent += time.process_time() - begin
    best, tolerance = state.certificate, agreement.pricing.tolerance or 0.0
    return {
        "rounds": state.round,
        "certified": best is not None and best.within(tolerance),
        "milliseconds": spent / state.round * 1e3,
    }


def certify(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Count rounds until certified: means over seeds, and each public set."""
    seeds = range(options.seed, options.seed + (3 if options.quick else 20))
    rows = []
    for resources, worth, parties in SIZES[:3] if options.quick else SIZES:
        with console.status(f"certify: {resources} resources, {parties} parties"):
            instances = [draw(s, parties=parties, resources=resources) for s in seeds]
            name = "paper, a worth each" if worth else "paper, no worth"
            rows.append(_row(name, instances, worth))
    for folder in sorted(path.parent for path in options.sets.glob("*/set.json")):
        with console.status(f"certify: {folder.name}"):
            rows.append(_row(folder.name, [read_set(folder)[0]], None))
    sheet = Table(
        "companies", "resources", "parties", "sessions", "certified", "rounds, mean", "at most",
        "ms a round",
        title="rounds until certified, tolerance 0.0001",
        caption="milliseconds: CPU of the price rule and the chain hash",
    )  # fmt: skip
    for row in rows:
        keys = ("name", "resources", "parties", "sessions", "certified")
        cells = [str(row[key]) for key in keys]
        sheet.add_row(*cells, f"{row['rounds']:.1f}", str(row["most"]), f"{row['ms']:.2f}")
    console.print(sheet)
    return rows


def _row(name: str, instances: Sequence[Instance], worth: float | None) -> dict[str, Any]:
    found = [played(instance, worth) for instance in instances]
    parties, resources = instances[0].share.shape
    return {
        "name": name,
        "resources": resources,
        "parties": parties,
        "sessions": len(found),
        "certified": sum(one["certified"] for one in found),
        "rounds": statistics.mean(one["rounds"] for one in found),
        "most": max(one["rounds"] for one in found),
        "ms": statistics.mean(one["milliseconds"] for one in found),
    }
