"""The `party` command: keys, a check before joining, and joining a session."""

import argparse
import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.agreement import Agreement
from protocol.command import add_command, command_line, read_agreement, run
from protocol.errors import BadCommand, PeerError
from protocol.transcript import Course, Position

if TYPE_CHECKING:  # each command imports what it needs, so that it starts fast
    from party.ledger import Ledger


def main() -> None:
    parser, commands = command_line("party", "One company's side of a session.")
    keygen = add_command(
        commands,
        "keygen",
        _keygen,
        "make this company's keys",
        "Write NAME.key, which is secret and stays here, and NAME.member.toml, which goes to the\n"
        "convener. Existing files are never overwritten.",
    )
    keygen.add_argument("name", metavar="NAME", help="the company's name in the agreement")
    keygen.add_argument("--dir", type=Path, default=Path(), help="where to write (here)")

    check = add_command(
        commands,
        "check",
        _check,
        "find what is wrong before joining",
        "Read the agreement and the model and find all that can be known to be wrong before\n"
        "joining. Sends nothing.",
    )
    check.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    check.add_argument("--data", type=Path, required=True, metavar="MODEL")
    check.add_argument("--as", dest="name", required=True, metavar="NAME", help="which member")
    check.add_argument("--key", type=Path, metavar="FILE", help="check this key file as well")

    join = add_command(
        commands,
        "join",
        _join,
        "take part in a session, or go on with one",
        "Take part in a session: greet the others, answer the prices round by round with noisy\n"
        "demands, and end with the common prices. The same command goes on after any crash;\n"
        "what was released once is never computed again.",
    )
    join.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    join.add_argument("--data", type=Path, required=True, metavar="MODEL")
    join.add_argument("--key", type=Path, required=True, metavar="FILE", help="from `party keygen`")
    join.add_argument("--ledger", type=Path, metavar="FILE", help="(NAME.ledger beside the key)")
    join.add_argument("--out", type=Path, metavar="DIR", help="write result and transcript here")
    join.add_argument("--listen", metavar="ADDRESS", help="mesh only: where to listen")
    join.add_argument("--seed", type=int, help="repeatable noise, for rehearsals only")
    join.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="json: one event a line"
    )
    run(parser)


def _keygen(options: argparse.Namespace) -> None:
    from party import identity

    new = identity.generate(options.name)
    key, member = (options.dir / f"{options.name}{end}" for end in (".key", ".member.toml"))
    if member.exists():
        raise BadCommand(f"{str(member)!r} exists already and is not overwritten")
    identity.save(new, key)
    member.write_text(new.member_table())
    print(f"{key}: secret, stays here\n{member}: send this to the convener")


def _check(options: argparse.Namespace) -> None:
    from party import dataset, identity
    from party.subproblem import subproblem
    from protocol.privacy import NoisePlan

    agreement = read_agreement(options.agreement)
    agreement.position(options.name)
    print(f"agreement  {agreement.session}: valid, {options.name!r} is a member")
    print(f"           digest {agreement.digest.hex()}")
    NoisePlan(agreement)
    data = dataset.read(options.data, agreement)
    print(
        f"model      {data.columns} columns, {data.private_rows} private rows, all "
        f"{data.resources} shared resources found"
    )
    subproblem(data, agreement, options.name)
    print("           feasible and bounded at every price")
    if options.key:
        identity.load(options.key).belongs_to(agreement)
        print("key        is the one in the agreement")
    print("nothing known to be wrong; `protocol plan` says what the noise will do")


def _join(options: argparse.Namespace) -> None:
    from party import dataset, identity
    from party.ledger import Ledger
    from party.node import Node
    from party.noise import DiscreteGaussian, SeededTwin
    from party.subproblem import subproblem
    from party.view import JsonView, TextView
    from protocol.transport import require_network

    agreement = read_agreement(options.agreement)
    who = identity.load(options.key)
    who.belongs_to(agreement)
    require_network(agreement)
    if agreement.rehearsal and options.seed is None:
        raise BadCommand(
            f"{agreement.session!r} is a rehearsal, which gives no privacy: join it with --seed "
            "and invented data, or ask for an agreement without rehearsal = true"
        )
    problem = subproblem(dataset.read(options.data, agreement), agreement, who.name)
    ledger = Ledger(options.ledger or options.key.with_suffix(".ledger"), agreement, who.name)
    if ledger.fault is not None:
        raise ledger.fault
    view = JsonView(agreement) if options.log_format == "json" else TextView(agreement)
    try:
        with view if isinstance(view, TextView) else nullcontext():
            Node(
                agreement,
                who,
                subproblem=problem,
                noise=DiscreteGaussian() if options.seed is None else SeededTwin(options.seed),
                ledger=ledger,
                view=view,
                on_finish=lambda position: _tell(agreement, position, options, ledger),
                listen=options.listen,
            ).run()
    except PeerError as error:
        _keep_evidence(error, options.out or Path())
        raise
    finally:
        ledger.close()


def _tell(
    agreement: Agreement, position: Position, options: argparse.Namespace, ledger: "Ledger"
) -> None:
    """The outcome, as soon as it is sealed."""
    course = Course(agreement)
    prices = course.final_prices(position).tolist()
    result = {
        "session": agreement.session,
        "agreement": agreement.digest.hex(),
        "rounds": position.round,
        "head": position.head.hex(),
        "resources": [r.name for r in agreement.resources],
        "prices": prices,
        "average_prices": course.average_prices(position).tolist(),
    }
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
        (options.out / "session.transcript").write_bytes(ledger.transcript_file())
    if options.log_format == "json":
        print(json.dumps({"event": "finished", "at": time.time(), **result}), flush=True)
        return
    print(f"finished: {position.round} rounds, all members at head {position.head.hex()}")
    for resource, price in zip(agreement.resources, prices, strict=True):
        print(f"  price of {resource.name}: {price:.6g} per {resource.unit or 'unit'}")
    if options.out:
        print(f"written to {options.out}: result.json, session.transcript")


def _keep_evidence(error: PeerError, folder: Path) -> None:
    if error.evidence:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "evidence.json"
        content = {
            "what": str(error),
            "accused": error.sender,
            "signed_messages": [data.hex() for data in error.evidence],
        }
        path.write_text(json.dumps(content, indent=2) + "\n")
        print(f"evidence written to {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
