"""All that can be known to be wrong before joining, found without sending anything.

Says what it found line by line, and raises what `party join` would. The lines hold private
numbers, the size of the model and what it earns alone: they are for the operator's terminal
only, and go into no file, message or error.
"""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from party import keys
from party.ledger import accounts as lifetime
from party.ledger import budget
from party.model import company_model
from party.model.best_response import (
    USUAL,
    MipLimits,
    Subproblem,
    subproblem,
)
from party.model.company_model import CompanyModel
from party.release.pacing import solving_seconds
from party.settlement.settle import plan_within
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts, quantities
from protocol.errors import BadKey
from protocol.outcome.payments import endowment
from protocol.rounds import RoundEngine


def check(
    agreement: Agreement,
    member: str,
    *,
    model: Path,
    key: Path | None,
    ledger: Path | None,
    data_set: str | None,
    effort: MipLimits = USUAL,
) -> Iterator[str]:
    """What is in order, a line at a time. Raises at the first thing that is not."""
    agreement.place(member)
    RoundEngine(agreement)  # its noise and its steps can be computed
    yield f"agreement  {agreement.session}: valid, {member!r} is a member"
    yield f"           digest {agreement.digest.hex()}"
    data = company_model.read(model, agreement)
    yield (
        f"model      {data.columns} columns, {data.private_rows} private rows, all "
        f"{data.resources} shared resources found"
    )
    if seen := company_model.seen_by_others(model):
        yield f"           {seen}"
    yield f"           read as: {'minimise' if data.minimises else 'maximise'}{_kind(data)}"
    problem = subproblem(data, agreement, member, effort)
    yield "           feasible and bounded at every price"
    if takes_nothing(problem, data):
        yield "           takes NOTHING even for free: has the file lost its maximise?"
    yield _alone(data, agreement, member, effort)
    yield _pace(problem, data, agreement)
    if key:
        who = keys.load(key)
        if who.name != member:
            raise BadKey(f"the key file {str(key)!r} is that of {who.name!r}, not of {member!r}")
        who.belongs_to(agreement)
        yield "key        is the one in the agreement"
    found = ledger is not None and ledger.exists()
    if key and ledger and not agreement.rehearsal:
        lifetime.require_only(key, ledger, lifetime.ledger_id(ledger) if found else None)
    if ledger and found:
        yield from _budget(ledger, agreement, data_set)
    told = "what all can see" if agreement.privacy is None else "what the noise will do"
    yield f"nothing known to be wrong; `protocol plan` says {told}"


def _kind(data: CompanyModel) -> str:
    """What beside a linear program it is. Whole numbers from 0 to 1 are often meant otherwise."""
    if data.quadratic is not None:
        return ", with a quadratic objective"
    if data.whole is None:
        return ""
    binary = np.count_nonzero(data.whole & (data.lower == 0.0) & (data.upper == 1.0))
    return f", {np.count_nonzero(data.whole)} columns in whole numbers, {binary} of them 0 or 1"


def _alone(data: CompanyModel, agreement: Agreement, member: str, effort: MipLimits) -> str:
    """What the company would make of what it has without the others. Secret."""
    row = agreement.place(member)
    stated = "endowment" if agreement.members[row].endowment else "split by shares"
    brought = amounts(agreement, endowment(agreement)[row], row)
    plan = plan_within(data, brought, effort, quantities(agreement).floor[row])
    if plan is None:
        return f"alone      with its {stated} its minimum does NOT fit: it depends on its quota"
    value = -plan.utility if data.minimises else plan.utility
    earns = f"{'costs' if data.minimises else 'earns'} {value:.6g} {agreement.currency}".rstrip()
    return f"alone      with its {stated} it {earns}, and its minimum fits"


def _pace(problem: Subproblem, data: CompanyModel, agreement: Agreement) -> str:
    """Which pace the model needs, from its answers to many prices. Secret."""
    slowest, count = slowest_answer(problem, data)
    took = f"its slowest of {count} answers took {slowest:.2g} s"
    needs, agreed = f"{pace_for(slowest):g} s", agreement.pace_seconds
    if agreed is None:
        return f"pace       none is agreed; {took}, and {needs} would do"
    if agreed >= pace_for(slowest):
        return f"pace       {agreed:g} s is enough: {took}"
    missed = "no demand" if data.whole is None else "the best that was found by then"
    if solving_seconds(agreed) > slowest:
        return f"pace       {agreed:g} s may do: {took}; {needs} would be safe on a busy machine"
    return (
        f"pace       {agreed:g} s is TOO SHORT: {took}, and one that is not ready counts as "
        f"{missed}; ask the convener for {needs}"
    )


def _budget(path: Path, agreement: Agreement, data_set: str | None) -> Iterator[str]:
    """What the data set has spent; refuses what `party join` would refuse."""
    accounts, limits = lifetime.accounts(path)
    this = next((a for a in accounts if a.agreement == agreement.digest), None)
    if this is None or not this.releases:
        accounts = tuple(a for a in accounts if a is not this)
        this = budget.opened(agreement, data_set)
        accounts = (*accounts, this)
    lifetime.require_same(this.session, this.data_set, data_set)
    kept = limits.get(this.data_set)
    limit = budget.limited(accounts, agreement.digest, asked=None, kept=kept)
    delta = limit.delta if limit else this.delta or budget.DELTA
    so_far = budget.in_words(budget.spent(accounts, this.data_set), delta)
    yield f"budget     data set {this.data_set!r} has spent {so_far}"
    budget.require_room(accounts, agreement.digest, this.data_set, limit)
    after = budget.spent([a for a in accounts if a is not this], this.data_set) + this.agreed
    yield f"           and with all of this session {budget.in_words(after, delta)}"
    everything = math.isinf(after.mu_squared)
    colluders = budget.colluding(accounts, this.data_set)
    told = budget.statement(this.data_set, limit, everything=everything, colluders=colluders)
    yield f"           {told}"


_ROOM = 4.0  # how much longer a pace should be than the slowest answer that was seen


_LEAST_SECONDS = 0.05  # no shorter pace is ever proposed: disks and schedulers need some of it


def pace_for(slowest_seconds: float) -> float:
    """A pace that gives a model whose slowest answer took so long room to spare, in two digits."""
    wanted = max(_LEAST_SECONDS, _ROOM * slowest_seconds)
    digit = 10.0 ** (math.floor(math.log10(wanted)) - 1)
    return float(f"{math.ceil(wanted / digit - 1e-9) * digit:.6g}")


_PRICES, _PRICES_SECONDS = 100, 20.0  # to ask a model for its slowest answer, and for how long


def takes_nothing(problem: Subproblem, data: CompanyModel) -> bool:
    """Whether the company wants none of the resources at price 0: a sign of a mistaken model."""
    answer = problem.answer(np.zeros(data.resources))
    return answer is not None and not answer.demand.any()


def slowest_answer(problem: Subproblem, data: CompanyModel) -> tuple[float, int]:
    """How many seconds the slowest answer took of so many, to prices far apart. Secret.

    From nothing to where nobody would pay for anything; fewer where answers take long.
    """
    dearest = np.ones(data.resources)
    columns = np.repeat(np.arange(data.columns), np.diff(data.start))
    shared = (data.index < data.resources) & (data.value != 0.0)
    worth = np.abs(data.utility[columns[shared]] / data.value[shared])
    np.maximum.at(dearest, data.index[shared], worth)
    steps = np.sqrt(np.arange(2.0, data.resources + 2.0))  # far apart, and the same every time
    slowest, began = 0.0, time.perf_counter()
    for number in range(1, _PRICES + 1):
        asked = time.perf_counter()
        problem.answer(dearest * np.modf(number * steps)[0] ** 3)
        now = time.perf_counter()
        slowest = max(slowest, now - asked)
        if now - began > _PRICES_SECONDS:
            break
    return slowest, number
