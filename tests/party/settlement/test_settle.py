"""A company's plans are within their limits exactly, and are the best such plans."""

import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.optimize import linprog

from party.model.best_response import Answer, subproblem
from party.model.company_model import CompanyModel, dense, read
from party.settlement.settle import TOLERANCE, Plan, plan_within, settle, smallest_extra
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts, quantities
from protocol.agreement.schema import TICKS
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome
from protocol.rounds import RoundEngine
from tests.support.builders import NAMES, make_agreement, public_key
from tests.support.problems import drawn, other_solver

INF = math.inf
HALF = TICKS // 2


def members(*shares: Any) -> list[dict[str, Any]]:
    """The roster of an agreement: a share for each member."""
    return [
        {"name": name, "signing_key": public_key(name).hex(), "share": share}
        for name, share in zip(NAMES, shares, strict=False)
    ]


def company(
    A: list[list[float]], u: list[float], *, lower: list[float], upper: list[float]
) -> CompanyModel:
    """A model without private rows."""
    return dense(
        A=np.array(A),
        B=np.zeros((0, len(u))),
        u=np.array(u),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.array(lower),
        upper=np.array(upper),
    )


def rows(data: CompanyModel) -> Floats:
    """The matrix of the model."""
    matrix = np.zeros((data.resources + data.private_rows, data.columns))
    for column in range(data.columns):
        for entry in range(data.start[column], data.start[column + 1]):
            matrix[data.index[entry], column] = data.value[entry]
    return matrix


def trading(seed: int) -> CompanyModel:
    """A model with every kind of row and bound that uses and brings resources."""
    data = drawn(seed, columns=12, rows=6, density=0.6)
    return dense(
        A=np.random.default_rng(seed).uniform(-1.0, 2.0, (3, 12)),
        B=rows(data)[3:],
        u=data.utility,
        row_lower=data.row_lower,
        row_upper=data.row_upper,
        lower=data.lower,
        upper=data.upper,
    )


def using(seed: int) -> CompanyModel:
    """A `trading` model that only uses resources."""
    return drawn(seed, columns=12, rows=6, density=0.6)


def consumed(data: CompanyModel, values: Floats) -> list[Fraction]:
    """What a plan uses of each resource, without rounding."""
    numbers = [Fraction(x) for x in values.tolist()]
    return [
        sum((Fraction(a) * x for a, x in zip(row, numbers, strict=True)), start=Fraction(0))
        for row in rows(data)[: data.resources].tolist()
    ]


def assert_within(data: CompanyModel, plan: Plan, limit: Floats) -> None:
    """Check that the real and the stated uses are within the limit exactly."""
    for exact, use, most in zip(consumed(data, plan.values), plan.uses, limit, strict=True):
        assert exact <= Fraction(float(most))
        assert Fraction(float(use)) <= Fraction(float(most))
        assert float(use) == float(exact)


def assert_feasible(data: CompanyModel, plan: Plan) -> None:
    """Check private rows and bounds, up to the solver's tolerance."""
    private = rows(data)[data.resources :] @ plan.values
    assert (private <= data.row_upper + 1e-6).all()
    assert (private >= data.row_lower - 1e-6).all()
    assert (plan.values <= data.upper + 1e-6).all()
    assert (plan.values >= data.lower - 1e-6).all()


def inequalities(data: CompanyModel) -> tuple[Floats, Floats, dict[str, Any]]:
    """The private rows as scipy expects them: inequalities and equalities."""
    B = rows(data)[data.resources :]
    equal = data.row_lower == data.row_upper
    below, above = np.isfinite(data.row_upper) & ~equal, np.isfinite(data.row_lower) & ~equal
    equalities = {"A_eq": B[equal], "b_eq": data.row_upper[equal]} if equal.any() else {}
    return (
        np.vstack([B[below], -B[above]]),
        np.concatenate([data.row_upper[below], -data.row_lower[above]]),
        equalities,
    )


def best_utility(data: CompanyModel, limit: Floats) -> float | None:
    """The best utility within the limit by another solver, or None."""
    private, most, equalities = inequalities(data)
    found = linprog(
        -data.utility,
        A_ub=np.vstack([rows(data)[: data.resources], private]),
        b_ub=np.concatenate([limit, most]),
        bounds=list(zip(data.lower, data.upper, strict=True)),
        **equalities,
    )
    assert found.status in (0, 2)
    return data.offset - float(found.fun) if found.status == 0 else None


def least_extra(data: CompanyModel, least: Floats, most: Floats, capacity: Floats) -> float | None:
    """The smallest extra by another solver, as a sum of fractions of the capacities."""
    m, n = data.resources, data.columns
    private, limits, equalities = inequalities(data)
    if equalities:
        padding = np.zeros((len(equalities["b_eq"]), m))
        equalities["A_eq"] = np.hstack([equalities["A_eq"], padding])
    found = linprog(
        np.concatenate([np.zeros(n), 1.0 / capacity]),
        A_ub=np.block(
            [[rows(data)[:m], -np.eye(m)], [private, np.zeros((len(private), m))]],
        ),
        b_ub=np.concatenate([least, limits]),
        bounds=[*zip(data.lower, data.upper, strict=True), *((0.0, x) for x in most - least)],
        **equalities,
    )
    assert found.status in (0, 2)
    return float(found.fun) if found.status == 0 else None


def any_limit(rng: np.random.Generator) -> Floats:
    return rng.uniform(0.0, 20.0, 3)


def one_nothing(rng: np.random.Generator) -> Floats:
    return np.where(np.arange(3) == rng.integers(3), 0.0, any_limit(rng))


def nothing(rng: np.random.Generator) -> Floats:  # noqa: ARG001
    return np.zeros(3)


def uneven(rng: np.random.Generator) -> Floats:
    sizes: Floats = rng.choice([1e-9, 1e-3, 1.0, 1e3], 3)
    return any_limit(rng) * sizes


@pytest.mark.parametrize("limits", [any_limit, one_nothing, nothing, uneven])
@pytest.mark.parametrize("model", [using, trading])
def test_plan_is_the_best_that_fits(
    model: Callable[[int], CompanyModel], limits: Callable[[np.random.Generator], Floats]
) -> None:
    """A plan fits exactly and earns what another solver finds; None only if there is none."""
    found = 0
    for seed in range(20):
        data, limit = model(seed), limits(np.random.default_rng(seed))
        plan, best = plan_within(data, limit), best_utility(data, limit)
        assert (plan is None) == (best is None)
        if plan is not None:
            found += 1
            assert_within(data, plan, limit)
            assert_feasible(data, plan)
            assert plan.utility == pytest.approx(best, rel=1e-7, abs=1e-7)
    assert found >= 4


coefficients = st.one_of(st.just(0.0), st.floats(-5.0, -1e-3), st.floats(1e-3, 5.0))


@st.composite
def small_models(draw: st.DrawFn) -> tuple[CompanyModel, Floats]:
    """A model of four columns and two resources, and a limit of any size, or 0.

    No bound is so small that a solver treats it as 0.
    """
    lower = draw(st.lists(st.integers(-3000, 3000).map(lambda n: n / 1e3), min_size=4, max_size=4))
    widths = draw(st.lists(st.integers(0, 9000).map(lambda n: n / 1e3), min_size=4, max_size=4))
    row = st.lists(coefficients, min_size=4, max_size=4)
    data = company(
        [draw(row), draw(row)],
        draw(row),
        lower=lower,
        upper=[low + width for low, width in zip(lower, widths, strict=True)],
    )
    sizes = st.one_of(st.just(0.0), st.floats(0.0, 30.0), st.floats(0.0, 1e-6))
    return data, np.array([draw(sizes), draw(sizes)])


def tolerance(limit: Floats) -> Floats:
    """The solver's tolerance for a limit."""
    return TOLERANCE * np.maximum(1.0, limit / 100.0)


@given(small_models())
@settings(max_examples=150)
def test_no_plan_exceeds_its_limit_by_a_single_bit(case: tuple[CompanyModel, Floats]) -> None:
    """Exact uses are within the exact limit, if there is a plan with a little less."""
    data, limit = case
    plan = plan_within(data, limit)
    if plan is None:
        return
    assert_feasible(data, plan)
    if best_utility(data, limit - 2.0 * tolerance(limit)) is None:
        limit = limit + tolerance(limit)
        assert all(plan.uses <= limit)
    else:
        assert_within(data, plan, limit)


@pytest.mark.parametrize("unit", [1.0, 30.0, 1e3, 1e6])
def test_a_minimum_equal_to_the_quota_has_a_plan(unit: float) -> None:
    """Needing the quota, up to the solver's tolerance, is no shortfall."""
    limit = np.array([unit])
    for over in (0.0, 0.5 * tolerance(limit)[0]):
        data = company([[1.0, 2.0]], [3.0, 5.0], lower=[unit + over, 0.0], upper=[INF, INF])
        plan = plan_within(data, limit)
        assert plan is not None
        assert plan.values == pytest.approx([unit + over, 0.0], abs=tolerance(limit)[0])
        assert plan.uses[0] <= unit + tolerance(limit)[0]


@pytest.mark.parametrize("unit", [1.0, 30.0, 1e3, 1e6])
def test_a_minimum_above_the_quota_has_no_plan(unit: float) -> None:
    """More than the solver's tolerance is a shortfall."""
    limit = np.array([unit])
    beyond = unit + 4.0 * tolerance(limit)[0]
    data = company([[1.0, 2.0]], [3.0, 5.0], lower=[beyond, 0.0], upper=[INF, INF])
    assert plan_within(data, limit) is None


def test_a_settlement_distinguishes_tolerance_from_shortfall() -> None:
    """Half of ten units, up to the tolerance, is a plan; beyond that there is a shortfall."""
    known = ended(make_agreement(members=2, rounds=1), [HALF, 0], [HALF, 0])
    for over in (0.0, 0.5e-7):
        settlement = settle(needing(5.0 + over), known, "ada")
        assert settlement.within_quota is not None
        assert settlement.within_quota.utility == pytest.approx(10.0, abs=1e-6)
        assert settlement.extra_ticks is None
    settlement = settle(needing(5.0 + 1e-5), known, "ada")
    assert settlement.within_quota is None
    assert settlement.extra_ticks is not None
    assert settlement.extra_ticks.tolist() == [math.ceil(1e-6 * TICKS), 0]


@pytest.mark.parametrize("limit", [0.0, 1.0, 30.0, 1e6, 2.0**40])
def test_a_minimum_may_use_the_entire_limit(limit: float) -> None:
    """A company that must use exactly its limit has a plan."""
    data = company([[1.0, 2.0]], [3.0, 5.0], lower=[limit, 0.0], upper=[INF, INF])
    plan = plan_within(data, np.array([limit]))
    assert plan is not None
    assert plan.values.tolist() == [limit, 0.0]
    assert plan.uses.tolist() == [limit]


def test_a_company_may_use_what_it_brings_itself() -> None:
    """With a limit of 0 the net use is 0."""
    data = company([[0.3, -0.7]], [1.0, -0.1], lower=[0.0, 0.0], upper=[10.0, 1.0])
    plan = plan_within(data, np.array([0.0]))
    assert plan is not None
    assert plan.values.tolist() == pytest.approx([7.0 / 3.0, 1.0])
    assert_within(data, plan, np.array([0.0]))


def test_no_plan_if_the_minimum_is_above_the_limit() -> None:
    """The result is None then."""
    data = company([[2.0]], [1.0], lower=[3.0], upper=[9.0])
    assert plan_within(data, np.array([5.9])) is None
    assert plan_within(data, np.array([6.1])) is not None


def test_plan_has_the_order_of_the_model() -> None:
    """Values are in the order of the columns, whatever their names."""
    data = company([[1.0, 1.0, 1.0]], [1.0, 1.0, 1.0], lower=[0.0] * 3, upper=[3.0, 1.0, 2.0])
    data = replace(data, names=("zinc", "alum", "lead"))
    plan = plan_within(data, np.array([100.0]))
    assert plan is not None
    assert dict(zip(data.names, plan.values.tolist(), strict=True)) == {
        "zinc": 3.0,
        "alum": 1.0,
        "lead": 2.0,
    }


def test_utility_includes_the_constant_of_the_objective() -> None:
    """The objective's constant is part of what a plan earns."""
    data = company([[1.0]], [2.0], lower=[0.0], upper=[INF])
    plan = plan_within(replace(data, offset=-50.0), np.array([10.0]))
    assert plan is not None
    assert plan.utility == pytest.approx(-30.0)


# Ticks in units


@given(
    capacity=st.floats(1e-9, 1e12),
    cuts=st.lists(st.integers(0, TICKS), min_size=0, max_size=12),
)
@example(capacity=1e-9, cuts=[])
@example(capacity=1e12, cuts=[0, 1, TICKS - 1, TICKS])
@example(capacity=0.1, cuts=[TICKS // 3, 2 * TICKS // 3])
@example(capacity=math.nextafter(1.0, 2.0), cuts=list(range(1, 13)))
@settings(max_examples=300)
def test_amounts_never_add_up_to_more_than_the_capacity(capacity: float, cuts: list[int]) -> None:
    """Any split of all ticks is within the capacity, and each amount is as large as possible."""
    agreement = make_agreement(resource=[{"name": "r0", "capacity": capacity}])
    edges = [0, *sorted(cuts), TICKS]
    parts = [high - low for low, high in itertools.pairwise(edges)]
    units = [amounts(agreement, np.array([part]))[0] for part in parts]
    assert sum(map(Fraction, units)) <= Fraction(capacity)
    for part, unit in zip(parts, units, strict=True):
        exact = Fraction(capacity) * part / TICKS
        assert Fraction(unit) <= exact
        assert exact < Fraction(math.nextafter(unit, INF))


def test_all_and_nothing_in_units() -> None:
    """All ticks are exactly the capacity, and 0 ticks are 0."""
    agreement = make_agreement(resources=3)
    assert amounts(agreement, np.full(3, TICKS)).tolist() == [10.0, 20.0, 30.0]
    assert amounts(agreement, np.zeros(3, dtype=np.int64)).tolist() == [0.0, 0.0, 0.0]


# What is missing


def short(seed: int, model: Callable[[int], CompanyModel]) -> tuple[CompanyModel, Agreement, Any]:
    """A model with a quota that is too small."""
    rng = np.random.default_rng(seed)
    shares = {f"r{j}": float(rng.choice([1.0, 0.7, 0.5])) for j in range(3)}
    agreement = make_agreement(
        resource=[{"name": f"r{j}", "capacity": c} for j, c in enumerate((20.0, 33.3, 70.0))],
        member=members(shares, 1.0, 1.0),
    )
    own = quantities(agreement).share_ticks[0] * rng.uniform(0.0, 0.4, 3) * (rng.random(3) < 0.8)
    return model(seed), agreement, own.astype(np.int64)


@pytest.mark.parametrize("model", [using, trading])
def test_smallest_extra_is_enough_and_no_smaller_one_is(
    model: Callable[[int], CompanyModel],
) -> None:
    """With it there is a plan, with 1 % less there is none; another solver agrees."""
    cases = 0
    for seed in range(60):
        data, agreement, own = short(seed, model)
        least = amounts(agreement, own)
        most = quantities(agreement).share[0] * quantities(agreement).capacity
        smallest = least_extra(data, least, most, quantities(agreement).capacity)
        if not smallest or smallest < 0.01:
            continue
        cases += 1
        assert plan_within(data, least) is None
        extra = smallest_extra(data, agreement, 0, own)
        assert extra is not None
        assert (extra >= 0).all()
        assert (own + extra <= quantities(agreement).share_ticks[0]).all()
        assert smallest - 1e-9 <= extra.sum() / TICKS <= smallest + 4 / TICKS
        assert plan_within(data, amounts(agreement, own + extra)) is not None
        assert plan_within(data, amounts(agreement, own + extra * 99 // 100)) is None
    assert cases >= 8


def test_extra_is_only_for_resources_that_are_short() -> None:
    """A resource that is used up but suffices needs no extra."""
    agreement = make_agreement()
    data = company([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0], lower=[6.0, 5.0], upper=[INF, INF])
    extra = smallest_extra(data, agreement, 0, np.array([HALF, TICKS // 4]))
    assert extra is not None
    assert extra.tolist() == [math.ceil(TICKS / 10), 0]


def test_extra_takes_the_smaller_fraction_of_a_capacity() -> None:
    """If either of two resources helps, the one with the smaller fraction is chosen."""
    agreement = make_agreement()
    data = dense(
        A=np.array([[2.0, 0.0], [0.0, 2.0]]),
        B=np.array([[1.0, 1.0]]),
        u=np.array([9.0, 1.0]),
        row_lower=np.array([4.0]),
        row_upper=np.array([INF]),
        lower=np.zeros(2),
        upper=np.full(2, INF),
    )
    extra = smallest_extra(data, agreement, 0, np.array([0, 0]))
    assert extra is not None
    assert extra.tolist() == [0, math.ceil(0.4 * TICKS)]


def test_extra_is_limited_by_the_share() -> None:
    """A need up to the share is met; a larger one gives None."""
    agreement = make_agreement(member=members(0.5, 1.0))
    own = np.array([HALF // 2, 0])
    whole = company([[1.0], [0.0]], [1.0], lower=[5.0], upper=[INF])
    extra = smallest_extra(whole, agreement, 0, own)
    assert extra is not None
    assert extra.tolist() == [HALF // 2, 0]
    more = company([[1.0], [0.0]], [1.0], lower=[5.1], upper=[INF])
    assert smallest_extra(more, agreement, 0, own) is None


# The whole settlement


def ended(agreement: Agreement, *releases: list[int]) -> Outcome:
    """The outcome of a session of one round with these releases."""
    engine, values = RoundEngine(agreement), np.array(releases)
    path = [engine.opening, engine.advance(engine.opening, values)]
    return Outcome(
        agreement=agreement,
        state=path[-1],
        released=values[None],
        path=np.array([state.prices.current for state in path]),
        sealed=True,
    )


def needing(units: float) -> CompanyModel:
    """A company that must use at least `units` of r0 and earns 2 for each unit."""
    return company([[1.0], [0.0]], [2.0], lower=[units], upper=[INF])


def test_a_company_without_a_plan_alone_has_no_gain() -> None:
    """If the minimum exceeds the endowment, `alone` and `gain` are None."""
    agreement = make_agreement(members=2, rounds=1)
    known = ended(agreement, [TICKS * 3 // 4, 0], [TICKS // 4, 0])
    settlement = settle(needing(7.0), known, "ada")
    assert settlement.quota_ticks.tolist()[0] == TICKS * 3 // 4
    assert settlement.endowment_ticks.tolist() == [HALF, HALF]
    assert settlement.alone is None
    assert settlement.gain is None
    assert settlement.extra_ticks is None
    assert settlement.within_quota is not None
    assert settlement.within_quota.uses.tolist() == [7.5, 0.0]
    assert settlement.within_quota.utility == pytest.approx(15.0)


def test_a_settlement_without_a_plan_names_the_shortfall() -> None:
    """If the quota is too small, `extra_ticks` is the least that is missing."""
    agreement = make_agreement(members=2, rounds=1)
    known = ended(agreement, [TICKS // 4, 0], [TICKS * 3 // 4, 0])
    settlement = settle(needing(4.0), known, "ada")
    assert settlement.within_quota is None
    assert settlement.gain is None
    assert settlement.extra_ticks is not None
    assert settlement.extra_ticks.tolist() == [math.ceil(0.15 * TICKS), 0]
    assert settlement.alone is not None
    assert settlement.alone.utility == pytest.approx(10.0)


def at_half_a_unit(**more: Any) -> Agreement:
    """Two members, and a price of 0.5 for r0 that one round does not change."""
    prices = {"step": "constant", "step_size": 1e-9, "start": {"r0": 0.5, "r1": 3.0}}
    return make_agreement(members=2, rounds=1, prices=prices, **more)


def test_gain_is_after_payment() -> None:
    """2.5 more units earn 2 each and cost 0.5 each: the gain is 5 − 1.25."""
    known = ended(at_half_a_unit(), [TICKS * 3 // 4, HALF], [TICKS // 4, HALF])
    buyer, seller = (settle(needing(0.0), known, name) for name in ("ada", "ben"))
    assert buyer.payment == pytest.approx(1.25)
    assert buyer.gain == pytest.approx(3.75)
    assert seller.payment == -buyer.payment
    assert seller.gain == pytest.approx(-3.75)


def test_alone_is_the_best_plan_within_the_endowment() -> None:
    """A company that brings 3 of 10 units earns 6 alone, and pays for more units."""
    members = [
        {"name": name, "signing_key": public_key(name).hex(), "endowment": part}
        for name, part in (("ada", 0.3), ("ben", 0.7))
    ]
    known = ended(at_half_a_unit(member=members), [HALF, HALF], [HALF, HALF])
    settlement = settle(needing(0.0), known, "ada")
    assert settlement.endowment_ticks.tolist() == [round(0.3 * TICKS)] * 2
    assert settlement.alone is not None
    assert settlement.alone.utility == pytest.approx(6.0, abs=1e-5)
    # Two units of r0 at 0.5, and a fifth of the twenty of r1 at 3, which it cannot use.
    assert settlement.payment == pytest.approx(13.0, abs=1e-4)
    assert settlement.gain == pytest.approx(10.0 - 13.0 - 6.0, abs=1e-4)


def test_paid_is_the_cost_of_the_plan_at_the_prices() -> None:
    """At a price of 0.5, ten units cost 5 and earn 20."""
    known = ended(at_half_a_unit(), [HALF, HALF], [HALF, HALF])
    settlement = settle(needing(0.0), known, "ada")
    assert settlement.at_prices is not None
    assert settlement.at_prices.utility == pytest.approx(20.0)
    assert settlement.at_prices.uses.tolist() == [10.0, 0.0]
    assert settlement.paid == pytest.approx(5.0)


@pytest.mark.parametrize("seed", range(6))
def test_the_plan_at_prices_is_the_best_response(seed: int) -> None:
    """It is the subproblem's answer, and as good as another solver's."""
    rng = np.random.default_rng(seed)
    data = drawn(seed)
    agreement = make_agreement(
        rounds=1,
        resource=[{"name": f"r{j}", "capacity": 60.0} for j in range(3)],
        prices={"start": {f"r{j}": float(p) for j, p in enumerate(rng.uniform(0.0, 2.0, 3))}},
    )
    known = ended(agreement, *rng.integers(0, agreement.ticks, (3, 3)).tolist())
    settlement = settle(data, known, "ben")
    prices = known.prices
    assert settlement.prices.tolist() == prices.tolist()
    answer = subproblem(data, agreement, "ben").answer(prices)
    plan, paid = settlement.at_prices, settlement.paid
    assert answer is not None
    assert plan is not None
    assert paid is not None
    assert plan.values.tolist() == pytest.approx(answer.plan.tolist(), abs=1e-8)
    expected = other_solver(data, quantities(agreement).capacity, prices)
    assert plan.utility - paid == pytest.approx(expected, rel=1e-7)


def test_private_results_have_no_printable_form() -> None:
    """The repr of plans, settlements and answers has no number."""
    agreement = make_agreement(members=2, rounds=1)
    settlement = settle(needing(1.0), ended(agreement, [HALF, 0], [HALF, 0]), "ada")
    assert settlement.within_quota is not None
    ones = np.ones(2)
    for secret in (settlement, settlement.within_quota, Answer(1.0, ones, ones)):
        for text in (repr(secret), str(secret), f"{secret}"):
            assert "private" in text
            assert not re.search(r"\d", text)


@pytest.mark.parametrize(("sense", "minimises"), [("minimize", True), ("maximize", False)])
def test_a_minimised_cost_stays_known_as_a_cost(
    tmp_path: Path, sense: str, minimises: bool
) -> None:
    """The model remembers its sense, though a better plan has a larger utility."""
    agreement = make_agreement(resource=[{"name": "hours", "capacity": 10.0}])
    path = tmp_path / "model.lp"
    path.write_text(
        f"{sense}\n obj: 3 x\nsubject to\n hours: x <= 5\n least: x >= 2\nbounds\n x <= 4\nend\n"
    )
    data = read(path, agreement)
    assert data.minimises == minimises
    plan = plan_within(data, np.array([5.0]))
    assert plan is not None
    assert plan.utility == pytest.approx(-6.0 if minimises else 12.0)
