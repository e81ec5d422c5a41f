"""Whole sessions over real processes on loopback: one coordinator and K parties.

Makes a folder with keys, agreement and private models. Starts every process with the command that
an operator would give. Compares the result with the optimum that only an owner of all data could
find.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from protocol.agreement.model import Agreement
from protocol.agreement.schema import TOPOLOGIES
from protocol.errors import BadCommand, SottoError
from protocol.outcome.outcome import outcome
from protocol.outcome.private_quota import Allocation
from protocol.runtime.cli import run
from protocol.wire.transcript import load
from scripts.lab.common.agreements import drawn, session_options
from scripts.lab.common.instances import Instance, central
from scripts.lab.common.local_session import ROOT, LocalSession
from scripts.lab.common.workspace import prepare
from scripts.lab.demo import scenario
from scripts.lab.simulate import show, summary

PACE = 0.02
"""Seconds. All parties run on one machine, with small models."""


def measure(
    session: LocalSession, agreement: Agreement, instance: Instance, wall: float
) -> dict[str, Any]:
    """The figures of a finished session, from what the parties wrote."""
    first = session.folder / session.names[0] / "out" / "session.transcript"
    result = outcome(agreement, load(agreement, first.read_bytes()))
    times = [e["at"] for e in session.events[session.names[0]] if e["event"] == "round"]
    pace = (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else None
    parts: list[Allocation | None] = [None] * len(session.names)
    if agreement.masked:
        private = [session.result(name)["private"] for name in session.names]
        parts = [Allocation(np.array(p["quota_ticks"]), p["payment"]) for p in private]
    return {
        **summary(result, instance, central(instance), parts),
        "heads": {name: session.result(name)["head"] for name in session.names},
        "topology": agreement.transport.topology,
        "wall_seconds": wall,
        "rounds_per_second": pace,
    }


def demo(
    folder: Path, options: argparse.Namespace, on_round: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Prepare, run and measure one session."""
    instance = drawn(options)
    agreement = prepare(folder, instance, options)
    with LocalSession(folder, options) as session:
        session.start()
        session.wait(options.limit, on_round)
        wall = time.monotonic() - session.began
    return measure(session, agreement, instance, wall)


def command_line() -> argparse.ArgumentParser:
    """The command, with all its options."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Run whole sessions over real processes on loopback: one coordinator and all "
        "parties, each with its own keys, model, noise and ledger. Without options: eight "
        "invented companies, once without noise and once with it. With --page you can watch in a "
        "browser. With --paper, or any option that describes a session: one session of companies "
        "drawn as in the paper. With --seed noise is seeded too: the same figures as "
        "scripts/simulate, and no privacy.",
    )
    session_options(parser)
    parser.set_defaults(mode=None)
    parser.add_argument(
        "--paper", action="store_true", help="one session of companies drawn as in the paper"
    )
    add = parser.add_argument
    add("--topology", choices=TOPOLOGIES, default="relay", help="relay or mesh (%(default)s)")
    add("--dir", type=Path, help="keep everything in this new folder (default: a temporary one)")
    add("--patience", type=float, default=60.0, metavar="SECONDS",
        help="how long a party waits for a silent member (%(default)s)")  # fmt: skip
    add("--page", type=int, nargs="?", const=0, metavar="PORT",
        help="watch the session in a browser on this machine (any port that is free)")  # fmt: skip
    add(
        "--limit",
        type=float,
        default=3600.0,
        metavar="SECONDS",
        help="stop after this time (%(default)s)",
    )
    parser.set_defaults(run=_demonstrate)
    return parser


LEFT = ROOT / "demo"
"""Where the demonstration keeps one report; git ignores it."""

NEUTRAL = {"run", "topology", "dir", "patience", "page", "limit", "json"}
"""Options that do not describe the session itself."""


def runs_scenario(parser: argparse.ArgumentParser, options: argparse.Namespace) -> bool:
    """Whether no option describes a session, so that the demonstration runs."""
    given = {key for key, value in vars(options).items() if value != parser.get_default(key)}
    return not given - NEUTRAL


def demo_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse options. A seed makes the session a rehearsal, which can be repeated."""
    return _seeded(command_line().parse_args(arguments))


def _seeded(options: argparse.Namespace) -> argparse.Namespace:
    options.mode = options.mode or "private"
    options.rehearsal = options.seed is not None
    options.seed = options.seed if options.rehearsal else 1
    if options.pace is None and options.mode != "exact" and not options.rehearsal:
        options.pace = PACE
    return options


def _demonstrate(options: argparse.Namespace) -> None:
    scenario_wanted = runs_scenario(command_line(), options)
    _seeded(options)
    console = Console()
    with ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="sotto-"))
        folder = options.dir or Path(temporary)
        if options.dir and options.dir.exists():
            raise BadCommand(f"{options.dir} already exists; name a new folder")
        watched = options.page is not None  # progress bars would only be in the way
        with Progress(console=console, transient=True, disable=watched) as progress:
            try:
                figures = (
                    _both(folder, options, progress)
                    if scenario_wanted
                    else _one(folder, options, progress)
                )
            except (RuntimeError, TimeoutError) as error:
                raise SottoError(str(error)) from None
        if scenario_wanted:
            scenario.show(console, figures)
            console.print(where(figures, keep=not options.dir), soft_wrap=True)
        else:
            _show_one(console, options, figures)
    if options.dir:
        console.print(f"Everything is in {options.dir}", soft_wrap=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def where(figures: dict[str, Any], *, keep: bool) -> str:
    """Tell where one company's report is. With `keep`, copy it out of the temporary folder."""
    session = figures["sessions"]["totals"]
    if keep:
        try:
            LEFT.mkdir(exist_ok=True)
            session["report"] = str(shutil.copy(session["report"], LEFT / "report.html"))
        except OSError as error:
            return f"no report kept in {LEFT}: {error.strerror}. Use --dir NEW to keep everything"
    return f"One company's report, to open in a browser: {session['report']}"


def _both(folder: Path, options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    tasks = {m: progress.add_task(m.title, total=m.rounds) for m in scenario.SETUPS}
    return scenario.play(folder, options, lambda m, done: progress.update(tasks[m], completed=done))


def _one(folder: Path, options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    task = progress.add_task(f"{options.parties} parties", total=options.rounds)
    return demo(folder, options, lambda done: progress.update(task, completed=done))


def _show_one(console: Console, options: argparse.Namespace, figures: dict[str, Any]) -> None:
    show(console, figures)
    table = Table("party", "final chain hash", title=f"{options.topology}: what each party got")
    for name, chain_hash in figures["heads"].items():
        table.add_row(name, chain_hash[:32] + "…")
    console.print(table)
    pace = figures["rounds_per_second"]
    console.print(
        f"{figures['wall_seconds']:.1f} s from launch to the last result"
        + (f", {pace:.0f} rounds per second" if pace else "")
    )


def main() -> None:
    run(command_line())


if __name__ == "__main__":
    main()
