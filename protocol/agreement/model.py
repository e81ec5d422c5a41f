"""The public agreement of one session: resources, members, privacy, prices.

An `Agreement` is complete and valid once it exists: `toml` checks every field at the door
and fills in the defaults. Nothing private and nothing secret may ever be in it.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from protocol.agreement.schema import FINE_TICKS, TICKS
from protocol.errors import BadAgreement


@dataclass(frozen=True)
class Resource:
    """One shared capacity. `worth` is a public guess of what all of it would fetch.

    Where members bring some of it, the capacity may be 0 or negative: what they must bring
    together. `span` is then the amount that shares, floors and worth are about. `opposite` names a
    resource that this is the other side of: of which not less than −capacity may be used. With both
    a resource must be used exactly, and what its use is worth is the difference of two prices,
    which may have either sign.
    """

    name: str
    capacity: float
    unit: str = ""
    worth: float | None = None
    span: float | None = None
    opposite: str = ""

    @property
    def measure(self) -> float:
        """The positive amount that parts of this resource are parts of."""
        return self.capacity if self.span is None else self.span


@dataclass(frozen=True)
class Member:
    """One company: the largest part of each capacity it may claim, and its public keys.

    `endowment` is the part of each capacity that it brings, or would have without the others;
    empty where nobody says so. `floor` is the least part of each that it is given, empty where
    that is nothing; below 0 it is the most that it may bring, and is paid for.
    """

    name: str
    share: tuple[float, ...]
    endowment: tuple[float, ...] = ()
    floor: tuple[float, ...] = ()
    signing_key: bytes = b""
    transport_key: str = ""
    address: str = ""


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """The budget of each party for the whole session. In `exact` mode there is none.

    `colluders` and `overrun` belong to `totals`, and are None elsewhere: how many members may
    tell each other all they know and still learn no more of another than ε and δ allow, and the
    risk that in this session the private quotas are together above some capacity.
    """

    epsilon: float
    delta: float
    accountant: str = "exact"
    noise: str = "component"
    colluders: int | None = None
    overrun: float | None = None


@dataclass(frozen=True, kw_only=True)
class Pricing:
    """How the prices start and move, and when the rounds may stop.

    `tolerance` and `reserve` belong to the centre rule: the part of what all capacities are
    worth that its certificate must reach, and the part of each capacity that the rounds leave.
    """

    step: str
    step_size: float | None = None
    tolerance: float | None = None
    reserve: float | None = None
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
    """What every company signs. `digest` names it; the same content has the same digest.

    `reveal` says what can be read of the releases of a round: `each` of them, or their `totals`
    alone. `pace_seconds` after a member has got to a round its release leaves, whatever its
    solver took; without it, as soon as it is ready.
    """

    session: str
    mode: str
    rounds: int
    resources: tuple[Resource, ...]
    members: tuple[Member, ...]
    pricing: Pricing
    reveal: str = "each"
    privacy: Privacy | None = None
    truncate: bool = False
    alpha: float = 1.5
    tau: float = 0.01
    objective_limit: float | None = None
    currency: str = ""
    rehearsal: bool = False
    pace_seconds: float | None = None
    transport: Transport = Transport()

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical form. Addresses and patience are left out."""
        return hashlib.sha256(b"sotto agreement 1\n" + canonical(self).encode()).digest()

    @property
    def masked(self) -> bool:
        """Whether releases are masked, so that nobody can read one by itself."""
        return self.reveal == "totals"

    @property
    def ticks(self) -> int:
        """Ticks in one whole capacity. A released number counts ticks."""
        return FINE_TICKS if self.pricing.step == "center" else TICKS

    @property
    def width(self) -> int:
        """How many numbers a release carries: one per resource, one more with objectives."""
        return len(self.resources) + (self.objective_limit is not None)

    @cached_property
    def banded(self) -> bool:
        """Whether any member has a floor, or any resource a span of its own."""
        return any(m.floor for m in self.members) or any(r.span is not None for r in self.resources)

    def floor_of(self, member: Member, j: int) -> float:
        """The least of resource `j` that a member is given, in the unit of the resource."""
        return member.floor[j] * self.resources[j].measure if member.floor else 0.0

    def above_floors(self, j: int) -> float:
        """What there is of resource `j` above the floors of all members. Never rounded up."""
        if not self.banded:
            return self.resources[j].capacity
        exact = Fraction(self.resources[j].capacity)
        exact -= sum(Fraction(self.floor_of(member, j)) for member in self.members)
        above = float(exact)
        return above if Fraction(above) <= exact else math.nextafter(above, -math.inf)

    def share_of(self, member: Member, j: int) -> float:
        """The part of what is above the floors of resource `j` that a member may claim."""
        if not self.banded:
            return member.share[j]
        width = member.share[j] * self.resources[j].measure - self.floor_of(member, j)
        return min(1.0, max(0.0, width / self.above_floors(j)))

    def share_ticks_of(self, member: Member, j: int) -> int:
        """`share_of` in ticks, rounded up: shares that add up to 1 leave no tick unused."""
        return math.ceil(self.share_of(member, j) * self.ticks)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {member.name: index for index, member in enumerate(self.members)}

    def place(self, name: str) -> int:
        """Where a member stands in the roster."""
        if name in self._places:
            return self._places[name]
        names = ", ".join(map(repr, self._places))
        raise BadAgreement(f"{name!r} is not a member of {self.session!r}; the members are {names}")


def canonical(agreement: Agreement) -> str:
    """One line of JSON that is the same for every layout of the same agreement."""
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
        "privacy": None
        if agreement.privacy is None
        else _without(vars(agreement.privacy), "colluders", "overrun"),
        "pricing": _without(vars(agreement.pricing), "tolerance", "reserve"),
        "currency": agreement.currency,
        "resources": [_without(vars(r), "span", "opposite") for r in agreement.resources],
        "members": [
            _without(
                {
                    "name": m.name,
                    "share": m.share,
                    "endowment": m.endowment,
                    "floor": m.floor,
                    "signing_key": m.signing_key.hex(),
                    "transport_key": m.transport_key,
                },
                "endowment",
                "floor",
            )
            for m in agreement.members
        ],
    }
    content = _without(content, "currency", "pace_seconds", "reveal")
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _without(terms: dict[str, Any], *optional: str) -> dict[str, Any]:
    """Terms less those of these that an agreement does not have."""
    return {k: v for k, v in terms.items() if k not in optional or v not in (None, "", ())}
