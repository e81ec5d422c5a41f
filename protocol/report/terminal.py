"""What `protocol plan` and `protocol audit` say: as text for people, as figures for machines.

Makes texts and prints none. Public numbers only.
"""

from typing import Any

from protocol.agreement.model import Agreement
from protocol.agreement.schema import MOST_EPSILON, RESERVE
from protocol.outcome.outcome import Outcome
from protocol.planning.forecast import CLEAR, FAINT
from protocol.planning.privacy_statement import at_most, in_guesses, statement
from protocol.report.certificate import certificate_figures, certified, money
from protocol.report.format import per


def plan_text(agreement: Agreement, figures: dict[str, Any]) -> str:
    """What the figures of a forecast mean."""
    lines = [
        *_terms(agreement),
        *(_noise(figures) if agreement.privacy is not None else []),
        *_reveals(agreement, figures),
        *_promise(agreement, figures),
        *_end(agreement),
    ]
    most = "at most " if agreement.pricing.step == "center" else ""
    sent = f"{figures['messages_per_party']} messages of {figures['release_bytes']} bytes"
    lines.append(f"each party sends {most}{sent} and receives {figures['messages_received']}")
    lines.append(figures["duration"])
    lines += [f"warning: {text}" for text in figures["warnings"]]
    return "\n".join([*lines, *_needed(figures), "", figures["verdict"]])


def _noise(figures: dict[str, Any]) -> list[str]:
    return [
        "noise (standard deviation, as a multiple of the capacity)",
        f"  one release of one party       {figures['party_release']:.4g}",
        f"  its average over all rounds    {figures['party_average']:.4g}",
        f"  one round's total of all       {figures['total_release']:.4g}",
        f"  its average over all rounds    {figures['total_average']:.4g}",
        "a guess between two data sets, equally likely, by one who knows everything else",
        "  is right without the session   50 of 100 times",
        f"  and after it, at most          {in_guesses(figures['guessed'])} times",
    ]


def _reveals(agreement: Agreement, figures: dict[str, Any]) -> list[str]:
    """What `each` and `totals` would come to beside each other, and which is better."""
    each, totals, better = figures["each"], figures["totals"], figures["better"]
    if totals is None:
        return []
    if agreement.privacy is None:
        reason = "the same prices, and single answers are masked; totals can still tell them"
        return [f"reveal: better is                {better} ({reason})"]
    against = [
        f"epsilon {epsilon:.3g} against {count}" if epsilon else f"nothing against {count}"
        for count, epsilon in totals["epsilon_against"].items()
    ]
    quota = f"keep {100.0 * totals['quota_kept']:.0f} % of a capacity back for noise"
    if totals["quota_by_shares"] == 1.0:
        quota = "would be by shares: too much of a capacity had to be kept back"
    elif totals["quota_by_shares"]:
        quota += f", and are by shares for {100.0 * totals['quota_by_shares']:.0f} %"
    seen = "the average demand, without noise"
    if totals["quota_by_shares"] == 1.0:
        seen = "nothing more"
    reason = (
        f"{each['total_average'] / totals['total_average']:.2g} times less noise in totals"
        if better == "totals"
        else "hardly more noise, and a promise that rests on nobody else"
    )
    return [
        f"reveal = 'each': total's average {each['total_average']:.4g}",
        f"reveal = 'totals': the same      {totals['total_average']:.4g}",
        f"  promised against colluders     {', '.join(against)}",
        f"  to the one who moves a payment {_paid(agreement, totals)}",
        f"  to the one who sees a quota    {seen}",
        f"  private quotas                 {quota}",
        f"reveal: better is                {better} ({reason})",
    ]


def _paid(agreement: Agreement, totals: dict[str, Any]) -> str:
    """What a payment tells, beside what was agreed."""
    if totals["quota_by_shares"] == 1.0:
        return "nothing more"
    if totals["payment_epsilon"] is None:
        return "no guarantee, as in all of a rehearsal"
    guesses = f"right at most {in_guesses(totals['payment_guessed'])} times"
    agreed = "" if agreement.privacy is None else f" instead of {agreement.privacy.epsilon:g}"
    return f"up to epsilon {at_most(totals['payment_epsilon'])}{agreed}, {guesses}"


def _promise(agreement: Agreement, figures: dict[str, Any]) -> list[str]:
    """What the theorem says, beside what all is worth: a bound alone says nothing."""
    gap, step = figures["theorem_gap"], figures["theorem_step"]
    part = figures["theorem_gap_over_worth"]
    if gap is None:
        return []
    bound = money(agreement, f"{gap:.4g}")
    lines = [f"expected gap of the best round   at most {bound} (theorem)"]
    lines += [] if step is None else [f"  with the step                  {step:.4g}"]
    if part is not None:
        nothing = ", which promises nothing" if part >= 1.0 else ""
        lines.append(
            f"  that is                        at most {100.0 * part:.3g} % of what all "
            f"capacities are worth{nothing}"
        )
    return lines


def _end(agreement: Agreement) -> list[str]:
    """When a session under the centre rule ends, what that leaves, and what is revealed."""
    tolerance, reserve = agreement.pricing.tolerance, agreement.pricing.reserve
    if tolerance is None or reserve is None:
        return []
    earned = "" if agreement.objective_limit is None else ", and what its plan would earn"
    part, left = f"{100.0 * tolerance:.4g} %", f"{100.0 * reserve:.4g} %"
    scarce = [
        f"the rounds leave                 {left} of each capacity, which the quotas fill: less",
        "  (reserve)                      than solvers can tell",
    ]
    if reserve > RESERVE:
        scarce = [
            f"the rounds leave                 {left} of each capacity, which the quotas fill; who",
            "  (reserve)                      needs all of it, with all others, may lack as much",
        ]
    revealed = [
        "revealed to all members          exactly what each company would take at the prices of",
        f"                                 every round{earned}: that may tell much of its data",
    ]
    if agreement.masked:
        revealed = [
            "revealed to all members          exactly what all companies together would take at",
            "                                 the prices of every round: with few companies, or in",
            "                                 several sessions, that may tell much of one of them",
        ]
    return [
        "ends by itself                   once all companies together are proved to miss no more",
        f"  (tolerance)                    than {part} of what all capacities are worth, and the",
        f"                                 reserve; after {agreement.rounds} rounds in any case",
        *scarce,
        *revealed,
    ]


def _needed(figures: dict[str, Any]) -> list[str]:
    """What would make the verdict better."""
    limits = {"faint": FAINT, "clear": CLEAR}
    lines = []
    for word, ways in (figures["needed"] or {}).items():
        if figures["total_average"] <= limits[word]:
            continue
        found = [
            f"epsilon {ways['epsilon']:g}" if ways["epsilon"] else "",
            f"{ways['rounds']} rounds" if ways["rounds"] else "",
            f"{ways['members']} members with the same shares together" if ways["members"] else "",
        ]
        text = " or ".join(filter(None, found)) or "more than an agreement may say"
        lines.append(f"for {word!r} it would take {text}")
        if not ways["epsilon"]:
            lines.append(f"  no epsilon up to {MOST_EPSILON:g} would do")
        if not ways["rounds"]:
            lines.append("  no number of rounds would do: the more, the more noise in each release")
    return lines


def audit_text(known: Outcome) -> str:
    """That a transcript was verified, and what it came to."""
    agreement, done = known.agreement, known.rounds
    count = done * len(agreement.members)
    lines = [
        *_terms(agreement),
        f"{count} releases in {done} of {agreement.rounds} rounds: every signature fits",
        "every price and head recomputed: all stand on the same chain",
        *(["the session ended by itself"] if known.ended_by_itself else []),
        _state(known),
        f"head       {known.state.chain_hash.hex()}",
        f"certified  {certified(agreement, certificate_figures(known))}",
    ]
    for resource, price in zip(agreement.resources, known.prices.tolist(), strict=True):
        amount = money(agreement, repr(price))
        lines.append(f"price      {resource.name}: {amount} {per(resource)}")
    if agreement.masked:
        return "\n".join([*lines, *_only_totals(known)])
    exactly = "fill exactly" if known.certificate is None else "do not exceed"
    currency = f" in {agreement.currency}" if agreement.currency else ""
    return "\n".join(
        [
            *lines,
            f"payments  {currency} for what the quota is above the endowment; together 0",
            *_payments(known),
            f"quota      in % of each capacity, which they {exactly}",
            *_quotas(known),
        ]
    )


def _state(known: Outcome) -> str:
    if known.sealed:
        return "sealed by all members"
    if known.state.over:
        return "not sealed: all rounds are there, and the seals of the members are not"
    return "not sealed, and not complete: the session was still going on"


def audit_figures(known: Outcome) -> dict[str, Any]:
    """The same for machines; quotas and endowments in ticks."""
    names = [member.name for member in known.agreement.members]
    return {
        "digest": known.agreement.digest.hex(),
        "rounds": known.rounds,
        "head": known.state.chain_hash.hex(),
        "complete": known.state.over,
        "sealed": known.sealed,
        "ended_by_itself": known.ended_by_itself,
        "currency": known.agreement.currency,
        "certificate": certificate_figures(known),
        "prices": known.prices.tolist(),
        "ticks": known.agreement.ticks,
        "reveal": known.agreement.reveal,
        "totals": known.weighted_total.tolist(),
        "quota_risk": known.quota_risk,
        "endowment": dict(zip(names, known.endowment.tolist(), strict=True)),
        "privacy": statement(known.agreement),
        **({} if known.agreement.masked else _parts(known, names)),
    }


def _parts(known: Outcome, names: list[str]) -> dict[str, Any]:
    """Everybody's quota and payment, where each release can be read."""
    return {
        "quota": dict(zip(names, known.quota.tolist(), strict=True)),
        "payments": dict(zip(names, known.payments.tolist(), strict=True)),
    }


def _only_totals(known: Outcome) -> list[str]:
    """What an audit can say where releases are masked, and what it cannot."""
    noisy = "" if known.agreement.privacy is None else ", with noise"
    pairs = zip(known.agreement.resources, known.weighted_total.tolist(), strict=True)
    asked = (
        f"  {r.name}: {total!r} {r.unit or 'units'}, {total / r.capacity:.3%}" for r, total in pairs
    )
    return [
        f"totals     asked for by all together, averaged{noisy}",
        *asked,
        *_risked(known),
        "masked     every total was recomputed, and can be one. Single releases are masked, and",
        "           cannot be checked: an audit says neither whether one is true nor which quota",
        "           and payment a member has",
    ]


def _risked(known: Outcome) -> list[str]:
    if known.quota_margin is None:
        return []
    if not known.quota_risk:
        return ["quota      by shares, as too much of each capacity had to be kept back for noise"]
    part, risk = f"{100.0 * known.quota_margin.withheld:.3g} %", f"{100.0 * known.quota_risk:.3g} %"
    return [
        f"quota      about {part} of each capacity is kept back for noise; all quotas together",
        f"           exceed some capacity with a risk of {risk} at most",
    ]


def _terms(agreement: Agreement) -> list[str]:
    members, resources = len(agreement.members), len(agreement.resources)
    size = f"{members} members, {resources} resources, {agreement.rounds} rounds"
    reveal = ", only totals" if agreement.masked else ""
    return [
        f"session    {agreement.session}   digest {agreement.digest.hex()}",
        f"terms      {size}, mode {agreement.mode}{reveal}, step {agreement.pricing.step}",
        f"privacy    {statement(agreement)}",
        "",
    ]


def _payments(known: Outcome) -> list[str]:
    first = max(len(member.name) for member in known.agreement.members)
    pairs = zip(known.agreement.members, known.payments.tolist(), strict=True)
    return [f"  {member.name:{first}}  {payment!r}" for member, payment in pairs]


def _quotas(known: Outcome) -> list[str]:
    members, resources = known.agreement.members, known.agreement.resources
    first = max(len(member.name) for member in members)
    widths = [max(7, len(resource.name)) for resource in resources]
    chain_hash = (f"{r.name:>{w}}" for r, w in zip(resources, widths, strict=True))
    lines = [f"  {'':{first}}  {'  '.join(chain_hash)}"]
    for member, row in zip(members, known.quota.tolist(), strict=True):
        cells = (f"{q / known.agreement.ticks:{w}.3%}" for q, w in zip(row, widths, strict=True))
        lines.append(f"  {member.name:{first}}  {'  '.join(cells)}")
    return lines
