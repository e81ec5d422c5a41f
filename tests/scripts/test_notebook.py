"""The tutorial notebook runs as it is, from models to a settled session."""

import asyncio

import pytest

from scripts.examples.notebook import TUTORIAL, run


@pytest.mark.timeout(300)
def test_the_tutorial_runs_to_its_end() -> None:
    """Its three companies end at the joint optimum, each of them gains, and the audit agrees."""
    names = asyncio.run(run(TUTORIAL))
    assert names["earned"] == pytest.approx(names["best"], rel=1e-3)
    assert names["audit"].returncode == 0
    assert names["rounds"]
    for result in names["results"].values():
        assert result.gain > 0.0
        assert "private" in result._repr_html_()
