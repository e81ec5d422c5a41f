"""Writes an agreement as a commented TOML file."""

import json
from typing import Any

from protocol.agreement.model import Agreement, Member

_WORDS = {
    "rehearsal": "seeded noise: NO privacy",
    "mode": "exact: no noise; private: noise; clipped: noise with adaptive caps",
    "reveal": "each: every release can be read; totals: only their sum, by everybody",
    "rounds": "each member releases at most this many times",
    "pace_seconds": "a release leaves so long after its round opened, ready or not",
    "currency": "what prices, worths and payments are in",
    "epsilon": "of each member, for all its releases of this session together",
    "accountant": "exact; or paper, which adds more noise for the same guarantee",
    "noise": "component or norm",
    "colluders": "members that may tell each other all they know",
    "overrun": "risk that all quotas together are above some capacity",
    "start": "zero, worth, or a table with a price for each resource",
    "step": "center without noise, worth with it; or the paper's",
    "tolerance": "stop once no plan could earn more than this part of all worth above",
    "reserve": "part of each capacity that the rounds leave; 0 where all is needed",
    "topology": "relay: through the coordinator; mesh: directly",
    "patience_seconds": "after so much silence a member stops and can go on later",
    "unit": "what it is counted in",
    "worth": "a public guess of what all of it would fetch",
    "share": "the largest part of each capacity that it may claim",
    "floor": "the least part of each that it is given; below 0, what it may bring",
    "span": "the amount that parts are parts of",
    "opposite": "this is its other side: not less than -capacity may be used of it",
    "endowment": "the part of each capacity that it would have without the others",
}


def written(agreement: Agreement) -> str:
    """The whole file. Reading it gives an agreement with the same digest."""
    top: dict[str, Any] = {"session": agreement.session}
    if agreement.rehearsal:
        top["rehearsal"] = True
    top |= {"mode": agreement.mode, "reveal": agreement.reveal, "rounds": agreement.rounds}
    if agreement.pace_seconds is not None:
        top["pace_seconds"] = agreement.pace_seconds
    if agreement.currency:
        top["currency"] = agreement.currency
    names = [r.name for r in agreement.resources]
    parts = [
        f"# Agreement of the session {agreement.session!r}. Every member needs this very file.",
        _lines(top),
        _table("[privacy]", _privacy_terms(agreement)),
        _table("[prices]", _pricing_terms(agreement)),
        _table("[transport]", vars(agreement.transport)),
        *(_table("[[resource]]", vars(r)) for r in agreement.resources),
        *(_table("[[member]]", _member_terms(m, names)) for m in agreement.members),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _privacy_terms(agreement: Agreement) -> dict[str, Any]:
    terms: dict[str, Any] = {}
    if agreement.privacy is not None:
        terms |= vars(agreement.privacy)
    if agreement.truncate:
        terms["truncate"] = True
    if agreement.truncate or agreement.mode == "clipped":
        terms["tau"] = agreement.tau
    if agreement.mode == "clipped":
        terms["alpha"] = agreement.alpha
    if agreement.objective_limit is not None:
        terms |= {"share_objective": True, "objective_limit": agreement.objective_limit}
    return terms


def _pricing_terms(agreement: Agreement) -> dict[str, Any]:
    pricing = agreement.pricing
    known = all(r.worth is not None for r in agreement.resources)
    start: Any = {r.name: p for r, p in zip(agreement.resources, pricing.start, strict=True)}
    if not any(pricing.start):
        start = "zero"
    elif known and pricing.start == tuple(
        (r.worth or 0.0) / r.measure for r in agreement.resources
    ):
        start = "worth"
    terms = {"start": start, **vars(pricing)} | {"start": start}
    unused = ("momentum", "nonnegative") if pricing.step == "center" else ()
    return {key: value for key, value in terms.items() if key not in unused}


def _member_terms(member: Member, resources: list[str]) -> dict[str, Any]:
    share = _parts_terms(member.share, resources)
    return vars(member) | {
        "share": None if share == 1.0 else share,
        "endowment": _parts_terms(member.endowment, resources),
        "floor": _parts_terms(member.floor, resources),
        "signing_key": member.signing_key.hex(),
    }


def _parts_terms(parts: tuple[float, ...], resources: list[str]) -> Any:
    """One number where all are the same, nothing where there are none."""
    if len(set(parts)) <= 1:
        return parts[0] if parts else None
    return dict(zip(resources, parts, strict=True))


def _table(header: str, terms: dict[str, Any]) -> str:
    said = {key: value for key, value in terms.items() if value not in ("", None)}
    return f"\n{header}\n{_lines(said)}" if said else ""


def _lines(terms: dict[str, Any]) -> str:
    lines = []
    for key, value in terms.items():
        line = f"{key} = {_value(value)}"
        word = _WORDS.get(key)
        lines.append(f"{line:<32} # {word}" if word else line)
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_value(v)}" for k, v in value.items()) + " }"
    # TOML takes JSON's strings and numbers but for one character that JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
