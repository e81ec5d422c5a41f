"""`scripts/bench certify`: rounds of an exact session until it is certified, and the rule's time.

The companies of the paper, and public sets if a folder is given, at the default tolerance. All
answers and prices are computed in one process. Nothing here influences a session. Sets are played
without a worth, and with a good one: what each capacity fetched in the session without.
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
from protocol.numeric import Floats
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

QUICK = ((5, 100.0, 5), (5, None, 5))

LEAST_WORTH = 0.1
"""A good worth is at least this part of the mean, also where a capacity fetched nothing."""


def played(instance: Instance, worth: float | Floats | None) -> dict[str, Any]:
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
        "fetched": state.prices.current * instance.capacity,
    }


def good_worth(fetched: Floats) -> Floats | None:
    """A worth of each capacity from what all of it fetched; None if nothing did."""
    mean = float(np.mean(np.abs(fetched)))
    return np.maximum(np.abs(fetched), LEAST_WORTH * mean) if mean > 0.0 else None


def certify(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Count rounds until certified: means over seeds, and each public set."""
    seeds = range(options.seed, options.seed + (3 if options.quick else 20))
    rows = []
    for resources, worth, parties in QUICK if options.quick else SIZES:
        with console.status(f"certify: {resources} resources, {parties} parties"):
            instances = [draw(s, parties=parties, resources=resources) for s in seeds]
            name = "paper, a worth each" if worth else "paper, no worth"
            rows.append(_row(name, instances, worth))
    for folder in sorted(path.parent for path in options.sets.glob("*/set.json")):
        with console.status(f"certify: {folder.name}"):
            instance = read_set(folder)[0]
            rows.append(_row(f"{folder.name}, no worth", [instance], None))
            good = good_worth(rows[-1]["fetched"])
            if good is not None:
                rows.append(_row(f"{folder.name}, a good worth", [instance], good))
    sheet = Table(
        "companies", "resources", "parties", "sessions", "certified", "rounds, mean", "median",
        "at most",
        "ms a round",
        title="rounds until certified, tolerance 0.0001",
        caption="milliseconds: CPU of the price rule and the chain hash",
    )  # fmt: skip
    for row in rows:
        keys = ("name", "resources", "parties", "sessions", "certified")
        cells = [str(row[key]) for key in keys]
        sheet.add_row(*cells, f"{row['rounds']:.1f}", f"{row['median']:g}", str(row["most"]),
                      f"{row['ms']:.2f}")  # fmt: skip
    console.print(sheet)
    for what, more in compared(rows).items():
        listed = ", ".join(str(one) for one in more)
        console.print(f"{what}: {statistics.median(more):g} more rounds without a worth ({listed})")
    return [{key: value for key, value in row.items() if key != "fetched"} for row in rows]


def compared(rows: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """Rounds without a worth minus rounds with one, session by session."""
    more: dict[str, list[int]] = {}
    for row in rows:
        name, _, worth = row["name"].rpartition(", ")
        if worth != "no worth":
            continue
        for other in rows:
            same = all(other[key] == row[key] for key in ("resources", "parties"))
            if other is not row and same and other["name"].rpartition(", ")[0] == name:
                pairs = zip(row["each"], other["each"], strict=True)
                more.setdefault("paper" if name == "paper" else "sets", []).extend(
                    without - guided for without, guided in pairs
                )
    return more


def _row(name: str, instances: Sequence[Instance], worth: float | Floats | None) -> dict[str, Any]:
    found = [played(instance, worth) for instance in instances]
    parties, resources = instances[0].share.shape
    return {
        "name": name,
        "resources": resources,
        "parties": parties,
        "sessions": len(found),
        "certified": sum(one["certified"] for one in found),
        "rounds": statistics.mean(one["rounds"] for one in found),
        "median": statistics.median(one["rounds"] for one in found),
        "most": max(one["rounds"] for one in found),
        "each": [one["rounds"] for one in found],
        "fetched": found[0]["fetched"],
        "ms": statistics.mean(one["milliseconds"] for one in found),
    }
