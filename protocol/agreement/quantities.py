"""The numbers of an agreement as arrays: members by resources, in units and in ticks.

The record itself (`model`) loads no numpy, so that a relay can read agreements. Everything that
computes takes its arrays from here. Read-only, and the same bits on every machine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from protocol.agreement.model import Agreement, Member
from protocol.numeric import Floats, Ticks, frozen

_KEPT = 64
_known: dict[bytes, "Quantities"] = {}


@dataclass(frozen=True, eq=False)
class Quantities:
    """Arrays of one agreement. Rows are members in roster order, columns are resources."""

    #: The least that each member is given, in units.
    floor: Floats
    #: What there is to share: each capacity above the floors of all members, in units. Releases,
    #: prices, noise and quotas are all about this. Without floors it is the capacity itself.
    capacity: Floats
    #: What each whole capacity above the floors may fetch; None if a resource does not say.
    worth: Floats | None
    #: The part of what is above the floors that a member may claim.
    share: Floats
    #: `share` in ticks: no release is computed from more than this.
    share_ticks: Ticks


def quantities(agreement: Agreement) -> Quantities:
    """The arrays of an agreement, computed once for each agreement."""
    found = _known.get(agreement.digest)
    if found is None:
        found = _known[agreement.digest] = _computed(agreement)
        if len(_known) > _KEPT:
            del _known[next(iter(_known))]
    return found


def _computed(agreement: Agreement) -> Quantities:
    columns = range(len(agreement.resources))

    def table(entry: Callable[[Member, int], float]) -> np.ndarray[Any, Any]:
        rows = [[entry(member, j) for j in columns] for member in agreement.members]
        return frozen(np.array(rows))

    capacity = frozen(np.array([agreement.above_floors(j) for j in columns]))
    return Quantities(
        floor=table(agreement.floor_of),
        capacity=capacity,
        worth=_worth(agreement, capacity),
        share=table(agreement.share_of),
        share_ticks=table(agreement.share_ticks_of),
    )


def _worth(agreement: Agreement, capacity: Floats) -> Floats | None:
    known = [r.worth for r in agreement.resources if r.worth is not None]
    if len(known) < len(agreement.resources):
        return None
    measures = [r.measure for r in agreement.resources]
    whole = zip(known, capacity.tolist(), measures, strict=True)
    return frozen(np.array([w if above == span else w * above / span for w, above, span in whole]))


def amounts(agreement: Agreement, ticks: Ticks, row: int | None = None) -> Floats:
    """Ticks of each resource in its own unit, never rounded up.

    With the `row` of a member its floors are counted in: what it may use in all.

    Guarantee: amounts of ticks that add up to a capacity do not add up to more than it.
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
