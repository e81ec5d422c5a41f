"""Commitments, and the proof that committed numbers are small."""

import hashlib
import random

import pytest
from msgspec.structs import replace
from nacl.bindings import crypto_core_ed25519_from_uniform

from protocol.commitment.group import (
    IDENTITY,
    ORDER,
    VALUE_BASE,
    add,
    blind,
    commit,
    is_valid,
    multiply,
    proof_bases,
    scalar_bytes,
)
from protocol.commitment.layout import proof_bytes, widths
from protocol.commitment.range_proof import (
    RangeProof,
    Statement,
    _hold,
    invalid,
    parse,
    prove,
    prove_bits,
)

SECRET = b"s" * 32
SMALL_ORDER = [
    bytes(32),  # order 4
    bytes.fromhex("ec" + 30 * "ff" + "7f"),  # order 2
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),  # order 8
]
MIXED_ORDER = bytes.fromhex("95" + 31 * "99")
SIZES = (4, 6)


def claim(
    seed: int, *, values: tuple[int, ...] | None = None, context: bytes = b"here"
) -> tuple[Statement, RangeProof, list[int]]:
    """Random numbers of `SIZES` bits, committed and proved; and their blindings."""
    chance = random.Random(seed)
    values = values or tuple(chance.randrange(1 << width) for width in SIZES)
    blindings = [chance.randrange(ORDER) for _ in SIZES]
    points = tuple(map(commit, values, blindings))
    statement = Statement(context=context, points=points, widths=SIZES)
    return statement, prove(statement, values, blindings, SECRET), blindings


def holds(statement: Statement, proof: RangeProof) -> bool:
    return not invalid([(statement, proof)])


def test_value_base_comes_out_of_a_hash() -> None:
    """The pinned value base is the point that its text says."""
    text = hashlib.sha256(b"sotto commitment value base 1\n").digest()
    assert crypto_core_ed25519_from_uniform(text) == VALUE_BASE


def test_bases_are_different_points_of_the_group() -> None:
    """No two bases are equal or the identity."""
    bases = [VALUE_BASE, blind(1), *proof_bases(200)]
    assert all(map(is_valid, bases))
    assert len(set(bases)) == len(bases)


@pytest.mark.parametrize("point", [IDENTITY, MIXED_ORDER, *SMALL_ORDER])
def test_points_outside_the_group_are_refused(point: bytes) -> None:
    """The identity and points of small or mixed order are no commitments."""
    assert not is_valid(point)


@pytest.mark.parametrize(
    ("value", "blinding"), [(0, 0), (0, 5), (5, 0), (ORDER, 1), (1, ORDER), (-3, -4)]
)
def test_commitments_add_up(value: int, blinding: int) -> None:
    """The sum of two commitments commits to the sums, scalar 0 included."""
    both = add(commit(value, blinding), commit(7, 9))
    assert both == commit(value + 7, blinding + 9)


def test_scalar_zero_and_identity_multiply() -> None:
    """A multiple by 0, and of the identity, is the identity."""
    assert multiply(0, VALUE_BASE) == multiply(ORDER, VALUE_BASE) == IDENTITY
    assert multiply(3, IDENTITY) == blind(0) == IDENTITY
    assert multiply(3, VALUE_BASE) == add(VALUE_BASE, add(VALUE_BASE, VALUE_BASE))


@pytest.mark.parametrize("values", [(0, 0), (15, 63), (1, 32), (8, 1)])
def test_true_proof_holds(values: tuple[int, ...]) -> None:
    """Every number within its bits can be proved, the smallest and the largest included."""
    statement, proof, _ = claim(1, values=values)
    assert holds(statement, proof)


def test_proof_survives_its_bytes() -> None:
    """A proof is read back from its bytes, which have one length."""
    for seed in range(3):
        _, proof, _ = claim(seed)
        assert parse(proof.data) == proof
        assert proof.well_formed
        assert len(proof.data) == 32 * (4 + sum(SIZES) + 2)
    assert proof_bytes(5) == 32 * (4 + sum(widths(5)) + 2)


@pytest.mark.parametrize("values", [(16, 5), (3, 64), (-1, 5), (ORDER - 2, 5), (1 << 200, 0)])
def test_number_outside_its_bits_is_not_proved(values: tuple[int, ...]) -> None:
    """A number that is too large or negative has no proof, also with the bits of another one."""
    statement, proof, _ = claim(2, values=values)
    assert not holds(statement, proof)


@pytest.mark.parametrize("digit", [2, ORDER - 1, ORDER // 2])
def test_digit_that_is_no_bit_is_found(digit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that writes its number with other digits than 0 and 1 has no proof."""
    blindings = [11, 12]
    value = digit * 8 % ORDER  # the highest digit of four
    points = (commit(value, 11), commit(0, 12))
    statement = Statement(context=b"here", points=points, widths=SIZES)
    bases = [{0: IDENTITY, digit: multiply(digit, g)} for g in proof_bases(sum(SIZES))]
    monkeypatch.setattr(
        "protocol.commitment.range_proof._either", lambda g: bases[proof_bases(10).index(g)]
    )
    bits = [0, 0, 0, digit, *6 * [0]]
    assert not holds(statement, prove_bits(statement, bits, blindings, SECRET))
    honest = [0, 0, 0, 0, *6 * [0]]
    nothing = replace(statement, points=(commit(0, 11), commit(0, 12)))
    assert holds(nothing, prove_bits(nothing, honest, blindings, SECRET))


def test_proof_cannot_be_moved() -> None:
    """A proof holds in its own context only, with its own points, in their order."""
    statement, proof, _ = claim(3, values=(5, 5))
    other, _, _ = claim(4, values=(5, 5))
    swapped = replace(statement, points=statement.points[::-1])
    for moved in (replace(statement, context=b"there"), other, swapped):
        assert not holds(moved, proof)


def test_copied_points_cannot_be_proved() -> None:
    """A member that copies the points of another does not know their blindings, nor a proof."""
    statement, _, blindings = claim(5, values=(5, 9))
    copied = replace(statement, context=b"there")
    guess = prove(copied, (5, 9), [blindings[0] + 1, blindings[1]], SECRET)
    assert not holds(copied, guess)


def test_every_field_of_a_proof_counts() -> None:
    """A proof with any point or scalar changed does not hold."""
    statement, proof, _ = claim(6)
    for at in range(0, len(proof.data), 32):
        part = proof.data[at : at + 32]
        number = int.from_bytes(part, "little")
        changed = add(part, VALUE_BASE) if at < 128 else scalar_bytes(number + 1)
        data = proof.data[:at] + changed + proof.data[at + 32 :]
        assert not holds(statement, parse(data))


@pytest.mark.parametrize("responses", [(), (1,), (1,) * 9, (1,) * 11])
def test_proof_of_another_length_does_not_hold(responses: tuple[int, ...]) -> None:
    """A proof with too few or too many scalars is false, alone and beside a true one."""
    statement, proof, _ = claim(6)
    other = statement, replace(proof, responses=responses)
    assert invalid([other]) == [0]
    assert invalid([(statement, proof), other]) == [1]


def test_unreduced_scalar_is_not_well_formed() -> None:
    """A scalar has one encoding: no second message says the same."""
    _, proof, _ = claim(7)
    number = int.from_bytes(proof.data[-32:], "little")
    other = parse(proof.data[:-32] + (number + ORDER).to_bytes(32, "little"))
    assert not other.well_formed


def test_batch_names_the_false_proofs() -> None:
    """Among many proofs the false ones are found, and no other."""
    claims = [claim(seed)[:2] for seed in range(6)]
    assert not invalid(claims)
    claims[1] = claims[1][0], claims[2][1]
    claims[4] = claims[4][0], replace(claims[4][1], value_blinding=0)
    assert invalid(claims) == [1, 4]


def test_false_proofs_do_not_cancel() -> None:
    """Two proofs whose errors are opposite do not hold together."""
    one, other = claim(8)[:2], claim(9)[:2]
    more = replace(one[1], bits_blinding=one[1].bits_blinding + 1)
    less = replace(other[1], bits_blinding=other[1].bits_blinding - 1)
    assert invalid([(one[0], more), (other[0], less)]) == [0, 1]


def test_nonces_depend_on_what_is_proved() -> None:
    """Two statements share no nonce, and one statement has one proof."""
    statement, proof, blindings = claim(10, values=(5, 5))
    again = prove(statement, (5, 5), blindings, SECRET)
    moved = replace(statement, context=b"there")
    assert again == proof
    assert prove(moved, (5, 5), blindings, SECRET).nonces != proof.nonces
    assert prove(statement, (5, 5), blindings, b"t" * 32).nonces != proof.nonces


def test_one_bad_proof_costs_few_checks() -> None:
    """A member cannot make all others check every proof on its own: it is found by halves."""
    claims = [claim(seed)[:2] for seed in range(32)]
    statement, proof = claims[21]
    claims[21] = statement, replace(proof, value_blinding=(proof.value_blinding + 1) % ORDER)
    before = _hold.cache_info().misses
    assert invalid(claims) == [21]
    assert _hold.cache_info().misses - before <= 1 + 2 * 5
    claims[2] = claims[21]
    assert invalid(claims) == [2, 21]
