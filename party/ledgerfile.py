"""The file of a ledger: its tables, its lock, and what is said when it cannot be used.

The ledger of a session and the lifetime accounts both stand on it. One process at a time has
it open; what is committed survives any crash, and after a failed write nothing more is read,
for it may not be on the disk.
"""

import os
import sqlite3
from collections.abc import Iterable
from typing import Any

from protocol.errors import BadLedger

_VERSION = 2
_WAL_PAGES = 200  # then the log begins anew: to overwrite is cheaper than to let it grow
_TABLES = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, agreement BLOB NOT NULL UNIQUE, name TEXT NOT NULL,
    member TEXT NOT NULL, data_set TEXT NOT NULL, rounds INTEGER NOT NULL,
    epsilon REAL, delta REAL,
    release_mu_squared REAL NOT NULL, release_epsilon REAL NOT NULL, release_delta REAL NOT NULL,
    fault_code INTEGER, fault TEXT
);
CREATE TABLE limits (data_set TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL);
CREATE TABLE releases (
    session INTEGER, round INTEGER, message BLOB NOT NULL, PRIMARY KEY (session, round)
) WITHOUT ROWID;
CREATE TABLE rounds (session INTEGER, round INTEGER, messages BLOB NOT NULL);
CREATE TABLE seals (
    session INTEGER, member INTEGER, message BLOB NOT NULL, PRIMARY KEY (session, member)
);
CREATE TABLE addresses (
    session INTEGER, member TEXT, address TEXT NOT NULL, PRIMARY KEY (session, member)
);
"""


class LedgerFile:
    """An open ledger file with its tables, for this process alone. Raises only `BadLedger`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)
        self.failed = False
        try:
            self._base = sqlite3.connect(self.path, isolation_level=None, timeout=0.2)
            try:
                self._check()
            except BaseException:
                self.close()
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._unusable(error) from None

    def _check(self) -> None:
        run = self._base.execute
        run("PRAGMA locking_mode = EXCLUSIVE")  # held until the process ends, however it ends
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        run("BEGIN EXCLUSIVE")
        if run("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise BadLedger(f"the ledger {self.path!r} is damaged; bring back the newest copy")
        version = run("PRAGMA user_version").fetchone()[0]
        if version == 0:
            for statement in _TABLES.split(";"):
                run(statement)
            run(f"PRAGMA user_version = {_VERSION}")
        elif version != _VERSION:
            raise BadLedger(
                f"the ledger {self.path!r} is of version {version}, this program reads {_VERSION}"
            )
        run("COMMIT")

    def rows(self, query: str, *values: Any) -> list[Any]:
        """What a query finds."""
        try:
            return self._base.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def write(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Carry out a statement for each row. Durable with the next `commit`."""
        try:
            if not self._base.in_transaction:
                self._base.execute("BEGIN")
            self._base.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._broken_by(error) from None

    def commit(self) -> None:
        """Make everything written so far durable."""
        try:
            if self._base.in_transaction:
                self._base.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._broken_by(error) from None

    def close(self) -> None:
        """Let go of the file. What was not committed is lost."""
        self._base.close()

    def _broken_by(self, error: sqlite3.Error) -> BadLedger:
        self.failed = True
        self.close()
        return self._unusable(error)

    def _unusable(self, error: Exception) -> BadLedger:
        if "locked" in str(error):
            return BadLedger(
                f"the ledger {self.path!r} is in use by another process; end that one first"
            )
        return BadLedger(f"the ledger {self.path!r} cannot be used: {error}")
