"""Measurements, as ratios: what a part of this project costs beside what could do the same.

Times differ from machine to machine and from minute to minute, so whatever is compared is
measured in turns and reported as a median. Nothing here is asserted; nothing is private.
"""

import argparse
import json
from pathlib import Path

from rich.console import Console

from scripts.bench_rounds import rounds
from scripts.bench_solver import solver

BENCHES = (
    (solver, "warm solves beside other ways to answer prices"),
    (rounds, "the distributed session beside a bare loop of the same work"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="WHAT")
    for run, text in BENCHES:
        command = commands.add_parser(run.__name__, help=text, description=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument("--quick", action="store_true", help="less of everything")
        command.add_argument("--seed", type=int, default=1, help="of the instances (%(default)s)")
        command.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    options = parser.parse_args()
    figures = {options.command: options.run(options, Console())}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
