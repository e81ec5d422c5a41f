"""Growers share a cold store over 14 days: pallets that stay take room on every day.

Each grower has harvests, a price that changes from day to day, and fruit that loses value while it
waits. Run `python -m scripts.examples.cold_store`.
"""

import random
from typing import Any

import pyomo.environ as pyo

from scripts.examples.together import Example, show

DAYS = range(1, 15)
PALLETS = 260.0


def grower(seed: int) -> pyo.ConcreteModel:
    """One grower: how much to sell and to store on each day."""
    draw = random.Random(seed)
    harvest = {d: draw.uniform(20.0, 60.0) if d <= 8 else 0.0 for d in DAYS}
    price = {d: 80.0 + 4.0 * d + draw.uniform(-15.0, 25.0) for d in DAYS}
    trucks = draw.uniform(35.0, 60.0)

    model = pyo.ConcreteModel()
    model.sell = pyo.Var(DAYS, bounds=(0.0, trucks))
    model.discard = pyo.Var(DAYS, within=pyo.NonNegativeReals)
    model.stock = pyo.Var(DAYS, within=pyo.NonNegativeReals)
    model.profit = pyo.Objective(
        expr=sum(price[d] * model.sell[d] - 0.8 * model.stock[d] for d in DAYS),
        sense=pyo.maximize,
    )
    model.kept = pyo.Constraint(
        DAYS,
        rule=lambda m, d: (
            m.stock[d]
            == (0.0 if d == 1 else 0.99 * m.stock[d - 1]) + harvest[d] - m.sell[d] - m.discard[d]
        ),
    )
    # Shared: the room that the stock takes on each day.
    model.room = pyo.Constraint(DAYS, rule=lambda m, d: m.stock[d] <= PALLETS)
    return model


def models() -> dict[str, Any]:
    return {name: grower(seed) for seed, name in enumerate(("apfel", "birne", "kirsche", "quitte"))}


EXAMPLE = Example(
    resources=[{"name": f"room-{d}", "capacity": PALLETS, "unit": "pallets"} for d in DAYS],
    models=models,
    rows={"room-*": "room[*]"},
)

if __name__ == "__main__":
    show(EXAMPLE)
