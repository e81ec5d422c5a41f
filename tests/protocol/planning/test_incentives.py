"""What texts say about lies: measured figures, and a warning where members are few."""

import re

import pytest

from protocol.planning.incentives import MEASURED, expectation, lies_among
from protocol.planning.verdict import plan_figures
from protocol.report.plan import plan_page
from protocol.report.plan_trials import Variant
from protocol.report.terminal import plan_text
from tests.support import ROOT
from tests.support.builders import make_agreement, public_key


def test_the_table_is_the_measured_one() -> None:
    """Every figure stands in the results of `scripts/attack shading`, in its row and column."""
    page = (ROOT / "scripts" / "results" / "ATTACK.md").read_text()
    heading = "## What a member gains by answering for another company\n"
    section = page.split(heading)[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \|[^|]*\|[^|]*\| ([^|]*) \|[^|]*\| ([^|]*) \|", section, re.M)
    shown = [
        (int(members), *(float(x) for cell in cells for x in cell.split(", ")))
        for members, *cells in rows
    ]
    assert len(shown) == 6
    assert shown == [
        (r.members, r.hindsight_median, r.hindsight_most, r.beforehand_median, r.beforehand_most)
        for r in MEASURED
    ]


@pytest.mark.parametrize(
    ("members", "measured"), [(2, 3), (3, 3), (9, 8), (10, 10), (49, 20), (500, 50)]
)
def test_the_row_is_that_of_the_next_smaller_number_measured(members: int, measured: int) -> None:
    """Numbers between two rows, above the last and below the first have a row."""
    assert lies_among(members).members == measured


@pytest.mark.parametrize(
    ("members", "share", "words"),
    [
        (9, 0.2, "fewer than 10 members a lie can pay"),
        (10, 0.2, None),
        (10, 0.3, "more than 2 times an equal part"),
    ],
)
def test_warnings_of_few_members_and_wide_shares(
    members: int, share: float, words: str | None
) -> None:
    """Terminal and page say what to expect, and warn only where a lie can pay well."""
    names = [f"member{k}" for k in range(members)]
    agreement = make_agreement(
        member=[{"name": n, "signing_key": public_key(n).hex(), "share": share} for n in names],
        prices={},
    )
    figures = plan_figures(agreement)
    text = plan_text(agreement, figures)
    page = plan_page(agreement, figures, [Variant("as agreed", None)])
    assert expectation(lies_among(members)) in text
    assert "If a member lies" in page
    for warned in ("fewer than 10 members a lie can pay", "more than 2 times an equal part"):
        assert (warned in text) == (warned in page) == (words is not None and words in warned)
