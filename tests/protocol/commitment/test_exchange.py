"""The sum over the commitments of all members."""

import random

import pytest

from party.release.masks import blinding_stream
from protocol.agreement.model import Agreement
from protocol.commitment.exchange import adds_up
from protocol.commitment.group import ORDER, add, commit
from protocol.commitment.layout import PAYMENT_OFFSET, grain_ticks
from tests.support.builders import make_agreement

SEED = 4


def committed(numbers: list[list[int]], *, off: int = 0) -> list[tuple[bytes, ...]]:
    """Members by numbers, with blindings that add up to `off`."""
    chance = random.Random(SEED)
    rows = [[chance.randrange(ORDER) for _ in row] for row in numbers[1:]]
    first = [off - sum(column) for column in zip(*rows, strict=True)]
    return [
        tuple(map(commit, row, blindings))
        for row, blindings in zip(numbers, [first, *rows], strict=True)
    ]


def numbers_that_fill(agreement: Agreement) -> list[list[int]]:
    """Quotas that fill each capacity, and payments that add up to zero."""
    grains = agreement.ticks // grain_ticks(agreement)
    rows = [[grains // 2, grains // 4], [grains // 4, grains // 4], [grains // 4, grains // 2]]
    return [[*r, PAYMENT_OFFSET + p] for r, p in zip(rows, (-500, 200, 300), strict=True)]


AGREEMENTS = [
    make_agreement(reveal="totals"),
    make_agreement(reveal="totals", prices={"step": "center"}),
]


@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_honest_numbers_add_up(agreement: Agreement) -> None:
    """Quotas that fill a capacity add up, also if each is rounded down by up to a grain."""
    assert adds_up(agreement, committed(numbers_that_fill(agreement)))
    rounded = [[*(n - 1 for n in row[:-1]), row[-1]] for row in numbers_that_fill(agreement)]
    assert adds_up(agreement, committed(rounded))


@pytest.mark.parametrize("agreement", AGREEMENTS)
@pytest.mark.parametrize(
    ("column", "more"), [(0, 1), (1, 1), (1, -4), (2, 4), (2, -4), (2, 1 << 60)]
)
def test_one_changed_number_is_noticed(agreement: Agreement, column: int, more: int) -> None:
    """One grain above a capacity, or payments that are off by more than rounding, do not pass."""
    numbers = numbers_that_fill(agreement)
    numbers[1][column] += more
    assert not adds_up(agreement, committed(numbers))


@pytest.mark.parametrize(("off", "passes"), [(-5, False), (-4, True), (4, True), (5, False)])
def test_payments_may_be_off_by_rounding(off: int, passes: bool) -> None:
    """For five members that is half a grain each, and two more."""
    agreement = make_agreement(members=5, resources=1, reveal="totals")
    grains = agreement.ticks // grain_ticks(agreement)
    rows = [[grains // 5, PAYMENT_OFFSET] for _ in range(4)]
    rows.append([grains - 4 * (grains // 5), PAYMENT_OFFSET + off])
    assert adds_up(agreement, committed(rows)) == passes


def test_other_blindings_are_noticed() -> None:
    """Blindings that do not cancel do not pass."""
    agreement = AGREEMENTS[0]
    assert not adds_up(agreement, committed(numbers_that_fill(agreement), off=1))


def test_two_worlds_with_the_same_claims_look_alike() -> None:
    """Two members colluding with both recipients compute the same about two others in both worlds.

    The worlds differ in what the two others have of one resource, and in the secret that only
    they share. What the colluders can compute is the sum of their points. Their claims are equal.
    """
    chance, head = random.Random(SEED), b"h" * 32
    shared = {pair: chance.randbytes(32) for pair in ((0, 2), (0, 3), (1, 2), (1, 3))}
    worlds = []
    for first, second in ((10, 20), (25, 5)):
        pairs = shared | {(0, 1): chance.randbytes(32)}
        points = []
        for place, numbers in ((0, [7, first]), (1, [9, second])):
            blindings = [0, 0]
            for (low, high), pair in pairs.items():
                if place in (low, high):
                    sign = 1 if place == low else -1
                    stream = blinding_stream(pair, head, 2)
                    blindings = [b + sign * s for b, s in zip(blindings, stream, strict=True)]
            points.append(tuple(map(commit, numbers, blindings)))
            if place == 0:
                assert commit(7, blindings[0]) == points[0][0]  # the claim of the first
        worlds.append(points)
    one, other = worlds
    assert [add(*column) for column in zip(*one, strict=True)] == [
        add(*column) for column in zip(*other, strict=True)
    ]
    assert not {p for row in one for p in row} & {p for row in other for p in row}
