"""What `scripts/test --fast` runs: no subpackage is left without a test."""

import ast
from functools import cache

import pytest

from tests.support import ROOT
from tests.support.slow import SLOW, slow_entry

PACKAGES = sorted(
    file.parent.relative_to(ROOT).as_posix().replace("/", ".")
    for root in ("protocol", "party", "coordinator")
    for file in (ROOT / root).rglob("__init__.py")
)


@cache
def imported_by_fast_tests() -> set[str]:
    """The modules that fast test files of the three packages import."""
    names: set[str] = set()
    for root in ("protocol", "party", "coordinator"):
        for path in (ROOT / "tests" / root).rglob("test_*.py"):
            if slow_entry(path) is None:
                for node in ast.walk(ast.parse(path.read_text())):
                    if isinstance(node, ast.ImportFrom) and node.module:
                        names.add(node.module)
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_every_subpackage_has_a_fast_test(package: str) -> None:
    """A fast test file imports a module of the subpackage."""
    assert any(name.startswith(f"{package}.") for name in imported_by_fast_tests())


@pytest.mark.parametrize("entry", SLOW)
def test_every_slow_entry_exists(entry: str) -> None:
    """A renamed file or test must be renamed in SLOW too."""
    file, _, name = entry.partition("::")
    assert (ROOT / file).exists()
    assert f"def {name}" in (ROOT / file).read_text() if name else True
