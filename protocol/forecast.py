"""What an agreement means before anybody joins: its noise, its promises, and both in plain words.

Needs the agreement and nothing else. Nothing that was released, and nothing private, may
ever change what is said here.
"""

import math

import numpy as np

from protocol import privacy
from protocol.agreement import Agreement
from protocol.caps import first_caps
from protocol.wire import release_bytes


def forecast(agreement: Agreement) -> dict[str, float | int | str | None]:
    """The figures of `protocol plan`. Noise is that of the noisiest party and resource."""
    noise = privacy.Calibration(agreement)
    m, T = len(agreement.resources), agreement.rounds
    sigma = noise.scales(first_caps(agreement))[:, :m] / agreement.ticks
    party = float(sigma.max())
    total = float(np.sqrt((sigma**2).sum(axis=0)).max())
    share = float((sigma / np.maximum(agreement.share, 1e-12)).max())
    gap = step = None
    if agreement.worth is not None and agreement.mode != "clipped":
        M, B = privacy.prices_distance(agreement), privacy.gradient_bound(noise)
        gap = privacy.convergence_gap(M=M, B=B, T=T)
        step = privacy.convergence_step(M=M, B=B, T=T) if M else None
    return {
        "digest": agreement.digest.hex(),
        "party_release": party,
        "party_average": party / math.sqrt(T),
        "total_release": total,
        "total_average": total / math.sqrt(T),
        "party_average_over_share": share / math.sqrt(T),
        "theorem_gap": gap,
        "theorem_step": step,
        "release_bytes": release_bytes(agreement),
        "messages_per_party": T,
        "messages_received": T * (len(agreement.members) - 1),
        "verdict": _verdict(agreement, total / math.sqrt(T), share / math.sqrt(T)),
    }


def _verdict(agreement: Agreement, total: float, share: float) -> str:
    """In plain words: does the noise drown the data?"""
    if agreement.privacy is None:
        return (
            "Verdict: no noise and no privacy guarantee. The releases show each company's demand "
            "at every price; choose mode 'private' if that must stay hidden."
        )
    if total > 1.0:
        return (
            f"Verdict: the noise drowns the data. Averaged over all {agreement.rounds} rounds, the "
            f"noise on the total demand is {total:.3g} times the capacity: prices learned here "
            "will be no better than prices learned from other companies' data. Give a good public "
            "worth and start from it, take in more parties with smaller shares, or agree on a "
            "larger epsilon."
        )
    if total > 0.1:
        return (
            "Verdict: faint. Averaged over all rounds, the noise on the total demand is "
            f"{total:.3g} times the capacity (on one party's demand {share:.3g} times its share): "
            "prices will follow the data roughly, single quotas hardly."
        )
    return (
        f"Verdict: clear. Averaged over all rounds, the noise on the total demand is {total:.3g} "
        f"times the capacity (on one party's demand {share:.3g} times its share)."
    )


def statement(agreement: Agreement) -> str:
    """The privacy statement of a session, for people."""
    if agreement.rehearsal:
        return "none: this is a rehearsal with noise that can be repeated"
    if agreement.privacy is None:
        return "none: mode 'hidden' shows the demands without noise"
    p = agreement.privacy
    return (
        f"all releases of each party together are (ε={p.epsilon:g}, δ={p.delta:g})-locally "
        f"differentially private ({p.accountant} accountant, {p.noise} noise)"
    )
