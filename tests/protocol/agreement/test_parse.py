"""What an agreement may say, how a mistake in it is told, and what its digest names."""

import copy
import datetime
import json
import math
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.agreement.model import Pricing, canonical
from protocol.agreement.parse import from_table, parse
from protocol.agreement.quantities import quantities
from protocol.agreement.render import written
from protocol.agreement.schema import FINE_TICKS, MODES, STEPS, TICKS
from protocol.errors import BadAgreement
from tests.reference import agreement as reading_terms
from tests.reference import codec as reading
from tests.support import builders

MISSING = object()
"""Stands for a field that is left out."""

KEY = "ab" * 32
CURVE = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"


def full() -> dict[str, Any]:
    """An agreement that says every field there is but those of the centre rule."""
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
    """An agreement without noise that says every field of the centre rule."""
    prices = {"step": "center", "tolerance": 0.01, "reserve": 0.001, "start": "worth"}
    return changed(minimal(), "prices", prices)


def masked() -> dict[str, Any]:
    """An agreement with noise of which only totals can be read, and that says how."""
    table = minimal("private") | {"reveal": "totals"}
    table["member"] = [{"name": name} for name in ("ada", "ben", "cyd", "dan")]
    table["privacy"] |= {"colluders": 2, "overrun": 0.01}
    return table


def minimal(mode: str = "exact") -> dict[str, Any]:
    """An agreement that leaves out whatever has a default."""
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


def changed(table: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the field at `path` replaced or, where `value` is MISSING, left out."""
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
    """TOML of a table, its keys in a random order if one is given."""
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


def told(table: dict[str, Any]) -> str:
    """The text of the error that this agreement is refused with."""
    with pytest.raises(BadAgreement) as caught:
        parse(toml(table))
    return str(caught.value)


NAME = "a name of 1 to 64 letters, digits, '_', '.' and '-'"
FLAG = "true or false"
NOT_NAMES = ["", "-a", "a b", "é", "a\n", "a" * 65, 7, True, ["a"], {"a": 1}]
NOT_FLAGS = [0, 1, "true", 1.0, [], {}]
NOT_NUMBERS = ["7", True, [1.0], {"a": 1}, math.nan, math.inf, -math.inf, datetime.date(2024, 2, 3)]
NOT_TABLES = [7, "x", True, [1]]
LINE = "one line of at most 80 characters"
ADDRESS = "an address of the form 'tcp://host:port', its port from 1 to 65535"
NOT_ADDRESSES = [7, "x:1", "tcp://x", "tcp://x:", "tcp://:1", "tcp://x:123456", "tcp://x:٣", "ip:1"]
NOT_ADDRESSES += [f"tcp://x:{port}" for port in (0, 65536, 66000, 70000, 99999)]
CURVE_KEY = "a public key of 40 Z85 characters"
NOT_CURVE_KEYS = [7, "a" * 39, "a" * 41, "a" * 39 + '"', "a" * 39 + "é", "a" * 39 + "\n"]

STEP = "one of 'center', 'worth', 'constant', 'sqrt', 'theorem'"

FIELDS: list[tuple[str, str, list[Any]]] = [
    ("session", NAME, [MISSING, *NOT_NAMES]),
    ("mode", "one of 'exact', 'private', 'clipped'", [MISSING, "Hidden", "", 1, ["exact"]]),
    (
        "rounds",
        "a whole number from 1 to 1000000",
        [MISSING, 0, -1, 1_000_001, 1e3, 10.5, True, "40", math.nan, math.inf, [40], 10**30],
    ),
    ("reveal", "one of 'each', 'totals'", ["", "Totals", "none", 1, True, ["each"]]),
    ("rehearsal", FLAG, NOT_FLAGS),
    ("pace_seconds", "a number from 0.001 to 3600", [0, 1e-4, 3601, -1, *NOT_NUMBERS]),
    (
        "currency",
        "one word of at most 8 characters, like EUR",
        [7, True, "a\nb", "a b", " ", "\x7f", "a" * 9, ["EUR"]],
    ),
    ("privacy", "a table", NOT_TABLES),
    ("privacy.epsilon", "a number from 1e-06 to 100", [MISSING, 0, -1, 100.5, *NOT_NUMBERS]),
    ("privacy.delta", "a number from 1e-10 to 0.1", [MISSING, 0, 1, 0.2, -0.5, *NOT_NUMBERS]),
    ("privacy.accountant", "one of 'exact', 'paper'", ["", "rdp", 1, True, ["exact"]]),
    ("privacy.noise", "one of 'component', 'norm'", ["", "l1", 1, {}]),
    ("privacy.truncate", FLAG, NOT_FLAGS),
    ("privacy.alpha", "a number from 1 to 2", [0.5, 2.5, *NOT_NUMBERS]),
    ("privacy.tau", "a number from 0.0001 to 0.5", [0, 0.75, *NOT_NUMBERS]),
    ("privacy.share_objective", FLAG, NOT_FLAGS),
    ("privacy.objective_limit", "a number from 1e-09 to 1e+15", [0, -5.0, 1e16, *NOT_NUMBERS]),
    (
        "privacy.colluders",
        "a whole number from 1 to 2",
        [0, 3, -1, 1.0, True, "1", [1], {"a": 1}, math.nan],
    ),
    ("privacy.overrun", "a number from 1e-06 to 0.5", [0, 0.6, -0.1, *NOT_NUMBERS]),
    ("prices", "a table", NOT_TABLES),
    ("prices.step", STEP, ["", "adam", 1, []]),
    ("prices.step_size", "a number from 1e-15 to 1e+15", [MISSING, 0, -1, 1e16, *NOT_NUMBERS]),
    ("prices.tolerance", "a number from 0 to 1", [-0.1, 1.5, *NOT_NUMBERS]),
    ("prices.reserve", "a number from 0 to 0.5", [-0.1, 0.75, *NOT_NUMBERS]),
    ("prices.momentum", "a number from 0 to 0.999", [-0.1, 1, *NOT_NUMBERS]),
    ("prices.nonnegative", FLAG, NOT_FLAGS),
    ("prices.start", "one of 'zero', 'worth'", ["", "one", 0, 1.5, True, [1.0, 2.0]]),
    (
        "prices.start.steel",
        "a number from -1e+12 to 1e+12",
        [MISSING, -2e12, 2e12, *NOT_NUMBERS],
    ),
    ("transport", "a table", NOT_TABLES),
    ("transport.topology", "one of 'relay', 'mesh'", ["", "star", 1, []]),
    ("transport.patience_seconds", "a number from 0.1 to 1e+07", [0, -1, 1e8, *NOT_NUMBERS]),
    ("transport.coordinator", ADDRESS, NOT_ADDRESSES),
    ("transport.coordinator_key", CURVE_KEY, NOT_CURVE_KEYS),
    ("resource", "a list of 1 to 10000 [[resource]] tables", [MISSING, [], 7, "steel", {"a": 1}]),
    ("resource.0", "a table", NOT_TABLES),
    ("resource.0.name", NAME, [MISSING, *NOT_NAMES]),
    ("resource.0.capacity", "a number from 1e-09 to 1e+12", [MISSING, 0, -3, 1e13, *NOT_NUMBERS]),
    ("resource.1.unit", LINE, [7, True, "a\nb", "a" * 81, ["t"]]),
    ("resource.1.worth", "a number from 0 to 1e+15", [-1, 1e16, *NOT_NUMBERS]),
    ("member", "a list of 2 to 10000 [[member]] tables", [MISSING, [], [{}], 7, {"a": 1}]),
    ("member.1", "a table", NOT_TABLES),
    ("member.0.name", NAME, [MISSING, *NOT_NAMES]),
    (
        "member.1.share",
        "a number from 0 to 1",
        [-0.25, 1.5, *(v for v in NOT_NUMBERS if not isinstance(v, dict))],
    ),
    ("member.0.share.steel", "a number from 0 to 1", [MISSING, -0.25, 1.5, *NOT_NUMBERS]),
    (
        "member.0.endowment",
        "a number from 0 to 1",
        [-0.25, 1.5, *(v for v in NOT_NUMBERS if not isinstance(v, dict))],
    ),
    ("member.1.endowment.steel", "a number from 0 to 1", [MISSING, -0.25, 1.5, *NOT_NUMBERS]),
    (
        "member.0.signing_key",
        "a public key of 64 hexadecimal digits",
        [7, "ab", KEY + "0", "zz" * 32, True],
    ),
    ("member.0.transport_key", CURVE_KEY, NOT_CURVE_KEYS),
    ("member.0.address", ADDRESS, NOT_ADDRESSES),
]


def named(path: str) -> str:
    """A path as messages write it: resource.0.name is resource[0].name."""
    parts = path.split(".")
    return "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in parts).lstrip(".")


@pytest.mark.parametrize(("path", "allowed", "values"), FIELDS, ids=[f[0] for f in FIELDS])
def test_wrong_value(path: str, allowed: str, values: list[Any]) -> None:
    """A wrong value is told by its field, itself and what is allowed."""
    for value in values:
        shown = "missing" if value is MISSING else repr(value)
        expected = f"{named(path)} is {shown}: it must be {allowed}"
        whole = centered() if path in ("prices.tolerance", "prices.reserve") else full()
        if path in ("reveal", "privacy.colluders", "privacy.overrun"):
            whole = masked()
        assert told(changed(whole, path, value)) == expected


def test_every_field_has_a_wrong_value() -> None:
    """The table above leaves out no field of the agreements that say them all."""

    def paths(value: Any, path: str) -> set[str]:
        pairs: list[tuple[str, Any]] = []
        if isinstance(value, dict):
            pairs = [(f"{path}.{k}" if path else k, v) for k, v in value.items()]
        elif isinstance(value, list):
            pairs = [(f"{path}.*", v) for v in value]
        return {p for p, _ in pairs}.union(*(paths(v, p) for p, v in pairs))

    covered = {
        ".".join("*" if part.isdigit() else part for part in path.split("."))
        for path, _, _ in FIELDS
    }
    every = paths(full(), "") | paths(centered(), "") | paths(masked(), "")
    all_paths = {p.replace(".power", ".steel") for p in every}
    assert all_paths == covered


CONTRADICTIONS: list[tuple[str, dict[str, Any], str]] = [
    (
        "unknown field",
        changed(full(), "round", 7),
        "round is not a field of an agreement; check the name",
    ),
    (
        "unknown field of a resource",
        changed(full(), "resource.1.price", 7),
        "resource[1].price is not a field of an agreement; check the name",
    ),
    (
        "unknown field of a member",
        changed(full(), "member.1.public_key", KEY),
        "member[1].public_key is not a field of an agreement; check the name",
    ),
    (
        "unknown field of the privacy",
        changed(full(), "privacy.eps", 1.0),
        "privacy.eps is not a field of an agreement; check the name",
    ),
    (
        "unknown field of the prices",
        changed(full(), "prices.stepsize", 1.0),
        "prices.stepsize is not a field of an agreement; check the name",
    ),
    (
        "unknown field of the transport",
        changed(full(), "transport.patience", 1.0),
        "transport.patience is not a field of an agreement; check the name",
    ),
    (
        "share of a resource that there is not",
        changed(full(), "member.0.share.coal", 1.0),
        "member[0].share.coal is not a field of an agreement; check the name",
    ),
    (
        "price of a resource that there is not",
        changed(full(), "prices.start.coal", 1.0),
        "prices.start.coal is not a field of an agreement; check the name",
    ),
    (
        "two resources of one name",
        changed(
            changed(minimal(), "resource", 2 * minimal()["resource"]),
            "prices.start",
            "zero",
        ),
        "resource 'steel' appears more than once; each needs its own",
    ),
    (
        "two members of one name",
        changed(full(), "member.1.name", "ada"),
        "member 'ada' appears more than once; each needs its own",
    ),
    (
        "two members with one signing key",
        changed(full(), "member.1.signing_key", KEY),
        f"member signing_key '{KEY}' appears more than once; each needs its own",
    ),
    (
        "two members with one transport key",
        changed(full(), "member.1.transport_key", CURVE),
        f"member transport_key '{CURVE}' appears more than once; each needs its own",
    ),
    (
        "shares that leave a part unused",
        changed(full(), "member.1.share", 0.49),
        "the shares in resource 'steel' add up to less than 1, ",
    ),
    (
        "the default step with noise, without a worth",
        changed(minimal("private"), "resource.0.worth", MISSING),
        "prices.step is 'worth', but resource 'steel' has no positive worth: ",
    ),
    (
        "the default step with noise, with a worth of nothing",
        changed(minimal("private"), "resource.0.worth", 0),
        "prices.step is 'worth', but resource 'steel' has no positive worth: ",
    ),
    (
        "the theorem's step without a worth",
        changed(changed(minimal(), "resource.0.worth", MISSING), "prices.step", "theorem"),
        "prices.step is 'theorem', but resource 'steel' has no positive worth: ",
    ),
    *(
        (
            f"the centre rule in mode {mode}",
            changed(minimal(mode), "prices.step", "center"),
            "prices.step is 'center', which takes every answer at its word: with noise choose ",
        )
        for mode in ("private", "clipped")
    ),
    *(
        (
            f"{field} for the centre rule",
            changed(centered(), f"prices.{field}", value),
            f"prices.{field} has no meaning where step is 'center'; leave it out",
        )
        for field, value in (("momentum", 0.25), ("nonnegative", True), ("step_size", 0.5))
    ),
    *(
        (
            f"{field} for another rule",
            changed(full(), f"prices.{field}", 0.1),
            f"prices.{field} has no meaning where step is 'sqrt'; leave it out",
        )
        for field in ("tolerance", "reserve")
    ),
    (
        "an endowment that not everybody has",
        changed(full(), "member.1.endowment", MISSING),
        "member 'ada' has an endowment and 'ben' has none; give one to every member, or to none",
    ),
    (
        "an endowment that only the second has",
        changed(full(), "member.0.endowment", MISSING),
        "member 'ben' has an endowment and 'ada' has none; give one to every member, or to none",
    ),
    (
        "endowments that are less than there is",
        changed(full(), "member.1.endowment.steel", 0.74),
        "the endowments in resource 'steel' add up to 0.99: ",
    ),
    (
        "endowments that are more than there is",
        changed(full(), "member.0.endowment.power", 0.6250001),
        "the endowments in resource 'power' add up to 1.0000001: ",
    ),
    (
        "an endowment above the share",
        changed(full(), "member.1.share", 0.7),
        "member 'ben' brings 0.75 of resource 'steel' and may claim only 0.7; raise its share",
    ),
    (
        "an endowment of a resource that there is not",
        changed(full(), "member.0.endowment.coal", 0.0),
        "member[0].endowment.coal is not a field of an agreement; check the name",
    ),
    (
        "a start at a worth that is not there",
        changed(changed(minimal(), "resource.0.worth", MISSING), "prices.start", "worth"),
        "prices.start is 'worth', but resource 'steel' has none",
    ),
    (
        "a start at prices that no solver takes",
        changed(
            changed(
                changed(minimal(), "resource.0.worth", 1e15), "resource.0.capacity", 1e-9
            ),
            "prices.start",
            "worth",
        ),
        "prices.start is 'worth', but a unit of resource 'steel' would cost more than 1e+12; ",
    ),
    (
        "a shared objective without a limit",
        changed(
            changed(minimal(), "resource.0.worth", MISSING), "privacy.share_objective", True
        ),
        "privacy.objective_limit is missing: it must be a number from 1e-09 to 1e+15",
    ),
    (
        "a limit on an objective that is not shared",
        changed(full(), "privacy.share_objective", False),
        "privacy.objective_limit has no meaning where share_objective is not true; leave it out",
    ),
    *(
        (
            f"{field} where nothing is private",
            changed(minimal(), f"privacy.{field}", full()["privacy"][field]),
            f"privacy.{field} has no meaning where mode is 'exact'; leave it out",
        )
        for field in ("epsilon", "delta", "accountant", "noise", "truncate", "alpha", "tau")
    ),
    *(
        (
            f"{field} where each release can be read",
            changed(minimal("private"), f"privacy.{field}", value),
            f"privacy.{field} has no meaning where reveal is 'each'; leave it out",
        )
        for field, value in (("colluders", 1), ("overrun", 0.05))
    ),
    *(
        (
            f"{field} where only totals can be read and nothing is noisy",
            changed(
                changed(changed(masked(), "mode", "exact"), "privacy", {}),
                f"privacy.{field}",
                value,
            ),
            f"privacy.{field} has no meaning where mode is 'exact'; leave it out",
        )
        for field, value in (("colluders", 1), ("overrun", 0.05))
    ),
    (
        "totals of two members",
        changed(minimal(), "reveal", "totals"),
        "reveal is 'totals' with 2 members: each could read the other's number from the total; ",
    ),
    (
        "totals with caps that follow from single releases",
        changed(masked(), "mode", "clipped"),
        "reveal is 'totals' and mode is 'clipped', whose caps follow from single releases; ",
    ),
    *(
        (
            f"totals with {switch}",
            changed(masked(), f"privacy.{switch}", True),
            f"privacy.{switch} is true and reveal is 'totals', where no number of a single ",
        )
        for switch in ("truncate", "share_objective")
    ),
    (
        "three members of whom two may collude",
        changed(changed(masked(), "member", masked()["member"][:3]), "privacy.colluders", 2),
        "privacy.colluders is 2: it must be a whole number from 1 to 1",
    ),
    *(
        (
            f"a step size for {step}",
            changed(full(), "prices.step", step),
            f"prices.step_size has no meaning where step is '{step}'; leave it out",
        )
        for step in ("theorem", "worth")
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "expected"), [c[1:] for c in CONTRADICTIONS], ids=[c[0] for c in CONTRADICTIONS]
)
def test_contradiction(table: dict[str, Any], expected: str) -> None:
    """An agreement that contradicts itself is refused with what to mend."""
    assert told(table).startswith(expected)


@pytest.mark.parametrize(
    "text",
    [
        "session = ",
        "session = 'a'\nsession = 'b'",
        "x = 2024-13-45",
        "x = '''",
        "\x00",
        "x = " + "9" * 5000,
        "x = " + "[" * 20_000,
        "x = " + "{a = " * 20_000,
    ],
)
def test_not_toml(text: str) -> None:
    """Text that is no TOML, or more than anybody can read, is refused as such."""
    with pytest.raises(BadAgreement, match=r"^the agreement is not valid TOML: "):
        parse(text)


@pytest.mark.parametrize("field", ["session", "rounds", "mode", "rehearsal", "resource", "member"])
def test_monstrous_value(field: str) -> None:
    """A value of any size or depth gives a message of a length that a person reads."""
    deep: dict[str, Any] = {}
    for _ in range(2000):
        deep = {"a": deep}
    for value in (16**6000, "a" * 100_000, [0] * 100_000, deep):
        with pytest.raises(BadAgreement) as caught:
            from_table(changed(minimal(), field, value))
        assert str(caught.value).startswith(f"{field} is ")
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("mode", ["exact", "private"])
@pytest.mark.parametrize(
    "shares", [[0.1] * 10, [1 / 3] * 3, [0.3, 0.3, 0.4], [0.7, 0.2, 0.1], [1e-4] * 10_000]
)
def test_shares_that_add_up_to_one(mode: str, shares: list[float]) -> None:
    """Shares that add up to 1 on paper are enough to use every tick of a capacity."""
    members = [{"name": f"p{k}", "share": share} for k, share in enumerate(shares)]
    agreement = parse(toml(changed(minimal(mode), "member", members)))
    ticks = quantities(agreement).share_ticks[:, 0]
    assert ticks.sum() >= agreement.ticks
    assert np.abs(ticks - np.array(shares) * agreement.ticks).max() < 1.0


def test_everything_said() -> None:
    """Every field that is said is kept as it was said."""
    agreement = parse(toml(full()))
    assert (agreement.session, agreement.mode, agreement.rounds) == ("spring", "clipped", 40)
    assert agreement.rehearsal is True
    assert (agreement.currency, agreement.pace_seconds) == ("EUR", 0.5)
    assert agreement.ticks == TICKS
    assert agreement.privacy is not None
    assert vars(agreement.privacy) == {
        "epsilon": 1.0,
        "delta": 0.001,
        "accountant": "paper",
        "noise": "norm",
        "colluders": None,
        "overrun": None,
    }
    assert (agreement.reveal, agreement.masked) == ("each", False)
    assert (agreement.truncate, agreement.alpha, agreement.tau) == (True, 1.25, 0.02)
    assert agreement.objective_limit == 500.0
    assert agreement.width == 3
    assert agreement.pricing == Pricing(
        step="sqrt", step_size=0.5, momentum=0.25, nonnegative=False, start=(2.0, 3.0)
    )
    assert vars(agreement.transport) == full()["transport"]
    said = [{**resource, "span": None, "opposite": ""} for resource in full()["resource"]]
    assert [vars(r) for r in agreement.resources] == said
    ada, ben = agreement.members
    assert (ada.name, ada.share, ada.signing_key) == ("ada", (0.5, 1.0), bytes.fromhex(KEY))
    assert (ada.transport_key, ada.address) == (CURVE, "tcp://ada.example.org:6000")
    assert (ada.endowment, ben.endowment) == ((0.25, 0.625), (0.75, 0.375))
    assert (ben.name, ben.share, ben.signing_key, ben.address) == ("ben", (0.75, 0.75), b"", "")
    assert quantities(agreement).capacity.tolist() == [12.5, 40.0]
    worth = quantities(agreement).worth
    assert worth is not None
    assert worth.tolist() == [100.0, 250.0]
    assert quantities(agreement).share.tolist() == [[0.5, 1.0], [0.75, 0.75]]
    assert quantities(agreement).share_ticks.tolist() == [[1 << 19, 1 << 20], [786432, 786432]]


def test_defaults() -> None:
    """What is left out takes the default that suits the mode."""
    hidden, private = parse(toml(minimal())), parse(toml(minimal("private")))
    assert hidden.pricing == Pricing(step="center", tolerance=1e-4, reserve=1e-10, start=(0.0,))
    assert private.pricing == Pricing(step="worth", start=(0.0,))
    assert (hidden.ticks, private.ticks) == (FINE_TICKS, TICKS)
    assert hidden.privacy is None
    assert private.privacy is not None
    assert (private.privacy.accountant, private.privacy.noise) == ("exact", "component")
    for agreement in (hidden, private):
        assert (agreement.rehearsal, agreement.truncate, agreement.width) == (False, False, 1)
        assert (agreement.transport.topology, agreement.transport.coordinator) == ("relay", "")
        assert quantities(agreement).share.tolist() == [[1.0], [1.0]]
        assert agreement.currency == ""
        assert [member.endowment for member in agreement.members] == [(), ()]


@pytest.mark.parametrize(
    ("mode", "rehearsal", "pace"),
    [("private", False, 0.25), ("private", True, None), ("exact", False, None)],
)
def test_a_guarantee_has_a_pace(mode: str, rehearsal: bool, pace: float | None) -> None:
    """Where something is promised releases leave at a pace; elsewhere only if it is agreed."""
    table = minimal(mode) | {"rehearsal": rehearsal}
    assert parse(toml(table)).pace_seconds == pace
    agreed = parse(toml({**table, "pace_seconds": 2}))
    assert agreed.pace_seconds == 2.0
    assert agreed.digest != parse(toml(table)).digest


def test_everything_said_of_totals() -> None:
    """Colluders and the risk of an overrun are kept, and have defaults where nobody says them."""
    said = parse(toml(masked()))
    assert said.masked
    assert said.privacy is not None
    assert (said.privacy.colluders, said.privacy.overrun) == (2, 0.01)
    for field in ("colluders", "overrun"):
        table = changed(masked(), f"privacy.{field}", MISSING)
        privacy = parse(toml(table)).privacy
        assert privacy is not None
        assert getattr(privacy, field) == {"colluders": 1, "overrun": 0.05}[field]
    hidden = changed(changed(masked(), "mode", "exact"), "privacy", {})
    assert parse(toml(hidden)).masked
    assert parse(toml(hidden)).pricing.step == "center"


def test_each_leaves_no_trace_in_the_digest() -> None:
    """To say that each release can be read is to say nothing: digests stay as they were."""
    said = changed(minimal(), "reveal", "each")
    assert parse(toml(said)).digest == parse(toml(minimal())).digest


def test_everything_said_of_the_centre_rule() -> None:
    """Its tolerance and its reserve are kept as they were said, and 0 is a number."""
    pricing = parse(toml(centered())).pricing
    assert (pricing.tolerance, pricing.reserve, pricing.start) == (0.01, 0.001, (8.0,))
    exact = changed(changed(centered(), "prices.tolerance", 0), "prices.reserve", 0)
    assert parse(toml(exact)).pricing.tolerance == parse(toml(exact)).pricing.reserve == 0.0


def test_endowments_may_be_one_number_for_all_resources() -> None:
    """As shares may, and what is brought may be all that may be claimed."""
    table = changed(changed(full(), "member.0.endowment", 0.25), "member.1.endowment", 0.75)
    ada, ben = parse(toml(table)).members
    assert (ada.endowment, ben.endowment) == ((0.25, 0.25), (0.75, 0.75))


@pytest.mark.parametrize("count", [3, 7, 10, 1000])
def test_endowments_that_add_up_on_paper(count: int) -> None:
    """Equal parts that decimals cannot say are taken as adding up to 1."""
    members = [{"name": f"p{k}", "endowment": 1 / count} for k in range(count)]
    agreement = parse(toml(changed(minimal(), "member", members)))
    assert agreement.members[0].endowment == (1 / count,)


def test_start_at_the_worth() -> None:
    """A start at the worth is the worth of one unit of each capacity."""
    table = changed(full(), "prices.start", "worth")
    assert parse(toml(table)).pricing.start == (100.0 / 12.5, 250.0 / 40.0)


def test_limit_of_the_objective() -> None:
    """Without a limit of its own, a shared objective is cut at what all resources are worth."""
    table = changed(full(), "privacy.objective_limit", MISSING)
    assert parse(toml(table)).objective_limit == 350.0


def test_position() -> None:
    """A member is found by its name, and a stranger is told who the members are."""
    agreement = parse(toml(full()))
    assert (agreement.place("ada"), agreement.place("ben")) == (0, 1)
    with pytest.raises(BadAgreement) as caught:
        agreement.place("cyd")
    assert str(caught.value) == "'cyd' is not a member of 'spring'; the members are 'ada', 'ben'"


def test_shared_arrays_cannot_be_changed() -> None:
    """Whoever is handed an array of the agreement cannot change it for the others."""
    agreement = parse(toml(full()))
    for array in (
        quantities(agreement).capacity,
        quantities(agreement).share,
        quantities(agreement).share_ticks,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


ONE_LAYOUT = """
# The agreement of spring.
session = "spring"
mode = "private"
rounds = 40
[[resource]]
name = "steel"
capacity = 12
worth = 100
[[resource]]
name = "power"
capacity = 40.0
worth = 2.5e2
[[member]]
name = "ada"
share = 1
[[member]]
name = "ben"
share = {steel = 0.5, power = 1}
[privacy]
epsilon = 1
delta = 1e-3
"""

OTHER_LAYOUT = """
  # every default is written out, and every key stands elsewhere
privacy = {noise = 'component', truncate = false, accountant = "exact", delta = 0.001, \
epsilon = 1.0, share_objective = false}
rounds = 0x28
member = [ {name = "ada", share.power = 1.0, share."steel" = 1e0, address = "", signing_key = ""},
  {share = {power = 1.0, steel = 5e-1}, name = '''ben''', transport_key = ""}]
mode = 'private'
rehearsal = false
session = "\\u0073pring"
[prices]
start = {power = -0.0, steel = 0}
nonnegative = true
momentum = -0.0
step = "worth"
[[resource]]
worth = 100.0
unit = ""
capacity = 12.0
name = "steel"
[[resource]]
worth = 2_50
capacity = 4e1
name = "power"
[transport]
topology = "relay"
patience_seconds = 120
"""


def test_digest_does_not_depend_on_layout() -> None:
    """Order, spacing, comments, number formats and written-out defaults name the same thing."""
    one, other = parse(ONE_LAYOUT), parse(OTHER_LAYOUT)
    assert one == other
    assert one.digest == other.digest


CHANGES: list[tuple[str, Any]] = [
    ("session", "autumn"),
    ("mode", "private"),
    ("rounds", 41),
    ("rehearsal", False),
    ("pace_seconds", 0.25),
    ("privacy.epsilon", 1.0000000000000002),
    ("privacy.delta", 0.002),
    ("privacy.accountant", "exact"),
    ("privacy.noise", "component"),
    ("privacy.truncate", False),
    ("privacy.alpha", 1.5),
    ("privacy.tau", 0.03),
    ("privacy.objective_limit", 501.0),
    ("currency", "USD"),
    ("currency", MISSING),
    ("prices.step", "constant"),
    ("prices.step_size", 0.6),
    ("prices.momentum", 0.0),
    ("prices.nonnegative", True),
    ("prices.start", "zero"),
    ("prices.start.power", 3.5),
    ("resource.0.name", "iron"),
    ("resource.0.capacity", 12.6),
    ("resource.0.unit", "kg"),
    ("resource.0.worth", MISSING),
    ("resource.1.worth", 251.0),
    ("member.0.name", "amy"),
    ("member.0.share.power", 0.99),
    ("member.1.share", 1.0),
    ("member.0.signing_key", "cd" * 32),
    ("member.1.signing_key", "cd" * 32),
    ("member.0.transport_key", "0" * 40),
    ("member.1.transport_key", "0" * 40),
]


def bare(table: dict[str, Any]) -> dict[str, Any]:
    """The same agreement without currency and endowments."""
    for path in ("currency", "pace_seconds", "member.0.endowment", "member.1.endowment"):
        table = changed(table, path, MISSING)
    return table


def test_terms_that_are_not_there_are_not_in_the_canonical_form() -> None:
    """What has no value leaves no trace; so an agreement without it keeps its digest."""
    content = json.loads(canonical(parse(toml(bare(full())))))
    assert sorted(content) == sorted(reading.CANONICAL)
    assert sorted(content["pricing"]) == sorted(reading.CANONICAL_PRICING)
    assert {tuple(sorted(m)) for m in content["members"]} == {
        tuple(sorted(reading.CANONICAL_MEMBER))
    }
    said = json.loads(canonical(parse(toml(full()))))
    assert sorted(said) == sorted((*reading.CANONICAL, "currency", "pace_seconds"))
    assert (said["currency"], said["pace_seconds"]) == ("EUR", 0.5)
    assert [m["endowment"] for m in said["members"]] == [[0.25, 0.625], [0.75, 0.375]]
    rule = json.loads(canonical(parse(toml(centered()))))["pricing"]
    assert (rule.pop("tolerance"), rule.pop("reserve")) == (0.01, 0.001)
    assert sorted(rule) == sorted(reading.CANONICAL_PRICING)


@pytest.mark.parametrize("table", [full(), bare(full()), centered(), minimal("private"), masked()])
def test_canonical_form_is_that_of_the_second_reading(table: dict[str, Any]) -> None:
    """Written from the page alone, the canonical form is the same to the character."""
    agreement = parse(toml(table))
    assert reading.canonical(agreement) == canonical(agreement)
    assert reading.agreement_digest(reading.canonical(agreement)) == agreement.digest


@pytest.mark.parametrize("name", ["alpha", "tau"])
def test_caps_have_no_meaning_without_clipping(name: str) -> None:
    """Where nothing is clipped or cut, α and τ are refused rather than passed over."""
    value = {"alpha": 1.5, "tau": 0.02}[name]
    private = changed(changed(full(), "mode", "private"), "privacy.truncate", False)
    bare = changed(changed(private, "privacy.alpha", MISSING), "privacy.tau", MISSING)
    assert parse(toml(bare)).mode == "private"
    with pytest.raises(BadAgreement, match=f"privacy.{name} has no meaning where mode is 'priv"):
        parse(toml(changed(bare, f"privacy.{name}", value)))
    cut = changed(changed(bare, "privacy.truncate", True), "privacy.tau", 0.02)
    assert parse(toml(cut)).tau == 0.02


def test_a_key_in_capitals_is_the_same_key() -> None:
    """Hexadecimal digits may be of either case, and the agreement is the same."""
    table = changed(full(), "member.0.signing_key", KEY.upper())
    assert parse(toml(table)).digest == parse(toml(full())).digest


def test_a_relay_needs_two_ports() -> None:
    """The last port of all has none above it, which a relay needs and a mesh does not."""
    last = changed(full(), "transport.coordinator", "tcp://relay:65535")
    with pytest.raises(BadAgreement, match="1 above it is needed too"):
        parse(toml(changed(last, "transport.topology", "relay")))
    assert parse(toml(changed(last, "transport.topology", "mesh"))).transport.topology == "mesh"


def test_digest_changes_with_everything_that_matters() -> None:
    """No two agreements that differ in what was agreed have the same digest."""
    tables = [full(), minimal(), centered()]
    tables += [changed(centered(), "prices.tolerance", value) for value in (0.0, 0.02, 1e-4)]
    tables += [changed(centered(), "prices.reserve", value) for value in (0.0, 0.002, 1e-6)]
    tables.append(changed(changed(full(), "member.0.endowment", 0.25), "member.1.endowment", 0.75))
    tables.append(bare(full()))
    tables += [masked(), changed(masked(), "privacy.colluders", 1)]
    tables.append(changed(masked(), "privacy.overrun", 0.02))
    each = changed(changed(masked(), "privacy.colluders", MISSING), "reveal", "each")
    tables.append(changed(each, "privacy.overrun", MISSING))
    for path, value in CHANGES:
        table = changed(full(), path, value)
        if path == "mode":
            table = changed(table, "privacy.alpha", MISSING)
        if path == "resource.0.name":
            table = changed(table, "member.0.share", {"iron": 0.5, "power": 1.0})
            table = changed(table, "prices.start", {"iron": 2.0, "power": 3.0})
            table = changed(table, "member.0.endowment", {"iron": 0.25, "power": 0.625})
            table = changed(table, "member.1.endowment", {"iron": 0.75, "power": 0.375})
        tables.append(table)
    unshared = changed(full(), "privacy.share_objective", False)
    tables.append(changed(unshared, "privacy.objective_limit", MISSING))
    swapped = full()
    swapped["member"].reverse()
    tables.append(swapped)
    swapped = full()
    swapped["resource"].reverse()
    tables.append(swapped)
    swapped = full()
    swapped["member"].append({"name": "cyd", "endowment": 0.0})
    tables.append(swapped)
    digests = [parse(toml(table)).digest for table in tables]
    assert len(set(digests)) == len(digests)
    assert {len(d) for d in digests} == {32}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("transport", MISSING),
        ("transport.topology", "relay"),
        ("transport.patience_seconds", 5),
        ("transport.coordinator", "tcp://elsewhere.example.org:1"),
        ("transport.coordinator_key", "0" * 40),
        ("member.0.address", "tcp://elsewhere.example.org:2"),
        ("member.1.address", "tcp://elsewhere.example.org:2"),
    ],
)
def test_digest_does_not_depend_on_the_way_there(path: str, value: Any) -> None:
    """Addresses and patience may change without a new agreement."""
    assert parse(toml(changed(full(), path, value))).digest == parse(toml(full())).digest


LETTERS = "session=mode\"'[]{}#\n\r\t\\ .,0123456789exTZ-+_:/\x00\x7fé\u2028\U0001f600"
SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 10**4000, -(10**30), 1 << 63]),
    st.floats(),
    st.text(LETTERS, max_size=100),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.sampled_from(["exact", "private", "clipped", "worth", "zero", "theorem", "steel"]),
)
KEYS = st.sampled_from(["", "name", "steel", "a.b", "share", "ε"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)
PATHS = sorted(
    {path for path, _, _ in FIELDS} | {path for path, _ in CHANGES} | {"new", "member.1.new"}
)


@given(st.text(LETTERS, max_size=200))
@example("")
@example("\0")
@example("=")
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_text(text: str) -> None:
    """Text that was not written as an agreement is refused as one, whatever it is."""
    with pytest.raises(BadAgreement):
        parse(text)


@given(
    st.sampled_from(["full", "exact", "private", "masked"]),
    st.lists(st.tuples(st.sampled_from(PATHS), VALUES), min_size=1, max_size=3),
)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_any_value_anywhere(base: str, replacements: list[tuple[str, Any]]) -> None:
    """Any TOML value in any place gives an agreement or a BadAgreement, and nothing else."""
    bases = {"full": full, "masked": masked}
    table = bases[base]() if base in bases else minimal(base)
    for path, value in replacements:
        try:
            table = changed(table, path, value)
        except (KeyError, IndexError, TypeError, AttributeError):  # replaced by something flat
            continue
    try:
        agreement = parse(toml(table))
    except BadAgreement:
        return
    assert len(agreement.digest) == 32


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, allow_subnormal=False)


@st.composite
def agreements(draw: st.DrawFn) -> dict[str, Any]:
    """Valid agreements of every mode, with fields left out or said."""
    mode = draw(st.sampled_from(MODES))
    step = draw(st.sampled_from([s for s in STEPS if mode == "exact" or s != "center"]))
    prices: dict[str, Any] = {"step": step}
    if step in ("constant", "sqrt"):
        prices["step_size"] = draw(numbers(1e-6, 1e6))
    if step == "center" and draw(st.booleans()):
        prices |= {"tolerance": draw(numbers(0.0, 1.0)), "reserve": draw(numbers(0.0, 0.5))}
    if step != "center" and draw(st.booleans()):
        prices["momentum"] = draw(numbers(0.0, 0.999))
    table: dict[str, Any] = {
        "session": draw(st.from_regex(r"[a-z0-9_][a-z.-]{0,20}", fullmatch=True)),
        "mode": mode,
        "rounds": draw(st.integers(1, 10**6)),
        "prices": prices,
        "resource": [
            {
                "name": f"r{j}",
                "capacity": draw(numbers(1e-9, 1e12)),
                "worth": draw(numbers(1e-3, 1e9)),
                "unit": draw(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=9)),
            }
            for j in range(draw(st.integers(1, 4)))
        ],
        "member": [{"name": "first", "share": 1}]
        + [
            {"name": f"p{k}", "share": draw(numbers(0.0, 1.0))}
            for k in range(draw(st.integers(1, 4)))
        ],
    }
    names = [resource["name"] for resource in table["resource"]]
    table["member"][1]["share"] = {name: draw(numbers(0.0, 1.0)) for name in names}
    if draw(st.booleans()):
        table["currency"] = draw(st.text("€$EURk¥", min_size=1, max_size=8))
    if draw(st.booleans()):
        for member in table["member"]:
            member["endowment"] = {name: float(member["name"] == "first") for name in names}
        for name in names:
            part = min(draw(numbers(0.0, 1.0)), table["member"][1]["share"][name])
            table["member"][0]["endowment"][name] = 1.0 - part
            table["member"][1]["endowment"][name] = part
    if draw(st.booleans()):
        prices["start"] = {name: draw(numbers(-1e12, 1e12)) for name in names}
    if mode != "exact":
        table["privacy"] = {
            "epsilon": draw(numbers(1e-6, 100.0)),
            "delta": 0.001,
            "truncate": draw(st.booleans()),
            "share_objective": draw(st.booleans()),
        }
        if mode == "clipped":
            table["privacy"]["alpha"] = draw(numbers(1.0, 2.0))
        if mode == "clipped" or table["privacy"]["truncate"]:
            table["privacy"]["tau"] = draw(numbers(1e-4, 0.5))
    if mode != "clipped" and len(table["member"]) > 2 and draw(st.booleans()):
        table["reveal"] = "totals"
        for switch in ("truncate", "share_objective", "tau"):
            table.get("privacy", {}).pop(switch, None)
        if mode == "private" and draw(st.booleans()):
            table["privacy"]["colluders"] = draw(st.integers(1, len(table["member"]) - 2))
            table["privacy"]["overrun"] = draw(numbers(1e-6, 0.5))
    return table


@given(agreements(), st.integers())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_order_of_keys(table: dict[str, Any], seed: int) -> None:
    """A valid agreement has one digest, in whatever order its keys are written."""
    shuffled = parse(toml(table, random.Random(seed)))
    assert shuffled == parse(toml(table))
    assert shuffled.digest == parse(toml(table)).digest


@given(agreements())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_written_and_read_again(table: dict[str, Any]) -> None:
    """The file that is written for people reads back as the very same agreement."""
    agreement = from_table(table)
    again = parse(written(agreement))
    assert again.transport == agreement.transport
    assert again.digest == agreement.digest
    assert (again.reveal, again.privacy) == (agreement.reveal, agreement.privacy)
    assert (again.pricing, again.members) == (agreement.pricing, agreement.members)


def test_written_for_people() -> None:
    """The file says in a word what each term means."""
    said = ("mode =", "reveal =", "rounds =", "epsilon =", "topology =", "start =")
    for table in (full(), masked()):
        text = written(from_table(table))
        assert text.startswith("# Agreement of the session")
        for line in text.splitlines():
            if line.startswith((*said, "colluders =", "overrun =")):
                assert " # " in line


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Acme", "acme"),
        ("acme-1", "acme_1"),
        ("a.b", "a-b"),
        ("p1", "pl"),
        ("pl", "pI"),
        ("p0", "pO"),
        ("corn", "com"),
        ("vvest", "west"),
    ],
)
@pytest.mark.parametrize("kind", ["member", "resource"])
def test_names_that_look_alike_are_refused(kind: str, first: str, second: str) -> None:
    """Nobody can pass for another in an agreement; the error has both names."""
    terms = builders.table(members=2, resources=2)
    for row, name in zip(terms[kind], (first, second), strict=True):
        row["name"] = name
    with pytest.raises(BadAgreement, match=f"{kind}s '{first}' and '{second}' look alike"):
        from_table(terms)
    with pytest.raises(reading_terms.Refused):
        reading_terms.terms(terms)


def test_numbered_names_are_told_apart() -> None:
    """What people call things in a row is not taken for look-alikes."""
    taken = [f"{start}{n}" for start in ("p", "party", "L", "line-", "x_") for n in range(1, 120)]
    terms = builders.table(members=2)
    terms["member"] = [{"name": name} for name in [*taken, "mail", "mall", "Ivy", "ally"]]
    assert len(from_table(terms).members) == len(taken) + 4
