"""`scripts/study`: the paper's study, reproduced and extended: its command line and its steps.

`grid` defines the sessions, `replicate` runs them, `workers` distributes them and `units` stores
what is finished. Nothing here may change a number.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from protocol.errors import BadCommand
from protocol.runtime.cli import run
from scripts.lab.study import tables
from scripts.lab.study.grid import EXPERIMENTS
from scripts.lab.study.page import results
from scripts.lab.study.replicate import play
from scripts.lab.study.units import Clock, Work, cost, units, write
from scripts.lab.study.workers import cluster, local, versions

ROOT = Path(__file__).parents[3]
QUICK = 6
"""Replications of a quick study."""


def names() -> list[str]:
    return [e.name for e in EXPERIMENTS]


@contextmanager
def progress(console: Console, total: float, done: float) -> Iterator[Any]:
    """Shows progress and the time left; prints lines where there is no terminal."""
    begin, advanced, printed = time.monotonic(), 0.0, -1

    def left() -> str:
        if not advanced:
            return ""
        seconds = (time.monotonic() - begin) * (total - done - advanced) / advanced
        return f"about {seconds / 60.0:.0f} min left" if seconds > 90.0 else f"{seconds:.0f} s left"

    bar = Progress(
        TextColumn("study"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task("study", total=total, left="")
    bar.update(task, completed=done)

    def advance(amount: float) -> None:
        nonlocal advanced, printed
        advanced += amount
        bar.update(task, advance=amount, left=left())
        tenth = int(10.0 * (done + advanced) / total + 1e-9)
        if not console.is_terminal and tenth > printed:
            printed = tenth
            console.print(f"{(done + advanced) / total:.0%} done, {left()}")

    with bar:
        yield advance


def manifest(
    options: argparse.Namespace, terms: Mapping[str, Any], *, seconds: float, cpu_seconds: float
) -> str:
    """How the results were content. The seconds are the sum over all starts."""
    commit, changed = git("rev-parse", "HEAD"), git("status", "--porcelain")
    content = {
        "command": " ".join(["scripts/study", *options.arguments]),
        "replications": terms["replications"],
        "seeds": f"{terms['seed']} to {terms['seed'] + terms['replications'] - 1}",
        "versions": versions() | {"matplotlib": importlib.metadata.version("matplotlib")},
        "cores": options.processes if options.dask is None else "a Dask cluster",
        "seconds": round(seconds),
        "cpu_seconds": round(cpu_seconds),
        "commit": commit or None,
        "commit_changed": None if changed is None else bool(changed),
    }
    return json.dumps(content, indent=2) + "\n"


def git(*arguments: str) -> str | None:
    """Output of a git command in this project; None without git or a repository."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    except OSError:
        return None
    return None if done.returncode else done.stdout.strip()


def study(options: argparse.Namespace) -> None:
    """Run what is missing, then write the tables, the figures and the page."""
    try:
        from scripts.lab.study.figures.whole import draw_all
    except ModuleNotFoundError as error:
        raise BadCommand(f"no {error.name}: install it with pip install '.[study]'") from None
    console, out = Console(), options.out
    if not options.redraw:
        _play(options, console)
    if not (out / "manifest.json").exists():
        raise BadCommand(f"{out} holds no finished study; run it without --redraw")
    draw_all(out)
    results.write(out)
    console.print(f"the results are in {out}: read {out / 'results.md'} first")


def _play(options: argparse.Namespace, console: Console) -> None:
    terms = {
        "experiments": [e.name for e in EXPERIMENTS if e.name in (options.only or names())],
        "replications": QUICK if options.quick else options.replications,
        "seed": options.seed,
        **versions(),
    }
    order = units(terms["experiments"], range(terms["seed"], terms["seed"] + terms["replications"]))
    work = Work(options.out / ".work", terms)
    clock = Clock(options.out / ".work" / "seconds")
    missing = sorted((u for u in order if u not in work), key=cost, reverse=True)
    total = sum(map(cost, order))
    if len(missing) < len(order):
        console.print(f"going on: {len(order) - len(missing)} of {len(order)} units are done")
    played = (
        local(missing, play, options.processes)
        if options.dask is None
        else cluster(missing, options.dask)
    )
    with progress(console, total, total - sum(map(cost, missing))) as advance:
        for unit, rows in played:
            work.put(unit, rows)
            clock.save()
            advance(cost(unit))
    finished = [(unit, work.get(unit)) for unit in order]
    tables.write(options.out, finished)
    cpu_seconds = sum(rows.cpu_seconds for _, rows in finished)
    content = manifest(options, terms, seconds=clock.seconds, cpu_seconds=cpu_seconds)
    write(options.out / "manifest.json", content)
    work.remove()


def positive(text: str) -> int:
    """A positive integer."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    for library in ("OMP", "OPENBLAS", "MKL"):  # processes use the cores; threads would not help
        os.environ[f"{library}_NUM_THREADS"] = "1"
    parser = argparse.ArgumentParser(
        prog="scripts/study",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Reproduce the computational study of the paper, figure by figure, and add\n"
        "a placebo for every cell, larger budgets, more parties, and quotas.",
        epilog="experiments:\n"
        "  convergence  without noise, 1,000 rounds: the paper's steps and the centre rule\n"
        "  privacy      the paper's grid of market shares and budgets, and larger budgets\n"
        "  parties      equal shares of 2/K, from 5 to 100 parties\n"
        "  quota        what the feasible split is worth, without minimum demands\n"
        "  totals       masked releases, from 10 to 100 parties\n"
        "  ball         the default step for masked releases, 20 replications\n\n"
        "If a study was stopped, run the same command to resume. Until it is finished, partial\n"
        "results are in DIR/.work. The same seed gives the same tables.\n\n"
        "on more than one machine, with this project on each:\n"
        "  scripts/environment dask scheduler\n"
        "  scripts/environment dask worker tcp://HOST:8786 --nthreads 1 --nworkers 8\n"
        "  scripts/study --dask tcp://HOST:8786",
    )  # fmt: skip
    add = parser.add_argument
    add(
        "--out",
        type=Path,
        default=Path("study"),
        metavar="DIR",
        help="folder for the results (%(default)s)",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help=f"{QUICK} replications: two minutes on two cores"
    )
    size.add_argument(
        "--replications",
        type=positive,
        default=100,
        metavar="N",
        help="replications of each cell (%(default)s)",
    )
    add(
        "--seed",
        type=positive,
        default=1,
        help="seed of the first replication (%(default)s)",
    )
    add("--only", action="append", choices=names(), help="only this experiment; may be repeated")
    add(
        "--processes",
        type=positive,
        default=os.cpu_count(),
        metavar="N",
        help="number of processes (all cores)",
    )
    add("--dask", metavar="ADDRESS", help="run on the workers of this Dask scheduler")
    add("--redraw", action="store_true", help="only make figures and results.md, from the tables")
    parser.set_defaults(run=study, arguments=list(arguments))
    run(parser, arguments)


if __name__ == "__main__":
    main()
