"""Caps: how much of each capacity a party may claim, in whole ticks."""

import numpy as np
import pytest
from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TICKS
from protocol.privacy.sensitivity import (
    adaptive_caps,
    first_caps,
    floor_ticks,
    next_caps,
    smallest_cap,
)
from tests.support.noisy_agreements import agree_each as agree


def clipped(shares: tuple[float, ...], *, alpha: float = 1.0, tau: float = 0.01) -> Agreement:
    return agree(mode="clipped", capacity=(10.0, 20.0), shares=shares, alpha=alpha, tau=tau)


@pytest.mark.parametrize(("tau", "ticks"), [(1e-4, 105), (2.0**-20, 1), (0.5, TICKS // 2)])
def test_the_floor_is_tau_of_a_capacity_rounded_up(tau: float, ticks: int) -> None:
    """A ten-thousandth of 1,048,576 ticks is 104.9, and so 105."""
    assert floor_ticks(replace(clipped((1.0, 1.0)), tau=tau)) == ticks


def test_the_floor_is_one_tick_at_least() -> None:
    """Weights of 0 would give caps of 0 to all who asked for nothing."""
    assert floor_ticks(replace(clipped((1.0, 1.0)), tau=0.0)) == 1


def test_first_caps_are_equal_parts_within_the_shares() -> None:
    """Four members have α/4 each, unless the share is less."""
    caps = first_caps(clipped((1.0, 1.0, 0.25, 0.125), alpha=2.0))
    assert caps.tolist() == [[TICKS // 2] * 2, [TICKS // 2] * 2, [TICKS // 4] * 2, [TICKS // 8] * 2]


def test_caps_follow_the_releases_within_the_shares() -> None:
    """A member gets its part of what all released, and no more than its share."""
    agreement = clipped((1.0, 1.0, 0.5))
    released = np.array([[TICKS // 2, TICKS // 8], [TICKS // 4, TICKS // 8], [TICKS // 4, TICKS]])
    # Of the second: a tenth is 104,857.6 ticks. The largest remainders, then the first, round up.
    assert adaptive_caps(agreement, released).tolist() == [
        [TICKS // 2, 104_858],
        [TICKS // 4, 104_857],
        [TICKS // 4, 838_861],
    ]
    caps = next_caps(agreement, released)
    assert caps[2].tolist() == [TICKS // 4, TICKS // 2]
    assert (caps[:2] == adaptive_caps(agreement, released)[:2]).all()


def test_releases_count_between_the_floor_and_the_capacity() -> None:
    """What is released below τ or above the capacity counts as τ or the capacity."""
    agreement = clipped((1.0, 1.0), tau=0.25)
    wild = np.array([[-TICKS, 0], [9 * TICKS, TICKS]])
    cut = np.array([[TICKS // 4] * 2, [TICKS] * 2])
    assert (adaptive_caps(agreement, wild) == adaptive_caps(agreement, cut)).all()
    assert adaptive_caps(agreement, wild)[:, 0] == pytest.approx([TICKS / 5, 4 * TICKS / 5], abs=1)


@pytest.mark.parametrize("alpha", [1.0, 1.234567, 2.9])
def test_caps_add_up_to_alpha_of_the_capacity(alpha: float) -> None:
    """To a tick, whatever was released."""
    rng = np.random.default_rng(1)
    agreement = clipped((1.0,) * 5, alpha=alpha)
    for _ in range(20):
        caps = adaptive_caps(agreement, rng.integers(-TICKS, 2 * TICKS, (5, 2)))
        assert caps.sum(axis=0).tolist() == [int(alpha * TICKS)] * 2


@pytest.mark.parametrize("mode", ["private", "clipped"])
def test_only_clipped_caps_move(mode: str) -> None:
    """In the other modes a cap is the share, before and after any release."""
    agreement = agree(mode=mode, capacity=(10.0, 20.0), shares=(1.0, 0.75))
    shares = quantities(agreement).share_ticks.tolist()
    released = np.array([[TICKS, TICKS], [TICKS // 100, TICKS]])
    assert (first_caps(agreement).tolist() == shares) == (mode == "private")
    assert (next_caps(agreement, released).tolist() == shares) == (mode == "private")


@pytest.mark.parametrize("K", [2, 7, 40])
@pytest.mark.parametrize("alpha", [1.0, 1.7])
def test_no_cap_falls_below_the_smallest(K: int, alpha: float) -> None:
    """One member asks for nothing and all others for everything: it keeps little more."""
    agreement = clipped((1.0,) * K, alpha=alpha)
    released = np.full((K, 2), TICKS)
    released[0] = 0
    least, found = smallest_cap(agreement), int(adaptive_caps(agreement, released).min())
    assert least <= found <= least * K / (K - 1) + 1
