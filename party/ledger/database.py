"""The file of a ledger: its tables, its lock, and what is said when it cannot be used.

The ledger of a session and the lifetime accounts both stand on it. One process at a time has
it open; what is committed survives any crash, and after a failed write nothing more is read,
for it may not be on the disk. What was said in a session stands beside its checksum, so that a
disk that gives back other bytes than it got is found out here, and never by other members.
"""

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from protocol.errors import BadLedger, Diverged
from protocol.runtime.process_memory import keep_private

_VERSION = 7
_WAL_PAGES = 200  # then the log begins anew: to overwrite is cheaper than to let it grow
_CHECKSUM_BYTES = 16

NO_ANSWER, ANSWER, ANSWER_UNKNOWN = b"\0", b"\1", b"\2"
"""Whether the solver had an answer for a release. Older ledgers did not note it."""

_ACCOUNTS = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, agreement BLOB NOT NULL UNIQUE, name TEXT NOT NULL,
    member TEXT NOT NULL, data_set TEXT NOT NULL, rounds INTEGER NOT NULL,
    epsilon REAL, delta REAL,
    release_mu_squared REAL NOT NULL, reserve REAL NOT NULL, release_factor REAL NOT NULL,
    fault_code INTEGER, fault TEXT, colluders INTEGER
);
CREATE TABLE limits (
    data_set TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL,
    asked INTEGER NOT NULL DEFAULT 1, accountant TEXT, factor REAL,
    fixed_epsilon REAL, fixed_delta REAL
);
CREATE TABLE addresses (
    session INTEGER, member TEXT, address TEXT NOT NULL, PRIMARY KEY (session, member)
);
"""
_SAID = """
CREATE TABLE releases (
    session INTEGER, round INTEGER, message BLOB NOT NULL, checksum BLOB NOT NULL,
    PRIMARY KEY (session, round)
) WITHOUT ROWID;
CREATE TABLE rounds (
    session INTEGER, round INTEGER, messages BLOB NOT NULL, head BLOB NOT NULL,
    checksum BLOB NOT NULL, PRIMARY KEY (session, round)
);
CREATE TABLE seals (
    session INTEGER, member INTEGER, message BLOB NOT NULL, checksum BLOB NOT NULL,
    PRIMARY KEY (session, member)
);
CREATE TABLE heard (
    session INTEGER, place INTEGER, message BLOB NOT NULL, checksum BLOB NOT NULL,
    PRIMARY KEY (session, place)
);
"""
_MASKS = """
CREATE TABLE masks (
    session INTEGER, place INTEGER, secret BLOB NOT NULL, message BLOB NOT NULL,
    checksum BLOB NOT NULL, PRIMARY KEY (session, place)
) WITHOUT ROWID;
CREATE TABLE keys (
    session INTEGER, member INTEGER, message BLOB NOT NULL, checksum BLOB NOT NULL,
    PRIMARY KEY (session, member)
);
CREATE TABLE demands (
    session INTEGER, round INTEGER, demand BLOB NOT NULL, said BLOB NOT NULL,
    checksum BLOB NOT NULL, PRIMARY KEY (session, round)
) WITHOUT ROWID;
CREATE TABLE parts (
    session INTEGER, place INTEGER, quota BLOB NOT NULL, payment BLOB NOT NULL,
    checksum BLOB NOT NULL, PRIMARY KEY (session, place)
);
"""
_ANSWERS = """
CREATE TABLE answers (
    session INTEGER, round INTEGER, answered BLOB NOT NULL, checksum BLOB NOT NULL,
    PRIMARY KEY (session, round)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS waits (
    session INTEGER, member TEXT, seconds REAL NOT NULL, longest REAL NOT NULL,
    last INTEGER NOT NULL, PRIMARY KEY (session, member)
) WITHOUT ROWID;
"""
"""Whether the company's solver had an answer in each round, and how long others were waited for."""

_NAMED = """
CREATE TABLE ledger (id BLOB NOT NULL);
INSERT INTO ledger VALUES (randomblob(16));
"""
_COLLUDERS = "ALTER TABLE sessions ADD COLUMN colluders INTEGER;"
_WHOLE_TICKS = """
ALTER TABLE sessions RENAME COLUMN release_epsilon TO reserve;
ALTER TABLE sessions RENAME COLUMN release_delta TO release_factor;
UPDATE sessions SET release_factor = CASE WHEN release_factor = 0 THEN 0.0 ELSE 1e-19 END,
    reserve = CASE WHEN release_factor = 0 THEN 0.0 WHEN release_factor >= 1 THEN 9e999
        ELSE 64 * release_factor * release_mu_squared END;
"""
"""What whole ticks cost, as it is counted now.

Before, a release cost some ε and some δ for them. That δ was at least 1/16σ² for the smallest σ,
which was 3 or more, or the δ was 1. PRIVACY.md §6 says why these figures cover such releases.
"""

_FIXED_LIMITS = """
ALTER TABLE limits ADD COLUMN asked INTEGER NOT NULL DEFAULT 1;
ALTER TABLE limits ADD COLUMN accountant TEXT;
ALTER TABLE limits ADD COLUMN factor REAL;
ALTER TABLE limits ADD COLUMN fixed_epsilon REAL;
ALTER TABLE limits ADD COLUMN fixed_delta REAL;
UPDATE limits SET fixed_epsilon = epsilon, fixed_delta = delta WHERE NOT EXISTS (
    SELECT * FROM releases JOIN sessions ON sessions.id = releases.session
    WHERE sessions.data_set = limits.data_set
);
"""
"""Before, nobody noted when a limit was set: it is fixed beforehand if nothing was released yet."""

_COLUMNS = {
    "releases": ("round", "message"),
    "rounds": ("round", "messages, head"),
    "seals": ("member", "message"),
    "heard": ("place", "message"),
    "masks": ("place", "secret, message"),
    "keys": ("member", "message"),
    "demands": ("round", "demand, said"),
    "parts": ("place", "quota, payment"),
    "answers": ("round", "answered"),
}
"""What counts the rows of a session from 0 in each table of what was said, and what they hold."""

_BEFORE = {
    "releases": "SELECT session, round, message FROM releases",
    "rounds": "SELECT session, round, CAST(messages AS BLOB), x'' FROM rounds",
    "seals": "SELECT session, member, message FROM seals",
}
"""How version 2 is read, which kept neither checksums nor the heads of its rounds."""

_HINTS = {
    "SQLITE_FULL": "make room there: what was recorded is safe, and the same command goes on",
    "SQLITE_READONLY": "neither it nor its folder may be closed to writing",
    "SQLITE_IOERR": "its disk fails, or has no room; the same command goes on when it works again",
    "SQLITE_CORRUPT": "it is damaged; bring back the newest copy",
    "SQLITE_NOTADB": "it is no ledger, or damaged",
}
"""What is known beside SQLite's own words, by the beginning of the name of its error."""


class Database:
    """An open ledger file with its tables, for this process alone. Raises only `BadLedger`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)
        self.failed = False
        self._halfway = False
        self._ours = False  # once it is locked: before that the log may be another process's
        if self.path != ":memory:":
            _keep_to_owner(self.path)
            keep_private()  # it may hold mask keys and demands
        try:
            self._base = sqlite3.connect(self.path, isolation_level=None, timeout=0.2)
            try:
                self._check()
                self._ours = True
                self.scrub()  # a process that was killed may have forgotten, and not destroyed
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
        run("PRAGMA secure_delete = ON")  # what is forgotten is overwritten
        run("PRAGMA temp_store = MEMORY")  # a machine may have no folder for temporary files
        run(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        run("BEGIN EXCLUSIVE")
        if run("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise self.damaged("its tables contradict each other")
        version = run("PRAGMA user_version").fetchone()[0]
        newer = _WHOLE_TICKS + _FIXED_LIMITS + _NAMED + _ANSWERS
        if version == 0:
            self._make(_ACCOUNTS + _SAID + _MASKS + _NAMED + _ANSWERS)
        elif version == 2:
            self._add_checksums()
            self._make(_COLLUDERS + _MASKS + newer)
        elif version == 3:
            self._make(_COLLUDERS + _MASKS + newer)
        elif version == 4:
            self._make(newer)
        elif version == 5:
            self._make(_FIXED_LIMITS + _NAMED + _ANSWERS)
        elif version == 6:
            self._make(_ANSWERS)
        elif version != _VERSION:
            raise BadLedger(
                f"the ledger {self.path!r} is of version {version}, this program reads {_VERSION}"
            )
        if 0 < version < _VERSION:
            for session, at in run("SELECT session, round FROM releases").fetchall():
                self.keep("answers", session, {at: (ANSWER_UNKNOWN,)})
        run("COMMIT")

    def _make(self, tables: str) -> None:
        for statement in tables.split(";"):
            self._base.execute(statement)
        self._base.execute(f"PRAGMA user_version = {_VERSION}")

    def _add_checksums(self) -> None:
        """Take over a ledger of version 2, at its word: nothing in it was ever checked."""
        said = {table: self._base.execute(query).fetchall() for table, query in _BEFORE.items()}
        # It called final what nobody had proved: without proof the session goes on.
        self.write(
            "UPDATE sessions SET fault_code = NULL, fault = NULL WHERE fault_code = ?",
            [(Diverged.exit_code,)],
        )
        for table in said:
            self._base.execute(f"DROP TABLE {table}")
        self._make(_SAID)
        for table, rows in said.items():
            for session, place, *content in rows:
                self.keep(table, session, {place: content})

    @property
    def id(self) -> bytes:
        """What tells this ledger from all others, and not from its copies."""
        name: bytes = self.rows("SELECT id FROM ledger")[0][0]
        return name

    def keep(self, table: str, session: int, rows: dict[int, Iterable[bytes]]) -> None:
        """Add what was said, by its place in the session. Durable with the next `commit`."""
        place, columns = _COLUMNS[table]
        marks = ", ".join("?" for _ in columns.split(","))
        self.write(
            f"INSERT INTO {table} (session, {place}, {columns}, checksum) "  # noqa: S608 - ours
            f"VALUES (?, ?, {marks}, ?)",
            [
                (session, at, *content, _checksum(table, session, at, *content))
                for at, content in rows.items()
            ],
        )

    def kept(self, table: str, session: int, at: int | None = None) -> list[tuple[bytes, ...]]:
        """What was said in a session, or the part of it at one place, as it was kept.

        Guarantee: all of it is there from place 0 on, with the bytes that were written.
        """
        place, columns = _COLUMNS[table]
        only = "" if at is None else f" AND {place} = {at}"
        rows = self.rows(
            f"SELECT {place}, checksum, {columns} FROM {table} "  # noqa: S608 - ours
            f"WHERE session = ?{only} ORDER BY {place}",
            session,
        )
        for due, (found, checksum, *content) in enumerate(rows, at or 0):
            whole = found == due and all(isinstance(part, bytes) for part in content)
            if not whole or checksum != _checksum(table, session, due, *content):
                raise self.damaged(f"{place} {due} of its {table} is not as it was written")
        return [tuple(content) for _, _, *content in rows]

    def forget(self, session: int, *tables: str) -> None:
        """Take away what a session has in these tables. Durable with the next `commit`."""
        for table in tables:
            self.write(f"DELETE FROM {table} WHERE session = ?", [(session,)])  # noqa: S608 - ours

    def scrub(self) -> None:
        """Destroy what was forgotten, as well as a file system lets.

        The pages of the file are overwritten, and then the log, in which they were before.
        """
        log = Path(f"{self.path}-wal")
        try:
            if not log.exists() or not log.stat().st_size:
                return
            # From now on the file has all of the log, which is needed no more.
            busy, frames, moved = self._base.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            if busy or frames != moved or frames < 0:
                raise sqlite3.OperationalError("its log cannot be moved into it")
            with log.open("r+b") as file:
                file.write(bytes(log.stat().st_size))
                file.flush()
                os.fsync(file.fileno())
            self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise self._broken_by(error) from None
        except OSError as error:
            raise self._broken_by(sqlite3.OperationalError(error.strerror)) from None

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

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Make durable, together, what is written within.

        Guarantee: where it is cut short, by a signal say, nothing of it is ever committed, though
        the process may go on to write down how it ends.
        """
        if self._halfway:
            self.commit()
        self._halfway = True
        yield
        self._halfway = False
        self.commit()

    def commit(self) -> None:
        """Make everything written so far durable; undo what was left halfway."""
        try:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK" if self._halfway else "COMMIT")
        except sqlite3.Error as error:
            raise self._broken_by(error) from None
        self._halfway = False

    def close(self) -> None:
        """Let go of the file. What was not committed is lost.

        SQLite would only unlink its log: it is overwritten before, where that is possible.
        """
        if self._ours and not self.failed:
            self._ours = False
            with suppress(BadLedger, sqlite3.Error):
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                self.scrub()
        self._base.close()

    def damaged(self, how: str) -> BadLedger:
        """What to raise where the file holds something else than was written."""
        return BadLedger(
            f"the ledger {self.path!r} is damaged: {how}; bring back the newest copy, with its "
            "-wal file where there is one"
        )

    def _broken_by(self, error: sqlite3.Error) -> BadLedger:
        self.failed = True
        self.close()
        return self._unusable(error)

    def _unusable(self, error: Exception) -> BadLedger:
        if "locked" in str(error):
            return BadLedger(
                f"the ledger {self.path!r} is in use by another process; end that one first"
            )
        name = getattr(error, "sqlite_errorname", "")
        hints = [f"; {hint}" for code, hint in _HINTS.items() if name.startswith(code)]
        return BadLedger(f"the ledger {self.path!r} cannot be used: {error}{''.join(hints)}")


def _keep_to_owner(path: str) -> None:
    """Let nobody else read the file, nor the log beside it, which SQLite makes like it.

    An old one is not opened for that: to close it again would undo the lock on it.
    """
    with suppress(OSError):  # where it cannot be done, SQLite says what is wrong
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        for file in (path, f"{path}-wal"):
            if Path(file).exists():
                Path(file).chmod(0o600)


def _checksum(table: str, session: int, place: int, *content: bytes) -> bytes:
    """Finds damage, not malice: whoever can write the file can write this too."""
    digest = hashlib.blake2b(f"{table} {session} {place}".encode(), digest_size=_CHECKSUM_BYTES)
    for part in content:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
