"""The sum over the commitments of all members."""

import random

import pytest

from protocol.agreement.model import Agreement
from protocol.commitment.exchange import adds_up
from protocol.commitment.group import ORDER, commit
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


def test_other_blindings_are_noticed() -> None:
    """Blindings that do not cancel do not pass."""
    agreement = AGREEMENTS[0]
    assert not adds_up(agreement, committed(numbers_that_fill(agreement), off=1))
