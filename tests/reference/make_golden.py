"""Writes vectors/golden.json: sessions as they end today.

`scripts/environment python -m tests.reference.make_golden` plays every session and writes the file.
A change that must keep behaviour leaves the file as it is. These vectors come from the product
itself: they show that something changed, not which side is right.
"""

import json
from importlib.metadata import version
from typing import Any

from scripts.lab.common.agreements import drawn
from scripts.lab.simulate import command_line, releases_digest, session, with_levy
from tests.support import ROOT

FILE = ROOT / "tests" / "reference" / "vectors" / "golden.json"

SESSIONS = {
    "exact": ["--mode", "exact", "--parties", "4", "--rounds", "60"],
    "exact, totals": ["--mode", "exact", "--reveal", "totals", "--parties", "5"],
    "exact, no worth": ["--mode", "exact", "--worth", "0", "--parties", "3", "--seed", "2"],
    "exact, reserve": ["--mode", "exact", "--reserve", "0.001", "--parties", "3", "--seed", "3"],
    "exact, whole numbers": ["--mode", "exact", "--kind", "whole", "--rounds", "50"],
    "exact, concave": ["--mode", "exact", "--kind", "curved", "--rounds", "50", "--seed", "4"],
    "exact, momentum": [
        *("--mode", "exact", "--step", "sqrt", "--step-size", "0.5", "--momentum", "0.9"),
        *("--rounds", "30"),
    ],
    "exact, constant": ["--mode", "exact", "--step", "constant", "--rounds", "20", "--negative"],
    "noise": ["--epsilon", "4", "--rounds", "30"],
    "noise, theorem": ["--epsilon", "2", "--step", "theorem", "--noise", "norm", "--rounds", "20"],
    "noise, paper": ["--accountant", "paper", "--truncate", "--rounds", "20", "--seed", "7"],
    "noise, clipped": ["--mode", "clipped", "--rounds", "20", "--share-total", "2"],
    "noise, objectives": ["--share-objective", "--epsilon", "8", "--rounds", "20"],
    "noise, totals": [
        *("--reveal", "totals", "--epsilon", "16", "--parties", "10", "--rounds", "20"),
        *("--step", "worth"),
    ],
    "noise, many, totals": [
        *("--reveal", "totals", "--epsilon", "8", "--parties", "30", "--rounds", "10"),
        *("--share-total", "2", "--no-demands", "--start", "worth", "--step", "worth"),
    ],
    "noise, ball": [
        *("--reveal", "totals", "--epsilon", "8", "--parties", "20", "--rounds", "12"),
        *("--share-total", "2", "--no-demands"),
    ],
    "noise, ball, needs and spare": [
        *("--reveal", "totals", "--epsilon", "8", "--parties", "15", "--rounds", "8"),
        *("--share-total", "3", "--spare", "0.03", "--seed", "5"),
    ],
}
"""Options of `scripts/simulate`, by name."""


def played(arguments: list[str]) -> dict[str, Any]:
    """What one session came to, floats in hexadecimal."""
    options = command_line().parse_args(arguments)
    if options.worth is None:
        options.worth = 100.0
    outcome, allocations = session(drawn(options), options)
    agreement, private = outcome.agreement, with_levy(outcome, allocations)
    paid = [own.payment for own in private if own is not None] or outcome.payments.tolist()
    result = {
        "options": arguments,
        "agreement": agreement.digest.hex(),
        "rounds": outcome.rounds,
        "releases": releases_digest(outcome),
        "prices": [price.hex() for price in outcome.prices.tolist()],
        "payments": [payment.hex() for payment in paid],
    }
    if not agreement.masked:
        result["head"] = outcome.state.chain_hash.hex()  # masks are drawn anew in every session
    return result


def main() -> None:
    sessions = {name: played(arguments) for name, arguments in SESSIONS.items()}
    text = {"highspy": version("highspy"), "sessions": sessions}
    FILE.write_text(json.dumps(text, indent=1) + "\n")


if __name__ == "__main__":
    main()
