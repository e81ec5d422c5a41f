"""Writes vectors/center.json: sessions of the centre rule, by the reference implementation.

`scripts/environment python -m tests.reference.make_center_vectors` plays each case anew and prints
nothing. The bits never come from the product.
"""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from scripts.lab.common.instances import draw
from tests.reference.center import WHOLE, Reader
from tests.support import ROOT

FINE, COARSE = 2**40, 2**20

Answer = Callable[[int, list[float]], list[int]]
"""The totals in ticks, from the number of the round and y."""


def companies(seed: int, parties: int, resources: int, ticks: int) -> Answer:
    """The companies of the paper."""
    instance = draw(seed, parties=parties, resources=resources)
    problems = instance.subproblems()

    def answer(_: int, y: list[float]) -> list[int]:
        answers = [problem.answer(np.array(y) / instance.capacity) for problem in problems]
        parts = np.array([a.demand for a in answers if a]) / instance.capacity
        total: list[int] = np.rint(np.clip(parts, 0, 1) * ticks).astype(int).sum(axis=0).tolist()
        return total

    return answer


def fixed_totals(*rows: list[int]) -> Answer:
    """Fixed totals in turn, whatever the prices."""
    return lambda number, _: rows[number % len(rows)]


def tight(_: int, y: list[float]) -> list[int]:
    """All capacities are needed: a higher price moves demand to other resources."""
    mean = math.fsum(y) / len(y) or 1.0
    level = [price * (0.7 + 0.2 * j) for j, price in enumerate(y)]
    return [int(FINE * (0.88 + 0.22 * mean / (mean + price))) for price in level]


def contrary(_: int, y: list[float]) -> list[int]:
    """Demand grows with the price."""
    return [int(COARSE * (0.6 + price / (price + 6.0) if price > 2.0 else 1.5)) for price in y]


def fickle(number: int, y: list[float]) -> list[int]:
    """The values change every twenty rounds."""
    worth = (30.0, 3.0, 300.0)[number // 20 % 3]
    return [int(FINE * 2.0 * worth / (worth + price)) for price in y]


def dear(_: int, y: list[float]) -> list[int]:
    """Of the second resource a little too much is wanted, up to a high price."""
    return [2 * FINE if y[0] < 2.0 else FINE // 5, FINE + FINE // 65536 if y[1] < 1e3 else 9]


WORTH = [30.0, 3.0, 12.0]


def failing(number: int, y: list[float]) -> list[int]:
    """One answer is not the best one, and later three in a row."""
    if number in (9, 17, 18, 19):
        return [FINE // 7, 3 * FINE, FINE // 2]
    return [int(FINE * 2.0 * w / (w + price)) for w, price in zip(WORTH, y, strict=True)]


def jumping(_: int, y: list[float]) -> list[int]:
    """Demand jumps between all and little."""
    return [2 * FINE if y[0] + y[1] < 17.0 else FINE // 3, FINE * 3 // 2 if y[1] < 5.0 else 9]


CASES: list[tuple[dict[str, Any], int, Answer]] = [
    (
        {"name": "a guess of what the capacities are worth", "worth": [100.0] * 5, "members": 5},
        45,
        companies(1, 5, 5, FINE),
    ),
    (
        {"name": "no guess, and a reserve", "members": 10, "resources": 5, "reserve": 1099512},
        40,
        companies(2, 10, 5, FINE),
    ),
    (
        {"name": "a guess that is far too high", "worth": [1e9, 1e9], "members": 3},
        25,
        companies(3, 3, 2, FINE),
    ),
    (
        {"name": "one resource, to the end", "members": 4, "resources": 1},
        80,
        companies(4, 4, 1, FINE),
    ),
    (
        {
            "name": "prices to start from, one of them 0; coarse ticks",
            "worth": [100.0, 0.0, 50.0],
            "start": [120.0, 0.0, 3.5],
            "members": 4,
            "ticks": COARSE,
        },
        30,
        companies(5, 4, 3, COARSE),
    ),
    (
        {"name": "nothing is scarce", "worth": [10.0, 20.0], "members": 2},
        3,
        fixed_totals([FINE // 2, 9], [FINE - 7, 0], [1, 1]),
    ),
    (
        {"name": "all is sold to the tick", "worth": [10.0, 20.0], "members": 2},
        2,
        fixed_totals([FINE, FINE]),
    ),
    (
        {"name": "a tight problem: no price is high enough for all", "members": 16, "resources": 4},
        40,
        tight,
    ),
    (
        {"name": "more resources than the small way takes", "worth": [100.0] * 17, "members": 4},
        24,
        companies(6, 4, 17, FINE),
    ),
    (
        {"name": "totals that nobody can mean", "members": 3, "resources": 3},
        30,
        fixed_totals(
            [2**60, -(2**60), FINE], [0, 2**60, 1], [-(2**60), 5, 2**60], [2 * FINE, 0, 0]
        ),
    ),
    (
        {"name": "demand that rises with the price", "members": 3, "resources": 2, "ticks": COARSE},
        30,
        contrary,
    ),
    ({"name": "demands that change their mind", "members": 3, "resources": 2}, 60, fickle),
    (
        {"name": "demand that jumps, to where float64 ends", "members": 5, "resources": 2},
        150,
        jumping,
    ),
    ({"name": "a price above the first box", "worth": [1.0, 1.0], "members": 2}, 60, dear),
    ({"name": "answers that contradict others", "worth": [9.0] * 3, "members": 3}, 60, failing),
    (
        {
            "name": "rounds of an earlier session, which agree",
            "start": [28.0, 2.5, 11.0],
            "earlier": [
                [y, [1.0 - 2.0 * w / (w + p) for w, p in zip(WORTH, y, strict=True)]]
                for y in ([40.0, 8.0, 4.0], [10.0, 2.0, 30.0], [33.0, 3.5, 9.0])
            ],
            "members": 3,
            "resources": 3,
        },
        40,
        failing,
    ),
    (
        {
            "name": "rounds of an earlier session, which contradict",
            "start": [300.0, 2.5],
            "earlier": [[[500.0, 9.0], [-0.5, 0.25]], [[400.0, 6.0], [-0.25, 0.125]]],
            "members": 2,
            "resources": 2,
        },
        40,
        companies(7, 3, 2, FINE),
    ),
    (
        {"name": "rounds that are all alike", "worth": [5.0, 5.0, 5.0], "members": 3},
        30,
        fixed_totals([2 * FINE, FINE // 2, FINE]),
    ),
    (
        {
            "name": "prices that may not be as high as they would be",
            "worth": [100.0, 300.0],
            "limit": [1e3, 1e4],
            "members": 2,
        },
        30,
        fixed_totals([2 * FINE, 3 * FINE], [2 * FINE, FINE + 1]),
    ),
]


def played(given: dict[str, Any], rounds: int, answer: Answer) -> dict[str, Any]:
    case: dict[str, Any] = {
        "name": given["name"],
        "members": given["members"],
        "resources": given.get("resources") or len(given["worth"]),
        "ticks": given.get("ticks", FINE),
        "reserve_ticks": given.get("reserve", 0),
        "worth": given.get("worth"),
        "start": given.get("start"),
        "limit": given.get("limit"),
        "earlier": given.get("earlier", []),
        "totals": [],
        "prices": [],
        "certificates": [],
    }
    reader = reader_of(case)
    while reader.round < rounds and not (reader.exact and reader.round > 2):
        case["totals"].append(answer(reader.round, reader.prices))
        reader.read(case["totals"][-1])
        if reader.best is None:
            raise AssertionError("no round is without a certificate")
        best = reader.best
        case["prices"].append([y.hex() for y in reader.prices])
        case["certificates"].append([best.bound.hex(), best.gap.hex(), best.fits])
    case["weights"], case["exact"] = best.weights, reader.exact
    case["average"] = [y.hex() for y in best.prices]
    return case


def reader_of(case: dict[str, Any]) -> Reader:
    """The reference implementation of a case, before its first round."""
    return Reader(
        members=case["members"],
        m=case["resources"],
        ticks=case["ticks"],
        reserve=case["reserve_ticks"],
        worth=case["worth"],
        start=case["start"],
        limit=case["limit"],
        earlier=[(asked, slopes) for asked, slopes in case["earlier"]],
    )


def main() -> None:
    about = (
        "Totals of sessions with the centre rule, and what every machine must make of them: prices "
        "after each round, bound, gap and fits, at last the weights. Floats are hexadecimal. "
        "CERTIFICATE.md §6; written by python -m tests.reference.make_center_vectors."
    )
    lines = ",\n".join(json.dumps(played(*case)) for case in CASES)
    text = f'{{"about": {json.dumps(about, ensure_ascii=False)}, "whole": {WHOLE}, "cases": [\n'
    path = ROOT / "tests" / "reference" / "vectors" / "center.json"
    path.write_text(f"{text}{lines}\n]}}\n")


if __name__ == "__main__":
    main()
