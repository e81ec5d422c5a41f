"""The `party` command: keys, a check before joining, joining a session, and its budget."""

import argparse
import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocol.agreement import Agreement
from protocol.command import add_command, command_line, read_agreement, replace_private, run
from protocol.errors import BadCommand, PeerError
from protocol.transcript import Position

if TYPE_CHECKING:  # each command imports what it needs, so that it starts fast
    from party.budget import Limit
    from party.dataset import DataSet
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
        "in them), and session.transcript, which is public.",
    )
    join.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    join.add_argument("--data", type=Path, required=True, metavar="MODEL")
    join.add_argument("--key", type=Path, required=True, metavar="FILE", help="from `party keygen`")
    join.add_argument("--ledger", type=Path, metavar="FILE", help="(NAME.ledger beside the key)")
    join.add_argument("--out", type=Path, metavar="DIR",
        help="write report, plan, result and transcript here")  # fmt: skip
    _budget_options(join)
    join.add_argument("--listen", metavar="ADDRESS", help="mesh only: where to listen")
    join.add_argument("--seed", type=int, help="repeatable noise, for rehearsals only")
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
    from party.settle import takes_nothing
    from party.subproblem import subproblem
    from protocol.privacy import Calibration

    agreement = read_agreement(options.agreement)
    agreement.place(options.name)
    print(f"agreement  {agreement.session}: valid, {options.name!r} is a member")
    print(f"           digest {agreement.digest.hex()}")
    Calibration(agreement)
    data = dataset.read(options.data, agreement)
    print(
        f"model      {data.columns} columns, {data.private_rows} private rows, all "
        f"{data.resources} shared resources found"
    )
    problem = subproblem(data, agreement, options.name)
    print("           feasible and bounded at every price")
    if takes_nothing(problem, data):
        print("           takes NOTHING even for free: has the file lost its maximise?")
    if options.key:
        identity.load(options.key).belongs_to(agreement)
        print("key        is the one in the agreement")
    path = options.ledger or (options.key and options.key.with_suffix(".ledger"))
    if path and path.exists():
        _check_budget(path, agreement, options.data_set)
    print("nothing known to be wrong; `protocol plan` says what the noise will do")


def _check_budget(path: Path, agreement: Agreement, data_set: str | None) -> None:
    """Say what the data set has spent, and refuse what `party join` would refuse."""
    from party import budget, lifetime

    accounts, limits = lifetime.accounts(path)
    this = next((a for a in accounts if a.agreement == agreement.digest), None)
    if this is None:
        this = budget.opened(agreement, data_set)
        accounts = (*accounts, this)
    limit = limits.get(this.data_set)
    delta = limit.delta if limit else this.delta or budget.DELTA
    so_far = budget.in_words(budget.spent(accounts, this.data_set), delta)
    print(f"budget     data set {this.data_set!r} has spent {so_far}")
    budget.require_room(accounts, agreement.digest, this.data_set, limit)
    after = budget.spent([a for a in accounts if a is not this], this.data_set) + this.agreed
    print(f"           and with all of this session {budget.in_words(after, delta)}")


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
    ledger = Ledger(path, agreement, who.name, data_set=options.data_set)
    try:
        if limit is not None:
            ledger.set_limit(limit)
        require_room(ledger.accounts(), agreement.digest, ledger.data_set, ledger.limit())
        if ledger.fault is not None:
            raise ledger.fault
    except BaseException:
        ledger.close()
        raise
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
                on_finish=lambda position: _tell(
                    agreement, position, options, ledger, who.name, data
                ),
                listen=options.listen,
            ).run()
    except PeerError as error:
        _keep_evidence(error, options.out or Path())
        raise
    finally:
        ledger.close()


def _tell(
    agreement: Agreement,
    position: Position,
    options: argparse.Namespace,
    ledger: "Ledger",
    member: str,
    data: "DataSet",
) -> None:
    """The outcome, as soon as it is sealed. Un-noised numbers go into files only."""
    from party.report import public_result

    public = public_result(agreement, position, member)
    if options.out:
        _write_result(agreement, position, options.out, ledger, member, data)
    if options.log_format == "json":
        print(json.dumps({"event": "finished", "at": time.time(), **public}), flush=True)
        return
    print(f"finished: {position.round} rounds, all members at head {position.head.hex()}")
    for resource, price, amount in zip(
        agreement.resources, public["prices"], public["quota"][member], strict=True
    ):
        unit = resource.unit or "units"
        print(f"  {resource.name}: you may use {amount:.6g} {unit}; price {price:.6g} each")
    if options.out:
        print(f"written to {options.out}: report.html, plan.csv, result.json (all three PRIVATE), ")
        print("and session.transcript, which anybody may see")
    else:
        print("give the same command with --out DIR for your plan and a report")


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadCommand(f"--out {str(folder)!r} cannot be made: {error.strerror}") from None


def _write_result(
    agreement: Agreement,
    position: Position,
    folder: Path,
    ledger: "Ledger",
    member: str,
    data: "DataSet",
) -> None:
    from party import budget, report
    from party.settle import settle

    settlement = settle(data, agreement, member, position)
    accounts = ledger.accounts()
    this = next(a for a in accounts if a.agreement == agreement.digest)
    delta = this.delta or budget.DELTA
    lifetime = budget.spent(accounts, ledger.data_set)
    privacy = {
        name: {"epsilon": budget.finite(cost.epsilon(delta)), "delta": delta}
        for name, cost in (("session", this.spent), ("lifetime", lifetime))
    }
    page = report.private_page(
        agreement,
        ledger.transcript(),
        member,
        data,
        settlement,
        this_session=f"In this session your data spent {budget.in_words(this.spent, delta)}.",
        lifetime=f"In all sessions together the data set {ledger.data_set!r} has spent "
        f"{budget.in_words(lifetime, delta)}.",
    )
    content = report.result(agreement, position, member, settlement, privacy=privacy)
    try:
        replace_private(folder / "report.html", page)
        replace_private(folder / "plan.csv", report.plan_csv(data, settlement))
        replace_private(folder / "result.json", json.dumps(content, indent=2) + "\n")
        (folder / "session.transcript").write_bytes(ledger.transcript_file())
    except OSError as error:
        raise BadCommand(
            f"the result cannot be written to {str(folder)!r}: {error.strerror}; the session is "
            "safe in the ledger, and the same command with another --out writes it there"
        ) from None


def _budget(options: argparse.Namespace) -> None:
    from party import budget, lifetime

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
        _show_budget(data_set)


def _show_budget(figures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    delta, name = figures["delta"], escape(figures["data_set"])
    table = Table(title=f"data set {name}: what its sessions have spent", title_justify="left")
    for column in ("session", "agreed", "releases", f"spent: ε at δ = {delta:g}"):
        table.add_column(column, justify="left" if column == "session" else "right")
    for row in figures["sessions"]:
        agreed = f"ε = {row['epsilon']:g}, δ = {row['delta']:g}" if row["epsilon"] else "no privacy"
        released = f"{row['releases']} of {row['rounds']}"
        table.add_row(row["session"], agreed, released, _epsilon(row["spent_epsilon"]))
    table.add_section()
    table.add_row("all together", "", "", _epsilon(figures["spent_epsilon"]))
    console = Console()
    console.print(table)
    limit = figures["limit"]
    if limit is None:
        console.print("no limit is set: say --max-epsilon E to set one\n", highlight=False)
    else:
        console.print(
            f"limit ε = {limit['epsilon']:g} at δ = {limit['delta']:g}; room for one more session "
            f"of ε = {limit['room_epsilon']:.4g} at that δ\n",
            highlight=False,
        )


def _epsilon(value: float | None) -> str:
    return "no guarantee" if value is None else f"{value:.4g}"


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
