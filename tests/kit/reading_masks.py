"""A second reading of SPEC.md §18, from the text alone: masks, totals, own quotas and payments.

Slow and plain: X25519 by RFC 7748 and ChaCha20 by RFC 8439 in whole numbers, nothing of libsodium
and nothing of ours. What the program computes is compared with this, and both with the vectors.
"""

import hashlib
import math
import struct
from fractions import Fraction

PRIME = 2**255 - 19


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


def public(secret: bytes) -> bytes:
    return x25519(secret, (9).to_bytes(32, "little"))


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


def session_id(head: bytes, keys: list[bytes]) -> bytes:
    return hashlib.sha256(b"sotto session\n" + head + b"".join(keys)).digest()


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
    head: bytes,
) -> list[int]:
    """What the member at this place releases in a round whose numbers are these."""
    said = numbers[:]
    for other, key in enumerate(keys):
        if other == place:
            continue
        pair = _keyed(x25519(secret, key), b"sotto pair\n" + session)
        seed = _keyed(pair, b"sotto mask\n" + struct.pack(">I", number) + head)
        stream = chacha20(seed, b"LibsodiumDRG", 8 * len(numbers))
        sign = 1 if other > place else -1
        for j, (p,) in enumerate(struct.iter_unpack(">Q", stream)):
            said[j] += sign * p
    return [wrapped(n) for n in said]


def wrapped(number: int) -> int:
    """Modulo 2^64, as a signed number."""
    return (number + 2**63) % 2**64 - 2**63


def totals(rows: list[list[int]]) -> list[int]:
    return [wrapped(sum(column)) for column in zip(*rows, strict=True)]


def own_quota_and_payment(
    *,
    asked: list[list[int]],
    said: list[list[int]],
    totals: list[list[int]],
    weights: list[int],
    place: int,
    shares: list[list[float]],
    endowment: list[int],
    money: list[float],
    ticks: int,
) -> tuple[list[int], float]:
    """What one member may use and pays where totals have no noise."""
    W, quota, due = sum(weights), [], Fraction(0)

    def average(rows: list[list[int]], j: int) -> Fraction:
        return Fraction(sum(w * row[j] for w, row in zip(weights, rows, strict=False)), W)

    for j, y in enumerate(money):
        limits = [math.ceil(share[j] * ticks) for share in shares]
        a, A, S = limits[place], sum(limits), average(totals, j)
        theta, beta = (Fraction(ticks) / S, Fraction(0)) if ticks < S else (1, (ticks - S) / A)
        quota.append(min(a, max(0, math.floor(theta * average(asked, j) + beta * a))))
        used = (theta * S + beta * A) / ticks
        due += Fraction(y) * (theta * average(said, j) + beta * a - endowment[j] * used) / ticks
    worth, unit = math.fsum(abs(y) for y in money), 1.0
    if worth > 0.0:
        unit = 2.0**-40
        while unit * 2.0**40 <= worth:
            unit *= 2.0
        while unit * 2.0**39 > worth:
            unit /= 2.0
    return quota, round(due / Fraction(unit)) * unit
