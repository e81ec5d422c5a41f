"""Public quotas: how much of each capacity a member may use, from public releases alone.

This is post-processing of public numbers and costs no privacy. It uses whole ticks and elementwise
float64 in a fixed order, so every machine gets the same bits. Never here: private numbers,
functions of the machine's mathematics library, and float reductions of numpy.

Symbols: y the average release of a member, s the noise left in it.
"""

from collections.abc import Sequence

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import (
    Floats,
    Ticks,
    column_sums,
    ordered_sum,
    split_capacity,
    truncate_to_16_bits,
)
from protocol.outcome.allocation_rule import exact_rule, weighted_sums
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import first_caps, next_caps

_INTERVALS = 128  # of Simpson's rule, over the part of [0, cap] where the posterior is
_NODES: Floats = np.arange(_INTERVALS + 1.0)[:, None]
_WEIGHTS: Floats = np.array([1.0, *[4.0, 2.0] * (_INTERVALS // 2 - 1), 4.0, 1.0])[:, None]
_FAINT = 40.0  # e^-40 is far less than one tick


def quota(agreement: Agreement, y: Floats, s: Floats) -> Ticks:
    """Members by resources: the quotas of members that released y ± s on average, in ticks.

    Guarantee: in every resource the quotas are within the members' shares and add up to the
    capacity exactly, whatever was released (PRIVACY.md §9).
    """
    return _split(agreement, posterior_mean(y, s, quantities(agreement).share_ticks))


def weighted_quota(agreement: Agreement, released: Ticks, weights: Sequence[int]) -> Ticks:
    """Members by resources: the quotas from releases without noise, rounds first.

    `exact_rule`, applied to each member. An average below 0, which no honest member releases,
    counts as 0.

    Guarantee: in every resource the quotas are within the members' shares and add up to no more
    than the capacity. What they leave is less than one tick per member, plus what full shares
    cannot take.
    """
    demands = released[:, :, : len(agreement.resources)]
    sums = [
        [max(0, total) for total in weighted_sums(weights, demands[:, k])]
        for k in range(len(agreement.members))
    ]
    rule = exact_rule(agreement, [sum(column) for column in zip(*sums, strict=True)], weights)
    shares = quantities(agreement).share_ticks.tolist()
    quotas = [rule.quota(*member) for member in zip(sums, shares, strict=True)]
    return np.array(quotas, dtype=np.int64)


def late_rounds(agreement: Agreement, rounds: int) -> int:
    """How many of the closed rounds belong to the last half of the agreed ones."""
    return max(0, rounds - agreement.rounds + (agreement.rounds + 1) // 2)


def averaged_rounds(agreement: Agreement, rounds: int) -> int:
    """How many of the closed rounds, counted from the last one, enter averages.

    With noise all rounds do. Without noise only late ones: early demands were made at prices far
    from the last ones, and would mislead.
    """
    return rounds if agreement.privacy is not None else late_rounds(agreement, rounds)


def average_release(agreement: Agreement, released: Ticks) -> tuple[Floats, Floats]:
    """What each member released on average, and the noise (σ) left in that, in ticks.

    `released` holds rounds by members by numbers. If releases are masked, the result has one
    row, for all members together.
    """
    count = averaged_rounds(agreement, len(released))
    demands = released[len(released) - count :, :, : len(agreement.resources)]
    total = demands.sum(axis=0)  # 64 bits that wrap, as masks do
    if agreement.masked:
        total = total.sum(axis=0, keepdims=True)
    divisor = float(max(1, count))
    return total / divisor, truncate_to_16_bits(np.sqrt(_variance(agreement, demands)) / divisor)


def _variance(agreement: Agreement, demands: Ticks) -> Floats:
    """The sum over all rounds of σ² of each member's numbers, in ticks, one after the other."""
    rows = 1 if agreement.masked else len(agreement.members)
    total = np.zeros((rows, len(agreement.resources)))
    if agreement.privacy is None:
        return total
    calibration, caps = Calibration(agreement), first_caps(agreement)
    squares = _squares(calibration, caps)
    for number, values in enumerate(demands, start=1):
        total = total + squares
        if agreement.mode == "clipped":
            squares = _squares(calibration, next_caps(agreement, values))
        elif agreement.ball:
            squares = _squares(calibration, caps, number)
    return total


def _squares(calibration: Calibration, caps: Ticks, round: int = 0) -> Floats:  # noqa: A002
    """σ² of one round; if releases are masked, in one row for the total."""
    agreement = calibration.agreement
    sigma = calibration.scales(caps, round)[:, : len(agreement.resources)]
    squares: Floats = sigma * sigma
    return column_sums(squares)[None] if agreement.masked else squares


def posterior_mean(y: Floats, s: Floats, caps: Ticks) -> Ticks:
    """The expected demand in [0, cap], given its average y with Gaussian noise s.

    The prior is uniform. Without noise the result is y itself, clamped to [0, cap]; as noise
    grows it tends to cap / 2. Simpson's rule, with e^-z as a Taylor polynomial squared eight
    times. That needs only sums and products, which every machine rounds alike.

    Accuracy, measured by a dense sweep, apart from the half tick of rounding: the error is at
    most 2.1e-4 of the distance from the mean to the nearer end of [0, cap], and at most 5.2e-6 of
    the cap. That is less than 6 ticks. It is largest where y is far outside: there the posterior
    falls like e^-x from one end, and steps of 40/128 put its mean too low.
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
    mass, moment = ordered_sum(density), ordered_sum(density * (x - low))
    mean: Floats = np.minimum(np.maximum(low + moment / mass, 0.0), cap)
    return np.where(s > 0.0, mean, mode)


def _exp_minus(z: Floats) -> Floats:
    """e^-z for z from 0 to 40, to nine digits."""
    reduced, power = z / 256.0, np.ones_like(z)
    for n in range(8, 0, -1):
        power = 1.0 - reduced / n * power
    for _ in range(8):
        power = power * power
    return power


def _split(agreement: Agreement, weights: Ticks) -> Ticks:
    columns = zip(weights.T.tolist(), quantities(agreement).share_ticks.T.tolist(), strict=True)
    splits = [split_capacity(agreement.ticks, *column) for column in columns]
    return np.array(splits, dtype=np.int64).T
