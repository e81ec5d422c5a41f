"""Tables of agreements as `tomllib` reads them, changes of one field, and TOML from a table."""

import copy
import datetime
import json
import random
from collections.abc import Mapping
from typing import Any

MISSING = object()
"""A field that is left out."""

KEY = "ab" * 32

CURVE = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"


def full() -> dict[str, Any]:
    """An agreement with every field except those of the centre rule and of `totals`."""
    return {
        "session": "spring",
        "mode": "clipped",
        "reveal": "each",
        "rounds": 40,
        "rehearsal": True,
        "pace_seconds": 0.5,
        "currency": "EUR",
        "privacy": {
            "epsilon": 1.0,
            "delta": 0.001,
            "accountant": "paper",
            "noise": "norm",
            "truncate": True,
            "alpha": 1.25,
            "tau": 0.02,
            "share_objective": True,
            "objective_limit": 500.0,
        },
        "prices": {
            "step": "sqrt",
            "step_size": 0.5,
            "momentum": 0.25,
            "nonnegative": False,
            "start": {"steel": 2.0, "power": 3.0},
        },
        "transport": {
            "topology": "mesh",
            "patience_seconds": 30.0,
            "coordinator": "tcp://example.org:5555",
            "coordinator_key": CURVE,
        },
        "resource": [
            {"name": "steel", "capacity": 12.5, "unit": "t", "worth": 100.0},
            {"name": "power", "capacity": 40.0, "unit": "MWh", "worth": 250.0},
        ],
        "member": [
            {
                "name": "ada",
                "share": {"steel": 0.5, "power": 1.0},
                "endowment": {"steel": 0.25, "power": 0.625},
                "signing_key": KEY,
                "transport_key": CURVE,
                "address": "tcp://ada.example.org:6000",
            },
            {"name": "ben", "share": 0.75, "endowment": {"steel": 0.75, "power": 0.375}},
        ],
    }


def centered() -> dict[str, Any]:
    """An agreement without noise, with every field of the centre rule."""
    prices = {"step": "center", "tolerance": 0.01, "reserve": 0.001, "start": "worth"}
    return changed(minimal(), "prices", prices)


def masked() -> dict[str, Any]:
    """An agreement with noise and `reveal = "totals"`, with every field of that."""
    table = minimal("private") | {"reveal": "totals"}
    table["member"] = [{"name": name} for name in ("ada", "ben", "cyd", "dan")]
    table["privacy"] |= {"colluders": 2, "overrun": 0.01}
    return table


def minimal(mode: str = "exact") -> dict[str, Any]:
    """An agreement without any field that has a default."""
    table: dict[str, Any] = {
        "session": "spring",
        "mode": mode,
        "rounds": 40,
        "resource": [{"name": "steel", "capacity": 12.5, "worth": 100.0}],
        "member": [{"name": "ada"}, {"name": "ben"}],
    }
    if mode != "exact":
        table["privacy"] = {"epsilon": 1.0, "delta": 0.001}
    return table


def bare(table: dict[str, Any]) -> dict[str, Any]:
    """A copy without currency, pace and endowments."""
    for path in ("currency", "pace_seconds", "member.0.endowment", "member.1.endowment"):
        table = changed(table, path, MISSING)
    return table


def changed(table: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the field at `path` replaced, or removed if `value` is MISSING."""
    table = copy.deepcopy(table)
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    place: Any = table
    for step in way:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    if value is MISSING:
        place.pop(last)
    else:
        place[last] = value
    return table


def toml(value: Any, shuffle: random.Random | None = None) -> str:
    """TOML of a table, its keys in random order if `shuffle` is given."""
    pairs = list(value.items())
    if shuffle:
        shuffle.shuffle(pairs)
    return "".join(f"{_string(k)} = {_inline(v, shuffle)}\n" for k, v in pairs)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _inline(value: Any, shuffle: random.Random | None) -> str:
    if isinstance(value, Mapping):
        pairs = list(value.items())
        if shuffle:
            shuffle.shuffle(pairs)
        return "{" + ", ".join(f"{_string(k)} = {_inline(v, shuffle)}" for k, v in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(v, shuffle) for v in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return repr(value)
