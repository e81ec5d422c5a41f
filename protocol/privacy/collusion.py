"""Noise that members add together, where only their total can be read.

Each adds a part, so that what is left for anybody once others have told theirs still hides it.
Everything here follows from the agreement; nothing draws noise, and nothing private comes here.

Symbols: K members, t of them that tell each other what they added; R_i the variance that hides
member i, v_i what it adds, V the sum of all v. `PRIVACY.md` §10 has the proofs.
"""

import numpy as np

from protocol.numeric import Floats

_SLACK = 1e-12  # added to each part: more than rounding in float64 takes away from what is left


def parts(needed: Floats, colluders: int) -> Floats:
    """v from R, members by numbers: how much noise (variance) each member adds to each number.

    Guarantee: for every member i and any t others, all v but those of the others add up to at
    least R_i; and no v for which that holds has a smaller sum (PRIVACY.md §10, but for a part
    in 10¹²).
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


def left(parts: Floats, colluders: int) -> Floats:
    """Members by numbers: the variance that hides each when any so many others tell theirs."""
    ranked = -np.sort(-parts, axis=0)
    told = ranked[:colluders].sum(axis=0)
    last = ranked[colluders - 1] if colluders else np.full(parts.shape[1], np.inf)
    following = ranked[colluders]
    # Whoever is among those that add most is not among its own colluders; the next one is.
    among = np.where(parts >= last, told - parts + following, told)
    remaining: Floats = parts.sum(axis=0) - among
    return remaining
