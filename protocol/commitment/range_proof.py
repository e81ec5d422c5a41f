"""The proof that every committed number of a member is small: its bits, and nothing else.

One proof covers all numbers of a member. It is the bit argument of Bulletproofs (Bünz et al. 2018,
section 4.2) with one vector in place of two and without the compression. So it takes one scalar
for each bit, and proofs of many members are verified together. SPEC.md §19 has the equations.

Symbols: V commitments, H value base, B blinding base, g proof bases, b bits, a nonces,
x and y challenges, f = b·x + a.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from protocol.commitment.group import (
    IDENTITY,
    ORDER,
    add,
    blind,
    commit,
    hash_to_scalar,
    is_valid,
    multiply,
    proof_bases,
    scalar_bytes,
    subtract,
    total,
)
from protocol.commitment.layout import POINT_BYTES, SCALAR_BYTES


class Statement(Struct, frozen=True, kw_only=True):
    """What a proof is about: these points, in this place and no other."""

    #: Names the agreement, the chain hash and the member. A proof is valid for one context.
    context: bytes
    #: V of each number.
    points: tuple[bytes, ...]
    #: The bits of each number.
    widths: tuple[int, ...]

    @property
    def label(self) -> bytes:
        """What every challenge depends on."""
        sizes = b"".join(width.to_bytes(2, "big") for width in self.widths)
        return b"sotto range proof 1\n" + self.context + sizes + b"".join(self.points)


class RangeProof(Struct, frozen=True, kw_only=True):
    """What the prover sends: four points and n + 2 scalars, for n bits."""

    #: Commits to all bits, and to all nonces.
    bits: bytes
    nonces: bytes
    #: Commit to the coefficients of x and of 1 in t(x).
    linear: bytes
    constant: bytes
    #: f of each bit.
    responses: tuple[int, ...]
    #: Open x·bits + nonces, and x²·Σ y^(n+1+j)·V_j + x·linear + constant.
    bits_blinding: int
    value_blinding: int

    @property
    def _points(self) -> tuple[bytes, ...]:
        return self.bits, self.nonces, self.linear, self.constant

    @property
    def _scalars(self) -> tuple[int, ...]:
        return *self.responses, self.bits_blinding, self.value_blinding

    @property
    def data(self) -> bytes:
        return b"".join((*self._points, *map(scalar_bytes, self._scalars)))

    @property
    def well_formed(self) -> bool:
        """Whether every point is in the group and every scalar is reduced."""
        return all(map(is_valid, self._points)) and max(self._scalars) < ORDER


def parse(data: bytes) -> RangeProof:
    """The proof in these bytes, whose length was checked. `well_formed` checks the rest."""
    points = [data[at : at + POINT_BYTES] for at in range(0, 4 * POINT_BYTES, POINT_BYTES)]
    starts = range(4 * POINT_BYTES, len(data), SCALAR_BYTES)
    scalars = [int.from_bytes(data[at : at + SCALAR_BYTES], "little") for at in starts]
    *responses, bits_blinding, value_blinding = scalars
    return RangeProof(
        bits=points[0],
        nonces=points[1],
        linear=points[2],
        constant=points[3],
        responses=tuple(responses),
        bits_blinding=bits_blinding,
        value_blinding=value_blinding,
    )


def prove(
    statement: Statement, values: Sequence[int], blindings: Sequence[int], secret: bytes
) -> RangeProof:
    """Prove that each point commits to a number of at most its bits.

    `secret` is 32 bytes that only the prover knows. All nonces come from it and from what is
    proved, so that one input gives one proof and two inputs share no nonce.

    Guarantee: the proof reveals nothing except that the statement is true (zero knowledge, if
    hashes are random functions and the secret is not known).
    """
    rows = zip(values, statement.widths, strict=True)
    bits = [value >> i & 1 for value, width in rows for i in range(width)]
    opening = b"".join(map(scalar_bytes, (*values, *blindings)))
    seed = hashlib.blake2b(statement.label + opening, key=secret, digest_size=32).digest()
    return prove_bits(statement, bits, blindings, seed)


def prove_bits(
    statement: Statement, bits: Sequence[int], blindings: Sequence[int], seed: bytes
) -> RangeProof:
    """The proof from all bits, the lowest of each number first. `seed` gives the nonces."""
    count, bases = len(bits), proof_bases(len(bits))
    indices = (index.to_bytes(4, "big") for index in range(count + 4))
    hidden, shown, first, last, *a = (
        hash_to_scalar(b"sotto proof nonce\n", seed, index) for index in indices
    )
    chosen = total(_either(base)[bit] for base, bit in zip(bases, bits, strict=True))
    bits_point = add(chosen, blind(hidden))
    nonces_point = add(total(map(multiply, a, bases)), blind(shown))
    y = _first_challenge(statement, bits_point, nonces_point)
    powers, weights = _powers(y, count, len(blindings))
    t1 = t0 = 0
    for power, scale, n, b in zip(powers, _scales(statement.widths, weights), a, bits, strict=True):
        t1 += n * (power * (1 - 2 * b) + scale)
        t0 -= power * n * n
    linear, constant = commit(t1, first), commit(t0, last)
    x = _second_challenge(y, linear, constant)
    known = sum(weight * r for weight, r in zip(weights, blindings, strict=True))
    return RangeProof(
        bits=bits_point,
        nonces=nonces_point,
        linear=linear,
        constant=constant,
        responses=tuple((b * x + n) % ORDER for b, n in zip(bits, a, strict=True)),
        bits_blinding=(x * hidden + shown) % ORDER,
        value_blinding=(x * x * known + x * first + last) % ORDER,
    )


def invalid(claims: Sequence[tuple[Statement, RangeProof]]) -> list[int]:
    """The indices of the proofs that do not hold. All statements have the same widths.

    Guarantee: the maker of a proof that holds knows, for each point, one opening, and its number
    has at most its bits (if discrete logarithms are hard and hashes are random functions). A
    proof holds for its own statement only. All proofs are checked with one sum, whose weights
    depend on all of them: a false one passes with a probability below 2^-120.
    """
    if not claims or _hold(tuple(claims)):
        return []
    if len(claims) == 1:
        return [0]
    half = len(claims) // 2  # a bad proof costs two checks for each time that it is halved
    return invalid(claims[:half]) + [half + at for at in invalid(claims[half:])]


@lru_cache(maxsize=16)
def _hold(claims: tuple[tuple[Statement, RangeProof], ...]) -> bool:
    """Whether all proofs hold. Remembered, because a simulation asks for each of its members, and
    a party asks again while it waits for a better proof: one bad proof among 100 needs 15 answers.

    For each proof both of these are the identity:
    x·bits + nonces − Σ f·g − z·B and x²·Σ y^(n+1+j)·V_j + x·linear + constant − t(x)·H − τ·B.
    """
    widths = claims[0][0].widths
    count = sum(widths)
    if any(s.widths != widths or len(p.responses) != count for s, p in claims):
        return False
    seed = hashlib.sha512(b"".join(s.label + p.data for s, p in claims)).digest()
    on_bases, on_value, on_blinding = [0] * count, 0, 0
    points: list[bytes] = []
    for at, (statement, proof) in enumerate(claims):
        index = at.to_bytes(4, "big")
        one, two = (hash_to_scalar(seed, index, which) for which in (b"bits", b"values"))
        y = _first_challenge(statement, proof.bits, proof.nonces)
        x = _second_challenge(y, proof.linear, proof.constant)
        powers, weights = _powers(y, count, len(widths))
        scales = _scales(widths, weights)
        value = 0
        for i, (power, scale, f) in enumerate(zip(powers, scales, proof.responses, strict=True)):
            on_bases[i] += one * f
            value += f * (power * (x - f) + x * scale)
        on_value += two * value
        on_blinding += one * proof.bits_blinding + two * proof.value_blinding
        points += [multiply(one * x, proof.bits), multiply(one, proof.nonces)]
        points += [multiply(two * x, proof.linear), multiply(two, proof.constant)]
        square = two * x * x
        points += [multiply(square * w, v) for w, v in zip(weights, statement.points, strict=True)]
    expected = total(map(multiply, on_bases, proof_bases(count)))
    expected = add(expected, commit(on_value, on_blinding))
    return subtract(total(points), expected) == IDENTITY


def _either(base: bytes) -> dict[int, bytes]:
    """What a bit adds. Adding the identity takes as long as adding another point."""
    return {0: IDENTITY, 1: base}


def _first_challenge(statement: Statement, bits: bytes, nonces: bytes) -> int:
    return hash_to_scalar(statement.label, bits, nonces)


def _second_challenge(y: int, linear: bytes, constant: bytes) -> int:
    return hash_to_scalar(b"sotto range proof x\n", scalar_bytes(y), linear, constant)


def _powers(y: int, bits: int, numbers: int) -> tuple[list[int], list[int]]:
    """y¹ to yⁿ, one for each bit, and the powers after them, one for each number."""
    powers = [y]
    for _ in range(bits + numbers - 1):
        powers.append(powers[-1] * y % ORDER)
    return powers[:bits], powers[bits:]


def _scales(widths: tuple[int, ...], weights: list[int]) -> list[int]:
    """What each bit counts for in the weighted sum of the numbers."""
    rows = zip(widths, weights, strict=True)
    return [(weight << i) % ORDER for width, weight in rows for i in range(width)]
