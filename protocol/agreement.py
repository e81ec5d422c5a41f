"""The public agreement of one session: resources, members, privacy, prices.

An `Agreement` is complete and valid once it exists: every field is checked here, at the
door, and defaults are filled in. Nothing private and nothing secret may ever be in it.
"""

import hashlib
import json
import math
import re
import reprlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from protocol.errors import BadAgreement

if TYPE_CHECKING:
    from protocol.arrays import Floats, Ticks

TICKS = 1 << 20
"""Ticks in one whole capacity. A released number counts ticks."""

MODES = ("hidden", "private", "clipped")
ACCOUNTANTS = ("exact", "paper")
SHAPES = ("component", "norm", "balanced")
STEPS = ("constant", "sqrt", "theorem", "dog")
TOPOLOGIES = ("relay", "mesh")

MAX_ROUNDS = 1_000_000
MAX_MEMBERS = 10_000
MAX_RESOURCES = 10_000
MAX_START = 1e12


@dataclass(frozen=True)
class Resource:
    """One shared capacity. `worth` is a public guess of what all of it would fetch."""

    name: str
    capacity: float
    unit: str = ""
    worth: float | None = None


@dataclass(frozen=True)
class Member:
    """One company: the largest part of each capacity it may claim, and its public keys."""

    name: str
    share: tuple[float, ...]
    signing_key: bytes = b""
    transport_key: str = ""
    address: str = ""


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """The budget of each party for the whole session. In `hidden` mode there is none."""

    epsilon: float
    delta: float
    accountant: str = "exact"
    noise: str = "component"


@dataclass(frozen=True, kw_only=True)
class Pricing:
    """How the prices start and move."""

    step: str
    step_size: float | None = None
    momentum: float = 0.0
    nonnegative: bool = True
    start: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Transport:
    """How the processes reach each other: may change without changing what was agreed."""

    topology: str = "relay"
    patience_seconds: float = 120.0
    coordinator: str = ""
    coordinator_key: str = ""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What every company signs. `digest` names it; the same content has the same digest."""

    session: str
    mode: str
    rounds: int
    resources: tuple[Resource, ...]
    members: tuple[Member, ...]
    pricing: Pricing
    privacy: Privacy | None = None
    truncate: bool = False
    alpha: float = 1.5
    tau: float = 0.01
    objective_limit: float | None = None
    rehearsal: bool = False
    transport: Transport = Transport()

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical form. Addresses and patience are left out."""
        return hashlib.sha256(b"sotto agreement 1\n" + canonical(self).encode()).digest()

    @property
    def width(self) -> int:
        """How many numbers a release carries: one per resource, one more with objectives."""
        return len(self.resources) + (self.objective_limit is not None)

    @cached_property
    def capacity(self) -> "Floats":
        array: Floats = _array([r.capacity for r in self.resources])
        return array

    @cached_property
    def worth(self) -> "Floats | None":
        """What each whole capacity may fetch, or None if any resource does not say."""
        known = [r.worth for r in self.resources if r.worth is not None]
        array: Floats = _array(known)
        return array if len(known) == len(self.resources) else None

    @cached_property
    def share(self) -> "Floats":
        """Members by resources: the part of each capacity a member may claim."""
        array: Floats = _array([m.share for m in self.members])
        return array

    @cached_property
    def share_ticks(self) -> "Ticks":
        """`share` in ticks: no release is computed from more than this.

        Rounded up, so that shares which add up to 1 leave no tick of a capacity unused.
        """
        array: Ticks = _array([_share_ticks(m) for m in self.members])
        return array

    @cached_property
    def _places(self) -> dict[str, int]:
        return {member.name: index for index, member in enumerate(self.members)}

    def place(self, name: str) -> int:
        """Where a member stands in the roster."""
        if name in self._places:
            return self._places[name]
        names = ", ".join(map(repr, self._places))
        raise BadAgreement(f"{name!r} is not a member of {self.session!r}; the members are {names}")


def _share_ticks(member: Member) -> list[int]:
    return [math.ceil(part * TICKS) for part in member.share]


def _array(values: list[Any]) -> Any:
    """Loads numpy only here: a coordinator reads agreements and never computes."""
    import numpy as np

    from protocol.arrays import frozen

    return frozen(np.array(values))


def canonical(agreement: Agreement) -> str:
    """One line of JSON that is the same for every layout of the same agreement."""
    content = {
        "session": agreement.session,
        "mode": agreement.mode,
        "rounds": agreement.rounds,
        "rehearsal": agreement.rehearsal,
        "truncate": agreement.truncate,
        "alpha": agreement.alpha if agreement.mode == "clipped" else None,
        "tau": agreement.tau if agreement.mode == "clipped" or agreement.truncate else None,
        "objective_limit": agreement.objective_limit,
        "privacy": None if agreement.privacy is None else vars(agreement.privacy),
        "pricing": vars(agreement.pricing),
        "resources": [vars(r) for r in agreement.resources],
        "members": [
            {
                "name": m.name,
                "share": m.share,
                "signing_key": m.signing_key.hex(),
                "transport_key": m.transport_key,
            }
            for m in agreement.members
        ],
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse(text: str) -> Agreement:
    """Read `agreement.toml`. Raises nothing but `BadAgreement`."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # bad TOML, or numbers and nesting too long
        raise BadAgreement(f"the agreement is not valid TOML: {error}") from None
    return from_table(table)


def from_table(table: Mapping[str, Any]) -> Agreement:
    """Check every field of a parsed agreement and fill in the defaults."""
    top = _Fields(table, "")
    session = top.name("session")
    mode = top.choice("mode", MODES)
    noisy = mode != "hidden"
    rounds = top.integer("rounds", 1, MAX_ROUNDS)
    rehearsal = top.flag("rehearsal", False)
    resources = tuple(_resource(f) for f in top.tables("resource", 1, MAX_RESOURCES))
    names = [r.name for r in resources]
    members = tuple(_member(f, names) for f in top.tables("member", 2, MAX_MEMBERS))
    _unique("resource", names)
    _unique("member", [m.name for m in members])
    _unique("member signing_key", [m.signing_key.hex() for m in members if m.signing_key])
    _unique("member transport_key", [m.transport_key for m in members if m.transport_key])

    secrecy = top.table("privacy")
    if not noisy:
        unused = ("epsilon", "delta", "accountant", "noise", "truncate", "alpha", "tau")
        secrecy.forbid(unused, "mode is 'hidden'")
    privacy = _privacy(secrecy) if noisy else None
    truncate = secrecy.flag("truncate", False) if noisy else False
    alpha = secrecy.number("alpha", 1.5, at_least=1.0, at_most=float(len(members)))
    tau = secrecy.number("tau", 0.01, at_least=1e-4, at_most=0.5)
    limit = None
    if secrecy.flag("share_objective", False):
        worths = [r.worth for r in resources if r.worth is not None]
        default = math.fsum(worths) if len(worths) == len(resources) else None
        limit = secrecy.number("objective_limit", default, at_least=1e-9, at_most=1e15)
    else:
        secrecy.forbid(("objective_limit",), "share_objective is not true")
    secrecy.done()

    pricing = _pricing(top.table("prices"), noisy=noisy, resources=resources)
    transport = _transport(top.table("transport"))
    top.done()
    agreement = Agreement(
        session=session,
        mode=mode,
        rounds=rounds,
        resources=resources,
        members=members,
        pricing=pricing,
        privacy=privacy,
        truncate=truncate,
        alpha=alpha,
        tau=tau,
        objective_limit=limit,
        rehearsal=rehearsal,
        transport=transport,
    )
    totals = map(sum, zip(*map(_share_ticks, members), strict=True))
    for resource, total in zip(resources, totals, strict=True):
        if total < TICKS:
            raise BadAgreement(
                f"the shares in resource {resource.name!r} add up to less than 1, "
                "so part of it could never be used; raise the share of some member"
            )
    return agreement


def _resource(fields: "_Fields") -> Resource:
    resource = Resource(
        name=fields.name("name"),
        capacity=fields.number("capacity", at_least=1e-9, at_most=1e12),
        unit=fields.text("unit", _LINE),
        worth=fields.optional_number("worth", at_least=0.0, at_most=1e15),
    )
    fields.done()
    return resource


def _member(fields: "_Fields", resources: list[str]) -> Member:
    member = Member(
        name=fields.name("name"),
        share=fields.share("share", resources),
        signing_key=fields.key("signing_key"),
        transport_key=fields.text("transport_key", _CURVE_KEY),
        address=fields.text("address", _ADDRESS),
    )
    fields.done()
    return member


def _privacy(fields: "_Fields") -> Privacy:
    return Privacy(
        epsilon=fields.number("epsilon", at_least=1e-6, at_most=100.0),
        delta=fields.number("delta", at_least=1e-10, at_most=0.1),
        accountant=fields.choice("accountant", ACCOUNTANTS, "exact"),
        noise=fields.choice("noise", SHAPES, "component"),
    )


def _pricing(fields: "_Fields", *, noisy: bool, resources: tuple[Resource, ...]) -> Pricing:
    step = fields.choice("step", STEPS, "theorem" if noisy else "dog")
    sized = step in ("constant", "sqrt")
    if not sized:
        fields.forbid(("step_size",), f"step is {step!r}")
    pricing = Pricing(
        step=step,
        step_size=fields.number("step_size", at_least=1e-15, at_most=1e15) if sized else None,
        momentum=fields.number("momentum", 0.0, at_least=0.0, at_most=0.999),
        nonnegative=fields.flag("nonnegative", True),
        start=fields.start("start", resources),
    )
    if step == "theorem" and not all(r.worth for r in resources):
        lacking = next(r.name for r in resources if not r.worth)
        raise BadAgreement(
            f"prices.step is 'theorem', but resource {lacking!r} has no positive worth: "
            "say what its whole capacity might fetch, or choose another step"
        )
    fields.done()
    return pricing


def _transport(fields: "_Fields") -> Transport:
    transport = Transport(
        topology=fields.choice("topology", TOPOLOGIES, "relay"),
        patience_seconds=fields.number("patience_seconds", 120.0, at_least=0.1, at_most=1e7),
        coordinator=fields.text("coordinator", _ADDRESS),
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


# What a text may look like, and how to say so to a person.
_LINE = (r"[^\x00-\x1f]{0,80}", "one line of at most 80 characters")
_ADDRESS = (r"tcp://\S{1,255}:[0-9]{1,5}", "an address of the form 'tcp://host:port'")
_CURVE_KEY = (r"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}", "a public key of 40 Z85 characters")

_BRIEF = reprlib.Repr()
_BRIEF.maxstring = 100


def _shown(value: Any) -> str:
    """A value for an error message, no longer than a person reads."""
    if value is None:
        return "missing"
    try:
        return _BRIEF.repr(value)
    except ValueError:
        return "a number of thousands of digits"


class _Fields:
    """One table of the file. Every take names the field, the value and what is allowed."""

    def __init__(self, table: Any, path: str) -> None:
        if not isinstance(table, Mapping):
            raise BadAgreement(f"{path} is {_shown(table)}: it must be a table")
        self._rest = dict(table)
        self._path = path

    def _where(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _wrong(self, key: str, value: Any, allowed: str) -> BadAgreement:
        return BadAgreement(f"{self._where(key)} is {_shown(value)}: it must be {allowed}")

    def number(
        self, key: str, default: float | None = None, *, at_least: float, at_most: float
    ) -> float:
        value = self._rest.pop(key, default)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not at_least <= value <= at_most:
            raise self._wrong(key, value, f"a number from {at_least:g} to {at_most:g}")
        return float(value) + 0.0  # -0.0 becomes 0.0, which is the same number

    def optional_number(self, key: str, *, at_least: float, at_most: float) -> float | None:
        return self.number(key, at_least=at_least, at_most=at_most) if key in self._rest else None

    def integer(self, key: str, at_least: int, at_most: int) -> int:
        value = self._rest.pop(key, None)
        if type(value) is not int or not at_least <= value <= at_most:
            raise self._wrong(key, value, f"a whole number from {at_least} to {at_most}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._rest.pop(key, default)
        if type(value) is not bool:
            raise self._wrong(key, value, "true or false")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        value = self._rest.pop(key, default)
        if not isinstance(value, str) or value not in allowed:
            raise self._wrong(key, value, "one of " + ", ".join(map(repr, allowed)))
        return value

    def text(self, key: str, form: tuple[str, str]) -> str:
        value = self._rest.pop(key, "")
        if not isinstance(value, str) or (value and not re.fullmatch(form[0], value)):
            raise self._wrong(key, value, form[1])
        return value

    def name(self, key: str) -> str:
        value = self._rest.pop(key, None)
        if not isinstance(value, str) or not re.fullmatch(
            r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", value
        ):
            raise self._wrong(key, value, "a name of 1 to 64 letters, digits, '_', '.' and '-'")
        return value

    def key(self, key: str) -> bytes:
        value = self._rest.pop(key, "")
        if not isinstance(value, str) or not re.fullmatch(r"([0-9a-f]{64})?", value):
            raise self._wrong(key, value, "a public key of 64 hexadecimal digits")
        return bytes.fromhex(value)

    def share(self, key: str, resources: list[str]) -> tuple[float, ...]:
        """A number for all resources, or a table with one number for each."""
        value = self._rest.get(key, 1.0)
        if not isinstance(value, Mapping):
            return (self.number(key, 1.0, at_least=0.0, at_most=1.0),) * len(resources)
        fields = _Fields(self._rest.pop(key), self._where(key))
        share = tuple(fields.number(name, at_least=0.0, at_most=1.0) for name in resources)
        fields.done()
        return share

    def start(self, key: str, resources: tuple[Resource, ...]) -> tuple[float, ...]:
        """`"zero"`, `"worth"`, or a table with one price for each resource."""
        value = self._rest.get(key, "zero")
        if isinstance(value, Mapping):
            fields = _Fields(self._rest.pop(key), self._where(key))
            prices = tuple(
                fields.number(r.name, at_least=-MAX_START, at_most=MAX_START) for r in resources
            )
            fields.done()
            return prices
        if self.choice(key, ("zero", "worth"), "zero") == "zero":
            return (0.0,) * len(resources)
        for resource in resources:
            if resource.worth is None:
                raise BadAgreement(
                    f"{self._where(key)} is 'worth', but resource {resource.name!r} has none"
                )
            if resource.worth / resource.capacity > MAX_START:
                raise BadAgreement(
                    f"{self._where(key)} is 'worth', but a unit of resource {resource.name!r} "
                    f"would cost more than {MAX_START:g}; check its worth and capacity"
                )
        return tuple((r.worth or 0.0) / r.capacity for r in resources)

    def table(self, key: str) -> "_Fields":
        return _Fields(self._rest.pop(key, {}), self._where(key))

    def tables(self, key: str, at_least: int, at_most: int) -> list["_Fields"]:
        value = self._rest.pop(key, None)
        if not isinstance(value, list) or not at_least <= len(value) <= at_most:
            raise self._wrong(key, value, f"a list of {at_least} to {at_most} [[{key}]] tables")
        return [_Fields(v, f"{self._where(key)}[{i}]") for i, v in enumerate(value)]

    def forbid(self, keys: tuple[str, ...], why: str) -> None:
        for key in keys:
            if key in self._rest:
                raise BadAgreement(f"{self._where(key)} has no meaning where {why}; leave it out")

    def done(self) -> None:
        """Refuse what nobody asked for: a misspelt field must not pass as a default."""
        for key in self._rest:
            raise BadAgreement(f"{self._where(key)} is not a field of an agreement; check the name")
