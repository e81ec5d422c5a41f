"""Random agreements over all that the format allows, and releases to play them with.

For product and reference alike. Never imports the product.
"""

import copy
import random
import re
from typing import Any

Table = dict[str, Any]

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
STEPS = ("center", "ball", "worth", "constant", "sqrt", "theorem")


def name(chance: random.Random) -> str:
    rest = "".join(chance.choice(LETTERS + ".-") for _ in range(chance.choice((0, 3, 11, 63))))
    return chance.choice(LETTERS) + rest


def names(chance: random.Random, count: int) -> list[str]:
    """Names that differ in more than case or similar characters."""
    found: dict[str, str] = {}
    while len(found) < count:
        new = name(chance)
        plain = re.sub("[-.]", "_", new.lower()).translate(str.maketrans("ilo", "110"))
        found.setdefault(plain, new)
    return list(found.values())


def size(chance: random.Random, low: float, high: float) -> float | int:
    """A number with a random exponent in this range, sometimes an integer."""
    value: float = 10.0 ** chance.uniform(low, high)
    if value >= 1.0 and chance.random() < 0.3:
        return round(value)
    return float(f"{value:.3g}") if chance.random() < 0.5 else value


def drawn(chance: random.Random) -> Table:
    """A valid agreement, as parsed from its file."""
    mode = chance.choice(("exact", "exact", "private", "clipped"))
    step = chance.choice(STEPS[2:])
    if mode == "exact" and chance.random() < 0.4:
        step = "center"
    if mode == "private" and chance.random() < 0.4:
        step = "ball"
    K, m = chance.choice((2, 3, 3, 4, 5, 7)), chance.choice((1, 1, 2, 3, 4))
    if step == "ball":
        K = chance.choice((3, 5, 8, 20, 40))
    resources: list[Table] = [
        {"name": one, "capacity": size(chance, -3.0, 6.0)} for one in names(chance, m)
    ]
    worths = chance.choice(("all", "all", "some", "none"))
    for resource in resources:
        if step in ("ball", "worth", "theorem") or worths == "all" or chance.random() < 0.4:
            resource["worth"] = size(chance, -2.0, 6.0)
        if step not in ("ball", "worth", "theorem") and chance.random() < 0.1:
            resource["worth"] = 0
        if chance.random() < 0.3:
            resource["unit"] = chance.choice(("t", 'a "unit" \\ of', "m³", "🚚 per day", "\u00a0"))
    known = all("worth" in resource for resource in resources)
    seated = members(chance, K, [r["name"] for r in resources])
    if chance.random() < 0.3:
        banded(chance, resources, seated)
    if chance.random() < 0.1:
        turned(resources, seated)
    table: Table = {
        "session": name(chance),
        "mode": mode,
        "rounds": chance.choice((1, 5, 12, 30) if step == "center" else (1, 2, 3, 5, 8, 13)),
        "resource": resources,
        "member": seated,
        "prices": prices(chance, step, resources, known),
    }
    if step == ("center" if mode == "exact" else "ball") and chance.random() < 0.5:
        del table["prices"]["step"]
    for key, value in (("currency", "EUR"), ("currency", '€"\\'), ("rehearsal", True)):
        if chance.random() < 0.2:
            table[key] = value
    if chance.random() < 0.2:
        table["pace_seconds"] = chance.choice((0.001, 0.02, 1, 3600, size(chance, -3.0, 3.5)))
    privacy = secrecy(chance, mode, K, known and any(r["worth"] for r in resources))
    if step == "ball":
        with_ball(chance, table, privacy)
    readable = mode == "clipped" or K < 3 or {"truncate", "share_objective"} & privacy.keys()
    if step == "ball" or (not readable and chance.random() < 0.2):
        table["reveal"] = "totals"
        if mode == "private" and chance.random() < 0.7:
            privacy["colluders"] = chance.randint(1, K - 2)
            privacy["overrun"] = chance.choice((1e-6, 0.01, 0.5))
    elif step == "worth" and mode != "exact" and chance.random() < 0.5:
        del table["prices"]["step"]
    elif chance.random() < 0.1:
        table["reveal"] = "each"
    if privacy or chance.random() < 0.5:
        table["privacy"] = privacy
    if chance.random() < 0.3:
        table["transport"] = {
            "topology": chance.choice(("relay", "mesh")),
            "patience_seconds": size(chance, 0.0, 4.0),
            "coordinator": f"tcp://{chance.choice(('10.0.0.1', 'a-b.example', '[::1]'))}:6000",
        }
    return table


def with_ball(chance: random.Random, table: Table, privacy: Table) -> None:
    """Terms that fit the step `ball`, with enough budget that most agreements trade."""
    for key in ("noise", "truncate", "tau", "share_objective", "objective_limit"):
        privacy.pop(key, None)
    privacy["epsilon"] = size(chance, 0.0, 2.0)
    privacy["epsilon"] = min(privacy["epsilon"], 100)
    for resource in table["resource"]:
        if chance.random() < 0.3:
            resource["spare"] = chance.choice((0, 0.05, 0.5, chance.random() / 2.0))
    if chance.random() < 0.5:
        table["prices"]["worth_within"] = chance.choice((1.1, 2, 20, 5.5))
    start = table["prices"].get("start")
    if start == "zero" or (isinstance(start, dict) and not any(start.values())):
        del table["prices"]["start"]


def members(chance: random.Random, K: int, resources: list[str]) -> list[Table]:
    found: list[Table] = [{"name": n} for n in names(chance, K)]
    shares = [{r: share(chance, K) for r in resources} for _ in found]
    kind = chance.choice(("whole", "one number", "each"))
    for member, own in zip(found, shares, strict=True):
        member["signing_key"] = chance.choice(("{:064x}", "{:064X}")).format(
            chance.getrandbits(256)
        )
        if kind == "each":
            member["share"] = own
        elif kind == "one number":
            member["share"] = own[resources[0]]
    one = chance.choice(found)  # so that shares always reach the capacity
    one.pop("share", None)
    if chance.random() < 0.3:
        for member in found:
            member["endowment"] = 0.0
        one["endowment"] = 1
        if kind == "whole":
            whole = [chance.randrange(1, 1000) for _ in found]
            for member, part in zip(found, whole, strict=True):
                member["endowment"] = part / sum(whole)
    return found


def banded(chance: random.Random, resources: list[Table], seated: list[Table]) -> None:
    """Floors of either sign for some members, and capacities of 0 or less if members bring some."""
    one = next(m for m in seated if "share" not in m)
    floors: dict[str, list[float]] = {r["name"]: [] for r in resources}
    for member in seated:
        if member is not one and chance.random() < 0.4:
            continue
        own = {r: floor(chance, member, r, len(seated)) for r in floors}
        member["floor"] = own
        if "share" not in member and chance.random() < 0.5:
            part = member["floor"] = own[resources[0]["name"]]
            own = dict.fromkeys(floors, part)
        for r, part in own.items():
            floors[r].append(part)
    for resource in resources:
        brought = floors[resource["name"]]
        if sum(brought) < 0.0 and chance.random() < 0.7:
            resource["span"] = size(chance, -3.0, 6.0)
            most = 1.0 - sum(part for part in brought if part > 0.0)
            part = chance.choice((0, 0, chance.uniform(0.9 * sum(brought), most)))
            resource["capacity"] = part * resource["span"]
    for member in seated:
        member.pop("endowment", None)
    if chance.random() < 0.3:
        endowed(resources, seated)


def floor(chance: random.Random, member: Table, resource: str, K: int) -> float:
    """Floors at most the share, with a sum well below 1."""
    up = min(given(member, "share", resource, 1.0), 0.5 / K)
    return chance.choice((0.0, up, -1.0 / K, -chance.random(), chance.uniform(0.0, up), -1.0))


def given(member: Table, key: str, resource: str, default: float) -> float:
    part = member.get(key, default)
    return float(part[resource] if isinstance(part, dict) else part)


def endowed(resources: list[Table], seated: list[Table]) -> None:
    """Endowments within the bands that add up to the capacity, if the shares allow it."""
    parts: list[Table] = [{} for _ in seated]
    for resource in resources:
        r = resource["name"]
        lows = [given(m, "floor", r, 0.0) for m in seated]
        highs = [given(m, "share", r, 1.0) for m in seated]
        wide = sum(highs) - sum(lows)
        along = resource["capacity"] / resource.get("span", resource["capacity"]) - sum(lows)
        along = along / wide if wide > 0.0 else 2.0
        if along > 0.999:
            return
        for own, low, high in zip(parts, lows, highs, strict=True):
            own[r] = min(high, max(low, low + along * (high - low)))
    for member, own in zip(seated, parts, strict=True):
        member["endowment"] = own


def turned(resources: list[Table], seated: list[Table]) -> None:
    """Add the opposite of one resource, if the shares leave room for it."""
    first = resources[0]
    other, span = first["name"][:40] + "-least", first.get("span", first["capacity"])
    most = sum(given(member, "share", first["name"], 1.0) for member in seated)
    if any(other == r["name"] for r in resources) or most < first["capacity"] / span + 0.001:
        return
    resources.append(
        {"name": other, "capacity": -first["capacity"], "span": span, "opposite": first["name"]}
    )
    if "worth" in first:
        resources[-1]["worth"] = first["worth"]
    for member in seated:
        for key, default in (("share", 1.0), ("floor", 0.0)):
            own = member.get(key, default)
            if not isinstance(own, dict):
                own = {r["name"]: own for r in resources[:-1]}
            member[key] = dict(own)
        low, high = member["floor"][first["name"]], member["share"][first["name"]]
        member["share"][other], member["floor"][other] = -low, -high
        member.pop("endowment", None)


def share(chance: random.Random, K: int) -> float | int:
    return chance.choice(
        (0, 1, 1.0 / K, round(chance.random(), 2), chance.random(), 2.0**-20, 0.5, 1e-7)
    )


def prices(chance: random.Random, step: str, resources: list[Table], known: bool) -> Table:
    found: Table = {"step": step}
    if step in ("constant", "sqrt"):
        found["step_size"] = size(chance, -6.0, 6.0)
    if step == "center":
        if chance.random() < 0.5:
            found["tolerance"] = chance.choice((0, 1e-9, 0.01, 0.2))
        if chance.random() < 0.5:
            found["reserve"] = chance.choice((0, 1e-6, 0.001, 0.1))
        if chance.random() < 0.3:
            found["earlier"] = earlier(chance, len(resources))
        if chance.random() < 0.5:
            found["trade_limit"] = chance.choice((0.2, 0.5, 1))
        if chance.random() < 0.5:
            found["answer_gap"] = chance.choice((0, 1e-6, 0.001, 0.1))
        if any("opposite" in r for r in resources):
            found.pop("reserve", None)
    elif step != "ball":
        if chance.random() < 0.5:
            found["momentum"] = chance.choice((0, 0.5, 0.9, chance.random() * 0.999))
        if chance.random() < 0.4:
            found["nonnegative"] = chance.random() < 0.3
    start = chance.choice(("", "zero", "worth", "each"))
    if start == "each":
        found["start"] = {
            r["name"]: chance.choice((0, -0.0, size(chance, -6.0, 6.0), -size(chance, -6.0, 6.0)))
            for r in resources
        }
    elif start and (start == "zero" or known):
        found["start"] = start
    return found


def earlier(chance: random.Random, m: int) -> list[list[float]]:
    """Rounds of an earlier session: demand that falls with the price, or any numbers."""
    scale, wild = [10.0 ** chance.uniform(-4.0, 4.0) for _ in range(m)], chance.random() < 0.3
    rows = []
    for _ in range(chance.choice((0, 1, 3, 8))):
        asked = [s * 10.0 ** chance.uniform(-2.0, 2.0) for s in scale]
        totals = [2.0 * s / (s + p) for s, p in zip(scale, asked, strict=True)]
        rows.append([*asked, *(chance.uniform(0.0, 3.0) if wild else t for t in totals)])
    return rows


def secrecy(chance: random.Random, mode: str, K: int, limit_known: bool) -> Table:
    found: Table = {}
    if mode != "exact":
        lowest = -4.0 if mode == "private" else 0.0  # with small caps much ε shows each tick
        found["epsilon"] = min(size(chance, lowest, 2.0), 100)
        found["delta"] = size(chance, -10.0, -1.0)
        for key, values in (
            ("accountant", ("exact", "paper")),
            ("noise", ("component", "norm")),
        ):
            if chance.random() < 0.7:
                found[key] = chance.choice(values)
        if chance.random() < 0.2:
            found["truncate"] = True
    if mode == "clipped" and chance.random() < 0.7:
        found["alpha"] = chance.choice((1, K, chance.uniform(1.0, K)))
    if (mode == "clipped" or "truncate" in found) and chance.random() < 0.7:
        found["tau"] = chance.choice((1e-4, 1e-4, 0.5, min(0.5, size(chance, -3.99, -1.0))))
    if chance.random() < 0.3:
        found["share_objective"] = True
        if not limit_known or chance.random() < 0.5:
            found["objective_limit"] = size(chance, -3.0, 9.0)
    return found


WRONG = (-1, 0, 1, 2, 0.5, 1e-12, 1e13, 1e300, float("inf"), float("nan"), True, False, "", "x")
STRANGE = (
    "*",
    "tcp://*:1",
    "tcp://0.0.0.0:5",
    "tcp://h:65535",
    "tcp://h:0",
    "a b",
    "0" * 64,
    "z" * 40,
)
FIELDS = (
    *("session", "mode", "reveal", "rounds", "rehearsal", "currency", "resource", "member"),
    "privacy",
    *("prices", "transport", "name", "capacity", "unit", "worth", "share", "endowment"),
    *("floor", "span", "opposite", "spare", "worth_within"),
    *("signing_key", "transport_key", "address", "epsilon", "delta", "accountant", "noise"),
    *("truncate", "alpha", "tau", "colluders", "overrun", "share_objective", "objective_limit"),
    *("step", "step_size"),
    *("tolerance", "reserve", "trade_limit", "answer_gap", "earlier"),
    *("momentum", "nonnegative", "start", "topology"),
    *("patience_seconds", "coordinator", "coordinator_key", "colour"),
)  # fmt: skip


def spoiled(chance: random.Random, table: Table) -> Table:
    """The table with one change; the result may be valid or not."""
    changed = copy.deepcopy(table)
    changed.setdefault("transport", {})
    changed.setdefault("privacy", {})
    places = [changed, changed["prices"], changed["privacy"], changed["transport"]]
    place = chance.choice([*places, *changed["resource"], *changed["member"]])
    if place and chance.random() < 0.2:
        del place[chance.choice(list(place))]
        return changed
    key = chance.choice([*place, chance.choice(FIELDS)])
    others = [p[key] for p in places if key in p]
    place[key] = chance.choice([*WRONG, *STRANGE, {}, [], *others])
    return changed


MANNERS = ("honest", "honest", "honest", "alike", "nothing", "noisy", "wild", "mixed", "mixed")
"""How members release; mixed changes from round to round."""


class Crowd:
    """The members of one session, by how they release: honestly or not."""

    def __init__(self, chance: random.Random, members: int, width: int) -> None:
        self._chance = chance
        self._manner = chance.choice(MANNERS)
        self._scale = [10.0 ** chance.uniform(-2.0, 5.0) for _ in range(width)]
        self._taste = [[chance.random() for _ in range(width)] for _ in range(members)]

    def released(self, ticks: int, caps: list[list[int]], money: list[float]) -> list[list[int]]:
        """The releases of one round, in which each whole capacity costs `money`."""
        chance, manner = self._chance, self._manner
        if manner == "mixed":
            manner = chance.choice(("honest", "honest", "alike", "noisy", "wild"))
        equal = [ticks // len(caps) // chance.choice((1, 2, 3)) for _ in self._scale]
        rows = []
        for own, tastes in zip(caps, self._taste, strict=True):
            row = []
            for j, taste in enumerate(tastes):
                cap = own[j] if j < len(own) else ticks
                cost = max(0.0, money[j]) / self._scale[j] if j < len(money) else 0.0
                value = {
                    "honest": int(cap * min(1.0, 2.0 * taste / (taste + cost))),
                    "alike": min(cap, equal[j]),
                    "nothing": chance.choice((0, 0, 0, 1, -5)),
                    "noisy": round(chance.gauss(cap / 2.0, ticks)),
                    "wild": chance.choice((0, -1, cap, 2**48, -(2**48), chance.randrange(2**48))),
                }[manner]
                row.append(max(-(2**48), min(2**48, value)))
            rows.append(row)
        return rows
