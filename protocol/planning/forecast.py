"""What an agreement means before anybody joins: its noise in figures, and whether it is too much.

Needs the agreement and nothing else. Nothing that was released, and nothing private, may
ever change what is said here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from protocol.agreement.model import Agreement, Member, Privacy
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import (
    COLLUDERS,
    LEAST_EPSILON,
    LEAST_MASKED,
    MAX_MEMBERS,
    MAX_ROUNDS,
    MOST_EPSILON,
    OVERRUN,
)
from protocol.errors import BadAgreement
from protocol.outcome.margin import quota_margin
from protocol.planning.privacy_statement import moved, session_cost
from protocol.pricing.subgradient import (
    convergence_gap,
    convergence_step,
    gradient_bound,
    prices_distance,
)
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import first_caps

FAINT, CLEAR = 1.0, 0.1
"""Noise left in the total, as a part of the capacity, below which a verdict is no worse."""

HARDLY_LESS = 0.95
"""Noise of totals that is at least this part of the other is no reason to rest on ciphers."""

FAR_APART = 10.0
"""Capacities whose numbers differ by more than this factor are said to be far apart."""


@dataclass(frozen=True)
class Noise:
    """σ of one release as a part of the capacity: a party's, over its share, and the total's."""

    party: float
    share: float
    total: float

    @classmethod
    def of(cls, agreement: Agreement) -> "Noise":
        """That of the noisiest party and resource, in the first round."""
        scales = Calibration(agreement).scales(first_caps(agreement))
        sigma = scales[:, : len(agreement.resources)] / agreement.ticks
        return cls(
            party=float(sigma.max()),
            share=float((sigma / np.maximum(quantities(agreement).share, 1e-12)).max()),
            total=float(np.sqrt((sigma**2).sum(axis=0)).max()),
        )


def readable(agreement: Agreement) -> dict[str, Any]:
    """The noise if every release could be read, all else as agreed."""
    budget = agreement.privacy and replace(agreement.privacy, colluders=None, overrun=None)
    noise = Noise.of(replace(agreement, reveal="each", privacy=budget))
    return {
        "total_release": noise.total,
        "total_average": noise.total / math.sqrt(agreement.rounds),
    }


def unreadable(agreement: Agreement) -> dict[str, Any] | None:
    """The same if only totals could be, and what private quotas would come to then.

    None where an agreement cannot say so: with two members, adaptive caps, truncation or shared
    objectives, or with parts of the noise that are too small to be added up.
    """
    single = agreement.truncate or agreement.objective_limit is not None
    if len(agreement.members) < LEAST_MASKED or agreement.mode == "clipped" or single:
        return None
    masked = replace(agreement, reveal="totals", privacy=_masked_budget(agreement))
    if masked.privacy is None:
        return {"total_release": 0.0, "total_average": 0.0}
    try:
        noise, calibration = Noise.of(masked), Calibration(masked)
    except BadAgreement:
        return None
    kept, delta, paid = quota_margin(masked), masked.privacy.delta, moved(masked)
    agreed, most = masked.privacy.colluders or COLLUDERS, len(masked.members) - 1
    return {
        "total_release": noise.total,
        "total_average": noise.total / math.sqrt(agreement.rounds),
        "party_release": noise.party,
        "colluders": agreed,
        "epsilon_against": {
            str(count): _stated(calibration.against(count).epsilon(delta))
            for count in sorted({agreed, min(agreed + 1, most), most})
        },
        "payment_epsilon": _stated(paid.epsilon(delta)) if paid else masked.privacy.epsilon,
        "payment_guessed": (paid or session_cost(masked)).guessed,
        "overrun": masked.privacy.overrun,
        "quota_kept": kept.kept,
        "quota_by_shares": float(kept.shares),
    }


def _masked_budget(agreement: Agreement) -> Privacy | None:
    budget = agreement.privacy
    if budget is None or budget.colluders is not None:
        return budget
    return replace(budget, colluders=COLLUDERS, overrun=OVERRUN)


def _stated(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def better(agreement: Agreement) -> str | None:
    """Which of `each` and `totals` tells more for the same promise; None where only one can be."""
    masked = unreadable(agreement)
    if masked is None:
        return None
    if agreement.privacy is None:
        return "totals"
    less = masked["total_average"] < HARDLY_LESS * readable(agreement)["total_average"]
    return "totals" if less else "each"


def _theorem(agreement: Agreement) -> dict[str, float | None]:
    """What thm:convergence promises of the best round, where it says anything here."""
    gap = step = part = None
    # The centre rule has its certificate instead, and the theorem knows no adaptive caps.
    named = agreement.mode != "clipped" and agreement.pricing.step != "center"
    guess = quantities(agreement).worth
    if guess is not None and named:
        M = prices_distance(agreement)
        B = gradient_bound(Calibration(agreement))
        gap = convergence_gap(M=M, B=B, T=agreement.rounds)
        worth = math.fsum(guess)
        step = convergence_step(M=M, B=B, T=agreement.rounds) if M else None
        part = gap / worth if worth else None
    return {"theorem_gap": gap, "theorem_gap_over_worth": part, "theorem_step": step}


def needed(agreement: Agreement) -> dict[str, dict[str, float | int | None]] | None:
    """For 'faint' and for 'clear': the ε, the rounds and the members that would each do alone.

    The smallest ε and number of members, and the fewest rounds, with everything else as it is;
    more members have shares that are smaller in proportion, so that all shares are the same
    together. None where no number that an agreement may name would do.
    """
    if agreement.privacy is None:
        return None
    return {
        word: {
            "epsilon": _least_epsilon(agreement, limit),
            "rounds": _fewest_rounds(agreement, limit),
            "members": _fewest_members(agreement, limit),
        }
        for word, limit in (("faint", FAINT), ("clear", CLEAR))
    }


def _total(agreement: Agreement) -> float:
    """The noise left in the total, averaged over all rounds; infinite if it is not to be had."""
    try:
        return Noise.of(agreement).total / math.sqrt(agreement.rounds)
    except BadAgreement:
        return math.inf


def _least_epsilon(agreement: Agreement, limit: float) -> float | None:
    """To three digits, rounded up."""

    def enough(epsilon: float) -> bool:
        budget = agreement.privacy and replace(agreement.privacy, epsilon=epsilon)
        return _total(replace(agreement, privacy=budget)) <= limit

    if not enough(MOST_EPSILON):
        return None
    low, high = math.log10(LEAST_EPSILON), math.log10(MOST_EPSILON)
    while high - low > 1e-4:
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(10.0**middle) else (middle, high)
    size = 10.0 ** (math.floor(high) - 2)
    return min(MOST_EPSILON, float(f"{math.ceil(10.0**high / size) * size:.3g}"))


def _fewest_rounds(agreement: Agreement, limit: float) -> int | None:
    """As a rule None: the noise of a release grows as fast as averaging takes it away."""

    def enough(rounds: int) -> bool:
        return _total(replace(agreement, rounds=rounds)) <= limit

    return _first(enough, MAX_ROUNDS)


def _fewest_members(agreement: Agreement, limit: float) -> int | None:
    """As many times the members that there are. Caps that adapt follow no such proportion."""
    if agreement.mode == "clipped":
        return None
    count = len(agreement.members)

    def enough(times: int) -> bool:
        smaller = [_smaller(member, times) for member in agreement.members]
        if agreement.masked:  # where the part of each depends on how many there are
            return _total(replace(agreement, members=tuple(smaller * times))) <= limit
        return math.sqrt(times) * _total(replace(agreement, members=tuple(smaller))) <= limit

    times = _first(enough, MAX_MEMBERS // count)
    return None if times is None else times * count


def _smaller(member: Member, times: int) -> Member:
    return replace(
        member,
        share=tuple(part / times for part in member.share),
        floor=tuple(part / times for part in member.floor),
    )


def _first(enough: Callable[[int], bool], most: int) -> int | None:
    """The first count that is enough, up to `most`, where from some count on all are."""
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
