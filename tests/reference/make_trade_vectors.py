"""Writes vectors/trade.json: quotas of exact sessions with and without trade.

`scripts/environment python -m tests.reference.make_trade_vectors` plays each session with the
reference implementation and writes the file. SPEC.md §12 and §13. Never imports the product.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.reference.agreement import terms
from tests.reference.rounds import RoundEngine

FILE = Path(__file__).parent / "vectors" / "trade.json"
N = 1 << 40

Answer = Callable[[int, int, list[float]], list[int]]
"""What to release, from round, member and what each whole capacity costs."""


def table(rounds: int, *, endowed: bool = True, **prices: Any) -> dict[str, Any]:
    members = (("ada", 0.5, 1.0), ("ben", 0.3, 0.5), ("cyd", 0.2, 0.7))
    return {
        "session": "vectors",
        "mode": "exact",
        "rounds": rounds,
        "prices": {"step": "center", **prices},
        "resource": [
            {"name": "r0", "capacity": 10.0, "worth": 100.0},
            {"name": "r1", "capacity": 20.0, "worth": 100.0},
        ],
        "member": [
            {"name": name} | ({"endowment": part} if endowed else {"share": share})
            for name, part, share in members
        ],
    }


def consistent(number: int, k: int, money: list[float]) -> list[int]:  # noqa: ARG001
    """Less at higher prices."""
    return [int(N * (0.3 + 0.2 * k) * 60.0 / (60.0 + y)) for y in money]


def at_random(number: int, k: int, money: list[float]) -> list[int]:
    """The last member answers with random numbers."""
    chance = random.Random(number)
    return [chance.randrange(N) for _ in money] if k == 2 else consistent(number, k, money)


def unsteady(number: int, k: int, money: list[float]) -> list[int]:
    """The second member adds a little in some rounds."""
    more = (1 << 34) * (7 * number % 3) if k == 1 else 0
    return [ticks + more for ticks in consistent(number, k, money)]


def needy(number: int, k: int, money: list[float]) -> list[int]:  # noqa: ARG001
    """Each needs as much at every price."""
    return [int(N * 0.45)] * len(money)


CASES: dict[str, tuple[dict[str, Any], Answer]] = {
    "a trade": (table(60), consistent),
    "few rounds": (table(3), consistent),
    "needs above the capacities": (table(40, endowed=False), needy),
    "random answers of one member": (table(60), at_random),
    "a contradiction below the limit": (table(60, answer_gap=0), unsteady),
    "a contradiction above a small limit": (
        table(60, answer_gap=0, tolerance=1e-9, trade_limit=1e-6),
        unsteady,
    ),
}


def played(agreement: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """The releases of one session, and what follows from them."""
    engine = RoundEngine(terms(agreement))
    while not engine.over:
        pairs = zip(engine.market.now, engine.terms.capacity, strict=True)
        money = [price * capacity for price, capacity in pairs]
        engine.close([answer(len(engine.rounds), k, money) for k in range(3)])
    return {
        "agreement": agreement,
        "rounds": engine.rounds,
        "obstacles": engine.obstacles,
        "contradictions": engine.contradictions,
        "quota": engine.quota,
        "payments": [payment.hex() for payment in engine.payments],
    }


def main() -> None:
    cases = {name: played(*case) for name, case in CASES.items()}
    FILE.write_text(
        "{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(c)}" for n, c in cases.items()) + "\n}\n"
    )


if __name__ == "__main__":
    main()
