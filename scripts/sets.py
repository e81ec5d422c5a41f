"""A folder of company models that share capacities, as a set from a public collection comes.

`set.json` says the capacities, the companies' files and the optimum of all of them together,
which is found again here before it judges anything. What a session cannot share is refused.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from party.dataset import DataSet, read
from protocol.agreement import Agreement
from protocol.errors import BadCommand
from protocol.toml import from_table
from scripts.agreements import players, table
from scripts.instances import Instance, Optimum, central

SAME = 1e-6
"""Two optima that differ by at most this part of them are one, found by two ways."""


def read_set(folder: Path) -> tuple[Instance, Optimum]:
    """The companies of a set, all of which may claim all, and their joint optimum."""
    said = _said(folder)
    resources, files = said["resources"], [folder / c["file"] for c in said["companies"]]
    _refuse_unshareable(folder, resources)
    capacity = np.array([float(r["capacity"]) for r in resources])
    names = tuple(str(r["name"]) for r in resources)
    rows = from_table(
        table(
            session=folder.name,
            mode="hidden",
            rounds=1,
            capacity=capacity,
            names=names,
            members=players(len(files)),
        )
    )
    data = tuple(_company(file, rows) for file in files)
    instance = Instance(capacity, np.ones((len(data), len(capacity))), data, names)
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


def _refuse_unshareable(folder: Path, resources: list[dict[str, Any]]) -> None:
    """Refuse what is no capacity to be divided among companies that consume."""
    for resource in resources:
        name, capacity = resource["name"], float(resource["capacity"])
        if capacity <= 0.0:
            raise BadCommand(
                f"{folder}: resource {name!r} has the capacity {capacity:g}. A session divides "
                "what there is among companies that consume it; here some must bring it "
                "(signed consumption), which cannot be played"
            )
        if resource.get("form", "<=") != "<=":
            raise BadCommand(
                f"{folder}: resource {name!r} is shared by {resource['form']!r}. A session "
                "divides capacities, which need not be used up: only '<=' can be played"
            )


def _company(file: Path, agreement: Agreement) -> DataSet:
    data = read(file, agreement)
    if (data.value[data.index < data.resources] < 0.0).any():
        raise BadCommand(
            f"{file}: the company brings some of a shared resource (signed consumption), which "
            "cannot be played: every coefficient of a shared row must be at least 0"
        )
    return data
