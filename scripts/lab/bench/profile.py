"""`scripts/bench profile`: where each millisecond of a round goes, by component of a party.

One of the real parties of a session runs with clocks around its calls (`measure.profile`). The
session is the recommended one: exact, only totals can be read, prices by the centre rule. CPU
counts on separate machines. Wall time shows where a party waits: for its disk, or for its peers.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from protocol.agreement.schema import TOPOLOGIES
from scripts.lab.bench.measure.interleave import Spread, in_turns, plain, spread
from scripts.lab.bench.measure.profile import PARTS
from scripts.lab.bench.measure.sessions import run_session, session

RECOMMENDED = ("--mode", "exact", "--reveal", "totals", "--tolerance", "1e-9", "--start", "worth")
"""With this tolerance no session ends before its last round."""


class Size(Struct, frozen=True):
    """How many parties, how many rounds a session has, and how many turns."""

    parties: int
    rounds: int = 25
    turns: int = 3


SIZES = (Size(5), Size(10), Size(20))
QUICK = (Size(5, turns=1),)

WAITING = "wire waits for peers"
FSYNC = "ledger waits for the disk"


def components(
    parties: int, rounds: int, topology: str, seed: int, *more: str
) -> dict[str, dict[str, float]]:
    """Microseconds per round of one real party's components: CPU, and wall time."""
    options = session(parties, rounds, topology, seed, *more)
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
        file = Path(folder) / "parts.json"
        run_session(
            Path(folder) / "session",
            options,
            first=("-m", "scripts.lab.bench.measure.profile", str(file)),
        )
        figures = json.loads(file.read_text())
    if not figures:
        raise RuntimeError("the session ended before its last round, so nothing was measured")
    cpu: dict[str, float] = figures["cpu_microseconds"]
    wall: dict[str, float] = figures["wall_microseconds"]
    return {
        "cpu": cpu,
        "wall": {
            **wall,
            FSYNC: wall["ledger"] - cpu["ledger"],
            WAITING: wall["wire"] - cpu["wire"],
            "round": figures["round_microseconds"],
        },
        "calls": figures["calls"],
    }


def measure(size: Size, seed: int) -> list[dict[str, Any]]:
    """The figures of one size, a row for each topology, measured in turns."""
    ways = {
        topology: partial(components, size.parties, size.rounds, topology, seed, *RECOMMENDED)
        for topology in TOPOLOGIES
    }
    return [
        {"parties": size.parties, "topology": topology, **spreads(turns)}
        for topology, turns in in_turns(ways, size.turns).items()
    ]


def spreads(turns: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, Spread]]:
    """Each figure of several turns as one spread."""
    return {
        kind: {name: spread(turn[kind][name] for turn in turns) for name in names}
        for kind, names in turns[0].items()
    }


def profile(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Measure and print one table: a column for each number of parties and topology."""
    rows: list[dict[str, Any]] = []
    for size in QUICK if options.quick else SIZES:
        with console.status(f"profile: {size.parties} parties, {size.turns} turns"):
            rows += measure(size, options.seed)
    console.print(shown(rows, "exact, only totals, centre rule"))
    figures: list[dict[str, Any]] = plain(rows)
    return figures


def shown(rows: list[dict[str, Any]], title: str) -> Table:
    """CPU of every component, then the wall times in which a party does not compute."""
    table = Table(
        title=f"microseconds per round of one party: {title}",
        caption="medians; CPU of one real party with clocks around its calls, whose own cost is "
        "subtracted; a component counts without the components that it calls",
    )
    for name in ("", *(f"{row['parties']} {row['topology']}" for row in rows)):
        table.add_column(name, justify="right" if name else "left")
    for part in PARTS:
        table.add_row(part, *(f"{row['cpu'][part].median:,.0f}" for row in rows))
    sums = [sum(values.median for values in row["cpu"].values()) for row in rows]
    table.add_row("all CPU", *(f"{total:,.0f}" for total in sums), style="bold", end_section=True)
    for part in (FSYNC, WAITING, "round"):
        cells = [f"{row['wall'][part].median:,.0f}" for row in rows]
        table.add_row(f"wall: {part}", *cells)
    return table
