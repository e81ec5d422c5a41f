"""Settings that hold for every test, and which tests are slow.

Properties are the same in every run. Whatever is left out of a run is named at its end.
"""

from collections import Counter

import pytest
from hypothesis import settings

from tests.kit import ROOT

settings.register_profile("sotto", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("sotto")

SLOW_ROOMS = {ROOT / "tests" / "system", ROOT / "tests" / "scripts"}
"""Where nearly every test plays whole sessions."""

_left_out: Counter[str] = Counter()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: left out by `scripts/test --fast`")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent in SLOW_ROOMS:
            item.add_marker(pytest.mark.slow)


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        room = item.path.parent if item.path.parent in SLOW_ROOMS else item.path
        _left_out[str(room.relative_to(ROOT))] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _left_out:
        named = ", ".join(f"{count} of {name}" for name, count in sorted(_left_out.items()))
        terminalreporter.write_line(f"left out: {named}")
