"""The paper's study, reproduced and extended: command line, scheduling and resumption.

Every unit of work leaves one file in `.work` as it ends, so that a study that was stopped,
however hard, goes on where it was. What is played stands in `studies.cells`, and how in
`studies.play`; nothing here may touch a number.
"""

import argparse
import csv
import fcntl
import importlib.metadata
import json
import multiprocessing
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from protocol.command import run
from protocol.errors import BadCommand, SottoError, Unavailable
from scripts.studies.cells import EXPERIMENTS
from scripts.studies.play import LEVELS, MARKS, Rows, Unit, play

ROOT = Path(__file__).parents[1]
QUICK = 6
"""Replications of a quick study."""

WORKER_SECONDS = 30
"""How long the first worker of a Dask cluster is waited for: it may just be starting."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "convergence": (
        "parties", "variant", "seed",
        *(f"gap_{mark}" for mark in MARKS),
        *(f"rounds_{level:g}" for level in LEVELS),
    ),
    "sessions": (
        "experiment", "parties", "share_first", "buffer", "epsilon", "variant", "seed",
        "gap_start", "gap_last", "gap_average", "gap_best",
        "placebo_last", "placebo_average", "placebo_best",
        "overrun_last", "overrun_average",
        "quota", "quota_lacking", "placebo_quota", "placebo_quota_lacking",
        "prorata", "prorata_lacking",
    ),
    "shares": ("parties", "share_first", "buffer", "seed", "party", "share"),
    "curves": ("parties", "variant", "round", "mean", "minimum", "maximum"),
}  # fmt: skip
"""The tables that a study leaves, and the columns of each."""


def names() -> list[str]:
    return [e.name for e in EXPERIMENTS]


def units(experiments: Iterable[str], seeds: Iterable[int]) -> list[Unit]:
    """All work, in the order of the rows."""
    chosen = [e for e in EXPERIMENTS if e.name in experiments]
    places = [(e.name, setting) for e in chosen for setting in e.settings]
    return [Unit(name, setting, seed) for name, setting in places for seed in seeds]


def cost(unit: Unit) -> float:
    """How long a unit takes beside others: to tell the time left, and nothing else."""
    experiment = next(e for e in EXPERIMENTS if e.name == unit.experiment)
    passes = 1.0 if unit.experiment == "convergence" else 3.0 if experiment.hindsight else 2.0
    rounds = passes * len(experiment.sessions) * experiment.rounds
    return rounds * (unit.setting.parties + 6.0)


class Work:
    """The folder of finished units, and what it was begun with."""

    def __init__(self, folder: Path, terms: Mapping[str, Any]) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadCommand(
                f"another study is at work in {folder}; choose another --out"
            ) from None
        begun = folder / "terms.json"
        if not begun.exists():
            _write(begun, json.dumps(terms, indent=2) + "\n")
        before = json.loads(begun.read_text())
        differing = [key for key in terms if before.get(key) != terms[key]]
        if differing:
            raise BadCommand(
                f"{folder} holds a study begun with other terms ("
                + "; ".join(f"{key} {before.get(key)}, now {terms[key]}" for key in differing)
                + "): go on with those, choose another --out, or remove that folder"
            )

    def __contains__(self, unit: Unit) -> bool:
        return self._path(unit).exists()

    def put(self, unit: Unit, rows: Rows) -> None:
        _write(self._path(unit), json.dumps(vars(rows), default=float))

    def get(self, unit: Unit) -> Rows:
        return Rows(**json.loads(self._path(unit).read_text()))

    def remove(self) -> None:
        shutil.rmtree(self._folder)

    def _path(self, unit: Unit) -> Path:
        return self._folder / f"{unit.name}.json"


def _write(path: Path, text: str) -> None:
    """All of a file or none of it."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, newline="\n")
    partial.replace(path)


def local(work: Sequence[Unit], processes: int) -> Iterator[tuple[Unit, Rows]]:
    """Units as they end, on the cores of this machine."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_follow_parent)
    try:
        futures = {pool.submit(play, unit): unit for unit in work}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    except BrokenProcessPool:
        raise SottoError("a worker was killed; the same command goes on where it was") from None
    finally:
        for child in multiprocessing.active_children():
            child.terminate()
        pool.shutdown(cancel_futures=True)


def _follow_parent() -> None:
    """A worker ends when the study does, however that ended; Ctrl-C is for the study alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def cluster(work: Sequence[Unit], address: str) -> Iterator[tuple[Unit, Rows]]:
    """Units as they end, on the workers of a Dask scheduler."""
    try:
        import distributed
    except ImportError:
        raise BadCommand("--dask needs the extra 'cluster': pip install '.[cluster]'") from None
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise Unavailable(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise Unavailable(
                f"the scheduler at {address} has had no workers for {WORKER_SECONDS} seconds; "
                "start some"
            ) from None
        for worker, found in client.run(versions).items():
            if found != versions():
                raise BadCommand(f"worker {worker} has {found}, this machine has {versions()}")
        futures = {client.submit(play, unit, pure=False): unit for unit in work}
        for future in distributed.as_completed(futures):
            yield futures.pop(future), future.result()


def versions() -> dict[str, str]:
    """What computes the numbers. Other versions may break ties otherwise."""
    names = ("numpy", "highspy")
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in names
    }


@contextmanager
def progress(console: Console, total: float, done: float) -> Iterator[Any]:
    """Shows how far the work is and how long the rest may take; lines where there is no screen."""
    begin, advanced, told = time.monotonic(), 0.0, -1

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
        nonlocal advanced, told
        advanced += amount
        bar.update(task, advance=amount, left=left())
        tenth = int(10.0 * (done + advanced) / total + 1e-9)
        if not console.is_terminal and tenth > told:
            told = tenth
            console.print(f"{(done + advanced) / total:.0%} done, {left()}")

    with bar:
        yield advance


def assemble(work: Work, order: Sequence[Unit], out: Path) -> float:
    """Write the tables from the finished units, and say how many seconds of CPU they took."""
    tables: dict[str, list[Mapping[str, Any]]] = {name: [] for name in COLUMNS}
    gaps: dict[tuple[int, str], list[Sequence[float]]] = defaultdict(list)
    cpu_seconds = 0.0
    for unit in order:
        rows = work.get(unit)
        cpu_seconds += rows.cpu_seconds
        for name, lines in rows.tables.items():
            tables[name].extend(lines)
        for variant, curve in rows.curves.items():
            gaps[unit.setting.parties, variant].append(curve)
    for (parties, variant), curves in gaps.items():
        for t, column in enumerate(zip(*curves, strict=True)):
            tables["curves"].append(
                {
                    "parties": parties,
                    "variant": variant,
                    "round": t,
                    "mean": sum(column) / len(column),
                    "minimum": min(column),
                    "maximum": max(column),
                }
            )
    for name, lines in tables.items():
        path = out / f"{name}.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS[name])
            writer.writerows([shown(line.get(c)) for c in COLUMNS[name]] for line in lines)
    return cpu_seconds


def shown(value: Any) -> str:
    """A cell of a table: seven significant digits, nothing for what is missing."""
    if value is None:
        return ""
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def manifest(
    options: argparse.Namespace, terms: Mapping[str, Any], *, seconds: float, cpu_seconds: float
) -> str:
    """How the results came about. The seconds are those of all starts together."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
    changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True)
    content = {
        "command": " ".join(["scripts/study", *options.arguments]),
        "replications": terms["replications"],
        "seeds": f"{terms['seed']} to {terms['seed'] + terms['replications'] - 1}",
        "versions": versions() | {"matplotlib": importlib.metadata.version("matplotlib")},
        "cores": options.processes if options.dask is None else "a Dask cluster",
        "seconds": round(seconds),
        "cpu_seconds": round(cpu_seconds),
        "commit": commit.stdout.strip() or None,
        "commit_changed": bool(changed.stdout.strip()),
    }
    return json.dumps(content, indent=2) + "\n"


def study(options: argparse.Namespace) -> None:
    """Play what is missing, then write the tables, the figures and the page."""
    try:
        from scripts.studies import figures, tables
    except ModuleNotFoundError as error:
        raise BadCommand(f"no {error.name}: pip install '.[study]' brings it") from None
    console, out = Console(), options.out
    if not options.redraw:
        _play(options, console)
    if not (out / "manifest.json").exists():
        raise BadCommand(f"{out} holds no finished study; leave out --redraw to make one")
    figures.draw_all(out)
    tables.write(out)
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
    results = (
        local(missing, options.processes)
        if options.dask is None
        else cluster(missing, options.dask)
    )
    with progress(console, total, total - sum(map(cost, missing))) as advance:
        for unit, rows in results:
            work.put(unit, rows)
            clock.save()
            advance(cost(unit))
    cpu_seconds = assemble(work, order, options.out)
    made = manifest(options, terms, seconds=clock.seconds, cpu_seconds=cpu_seconds)
    _write(options.out / "manifest.json", made)
    work.remove()


class Clock:
    """The seconds that a study has taken, over all its starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = float(path.read_text()) if path.exists() else 0.0
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._begin

    def save(self) -> None:
        _write(self._path, f"{self.seconds:.1f}\n")


def counted(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    for library in ("OMP", "OPENBLAS", "MKL"):  # one process for each core is all there is to gain
        os.environ[f"{library}_NUM_THREADS"] = "1"
    parser = argparse.ArgumentParser(
        prog="scripts/study",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Reproduce the computational study of the paper, figure by figure, and go on\n"
        "where it stops: a placebo for every cell, larger budgets, more parties, quotas.",
        epilog="experiments:\n"
        "  convergence  without noise, 1,000 rounds: the paper's step beside the default one\n"
        "  privacy      the paper's grid of market shares and budgets, and larger budgets\n"
        "  parties      equal shares of 2/K, from 5 to 100 parties\n"
        "  quota        what the feasible split is worth, without minimum demands\n\n"
        "A study that was stopped goes on where it was when the same command is given again;\n"
        "until it is finished, its parts are in DIR/.work. The same seed gives the same tables.\n\n"
        "on more than one machine, with this project on each:\n"
        "  scripts/environment dask scheduler\n"
        "  scripts/environment dask worker tcp://HOST:8786 --nthreads 1 --nworkers 8\n"
        "  scripts/study --dask tcp://HOST:8786",
    )  # fmt: skip
    add = parser.add_argument
    add("--out", type=Path, default=Path("study"), metavar="DIR", help="results (%(default)s)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help=f"{QUICK} replications: two minutes on two cores"
    )
    size.add_argument(
        "--replications", type=counted, default=100, metavar="N", help="of each cell (%(default)s)"
    )
    add("--seed", type=counted, default=1, help="of the first replication (%(default)s)")
    add("--only", action="append", choices=names(), help="this experiment; may be repeated")
    add("--processes", type=counted, default=os.cpu_count(), metavar="N", help="(all cores)")
    add("--dask", metavar="ADDRESS", help="play on the workers of this Dask scheduler")
    add("--redraw", action="store_true", help="make only figures and results.md, from the tables")
    parser.set_defaults(run=study, arguments=list(arguments))
    run(parser, arguments)


if __name__ == "__main__":
    main()
