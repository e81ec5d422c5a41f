"""Noise, caps and balls against the implementation that was written from SPEC.md alone.

It is a second computation, with lists and loops, on random agreements of every kind.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.errors import BadAgreement
from protocol.privacy.axes import deviations, half_axes
from protocol.privacy.ball import ball
from protocol.privacy.calibration import Calibration
from tests.reference import rounds as reference
from tests.reference.agreement import Refused, Terms
from tests.reference.agreement import terms as read
from tests.reference.ball import Ball
from tests.reference.random_agreements import drawn

BALLS = (71, 77, 98, 170, 184, 211, 217, 219, 232, 235, 243, 257, 297, 331, 333, 348, 393, 395)
"""Seeds of agreements with the step `ball`. Most of them trade, and one is refused."""


def noisy(seeds: Iterable[int]) -> Iterator[tuple[Agreement, Terms]]:
    """Random agreements with noise, as the product reads them and as the reference does."""
    for seed in seeds:
        table = drawn(random.Random(seed))
        if table["mode"] != "exact":
            yield from_table(table), read(table)


def opened(build: Any, terms: Any) -> Any:
    """A calibration or a reference; None if it refuses the noise."""
    try:
        return build(terms)
    except (BadAgreement, Refused):
        return None


def balls() -> Iterator[tuple[Agreement, Ball]]:
    """Those of `BALLS` that are not refused, and what the reference makes of each."""
    for agreement, terms in noisy(BALLS):
        engine, ours = opened(reference.RoundEngine, terms), opened(Calibration, agreement)
        assert (ours is None) == (engine is None)
        if engine is not None:
            yield agreement, engine.ball


def test_balls_are_those_of_the_specification() -> None:
    """Half axes, centres, reach and margins are the same numbers, to the last bit."""
    traded = 0
    for agreement, theirs in balls():
        ours = ball(agreement)
        assert half_axes(agreement).tolist() == theirs.A
        assert ours.axes.tolist() == theirs.A
        assert ours.center.tolist() == theirs.center
        reach = [sum(column) / theirs.N for column in zip(*theirs.g, strict=True)]
        assert ours.reach.tolist() == reach
        assert ours.noise.tolist() == theirs.s
        assert ours.deviation.tolist() == theirs.f
        assert ours.margin.tolist() == theirs.M
        assert deviations(agreement) == theirs.z
        traded += ours.trades
    assert traded >= 10


def test_the_noise_of_balls_is_that_of_the_specification() -> None:
    """σ of every member and number in the first round, to nine digits."""
    for agreement, theirs in balls():
        scales = Calibration(agreement).scales(quantities(agreement).share_ticks)
        assert scales == pytest.approx(np.array(theirs.sigma), rel=1e-9, abs=0.0)


def test_the_noise_of_each_number_is_that_of_the_specification() -> None:
    """With every mode, accountant and shape; an agreement that one refuses, the other does too."""
    seen = 0
    for agreement, terms in noisy(range(120)):
        if agreement.masked:
            continue
        ours, theirs = opened(Calibration, agreement), opened(reference.Noise, terms)
        assert (ours is None) == (theirs is None)
        if theirs is None:
            continue
        caps = quantities(agreement).share_ticks
        wanted = np.array([theirs.sigma(row) for row in caps.tolist()])
        assert ours.scales(caps) == pytest.approx(wanted, rel=1e-9, abs=0.0)
        seen += 1
    assert seen >= 40
