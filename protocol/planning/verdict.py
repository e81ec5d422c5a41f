"""What a forecast means, in sentences."""

import math
from typing import Any

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.outcome.margin import quota_margin
from protocol.planning.forecast import (
    CLEAR,
    FAINT,
    FAR_APART,
    Noise,
    _theorem,
    better,
    needed,
    readable,
    unreadable,
)
from protocol.planning.privacy_statement import session_cost
from protocol.wire.codec import release_bytes


def warnings(agreement: Agreement) -> list[str]:
    """Where the units that capacities are counted in decide what should not depend on them."""
    capacities = quantities(agreement).capacity.tolist()
    ratio, found = max(capacities) / min(capacities), list[str]()
    if ratio < FAR_APART:
        return found
    apart = f"the largest capacity is {ratio:.3g} times the smallest, each in its own unit"
    if agreement.pricing.step in ("constant", "sqrt", "theorem"):
        found.append(
            f"{apart}, and the step {agreement.pricing.step!r} moves prices by excess in these "
            "units: some prices will hardly move and others jump. Choose the step 'worth' "
            "('center' without noise), or units in which capacities are alike"
        )
    if agreement.privacy is not None and agreement.privacy.noise != "component":
        found.append(
            f"{apart}, and the noise {agreement.privacy.noise!r} is shared out by these units: "
            "resources with small capacities get more of it, for their size. Choose 'component', "
            "or units in which capacities are alike"
        )
    return found


def duration(agreement: Agreement) -> str:
    """What the pace makes of the rounds, and what it costs, in a sentence."""
    pace = agreement.pace_seconds
    if pace is None:
        return "releases leave when they are ready: when they do may tell something of the data"
    seconds = agreement.rounds * pace
    lengths = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
    size, unit = next((length for length in lengths if seconds >= 2.0 * length[0]), lengths[-1])
    most = "at most " if agreement.pricing.step == "center" else ""
    return (
        f"at the pace of {pace:g} s a round its releases take {most}{seconds / size:.3g} {unit} in "
        "all, beside what the network needs; a solver that is not ready counts as no demand"
    )


def verdict(agreement: Agreement) -> str:
    """In plain words: does the noise drown the data?"""
    if agreement.privacy is None and agreement.masked:
        return (
            "Verdict: no noise, so that prices and totals are exact, and no guarantee in numbers. "
            "Single demands are masked, and what all would take together can be read. With few "
            "companies, or over several sessions, that can tell what one of them would take."
        )
    if agreement.privacy is None:
        return (
            "Verdict: no noise and no privacy guarantee. The releases show each company's demand "
            "at every price; choose mode 'private' if that must stay hidden."
        )
    noise, rounds = Noise.of(agreement), math.sqrt(agreement.rounds)
    total, share = noise.total / rounds, noise.share / rounds
    single = f" (on one party's demand {share:.3g} times its share)"
    if agreement.masked:
        single = ""
    if total > FAINT:
        return (
            f"Verdict: the noise drowns the data. Averaged over all {agreement.rounds} rounds, the "
            f"noise on the total demand is {total:.3g} times the capacity: prices learned here "
            "will be no better than prices learned from other companies' data. Give a good public "
            "worth and start from it, take in more parties with smaller shares, or agree on a "
            "larger epsilon."
        )
    if total > CLEAR:
        return (
            "Verdict: faint. Averaged over all rounds, the noise on the total demand is "
            f"{total:.3g} times the capacity{single}: prices will follow the data roughly, "
            + (_quota_words(agreement) if agreement.masked else "single quotas hardly.")
        )
    return (
        f"Verdict: clear. Averaged over all rounds, the noise on the total demand is {total:.3g} "
        f"times the capacity{single}."
        + (f" Prices will follow the data, {_quota_words(agreement)}" if agreement.masked else "")
    )


def _quota_words(agreement: Agreement) -> str:
    """What private quotas will be like."""
    kept = quota_margin(agreement)
    if kept.shares == 1:
        return "quotas not at all: they will be by shares."
    partly = f", and {100.0 * float(kept.shares):.0f} % of each is by shares" if kept.shares else ""
    return (
        f"quotas leave about {100.0 * kept.kept:.0f} % of a capacity unused, so that noise does "
        f"not make them exceed it{partly}."
    )


def forecast(agreement: Agreement) -> dict[str, Any]:
    """The figures of `protocol plan`. Noise is that of the noisiest party and resource."""
    noise, T = Noise.of(agreement), agreement.rounds
    return {
        "digest": agreement.digest.hex(),
        "party_release": noise.party,
        "party_average": noise.party / math.sqrt(T),
        "total_release": noise.total,
        "total_average": noise.total / math.sqrt(T),
        "party_average_over_share": None if agreement.masked else noise.share / math.sqrt(T),
        **_theorem(agreement),
        "guessed": None if agreement.privacy is None else session_cost(agreement).guessed,
        "needed": needed(agreement),
        "reveal": agreement.reveal,
        "each": readable(agreement),
        "totals": unreadable(agreement),
        "better": better(agreement),
        "release_bytes": release_bytes(agreement),
        "messages_per_party": T,
        "messages_received": T * (len(agreement.members) - 1),
        "pace_seconds": agreement.pace_seconds,
        "duration": duration(agreement),
        "warnings": warnings(agreement),
        "verdict": verdict(agreement),
    }
