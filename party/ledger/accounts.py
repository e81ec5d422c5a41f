"""The lifetime accounts in a ledger file: what each session may cost, what it released, the limits.

Every session has its account before it releases anything, and no account is ever taken away
or made smaller: what a data set has spent stays spent. Two ledgers are two budgets, and neither
knows of the other: so a mark beside the key says which one counts. Public numbers only.
"""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from party.ledger.budget import Account, Limit, limited, released, require_limitable, spent, wished
from party.ledger.database import Database
from protocol.agreement.model import Agreement
from protocol.errors import BadLedger
from protocol.privacy.accountant import IntegerNoiseCost, PrivacyCost
from protocol.runtime.files import replace_private


def accounts(path: Path) -> tuple[tuple[Account, ...], dict[str, Limit]]:
    """What every session in a ledger has spent, and the limits by data set."""
    with _existing(path) as file:
        return accounts_in(file), limits_in(file)


def set_limit(path: Path, data_set: str, asked: Limit) -> None:
    """Remember how much a data set may ever spend."""
    with _existing(path) as file:
        require_limitable(spent(accounts_in(file), data_set), data_set)
        begun = released(accounts_in(file), data_set)
        _keep(file, data_set, wished(asked, limits_in(file).get(data_set), released=begun))


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


def ledger_id(path: Path) -> bytes:
    """What tells a ledger from all others."""
    with _existing(path) as file:
        return file.id


def mark(key: Path) -> Path:
    """The file beside a key that says which ledger counts for it."""
    return key.resolve().with_suffix(".budget")


def require_only(key: Path, path: Path, id: bytes | None) -> None:  # noqa: A002
    """Refuse a second ledger for a key. `id` is that of the ledger, None if it would be a new one.

    A ledger may be moved, and brought back from a copy: it stays the same one. What cannot be
    seen is a key that was copied without its mark, or whose folder cannot be written.
    """
    beside = mark(key)
    try:
        said = json.loads(beside.read_text(encoding="utf-8"))
        counts, where = bytes.fromhex(said["id"]), str(said["ledger"])
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadLedger(
            f"{str(beside)!r} says which ledger counts for this key, and cannot be read: "
            f"{error.strerror}. Make it readable, and give the same command again"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise BadLedger(
            f"{str(beside)!r} is not as it was written; it says which ledger counts for this key. "
            "Bring back a copy, or delete it and name the ledger that was used last"
        ) from None
    if id != counts:
        new = f"there is no ledger {str(path)!r}, and a new one would not be the one"
        raise BadLedger(
            (f"the ledger {str(path)!r} is not the one" if id else new)
            + f" in which this key's sessions are counted: that was last at {where!r}. Two ledgers "
            "are two budgets, and neither knows what the other has spent. Name that one with "
            "--ledger, or where it is now. If it is lost, bring back the newest copy; without any, "
            f"delete {str(beside)!r} on purpose: what was released before is then counted nowhere"
        )


def count_here(key: Path, path: Path, id: bytes) -> None:  # noqa: A002
    """Refuse a second ledger for a key, and mark the first. Of two that come at once one is it."""
    with key.open("rb") as alone:
        with suppress(OSError):  # some file systems have no locks
            fcntl.flock(alone, fcntl.LOCK_EX)
        require_only(key, path, id)
        said = {"ledger": str(path.resolve()), "id": id.hex()}
        beside, text = mark(key), json.dumps(said, indent=2) + "\n"
        with suppress(OSError):  # a folder that is closed to writing cannot have a mark
            if not beside.exists() or beside.read_text(encoding="utf-8") != text:
                replace_private(beside, text)


@contextmanager
def _existing(path: Path) -> Iterator[Database]:
    if not path.is_file() or not path.stat().st_size:
        raise BadLedger(f"there is no ledger {str(path)!r}; `party join` makes it")
    file = Database(path)
    try:
        yield file
    finally:
        file.close()


def enter(file: Database, account: Account, member: str) -> None:
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


def accounts_in(file: Database) -> tuple[Account, ...]:
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
            per_release=PrivacyCost(mu_squared, IntegerNoiseCost(reserve, factor)),
            colluders=colluders,
        )
        for (
            agreement, name, data_set, rounds, releases, epsilon, delta, mu_squared, reserve,
            factor, colluders,
        ) in rows
    )  # fmt: skip


def limits_in(file: Database) -> dict[str, Limit]:
    """The most that each data set of an open ledger may ever spend, where it has a limit."""
    rows = file.rows(
        "SELECT data_set, epsilon, delta, asked, accountant, factor, fixed_epsilon, fixed_delta "
        "FROM limits"
    )
    return {
        data_set: Limit(
            epsilon,
            delta,
            asked=bool(asked),
            accountant=accountant,
            factor=factor,
            fixed=None if fixed[0] is None else (fixed[0], fixed[1]),
        )
        for data_set, epsilon, delta, asked, accountant, factor, *fixed in rows
    }


def fix_limit(file: Database, data_set: str, agreement: bytes, asked: Limit | None) -> Limit | None:
    """Fix the limit of a data set before its session releases anything, and remember it."""
    kept = limits_in(file).get(data_set)
    limit = limited(accounts_in(file), agreement, asked=asked, kept=kept)
    if limit != kept:
        _keep(file, data_set, limit)
    return limit


def _keep(file: Database, data_set: str, limit: Limit | None) -> None:
    with file.whole():
        file.write("DELETE FROM limits WHERE data_set = ?", [(data_set,)])
        if limit is not None:
            kept = limit.epsilon, limit.delta, limit.asked, limit.accountant, limit.factor
            row = data_set, *kept, *(limit.fixed or (None, None))
            file.write(
                "INSERT INTO limits (data_set, epsilon, delta, asked, accountant, factor, "
                "fixed_epsilon, fixed_delta) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [row],
            )
