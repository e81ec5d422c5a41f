"""Array types and arithmetic that gives the same bits on every machine.

Imports nothing of ours. Never here: anything about agreements. Code that only passes messages on
does not import this module, so that it need not load numpy.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

Ticks = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
_Array = TypeVar("_Array", bound=np.ndarray[Any, Any])


def frozen(array: _Array) -> _Array:
    """Make a shared array read-only."""
    array.flags.writeable = False
    return array


def apportion(total: int, weights: list[int]) -> list[int]:
    """Split `total` in proportion to `weights` (not all 0) by largest remainder.

    Guarantee: the parts are whole, differ from the exact proportion by less than 1 and add
    up to `total` exactly. Ties go to the earlier entry.
    """
    sum_of_weights = sum(weights)
    parts = [total * w // sum_of_weights for w in weights]
    remainders = [total * w % sum_of_weights for w in weights]
    order = sorted(range(len(weights)), key=lambda k: (-remainders[k], k))
    for k in order[: total - sum(parts)]:
        parts[k] += 1
    return parts


def round_to_sum(amounts: Sequence[Fraction], total: int = 0) -> list[int]:
    """Round amounts to integers that add up to `total`, their rounded sum, by largest remainder.

    Guarantee: each is off by less than 1. Ties go to the earlier entry.
    """
    rounded = [math.floor(amount) for amount in amounts]
    order = sorted(range(len(rounded)), key=lambda k: (rounded[k] - amounts[k], k))
    for k in order[: total - sum(rounded)]:
        rounded[k] += 1
    return rounded


def truncate_to_16_bits(values: Floats | float) -> Floats:
    """Round to 16 significant bits, so that differences between mathematics libraries vanish."""
    mantissa, exponent = np.frexp(values)
    short: Floats = np.ldexp(np.rint(np.ldexp(mantissa, 16)), exponent - 16)
    return short


def ordered_sum(terms: Floats) -> Floats:
    """The sum over the first axis, in order: numpy's own sum has no fixed order."""
    total: Floats = np.add.accumulate(terms)[-1]
    return total


def row_sums(terms: Floats) -> Floats:
    """The sum of each row, from left to right."""
    sums: Floats = np.add.accumulate(terms, axis=1)[:, -1]
    return sums


def column_sums(terms: Floats) -> Floats:
    """The correctly rounded sum of each column."""
    return np.array([math.fsum(column) for column in terms.T.tolist()])


def split_capacity(ticks: int, weights: list[int], caps: list[int]) -> list[int]:
    """Split one capacity: min(cap, θ·weight) in whole ticks, with θ such that all is used.

    Guarantee: each part is between 0 and its cap, and the parts add up to `ticks` exactly, if
    the caps together reach it. Among all such splits it is the one nearest to the weights in
    relative entropy, to less than a tick. Members of weight 0 get something only if the others
    cannot use it all, and then in proportion to their caps. If two have the same claim to a
    tick, it goes to the smaller weight for its cap, then to the earlier entry.
    """
    parts, left, total = [0] * len(caps), ticks, sum(weights)
    rest = [k for k, weight in enumerate(weights) if weight > 0]
    rest.sort(key=lambda k: Fraction(caps[k], weights[k]), reverse=True)
    while rest and left * weights[rest[-1]] >= caps[rest[-1]] * total:
        full = rest.pop()
        parts[full] = caps[full]
        left, total = left - caps[full], total - weights[full]
    shares = weights
    if not rest:
        rest, shares = [k for k, weight in enumerate(weights) if weight <= 0], caps
    if left:
        for k, part in zip(rest, apportion(left, [shares[k] for k in rest]), strict=True):
            parts[k] = part
    return parts
