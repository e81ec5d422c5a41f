"""The lifetime accounts in a ledger file: what each session may cost, what it released, the limits.

Every session has its account before it releases anything, and no account is ever taken away
or made smaller: what a data set has spent stays spent. Public numbers only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from party.budget import Account, Limit
from party.ledgerfile import LedgerFile
from protocol.agreement import Agreement
from protocol.errors import BadLedger
from protocol.privacy import Discreteness, Spent


def accounts(path: Path) -> tuple[tuple[Account, ...], dict[str, Limit]]:
    """What every session in a ledger has spent, and the limits by data set."""
    with _existing(path) as file:
        return accounts_in(file), limits_in(file)


def set_limit(path: Path, data_set: str, limit: Limit) -> None:
    """Remember how much a data set may ever spend."""
    with _existing(path) as file:
        set_limit_in(file, data_set, limit)


def played(path: Path, agreement: Agreement) -> tuple[str, str]:
    """As whom, and with which data set, a ledger has taken part in a session."""
    with _existing(path) as file:
        found = file.rows(
            "SELECT member, data_set FROM sessions WHERE agreement = ?", agreement.digest
        )
        names = [name for (name,) in file.rows("SELECT name FROM sessions ORDER BY id")]
    if not found:
        raise BadLedger(
            f"the ledger {str(path)!r} has no session of this agreement, {agreement.digest.hex()}; "
            f"it has {', '.join(map(repr, names)) or 'none'}"
        )
    member, data_set = found[0]
    return member, data_set


@contextmanager
def _existing(path: Path) -> Iterator[LedgerFile]:
    if not path.is_file() or not path.stat().st_size:
        raise BadLedger(f"there is no ledger {str(path)!r}; `party join` makes it")
    file = LedgerFile(path)
    try:
        yield file
    finally:
        file.close()


def enter(file: LedgerFile, account: Account, member: str) -> None:
    """Open the account of a session, unless it has one.

    As long as nothing was released, the data set is the one that was named last.
    """
    each = account.per_release
    file.write(
        "INSERT INTO sessions (agreement, name, member, data_set, rounds, epsilon, "
        "delta, release_mu_squared, reserve, release_factor, colluders) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agreement) DO UPDATE "
        "SET data_set = excluded.data_set WHERE member = excluded.member "
        "AND NOT EXISTS (SELECT * FROM releases WHERE session = sessions.id)",
        [
            (
                account.agreement, account.session, member, account.data_set, account.rounds,
                account.epsilon, account.delta, each.mu_squared, each.discreteness.reserve,
                each.discreteness.factor, account.colluders,
            )
        ],
    )  # fmt: skip
    file.commit()


def require_same(session: str, begun: str, wanted: str | None) -> None:
    """Refuse to go on with another data set than the one that a session has released of."""
    if wanted not in (None, begun):
        raise BadLedger(
            f"the session {session!r} was begun with the data set {begun!r}, not with {wanted!r}; "
            "what was released stays counted there"
        )


def accounts_in(file: LedgerFile) -> tuple[Account, ...]:
    """What every session in an open ledger has spent."""
    rows = file.rows(
        "SELECT agreement, name, data_set, rounds, "
        "(SELECT count(*) FROM releases WHERE session = sessions.id), "
        "epsilon, delta, release_mu_squared, reserve, release_factor, colluders "
        "FROM sessions ORDER BY id"
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
            per_release=Spent(mu_squared, Discreteness(reserve, factor)),
            colluders=colluders,
        )
        for (
            agreement, name, data_set, rounds, releases, epsilon, delta, mu_squared, reserve,
            factor, colluders,
        ) in rows
    )  # fmt: skip


def limits_in(file: LedgerFile) -> dict[str, Limit]:
    """The most that each data set of an open ledger may ever spend, where it has a limit."""
    rows = file.rows("SELECT data_set, epsilon, delta FROM limits")
    return {data_set: Limit(epsilon, delta) for data_set, epsilon, delta in rows}


def set_limit_in(file: LedgerFile, data_set: str, limit: Limit) -> None:
    """Remember in an open ledger how much a data set may ever spend."""
    row = data_set, limit.epsilon, limit.delta
    file.write("INSERT OR REPLACE INTO limits VALUES (?, ?, ?)", [row])
    file.commit()
