"""An agreement as the file that people read, sign and change: TOML with a word to each term.

`agreement.parse` reads what is written here back as the same agreement. Pure: text only.
"""

import json
from typing import Any

from protocol.agreement import Agreement, Member, Resource

_WORDS = {
    "rehearsal": "seeded noise: NO privacy",
    "mode": "hidden: no noise; private: noise; clipped: noise with adaptive caps",
    "rounds": "each member releases exactly this many times",
    "epsilon": "of each member, for all its releases of this session together",
    "accountant": "exact; or paper, which adds more noise for the same guarantee",
    "noise": "component, norm or balanced",
    "start": "zero, worth, or a table with a price for each resource",
    "step": "constant, sqrt (both with step_size), theorem or dog",
    "topology": "relay: through the coordinator; mesh: directly",
    "patience_seconds": "after so much silence a member stops and can go on later",
    "worth": "a public guess of what all of it would fetch",
    "share": "the largest part of each capacity that it may claim",
}


def written(agreement: Agreement) -> str:
    """The whole file. Reading it gives an agreement with the same digest."""
    top: dict[str, Any] = {"session": agreement.session}
    if agreement.rehearsal:
        top["rehearsal"] = True
    top |= {"mode": agreement.mode, "rounds": agreement.rounds}
    transport = {key: value for key, value in vars(agreement.transport).items() if value}
    names = [r.name for r in agreement.resources]
    parts = [
        f"# Agreement of the session {agreement.session!r}. Every member needs this very file.",
        _lines(top),
        _table("[privacy]", _privacy(agreement)),
        _table("[prices]", _pricing(agreement)),
        _table("[transport]", transport),
        *(_table("[[resource]]", _resource(r)) for r in agreement.resources),
        *(_table("[[member]]", _member(m, names)) for m in agreement.members),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _privacy(agreement: Agreement) -> dict[str, Any]:
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


def _pricing(agreement: Agreement) -> dict[str, Any]:
    pricing, worth = agreement.pricing, agreement.worth
    start: Any = {r.name: p for r, p in zip(agreement.resources, pricing.start, strict=True)}
    if not any(pricing.start):
        start = "zero"
    elif worth is not None and pricing.start == tuple((worth / agreement.capacity).tolist()):
        start = "worth"
    terms = {"start": start, **vars(pricing)} | {"start": start}
    return {key: value for key, value in terms.items() if value is not None}


def _resource(resource: Resource) -> dict[str, Any]:
    return {key: value for key, value in vars(resource).items() if value not in ("", None)}


def _member(member: Member, resources: list[str]) -> dict[str, Any]:
    same = len(set(member.share)) == 1
    share = member.share[0] if same else dict(zip(resources, member.share, strict=True))
    terms = vars(member) | {"share": share, "signing_key": member.signing_key.hex()}
    return {
        key: value for key, value in terms.items() if value != "" and (key, value) != ("share", 1.0)
    }


def _table(header: str, terms: dict[str, Any]) -> str:
    return f"\n{header}\n{_lines(terms)}" if terms else ""


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
