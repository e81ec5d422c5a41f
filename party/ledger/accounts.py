"""The accounts in a ledger file: what each session may cost and has released, and the limits.

A session has its account before it releases anything. No account is ever deleted or reduced:
what a data set has spent stays spent. Public numbers only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from party.ledger import budget
from party.ledger.database import Database, Extent
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand, BadLedger
from protocol.privacy.accountant import IntegerNoiseCost, PrivacyCost


def accounts(path: Path) -> tuple[tuple[budget.Account, ...], dict[str, budget.Limit]]:
    """The accounts of all sessions in a ledger, and the limits by data set."""
    with open_existing(path) as file:
        return accounts_in(file), limits_in(file)


def set_limit(path: Path, data_set: str, asked: budget.Limit) -> None:
    """Store how much a data set may ever spend."""
    with open_existing(path) as file:
        budget.require_limitable(budget.spent(accounts_in(file), data_set), data_set)
        begun = budget.released(accounts_in(file), data_set)
        stored = limits_in(file).get(data_set)
        _store_limit(file, data_set, budget.requested_limit(asked, stored, released=begun))


def find_session(path: Path, agreement: Agreement) -> tuple[str, str]:
    """The member and the data set with which a ledger takes part in a session."""
    with open_existing(path) as file:
        found = file.typed_rows(
            "SELECT member, data_set FROM sessions WHERE agreement = ?",
            (str, str),
            agreement.digest,
        )
        every = file.typed_rows("SELECT name FROM sessions ORDER BY id", (str,))
        names = [name for (name,) in every]
    if not found:
        raise BadLedger(
            f"the ledger {str(path)!r} has no session of this agreement, {agreement.digest.hex()}; "
            f"its sessions: {', '.join(map(repr, names)) or 'none'}. Name another ledger or "
            "agreement"
        )
    member, data_set = found[0]
    return member, data_set


def extent(path: Path) -> Extent:
    """Which ledger a file is, and how far it goes."""
    with open_existing(path) as file:
        return file.extent


@contextmanager
def open_existing(path: Path) -> Iterator[Database]:
    """A ledger that must be there."""
    if not path.is_file() or not path.stat().st_size:
        raise BadLedger(
            f"there is no ledger {str(path)!r}. The first `party join` with a new key creates it; "
            "restore a lost one with `party restore`"
        )
    file = Database(path)
    try:
        yield file
    finally:
        file.close()


_REAL = float | None
_ACCOUNT_FIELDS = (
    "agreement", "session", "data_set", "rounds", "releases", "epsilon", "delta",
    "colluders", "growing",
)  # fmt: skip


def open_account(file: Database, account: budget.Account, member: str) -> None:
    """Open the account of a session, unless it has one.

    Until the first release, the data set that was named last replaces the earlier one.
    """
    each = account.per_release
    file.write(
        "INSERT INTO sessions (agreement, name, member, data_set, rounds, epsilon, "
        "delta, release_mu_squared, reserve, release_factor, colluders, growing) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agreement) DO UPDATE "
        "SET data_set = excluded.data_set WHERE member = excluded.member "
        "AND NOT EXISTS (SELECT * FROM releases WHERE session = sessions.id)",
        [
            (
                account.agreement, account.session, member, account.data_set, account.rounds,
                account.epsilon, account.delta, each.mu_squared, each.discreteness.reserve,
                each.discreteness.factor, account.colluders, account.growing,
            )
        ],
    )  # fmt: skip
    file.commit()


def require_same_data_set(session: str, begun: str, wanted: str | None) -> None:
    """Refuse to resume a session with another data set."""
    if wanted not in (None, begun):
        raise BadLedger(
            f"the session {session!r} was started with the data set {begun!r}, not with "
            f"{wanted!r}. Its releases count there: resume it with --data-set {begun!r}"
        )


def accounts_in(file: Database) -> tuple[budget.Account, ...]:
    """The accounts of all sessions in an open ledger."""
    rows = file.typed_rows(
        "SELECT release_mu_squared, reserve, release_factor, agreement, name, data_set, rounds, "
        "(SELECT count(*) FROM releases WHERE session = sessions.id), epsilon, delta, colluders, "
        "growing FROM sessions ORDER BY id",
        (float, float, float, bytes, str, str, int, int, _REAL, _REAL, int | None, int),
    )
    return tuple(
        budget.Account(
            per_release=PrivacyCost(mu_squared, IntegerNoiseCost(reserve, factor)),
            **dict(zip(_ACCOUNT_FIELDS, (*fields[:-1], bool(fields[-1])), strict=True)),
        )
        for mu_squared, reserve, factor, *fields in rows
    )


def unfinished_in(file: Database) -> tuple[budget.Account, ...]:
    """The accounts of sessions without seals that neither failed nor were abandoned."""
    rows = file.typed_rows(
        "SELECT agreement FROM sessions WHERE fault_code IS NULL "
        "AND NOT EXISTS (SELECT * FROM seals WHERE session = sessions.id)",
        (bytes,),
    )
    agreements = {agreement for (agreement,) in rows}
    return tuple(one for one in accounts_in(file) if one.agreement in agreements)


def limits_in(file: Database) -> dict[str, budget.Limit]:
    """The limits of an open ledger, by data set."""
    rows = file.typed_rows(
        "SELECT data_set, epsilon, delta, asked, accountant, factor, fixed_epsilon, fixed_delta "
        "FROM limits",
        (str, float, float, int, str | None, _REAL, _REAL, _REAL),
    )
    limits = {}
    for data_set, epsilon, delta, asked, accountant, factor, *fixed in rows:
        terms = None if fixed[0] is None else (fixed[0], fixed[1])
        try:
            limit = budget.Limit(epsilon, delta, bool(asked), accountant, factor, terms)
        except BadCommand as error:
            raise file.damaged(str(error)) from None
        limits[data_set] = limit
    return limits


def fix_limit(
    file: Database, data_set: str, agreement: bytes, asked: budget.Limit | None
) -> budget.Limit | None:
    """Fix and store the limit of a data set before its session releases anything."""
    stored = limits_in(file).get(data_set)
    limit = budget.limit_for_session(accounts_in(file), agreement, asked=asked, stored=stored)
    if limit != stored:
        _store_limit(file, data_set, limit)
    return limit


def _store_limit(file: Database, data_set: str, limit: budget.Limit | None) -> None:
    with file.transaction():
        file.write("DELETE FROM limits WHERE data_set = ?", [(data_set,)])
        if limit is not None:
            numbers = limit.epsilon, limit.delta, limit.asked, limit.accountant, limit.factor
            row = data_set, *numbers, *(limit.fixed or (None, None))
            file.write(
                "INSERT INTO limits (data_set, epsilon, delta, asked, accountant, factor, "
                "fixed_epsilon, fixed_delta) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [row],
            )
