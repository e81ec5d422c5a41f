"""The part of `party check` that looks at the company's key, its ledger and its privacy budget.

It writes nothing and raises what `party join` would raise.
Never here: the model, or a number of it.
"""

import math
from collections.abc import Iterator
from pathlib import Path

from party import keys
from party.ledger import accounts as lifetime
from party.ledger import budget, budget_marker
from protocol.agreement.model import Agreement
from protocol.errors import BadKey


def check(
    agreement: Agreement,
    member: str,
    *,
    key: Path | None,
    ledger: Path | None,
    data_set: str | None,
) -> Iterator[str]:
    """Yield one line for each thing that is in order, and one with `!` for each doubt."""
    if key:
        identity = keys.load(key)
        if identity.name != member:
            owner = identity.name
            raise BadKey(f"the key file {str(key)!r} is that of {owner!r}, not of {member!r}")
        identity.belongs_to(agreement)
        yield "key        is the one in the agreement"
    exists = ledger is not None and ledger.exists()
    if key and ledger and not agreement.rehearsal:
        budget_marker.require_marked(key, ledger, lifetime.extent(ledger) if exists else None)
    if ledger and exists:
        yield from _budget(ledger, agreement, data_set)


def _budget(path: Path, agreement: Agreement, data_set: str | None) -> Iterator[str]:
    """What the data set has spent. Refuses what `party join` would refuse."""
    accounts, limits = lifetime.accounts(path)
    this = next((a for a in accounts if a.agreement == agreement.digest), None)
    if this is None or not this.releases:
        accounts = tuple(a for a in accounts if a is not this)
        this = budget.opened(agreement, data_set)
        accounts = (*accounts, this)
    lifetime.require_same_data_set(this.session, this.data_set, data_set)
    limit = budget.limit_for_session(
        accounts, agreement.digest, asked=None, stored=limits.get(this.data_set)
    )
    delta = limit.delta if limit else this.delta or budget.DELTA
    spent = budget.in_words(budget.spent(accounts, this.data_set), delta)
    yield f"budget     data set {this.data_set!r} has spent {spent}"
    budget.require_room(accounts, agreement.digest, this.data_set, limit)
    after = budget.spent([a for a in accounts if a is not this], this.data_set) + this.agreed
    yield f"           and with all of this session {budget.in_words(after, delta)}"
    everything = math.isinf(after.mu_squared)
    colluders = budget.colluding(accounts, this.data_set)
    sentence = budget.statement(this.data_set, limit, everything=everything, colluders=colluders)
    yield f"           {sentence}"
    if warning := budget.unprotected(accounts, agreement.digest):
        yield f"!          {warning}"
