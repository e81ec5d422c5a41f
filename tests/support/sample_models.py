"""One small company model in every file format, and its optimum by another solver."""

import gzip
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog

from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.numeric import Floats

INF = math.inf
PLANTED = "7919"
"""The first digits of every private number below, which no message may contain."""

LP = """\
\\ the plan of a company
Maximize
 profit: 7919.25 iron + 50 wood - 2 oil
Subject To
 press: iron + wood <= 79.19
 steel: 2 iron + wood <= 7919.5
 balance: iron + oil = 4
 power: - iron - 4 wood + 0.5 oil >= -7919.75
 shift_least: wood - oil >= -79.195
 shift_most: wood - oil <= 7.9195
 oil - wood >= -79.19625
Bounds
 -7.919 <= iron <= 7.919
 wood <= 7.9195
 oil free
End
"""

MPS = """\
* the plan of a company
NAME plan
OBJSENSE
    MAX
ROWS
 N  profit
 L  press
 L  steel
 E  balance
 G  power
 L  shift
 G  last
COLUMNS
    iron      profit    7919.25   press     1.0
    iron      steel     2.0       balance   1.0
    iron      power     -1.0
    wood      profit    50.0      press     1.0
    wood      steel     1.0       power     -4.0
    wood      shift     1.0       last      -1.0
    oil       profit    -2.0      balance   1.0
    oil       power     0.5       shift     -1.0
    oil       last      1.0
RHS
    RHS       press     79.19     steel     7919.5
    RHS       balance   4.0       power     -7919.75
    RHS       shift     7.9195    last      -79.19625
RANGES
    RANGES    shift     87.1145
BOUNDS
 LO BOUNDS    iron      -7.919
 UP BOUNDS    iron      7.919
 UP BOUNDS    wood      7.9195
 FR BOUNDS    oil
ENDATA
"""

ARRAYS: dict[str, Any] = {
    "A": np.array([[2.0, 1.0, 0.0], [1.0, 4.0, -0.5]]),
    "B": np.array(
        [[1, 1, 0], [1, 0, 1], [-1, 0, -1], [0, -1, 1], [0, 1, -1], [0, 1, -1]], dtype=np.int32
    ),
    "b": np.array([79.19, 4.0, -4.0, 79.195, 7.9195, 79.19625]),
    "u": np.array([7919.25, 50.0, -2.0]),
    "lower": np.array([-7.919, 0.0, -INF]),
    "upper": np.array([7.919, 7.9195, INF]),
    "names": np.array(["iron", "wood", "oil"]),
}


def agree(*resources: str, capacity: float = 20.0) -> Agreement:
    return from_table(
        {
            "session": "reading",
            "mode": "exact",
            "rounds": 3,
            "resource": [{"name": name, "capacity": capacity} for name in resources],
            "member": [{"name": "ada"}, {"name": "ben", "share": 0.5}],
        }
    )


SHARED = agree("steel", "power")


def npz(*, packed: bool = False, **arrays: Any) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(stream, **arrays)
    return stream.getvalue()


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def best_by_scipy(arrays: dict[str, Any], prices: Floats, limit: Floats) -> tuple[float, Floats]:
    """The best objective and plan by scipy, with the allocation as columns of their own."""
    m, n = arrays["A"].shape
    rows = np.block([[arrays["A"], -np.eye(m)], [arrays["B"], np.zeros((len(arrays["b"]), m))]])
    result = linprog(
        -np.concatenate([arrays["u"], -prices]),
        A_ub=rows,
        b_ub=np.concatenate([np.zeros(m), arrays["b"]]),
        bounds=[
            *zip(arrays["lower"], arrays["upper"], strict=True),
            *((0.0, most) for most in limit),
        ],
    )
    assert result.status == 0
    return -result.fun, result.x[:n]


FILES: dict[str, str | bytes] = {
    "plan.mps": MPS,
    "plan.v2.mps": MPS.replace("\n", "\r\n"),
    "PLAN.MPS": MPS,
    "plan.mps.gz": gzip.compress(MPS.encode()),
    "plan.lp": LP,
    "plan.LP": LP.upper().replace("IRON", "iron").replace("WOOD", "wood").replace("OIL", "oil")
    .replace("STEEL", "steel").replace("POWER", "power"),
    "plan.npz": npz(**ARRAYS),
    "packed.npz": npz(packed=True, **{k: ARRAYS[k] for k in reversed(ARRAYS)}),
}  # fmt: skip
