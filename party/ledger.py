"""The durable memory of one party: what it released, which rounds are closed, what it spent.

A release is on the disk before anybody else can see it, and what is there is never changed
or taken away. One file holds all sessions of a party, and the limits it has set for itself.
Un-noised numbers never come here.
"""

import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from party.budget import Account, Limit, opened
from protocol.agreement import Agreement
from protocol.errors import BadLedger, BadMessage, BrokenInvariant, SottoError
from protocol.messages import Signed
from protocol.privacy import Discreteness, Spent
from protocol.transcript import Transcript, frame
from protocol.wire import Reader, release_bytes

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


class Ledger:
    """A party's ledger, opened for one session. Only one process can have it open.

    `path` is a file, or `":memory:"` for a simulation that need not survive. `data_set` says
    on whose budget the session goes, where the company tells its data sets apart.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        agreement: Agreement,
        member: str,
        *,
        data_set: str | None = None,
    ) -> None:
        self._path = str(path)
        self._agreement = agreement
        self._reader = Reader(agreement)
        self._failed = False
        self._base = _opened(self._path)
        try:
            self._prepare(member, data_set)
        except BaseException as error:
            self._base.close()  # so that a ledger that was refused is not locked as well
            if isinstance(error, sqlite3.Error):
                raise _unusable(self._path, error) from None
            raise

    def _prepare(self, member: str, data_set: str | None) -> None:
        run, agreement = self._base.execute, self._agreement
        account = opened(agreement, data_set)
        each = account.per_release
        run("BEGIN EXCLUSIVE")
        run(
            "INSERT OR IGNORE INTO sessions (agreement, name, member, data_set, rounds, epsilon, "
            "delta, release_mu_squared, release_epsilon, release_delta) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                account.agreement,
                account.session,
                member,
                account.data_set,
                account.rounds,
                account.epsilon,
                account.delta,
                each.mu_squared,
                each.discreteness.epsilon,
                each.discreteness.delta,
            ),
        )
        self._session, owner, self.data_set = run(
            "SELECT id, member, data_set FROM sessions WHERE agreement = ?", (agreement.digest,)
        ).fetchone()
        self._released, self._rounds_closed = run(
            "SELECT (SELECT count(*) FROM releases WHERE session = ?1), "
            "(SELECT count(*) FROM rounds WHERE session = ?1)",
            (self._session,),
        ).fetchone()
        run("COMMIT")
        if owner != member:
            raise BadLedger(
                f"the ledger {self._path!r} belongs to {owner!r} in this session, not to {member!r}"
            )
        if data_set not in (None, self.data_set):
            raise BadLedger(
                f"the session {agreement.session!r} was begun with the data set "
                f"{self.data_set!r}, not with {data_set!r}; what was released stays counted there"
            )

    def accounts(self) -> tuple[Account, ...]:
        """What every session in this ledger has spent, this one included."""
        return _accounts(self._base, self._path)

    def set_limit(self, limit: Limit) -> None:
        """Remember how much this session's data set may ever spend."""
        _set_limit(self._base, self._path, self.data_set, limit)

    def limit(self) -> Limit | None:
        """The limit that the company has set for this session's data set."""
        return _limits(self._base, self._path).get(self.data_set)

    def release(self, round: int) -> Signed | None:  # noqa: A002
        """What was released in this round, or None."""
        if round >= self._released and not self._failed:
            return None
        found = self._rows("SELECT message FROM releases WHERE session = ? AND round = ?", round)
        return self._open(found[0][0]) if found else None

    def record_release(self, release: Signed) -> None:
        """Make a release durable, with whatever was recorded before it.

        Guarantee: when this returns, the release survives any crash; a round that has one
        cannot get another.
        """
        if release.message.round != self._released:
            raise BrokenInvariant(
                f"release {release.message.round} would follow {self._released} recorded ones"
            )
        self._write(
            "INSERT INTO releases VALUES (?, ?, ?)", [(release.message.round, release.data)]
        )
        self.commit()
        self._released += 1

    def record_round(self, round: int, releases: tuple[Signed, ...]) -> None:  # noqa: A002
        """Keep a closed round. Durable with the next `record_release` or `commit`."""
        if round != self._rounds_closed:
            raise BrokenInvariant(f"round {round} would follow {self._rounds_closed} closed ones")
        data = b"".join(r.data for r in releases)  # all have the same length
        self._write("INSERT INTO rounds VALUES (?, ?, ?)", [(round, data)])
        self._rounds_closed += 1

    def record_seals(self, seals: tuple[Signed, ...]) -> None:
        """Keep the seals of all members: the session is over."""
        rows = list(enumerate(s.data for s in seals))
        self._write("INSERT OR REPLACE INTO seals VALUES (?, ?, ?)", rows)
        self.commit()

    def record_fault(self, error: SottoError) -> None:
        """Remember why this session is over for good."""
        self._write(
            "UPDATE sessions SET fault_code = ?2, fault = ?3 WHERE id = ?1",
            [(error.exit_code, str(error))],
        )
        self.commit()

    @property
    def fault(self) -> SottoError | None:
        """Why the session was stopped for good, or None."""
        code, text = self._rows("SELECT fault_code, fault FROM sessions WHERE id = ?")[0]
        if text is None:
            return None
        error = SottoError(f"this session is over: {text}")
        error.exit_code = code
        return error

    def own(self) -> tuple[Signed, ...]:
        """All own releases of this session."""
        rows = self._rows("SELECT message FROM releases WHERE session = ? ORDER BY round")
        return tuple(self._open(row[0]) for row in rows)

    def transcript(self) -> Transcript:
        """All closed rounds, and the seals where the session is over."""
        rounds, seals = self._said()
        return Transcript(
            rounds=tuple(tuple(map(self._open, messages)) for messages in rounds),
            seals=tuple(map(self._open, seals)),
        )

    def transcript_file(self) -> bytes:
        """The same, as the file that anybody can audit."""
        return frame(self._agreement, *self._said())

    def _said(self) -> tuple[list[list[bytes]], list[bytes]]:
        size = release_bytes(self._agreement)
        rounds = self._rows(
            "SELECT CAST(messages AS BLOB) FROM rounds WHERE session = ? ORDER BY round"
        )
        seals = self._rows("SELECT message FROM seals WHERE session = ? ORDER BY member")
        return (
            [[row[0][i : i + size] for i in range(0, len(row[0]), size)] for row in rounds],
            [row[0] for row in seals],
        )

    def record_addresses(self, addresses: dict[str, str]) -> None:
        """Remember where the members of a mesh listen, so that a restart finds them."""
        self._write("INSERT OR REPLACE INTO addresses VALUES (?, ?, ?)", addresses.items())
        self.commit()

    def addresses(self) -> dict[str, str]:
        """Where the members were last known to listen."""
        return dict(self._rows("SELECT member, address FROM addresses WHERE session = ?"))

    def commit(self) -> None:
        """Make everything recorded so far durable."""
        try:
            if self._base.in_transaction:
                self._base.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._broken_by(error) from None

    def close(self) -> None:
        if not self._failed:
            self.commit()
        self._base.close()

    def _open(self, data: bytes) -> Signed:
        try:
            return self._reader.unpack(data, verified=True)
        except (BadMessage, TypeError) as error:
            raise BadLedger(f"the ledger {self._path!r} is damaged: {error}") from None

    def _broken_by(self, error: sqlite3.Error) -> BadLedger:
        """After a failed write nothing more is read: it may not be on the disk."""
        self._failed = True
        self._base.close()
        return _unusable(self._path, error)

    def _rows(self, query: str, *more: Any) -> list[Any]:
        try:
            return self._base.execute(query, (self._session, *more)).fetchall()
        except sqlite3.Error as error:
            raise _unusable(self._path, error) from None

    def _write(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        try:
            if not self._base.in_transaction:
                self._base.execute("BEGIN")
            self._base.executemany(statement, [(self._session, *row) for row in rows])
        except sqlite3.Error as error:
            raise self._broken_by(error) from None


def accounts(path: Path) -> tuple[tuple[Account, ...], dict[str, Limit]]:
    """What every session in a ledger has spent, and the limits by data set."""
    base = _existing(path)
    try:
        return _accounts(base, str(path)), _limits(base, str(path))
    finally:
        base.close()


def set_limit(path: Path, data_set: str, limit: Limit) -> None:
    """Remember how much a data set may ever spend."""
    base = _existing(path)
    try:
        _set_limit(base, str(path), data_set, limit)
    finally:
        base.close()


def _set_limit(base: sqlite3.Connection, path: str, data_set: str, limit: Limit) -> None:
    try:
        base.execute(
            "INSERT OR REPLACE INTO limits VALUES (?, ?, ?)",
            (data_set, limit.epsilon, limit.delta),
        )
    except sqlite3.Error as error:
        raise _unusable(path, error) from None


def _existing(path: Path) -> sqlite3.Connection:
    if not path.is_file() or not path.stat().st_size:
        raise BadLedger(f"there is no ledger {str(path)!r}; `party join` makes it")
    return _opened(str(path))


def _opened(path: str) -> sqlite3.Connection:
    """A ledger file with its tables, for this process alone."""
    try:
        base = sqlite3.connect(path, isolation_level=None, timeout=0.2)
        try:
            _check(base, path)
        except BaseException:
            base.close()
            raise
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _unusable(path, error) from None
    return base


def _check(base: sqlite3.Connection, path: str) -> None:
    run = base.execute
    run("PRAGMA locking_mode = EXCLUSIVE")  # held until the process ends, however it ends
    run("PRAGMA journal_mode = WAL")
    run("PRAGMA synchronous = FULL")
    run(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
    run("BEGIN EXCLUSIVE")
    if run("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
        raise BadLedger(f"the ledger {path!r} is damaged; bring back the newest copy")
    version = run("PRAGMA user_version").fetchone()[0]
    if version == 0:
        for statement in _TABLES.split(";"):
            run(statement)
        run(f"PRAGMA user_version = {_VERSION}")
    elif version != _VERSION:
        raise BadLedger(
            f"the ledger {path!r} is of version {version}, this program reads {_VERSION}"
        )
    run("COMMIT")


def _query(base: sqlite3.Connection, path: str, question: str) -> list[Any]:
    try:
        return base.execute(question).fetchall()
    except sqlite3.Error as error:
        raise _unusable(path, error) from None


def _unusable(path: str, error: Exception) -> BadLedger:
    if "locked" in str(error):
        return BadLedger(f"the ledger {path!r} is in use by another process; end that one first")
    return BadLedger(f"the ledger {path!r} cannot be used: {error}")


def _accounts(base: sqlite3.Connection, path: str) -> tuple[Account, ...]:
    rows = _query(
        base,
        path,
        "SELECT agreement, name, data_set, rounds, "
        "(SELECT count(*) FROM releases WHERE session = sessions.id), "
        "epsilon, delta, release_mu_squared, release_epsilon, release_delta "
        "FROM sessions ORDER BY id",
    )
    return tuple(
        Account(
            agreement=agreement,
            session=name,
            data_set=data_set,
            rounds=rounds,
            releases=releases,
            epsilon=epsilon,
            delta=delta,
            per_release=Spent(mu_squared, Discreteness(cost_epsilon, cost_delta)),
        )
        for (
            agreement, name, data_set, rounds, releases, epsilon, delta, mu_squared, cost_epsilon,
            cost_delta,
        ) in rows
    )  # fmt: skip


def _limits(base: sqlite3.Connection, path: str) -> dict[str, Limit]:
    rows = _query(base, path, "SELECT data_set, epsilon, delta FROM limits")
    return {data_set: Limit(epsilon, delta) for data_set, epsilon, delta in rows}
