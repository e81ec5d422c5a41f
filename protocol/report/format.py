"""Resources, amounts and counts as every page writes them.

Rounded so that columns still add up, and no longer than a person reads. Nothing is computed here.
"""

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from xml.etree.ElementTree import Element

from protocol.agreement.model import Resource
from protocol.report.html import (
    element,
    fixed,
)

_MANY = re.compile(r"([A-Za-z ]+(?:x|ss|ch|sh))es|([A-Za-z ]{2,}[^isu\W])s")  # not ms, gas, class

ROWS = 40
"""Rows of a table. What the others have is one more row, so that totals stay totals."""


def titled(resource: Resource) -> Element:
    """A resource and the unit that it is counted in."""
    unit = element("span", f" in {resource.unit}") if resource.unit else ""
    return element("div", resource.name, unit)


def amount_text(resource: Resource, amount: float) -> str:
    """An amount of a resource, to as many decimals as its capacity."""
    decimals = decimals_of(resource)
    return fixed(round(Fraction(amount) * 10**decimals), decimals)


def capacity_text(resource: Resource) -> str:
    """A whole capacity in its unit, without decimals where it has none."""
    capacity = resource.capacity
    whole = capacity == round(capacity)
    amount = fixed(round(capacity), 0) if whole else amount_text(resource, capacity)
    return f"{amount} {resource.unit or 'units'}"


def per(resource: Resource) -> str:
    """What a price is for: one of whatever the capacity is counted in."""
    unit = resource.unit or "unit"
    many = _MANY.fullmatch(unit)
    return f"per {many[1] or many[2] if many else unit}"


def whole_units(resource: Resource) -> int:
    """A capacity, counted in the last decimal that is shown."""
    scale: int = 10 ** decimals_of(resource)
    return round(Fraction(resource.capacity) * scale)


def decimals_of(resource: Resource) -> int:
    """So many that the last one is at most a ten-thousandth of the capacity."""
    return max(0, 4 - math.floor(math.log10(resource.measure)))


def percent(hundredths: int) -> str:
    return f"{fixed(hundredths, 2)} %"


def part_range(parts: Sequence[float]) -> str:
    """The least and the largest of some parts of a whole, in percent."""
    least, most = (f"{100.0 * bound(parts):.4g} %" for bound in (min, max))
    return most if least == most else f"{least} to {most}"


def counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def left_out(
    shown: int, count: int, what: str, where: str = "protocol audit --json"
) -> Sequence[Element]:
    """Says so where not all are shown, and where the others are."""
    if shown >= count:
        return ()
    text = f"The first {shown} of {count} {what} are shown; {where} has all."
    return (element("p", text, class_="small"),)
