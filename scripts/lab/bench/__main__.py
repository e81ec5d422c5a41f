"""`scripts/bench`: measurements, mostly ratios between this project and alternatives.

Times differ between machines and from minute to minute. So alternatives take turns, and the result
is a median. Nothing is asserted here, and no data are private.
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
    "solver": "warm solves compared with other ways to answer prices",
    "rounds": "the distributed session compared with a bare loop of the same work",
    "profile": "where each millisecond of a round goes, by component of a party",
    "rivals": "one problem solved by a session, by MPyC and by DISROPT: seconds, bytes, revealed",
    "start": "time from launch to the first round, and to the last",
    "versions": "whole sessions of this version compared with another commit",
    "commitments": "what commitments and claims cost after the last round",
    "certify": "rounds until an exact session is certified, and the time of its price rule",
    "study": "a simulated round compared with one that rebuilds every model",
    "large": "a model of 100,000 columns: time and memory from `party check` to the plan",
    "crowd": "one session of 200 parties over the relay, with totals and settlement",
    "scale": "cost by number of parties, resources, columns and rounds",
}

WIDTH = 150
"""Columns of a table that is written to a file or a pipe."""


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Compare alternatives, run alternately, and report ratios. `all` runs every "
        "benchmark.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="WHAT")
    for name, text in {**BENCHES, "all": "all benchmarks"}.items():
        add = commands.add_parser(name, help=text, description=text).add_argument
        add("--quick", action="store_true", help="fewer sizes and rounds: at most a minute each")
        add("--seed", type=int, default=1, help="seed of the instances (%(default)s)")
        add("--json", type=Path, metavar="FILE", help="write the figures to this file")
        if name in ("rounds", "rivals", "all"):
            add(
                "--mpi-python",
                default=os.environ.get("MPI_PYTHON", sys.executable),
                metavar="PYTHON",
                help="interpreter with mpi4py and disropt (default: MPI_PYTHON, or this one)",
            )
        if name in ("rivals", "all"):
            add(
                "--mpyc",
                type=Path,
                default=Path("mpyc"),
                metavar="DIR",
                help="a clone of MPyC's repository, if you have one (%(default)s)",
            )
            add(
                "--mpyc-python",
                default=sys.executable,
                metavar="PYTHON",
                help="interpreter with mpyc (default: this one)",
            )
        if name == "rounds":
            add(
                "--part",
                choices=("pace", "near"),
                help="pace: only rounds per second; near: only the time to accurate prices",
            )
            add(
                "--reveal",
                choices=("each", "totals"),
                default="each",
                help="totals: also measure the session with masked releases",
            )
        if name in ("versions", "all"):
            add("--base", metavar="COMMIT", help="the other version: a commit (default: none)")
        if name in ("certify", "all"):
            add(
                "--sets",
                type=Path,
                default=Path("sets"),
                metavar="DIR",
                help="a folder of public sets of models, if you have one (%(default)s)",
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
        if options.json:  # after each, so that an interrupted run keeps what it has
            options.json.write_text(json.dumps(figures, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """The machine and the interpreter of the figures."""
    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    main()
