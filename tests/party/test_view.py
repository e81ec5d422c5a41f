"""What an operator reads is never better than what is so."""

from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from party.view import _at_most


@given(st.floats(1e-9, 1e12))
@example(119.9999999)
@example(0.99999995)
def test_a_quota_is_never_shown_larger_than_it_is(amount: float) -> None:
    """Six digits of an amount, cut and not rounded."""
    shown = Decimal(_at_most(amount))
    assert shown <= Decimal(amount)
    assert Decimal(amount) - shown <= Decimal(amount) / 100_000
