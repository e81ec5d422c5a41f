"""Private quotas and payments from totals: feasible, and equal to public ones."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.agreement.endowment import endowment, prorata
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Ticks
from protocol.outcome.allocation_rule import (
    AllocationRule,
    exact_rule,
    pro_rata_rule,
    weighted_sums,
)
from protocol.outcome.payments import payments, unit_of_money
from protocol.outcome.private_quota import Allocation, allocate
from protocol.outcome.public_quota import weighted_quota
from tests.reference import masks as reference_masks
from tests.support.builders import make_agreement


def agreement_with(shares: list[float], resources: int = 2, **more: Any) -> Agreement:
    table = make_agreement(members=len(shares), resources=resources, reveal="totals", **more)
    members = [
        {"name": m.name, "signing_key": m.signing_key.hex(), "share": share}
        for m, share in zip(table.members, shares, strict=True)
    ]
    return make_agreement(
        members=len(shares), resources=resources, reveal="totals", **{**more, "member": members}
    )


def parts_of(
    agreement: Agreement, rule: AllocationRule, demands: Ticks, unmasked: Ticks, prices: Any
) -> list[Allocation]:
    """The allocation of every member; demands are rounds by members by resources."""
    return [
        allocate(
            agreement,
            rule,
            row,
            demands=demands[:, row],
            unmasked=unmasked[:, row],
            totals=unmasked.sum(axis=1),
            prices=prices,
        )
        for row in range(demands.shape[1])
    ]


@st.composite
def sessions(draw: st.DrawFn) -> tuple[Agreement, Ticks, list[int], Any]:
    """Shares, demands within them, weights and prices."""
    members = draw(st.integers(3, 5))
    shares = [
        1.0,
        *draw(st.lists(st.floats(0.01, 1.0), min_size=members - 1, max_size=members - 1)),
    ]
    prices = draw(st.sampled_from([{"step": "center"}, {"step": "sqrt", "step_size": 0.1}]))
    agreement = agreement_with(shares, rounds=9, prices=prices)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rounds = draw(st.integers(1, 9))
    scale = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    demands = np.floor(
        rng.uniform(0, 1, (rounds, members, 2)) * quantities(agreement).share_ticks * scale
    )
    weights = rng.integers(0, 1 << 50, rounds)
    weights[-1] += 1
    money = rng.uniform(0, 10, 2) * 10.0 ** rng.integers(-6, 6)
    return agreement, demands.astype(np.int64), weights.tolist(), money


@given(sessions())
@settings(max_examples=120, deadline=None, derandomize=True)
def test_private_quotas_equal_public_ones(
    played: tuple[Agreement, Ticks, list[int], Any],
) -> None:
    """Each member finds, to the tick, what `reveal = each` makes public."""
    agreement, demands, weights, prices = played
    rule = exact_rule(agreement, weighted_sums(weights, demands.sum(axis=1)), weights)
    own = np.array([p.quota for p in parts_of(agreement, rule, demands, demands, prices)])
    assert own.tolist() == weighted_quota(agreement, demands, weights).tolist()


@given(sessions())
@settings(max_examples=120, deadline=None, derandomize=True)
def test_quotas_never_exceed_a_capacity_and_fill_it(
    played: tuple[Agreement, Ticks, list[int], Any],
) -> None:
    """They leave less than a tick per member if no share is full."""
    agreement, demands, weights, prices = played
    rule = exact_rule(agreement, weighted_sums(weights, demands.sum(axis=1)), weights)
    own = np.array([p.quota for p in parts_of(agreement, rule, demands, demands, prices)])
    left = agreement.ticks - own.sum(axis=0)
    assert (left >= 0).all()
    full = (own >= quantities(agreement).share_ticks).any(axis=0)
    assert (left[~full] < len(own)).all()


@given(sessions())
@settings(max_examples=120, deadline=None, derandomize=True)
def test_payments_add_up_to_zero_within_half_a_unit_each(
    played: tuple[Agreement, Ticks, list[int], Any],
) -> None:
    """This holds also if releases differ from demands."""
    agreement, demands, weights, prices = played
    rng = np.random.default_rng(int(demands.sum()) % 2**32)
    unmasked = demands + rng.integers(-(1 << 30), 1 << 30, demands.shape)
    rule = exact_rule(agreement, weighted_sums(weights, unmasked.sum(axis=1)), weights)
    paid = [Fraction(p.payment) for p in parts_of(agreement, rule, demands, unmasked, prices)]
    unit = Fraction(unit_of_money(prices, agreement))
    assert 2 * abs(sum(paid, start=Fraction(0))) <= unit * len(paid)


@given(sessions())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_allocations_are_those_of_the_reference(
    played: tuple[Agreement, Ticks, list[int], Any],
) -> None:
    """Quota and payment of the reference implementation are the same bits."""
    agreement, demands, weights, prices = played
    rule = exact_rule(agreement, weighted_sums(weights, demands.sum(axis=1)), weights)
    for row, made in enumerate(parts_of(agreement, rule, demands, demands, prices)):
        quota, payment = reference_masks.own_quota_and_payment(
            asked=demands[:, row].tolist(),
            unmasked=demands[:, row].tolist(),
            totals=demands.sum(axis=1).tolist(),
            weights=weights,
            place=row,
            shares=[list(m.share) for m in agreement.members],
            endowment=endowment(agreement)[row].tolist(),
            money=(prices * quantities(agreement).capacity).tolist(),
            ticks=agreement.ticks,
        )
        assert (made.quota.tolist(), made.payment) == (quota, payment)


def test_private_payments_equal_public_ones_apart_from_rounding() -> None:
    """This holds if no share is full."""
    agreement = agreement_with([1.0, 0.5, 0.75], prices={"step": "center"})
    rng = np.random.default_rng(3)
    demands = rng.integers(0, agreement.ticks // 4, (5, 3, 2))
    weights, prices = [1, 0, 5, 2, 9], np.array([3.0, 0.25])
    rule = exact_rule(agreement, weighted_sums(weights, demands.sum(axis=1)), weights)
    own = [p.payment for p in parts_of(agreement, rule, demands, demands, prices)]
    public = payments(agreement, prices, weighted_quota(agreement, demands, weights))
    assert own == pytest.approx(public.tolist(), abs=1e-9)
    assert max(map(abs, own)) > 0.1


def test_without_a_round_quotas_are_pro_rata() -> None:
    """Each is within a tick of the pro rata split."""
    agreement = agreement_with([1.0, 0.5, 0.25])
    nothing = np.zeros((0, 3, 2), dtype=np.int64)
    for rule in (pro_rata_rule(agreement), exact_rule(agreement, [0, 0], ())):
        own = [p.quota for p in parts_of(agreement, rule, nothing, nothing, np.array([1.0, 2.0]))]
        off = prorata(agreement) - np.array(own)
        assert off.min() >= 0
        assert off.max() <= 1


def test_an_allocation_hides_its_numbers_from_logs() -> None:
    """Neither quota nor payment is in its repr."""
    shown = repr(Allocation(np.array([12345, 678]), 91011.5))
    assert not any(text in shown for text in ("12345", "678", "91011"))


def test_a_member_commits_to_its_quota_before_the_cut() -> None:
    """Where nothing is cut, that is the quota."""
    quota, uncut = np.array([3, 4]), np.array([3, 9])
    assert Allocation(quota, 0.0).committed_ticks.tolist() == [3, 4]
    assert Allocation(quota, 0.0, uncut).committed_ticks.tolist() == [3, 9]
