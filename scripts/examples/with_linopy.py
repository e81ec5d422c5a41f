"""A dairy models with linopy: pallets of milk to two depots on three days.

`scripts/environment python -m scripts.examples.with_linopy dairy.mps` writes its model.
"""

from pathlib import Path

import linopy
import pandas as pd
import xarray as xr

from scripts.examples import join_or_write, restore_names

DEPOT = pd.Index(["north", "harbour"], name="depot")
DAY = pd.Index(["mon", "wed", "fri"], name="day")
PROFIT = xr.DataArray([[90.0, 84.0, 97.0], [70.0, 75.0, 66.0]], coords=[DEPOT, DAY])
HOURS = xr.DataArray([2.2, 1.3], coords=[DEPOT])
SLOTS = xr.DataArray([0.25, 0.5], coords=[DEPOT])
ORDERS = xr.DataArray([20.0, 16.0], coords=[DEPOT])
MILK = xr.DataArray([22.0, 28.0, 25.0], coords=[DAY])


def build() -> linopy.Model:
    model = linopy.Model()
    deliver = model.add_variables(lower=0.0, upper=ORDERS, coords=[DEPOT, DAY], name="deliver")
    model.add_objective((PROFIT * deliver).sum(), sense="max")  # linopy minimises by default

    # Shared: summed over everything, because one resource is one row. The limits are today's;
    # the session replaces them.
    model.add_constraints((HOURS * deliver).sum() <= 110.0, name="truck_hours")
    model.add_constraints((SLOTS * deliver).sum() <= 24.0, name="dock_slots")

    # Private: the milk that comes in each day.
    model.add_constraints(deliver.sum("depot") <= MILK, name="milk")
    return model


def write(path: Path) -> None:
    """Write the file without the `#` and number that linopy appends to every name."""
    model = build().to_highspy(explicit_coordinate_names=True, set_names=True)
    restore_names.save(model, path, lambda label: label.rpartition("#")[0])


if __name__ == "__main__":
    join_or_write.run(build, write, ".mps")
