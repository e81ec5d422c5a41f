"""Ledgers for tests that do not ask where they are, and a watch over all that were opened."""

import hashlib
import sqlite3
import sys

from party.ledger.session_ledger import Ledger
from protocol.agreement.model import Agreement
from protocol.wire.messages import Release, Signed
from tests.support.builders import sign

_in_memory: list[Ledger] = []
_connections: list[sqlite3.Connection] = []


def in_memory(agreement: Agreement, member: str) -> Ledger:
    """A ledger that is closed when the test is over."""
    ledger = Ledger(":memory:", agreement, member)
    _in_memory.append(ledger)
    return ledger


def release(agreement: Agreement, round: int, first: int = 0, member: str = "ada") -> Signed:  # noqa: A002
    """Something to record: its head is nobody's."""
    return sign(
        Release(
            sender=member,
            agreement=agreement.digest,
            round=round,
            chain_hash=hashlib.sha256(bytes([round % 256])).digest(),
            values=(first, *range(1, agreement.width)),
        )
    )


def watch() -> None:
    """Keep every SQLite connection that this process will open, so that none is lost unseen."""

    def opened(event: str, arguments: tuple[object, ...]) -> None:
        if event == "sqlite3.connect/handle" and isinstance(arguments[0], sqlite3.Connection):
            _connections.append(arguments[0])

    sys.addaudithook(opened)


def left_open() -> int:
    """Close what `in_memory` gave out; how many other connections nobody has closed by now."""
    for ledger in _in_memory:
        ledger.close()
    _in_memory.clear()
    count = sum(map(_is_open, _connections))
    for connection in _connections:
        connection.close()
    _connections.clear()
    return count


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False
