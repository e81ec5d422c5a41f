"""The `coordinator` command: write an agreement, and serve a session."""

import argparse
import math
import sys
import tomllib
from pathlib import Path

from protocol import agreement as agreements
from protocol.command import (
    add_command,
    command_line,
    read_agreement,
    read_private,
    run,
    write_private,
)
from protocol.errors import BadAgreement, BadKey

_TEMPLATE = """\
# Agreement of the session {session!r}. Every member needs this very file.
session = "{session}"
mode = "{mode}"            # hidden: no noise; private: noise; clipped: noise with adaptive caps
rounds = {rounds}             # each member releases exactly this many times
{privacy}
[prices]
start = "{start}"           # zero, worth, or a table with a price for each resource
# step = "{step}"        # constant, sqrt (both with step_size), theorem or dog
momentum = 0.0
nonnegative = true

[transport]
topology = "{topology}"       # relay: through the coordinator; mesh: directly
coordinator = "{address}"
coordinator_key = '{key}'
patience_seconds = {patience:g}   # after so much silence a member stops and can go on later
"""

_PRIVACY = """
[privacy]                # of each member, for all its releases of this session together
epsilon = {epsilon:g}
delta = {delta:g}
accountant = "exact"     # or paper, which adds more noise for the same guarantee
noise = "component"      # or norm, balanced
"""


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
        "      --address tcp://relay.example.org:5555 --key coordinator.key --out agreement.toml",
    )
    add = new.add_argument
    add("--session", required=True, metavar="NAME", help="a new name for every session")
    add(
        "--resource",
        action="append",
        required=True,
        metavar="NAME=CAPACITY[:WORTH]",
        help="a shared capacity, and a public guess of what all of it would fetch",
    )
    add("--member", action="append", required=True, type=Path, metavar="FILE[:SHARE]",
        help="a member's file from `party keygen`, and the largest part it may claim")  # fmt: skip
    add("--mode", choices=agreements.MODES, default="private")
    add("--rounds", type=int, default=150)
    add("--epsilon", type=float, default=1.0)
    add("--delta", type=float, default=1e-3)
    add("--start", choices=("zero", "worth"), default="zero")
    add("--topology", choices=agreements.TOPOLOGIES, default="relay")
    add("--patience", type=float, default=120.0, metavar="SECONDS")
    add("--address", required=True, metavar="tcp://HOST:PORT", help="where members reach you")
    add("--key", type=Path, required=True, metavar="FILE", help="the coordinator's secret key")
    add("--rehearsal", action="store_true", help="repeatable noise and no privacy")
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
    if not options.key.exists():
        write_private(options.key, zmq.curve_keypair()[1].decode() + "\n")
        print(f"{options.key}: secret, stays here")
    noisy = options.mode != "hidden"
    text = _TEMPLATE.format(
        session=options.session,
        mode=options.mode,
        rounds=options.rounds,
        privacy=_PRIVACY.format(epsilon=options.epsilon, delta=options.delta) if noisy else "",
        start=options.start,
        step="theorem" if noisy else "dog",
        topology=options.topology,
        address=options.address,
        key=zmq.curve_public(_secret(options.key)).decode(),
        patience=options.patience,
    )
    if options.rehearsal:
        text = text.replace("\n", "\nrehearsal = true         # seeded noise: NO privacy\n", 1)
    text += "".join(_resource_table(argument) for argument in options.resource)
    text += "".join(_member_table(str(argument)) for argument in options.member)
    agreement = agreements.parse(text)
    options.out.write_text(text)
    print(f"{options.out}: send it to all members; its digest is {agreement.digest.hex()}")


def _resource_table(argument: str) -> str:
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
    text = f'\n[[resource]]\nname = "{name}"\ncapacity = {values[0]!r}\n'
    return text + (f"worth = {values[1]!r}\n" if worth else "")


def _member_table(argument: str) -> str:
    path, share = argument, ""
    if not Path(argument).exists() and ":" in argument:
        path, _, share = argument.rpartition(":")
    try:
        text = Path(path).read_text()
        [member] = tomllib.loads(text)["member"]
        extra = f"share = {float(share)!r}\n" if share else ""
    except (OSError, KeyError, ValueError):
        raise BadAgreement(
            f"--member {argument!r}: it must be a file that `party keygen` wrote, and where "
            "wanted a colon and a share"
        ) from None
    if "name" not in member:
        raise BadAgreement(f"--member {argument!r}: the file names no member")
    return "\n" + text.rstrip() + "\n" + extra


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
