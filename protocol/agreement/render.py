"""Writes an agreement as a TOML file with a comment beside each term.

Conveners and members read this file, so the comments are for people without a manual. Never here:
a term that `parse` would not read back.
"""

import json
import textwrap
from typing import Any

from msgspec.structs import asdict

from protocol.agreement.model import Agreement, Member, Resource, role_terms
from protocol.agreement.schema import SHARE

COMMENTS = {
    "rehearsal": "repeatable noise: NO privacy",
    "mode": "exact: no noise; private: noise; clipped: noise with adaptive caps",
    "reveal": "each: members can read every release; totals: only the sum of all",
    "rounds": "each member releases at most this many times",
    "pace_seconds": "every release is sent this many seconds after its round opens",
    "currency": "of prices, worths and payments",
    "epsilon": "privacy budget of each member for the whole session; smaller: more noise",
    "delta": "small probability with which that budget may be exceeded",
    "accountant": "exact; or paper: more noise for the same guarantee",
    "noise": "how noise is spread over the resources",
    "colluders": "members that may share all they know without exceeding the budget",
    "overrun": "risk that all quotas together exceed some capacity",
    "truncate": "cut noisy demands to [tau, 1] of a capacity",
    "tau": "smallest noisy demand that counts, as a fraction of a capacity",
    "alpha": "sum of all caps of a resource, in capacities",
    "share_objective": "members also release their objective, with noise",
    "objective_limit": "largest objective that a member can release",
    "start": "prices of the first round: zero (all is free; with the rule center: as the "
    "worths suggest), worth (a capacity costs what it is worth), or a table with a price for each "
    "resource",
    "step": "price rule: center without noise, ball or worth with it; or one of the paper's",
    "step_size": "how far prices move in a round",
    "momentum": "fraction of the last price change that is added to the next",
    "nonnegative": "whether prices stay at 0 or above",
    "tolerance": "stop once the loss is proved to be below this fraction of all worth",
    "trade_limit": "no trade if the loss is not proved to be below this fraction of all worth",
    "answer_gap": "how far an answer may be from a member's best, as a fraction of all worth",
    "reserve": "fraction of each capacity that the rounds leave; 0 if all of it is needed",
    "worth_within": "the best prices are probably within this factor of the first",
    "earlier": "rounds of an earlier session, to go on from: prices, then totals",
    "topology": "relay: messages go through the coordinator; mesh: directly",
    "patience_seconds": "a member stops after this much silence; it can resume later",
    "coordinator": "where members reach the coordinator",
    "unit": "unit of the capacity",
    "worth": "public estimate of this capacity's total value",
    "spare": "fraction of the capacity that is available in addition when needed",
    "span": "amount that shares, floors and endowments are fractions of",
    "operator": "who runs it; claims to quotas are encrypted for this key",
    "overrun_price": "what a unit above the quota costs",
    "opposite": "at least -capacity of this other resource must be used",
    "share": "largest fraction of each capacity that this member may claim",
    "floor": "least fraction of each that it is given; below 0: the most that it brings",
    "endowment": "fraction of each capacity that it has without the others; it pays for more",
}
"""What each term means, in a few words. `protocol diff` uses them too."""


def written(agreement: Agreement) -> str:
    """The text of the file. Reading it gives an agreement with the same digest."""
    names = [r.name for r in agreement.resources]
    top = {
        "session": agreement.session,
        "rehearsal": agreement.rehearsal or None,
        "mode": agreement.mode,
        "reveal": agreement.reveal,
        "rounds": agreement.rounds,
        "pace_seconds": agreement.pace_seconds,
        "currency": agreement.currency,
    }
    tables = [
        f"# Agreement of the session {agreement.session!r}. Every member needs this same file.",
        _lines(top),
        _table("[privacy]", _privacy_terms(agreement)),
        _table("[prices]", _pricing_terms(agreement)),
        _table("[transport]", asdict(agreement.transport)),
        _table("[clearing]", role_terms(agreement.clearing) or {}),
        *(_table("[[resource]]", _resource_terms(r)) for r in agreement.resources),
        f"\n# Endowments: {_wrapped(endowments_in_words(agreement))}",
        *(_table("[[member]]", _member_terms(m, names)) for m in agreement.members),
    ]
    return "\n".join(table for table in tables if table) + "\n"


def endowments_in_words(agreement: Agreement) -> str:
    """What an endowment is, and which ones an agreement has."""
    shares, endowments = (
        {getattr(m, f) for m in agreement.members} for f in ("share", "endowment")
    )
    if endowments == {()} and not any(r.capacity for r in agreement.resources):
        here = "nothing, because every joint capacity is 0: members have what they bring themselves"
    elif endowments == {()}:
        here = "in proportion to the shares, because none is stated"
        if len(shares) > 1:
            here += ". So a member with a smaller share starts with less, and pays more"
    elif len(endowments) == 1:
        here = "equal parts, so that a share limits what a member may claim and moves no money"
    else:
        here = "what each member is stated to have"
    return (
        "what a member has without the others. A member pays if its quota is worth more, and is "
        f"paid if it is worth less. Here: {here}."
    )


def _wrapped(text: str) -> str:
    """A text as several lines of a comment."""
    return "\n# ".join(textwrap.wrap(text))


def _privacy_terms(agreement: Agreement) -> dict[str, Any]:
    clipped = agreement.mode == "clipped"
    return (asdict(agreement.privacy) if agreement.privacy else {}) | {
        "truncate": agreement.truncate or None,
        "tau": agreement.tau if clipped or agreement.truncate else None,
        "alpha": agreement.alpha if clipped else None,
        "share_objective": agreement.objective_limit is not None or None,
        "objective_limit": agreement.objective_limit,
    }


def _pricing_terms(agreement: Agreement) -> dict[str, Any]:
    terms = asdict(agreement.pricing) | {"start": _start_term(agreement)}
    if agreement.pricing.step in ("center", "ball"):
        terms |= {"momentum": None, "nonnegative": None}
    return terms


def _start_term(agreement: Agreement) -> Any:
    prices = agreement.pricing.start
    if not any(prices):
        return "zero"
    worths = [None if r.worth is None else r.worth / r.measure for r in agreement.resources]
    if list(prices) == worths:
        return "worth"
    return {r.name: p for r, p in zip(agreement.resources, prices, strict=True)}


def _resource_terms(resource: Resource) -> dict[str, Any]:
    return asdict(resource) | {"operator": role_terms(resource.operator)}


def _member_terms(member: Member, resources: list[str]) -> dict[str, Any]:
    share = _fractions_term(member.share, resources)
    return asdict(member) | {
        "share": None if share == SHARE else share,
        "endowment": _fractions_term(member.endowment, resources),
        "floor": _fractions_term(member.floor, resources),
        "signing_key": member.signing_key.hex(),
    }


def _fractions_term(fractions: tuple[float, ...], resources: list[str]) -> Any:
    """One number if all are equal, a table if they differ, None if there are none."""
    if len(set(fractions)) <= 1:
        return fractions[0] if fractions else None
    return dict(zip(resources, fractions, strict=True))


def _table(header: str, terms: dict[str, Any]) -> str:
    lines = _lines(terms)
    return f"\n{header}\n{lines}" if lines else ""


def _lines(terms: dict[str, Any]) -> str:
    """One line for each term that has a value, with its comment."""
    lines = []
    for key, value in terms.items():
        if value not in ("", None, ()):
            line, comment = f"{key} = {_value(value)}", COMMENTS.get(key)
            lines.append(f"{line:<32} # {comment}" if comment else line)
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_value(v)}" for k, v in value.items()) + " }"
    # TOML reads JSON's strings and numbers, except for one character that JSON does not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
