"""The sentences of `protocol plan`: what the figures of an agreement mean.

From the agreement alone. Never here: figures of their own (`forecast`), released or private
numbers.
"""

from typing import Any

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.outcome.margin import quota_margin
from protocol.planning.forecast import CLEAR, FAINT, GAINS, Noise, burden, forecast
from protocol.planning.incentives import incentives
from protocol.privacy.ball import ball

FAR_APART = 10.0
"""Warn if the largest capacity, as a number, is at least this many times the smallest."""


def plan_figures(agreement: Agreement) -> dict[str, Any]:
    """The figures of `protocol plan` and the sentences that go with them."""
    return forecast(agreement) | {
        "duration": duration(agreement),
        "incentives": incentives(agreement),
        "warnings": warnings(agreement),
        "verdict": verdict(agreement),
    }


def warnings(agreement: Agreement) -> list[str]:
    """Warnings about rules whose results depend on the units of the capacities."""
    capacities = quantities(agreement).capacity.tolist()
    ratio, found = max(capacities) / min(capacities), list[str]()
    if ratio < FAR_APART:
        return found
    apart = f"the largest capacity is {ratio:.3g} times the smallest, each in its own unit"
    if agreement.pricing.step in ("constant", "sqrt", "theorem"):
        found.append(
            f"{apart}, and the step {agreement.pricing.step!r} moves prices by the excess in these "
            "units. Some prices will hardly move and others will jump. Choose the step 'worth' "
            "('center' without noise), or units that make capacities similar"
        )
    if agreement.privacy is not None and agreement.privacy.noise != "component":
        found.append(
            f"{apart}, and the noise {agreement.privacy.noise!r} is divided by these units. "
            "Resources with small capacities get more noise for their size. Choose 'component', "
            "or units that make capacities similar"
        )
    return found


def duration(agreement: Agreement) -> str:
    """How long the releases take at the agreed pace."""
    pace = agreement.pace_seconds
    if pace is None:
        return "releases are sent when ready, so their times may reveal something about the data"
    seconds = agreement.rounds * pace
    lengths = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
    size, unit = next((length for length in lengths if seconds >= 2.0 * length[0]), lengths[-1])
    most = "at most " if agreement.pricing.step == "center" else ""
    late = "its centre, and trades nothing in that round" if agreement.ball else "no demand"
    return (
        f"at {pace:g} s a round, all releases take {most}{seconds / size:.3g} {unit}, plus network "
        f"time; if a solver is not ready in time, its company releases {late}"
    )


def verdict(agreement: Agreement) -> str:
    """Whether prices still depend on the data with this noise, in plain words."""
    if agreement.privacy is None and agreement.masked:
        return (
            "Verdict: no noise, so prices and totals are exact, and no guarantee in numbers. Masks "
            "hide single demands, but everyone can read the totals. With few companies, or over "
            "several sessions, totals can reveal what one company would take."
        )
    if agreement.privacy is None:
        return (
            "Verdict: no noise and no privacy guarantee. The releases show each company's demand "
            "at every price. Choose mode 'private' if that must stay hidden."
        )
    if agreement.ball:
        return _ball_verdict(agreement)
    noise = Noise.of(agreement)
    total, share = noise.total * noise.left, noise.share * noise.left
    single = "" if agreement.masked else f" (on one party's demand {share:.3g} times its share)"
    average = (
        f"Averaged over all {agreement.rounds} rounds, the noise on the total demand is "
        f"{total:.3g} times the capacity"
    )
    if total > FAINT:
        return (
            f"Verdict: the noise swamps the data. {average}. Prices will be no better than prices "
            "from other companies' data. Agree on a larger epsilon, admit more members with "
            "smaller shares, or give a good public worth and start from it."
        )
    if total > CLEAR:
        quotas = _quotas(agreement) if agreement.masked else "Single quotas hardly will."
        return f"Verdict: faint. {average}{single}. Prices will follow the data roughly. {quotas}"
    quotas = f" Prices will follow the data. {_quotas(agreement)}" if agreement.masked else ""
    return f"Verdict: clear. {average}{single}.{quotas}"


def _ball_verdict(agreement: Agreement) -> str:
    """Whether the noise leaves something to gain, in one sentence, and how much it withholds."""
    public = ball(agreement)
    if not public.trades:
        return (
            "Verdict: the noise leaves nothing to gain. For so few members and this epsilon, what "
            "must be withheld for noise is more than trading brings, so every member keeps its "
            "endowment. Agree on a larger epsilon, admit more members, or state a spare fraction "
            "of the capacities."
        )
    reach, withheld = public.reach.max(), float(public.margin.max())
    spare = "" if not any(r.spare for r in agreement.resources) else " beyond the spare fraction"
    cost = (
        f"Members can trade up to {100.0 * min(reach, 1.0):.0f} % of what they bring, and about "
        f"{100.0 * withheld:.0f} % of a capacity is withheld for noise{spare}."
    )
    ratio = burden(agreement)
    differ = (
        "Companies gain nothing together unless the value of a unit differs between them by more "
        f"than {200.0 * ratio / (1.0 + ratio):.0f} % of its mean"
    )
    if ratio <= GAINS:
        return f"Verdict: the noise leaves room to trade. {cost} {differ}."
    return (
        f"Verdict: the noise leaves room to trade only for companies that differ much. {cost} "
        f"{differ}, and often it must differ more. Do not sign this unless you know that it does."
    )


def _quotas(agreement: Agreement) -> str:
    """What private quotas will be like, in a sentence."""
    margin = quota_margin(agreement)
    if margin.pro_rata == 1:
        return "Quotas will not: they will be pro rata."
    percent = 100.0 * float(margin.pro_rata)
    blended = f", and {percent:.0f} % of each quota is pro rata" if percent else ""
    return (
        f"Quotas leave about {100.0 * margin.withheld:.0f} % of a capacity unused, so that noise "
        f"does not make them exceed it{blended}."
    )
