"""The numbers of an agreement as arrays: members by resources, in units and in ticks.

The record itself (`model`) loads no numpy, so that a relay can read agreements. All code that
computes takes its arrays from here. They are read-only, with the same bits on every machine.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from typing import TypeVar

import numpy as np
from msgspec import Struct

from protocol.agreement.model import Agreement
from protocol.numeric import Floats, Ticks, frozen

_Result = TypeVar("_Result")

Opposites = tuple[tuple[int, int, float], ...]
"""For each opposite: the column of its resource, its own, and the quotient of their capacities."""


def once_per_agreement(compute: Callable[[Agreement], _Result]) -> Callable[[Agreement], _Result]:
    """Compute once for each agreement, which remembers the result as its cached properties do."""
    name = f"{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def remembered(agreement: Agreement) -> _Result:
        results: dict[str, _Result] = vars(agreement)
        if name not in results:
            results[name] = compute(agreement)
        return results[name]

    return remembered


class Quantities(Struct, frozen=True, eq=False):
    """Arrays of one agreement. Rows are members in roster order, columns are resources."""

    #: The floor of each member, in units.
    floor: Floats
    #: Each capacity above the floors of all members, in units. Releases, prices, noise and quotas
    #: all refer to this amount. Without floors it is the capacity itself.
    capacity: Floats
    #: The estimated value of each capacity above the floors; None if a resource has no worth.
    worth: Floats | None
    #: The most that a member may claim, as a fraction of the capacity above the floors.
    share: Floats
    #: `share` in ticks: the largest demand that a release is computed from.
    share_ticks: Ticks
    opposites: Opposites = ()


@once_per_agreement
def quantities(agreement: Agreement) -> Quantities:
    """The arrays of an agreement, computed once."""
    capacity = np.array([agreement.above_floors(j) for j in range(len(agreement.resources))])
    share = np.array([member.share for member in agreement.members])
    floor = np.zeros_like(share)
    if agreement.banded:  # as `Agreement.floor_of` and `share_of`, for all members at once
        measure = np.array([resource.measure for resource in agreement.resources])
        none = (0.0,) * len(capacity)
        floor = np.array([member.floor or none for member in agreement.members]) * measure
        share = np.clip((share * measure - floor) / capacity, 0.0, 1.0)
    return Quantities(
        floor=frozen(floor),
        capacity=frozen(capacity),
        worth=_worth(agreement, capacity),
        share=frozen(share),
        share_ticks=frozen(np.ceil(share * agreement.ticks).astype(np.int64)),
        opposites=_opposites(agreement, capacity.tolist()),
    )


def _opposites(agreement: Agreement, capacity: list[float]) -> Opposites:
    columns = {resource.name: j for j, resource in enumerate(agreement.resources)}
    pairs = [(columns[r.opposite], j) for j, r in enumerate(agreement.resources) if r.opposite]
    return tuple((i, j, capacity[i] / capacity[j]) for i, j in pairs)


def net_prices(prices: Floats, opposites: Opposites) -> Floats:
    """Prices of whole capacities, less what a resource and its opposite have in common.

    Both prices of such a pair can rise together and mean the same. So only their difference counts
    in what all capacities are worth.
    """
    net = prices
    for i, j, ratio in opposites:
        net = net.copy() if net is prices else net
        own, turned = prices[..., i], prices[..., j] * ratio
        net[..., i] = np.maximum(own - turned, 0.0)
        net[..., j] = np.maximum(turned - own, 0.0) / ratio
    return net


def pair_prices(prices: Floats, opposites: Opposites) -> Floats:
    """Prices per unit as people read them: for a resource and its opposite, the difference.

    It may be below 0: then members are paid to take. The opposite's has the other sign.
    """
    paired = prices.copy()
    for i, j, _ in opposites:
        paired[..., i] -= prices[..., j]
        paired[..., j] -= prices[..., i]
    return paired


def _worth(agreement: Agreement, capacity: Floats) -> Floats | None:
    values = []
    for resource, above in zip(agreement.resources, capacity.tolist(), strict=True):
        if resource.worth is None:
            return None
        # Not scaled where nothing changes: a product and a quotient could move the last bit.
        scaled = above != resource.measure
        values.append(resource.worth * above / resource.measure if scaled else resource.worth)
    return frozen(np.array(values))


def amounts(agreement: Agreement, ticks: Ticks, row: int | None = None) -> Floats:
    """Ticks of each resource in its unit, never rounded up.

    With the `row` of a member its floors are added: the result is all that it may use.

    Guarantee: amounts of ticks that add up to a capacity do not exceed that capacity together.
    """

    def rounded_down(ticks: int, capacity: float, floor: float) -> float:
        exact = Fraction(floor) + Fraction(capacity) * ticks / agreement.ticks
        amount = float(exact)
        return amount if Fraction(amount) <= exact else math.nextafter(amount, -math.inf)

    capacity = quantities(agreement).capacity.tolist()
    floors = [0.0] * len(capacity) if row is None else quantities(agreement).floor[row].tolist()
    return np.array(
        [rounded_down(*each) for each in zip(ticks.tolist(), capacity, floors, strict=True)]
    )
