"""Writes an agreement: `coordinator new`, from its options or from an earlier session.

Checks the agreement as a party would, before anybody gets it.
"""

import argparse
import math
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from coordinator.keys import read_secret
from protocol.agreement import schema
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table, parse
from protocol.agreement.render import written
from protocol.agreement.schema import LEAST_MASKED
from protocol.errors import BadAgreement, BadCommand
from protocol.runtime.files import (
    KEY_BYTES,
    read_agreement,
    read_bounded,
    read_transcript,
    write_private,
)

_DEFAULTS: dict[str, Any] = {
    "mode": schema.DRAFT_MODE,
    "rounds": schema.DRAFT_ROUNDS,
    "epsilon": schema.DRAFT_EPSILON,
    "delta": schema.DRAFT_DELTA,
    "start": schema.START,
    "topology": schema.TOPOLOGY,
    "patience": schema.PATIENCE_SECONDS,
    "rehearsal": False,
}
"""What a new agreement says where neither an option nor an earlier session says otherwise."""


def write_agreement(options: argparse.Namespace) -> None:
    import zmq

    from protocol.validation import require_playable

    if options.out.exists():
        raise BadAgreement(f"{str(options.out)!r} exists already and is not overwritten")
    if not options.out.parent.is_dir():
        raise BadCommand(f"--out {str(options.out)!r}: there is no such folder")
    known = options.key.exists()
    secret = read_secret(options.key) if known else zmq.curve_keypair()[1]
    key = zmq.curve_public(secret).decode()
    draft = _first(options, key) if options.earlier is None else _next(options, key)
    text = written(draft)
    agreement = parse(text)
    require_playable(agreement)
    if not known:
        write_private(options.key, secret.decode() + "\n")
        print(f"{options.key}: secret, stays here")
    try:
        options.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadCommand(f"{str(options.out)!r} cannot be written: {error.strerror}") from None
    print(f"{options.out}: send it to all members; its digest is {agreement.digest.hex()}")


def _first(options: argparse.Namespace, key: str) -> Agreement:
    """The agreement that the options describe."""
    for name in ("resource", "member", "address"):
        if not getattr(options, name):
            raise BadCommand(f"--{name} is missing; only with --from an earlier session says it")
    if options.agreement is not None:
        raise BadCommand("--agreement goes with --from: without it there is no earlier session")
    if options.mode == "exact" and (options.epsilon, options.delta) != (None, None):
        raise BadCommand("mode exact has no noise, so that --epsilon and --delta mean nothing")
    terms = _DEFAULTS | {k: v for k, v in vars(options).items() if v is not None}
    hidden = terms["mode"] == "exact"
    certificate = _certificate(options, centered=hidden)
    resources = [_resource_table(argument, noisy=not hidden) for argument in options.resource]
    members = [_member_table(str(argument)) for argument in options.member]
    able = terms["mode"] != "clipped" and len(members) >= LEAST_MASKED
    reveal = terms.get("reveal", "totals" if able else "each")
    _set_units(resources, options.unit or [])
    _set_endowments(members, [r["name"] for r in resources], options.endowment or [])
    return from_table(
        {
            "session": options.session,
            "currency": terms.get("currency", ""),
            "mode": terms["mode"],
            "reveal": reveal,
            "rounds": terms["rounds"],
            "rehearsal": terms["rehearsal"],
            **({"pace_seconds": terms["pace"]} if "pace" in terms else {}),
            "privacy": ({} if hidden else {k: terms[k] for k in ("epsilon", "delta")})
            | {k: terms[k] for k in ("colluders", "overrun") if k in terms},
            "prices": {"start": terms["start"], **certificate},
            "transport": {
                "topology": terms["topology"],
                "coordinator": options.address,
                "coordinator_key": key,
                "patience_seconds": terms["patience"],
            },
            "resource": resources,
            "member": members,
        }
    )


def _next(options: argparse.Namespace, key: str) -> Agreement:
    """The agreement of an earlier session, starting from the prices of its outcome."""
    from protocol.outcome.outcome import outcome
    from protocol.wire.transcript import load

    kept = ("resource", "unit", "currency", "member", "endowment", "mode", "start", "rehearsal")
    for name in (*kept, "reveal", "colluders", "overrun"):
        if getattr(options, name) is not None:
            raise BadCommand(
                f"--{name} is what the earlier session says; leave it out, and change the file "
                "that is written where the next session is to differ"
            )
    if options.agreement is None:
        raise BadCommand("--from needs --agreement beside it: what that session agreed on")
    old = read_agreement(options.agreement)
    known = outcome(old, load(old, read_transcript(options.earlier, old)))
    if not known.state.over:
        print(
            f"{options.earlier} stops after {known.rounds} of {old.rounds} rounds: the prices "
            "reached there are taken",
            file=sys.stderr,
        )
    given = {k: v for k, v in vars(options).items() if v is not None}
    privacy = old.privacy and replace(
        old.privacy, **{k: given[k] for k in ("epsilon", "delta") if k in given}
    )
    return replace(
        old,
        session=options.session,
        rounds=given.get("rounds", old.rounds),
        pace_seconds=given.get("pace", old.pace_seconds),
        privacy=privacy,
        pricing=replace(
            old.pricing,
            start=tuple(known.prices.tolist()),
            **_certificate(options, centered=old.pricing.step == "center"),
        ),
        transport=replace(
            old.transport,
            coordinator=given.get("address", old.transport.coordinator),
            coordinator_key=key,
            topology=given.get("topology", old.transport.topology),
            patience_seconds=given.get("patience", old.transport.patience_seconds),
        ),
    )


def _certificate(options: argparse.Namespace, *, centered: bool) -> dict[str, Any]:
    """When the rounds may stop, as far as the options say so."""
    given = {k: getattr(options, k) for k in ("tolerance", "reserve")}
    given = {k: v for k, v in given.items() if v is not None}
    if given and not centered:
        raise BadCommand(
            f"--{next(iter(given))} belongs to the certificate, which only rounds without noise "
            "have (mode exact, step center); leave it out"
        )
    return given


def _set_units(resources: list[dict[str, Any]], arguments: list[str]) -> None:
    """Give each resource that is named its unit."""
    for argument in arguments:
        name, _, unit = argument.partition("=")
        found = [table for table in resources if table["name"] == name]
        if not unit or not found:
            names = ", ".join(table["name"] for table in resources)
            raise BadCommand(
                f"--unit {argument!r}: it must be RESOURCE=UNIT, and the resources are {names}"
            )
        if found[0].setdefault("unit", unit) != unit:
            raise BadCommand(f"--unit {argument!r}: {name} is in {found[0]['unit']!r} already")


def _set_endowments(
    members: list[dict[str, Any]], resources: list[str], arguments: list[str]
) -> None:
    """Give each member that is named what it brings: of one resource, or of all the others."""
    names = [table["name"] for table in members]
    parts: dict[str, dict[str, float]] = {}
    for argument in arguments:
        name, resource, part = _endowment(argument, names, resources)
        if resource in parts.setdefault(name, {}):
            raise BadCommand(f"--endowment {argument!r}: that is said twice")
        parts[name][resource] = part
    for table in members:
        said, name = parts.get(table["name"], {}), table["name"]
        for resource in resources if said else ():
            if "" not in said and resource not in said:
                raise BadCommand(
                    f"--endowment says what {name!r} brings, but not of {resource!r}; say "
                    f"{name}:{resource}=PART, or {name}=PART for all that is not named"
                )
        if said:
            table["endowment"] = {r: said[r] if r in said else said[""] for r in resources}


def _endowment(argument: str, members: list[str], resources: list[str]) -> tuple[str, str, float]:
    """Who, of which resource (none: of all), and which part."""
    who, _, number = argument.partition("=")
    name, _, resource = who.partition(":")
    try:
        part = float(number)
    except ValueError:
        raise BadCommand(
            f"--endowment {argument!r}: it must be MEMBER=PART or MEMBER:RESOURCE=PART, with a "
            "part from 0 to 1"
        ) from None
    for what, given, known in (("member", name, members), ("resource", resource, ["", *resources])):
        if given not in known:
            raise BadCommand(
                f"--endowment {argument!r}: there is no {what} {given!r}; there are "
                + ", ".join(filter(None, known))
            )
    return name, resource, part


def _resource_table(argument: str, *, noisy: bool) -> dict[str, Any]:
    name, _, numbers = argument.partition("=")
    capacity, _, worth = numbers.partition(":")
    try:
        values = [float(v) for v in (capacity, worth) if v]
        if not all(map(math.isfinite, values)) or not values:
            raise ValueError
    except ValueError:
        raise BadAgreement(
            f"--resource {argument!r}: it must be NAME=CAPACITY or NAME=CAPACITY:WORTH"
        ) from None
    if noisy and not worth:
        raise BadAgreement(
            f"--resource {argument!r} has no worth: with noise the steps follow from it; say "
            "NAME=CAPACITY:WORTH, with a public guess of what all of it would fetch"
        )
    table: dict[str, Any] = {"name": name, "capacity": values[0]}
    return table | ({"worth": values[1]} if worth else {})


def _short_text(path: Path) -> str:
    return read_bounded(path, KEY_BYTES).decode("utf-8-sig")


def _member_table(argument: str) -> dict[str, Any]:
    path, band = argument, ""
    if not Path(argument).exists() and ":" in argument:
        path, _, band = argument.rpartition(":")
    floor, _, share = band.rpartition("..")
    try:
        [member] = tomllib.loads(_short_text(Path(path)))["member"]
        member = dict(member) | ({"share": float(share)} if share else {})
        member |= {"floor": float(floor)} if floor else {}
    except (OSError, KeyError, ValueError, TypeError):
        raise BadAgreement(
            f"--member {argument!r}: it must be a file that `party keygen` wrote, and where "
            "wanted a colon and a share, or FLOOR..SHARE"
        ) from None
    if "name" not in member:
        raise BadAgreement(f"--member {argument!r}: the file names no member")
    return member
