"""A courier models with HiGHS itself: three services, sold by the hundred parcels.

`scripts/environment python -m scripts.examples.with_highs courier.mps` writes its model.
"""

from pathlib import Path

import highspy
from msgspec import Struct

from scripts.examples import join_or_write, restore_names


class Service(Struct, frozen=True):
    """One hundred parcels: what they earn, and what they need."""

    profit: float
    truck_hours: float
    dock_slots: float
    sorting_hours: float
    orders: float


SERVICES = {
    "express": Service(410.0, 5.0, 1.0, 2.5, 12.0),
    "standard": Service(260.0, 3.0, 0.5, 2.0, 30.0),
    "returns": Service(150.0, 1.5, 1.0, 0.5, 15.0),
}


def build() -> highspy.Highs:
    model = highspy.Highs()
    model.silent()
    carry = {
        name: model.addVariable(lb=0.0, ub=s.orders, obj=s.profit, name=f"carry[{name}]")
        for name, s in SERVICES.items()
    }
    model.setMaximize()  # HiGHS minimises by default

    # Shared: rows named as in the agreement. The limits are today's; the session replaces them.
    truck_hours = sum(s.truck_hours * carry[name] for name, s in SERVICES.items())
    dock_slots = sum(s.dock_slots * carry[name] for name, s in SERVICES.items())
    model.addConstr(truck_hours <= 120.0, name="truck_hours")
    model.addConstr(dock_slots <= 25.0, name="dock_slots")

    # Private: no other company learns that there is a sorting hall, or how much it can do.
    sorting = sum(s.sorting_hours * carry[name] for name, s in SERVICES.items())
    model.addConstr(sorting <= 65.0, name="sorting_hall")
    return model


def write(path: Path) -> None:
    """Write MPS, which keeps every name; HiGHS's LP writer drops names with brackets."""
    restore_names.save(build(), path)


if __name__ == "__main__":
    join_or_write.run(build, write, ".mps")
