"""Numbers, amounts, resources and phrases as every page and terminal text writes them.

Figures are rounded so that columns still add up. Nothing is computed here.
"""

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from xml.etree.ElementTree import Element

from protocol.agreement.currency import money_places
from protocol.agreement.model import Agreement, Resource
from protocol.report.elements import element, small

_PLURAL = re.compile(r"([A-Za-z ]+(?:x|ss|ch|sh))es|([A-Za-z ]{2,}[^isu\W])s")  # not ms, gas, class
_MINUS = "\u2212"
_POINT, _DIGIT = "\u2008", "\u2007"  # blanks as wide as a decimal point and as a digit

ROWS = 40
"""Rows of a table. All further rows are one row together, so that totals stay totals."""


def figure(value: float, *, digits: int = 4) -> str:
    """A number with `digits` significant digits, commas between thousands, a true minus."""
    if value == 0.0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not -5 <= size < 15:
        return f"{value:.{digits - 1}e}".replace("-", _MINUS)
    return fixed(round(value * 10.0 ** max(0, digits - 1 - size)), max(0, digits - 1 - size))


def fixed(count: int, decimals: int) -> str:
    """`count` units of the last decimal: 1234567 with two decimals is 12,345.67."""
    integer, rest = divmod(abs(count), 10**decimals)
    text = f"{integer:,}" + (f".{rest:0{decimals}}" if decimals else "")
    return _MINUS + text if count < 0 else text


def plain(text: str) -> str:
    """A text for a terminal: blanks and minus signs that every keyboard has."""
    return text.translate({ord(_MINUS): "-", 0xA0: " "})


def fixed_percent(hundredths: int) -> str:
    """A percentage with two decimals, from hundredths of a percent."""
    return f"{fixed(hundredths, 2)} %"


def percent(fraction: float, *, digits: int = 2, signed: bool = False) -> str:
    """A fraction as a percentage on one line; `signed` puts a plus before it if it is above 0."""
    sign = "+" if signed and fraction > 0.0 else ""
    return f"{sign}{figure(100.0 * fraction, digits=digits)}\u00a0%"


def percent_range(fractions: Sequence[float]) -> str:
    """The smallest and the largest of some fractions, in percent."""
    least, most = (f"{100.0 * bound(fractions):.4g} %" for bound in (min, max))
    return most if least == most else f"{least} to {most}"


def aligned(texts: Sequence[str]) -> list[str]:
    """The figures of a column, padded so that their decimal points are in line."""
    lengths = [len(text) - text.index(".") if "." in text else 0 for text in texts]
    most = max(lengths, default=0)
    blanks = [
        _DIGIT * (most - n) if n or not most else _POINT + _DIGIT * (most - 1) for n in lengths
    ]
    return [text + blank for text, blank in zip(texts, blanks, strict=True)]


def money(agreement: Agreement, amount: str) -> str:
    """An amount followed by the currency, if the agreement names one."""
    return f"{amount} {agreement.currency}" if agreement.currency else amount


def coins(agreement: Agreement, value: float, *, most: bool = False) -> str:
    """A sum of money with its currency, to the cent; a sum that is a bound (`most`) is rounded up.

    Without a currency that people pay in, it has four digits.
    """
    places = money_places(agreement.currency)
    if places is None or not math.isfinite(value):
        return money(agreement, figure(value))
    scaled = Fraction(value) * 10**places
    return money(agreement, fixed(math.ceil(scaled) if most else round(scaled), places))


def in_currency(agreement: Agreement, heading: str) -> str:
    """The heading of a column of amounts, with the currency."""
    return f"{heading}, {agreement.currency}" if agreement.currency else heading


def titled(resource: Resource) -> Element:
    """A resource and its unit."""
    unit = element("span", f" in {resource.unit}") if resource.unit else ""
    return element("div", resource.name, unit)


def amount_text(resource: Resource, amount: float) -> str:
    """An amount of a resource, with as many decimals as its capacity."""
    decimals = decimals_of(resource)
    return fixed(round(Fraction(amount) * 10**decimals), decimals)


def capacity_text(resource: Resource) -> str:
    """A capacity in its unit, without decimals if it is an integer."""
    capacity = resource.capacity
    integer = capacity == round(capacity)
    amount = fixed(round(capacity), 0) if integer else amount_text(resource, capacity)
    return f"{amount} {resource.unit or 'units'}"


def per(resource: Resource) -> str:
    """What a price is for: one unit of the resource."""
    unit = resource.unit or "unit"
    plural = _PLURAL.fullmatch(unit)
    return f"per {plural[1] or plural[2] if plural else unit}"


def in_price_of(resource: Resource) -> str:
    """What stands for the price of an opposite: people read one price for both."""
    return f"in the price of {resource.opposite}"


def capacity_count(resource: Resource) -> int:
    """A capacity, counted in the last decimal that is shown."""
    scale: int = 10 ** decimals_of(resource)
    return round(Fraction(resource.capacity) * scale)


def decimals_of(resource: Resource) -> int:
    """Enough decimals that the last one is at most a ten-thousandth of the capacity."""
    return max(0, 4 - math.floor(math.log10(resource.measure)))


def counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def sentence(text: str) -> str:
    """A phrase of a terminal text as a sentence."""
    return f"{text[0].upper()}{text[1:]}."


def left_out(
    shown: int, count: int, what: str, where: str = "protocol audit --json"
) -> Sequence[Element]:
    """A note that not all are shown, and where the others are; nothing if all are shown."""
    if shown >= count:
        return ()
    return (small(f"The first {shown} of {count} {what} are shown; {where} has all."),)


def price_rule(agreement: Agreement) -> str:
    """How the next prices follow from the answers."""
    if agreement.pricing.step == "center":
        return "The next prices are the centre of all prices that the answers so far leave open."
    return (
        "A price rises when the companies ask for too much, and falls when some capacity is left."
    )
