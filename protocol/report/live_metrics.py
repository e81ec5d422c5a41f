"""A running session as numbers for a monitor: Prometheus text, and the answer to a health check.

Only numbers and names that every member knows, as on the public page. Nothing is computed here, and
no time is shown: how long a company's own answer takes is private.
"""

import json
from collections.abc import Iterator

from protocol.report.live_sections import LiveState

_HELP = {
    "sotto_rounds_closed": "Rounds that are closed; 0 at the coordinator of a mesh.",
    "sotto_rounds_agreed": "Rounds that the agreement allows at most.",
    "sotto_session_over": "1 once the session is over, as far as this process knows.",
    "sotto_members": "Members of the session.",
    "sotto_member_here": "1 while a member is here, 0 if it was not seen yet, is away or done.",
    "sotto_certificate_money": "No other plan for all companies earns more than this in addition.",
    "sotto_certificate_fraction": "The certificate as a fraction of all worth.",
    "sotto_price": "The next price of one unit of a resource.",
    "sotto_excess_demand": "Last total demand above (below) a capacity, as a fraction of it.",
    "sotto_trouble": "1 while something keeps the session from continuing.",
}
"""Every metric and what it means. All are gauges."""


def metrics_text(state: LiveState, *, over: bool) -> str:
    """The metrics of a session in Prometheus' text format 0.0.4."""
    lines: list[str] = []
    for name, rows in _rows(state, over):
        if rows:
            lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge"]
            lines += [f"{name}{labels} {value!r}" for labels, value in rows]
    return "\n".join(lines) + "\n"


def health_text(state: LiveState, *, over: bool, works: bool) -> str:
    """The answer to a health check, as one line of JSON."""
    members = (member.name for member in state.agreement.members)
    return (
        json.dumps(
            {
                "status": "ok" if works else "stopped",
                "session": state.agreement.session,
                "over": over,
                "rounds_closed": state.round,
                "rounds_agreed": state.agreement.rounds,
                "members": {
                    name: "here" if name in state.present else state.where(name) for name in members
                },
                "trouble": state.trouble,
            }
        )
        + "\n"
    )


def _rows(state: LiveState, over: bool) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    agreement, certificate = state.agreement, state.certificate or {}
    resources = [_label("resource", resource.name) for resource in agreement.resources]
    yield "sotto_rounds_closed", [("", state.round)]
    yield "sotto_rounds_agreed", [("", agreement.rounds)]
    yield "sotto_session_over", [("", int(over))]
    yield "sotto_trouble", [("", int(bool(state.trouble)))]
    yield "sotto_members", [("", len(agreement.members))]
    yield (
        "sotto_member_here",
        [(_label("member", m.name), int(m.name in state.present)) for m in agreement.members],
    )
    for name, key in (("money", "money"), ("fraction", "part")):
        value = certificate.get(key) if certificate.get("fits") else None
        yield f"sotto_certificate_{name}", [] if value is None else [("", float(value))]
    yield "sotto_price", list(zip(resources, state.prices, strict=False))
    yield "sotto_excess_demand", list(zip(resources, state.excess_demand, strict=False))


def _label(name: str, value: str) -> str:
    """One label; names in an agreement have no character that needs an escape."""
    return f'{{{name}="{value}"}}'
