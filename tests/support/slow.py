"""Which tests `scripts/test --fast` leaves out. Every subpackage must keep a fast test file."""

from functools import cache
from pathlib import Path

from tests.support import ROOT

SLOW = (
    "tests/coordinator/test_draft.py",
    "tests/coordinator/test_next_session.py",
    "tests/coordinator/test_relay.py",
    "tests/coordinator/test_serving.py",
    "tests/party/release/test_mask_collusion.py::test_every_byte_of_a_masked_number_is_uniform",
    "tests/party/test_api.py",
    "tests/party/test_budget_command.py",
    "tests/protocol/pricing/test_center.py::test_any_totals_are_handled",
    "tests/protocol/test_paper.py",
    "tests/protocol/test_paper_bounds.py",
    "tests/protocol/test_reference.py",
    "tests/scripts",
    "tests/system",
)
"""Folders, files and single tests (`file::test`) that start processes or run many sessions."""


def slow_entry(path: Path, test: str = "") -> str | None:
    """The entry of SLOW that covers this test, if there is one."""
    return _entry(str(path), test.partition("[")[0])


@cache
def _entry(path: str, test: str) -> str | None:
    for entry in SLOW:
        file, _, name = entry.partition("::")
        if Path(path).is_relative_to(ROOT / file) and name in ("", test):
            return entry
    return None
