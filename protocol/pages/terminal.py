"""What `protocol plan` and `protocol audit` say: as text for people, as figures for machines.

Makes texts and prints none. Public numbers only.
"""

from typing import Any

from protocol.agreement import TICKS, Agreement
from protocol.forecast import statement
from protocol.outcome import Outcome


def plan_text(agreement: Agreement, figures: dict[str, Any]) -> str:
    """What the figures of a forecast mean."""
    lines = [
        *_terms(agreement),
        "noise (standard deviation, as a multiple of the capacity)",
        f"  one release of one party       {figures['party_release']:.4g}",
        f"  its average over all rounds    {figures['party_average']:.4g}",
        f"  one round's total of all       {figures['total_release']:.4g}",
        f"  its average over all rounds    {figures['total_average']:.4g}",
    ]
    if figures["theorem_gap"] is not None:
        gap, step = figures["theorem_gap"], figures["theorem_step"]
        lines.append(f"expected gap of the best round   at most {gap:.4g} (theorem)")
        lines += [] if step is None else [f"  with the step                  {step:.4g}"]
    sent = f"{figures['messages_per_party']} messages of {figures['release_bytes']} bytes"
    lines += [f"each party sends {sent} and receives {figures['messages_received']}", ""]
    return "\n".join([*lines, figures["verdict"]])


def audit_text(known: Outcome) -> str:
    """That a transcript was verified, and what it came to."""
    agreement, done = known.agreement, known.rounds
    count = done * len(agreement.members)
    lines = [
        *_terms(agreement),
        f"{count} releases in {done} of {agreement.rounds} rounds: every signature fits",
        "every price and head recomputed: all stand on the same chain",
        "sealed by all members" if known.sealed else "not sealed: the session was still going on",
        f"head       {known.position.head.hex()}",
    ]
    for resource, price in zip(agreement.resources, known.final_prices.tolist(), strict=True):
        lines.append(f"price      {resource.name}: {price!r}")
    lines.append("quota      in % of each capacity, which they fill exactly")
    return "\n".join([*lines, *_quotas(known)])


def audit_figures(known: Outcome) -> dict[str, Any]:
    """The same for machines; quotas in ticks."""
    names = [member.name for member in known.agreement.members]
    return {
        "digest": known.agreement.digest.hex(),
        "rounds": known.rounds,
        "head": known.position.head.hex(),
        "sealed": known.sealed,
        "prices": known.final_prices.tolist(),
        "quota": dict(zip(names, known.quota.tolist(), strict=True)),
        "privacy": statement(known.agreement),
    }


def _terms(agreement: Agreement) -> list[str]:
    members, resources = len(agreement.members), len(agreement.resources)
    size = f"{members} members, {resources} resources, {agreement.rounds} rounds"
    return [
        f"session    {agreement.session}   digest {agreement.digest.hex()}",
        f"terms      {size}, mode {agreement.mode}, step {agreement.pricing.step}",
        f"privacy    {statement(agreement)}",
        "",
    ]


def _quotas(known: Outcome) -> list[str]:
    members, resources = known.agreement.members, known.agreement.resources
    first = max(len(member.name) for member in members)
    widths = [max(7, len(resource.name)) for resource in resources]
    head = (f"{r.name:>{w}}" for r, w in zip(resources, widths, strict=True))
    lines = [f"  {'':{first}}  {'  '.join(head)}"]
    for member, row in zip(members, known.quota.tolist(), strict=True):
        cells = (f"{q / TICKS:{w}.3%}" for q, w in zip(row, widths, strict=True))
        lines.append(f"  {member.name:{first}}  {'  '.join(cells)}")
    return lines
