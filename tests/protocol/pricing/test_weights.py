"""The weights of the rounds: optimal from any start, for any numbers."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from protocol.numeric import Floats
from protocol.pricing.weights import Basis, best_weights
from tests.reference import center as reference

KINDS = ("any", "signs", "alike", "steep and flat", "near the end", "sparse", "all short", "none")


def rounds_of(kind: str, seed: int, count: int, m: int) -> tuple[Floats, Floats, Floats]:
    """What was paid in each round, the slopes, and the box."""
    rng = np.random.default_rng([seed, count, m])
    asked = 10.0 ** rng.uniform(-2, 3, (count, m))
    slopes = rng.uniform(-1.0, 1.0, (count, m))
    if kind == "signs":
        slopes = rng.integers(-1, 2, (count, m)).astype(float)
        asked = np.ones((count, m))
    elif kind == "alike":
        slopes = np.repeat(slopes[:1], count, axis=0)
        asked = np.repeat(asked[:1], count, axis=0)
    elif kind == "steep and flat":
        slopes *= 10.0 ** rng.uniform(-3, 1, (count, 1))
    elif kind == "near the end":
        asked = 50.0 + 10.0 ** rng.uniform(-8, -1, (count, 1)) * rng.normal(size=(count, m))
    elif kind == "sparse":
        slopes = np.where(rng.random((count, m)) < 0.5, 0.0, slopes)
    elif kind == "all short":
        slopes = -np.abs(slopes)
    elif kind == "none":
        slopes = np.zeros((count, m))
    return (slopes * asked).sum(axis=1), slopes, np.full(m, 4.0 * asked.max())


def gap(weights: Floats, paid: Floats, slopes: Floats, box: Floats) -> float:
    w = weights / weights.sum()
    return float(w @ paid + box @ np.maximum(-(w @ slopes), 0.0))


def least_gap(paid: Floats, slopes: Floats, box: Floats) -> float:
    """The optimal value of the linear program, by HiGHS."""
    count, m = slopes.shape
    costs = np.concatenate([paid, box])
    scale = float(np.abs(costs).max())
    found = linprog(
        costs / scale,
        A_ub=np.hstack([-slopes.T, -np.eye(m)]),
        b_ub=np.zeros(m),
        A_eq=np.concatenate([np.ones(count), np.zeros(m)])[None],
        b_eq=[1.0],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.status == 0
    return float(found.fun) * scale


ANY = {
    "kind": st.sampled_from(KINDS),
    "seed": st.integers(0, 10_000),
    "count": st.integers(1, 45),
    "m": st.integers(1, 10),
}


@settings(max_examples=200)
@example(kind="alike", seed=0, count=30, m=5)
@example(kind="signs", seed=0, count=40, m=8)
@example(kind="any", seed=0, count=1, m=1)
@given(**ANY)
def test_no_weights_are_better(kind: str, seed: int, count: int, m: int) -> None:
    """There are at most m + 1 weights, and a solver finds none that prove more."""
    paid, slopes, box = rounds_of(kind, seed, count, m)
    weights, _ = best_weights(rounds=range(count), paid=paid, slopes=slopes, box=box, basis=None)
    assert (weights >= 0.0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-9)
    assert np.count_nonzero(weights) <= m + 1
    size = max(float(np.abs(paid).max()), float(box.max()))
    assert gap(weights, paid, slopes, box) <= least_gap(paid, slopes, box) + 1e-9 * size


@settings(max_examples=50)
@given(**ANY)
def test_a_warm_start_is_as_good_as_a_cold_one(kind: str, seed: int, count: int, m: int) -> None:
    """The last basis leads to equally good weights, also after other rounds were dropped."""
    paid, slopes, box = rounds_of(kind, seed, count + 12, m)
    size = max(float(np.abs(paid).max()), float(box.max()))
    kept, basis = list(range(count)), None
    for number in range(count, count + 12):
        weights, basis = best_weights(
            rounds=kept, paid=paid[kept], slopes=slopes[kept], box=box, basis=basis
        )
        afresh, _ = best_weights(
            rounds=kept, paid=paid[kept], slopes=slopes[kept], box=box, basis=None
        )
        found = [gap(w, paid[kept], slopes[kept], box) for w in (weights, afresh)]
        assert found[0] == pytest.approx(found[1], abs=1e-9 * size)
        free = [i for i in kept if i not in basis]
        kept = [i for i in kept if i not in free[:2]] + [number]


@pytest.mark.parametrize("kind", ["any", "steep and flat"])
def test_an_invalid_basis_is_ignored(kind: str) -> None:
    """Whatever is given as a basis, the weights are optimal."""
    paid, slopes, box = rounds_of(kind, 3, 6, 2)
    paid[1], slopes[1] = paid[0], slopes[0]
    bases: list[Basis | None] = [None, (-1, -3, 0), (0, 1, -1), (0, 1, 2), (5, -2, -4), (3, 4, 5)]
    gaps = []
    for basis in bases:
        weights, after = best_weights(
            rounds=range(6), paid=paid, slopes=slopes, box=box, basis=basis
        )
        gaps.append(gap(weights, paid, slopes, box))
        assert len(set(after)) == 3
    assert gaps == pytest.approx([gaps[0]] * len(bases), rel=1e-9)


HUGE = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0**40, -(2.0**40), 1e-12, 1e100, -1e100, 5e-324])


@settings(max_examples=300)
@given(data=st.data(), m=st.integers(1, 4), count=st.integers(1, 8))
def test_any_numbers_are_handled(data: st.DataObject, m: int, count: int) -> None:
    """No exception, no warning, and weights that can be apportioned."""
    row = st.lists(HUGE, min_size=m, max_size=m)
    slopes = np.array(data.draw(st.lists(row, min_size=count, max_size=count)))
    paid = np.array(data.draw(st.lists(HUGE, min_size=count, max_size=count)))
    box = np.array(
        data.draw(st.lists(st.sampled_from([5e-324, 1.0, 1e100]), min_size=m, max_size=m))
    )
    basis: Basis | None = None
    for kept in range(1, count + 1):
        weights, basis = best_weights(
            rounds=range(kept), paid=paid[:kept], slopes=slopes[:kept], box=box, basis=basis
        )
        assert len(basis) == m + 1
        assert np.isfinite(weights).all()
        assert (weights >= 0.0).all()
        assert weights.max() >= 0.5 / (m + 1)


@settings(max_examples=60)
@given(**ANY)
def test_the_reference_finds_the_same_bits(kind: str, seed: int, count: int, m: int) -> None:
    """Weights and basis agree, with and without a first basis."""
    paid, slopes, box = rounds_of(kind, seed, count + 1, m)
    basis: Basis | None = None
    read: list[int] | None = None
    for kept in (count, count + 1):
        weights, basis = best_weights(
            rounds=range(kept), paid=paid[:kept], slopes=slopes[:kept], box=box, basis=basis
        )
        again, read = reference.best_weights(
            list(range(kept)), paid[:kept].tolist(), slopes[:kept].tolist(), box.tolist(), read
        )
        assert [w.hex() for w in weights.tolist()] == [w.hex() for w in again]
        assert list(basis) == read


def test_a_round_that_fits_and_costs_nothing_has_all_the_weight() -> None:
    """By hand: g = 0 proves that its prices are best."""
    slopes = np.array([[0.5, -0.5], [0.0, 0.0], [-1.0, 1.0]])
    asked = np.array([[1.0, 2.0], [3.0, 3.0], [2.0, 5.0]])
    weights, _ = best_weights(
        rounds=[4, 7, 9],
        paid=(slopes * asked).sum(axis=1),
        slopes=slopes,
        box=np.full(2, 20.0),
        basis=None,
    )
    assert gap(weights, (slopes * asked).sum(axis=1), slopes, np.full(2, 20.0)) == 0.0


def test_two_rounds_are_mixed_until_they_fit() -> None:
    """By hand: half of twice the capacity and half of nothing fill the capacity."""
    slopes, asked = np.array([[-1.0], [1.0]]), np.array([[2.0], [4.0]])
    weights, basis = best_weights(
        rounds=[0, 1], paid=(slopes * asked)[:, 0], slopes=slopes, box=np.array([16.0]), basis=None
    )
    assert weights.tolist() == [0.5, 0.5]
    assert sorted(basis) == [0, 1]
    assert math.isclose(gap(weights, (slopes * asked)[:, 0], slopes, np.array([16.0])), 1.0)
