"""Writes an agreement for `coordinator new`, from its options or from an earlier session.

It checks the agreement as a party would, before a member receives it. Never here: private data.
"""

import argparse
import math
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from coordinator.departure import without
from coordinator.keys import read_secret
from protocol.agreement import schema
from protocol.agreement.model import CERTIFICATE_TERMS, Agreement
from protocol.agreement.parse import from_table, parse
from protocol.agreement.render import written
from protocol.agreement.schema import LEAST_MASKED
from protocol.errors import BadAgreement, BadCommand
from protocol.runtime import files

_DEFAULTS: dict[str, Any] = {
    "mode": schema.DRAFT_MODE,
    "epsilon": schema.DRAFT_EPSILON,
    "delta": schema.DRAFT_DELTA,
    "start": schema.START,
    "topology": schema.TOPOLOGY,
    "patience": schema.PATIENCE_SECONDS,
    "rehearsal": False,
}
"""Terms of a new agreement for which no option is given."""


def write_agreement(options: argparse.Namespace) -> None:
    """Write the agreement, and the coordinator's key if it does not exist."""
    import zmq

    from protocol.rounds import RoundEngine

    if options.out.exists():
        raise BadAgreement(
            f"--out {str(options.out)!r}: the file exists and is not overwritten; choose another "
            "name"
        )
    if not options.out.parent.is_dir():
        raise BadCommand(f"--out {str(options.out)!r}: the folder does not exist; make it first")
    has_key = options.key.exists()
    secret = read_secret(options.key) if has_key else zmq.curve_keypair()[1]
    key = zmq.curve_public(secret).decode()
    draft = _from_options(options, key) if options.earlier is None else _from_earlier(options, key)
    text = written(draft)
    agreement = parse(text)
    RoundEngine(agreement)  # raises `BadAgreement` unless a party can compute with these terms
    if not has_key:
        files.write_private(options.key, secret.decode() + "\n")
        print(f"{options.key}: your secret key; keep it on this machine")
    try:
        options.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadCommand(
            f"--out {str(options.out)!r} cannot be written: {error.strerror}"
        ) from None
    print(f"{options.out}: send it to all members; its digest is {agreement.digest.hex()}")


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The options that the command line has."""
    return {name: value for name, value in vars(options).items() if value is not None}


def _from_options(options: argparse.Namespace, key: str) -> Agreement:
    """Return the agreement that the options describe."""
    for name in ("resource", "member", "address"):
        if not getattr(options, name):
            raise BadCommand(f"--{name} is required unless --from is given")
    for name in ("agreement", "without"):
        if getattr(options, name) is not None:
            raise BadCommand(f"--{name} is for --from only; leave it out")
    if options.mode == "exact" and (options.epsilon, options.delta) != (None, None):
        raise BadCommand("--epsilon and --delta have no meaning with --mode exact; leave them out")
    terms = _DEFAULTS | _given(options)
    exact = terms["mode"] == "exact"
    ball = terms["mode"] == "private" and _reveal(terms, len(options.member)) == "totals"
    certificate = _certificate_terms(options, centered=exact)
    resources = [_resource_table(argument, noisy=not exact) for argument in options.resource]
    members = [_member_table(str(argument)) for argument in options.member]
    rounds = schema.DRAFT_ROUNDS + exact * schema.DRAFT_ROUNDS_PER_RESOURCE * len(resources)
    if ball:
        rounds = schema.DRAFT_BALL_ROUNDS
    _set_units(resources, options.unit or [])
    if options.spare is not None:
        for resource in resources:
            resource["spare"] = options.spare
    _set_endowments(members, [r["name"] for r in resources], options.endowment or [])
    return from_table(
        {
            "session": options.session,
            "currency": terms.get("currency", ""),
            "mode": terms["mode"],
            "reveal": _reveal(terms, len(members)),
            "rounds": terms.get("rounds", rounds),
            "rehearsal": terms["rehearsal"],
            **({"pace_seconds": terms["pace"]} if "pace" in terms else {}),
            "privacy": ({} if exact else {k: terms[k] for k in ("epsilon", "delta")})
            | {k: terms[k] for k in ("colluders", "overrun") if k in terms},
            "prices": _start(options, ball=ball) | certificate,
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


def _reveal(terms: dict[str, Any], members: int) -> str:
    """What others can read: totals where that is possible, unless an option says otherwise."""
    maskable = terms["mode"] != "clipped" and members >= LEAST_MASKED
    return str(terms.get("reveal", "totals" if maskable else "each"))


def _start(options: argparse.Namespace, *, ball: bool) -> dict[str, Any]:
    """The first prices; the step `ball` begins at the worths if no option says otherwise."""
    if options.start is None:
        return {} if ball else {"start": _DEFAULTS["start"]}
    return {"start": options.start}


def _from_earlier(options: argparse.Namespace, key: str) -> Agreement:
    """Return the agreement of an earlier session, going on from its prices and rounds."""
    from protocol.outcome.outcome import outcome
    from protocol.pricing.rule import rounds_to_carry
    from protocol.wire.transcript import load

    given = _given(options)
    fixed = ("resource", "unit", "currency", "member", "endowment", "mode", "start", "rehearsal")
    for name in (*fixed, "reveal", "colluders", "overrun", "spare"):
        if name in given:
            raise BadCommand(
                f"--{name} cannot be given with --from, which takes it from the earlier session; "
                "leave it out, and edit the new agreement if the next session is to differ"
            )
    if options.agreement is None:
        raise BadCommand("--from needs --agreement, the agreement of the earlier session")
    old = files.read_agreement(options.agreement)
    if options.session == old.session:
        raise BadCommand(f"--session {old.session!r} is the earlier session; choose a new name")
    result = outcome(old, load(old, files.read_transcript(options.earlier, old)))
    if not result.state.over:
        print(
            f"{options.earlier} stops after {result.rounds} of {old.rounds} rounds; the next "
            "session goes on from there",
            file=sys.stderr,
        )
    privacy = old.privacy and replace(
        old.privacy, **{k: given[k] for k in ("epsilon", "delta") if k in given}
    )
    return replace(
        without(old, options.without or []),
        session=options.session,
        rounds=given.get("rounds", old.rounds),
        pace_seconds=given.get("pace", old.pace_seconds),
        privacy=privacy,
        pricing=replace(
            old.pricing,
            start=tuple(result.prices.tolist()),
            # The rounds so far say what all members wanted together, the absent one included.
            earlier=() if options.without else rounds_to_carry(old, result.state.prices),
            **_certificate_terms(options, centered=old.pricing.step == "center"),
        ),
        transport=replace(
            old.transport,
            coordinator=given.get("address", old.transport.coordinator),
            coordinator_key=key,
            topology=given.get("topology", old.transport.topology),
            patience_seconds=given.get("patience", old.transport.patience_seconds),
        ),
    )


def _certificate_terms(options: argparse.Namespace, *, centered: bool) -> dict[str, Any]:
    """Return the given options of the certificate, which only the centre rule has."""
    given = {k: v for k, v in _given(options).items() if k in CERTIFICATE_TERMS}
    if given and not centered:
        raise BadCommand(
            f"--{next(iter(given)).replace('_', '-')} belongs to the certificate, which only "
            "sessions without noise have (mode exact, step center); leave it out"
        )
    return given


def _set_units(resources: list[dict[str, Any]], arguments: list[str]) -> None:
    """Add the units to the tables of the resources."""
    tables = {table["name"]: table for table in resources}
    for argument in arguments:
        name, _, unit = argument.partition("=")
        if not unit or name not in tables:
            raise BadCommand(
                f"--unit {argument!r}: it must be RESOURCE=UNIT; the resources are "
                + ", ".join(tables)
            )
        if tables[name].setdefault("unit", unit) != unit:
            raise BadCommand(
                f"--unit {argument!r}: {name} has the unit {tables[name]['unit']!r} already; give "
                "one unit for each resource"
            )


def _set_endowments(
    members: list[dict[str, Any]], resources: list[str], arguments: list[str]
) -> None:
    """Add the endowments to the tables of the members."""
    tables = {table["name"]: table for table in members}
    endowments: dict[str, dict[str, float]] = {}
    for argument in arguments:
        member, resource, fraction = _parse_endowment(argument, list(tables), resources)
        if resource in endowments.setdefault(member, {}):
            raise BadCommand(f"--endowment {argument!r} is given twice; give it once")
        endowments[member][resource] = fraction
    for member, fractions in endowments.items():
        for resource in resources:
            if "" not in fractions and resource not in fractions:
                raise BadCommand(
                    f"--endowment has no fraction of {resource!r} for {member!r}; add "
                    f"{member}:{resource}=FRACTION, or {member}=FRACTION for all other resources"
                )
        tables[member]["endowment"] = {r: fractions.get(r, fractions.get("")) for r in resources}


def _parse_endowment(
    argument: str, members: list[str], resources: list[str]
) -> tuple[str, str, float]:
    """Return member, resource (empty: all other resources) and fraction."""
    target, _, number = argument.partition("=")
    member, _, resource = target.partition(":")
    try:
        fraction = float(number)
    except ValueError:
        raise BadCommand(
            f"--endowment {argument!r}: it must be MEMBER=FRACTION or MEMBER:RESOURCE=FRACTION, "
            "with a fraction from 0 to 1"
        ) from None
    for kind, name, names in (
        ("member", member, members),
        ("resource", resource, ["", *resources]),
    ):
        if name not in names:
            raise BadCommand(
                f"--endowment {argument!r}: there is no {kind} {name!r}; there are "
                + ", ".join(filter(None, names))
            )
    return member, resource, fraction


def _resource_table(argument: str, *, noisy: bool) -> dict[str, Any]:
    """Return the table of one `--resource`."""
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
            f"--resource {argument!r} has no worth, which sets the price steps when there is "
            "noise; use NAME=CAPACITY:WORTH, with a public estimate of its total value"
        )
    table: dict[str, Any] = {"name": name, "capacity": values[0]}
    return table | ({"worth": values[1]} if worth else {})


def _member_table(argument: str) -> dict[str, Any]:
    """Return the table of one `--member`: its file, and floor and share if given."""
    path, limits = argument, ""
    if not Path(argument).exists() and ":" in argument:
        path, _, limits = argument.rpartition(":")
    floor, _, share = limits.rpartition("..")
    try:
        text = files.read_bounded(Path(path), files.KEY_BYTES).decode("utf-8-sig")
        [member] = tomllib.loads(text)["member"]
        member = dict(member) | ({"share": float(share)} if share else {})
        member |= {"floor": float(floor)} if floor else {}
    except (OSError, KeyError, ValueError, TypeError):
        raise BadAgreement(
            f"--member {argument!r}: it must be a file that `party keygen` wrote, optionally "
            "followed by :SHARE or :FLOOR..SHARE"
        ) from None
    if "name" not in member:
        raise BadAgreement(f"--member {argument!r}: the file has no name of a member")
    return member
