"""What an adversary finds out: attacks on real parts of this project, measured.

Each attack names what its adversary knows, and says how much it finds out. Nothing here is
asserted, and all data are invented.
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
    "epsilon": "two data sets as different as can be, told apart by what the gate releases",
    "totals": "a member that answers last steers prices and takes totals without noise apart",
    "flood": "a member that plays its part and floods the others over the same connection",
}
"""Each is a function of its name in the file of its name, and `options` there adds its own."""


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/attack", description="Attack a part of this project, and say what it tells."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="WHAT")
    for name, text in ATTACKS.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--quick", action="store_true", help="less of everything")
        command.add_argument("--seed", type=int, default=1, help="(%(default)s)")
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
