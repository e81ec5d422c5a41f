"""Sessions of companies that are not linear, compared with the joint problem."""

import math

import numpy as np
import pytest

from scripts.lab.common.instances import Instance, central, curved, knapsacks
from scripts.lab.simulate import command_line, play


def played(instance: Instance, *arguments: str) -> dict[str, object]:
    options = command_line().parse_args(["--mode", "exact", "--worth", "0", *arguments])
    return play(instance, central(instance), options)


def test_knapsacks_come_near_to_the_joint_optimum() -> None:
    """Ten companies with indivisible items: all have plans, on average less than 5 % below."""
    lost = []
    for seed in (1, 2, 3):
        figures = played(knapsacks(seed, parties=10, resources=2, things=12))
        assert figures["without_plan"] == 0
        assert isinstance(figures["quota_loss"], float)
        assert figures["quota_loss"] >= -1e-9  # the optimum is a proved bound
        lost.append(figures["quota_loss"])
    assert math.fsum(lost) / len(lost) < 0.05


@pytest.mark.parametrize("seed", [1, 2])
def test_concave_objectives_come_to_the_joint_optimum(seed: int) -> None:
    """Prices, certificate and quotas are as near as for linear companies."""
    figures = played(curved(seed, parties=4, resources=3))
    gap, bound, lost = (figures[k] for k in ("dual_gap_weighted", "certificate", "quota_loss"))
    assert isinstance(gap, float)
    assert isinstance(bound, float)
    assert isinstance(lost, float)
    assert -1e-6 <= gap <= bound <= 1e-3
    assert lost <= 1e-3
    assert figures["without_plan"] == 0


def test_the_joint_optimum_of_knapsacks_is_that_of_enumeration() -> None:
    """The reference itself: two companies with four items each, every choice tried."""
    instance = knapsacks(5, parties=2, resources=1, things=4)
    best = 0.0
    weight = np.concatenate([d.value for d in instance.data])
    worth = np.concatenate([d.utility for d in instance.data])
    for choice in range(256):
        chosen = np.array([choice >> i & 1 for i in range(8)], dtype=float)
        if weight @ chosen <= instance.capacity[0]:
            best = max(best, float(worth @ chosen))
    optimum = central(instance)
    assert optimum.utility == pytest.approx(best, rel=1e-4)
    assert math.fsum(d.earns(p) for d, p in zip(instance.data, optimum.plans, strict=True)) == (
        pytest.approx(best)
    )
