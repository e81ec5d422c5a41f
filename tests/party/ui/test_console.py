"""What an operator reads is never better than what is so."""

import io
import json
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from party.ledger.budget import figures, opened
from party.ui.console import JsonView, _at_most, show_budget
from tests.support.builders import make_agreement


@given(st.floats(1e-9, 1e12))
@example(119.9999999)
@example(0.99999995)
def test_a_quota_is_never_shown_larger_than_it_is(amount: float) -> None:
    """Six digits of an amount, cut and not rounded."""
    shown = Decimal(_at_most(amount))
    assert shown <= Decimal(amount)
    assert Decimal(amount) - shown <= Decimal(amount) / 100_000


def test_a_log_tells_no_time_finer_than_the_pace() -> None:
    """The times in a log are whole paces, so that it can be shown to others."""
    out = io.StringIO()
    JsonView(make_agreement(pace_seconds=64.0), out).warn("something")
    assert json.loads(out.getvalue())["at"] % 64.0 == 0.0


@pytest.mark.parametrize(
    ("count", "who"), [(1, "1 other member tells"), (2, "2 other members tell")]
)
def test_a_budget_of_totals_names_what_it_assumes(
    capsys: pytest.CaptureFixture[str], count: int, who: str
) -> None:
    """Where only totals could be read, the table says how many colluders its ε allows for."""
    agreement = make_agreement(
        members=4,
        mode="private",
        reveal="totals",
        prices={"step": "sqrt", "step_size": 0.1},
        privacy={"epsilon": 8.0, "delta": 0.001, "colluders": count},
    )
    account = opened(agreement)
    show_budget(figures([account], account.data_set, None, delta=1e-3))
    told = " ".join(capsys.readouterr().out.split())
    assert f"*{count}" in told
    assert f"at most {who} what they know, the rest add their noise, and nobody breaks" in told
    assert "It does not count what payments, quotas and the use of capacities tell" in told
