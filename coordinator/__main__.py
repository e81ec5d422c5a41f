"""The `coordinator` command: write an agreement, and serve a session."""

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from coordinator.draft import write_agreement
from coordinator.keys import own_secret
from protocol.agreement import schema
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand
from protocol.runtime.cli import add_command, command_line, run
from protocol.runtime.files import (
    read_agreement,
)


def main() -> None:
    parser, commands = command_line("coordinator", "Convene sessions and carry their messages.")
    new = add_command(
        commands,
        "new",
        write_agreement,
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
    add("--mode", choices=schema.MODES,
        help="private: noise that keeps epsilon and delta; clipped: the same with caps that adapt; "
        "exact: no noise and no guarantee, the answers to many prices may tell much of a "
        "company's data, and in return the prices are exact and certified (private)")  # fmt: skip
    add("--reveal", choices=schema.REVEALS,
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
        "than the slowest member's, which its `party check` says (0.25; exact: none, releases "
        "leave when they are ready)")  # fmt: skip
    add("--tolerance", type=float, metavar="PART",
        help="exact: stop once this part of all worth is certified (0.0001)")  # fmt: skip
    add("--reserve", type=float, metavar="PART",
        help="exact: part of each capacity that the rounds leave (1e-10)")  # fmt: skip
    add("--start", choices=("zero", "worth"), help="the first prices (zero)")
    add("--topology", choices=schema.TOPOLOGIES, help="(relay)")
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


def _serve(options: argparse.Namespace) -> None:
    from coordinator.journal import Journal
    from coordinator.relay import Coordinator

    agreement = read_agreement(options.agreement)
    secret = own_secret(options, agreement)
    archive = None
    if options.transcript is not None:
        if agreement.transport.topology == "mesh":
            raise BadCommand(
                "--transcript needs a relay: in a mesh nothing passes here, and every member has "
                "the transcript"
            )
        archive = Journal(agreement, options.transcript, frame=_frame, say=_say)
    with ExitStack() as stack:
        watching = None
        say: Callable[[str], None] = _say
        if options.page is not None:
            from coordinator.live_page import LivePage

            earlier = () if archive is None else archive.recalled()
            watching = stack.enter_context(LivePage(agreement, options.page, earlier=earlier))
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
    from protocol.wire.transcript import frame  # late: a relay need not know how to compute

    return frame(agreement, rounds, seals, keys)


def _health(options: argparse.Namespace) -> None:
    from coordinator.relay import health

    agreement = read_agreement(options.agreement)
    secret = own_secret(options, agreement)
    health(agreement, secret, listen=options.listen, seconds=options.seconds)
    print("the coordinator answers")


if __name__ == "__main__":
    main()
