"""The `party` command: keys, a check before joining, joining a session, and its budget."""

import argparse
import json
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.command import add_command, command_line, read_agreement, run
from protocol.errors import BadCommand, PeerError, QuotaTooSmall

if TYPE_CHECKING:  # each command imports what it needs, so that it starts fast
    from xml.etree.ElementTree import Element

    from party.budget import Limit
    from protocol.outcome import Outcome


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
    check.add_argument("--ledger", type=Path, metavar="FILE", help="(NAME.ledger beside the key)")
    check.add_argument("--data-set", metavar="NAME", help="whose budget, as for `party join`")

    join = add_command(
        commands,
        "join",
        _join,
        "take part in a session, or go on with one",
        "Take part in a session: greet the others, answer the prices round by round with noisy\n"
        "demands, and end with the common prices and this company's quota. The same command goes\n"
        "on after any crash; what was released once is never computed again. With --out it writes\n"
        "report.html, plan.csv and result.json, which are private (party/RESULT.md says what is\n"
        "in them), session.transcript and public.csv, which are public. Exit code 30 says that\n"
        "the quota is too small for any plan of the model: that is for you alone.",
    )
    join.set_defaults(beyond_output=True)
    join.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    join.add_argument("--data", type=Path, required=True, metavar="MODEL")
    join.add_argument("--key", type=Path, required=True, metavar="FILE", help="from `party keygen`")
    join.add_argument("--ledger", type=Path, metavar="FILE", help="(NAME.ledger beside the key)")
    join.add_argument("--out", type=Path, metavar="DIR",
        help="write report, plan, result and transcript here")  # fmt: skip
    _budget_options(join)
    join.add_argument("--listen", metavar="ADDRESS", help="mesh only: where to listen")
    join.add_argument("--seed", type=int, help="repeatable noise, for rehearsals only")
    join.add_argument("--page", type=int, nargs="?", const=0, metavar="PORT",
        help="show the session in a browser on this machine, at an address that is yours alone "
        "(any port that is free)")  # fmt: skip
    join.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="json: one event a line"
    )
    budget = add_command(
        commands,
        "budget",
        _budget,
        "what privacy the data have spent, and what is left",
        "Show what the sessions in a ledger have spent, session by session and together: as they\n"
        "compose, which is less than the sum of their epsilons. Sends nothing.\n\n"
        "  party budget acme.ledger\n"
        "  party budget acme.ledger --max-epsilon 10 --max-delta 0.001\n\n"
        "All sessions count for one data set, 'main', however the model file changes, unless\n"
        "`party join --data-set NAME` said that it was another one. The second line sets a limit\n"
        "for a data set, which every later `party join` keeps.",
    )
    budget.add_argument("ledger", type=Path, metavar="LEDGER")
    budget.add_argument(
        "--delta", type=float, default=1e-3, help="show epsilon at this delta (%(default)s)"
    )
    _budget_options(budget)
    budget.add_argument("--json", action="store_true", help="print the figures as JSON")
    run(parser)


def _budget_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data-set", metavar="NAME", help="whose budget: one for all data ('main') unless told")
    add("--max-epsilon", type=float, metavar="E",
        help="never let this data set spend more, in this or any later session")  # fmt: skip
    add("--max-delta", type=float, metavar="D", help="the delta of that limit (0.001)")


def _limit(options: argparse.Namespace) -> "Limit | None":
    """The limit that the options set, or None."""
    from party.budget import DELTA, Limit

    if options.max_epsilon is None:
        if options.max_delta is not None:
            raise BadCommand("--max-delta needs --max-epsilon beside it")
        return None
    return Limit(options.max_epsilon, DELTA if options.max_delta is None else options.max_delta)


def _keygen(options: argparse.Namespace) -> None:
    import re

    from party import identity
    from protocol.fields import NAME, NAME_IN_WORDS

    if not re.fullmatch(NAME, options.name):
        raise BadCommand(f"no agreement takes {options.name!r}: it must be {NAME_IN_WORDS}")
    new = identity.generate(options.name)
    key, member = (options.dir / f"{options.name}{end}" for end in (".key", ".member.toml"))
    if member.exists():
        raise BadCommand(f"{str(member)!r} exists already and is not overwritten")
    identity.save(new, key)
    try:
        member.write_text(new.member_table())
    except OSError as error:
        raise BadCommand(f"{str(member)!r} cannot be written: {error.strerror}") from None
    print(f"{key}: secret, stays here\n{member}: send this to the convener")


def _check(options: argparse.Namespace) -> None:
    from party.check import check

    ledger = options.ledger or (options.key and options.key.with_suffix(".ledger"))
    agreement = read_agreement(options.agreement)
    for line in check(
        agreement,
        options.name,
        model=options.data,
        key=options.key,
        ledger=ledger,
        data_set=options.data_set,
    ):
        print(line)


def _join(options: argparse.Namespace) -> None:
    from party import dataset, identity
    from party.budget import require_room
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
    limit = _limit(options)
    if options.out:
        _made(options.out)
    data = dataset.read(options.data, agreement)
    problem = subproblem(data, agreement, who.name)
    path = options.ledger or options.key.with_suffix(".ledger")
    with closing(Ledger(path, agreement, who.name, data_set=options.data_set)) as ledger:
        if limit is not None:
            ledger.set_limit(limit)
        require_room(ledger.accounts(), agreement.digest, ledger.data_set, ledger.limit())
        if ledger.fault is not None:
            raise ledger.fault
        planless = False
        shown = JsonView(agreement) if options.log_format == "json" else TextView(agreement)
        page = None
        if options.page is not None:
            from party.watching import PageView

            page = PageView(shown, agreement, who.name, port=options.page)
        view = page or shown

        def finish(known: "Outcome") -> None:
            from party.result import public_result, write_result
            from party.settle import own_part
            from protocol.pages.public import public_parts

            nonlocal planless
            own_part(known, who.name, ledger)  # now, so that its demands need be kept no longer
            if page is not None:
                page.ended(public_parts(known), kind="public")
            if options.out:
                planless = not write_result(
                    known, who.name, data, ledger=ledger, folder=options.out, on_report=report
                )
            view.finished(public_result(known, who.name), options.out)

        def report(parts: "list[Element]") -> None:
            if page is not None:
                page.ended(parts, kind="private")

        try:
            with page or (shown if isinstance(shown, TextView) else nullcontext()):
                Node(
                    agreement,
                    who,
                    subproblem=problem,
                    noise=DiscreteGaussian() if options.seed is None else SeededTwin(options.seed),
                    ledger=ledger,
                    view=view,
                    on_finish=finish,
                    listen=options.listen,
                ).run()
        except PeerError as error:
            from party.result import keep_evidence

            keep_evidence(error, options.out or Path())
            raise
    if planless:  # said only now that the others have gone
        raise QuotaTooSmall(
            "your quota is too small for any plan of your model; report.html says what is missing. "
            "The session is sealed all the same; this line and the exit code are for you alone"
        )


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadCommand(f"--out {str(folder)!r} cannot be made: {error.strerror}") from None


def _budget(options: argparse.Namespace) -> None:
    from party import budget, lifetime
    from party.view import show_budget

    limit = _limit(options)
    if not 0.0 < options.delta < 1.0:
        raise BadCommand("--delta must be between 0 and 1")
    if limit is not None:
        lifetime.set_limit(options.ledger, options.data_set or budget.DATA_SET, limit)
    accounts, limits = lifetime.accounts(options.ledger)
    names = dict.fromkeys([*(a.data_set for a in accounts), *limits])
    shown = [name for name in names if options.data_set in (None, name)]
    if options.data_set and not shown:
        raise BadCommand(
            f"there is no data set {options.data_set!r} in {str(options.ledger)!r}; it has "
            + (", ".join(map(repr, names)) or "none yet")
        )
    figures = [
        budget.figures(accounts, name, limits.get(name), delta=options.delta) for name in shown
    ]
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for data_set in figures:
        show_budget(data_set)


if __name__ == "__main__":
    main()
