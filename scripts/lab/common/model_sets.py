"""A folder of company models that share capacities, as a set from a public collection comes.

`set.json` says the capacities, the companies' files and the optimum of all of them together,
which is found again here before it judges anything; where companies bring some of a capacity, it
says the least that each may be given as well. What a session cannot share is refused.
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

SAME = 1e-6
"""Two optima that differ by at most this part of them are one, found by two ways."""


def read_set(folder: Path) -> tuple[Instance, Optimum]:
    """The companies of a set, all of which may claim all, and their joint optimum."""
    said = _said(folder)
    resources, files = said["resources"], [folder / c["file"] for c in said["companies"]]
    capacity = np.array([float(r["capacity"]) for r in resources])
    names = tuple(str(r["name"]) for r in resources)
    floor = _floors(said, len(files), len(names))
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
    expected = float(said["optimum"]["utility"])
    if not math.isclose(optimum.utility, expected, rel_tol=SAME):
        raise BadCommand(
            f"{folder}: all models together earn {optimum.utility:.9g} at best, where set.json "
            f"says {expected:.9g}"
        )
    return instance, optimum


def _said(folder: Path) -> dict[str, Any]:
    try:
        said: dict[str, Any] = json.loads((folder / "set.json").read_text())
        for key in ("resources", "companies", "optimum"):
            said[key]
    except (OSError, ValueError, KeyError, TypeError):
        raise BadCommand(
            f"{folder} is no set of models: it needs a set.json with resources, companies and "
            "the optimum, and the companies' files"
        ) from None
    return said


def _floors(said: dict[str, Any], companies: int, resources: int) -> Floats | None:
    """Companies by resources: the least that each may be given, where the set says so."""
    if "floors" not in said:
        return None
    floor: Floats = np.array(said["floors"], dtype=np.float64).reshape(companies, resources)
    return floor


def _refuse_unshareable(
    folder: Path, resources: list[dict[str, Any]], floor: Floats | None
) -> None:
    """Refuse what leaves nothing to be divided."""
    brought = np.zeros(len(resources)) if floor is None else -floor.sum(axis=0)
    for resource, more in zip(resources, brought.tolist(), strict=True):
        name, capacity = resource["name"], float(resource["capacity"])
        if capacity + more <= 0.0:
            raise BadCommand(
                f"{folder}: resource {name!r} has the capacity {capacity:g}. A session divides "
                "what there is and what companies bring; here some must bring more than set.json "
                "says that they can (floors)"
            )
        if resource.get("form", "<=") not in ("<=", "="):
            raise BadCommand(
                f"{folder}: resource {name!r} is shared by {resource['form']!r}; only '<=' and '=' "
                "can be played"
            )


def _both_sides(
    resources: list[dict[str, Any]],
    capacity: Floats,
    names: tuple[str, ...],
    floor: Floats | None,
    companies: int,
) -> tuple[Floats, tuple[str, ...], Floats | None, tuple[str, ...]]:
    """Beside each resource that must be used up, its other side: what all use is not less."""
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
            f"{file}: the company brings some of a shared resource (signed consumption), and "
            "set.json does not say how much each may bring (floors)"
        )
    return data
