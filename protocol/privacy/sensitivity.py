"""Caps: how much of each capacity a party may claim in a round, in ticks.

Integer arithmetic only, so that every machine gets the same caps. Caps come from the agreement and
from public releases. Never here: private numbers.

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
    shares = quantities(agreement).share_ticks
    return np.minimum(_apportioned(agreement, np.ones_like(shares)), shares)


def next_caps(agreement: Agreement, released: Ticks) -> Ticks:
    """The caps of the next round, from the releases (members by resources) of this one."""
    if agreement.mode != "clipped":
        return quantities(agreement).share_ticks
    return np.minimum(adaptive_caps(agreement, released), quantities(agreement).share_ticks)


def adaptive_caps(agreement: Agreement, released: Ticks) -> Ticks:
    """s̄ of eq:subupdpClip-4, before the shares limit them.

    Guarantee: for each resource the caps add up to α·c exactly, in ticks.
    """
    return _apportioned(agreement, np.clip(released, floor_ticks(agreement), agreement.ticks))


def smallest_cap(agreement: Agreement) -> int:
    """A lower bound on `adaptive_caps`: α·τ/K of the capacity, rounded down."""
    return _total(agreement) * floor_ticks(agreement) // (len(agreement.members) * agreement.ticks)


def _total(agreement: Agreement) -> int:
    return math.floor(agreement.alpha * agreement.ticks)


def _apportioned(agreement: Agreement, weights: Ticks) -> Ticks:
    columns = [apportion(_total(agreement), column) for column in weights.T.tolist()]
    return np.array(columns, dtype=np.int64).T
