"""The prime-order group of ed25519, through libsodium: points as 32 bytes, scalars as integers.

libsodium refuses the scalar 0 and the identity as a factor, so both have a branch here. Never
here: a choice of what is committed, or randomness.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from nacl.bindings import (
    crypto_core_ed25519_add,
    crypto_core_ed25519_from_uniform,
    crypto_core_ed25519_is_valid_point,
    crypto_core_ed25519_sub,
    crypto_scalarmult_ed25519_base_noclamp,
    crypto_scalarmult_ed25519_noclamp,
)

ORDER = 2**252 + 27742317777372353535851937790883648493
"""The number of points in the group."""

IDENTITY = bytes([1]) + bytes(31)

VALUE_BASE = bytes.fromhex("47b743b6f4063bad2067b529dcf13e3419a7f4b554e048e77e9c8e744011bca3")
"""H: what a committed number is multiplied with. `from_uniform` of the SHA-256 of
"sotto commitment value base 1\\n". The blinding base is the base point of ed25519.

Guarantee: H comes out of a hash, so the logarithm of one base to the other is not known to
anyone. Commitments are binding as long as it is not found."""


def scalar_bytes(scalar: int) -> bytes:
    return (scalar % ORDER).to_bytes(32, "little")


def hash_to_scalar(*parts: bytes) -> int:
    """A scalar from the SHA-512 of these bytes. Its distance from uniform is below 2^-250."""
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


def multiply(scalar: int, point: bytes) -> bytes:
    """A multiple of a point of the group."""
    if not scalar % ORDER or point == IDENTITY:
        return IDENTITY
    return bytes(crypto_scalarmult_ed25519_noclamp(scalar_bytes(scalar), point))


def blind(scalar: int) -> bytes:
    """A multiple of the blinding base."""
    if not scalar % ORDER:
        return IDENTITY
    return bytes(crypto_scalarmult_ed25519_base_noclamp(scalar_bytes(scalar)))


def add(one: bytes, other: bytes) -> bytes:
    return bytes(crypto_core_ed25519_add(one, other))


def subtract(one: bytes, other: bytes) -> bytes:
    return bytes(crypto_core_ed25519_sub(one, other))


def total(points: Iterable[bytes]) -> bytes:
    """The sum of some points; the identity if there are none."""
    result = IDENTITY
    for point in points:
        result = add(result, point)
    return result


def is_valid(point: bytes) -> bool:
    """Whether 32 bytes are the only encoding of a point of the group, the identity excluded."""
    return bool(crypto_core_ed25519_is_valid_point(point))


def commit(value: int, blinding: int) -> bytes:
    """The Pedersen commitment to a value: value·H + blinding·B.

    Guarantee: with a uniform blinding the point is uniform, whatever the value is (hiding, without
    any assumption). Two openings of one point give the logarithm of H, so no one can find a
    second one if discrete logarithms are hard (binding).
    """
    return add(multiply(value, VALUE_BASE), blind(blinding))


@lru_cache(maxsize=1)
def proof_bases(count: int) -> tuple[bytes, ...]:
    """Points whose logarithms to each other and to both bases no one knows, one for each bit."""
    labels = (b"sotto proof base 1\n" + index.to_bytes(4, "big") for index in range(count))
    seeds = (hashlib.sha256(label).digest() for label in labels)
    return tuple(bytes(crypto_core_ed25519_from_uniform(seed)) for seed in seeds)
