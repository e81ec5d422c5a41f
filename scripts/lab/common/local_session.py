"""The processes of a session on this machine: start, observe, await and end them.

Every process is started with the command that an operator would give. Its output goes to two files
in the folder of the session, so that nothing runs here while a session is measured.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from protocol.errors import NoTrade, QuotaTooSmall
from scripts.lab.common.agreements import party_name

ROOT = Path(__file__).parents[3]
LIMIT_SECONDS = 600.0
"""The longest time that anything is awaited."""

PARTY, COORDINATOR = ("-m", "party"), ("-m", "coordinator")
"""Interpreter arguments that run each role."""


def environment() -> dict[str, str]:
    """The environment of all processes: this project's path, single-threaded libraries."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**os.environ, **single, "PYTHONPATH": path}


def join_command(
    *, agreement: Path, data: Path, key: Path, out: Path, role: Sequence[str] = PARTY
) -> list[str]:
    return [
        sys.executable, *role, "join", "--agreement", str(agreement),
        "--data", str(data), "--key", str(key), "--out", str(out),
    ]  # fmt: skip


def party_command(
    folder: Path,
    name: str,
    options: argparse.Namespace,
    *,
    log: str = "json",
    role: Sequence[str] = PARTY,
) -> list[str]:
    """`party join` with the files of `workspace.prepare`."""
    home = folder / name
    return [
        *join_command(
            agreement=folder / "agreement.toml",
            data=home / "model.npz",
            key=home / f"{name}.key",
            out=home / "out",
            role=role,
        ),
        *("--log-format", log, "--wait", f"{options.patience:g}"),
        *(["--seed", str(options.seed)] if options.rehearsal else []),
        *(["--listen", "tcp://127.0.0.1:*"] if options.topology == "mesh" else []),
    ]


def coordinator_command(folder: Path, *, role: Sequence[str] = COORDINATOR) -> list[str]:
    """`coordinator serve` with the files of `workspace.prepare`."""
    agreement, key = folder / "agreement.toml", folder / "coordinator.key"
    return [sys.executable, *role, "serve", "--agreement", str(agreement), "--key", str(key)]


@contextmanager
def _signals_later() -> Iterator[None]:
    """Delay signals, so that every started child is registered before they take effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    delayed: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [
        signal.signal(number, lambda caught, _: delayed.append(caught)) for number in numbers
    ]
    try:
        yield
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
        for caught in delayed:
            signal.raise_signal(caught)


class Processes:
    """Child processes by name. All are ended when the context is left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def launch(self, name: str, command: Sequence[str], *, within: Path | None = None) -> None:
        """Start a process. Its output is appended to its log files."""
        out, err = self._log(name, "out"), self._log(name, "err")
        with out.open("ab") as stdout, err.open("ab") as stderr, _signals_later():
            self.processes[name] = subprocess.Popen(
                command, cwd=within, env=environment(), stdout=stdout, stderr=stderr
            )

    def stdout(self, name: str) -> str:
        """The standard output of a process so far."""
        return self._log(name, "out").read_text()

    def stderr(self, name: str) -> str:
        """The standard error of a process so far."""
        return self._log(name, "err").read_text()

    def _log(self, name: str, kind: str) -> Path:
        return self.folder / f"{name}.{kind}.log"

    def done(self, *names: str, seconds: float = LIMIT_SECONDS) -> None:
        """Wait until all of these have ended. Raises, with its errors, if one failed.

        Does not poll: polling would be measured too.
        """
        limit = threading.Timer(seconds, self._kill)
        limit.daemon = True
        limit.start()
        try:
            for name in names:
                self.processes[name].wait()
        finally:
            limit.cancel()
        self.check(*names)

    def check(self, *names: str) -> None:
        """Raises, with its errors, if one of these has failed."""
        for name in names:
            # A company without a plan, or a session without trade, has still finished.
            code = self.processes[name].returncode
            if code not in (0, None, QuotaTooSmall.exit_code, NoTrade.exit_code):
                error = self.stderr(name)[-2_000:].strip()
                raise RuntimeError(f"{name} ended with {code}: {error}")

    def stop(self, *names: str) -> None:
        """End these processes, or all, if they still run."""
        children = [self.processes[name] for name in names or self.processes]
        for child in children:
            child.terminate()
        for child in children:
            try:
                child.wait(timeout=5.0)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _kill(self) -> None:
        for child in self.processes.values():
            child.kill()


class LocalSession(Processes):
    """The coordinator and the parties of a session in a prepared folder, and their events."""

    def __init__(
        self, folder: Path, options: argparse.Namespace, names: Sequence[str] | None = None
    ) -> None:
        super().__init__(folder)
        self.options = options
        self.names = list(names or (party_name(k) for k in range(options.parties)))
        self.began = time.monotonic()
        """When the parties were started, which is after the operator was ready to watch."""
        self._reports = {name: Reports(self._log(name, "out")) for name in self.names}

    def start_coordinator(self) -> None:
        port = getattr(self.options, "page", None)
        page = [] if port is None else ["--page", str(port)]
        self.launch("coordinator", [*coordinator_command(self.folder), *page])

    def start_party(self, name: str) -> None:
        self.launch(name, party_command(self.folder, name, self.options))

    def start(self) -> None:
        self.start_coordinator()
        if getattr(self.options, "page", None) is not None:
            self._invite()
        self.began = time.monotonic()
        for name in self.names:
            self.start_party(name)

    def page(self, name: str = "coordinator") -> str:
        """The address of the page of a process; empty until it is printed."""
        found = re.search(r"http://\S+", self.stderr(name))
        return found[0] if found else ""

    def _invite(self) -> None:
        """Print the address of the live page, and wait for Enter on a terminal."""
        until = time.monotonic() + LIMIT_SECONDS
        while not self.page() and time.monotonic() < until:
            self.check(*(name for name in ["coordinator"] if self.processes[name].poll()))
            time.sleep(0.05)
        print(f"watch the session at {self.page()}", file=sys.stderr)
        if sys.stdin.isatty():
            print("open it in a browser, then press Enter to start", file=sys.stderr)
            sys.stdin.readline()

    def launch(self, name: str, command: Sequence[str], *, within: Path | None = None) -> None:
        if name in self._reports:
            self._reports[name].begin()
        super().launch(name, command, within=within)

    @property
    def events(self) -> Mapping[str, Sequence[dict[str, Any]]]:
        """The events that each party has reported so far."""
        return {name: reports.events() for name, reports in self._reports.items()}

    def progress(self) -> int:
        """Rounds that every party has closed."""
        return min(reports.round() for reports in self._reports.values())

    def wait(self, seconds: float, on_round: Callable[[int], None] = lambda _: None) -> None:
        """Wait until every party has ended. Raises if one fails or time runs out."""
        until = time.monotonic() + seconds
        while any(self.processes[n].poll() is None for n in self.names):
            on_round(self.progress())
            if time.monotonic() > until:
                raise TimeoutError(f"time ran out at round {self.progress()}")
            time.sleep(0.05)
        self.check(*self.names)
        on_round(self.progress())

    def result(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(
            (self.folder / name / "out" / "result.json").read_text()
        )
        return content


class Reports:
    """The JSON log of one party, read as it grows, over all its starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset: int | None = None
        self._events: list[dict[str, Any]] = []
        self._round = 0

    def begin(self) -> None:
        """The party is about to start. Skips what the log held before the first start."""
        with self._path.open("ab") as log:
            if self._offset is None:
                self._offset = log.tell()
            log.write(b"\n")  # a killed process may have left half a line

    def events(self) -> list[dict[str, Any]]:
        if self._offset is None:
            return []
        with self._path.open("rb") as log:
            log.seek(self._offset)
            lines, end, _ = log.read().rpartition(b"\n")
        self._offset += len(lines) + len(end)
        for line in lines.splitlines():
            try:
                event = json.loads(line)
            except ValueError:  # half a line of a killed process
                continue
            self._events.append(event)
            self._round = event.get("round", self._round)
        return self._events

    def round(self) -> int:
        """The last round that the party has reported."""
        self.events()
        return self._round
