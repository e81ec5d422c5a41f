"""Reference implementation of the agreement file, SPEC.md §15 and §1.

From a parsed table to its terms, slow and plain. It must refuse exactly what the product refuses,
and give the same digest for the rest. Never imports the product.
"""

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

NAME = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
HOST = r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?"
BRACKETED = r"\[[0-9a-fA-F:.]{2,45}\]"
EVERYWHERE = ("0.0.0.0", "[::]")  # noqa: S104 - nothing is bound here
KEY = r"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}"
MODES = ("exact", "private", "clipped")
STEPS = ("center", "ball", "worth", "constant", "sqrt", "theorem")

Table = dict[str, Any]


class Refused(Exception):
    """The file is not an agreement."""


@dataclass
class Resource:
    name: str
    capacity: float
    unit: str
    worth: float | None
    span: float | None
    opposite: str
    spare: float | None

    @property
    def whole(self) -> float:
        """What parts are parts of."""
        return self.capacity if self.span is None else self.span


@dataclass
class Member:
    name: str
    floor: list[float]
    share: list[float]
    endowment: list[float]
    signing_key: bytes
    transport_key: str


@dataclass
class Privacy:
    epsilon: float
    delta: float
    accountant: str
    noise: str
    colluders: int = 0
    overrun: float = 0.0


@dataclass
class Pricing:
    step: str
    step_size: float | None
    tolerance: float | None
    reserve: float | None
    trade_limit: float | None
    answer_gap: float | None
    momentum: float
    nonnegative: bool
    worth_within: float | None = None
    start: list[float] = field(default_factory=list)
    earlier: list[list[float]] = field(default_factory=list)


@dataclass
class Terms:
    """All that an agreement says and that the digest names, defaults filled in.

    What follows from it is computed once: terms do not change after they are read.
    """

    session: str
    mode: str
    rounds: int
    rehearsal: bool
    currency: str
    resources: list[Resource]
    members: list[Member]
    privacy: Privacy | None
    truncate: bool
    alpha: float
    tau: float
    objective_limit: float | None
    pricing: Pricing
    reveal: str = "each"
    pace_seconds: float | None = None

    @property
    def ticks(self) -> int:
        """N."""
        return 1 << 40 if self.pricing.step == "center" else 1 << 20

    @cached_property
    def floors(self) -> list[list[float]]:
        """f, in units."""
        return [
            [part * r.whole for part, r in zip(m.floor, self.resources, strict=True)]
            if m.floor
            else [0.0] * len(self.resources)
            for m in self.members
        ]

    @property
    def banded(self) -> bool:
        """Whether there is a floor or a span anywhere."""
        return any(m.floor for m in self.members) or any(r.span for r in self.resources)

    @cached_property
    def capacity(self) -> list[float]:
        """c: above the floors, where there are any."""
        found = []
        for r, floors in zip(self.resources, zip(*self.floors, strict=True), strict=True):
            exact = Fraction(r.capacity) - sum(map(Fraction, floors))
            above = float(exact)
            found.append(above if Fraction(above) <= exact else math.nextafter(above, -math.inf))
        return found

    @cached_property
    def worth(self) -> list[float] | None:
        """That of every resource, or none."""
        found = []
        for r, c in zip(self.resources, self.capacity, strict=True):
            if r.worth is None:
                return None
            found.append(r.worth if c == r.whole else r.worth * c / r.whole)
        return found

    @cached_property
    def shares(self) -> list[list[float]]:
        if not self.banded:
            return [member.share for member in self.members]
        found = []
        for m, floors in zip(self.members, self.floors, strict=True):
            columns = zip(m.share, floors, self.resources, self.capacity, strict=True)
            found.append([min(1.0, max(0.0, (s * r.whole - f) / c)) for s, f, r, c in columns])
        return found

    @cached_property
    def share_ticks(self) -> list[list[int]]:
        return [[math.ceil(part * self.ticks) for part in row] for row in self.shares]


def check(holds: bool, why: str) -> None:
    if not holds:
        raise Refused(why)


class Rows:
    """One table of the file: each field is taken once, and none may be left."""

    def __init__(self, table: Any) -> None:
        check(isinstance(table, dict), "not a table")
        self.rest: Table = dict(table)

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        value = self.rest.pop(key, default)
        check(type(value) in (int, float) and low <= value <= high, key)
        return 0.0 if value == 0 else float(value)

    def maybe(self, key: str, low: float, high: float) -> float | None:
        return self.number(key, low, high) if key in self.rest else None

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        value = self.rest.pop(key, default)
        check(type(value) is int and low <= value <= high, key)
        return int(value)

    def boolean(self, key: str, default: bool) -> bool:
        value = self.rest.pop(key, default)
        check(type(value) is bool, key)
        return bool(value)

    def word(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        value = self.rest.pop(key, default)
        check(type(value) is str and value in allowed, key)
        return str(value)

    def name(self) -> str:
        value = self.rest.pop("name", None)
        check(type(value) is str and re.fullmatch(NAME, value) is not None, "name")
        return str(value)

    def text(self, key: str, form: str) -> str:
        value = self.rest.pop(key, "")
        check(type(value) is str, key)
        check(value == "" or re.fullmatch(form, value) is not None, key)
        return str(value)

    def address(self, key: str, above: int = 0) -> None:
        value = self.rest.pop(key, "")
        check(type(value) is str, key)
        if value == "":
            return
        found = re.fullmatch(rf"tcp://({HOST}|{BRACKETED}):([1-9][0-9]{{0,4}})", value)
        check(found is not None, key)
        if found is not None:
            check(len(found[1]) <= 255 and found[1] not in EVERYWHERE, key)
            check(int(found[3]) + above <= 65535, key)

    def each(self, key: str, names: list[str], low: float, high: float) -> list[float]:
        rows = Rows(self.rest.pop(key))
        values = [rows.number(name, low, high) for name in names]
        rows.end()
        return values

    def parts(self, key: str, names: list[str], low: float) -> list[float]:
        if isinstance(self.rest.get(key), dict):
            return self.each(key, names, low, 1.0)
        part = self.maybe(key, low, 1.0)
        return [] if part is None else [part] * len(names)

    def table(self, key: str) -> "Rows":
        return Rows(self.rest.pop(key, {}))

    def tables(self, key: str, low: int) -> list["Rows"]:
        value = self.rest.pop(key, None)
        check(type(value) is list and low <= len(value) <= 10_000, key)
        return [Rows(part) for part in value]

    def only(self, meant: bool, *keys: str) -> None:
        """These have a meaning in some agreements only."""
        check(meant or not any(key in self.rest for key in keys), ", ".join(keys))

    def end(self) -> None:
        check(not self.rest, ", ".join(self.rest))


def terms(table: Table) -> Terms:
    """Read a parsed file."""
    top = Rows(table)
    session = Rows({"name": top.rest.pop("session", None)}).name()
    mode = top.word("mode", MODES)
    reveal = top.word("reveal", ("each", "totals"), "each")
    rounds, rehearsal = top.integer("rounds", 1, 1_000_000), top.boolean("rehearsal", False)
    pace = top.maybe("pace_seconds", 0.001, 3600.0)
    if pace is None and mode in ("private", "clipped") and not rehearsal:
        pace = 0.25
    currency = top.text("currency", "[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]{1,8}")
    check(not any(character.isspace() for character in currency), "currency")
    resources = [resource(rows) for rows in top.tables("resource", 1)]
    names = [r.name for r in resources]
    members = [member(rows, names) for rows in top.tables("member", 2)]
    whole = Terms(
        session=session,
        mode=mode,
        rounds=rounds,
        rehearsal=rehearsal,
        currency=currency,
        resources=resources,
        members=members,
        pricing=pricing(top.table("prices"), mode, reveal, resources),
        reveal=reveal,
        pace_seconds=pace,
        **secrecy(top.table("privacy"), mode, reveal == "totals", resources, len(members)),
    )
    transport(top.table("transport"))
    top.end()
    different(names)
    told_apart(names)
    check(reveal == "each" or "payment" not in map(str.lower, names), "payment")
    opposites([r for r in resources if r.opposite], [r.name for r in resources if not r.opposite])
    different([m.name for m in members])
    told_apart([m.name for m in members])
    different([m.signing_key for m in members if m.signing_key])
    different([m.transport_key for m in members if m.transport_key])
    if whole.pricing.step == "ball":
        check(mode == "private" and reveal == "totals", "ball")
        check(whole.privacy is not None and whole.privacy.noise == "component", "ball, noise")
        check(any(whole.pricing.start), "ball, start")
    else:
        check(all(r.spare is None for r in resources), "spare")
    shared_out(whole)
    return whole


def told_apart(names: list[str]) -> None:
    """No two names that differ in case only, or in what looks alike."""
    looks = []
    for name in names:
        for group in ("-._", "I1l", "Oo0"):
            name = "".join(group[-1] if letter in group else letter for letter in name)
        looks.append(name.replace("rn", "m").replace("vv", "w"))
    different(looks)
    different([name.lower().replace("-", "_").replace(".", "_") for name in names])


def different(things: list[Any]) -> None:
    check(len(set(things)) == len(things), "one thing twice")


def opposites(turned: list[Resource], plain: list[str]) -> None:
    different([r.opposite for r in turned])
    check(all(r.opposite in plain for r in turned), "opposite")


def resource(rows: Rows) -> Resource:
    span = rows.maybe("span", 1e-9, 1e12)
    read = Resource(
        name=rows.name(),
        capacity=rows.number("capacity", 1e-9 if span is None else -1e12, 1e12),
        unit=rows.text("unit", "[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]{0,80}"),
        worth=rows.maybe("worth", 0.0, 1e15),
        span=span,
        opposite=rows.text("opposite", NAME),
        spare=rows.maybe("spare", 0.0, 0.5),
    )
    rows.end()
    return read


def member(rows: Rows, names: list[str]) -> Member:
    floor = rows.parts("floor", names, -1.0)
    low = -1.0 if floor else 0.0
    read = Member(
        name=rows.name(),
        floor=floor,
        share=rows.parts("share", names, low) or [1.0] * len(names),
        endowment=rows.parts("endowment", names, low),
        signing_key=bytes.fromhex(rows.text("signing_key", "[0-9a-fA-F]{64}")),
        transport_key=rows.text("transport_key", KEY),
    )
    rows.address("address")
    rows.end()
    return read


def secrecy(rows: Rows, mode: str, totals: bool, resources: list[Resource], members: int) -> Table:
    noisy = mode != "exact"
    check(not totals or (members >= 3 and mode != "clipped"), "totals")
    rows.only(totals and noisy, "colluders", "overrun")
    keys = ("epsilon", "delta", "accountant", "noise", "truncate", "alpha", "tau")
    rows.only(noisy, *keys)
    truncate = rows.boolean("truncate", False)
    rows.only(mode == "clipped", "alpha")
    rows.only(mode == "clipped" or truncate, "tau")
    privacy = None
    if noisy:
        privacy = Privacy(
            epsilon=rows.number("epsilon", 1e-6, 100.0),
            delta=rows.number("delta", 1e-10, 0.1),
            accountant=rows.word("accountant", ("exact", "paper"), "exact"),
            noise=rows.word("noise", ("component", "norm"), "component"),
        )
        if totals:
            privacy.colluders = rows.integer("colluders", 1, members - 2, 1)
            privacy.overrun = rows.number("overrun", 1e-6, 0.5, 0.05)
    alpha = rows.number("alpha", 1.0, members, 1.5)
    tau = rows.number("tau", 1e-4, 0.5, 0.01)
    limit = None
    shared = rows.boolean("share_objective", False)
    check(not totals or not (truncate or shared), "totals")
    rows.only(shared, "objective_limit")
    if shared:
        worths = [r.worth for r in resources if r.worth is not None]
        default = math.fsum(worths) if len(worths) == len(resources) else None
        limit = rows.number("objective_limit", 1e-9, 1e15, default)
    rows.end()
    return {
        "privacy": privacy,
        "truncate": truncate,
        "alpha": alpha,
        "tau": tau,
        "objective_limit": limit,
    }


def pricing(rows: Rows, mode: str, reveal: str, resources: list[Resource]) -> Pricing:
    usual = "center" if mode == "exact" else "ball" if reveal == "totals" else "worth"
    step = rows.word("step", STEPS, usual)
    sized, centred, ball = step in ("constant", "sqrt"), step == "center", step == "ball"
    check(mode == "exact" or not centred, "center with noise")
    rows.only(sized, "step_size")
    rows.only(centred, "tolerance", "reserve", "trade_limit", "answer_gap", "earlier")
    rows.only(not centred and not ball, "momentum", "nonnegative")
    rows.only(ball, "worth_within")
    exact = any(r.opposite for r in resources)
    tolerance = rows.number("tolerance", 0.0, 1.0, 1e-4) if centred else None
    least = tolerance or 0.0
    read = Pricing(
        step=step,
        step_size=rows.number("step_size", 1e-15, 1e15) if sized else None,
        tolerance=tolerance,
        trade_limit=rows.number("trade_limit", least, 1.0, max(0.01, least)) if centred else None,
        answer_gap=rows.number("answer_gap", 0.0, 1.0, 1e-4) if centred else None,
        reserve=rows.number("reserve", 0.0, 0.0 if exact else 0.5, 0.0 if exact else 1e-10)
        if centred
        else None,
        momentum=rows.number("momentum", 0.0, 0.999, 0.0),
        nonnegative=rows.boolean("nonnegative", True),
        worth_within=rows.number("worth_within", 1.1, 20.0, 3.0) if ball else None,
    )
    read.earlier = earlier(rows.rest.pop("earlier", []), len(resources))
    if isinstance(rows.rest.get("start"), dict):
        read.start = rows.each("start", [r.name for r in resources], -1e12, 1e12)
    elif rows.word("start", ("zero", "worth"), "worth" if ball else "zero") == "zero":
        read.start = [0.0] * len(resources)
    else:
        for r in resources:
            check(r.worth is not None, "start from a worth that is not stated")
            read.start.append((r.worth or 0.0) / r.whole)
        check(max(read.start) <= 1e12, "start")
    if step in ("ball", "worth", "theorem"):
        check(all(r.worth is not None and r.worth > 0.0 for r in resources), "worth")
    rows.end()
    return read


def earlier(found: Any, m: int) -> list[list[float]]:
    """The rounds of an earlier session."""
    check(type(found) is list and len(found) <= 65536 // (2 * m), "earlier")
    read = []
    for row in found:
        check(type(row) is list and len(row) == 2 * m, "earlier")
        cells = Rows({str(j): number for j, number in enumerate(row)})
        most = [1e15] * m + [1e4] * m
        read.append([cells.number(str(j), 0.0, most[j]) for j in range(2 * m)])
    return read


def transport(rows: Rows) -> None:
    topology = rows.word("topology", ("relay", "mesh"), "relay")
    rows.number("patience_seconds", 0.1, 1e7, 120.0)
    rows.address("coordinator", 1 if topology == "relay" else 0)
    rows.text("coordinator_key", KEY)
    rows.end()


def shared_out(whole: Terms) -> None:
    stated = [bool(m.endowment) for m in whole.members]
    check(all(stated) or not any(stated), "an endowment of some")
    check(all(1e-9 <= c <= 1e12 for c in whole.capacity), "what is above the floors")
    for j, r in enumerate(whole.resources):
        check(all(m.floor[j] <= m.share[j] for m in whole.members if m.floor), "floors")
        check(sum(row[j] for row in whole.share_ticks) >= whole.ticks, "shares")
        if not all(stated):
            continue
        total = math.fsum(m.endowment[j] for m in whole.members)
        check(abs(total - r.capacity / r.whole) <= 1e-9, "endowments")
        check(all(m.endowment[j] <= m.share[j] for m in whole.members), "endowments above shares")
        low = [m.endowment[j] < m.floor[j] for m in whole.members if m.floor]
        check(not any(low), "endowments below floors")
