"""Scales that suit the solver: units of resources, money, and private rows.

HiGHS has absolute tolerances of 1e-7, and fails on numbers of very different sizes. All scales are
powers of two, so that nothing is rounded. Everything here is secret.
"""

import math
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from party.model.company_model import CompanyModel
from party.model.linear_program import LARGE
from protocol.numeric import Floats
from protocol.records import Opaque

_LARGEST_EXPONENT = 30  # a unit is divided into at most 2^30
_USUAL_MONEY = (0, 17)  # exponents of objectives that need no scale
_USUAL_ROWS = (-7, 14)  # exponents of a row's largest coefficient that need no scale
_GOOD_MONEY, _GOOD_ROWS = 7, 1
_OTHER_EXPONENTS = (0, -3, 3, -6, 6)
"""Further scales of rows and units, in the order in which they are tried."""


class Scale(Opaque, frozen=True):
    """Factors for the amounts of each resource, for money, and for each private row. Secret."""

    units: Floats
    money: float
    rows: Floats

    def applied(self, data: CompanyModel) -> CompanyModel:
        """The model at this scale. Its columns stay as they are."""
        factors = np.concatenate([self.units, self.rows])
        return replace(
            data,
            utility=data.utility * self.money,
            offset=data.offset * self.money,
            quadratic=data.quadratic and data.quadratic.times(self.money),
            value=data.value * factors[data.index],
            row_lower=data.row_lower * self.rows,
            row_upper=data.row_upper * self.rows,
        )


def scales(data: CompanyModel, size: Floats) -> Iterator[Scale]:
    """Scales to try one after the other, for amounts up to `size`."""
    units, money, rows = unit_scale(data, size), _money_scale(data), _row_scale(data)
    yield Scale(units, money, rows)
    if data.quadratic is not None:
        for exponent in _OTHER_EXPONENTS[1:]:
            yield Scale(np.ldexp(units, exponent), money, np.ldexp(rows, exponent))
    yield Scale(np.ones_like(units), money, rows)
    yield Scale(units, 1.0, np.ones_like(rows))


def unit_scale(data: CompanyModel, size: Floats) -> Floats:
    """By how much to divide each unit, so that amounts up to `size` reach at least 1.

    The scale is small enough that HiGHS neither drops a small coefficient nor refuses a large one.
    It is at least 1, except for quadratic objectives, whose method needs amounts near 1.
    """
    largest = _largest(data)[: data.resources]
    room = math.frexp(LARGE)[1] - 1 - np.frexp(largest)[1]
    size = np.abs(size)
    wanted = np.where((size > 0.0) & np.isfinite(size), 1 - np.frexp(size)[1], 0)
    least = 0 if data.quadratic is None else -_LARGEST_EXPONENT
    scale: Floats = np.ldexp(1.0, np.clip(np.minimum(wanted, room), least, _LARGEST_EXPONENT))
    return scale


def rescaled(data: CompanyModel, units: Floats) -> CompanyModel:
    """The model with the unit of each shared resource divided by `units`."""
    return Scale(units, 1.0, np.ones(data.private_rows)).applied(data)


def _money_scale(data: CompanyModel) -> float:
    """From the median, because a single large penalty must not hide all other coefficients."""
    values = np.abs(data.utility[data.utility != 0.0])
    if not len(values) and data.quadratic is not None:
        values = np.abs(data.quadratic.value)
    if not len(values):
        return 1.0
    exponent = math.frexp(_median(values))[1]
    if data.quadratic is None and _USUAL_MONEY[0] <= exponent <= _USUAL_MONEY[1]:
        return 1.0
    return math.ldexp(1.0, _GOOD_MONEY - exponent)


def _median(values: Floats) -> float:
    """As `np.median`, which loads all of numpy's masked arrays for it."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2.0)


def _row_scale(data: CompanyModel) -> Floats:
    largest = _largest(data)[data.resources :]
    exponent = np.frexp(largest)[1]
    usual = (exponent >= _USUAL_ROWS[0]) & (exponent <= _USUAL_ROWS[1])
    keep = (largest == 0.0) | (usual if data.quadratic is None else False)
    return np.where(keep, 1.0, np.ldexp(1.0, _GOOD_ROWS - exponent))


def _largest(data: CompanyModel) -> Floats:
    """The largest coefficient of each row."""
    largest = np.zeros(data.resources + data.private_rows)
    np.maximum.at(largest, data.index, np.abs(data.value))
    return largest
