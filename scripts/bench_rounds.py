"""`scripts/bench rounds`: the distributed session against a bare loop of the same work.

Every figure is a ratio of two medians measured in turn in one run, on loopback.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from scripts.demo import Cast, demo, demo_options, free_ports, prepare
from scripts.simulate import drawn

PARTIES = 10
ROUNDS = 150
IMPORTS = "import numpy, zmq, highspy, opendp.prelude"


def rounds(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """K = 10, 150 rounds, everything on, beside a bare loop that does the same necessary work;
    and the whole session from launch to the last result beside ten bare imports."""
    rows = []
    for topology in ("relay", "mesh"):
        with console.status(f"rounds: {topology}"):
            rows.append(_measure(topology, repeats=1 if options.quick else 5, seed=options.seed))
    table = Table(
        "topology", "rounds/s", "bare loop", "ratio", "session s", "imports s", "of allowed",
        title=f"{PARTIES} parties, {ROUNDS} rounds, everything on",
        caption="medians; allowed: twice as long as the bare imports, plus the rounds",
    )  # fmt: skip
    for row in rows:
        table.add_row(
            row["topology"],
            f"{row['rounds_per_second']:.0f}",
            f"{row['bare_rounds_per_second']:.0f}",
            f"{row['ratio']:.2f}",
            f"{row['session_seconds']:.2f}",
            f"{row['imports_seconds']:.2f}",
            f"{row['session_over_allowed']:.2f}",
        )
    console.print(table)
    return rows


def _measure(topology: str, *, repeats: int, seed: int) -> dict[str, Any]:
    options = demo_options(
        ["--parties", str(PARTIES), "--rounds", str(ROUNDS), "--topology", topology,
         "--limit", "300"]
    )  # fmt: skip
    options.seed = seed  # of the instance; the noise is the real one
    bare, ours, walls, imports = [], [], [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
            bare.append(_bare(Path(folder) / "bare", options))
            figures = demo(Path(folder) / "ours", options)
        ours.append(figures["rounds_per_second"])
        walls.append(figures["wall_seconds"])
        imports.append(_imports())
    pace, floor = statistics.median(ours), statistics.median(bare)
    return {
        "topology": topology,
        "rounds_per_second": pace,
        "bare_rounds_per_second": floor,
        "ratio": pace / floor,
        "session_seconds": statistics.median(walls),
        "imports_seconds": statistics.median(imports),
        "session_over_allowed": statistics.median(walls)
        / (2.0 * statistics.median(imports) + ROUNDS / pace),
    }


def _bare(folder: Path, options: argparse.Namespace) -> float:
    """Rounds per second of the bare loop: the median over its processes."""
    prepare(folder, drawn(options), options)
    cast = Cast(folder, options)
    first = free_ports(PARTIES) if options.topology == "mesh" else 0
    ports = json.dumps([first + k for k in range(PARTIES)] if first else [])
    try:
        if not first:
            cast.start_coordinator()
        for name in cast.names:
            cast.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "scripts.bare", folder, name, str(ROUNDS), ports],
                stdout=subprocess.PIPE,
                text=True,
            )
        told = [cast.processes[n].communicate(timeout=300)[0] for n in cast.names]
    finally:
        cast.stop()
    return float(statistics.median(json.loads(line)["rounds_per_second"] for line in told))


def _imports() -> float:
    """How long as many bare processes take that only load the libraries."""
    began = time.perf_counter()
    started = [subprocess.Popen([sys.executable, "-c", IMPORTS]) for _ in range(PARTIES)]
    for process in started:
        process.wait()
    return time.perf_counter() - began
