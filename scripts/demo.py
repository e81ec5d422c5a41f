"""A whole session over real processes on loopback: one coordinator and K parties.

Makes a folder with keys, agreement and private data sets, starts every process with the
command an operator would give, shows one live view of what they report, and compares the
result with the optimum that only an owner of all data could find.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from party import identity
from party.dataset import DataSet
from protocol.agreement import TOPOLOGIES, Agreement
from protocol.command import read_agreement
from protocol.outcome import outcome
from protocol.toml import from_table, written
from protocol.transcript import load
from scripts.instances import Instance, central
from scripts.simulate import (
    agreement_table,
    drawn,
    party_name,
    session_options,
    show,
    summary,
)


def free_ports(count: int) -> int:
    """The first of `count` neighbouring ports on loopback that are free now.

    Below the range from which outgoing connections take theirs, so that they stay free.
    """
    draw = random.SystemRandom()
    for _ in range(100):
        base = draw.randrange(12_000, 32_000)
        with ExitStack() as stack:
            try:
                for port in range(base, base + count):
                    stack.enter_context(socket.create_server(("", port)))
            except OSError:
                continue
            return base
    raise OSError("no free ports on loopback")


def save_model(data: DataSet, path: Path) -> None:
    """A private data set as the `.npz` file that a company would bring."""
    matrix = np.zeros((data.resources + data.private_rows, data.columns))
    columns = np.repeat(np.arange(data.columns), np.diff(data.start))
    matrix[data.index, columns] = data.value
    np.savez(
        path,
        A=matrix[: data.resources],
        B=matrix[data.resources :],
        b=data.row_upper,
        u=data.utility,
        lower=data.lower,
        upper=data.upper,
        names=np.array(data.names),
    )


def prepare(folder: Path, instance: Instance, options: argparse.Namespace) -> Agreement:
    """Keys, agreement and data sets, each where its owner would have it."""
    import zmq

    public, secret = zmq.curve_keypair()
    table = agreement_table(instance, options)
    table["session"] = f"demo-{options.seed}"
    table["transport"] = {
        "topology": options.topology,
        "coordinator": f"tcp://127.0.0.1:{free_ports(2)}",
        "coordinator_key": public.decode(),
        "patience_seconds": options.patience,
    }
    for k, data in enumerate(instance.data):
        name = party_name(k)
        home = folder / name
        home.mkdir(parents=True)
        keys = identity.generate(name)
        identity.save(keys, home / f"{name}.key")
        save_model(data, home / "model.npz")
        table["member"][k] |= {
            "signing_key": keys.signing_key.hex(),
            "transport_key": keys.transport_key.decode(),
        }
    key = folder / "coordinator.key"
    key.touch(mode=0o600)
    key.write_text(secret.decode() + "\n")
    (folder / "agreement.toml").write_text(written(from_table(table)))
    return read_agreement(folder / "agreement.toml")


def coordinator_command(folder: Path) -> list[str]:
    return [
        sys.executable, "-m", "coordinator", "serve",
        "--agreement", str(folder / "agreement.toml"), "--key", str(folder / "coordinator.key"),
    ]  # fmt: skip


def party_command(folder: Path, name: str, options: argparse.Namespace) -> list[str]:
    home = folder / name
    return [
        sys.executable, "-m", "party", "join",
        "--agreement", str(folder / "agreement.toml"), "--data", str(home / "model.npz"),
        "--key", str(home / f"{name}.key"), "--out", str(home / "out"),
        "--log-format", "json",
        *(["--seed", str(options.seed)] if options.rehearsal else []),
        *(["--listen", "tcp://127.0.0.1:*"] if options.topology == "mesh" else []),
    ]  # fmt: skip


class Cast:
    """All processes of a session, and what they report."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder = folder
        self.options = options
        self.names = [party_name(k) for k in range(options.parties)]
        self.events: dict[str, list[dict[str, Any]]] = {name: [] for name in self.names}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self._rounds = dict.fromkeys(self.names, 0)
        self._readers: list[threading.Thread] = []
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def start_coordinator(self) -> None:
        with (self.folder / "coordinator.log").open("a") as log:
            self.processes["coordinator"] = subprocess.Popen(
                coordinator_command(self.folder), env=self._environment, text=True, stderr=log
            )

    def start_party(self, name: str) -> None:
        with (self.folder / name / "error.log").open("a") as log:
            process = subprocess.Popen(
                party_command(self.folder, name, self.options),
                env=self._environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.processes[name] = process
        reader = threading.Thread(target=self._read, args=(name, process), daemon=True)
        reader.start()
        self._readers.append(reader)

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        with process:
            for line in process.stdout or ():
                if line.endswith("}\n"):  # a killed process may leave half a line
                    event = json.loads(line)
                    self.events[name].append(event)
                    self._rounds[name] = event.get("round", self._rounds[name])

    def start(self) -> None:
        self.start_coordinator()
        for name in self.names:
            self.start_party(name)

    def progress(self) -> int:
        """Rounds that every party has closed."""
        return min(self._rounds.values())

    def wait(self, seconds: float, on_round: Callable[[int], None] = lambda _: None) -> None:
        """Until every party has ended. Raises if one fails or time runs out."""
        until = time.monotonic() + seconds
        while any(self.processes[n].poll() is None for n in self.names):
            on_round(self.progress())
            if time.monotonic() > until:
                raise TimeoutError(f"the session was at round {self.progress()} when time ran out")
            time.sleep(0.05)
        for reader in self._readers:
            reader.join(timeout=5.0)
        for name in self.names:
            if self.processes[name].returncode:
                told = (self.folder / name / "error.log").read_text().strip()
                raise RuntimeError(f"{name} ended with {self.processes[name].returncode}: {told}")
        on_round(self.progress())

    def stop(self) -> None:
        """End whatever still runs."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for reader in self._readers:
            reader.join(timeout=5.0)

    def result(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(
            (self.folder / name / "out" / "result.json").read_text()
        )
        return content


def measure(cast: Cast, agreement: Agreement, instance: Instance, wall: float) -> dict[str, Any]:
    """The figures of a finished session, from what the parties wrote."""
    first = cast.folder / cast.names[0] / "out" / "session.transcript"
    known = outcome(agreement, load(agreement, first.read_bytes()))
    times = [e["at"] for e in cast.events[cast.names[0]] if e["event"] == "round"]
    pace = (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else None
    return {
        **summary(known, instance, central(instance)),
        "heads": {name: cast.result(name)["head"] for name in cast.names},
        "topology": agreement.transport.topology,
        "wall_seconds": wall,
        "rounds_per_second": pace,
    }


def demo(
    folder: Path, options: argparse.Namespace, on_round: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Prepare, play and measure one session."""
    instance = drawn(options)
    agreement = prepare(folder, instance, options)
    cast = Cast(folder, options)
    began = time.monotonic()
    try:
        cast.start()
        cast.wait(options.limit, on_round)
        wall = time.monotonic() - began
    finally:
        cast.stop()
    return measure(cast, agreement, instance, wall)


def demo_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of a demonstration. A seed makes it a rehearsal, which can be repeated."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Play a whole session over real processes on loopback: one coordinator and K "
        "parties, each with its own keys, data set, noise and ledger. With --seed the noise is "
        "seeded as well: the same figures as scripts/simulate, and no privacy.",
    )
    session_options(parser)
    add = parser.add_argument
    add("--topology", choices=TOPOLOGIES, default="relay", help="(%(default)s)")
    add("--dir", type=Path, help="keep everything in this new folder (default: a temporary one)")
    add("--patience", type=float, default=60.0, metavar="SECONDS", help="(%(default)s)")
    add(
        "--limit", type=float, default=3600.0, metavar="SECONDS", help="give up after (%(default)s)"
    )
    options = parser.parse_args(arguments)
    options.rehearsal = options.seed is not None
    options.seed = options.seed if options.rehearsal else 1
    return options


def main() -> None:
    options = demo_options()
    console = Console()
    with ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="sotto-"))
        folder = options.dir or Path(temporary)
        if options.dir and options.dir.exists():
            sys.exit(f"error: {options.dir} exists already; name a new folder")
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(f"{options.parties} parties", total=options.rounds)
            figures = demo(folder, options, lambda done: progress.update(task, completed=done))
    show(console, figures)
    table = Table("party", "ended at head", title=f"{options.topology}: what each party got")
    for name, head in figures["heads"].items():
        table.add_row(name, head[:32] + "…")
    console.print(table)
    pace = figures["rounds_per_second"]
    console.print(
        f"{figures['wall_seconds']:.1f} s from launch to the last result"
        + (f", {pace:.0f} rounds per second" if pace else "")
    )
    if options.dir:
        console.print(f"everything is in {options.dir}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
