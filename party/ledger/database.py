"""The SQLite file of a ledger: its tables, its lock, and its error messages.

`session_ledger` and `accounts` both use it. Only one process at a time has the file open. What
is committed survives any crash. After a failed write nothing is read any more, because it may
not be on the disk. Every message is stored with a checksum, so that this party finds a damaged
disk before any other member sees its effects.
"""

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple

from protocol.errors import BadLedger, LedgerInUse
from protocol.runtime.process_memory import keep_private

_VERSION = 11
_WAL_PAGES = 200  # then SQLite overwrites the log, which is cheaper than letting it grow
_CHECKSUM_BYTES = 16

_SCHEMA = """
CREATE TABLE ledger (id BLOB NOT NULL);
INSERT INTO ledger VALUES (randomblob(16));
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, agreement BLOB NOT NULL UNIQUE, name TEXT NOT NULL,
    member TEXT NOT NULL, data_set TEXT NOT NULL, rounds INTEGER NOT NULL,
    epsilon REAL, delta REAL,
    release_mu_squared REAL NOT NULL, reserve REAL NOT NULL, release_factor REAL NOT NULL,
    fault_code INTEGER, fault TEXT, colluders INTEGER,
    growing INTEGER NOT NULL DEFAULT 0, model BLOB
);
CREATE TABLE limits (
    data_set TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL,
    asked INTEGER NOT NULL DEFAULT 1, accountant TEXT, factor REAL,
    fixed_epsilon REAL, fixed_delta REAL
);
CREATE TABLE addresses (
    session INTEGER, member TEXT, address TEXT NOT NULL, PRIMARY KEY (session, member)
);
CREATE TABLE waits (
    session INTEGER, member TEXT, seconds REAL NOT NULL, longest REAL NOT NULL,
    last INTEGER NOT NULL, PRIMARY KEY (session, member)
) WITHOUT ROWID;
"""

_MESSAGE_TABLES = {
    "releases": ("round", "message, answered"),
    "rounds": ("round", "messages, head"),
    "seals": ("member", "message"),
    "heard": ("place", "message"),
    "masks": ("place", "secret, message"),
    "keys": ("member", "message"),
    "demands": ("round", "demand, said"),
    "parts": ("place", "quota, payment, uncut"),
    "commitments": ("member", "message"),
    "openings": ("place", "numbers, blindings, message"),
}
"""The tables with checksums: the column that numbers the rows of a session from 0, the content."""

_WITHOUT_ROWID = ("releases", "masks", "demands")
"""Tables with short rows that a release writes: one page less to flush."""


def _schema() -> Iterator[str]:
    yield from _SCHEMA.split(";")
    for table, (number, columns) in _MESSAGE_TABLES.items():
        content = columns.replace(",", " BLOB NOT NULL,")
        yield (
            f"CREATE TABLE {table} (session INTEGER, {number} INTEGER, {content} BLOB NOT NULL, "
            f"checksum BLOB NOT NULL, PRIMARY KEY (session, {number}))"
            + (" WITHOUT ROWID" if table in _WITHOUT_ROWID else "")
        )


_HINTS = {
    "SQLITE_FULL": "free some disk space, then run the same command: what was recorded is safe",
    "SQLITE_READONLY": "allow writing to the file and to its folder",
    "SQLITE_IOERR": "the disk fails or is full; when it works again, run the same command",
    "SQLITE_CORRUPT": "it is damaged; restore the newest copy",
    "SQLITE_NOTADB": "it is damaged, or it is not a ledger",
}
"""What to do about an SQLite error, by the beginning of the error's name."""


Kind = type | UnionType
"""The Python type of the values of a column."""


class Extent(NamedTuple):
    """Which ledger this is, and how far it goes."""

    #: Drawn when the ledger was made; its copies share it.
    id: bytes
    #: In all sessions together. It only grows.
    releases: int


class Database:
    """An open ledger file, locked for this process. Raises only `BadLedger`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)
        #: Whether a write has failed: nothing may be read or written any more.
        self.failed = False
        #: Whether a `transaction` has begun and not ended.
        self._incomplete = False
        #: Whether this process has the lock: before that, the log may belong to another one.
        self._locked = False
        if self.path != ":memory:":
            _restrict_to_owner(self.path)
            keep_private()  # the file may hold mask keys and demands
        try:
            self._base = sqlite3.connect(self.path, isolation_level=None, timeout=0.2)
            try:
                self._prepare()
                self._locked = True
                self.wipe()  # a killed process may have deleted secrets without wiping them
            except BaseException:
                self.close()
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._unusable(error) from None

    def _prepare(self) -> None:
        """Lock and check the file; create the tables in a new one."""
        run = self._base.execute
        run("PRAGMA locking_mode = EXCLUSIVE")  # held until the process ends, however it ends
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("PRAGMA secure_delete = ON")  # SQLite overwrites deleted rows
        run("PRAGMA temp_store = MEMORY")  # a machine may have no folder for temporary files
        run(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        run("BEGIN EXCLUSIVE")
        if run("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise self.damaged("its tables contradict each other")
        version = run("PRAGMA user_version").fetchone()[0]
        if version == 0:
            for statement in _schema():
                run(statement)
            run(f"PRAGMA user_version = {_VERSION}")
        elif version != _VERSION:
            age = "an older" if version < _VERSION else "a newer"
            # So that `close` overwrites the log of a killed process, which may hold deleted
            # secrets. SQLite would move its records into the file and only unlink it.
            self._locked = True
            raise BadLedger(
                f"the ledger {self.path!r} has format {version}: {age} version of sotto wrote it. "
                f"This version reads only format {_VERSION}, and changed no record. Use the "
                "version that wrote it. If you must go on with this version, move the ledger away "
                "and run `party restore --accept-loss`: what was spent is then counted nowhere"
            )
        run("COMMIT")

    @property
    def extent(self) -> Extent:
        """The identifier of this ledger, and how many releases it holds."""
        return Extent(self._id(), self.rows("SELECT count(*) FROM releases")[0][0])

    def _id(self) -> bytes:
        rows = self.typed_rows("SELECT id FROM ledger", (bytes,))
        if len(rows) != 1:
            raise self.damaged("its identifier is missing")
        name: bytes = rows[0][0]
        return name

    def insert(self, table: str, session: int, rows: dict[int, Iterable[bytes]]) -> None:
        """Add rows with their checksums, by number. Durable with the next `commit`."""
        number, columns = _MESSAGE_TABLES[table]
        marks = ", ".join("?" for _ in columns.split(","))
        self.write(
            f"INSERT INTO {table} (session, {number}, {columns}, checksum) "  # noqa: S608 - ours
            f"VALUES (?, ?, {marks}, ?)",
            [
                (session, at, *content, _checksum(table, session, at, *content))
                for at, content in rows.items()
            ],
        )

    def select(self, table: str, session: int, at: int | None = None) -> list[tuple[bytes, ...]]:
        """The content of all rows of a session, or of the row with number `at`.

        Guarantee: no row is missing from number 0 on, and each has the bytes that were written.
        """
        number, columns = _MESSAGE_TABLES[table]
        only = "" if at is None else f" AND {number} = {at}"
        rows = self.rows(
            f"SELECT {number}, checksum, {columns} FROM {table} "  # noqa: S608 - ours
            f"WHERE session = ?{only} ORDER BY {number}",
            session,
        )
        for due, (found, checksum, *content) in enumerate(rows, at or 0):
            valid = found == due and all(isinstance(value, bytes) for value in content)
            if not valid or checksum != _checksum(table, session, due, *content):
                raise self.damaged(f"{number} {due} of its {table} is not as it was written")
        return [tuple(content) for _, _, *content in rows]

    def delete(self, session: int, *tables: str) -> None:
        """Delete the rows of a session from these tables. Durable with the next `commit`."""
        for table in tables:
            self.write(f"DELETE FROM {table} WHERE session = ?", [(session,)])  # noqa: S608 - ours

    def wipe(self) -> None:
        """Destroy what was deleted, to the extent that the file system allows.

        SQLite overwrites the pages of the file; then this overwrites the log with their old
        content.
        """
        log = Path(f"{self.path}-wal")
        try:
            if not log.exists() or not log.stat().st_size:
                return
            # After this the file has everything that the log has.
            busy, frames, moved = self._base.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            if busy or frames != moved or frames < 0:
                raise sqlite3.OperationalError("its log cannot be moved into it")
            with log.open("r+b") as file:
                file.write(bytes(log.stat().st_size))
                file.flush()
                os.fsync(file.fileno())
            self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise self._fail(error) from None
        except OSError as error:
            raise self._fail(sqlite3.OperationalError(error.strerror)) from None

    def rows(self, query: str, *values: Any) -> list[Any]:
        """The rows that a query finds."""
        try:
            return self._base.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def typed_rows(self, query: str, kinds: tuple[Kind, ...], *values: Any) -> list[Any]:
        """The rows that a query finds, each value of the kind of its column.

        SQLite keeps a value of any type in any column, so damage can change the type of a number.
        """
        rows = self.rows(query, *values)
        for row in rows:
            if not all(map(isinstance, row, kinds)):
                raise self.damaged("a value of an account or a member has the wrong type")
        return rows

    def write(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run a statement for each row. Durable with the next `commit`."""
        try:
            if not self._base.in_transaction:
                self._base.execute("BEGIN")
            self._base.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._fail(error) from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything written inside durable together.

        Guarantee: if a signal or an error interrupts it, nothing of it is ever committed, even
        where the process goes on and writes how it ended.
        """
        if self._incomplete:
            self.commit()
        self._incomplete = True
        yield
        self._incomplete = False
        self.commit()

    def commit(self) -> None:
        """Make everything written so far durable; undo an interrupted `transaction`."""
        try:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK" if self._incomplete else "COMMIT")
        except sqlite3.Error as error:
            raise self._fail(error) from None
        self._incomplete = False

    def copy_into(self, path: Path) -> None:
        """Write all that is committed into an empty file: one file, without deleted content."""
        try:
            self._base.execute("VACUUM INTO ?", (str(path),))
        except sqlite3.Error as error:
            raise BadLedger(f"the copy {str(path)!r} cannot be written: {error}") from None

    def close(self) -> None:
        """Close the file. What was not committed is lost.

        SQLite only unlinks its log, so this wipes it first where that is possible.
        """
        if self._locked and not self.failed:
            self._locked = False
            with suppress(BadLedger, sqlite3.Error):
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                self.wipe()
        self._base.close()

    def damaged(self, how: str) -> BadLedger:
        """The error for a file that holds something other than what was written."""
        return BadLedger(
            f"the ledger {self.path!r} is damaged: {how}; restore the newest copy, with its "
            "-wal file if there is one"
        )

    def _fail(self, error: sqlite3.Error) -> BadLedger:
        self.failed = True
        self.close()
        return self._unusable(error)

    def _unusable(self, error: Exception) -> BadLedger:
        if "locked" in str(error):
            return LedgerInUse(
                f"the ledger {self.path!r} is in use by another process; end that process first. "
                "If it is `party join`, stop it with Ctrl-C; the same command resumes later"
            )
        name = getattr(error, "sqlite_errorname", "")
        hints = [f"; {hint}" for code, hint in _HINTS.items() if name.startswith(code)]
        return BadLedger(f"the ledger {self.path!r} cannot be used: {error}{''.join(hints)}")


def _restrict_to_owner(path: str) -> None:
    """Deny other users the file and its log; SQLite gives a new log the mode of the file.

    An existing file is not opened here: closing it again would release the lock on it.
    """
    with suppress(OSError):  # SQLite then reports what is wrong
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        for file in (path, f"{path}-wal"):
            if Path(file).exists():
                Path(file).chmod(0o600)


def _checksum(table: str, session: int, number: int, *content: bytes) -> bytes:
    """Detects damage, not manipulation: anyone who can write the file can write this too."""
    digest = hashlib.blake2b(f"{table} {session} {number}".encode(), digest_size=_CHECKSUM_BYTES)
    for value in content:
        digest.update(len(value).to_bytes(8, "big"))
        digest.update(value)
    return digest.digest()
