"""The digest depends on every agreed term, and on nothing else."""

import json
from typing import Any

import pytest

from protocol.agreement.model import canonical
from protocol.agreement.parse import parse
from tests.reference import codec as reference
from tests.support.agreement_tables import (
    KEY,
    MISSING,
    bare,
    centered,
    changed,
    full,
    masked,
    minimal,
    toml,
)

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
  # every default is stated, and every key is in another place
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
    """Order, spacing, comments, number formats and stated defaults do not change it."""
    one, other = parse(ONE_LAYOUT), parse(OTHER_LAYOUT)
    assert one == other
    assert one.digest == other.digest


def test_stating_reveal_each_does_not_change_the_digest() -> None:
    """`reveal = "each"` is the default, and is not in the canonical form."""
    stated = changed(minimal(), "reveal", "each")
    assert parse(toml(stated)).digest == parse(toml(minimal())).digest


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


def test_optional_terms_are_in_the_canonical_form_only_if_stated() -> None:
    """A missing optional term leaves no key, so that older digests stay."""
    content = json.loads(canonical(parse(toml(bare(full())))))
    assert sorted(content) == sorted(reference.CANONICAL)
    assert sorted(content["pricing"]) == sorted(reference.CANONICAL_PRICING)
    assert {tuple(sorted(m)) for m in content["members"]} == {
        tuple(sorted(reference.CANONICAL_MEMBER))
    }
    stated = json.loads(canonical(parse(toml(full()))))
    assert sorted(stated) == sorted((*reference.CANONICAL, "currency", "pace_seconds"))
    assert (stated["currency"], stated["pace_seconds"]) == ("EUR", 0.5)
    assert [m["endowment"] for m in stated["members"]] == [[0.25, 0.625], [0.75, 0.375]]
    rule = json.loads(canonical(parse(toml(centered()))))["pricing"]
    stated = [rule.pop(term) for term in ("tolerance", "reserve", "trade_limit", "answer_gap")]
    assert stated == [0.01, 0.001, 0.01, 1e-4]
    assert sorted(rule) == sorted(reference.CANONICAL_PRICING)


@pytest.mark.parametrize("table", [full(), bare(full()), centered(), minimal("private"), masked()])
def test_canonical_form_equals_that_of_the_reference(table: dict[str, Any]) -> None:
    """The independent implementation of SPEC gives the same text."""
    agreement = parse(toml(table))
    assert reference.canonical(agreement) == canonical(agreement)
    assert reference.agreement_digest(reference.canonical(agreement)) == agreement.digest


def test_a_key_in_upper_case_is_the_same_key() -> None:
    """Hexadecimal digits may have either case."""
    table = changed(full(), "member.0.signing_key", KEY.upper())
    assert parse(toml(table)).digest == parse(toml(full())).digest


def test_digest_changes_with_every_agreed_term() -> None:
    """Agreements that differ in any one term have different digests."""
    tables = [full(), minimal(), centered()]
    tables += [changed(centered(), "prices.tolerance", value) for value in (0.0, 0.02, 1e-4)]
    tables += [changed(centered(), "prices.reserve", value) for value in (0.0, 0.002, 1e-6)]
    tables += [changed(centered(), "prices.trade_limit", value) for value in (0.03, 1.0)]
    tables += [changed(centered(), "prices.answer_gap", value) for value in (0.0, 1e-3)]
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
def test_digest_does_not_depend_on_transport(path: str, value: Any) -> None:
    """Addresses, topology and patience may change without a new agreement."""
    assert parse(toml(changed(full(), path, value))).digest == parse(toml(full())).digest
