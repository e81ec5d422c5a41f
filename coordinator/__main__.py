"""The `coordinator` command: write an agreement, and serve a session."""

import argparse
import math
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from protocol import agreement as agreements
from protocol.agreement import Agreement
from protocol.command import (
    add_command,
    command_line,
    read_agreement,
    read_private,
    read_transcript,
    run,
    write_private,
)
from protocol.errors import BadAgreement, BadCommand, BadKey
from protocol.toml import from_table, parse, written

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
        "  coordinator new --session trucks --resource hours=120:9000 \\\n"
        "      --member acme.member.toml --member bolt.member.toml \\\n"
        "      --address tcp://relay.example.org:5555 --key coordinator.key\n\n"
        "With --from the next session begins where an earlier one ended, which is public: with\n"
        "its final prices, its roster and all its terms.\n\n"
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
    add("--member", action="append", type=Path, metavar="FILE[:SHARE]",
        help="a member's file from `party keygen`, and the largest part it may claim")  # fmt: skip
    add("--mode", choices=agreements.MODES, help="(private)")
    add("--rounds", type=int, help="(150)")
    add("--epsilon", type=float, help="(1)")
    add("--delta", type=float, help="(0.001)")
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
        "Can be stopped and started at any time: the members go on by themselves.",
    )
    serve.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    serve.add_argument("--key", type=Path, required=True, metavar="FILE")
    serve.add_argument("--listen", metavar="ADDRESS", help="(all interfaces, the agreed port)")
    run(parser)


def _new(options: argparse.Namespace) -> None:
    import zmq

    if options.out.exists():
        raise BadAgreement(f"{str(options.out)!r} exists already and is not overwritten")
    known = options.key.exists()
    secret = _secret(options.key) if known else zmq.curve_keypair()[1]
    key = zmq.curve_public(secret).decode()
    draft = _first(options, key) if options.earlier is None else _next(options, key)
    text = written(draft)
    agreement = parse(text)
    if not known:
        write_private(options.key, secret.decode() + "\n")
        print(f"{options.key}: secret, stays here")
    options.out.write_text(text)
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
    return from_table(
        {
            "session": options.session,
            "mode": terms["mode"],
            "rounds": terms["rounds"],
            "rehearsal": terms["rehearsal"],
            "privacy": {} if hidden else {k: terms[k] for k in ("epsilon", "delta")},
            "prices": {"start": terms["start"]},
            "transport": {
                "topology": terms["topology"],
                "coordinator": options.address,
                "coordinator_key": key,
                "patience_seconds": terms["patience"],
            },
            "resource": [_resource_table(argument) for argument in options.resource],
            "member": [_member_table(str(argument)) for argument in options.member],
        }
    )


def _next(options: argparse.Namespace, key: str) -> Agreement:
    """The agreement of an earlier session, starting from the prices that it ended with."""
    from protocol.transcript import load, replay

    for name in ("resource", "member", "mode", "start", "rehearsal"):
        if getattr(options, name):
            raise BadCommand(
                f"--{name} is what the earlier session says; leave it out, and change the file "
                "that is written where the next session is to differ"
            )
    if options.agreement is None:
        raise BadCommand("--from needs --agreement beside it: what that session agreed on")
    old = read_agreement(options.agreement)
    position = replay(old, load(old, read_transcript(options.earlier)))
    if position.round < old.rounds:
        print(
            f"{options.earlier} stops after {position.round} of {old.rounds} rounds: the prices "
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
        privacy=privacy,
        pricing=replace(old.pricing, start=tuple(position.final_prices.tolist())),
        transport=replace(
            old.transport,
            coordinator=given.get("address", old.transport.coordinator),
            coordinator_key=key,
            topology=given.get("topology", old.transport.topology),
            patience_seconds=given.get("patience", old.transport.patience_seconds),
        ),
    )


def _resource_table(argument: str) -> dict[str, Any]:
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
    table: dict[str, Any] = {"name": name, "capacity": values[0]}
    return table | ({"worth": values[1]} if worth else {})


def _member_table(argument: str) -> dict[str, Any]:
    path, share = argument, ""
    if not Path(argument).exists() and ":" in argument:
        path, _, share = argument.rpartition(":")
    try:
        [member] = tomllib.loads(Path(path).read_text())["member"]
        member = dict(member) | ({"share": float(share)} if share else {})
    except (OSError, KeyError, ValueError, TypeError):
        raise BadAgreement(
            f"--member {argument!r}: it must be a file that `party keygen` wrote, and where "
            "wanted a colon and a share"
        ) from None
    if "name" not in member:
        raise BadAgreement(f"--member {argument!r}: the file names no member")
    return member


def _secret(path: Path) -> bytes:
    text = read_private(path).strip()
    if len(text) != 40 or not text.isascii():
        raise BadKey(f"{str(path)!r} is not a key file of `coordinator new`")
    return text.encode()


def _serve(options: argparse.Namespace) -> None:
    import zmq

    from coordinator.node import Coordinator

    agreement = read_agreement(options.agreement)
    secret = _secret(options.key)
    if zmq.curve_public(secret).decode() != agreement.transport.coordinator_key:
        raise BadKey(f"{str(options.key)!r} is not the coordinator key of this agreement")
    Coordinator(
        agreement,
        secret,
        listen=options.listen,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    ).serve()


if __name__ == "__main__":
    main()
