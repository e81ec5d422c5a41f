"""Remembered corners: they give the answers of a party's subproblem, with few solver calls."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from party.model.best_response import Answer, Subproblem
from party.model.company_model import CompanyModel, dense
from party.release.gate import clamped
from protocol.agreement.schema import TICKS
from protocol.numeric import Floats, Ticks
from scripts.lab.common.instances import RESOURCES, Instance, draw
from scripts.lab.study.active_sets import KEPT, Remembering
from scripts.lab.study.grid import VARIANTS, agree
from tests.support.problems import (
    LIMIT,
    answered,
    as_good_as_cold,
    degenerate,
    drawn,
    free,
    mixed_units,
    one_column,
    other_solver,
    price_path,
    small,
    walk,
)


class Counting(Remembering):
    """A subproblem that counts its solver calls."""

    solved = 0

    def _learn(self, answer: Answer, prices: Floats) -> None:
        self.solved += 1
        super()._learn(answer, prices)


def price_walk(rng: np.random.Generator, steps: int) -> list[Floats]:
    """Prices near the worth of a resource that drift, stop at 0 and sometimes jump."""
    path = [rng.uniform(0.0, 20.0, RESOURCES)]
    for _ in range(steps):
        moved = path[-1] + rng.normal(0.0, 2.0, RESOURCES)
        far = rng.uniform(0.0, 1000.0, RESOURCES)
        path.append(far if rng.random() < 0.05 else np.maximum(moved, 0.0))
    return path


def released(instance: Instance, answer: Answer) -> Ticks:
    """What a gate makes of an answer before it adds noise."""
    agreement = agree(VARIANTS["recommended"], instance, rounds=1, epsilon=4.0, buffer=None)
    caps = np.full(RESOURCES, TICKS)
    return clamped(agreement, answer.demand, np.array(answer.objective), caps)


@pytest.mark.parametrize("first", range(0, 12, 6))
def test_answers_in_ticks_equal_those_of_a_gate(first: int) -> None:
    """Over many drawn problems and prices answers agree to the tick, and mostly to the bit.

    Bits can differ where the solver reaches a corner by another path, by far less than a tick.
    """
    asked = same_bits = solved = 0
    for seed in range(first, first + 6):
        instance = draw(
            seed, parties=4, share_total=2.0 if seed % 2 else None, demands=seed % 3 > 0
        )
        path = price_walk(np.random.default_rng(seed), 80)
        for data, share in zip(instance.data, instance.share, strict=True):
            own = Subproblem(data, share * instance.capacity)
            study = Counting(data, share * instance.capacity)
            for prices in path:
                expected, found = answered(own, prices), answered(study, prices)
                assert released(instance, found).tolist() == released(instance, expected).tolist()
                assert found.demand == pytest.approx(expected.demand, rel=1e-11, abs=1e-11)
                assert found.objective == pytest.approx(expected.objective, rel=1e-11, abs=1e-11)
                same_bits += found.demand.tobytes() == expected.demand.tobytes()
            asked += len(path)
            solved += study.solved
    assert same_bits > 0.5 * asked
    assert solved < 0.7 * asked, "hardly anything was remembered"


@pytest.mark.parametrize("model", [small, drawn, degenerate, free, mixed_units])
def test_answers_are_those_of_a_solver_without_memory(model: Callable[[int], CompanyModel]) -> None:
    """Where several corners are equally good, the answer is feasible and optimal."""
    asked = solved = 0
    for seed in range(60, 68):
        data = model(seed)
        problem = Counting(data, LIMIT)
        path = walk(np.random.default_rng(seed), 30)
        for prices in path:
            as_good_as_cold(problem, data, prices)
        asked += len(path)
        solved += problem.solved
    assert solved < 0.7 * asked, "hardly anything was remembered"


@pytest.mark.parametrize("seed", range(4))
def test_another_solver_agrees(seed: int) -> None:
    """Remembered answers have the objective that scipy finds."""
    data = small(seed)
    problem = Counting(data, LIMIT)
    path = walk(np.random.default_rng(seed), 20)
    for prices in path:
        answered(problem, prices)
    before = problem.solved
    for prices in path[::-2]:
        expected = other_solver(data, LIMIT, prices)
        assert answered(problem, prices).objective == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert problem.solved - before < len(path[::-2])


def test_the_price_path_of_a_session_needs_few_solver_calls() -> None:
    """Prices that rise, fall and settle as in a session meet few different corners."""
    instance, path = draw(1, parties=4), price_path(1, parties=4, rounds=60)
    for data in instance.data:
        problem = Counting(data, instance.capacity)
        for prices in path:
            answer = answered(problem, prices)
            cold = answered(Subproblem(data, instance.capacity), prices)
            assert answer.objective == pytest.approx(cold.objective, rel=1e-9)
        assert problem.solved <= KEPT


def test_prices_seen_before_need_no_solver() -> None:
    """At prices seen before, in any order, the answer is known and unchanged."""
    instance = draw(2, parties=2)
    problem = Counting(instance.data[0], instance.capacity)
    path = price_path(2, parties=2, rounds=12)
    first = [answered(problem, prices) for prices in path]
    before = problem.solved
    for place in np.random.default_rng(2).permutation(len(path)):
        again = answered(problem, path[place])
        assert again.objective == pytest.approx(first[place].objective, rel=1e-12)
    assert problem.solved == before


def test_a_corner_learned_at_a_negative_price_demands_only_its_use() -> None:
    """A corner learned at a negative price demands at price 0 only what it uses."""
    problem = Remembering(one_column(), np.array([12.0]))
    demands = [answered(problem, np.array([price])).demand.tolist() for price in (-1.0, 0.0, 1.0)]
    assert demands == [[12.0], [3.0], [3.0]]


def test_memory_is_bounded() -> None:
    """The number of remembered corners is limited, and all answers stay right."""
    data = dense(
        A=np.ones((1, 60)),
        B=np.ones((0, 60)),
        u=np.arange(1.0, 61.0),  # become profitable one after the other as the price falls
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.zeros(60),
        upper=np.ones(60),
    )
    problem = Counting(data, np.array([100.0]))
    prices = [60.5 - k for k in range(60)]
    for price in [*prices, *prices]:
        answer = answered(problem, np.array([price]))
        paying = [u - price for u in data.utility if u > price]
        assert answer.objective == pytest.approx(math.fsum(paying), rel=1e-9, abs=1e-9)
        assert answer.demand.tolist() == [len(paying)]
    assert problem.solved > KEPT
    assert len(problem._corners._regions) == KEPT


def test_remembered_answers_cannot_be_changed() -> None:
    """A caller cannot change what is remembered."""
    problem = Remembering(small(1), LIMIT)
    answered(problem, np.ones(3))
    assert problem.region is not None
    for array in (problem.region.corner.plan, problem.region.corner.demand):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7.0
