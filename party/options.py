"""Options that several commands of a party share, and what they mean."""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocol.agreement.schema import WAIT_RANGE
from protocol.errors import BadCommand

if TYPE_CHECKING:  # loaded when it is used, so that a command starts fast
    from party.ledger.budget import Limit
    from party.model.best_response import MipLimits
    from party.model.shared_rows import RowMap

_SHARED: dict[str, dict[str, Any]] = {
    "--agreement": {"type": Path, "required": True, "metavar": "FILE",
        "help": "the agreement, from the convener"},
    "--data": {"type": Path, "required": True, "metavar": "MODEL", "help": "your model file"},
    "--as": {"dest": "name", "required": True, "metavar": "NAME",
        "help": "your name in the agreement"},
    "--key": {"type": Path, "required": True, "metavar": "FILE",
        "help": "your key file, from `party keygen`"},
    "--ledger": {"type": Path, "metavar": "FILE",
        "help": "your ledger (NAME.ledger beside the key)"},
    "--data-set": {"metavar": "NAME", "help": "the data set whose budget is spent ('main')"},
    "--max-epsilon": {"type": float, "metavar": "E", "help": "lifetime limit of this data set, "
        "for this and all later sessions (the budget of its first session)"},
    "--max-delta": {"type": float, "metavar": "D", "help": "the delta of that limit (0.001)"},
    "--mip-gap": {"type": float, "metavar": "FRACTION", "help": "models with integers: stop when "
        "a plan is this near the best (0.0001)"},
    "--mip-time-limit": {"type": float, "metavar": "SECONDS", "help": "models with integers: stop "
        "the search for a plan after this time (10)"},
    "--row": {"action": "append", "metavar": "RESOURCE=ROW", "help": "the row of a resource, if "
        "it has another name in your model; 'hours-*=hours[*]' for many, RESOURCE= if you do not "
        "use it"},
    "--rows": {"type": Path, "metavar": "FILE", "help": "a TOML file with a table [rows] of such "
        "pairs"},
    "--json": {"action": "store_true", "help": "print the figures as JSON"},
}  # fmt: skip
"""Options of several commands."""

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}

BUDGET = ("--data-set", "--max-epsilon", "--max-delta")
MODEL = ("--data", "--row", "--rows", "--mip-gap", "--mip-time-limit")


def add_shared(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add options of this page to a command."""
    for name in names:
        parser.add_argument(name, **_SHARED[name])


def duration(text: str) -> float:
    """The seconds of a length of time such as 90, 90s, 10m, 2h or 1d."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    least, most = WAIT_RANGE
    if not least <= seconds <= most:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a length of time from {least:g} second to {most:g} seconds; write "
            "10m, 2h, 1d or a number of seconds"
        )
    return seconds


def mip_limits(options: argparse.Namespace) -> "MipLimits":
    from party.model.best_response import USUAL, MipLimits

    return MipLimits(
        gap=USUAL.gap if options.mip_gap is None else options.mip_gap,
        seconds=USUAL.seconds if options.mip_time_limit is None else options.mip_time_limit,
    )


def rows(options: argparse.Namespace) -> "RowMap":
    from party.model.shared_rows import row_map

    return row_map(options.row, options.rows)


def limit(options: argparse.Namespace) -> "Limit | None":
    """The limit that the options set, or None."""
    from party.ledger.budget import DELTA, Limit

    if options.max_epsilon is None:
        if options.max_delta is not None:
            raise BadCommand("--max-delta needs --max-epsilon too: add --max-epsilon")
        return None
    return Limit(options.max_epsilon, DELTA if options.max_delta is None else options.max_delta)


def ledger_path(options: argparse.Namespace) -> Path | None:
    """The ledger of the options: NAME.ledger beside the key, unless --ledger is given."""
    path: Path | None = options.ledger or (options.key and options.key.with_suffix(".ledger"))
    return path


def required_ledger(options: argparse.Namespace) -> Path:
    """The ledger of the options, for a command that needs one."""
    path = ledger_path(options)
    if path is None:
        raise BadCommand("--ledger is required unless --key is given")
    return path
