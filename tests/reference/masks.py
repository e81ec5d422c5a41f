"""Reference implementation of SPEC.md §18: masks, totals, private quotas and payments.

Slow and plain: X25519 by RFC 7748, Ed25519 by RFC 8032 and ChaCha20 by RFC 8439 in integers,
without libsodium. Tests compare the product with it, and both with the vectors. Never imports the
product.
"""

import hashlib
import math
import struct
from fractions import Fraction
from typing import Any

PRIME = 2**255 - 19


ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, PRIME) % PRIME
Point = tuple[int, int]
"""x and y of a point of the Edwards curve −x² + y² = 1 + d·x²·y²."""


def add(one: Point, other: Point) -> Point:
    """RFC 8032 §5.1.4, in plain coordinates."""
    (x1, y1), (x2, y2) = one, other
    t = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + t, -1, PRIME)
    y = (y1 * y2 + x1 * x2) * pow(1 - t, -1, PRIME)
    return x % PRIME, y % PRIME


def times(scalar: int, point: Point) -> Point:
    total: Point = (0, 1)
    for bit in f"{scalar:b}":
        total = add(total, total)
        if bit == "1":
            total = add(total, point)
    return total


def decoded(data: bytes) -> Point | None:
    """RFC 8032 §5.1.3: the point in these bytes; None where they are not its only encoding."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & (1 << 255) - 1
    if len(data) != 32 or y >= PRIME:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if x * x % PRIME != square:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if x * x % PRIME != square or (x == 0 and sign):
        return None
    return (PRIME - x if x % 2 != sign else x), y


def encoded(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


BASE = decoded(bytes([0x58]) + 31 * bytes([0x66]))


def scalar(secret: bytes) -> int:
    """RFC 8032 §5.1.5: the secret scalar, which is that of X25519 too."""
    digest = hashlib.sha512(secret).digest()[:32]
    return int.from_bytes(digest, "little") & ~7 & ~(1 << 255) & (1 << 255) - 1 | 1 << 254


def public(secret: bytes) -> bytes:
    """RFC 8032 §5.1.5: the public mask key of the 32 secret bytes."""
    assert BASE is not None
    return encoded(times(scalar(secret), BASE))


def ed25519(secret: bytes, text: bytes) -> bytes:
    """RFC 8032 §5.1.6: a signature."""
    assert BASE is not None
    key, prefix = public(secret), hashlib.sha512(secret).digest()[32:]
    r = int.from_bytes(hashlib.sha512(prefix + text).digest(), "little") % ORDER
    point = encoded(times(r, BASE))
    k = int.from_bytes(hashlib.sha512(point + key + text).digest(), "little")
    return point + ((r + k * scalar(secret)) % ORDER).to_bytes(32, "little")


def proof(secret: bytes, digest: bytes, chain_hash: bytes, place: int, signing_key: bytes) -> bytes:
    """What shows that a member owns its mask key."""
    where = digest + chain_hash + struct.pack(">I", place) + signing_key
    return ed25519(secret, b"sotto mask key 1\n" + where + public(secret))


def shared(secret: bytes, key: bytes) -> bytes:
    """X25519 between the images of two Ed25519 keys."""
    point = decoded(key)
    assert point is not None
    u = (1 + point[1]) * pow(1 - point[1], -1, PRIME) % PRIME
    return x25519(scalar(secret).to_bytes(32, "little"), u.to_bytes(32, "little"))


def x25519(secret: bytes, point: bytes) -> bytes:
    """RFC 7748: the shared secret, from one's secret key and the public key of the other."""
    k = int.from_bytes(secret, "little") & ~7 & ~(1 << 255) | 1 << 254
    x1 = int.from_bytes(point, "little") & (1 << 255) - 1
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a, b * b, d * a, c * b
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % PRIME, x1 * (da - cb) ** 2 % PRIME
        x2, z2 = aa * bb % PRIME, e * (aa + 121665 * e) % PRIME
    if swap:
        x2, x3, z2, z3 = x3, x2, z3, z2
    return (x2 * pow(z2, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little")


def _quarter(s: list[int], a: int, b: int, c: int, d: int) -> None:
    for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = s[x] + s[y] & 0xFFFFFFFF
        s[z] ^= s[x]
        s[z] = (s[z] << turn | s[z] >> 32 - turn) & 0xFFFFFFFF


def chacha20(key: bytes, nonce: bytes, size: int) -> bytes:
    """RFC 8439: the first bytes of the stream, from block 0 on."""
    out = b""
    for counter in range(-(-size // 64)):
        words = b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce
        start = list(struct.unpack("<16I", words))
        s = start[:]
        for _ in range(10):
            for column in range(4):
                _quarter(s, column, column + 4, column + 8, column + 12)
            for a, b, c, d in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
                _quarter(s, a, b, c, d)
        out += struct.pack("<16I", *((x + y) & 0xFFFFFFFF for x, y in zip(s, start, strict=True)))
    return out[:size]


def session_id(chain_hash: bytes, announced: list[bytes]) -> bytes:
    """From the keys of all members, each with its proof."""
    return hashlib.sha256(b"sotto session 2\n" + chain_hash + b"".join(announced)).digest()


def _keyed(key: bytes, text: bytes) -> bytes:
    return hashlib.blake2b(text, key=key, digest_size=32).digest()


def masked(
    numbers: list[int],
    place: int,
    *,
    secret: bytes,
    keys: list[bytes],
    session: bytes,
    number: int,
    chain_hash: bytes,
) -> list[int]:
    """What the member at this place releases in a round whose numbers are these."""
    pairs = pair_secrets(place, secret=secret, keys=keys, session=session)
    return masked_with(numbers, place, pairs, number=number, chain_hash=chain_hash)


def pair_secrets(
    place: int, *, secret: bytes, keys: list[bytes], session: bytes
) -> dict[int, bytes]:
    """What the member at this place shares with each other, by its place."""
    pairs = {}
    for other, key in enumerate(keys):
        if other != place:
            k, low = min(place, other), max(place, other)
            names = struct.pack(">II", k, low) + keys[k] + keys[low]
            pairs[other] = _keyed(shared(secret, key), b"sotto pair 2\n" + session + names)
    return pairs


def masked_with(
    numbers: list[int], place: int, pairs: dict[int, bytes], *, number: int, chain_hash: bytes
) -> list[int]:
    """The numbers of a round with the streams of all pairs."""
    masked = numbers[:]
    for other, pair in pairs.items():
        seed = _keyed(pair, b"sotto mask\n" + struct.pack(">I", number) + chain_hash)
        stream = chacha20(seed, b"LibsodiumDRG", 8 * len(numbers))
        sign = 1 if other > place else -1
        for j, (p,) in enumerate(struct.iter_unpack(">Q", stream)):
            masked[j] += sign * p
    return [wrapped(n) for n in masked]


def wrapped(number: int) -> int:
    """Modulo 2^64, as a signed number."""
    return (number + 2**63) % 2**64 - 2**63


def totals(rows: list[list[int]]) -> list[int]:
    return [wrapped(sum(column)) for column in zip(*rows, strict=True)]


def own_quota_and_payment(
    *,
    shares: list[list[float]],
    ticks: int,
    place: int,
    **known: Any,
) -> tuple[list[int], float]:
    """The quota and the payment of one member, for totals without noise."""
    uncut, payment = own_part_and_payment(shares=shares, ticks=ticks, place=place, **known)
    limits = [math.ceil(share * ticks) for share in shares[place]]
    return [min(a, part) for a, part in zip(limits, uncut, strict=True)], payment


def own_part_and_payment(
    *,
    asked: list[list[int]],
    unmasked: list[list[int]],
    totals: list[list[int]],
    weights: list[int],
    place: int,
    shares: list[list[float]],
    endowment: list[int],
    money: list[float],
    ticks: int,
) -> tuple[list[int], float]:
    """⌊θ·d + β·a⌋ of each resource, which is not cut to the share, and the payment."""
    W, quota, due = sum(weights), [], Fraction(0)

    def average(rows: list[list[int]], j: int) -> Fraction:
        return Fraction(sum(w * row[j] for w, row in zip(weights, rows, strict=False)), W)

    for j, y in enumerate(money):
        limits = [math.ceil(share[j] * ticks) for share in shares]
        a, A, S = limits[place], sum(limits), average(totals, j)
        theta, beta = (Fraction(ticks) / S, Fraction(0)) if ticks < S else (1, (ticks - S) / A)
        quota.append(max(0, math.floor(theta * average(asked, j) + beta * a)))
        used = (theta * S + beta * A) / ticks
        due += Fraction(y) * (theta * average(unmasked, j) + beta * a - endowment[j] * used) / ticks
    worth, unit = math.fsum(abs(y) for y in money), 1.0
    if worth > 0.0:
        unit = 2.0**-40
        while unit * 2.0**40 <= worth:
            unit *= 2.0
        while unit * 2.0**39 > worth:
            unit /= 2.0
    return quota, round(due / Fraction(unit)) * unit
