"""Ledgers for tests, code run in another process, and a check that every ledger was closed."""

import hashlib
import sqlite3
import subprocess
import sys
from contextlib import suppress
from typing import Any

from party.ledger.session_ledger import Ledger
from protocol.agreement.model import Agreement
from protocol.numeric import Ticks
from protocol.wire.messages import Release, Signed
from tests.support import ROOT
from tests.support.builders import sign
from tests.support.wait import LIMIT

_in_memory: list[Ledger] = []
_connections: list[sqlite3.Connection] = []


def in_memory(agreement: Agreement, member: str) -> Ledger:
    """A ledger in memory, closed when the test ends."""
    ledger = Ledger(":memory:", agreement, member)
    _in_memory.append(ledger)
    return ledger


def keep_demands(ledger: Ledger) -> list[tuple[Ticks, Ticks]]:
    """A list that gets each demand and unmasked release of a ledger, which destroys them later."""
    kept: list[tuple[Ticks, Ticks]] = []
    record = ledger.record_release

    def recording(release: Signed, demand: Any = None, **more: Any) -> None:
        kept.append(demand)
        record(release, demand, **more)

    ledger.record_release = recording  # type: ignore[method-assign]
    return kept


def release(agreement: Agreement, round: int, first: int = 0, member: str = "ada") -> Signed:  # noqa: A002
    """A signed release to record; its chain hash belongs to no session."""
    return sign(
        Release(
            sender=member,
            agreement=agreement.digest,
            round=round,
            chain_hash=hashlib.sha256(bytes([round % 256])).digest(),
            values=(first, *range(1, agreement.width)),
        )
    )


def run_python(code: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run Python code in another process that can import this project."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def watch() -> None:
    """Record every SQLite connection that this process opens from now on."""

    def opened(event: str, arguments: tuple[object, ...]) -> None:
        if event == "sqlite3.connect/handle" and isinstance(arguments[0], sqlite3.Connection):
            _connections.append(arguments[0])

    sys.addaudithook(opened)


def left_open() -> int:
    """Close the ledgers of `in_memory`; return how many other connections are still open."""
    for ledger in _in_memory:
        ledger.close()
    _in_memory.clear()
    count = sum(map(_is_open, _connections))
    for connection in _connections:
        with suppress(sqlite3.ProgrammingError):  # another thread's, which has closed it itself
            connection.close()
    _connections.clear()
    return count


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False
