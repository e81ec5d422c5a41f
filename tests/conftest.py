"""Settings for every test: deterministic properties, closed ledgers, and slow tests.

Hypothesis also draws from the literals of all loaded modules, so its cases depend on the files that
run together. Give the edge cases of a property as explicit examples. The end of a run names the
tests that it left out.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.support import ROOT, ledgers
from tests.support.browser import CHROMIUM, Browser
from tests.support.slow import slow_entry

settings.register_profile("sotto", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("sotto")
ledgers.watch()

_left_out: Counter[str] = Counter()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: left out by `scripts/test --fast`")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if slow_entry(item.path, item.name):
            item.add_marker(pytest.mark.slow)
    # Files of slow tests first, so that no process is left with one at the end.
    items.sort(key=lambda item: slow_entry(item.path) is None)


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        entry = slow_entry(item.path, item.name) or item.path.relative_to(ROOT).as_posix()
        _left_out[entry] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the list to the process that prints the summary. Every worker has the whole list."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if not _left_out:
        _left_out.update(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _left_out:
        entries = ", ".join(f"{count} of {name}" for name, count in sorted(_left_out.items()))
        terminalreporter.write_line(f"left out: {entries}")


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
