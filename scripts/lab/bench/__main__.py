"""Measurements, as ratios: what a part of this project costs beside what could do the same.

Times differ from machine to machine and from minute to minute, so whatever is compared is
measured in turns and reported as a median. Nothing here is asserted; nothing is private.
"""

import argparse
import importlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

BENCHES = {
    "solver": "warm solves beside other ways to answer prices",
    "rounds": "the distributed session beside a bare loop of the same work",
    "start": "from launching the processes to the first round, and to the last",
    "study": "a simulated round beside one that rebuilds every model",
    "large": "a model of 100,000 columns, from checking it to its plan: time and memory",
    "scale": "how cost grows with parties, resources, columns and rounds",
}

WIDTH = 150
"""Columns of a table that goes to a file."""


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure, in turns and as ratios. `all` runs every one of them.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="WHAT")
    for name, text in {**BENCHES, "all": "all of these"}.items():
        add = commands.add_parser(name, help=text, description=text).add_argument
        add("--quick", action="store_true", help="less of everything: a minute at most for each")
        add("--seed", type=int, default=1, help="of the instances (%(default)s)")
        add("--json", type=Path, metavar="FILE", help="write the figures here")
        if name in ("rounds", "all"):
            add(
                "--mpi-python",
                default=os.environ.get("MPI_PYTHON", sys.executable),
                metavar="PYTHON",
                help="the interpreter that has mpi4py and disropt (MPI_PYTHON, or this one)",
            )
        if name == "rounds":
            add(
                "--part",
                choices=("pace", "near"),
                help="only how fast rounds are, or only how soon prices are near to the best",
            )
            add(
                "--reveal",
                choices=("each", "totals"),
                default="each",
                help="totals: the same session with masked releases as well, turn by turn",
            )
        if name in ("scale", "all"):
            add(
                "--out",
                type=Path,
                metavar="DIR",
                help="write the tables to SCALE.md in this folder (default: only print them)",
            )
    return parser


def main() -> None:
    options = command_line().parse_args()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    figures: dict[str, Any] = {"machine": machine()}
    for name in BENCHES if options.command == "all" else (options.command,):
        bench = getattr(importlib.import_module(f"scripts.lab.bench.{name}"), name)
        figures[name] = bench(options, console)
        if options.json:  # after each, so that a long run that is stopped has not been for nothing
            options.json.write_text(json.dumps(figures, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """What the figures were measured on, as far as it explains them."""
    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    main()
