"""Private quotas and payments of the step `ball` (SPEC.md §22).

Round t has the weight t + 1, its part of the privacy budget. So the noise of a weighted total
does not depend on the number of rounds, and what is withheld for it is known beforehand. Exact
integers and fractions. Never here: anything that goes into a message.

Symbols: N ticks to a capacity, w weights, W their sum, z·σ and M as in `privacy.ball`, R spare
fraction, y = λ·c money for a whole capacity.
"""

import math
from fractions import Fraction

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks, ordered_sum, round_to_sum
from protocol.outcome.allocation_rule import AllocationRule, pro_rata_rule, weighted_sums
from protocol.outcome.margin import growing_weights
from protocol.outcome.payments import unit_of_money, with_levy
from protocol.outcome.private_quota import Allocation
from protocol.privacy.ball import ball

LEAST_TOTAL = Fraction(1, 20)
"""Quotas are never more than 20 times the demands, however small the total is."""

LARGE_LEVY, LARGE_LEVY_OF_FEW = 0.25, 0.4
"""A levy above this fraction of what all members can trade, at the prices of the outcome, is large.
The second is for one or two resources (`scripts/attack pump`)."""


def ball_rule(agreement: Agreement, totals: Ticks) -> AllocationRule:
    """The rule from a member's demands to its quota, from the totals, rounds by resources.

    The quotas of a resource add up to its capacity if the noise is −M, and to the capacity with
    its spare fraction if it is −z·σ.

    Guarantee: with the noise as agreed, the quotas of all members exceed some capacity with its
    spare fraction in at most the agreed risk of all sessions (PRIVACY.md §15).
    """
    public, N, T = ball(agreement), agreement.ticks, agreement.rounds
    weights = growing_weights(len(totals))
    if not weights:
        return pro_rata_rule(agreement)
    W, all_weights = sum(weights), T * (T + 1) // 2
    scale = []
    for j, total in enumerate(weighted_sums(weights, totals)):
        spare = Fraction(agreement.resources[j].spare or 0.0)
        tick = 1 if public.axes[:, j].any() else 0  # noise is in whole ticks

        def above(noise: float, total: int = total, tick: int = tick) -> Fraction:
            most = total + math.ceil((Fraction(noise) * N + tick) * all_weights)
            return max(Fraction(most, N * W), LEAST_TOTAL)

        usual, most = above(float(public.margin[j])), above(float(public.deviation[j]))
        scale.append(min(1 / usual, (1 + spare) / most))
    return AllocationRule(weights, tuple(scale), (Fraction(0),) * len(scale))


def noise_left(agreement: Agreement, rounds: int) -> Floats:
    """σ of the averaged total after this many rounds (not 0), as a fraction of each capacity."""
    T = agreement.rounds
    return ball(agreement).noise * math.sqrt(T * (T + 1) / (rounds * (rounds + 1)))


def ball_prices(path: Floats, rounds: int) -> Floats:
    """The prices of the rounds, averaged with their weights; before the first round, the last."""
    if not rounds:
        last: Floats = path[-1]
        return last
    weights = np.array(growing_weights(rounds), dtype=np.float64)
    return ordered_sum(weights[:, None] * path[:rounds]) / sum(growing_weights(rounds))


def ball_allocation(
    agreement: Agreement,
    rule: AllocationRule,
    row: int,
    *,
    demands: Ticks,
    path: Floats,
    prices: Floats,
) -> Allocation:
    """The quota and the payment of the member in this row of the roster.

    `demands` are its demands by round, `path` the prices by round. The payment is Σ w·y·(d − c)/W:
    at the prices of each round, what it asked for beyond its centre c.

    Guarantee: before the quota is cut and before the levy, a company with a concave model has at
    least what its centre alone would earn it, up to rounding to ticks. This holds whatever the
    others do and whatever the noise is (PRIVACY.md §15). Payments of all members need not add up to
    zero.
    """
    terms, center = quantities(agreement), ball(agreement).center[row]
    quota = rule.quota(weighted_sums(rule.weights, demands), terms.share_ticks[row].tolist())
    due = Fraction(0)
    rows = zip(rule.weights, demands - center, path * terms.capacity, strict=False)
    for weight, bought, money in rows:
        pairs = zip(bought.tolist(), money.tolist(), strict=True)
        due += weight * sum((Fraction(y) * ticks for ticks, y in pairs), start=Fraction(0))
    due /= (sum(rule.weights) or 1) * agreement.ticks
    unit = unit_of_money(prices, agreement)
    return Allocation(np.array(quota, dtype=np.int64), round(due / Fraction(unit)) * unit)


def levied(agreement: Agreement, prices: Floats, payments: Floats) -> Floats:
    """All payments with the levy, in whole units of money. They add up to zero exactly."""
    unit = unit_of_money(prices, agreement)
    due = with_levy(agreement, prices, [Fraction(payment) for payment in payments.tolist()])
    counts = round_to_sum([amount / Fraction(unit) for amount in due])
    return np.array([count * unit for count in counts])


def expected_levy(agreement: Agreement, totals: Ticks, path: Floats) -> float:
    """An estimate, from the public totals, of the levy: what brings all payments together to zero.

    The clearing office sees all payments. It collects what they are short of zero, or returns what
    is above zero, in proportion to endowments. Totals have noise, so this is an estimate;
    `levy_deviation` is its σ.
    """
    weights, center = growing_weights(len(totals)), ball(agreement).center.sum(axis=0)
    money = path[: len(totals)] * quantities(agreement).capacity
    bought = (totals - center) / agreement.ticks * money
    each = [w * math.fsum(row) for w, row in zip(weights, bought.tolist(), strict=True)]
    return -math.fsum(each) / (sum(weights) or 1)


def large_levy(agreement: Agreement, prices: Floats, levy: float) -> bool:
    """Whether a levy is larger than honest members usually cause, so that people should ask why.

    With other steps than `ball` a levy is only what rounding left, and never large.
    """
    if not agreement.ball:
        return False
    part = LARGE_LEVY if len(agreement.resources) > 2 else LARGE_LEVY_OF_FEW
    traded = np.abs(prices) * quantities(agreement).capacity * ball(agreement).reach
    return abs(levy) > part * math.fsum(traded.tolist())


def levy_deviation(agreement: Agreement, rounds: int, path: Floats) -> float:
    """σ of `expected_levy` after this many rounds: what the noise of the totals leaves open."""
    weights, T = growing_weights(rounds), agreement.rounds
    sums = sum(weights) or 1
    noise = ball(agreement).noise * quantities(agreement).capacity
    variance = math.fsum(
        (weight / sums) ** 2 * (T * (T + 1) / (2.0 * weight)) * (money * money)
        for weight, prices in zip(weights, path, strict=False)
        for money in (noise * prices).tolist()
    )
    return math.sqrt(variance)
