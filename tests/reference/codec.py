"""Reference implementation of SPEC.md: messages, digests, prices, payments.

Slow and plain: no numpy, no msgpack. Tests compare the product with it, and both with the vectors.
Never imports the product.
"""

import hashlib
import math
import struct
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

TICKS = 1048576


def binary(data: bytes) -> bytes:
    """A msgpack bin of the shortest form."""
    size = len(data)
    if size < 1 << 8:
        return b"\xc4" + struct.pack(">B", size) + data
    if size < 1 << 16:
        return b"\xc5" + struct.pack(">H", size) + data
    return b"\xc6" + struct.pack(">I", size) + data


def array(items: list[bytes]) -> bytes:
    """A msgpack array of the shortest form, of items that are packed already."""
    size = len(items)
    if size < 16:
        return bytes([0x90 | size]) + b"".join(items)
    if size < 1 << 16:
        return b"\xdc" + struct.pack(">H", size) + b"".join(items)
    return b"\xdd" + struct.pack(">I", size) + b"".join(items)


def payload(
    kind: int,
    key: bytes,
    digest: bytes,
    number: int,
    chain_hash: bytes,
    body: bytes,
    version: int = 2,
) -> bytes:
    """All of a message but its signature."""
    fields = [key, digest, struct.pack(">I", number), chain_hash, body]
    return array([bytes([version]), bytes([kind]), *map(binary, fields)])


def signed_text(payload: bytes) -> bytes:
    """What an Ed25519 signature is made of."""
    return b"sotto 2\n" + payload


def nonce_digest(nonces: list[bytes]) -> bytes:
    """The digest of the newest nonces of all members, in roster order."""
    return hashlib.sha256(b"sotto nonces\n" + b"".join(nonces)).digest()


def hello_body(
    nonce: bytes,
    wants_reply: bool,
    recorded: int,
    digest: bytes,
    echo: bytes,
    known_ahead: list[int],
) -> bytes:
    start = nonce + bytes([wants_reply]) + struct.pack(">I", recorded) + digest + echo
    return start + bytes(known_ahead if any(known_ahead) else [])


def batch(messages: list[bytes]) -> bytes:
    return b"\0" + b"".join(struct.pack(">I", len(data)) + data for data in messages)


def unbatched(frame: bytes) -> list[bytes]:
    """The messages of a frame that is well-formed."""
    if frame[:1] != b"\0":
        return [frame]
    at, messages = 1, []
    while at < len(frame):
        size = struct.unpack(">I", frame[at : at + 4])[0]
        messages.append(frame[at + 4 : at + 4 + size])
        at += 4 + size
    return messages


def release_body(values: list[int]) -> bytes:
    return b"".join(struct.pack(">q", value) for value in values)


def halt_body(reason: int, evidence: list[bytes]) -> bytes:
    return array([bytes([reason]), array([binary(data) for data in evidence])])


CANONICAL = (
    *("alpha", "members", "mode", "objective_limit", "pricing", "privacy", "rehearsal"),
    *("resources", "rounds", "session", "tau", "truncate"),
)
"""The fields of the canonical form that are always there."""

CANONICAL_PRICING = ("momentum", "nonnegative", "start", "step", "step_size")
CENTRED_PRICING = ("tolerance", "reserve", "trade_limit", "answer_gap")
CANONICAL_MEMBER = ("name", "share", "signing_key", "transport_key")


def _object(pairs: dict[str, str]) -> str:
    return "{" + ",".join(f'"{key}":{pairs[key]}' for key in sorted(pairs)) + "}"


def _list(items: list[str]) -> str:
    return "[" + ",".join(items) + "]"


def _text(text: str) -> str:
    """A JSON string of printable ASCII."""
    escaped = ""
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be")):
        if not 0x20 <= unit <= 0x7E:
            escaped += f"\\u{unit:04x}"
        else:
            escaped += "\\" * (chr(unit) in '"\\') + chr(unit)
    return f'"{escaped}"'


def _plain(value: float | str | bool | None) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _text(value) if isinstance(value, str) else repr(value)


def _resource(resource: Any) -> str:
    keys = ["capacity", "name", "unit", "worth"]
    keys += [key for key in ("span", "opposite") if getattr(resource, key)]
    keys += ["spare"] if resource.spare is not None else []
    return _object({key: _plain(getattr(resource, key)) for key in keys})


def canonical(agreement: Any) -> str:
    """The one line that the digest is made of, from the terms of an agreement."""
    a, p, noisy = agreement, agreement.pricing, agreement.privacy
    clipped = a.mode == "clipped"
    pricing = {key: _plain(getattr(p, key)) for key in CANONICAL_PRICING if key != "start"}
    pricing["start"] = _list([_plain(price) for price in p.start])
    if p.step == "center":
        pricing |= {key: _plain(getattr(p, key)) for key in CENTRED_PRICING}
    if p.step == "ball":
        pricing["worth_within"] = _plain(p.worth_within)
    if p.earlier:
        rows = [_list([_plain(number) for number in row]) for row in p.earlier]
        pricing["earlier"] = _list(rows)
    members = []
    for m in a.members:
        terms = {key: _plain(getattr(m, key)) for key in ("name", "transport_key")}
        terms["signing_key"] = _plain(m.signing_key.hex())
        terms["share"] = _list([_plain(part) for part in m.share])
        for key in ("endowment", "floor"):
            if getattr(m, key):
                terms[key] = _list([_plain(part) for part in getattr(m, key)])
        members.append(_object(terms))
    whole = {
        "alpha": _plain(a.alpha if clipped else None),
        "members": _list(members),
        "pricing": _object(pricing),
        "privacy": "null",
        "resources": _list([_resource(r) for r in a.resources]),
        "tau": _plain(a.tau if clipped or a.truncate else None),
    }
    if noisy is not None:
        keys = ["accountant", "delta", "epsilon", "noise"]
        if a.reveal == "totals":
            keys += ["colluders", "overrun"]
        whole["privacy"] = _object({key: _plain(getattr(noisy, key)) for key in keys})
    for key in ("mode", "objective_limit", "rehearsal", "rounds", "session", "truncate"):
        whole[key] = _plain(getattr(a, key))
    if a.currency:
        whole["currency"] = _plain(a.currency)
    if a.pace_seconds is not None:
        whole["pace_seconds"] = _plain(a.pace_seconds)
    if a.reveal == "totals":
        whole["reveal"] = '"totals"'
    return _object(whole)


def agreement_digest(canonical: str) -> bytes:
    return hashlib.sha256(b"sotto agreement 1\n" + canonical.encode()).digest()


def approval_text(digest: bytes, place: int, last: int, within: float) -> bytes:
    """What a member signs that approves an agreement (§23)."""
    numbers = place.to_bytes(4, "big") + last.to_bytes(4, "big") + struct.pack(">d", within)
    return b"sotto approval 1\n" + digest + numbers


def floats(values: list[float]) -> bytes:
    return b"".join(struct.pack(">d", value) for value in values)


def first_head(digest: bytes, prices: list[float]) -> bytes:
    return hashlib.sha256(b"sotto head\n" + digest + floats(prices)).digest()


def next_head(chain_hash: bytes, number: int, rows: list[list[int]], prices: list[float]) -> bytes:
    text = chain_hash + struct.pack(">I", number)
    text += b"".join(release_body(row) for row in rows)
    return hashlib.sha256(text + floats(prices)).digest()


@dataclass
class Market:
    """The prices of a session and what moves them."""

    capacity: list[float]
    start: list[float]
    rule: str
    size: float = 0.0
    momentum: float = 0.0
    nonnegative: bool = True
    worth: list[float] | None = None
    number: int = 0
    now: list[float] = field(init=False)
    before: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.before = self.start

    def move(self, rows: list[list[int]]) -> None:
        """λ(t) to λ(t+1), from one row of ticks for each member."""
        m = len(self.capacity)
        totals = [sum(row[j] for row in rows) for j in range(m)]
        excess = [float(n - TICKS) / 1048576.0 for n in totals]
        if self.rule == "worth":
            moved = [self.now[j] + (self.size * excess[j]) / self.capacity[j] for j in range(m)]
        else:
            step = self.size / math.sqrt(self.number + 1) if self.rule == "sqrt" else self.size
            moved = [self.now[j] + step * (excess[j] * self.capacity[j]) for j in range(m)]
        moved = [moved[j] + self.momentum * (self.now[j] - self.before[j]) for j in range(m)]
        lowest = 0.0 if self.nonnegative else -1e15
        moved = [min(max(price, lowest), 1e15) for price in moved]
        self.number, self.before, self.now = self.number + 1, self.now, moved


def split(total: int, weights: list[int]) -> list[int]:
    """In proportion, whole, by largest remainder; ties go to the earlier."""
    whole = sum(weights)
    parts = [total * w // whole for w in weights]
    by_remainder = sorted(range(len(weights)), key=lambda k: (-(total * weights[k] % whole), k))
    for k in by_remainder[: total - sum(parts)]:
        parts[k] += 1
    return parts


def weighted_quota(
    rounds: list[list[list[int]]], weights: list[int], shares: list[list[float]], ticks: int
) -> list[list[int]]:
    """What each member may use, from whole weights of the rounds, one row for each member."""
    whole, columns = sum(weights), []
    for j in range(len(shares[0])):
        demands = [0] * len(shares)
        for weight, rows in zip(weights, rounds, strict=False):
            demands = [d + weight * row[j] for d, row in zip(demands, rows, strict=True)]
        demands = [max(0, d) for d in demands]
        limits = [math.ceil(share[j] * ticks) for share in shares]
        total = sum(demands)
        if total > ticks * whole:
            parts = [d * ticks // total for d in demands]
        else:
            left = Fraction(ticks * whole - total, sum(limits))
            exact = [(d + left * a) / whole for d, a in zip(demands, limits, strict=True)]
            parts = [math.floor(part) for part in exact]
        columns.append([min(part, limit) for part, limit in zip(parts, limits, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]


def payments(
    *,
    prices: list[float],
    capacity: list[float],
    quota: list[list[int]],
    endowment: list[list[int]],
    ticks: int,
) -> list[float]:
    """What each member pays: exact, then whole units by largest remainder."""
    money = [p * c for p, c in zip(prices, capacity, strict=True)]
    worth = math.fsum(abs(y) for y in money)
    unit = 1.0
    if worth > 0.0:
        unit = 2.0**-40
        while unit * 2.0**40 <= worth:
            unit *= 2.0
        while unit * 2.0**39 > worth:
            unit /= 2.0
    units = []
    for own, brought in zip(quota, endowment, strict=True):
        due = Fraction(0)
        for j, y in enumerate(money):
            used = sum(row[j] for row in quota)
            due += Fraction(y) * (own[j] - Fraction(brought[j] * used, ticks)) / ticks
        units.append(due / Fraction(unit))
    parts = [math.floor(u) for u in units]
    by_remainder = sorted(range(len(units)), key=lambda k: (parts[k] - units[k], k))
    for k in by_remainder[: -sum(parts)]:
        parts[k] += 1
    return [part * unit for part in parts]


def clipped_caps(
    rows: list[list[int]] | None, *, shares: list[list[float]], alpha: float, tau: float
) -> list[list[int]]:
    """The caps after these releases, or of the first round, one row for each member."""
    lowest = max(1, math.ceil(tau * TICKS))
    columns = []
    for j in range(len(shares[0])):
        if rows is None:
            weights = [1] * len(shares)
        else:
            weights = [min(max(row[j], lowest), TICKS) for row in rows]
        parts = split(math.floor(alpha * TICKS), weights)
        limits = [math.ceil(share[j] * TICKS) for share in shares]
        columns.append([min(part, limit) for part, limit in zip(parts, limits, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]
