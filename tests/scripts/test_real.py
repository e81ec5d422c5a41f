"""The page on other models: what it runs, and its rows."""

from typing import Any

import pytest

from scripts.lab.common.instances import draw
from scripts.lab.study.real_models import banded, page


def test_a_narrow_band_is_certain_but_for_its_width() -> None:
    """Each company has an equal floor, and may have the band in addition."""
    instance = draw(1, parties=4, demands=False)
    least, most = banded(instance, 0.5).bands
    assert least / instance.capacity == pytest.approx(0.125)
    assert most / instance.capacity == pytest.approx(0.625)
    least, most = banded(instance, 1.0).bands
    assert not least.any()
    assert most / instance.capacity == pytest.approx(1.0)


def test_the_page_has_a_line_for_each() -> None:
    """One line for each set; averages for the others, and a dash for what is missing."""
    found: dict[str, Any] = {
        "rounds_played": 30,
        "without_plan": 1,
        "worse_off": 0,
        "largest_loss": 0.0,
        "parties": 4,
        "dual_gap_weighted": 0.0012,
        "certificate": 0.002,
        "quota_loss": None,
        "certificate_part": 0.0001,
        "obstacles": [],
        "beyond": 0.0,
    }
    rows: dict[str, dict[str, Any]] = {
        "set small": {"resources": 3, "columns": 60, "brought": True, **found},
        "default small": {"resources": 3, "rounds": 162, **found},
        "default drawn 50 1": {
            "resources": 50,
            "rounds": 350,
            **found,
            "obstacles": ["certificate"],
            "quota_loss": 0.001,
        },
        "kind whole 3 1": {**found, "quota_loss": 0.01},
        "kind whole 3 2": {**found, "quota_loss": 0.03},
        "band totals 8 0.5 1": {"noise": 1.5, "own": 0.3, "placebo": 0.4},
    }
    text = page(rows)
    assert "| `small` | 4 | 3 | 60 | yes | 30 | 0.12 % | 0.2 % | – | 1 | 0 |" in text
    assert "| `small` | 3 | 30 | 162 | yes | 0.01 % | – | 1 | 0 % |" in text
    assert "| `drawn 50 1` | 50 | 30 | 350 | certificate | 0.01 % | 0.1 % | 1 | 0 % |" in text
    assert "| whole | 3 | 2 | 30 | 2 % | 3 % | 2 |" in text
    assert "| totals | 8 | 0.5 | 1.5 | 30 % | 40 % | 25 % |" in text
