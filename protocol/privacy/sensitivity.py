"""How much of each capacity a party may claim in a round, in whole ticks.

Integer arithmetic only: every machine gets the same caps. Caps come from the agreement and
from public releases, never from private data.

Symbols of the paper: α the total of all caps over the capacity, τ the smallest weight.
"""

import math

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Ticks, apportion


def floor_ticks(agreement: Agreement) -> int:
    """τ in ticks, at least 1."""
    return max(1, math.ceil(agreement.tau * agreement.ticks))


def first_caps(agreement: Agreement) -> Ticks:
    """Members by resources: the caps of the first round."""
    if agreement.mode != "clipped":
        return quantities(agreement).share_ticks
    return np.minimum(
        _divided(agreement, np.ones_like(quantities(agreement).share_ticks)),
        quantities(agreement).share_ticks,
    )


def next_caps(agreement: Agreement, released: Ticks) -> Ticks:
    """The caps of the next round, from the releases (members by resources) of this one."""
    if agreement.mode != "clipped":
        return quantities(agreement).share_ticks
    return np.minimum(adaptive_caps(agreement, released), quantities(agreement).share_ticks)


def adaptive_caps(agreement: Agreement, released: Ticks) -> Ticks:
    """s̄ of eq:subupdpClip-4, before the shares of the agreement are applied.

    Guarantee: for each resource the caps add up to α·c exactly, in ticks.
    """
    return _divided(agreement, np.clip(released, floor_ticks(agreement), agreement.ticks))


def smallest_cap(agreement: Agreement) -> int:
    """No cap of `adaptive_caps` is ever below this: α·τ/K of the capacity, rounded down."""
    return _total(agreement) * floor_ticks(agreement) // (len(agreement.members) * agreement.ticks)


def _total(agreement: Agreement) -> int:
    return math.floor(agreement.alpha * agreement.ticks)


def _divided(agreement: Agreement, weights: Ticks) -> Ticks:
    columns = [apportion(_total(agreement), column) for column in weights.T.tolist()]
    return np.array(columns, dtype=np.int64).T
