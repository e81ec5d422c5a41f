"""The figures of `protocol plan`: the noise of an agreement, and what would make it less.

From the agreement alone. Never here: sentences (`verdict`), released or private numbers.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from protocol.agreement import schema
from protocol.agreement.model import Agreement, Member, Pricing, Privacy
from protocol.agreement.quantities import quantities
from protocol.errors import BadAgreement
from protocol.outcome.margin import quota_margin
from protocol.planning.privacy_statement import payment_cost, session_cost
from protocol.pricing import subgradient
from protocol.privacy.accountant import finite
from protocol.privacy.axes import half_axes
from protocol.privacy.ball import ball
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import first_caps
from protocol.wire.codec import release_bytes

FAINT, CLEAR = 1.0, 0.1
"""The verdict is "faint" or better, or "clear", if the noise left in the total is at most this
fraction of the capacity."""

GAINS = 0.2
"""Step `ball`: invented companies gain if what is withheld for noise is at most this fraction of
the most that members can trade, in money (scripts/results/BALL_CONSTANTS.md)."""

Enough = Callable[[Agreement], bool]

HARDLY_LESS = 0.95
"""Masked totals are worth their risk only if their noise is below this fraction of the other."""


def forecast(agreement: Agreement) -> dict[str, Any]:
    """The figures of `protocol plan`. Noise is that of the noisiest party and resource."""
    noise, T = Noise.of(agreement), agreement.rounds
    left, each, totals = noise.left, forecast_individual(agreement), forecast_masked(agreement)
    return {
        "digest": agreement.digest.hex(),
        "party_release": noise.party,
        "party_average": noise.party * left,
        "total_release": noise.total,
        "total_average": noise.total * left,
        "party_average_over_share": None if agreement.masked else noise.share * left,
        **_theorem(agreement),
        "guessed": None if agreement.privacy is None else session_cost(agreement).guessed,
        "needed": _needed(agreement),
        "trades": trades(agreement) if agreement.ball else None,
        "burden": finite(burden(agreement)) if agreement.ball else None,
        "reveal": agreement.reveal,
        "each": each,
        "totals": totals,
        "better": totals and _better_reveal(agreement, each, totals),
        "release_bytes": release_bytes(agreement),
        "messages_per_party": T,
        "messages_received": T * (len(agreement.members) - 1),
        "pace_seconds": agreement.pace_seconds,
    }


class Noise(Struct, frozen=True):
    """σ of the noisiest party and resource in the first round."""

    #: Of one party's release, as a fraction of the capacity.
    party: float
    #: Of one party's release, as a fraction of its share.
    share: float
    #: Of the total of all releases, as a fraction of the capacity.
    total: float
    #: What is left of these in the average over all rounds.
    left: float

    @classmethod
    def of(cls, agreement: Agreement) -> "Noise":
        calibration = Calibration(agreement)
        scales = calibration.scales(first_caps(agreement))
        sigma = scales[:, : len(agreement.resources)] / agreement.ticks
        return cls(
            party=float(sigma.max()),
            share=float((sigma / np.maximum(quantities(agreement).share, 1e-12)).max()),
            total=float(np.sqrt((sigma**2).sum(axis=0)).max()),
            left=calibration.left_in_average,
        )


def forecast_individual(agreement: Agreement) -> dict[str, Any]:
    """Forecast with releases that others can read one by one."""
    budget = agreement.privacy and replace(agreement.privacy, colluders=None, overrun=None)
    pricing = agreement.pricing
    if agreement.ball:
        pricing = replace(pricing, step="worth", worth_within=None)
    noise = Noise.of(replace(agreement, reveal="each", privacy=budget, pricing=pricing))
    return {"total_release": noise.total, "total_average": noise.total * noise.left}


def forecast_masked(agreement: Agreement) -> dict[str, Any] | None:
    """Forecast with masked releases, including private quotas.

    None if the agreement cannot mask: with two members, adaptive caps, truncation or shared
    objectives, or if the noise of each member would be too small.
    """
    unmaskable = agreement.truncate or agreement.objective_limit is not None
    if len(agreement.members) < schema.LEAST_MASKED or agreement.mode == "clipped" or unmaskable:
        return None
    masked = replace(
        agreement,
        reveal="totals",
        privacy=_masked_budget(agreement),
        pricing=_masked_pricing(agreement),
    )
    if masked.privacy is None:
        return {"total_release": 0.0, "total_average": 0.0}
    try:
        noise, calibration = Noise.of(masked), Calibration(masked)
    except BadAgreement:
        return None
    margin, delta, paid = quota_margin(masked), masked.privacy.delta, payment_cost(masked)
    agreed, most = masked.privacy.colluders or schema.COLLUDERS, len(masked.members) - 1
    return {
        "total_release": noise.total,
        "total_average": noise.total * noise.left,
        "party_release": noise.party,
        "colluders": agreed,
        "epsilon_against": {
            str(count): finite(calibration.against(count).epsilon(delta))
            for count in sorted({agreed, min(agreed + 1, most), most})
        },
        "payment_epsilon": finite(paid.epsilon(delta)) if paid else masked.privacy.epsilon,
        "step": masked.pricing.step,
        "payment_guessed": (paid or session_cost(masked)).guessed,
        "overrun": masked.privacy.overrun,
        "quota_kept": margin.withheld,
        "quota_by_shares": float(margin.pro_rata),
    }


def _masked_budget(agreement: Agreement) -> Privacy | None:
    budget = agreement.privacy
    if budget is None or budget.colluders is not None:
        return budget
    return replace(budget, colluders=schema.COLLUDERS, overrun=schema.OVERRUN)


def _masked_pricing(agreement: Agreement) -> Pricing:
    """With noise the step `worth` of single releases becomes the default step for totals."""
    pricing = agreement.pricing
    if agreement.masked or agreement.privacy is None or pricing.step != "worth":
        return pricing
    start = tuple((r.worth or 0.0) / r.measure for r in agreement.resources)
    return Pricing(step="ball", worth_within=schema.WORTH_WITHIN, start=start)


def _better_reveal(agreement: Agreement, each: dict[str, Any], totals: dict[str, Any]) -> str:
    """`each` or `totals`: the one with less noise for the same promise."""
    less = totals["total_average"] < HARDLY_LESS * each["total_average"]
    return "totals" if less or agreement.privacy is None else "each"


def _theorem(agreement: Agreement) -> dict[str, float | None]:
    """What thm:convergence promises of the best round, if it applies."""
    gap = step = over_worth = None
    # The centre rule has its certificate instead, and the theorem excludes adaptive caps.
    applies = agreement.mode != "clipped" and agreement.pricing.step not in ("center", "ball")
    guess = quantities(agreement).worth
    if guess is not None and applies:
        M = subgradient.prices_distance(agreement)
        B = subgradient.gradient_bound(Calibration(agreement))
        gap = subgradient.convergence_gap(M=M, B=B, T=agreement.rounds)
        worth = math.fsum(guess)
        step = subgradient.convergence_step(M=M, B=B, T=agreement.rounds) if M else None
        over_worth = gap / worth if worth else None
    return {"theorem_gap": gap, "theorem_gap_over_worth": over_worth, "theorem_step": step}


def _needed(agreement: Agreement) -> dict[str, dict[str, float | int | None]] | None:
    """For 'faint' and 'clear': the least ε, rounds and members that would each suffice alone.

    Everything else stays as agreed. More members have smaller shares in proportion, so that the
    sum of all shares stays. None if no number that an agreement may name suffices.
    """
    if agreement.privacy is None:
        return None
    if agreement.ball:
        return {"trade": _ways(agreement, trades), "gain": _ways(agreement, gains)}
    return {
        word: _ways(agreement, partial(_quiet, limit=limit))
        for word, limit in (("faint", FAINT), ("clear", CLEAR))
    }


def _ways(agreement: Agreement, enough: Enough) -> dict[str, float | int | None]:
    return {
        "epsilon": _least_epsilon(agreement, enough),
        "rounds": None if agreement.ball else _fewest_rounds(agreement, enough),
        "members": _fewest_members(agreement, enough),
    }


def trades(agreement: Agreement) -> bool:
    """Step `ball`: whether the noise leaves something to trade."""
    return bool(half_axes(agreement).any())


def gains(agreement: Agreement) -> bool:
    """Step `ball`: whether the noise leaves enough for companies like the plan's invented ones."""
    return burden(agreement) <= GAINS


def burden(agreement: Agreement) -> float:
    """Step `ball`: what is withheld for noise over the most that members can trade, in money."""
    worth = quantities(agreement).worth
    try:
        return math.inf if worth is None else ball(agreement).burden(worth)
    except BadAgreement:
        return math.inf  # too little noise for each member


def _quiet(agreement: Agreement, *, limit: float) -> bool:
    """Whether the noise left in the total, averaged over all rounds, is at most `limit`."""
    try:
        noise = Noise.of(agreement)
    except BadAgreement:
        return False
    return noise.total * noise.left <= limit


def _least_epsilon(agreement: Agreement, enough: Enough) -> float | None:
    """To three digits, rounded up."""

    def with_epsilon(epsilon: float) -> bool:
        budget = agreement.privacy and replace(agreement.privacy, epsilon=epsilon)
        return enough(replace(agreement, privacy=budget))

    if not with_epsilon(schema.MOST_EPSILON):
        return None
    low, high = math.log10(schema.LEAST_EPSILON), math.log10(schema.MOST_EPSILON)
    while high - low > 1e-4:
        middle = (low + high) / 2.0
        low, high = (low, middle) if with_epsilon(10.0**middle) else (middle, high)
    size = 10.0 ** (math.floor(high) - 2)
    return min(schema.MOST_EPSILON, float(f"{math.ceil(10.0**high / size) * size:.3g}"))


def _fewest_rounds(agreement: Agreement, enough: Enough) -> int | None:
    """Usually None: the noise of a release grows as fast as averaging reduces it."""
    return _first(lambda rounds: enough(replace(agreement, rounds=rounds)), schema.MAX_ROUNDS)


def _fewest_members(agreement: Agreement, enough: Enough) -> int | None:
    """A multiple of the present number. None with adaptive caps, which follow no proportion."""
    if agreement.mode == "clipped":
        return None
    count = len(agreement.members)

    def as_many(times: int) -> bool:
        smaller = tuple(_smaller(member, times) for member in agreement.members)
        return enough(replace(agreement, members=smaller * times))

    times = _first(as_many, schema.MAX_MEMBERS // count)
    return None if times is None else times * count


def _smaller(member: Member, times: int) -> Member:
    return replace(
        member,
        share=tuple(fraction / times for fraction in member.share),
        endowment=tuple(fraction / times for fraction in member.endowment),
        floor=tuple(fraction / times for fraction in member.floor),
    )


def _first(enough: Callable[[int], bool], most: int) -> int | None:
    """The first count up to `most` that is enough, if all larger ones are; None if none is."""
    high = 1
    while not enough(high):
        if high == most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
