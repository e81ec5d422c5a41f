"""Longest paths over rounds: consistent answers, and contradictions with their rounds."""

import itertools
import math

import numpy as np
import pytest

from protocol.numeric import Floats
from protocol.pricing.paths import Paths, worst_contradiction


def answers(seed: int, count: int, m: int = 3) -> tuple[Floats, Floats]:
    """Prices, and the slopes there of the largest of eight planes: those of a convex function."""
    rng = np.random.default_rng(seed)
    planes, heights = rng.normal(size=(8, m)), rng.normal(size=8)
    asked = rng.uniform(0.0, 5.0, size=(count, m))
    return asked, planes[[int(np.argmax(planes @ y + heights)) for y in asked]]


def arcs(asked: Floats, slopes: Floats) -> Floats:
    """Row to column."""
    return np.array([[g @ (y - at) for y in asked] for at, g in zip(asked, slopes, strict=True)])


def built(asked: Floats, slopes: Floats) -> Paths:
    paths = Paths()
    for n in range(1, len(asked) + 1):
        paths = paths.add(asked[:n], slopes[:n])
    return paths


@pytest.mark.parametrize("seed", range(5))
def test_one_round_at_a_time_gives_all_longest_paths(seed: int) -> None:
    """Floyd and Warshall's method on the whole graph finds the same lengths."""
    asked, slopes = answers(seed, 12)
    longest = arcs(asked, slopes)
    np.fill_diagonal(longest, 0.0)
    for k in range(len(asked)):
        longest = np.maximum(longest, longest[:, k : k + 1] + longest[k])
    assert built(asked, slopes).lengths == pytest.approx(longest, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_slopes_of_a_convex_function_do_not_contradict(seed: int) -> None:
    """No cycle is longer than rounding."""
    asked, slopes = answers(seed, 30)
    assert built(asked, slopes).doubt < 1e-12
    assert worst_contradiction(asked, slopes, 1e-12) is None


@pytest.mark.parametrize("seed", range(5))
def test_the_worst_contradiction_has_the_largest_mean(seed: int) -> None:
    """No cycle of at most five rounds, of all that there are, has a larger one."""
    rng = np.random.default_rng(seed)
    asked, slopes = rng.uniform(0.0, 5.0, (5, 2)), rng.normal(size=(5, 2))
    W = arcs(asked, slopes)
    means = [
        math.fsum(W[i, j] for i, j in itertools.pairwise([*cycle, cycle[0]])) / length
        for length in range(2, 6)
        for cycle in itertools.permutations(range(5), length)
    ]
    worst = worst_contradiction(asked, slopes)
    assert worst is not None
    assert worst.amount == pytest.approx(max(means))
    assert built(asked, slopes).doubt > 0.0


def test_the_rounds_of_a_lie_are_named() -> None:
    """One answer that belongs to other prices is in the worst cycle."""
    asked, slopes = answers(3, 20)
    slopes[7] = -3.0 * slopes[7]
    worst = worst_contradiction(asked, slopes, 1e-12)
    assert worst is not None
    assert 7 in worst.rounds


def test_rounds_can_be_dropped() -> None:
    """What remains keeps its lengths, also those that led through the dropped rounds."""
    asked, slopes = answers(1, 9)
    whole = built(asked, slopes)
    kept = np.array([0, 3, 4, 8])
    assert (whole[kept].lengths == whole.lengths[np.ix_(kept, kept)]).all()
    assert whole[kept].doubt == whole.doubt


def test_any_finite_answers_are_handled() -> None:
    """Random answers of any size raise nothing, and end."""
    rng = np.random.default_rng(5)
    for count in (0, 1, 2, 40):
        asked = 10.0 ** rng.uniform(-9, 30, (count, 4))
        slopes = rng.normal(size=(count, 4)) * 10.0 ** rng.uniform(-9, 9, (count, 4))
        worst = worst_contradiction(asked, slopes)
        assert worst is None or worst.amount > 0.0
