"""Agreements with the terms of the paper: every share 1, its accountant, its steps. And its ρ."""

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table

CAPACITY = (12.5, 3.0, 40.0)
PAPER = {"step": "theorem"}


def agree(capacity: Sequence[float], parties: int = 2, rounds: int = 10, **more: Any) -> Agreement:
    """An agreement with every share 1; `mode`, `privacy`, `prices` and `worth` may be given."""
    worth = more.pop("worth", 100.0)
    mode = more.pop("mode", "private")
    privacy = {"epsilon": 1.0, "delta": 1e-3, "accountant": "paper"} if mode != "exact" else {}
    return from_table(
        {
            "session": "paper",
            "mode": mode,
            "rounds": rounds,
            "rehearsal": True,
            "privacy": privacy | more.pop("privacy", {}),
            "prices": more.pop("prices", {}),
            "resource": [
                {"name": f"r{j}", "capacity": c, "worth": worth} for j, c in enumerate(capacity)
            ],
            "member": [
                {"name": f"p{k}", "signing_key": hashlib.sha256(bytes([k])).hexdigest()}
                for k in range(parties)
            ],
            **more,
        }
    )


def exact_rho(epsilon: float, delta: float) -> float:
    """ρ(ε, δ) from the condition ρ + 2√(ρ L) = ε of thm:zCDPtoLDP, by bisection on fractions."""
    log = Fraction(math.log(1.0 / delta))
    low, high = Fraction(0), Fraction(epsilon)
    for _ in range(120):
        middle = (low + high) / 2
        if Fraction(epsilon) > middle and 4 * middle * log < (Fraction(epsilon) - middle) ** 2:
            low = middle
        else:
            high = middle
    return float(low)
