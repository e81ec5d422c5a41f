"""The centre in prices and value: where to ask next, from estimates of the dual value.

The paths among rounds bound the differences of the dual value D at the prices asked. Between the
two extreme solutions lie values d that some convex function could have. The next prices are the
analytic centre of z ≥ d_i + g_i·(y − y_i) and z ≤ min d, in prices y and value z. The values only
choose which prices to ask: no certificate rests on them. Elementwise float64 in a fixed order.

Never here: BLAS, float sums of numpy, or private numbers.
"""

import numpy as np

from protocol.numeric import Floats, row_sums
from protocol.pricing.cutting_planes import BarrierPoint, Cuts, Polytope
from protocol.pricing.paths import Paths

_LEAST = 2.0**-8  # of the gap: where less is left to find, the values are wrong
_UPPER = 0.6  # how far d lies from the lowest values towards the highest


def estimated_values(paths: Paths) -> Floats:
    """The dual value at each round less that at the round where it is probably lowest."""
    P = paths.lengths
    lowest = int(np.argmin(np.max(P, axis=0)))
    values: Floats = (1.0 - _UPPER) * P[lowest] - _UPPER * P[:, lowest]
    return values


def center_in_value(
    cuts: Cuts, paths: Paths, box: Floats, y: Floats, gap: float
) -> tuple[Floats, BarrierPoint] | None:
    """The prices of the centre, and the barrier there; None if not found.

    It is sought from prices `y` in the box, and the value `gap` above the highest plane there. It
    is also None where the values leave less to find than the rounds contradict each other by, or a
    tiny part of the gap. Then the answers come from no convex function, and the values would lead
    to prices at which that does not show.
    """
    m = len(box)
    values = estimated_values(paths)
    top = float(np.min(values))
    lifted = Cuts(
        cuts.rounds,
        np.concatenate([cuts.asked, values[:, None]], axis=1),
        np.concatenate([cuts.slopes, np.full((len(values), 1), -1.0)], axis=1),
    )
    planes = row_sums(cuts.slopes * (y - cuts.asked)) + values
    point = np.append(y, float(np.max(planes)) + gap)
    low, none, down = (np.append(np.zeros(m), last) for last in (-np.inf, top, 1.0))
    inside = Polytope(lifted, np.append(box, np.inf), low=low).enter(point, none, down)
    if inside is None:
        return None
    times = np.append(np.ones(m), max(1.0, len(values) / 2.0))
    center, view = Polytope(lifted, np.append(box, top), low=low, times=times).center(inside)
    if view is None or not top - center[m] > max(paths.doubt, _LEAST * gap):
        return None
    return center[:m], view
