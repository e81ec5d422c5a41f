"""Hauliers share lorries by day and lane: rows with two indices, under the model's own names.

The agreement's `hours-mon-north` is `hours[mon,north]` in every model; one entry maps them all.
Run `python -m scripts.examples.hauliers`.
"""

import random
from typing import Any

import pyomo.environ as pyo

from scripts.examples.together import Example, show

DAYS = ["mon", "tue", "wed", "thu", "fri"]
LANES = ["north", "harbour", "border"]
HOURS = {"north": 40.0, "harbour": 60.0, "border": 30.0}


def haulier(seed: int) -> pyo.ConcreteModel:
    """One haulier: which orders to carry on which day. An order may wait, but that costs."""
    draw = random.Random(seed)
    orders: dict[str, dict[str, Any]] = {
        f"order{number}": {
            "lane": draw.choice(LANES),
            "ready": draw.randrange(len(DAYS)),
            "loads": draw.uniform(2.0, 9.0),
            "hours": draw.uniform(1.5, 4.0),
            "profit": draw.uniform(90.0, 260.0),
            "wait": draw.uniform(5.0, 25.0),
        }
        for number in range(18)
    }
    days = [(o, d) for o, order in orders.items() for d in DAYS[order["ready"] :]]

    model = pyo.ConcreteModel()
    model.carry = pyo.Var(days, within=pyo.NonNegativeReals)
    model.profit = pyo.Objective(
        sense=pyo.maximize,
        expr=sum(
            (orders[o]["profit"] - orders[o]["wait"] * (DAYS.index(d) - orders[o]["ready"]))
            * model.carry[o, d]
            for o, d in days
        ),
    )
    model.loads = pyo.Constraint(
        list(orders),
        rule=lambda m, o: sum(m.carry[k] for k in days if k[0] == o) <= orders[o]["loads"],
    )
    # Shared: one row for each day and lane. A haulier without orders there has an empty row.
    model.idle = pyo.Var(bounds=(0.0, 0.0))
    model.hours = pyo.Constraint(
        DAYS,
        LANES,
        rule=lambda m, day, lane: (
            sum(orders[o]["hours"] * m.carry[o, d] for o, d in days
                if d == day and orders[o]["lane"] == lane) + m.idle <= HOURS[lane]
        ),
    )  # fmt: skip
    return model


def models() -> dict[str, Any]:
    return {name: haulier(seed) for seed, name in enumerate(("kranz", "lotte", "meyer", "nord"))}


EXAMPLE = Example(
    resources=[
        {"name": f"hours-{day}-{lane}", "capacity": HOURS[lane], "unit": "h"}
        for day in DAYS
        for lane in LANES
    ],
    models=models,
    rows={"hours-*-*": "hours[*,*]"},
)

if __name__ == "__main__":
    show(EXAMPLE)
