"""The `party` command: keys, check and dry run, joining, its result, giving up, the budget."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.errors import BadCommand, QuotaTooSmall, Unavailable, Unsealed
from protocol.runtime.cli import add_command, command_line, run
from protocol.runtime.files import read_agreement

if TYPE_CHECKING:  # each command imports what it needs, so that it starts fast
    from xml.etree.ElementTree import Element

    from party.api import Company
    from party.ledger.budget import Limit
    from party.model.best_response import MipLimits
    from protocol.outcome.outcome import Outcome


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
    _effort_options(check)

    join = add_command(
        commands,
        "join",
        _join,
        "take part in a session, or go on with one",
        "Take part in a session: greet the others, answer the prices round by round with noisy\n"
        "demands, and end with the common prices and this company's quota. The same command goes\n"
        "on after any crash; what was released once is never computed again. With --out it writes\n"
        "report.html, plan.csv and result.json, which are private (docs/RESULT.md says what is\n"
        "in them), session.transcript and public.csv, which are public. Exit code 21 says that\n"
        "they are there, but not sealed by all; 30 that the quota is too small for any plan of\n"
        "the model, which is for you alone.",
    )
    join.set_defaults(beyond_output=True)
    join.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    join.add_argument("--data", type=Path, required=True, metavar="MODEL")
    join.add_argument("--key", type=Path, required=True, metavar="FILE", help="from `party keygen`")
    join.add_argument("--ledger", type=Path, metavar="FILE", help="(NAME.ledger beside the key)")
    join.add_argument("--out", type=Path, metavar="DIR",
        help="write report, plan, result and transcript here")  # fmt: skip
    _budget_options(join)
    _effort_options(join)
    join.add_argument("--listen", metavar="ADDRESS",
        help="mesh only: where to listen, tcp://HOST:PORT. Others are told the numeric address "
        "that HOST has here, unless the agreement has an address for you")  # fmt: skip
    join.add_argument("--seed", type=int, help="repeatable noise, for rehearsals only")
    join.add_argument("--page", type=int, nargs="?", const=0, metavar="PORT",
        help="show the session in a browser on this machine, at an address that is yours alone "
        "(any port that is free)")  # fmt: skip
    join.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="json: one event a line"
    )
    dry = add_command(
        commands,
        "rehearse",
        _rehearse,
        "play sessions with invented partners, to see what to expect",
        "Play many sessions in this process with your own model and partners that are invented\n"
        "from the agreement's public numbers, and say what to expect: gain, the risk of no plan,\n"
        "what noise does, how long an answer takes. Sends nothing, costs no budget.",
    )
    dry.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    dry.add_argument("--data", type=Path, required=True, metavar="MODEL")
    dry.add_argument("--as", dest="name", required=True, metavar="NAME", help="which member")
    dry.add_argument("--sessions", type=int, default=20, metavar="N", help="(%(default)s)")
    dry.add_argument("--seed", type=int, default=1, help="of the partners (%(default)s)")
    dry.add_argument("--worth", type=float, metavar="MONEY",
        help="what each whole capacity may fetch, if the agreement does not say")  # fmt: skip
    dry.add_argument("--json", action="store_true", help="print the figures as JSON")
    _effort_options(dry)
    again = add_command(
        commands,
        "result",
        _result,
        "write the files of a session again, from the ledger",
        "Write what `party join --out` writes for any session in the ledger, without network:\n"
        "report, plan, result and transcript where all rounds are closed (marked as not sealed,\n"
        "exit code 21, while seals are missing), and the evidence where somebody broke the\n"
        "protocol. The model must be the one that joined: the plan is computed anew.",
    )
    again.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    again.add_argument("--data", type=Path, required=True, metavar="MODEL")
    again.add_argument("--ledger", type=Path, required=True, metavar="FILE")
    again.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")
    _effort_options(again)
    abandon = add_command(
        commands,
        "abandon",
        _abandon,
        "give up a session for good",
        "End a session here that will never be finished: a round whose total is impossible (exit\n"
        "code 15), or a member that is gone for good. Needs no network. It is final: every later\n"
        "`party join` of this session ends with exit code 15, and the others cannot finish\n"
        "without this party. They are not told, so tell them. Overwrites the secret mask key and\n"
        "what the company asked for. What was released stays spent. A session that all members\n"
        "have sealed cannot be abandoned. If interrupted, run the same command again.\n\n"
        "  party abandon --agreement agreement.toml --key acme.key --out given-up\n\n"
        "With --out it writes session.transcript, which is public: the closed rounds, from whose\n"
        "prices `coordinator new --from` begins the next session.",
    )
    abandon.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    abandon.add_argument("--ledger", type=Path, metavar="FILE", help="(NAME.ledger beside the key)")
    abandon.add_argument("--key", type=Path, metavar="FILE", help="the key that joined")
    abandon.add_argument("--out", type=Path, metavar="DIR", help="write session.transcript here")
    abandon.add_argument("--yes", action="store_true", help="do not ask")
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
        "for a data set, which every later `party join` keeps. What can be said of all sessions\n"
        "together rests on a limit that was there before the first release: unless another is\n"
        "asked for, `party join` sets it to what the first session may spend. To raise it later\n"
        "is possible, and the last line says what that means.",
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
        help="never let this data set spend more, in this or any later session (what its first "
        "session may spend)")  # fmt: skip
    add("--max-delta", type=float, metavar="D", help="the delta of that limit (0.001)")


def _effort_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--gap", type=float, metavar="PART",
        help="whole numbers: how far a plan may be from the best (0.0001)")  # fmt: skip
    add("--solve-seconds", type=float, metavar="S",
        help="whole numbers: how long to look for one plan (10)")  # fmt: skip


def _effort(options: argparse.Namespace) -> "MipLimits":
    """How long to look for a plan in whole numbers."""
    from party.model.best_response import USUAL, MipLimits

    return MipLimits(
        gap=USUAL.gap if options.gap is None else options.gap,
        seconds=USUAL.seconds if options.solve_seconds is None else options.solve_seconds,
    )


def _limit(options: argparse.Namespace) -> "Limit | None":
    """The limit that the options set, or None."""
    from party.ledger.budget import DELTA, Limit

    if options.max_epsilon is None:
        if options.max_delta is not None:
            raise BadCommand("--max-delta needs --max-epsilon beside it")
        return None
    return Limit(options.max_epsilon, DELTA if options.max_delta is None else options.max_delta)


def _keygen(options: argparse.Namespace) -> None:
    import re

    from party import keys
    from protocol.agreement.fields import NAME, NAME_IN_WORDS

    if not re.fullmatch(NAME, options.name):
        raise BadCommand(f"no agreement takes {options.name!r}: it must be {NAME_IN_WORDS}")
    new = keys.generate(options.name)
    key, member = (options.dir / f"{options.name}{end}" for end in (".key", ".member.toml"))
    if member.exists():
        raise BadCommand(f"{str(member)!r} exists already and is not overwritten")
    keys.save(new, key)
    try:
        member.write_text(new.member_table(), encoding="utf-8")
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
        effort=_effort(options),
    ):
        print(line)


def _join(options: argparse.Namespace) -> None:
    from party.api import run_session
    from party.ui.console import JsonView, TextView

    agreement, effort = read_agreement(options.agreement), _effort(options)
    shown = JsonView(agreement) if options.log_format == "json" else TextView(agreement)
    page = None
    if options.page is not None:
        from party.keys import load
        from party.ui.live_page import PageView

        page = PageView(shown, agreement, load(options.key).name, port=options.page)
    view = page or shown
    planless = False

    def report(parts: "list[Element]") -> None:
        if page is not None:
            page.ended(parts, kind="private")

    def finish(known: "Outcome", company: "Company") -> None:
        from party.settlement.result_files import public_result, write_result
        from party.settlement.settle import own_part
        from protocol.report.public import public_parts

        nonlocal planless
        # Now, so that its demands need be kept no longer.
        own_part(known, company.member, company.ledger)
        if page is not None:
            page.ended(public_parts(known), kind="public")
        if options.out:
            planless = not write_result(
                known,
                company.member,
                company.data,
                ledger=company.ledger,
                folder=options.out,
                effort=effort,
                on_report=report,
            )
        view.finished(public_result(known, company.member), options.out)

    run_session(
        agreement,
        options.data,
        key=options.key,
        ledger=options.ledger,
        out=options.out,
        data_set=options.data_set,
        limit=_limit(options),
        effort=effort,
        listen=options.listen,
        seed=options.seed,
        view=view,
        on_outcome=finish,
    )
    if planless:  # said only now that the others have gone
        raise _too_small()


def _too_small() -> QuotaTooSmall:
    return QuotaTooSmall(
        "your quota is too small for any plan of your model; report.html says what is missing. "
        "The session is sealed all the same; this line and the exit code are for you alone"
    )


def _result(options: argparse.Namespace) -> None:
    from contextlib import closing

    from party.api import ensure_dir
    from party.ledger import accounts as lifetime
    from party.ledger.session_ledger import Ledger
    from party.model import company_model as dataset
    from party.settlement.result_files import keep_evidence, known_by, public_result, write_result
    from party.ui.console import TextView

    agreement = read_agreement(options.agreement)
    data = dataset.read(options.data, agreement)
    member, data_set = lifetime.played(options.ledger, agreement)
    ensure_dir(options.out)
    with closing(Ledger(options.ledger, agreement, member, data_set=data_set)) as ledger:
        known, fault, planless = known_by(ledger, agreement, member), ledger.fault, False
        if known.state.over:
            planless = not write_result(
                known, member, data, ledger=ledger, folder=options.out, effort=_effort(options)
            )
            TextView(agreement).finished(public_result(known, member), options.out)
        if fault is not None:
            if not keep_evidence(fault, options.out):
                raise BadCommand(f"the evidence cannot be written to {str(options.out)!r}")
            raise fault
        if ledger.abandoned is not None:
            raise ledger.abandoned
    if not known.state.over:
        raise Unavailable(
            f"the session {agreement.session!r} stands at round {known.rounds} of "
            f"{agreement.rounds}: there is no outcome yet, and `party join` goes on with it"
        )
    if not known.sealed:
        raise Unsealed(
            f"the seals of {', '.join(map(repr, known.unsealed))} are missing; `party join` gets "
            "them when these members are back, or anybody who has them"
        )
    if planless:
        raise _too_small()


def _abandon(options: argparse.Namespace) -> None:
    from party.abandon import abandon
    from party.api import ensure_dir

    agreement = read_agreement(options.agreement)
    ledger = options.ledger or (options.key and options.key.with_suffix(".ledger"))
    if ledger is None:
        raise BadCommand("--ledger is required unless --key is given")
    if options.out is not None:
        ensure_dir(options.out)

    def confirm(meaning: str) -> None:
        print(meaning)
        if options.yes:
            return
        if not sys.stdin.isatty():
            raise BadCommand("nothing was changed: give the same command with --yes to abandon it")
        print("Abandon it? [yes/no] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() != "yes":
            raise BadCommand("nothing was changed: the session was not abandoned")

    for line in abandon(agreement, ledger, out=options.out, confirm=confirm):
        print(line)


def _rehearse(options: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from party.model import company_model as dataset
    from party.rehearsal.rehearse import rehearse, show

    agreement, effort = read_agreement(options.agreement), _effort(options)
    agreement.place(options.name)
    if options.sessions < 1:
        raise BadCommand("--sessions must be at least 1")
    if options.worth is not None and not options.worth > 0.0:
        raise BadCommand("--worth must be above 0")
    data = dataset.read(options.data, agreement)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        kinds = 1 if agreement.privacy is None else 2
        task = progress.add_task("sessions", total=kinds * options.sessions)
        figures = rehearse(
            agreement,
            options.name,
            data,
            sessions=options.sessions,
            seed=options.seed,
            worth=options.worth,
            effort=effort,
            on_session=lambda: progress.advance(task),
        )
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures, agreement.currency)


def _budget(options: argparse.Namespace) -> None:
    from party.ledger import accounts as lifetime
    from party.ledger import budget
    from party.ui.budget_table import show_budget

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
