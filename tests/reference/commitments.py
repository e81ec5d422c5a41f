"""§19 and §20 in plain integers: points of ed25519, commitments, the range proof, claims.

Written from SPEC.md and the RFCs alone. Never imports the product, and no cryptographic library.
"""

import hashlib
import struct

from tests.reference.masks import BASE as AFFINE_BASE
from tests.reference.masks import ORDER, PRIME, chacha20, decoded, encoded

Extended = tuple[int, int, int, int]
"""X, Y, Z, T of RFC 8032 §5.1.4."""

_D = -121665 * pow(121666, PRIME - 2, PRIME) % PRIME
_A = 486662  # of the Montgomery curve
_ROOT_OF_MINUS_1 = pow(2, (PRIME - 1) // 4, PRIME)
IDENTITY: Extended = (0, 1, 1, 0)
QUOTA_BITS, PAYMENT_BITS = 25, 29


def extended(point: tuple[int, int]) -> Extended:
    return point[0], point[1], 1, point[0] * point[1] % PRIME


def add(p: Extended, q: Extended) -> Extended:
    a = (p[1] - p[0]) * (q[1] - q[0]) % PRIME
    b = (p[1] + p[0]) * (q[1] + q[0]) % PRIME
    c, d = 2 * p[3] * q[3] * _D % PRIME, 2 * p[2] * q[2] % PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def times(scalar: int, p: Extended) -> Extended:
    total = IDENTITY
    for bit in bin(scalar % ORDER)[2:]:
        total = add(total, total)
        if bit == "1":
            total = add(total, p)
    return total


def written(p: Extended) -> bytes:
    inverse = pow(p[2], PRIME - 2, PRIME)
    return encoded((p[0] * inverse % PRIME, p[1] * inverse % PRIME))


def read(data: bytes) -> Extended:
    point = decoded(data)
    assert point is not None
    return extended(point)


def _root(square: int) -> int | None:
    root = pow(square, (PRIME + 3) // 8, PRIME)
    if root * root % PRIME != square % PRIME:
        root = root * _ROOT_OF_MINUS_1 % PRIME
    return root if root * root % PRIME == square % PRIME else None


def from_uniform(data: bytes) -> Extended:
    """Elligator 2 to the Montgomery curve, to ed25519 with the sign of the top bit, times 8."""
    number = int.from_bytes(data, "little")
    sign, r = number >> 255, number & (1 << 255) - 1
    x = -_A * pow(1 + 2 * r * r, PRIME - 2, PRIME) % PRIME
    y = _root(x**3 + _A * x**2 + x)
    if y is None:
        x = (-x - _A) % PRIME
        y = _root(x**3 + _A * x**2 + x)
    assert y is not None
    scale = _root(-(_A + 2))
    assert scale is not None
    ed_x = scale * x * pow(y, PRIME - 2, PRIME) % PRIME
    ed_y = (x - 1) * pow(x + 1, PRIME - 2, PRIME) % PRIME
    if ed_x % 2 != sign:
        ed_x = -ed_x % PRIME
    point = extended((ed_x, ed_y))
    for _ in range(3):
        point = add(point, point)
    return point


assert AFFINE_BASE is not None
BASE = extended(AFFINE_BASE)
VALUE_BASE = from_uniform(hashlib.sha256(b"sotto commitment value base 1\n").digest())


def proof_bases(count: int) -> list[Extended]:
    texts = (b"sotto proof base 1\n" + struct.pack(">I", i) for i in range(count))
    return [from_uniform(hashlib.sha256(text).digest()) for text in texts]


def commit(value: int, blinding: int) -> Extended:
    return add(times(value, VALUE_BASE), times(blinding, BASE))


def blindings(pairs: dict[int, bytes], place: int, head: bytes, count: int) -> list[int]:
    """From the pair secrets of a member with all others, by their places."""
    sums = [0] * count
    for other, pair in pairs.items():
        context = b"sotto blinding 1\n" + head
        seed = hashlib.blake2b(context, key=pair, digest_size=32).digest()
        data = chacha20(seed, b"LibsodiumDRG", 64 * count)
        for i in range(count):
            scalar = int.from_bytes(data[64 * i : 64 * i + 64], "little")
            sums[i] += scalar if other > place else -scalar
    return [total % ORDER for total in sums]


def widths(resources: int) -> list[int]:
    return [QUOTA_BITS] * resources + [PAYMENT_BITS]


def _hash(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


def _scalar(value: int) -> bytes:
    return (value % ORDER).to_bytes(32, "little")


def label(digest: bytes, head: bytes, place: int, points: list[bytes]) -> bytes:
    sizes = b"".join(struct.pack(">H", width) for width in widths(len(points) - 1))
    where = digest + head + struct.pack(">I", place)
    return b"sotto range proof 1\n" + where + sizes + b"".join(points)


def _weights(y: int, sizes: list[int]) -> list[int]:
    """w of each bit."""
    n = sum(sizes)
    return [
        pow(y, n + j, ORDER) * 2**e % ORDER for j, size in enumerate(sizes, 1) for e in range(size)
    ]


def prove(text: bytes, values: list[int], own_blindings: list[int], nonces: list[int]) -> bytes:
    """A proof with these n + 4 scalars: the nonces a, then q, s, t1′ and t0′."""
    sizes = widths(len(values) - 1)
    bits = [v >> e & 1 for v, size in zip(values, sizes, strict=True) for e in range(size)]
    n, bases = len(bits), proof_bases(len(bits))
    a, (q, s, t1_blinding, t0_blinding) = nonces[:n], nonces[n:]
    Q, A = times(q, BASE), times(s, BASE)
    for bit, nonce, g in zip(bits, a, bases, strict=True):
        Q, A = add(Q, g) if bit else Q, add(A, times(nonce, g))
    y = _hash(text, written(Q), written(A))
    w = _weights(y, sizes)
    powers = [pow(y, i, ORDER) for i in range(1, n + 1)]
    t1 = sum(a[i] * (powers[i] * (1 - 2 * bits[i]) + w[i]) for i in range(n))
    t0 = -sum(powers[i] * a[i] ** 2 for i in range(n))
    T1, T0 = written(commit(t1, t1_blinding)), written(commit(t0, t0_blinding))
    x = _hash(b"sotto range proof x\n", _scalar(y), T1, T0)
    f = [bits[i] * x + a[i] for i in range(n)]
    known = sum(pow(y, n + j, ORDER) * r for j, r in enumerate(own_blindings, 1))
    tau = x * x * known + x * t1_blinding + t0_blinding
    return written(Q) + written(A) + T1 + T0 + b"".join(map(_scalar, [*f, x * q + s, tau]))


def holds(text: bytes, points: list[bytes], proof: bytes) -> bool:
    """Whether a proof holds, by both equations as they are written."""
    sizes = widths(len(points) - 1)
    n = sum(sizes)
    parts = [proof[at : at + 32] for at in range(0, len(proof), 32)]
    Q, A, T1, T0 = map(read, parts[:4])
    *f, z, tau = (int.from_bytes(part, "little") for part in parts[4:])
    y = _hash(text, parts[0], parts[1])
    x = _hash(b"sotto range proof x\n", _scalar(y), parts[2], parts[3])
    right = times(z, BASE)
    for response, g in zip(f, proof_bases(n), strict=True):
        right = add(right, times(response, g))
    if written(add(times(x, Q), A)) != written(right):
        return False
    w = _weights(y, sizes)
    t = sum(f[i] * (pow(y, i + 1, ORDER) * (x - f[i]) + x * w[i]) for i in range(n))
    left = add(times(x, T1), T0)
    for j, point in enumerate(points, 1):
        left = add(left, times(x * x * pow(y, n + j, ORDER), read(point)))
    return written(left) == written(commit(t, tau))


def closed_hash(head: bytes, bodies: list[bytes]) -> bytes:
    return hashlib.sha256(b"sotto committed 1\n" + head + b"".join(bodies)).digest()


def adds_up(rows: list[list[bytes]], ticks: int) -> bool:
    """Whether the points of all members are a multiple of H that they may be."""
    count, grain = len(rows), max(1, ticks // 2**24)
    *quotas, payments = zip(*rows, strict=True)
    slack, capacity = count // 2 + 2, ticks // grain
    ranges = [(column, capacity - count, capacity) for column in quotas]
    ranges.append((payments, count * 2**28 - slack, count * 2**28 + slack))
    for column, least, most in ranges:
        total = IDENTITY
        for point in column:
            total = add(total, read(point))
        possible = {written(times(multiple, VALUE_BASE)) for multiple in range(least, most + 1)}
        if written(total) not in possible:
            return False
    return True


def claim_text(
    digest: bytes, head: bytes, place: int, index: int, recipient: bytes, opened: tuple[int, int]
) -> bytes:
    number, blinding = opened
    where = digest + head + struct.pack(">II", place, index) + recipient
    return b"sotto claim 1\n" + where + struct.pack(">Q", number) + _scalar(blinding)
