"""Every field of an agreement is checked, and the error names the field and what is allowed."""

import datetime
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.agreement.fields import wrong_name
from protocol.agreement.parse import from_table, parse
from protocol.agreement.schema import SHAPES, STEPS
from protocol.errors import BadAgreement
from tests.support.agreement_tables import (
    KEY,
    MISSING,
    centered,
    changed,
    full,
    masked,
    minimal,
    toml,
)

NAME = "a name of 1 to 64 letters a to z, digits, '_', '.' and '-'"

FLAG = "true or false"

NOT_NAMES = ["", "-a", "a b", "é", "a\n", "a" * 65, 7, True, ["a"], {"a": 1}]

NOT_FLAGS = [0, 1, "true", 1.0, [], {}]

NOT_NUMBERS = ["7", True, [1.0], {"a": 1}, math.nan, math.inf, -math.inf, datetime.date(2024, 2, 3)]

NOT_TABLES = [7, "x", True, [1]]

LINE = "one line of at most 80 characters, none of them unseen"

ADDRESS = "an address of the form 'tcp://host:port', its port from 1 to 65535"

NOT_ADDRESSES = [7, "x:1", "tcp://x", "tcp://x:", "tcp://:1", "tcp://x:123456", "tcp://x:٣", "ip:1"]

NOT_ADDRESSES += [f"tcp://x:{port}" for port in (0, 65536, 66000, 70000, 99999)]

CURVE_KEY = "a public key of 40 Z85 characters"

NOT_CURVE_KEYS = [7, "a" * 39, "a" * 41, "a" * 39 + '"', "a" * 39 + "é", "a" * 39 + "\n"]

STEP = "one of " + ", ".join(map(repr, STEPS))
SHAPE = "one of " + ", ".join(map(repr, SHAPES))

FIELDS: list[tuple[str, str, list[Any]]] = [
    ("session", NAME, [MISSING, *NOT_NAMES]),
    ("mode", "one of 'exact', 'private', 'clipped'", [MISSING, "hidden", "", 1, ["exact"]]),
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
    ("privacy.noise", SHAPE, ["", "l1", 1, {}]),
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
    ("resource.1.unit", LINE, [7, True, "a\nb", "\x9b2J", "\u202ekg", "a" * 81, ["t"]]),
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
    """A path as errors write it: resource.0.name is resource[0].name."""
    parts = path.split(".")
    return "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in parts).lstrip(".")


@pytest.mark.parametrize(("path", "allowed", "values"), FIELDS, ids=[f[0] for f in FIELDS])
def test_error_names_the_field_its_value_and_what_is_allowed(
    path: str, allowed: str, values: list[Any]
) -> None:
    """A wrong value is refused, and the error says where it is and what may be there."""
    for value in values:
        shown = "missing" if value is MISSING else repr(value)
        expected = f"{named(path)} is {shown}: it must be {allowed}"
        table = centered() if path in ("prices.tolerance", "prices.reserve") else full()
        if path in ("reveal", "privacy.colluders", "privacy.overrun"):
            table = masked()
        with pytest.raises(BadAgreement) as caught:
            parse(toml(changed(table, path, value)))
        text = str(caught.value)
        # A name also gets advice.
        assert text == expected or (allowed == NAME and text.startswith(expected))


def test_the_table_of_wrong_values_has_every_field() -> None:
    """No field is missing in FIELDS."""

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
def test_text_that_is_not_toml_is_refused(text: str) -> None:
    """Invalid TOML, and nesting or numbers beyond the parser, give the same error."""
    with pytest.raises(BadAgreement, match=r"^the agreement is not valid TOML: "):
        parse(text)


@pytest.mark.parametrize("field", ["session", "rounds", "mode", "rehearsal", "resource", "member"])
def test_error_is_short_for_a_value_of_any_size(field: str) -> None:
    """A huge or deeply nested value gives an error of less than 300 characters."""
    deep: dict[str, Any] = {}
    for _ in range(2000):
        deep = {"a": deep}
    for value in (16**6000, "a" * 100_000, [0] * 100_000, deep):
        with pytest.raises(BadAgreement) as caught:
            from_table(changed(minimal(), field, value))
        assert str(caught.value).startswith(f"{field} is ")
        assert len(str(caught.value)) < 300


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
    {path for path, _, _ in FIELDS}
    | {"new", "member.1.new", "member.0.share.power", "member.1.signing_key"}
    | {"member.1.transport_key", "prices.start.power", "resource.0.unit", "resource.0.worth"}
)


@given(st.text(LETTERS, max_size=200))
@example("")
@example("\0")
@example("=")
@settings(max_examples=150, deadline=None, derandomize=True)
def test_random_text_is_refused(text: str) -> None:
    """Random text gives `BadAgreement` and no other exception."""
    with pytest.raises(BadAgreement):
        parse(text)


@given(
    st.sampled_from(["full", "exact", "private", "masked"]),
    st.lists(st.tuples(st.sampled_from(PATHS), VALUES), min_size=1, max_size=3),
)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_random_values_give_an_agreement_or_bad_agreement(
    base: str, replacements: list[tuple[str, Any]]
) -> None:
    """Any TOML value in any field gives an agreement or `BadAgreement`, and no other exception."""
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


@pytest.mark.parametrize(
    ("name", "found", "advice"),
    [
        ("Müller", "has 'ü'", "'Mueller' can be used"),
        ("Müller & Söhne", "has 'ü'", "'Mueller--Soehne' can be used"),
        ("acme,bolt", "has ','", "'acme-bolt' can be used"),
        ("Café", "has 'é'", "'Cafe' can be used"),
        ("-acme", "", "'acme' can be used"),
        ("日本", "has '日'", ""),
        ("x" * 70, "", f"'{'x' * 64}' can be used"),
    ],
)
def test_a_name_that_cannot_be_used_gets_one_that_can(name: str, found: str, advice: str) -> None:
    """The error says which character is wrong and suggests a name, where there is one."""
    why = wrong_name(name)
    assert why.startswith(f"it must be {NAME}")
    assert found in why
    assert why.endswith(advice)
    assert not wrong_name(advice.partition("'")[2].partition("'")[0] or "fine")
