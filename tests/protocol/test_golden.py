"""Sessions end as recorded, bit for bit."""

import json
from importlib.metadata import version

import pytest

from tests.reference.make_golden import FILE, SESSIONS, played

RECORDED = json.loads(FILE.read_text())


@pytest.mark.skipif(
    version("highspy") != RECORDED["highspy"],
    reason="another version of HiGHS may choose other plans among equally good ones",
)
@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_ends_as_recorded(name: str) -> None:
    """Agreement, releases, prices, payments and chain hash are those of the golden file."""
    assert played(SESSIONS[name]) == RECORDED["sessions"][name]
