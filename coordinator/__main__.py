"""The command line of `coordinator`: options and help texts, nothing else."""

import argparse
from pathlib import Path

from protocol.agreement import schema
from protocol.runtime.cli import Commands, add_command, command_line, run

NEW = """\
Write an agreement from the members' files and a few options. It is a commented text file, so
that all members can read it before they join. If the key file does not exist, a key is made.

  coordinator new --session trucks-42 --mode exact --currency EUR \\
      --resource hours=120:9000 --unit hours=h \\
      --member acme.member.toml --member bolt.member.toml \\
      --member cargo.member.toml --member dart.member.toml:0.6 \\
      --address tcp://relay.example.org:5555 --key coordinator.key

With --from the new session goes on from an earlier one, with its members and all its terms. It
starts at the final prices. Without noise it also takes the rounds along, so that it need not
begin anew.

  coordinator new --session trucks-43 --from session.transcript \\
      --agreement agreement.toml --key coordinator.key --out next.toml

What some members bring and others take has a joint capacity of 0 and a span (docs/exchange.md):

  coordinator new --session power --mode exact --resource power=0 --span power=20 \\
      --member acme.member.toml:-1..1 --member bolt.member.toml:-1..1 \\
      --member coil.member.toml:0..1 --address tcp://relay.example.org:5555 --key coordinator.key

Next: send the agreement to all members, and run `coordinator serve`."""

NEXT = """\
Write the agreement of the next session of a series, such as next week's: the members, keys and
terms of the last one, its final prices, and other capacities.

  coordinator next --agreement trucks-42.toml --from result/session.transcript \\
      --capacity hours=130 --approvals approvals

It writes trucks-43.toml. Members that signed a standing agreement take part when they find the
file in the folder that they follow (`party join --follow`). Without --from the session starts at
the prices that the agreement states.

Next: send the file to all members, and run `coordinator serve`."""

SERVE = """\
Relay the messages of a session, or introduce the members of a mesh to each other.

  coordinator serve --agreement agreement.toml --key coordinator.key

It logs who is here, which round is closed and who is missing. It ends when all members have
sealed the session. You can stop and restart it at any time: the members wait and continue."""

HEALTH = """\
Ask a coordinator on this machine whether it works, for example in a container's health check.

  coordinator health --agreement agreement.toml --key coordinator.key"""


def main() -> None:
    parser, commands = command_line("coordinator", "Convene sessions and pass on their messages.")
    _add_new(commands)
    _add_next(commands)
    _add_serve(commands)
    _add_health(commands)
    run(parser)


def _add_new(commands: Commands) -> None:
    new = add_command(commands, "new", _new, "write an agreement", NEW,
        "0 done; 2 wrong options; 3 terms that contradict each other; 5 wrong key file; "
        "9 the transcript of --from does not verify")  # fmt: skip
    add = new.add_argument
    add("--session", required=True, metavar="NAME", help="a new name for every session")
    _add_earlier(new)
    add("--resource", action="append", metavar="NAME=CAPACITY[:WORTH]",
        help="a shared capacity, and a public estimate of its total value")  # fmt: skip
    add("--unit", action="append", metavar="RESOURCE=UNIT", help="unit of a resource, such as h")
    add("--currency", metavar="WORD", help="currency of worths, prices and payments, such as EUR")
    add("--member", action="append", type=Path, metavar="FILE[:[FLOOR..]SHARE]",
        help="a member's file from `party keygen`. SHARE: the largest fraction of each capacity "
        "that it may claim. FLOOR: the least that it is given (0); below 0, the most that it "
        "brings")  # fmt: skip
    add("--endowment", action="append", metavar="equal|shares|MEMBER[:RESOURCE]=FRACTION",
        help="what a member has without the others, as a fraction of every capacity or of "
        "RESOURCE. A member pays for more than that, and is paid for less. equal: equal parts for "
        "all; shares: in proportion to shares; *=FRACTION: this fraction for all "
        "(equal)")  # fmt: skip
    _add_exchange(new)
    add("--mode", choices=schema.MODES,
        help="private: noise that keeps epsilon and delta; clipped: noise with caps that adapt; "
        "exact: prices are exact and certified, but there is no noise and no guarantee, and "
        "answers to many prices may reveal much about a company (private)")  # fmt: skip
    add("--reveal", choices=schema.REVEALS,
        help="each: every release can be read; totals: masks hide each release, and only the sum "
        "can be read. Totals need three members. Without noise the sum can still reveal one "
        "company's answers (totals where possible)")  # fmt: skip
    _add_totals(new)
    add("--rounds", type=int, help="number of rounds, at most (150; with exact, 4 more for each "
        "resource; private and totals: 60)")  # fmt: skip
    add("--epsilon", type=float, help="privacy budget (1)")
    add("--delta", type=float, help="privacy budget (0.001)")
    add("--pace", type=float, metavar="SECONDS",
        help="every release is sent this many seconds after its round opens; choose more than the "
        "slowest member needs, which its `party check` prints (0.25; exact: none, releases are "
        "sent when they are ready)")  # fmt: skip
    _add_certificate(new)
    add("--start", choices=("zero", "worth"),
        help="prices of the first round. worth: each capacity costs its estimated worth, which "
        "saves rounds if the estimates are good; zero: everything is free, and all ask for as much "
        "as they can use. Exact sessions always begin as the worths suggest (zero; private and "
        "totals: worth)")  # fmt: skip
    add("--topology", choices=schema.TOPOLOGIES,
        help="relay: messages go through the coordinator; mesh: directly between members (relay)",
    )  # fmt: skip
    add("--patience", type=float, metavar="SECONDS",
        help="how long a party waits for a silent member before it stops (120)")  # fmt: skip
    add("--address", metavar="tcp://HOST:PORT", help="where members reach the coordinator")
    add("--key", type=Path, required=True, metavar="FILE", help="the coordinator's secret key")
    add("--rehearsal", action="store_true", default=None,
        help="for practice: repeatable noise and no privacy")  # fmt: skip
    add("--out", type=Path, default=Path("agreement.toml"), metavar="FILE",
        help="where to write the agreement (%(default)s)")  # fmt: skip


def _add_exchange(new: argparse.ArgumentParser) -> None:
    """The options of resources that some members bring and others take; see docs/exchange.md."""
    add = new.add_argument
    add("--span", action="append", metavar="RESOURCE=AMOUNT",
        help="the most that one member may take or bring. Shares, floors and endowments are then "
        "fractions of it, and the capacity may be 0 or below (the capacity)")  # fmt: skip
    add("--band", action="append", metavar="MEMBER:RESOURCE=FLOOR..SHARE",
        help="floor and share of one member in one resource; * stands for any part of a name, as "
        "in '*:power-*=-1..1'")  # fmt: skip
    add("--opposite", action="append", metavar="RESOURCE",
        help="all of it must be used, or what is brought must equal what is taken: adds "
        "RESOURCE-least, which bounds it from below (exact only)")  # fmt: skip


def _add_totals(parser: argparse.ArgumentParser) -> None:
    """The options of sessions with noise in which only totals can be read."""
    add = parser.add_argument
    add("--colluders", type=int, metavar="T",
        help="with private and totals: members that may share all they know (1)")  # fmt: skip
    add("--overrun", type=float, metavar="RISK",
        help="with private and totals: accepted risk that all quotas together exceed a capacity "
        "(0.05)")  # fmt: skip
    add("--spare", type=float, metavar="FRACTION",
        help="with private and totals: fraction of each capacity that is available in addition "
        "when needed; less is then withheld for noise (0)")  # fmt: skip


def _add_earlier(new: argparse.ArgumentParser) -> None:
    add = new.add_argument
    add("--from", dest="earlier", type=Path, metavar="TRANSCRIPT",
        help="transcript of the earlier session")  # fmt: skip
    add("--agreement", type=Path, metavar="FILE", help="with --from: the earlier agreement")
    add("--without", action="append", metavar="NAME",
        help="with --from: leave out this member, and what it brought")  # fmt: skip


def _add_certificate(new: argparse.ArgumentParser) -> None:
    """The terms that only exact sessions have."""
    add = new.add_argument
    add("--tolerance", type=float, metavar="FRACTION",
        help="exact: stop when the loss is certified to be below this fraction of the total worth "
        "(0.0001)")  # fmt: skip
    add("--reserve", type=float, metavar="FRACTION",
        help="exact: fraction of each capacity that the rounds leave unused (1e-10)")  # fmt: skip
    add("--trade-limit", type=float, metavar="FRACTION",
        help="exact: with a certificate above this fraction of the total worth every member keeps "
        "what it brings, and no member pays (0.01)")  # fmt: skip
    add("--answer-gap", type=float, metavar="FRACTION",
        help="exact: how far an answer may be from a member's best plan, as a fraction of the "
        "total worth; for models with integers (0.0001)")  # fmt: skip


def _add_next(commands: Commands) -> None:
    parser = add_command(commands, "next", _next, "write the agreement of the next session", NEXT,
        "0 done; 2 wrong options; 3 wrong agreement; "
        "9 the transcript does not verify")  # fmt: skip
    add = parser.add_argument
    add("--agreement", type=Path, required=True, metavar="FILE",
        help="the agreement of the last session")  # fmt: skip
    add("--from", dest="earlier", type=Path, metavar="TRANSCRIPT",
        help="transcript of the last session, to start at its prices")  # fmt: skip
    add("--capacity", action="append", metavar="RESOURCE=CAPACITY",
        help="the capacity of a resource (that of the last session); its worth changes with "
        "it")  # fmt: skip
    add("--capacities", type=Path, metavar="FILE",
        help="a CSV file with the columns resource and capacity")  # fmt: skip
    add("--session", metavar="NAME", help="the name (the last one with the next number)")
    _add_approvals(parser, "show who approved it beforehand:")
    add("--out", type=Path, metavar="FILE",
        help="where to write (NAME.toml beside the last agreement)")  # fmt: skip


def _add_approvals(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--approvals", type=Path, metavar="DIR",
        help=f"{what} a folder with the files of `party sign`, and the standing agreement if they "
        "name one")  # fmt: skip


def _add_serve(commands: Commands) -> None:
    parser = add_command(commands, "serve", _serve, "pass on the messages of a session", SERVE,
        "0 done; 2 it cannot listen or write; 3 wrong agreement; 5 wrong key file; 26 approvals "
        "are missing; 31 too few open files; 130 interrupted")  # fmt: skip
    _add_files(parser)
    _add_approvals(parser, "start only if every member has approved the agreement:")
    parser.add_argument("--listen", metavar="ADDRESS",
        help="address to listen at (all interfaces, the agreed port)")  # fmt: skip
    parser.add_argument("--keep-running", action="store_true",
        help="continue when the session is over")  # fmt: skip
    parser.add_argument("--transcript", type=Path, metavar="FILE",
        help="keep the public transcript of a relayed session")  # fmt: skip
    parser.add_argument("--page", type=int, nargs="?", const=0, metavar="PORT",
        help="show the session in a browser on this machine, in public numbers (any free port); "
        "with /metrics and /healthz for a monitor")  # fmt: skip


def _add_health(commands: Commands) -> None:
    parser = add_command(commands, "health", _health, "check that a coordinator works", HEALTH,
        "0 it works; 20 no coordinator with this key answers")  # fmt: skip
    _add_files(parser)
    parser.add_argument("--listen", metavar="ADDRESS", help="as given to `coordinator serve`")
    parser.add_argument("--seconds", type=float, default=5.0,
        help="how long to wait for an answer (%(default)s)")  # fmt: skip


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agreement", type=Path, required=True, metavar="FILE",
        help="the agreement of the session")  # fmt: skip
    parser.add_argument("--key", type=Path, required=True, metavar="FILE",
        help="the coordinator's secret key")  # fmt: skip


# Each command imports what it needs, so that it starts fast.


def _new(options: argparse.Namespace) -> None:
    from coordinator.draft import write_agreement

    write_agreement(options)


def _next(options: argparse.Namespace) -> None:
    from coordinator.next_session import write_next

    write_next(options)


def _serve(options: argparse.Namespace) -> None:
    from coordinator.serve import serve

    serve(options)


def _health(options: argparse.Namespace) -> None:
    from coordinator.health import check_health

    check_health(options)


if __name__ == "__main__":
    main()
