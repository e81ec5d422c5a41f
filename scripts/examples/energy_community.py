"""An energy community: five neighbours exchange power in each of 24 hours.

There is no joint capacity: what one takes, others must bring. So each hour is a resource with
capacity 0 and a span, the most that one member may take or bring. Every member can also buy from
the grid and sell to it, at worse prices. `python -m scripts.examples.energy_community` plays it;
with a folder it writes the five models there, for the guide docs/exchange.md.
"""

import math
import sys
from pathlib import Path
from typing import Any

import pyomo.environ as pyo
from msgspec import Struct

from scripts.examples.together import Example, show

HOURS = range(24)
SPAN = 20.0  # kWh in an hour
GRID_PRICE = {h: 0.36 if 7 <= h < 21 else 0.24 for h in HOURS}
FEED_IN = 0.07


class Site(Struct, frozen=True):
    """One member: solar panels, a battery, what it uses by day and by night, flexible use."""

    panels: float
    battery: float
    day: float
    night: float
    flexible: float


SITES = {
    "bakery": Site(panels=6.0, battery=0.0, day=3.0, night=9.0, flexible=0.0),
    "school": Site(panels=18.0, battery=0.0, day=6.0, night=0.5, flexible=0.0),
    "houses": Site(panels=8.0, battery=12.0, day=4.0, night=3.0, flexible=10.0),
    "workshop": Site(panels=0.0, battery=0.0, day=11.0, night=0.5, flexible=0.0),
    "charging": Site(panels=2.0, battery=20.0, day=2.0, night=2.0, flexible=45.0),
}


def sun(hour: int) -> float:
    """The part of the panels' power in an hour of a spring day."""
    return max(0.0, math.sin(math.pi * (hour - 6) / 13.0)) if 6 <= hour <= 19 else 0.0


def member(site: Site) -> pyo.ConcreteModel:
    """What to buy, sell, store and exchange. The objective is a cost."""
    model = pyo.ConcreteModel()
    for name in ("buy", "sell", "charge", "discharge", "extra", "curtail"):
        setattr(model, name, pyo.Var(HOURS, within=pyo.NonNegativeReals))
    model.stored = pyo.Var(HOURS, bounds=(0.0, site.battery))
    model.exchange = pyo.Var(HOURS, bounds=(-SPAN, SPAN))
    model.cost = pyo.Objective(
        expr=sum(
            GRID_PRICE[h] * model.buy[h] - FEED_IN * model.sell[h] + 0.01 * model.charge[h]
            for h in HOURS
        ),
        sense=pyo.minimize,
    )
    # Shared: what this member takes from the others, negative if it brings.
    model.power = pyo.Constraint(HOURS, rule=lambda m, h: m.exchange[h] <= 0.0)

    def balance(m: Any, h: int) -> Any:
        use = (site.day if 7 <= h < 19 else site.night) + m.extra[h] + m.charge[h] + m.sell[h]
        supply = m.exchange[h] + m.buy[h] + m.discharge[h] + site.panels * sun(h) - m.curtail[h]
        return use == supply

    model.balance = pyo.Constraint(HOURS, rule=balance)
    model.battery = pyo.Constraint(
        HOURS,
        rule=lambda m, h: (
            m.stored[h] == m.stored[(h - 1) % 24] + 0.95 * m.charge[h] - m.discharge[h]
        ),
    )
    model.rate = pyo.Constraint(
        HOURS, rule=lambda m, h: m.charge[h] + m.discharge[h] <= 0.4 * site.battery
    )
    model.wanted = pyo.Constraint(expr=sum(model.extra[h] for h in HOURS) == site.flexible)
    return model


def models() -> dict[str, Any]:
    return {name: member(site) for name, site in SITES.items()}


EXAMPLE = Example(
    resources=[{"name": f"power-{h}", "capacity": 0.0, "span": SPAN, "unit": "kWh"} for h in HOURS],
    models=models,
    rows={"power-*": "power[*]"},
    terms={"floor": -1.0, "share": 1.0},
)


def write(folder: Path) -> None:
    """Write the model of each member as an LP file, in which rows are called `power(0)`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in models().items():
        model.write(str(folder / f"{name}.lp"), io_options={"symbolic_solver_labels": True})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(Path(sys.argv[1]))
    else:
        show(EXAMPLE)
