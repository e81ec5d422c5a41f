"""`scripts/bench start`: time from launch to the first round, and to the last.

Sessions are compared with as many processes that only load the libraries of a party, the
coordinator with an interpreter that only loads ZeroMQ, and short commands with an interpreter that
does nothing. A table shows what each role loads, because needless imports slow the start.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from protocol.agreement.schema import TOPOLOGIES
from scripts.lab.bench.measure.interleave import in_turns, plain, ratio, spread
from scripts.lab.bench.measure.sessions import SessionTiming, prepared, run_session, session
from scripts.lab.common.local_session import (
    COORDINATOR,
    PARTY,
    coordinator_command,
    environment,
    party_command,
)

ROUNDS = 150
LIBRARIES = "import numpy, zmq, highspy, nacl.bindings"
"""The large libraries that every party needs."""

HELP = ("party", "coordinator", "protocol")

READY = b"relaying"


class Size(Struct, frozen=True):
    """How many parties, and how many turns."""

    parties: int
    turns: int


SIZES = (Size(5, 5), Size(10, 5), Size(20, 3))
QUICK = (Size(5, 2), Size(10, 1))


def start(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measure the start of sessions and of the coordinator, and what each role loads."""
    rows = []
    for size in QUICK if options.quick else SIZES:
        with console.status(f"start: {size.parties} parties"):
            rows += sessions(size, options.seed)
    with console.status("start: the coordinator"):
        ready = coordinator(5 if options.quick else 21, options.seed)
    with console.status("start: short commands"):
        short = commands(5 if options.quick else 21, options.seed)
    with console.status("start: what each role loads"):
        loaded = imports(options.seed)
    console.print(_sessions_table(rows), _coordinator_table(ready), _commands_table(short))
    console.print(_imports_table(loaded))
    return {
        "sessions": plain(rows),
        "coordinator": plain(ready),
        "commands": plain(short),
        "imports": [role.figures() for role in loaded],
    }


def sessions(size: Size, seed: int) -> list[dict[str, Any]]:
    """Sessions of both topologies, and bare imports, in turns."""
    contestants: dict[str, Any] = {t: partial(_session, size, t, seed) for t in TOPOLOGIES}
    contestants["imports"] = partial(_bare_imports, size.parties)
    results = in_turns(contestants, size.turns)
    return [
        {
            "parties": size.parties,
            "topology": topology,
            "rounds": ROUNDS,
            "first_round_seconds": spread(timing.closed[0] for timing in results[topology]),
            "session_seconds": spread(timing.seconds for timing in results[topology]),
            "imports_seconds": spread(results["imports"]),
            "first_round_over_imports": ratio(
                [timing.closed[0] for timing in results[topology]], results["imports"]
            ),
            "session_over_imports": ratio(
                [timing.seconds for timing in results[topology]], results["imports"]
            ),
        }
        for topology in TOPOLOGIES
    ]


def _session(size: Size, topology: str, seed: int) -> SessionTiming:
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
        return run_session(Path(folder) / "session", session(size.parties, ROUNDS, topology, seed))


def _bare_imports(count: int) -> float:
    """Seconds until `count` processes have loaded the libraries."""
    began = time.perf_counter()
    command = [sys.executable, "-c", LIBRARIES]
    for process in [subprocess.Popen(command, env=environment()) for _ in range(count)]:
        process.wait()
    return time.perf_counter() - began


def coordinator(turns: int, seed: int) -> dict[str, Any]:
    """Seconds until the coordinator relays, compared with interpreters that do less."""
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
        prepared(Path(folder), session(5, ROUNDS, "relay", seed))
        results = in_turns(
            {
                "coordinator": partial(_until_ready, coordinator_command(Path(folder))),
                "zmq": partial(_run, "import zmq"),
                "python": partial(_run, "pass"),
            },
            turns,
        )
    return {
        "coordinator_seconds": spread(results["coordinator"]),
        "import_zmq_seconds": spread(results["zmq"]),
        "python_seconds": spread(results["python"]),
        "coordinator_over_import_zmq": ratio(results["coordinator"], results["zmq"]),
    }


def _until_ready(command: list[str]) -> float:
    began = time.perf_counter()
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) as process:
        line = process.stderr.readline() if process.stderr else b""
        seconds = time.perf_counter() - began
        process.terminate()
    if not line.startswith(READY):
        raise RuntimeError(f"the coordinator is not ready; it printed {line.decode().strip()!r}")
    return seconds


def _run(statement: str) -> float:
    return _run_command([sys.executable, "-c", statement])


def _run_command(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environment(), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def commands(turns: int, seed: int) -> dict[str, Any]:
    """Seconds of short commands, compared with interpreters that do nothing or only import."""
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
        folder = Path(name)
        prepared(folder, session(5, ROUNDS, "relay", seed))
        files = ["--agreement", folder / "agreement.toml", "--data", folder / "party1/model.npz"]
        check = [sys.executable, "-m", "party", "check", *map(str, files), "--as", "party1"]
        contestants = {
            "python": partial(_run, "pass"),
            "libraries": partial(_run, LIBRARIES),
            **{
                f"{command} --help": partial(
                    _run_command, [sys.executable, "-m", command, "--help"]
                )
                for command in HELP
            },
            "party check": partial(_run_command, check),
        }
        results = in_turns(contestants, turns)
    return {
        command: {
            "seconds": spread(seconds),
            "over_python": ratio(seconds, results["python"]),
            "over_libraries": ratio(seconds, results["libraries"]),
        }
        for command, seconds in results.items()
    }


class Role(Struct, frozen=True):
    """What one kind of process loaded: milliseconds of each package's own code."""

    name: str
    modules: frozenset[str]
    packages: dict[str, float]

    def figures(self) -> dict[str, Any]:
        return {
            "role": self.name,
            "modules": len(self.modules),
            "milliseconds": sum(self.packages.values()),
            "packages": self.packages,
        }


def imports(seed: int) -> list[Role]:
    """What the processes of a real session load, from start to end."""
    options = session(2, 3, "relay", seed)
    timed = ("-X", "importtime")
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
        folder = Path(name)
        with prepared(folder, options) as running:
            text, machine = running.names
            running.launch("coordinator", coordinator_command(folder, role=(*timed, *COORDINATOR)))
            for party, log in ((text, "text"), (machine, "json")):
                command = party_command(folder, party, options, log=log, role=(*timed, *PARTY))
                running.launch(party, command)
            running.done(text, machine)
            running.stop("coordinator")
        roles = {
            "coordinator": "coordinator",
            "party, for people": text,
            "party, JSON log": machine,
        }
        return [role(title, running.stderr(party).splitlines()) for title, party in roles.items()]


def role(name: str, lines: Iterable[str]) -> Role:
    """Parse the lines of `python -X importtime`; ignore all other lines."""
    packages: dict[str, float] = defaultdict(float)
    modules = set()
    for line in lines:
        found = re.fullmatch(r"import time:\s+(\d+) \|\s+\d+ \|\s*(\S+)", line)
        if found:
            modules.add(found[2])
            packages[found[2].partition(".")[0]] += int(found[1]) / 1e3
    ordered = sorted(packages.items(), key=lambda item: -item[1])
    return Role(name, frozenset(modules), dict(ordered))


def _sessions_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        title=f"seconds from launching K parties and a coordinator, {ROUNDS} rounds",
        caption="median, and below it lowest–highest; imports: K processes that only load numpy, "
        "zmq, highspy, nacl; measured alternately",
    )
    for column in (
        "parties", "topology", "to the first round", "to the last result", "imports",
        "first ÷ imports", "all ÷ imports",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column == "topology" else "right")
    for row in rows:
        table.add_row(
            str(row["parties"]),
            row["topology"],
            row["first_round_seconds"].shown(),
            row["session_seconds"].shown(),
            row["imports_seconds"].shown(),
            row["first_round_over_imports"].shown(),
            row["session_over_imports"].shown(),
        )
    return table


def _coordinator_table(ready: dict[str, Any]) -> Table:
    table = Table(title="time until the coordinator is ready")
    for column in ("coordinator ms", "import zmq ms", "python alone ms", "coordinator ÷ zmq"):
        table.add_column(column, justify="right")
    milliseconds = [
        spread(v * 1e3 for v in ready[key].values).shown(".0f")
        for key in ("coordinator_seconds", "import_zmq_seconds", "python_seconds")
    ]
    table.add_row(*milliseconds, ready["coordinator_over_import_zmq"].shown(".2f"))
    return table


def _commands_table(short: dict[str, Any]) -> Table:
    table = Table(
        title="short commands",
        caption="compared with `python -c pass`, and with loading numpy, zmq, highspy, nacl",
    )
    for column in ("command", "ms", "÷ python", "÷ libraries"):
        table.add_column(column, justify="left" if column == "command" else "right")
    for command, figures in short.items():
        milliseconds = spread(v * 1e3 for v in figures["seconds"].values)
        ratios = (figures[key].shown(".2f") for key in ("over_python", "over_libraries"))
        table.add_row(command, milliseconds.shown(".0f"), *ratios)
    return table


def _imports_table(roles: list[Role]) -> Table:
    table = Table(
        title="what each role loads in a session",
        caption="milliseconds of each package's own code, as measured by the interpreter",
    )
    for column in ("role", "modules", "ms"):
        table.add_column(column, justify="left" if column == "role" else "right")
    table.add_column("most of it")
    for each in roles:
        most = list(each.packages.items())[:12]
        table.add_row(
            each.name,
            str(len(each.modules)),
            f"{sum(each.packages.values()):.0f}",
            ", ".join(f"{package} {ms:.0f}" for package, ms in most),
        )
    return table
