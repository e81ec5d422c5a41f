"""Small agreements with noise: releases that can be read, masked ones, and balls."""

import hashlib
from typing import Any

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table

DELTA = 1e-3


def agree_each(
    *,
    mode: str = "private",
    rounds: int = 150,
    capacity: tuple[float, ...] = (10.0, 20.0, 30.0),
    shares: tuple[Any, ...] = (1.0, 1.0),
    rehearsal: bool = False,
    **privacy: Any,
) -> Agreement:
    """Each release can be read; three resources and two members by default."""
    return from_table(
        {
            "session": "privacy",
            "mode": mode,
            "rounds": rounds,
            "rehearsal": rehearsal,
            "privacy": {"epsilon": 1.0, "delta": DELTA} | privacy,
            "prices": {"step": "constant", "step_size": 1.0},
            "resource": [{"name": f"r{j}", "capacity": c} for j, c in enumerate(capacity)],
            "member": [
                {
                    "name": f"p{k}",
                    "share": share,
                    "signing_key": hashlib.sha256(k.to_bytes(2, "big")).hexdigest(),
                }
                for k, share in enumerate(shares)
            ],
        }
    )


def agree_totals(
    shares: list[Any],
    *,
    epsilon: float = 4.0,
    delta: float = 1e-3,
    rounds: int = 20,
    **privacy: Any,
) -> Agreement:
    """Only totals can be read. One resource, unless shares name more."""
    names = sorted({name for share in shares if isinstance(share, dict) for name in share})
    return from_table(
        {
            "session": "totals",
            "mode": "private",
            "reveal": "totals",
            "rounds": rounds,
            "privacy": {"epsilon": epsilon, "delta": delta} | privacy,
            "prices": {"step": "constant", "step_size": 1.0},
            "resource": [{"name": name, "capacity": 10.0} for name in names or ["r0"]],
            "member": [
                {
                    "name": f"p{k}",
                    "share": share,
                    "signing_key": hashlib.sha256(k.to_bytes(2, "big")).hexdigest(),
                }
                for k, share in enumerate(shares)
            ],
        }
    )


def agree_ball(members: list[dict[str, Any]], *, resources: int = 2, **terms: Any) -> Agreement:
    """Only totals can be read, and answers stay in balls."""
    spare = terms.pop("spare", None)
    given = [{"name": f"r{j}", "capacity": 10.0, "worth": 50.0} for j in range(resources)]
    for resource in given if spare is not None else []:
        resource["spare"] = spare
    return from_table(
        {
            "session": "ball",
            "mode": "private",
            "reveal": "totals",
            "rounds": terms.pop("rounds", 12),
            "privacy": {"epsilon": terms.pop("epsilon", 8.0), "delta": 0.001, **terms},
            "resource": given,
            "member": [{"name": f"p{k}", **member} for k, member in enumerate(members)],
        }
    )


def equal(K: int, **terms: Any) -> Agreement:
    return agree_ball([{"share": 2.0 / K}] * K, **terms)


def unequal(seed: int, **terms: Any) -> Agreement:
    """Members with random endowments and shares, some without any of a resource."""
    rng = np.random.default_rng(seed)
    K, m = int(rng.integers(6, 30)), 3
    parts = rng.dirichlet(np.full(K, 0.7), size=m).T
    parts[rng.random((K, m)) < 0.1] = 0.0
    parts /= parts.sum(axis=0)
    rows = [
        {
            "endowment": {f"r{j}": float(e) for j, e in enumerate(row)},
            "share": {f"r{j}": float(min(1.0, max(0.1, 1.5 * e))) for j, e in enumerate(row)},
        }
        for row in parts
    ]
    return agree_ball(rows, resources=m, **terms)
