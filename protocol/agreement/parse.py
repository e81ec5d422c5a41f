"""An agreement as the file that people read, sign and change: TOML with a word to each term.

What `written` writes, `parse` reads back as the same agreement; whatever else it is given, it
raises `BadAgreement` and says where. Pure: text only.
"""

import math
import tomllib
from collections.abc import Mapping
from typing import Any

from protocol.agreement.address import address
from protocol.agreement.fields import NAME, NAME_IN_WORDS, Fields, alike
from protocol.agreement.model import Agreement, Member, Pricing, Privacy, Resource, Transport
from protocol.agreement.schema import (
    ACCOUNTANTS,
    COLLUDERS,
    LEAST_CAPACITY,
    LEAST_EPSILON,
    LEAST_MASKED,
    MAX_MEMBERS,
    MAX_RESOURCES,
    MAX_ROUNDS,
    MAX_START,
    MODES,
    MOST_CAPACITY,
    MOST_EPSILON,
    OVERRUN,
    PACE_SECONDS,
    RESERVE,
    REVEALS,
    SHAPES,
    STEPS,
    TOLERANCE,
    TOPOLOGIES,
)
from protocol.errors import BadAgreement

# What a text may look like, and how to say so to a person.
_CURRENCY = (r"[^\s\x00-\x1f\x7f]{1,8}", "one word of at most 8 characters, like EUR")
_LINE = (r"[^\x00-\x1f]{0,80}", "one line of at most 80 characters")
_PORT = r"(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])"
_ADDRESS = (
    rf"tcp://\S{{1,255}}:{_PORT}",
    "an address of the form 'tcp://host:port', its port from 1 to 65535",
)
_SIGNING_KEY = (r"[0-9a-fA-F]{64}", "a public key of 64 hexadecimal digits")
_CURVE_KEY = (r"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}", "a public key of 40 Z85 characters")


def parse(text: str) -> Agreement:
    """Read `agreement.toml`. Raises nothing but `BadAgreement`."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # bad TOML, or numbers and nesting too long
        raise BadAgreement(f"the agreement is not valid TOML: {error}") from None
    return from_table(table)


def from_table(table: Mapping[str, Any]) -> Agreement:
    """Check every field of a parsed agreement and fill in the defaults."""
    top = Fields(table, "")
    session, mode = top.name("session"), top.choice("mode", MODES)
    reveal = top.choice("reveal", REVEALS, "each")
    currency = top.text("currency", _CURRENCY)
    rounds, rehearsal = top.integer("rounds", 1, MAX_ROUNDS), top.flag("rehearsal", False)
    pace = top.optional_number("pace_seconds", at_least=0.001, at_most=3600.0)
    if pace is None and mode != "exact" and not rehearsal:
        pace = PACE_SECONDS  # when a release leaves is part of what the guarantee is about
    resources = tuple(_resource(f) for f in top.tables("resource", 1, MAX_RESOURCES))
    names = [r.name for r in resources]
    members = tuple(_member(f, names) for f in top.tables("member", 2, MAX_MEMBERS))
    _unique("resource", names)
    _unmistakable("resources", names)
    _opposites(resources)
    _unique("member", [m.name for m in members])
    _unmistakable("members", [m.name for m in members])
    _unique("member signing_key", [m.signing_key.hex() for m in members if m.signing_key])
    _unique("member transport_key", [m.transport_key for m in members if m.transport_key])
    agreement = Agreement(
        session=session,
        mode=mode,
        reveal=reveal,
        rounds=rounds,
        rehearsal=rehearsal,
        pace_seconds=pace,
        currency=currency,
        resources=resources,
        members=members,
        **_secrecy(top.table("privacy"), mode, reveal, resources, len(members)),
        pricing=_pricing(top.table("prices"), noisy=mode != "exact", resources=resources),
        transport=_transport(top.table("transport")),
    )
    top.done()
    _shared_out(agreement)
    return agreement


def _shared_out(agreement: Agreement) -> None:
    """Refuse shares that leave something over, and endowments that do not add up."""
    stated = [member.name for member in agreement.members if member.endowment]
    if stated and len(stated) < len(agreement.members):
        lacking = next(m.name for m in agreement.members if not m.endowment)
        raise BadAgreement(
            f"member {stated[0]!r} has an endowment and {lacking!r} has none; give one to every "
            "member, or to none: then they are in proportion to the shares"
        )
    for j, resource in enumerate(agreement.resources):
        _band(agreement, j)
        if sum(agreement.share_ticks_of(member, j) for member in agreement.members) < (
            agreement.ticks
        ):
            raise BadAgreement(
                f"the shares in resource {resource.name!r} add up to less than 1, "
                "so part of it could never be used; raise the share of some member"
            )
        if not stated:
            continue
        total = math.fsum(m.endowment[j] for m in agreement.members)
        whole = resource.capacity / resource.measure
        if abs(total - whole) > 1e-9:
            raise BadAgreement(
                f"the endowments in resource {resource.name!r} add up to {total:.12g}: they are "
                f"what the members bring of it, and must add up to {whole:.12g}"
            )
        for member in agreement.members:
            if member.floor and member.endowment[j] < member.floor[j]:
                raise BadAgreement(
                    f"member {member.name!r} brings {member.endowment[j]:g} of resource "
                    f"{resource.name!r}, below its floor of {member.floor[j]:g}"
                )
            if member.endowment[j] > member.share[j]:
                raise BadAgreement(
                    f"member {member.name!r} brings {member.endowment[j]:g} of resource "
                    f"{resource.name!r} and may claim only {member.share[j]:g}; raise its share"
                )


def _opposites(resources: tuple[Resource, ...]) -> None:
    """Refuse the other side of what is none, or has several."""
    plain = [r.name for r in resources if not r.opposite]
    for resource in resources:
        if resource.opposite and resource.opposite not in plain:
            raise BadAgreement(
                f"resource {resource.name!r} is the opposite of {resource.opposite!r}, which must "
                "be another resource that is no opposite itself"
            )
    _unique("opposite", [r.opposite for r in resources if r.opposite])


def _band(agreement: Agreement, j: int) -> None:
    """Refuse floors above shares, and floors that leave nothing, or more than can be counted."""
    resource = agreement.resources[j]
    for member in agreement.members:
        if member.floor and member.floor[j] > member.share[j]:
            raise BadAgreement(
                f"member {member.name!r} has the floor {member.floor[j]:g} in resource "
                f"{resource.name!r}, above its share of {member.share[j]:g}"
            )
    above = agreement.above_floors(j)
    if not LEAST_CAPACITY <= above <= MOST_CAPACITY:
        raise BadAgreement(
            f"the floors in resource {resource.name!r} leave {above:g} of it to share, and must "
            f"leave from {LEAST_CAPACITY:g} to {MOST_CAPACITY:g}: lower the floor of some member"
        )


def _resource(fields: Fields) -> Resource:
    name = fields.name("name")
    span = fields.optional_number("span", at_least=LEAST_CAPACITY, at_most=MOST_CAPACITY)
    least = LEAST_CAPACITY if span is None else -MOST_CAPACITY
    resource = Resource(
        name=name,
        capacity=fields.number("capacity", at_least=least, at_most=MOST_CAPACITY),
        unit=fields.text("unit", _LINE),
        worth=fields.optional_number("worth", at_least=0.0, at_most=1e15),
        span=span,
        opposite=fields.text("opposite", (NAME, NAME_IN_WORDS)),
    )
    fields.done()
    return resource


def _member(fields: Fields, resources: list[str]) -> Member:
    floor = _parts(fields, "floor", resources, at_least=-1.0)
    least = -1.0 if floor else 0.0
    member = Member(
        name=fields.name("name"),
        share=_parts(fields, "share", resources, at_least=least) or (1.0,) * len(resources),
        endowment=_parts(fields, "endowment", resources, at_least=least),
        floor=floor,
        signing_key=bytes.fromhex(fields.text("signing_key", _SIGNING_KEY)),
        transport_key=fields.text("transport_key", _CURVE_KEY),
        address=_address(fields, "address"),
    )
    fields.done()
    return member


def _parts(
    fields: Fields, key: str, resources: list[str], *, at_least: float = 0.0
) -> tuple[float, ...]:
    """A number for all resources, a table with one number for each, or nothing."""
    if fields.has_table(key):
        return _each(fields.table(key), resources, at_least=at_least, at_most=1.0)
    part = fields.optional_number(key, at_least=at_least, at_most=1.0)
    return () if part is None else (part,) * len(resources)


def _each(
    fields: Fields, names: list[str], *, at_least: float, at_most: float
) -> tuple[float, ...]:
    values = tuple(fields.number(name, at_least=at_least, at_most=at_most) for name in names)
    fields.done()
    return values


def _secrecy(
    fields: Fields, mode: str, reveal: str, resources: tuple[Resource, ...], members: int
) -> dict[str, Any]:
    """The budget, and how releases are made to keep it."""
    noisy = mode != "exact"
    if not noisy:
        unused = ("epsilon", "delta", "accountant", "noise", "truncate", "alpha", "tau")
        fields.forbid((*unused, "colluders", "overrun"), "mode is 'exact'")
    if reveal == "totals":
        _totals_only(fields, mode, members)
    else:
        fields.forbid(("colluders", "overrun"), "reveal is 'each'")
    truncate = fields.flag("truncate", False)
    if mode != "clipped":
        fields.forbid(("alpha",), f"mode is {mode!r}")
        if not truncate:
            fields.forbid(("tau",), f"mode is {mode!r} and truncate is not true")
    terms = {
        "privacy": _privacy(fields, reveal, members) if noisy else None,
        "truncate": truncate,
        "alpha": fields.number("alpha", 1.5, at_least=1.0, at_most=float(members)),
        "tau": fields.number("tau", 0.01, at_least=1e-4, at_most=0.5),
        "objective_limit": None,
    }
    if fields.flag("share_objective", False):
        worths = [r.worth for r in resources if r.worth is not None]
        default = math.fsum(worths) if len(worths) == len(resources) else None
        limit = fields.number("objective_limit", default, at_least=1e-9, at_most=1e15)
        terms["objective_limit"] = limit
    else:
        fields.forbid(("objective_limit",), "share_objective is not true")
    fields.done()
    return terms


def _totals_only(fields: Fields, mode: str, members: int) -> None:
    """Refuse what needs releases that can be read one by one."""
    if members < LEAST_MASKED:
        raise BadAgreement(
            f"reveal is 'totals' with {members} members: each could read the other's number from "
            "the total; take in a third, or choose reveal = 'each'"
        )
    if mode == "clipped":
        raise BadAgreement(
            "reveal is 'totals' and mode is 'clipped', whose caps follow from single releases; "
            "choose mode 'private', or reveal = 'each'"
        )
    for switch in ("truncate", "share_objective"):
        if fields.flag(switch, False):
            raise BadAgreement(
                f"privacy.{switch} is true and reveal is 'totals', where no number of a single "
                "member can be read; leave it out, or choose reveal = 'each'"
            )


def _privacy(fields: Fields, reveal: str, members: int) -> Privacy:
    masked: dict[str, Any] = {}
    if reveal == "totals":
        masked = {
            "colluders": fields.integer("colluders", 1, members - 2, COLLUDERS),
            "overrun": fields.number("overrun", OVERRUN, at_least=1e-6, at_most=0.5),
        }
    return Privacy(
        epsilon=fields.number("epsilon", at_least=LEAST_EPSILON, at_most=MOST_EPSILON),
        delta=fields.number("delta", at_least=1e-10, at_most=0.1),
        accountant=fields.choice("accountant", ACCOUNTANTS, "exact"),
        noise=fields.choice("noise", SHAPES, "component"),
        **masked,
    )


def _pricing(fields: Fields, *, noisy: bool, resources: tuple[Resource, ...]) -> Pricing:
    step = fields.choice("step", STEPS, "worth" if noisy else "center")
    sized, centered = step in ("constant", "sqrt"), step == "center"
    if centered and noisy:
        raise BadAgreement(
            "prices.step is 'center', which takes every answer at its word: with noise choose "
            "'worth', or one of the paper's steps"
        )
    if not sized:
        fields.forbid(("step_size",), f"step is {step!r}")
    if centered:
        fields.forbid(("momentum", "nonnegative"), "step is 'center'")
    else:
        fields.forbid(("tolerance", "reserve"), f"step is {step!r}")
    pricing = Pricing(
        step=step,
        step_size=fields.number("step_size", at_least=1e-15, at_most=1e15) if sized else None,
        tolerance=fields.number("tolerance", TOLERANCE, at_least=0.0, at_most=1.0)
        if centered
        else None,
        reserve=_reserve(fields, resources) if centered else None,
        momentum=fields.number("momentum", 0.0, at_least=0.0, at_most=0.999),
        nonnegative=fields.flag("nonnegative", True),
        start=_start(fields, resources),
    )
    if step in ("worth", "theorem") and not all(r.worth for r in resources):
        lacking = next(r.name for r in resources if not r.worth)
        raise BadAgreement(
            f"prices.step is {step!r}, but resource {lacking!r} has no positive worth: "
            "say what its whole capacity might fetch, or choose another step"
        )
    fields.done()
    return pricing


def _reserve(fields: Fields, resources: tuple[Resource, ...]) -> float:
    """None where something must be used exactly: it would leave no way to do so."""
    exact = [r.name for r in resources if r.opposite]
    reserve = fields.number("reserve", 0.0 if exact else RESERVE, at_least=0.0, at_most=0.5)
    if exact and reserve:
        raise BadAgreement(
            f"prices.reserve is {reserve:g}, and with the opposite {exact[0]!r} a resource must be "
            "used exactly: choose 0"
        )
    return reserve


def _start(fields: Fields, resources: tuple[Resource, ...]) -> tuple[float, ...]:
    """`"zero"`, `"worth"`, or a table with one price for each resource."""
    if fields.has_table("start"):
        names = [r.name for r in resources]
        return _each(fields.table("start"), names, at_least=-MAX_START, at_most=MAX_START)
    if fields.choice("start", ("zero", "worth"), "zero") == "zero":
        return (0.0,) * len(resources)
    for resource in resources:
        if resource.worth is None:
            raise BadAgreement(f"prices.start is 'worth', but resource {resource.name!r} has none")
        if resource.worth / resource.measure > MAX_START:
            raise BadAgreement(
                f"prices.start is 'worth', but a unit of resource {resource.name!r} would cost "
                f"more than {MAX_START:g}; check its worth and capacity"
            )
    return tuple((r.worth or 0.0) / r.measure for r in resources)


def _address(fields: Fields, key: str, above: int = 0) -> str:
    """Where somebody can be reached, at that port and so many above it."""
    place = fields.text(key, _ADDRESS)
    try:
        address(place or "tcp://nowhere:1", above)
    except BadAgreement as error:
        raise BadAgreement(f"{fields.where(key)} is {error}") from None
    return place


def _transport(fields: Fields) -> Transport:
    topology = fields.choice("topology", TOPOLOGIES, "relay")
    transport = Transport(
        topology=topology,
        patience_seconds=fields.number("patience_seconds", 120.0, at_least=0.1, at_most=1e7),
        coordinator=_address(fields, "coordinator", 1 if topology == "relay" else 0),
        coordinator_key=fields.text("coordinator_key", _CURVE_KEY),
    )
    fields.done()
    return transport


def _unique(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadAgreement(f"{what} {name!r} appears more than once; each needs its own")
        seen.add(name)


def _unmistakable(what: str, names: list[str]) -> None:
    """Refuse two names that a reader may take for one."""
    seen: dict[tuple[int, str], str] = {}
    for name in names:
        for kind, form in enumerate(alike(name)):
            other = seen.setdefault((kind, form), name)
            if other != name:
                raise BadAgreement(
                    f"the {what} {other!r} and {name!r} look alike, and people would mistake one "
                    "for the other; choose another name for one of them"
                )
