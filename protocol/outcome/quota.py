"""The feasible split of the capacities: what each member may use, from public releases alone.

Post-processing of what everybody has heard, so it costs no privacy; whole ticks and
elementwise float64 in a fixed order, so every machine gets the same. No private number, no
function of the machine's mathematics library, and no float reductions of numpy.

Symbols: y the average release of a member, s the noise left in it, θ what the estimates are
scaled by so that they fill the capacity.
"""

from collections.abc import Sequence

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks, filled, truncate_to_16_bits
from protocol.rounds import RoundState

_INTERVALS = 128  # of Simpson's rule, over the part of [0, cap] where the posterior is
_NODES: Floats = np.arange(_INTERVALS + 1.0)[:, None]
_WEIGHTS: Floats = np.array([1.0, *[4.0, 2.0] * (_INTERVALS // 2 - 1), 4.0, 1.0])[:, None]
_FAINT = 40.0  # e^-40 is nothing beside what a tick can tell apart


def quota(agreement: Agreement, y: Floats, s: Floats) -> Ticks:
    """Members by resources: what each may use that released y ± s on average, in ticks.

    Guarantee: in every resource the quotas are within the members' shares and add up to the
    capacity exactly, whatever was released (PRIVACY.md §9).
    """
    return _split(agreement, posterior_mean(y, s, quantities(agreement).share_ticks))


def prorata(agreement: Agreement) -> Ticks:
    """The split that listens to nobody: in proportion to the members' shares."""
    return _split(agreement, quantities(agreement).share_ticks)


def weighted(agreement: Agreement, released: Ticks, weights: Sequence[int]) -> Ticks:
    """Members by resources: what each may use whose releases, rounds first, weigh so much.

    Everybody gets its weighted demand and of what is left over a part in proportion to its
    share, together rounded down and up to that share; where all demands together are more than
    the capacity, each is cut by the same part. A member's quota follows from its own demands
    and from totals alone.

    Guarantee: in every resource the quotas are within the members' shares and do not add up to
    more than the capacity; what they leave is less than one tick a member and what shares that
    are full cannot take.
    """
    whole, m = sum(weights), len(agreement.resources)
    counted = [(w, row[:, :m].tolist()) for w, row in zip(weights, released, strict=False) if w]
    quotas = []
    for j in range(m):
        caps = quantities(agreement).share_ticks[:, j].tolist()
        own = [sum(w * row[k][j] for w, row in counted) for k in range(len(caps))]
        quotas.append(_apart(agreement.ticks, whole, [max(0, d) for d in own], caps))
    return np.array(quotas, dtype=np.int64).T


def _apart(ticks: int, whole: int, own: list[int], caps: list[int]) -> list[int]:
    total = sum(own)
    if total > ticks * whole:
        return [min(cap, d * ticks // total) for d, cap in zip(own, caps, strict=True)]
    left, shares = ticks * whole - total, sum(caps)
    return [
        min(cap, (d * shares + left * cap) // (whole * shares))
        for d, cap in zip(own, caps, strict=True)
    ]


def average(state: RoundState) -> tuple[Floats, Floats]:
    """What each member released on average, and the noise (σ) left in that, in ticks."""
    count = float(max(1, state.counted))
    return state.released / count, truncate_to_16_bits(np.sqrt(state.variance) / count)


def posterior_mean(y: Floats, s: Floats, caps: Ticks) -> Ticks:
    """What to expect of a demand in [0, cap] that shows as y through Gaussian noise s.

    Without noise that is y itself, cut to [0, cap]; with ever more it tends to cap / 2. The
    prior is uniform. Simpson's rule, where e^-z is a Taylor polynomial squared eight times:
    sums and products alone, which every machine rounds alike.

    How near, by a dense sweep: but for the half tick of rounding it is off the mean by no more
    than 2.1e-4 of the way from the mean to the nearer end of [0, cap], and by no more than
    5.2e-6 of the cap; so by less than 6 ticks. That is where y is far outside: there the
    posterior is e^-x from that end on, of which the steps of 40/128 find the mean too low.
    """
    rows = (_row_mean(*row) for row in zip(y, s, caps.astype(np.float64), strict=True))
    return np.array([np.rint(row) for row in rows]).astype(np.int64).reshape(caps.shape)


def _row_mean(y: Floats, s: Floats, cap: Floats) -> Floats:
    mode = np.minimum(np.maximum(y, 0.0), cap)
    if not s.any():
        return mode
    beyond = np.abs(y - mode)
    spread = np.where(s > 0.0, s, 1.0)
    room = 2.0 * _FAINT * spread * spread
    reach = room / (beyond + np.sqrt(beyond * beyond + room))
    low, high = np.maximum(mode - reach, 0.0), np.minimum(mode + reach, cap)
    x = low + _NODES * ((high - low) / _INTERVALS)
    density = _WEIGHTS * _exp_minus((x - mode) * (x + mode - 2.0 * y) / (2.0 * spread * spread))
    mass, moment = _sum(density), _sum(density * (x - low))
    mean: Floats = np.minimum(np.maximum(low + moment / mass, 0.0), cap)
    return np.where(s > 0.0, mean, mode)


def _sum(terms: Floats) -> Floats:
    """The sum over the nodes, one after the other: numpy's own sum has no fixed order."""
    total: Floats = np.add.accumulate(terms)[-1]
    return total


def _exp_minus(z: Floats) -> Floats:
    """e^-z for z from 0 to 40, to nine digits."""
    part, power = z / 256.0, np.ones_like(z)
    for n in range(8, 0, -1):
        power = 1.0 - part / n * power
    for _ in range(8):
        power = power * power
    return power


def _split(agreement: Agreement, weights: Ticks) -> Ticks:
    columns = zip(weights.T.tolist(), quantities(agreement).share_ticks.T.tolist(), strict=True)
    return np.array([filled(agreement.ticks, *column) for column in columns], dtype=np.int64).T
