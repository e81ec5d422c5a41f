"""What `protocol plan` and `protocol audit` print: text for people, figures for machines.

Makes texts and prints none. Public numbers only.
"""

from typing import Any

from protocol.agreement.model import Agreement
from protocol.agreement.schema import MOST_EPSILON, RESERVE
from protocol.outcome.outcome import Outcome
from protocol.planning.forecast import CLEAR, FAINT, GAINS
from protocol.planning.privacy_statement import at_most, in_guesses, statement
from protocol.report.certificate import MIXTURES, certificate_figures, certified
from protocol.report.format import coins, money, per
from protocol.report.trade import (
    contradiction_figures,
    contradictions,
    trade_figures,
    why_no_trade,
)


def plan_text(agreement: Agreement, figures: dict[str, Any]) -> str:
    """What the figures of a forecast mean."""
    most = "at most " if agreement.pricing.step == "center" else ""
    sent = f"{figures['messages_per_party']} messages of {figures['release_bytes']} bytes"
    lines = [
        *_terms(agreement),
        *(_noise(figures) if agreement.privacy is not None else []),
        *_reveal(agreement, figures),
        *_theorem(agreement, figures),
        *_end(agreement),
        *_claims(agreement),
        f"each party sends {most}{sent} and receives {figures['messages_received']}",
        figures["duration"],
        *(f"warning: {text}" for text in figures["warnings"]),
        *_needed(figures),
        *figures.get("approvals", ()),
        "",
        *_incentives(figures),
        "",
        figures["verdict"],
    ]
    return "\n".join(lines)


def _noise(figures: dict[str, Any]) -> list[str]:
    return [
        "noise (standard deviation, as a multiple of the capacity)",
        f"  one release of one party       {figures['party_release']:.4g}",
        f"  its average over all rounds    {figures['party_average']:.4g}",
        f"  the total of one round         {figures['total_release']:.4g}",
        f"  its average over all rounds    {figures['total_average']:.4g}",
        "an observer who knows all else guesses which of two equally likely data sets is yours",
        "  right without the session      50 of 100 times",
        f"  and after it, at most          {in_guesses(figures['guessed'])} times",
    ]


def _reveal(agreement: Agreement, figures: dict[str, Any]) -> list[str]:
    """`each` and `totals` compared, and which is better."""
    each, totals, better = figures["each"], figures["totals"], figures["better"]
    if totals is None or (agreement.privacy is None and agreement.masked):
        return []  # nothing to compare, or the better one is agreed
    if agreement.privacy is None:
        reason = "same prices, and single answers are masked; totals can still reveal them"
        return [f"reveal: better is                {better} ({reason})"]
    by_shares = totals["quota_by_shares"] == 1.0
    colluders = [
        f"epsilon {epsilon:.3g} against {count}" if epsilon else f"nothing against {count}"
        for count, epsilon in totals["epsilon_against"].items()
    ]
    quota = f"withhold {100.0 * totals['quota_kept']:.0f} % of a capacity for noise"
    if by_shares and totals["step"] == "ball":
        quota = "are the endowments: too much of a capacity would have to be withheld"
    elif by_shares:
        quota = "would be pro rata: too much of a capacity would have to be withheld"
    elif totals["quota_by_shares"]:
        quota += f"; {100.0 * totals['quota_by_shares']:.0f} % of each quota is pro rata"
    reason = "hardly more noise, and the guarantee depends on no other member"
    if better == "totals":
        reason = "nothing is traded, so nothing is revealed"
        if totals["total_average"]:
            less = each["total_average"] / totals["total_average"]
            reason = f"{less:.2g} times less noise in totals"
    return [
        f"reveal = 'each': average total   {each['total_average']:.4g}",
        f"reveal = 'totals': average total {totals['total_average']:.4g}",
        f"  guarantee against colluders    {', '.join(colluders)}",
        f"  to the one who moves a payment {_payment_tells(agreement, totals)}",
        "  to the one who sees a quota    "
        + ("nothing more" if by_shares else "the average demand, without noise"),
        f"  private quotas                 {quota}",
        f"reveal: better is                {better} ({reason})",
    ]


def _payment_tells(agreement: Agreement, totals: dict[str, Any]) -> str:
    """What a payment tells beyond the agreed guarantee."""
    if totals["quota_by_shares"] == 1.0:
        return "nothing more"
    if totals["step"] == "ball":
        return "what the company bought, in money, without noise: no epsilon covers that"
    if totals["payment_epsilon"] is None:
        return "no guarantee, as in all of a rehearsal"
    guesses = f"right at most {in_guesses(totals['payment_guessed'])} times"
    agreed = "" if agreement.privacy is None else f" instead of {agreement.privacy.epsilon:g}"
    return f"up to epsilon {at_most(totals['payment_epsilon'])}{agreed}, {guesses}"


def _theorem(agreement: Agreement, figures: dict[str, Any]) -> list[str]:
    """The bound of the theorem, compared with what all capacities are worth."""
    gap, step = figures["theorem_gap"], figures["theorem_step"]
    fraction = figures["theorem_gap_over_worth"]
    if gap is None:
        return []
    bound = coins(agreement, gap, most=True)
    lines = [f"expected gap of the best round   at most {bound} (theorem)"]
    lines += [] if step is None else [f"  with the step                  {step:.4g}"]
    if fraction is not None:
        nothing = ", which promises nothing" if fraction >= 1.0 else ""
        lines.append(
            f"  that is                        at most {100.0 * fraction:.3g} % of what all "
            f"capacities are worth{nothing}"
        )
    return lines


def _end(agreement: Agreement) -> list[str]:
    """When a session with the centre rule ends, what it leaves over, and what it reveals."""
    tolerance, reserve = agreement.pricing.tolerance, agreement.pricing.reserve
    if tolerance is None or reserve is None:
        return []
    lacking = "solvers are less precise than that"
    if reserve > RESERVE:
        lacking = "a company that needs all of it, with all others, may lack as much"
    earns = "" if agreement.objective_limit is None else ", and what its plan would earn"
    revealed = (
        f"exactly what each company would take at the prices of every round{earns}: that may "
        "reveal much about its data"
    )
    if agreement.masked:
        revealed = (
            "exactly what all companies together would take at the prices of every round: with few "
            "companies, or in several sessions, that may reveal much about one of them"
        )
    ends = (
        f"when all companies together provably miss no more than {100.0 * tolerance:.4g} % of what "
        f"all capacities are worth, and the reserve; after {agreement.rounds} rounds in any case"
    )
    left = f"{100.0 * reserve:.4g} % of each capacity, which the quotas fill; {lacking}"
    return [
        f"ends by itself (tolerance)       {ends}",
        f"the rounds leave (reserve)       {left}",
        f"no trade (trade_limit)           {_no_trade(agreement)}",
        f"revealed to all members          {revealed}",
    ]


def _claims(agreement: Agreement) -> list[str]:
    return [f"claims go to                     {recipients(agreement)}"] if agreement.masked else []


def recipients(agreement: Agreement) -> str:
    """To whom members show their payments and quotas, if only totals are public."""
    held = {"payments": agreement.clearing} | {r.name: r.operator for r in agreement.resources}
    named: dict[str, list[str]] = {}
    for what, role in held.items():
        if role is not None:
            named.setdefault(role.name, []).append(what)
    shown = [f"{name} ({', '.join(whats)})" for name, whats in named.items()]
    plain = ", ".join(what for what, role in held.items() if role is None)
    if plain:
        shown.append(
            f"a recipient that the agreement does not name ({plain}), so these claims are "
            "not encrypted"
        )
    return "; ".join(shown)


def _no_trade(agreement: Agreement) -> str:
    limit = 100.0 * (agreement.pricing.trade_limit or 0.0)
    return (
        f"if the loss is not proved to be below {limit:.4g} % of what all capacities are worth, or "
        "demands do not fit: then every company keeps what it brings, and none pays"
    )


def unmet(figures: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The better verdicts that an agreement misses, and what each of them would take."""
    needed = figures["needed"] or {}
    if "trade" in needed:
        loses = figures["burden"] is None or figures["burden"] > GAINS
        missed = {"trade": not figures["trades"], "gain": loses}
        return {word: ways for word, ways in needed.items() if missed[word]}
    limits = {"faint": FAINT, "clear": CLEAR}
    return {word: needed[word] for word in needed if figures["total_average"] > limits[word]}


def _needed(figures: dict[str, Any]) -> list[str]:
    """What would improve the verdict."""
    lines = []
    for word, ways in unmet(figures).items():
        found = [
            f"epsilon {ways['epsilon']:g}" if ways["epsilon"] else "",
            f"{ways['rounds']} rounds" if ways["rounds"] else "",
            f"{ways['members']} members with the same total of shares" if ways["members"] else "",
        ]
        text = " or ".join(filter(None, found)) or "more than an agreement may state"
        lines.append(f"for {word!r} it would take {text}")
        if not ways["epsilon"]:
            lines.append(f"  no epsilon up to {MOST_EPSILON:g} would do")
        if not ways["rounds"] and word not in ("trade", "gain"):
            lines.append("  no number of rounds would do: more rounds, more noise in each release")
    return lines


def _incentives(figures: dict[str, Any]) -> list[str]:
    """What lies may bring, and a warning where members are few."""
    expected = figures["incentives"]
    caution = [] if expected["warning"] is None else [f"warning: {expected['warning']}"]
    return [f"If a member lies: {expected['text']}", *caution]


def audit_text(outcome: Outcome) -> str:
    """That a transcript was verified, and what its outcome is."""
    agreement, done = outcome.agreement, outcome.rounds
    count = done * len(agreement.members)
    lines = [
        *_terms(agreement),
        f"{count} releases in {done} of {agreement.rounds} rounds: all signatures are valid",
        "all prices and chain hashes recomputed: every member has the same history",
        *(["the session ended by itself"] if outcome.ended_by_itself else []),
        _state(outcome),
        f"chain hash {outcome.state.chain_hash.hex()}",
        *_proved(outcome),
    ]
    for resource, price in zip(agreement.resources, outcome.prices.tolist(), strict=True):
        amount = money(agreement, repr(price))
        lines.append(f"price      {resource.name}: {amount} {per(resource)}")
    lines += _masked(outcome) if agreement.masked else [*_payments(outcome), *_quotas(outcome)]
    return "\n".join(lines)


def _proved(outcome: Outcome) -> list[str]:
    """The certificate, whether there is a trade, and contradictions between answers."""
    agreement, figures = outcome.agreement, outcome_figures(outcome)
    refused = why_no_trade(agreement, figures)
    found = contradictions(agreement, figures["contradictions"])
    lines = [f"no trade   {text}" for text in refused]
    if not refused:
        lines.append(f"certified  {certified(agreement, figures['certificate'])}")
        lines += [f"  {MIXTURES}"] if figures["certificate"] else []
    lines += [f"answers    {text}" for text in found]
    if figures["certificate"] and not found:
        lines.append("answers    they do not contradict each other")
    return lines


def _state(outcome: Outcome) -> str:
    if outcome.sealed:
        return "sealed by all members"
    if outcome.state.over:
        return "not sealed: all rounds are there, but the seals of the members are missing"
    return "not sealed and not complete: the session was still running"


def outcome_figures(outcome: Outcome) -> dict[str, Any]:
    """The figures for machines that an audit and a company's result have in common."""
    committed = outcome.state.committed
    return {
        "rounds": outcome.rounds,
        "head": outcome.state.chain_hash.hex(),
        "sealed": outcome.sealed,
        "ended_by_itself": outcome.ended_by_itself,
        "currency": outcome.agreement.currency,
        "certificate": certificate_figures(outcome),
        "trade": trade_figures(outcome),
        "contradictions": contradiction_figures(outcome),
        "prices": outcome.prices.tolist(),
        "ticks": outcome.agreement.ticks,
        "reveal": outcome.agreement.reveal,
        "totals": outcome.weighted_total.tolist(),
        "quota_risk": outcome.quota_risk,
        "commitments_add_up": None if committed is None else committed.adds_up,
    }


def audit_figures(outcome: Outcome) -> dict[str, Any]:
    """The figures of an audit for machines; quotas and endowments in ticks."""
    names = [member.name for member in outcome.agreement.members]
    figures = {
        "digest": outcome.agreement.digest.hex(),
        **outcome_figures(outcome),
        "complete": outcome.state.over,
        "endowment": dict(zip(names, outcome.endowment.tolist(), strict=True)),
        "privacy": statement(outcome.agreement),
    }
    if not outcome.agreement.masked:
        figures["quota"] = dict(zip(names, outcome.quota.tolist(), strict=True))
        figures["payments"] = dict(zip(names, outcome.payments.tolist(), strict=True))
    return figures


def _masked(outcome: Outcome) -> list[str]:
    """What an audit can say if releases are masked, and what it cannot."""
    noise = "" if outcome.agreement.privacy is None else ", with noise"
    pairs = zip(outcome.agreement.resources, outcome.weighted_total.tolist(), strict=True)
    unchecked = (
        "every total was recomputed and is a possible one. Single releases are masked and cannot "
        "be checked: an audit says neither whether one is true nor which quota and payment a "
        "member has."
    )
    return [
        f"totals     average demand of all companies together{noise}",
        *(
            f"  {r.name}: {total!r} {r.unit or 'units'}"
            + (f", {total / r.capacity:.3%}" if r.capacity > 0.0 else "")
            for r, total in pairs
        ),
        *_margin(outcome),
        *_commitments(outcome),
        f"masked     {unchecked}",
    ]


def _commitments(outcome: Outcome) -> list[str]:
    """Whether claims to quotas and payments can be checked."""
    if not outcome.agreement.commits:
        return []
    committed = outcome.state.committed
    if committed is None:
        return ["committed  no: commitments of members are missing, so there are no claims"]
    if not committed.adds_up:
        return ["committed  falsely: the commitments do not add up, so claims prove nothing"]
    bound = "all proofs hold, quotas fit each capacity, payments add up to zero"
    return [
        f"committed  every member, to its quota and payment: {bound}",
        "           claims can be checked with `protocol settle`",
    ]


def _margin(outcome: Outcome) -> list[str]:
    if outcome.quota_margin is None:
        return []
    if not outcome.quota_risk and outcome.agreement.ball:
        return [
            "quota      the endowment: too much of a capacity would have to be withheld for noise"
        ]
    if not outcome.quota_risk:
        return [
            "quota      pro rata: too much of each capacity would have to be withheld for noise"
        ]
    withheld, risk = 100.0 * outcome.quota_margin.withheld, 100.0 * outcome.quota_risk
    kept = f"about {withheld:.3g} % of each capacity is withheld for noise"
    risked = f"the risk that all quotas together exceed some capacity is at most {risk:.3g} %"
    if any(r.spare for r in outcome.agreement.resources):
        risked = risked.replace("some capacity", "some capacity and its spare fraction")
    return [f"quota      {kept}; {risked}"]


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


def _payments(outcome: Outcome) -> list[str]:
    members, currency = outcome.agreement.members, outcome.agreement.currency
    width = max(len(member.name) for member in members)
    unit = f"in {currency}, " if currency else ""
    rows = zip(members, outcome.payments.tolist(), strict=True)
    return [
        f"payments   {unit}for the value of the quota above the endowment; they add up to 0",
        *(f"  {member.name:{width}}  {payment!r}" for member, payment in rows),
    ]


def _quotas(outcome: Outcome) -> list[str]:
    members, resources = outcome.agreement.members, outcome.agreement.resources
    relation = "add up to it exactly" if outcome.certificate is None else "do not exceed it"
    first = max(len(member.name) for member in members)
    widths = [max(7, len(resource.name)) for resource in resources]
    names = (f"{r.name:>{w}}" for r, w in zip(resources, widths, strict=True))
    lines = [
        f"quota      in % of each capacity; the quotas {relation}",
        f"  {'':{first}}  {'  '.join(names)}",
    ]
    for member, row in zip(members, outcome.quota.tolist(), strict=True):
        cells = (f"{q / outcome.agreement.ticks:{w}.3%}" for q, w in zip(row, widths, strict=True))
        lines.append(f"  {member.name:{first}}  {'  '.join(cells)}")
    return lines
