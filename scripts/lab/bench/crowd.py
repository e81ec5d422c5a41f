"""`scripts/bench crowd`: one session of many parties over the relay, with totals and settlement.

All parties are real processes on this machine. The relay's share says how much of one core the
relay uses while rounds run: what is left of that core is what a second one would bring.
"""

import argparse
from typing import Any

from rich.console import Console
from rich.table import Table

from scripts.lab.bench.measure.points import crowd as measure

PARTIES, QUICK, ROUNDS = (200,), (10,), 40


def crowd(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Run each size once, and print one table."""
    rows = []
    for parties in QUICK if options.quick else PARTIES:
        with console.status(f"crowd: {parties} parties"):
            rows.append(measure(parties, ROUNDS, options.seed))
    console.print(shown(rows))
    return rows


def shown(rows: list[dict[str, Any]]) -> Table:
    """A row for each size."""
    table = Table(
        title="one session of many parties over the relay: exact, totals, settlement",
        caption="seconds from the launch of the first process; CPU in ms a round; "
        "relay's share: of one core, from the first round to the last",
    )
    for name in (
        "parties", "finished", "chain hashes", "rounds", "to the first round", "to the last report",
        "rounds a second", "CPU, a party", "CPU, relay", "relay's share", "memory of all",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            str(row["parties"]),
            str(row["finished"]),
            str(row["heads"]),
            str(row["rounds"]),
            f"{row['start_seconds']:.1f}",
            f"{row['seconds']:.1f}",
            f"{row['rounds_per_second']:.2f}",
            _milliseconds(row["party_cpu_seconds"]),
            _milliseconds(row["relay_cpu_seconds"]),
            "–" if row["relay_share"] is None else f"{row['relay_share']:.0%}",
            f"{row['memory_bytes'] / 1e9:.1f} GB",
        )
    return table


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1e3:.1f}"
