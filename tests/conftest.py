"""Settings that hold for every test: no chance in properties, closed ledgers, which are slow.

Which cases Hypothesis draws still depends on the files that are run together, because it also
draws from the literals of all modules that are loaded. So edges that a property guards are given
to it as examples. Whatever is left out of a run is named at its end.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support import ROOT, ledgers
from tests.support.browser import CHROMIUM, Browser

settings.register_profile("sotto", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("sotto")
ledgers.watch()

SLOW = [
    ROOT / "tests" / name
    for name in (
        "coordinator/test_draft.py",
        "coordinator/test_next_session.py",
        "coordinator/test_relay.py",
        "coordinator/test_serving.py",
        "party/test_budget_command.py",
        "protocol/test_paper.py",
        "scripts",
        "system",
    )
]
"""Rooms and files that start processes, or play whole sessions many times over."""

_left_out: Counter[str] = Counter()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: left out by `scripts/test --fast`")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(place) for place in SLOW):
            item.add_marker(pytest.mark.slow)


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        place = next((p for p in SLOW if item.path.is_relative_to(p)), item.path)
        _left_out[str(place.relative_to(ROOT))] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _left_out:
        named = ", ".join(f"{count} of {name}" for name, count in sorted(_left_out.items()))
        terminalreporter.write_line(f"left out: {named}")


@pytest.fixture(autouse=True)
def _every_ledger_is_closed() -> Iterator[None]:
    """A ledger that is left open keeps its lock, and from Python 3.13 on it is an error."""
    yield
    assert not ledgers.left_open(), "a ledger was left open"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A real browser, one for all tests of a file."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine to look at pages with")
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened
