"""Fields that contradict each other are refused, and the error says what to change."""

from typing import Any

import pytest

from protocol.agreement.parse import from_table, parse
from protocol.errors import BadAgreement
from tests.reference import agreement as reference
from tests.support import builders
from tests.support.agreement_tables import (
    CURVE,
    KEY,
    MISSING,
    centered,
    changed,
    full,
    masked,
    minimal,
    toml,
)

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
        "share of an unknown resource",
        changed(full(), "member.0.share.coal", 1.0),
        "member[0].share.coal is not a field of an agreement; check the name",
    ),
    (
        "price of an unknown resource",
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
        "resource 'steel' appears more than once; each must be different",
    ),
    (
        "two members of one name",
        changed(full(), "member.1.name", "ada"),
        "member 'ada' appears more than once; each must be different",
    ),
    (
        "two members with one signing key",
        changed(full(), "member.1.signing_key", KEY),
        f"member signing_key '{KEY}' appears more than once; each must be different",
    ),
    (
        "two members with one transport key",
        changed(full(), "member.1.transport_key", CURVE),
        f"member transport_key '{CURVE}' appears more than once; each must be different",
    ),
    (
        "shares that leave capacity unused",
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
            "prices.step is 'center', which cannot work with noisy answers: ",
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
        "endowment of the first member only",
        changed(full(), "member.1.endowment", MISSING),
        "member 'ada' has an endowment and 'ben' has none; give one to every member, or to none",
    ),
    (
        "endowment of the second member only",
        changed(full(), "member.0.endowment", MISSING),
        "member 'ben' has an endowment and 'ada' has none; give one to every member, or to none",
    ),
    (
        "endowments below the capacity",
        changed(full(), "member.1.endowment.steel", 0.74),
        "the endowments in resource 'steel' add up to 0.99: ",
    ),
    (
        "endowments above the capacity",
        changed(full(), "member.0.endowment.power", 0.6250001),
        "the endowments in resource 'power' add up to 1.0000001: ",
    ),
    (
        "an endowment above the share",
        changed(full(), "member.1.share", 0.7),
        "member 'ben' brings 0.75 of resource 'steel' and may claim only 0.7; raise its share",
    ),
    (
        "endowment of an unknown resource",
        changed(full(), "member.0.endowment.coal", 0.0),
        "member[0].endowment.coal is not a field of an agreement; check the name",
    ),
    (
        "start at a missing worth",
        changed(changed(minimal(), "resource.0.worth", MISSING), "prices.start", "worth"),
        "prices.start is 'worth', but resource 'steel' has no worth: ",
    ),
    (
        "start at prices above what solvers accept",
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
            f"{field} in mode exact",
            changed(minimal(), f"privacy.{field}", full()["privacy"][field]),
            f"privacy.{field} has no meaning where mode is 'exact'; leave it out",
        )
        for field in ("epsilon", "delta", "accountant", "noise", "truncate", "alpha", "tau")
    ),
    *(
        (
            f"{field} with reveal each",
            changed(minimal("private"), f"privacy.{field}", value),
            f"privacy.{field} has no meaning where reveal is 'each'; leave it out",
        )
        for field, value in (("colluders", 1), ("overrun", 0.05))
    ),
    *(
        (
            f"{field} in mode exact with totals",
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
        "reveal is 'totals' with 2 members: each could compute the other's ",
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
            f"privacy.{switch} is true and reveal is 'totals', where single releases cannot ",
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
def test_contradiction_is_refused(table: dict[str, Any], expected: str) -> None:
    """An agreement that contradicts itself is refused with the field to change."""
    with pytest.raises(BadAgreement) as caught:
        parse(toml(table))
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize("name", ["alpha", "tau"])
def test_alpha_and_tau_are_refused_where_nothing_uses_them(name: str) -> None:
    """Without clipping or truncation α and τ are refused, not ignored."""
    value = {"alpha": 1.5, "tau": 0.02}[name]
    private = changed(changed(full(), "mode", "private"), "privacy.truncate", False)
    bare = changed(changed(private, "privacy.alpha", MISSING), "privacy.tau", MISSING)
    assert parse(toml(bare)).mode == "private"
    with pytest.raises(BadAgreement, match=f"privacy.{name} has no meaning where mode is 'priv"):
        parse(toml(changed(bare, f"privacy.{name}", value)))
    cut = changed(changed(bare, "privacy.truncate", True), "privacy.tau", 0.02)
    assert parse(toml(cut)).tau == 0.02


def test_a_relay_needs_the_port_above_its_own() -> None:
    """The last port is refused for a relay, which needs one more, and accepted for a mesh."""
    last = changed(full(), "transport.coordinator", "tcp://relay:65535")
    with pytest.raises(BadAgreement, match="1 above it is needed too"):
        parse(toml(changed(last, "transport.topology", "relay")))
    assert parse(toml(changed(last, "transport.topology", "mesh"))).transport.topology == "mesh"


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
    """Names that people would confuse are refused, and the error has both."""
    terms = builders.table(members=2, resources=2)
    for row, name in zip(terms[kind], (first, second), strict=True):
        row["name"] = name
    with pytest.raises(BadAgreement, match=f"{kind}s '{first}' and '{second}' look alike"):
        from_table(terms)
    with pytest.raises(reference.Refused):
        reference.terms(terms)


def test_numbered_names_are_accepted() -> None:
    """Names that differ in a number are not taken for look-alikes."""
    taken = [f"{start}{n}" for start in ("p", "party", "L", "line-", "x_") for n in range(1, 120)]
    terms = builders.table(members=2)
    terms["member"] = [{"name": name} for name in [*taken, "mail", "mall", "Ivy", "ally"]]
    assert len(from_table(terms).members) == len(taken) + 4


def test_no_resource_has_the_name_of_claims_to_payments() -> None:
    """With totals its claims would have the file name of claims to payments; else it may."""
    terms = builders.table(members=3, resources=2, reveal="totals")
    terms["resource"][1]["name"] = "Payment"
    with pytest.raises(BadAgreement, match="'Payment' has the name of the claims to payments"):
        from_table(terms)
    with pytest.raises(reference.Refused):
        reference.terms(terms)
    public = terms | {"reveal": "each"}
    assert from_table(public).resources[1].name == "Payment"
    assert reference.terms(public)
