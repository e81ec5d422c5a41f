"""All that can be known to be wrong before joining, found without sending anything.

Says what it found line by line, and raises what `party join` would. No line holds a private
number but the size of the model, and all of them are for the operator only.
"""

from collections.abc import Iterator
from pathlib import Path

from party import budget, dataset, identity
from party import ledger as ledgers
from party.settle import takes_nothing
from party.subproblem import subproblem
from protocol.agreement import Agreement
from protocol.privacy import Calibration


def check(
    agreement: Agreement,
    member: str,
    *,
    model: Path,
    key: Path | None,
    ledger: Path | None,
    data_set: str | None,
) -> Iterator[str]:
    """What is in order, a line at a time. Raises at the first thing that is not."""
    agreement.place(member)
    yield f"agreement  {agreement.session}: valid, {member!r} is a member"
    yield f"           digest {agreement.digest.hex()}"
    Calibration(agreement)
    data = dataset.read(model, agreement)
    yield (
        f"model      {data.columns} columns, {data.private_rows} private rows, all "
        f"{data.resources} shared resources found"
    )
    problem = subproblem(data, agreement, member)
    yield "           feasible and bounded at every price"
    if takes_nothing(problem, data):
        yield "           takes NOTHING even for free: has the file lost its maximise?"
    if key:
        identity.load(key).belongs_to(agreement)
        yield "key        is the one in the agreement"
    if ledger and ledger.exists():
        yield from _budget(ledger, agreement, data_set)
    yield "nothing known to be wrong; `protocol plan` says what the noise will do"


def _budget(path: Path, agreement: Agreement, data_set: str | None) -> Iterator[str]:
    """What the data set has spent; refuses what `party join` would refuse."""
    accounts, limits = ledgers.accounts(path)
    this = next((a for a in accounts if a.agreement == agreement.digest), None)
    if this is None:
        this = budget.opened(agreement, data_set)
        accounts = (*accounts, this)
    limit = limits.get(this.data_set)
    delta = limit.delta if limit else this.delta or budget.DELTA
    so_far = budget.in_words(budget.spent(accounts, this.data_set), delta)
    yield f"budget     data set {this.data_set!r} has spent {so_far}"
    budget.require_room(accounts, agreement.digest, this.data_set, limit)
    after = budget.spent([a for a in accounts if a is not this], this.data_set) + this.agreed
    yield f"           and with all of this session {budget.in_words(after, delta)}"
