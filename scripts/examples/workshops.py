"""Workshops share machines. Each job has a set-up: a job is done with it, or not at all.

Set-ups make whole numbers. Prices then lead to mixtures of plans, and a company's own plan within
its quota may earn a little less. Run `python -m scripts.examples.workshops`.
"""

import random
from typing import Any

import pulp

from scripts.examples.together import Example, show

MACHINES = {"milling": 160.0, "painting": 110.0, "assembly": 240.0}


def workshop(name: str, seed: int) -> pulp.LpProblem:
    """One workshop: which jobs to set up, and how many pieces of each to make."""
    draw = random.Random(seed)
    model = pulp.LpProblem(name, pulp.LpMaximize)
    profit = list[Any]()
    used = {machine: list[Any]() for machine in MACHINES}
    for number in range(12):
        most = float(draw.randrange(10, 40))
        pieces = model.add_variable(f"pieces{number}", lowBound=0.0, upBound=most)
        ready = model.add_variable(f"set_up{number}", cat="Binary")
        model += pieces <= most * ready, f"only_if_set_up{number}"
        profit += [draw.uniform(8.0, 30.0) * pieces, -draw.uniform(10.0, 60.0) * ready]
        for terms in used.values():
            terms += [draw.uniform(0.1, 0.9) * pieces, draw.uniform(0.2, 1.5) * ready]
    model += pulp.lpSum(profit)
    for machine, terms in used.items():
        model += pulp.lpSum(terms) <= MACHINES[machine], machine
    return model


def models() -> dict[str, Any]:
    names = ("brenner", "falk", "gruber", "hahn", "iske", "jung")
    return {name: workshop(name, seed) for seed, name in enumerate(names)}


EXAMPLE = Example(
    resources=[{"name": n, "capacity": c, "unit": "h"} for n, c in MACHINES.items()],
    models=models,
)

if __name__ == "__main__":
    show(EXAMPLE)
