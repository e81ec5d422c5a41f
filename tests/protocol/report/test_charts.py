"""Charts: their axes, lines and averages."""

import numpy as np
import pytest

from protocol.report.charts import Line, chart, round_numbers, trailing_mean


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 9.0, [0, 2, 4, 6, 8]),
        (-260.0, 480.0, [-200, 0, 200, 400]),
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-1e15, 0.0, [-1e15, -8e14, -6e14, -4e14, -2e14, 0]),
        (0.0, 3e-9, [0, 1e-9, 2e-9, 3e-9]),
    ],
)
def test_axes_have_round_numbers(low: float, high: float, expected: list[float]) -> None:
    """An axis is marked at a few round numbers, and at zero."""
    assert round_numbers(low, high) == pytest.approx(expected)


@pytest.mark.parametrize("count", [1, 2, 399, 400, 401, 10_000])
def test_chart_of_any_length_stays_small(count: int) -> None:
    """A line runs from the first round to the last, with few corners, within its frame."""
    drawn = chart("r", "note", [Line([float(i % 7) - 3.0 for i in range(count)])], first=1)
    points = drawn.findall(".//polyline")[0].attrib["points"].split()
    places = [tuple(map(float, point.split(","))) for point in points]
    assert len(points) <= 402
    assert places[0][0] == 54.0
    assert places[-1][0] == 314.0
    assert all(10.0 <= y <= 128.0 for _, y in places)


def test_trailing_mean_is_of_the_last_rounds() -> None:
    """Each value is the mean of the last values, or of as many as there were."""
    means = trailing_mean(np.array([3.0, 5.0, 7.0, 0.0]), 3)
    assert means.tolist() == pytest.approx([3.0, 4.0, 5.0, 4.0])
