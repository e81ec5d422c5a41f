"""The centre rule: its certificate is true, any totals are handled, and the bits are fixed."""

import json
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from party.model.best_response import Subproblem
from party.model.company_model import CompanyModel, dense
from party.settlement.settle import plan_within
from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import amounts
from protocol.agreement.schema import FINE_TICKS as TICKS
from protocol.numeric import Floats, Ticks
from protocol.outcome.payments import payments
from protocol.outcome.public_quota import weighted_quota
from protocol.pricing.center import WHOLE, Center, CenterRule, Certificate
from protocol.pricing.cutting_planes import Cuts
from protocol.pricing.rule import PRICE_LIMIT, PriceRule
from scripts.lab.common.agreements import players, table
from scripts.lab.common.instances import Instance, central, draw
from tests.reference.center import Reader
from tests.reference.make_center_vectors import dear, reader_of
from tests.support import ROOT

RESERVE = 1_099_512
"""Ticks: a millionth of the capacity, as sessions leave it."""

CASES = json.loads((ROOT / "tests" / "reference" / "vectors" / "center.json").read_text())["cases"]


class Round(Struct, frozen=True):
    """The prices asked, the demands in ticks (members by resources), and their utilities."""

    prices: Floats
    demands: Ticks
    earned: float


class Market:
    """Companies that answer prices, with public data."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.capacity = instance.capacity
        self.optimum = central(instance).utility
        self._companies = instance.subproblems()

    def ask(self, y: Floats) -> Round:
        prices = y / self.capacity
        answers = [company.answer(prices) for company in self._companies]
        demand = np.array([a.demand for a in answers if a])
        parts = np.clip(demand / self.capacity, 0.0, 1.0)
        ticks = np.rint(parts * TICKS).astype(np.int64)
        earned = [a.objective + float(prices @ a.demand) for a in answers if a]
        assert len(earned) == len(self._companies)
        return Round(y, ticks, math.fsum(earned))

    def dual_value(self, y: Floats) -> float:
        prices = y / self.capacity
        answers = [company.answer(prices) for company in self._companies]
        return math.fsum([*y, *(a.objective for a in answers if a)])


@cache
def market(seed: int, parties: int, resources: int, demands: bool = True) -> Market:
    return Market(draw(seed, parties=parties, resources=resources, demands=demands))


def played(rule: CenterRule, place: Market, rounds: int) -> Iterator[tuple[Center, list[Round]]]:
    """The states of a session after each of its rounds."""
    center, history = rule.first, []
    while center.round < rounds and not center.exact:
        history.append(place.ask(center.prices))
        center = rule.next(center, history[-1].demands.sum(axis=0))
        yield center, history


def proof(center: Center) -> Certificate:
    assert center.best is not None
    return center.best


def averages(best: Certificate, history: list[Round]) -> list[list[int]]:
    """Σ W·d of each resource and member, as integers."""
    kept = [(w, r.demands.tolist()) for w, r in zip(best.weights, history, strict=False) if w]
    K, m = history[0].demands.shape
    return [[sum(w * d[k][j] for w, d in kept) for k in range(K)] for j in range(m)]


SHORT = settings(max_examples=25)


@SHORT
@given(
    seed=st.integers(0, 10_000),
    parties=st.integers(2, 6),
    resources=st.integers(1, 6),
    demands=st.booleans(),
    reserve=st.sampled_from([0, 3, RESERVE]),
    worth=st.sampled_from([None, 1e-3, 100.0, 1e6]),
)
def test_certificate_is_never_below_the_truth(
    seed: int, parties: int, resources: int, demands: bool, reserve: int, worth: float | None
) -> None:
    """In every round, averaged prices and plans are as good as the certificate says."""
    place = market(seed, parties, resources, demands)
    guess = None if worth is None else np.full(resources, worth)
    rule = CenterRule(
        members=parties, resources=resources, ticks=TICKS, reserve_ticks=reserve, worth=guess
    )
    tolerance = 1e-9 * abs(place.optimum)  # the solver's precision
    seen: Certificate | None = None
    for center, history in played(rule, place, 45):
        best = proof(center)
        if best is seen or center.search is not None:
            continue
        seen = best
        assert place.dual_value(best.prices) - place.optimum <= best.bound + tolerance
        pairs = zip(best.weights, history, strict=False)
        earned = math.fsum(w / WHOLE * r.earned for w, r in pairs)
        assert place.optimum - earned <= best.bound + tolerance


@SHORT
@given(
    seed=st.integers(0, 10_000), parties=st.integers(2, 6), reserve=st.sampled_from([0, RESERVE])
)
def test_weights_are_integers_and_give_the_averages(seed: int, parties: int, reserve: int) -> None:
    """They add up exactly, ȳ is their average, and `fits` is true of the totals to the tick."""
    place = market(seed, parties, 3)
    rule = CenterRule(members=parties, resources=3, ticks=TICKS, reserve_ticks=reserve)
    for center, history in played(rule, place, 40):
        best = proof(center)
        assert sum(best.weights) == WHOLE
        assert min(best.weights) >= 0
        assert len(best.weights) <= center.round
        for j in range(3):
            pairs = zip(best.weights, history, strict=False)
            terms = (Fraction(float(r.prices[j])) * w for w, r in pairs)
            average = sum(terms, start=Fraction(0)) / WHOLE
            assert abs(Fraction(float(best.prices[j])) - average) <= average / 2**51
            if best.fits:
                assert 2 * sum(averages(best, history)[j]) <= (2 * TICKS - parties) * WHOLE


@pytest.mark.parametrize("parties", [5, 10])
@pytest.mark.parametrize("worth", [None, 100.0])
def test_prices_become_exact(parties: int, worth: float | None) -> None:
    """Sixty rounds find the optimum to 1e-5 and prove 1e-4."""
    for seed in (1, 2, 3):
        place = market(seed, parties, 5)
        guess = None if worth is None else np.full(5, worth)
        rule = CenterRule(members=parties, resources=5, ticks=TICKS, worth=guess)
        *_, (center, _) = played(rule, place, 60)
        found = place.dual_value(proof(center).prices)
        assert found - place.optimum <= 1e-5 * place.optimum
        assert proof(center).within(1e-4)


def agreed(instance: Instance, reserve: float = 1e-6) -> Agreement:
    """The agreement of a session on this instance."""
    return from_table(
        table(
            session="certificate",
            mode="exact",
            rounds=100,
            capacity=instance.capacity,
            share=instance.share,
            members=players(len(instance.data)),
            prices={"reserve": reserve},
        )
    )


def test_a_reserve_makes_the_averaged_demands_fit() -> None:
    """Each company gets what its averaged plan needs, and the box does not matter."""
    rule = CenterRule(
        members=5, resources=5, ticks=TICKS, reserve_ticks=RESERVE, worth=np.full(5, 100.0)
    )
    place = market(1, 5, 5)
    *_, (center, history) = played(rule, place, 50)
    best = proof(center)
    assert best.fits
    released = np.array([r.demands for r in history])
    quotas = weighted_quota(agreed(place.instance), released, best.weights).T.tolist()
    for own, demands in zip(quotas, averages(best, history), strict=True):
        assert sum(own) <= TICKS
        assert all(q * WHOLE >= d + WHOLE for q, d in zip(own, demands, strict=True))


@SHORT
@given(
    seed=st.integers(0, 10_000),
    parties=st.integers(2, 5),
    resources=st.integers(1, 5),
    rounds=st.integers(3, 40),
    demands=st.booleans(),
)
def test_no_company_loses_more_than_the_certificate(
    seed: int, parties: int, resources: int, rounds: int, demands: bool
) -> None:
    """If quotas cover averaged demands, no company is worse off than alone."""
    place = market(seed, parties, resources, demands)
    rule = CenterRule(members=parties, resources=resources, ticks=TICKS, reserve_ticks=RESERVE)
    *_, (center, history) = played(rule, place, rounds)
    best, agreement = proof(center), agreed(place.instance)
    quotas = weighted_quota(agreement, np.array([r.demands for r in history]), best.weights)
    needs = np.array(averages(best, history), dtype=object).T
    assume(center.search is None)
    assume((quotas.astype(object) * WHOLE >= needs + WHOLE).all())
    paid = payments(agreement, best.prices / place.capacity, quotas)
    tolerance = 1e-9 * abs(place.optimum)
    prices = best.prices / place.capacity
    for k, data in enumerate(place.instance.data):
        own = plan_within(data, amounts(agreement, quotas[k]))
        alone = plan_within(data, amounts(agreement, endowment(agreement)[k]))
        wish = place.instance.subproblems()[k].answer(prices)
        assert own is not None
        assert wish is not None
        cost = float(prices @ amounts(agreement, quotas[k]))
        assert own.utility - cost >= wish.objective - best.bound - tolerance
        if alone is not None:
            assert own.utility - paid[k] >= alone.utility - best.bound - tolerance


@pytest.mark.parametrize("seed", range(1, 6))
def test_at_most_m_plus_one_rounds_have_weight(seed: int) -> None:
    """The weights are a vertex of their linear program."""
    rule = CenterRule(members=4, resources=3, ticks=TICKS)
    for center, _ in played(rule, market(seed, 4, 3), 40):
        assert sum(w > 0 for w in proof(center).weights) <= 4


def test_no_weights_of_the_cuts_prove_more() -> None:
    """The gap is the depth of the deepest point under all cuts: LP duality."""
    rule = CenterRule(members=4, resources=4, ticks=TICKS)
    for center, _ in played(rule, market(5, 4, 4), 35):
        if center.search is not None:
            continue
        cuts, best = center.cuts, proof(center)
        depths = ((cuts.asked - center.prices) * cuts.slopes).sum(axis=1)
        n, m = len(depths), 4
        assert best.gap >= depths.min() * (1.0 - 1e-9)
        assert best.gap <= (n + m) * 1.2 / (1.0 / depths).sum()


def test_what_is_not_scarce_costs_nothing() -> None:
    """Two rounds are enough to find out."""
    rule = CenterRule(members=2, resources=2, ticks=TICKS, worth=np.array([10.0, 20.0]))
    center = rule.next(rule.first, np.array([TICKS, 5]))
    assert not center.prices.any()
    center = rule.next(center, np.array([TICKS - 10, 70]))
    best = proof(center)
    assert center.exact
    assert best.fits
    assert not best.prices.any()
    assert best.weights == (0, WHOLE)
    assert best.within(0.0)


def test_the_scale_is_found_from_any_guess() -> None:
    """A worth that is wrong by a factor of a million costs only some rounds."""
    place = market(2, 5, 5)
    for worth in ([1e-4] * 5, [1e8] * 5, [1.0, 1e4, 1e2, 1.0, 1e4]):
        rule = CenterRule(members=5, resources=5, ticks=TICKS, worth=np.array(worth))
        *_, (center, _) = played(rule, place, 60)
        assert place.dual_value(center.prices) - place.optimum <= 1e-3 * place.optimum


def in_other_units(data: CompanyModel, units: Floats) -> CompanyModel:
    """A company model with the shared resources in other units."""
    matrix = np.zeros((data.resources + data.private_rows, data.columns))
    for column in range(data.columns):
        part = slice(data.start[column], data.start[column + 1])
        matrix[data.index[part], column] = data.value[part]
    return dense(
        A=matrix[: data.resources] * units[:, None],
        B=matrix[data.resources :],
        u=data.utility,
        row_lower=data.row_lower,
        row_upper=data.row_upper,
        lower=data.lower,
        upper=data.upper,
    )


def test_units_of_the_capacities_do_not_matter() -> None:
    """In other units the prices of whole capacities stay the same."""
    plain = draw(3, parties=4)
    units = np.array([1e3, 1e-3, 1.0, 7.0, 1e5])
    other = Instance(
        plain.capacity * units, plain.share, tuple(in_other_units(d, units) for d in plain.data)
    )
    found = []
    for instance in (plain, other):
        rule = CenterRule(members=4, resources=5, ticks=TICKS)
        *_, (center, _) = played(rule, Market(instance), 40)
        found.append(proof(center).prices)
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_after_the_end_nothing_changes() -> None:
    """After an exact centre, prices and certificate stay."""
    rule = CenterRule(members=2, resources=1, ticks=TICKS, worth=np.array([5.0]))
    done = rule.next(rule.first, np.array([TICKS]))
    assert done.exact
    later = rule.next(done, np.array([7]))
    assert later.round == 2
    assert later.best is done.best
    assert later.prices is done.prices


NUMBERS = st.one_of(
    st.integers(-(2**60), 2**60),
    st.integers(0, 40 * TICKS),
    st.integers(TICKS - 3, TICKS + 3),
    st.sampled_from([0, 1, TICKS, -(2**60), 2**60]),
)


@settings(max_examples=75)
@given(data=st.data(), resources=st.integers(1, 6))
def test_any_totals_are_handled(data: st.DataObject, resources: int) -> None:
    """No exception, prices within the box, and a finite certificate."""
    guess = st.lists(
        st.sampled_from([0.0, 5e-324, 1e-9, 1.0, 350.0, 1e27]),
        min_size=resources,
        max_size=resources,
    )
    worth = data.draw(st.none() | guess)
    start = data.draw(st.none() | guess)
    rule = CenterRule(
        members=data.draw(st.integers(2, 100)),
        resources=resources,
        ticks=TICKS,
        reserve_ticks=data.draw(st.sampled_from([0, 1, RESERVE, TICKS - 1])),
        worth=None if worth is None else np.array(worth),
        start=None if start is None else np.array(start),
    )
    row = st.lists(NUMBERS, min_size=resources, max_size=resources)
    answers = data.draw(st.lists(row, min_size=1, max_size=8))
    center = rule.first
    for number in range(50):
        center = rule.next(center, np.array(answers[number % len(answers)], dtype=np.int64))
        best = proof(center)
        assert ((center.prices >= 0.0) & (center.prices <= center.box)).all()
        assert np.isfinite(center.box).all()
        assert sum(best.weights) == WHOLE
        assert min(best.weights) >= 0
        assert math.isfinite(best.bound)
        assert math.isfinite(best.gap)
        assert np.isfinite(best.prices).all()


def with_lies(place: Market, lies: Callable[[int, Ticks], Ticks], rounds: int) -> Center:
    """The end of a session in which the first member answers as it likes."""
    parties, m = len(place.instance.data), len(place.capacity)
    rule = CenterRule(members=parties, resources=m, ticks=TICKS, worth=np.full(m, 100.0))
    center = rule.first
    while center.round < rounds and not (center.best and center.best.within(1e-4)):
        demands = place.ask(center.prices).demands
        demands[0] = lies(center.round, demands[0])
        center = rule.next(center, demands.sum(axis=0))
    return center


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("lied", [range(5, 6), range(15, 16), range(12, 22)])
def test_a_lie_that_ends_is_given_up(seed: int, lied: range) -> None:
    """Answers that contradict later ones are in no certificate: it is small, and true."""
    place = market(seed, 5, 4)
    center = with_lies(place, lambda r, d: np.full_like(d, TICKS) if r in lied else d, 150)
    best = proof(center)
    assert best.within(1e-4)
    assert place.dual_value(best.prices) - place.optimum <= best.bound + 2.0**-9 * sum(best.prices)


def test_an_answer_that_contradicts_is_asked_again() -> None:
    """One wrong answer costs one round: the same prices are asked, and nothing else changes."""
    rule = CenterRule(members=5, resources=5, ticks=TICKS, worth=np.full(5, 100.0))
    *_, (center, history) = played(rule, market(1, 5, 5), 20)
    right = history[-1].demands.sum(axis=0)
    wrong = rule.next(center, np.array([2**60, -(2**60), 0, TICKS, 2**60]))
    assert (wrong.prices == center.prices).all()
    assert wrong.best is center.best
    assert not rule.next(wrong, right).again


def test_random_answers_never_stop_the_rule() -> None:
    """It goes on with prices in the box, whatever one member answers."""
    rng = np.random.default_rng(4)
    lies = with_lies(market(2, 4, 3), lambda _, d: rng.integers(0, TICKS, len(d)), 80)
    assert ((lies.prices >= 0.0) & (lies.prices <= lies.box)).all()


def test_the_box_grows_until_demands_fit() -> None:
    """A little too much is wanted up to a price far above the first box: the stop waits for it."""
    rule = CenterRule(members=2, resources=2, ticks=TICKS, worth=np.array([1.0, 1.0]))
    center, boxes = rule.first, set()
    while center.round < 100 and not (center.best and center.best.within(1e-4)):
        center = rule.next(center, np.array(dear(center.round, center.prices.tolist())))
        if center.search is None:
            boxes.add(float(center.box[1]))
    assert min(boxes) < 1000.0 < max(boxes)
    assert proof(center).within(1e-4)
    assert proof(center).prices[1] > min(boxes)


def test_prices_stay_below_the_limit() -> None:
    """If everything is always scarce, λ stays below the limit, and y is what was asked."""
    capacity = np.array([1e-9, 3.0, 1e12])
    agreement = from_table(
        table(session="dear", mode="exact", rounds=99, capacity=capacity, members=players(2))
    )
    rule = PriceRule(agreement)
    prices = rule.first
    for _ in range(99):
        prices = rule.next(prices, np.full(3, 2 * TICKS))
        assert prices.center is not None
        assert (prices.current <= PRICE_LIMIT).all()
        assert (prices.current == prices.center.prices / capacity).all()
        assert (proof(prices.center).prices / capacity <= PRICE_LIMIT).all()
    assert prices.current[0] > PRICE_LIMIT / 10.0


def earlier_cuts(rounds: list[list[list[float]]]) -> Cuts | None:
    if not rounds:
        return None
    asked, slopes = (np.array(part) for part in zip(*rounds, strict=True))
    return Cuts(np.full(len(rounds), -1), asked, slopes)


def kept(center: Center) -> Cuts:
    """The cuts of a session, as the next one takes them."""
    return replace(center.cuts, rounds=np.full(len(center.cuts.rounds), -1))


def certified(rule: CenterRule, place: Market) -> Center:
    for center, _ in played(rule, place, 150):
        if proof(center).within(1e-4):
            break
    return center


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_session_goes_on_from_the_cuts_of_another(seed: int) -> None:
    """It needs about what was left, and its certificate rests on its own rounds."""
    place = market(seed, 5, 5)
    plain = CenterRule(members=5, resources=5, ticks=TICKS)
    *_, (stopped, _) = played(plain, place, 20)
    rule = CenterRule(members=5, resources=5, ticks=TICKS, earlier=kept(stopped))
    center = certified(rule, place)
    best = proof(center)
    assert best.within(1e-4)
    assert center.round < certified(plain, place).round
    assert len(best.weights) <= center.round
    assert place.dual_value(best.prices) - place.optimum <= best.bound


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cuts_of_other_companies_do_no_harm(seed: int) -> None:
    """They are given up, and the certificate is true."""
    *_, (stopped, _) = played(
        CenterRule(members=5, resources=5, ticks=TICKS), market(seed, 5, 5), 60
    )
    place = market(seed + 10, 5, 5)
    center = certified(
        CenterRule(members=5, resources=5, ticks=TICKS, earlier=kept(stopped)), place
    )
    best = proof(center)
    assert best.within(1e-4)
    assert place.dual_value(best.prices) - place.optimum <= best.bound


def rule_of(case: dict[str, Any]) -> CenterRule:
    def array(numbers: list[float] | None) -> Floats | None:
        return None if numbers is None else np.array(numbers)

    return CenterRule(
        members=case["members"],
        resources=case["resources"],
        ticks=case["ticks"],
        reserve_ticks=case["reserve_ticks"],
        worth=array(case["worth"]),
        start=array(case["start"]),
        limit=array(case["limit"]),
        earlier=earlier_cuts(case["earlier"]),
    )


def hexes(numbers: list[float]) -> list[str]:
    return [number.hex() for number in numbers]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_centres_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    """Recorded totals give the recorded bits on every machine."""
    rule = rule_of(case)
    center = rule.first
    rounds = zip(case["totals"], case["prices"], case["certificates"], strict=True)
    for totals, prices, (bound, gap, fits) in rounds:
        center = rule.next(center, np.array(totals, dtype=np.int64))
        best = proof(center)
        assert hexes(center.prices.tolist()) == prices
        assert [best.bound.hex(), best.gap.hex(), best.fits] == [bound, gap, fits]
    assert list(proof(center).weights) == case["weights"]
    assert hexes(proof(center).prices.tolist()) == case["average"]
    assert center.exact is case["exact"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_reference_gives_the_vectors(case: dict[str, Any]) -> None:
    """The reference implementation, without numpy, gives the vectors too."""
    reader = reader_of(case)
    rounds = zip(case["totals"], case["prices"], case["certificates"], strict=True)
    for totals, prices, (bound, gap, fits) in rounds:
        reader.read(totals)
        assert reader.best is not None
        assert hexes(reader.prices) == prices
        best = reader.best
        assert [best.bound.hex(), best.gap.hex(), best.fits] == [bound, gap, fits]
    assert reader.best is not None
    assert reader.best.weights == case["weights"]
    assert hexes(reader.best.prices) == case["average"]
    assert reader.exact is case["exact"]


@settings(max_examples=20)
@example(seed=0, resources=16)
@given(seed=st.integers(0, 10_000), resources=st.integers(1, 8))
def test_product_and_reference_agree_on_any_market(seed: int, resources: int) -> None:
    """They agree bit for bit, in every round, with any number of resources."""
    rng = np.random.default_rng([seed, resources])
    best = 10.0 ** rng.uniform(-2, 4, resources)
    mixed = rng.uniform(0.0, 1.0, (resources, resources)) / resources
    rule = CenterRule(members=3, resources=resources, ticks=TICKS)
    reader, center = Reader(3, resources, TICKS), rule.first
    for _ in range(40):
        # Demand that falls with each price, and with those of what is used together with it.
        wanted = 2.0 / (0.5 + center.prices / best + (mixed * center.prices / best).sum(axis=1))
        totals = np.rint(wanted * TICKS).astype(np.int64)
        center = rule.next(center, totals)
        reader.read(totals.tolist())
        assert reader.best is not None
        assert center.prices.tolist() == reader.prices
        assert list(proof(center).weights) == reader.best.weights
        assert proof(center).bound == reader.best.bound
        assert center.basis is None or list(center.basis) == reader.basis


def test_the_yardstick_is_the_optimum() -> None:
    """At the best prices the dual value is the largest joint utility: a check by duality."""
    instance = draw(11, parties=3)
    best = central(instance)
    companies = [Subproblem(d, instance.capacity) for d in instance.data]
    answers = [company.answer(best.prices) for company in companies]
    value = math.fsum([*(best.prices * instance.capacity), *(a.objective for a in answers if a)])
    assert value == pytest.approx(best.utility)
