"""Shipping lines share a port. They must unload every ship, and minimise what that costs.

Containers can go over the port's cranes, yard and trains, or by lorry from another port, which
costs more. All models minimise, and every container must arrive. Run
`python -m scripts.examples.port`.
"""

import random
from typing import Any

import linopy
import pandas as pd
import xarray as xr

from scripts.examples.together import Example, show

SHIFT = pd.Index(["early", "late", "night"], name="shift")
WAY = pd.Index(["train", "yard"], name="way")
CRANES = {"early": 240.0, "late": 240.0, "night": 120.0}
TRAIN, YARD = 330.0, 420.0


def line(seed: int) -> linopy.Model:
    """One shipping line: how many containers in which shift and way, and how many by lorry."""
    draw = random.Random(seed)
    containers = draw.uniform(180.0, 330.0)
    shift_cost = xr.DataArray([10.0, 11.0 + draw.uniform(0.0, 6.0), 19.0], coords=[SHIFT])
    way_cost = xr.DataArray([draw.uniform(12.0, 30.0), draw.uniform(18.0, 40.0)], coords=[WAY])
    lorry_cost = draw.uniform(80.0, 190.0)

    model = linopy.Model()
    move = model.add_variables(lower=0.0, coords=[SHIFT, WAY], name="move")
    lorry = model.add_variables(lower=0.0, name="lorry")
    model.add_objective(((shift_cost + way_cost) * move).sum() + lorry_cost * lorry)  # minimise
    model.add_constraints(move.sum() + lorry >= containers, name="all_arrive")
    # Shared: crane moves of each shift, trains, and the yard.
    model.add_constraints(move.sum("way") <= 999.0, name="cranes")
    model.add_constraints(move.sel(way="train").sum() <= 999.0, name="train")
    model.add_constraints(1.4 * move.sel(way="yard").sum() <= 999.0, name="yard")
    return model


def models() -> dict[str, Any]:
    return {name: line(seed) for seed, name in enumerate(("anker", "boje", "dalben", "fender"))}


EXAMPLE = Example(
    resources=[
        *({"name": f"cranes-{s}", "capacity": c, "unit": "moves"} for s, c in CRANES.items()),
        {"name": "train", "capacity": TRAIN, "unit": "places"},
        {"name": "yard", "capacity": YARD, "unit": "places"},
    ],
    models=models,
    rows={"cranes-*": "cranes(*)"},
)

if __name__ == "__main__":
    show(EXAMPLE)
