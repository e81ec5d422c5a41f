"""A brewery models with PuLP: pallets of beer to three customers, and empties back.

`scripts/environment python -m scripts.examples.with_pulp brewery.lp` writes its model.
"""

from pathlib import Path

import pulp

from scripts.examples import join_or_write

CUSTOMERS = ["pubs", "shops", "stadium"]
PROFIT = {"pubs": 120.0, "shops": 85.0, "stadium": 140.0}
TRUCK_HOURS = {"pubs": 2.5, "shops": 1.2, "stadium": 2.0}
ORDERS = {"pubs": 25.0, "shops": 40.0, "stadium": 12.0}


def build() -> pulp.LpProblem:
    model = pulp.LpProblem("brewery", pulp.LpMaximize)
    # `%s` sets the position of the index. PuLP replaces spaces and - + [ ] > / by `_`.
    deliver = model.add_variable_dicts("deliver(%s)", CUSTOMERS, lowBound=0.0)
    fetch = model.add_variable("fetch_empties", lowBound=0.0)
    model += pulp.lpSum(PROFIT[c] * deliver[c] for c in CUSTOMERS) - 4.0 * fetch, "profit"

    # Shared: constraints named as in the agreement. The limits are today's; the session
    # replaces them.
    hours = pulp.lpSum(TRUCK_HOURS[c] * deliver[c] for c in CUSTOMERS)
    slots = pulp.lpSum(0.4 * deliver[c] for c in CUSTOMERS) + 0.2 * fetch
    model += hours + 0.3 * fetch <= 90.0, "truck_hours"
    model += slots <= 26.0, "dock_slots"

    # Private: what is brewed, what is ordered, and the bottles without which nothing is filled.
    model += pulp.lpSum(deliver.values()) <= 60.0, "brewed"
    model += fetch >= 0.5 * pulp.lpSum(deliver.values()), "bottles"
    for c in CUSTOMERS:
        model += deliver[c] <= ORDERS[c], f"orders({c})"
    return model


def write(path: Path) -> None:
    """Write LP, which states `Maximize`. PuLP's MPS does only with `with_objsense=True`."""
    build().writeLP(str(path))


if __name__ == "__main__":
    join_or_write.run(build, write, ".lp")
