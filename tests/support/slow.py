"""Which tests `scripts/test --fast` leaves out. Every subpackage must keep a fast test file."""

from functools import cache
from pathlib import Path

from tests.support import ROOT

SLOW = (
    "tests/coordinator/test_bands.py",
    "tests/coordinator/test_draft.py",
    "tests/coordinator/test_next_session.py",
    "tests/coordinator/test_relay.py",
    "tests/coordinator/test_serving.py",
    "tests/party/model/test_best_response.py::test_answers_along_any_prices_are_feasible_and_best",
    "tests/party/model/test_private_memory.py",
    "tests/party/model/test_written_by_tools.py",
    "tests/party/rehearsal/test_rehearse.py::test_the_command_leaves_nothing_behind",
    "tests/party/release/test_commitments.py",
    "tests/party/release/test_mask_collusion.py",
    "tests/party/release/test_pacing.py",
    "tests/party/settlement/test_no_capacity.py",
    "tests/party/settlement/test_robustness.py",
    "tests/party/test_abandon.py",
    "tests/party/test_api.py",
    "tests/party/test_budget_command.py",
    "tests/party/test_follow.py",
    "tests/protocol/outcome/test_consistency.py",
    "tests/protocol/planning/test_privacy_statement.py::test_a_payment_reveals_no_more_than_stated",
    "tests/protocol/pricing/test_center.py::test_any_totals_are_handled",
    "tests/protocol/pricing/test_center.py::test_certificate_is_never_below_the_truth",
    "tests/protocol/pricing/test_center.py::test_no_company_loses_more_than_the_certificate",
    "tests/protocol/pricing/test_center.py::test_prices_become_exact",
    "tests/protocol/pricing/test_center.py::test_product_and_reference_agree_on_any_market",
    "tests/protocol/pricing/test_center.py::test_weights_are_integers_and_give_the_averages",
    "tests/protocol/privacy/test_collusion.py",
    "tests/protocol/session/test_machine.py::test_no_sequence_of_events_breaks_an_invariant",
    "tests/protocol/test_golden.py",
    "tests/protocol/test_paper.py",
    "tests/protocol/test_paper_bounds.py",
    "tests/protocol/test_reference.py",
    "tests/protocol/wire/test_codec.py::test_no_session_accepts_more_than_the_hard_limit",
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
