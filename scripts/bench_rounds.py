"""`scripts/bench rounds`: the distributed session against a bare loop of the same work.

Every figure is a ratio of two medians measured in turn in one run, on loopback.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scripts.demo import Cast, demo, demo_parser, free_ports, prepare
from scripts.simulate import drawn, party_name

IMPORTS = "import numpy, zmq, highspy, opendp.prelude"


def measure(*, parties: int, rounds: int, repeats: int) -> list[dict[str, Any]]:
    """One row for each topology."""
    rows = []
    for topology in ("relay", "mesh"):
        bare, ours, walls, imports = [], [], [], []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
                bare.append(_bare(Path(folder) / "bare", parties, rounds, topology))
                figures = demo(Path(folder) / "ours", _options(parties, rounds, topology))
            ours.append(figures["rounds_per_second"])
            walls.append(figures["wall_seconds"])
            imports.append(_imports(parties))
        pace = statistics.median(ours)
        allowed = 2.0 * statistics.median(imports) + rounds / pace
        rows.append(
            {
                "topology": topology,
                "parties": parties,
                "rounds": rounds,
                "rounds_per_second": pace,
                "bare_rounds_per_second": statistics.median(bare),
                "ratio": pace / statistics.median(bare),
                "session_seconds": statistics.median(walls),
                "imports_seconds": statistics.median(imports),
                "session_over_allowed": statistics.median(walls) / allowed,
            }
        )
    return rows


def _options(parties: int, rounds: int, topology: str) -> Any:
    return demo_parser().parse_args(
        ["--parties", str(parties), "--rounds", str(rounds), "--topology", topology,
         "--limit", "300"]
    )  # fmt: skip


def _bare(folder: Path, parties: int, rounds: int, topology: str) -> float:
    """Rounds per second of the bare loop: the median over its processes."""
    options = _options(parties, rounds, topology)
    prepare(folder, drawn(options), options)
    cast = Cast(folder, options)
    first = free_ports(parties) if topology == "mesh" else 0
    ports = [first + k for k in range(parties)] if first else []
    try:
        if topology == "relay":
            cast.start_coordinator()
        for k in range(parties):
            name = party_name(k)
            cast.processes[name] = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "scripts.bare",
                    folder,
                    name,
                    f"{rounds}",
                    json.dumps(ports),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
        told = [cast.processes[n].communicate(timeout=300)[0] for n in cast.names]
    finally:
        cast.stop()
    return float(statistics.median(json.loads(line)["rounds_per_second"] for line in told))


def _imports(parties: int) -> float:
    """How long as many bare processes take that only load the libraries."""
    began = time.perf_counter()
    started = [subprocess.Popen([sys.executable, "-c", IMPORTS]) for _ in range(parties)]
    for process in started:
        process.wait()
    return time.perf_counter() - began
