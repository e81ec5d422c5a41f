"""Reads an agreement from its TOML file: every field is checked, and defaults are filled in.

What `render` writes, `parse` reads back as the same agreement. For any other text it raises
`BadAgreement`, which names the field. Never here: files, numpy, or a limit (`schema` has those).
"""

import math
import tomllib
from collections.abc import Mapping
from typing import Any

from protocol.agreement import schema
from protocol.agreement.address import address
from protocol.agreement.fields import Fields
from protocol.agreement.model import (
    CERTIFICATE_TERMS,
    Agreement,
    Member,
    Pricing,
    Privacy,
    Resource,
    Role,
    Transport,
)
from protocol.agreement.rules import require_consistent, require_distinct_names
from protocol.agreement.schema import Range
from protocol.errors import BadAgreement

_NOISE_FIELDS = (
    *("epsilon", "delta", "accountant", "noise", "truncate", "alpha", "tau"),
    *("colluders", "overrun"),
)


def parse(text: str) -> Agreement:
    """Read the text of an agreement file. Raises nothing but `BadAgreement`."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for numbers and nesting that are too long
        raise BadAgreement(f"the agreement is not valid TOML: {error}") from None
    if set(table) == {"member"}:
        raise BadAgreement(
            "this is a member file, not an agreement; the convener makes the agreement with "
            "`coordinator new`"
        )
    return from_table(table)


def from_table(table: Mapping[str, Any]) -> Agreement:
    """Check every field of a parsed file, fill in the defaults, then check rules across fields."""
    top = Fields(table, "")
    session, mode = top.name("session"), top.choice("mode", schema.MODES)
    reveal = top.choice("reveal", schema.REVEALS, schema.REVEAL)
    rehearsal = top.flag("rehearsal", False)
    resources = tuple(_resource(f) for f in top.tables("resource", 1, schema.MAX_RESOURCES))
    names = [r.name for r in resources]
    require_distinct_names("resource", names)
    members = tuple(
        _member(f, names) for f in top.tables("member", schema.MIN_MEMBERS, schema.MAX_MEMBERS)
    )
    privacy = top.table("privacy")
    if reveal == "totals":
        _require_maskable(privacy, mode, len(members))
    agreement = Agreement(
        session=session,
        mode=mode,
        reveal=reveal,
        rounds=top.integer("rounds", 1, schema.MAX_ROUNDS),
        rehearsal=rehearsal,
        pace_seconds=_pace(top, noisy=mode != "exact", rehearsal=rehearsal),
        currency=top.text("currency", schema.CURRENCY),
        resources=resources,
        members=members,
        **_privacy_terms(privacy, mode, reveal, resources, len(members)),
        pricing=_pricing(top.table("prices"), mode, reveal, resources),
        clearing=_role(top, "clearing"),
        transport=_transport(top.table("transport")),
    )
    top.done()
    require_consistent(agreement)
    return agreement


def _pace(top: Fields, *, noisy: bool, rehearsal: bool) -> float | None:
    """With noise there is always a pace: when a release is sent must not depend on private data."""
    pace = top.optional_number("pace_seconds", schema.PACE_RANGE)
    return schema.PACE_SECONDS if pace is None and noisy and not rehearsal else pace


def _resource(fields: Fields) -> Resource:
    span = fields.optional_number("span", schema.CAPACITY_RANGE)
    most = schema.CAPACITY_RANGE.most
    limits = schema.CAPACITY_RANGE if span is None else Range(-most, most)
    resource = Resource(
        name=fields.name("name"),
        capacity=fields.number("capacity", limits),
        unit=fields.text("unit", schema.UNIT),
        worth=fields.optional_number("worth", schema.WORTH_RANGE),
        span=span,
        opposite=fields.text("opposite", schema.NAME),
        spare=fields.optional_number("spare", schema.SPARE_RANGE),
        operator=_role(fields, "operator"),
        overrun_price=fields.optional_number("overrun_price", schema.OVERRUN_PRICE_RANGE),
    )
    fields.done()
    return resource


def _role(fields: Fields, key: str) -> Role | None:
    """A name and a public key, or nothing."""
    if not fields.has_table(key):
        fields.forbid((key,), "it is not a table with name and key")
        return None
    table = fields.table(key)
    role = Role(table.name("name"), bytes.fromhex(table.text("key", schema.SIGNING_KEY)))
    if not role.key:
        raise BadAgreement(f"{table.where('key')} is missing; NAME.role.toml has it")
    if schema.is_small_order(role.key):
        raise BadAgreement(
            f"{table.where('key')} is no public key: nothing can be encrypted to it. Use the one "
            "of `protocol keygen`"
        )
    table.done()
    return role


def _member(fields: Fields, resources: list[str]) -> Member:
    floor = _fractions(fields, "floor", resources, schema.SIGNED_FRACTION_RANGE)
    limits = schema.SIGNED_FRACTION_RANGE if floor else schema.FRACTION_RANGE
    share = _fractions(fields, "share", resources, limits)
    member = Member(
        name=fields.name("name"),
        share=share or (schema.SHARE,) * len(resources),
        endowment=_fractions(fields, "endowment", resources, limits),
        floor=floor,
        signing_key=bytes.fromhex(fields.text("signing_key", schema.SIGNING_KEY)),
        transport_key=fields.text("transport_key", schema.TRANSPORT_KEY),
        address=_address(fields, "address"),
    )
    fields.done()
    return member


def _fractions(fields: Fields, key: str, resources: list[str], limits: Range) -> tuple[float, ...]:
    """One number for all resources, a table with one for each, or nothing."""
    if fields.has_table(key):
        return _one_for_each(fields.table(key), resources, limits)
    fraction = fields.optional_number(key, limits)
    return () if fraction is None else (fraction,) * len(resources)


def _one_for_each(fields: Fields, resources: list[str], limits: Range) -> tuple[float, ...]:
    values = tuple(fields.number(name, limits) for name in resources)
    fields.done()
    return values


def _require_maskable(privacy: Fields, mode: str, members: int) -> None:
    """Refuse terms that need to read single releases where only totals can be read."""
    if members < schema.LEAST_MASKED:
        raise BadAgreement(
            f"reveal is 'totals' with {members} members: each could compute the other's numbers "
            "from the total; add a third member, or choose reveal = 'each'"
        )
    if mode == "clipped":
        raise BadAgreement(
            "reveal is 'totals' and mode is 'clipped', whose caps follow from single releases; "
            "choose mode 'private', or reveal = 'each'"
        )
    for switch in ("truncate", "share_objective"):
        if privacy.flag(switch, False):
            raise BadAgreement(
                f"privacy.{switch} is true and reveal is 'totals', where single releases cannot "
                "be read; leave it out, or choose reveal = 'each'"
            )


def _privacy_terms(
    fields: Fields, mode: str, reveal: str, resources: tuple[Resource, ...], members: int
) -> dict[str, Any]:
    """The terms of the table [privacy]: the budget, and what is done to releases."""
    if mode == "exact":
        fields.forbid(_NOISE_FIELDS, "mode is 'exact'")
    if reveal == "each":
        fields.forbid(("colluders", "overrun"), "reveal is 'each'")
    truncate = fields.flag("truncate", False)
    if mode != "clipped":
        fields.forbid(("alpha",), f"mode is {mode!r}")
        if not truncate:
            fields.forbid(("tau",), f"mode is {mode!r} and truncate is not true")
    terms = {
        "privacy": None if mode == "exact" else _budget(fields, reveal, members),
        "truncate": truncate,
        "alpha": fields.number("alpha", Range(schema.LEAST_ALPHA, float(members)), schema.ALPHA),
        "tau": fields.number("tau", schema.TAU_RANGE, schema.TAU),
        "objective_limit": _objective_limit(fields, resources),
    }
    fields.done()
    return terms


def _budget(fields: Fields, reveal: str, members: int) -> Privacy:
    colluders, overrun = None, None
    if reveal == "totals":
        most = members - schema.HONEST_MEMBERS
        colluders = fields.integer("colluders", 1, most, schema.COLLUDERS)
        overrun = fields.number("overrun", schema.OVERRUN_RANGE, schema.OVERRUN)
    return Privacy(
        epsilon=fields.number("epsilon", schema.EPSILON_RANGE),
        delta=fields.number("delta", schema.DELTA_RANGE),
        accountant=fields.choice("accountant", schema.ACCOUNTANTS, schema.ACCOUNTANT),
        noise=fields.choice("noise", schema.SHAPES, schema.SHAPE),
        colluders=colluders,
        overrun=overrun,
    )


def _objective_limit(fields: Fields, resources: tuple[Resource, ...]) -> float | None:
    """The cap of a shared objective. By default, what all resources are worth together."""
    if not fields.flag("share_objective", False):
        fields.forbid(("objective_limit",), "share_objective is not true")
        return None
    worths = [r.worth for r in resources if r.worth is not None]
    default = math.fsum(worths) if len(worths) == len(resources) else None
    return fields.number("objective_limit", schema.OBJECTIVE_RANGE, default)


def _pricing(fields: Fields, mode: str, reveal: str, resources: tuple[Resource, ...]) -> Pricing:
    noisy = mode != "exact"
    usual = schema.STEP_TOTALS if reveal == "totals" else schema.STEP_NOISY
    step = fields.choice("step", schema.STEPS, usual if noisy else schema.STEP_EXACT)
    sized, centered, ball = step in ("constant", "sqrt"), step == "center", step == "ball"
    if centered and noisy:
        raise BadAgreement(
            "prices.step is 'center', which cannot work with noisy answers: choose 'ball', "
            "'worth', or one of the paper's steps"
        )
    if not sized:
        fields.forbid(("step_size",), f"step is {step!r}")
    if centered or ball:
        fields.forbid(("momentum", "nonnegative"), f"step is {step!r}")
    if not ball:
        fields.forbid(("worth_within",), f"step is {step!r}")
    if not centered:
        fields.forbid((*CERTIFICATE_TERMS, "earlier"), f"step is {step!r}")
    pricing = Pricing(
        step=step,
        step_size=fields.number("step_size", schema.STEP_SIZE_RANGE) if sized else None,
        **(_certificate_terms(fields, resources) if centered else {}),
        worth_within=_worth_within(fields) if ball else None,
        momentum=fields.number("momentum", schema.MOMENTUM_RANGE, schema.MOMENTUM),
        nonnegative=fields.flag("nonnegative", True),
        start=_start(fields, resources, "worth" if ball else schema.START),
        earlier=_earlier(fields, len(resources)) if centered else (),
    )
    fields.done()
    return pricing


def _earlier(fields: Fields, resources: int) -> tuple[tuple[float, ...], ...]:
    """Rounds of an earlier session: prices, then totals."""
    prices, totals = [schema.EARLIER_PRICES_RANGE], [schema.EARLIER_TOTALS_RANGE]
    limits = prices * resources + totals * resources
    return fields.rows("earlier", schema.MOST_EARLIER_NUMBERS // len(limits), limits)


def _certificate_terms(fields: Fields, resources: tuple[Resource, ...]) -> dict[str, float]:
    """The terms that only the centre rule has: `CERTIFICATE_TERMS`."""
    tolerance = fields.number("tolerance", schema.TOLERANCE_RANGE, schema.TOLERANCE)
    default = max(tolerance, schema.TRADE_LIMIT)
    limit = fields.number("trade_limit", schema.TRADE_LIMIT_RANGE, default)
    if limit < tolerance:
        raise BadAgreement(
            f"prices.trade_limit is {limit:g}, below prices.tolerance ({tolerance:g}): the rounds "
            "would stop at a certificate that allows no trade; raise the limit, or lower the "
            "tolerance"
        )
    gap = fields.number("answer_gap", schema.ANSWER_GAP_RANGE, schema.ANSWER_GAP)
    reserve = _reserve(fields, resources)
    return {
        "tolerance": tolerance,
        "reserve": reserve,
        "trade_limit": limit,
        "answer_gap": gap,
    }


def _reserve(fields: Fields, resources: tuple[Resource, ...]) -> float:
    """The reserve. It is 0 where a resource must be used exactly: no plan could use it all."""
    exact = [r.name for r in resources if r.opposite]
    default = 0.0 if exact else schema.RESERVE
    reserve = fields.number("reserve", schema.RESERVE_RANGE, default)
    if exact and reserve:
        raise BadAgreement(
            f"prices.reserve is {reserve:g}, but the opposite {exact[0]!r} means that a resource "
            "must be used exactly: choose 0"
        )
    return reserve


def _worth_within(fields: Fields) -> float:
    return fields.number("worth_within", schema.WORTH_WITHIN_RANGE, schema.WORTH_WITHIN)


def _start(
    fields: Fields, resources: tuple[Resource, ...], default: str = schema.START
) -> tuple[float, ...]:
    """The first prices: `"zero"`, `"worth"`, or a table with one price for each resource."""
    if fields.has_table("start"):
        names = [r.name for r in resources]
        return _one_for_each(fields.table("start"), names, schema.START_RANGE)
    if fields.choice("start", schema.STARTS, default) == "zero":
        return (0.0,) * len(resources)
    prices = []
    for resource in resources:
        if resource.worth is None:
            raise BadAgreement(
                f"prices.start is 'worth', but resource {resource.name!r} has no worth: give it "
                "one, or choose 'zero'"
            )
        price = resource.worth / resource.measure
        if price > schema.START_RANGE.most:
            raise BadAgreement(
                f"prices.start is 'worth', but a unit of resource {resource.name!r} would cost "
                f"more than {schema.START_RANGE.most:g}; check its worth and capacity"
            )
        prices.append(price)
    return tuple(prices)


def _transport(fields: Fields) -> Transport:
    topology = fields.choice("topology", schema.TOPOLOGIES, schema.TOPOLOGY)
    patience = fields.number("patience_seconds", schema.PATIENCE_RANGE, schema.PATIENCE_SECONDS)
    transport = Transport(
        topology=topology,
        patience_seconds=patience,
        coordinator=_address(fields, "coordinator", ports_above=1 if topology == "relay" else 0),
        coordinator_key=fields.text("coordinator_key", schema.TRANSPORT_KEY),
    )
    fields.done()
    return transport


def _address(fields: Fields, key: str, *, ports_above: int = 0) -> str:
    """An address that others can connect to, also at `ports_above` its port; or nothing."""
    text = fields.text(key, schema.ADDRESS)
    if text:
        try:
            address(text, ports_above)
        except BadAgreement as error:
            raise BadAgreement(f"{fields.where(key)} is {error}") from None
    return text
