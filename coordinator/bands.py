"""What some members bring and others take: spans, bands and opposites for `coordinator new`.

It completes the tables of resources and members before the agreement is checked. A `*` in an
option stands for any part of a name. Never here: private data.
"""

import argparse
import math
from fnmatch import fnmatchcase
from typing import Any

from protocol.agreement.schema import SHARE
from protocol.errors import BadCommand

Table = dict[str, Any]

OPTIONS = ("span", "band", "opposite")
"""The options of this module."""


def set_spans_and_bands(
    resources: list[Table], members: list[Table], options: argparse.Namespace
) -> None:
    """Add spans to the resources and bands to the members."""
    _set_spans(resources, options.span or [])
    _set_bands(members, [r["name"] for r in resources], options.band or [])


def matching(option: str, kind: str, pattern: str, names: list[str]) -> list[str]:
    """The names that a pattern of an option means; raises if it means none."""
    found = [name for name in names if fnmatchcase(name, pattern)]
    if not found:
        raise BadCommand(f"{option}: there is no {kind} {pattern!r}; there are {', '.join(names)}")
    return found


def _set_spans(resources: list[Table], arguments: list[str]) -> None:
    tables = {table["name"]: table for table in resources}
    for argument in arguments:
        option = f"--span {argument!r}"
        pattern, _, text = argument.partition("=")
        try:
            span = float(text)
            if not 0.0 < span < math.inf:
                raise ValueError
        except ValueError:
            raise BadCommand(
                f"{option}: it must be RESOURCE=AMOUNT, with an amount above 0: the most that one "
                "member may take or bring"
            ) from None
        for name in matching(option, "resource", pattern, list(tables)):
            if "span" in tables[name]:
                raise BadCommand(f"{option}: {name} has a span already; give one for each resource")
            tables[name]["span"] = span
    for name, table in tables.items():
        if table["capacity"] <= 0.0 and "span" not in table:
            raise BadCommand(
                f"--resource {name}={table['capacity']:g}: if members bring what others take, add "
                f"--span {name}=AMOUNT, the most that one member may take or bring. Say who brings "
                "it with --member FILE:FLOOR..SHARE or --band, with FLOOR below 0"
            )


def _set_bands(members: list[Table], resources: list[str], arguments: list[str]) -> None:
    tables, given = {table["name"]: table for table in members}, set[tuple[str, str]]()
    for argument in arguments:
        option = f"--band {argument!r}"
        target, _, text = argument.partition("=")
        who, _, what = target.partition(":")
        try:
            floor, share = (float(number) for number in text.split(".."))
        except ValueError:
            raise BadCommand(
                f"{option}: it must be MEMBER:RESOURCE=FLOOR..SHARE, such as acme:hours=-0.5..1"
            ) from None
        for member in matching(option, "member", who, list(tables)):
            floors, shares = _bands(tables[member], resources)
            for resource in matching(option, "resource", what or "*", resources):
                if (member, resource) in given:
                    raise BadCommand(
                        f"{option}: {member} has a band of {resource} already; give one"
                    )
                given.add((member, resource))
                floors[resource], shares[resource] = floor, share


def _bands(member: Table, resources: list[str]) -> tuple[Table, Table]:
    """The floors and the shares of a member as tables with an entry for each resource."""
    return (
        _by_resource(member, "floor", 0.0, resources),
        _by_resource(member, "share", SHARE, resources),
    )


def _by_resource(member: Table, key: str, default: float, resources: list[str]) -> Table:
    """One term of a member as a table with an entry for each resource."""
    value = member.get(key, default)
    if not isinstance(value, dict):
        member[key] = dict.fromkeys(resources, value)
    table: Table = member[key]
    return table


def add_opposites(
    resources: list[Table], members: list[Table], options: argparse.Namespace
) -> None:
    """Add the opposite of each named resource: what a member takes of one it brings of the other.

    Its bands and endowments are those of the resource with the sign changed, so all of them must be
    set before.
    """
    arguments, mode = options.opposite or [], options.mode
    if arguments and mode != "exact":
        raise BadCommand(
            "--opposite needs --mode exact: with noise no resource can be used exactly; leave it "
            "out, and let members bring more than others take"
        )
    names = [table["name"] for table in resources]
    chosen = dict[str, None]()
    for argument in arguments:
        chosen |= dict.fromkeys(matching(f"--opposite {argument!r}", "resource", argument, names))
    for table in [table for table in resources if table["name"] in chosen]:
        name, opposite = table["name"], f"{table['name']}-least"
        resources.append(
            {
                **table,
                "name": opposite,
                "capacity": -table["capacity"],
                "span": table.get("span", table["capacity"]),
                "opposite": name,
            }
        )
        for member in members:
            floors, shares = _bands(member, names)
            floors[opposite], shares[opposite] = -shares[name], -floors[name]
            if "endowment" in member:
                endowments = _by_resource(member, "endowment", 0.0, names)
                endowments[opposite] = -endowments[name]
