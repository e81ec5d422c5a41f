"""Numbers, amounts and units as the pages write them."""

import pytest

from protocol.agreement.model import Resource
from protocol.report.format import aligned, capacity_text, coins, figure, fixed, per
from tests.support.builders import make_agreement


@pytest.mark.parametrize(
    ("unit", "one"),
    [
        ("", "unit"), ("h", "h"), ("hours", "hour"), ("pallets", "pallet"), ("tonnes", "tonne"),
        ("boxes", "box"), ("batches", "batch"), ("truck hours", "truck hour"),
        ("ms", "ms"), ("gas", "gas"), ("class", "class"), ("m³", "m³"),
    ],
)  # fmt: skip
def test_a_price_is_for_one_unit(unit: str, one: str) -> None:
    """Plural units become singular in a price; other units stay as they are."""
    assert per(Resource(name="r", capacity=1.0, unit=unit)) == f"per {one}"


@pytest.mark.parametrize(
    ("capacity", "text"), [(1800.0, "1,800 units"), (2.5, "2.5000 units"), (1e15, None)]
)
def test_integer_capacities_have_no_decimals(capacity: float, text: str | None) -> None:
    """An integer capacity is written without decimals."""
    written = capacity_text(Resource(name="r", capacity=capacity))
    assert written == text if text else "." not in written


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (0.0, 4, "0"),
        (1234567.0, 4, "1,234,567"),
        (-12345.678, 6, "\u221212,345.7"),
        (0.00123456, 4, "0.001235"),
        (1e-9, 3, "1.00e\u221209"),
        (1e15, 2, "1.0e+15"),
        (9.99999, 3, "10.00"),
    ],
)
def test_figures_have_significant_digits(number: float, digits: int, text: str) -> None:
    """A figure has the given digits, thousands apart, a true minus, and powers of ten if needed."""
    assert figure(number, digits=digits) == text


def test_counts_of_the_last_decimal() -> None:
    """A count of hundredths reads as a number with two decimals."""
    assert fixed(1234567, 2) == "12,345.67"
    assert fixed(-5, 3) == "\u22120.005"
    assert fixed(100, 0) == "100"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1.5", "22.25"], ["1.5\u2007", "22.25"]),
        (["7", "0.125"], ["7\u2008\u2007\u2007\u2007", "0.125"]),
        (["7", "12"], ["7", "12"]),
        ([], []),
    ],
)
def test_columns_are_padded(texts: list[str], expected: list[str]) -> None:
    """A figure is padded with as many blanks as other figures have digits there."""
    assert aligned(texts) == expected


@pytest.mark.parametrize(
    ("currency", "value", "shown", "bound"),
    [
        ("EUR", 1234.5678, "1,234.57 EUR", "1,234.57 EUR"),
        ("EUR", 0.001, "0.00 EUR", "0.01 EUR"),
        ("EUR", -0.001, "0.00 EUR", "0.00 EUR"),
        ("€", 2.005, "2.00 €", "2.01 €"),
        ("JPY", 1234.4, "1,234 JPY", "1,235 JPY"),
        ("KWD", 1.23456, "1.235 KWD", "1.235 KWD"),
        ("kEUR", 0.012345, "0.01234 kEUR", "0.01234 kEUR"),
        ("", 12.3456, "12.35", "12.35"),
    ],
)
def test_money_is_shown_in_coins(currency: str, value: float, shown: str, bound: str) -> None:
    """Sums have the decimals of their currency, and a bound is rounded up."""
    agreement = make_agreement(currency=currency)
    assert coins(agreement, value) == shown
    assert coins(agreement, value, most=True) == bound
