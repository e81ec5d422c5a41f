"""`scripts/attack`: attacks on real components of this project, and what they reveal.

Each attack states what its adversary knows, and measures what it learns. Nothing is asserted here,
and all data are invented.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from scripts.lab.bench.__main__ import WIDTH, machine

ATTACKS = {
    "timing": "a member that answers last sets every price and times a real party",
    "masks": "members that copy mask keys read what others release",
    "epsilon": "an adversary tells two extreme models apart by what the gate releases",
    "totals": "a member that answers last steers prices to decompose totals without noise",
    "shading": "a member that answers for another company gains at the others' expense",
    "pump": "a member that answers last moves noisy prices and raises the levy",
    "flood": "a member that takes part and floods its peers over the same connection",
}
"""Each attack is a function in a module of its name; `options` there adds its options."""


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/attack",
        description="Attack this project, and show what is revealed.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="WHAT")
    for name, text in ATTACKS.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--quick", action="store_true", help="fewer and shorter sessions")
        command.add_argument("--seed", type=int, default=1, help="seed (%(default)s)")
        command.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
        importlib.import_module(f"scripts.lab.attack.{name}").options(command)
    return parser


def main() -> None:
    options = command_line().parse_args()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    attack = getattr(
        importlib.import_module(f"scripts.lab.attack.{options.command}"), options.command
    )
    figures: dict[str, Any] = {"machine": machine(), options.command: attack(options, console)}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
