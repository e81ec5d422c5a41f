"""How members divide noise among them, if only the total of their releases can be read.

What remains after some members tell each other their noise must still hide every other member.
Everything here follows from the agreement. Never here: drawing noise, private numbers.

Symbols: K members, t colluders, R_i the variance that hides member i, v_i what it adds, V the sum
of all v. PRIVACY.md §10 has the proofs.
"""

import numpy as np

from protocol.numeric import Floats

_SLACK = 1e-12  # added to each variance: more than rounding in float64 takes away from the rest


def divide_noise(needed: Floats, colluders: int) -> Floats:
    """v from R, members by numbers: the variance that each member adds to each number.

    Guarantee: for every member i and any t others, all v except those of the t others add up to
    at least R_i. No v with that property has a smaller sum, apart from a fraction of 10⁻¹²
    (PRIVACY.md §10).
    """
    members = len(needed)
    others = members - colluders
    apart = members // others
    order = np.argsort(-needed, axis=0, kind="stable")
    ranked = np.take_along_axis(needed, order, axis=0)
    like = ranked[apart] / others
    added = np.broadcast_to(like, ranked.shape).copy()
    added[:apart] = ranked[:apart] - (others - 1.0) * like
    found = np.empty_like(added)
    np.put_along_axis(found, order, added, axis=0)
    return found * (1.0 + _SLACK)


def remaining_noise(added: Floats, colluders: int) -> Floats:
    """Members by numbers: the variance that hides each if the worst `colluders` others collude."""
    ascending = np.sort(added, axis=0)
    # Sums from the least on. A difference of large sums would keep few digits of what remains.
    sums = np.concatenate([np.zeros((1, added.shape[1])), np.add.accumulate(ascending)])
    others = len(added) - colluders
    largest = ascending[others] if colluders else np.full(added.shape[1], np.inf)
    # A member that is among the largest is not its own colluder; the next one takes its place.
    remaining: Floats = np.where(added >= largest, added + sums[others - 1], sums[others])
    return remaining
