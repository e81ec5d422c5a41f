"""Writes an agreement for `coordinator new`, from its options or from an earlier session.

It checks the agreement as a party would, before a member receives it. Never here: private data.
"""

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from coordinator import bands
from coordinator.departure import without
from coordinator.keys import read_secret
from coordinator.members import member_table, set_endowments
from protocol.agreement import schema
from protocol.agreement.model import CERTIFICATE_TERMS, Agreement
from protocol.agreement.parse import from_table, parse
from protocol.agreement.render import endowments_in_words, written
from protocol.agreement.schema import LEAST_MASKED
from protocol.errors import BadAgreement, BadCommand
from protocol.runtime import files

if TYPE_CHECKING:  # only a next session needs it
    from protocol.outcome.outcome import Outcome

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

    files.require_new(options.out)
    has_key = options.key.exists()
    secret = read_secret(options.key) if has_key else zmq.curve_keypair()[1]
    key = zmq.curve_public(secret).decode()
    draft = _from_options(options, key) if options.earlier is None else _from_earlier(options, key)
    text, agreement = checked(draft)
    if not has_key:
        files.write_private(options.key, secret.decode() + "\n")
        print(f"{options.key}: secret; keep it on this machine")
    files.write_new(options.out, text)
    print(f"{options.out}: send it to all members; its digest is {agreement.digest.hex()}")
    _explain(agreement)


def _explain(agreement: Agreement) -> None:
    """Print what the terms mean that conveners most often get wrong."""
    from protocol.planning.synthetic_market import expected
    from protocol.planning.verdict import verdict
    from protocol.privacy.ball import ball
    from protocol.report.format import plain
    from protocol.report.plan_trials import gain_in_money

    print(f"Endowments: {endowments_in_words(agreement)}")
    print(verdict(agreement))
    if agreement.ball and ball(agreement).trades:
        print(plain(gain_in_money(agreement, expected(agreement))))
    print("`protocol plan` says more, and what invented companies gain.")


def checked(draft: Agreement) -> tuple[str, Agreement]:
    """The text of an agreement's file, and the agreement that it says, checked as a party would."""
    from protocol.rounds import RoundEngine

    text = written(draft)
    agreement = parse(text)
    RoundEngine(agreement)  # raises `BadAgreement` unless a party can compute with these terms
    return text, agreement


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The options that the command line gives."""
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
    _require_different([resource["name"] for resource in resources])
    members = [member_table(str(argument)) for argument in options.member]
    _set_units(resources, options.unit or [])
    if options.spare is not None:
        for resource in resources:
            resource["spare"] = options.spare
    bands.set_spans_and_bands(resources, members, options)
    set_endowments(members, resources, options.endowment or [])
    bands.add_opposites(resources, members, options)
    rounds = schema.DRAFT_ROUNDS + exact * schema.DRAFT_ROUNDS_PER_RESOURCE * len(resources)
    if ball:
        rounds = schema.DRAFT_BALL_ROUNDS
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
    from protocol.agreement.differences import differences, in_words
    from protocol.outcome.continuation import next_prices

    given = _given(options)
    fixed = ("resource", "unit", "currency", "member", "endowment", "mode", "start", "rehearsal")
    for name in (*fixed, *bands.OPTIONS, "reveal", "colluders", "overrun", "spare"):
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
    result = earlier_outcome(options.earlier, old)
    privacy = old.privacy and replace(
        old.privacy, **{k: given[k] for k in ("epsilon", "delta") if k in given}
    )
    stays = without(old, options.without or [])
    if options.without:
        print(*in_words(differences(old, stays)), sep="\n")
    return replace(
        stays,
        session=options.session,
        rounds=given.get("rounds", old.rounds),
        pace_seconds=given.get("pace", old.pace_seconds),
        privacy=privacy,
        pricing=replace(
            # The rounds so far say what all members wanted together, the absent one included.
            next_prices(result, carries=not options.without),
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


def earlier_outcome(path: Path, agreement: Agreement) -> "Outcome":
    """The outcome of an earlier session, verified, which may have stopped before its end."""
    from protocol.outcome.outcome import outcome
    from protocol.wire.transcript import load

    result = outcome(agreement, load(agreement, files.read_transcript(path, agreement)))
    if not result.state.over:
        print(
            f"{path} stops after {result.rounds} of {agreement.rounds} rounds; the next session "
            "goes on from there",
            file=sys.stderr,
        )
    return result


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
        pattern, _, unit = argument.partition("=")
        if not unit:
            raise BadCommand(f"--unit {argument!r}: it must be RESOURCE=UNIT")
        for name in bands.matching(f"--unit {argument!r}", "resource", pattern, list(tables)):
            if tables[name].setdefault("unit", unit) != unit:
                raise BadCommand(
                    f"--unit {argument!r}: {name} has the unit {tables[name]['unit']!r} already; "
                    "give one unit for each resource"
                )


def _require_different(names: list[str]) -> None:
    """Refuse a resource that is given twice, before other options are matched with its name."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadCommand(
            f"--resource {twice[0]}=... is given {names.count(twice[0])} times; give it once"
        )


def _resource_table(argument: str, *, noisy: bool) -> dict[str, Any]:
    """Return the table of one `--resource`."""
    name, _, numbers = argument.partition("=")
    capacity, _, worth = numbers.partition(":")
    try:
        values = [float(v) for v in (capacity, worth) if v]
        if not all(map(math.isfinite, values)) or not values:
            raise ValueError
    except ValueError:
        if "," in numbers:
            raise BadAgreement(
                f"--resource {argument!r}: write decimals with a point, thousands without a "
                "separator, and one --resource for each resource"
            ) from None
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
