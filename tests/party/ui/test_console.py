"""What an operator reads is never better than the truth."""

import io
import json
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from party.ledger.budget import opened
from party.ui.budget_table import figures, show_budget
from party.ui.console import JsonView, ProgressView, _rounded_down
from tests.support.builders import make_agreement, play


@given(st.floats(1e-9, 1e12))
@example(119.9999999)
@example(0.99999995)
def test_a_quota_is_never_shown_larger_than_it_is(amount: float) -> None:
    """Amounts have six digits and are rounded down."""
    shown = Decimal(_rounded_down(amount))
    assert shown <= Decimal(amount)
    assert Decimal(amount) - shown <= Decimal(amount) / 100_000


def test_times_in_a_log_are_no_finer_than_the_pace() -> None:
    """Times in a log are multiples of the pace, so that others may see it."""
    out = io.StringIO()
    JsonView(make_agreement(pace_seconds=64.0), out).warn("something")
    assert json.loads(out.getvalue())["at"] % 64.0 == 0.0


def test_prices_of_the_next_round_are_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The total of a round stands beside the prices that follow from it, until the last round."""
    agreement = make_agreement(rounds=2)
    transcript, (_, first, last) = play(agreement)
    for state, releases in zip((first, last), transcript.rounds, strict=True):
        ProgressView(agreement).round(state, releases)
    running, over = capsys.readouterr().err.splitlines()
    assert "off the capacity  next prices" in running
    assert "off the capacity  prices" in over


@pytest.mark.parametrize(
    ("count", "who"),
    [(1, "1 other member shares what it knows"), (2, "2 other members share what they know")],
)
def test_the_budget_table_names_its_assumption_about_colluders(
    capsys: pytest.CaptureFixture[str], count: int, who: str
) -> None:
    """If only totals are public, the table says how many colluders its ε allows for."""
    agreement = make_agreement(
        members=4,
        mode="private",
        reveal="totals",
        prices={"step": "sqrt", "step_size": 0.1},
        privacy={"epsilon": 8.0, "delta": 0.001, "colluders": count},
    )
    account = opened(agreement)
    show_budget(figures([account], account.data_set, None, delta=1e-3))
    output = " ".join(capsys.readouterr().out.split())
    assert f"*{count}" in output
    assert f"at most {who}, the rest add their noise, and no one breaks" in output
    assert "cover what payments, quotas and the use of capacities show" in output
