"""What the outcome means for one company: its plan within its quota, its payment, its gain.

Everything in a `Settlement` is un-noised and secret: it is for the company's own files.
Never here: a message, a log line, an error with a private number, or noise.
"""

import math
from contextlib import suppress
from fractions import Fraction

import highspy
import numpy as np
from msgspec.structs import replace

from party.model.best_response import (
    USUAL,
    Answer,
    MipLimits,
    Subproblem,
    found,
    loaded,
    subproblem,
)
from party.model.company_model import CompanyModel
from party.model.highs_program import model
from party.model.scaling import rescaled, unit_scale
from party.settlement.mixture import mixed_plan
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts, quantities
from protocol.errors import BadData, Unsolved
from protocol.numeric import Floats, Ticks
from protocol.outcome.outcome import Outcome
from protocol.outcome.private_quota import Allocation
from protocol.records import Opaque

TOLERANCE = 1e-7
"""Feasibility tolerance of HiGHS for a row of 1 to 100 units; in proportion for other rows."""

_SNAP = 1e-9  # a value this near to its bound is set to it
_NEGLIGIBLE_TICKS = 0.01  # a solver cannot tell this fraction of a tick from 0
_NEGLIGIBLE = 1e-9  # of the range of a resource: no meter shows it
_ATTEMPTS = 8
_INTEGER_TOLERANCE = 2e-6  # twice what HiGHS may exceed a row of an integer program by


class Plan(Opaque, frozen=True):
    """Values of all variables, use of each resource, and what it earns. Secret.

    A resource that the plan brings has a negative use.
    """

    values: Floats
    uses: Floats
    utility: float

    def __repr__(self) -> str:
        return "<private plan>"


class Settlement(Opaque, frozen=True, kw_only=True):
    """What the outcome means for one company.

    Quota and payment are public unless only totals are; everything else is secret.
    """

    quota_ticks: Ticks
    endowment_ticks: Ticks
    #: The best plan within the quota; None if the private rows allow none.
    within_quota: Plan | None
    #: The best plan within the endowment; None if there is none.
    alone: Plan | None
    #: For the quota above the endowment; negative if the company is paid.
    payment: float
    #: The best response to the prices; None if the solver failed. All members' such plans together
    #: may exceed a capacity.
    at_prices: Plan | None
    prices: Floats
    #: The least that the quota lacks, if there is no plan within it.
    extra_ticks: Ticks | None
    integer_columns: int = 0
    #: What the quota costs at the prices, floors included.
    quota_value: float = 0.0
    #: Public.
    floor: Floats | None = None
    #: Whether the solver failed: there may be a plan within the quota.
    unsolved: bool = False

    def __repr__(self) -> str:
        return "<private settlement>"

    @property
    def gain(self) -> float | None:
        """Gain over acting alone, after payment; None if there is no plan in either case."""
        if self.within_quota is None or self.alone is None:
            return None
        return self.within_quota.utility - self.payment - self.alone.utility

    @property
    def mixture_loss(self) -> float | None:
        """At most this much more would a mixture of plans within the quota earn.

        None for models without integers, and if there is no plan. CERTIFICATE.md §7.
        """
        paid = self.paid
        if not self.integer_columns or self.within_quota is None:
            return None
        if self.at_prices is None or paid is None:
            return None
        best = self.at_prices.utility - paid + self.quota_value
        return max(0.0, best - self.within_quota.utility)

    @property
    def loses(self) -> bool:
        """Whether a model with integers is worse off than alone, beyond rounding."""
        if not self.integer_columns or self.gain is None or self.alone is None:
            return False
        return self.gain < 0.0 and not self.alike

    @property
    def alike(self) -> bool:
        """Whether the quota equals the endowment, up to rounding, and the gain is negligible."""
        if self.gain is None or self.alone is None:
            return False
        off = int(np.abs(self.quota_ticks - self.endowment_ticks).max())
        return off <= 1 and 1000.0 * abs(self.gain) <= abs(self.alone.utility)

    @property
    def paid(self) -> float | None:
        """Cost of `at_prices` at these prices. Bringing more than the floor allows is not paid."""
        if self.at_prices is None:
            return None
        least = np.zeros_like(self.prices) if self.floor is None else self.floor
        return math.fsum(self.prices * np.maximum(self.at_prices.uses, least))


def settle(
    data: CompanyModel,
    outcome: Outcome,
    member: str,
    own: Allocation | None = None,
    *,
    mip_limits: MipLimits = USUAL,
) -> Settlement:
    """Compute the settlement; `own` is the member's allocation if only totals are public."""
    agreement, row = outcome.agreement, outcome.agreement.place(member)
    allocation = own or Allocation(outcome.quota[row], float(outcome.payments[row]))
    quota, brought = allocation.quota, outcome.endowment[row]
    public = quantities(agreement)
    floor, ceiling = public.floor[row], public.floor[row] + public.share[row] * public.capacity
    plans, unsolved = list[Plan | None](), False
    for ticks in (quota, brought):
        try:
            plans.append(
                plan_within(data, amounts(agreement, ticks, row), mip_limits, floor, ceiling)
            )
        except Unsolved:
            plans.append(None)
            unsolved |= ticks is quota
    within, alone = plans
    answer = None
    with suppress(Unsolved):
        answer = subproblem(data, agreement, member, mip_limits).answer(outcome.prices)
    return Settlement(
        quota_ticks=quota,
        endowment_ticks=brought,
        within_quota=within,
        alone=alone,
        payment=allocation.payment,
        at_prices=None if answer is None else _plan(data, answer.plan),
        prices=outcome.prices,
        extra_ticks=None
        if within or unsolved
        else smallest_extra(data, agreement, row, quota, mip_limits),
        unsolved=unsolved,
        floor=floor,
        quota_value=math.fsum(outcome.prices * amounts(agreement, quota, row)),
        integer_columns=0 if data.integer is None else int(np.count_nonzero(data.integer)),
    )


def plan_within(
    data: CompanyModel,
    limit: Floats,
    mip_limits: MipLimits = USUAL,
    floor: Floats | None = None,
    ceiling: Floats | None = None,
) -> Plan | None:
    """The best plan that uses no more than `limit`, or None if there is none.

    `floor` is the floor that the limit is rescaled from. It sets the size of the numbers, and so
    the solver's tolerance, even if the limit itself is near 0. With the member's `ceiling`, a plan
    is mixed from its answers to prices if the solver fails with the limit. Raises `Unsolved` if
    there may be a plan, but none is found.

    Guarantee: the uses of the plan are within the limit exactly. If the solver exceeds it, it
    solves again with a lower limit. Only if there is no such plan, the uses are within the limit up
    to the solver's tolerance (`TOLERANCE`), or a billionth of the member's range: needing exactly
    the limit is no shortfall, and neither is a use just above a limit of nothing. With integers it
    is the best plan found, as `mip_limits` allows, and its integers are exact.
    """
    size = np.abs(limit) if floor is None else np.maximum(np.abs(limit), np.abs(floor))
    tolerance: Floats = TOLERANCE * np.maximum(1.0 / unit_scale(data, size), size / 100.0)
    if data.integer is None:
        if ceiling is None:
            return _continuous_plan_within(data, limit, tolerance)
        lowest = np.minimum(ceiling, 0.0) if floor is None else floor
        negligible = _NEGLIGIBLE * (ceiling - lowest)
        try:
            return _continuous_plan_within(data, limit, tolerance) or _continuous_plan_within(
                data, limit + negligible, tolerance
            )
        except Unsolved:
            tolerance = np.maximum(tolerance, negligible)
            return _mixed(data, limit, tolerance, lowest, ceiling)
    allowed, margin = limit, _INTEGER_TOLERANCE / TOLERANCE * tolerance
    for _ in range(_ATTEMPTS):
        first = _best(data, allowed, mip_limits)
        if first is None:
            return None
        # With its integers fixed, what remains is a linear program.
        lower, upper = (np.where(data.integer, first.values, b) for b in (data.lower, data.upper))
        fixed = replace(data, integer=None, lower=lower, upper=upper)
        plan = _continuous_plan_within(fixed, limit, tolerance)
        if plan is not None:
            return plan
        allowed = allowed - 2.0 * _excess(data, first.values, limit) - margin
    return None


def _mixed(
    data: CompanyModel, limit: Floats, tolerance: Floats, floor: Floats, ceiling: Floats
) -> Plan:
    """A plan within the limit that is mixed from answers to prices. Raises `Unsolved`."""
    problem, size = Subproblem(data, ceiling, floor=floor), ceiling - floor
    for margin in (0.0, 1e-9, 1e-7, 1e-6):
        values = mixed_plan(data, problem, limit - margin * size, size)
        if values is None:
            break
        plan = _plan(data, values)
        if np.all(_excess(data, plan.values, limit) <= tolerance):
            return plan
    raise Unsolved(
        "the solver finds no plan within the quota, and does not prove that there is none; scale "
        "the model's coefficients closer to 1"
    )


def _continuous_plan_within(data: CompanyModel, limit: Floats, tolerance: Floats) -> Plan | None:
    """`plan_within` for a model without integers."""
    allowed, nearly = limit, None
    problem: Subproblem | None = None
    for attempt in range(_ATTEMPTS):
        answer = None
        if problem is not None and data.quadratic is None:
            problem.move_ceiling(allowed)
            answer = problem.answer(np.zeros(data.resources))
        if answer is None:
            problem = _solved(data, allowed)
            answer = _answered(data, problem)
        if answer is None:
            break
        plan = _plan(data, answer.plan)
        excess = _excess(data, plan.values, limit)
        if not excess.any():
            return plan
        if nearly is None and np.all(excess <= tolerance):
            nearly = plan
        # More each time: the solver may not notice a reduction below its tolerance.
        step = np.minimum(8.0**attempt * excess, np.maximum(excess, 2.0 * tolerance))
        allowed = allowed - 2.0 * step
    if nearly is None:
        nearly = _best(data, limit + tolerance / 2.0)
        if nearly is not None and np.any(_excess(data, nearly.values, limit) > tolerance):
            return None
    return nearly


def _best(data: CompanyModel, limit: Floats, mip_limits: MipLimits = USUAL) -> Plan | None:
    """The best plan within a limit, up to the solver's tolerance."""
    answer = _answered(data, _solved(data, limit, mip_limits))
    return None if answer is None else _plan(data, answer.plan)


def _solved(data: CompanyModel, limit: Floats, mip_limits: MipLimits = USUAL) -> Subproblem | None:
    """The problem within a limit, or None if it has no plan. Raises `Unsolved`."""
    try:
        return Subproblem(data, limit, mip_limits)
    except Unsolved:
        raise
    except BadData:
        return None


def _answered(data: CompanyModel, problem: Subproblem | None) -> Answer | None:
    """The best plan of a problem, None if there is none. Raises `Unsolved`."""
    if problem is None:
        return None
    answer = problem.answer(np.zeros(data.resources))
    if answer is None:
        raise Unsolved(
            "the solver solves the model once, but not again; scale its coefficients closer to 1"
        )
    return answer


def smallest_extra(
    data: CompanyModel, agreement: Agreement, row: int, own: Ticks, mip_limits: MipLimits = USUAL
) -> Ticks | None:
    """The least that a member needs above its quota, within its share, in ticks rounded up.

    Least is the sum over resources of the fraction of the capacity. None if the solver fails.
    """
    public, least = quantities(agreement), amounts(agreement, own, row)
    most = np.maximum(public.floor[row] + public.share[row] * public.capacity, least)
    parts = unit_scale(data, np.maximum(np.abs(most), np.abs(least)))
    lp = model(rescaled(data, parts), most * parts, least * parts)
    n = data.columns
    lp.sense_ = highspy.ObjSense.kMinimize
    lp.offset_ = 0.0
    lp.col_cost_ = np.concatenate([np.zeros(n), 1.0 / (public.capacity * parts)])
    solver = loaded(lp, limits=mip_limits)
    solver.run()
    if not found(solver):
        return None
    uses = _plan(data, np.array(solver.getSolution().col_value)[:n]).uses
    missing = (uses - least) / public.capacity * agreement.ticks
    short = missing > _NEGLIGIBLE_TICKS
    if not short.any():
        short = missing >= 0.0
    extra: Ticks = np.where(short, np.ceil(missing + _NEGLIGIBLE_TICKS), 0.0).astype(np.int64)
    np.minimum(extra, public.share_ticks[row] - own, out=extra)
    return extra


def _plan(data: CompanyModel, values: Floats) -> Plan:
    nearer = np.where(values - data.lower <= data.upper - values, data.lower, data.upper)
    values = np.where(np.abs(values - nearer) <= _SNAP, nearer, values)
    if data.integer is not None:
        values = np.where(data.integer, np.rint(values), values)
    uses = [float(_exact_sum(*terms)) for terms in _terms(data, values)]
    return Plan(values + 0.0, np.array(uses), data.earns(values))


def _excess(data: CompanyModel, values: Floats, limit: Floats) -> Floats:
    """By how much the uses exceed the limit, plus what rounding may add; 0 if they do not."""

    def excess(a: Floats, x: Floats, most: float) -> float:
        above = _exact_sum(a, x) - Fraction(most)
        # The limit must be lowered by more than the solver's rounding.
        rounding = math.ulp(most) + 2.0**-51 * math.fsum(np.abs(a * x))
        return float(above) + rounding if above > 0 else 0.0

    pairs = zip(_terms(data, values), limit.tolist(), strict=True)
    return np.array([excess(*terms, most) for terms, most in pairs])


def _exact_sum(a: Floats, x: Floats) -> Fraction:
    """Σ a·x without rounding: each product is an integer times a power of two."""
    used = np.flatnonzero((a != 0.0) & (x != 0.0))
    if not len(used):
        return Fraction(0)
    (a, p), (x, q) = np.frexp(a[used]), np.frexp(x[used])
    factors = zip((a * 2.0**53).tolist(), (x * 2.0**53).tolist(), strict=True)
    powers = (p + q).tolist()
    least = min(powers)
    total = sum(
        int(one) * int(other) << power - least
        for (one, other), power in zip(factors, powers, strict=True)
    )
    power = least - 106
    return Fraction(total << power) if power >= 0 else Fraction(total, 1 << -power)


def _terms(data: CompanyModel, values: Floats) -> list[tuple[Floats, Floats]]:
    """For each resource, its coefficients and the values of their columns."""
    columns = np.repeat(np.arange(data.columns), np.diff(data.start))
    rows = [data.index == j for j in range(data.resources)]
    return [(data.value[row], values[columns[row]]) for row in rows]
