"""The `coordinator` command: write an agreement, and serve a session."""

import argparse
import math
import sys
import tomllib
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from protocol import agreement as agreements
from protocol.agreement import Agreement
from protocol.command import (
    KEY_BYTES,
    add_command,
    command_line,
    read_agreement,
    read_bounded,
    read_private,
    read_transcript,
    run,
    write_private,
)
from protocol.errors import BadAgreement, BadCommand, BadKey
from protocol.toml import LEAST_MASKED, from_table, parse, written

_DEFAULTS: dict[str, Any] = {
    "mode": "private",
    "rounds": 150,
    "epsilon": 1.0,
    "delta": 1e-3,
    "start": "zero",
    "topology": "relay",
    "patience": 120.0,
    "rehearsal": False,
}
"""What a new agreement says where neither an option nor an earlier session says otherwise."""


def main() -> None:
    parser, commands = command_line("coordinator", "Convene sessions and carry their messages.")
    new = add_command(
        commands,
        "new",
        _new,
        "write a commented agreement",
        "Write an agreement from the members' files and a few flags, for people to read and\n"
        "change. The coordinator's key is made on the way if it is not there yet.\n\n"
        "  coordinator new --session trucks --resource hours=120:9000 --unit hours=h \\\n"
        "      --currency EUR --member acme.member.toml --member bolt.member.toml \\\n"
        "      --address tcp://relay.example.org:5555 --key coordinator.key\n\n"
        "With --from the next session begins where an earlier one ended, which is public: with\n"
        "the prices of its outcome, its roster and all its terms.\n\n"
        "  coordinator new --session trucks-43 --from session.transcript \\\n"
        "      --agreement agreement.toml --key coordinator.key --out next.toml",
    )
    add = new.add_argument
    add("--session", required=True, metavar="NAME", help="a new name for every session")
    add("--from", dest="earlier", type=Path, metavar="TRANSCRIPT", help="of the session before")
    add("--agreement", type=Path, metavar="FILE", help="with --from: what that session agreed on")
    add(
        "--resource",
        action="append",
        metavar="NAME=CAPACITY[:WORTH]",
        help="a shared capacity, and a public guess of what all of it would fetch",
    )
    add("--unit", action="append", metavar="RESOURCE=UNIT", help="what it is counted in")
    add("--currency", metavar="WORD", help="what worths, prices and payments are in, like EUR")
    add("--member", action="append", type=Path, metavar="FILE[:[FLOOR..]SHARE]",
        help="a member's file from `party keygen`, the largest part of each capacity it may claim, "
        "and before it the least it is given (0); below 0: what it may bring")  # fmt: skip
    add("--endowment", action="append", metavar="MEMBER[:RESOURCE]=PART",
        help="the part of every capacity, or of this one, that it would have without the others: "
        "for all members or for none (in proportion to shares)")  # fmt: skip
    add("--mode", choices=agreements.MODES,
        help="private: noise that keeps epsilon and delta; clipped: the same with caps that adapt; "
        "hidden: no noise and no guarantee, the answers to many prices may tell much of a "
        "company's data, and in return the prices are exact and certified (private)")  # fmt: skip
    add("--reveal", choices=agreements.REVEALS,
        help="totals: releases are masked so that only their sum can be read, from three members "
        "on, and without noise the sum can still tell one company's answers; each: every release "
        "can be read (totals where it can be)")  # fmt: skip
    add("--colluders", type=int, metavar="T",
        help="private and totals: members that may tell each other all they know (1)")  # fmt: skip
    add("--overrun", type=float, metavar="RISK",
        help="private and totals: that all quotas together exceed a capacity (0.05)")  # fmt: skip
    add("--rounds", type=int, help="(150)")
    add("--epsilon", type=float, help="(1)")
    add("--delta", type=float, help="(0.001)")
    add("--pace", type=float, metavar="SECONDS",
        help="so long after its round opened a release leaves, whatever the solver took: longer "
        "than the slowest member's, which its `party check` says (0.25; hidden: none, releases "
        "leave when they are ready)")  # fmt: skip
    add("--tolerance", type=float, metavar="PART",
        help="hidden: stop once this part of all worth is certified (0.0001)")  # fmt: skip
    add("--reserve", type=float, metavar="PART",
        help="hidden: part of each capacity that the rounds leave (1e-10)")  # fmt: skip
    add("--start", choices=("zero", "worth"), help="the first prices (zero)")
    add("--topology", choices=agreements.TOPOLOGIES, help="(relay)")
    add("--patience", type=float, metavar="SECONDS", help="(120)")
    add("--address", metavar="tcp://HOST:PORT", help="where members reach you")
    add("--key", type=Path, required=True, metavar="FILE", help="the coordinator's secret key")
    add("--rehearsal", action="store_true", default=None, help="repeatable noise and no privacy")
    add("--out", type=Path, default=Path("agreement.toml"), metavar="FILE")

    serve = add_command(
        commands,
        "serve",
        _serve,
        "carry the messages of a session",
        "Relay the messages of a session, or introduce the members of a mesh to each other.\n"
        "Can be stopped and started at any time: the members go on by themselves. Says how the\n"
        "session stands, and ends when all members have sealed it.",
    )
    serve.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    serve.add_argument("--key", type=Path, required=True, metavar="FILE")
    serve.add_argument("--listen", metavar="ADDRESS", help="(all interfaces, the agreed port)")
    serve.add_argument("--stay", action="store_true", help="go on when the session is over")
    serve.add_argument("--transcript", type=Path, metavar="FILE",
        help="keep the public transcript of a relayed session")  # fmt: skip
    serve.add_argument("--page", type=int, nargs="?", const=0, metavar="PORT",
        help="show the session in a browser on this machine, in public numbers "
        "(any port that is free)")  # fmt: skip

    health = add_command(
        commands,
        "health",
        _health,
        "ask a coordinator on this machine whether it is well",
        "End with 0 if a coordinator with this key answers on this machine, and with 20 if none\n"
        "does: for containers and other watchmen.",
    )
    health.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    health.add_argument("--key", type=Path, required=True, metavar="FILE")
    health.add_argument("--listen", metavar="ADDRESS", help="as told to `coordinator serve`")
    health.add_argument("--seconds", type=float, default=5.0, help="to wait (%(default)s)")
    run(parser)


def _new(options: argparse.Namespace) -> None:
    import zmq

    from protocol.course import Course

    if options.out.exists():
        raise BadAgreement(f"{str(options.out)!r} exists already and is not overwritten")
    if not options.out.parent.is_dir():
        raise BadCommand(f"--out {str(options.out)!r}: there is no such folder")
    known = options.key.exists()
    secret = _secret(options.key) if known else zmq.curve_keypair()[1]
    key = zmq.curve_public(secret).decode()
    draft = _first(options, key) if options.earlier is None else _next(options, key)
    text = written(draft)
    agreement = parse(text)
    Course(agreement)  # what no party can compute with is refused here, and not by each of them
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
    if options.mode == "hidden" and (options.epsilon, options.delta) != (None, None):
        raise BadCommand("mode hidden has no noise, so that --epsilon and --delta mean nothing")
    terms = _DEFAULTS | {k: v for k, v in vars(options).items() if v is not None}
    hidden = terms["mode"] == "hidden"
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
    from protocol.outcome import outcome
    from protocol.transcript import load

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
    if not known.position.over:
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
            "have (mode hidden, step center); leave it out"
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


def _secret(path: Path) -> bytes:
    def parsed(text: str) -> bytes:
        if len(text.strip()) != 40 or not text.isascii():
            raise BadKey(f"{str(path)!r} is not a key file of `coordinator new`")
        return text.strip().encode()

    return read_private(path, parsed)


def _own_secret(options: argparse.Namespace, agreement: Agreement) -> bytes:
    import zmq

    secret = _secret(options.key)
    if zmq.curve_public(secret).decode() != agreement.transport.coordinator_key:
        raise BadKey(f"{str(options.key)!r} is not the coordinator key of this agreement")
    return secret


def _serve(options: argparse.Namespace) -> None:
    from coordinator.archive import Archive
    from coordinator.node import Coordinator

    agreement = read_agreement(options.agreement)
    secret = _own_secret(options, agreement)
    archive = None
    if options.transcript is not None:
        if agreement.transport.topology == "mesh":
            raise BadCommand(
                "--transcript needs a relay: in a mesh nothing passes here, and every member has "
                "the transcript"
            )
        archive = Archive(agreement, options.transcript, frame=_frame, say=_say)
    with ExitStack() as stack:
        watching = None
        say: Callable[[str], None] = _say
        if options.page is not None:
            from coordinator.watching import Watching

            earlier = () if archive is None else archive.recalled()
            watching = stack.enter_context(Watching(agreement, options.page, earlier=earlier))
            say = watching.also(_say)
            _say(f"the session can be watched at {watching.address}")
        Coordinator(
            agreement,
            secret,
            listen=options.listen,
            say=say,
            stay=options.stay,
            archive=archive,
            watching=watching,
        ).serve()


def _say(text: str) -> None:
    with suppress(OSError, ValueError):  # a session is carried on whether or not anybody listens
        print(text, file=sys.stderr, flush=True)


def _frame(
    agreement: Agreement, rounds: list[list[bytes]], seals: list[bytes], keys: list[bytes]
) -> bytes:
    from protocol.transcript import frame  # late: a relay need not know how to compute

    return frame(agreement, rounds, seals, keys)


def _health(options: argparse.Namespace) -> None:
    from coordinator.node import health

    agreement = read_agreement(options.agreement)
    secret = _own_secret(options, agreement)
    health(agreement, secret, listen=options.listen, seconds=options.seconds)
    print("the coordinator answers")


if __name__ == "__main__":
    main()
