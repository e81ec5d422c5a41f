"""What a company does with the outcome: its own plan within its quota, and what that is worth.

Everything in a `Settlement` is un-noised and secret: it is for the company's own files and
goes into no message, no log and no error. Nothing here draws noise or sends.
"""

import math
import time
from dataclasses import dataclass, replace
from fractions import Fraction

import highspy
import numpy as np

from party.ledger.session_ledger import Ledger
from party.model.best_response import (
    USUAL,
    MipLimits,
    Subproblem,
    counted,
    finer,
    found,
    loaded,
    model,
    subproblem,
)
from party.model.company_model import CompanyModel
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts, quantities
from protocol.errors import BadData, BadLedger
from protocol.numeric import Floats, Ticks
from protocol.outcome.outcome import Outcome
from protocol.outcome.private_quota import Allocation, allocate

TOLERANCE = 1e-7
"""What HiGHS takes for nothing in a row of 1 to 100 units; above and below it, in proportion."""

_SNAP = 1e-9  # a value this near to its bound is put on it
_TRIFLE = 0.01  # part of a tick that a solver cannot tell from nothing
_ATTEMPTS = 8
_PRICES, _PRICES_SECONDS = 100, 20.0  # to ask a model for its slowest answer, and for how long
_WHOLE = 2e-6  # by how much HiGHS may go over a row in whole numbers, twice over


@dataclass(frozen=True, repr=False, eq=False)
class Plan:
    """What to make, what it consumes of each resource, and what it earns. Secret.

    What it brings of a resource is below 0.
    """

    values: Floats
    uses: Floats
    utility: float

    def __repr__(self) -> str:
        return "<private plan>"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Settlement:
    """One company's outcome. Quotas and payments are public, unless only totals can be read;
    everything else is secret.

    `within_quota` is the best plan within the quota and `alone` the best within the endowment,
    None where the private rows allow none; `extra_ticks` is what the quota then lacks at least.
    `payment` goes with the quota. `at_prices` is the plan that answers the prices of the
    outcome, which all plans together may overrun, and `paid` what it would pay for.
    `whole_columns` counts those of the model that are whole numbers; `floor` is public.
    """

    quota_ticks: Ticks
    endowment_ticks: Ticks
    within_quota: Plan | None
    alone: Plan | None
    payment: float
    at_prices: Plan | None
    prices: Floats
    extra_ticks: Ticks | None
    whole_columns: int = 0
    floor: Floats | None = None

    def __repr__(self) -> str:
        return "<private settlement>"

    @property
    def gain(self) -> float | None:
        """How much better off the company is than alone, after payment, where both have a plan."""
        if self.within_quota is None or self.alone is None:
            return None
        return self.within_quota.utility - self.payment - self.alone.utility

    @property
    def alike(self) -> bool:
        """Whether the quota is what the company brings, and the gain what rounding makes of it."""
        if self.gain is None or self.alone is None:
            return False
        off = int(np.abs(self.quota_ticks - self.endowment_ticks).max())
        return off <= 1 and 1000.0 * abs(self.gain) <= abs(self.alone.utility)

    @property
    def paid(self) -> float | None:
        """What the plan at the prices of the outcome costs at these prices.

        Nobody is paid for bringing more than its floor says.
        """
        if self.at_prices is None:
            return None
        least = np.zeros_like(self.prices) if self.floor is None else self.floor
        return math.fsum(self.prices * np.maximum(self.at_prices.uses, least))


def own_part(known: Outcome, member: str, ledger: Ledger) -> Allocation | None:
    """What a member may use and pays where it alone works that out, else None. Secret.

    Worked out once, from what the ledger holds of its own demands, which are destroyed then.
    """
    if not known.agreement.masked:
        return None
    made = ledger.part()
    if made is None:
        asked, said = ledger.demands()
        if len(asked) != known.rounds:
            raise BadLedger(f"the ledger holds {len(asked)} own demands of {known.rounds} rounds")
        made = allocate(
            known.agreement,
            known.rule,
            known.agreement.place(member),
            demands=asked,
            unmasked=said,
            totals=known.totals,
            prices=known.prices,
        )
        ledger.record_part(made)
    return made


def settle(
    data: CompanyModel,
    known: Outcome,
    member: str,
    own: Allocation | None = None,
    *,
    effort: MipLimits = USUAL,
) -> Settlement:
    """What the outcome means for one company; `own` where nobody else knows its quota."""
    agreement, row = known.agreement, known.agreement.place(member)
    made = own or Allocation(known.quota[row], float(known.payments[row]))
    own_ticks, brought, floor = made.quota, known.endowment[row], quantities(agreement).floor[row]
    within = plan_within(data, amounts(agreement, own_ticks, row), effort, floor)
    answer = subproblem(data, agreement, member, effort).answer(known.prices)
    return Settlement(
        quota_ticks=own_ticks,
        endowment_ticks=brought,
        within_quota=within,
        alone=plan_within(data, amounts(agreement, brought, row), effort, floor),
        payment=made.payment,
        at_prices=None if answer is None else _plan(data, answer.plan),
        prices=known.prices,
        extra_ticks=None if within else smallest_extra(data, agreement, row, own_ticks, effort),
        floor=floor,
        whole_columns=0 if data.whole is None else int(np.count_nonzero(data.whole)),
    )


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


def plan_within(
    data: CompanyModel, limit: Floats, effort: MipLimits = USUAL, floor: Floats | None = None
) -> Plan | None:
    """The best plan that uses no more than `limit`, or None if there is none.

    With the `floor` that the limit was counted from: of what may be brought by the thousand, the
    solver cannot tell a millionth from nothing, however near to 0 the limit is.

    Guarantee: the uses of the plan are within the limit exactly: where the solver goes over it,
    it is asked again for less. Only where there is no such plan, they are within it to what the
    solver itself can tell (`TOLERANCE`): to need what one has is no shortfall. In whole numbers it
    is the best plan that was found, as `effort` says, and its whole numbers are exactly that.
    """
    size = np.abs(limit) if floor is None else np.maximum(np.abs(limit), np.abs(floor))
    hair = _hair(data, size)
    if data.whole is None:
        return _plan_within(data, limit, hair)
    allowed = limit
    for _ in range(_ATTEMPTS):
        first = _best(data, allowed, effort)
        if first is None:
            return None
        # With its whole numbers as they are, what is left is a linear program.
        lower, upper = (np.where(data.whole, first.values, b) for b in (data.lower, data.upper))
        plan = _plan_within(replace(data, whole=None, lower=lower, upper=upper), limit, hair)
        if plan is not None:
            return plan
        allowed = allowed - 2.0 * _over(data, first.values, limit) - _WHOLE / TOLERANCE * hair
    return None


def _hair(data: CompanyModel, size: Floats) -> Floats:
    """What the solver cannot tell from nothing, of amounts of such a size."""
    hair: Floats = TOLERANCE * np.maximum(1.0 / finer(data, size), size / 100.0)
    return hair


def _plan_within(data: CompanyModel, limit: Floats, hair: Floats) -> Plan | None:
    """The same for a model without whole numbers."""
    allowed, nearly = limit, None
    for _ in range(_ATTEMPTS):
        plan = _best(data, allowed)
        if plan is None:
            break
        over = _over(data, plan.values, limit)
        if not over.any():
            return plan
        if nearly is None and np.all(over <= hair):
            nearly = plan
        allowed = allowed - 2.0 * over
    if nearly is None:
        nearly = _best(data, limit + hair / 2.0)
        if nearly is not None and np.any(_over(data, nearly.values, limit) > hair):
            return None
    return nearly


def _best(data: CompanyModel, limit: Floats, effort: MipLimits = USUAL) -> Plan | None:
    """The solver's best plan within a limit, to its own tolerance."""
    try:
        answer = Subproblem(data, limit, effort).answer(np.zeros(len(limit)))
    except BadData:
        return None
    return None if answer is None else _plan(data, answer.plan)


def smallest_extra(
    data: CompanyModel, agreement: Agreement, row: int, own: Ticks, effort: MipLimits = USUAL
) -> Ticks | None:
    """The least a member needs above its quota, within its share: Σ of parts of the capacities.

    None if the solver fails. Rounded up to whole ticks.
    """
    least, floor = amounts(agreement, own, row), quantities(agreement).floor[row]
    most = np.maximum(
        floor + quantities(agreement).share[row] * quantities(agreement).capacity, least
    )
    parts = finer(data, np.maximum(np.abs(most), np.abs(least)))
    lp = model(counted(data, parts), most * parts)
    n = data.columns
    lp.sense_ = highspy.ObjSense.kMinimize
    lp.offset_ = 0.0
    lp.col_cost_ = np.concatenate([np.zeros(n), 1.0 / (quantities(agreement).capacity * parts)])
    lp.col_lower_ = np.concatenate([data.lower, least * parts])
    solver = loaded(lp, effort=effort)
    solver.run()
    if not found(solver):
        return None
    uses = _plan(data, np.array(solver.getSolution().col_value)[:n]).uses
    missing = (uses - least) / quantities(agreement).capacity * agreement.ticks
    lacking = missing > _TRIFLE
    if not lacking.any():
        lacking = missing >= 0.0
    extra: Ticks = np.where(lacking, np.ceil(missing + _TRIFLE), 0.0).astype(np.int64)
    np.minimum(extra, quantities(agreement).share_ticks[row] - own, out=extra)
    return extra


def _plan(data: CompanyModel, values: Floats) -> Plan:
    nearer = np.where(values - data.lower <= data.upper - values, data.lower, data.upper)
    values = np.where(np.abs(values - nearer) <= _SNAP, nearer, values)
    if data.whole is not None:
        values = np.where(data.whole, np.rint(values), values)
    uses = [float(_exact_sum(*terms)) for terms in _terms(data, values)]
    return Plan(values + 0.0, np.array(uses), data.earns(values))


def _over(data: CompanyModel, values: Floats, limit: Floats) -> Floats:
    """How far the consumption is over the limit, and what rounding may add; 0 where it is not."""

    def over(a: Floats, x: Floats, most: float) -> float:
        above = _exact_sum(a, x) - Fraction(most)
        # What is asked for less must be more than the solver's rounding takes back.
        rounding = math.ulp(most) + 2.0**-51 * math.fsum(np.abs(a * x))
        return float(above) + rounding if above > 0 else 0.0

    pairs = zip(_terms(data, values), limit.tolist(), strict=True)
    return np.array([over(*terms, most) for terms, most in pairs])


def _exact_sum(a: Floats, x: Floats) -> Fraction:
    """Σ a·x with nothing rounded."""
    pairs = zip(a.tolist(), x.tolist(), strict=True)
    return sum((Fraction(p) * Fraction(q) for p, q in pairs), start=Fraction(0))


def _terms(data: CompanyModel, values: Floats) -> list[tuple[Floats, Floats]]:
    """For each resource, its coefficients and the values of their columns."""
    columns = np.repeat(np.arange(data.columns), np.diff(data.start))
    rows = [data.index == j for j in range(data.resources)]
    return [(data.value[row], values[columns[row]]) for row in rows]
