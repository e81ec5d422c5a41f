"""A company that has a plan gets one, whatever the size of its numbers."""

from typing import Any
from unittest import mock

import highspy
import numpy as np
import pytest

from party.model import best_response, highs_program, interior_point
from party.model.scaling import scales
from party.settlement import settle
from party.settlement.settle import plan_within
from protocol.errors import Unsolved
from scripts.lab.common import instances
from tests.party.settlement.robustness import at_money, concave, played


@pytest.mark.parametrize("exponent", [-6, 9, 10])
def test_the_size_of_money_does_not_matter(exponent: int) -> None:
    """Objectives from 10⁻⁶ to 10¹⁰: every company has a plan, and all of them are nearly best."""
    count = at_money(exponent, 2)
    assert count.without_plan == count.refused == 0
    assert count.lost <= 1e-4


@pytest.mark.parametrize("seed", [11, 16, 18, 32, 38])
def test_concave_companies_are_solved(seed: int) -> None:
    """Models that HiGHS cannot solve as they are written are not refused, and end with plans."""
    count = played(concave(seed))
    assert count.without_plan == count.refused == 0


def test_companies_without_joint_plans_are_refused() -> None:
    """A company that needs more than all of a capacity is refused, and a joint solve agrees."""
    count = played(concave(981234))
    assert (count.refused, count.impossible) == (0, 1)


@pytest.mark.parametrize("kind", [instances.draw, instances.curved])
def test_a_plan_is_mixed_if_the_solver_fails(kind: object) -> None:
    """Where the solver fails with the quota, answers to prices give a plan that is as good."""
    if kind is instances.draw:
        instance = instances.draw(3, parties=3, demands=False)
    else:
        instance = instances.curved(3, parties=3, resources=3)
    for data in instance.data:
        limit = instance.capacity / 4.0
        best = plan_within(data, limit)
        assert best is not None
        with mock.patch.object(settle, "_continuous_plan_within", side_effect=Unsolved("")):
            mixed = plan_within(data, limit, ceiling=instance.capacity)
        assert mixed is not None
        assert np.all(mixed.uses <= limit * (1.0 + 1e-7))
        assert mixed.utility == pytest.approx(best.utility, rel=1e-6)


def test_a_failing_solver_is_not_a_missing_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the solver fails, the error says so; only a proof is called infeasible."""
    data = instances.draw(3, parties=3, demands=False).data[0]
    unlimited = best_response.loaded

    def limited(*arguments: Any) -> highspy.Highs:
        solver = unlimited(*arguments)
        for option in ("simplex_iteration_limit", "ipm_iteration_limit"):
            solver.setOptionValue(option, 0)
        solver.setOptionValue("presolve", "off")
        return solver

    monkeypatch.setattr(best_response, "loaded", limited)
    with pytest.raises(Unsolved, match="neither solve the model nor prove"):
        plan_within(data, np.ones(data.resources))


@pytest.mark.parametrize("seed", [3, 7, 193])
def test_our_own_method_agrees_with_highs(seed: int) -> None:
    """The interior-point method gives the optimum of HiGHS, or one that HiGHS does not find."""
    instance = concave(seed)
    for data in instance.data:
        scale = next(scales(data, instance.capacity))
        scaled = scale.applied(data)
        terms = highs_program.hessian(scaled)
        assert terms is not None
        program = highs_program.model(scaled, instance.capacity * scale.units)
        values = interior_point.solved(program, terms)
        assert values is not None
        answer = best_response.Subproblem(data, instance.capacity).answer(np.zeros(data.resources))
        assert answer is not None
        earned = data.earns(values[: data.columns])
        assert earned == pytest.approx(answer.objective, rel=1e-6, abs=1e-6 / scale.money)


def test_a_second_attempt_starts_from_the_first() -> None:
    """If a plan exceeds its limit by rounding, the next solve keeps the basis: one cold solve."""
    data, limits = instances.draw(3, parties=3, demands=False), np.linspace(0.1, 0.6, 12)
    move = best_response.Subproblem.move_ceiling
    with (
        mock.patch.object(settle, "_solved", wraps=settle._solved) as cold,
        mock.patch.object(
            best_response.Subproblem, "move_ceiling", autospec=True, side_effect=move
        ) as warm,
    ):
        for fraction in limits:
            limit = fraction * data.capacity
            plan = plan_within(data.data[0], limit)
            assert plan is not None
            assert np.all(plan.uses <= limit)
    assert cold.call_count == len(limits)
    assert warm.call_count > 0
