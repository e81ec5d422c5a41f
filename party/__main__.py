"""The `party` command: parses arguments and calls the module that does the work."""

import argparse
import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from party.backup_command import add_backup_commands
from party.claim_command import add_claim_commands
from party.options import (
    BUDGET,
    MODEL,
    add_shared,
    duration,
    ledger_path,
    limit,
    mip_limits,
    required_ledger,
    rows,
)
from party.sign_command import add_sign
from protocol.agreement.schema import WAIT_SECONDS
from protocol.errors import BadCommand
from protocol.runtime.cli import Commands, add_command, command_line, run
from protocol.runtime.files import read_agreement

if TYPE_CHECKING:  # each command imports what it needs, so that it starts fast
    from party.ui.console import View
    from protocol.agreement.model import Agreement


def main() -> None:
    parser, commands = command_line("party", "One company's side of a session.")
    for add in (_add_keygen, _add_check, _add_join, _add_rehearse, _add_result, _add_abandon,
                _add_budget, add_sign, add_claim_commands, add_backup_commands):  # fmt: skip
        add(commands)
    run(parser)


def _add_keygen(commands: Commands) -> None:
    parser = add_command(
        commands,
        "keygen",
        _keygen,
        "make this company's keys",
        "Make the keys of one company.\n\n"
        "  party keygen acme\n\n"
        "You get acme.key, which is secret and stays here, and acme.member.toml, which you send\n"
        "to the convener. acme.budget stays beside the key: it says which ledger counts.\n"
        "Existing files are never overwritten.",
        "0 written; 2 wrong name, or the member file exists; 5 the key file exists or cannot be "
        "written",
    )
    parser.add_argument("name", metavar="NAME", help="the company's name in the agreement")
    parser.add_argument("--dir", type=Path, default=Path(), help="where to write (here)")


def _add_check(commands: Commands) -> None:
    parser = add_command(
        commands,
        "check",
        _check,
        "find mistakes before you join",
        "Check agreement, model, key and budget before you join. Sends nothing.\n\n"
        "  party check --agreement agreement.toml --data model.mps --as acme --key acme.key\n\n"
        "You get one line for each thing that is in order: how the model was read, what you earn\n"
        "alone, the pace your solver needs, your budget after the session. The lines are private.",
        "0 nothing known to be wrong; 3 wrong agreement; 4 model cannot be used; 5 wrong key; 6 "
        "ledger refused; 7 budget exceeded",
    )
    parser.add_argument("--key", type=Path, metavar="FILE", help="check this key file as well")
    add_shared(parser, "--agreement", "--as", "--ledger", "--data-set", *MODEL)


def _add_join(commands: Commands) -> None:
    parser = add_command(
        commands,
        "join",
        _join,
        "take part in a session, or resume one",
        "Take part in a session: meet the other members, answer prices round by round, and end\n"
        "with common prices and your quota. After a crash, run the same command to resume; no\n"
        "release is ever computed twice.\n\n"
        "  party join --agreement agreement.toml --data model.mps --key acme.key --out result\n\n"
        'It prints the prices and your quota; with reveal = "totals" your quota is in report.html\n'
        "only. With --out you get report.html, plan.csv and result.json, which are private, and\n"
        "session.transcript and public.csv, which are public. docs/RESULT.md describes them.",
        "0 sealed by all members; 20 a member is missing: resume later; 21 the files are written, "
        "but seals are missing; 23 no trade: all keep what they bring; 30 your quota is too small "
        "for any plan of your model, which only you see; 130 interrupted: run the same command to "
        "resume",
    )
    parser.set_defaults(beyond_output=True)
    add = parser.add_argument
    add_shared(parser, "--agreement", "--key", "--ledger", *BUDGET, *MODEL)
    add("--out", type=Path, metavar="DIR", help="write report, plan, result and transcript here")
    add("--listen", metavar="ADDRESS",
        help="mesh only: where to listen, tcp://HOST:PORT. The others get the numeric address of "
        "HOST, unless the agreement has an address for you")  # fmt: skip
    add("--wait", type=duration, default=WAIT_SECONDS, metavar="TIME",
        help="how long to wait until all members are here and the first round closes: 10m, 2h, 1d "
        "or seconds (1d). While rounds run, the agreed patience counts")  # fmt: skip
    add("--seed", type=int, help="repeatable noise, for rehearsals only")
    add("--page", type=int, nargs="?", const=0, metavar="PORT",
        help="show the session in a browser on this machine, at a secret address (any free port). "
        "The address also serves metrics and healthz, for a monitor")  # fmt: skip
    add("--page-secret", type=Path, metavar="FILE",
        help="a file with the secret of that address, so that the address stays the same; made if "
        "it does not exist (a new secret at every start)")  # fmt: skip
    _add_follow(parser)
    add("--log-format", choices=("text", "json"), default="text",
        help="json: one event per line (text)")  # fmt: skip


def _add_follow(parser: argparse.ArgumentParser) -> None:
    """The options of a party that takes part in one session after another."""
    add = parser.add_argument
    add("--follow", type=Path, metavar="DIR",
        help="take part in this session, then in each next one that is announced in this folder "
        "and that your approval covers (`party sign --standing`). --out gets one folder per "
        "session. The model file is read again for each session")  # fmt: skip
    add("--approval", type=Path, metavar="FILE",
        help="with --follow: your approval (NAME.SESSION.approval.toml beside the "
        "key)")  # fmt: skip
    add("--once", action="store_true",
        help="with --follow: take part in one session, then end; exit code 20 if none is "
        "announced. For cron")  # fmt: skip


def _add_rehearse(commands: Commands) -> None:
    parser = add_command(
        commands,
        "rehearse",
        _rehearse,
        "run sessions with invented partners, to see what to expect",
        "Run many sessions in this process, with your model and partners that are invented from\n"
        "the agreement's public numbers. Sends nothing and spends no budget.\n\n"
        "  party rehearse --agreement agreement.toml --data model.mps --as acme\n\n"
        "You get a private table: your gain, the risk of no plan, the effect of noise, and the\n"
        "pace your solver needs.",
        "0 done; 2 wrong option; 3 wrong agreement; 4 model cannot be used",
    )
    add = parser.add_argument
    add_shared(parser, "--agreement", "--as", *MODEL, "--json")
    add("--sessions", type=int, default=20, metavar="N", help="how many (%(default)s)")
    add("--seed", type=int, default=1, help="seed of the partners (%(default)s)")
    add("--worth", type=float, metavar="MONEY",
        help="estimated value of each capacity, if the agreement has none")  # fmt: skip


def _add_result(commands: Commands) -> None:
    parser = add_command(
        commands,
        "result",
        _result,
        "write the files of a session again, from the ledger",
        "Write the files of `party join --out` again, for any session in the ledger. Needs no\n"
        "network. Give the model with which you joined: the plan is computed again.\n\n"
        "  party result --agreement agreement.toml --data model.mps --ledger acme.ledger "
        "--out again\n\n"
        "You get report, plan, result and transcript if all rounds are closed, and evidence.json\n"
        "if a member broke the protocol.",
        "0 sealed by all members; 10-15 the session ended with this code; 20 rounds are missing: "
        "resume with `party join`; 21 seals are missing, and the files say so; 30 your quota is "
        "too small",
    )
    add_shared(parser, "--agreement", *MODEL)
    parser.add_argument(
        "--ledger", type=Path, required=True, metavar="FILE", help="the ledger of the session"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")


def _add_abandon(commands: Commands) -> None:
    parser = add_command(
        commands,
        "abandon",
        _abandon,
        "give up a session for good",
        "Give up a session that can never finish: a round with an impossible total (exit code\n"
        "15), or a member that is gone for good. Needs no network. This is final: later\n"
        "`party join` of this session ends with exit code 15, and the others cannot finish\n"
        "without you. Tell them yourself.\n\n"
        "  party abandon --agreement agreement.toml --key acme.key --out given-up\n\n"
        "It overwrites the secret mask key and your demands. What was released stays spent. With\n"
        "--out you get session.transcript, which is public: the next session can start at its\n"
        "prices (`coordinator new --from`). If interrupted, run the same command again.",
        "0 abandoned; 2 not confirmed, or the session is sealed; 6 no such session",
    )
    add = parser.add_argument
    add_shared(parser, "--agreement", "--ledger")
    add("--key", type=Path, metavar="FILE", help="the key with which you joined")
    add("--out", type=Path, metavar="DIR", help="write session.transcript here")
    add("--yes", action="store_true", help="do not ask")


def _add_budget(commands: Commands) -> None:
    parser = add_command(
        commands,
        "budget",
        _budget,
        "show the privacy spent and left",
        "Show the privacy that the sessions in a ledger have spent, one by one and together.\n"
        "Together they cost less than the sum of their epsilons. Sends nothing.\n\n"
        "  party budget acme.ledger\n"
        "  party budget acme.ledger --max-epsilon 10 --max-delta 0.001\n\n"
        "The second line sets a lifetime limit, which every later `party join` keeps. Set it\n"
        "before you first join: otherwise the first session's budget is the limit. You can raise\n"
        "a limit later; the last line of the output then says what is still guaranteed.\n\n"
        "All sessions count for one data set, 'main', unless you used `party join --data-set`.",
        "0 shown; 2 wrong option; 6 no such ledger; 7 no limit is possible",
    )
    parser.add_argument("ledger", type=Path, metavar="LEDGER", help="your ledger file")
    parser.add_argument(
        "--delta", type=float, default=1e-3, help="show epsilon at this delta (%(default)s)"
    )
    add_shared(parser, *BUDGET, "--json")


def _keygen(options: argparse.Namespace) -> None:
    from party.keys import keygen

    key, member = keygen(options.name, options.dir)
    marker = key.with_suffix(".budget")
    print(f"{key}: secret; keep it on this machine")
    print(f"{marker}: keep it beside the key; it says which ledger counts")
    print(f"{member}: send this to the convener")


def _check(options: argparse.Namespace) -> None:
    from party.model_check import check
    from party.ui.long_step import long_step

    lines = check(
        read_agreement(options.agreement),
        options.name,
        model=options.data,
        key=options.key,
        ledger=ledger_path(options),
        data_set=options.data_set,
        mip_limits=mip_limits(options),
        rows=rows(options),
    )
    line: str | None = ""
    while line is not None:
        with long_step(lambda text: print(text, file=sys.stderr), "checking your model"):
            line = next(lines, None)
        if line is not None:
            print(line)


def _join(options: argparse.Namespace) -> None:
    gc.disable()  # modules make hardly any garbage, and there are many
    from party.run import PartyConfig, play

    gc.freeze()
    gc.enable()
    agreement = read_agreement(options.agreement)
    config = PartyConfig(
        agreement=agreement,
        model=options.data,
        key=options.key,
        ledger=options.ledger,
        out=options.out,
        data_set=options.data_set,
        limit=limit(options),
        mip_limits=mip_limits(options),
        rows=rows(options),
        listen=options.listen,
        wait=options.wait,
        seed=options.seed,
    )
    if options.follow is None:
        if options.once or options.approval is not None:
            raise BadCommand("--approval and --once are for --follow only; leave them out")
        child = None
        if agreement.pace_seconds is not None:
            from party.model.solver_process import early

            child = early()
        play(config, _view(options, agreement), child=child)
        return
    from party.follow import follow, series

    followed = series(config, options.follow, options.approval, _say)
    follow(config, followed, lambda next_one: _view(options, next_one), once=options.once)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _view(options: argparse.Namespace, agreement: "Agreement") -> "View":
    from party.ui.console import JsonView, TextView

    view = JsonView(agreement) if options.log_format == "json" else TextView(agreement)
    if options.page is None:
        if options.page_secret is not None:
            raise BadCommand("--page-secret needs --page too: add --page")
        return view
    from party.keys import load
    from party.ui.live_page import PageView

    name, secret = load(options.key).name, options.page_secret
    return PageView(view, agreement, name, port=options.page, secret_file=secret)


def _rehearse(options: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from party.model import company_model
    from party.rehearsal.rehearse import rehearse, show

    agreement = read_agreement(options.agreement)
    agreement.place(options.name)
    if options.sessions < 1:
        raise BadCommand("--sessions must be at least 1")
    if options.worth is not None and not options.worth > 0.0:
        raise BadCommand("--worth must be above 0")
    data = company_model.read(options.data, agreement, rows(options))
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
            limits=mip_limits(options),
            on_session=lambda: progress.advance(task),
        )
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures, agreement.currency)


def _result(options: argparse.Namespace) -> None:
    from party.run import write_again

    write_again(
        read_agreement(options.agreement),
        options.data,
        ledger=options.ledger,
        out=options.out,
        mip_limits=mip_limits(options),
        rows=rows(options),
    )


def _abandon(options: argparse.Namespace) -> None:
    from party.abandon import abandon

    agreement, ledger = read_agreement(options.agreement), required_ledger(options)

    def confirm(consequences: str) -> None:
        print(consequences)
        if options.yes:
            return
        if not sys.stdin.isatty():
            raise BadCommand("nothing was changed: run the same command with --yes to abandon it")
        print("Abandon it? [yes/no] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() != "yes":
            raise BadCommand("nothing was changed: only the answer yes abandons a session")

    for line in abandon(agreement, ledger, out=options.out, confirm=confirm):
        print(line)


def _budget(options: argparse.Namespace) -> None:
    from party.ledger import accounts
    from party.ledger.budget import DATA_SET
    from party.ui.budget_table import ledger_figures, show_budget

    asked = limit(options)
    if not 0.0 < options.delta < 1.0:
        raise BadCommand("--delta must be between 0 and 1")
    if asked is not None:
        accounts.set_limit(options.ledger, options.data_set or DATA_SET, asked)
    figures = ledger_figures(options.ledger, options.data_set, delta=options.delta)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for data_set in figures:
        show_budget(data_set)
    if not figures:
        print("this ledger has no session yet, and no limit is set")


if __name__ == "__main__":
    main()
