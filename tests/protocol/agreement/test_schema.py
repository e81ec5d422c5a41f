"""Defaults and limits of an agreement are stated once, in the schema."""

import ast
from pathlib import Path

import pytest

from protocol.agreement import schema
from protocol.agreement.model import Agreement, Pricing, Privacy, Transport
from tests.support import ROOT

FOLDER = ROOT / "protocol" / "agreement"
PLAIN = {0, 1}
"""Numbers that are no limit: nothing, one port more, the first row."""


@pytest.mark.parametrize("name", ["fields.py", "model.py", "parse.py", "render.py", "rules.py"])
def test_no_other_module_states_a_number(name: str) -> None:
    """The modules that check, hold and write terms take every limit and default from the schema."""
    tree = ast.parse(Path(FOLDER / name).read_text())
    numbers = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) in (int, float)
    }
    layout = {"fields.py": {100}, "render.py": set()}.get(name, set())  # length of a shown value
    assert numbers <= PLAIN | layout


def test_every_default_is_within_its_limits() -> None:
    """What a missing field gets could also be stated."""
    ranges = [
        (schema.OVERRUN, schema.OVERRUN_RANGE),
        (schema.TAU, schema.TAU_RANGE),
        (schema.MOMENTUM, schema.MOMENTUM_RANGE),
        (schema.PACE_SECONDS, schema.PACE_RANGE),
        (schema.PATIENCE_SECONDS, schema.PATIENCE_RANGE),
        (schema.TOLERANCE, schema.TOLERANCE_RANGE),
        (schema.RESERVE, schema.RESERVE_RANGE),
        (schema.DRAFT_EPSILON, schema.EPSILON_RANGE),
        (schema.DRAFT_DELTA, schema.DELTA_RANGE),
    ]
    for default, limits in ranges:
        assert limits.least <= default <= limits.most
    choices = [
        (schema.REVEAL, schema.REVEALS),
        (schema.SHAPE, schema.SHAPES),
        (schema.START, schema.STARTS),
        (schema.TOPOLOGY, schema.TOPOLOGIES),
        (schema.DRAFT_MODE, schema.MODES),
    ]
    for choice, allowed in choices:
        assert choice in allowed


def test_the_record_has_the_defaults_of_the_schema() -> None:
    """A record that is built without a file has the same defaults as one from a file."""
    assert Transport().patience_seconds == schema.PATIENCE_SECONDS
    assert Privacy(epsilon=1.0, delta=1e-3).noise == schema.SHAPE
    center = Pricing(step="center")
    bare = Agreement(session="s", mode="exact", rounds=1, resources=(), members=(), pricing=center)
    assert (bare.alpha, bare.tau) == (schema.ALPHA, schema.TAU)
