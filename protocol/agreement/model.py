"""The public agreement of one session: resources, members, privacy, prices, transport.

`parse` builds an `Agreement` from its file, checks every field and fills in the defaults. Nothing
private and nothing secret may ever be in it, and nothing here loads numpy.
"""

import hashlib
import json
import math
from fractions import Fraction
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from protocol.agreement import schema
from protocol.errors import BadAgreement

CERTIFICATE_TERMS = ("tolerance", "reserve", "trade_limit", "answer_gap")
"""The terms of the price rule that only the centre rule has."""


class Role(Struct, frozen=True):
    """A recipient of claims outside the session."""

    name: str
    #: A public key of X25519, to which claims are sealed.
    key: bytes


class Resource(Struct, frozen=True):
    """One shared capacity."""

    name: str
    #: How much there is, in units. With a `span` it may be 0 or negative: then members must bring
    #: at least that much together.
    capacity: float
    unit: str = ""
    #: A public estimate of the whole capacity's value.
    worth: float | None = None
    #: The amount that shares, floors and worth are fractions of. Without it, the capacity is.
    span: float | None = None
    #: The resource that this one bounds from below: members use at least −capacity of it. With
    #: both, a resource must be used exactly. The difference of the two prices is then the value
    #: of a unit, of either sign.
    opposite: str = ""
    #: Step `ball`: the fraction of the capacity that is available in addition when needed.
    spare: float | None = None
    #: Who runs it, and receives the claims to quotas of it.
    operator: Role | None = None
    #: What a unit above the quota costs. None: twice the price of the outcome.
    overrun_price: float | None = None

    @property
    def measure(self) -> float:
        """The positive amount that shares, floors and worth are fractions of."""
        return self.capacity if self.span is None else self.span

    def with_capacity(self, capacity: float) -> "Resource":
        """This resource with another capacity. Its worth follows: a unit is worth the same."""
        if capacity == self.capacity:
            return self
        worth = self.worth
        if worth is not None and self.span is None:
            worth *= capacity / self.capacity
        return replace(self, capacity=capacity, worth=worth)


class Member(Struct, frozen=True):
    """One company: its fractions of each resource, in the order of the resources, and its keys."""

    name: str
    #: The most that it may claim.
    share: tuple[float, ...]
    #: What it brings, or would have without the others. Empty if the agreement has none.
    endowment: tuple[float, ...] = ()
    #: The least that it is given; below 0, the most that it brings and is paid for. Empty: 0.
    floor: tuple[float, ...] = ()
    signing_key: bytes = b""
    transport_key: str = ""
    address: str = ""


class Privacy(Struct, frozen=True, kw_only=True):
    """The privacy budget of each party for the whole session. Mode `exact` has none."""

    epsilon: float
    delta: float
    accountant: str = schema.ACCOUNTANT
    noise: str = schema.SHAPE
    #: With `totals`: members that may share all they know and still learn no more about another
    #: than ε and δ allow.
    colluders: int | None = None
    #: With `totals`: the risk that the private quotas together exceed some capacity.
    overrun: float | None = None


class Pricing(Struct, frozen=True, kw_only=True):
    """How prices start and move, and when the rounds may stop."""

    step: str
    #: For the steps `constant` and `sqrt`.
    step_size: float | None = None
    #: Centre rule: the rounds stop at a certificate of this fraction of all worth.
    tolerance: float | None = None
    #: Centre rule: the fraction of each capacity that the rounds leave.
    reserve: float | None = None
    #: Step `ball`: the first prices are the best ones within about this factor.
    worth_within: float | None = None
    #: Centre rule: with a certificate above this fraction of all worth, there is no trade.
    trade_limit: float | None = None
    #: Centre rule: how far an answer may be from the best one, as a fraction of all worth.
    answer_gap: float | None = None
    momentum: float = schema.MOMENTUM
    nonnegative: bool = True
    start: tuple[float, ...] = ()
    #: Centre rule: rounds of an earlier session, oldest first. Each has the price of every resource
    #: and then every total as a fraction of the capacity. They choose prices and prove nothing.
    earlier: tuple[tuple[float, ...], ...] = ()


class Transport(Struct, frozen=True, kw_only=True):
    """How the processes reach each other. It is not part of the digest, so it may change."""

    topology: str = schema.TOPOLOGY
    patience_seconds: float = schema.PATIENCE_SECONDS
    coordinator: str = ""
    coordinator_key: str = ""


class Agreement(Struct, frozen=True, kw_only=True, dict=True):
    """The terms that every member signs up to. The same content has the same digest.

    It has 17 fields because the canonical form, and so the digest, is flat in the same way.
    """

    session: str
    mode: str
    rounds: int
    resources: tuple[Resource, ...]
    members: tuple[Member, ...]
    pricing: Pricing
    #: What others can read in a round: `each` release, or only the `totals` over all members.
    reveal: str = schema.REVEAL
    privacy: Privacy | None = None
    #: Whether noisy demands are cut to [τ, 1] capacities before they are released.
    truncate: bool = False
    #: Mode `clipped`: the sum of all caps of a resource, in capacities.
    alpha: float = schema.ALPHA
    #: Mode `clipped` and `truncate`: the smallest noisy demand that counts, in capacities.
    tau: float = schema.TAU
    #: The cap of a shared objective; None if objectives are not shared.
    objective_limit: float | None = None
    currency: str = ""
    rehearsal: bool = False
    #: Every release is sent this many seconds after its round opens. None: as soon as it is ready.
    pace_seconds: float | None = None
    #: Who receives the claims to payments.
    clearing: Role | None = None
    transport: Transport = Transport()

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical form. Addresses and patience are left out."""
        return hashlib.sha256(b"sotto agreement 1\n" + canonical(self).encode()).digest()

    @property
    def masked(self) -> bool:
        """Whether releases are masked, so that only totals can be read."""
        return self.reveal == "totals"

    @property
    def ball(self) -> bool:
        """Whether answers are clipped to a ball around the endowment (step `ball`)."""
        return self.pricing.step == "ball"

    @property
    def commits(self) -> bool:
        """Whether members commit to their quotas and payments after the last round.

        With noise they do not: a member could count its demand as noise.
        """
        return self.masked and self.mode == "exact"

    def counted(self, closed: int) -> str:
        """The number of closed rounds, and how many there are (at most), in words."""
        most = "at most " if self.pricing.step == "center" else ""
        return f"round {closed} of {most}{self.rounds}"

    @property
    def ticks(self) -> int:
        """Ticks in one capacity. A released number counts ticks."""
        return schema.FINE_TICKS if self.pricing.step == "center" else schema.TICKS

    @property
    def width(self) -> int:
        """Numbers in a release: one per resource, and one more for a shared objective."""
        return len(self.resources) + (self.objective_limit is not None)

    @cached_property
    def banded(self) -> bool:
        """Whether any member has a floor or any resource a span."""
        return any(m.floor for m in self.members) or any(r.span is not None for r in self.resources)

    def floor_of(self, member: Member, j: int) -> float:
        """A member's floor in resource `j`, in units."""
        return member.floor[j] * self.resources[j].measure if member.floor else 0.0

    def above_floors(self, j: int) -> float:
        """The capacity of resource `j` above the floors of all members, never rounded up."""
        return self._above_floors[j]

    @cached_property
    def _above_floors(self) -> tuple[float, ...]:
        """Computed once, because the share of every member depends on it."""
        return tuple(map(self._without_floors, range(len(self.resources))))

    def _without_floors(self, j: int) -> float:
        if not self.banded:
            return self.resources[j].capacity
        exact = Fraction(self.resources[j].capacity)
        exact -= sum(Fraction(self.floor_of(member, j)) for member in self.members)
        above = float(exact)
        return above if Fraction(above) <= exact else math.nextafter(above, -math.inf)

    def share_of(self, member: Member, j: int) -> float:
        """The most that a member may claim of resource `j`, as a fraction of `above_floors`."""
        if not self.banded:
            return member.share[j]
        width = member.share[j] * self.resources[j].measure - self.floor_of(member, j)
        return min(1.0, max(0.0, width / self.above_floors(j)))

    def share_ticks_of(self, member: Member, j: int) -> int:
        """`share_of` in ticks, rounded up, so that shares that add up to 1 cover every tick."""
        return math.ceil(self.share_of(member, j) * self.ticks)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {member.name: index for index, member in enumerate(self.members)}

    def place(self, name: str) -> int:
        """The row of a member in the roster, from 0."""
        if name in self._rows:
            return self._rows[name]
        names = ", ".join(map(repr, self._rows))
        raise BadAgreement(f"{name!r} is not a member of {self.session!r}; the members are {names}")


_OPTIONAL = ("span", "opposite", "spare", "operator", "overrun_price")


def canonical(agreement: Agreement) -> str:
    """One line of JSON that depends on the terms only, not on the layout of the file."""
    content = {
        "session": agreement.session,
        "mode": agreement.mode,
        "reveal": agreement.reveal if agreement.masked else None,
        "rounds": agreement.rounds,
        "rehearsal": agreement.rehearsal,
        "pace_seconds": agreement.pace_seconds,
        "truncate": agreement.truncate,
        "alpha": agreement.alpha if agreement.mode == "clipped" else None,
        "tau": agreement.tau if agreement.mode == "clipped" or agreement.truncate else None,
        "objective_limit": agreement.objective_limit,
        "privacy": agreement.privacy
        and _without(asdict(agreement.privacy), "colluders", "overrun"),
        "pricing": _without(
            asdict(agreement.pricing), *CERTIFICATE_TERMS, "worth_within", "earlier"
        ),
        "currency": agreement.currency,
        "clearing": role_terms(agreement.clearing),
        "resources": [
            _without(asdict(r) | {"operator": role_terms(r.operator)}, *_OPTIONAL)
            for r in agreement.resources
        ],
        "members": [
            _without(
                asdict(m) | {"signing_key": m.signing_key.hex(), "address": None},
                *("address", "endowment", "floor"),
            )
            for m in agreement.members
        ],
    }
    content = _without(content, "currency", "pace_seconds", "reveal", "clearing")
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def role_terms(role: Role | None) -> dict[str, str] | None:
    """The name and the key of a role, as a file and the canonical form have them."""
    return None if role is None else {"name": role.name, "key": role.key.hex()}


def _without(terms: dict[str, Any], *optional: str) -> dict[str, Any]:
    """These terms without the `optional` ones that have no value."""
    return {k: v for k, v in terms.items() if k not in optional or v not in (None, "", ())}
