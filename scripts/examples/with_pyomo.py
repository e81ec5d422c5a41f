"""A bakery models with Pyomo: bread and cake for three towns.

`scripts/environment python -m scripts.examples.with_pyomo bakery.mps` writes its model.
"""

import tempfile
from pathlib import Path

import highspy
import pyomo.environ as pyo

from scripts.examples import join_or_write, restore_names

PROFIT = {
    ("bread", "mill_end"): 38.0, ("bread", "old_town"): 45.0, ("bread", "airport"): 58.0,
    ("cake", "mill_end"): 66.0, ("cake", "old_town"): 71.0, ("cake", "airport"): 90.0,
}  # fmt: skip
OVEN_HOURS = {"bread": 0.5, "cake": 1.25}
TRUCK_HOURS = {"mill_end": 0.8, "old_town": 1.1, "airport": 1.9}
ORDERS = {"mill_end": 30.0, "old_town": 24.0, "airport": 18.0}


def build() -> pyo.ConcreteModel:
    model = pyo.ConcreteModel()
    model.deliver = pyo.Var(PROFIT, within=pyo.NonNegativeReals)
    crates = list(model.deliver.items())
    model.profit = pyo.Objective(
        expr=sum(PROFIT[to] * x for to, x in crates),
        sense=pyo.maximize,  # Pyomo minimises by default
    )

    # Shared: constraints named as in the agreement. The limits are today's; the session
    # replaces them.
    hours = sum(TRUCK_HOURS[town] * x for (_, town), x in crates)
    model.truck_hours = pyo.Constraint(expr=hours <= 60.0)
    model.dock_slots = pyo.Constraint(expr=sum(0.25 * x for _, x in crates) <= 16.0)

    # Private: the oven, and what each town orders.
    oven = sum(OVEN_HOURS[good] * x for (good, _), x in crates)
    model.oven = pyo.Constraint(expr=oven <= 45.0)
    model.orders = pyo.Constraint(
        ORDERS, rule=lambda m, town: sum(m.deliver[:, town]) <= ORDERS[town]
    )
    return model


def write(path: Path) -> None:
    """Restore names: Pyomo writes `truck_hours` as `c_u_truck_hours_`, and has a symbol map."""
    pyomo_model, model = build(), highspy.Highs()
    model.silent()
    with tempfile.TemporaryDirectory() as folder:
        draft, key = pyomo_model.write(f"{folder}/draft.lp")
        model.readModel(draft)
    symbols = pyomo_model.solutions.symbol_map[key]
    restore_names.save(model, path, lambda label: symbols.getObject(label).name)


if __name__ == "__main__":
    join_or_write.run(build, write, ".mps")
