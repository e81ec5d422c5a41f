"""Reads a folder of company models that share capacities, such as a public set.

`set.json` has the capacities, the companies' files and their joint optimum, which is computed again
before it is used. Where companies bring some of a capacity, it also has their floors. What a
session cannot share is refused.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from party.model.company_model import CompanyModel, read
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.errors import BadCommand
from protocol.numeric import Floats
from scripts.lab.common.agreements import players, table
from scripts.lab.common.instances import Instance, Optimum, central

EQUAL = 1e-6
"""Relative difference below which two optima count as equal."""


def read_set(folder: Path) -> tuple[Instance, Optimum]:
    """The companies of a set, which may all claim all, and their joint optimum."""
    description = _read_description(folder)
    resources, files = (
        description["resources"],
        [folder / c["file"] for c in description["companies"]],
    )
    capacity = np.array([float(r["capacity"]) for r in resources])
    names = tuple(str(r["name"]) for r in resources)
    floor = _floors(description, len(files), len(names))
    _refuse_unshareable(folder, resources, floor)
    capacity, names, floor, opposites = _both_sides(resources, capacity, names, floor, len(files))
    rows = from_table(
        table(
            session=folder.name,
            mode="exact",
            rounds=1,
            capacity=np.ones_like(capacity),
            names=names,
            opposites=opposites,
            members=players(len(files)),
        )
    )
    data = tuple(_company(file, rows, floor is not None) for file in files)
    share = np.ones((len(data), len(capacity)))
    instance = Instance(capacity, share, data, names, floor, opposites)
    optimum = central(instance)
    expected = float(description["optimum"]["utility"])
    if not math.isclose(optimum.utility, expected, rel_tol=EQUAL):
        raise BadCommand(
            f"{folder}: the joint optimum is {optimum.utility:.9g}, but set.json has {expected:.9g}"
        )
    return instance, optimum


def _read_description(folder: Path) -> dict[str, Any]:
    try:
        description: dict[str, Any] = json.loads((folder / "set.json").read_text())
        for key in ("resources", "companies", "optimum"):
            description[key]
    except (OSError, ValueError, KeyError, TypeError):
        raise BadCommand(
            f"{folder} is not a set of models: it needs a set.json with resources, companies and "
            "optimum, and the companies' files"
        ) from None
    return description


def _floors(description: dict[str, Any], companies: int, resources: int) -> Floats | None:
    """Companies by resources: the least that each is given, if the set has floors."""
    if "floors" not in description:
        return None
    floor: Floats = np.array(description["floors"], dtype=np.float64).reshape(companies, resources)
    return floor


def _refuse_unshareable(
    folder: Path, resources: list[dict[str, Any]], floor: Floats | None
) -> None:
    """Refuse resources of which nothing is left to divide."""
    brought = np.zeros(len(resources)) if floor is None else -floor.sum(axis=0)
    for resource, more in zip(resources, brought.tolist(), strict=True):
        name, capacity = resource["name"], float(resource["capacity"])
        if capacity + more <= 0.0:
            raise BadCommand(
                f"{folder}: resource {name!r} has capacity {capacity:g}, and companies do not "
                "bring enough to divide any; correct 'capacity' or 'floors' in set.json"
            )
        if resource.get("form", "<=") not in ("<=", "="):
            raise BadCommand(
                f"{folder}: resource {name!r} has the form {resource['form']!r}; only '<=' and '=' "
                "are supported"
            )


def _both_sides(
    resources: list[dict[str, Any]],
    capacity: Floats,
    names: tuple[str, ...],
    floor: Floats | None,
    companies: int,
) -> tuple[Floats, tuple[str, ...], Floats | None, tuple[str, ...]]:
    """Adds the other side of each resource that must be used up: total use is not less."""
    exact = np.array([r.get("form", "<=") == "=" for r in resources])
    if not exact.any():
        return capacity, names, floor, ()
    least = np.zeros((companies, len(names))) if floor is None else floor
    most = least + (capacity - least.sum(axis=0))
    equal = [name for name, yes in zip(names, exact, strict=True) if yes]
    return (
        np.concatenate([capacity, -capacity[exact]]),
        (*names, *(f"{name}-least" for name in equal)),
        np.hstack([least, -most[:, exact]]),
        (*("" for _ in names), *equal),
    )


def _company(file: Path, agreement: Agreement, brings: bool) -> CompanyModel:
    data = read(file, agreement)
    if not brings and (data.value[data.index < data.resources] < 0.0).any():
        raise BadCommand(
            f"{file}: the company brings some of a shared resource (negative consumption); add "
            "'floors' to set.json"
        )
    return data
