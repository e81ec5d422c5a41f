"""Settings for every test: deterministic properties, closed ledgers, and slow tests.

Hypothesis also draws from the literals of all loaded modules, so its cases depend on the files that
run together. Give the edge cases of a property as explicit examples. The end of a run names the
tests that it left out.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import ledgers
from tests.support.browser import CHROMIUM, Browser
from tests.support.slow import SLOW, slow_entry

settings.register_profile("sotto", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("sotto")
ledgers.watch()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: left out by `scripts/test --fast`")


def is_fast(config: pytest.Config) -> bool:
    """Whether this run leaves out slow tests."""
    return bool(config.getoption("markexpr") == "not slow")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file of slow tests that is left out: every process would import it."""
    return True if is_fast(config) and slow_entry(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if slow_entry(item.path, item.name):
            item.add_marker(pytest.mark.slow)
    # Files of slow tests first, so that no process is left with one at the end.
    items.sort(key=lambda item: slow_entry(item.path) is None)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if is_fast(config):
        terminalreporter.write_line(f"left out: {', '.join(SLOW)}")


@pytest.fixture(autouse=True)
def _ledgers_are_closed() -> Iterator[None]:
    """An open ledger keeps its lock, and from Python 3.13 on it is an error."""
    yield
    assert not ledgers.left_open(), "a ledger was left open"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A real browser, one for all tests of a file."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened
