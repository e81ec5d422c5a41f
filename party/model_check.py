"""`party check`: finds everything that can be known to be wrong before joining.

It sends nothing and raises what `party join` would raise. Its lines hold private numbers, such as
the size of the model and its value alone: they are for the operator's terminal only.
Never here: a file, a message or an error with such a number.
"""

import math
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from party import keys
from party.ledger import accounts as lifetime
from party.ledger import budget, budget_marker
from party.model import company_model
from party.model.ball_response import Trader
from party.model.best_response import USUAL, MipLimits, Responder, responder, subproblem
from party.model.company_model import CompanyModel, Model
from party.model.shared_rows import OWN_NAMES, RowMap
from party.release.pacing import solving_seconds
from party.settlement.settle import plan_within
from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts, quantities
from protocol.errors import BadKey
from protocol.rounds import RoundEngine

_TRIED_PRICES, _TRIED_SECONDS = 100, 20.0  # to find a model's slowest answer, and for how long
_PACE_MARGIN = 4.0  # how much longer a pace should be than the slowest answer
_SHORTEST_PACE = 0.05  # seconds: disks and schedulers need some of it


def check(
    agreement: Agreement,
    member: str,
    *,
    model: Model,
    key: Path | None,
    ledger: Path | None,
    data_set: str | None,
    mip_limits: MipLimits = USUAL,
    rows: RowMap = OWN_NAMES,
) -> Iterator[str]:
    """Yield one line for each thing that is in order. Raises at the first that is not.

    A line with `!` is a doubt: something that is probably not meant. The last line counts them.
    """
    doubts = 0
    place = agreement.members[agreement.place(member)]
    RoundEngine(agreement)  # its noise and its steps can be computed
    yield f"agreement  {agreement.session}: valid, {member!r} is a member"
    yield f"           digest {agreement.digest.hex()}"
    data = company_model.read(model, agreement, rows)
    for line in chain(
        _model(data, agreement, member, company_model.seen_by_others(model), mip_limits),
        _key_and_ledger(agreement, member, key, ledger, data_set),
    ):
        doubts += line.startswith("!")
        yield line
    if agreement.transport.topology == "mesh" and not place.address:
        doubts += 1
        yield "!mesh      the agreement has no address for you: join with --listen tcp://HOST:PORT"
    if doubts:
        lines = "the line" if doubts == 1 else f"the {doubts} lines"
        yield f"look at {lines} with ! before you join; nothing else is known to be wrong"
        return
    shows = "what all can see" if agreement.privacy is None else "what the noise will do"
    yield f"nothing known to be wrong; `protocol plan` shows {shows}"


def _model(
    data: CompanyModel, agreement: Agreement, member: str, notice: str | None, mip_limits: MipLimits
) -> Iterator[str]:
    """What the model is, earns alone and takes to solve. Secret."""
    yield (
        f"model      {_counted(data.columns, 'column')}, "
        f"{_counted(data.private_rows, 'private row')}, "
        f"{_counted(data.resources, 'shared resource', every='all ')} found"
    )
    if notice:
        yield f"           {notice}"
    yield f"           read as: {'minimise' if data.minimises else 'maximise'}{_kind(data)}"
    problem = responder(data, agreement, member, mip_limits)
    yield "           feasible and bounded at every price"
    if takes_nothing(subproblem(data, agreement, member, mip_limits), data):
        yield "!          takes NOTHING even at price 0: does the file say maximise?"
    if unused := _unused(data, agreement):
        yield f"           never uses {unused}"
    yield _alone(data, agreement, member, mip_limits) + _only_sells(problem)
    yield _pace(problem, data, agreement)


def _counted(count: int, what: str, *, every: str = "") -> str:
    return f"1 {what}" if count == 1 else f"{every}{count} {what}s"


def _kind(data: CompanyModel) -> str:
    """What the model has beside a linear program: a file often declares binaries by mistake."""
    if data.quadratic is not None:
        return ", with a quadratic objective"
    if data.integer is None:
        return ""
    binary = np.count_nonzero(data.integer & (data.lower == 0.0) & (data.upper == 1.0))
    count = _counted(int(np.count_nonzero(data.integer)), "integer column")
    return f", {count}, {binary} of them binary"


def _only_sells(problem: Responder) -> str:
    """A second line if no point of the company's ball allows a plan (step `ball`). Secret."""
    if not isinstance(problem, Trader) or not problem.sells:
        return ""
    return "\n           NO amount near your endowment allows a plan: your party only sells"


def _unused(data: CompanyModel, agreement: Agreement) -> str:
    """The resources whose rows are empty, if there are any."""
    used = set(data.index[data.value != 0.0].tolist())
    return ", ".join(repr(r.name) for j, r in enumerate(agreement.resources) if j not in used)


def _alone(data: CompanyModel, agreement: Agreement, member: str, mip_limits: MipLimits) -> str:
    """The company's best plan without the others. Secret."""
    row = agreement.place(member)
    stated = "your endowment" if agreement.members[row].endowment else "your pro rata part"
    brought = amounts(agreement, endowment(agreement)[row], row)
    plan = plan_within(data, brought, mip_limits, quantities(agreement).floor[row])
    if plan is None:
        return (
            f"alone      with {stated} alone NO plan is possible; you depend on what you are given"
        )
    value = (-plan.utility if data.minimises else plan.utility) + 0.0  # no -0
    verb, money = "costs" if data.minimises else "earns", agreement.currency
    amount = f"{value:,.2f} {money}" if money else f"{value:.6g}"
    return f"alone      with {stated} alone your best plan {verb} {amount}"


def _pace(problem: Responder, data: CompanyModel, agreement: Agreement) -> str:
    """Whether the agreed pace is long enough for the model. Secret."""
    slowest, count = slowest_answer(problem, data)
    took = f"the slowest of {count} answers took {slowest:.2g} s"
    needed, agreed = f"{pace_for(slowest):g} s", agreement.pace_seconds
    if agreed is None:
        return f"pace       none is agreed; {took}, so {needed} would be enough"
    if agreed >= pace_for(slowest):
        return f"pace       {agreed:g} s is enough: {took}"
    if solving_seconds(agreed) > slowest:
        return f"pace       {agreed:g} s may be enough: {took}; {needed} is safe on a busy machine"
    nothing = "no demand beyond the centre" if agreement.ball else "no demand"
    late = nothing if data.integer is None else "the best plan found by then"
    return (
        f"pace       {agreed:g} s is TOO SHORT: {took}, and a late answer counts as {late}; ask "
        f"the convener for {needed}"
    )


def pace_for(slowest_seconds: float) -> float:
    """A pace with a margin for a model whose slowest answer took this long, in two digits."""
    wanted = max(_SHORTEST_PACE, _PACE_MARGIN * slowest_seconds)
    digit = 10.0 ** (math.floor(math.log10(wanted)) - 1)
    return float(f"{math.ceil(wanted / digit - 1e-9) * digit:.6g}")


def takes_nothing(problem: Responder, data: CompanyModel) -> bool:
    """Whether the company wants no resource at price 0: a sign of a wrong model."""
    answer = problem.answer(np.zeros(data.resources))
    return answer is not None and not answer.demand.any()


def slowest_answer(problem: Responder, data: CompanyModel) -> tuple[float, int]:
    """Seconds of the slowest answer, and how many prices were tried. Secret.

    Prices range from 0 to where the company buys nothing; fewer are tried if answers take long.
    """
    highest = np.ones(data.resources)
    columns = np.repeat(np.arange(data.columns), np.diff(data.start))
    shared = (data.index < data.resources) & (data.value != 0.0)
    worth = np.abs(data.utility[columns[shared]] / data.value[shared])
    np.maximum.at(highest, data.index[shared], worth)
    steps = np.sqrt(np.arange(2.0, data.resources + 2.0))  # far apart, and the same every time
    slowest, began = 0.0, time.perf_counter()
    for count in range(1, _TRIED_PRICES + 1):
        asked = time.perf_counter()
        problem.answer(highest * np.modf(count * steps)[0] ** 3)
        now = time.perf_counter()
        slowest = max(slowest, now - asked)
        if now - began > _TRIED_SECONDS:
            break
    return slowest, count


def _key_and_ledger(
    agreement: Agreement, member: str, key: Path | None, ledger: Path | None, data_set: str | None
) -> Iterator[str]:
    """Whether the key, its marker and its ledger are those of this member."""
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
    before, after = budget.cost_before_and_after(accounts, this)
    yield f"budget     data set {this.data_set!r} has spent {budget.in_words(before, delta)}"
    budget.require_room(accounts, agreement.digest, limit)
    yield f"           and with all of this session {budget.in_words(after, delta)}"
    everything = math.isinf(after.mu_squared)
    colluders = budget.colluding(accounts, this.data_set)
    sentence = budget.statement(this.data_set, limit, everything=everything, colluders=colluders)
    yield f"           {sentence}"
    if warning := budget.unprotected(accounts, agreement.digest):
        yield f"!          {warning}"
