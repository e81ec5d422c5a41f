"""Payments for what is above the endowment: they add up to zero, to the last bit."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.agreement.endowment import endowment, prorata
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks
from protocol.outcome.payments import UNITS, payments, unit_of_money, with_levy
from tests.reference import codec as reference


def agreed(
    members: int,
    capacity: list[float],
    *,
    shares: list[list[float]] | None = None,
    endowments: list[list[float]] | None = None,
    step: str = "center",
) -> Agreement:
    """An agreement without noise; shares and endowments have a row for each member."""
    names = [f"r{j}" for j in range(len(capacity))]
    roster: list[dict[str, Any]] = [{"name": f"p{k}"} for k in range(members)]
    for key, rows in (("share", shares), ("endowment", endowments)):
        for member, row in zip(roster, rows or (), strict=bool(rows)):
            member[key] = dict(zip(names, row, strict=True))
    return from_table(
        {
            "session": "money",
            "mode": "exact",
            "rounds": 3,
            "prices": {"step": step} | ({} if step == "center" else {"step_size": 0.1}),
            "resource": [
                {"name": name, "capacity": c} for name, c in zip(names, capacity, strict=True)
            ],
            "member": roster,
        }
    )


def parted(rng: np.random.Generator, whole: int, members: int, resources: int) -> Ticks:
    """Whole numbers of ticks with a given sum in every resource, some of them 0."""
    cuts = np.sort(rng.integers(0, whole + 1, (members - 1, resources)), axis=0)
    ends = np.vstack([np.zeros_like(cuts[:1]), cuts, np.full_like(cuts[:1], whole)])
    return np.diff(ends, axis=0)


def assert_nothing_is_left(paid: Floats) -> None:
    """The payments add up to zero as floats, in any order, and as fractions."""
    exact = [Fraction(p) for p in paid.tolist()]
    assert sum(exact) == 0
    assert math.fsum(paid) == 0.0
    assert float(np.add.accumulate(paid)[-1]) == float(np.add.accumulate(paid[::-1])[-1]) == 0.0


@st.composite
def cases(draw: st.DrawFn) -> tuple[Agreement, Floats, Ticks]:
    """Agreements of 2 to 20 members, any prices, and quotas that may leave something."""
    members, resources = draw(st.integers(2, 20)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    capacity = (10.0 ** rng.uniform(-6, 9, resources)).tolist()
    endowments = None
    if draw(st.booleans()):
        endowments = (parted(rng, 2**30, members, resources) / 2**30).tolist()
    shares = np.ones((members, resources))
    if endowments is None and draw(st.booleans()):
        shares[1:] = rng.uniform(0.0, 1.0, shares[1:].shape)
    agreement = agreed(
        members,
        capacity,
        shares=shares.tolist(),
        endowments=endowments,
        step=draw(st.sampled_from(["center", "sqrt"])),
    )
    money = 10.0 ** rng.uniform(-9, 12, resources)
    prices = money / quantities(agreement).capacity * draw(st.sampled_from([0.0, 1.0, 1.0, 1.0]))
    prices[rng.integers(resources)] *= draw(st.sampled_from([0.0, 1.0]))
    quota = parted(rng, agreement.ticks, members, resources)
    if draw(st.booleans()):
        quota = np.maximum(quota - rng.integers(0, agreement.ticks, resources), 0)
    return agreement, prices, quota


@given(cases())
@settings(max_examples=300)
def test_payments_add_up_to_zero_exactly(case: tuple[Agreement, Floats, Ticks]) -> None:
    """For any prices and quotas the sum is zero, and each payment is off by less than a unit."""
    agreement, prices, quota = case
    paid = payments(agreement, prices, quota)
    assert_nothing_is_left(paid)
    values = [Fraction(y) for y in (prices * quantities(agreement).capacity).tolist()]
    worth = math.fsum(map(float, values))
    unit = 2 * worth / UNITS if worth else 1.0
    brought, used = endowment(agreement).tolist(), quota.sum(axis=0).tolist()
    for k, own in enumerate(quota.tolist()):
        exact = sum(
            y * (Fraction(q, agreement.ticks) - Fraction(e * u, agreement.ticks**2))
            for y, q, e, u in zip(values, own, brought[k], used, strict=True)
        )
        assert abs(Fraction(float(paid[k])) - exact) <= Fraction(unit)


@given(cases())
@settings(max_examples=100)
def test_payments_are_those_of_the_reference(case: tuple[Agreement, Floats, Ticks]) -> None:
    """The reference implementation gets the same payments, bit for bit."""
    agreement, prices, quota = case
    expected = reference.payments(
        prices=prices.tolist(),
        capacity=quantities(agreement).capacity.tolist(),
        quota=quota.tolist(),
        endowment=endowment(agreement).tolist(),
        ticks=agreement.ticks,
    )
    assert payments(agreement, prices, quota).tolist() == expected


@given(st.integers(2, 20), st.integers(0, 2**32))
@example(20, 1)
@settings(max_examples=50)
def test_endowments_add_up_to_the_capacity(members: int, seed: int) -> None:
    """The sum is exact to the tick, and each is within a tick of the agreed fraction."""
    rng = np.random.default_rng(seed)
    parts = rng.dirichlet(np.ones(members), 3).T
    agreement = agreed(members, [1.0, 2.0, 3.0], endowments=parts.tolist())
    ticks = endowment(agreement)
    assert ticks.sum(axis=0).tolist() == [agreement.ticks] * 3
    assert (np.abs(ticks - parts * agreement.ticks) < 1.001).all()


def test_without_endowments_the_split_is_pro_rata() -> None:
    """If the agreement names no endowments, they are in proportion to the shares."""
    shares = [[1.0, 0.5], [0.5, 0.5], [0.5, 0.25]]
    agreement = agreed(3, [10.0, 20.0], shares=shares, step="sqrt")
    assert endowment(agreement).tolist() == prorata(agreement).tolist()
    assert endowment(agreement)[:, 0].tolist() == [1 << 19, 1 << 18, 1 << 18]


def test_payments_by_hand() -> None:
    """A quarter above the endowment of 10 units at 2 each costs 5, a quarter below pays 5."""
    agreement = agreed(2, [10.0, 4.0], endowments=[[0.5, 1.0], [0.5, 0.0]])
    t = agreement.ticks
    quota = np.array([[3 * t // 4, t // 2], [t // 4, t // 2]])
    assert payments(agreement, np.array([2.0, 0.0]), quota).tolist() == [5.0, -5.0]
    # Half of the 4 units at 1 each, which only the first brought.
    assert payments(agreement, np.array([2.0, 1.0]), quota).tolist() == [3.0, -3.0]
    assert payments(agreement, np.zeros(2), quota).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("price", [5e-324, 1e-320, 1e-300, 1e15])
def test_no_price_is_too_small_or_too_large(price: float) -> None:
    """At the limits of float64 the payments still add up to zero."""
    agreement = agreed(3, [1e12, 1.0], endowments=[[0.5, 1.0], [0.25, 0.0], [0.25, 0.0]])
    rng = np.random.default_rng(1)
    quota = parted(rng, agreement.ticks, 3, 2)
    assert_nothing_is_left(payments(agreement, np.array([0.0, price]), quota))
    assert_nothing_is_left(payments(agreement, np.array([price, 0.0]), quota))


def test_the_unit_of_money_is_a_power_of_two_of_the_whole_worth() -> None:
    """The next power above the worth, in 2^40 parts; 1 where float64 has none so small."""
    agreement = agreed(2, [10.0, 4.0])
    assert unit_of_money(np.array([1.0, -1.5]), agreement) == 32 / UNITS  # worth 10 + 6
    assert unit_of_money(np.array([1.0, -1.0]), agreement) == 16 / UNITS
    assert unit_of_money(np.array([0.0, 5e-324]), agreement) == 1.0


def test_unused_capacity_reduces_all_endowments() -> None:
    """If half of a capacity is used, every endowment counts half."""
    agreement = agreed(2, [10.0], endowments=[[0.75], [0.25]])
    t = agreement.ticks
    quota = np.array([[t // 4], [t // 4]])
    assert payments(agreement, np.array([2.0]), quota).tolist() == [-2.5, 2.5]


def test_quotas_equal_to_endowments_cost_nothing() -> None:
    """No money moves, whatever the prices."""
    agreement = agreed(3, [10.0, 20.0], endowments=[[0.2, 0.1], [0.3, 0.8], [0.5, 0.1]])
    paid = payments(agreement, np.array([1 / 3, 1e9]), endowment(agreement))
    assert paid.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("seed", range(5))
def test_negative_prices_are_paid_too(seed: int) -> None:
    """With a negative price, a member that takes more is paid; the sum is zero."""
    rng = np.random.default_rng(seed)
    agreement = agreed(7, [3.0, 1e6, 1e-3], step="sqrt")
    prices = rng.normal(0.0, 1.0, 3) * 10.0 ** rng.uniform(-3, 6, 3)
    paid = payments(agreement, prices, parted(rng, agreement.ticks, 7, 3))
    assert_nothing_is_left(paid)
    assert paid.min() < 0.0 < paid.max()


@pytest.mark.parametrize(
    ("prices", "levies"),
    [((2.0, 0.0), (-3, -9)), ((1.0, -8.75), (-10, -2)), ((0.0, 0.0), (-6, -6))],
    ids=["one price", "a negative price counts by its size", "all prices 0"],
)
def test_a_levy_by_hand(prices: tuple[float, float], levies: tuple[int, int]) -> None:
    """What is 12 too much goes back by the worth of endowments, or equally if they have none."""
    agreement = agreed(2, [10.0, 4.0], endowments=[[0.25, 1.0], [0.75, 0.0]], step="sqrt")
    due = [Fraction(7), Fraction(5)]
    paid = with_levy(agreement, np.array(prices), due)
    assert sum(paid) == 0
    whole = [own + levy for own, levy in zip(due, levies, strict=True)]
    assert [float(amount) for amount in paid] == pytest.approx(whole, abs=1e-5)
