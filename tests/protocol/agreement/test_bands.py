"""Floors: the least that a member is given, or the most that it brings; and noise by band."""

import random
from fractions import Fraction
from typing import Any

import highspy
import numpy as np
import pytest

from party.model.best_response import subproblem
from party.model.company_model import dense, read
from party.release.gate import clamped
from protocol.agreement.endowment import endowment, prorata
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table, parse
from protocol.agreement.quantities import amounts, quantities
from protocol.agreement.render import written
from protocol.errors import BadAgreement
from protocol.numeric import Floats
from protocol.outcome.payments import payments
from protocol.outcome.public_quota import quota, weighted_quota
from protocol.privacy.calibration import Calibration
from scripts.lab.common.agreements import public_key
from tests.reference.random_agreements import drawn
from tests.support.problems import matrix

NAMES = ("acme", "bolt", "cargo")


def agreement(
    *bands: tuple[float, float],
    capacity: float = 10.0,
    span: float | None = None,
    endowments: tuple[float, ...] = (),
    **terms: Any,
) -> Agreement:
    """One resource, and for each member its floor and share."""
    resource = {"name": "hours", "capacity": capacity, "worth": 100.0}
    members: list[dict[str, Any]] = [
        {"name": name, "signing_key": public_key(name), "floor": floor, "share": share}
        for name, (floor, share) in zip(NAMES, bands, strict=False)
    ]
    for member, part in zip(members, endowments, strict=False):
        member["endowment"] = part
    table = {"session": "bands", "mode": "exact", "rounds": 4, **terms}
    resources = [resource | ({} if span is None else {"span": span})]
    return from_table(table | {"resource": resources, "member": members})


def noise(floor: float, share: float, shape: str) -> Floats:
    """The noise of the first member's release, in units."""
    made = agreement(
        (floor, share), (0.0, 1.0), (0.0, 1.0), mode="private",
        privacy={"epsilon": 1.0, "delta": 1e-3, "noise": shape},
    )  # fmt: skip
    ticks = Calibration(made).scales(quantities(made).share_ticks[0])
    return ticks * quantities(made).capacity / made.ticks


@pytest.mark.parametrize("shape", ["component", "norm"])
def test_a_band_half_as_wide_gives_half_the_noise(shape: str) -> None:
    """The sensitivity is share minus floor, for any floor."""
    whole = noise(0.0, 0.4, shape)
    assert whole[0] > 0.0
    for floor, share in ((0.2, 0.4), (0.0, 0.2), (-0.1, 0.1)):
        assert noise(floor, share, shape) == pytest.approx(whole / 2.0, rel=1e-3)


def test_bands_half_as_wide_for_all_give_half_the_noise_of_totals() -> None:
    """With `totals` the noise covers the widest band, and each member adds a share of it."""

    def of_all(floor: float, share: float) -> float:
        made = agreement(
            *[(floor, share)] * 3, mode="private", reveal="totals",
            privacy={"epsilon": 1.0, "delta": 1e-3},
        )  # fmt: skip
        parts = Calibration(made).scales(quantities(made).share_ticks)[:, 0]
        return float(np.sqrt((parts * parts).sum()) * quantities(made).capacity[0] / made.ticks)

    whole = of_all(0.0, 0.8)
    for floor, share in ((0.2, 0.6), (0.0, 0.4), (0.1, 0.5)):
        assert of_all(floor, share) == pytest.approx(whole / 2.0, rel=1e-3)


def test_floors_of_zero_change_only_the_digest() -> None:
    """Floors of 0 give the same capacities, shares and worth as no floors."""
    plain = from_table(
        {
            "session": "bands",
            "mode": "exact",
            "rounds": 4,
            "resource": [{"name": "hours", "capacity": 10.0, "worth": 100.0}],
            "member": [{"name": n, "signing_key": public_key(n), "share": 0.7} for n in NAMES],
        }
    )
    made = agreement(*[(0.0, 0.7)] * 3)
    assert quantities(made).capacity.tolist() == quantities(plain).capacity.tolist()
    assert quantities(made).share == pytest.approx(quantities(plain).share, abs=0.0, rel=1e-15)
    worth = quantities(made).worth
    assert worth is not None
    assert worth.tolist() == [100.0]
    assert not quantities(plain).floor.any()
    assert not plain.banded
    assert made.digest != plain.digest


def test_capacity_to_share_is_what_is_above_the_floors() -> None:
    """Of 10 units, with one member that brings 5 and one that is given 2, 13 are shared."""
    made = agreement((-0.5, 0.0), (0.2, 1.0), (0.0, 0.4))
    assert quantities(made).capacity.tolist() == [13.0]
    assert quantities(made).floor[:, 0].tolist() == [-5.0, 2.0, 0.0]
    assert quantities(made).share[:, 0] == pytest.approx([5.0 / 13.0, 8.0 / 13.0, 4.0 / 13.0])
    assert parse(written(made)) == made


def test_capacity_may_be_zero_or_negative_with_a_span() -> None:
    """Shares and floors are then fractions of the span."""
    for capacity in (0.0, -3.0):
        made = agreement((-0.5, 0.0), (-0.1, 0.5), (0.0, 0.5), capacity=capacity, span=10.0)
        assert quantities(made).capacity.tolist() == [capacity + 6.0]
        assert parse(written(made)).digest == made.digest


@pytest.mark.parametrize("seed", range(20))
def test_quotas_stay_within_bands_and_capacity(seed: int) -> None:
    """For any releases every quota is in its band, and the sum never exceeds the capacity."""
    rng = np.random.default_rng(seed)
    capacity = float(rng.choice([10.0, 0.0, -4.0, 7.3]))
    low = rng.uniform(-0.6, 0.1, 3)
    low[0] = -0.8
    high = rng.uniform(0.3, 1.0, 3)
    made = agreement(*zip(low.tolist(), high.tolist(), strict=True), capacity=capacity, span=10.0)
    released = rng.integers(0, quantities(made).share_ticks + 1, (4, 3, 1))
    y = rng.normal(0.0, 1.0, (3, 1)) * made.ticks
    splits = [
        weighted_quota(made, released, [1 << 48] * 4),
        quota(made, y, np.full((3, 1), 1e3)),
        prorata(made),
        endowment(made),
    ]
    for split in splits:
        own = [amounts(made, split[k], k)[0] for k in range(3)]
        assert sum(map(Fraction, own)) <= Fraction(capacity)
        assert sum(own) >= capacity - 1e-6
        for amount, floor, share in zip(own, low, high, strict=True):
            assert 10.0 * floor - 1e-6 <= amount <= 10.0 * share + 1e-4
    paid = payments(made, np.array([2.5]), splits[0])
    assert paid.sum() == 0.0


def test_a_member_that_brings_something_is_paid_for_it() -> None:
    """Payment is price times quota above endowment, with floors added to both."""
    made = agreement((-0.5, 0.0), (0.0, 1.0), endowments=(0.0, 1.0))
    assert [amounts(made, row, k)[0] for k, row in enumerate(endowment(made))] == pytest.approx(
        [0.0, 10.0], abs=1e-5
    )
    ticks = made.ticks // 3  # of 15 that are to share: acme brings 5 and has its floor
    split = np.array([[0], [3 * ticks]])
    paid = payments(made, np.array([2.0]), split)
    assert paid.tolist() == pytest.approx([-10.0, 10.0], rel=1e-5)


def test_default_endowments_are_within_bands() -> None:
    """They are in proportion to shares as far as floors allow; no member brings by default."""
    made = agreement((-0.5, 0.0), (0.0, 1.0), (0.0, 1.0))
    own = [amounts(made, row, k)[0] for k, row in enumerate(endowment(made))]
    assert own == pytest.approx([0.0, 5.0, 5.0], abs=1e-4)


def exactly(*, of: str = "hours", **prices: float) -> Agreement:
    """10 hours that must be used exactly, by members that may take any share of them."""
    resources = [
        {"name": "hours", "capacity": 10.0},
        {"name": "hours-least", "capacity": -10.0, "span": 10.0, "opposite": of},
    ]
    bands = {
        "floor": {"hours": 0.0, "hours-least": -1.0},
        "share": {"hours": 1.0, "hours-least": 0.0},
    }
    members = [{"name": name, "signing_key": public_key(name), **bands} for name in NAMES]
    table = {"session": "exact", "mode": "exact", "rounds": 4, "prices": prices}
    return from_table(table | {"resource": resources, "member": members})


def test_an_opposite_makes_a_resource_exact() -> None:
    """An opposite has no reserve, and must name a plain resource."""
    made = exactly()
    assert made.pricing.reserve == 0.0
    assert quantities(made).capacity.tolist() == [10.0, 20.0]
    assert parse(written(made)) == made
    with pytest.raises(BadAgreement, match="must be used exactly: choose 0"):
        exactly(reserve=1e-6)
    for of in ("days", "hours-least"):
        with pytest.raises(BadAgreement, match="must be another resource that is no opposite"):
            exactly(of=of)


def test_a_model_row_gives_a_resource_and_its_opposite() -> None:
    """One row gives the consumption of the resource and, negated, that of its opposite."""
    model = highspy.Highs()
    model.silent()
    x, y = (
        model.addVariable(lb=0.0, ub=4.0, obj=obj, name=n) for n, obj in (("x", 1.0), ("y", 2.0))
    )
    model.addConstr(2.0 * x - 3.0 * y == 7.0, name="hours")
    model.addConstr(x + y <= 5.0, name="own")
    data = read(model, exactly())
    rows = matrix(data).toarray()
    assert rows.tolist() == [[2.0, -3.0], [-2.0, 3.0], [1.0, 1.0]]
    assert data.private_rows == 1


def test_demand_is_released_above_the_floor() -> None:
    """A demand at the floor releases 0, and one at the share releases the whole band."""
    made = agreement((-0.5, 0.2), (0.0, 1.0))
    brings = dense(
        A=np.array([[-1.0, 1.0]]), B=np.zeros((0, 2)), u=np.array([-3.0, 8.0]),
        row_lower=np.zeros(0), row_upper=np.zeros(0), lower=np.zeros(2), upper=np.array([9.0, 2.0]),
    )  # fmt: skip
    problem = subproblem(brings, made, "acme")
    for price, least, most in ((0.0, 2.0, 2.0), (5.0, -5.0, -5.0), (9.0, -5.0, -5.0)):
        answer = problem.answer(np.array([price]))
        assert answer is not None
        assert least - 1e-9 <= answer.demand[0] <= most + 1e-9
        above = answer.demand - quantities(made).floor[0]
        ticks = clamped(made, above, np.array(0.0), quantities(made).share_ticks[0])
        expected = (answer.demand[0] + 5.0) / 15.0 * made.ticks
        assert ticks[0] == pytest.approx(expected, abs=1.0)
        assert 0 <= ticks[0] <= quantities(made).share_ticks[0, 0]


@pytest.mark.parametrize(
    ("bands", "terms", "error"),
    [
        (((0.5, 0.4), (0.0, 1.0)), {}, "has the floor 0.5 in resource 'hours', above its share"),
        (((0.5, 0.6), (0.5, 1.0)), {}, "the floors in resource 'hours' leave 0 of it to share"),
        (((0.0, 0.4), (0.0, 0.5)), {}, "the shares in resource 'hours' add up to less than 1"),
        (((-2.0, 0.4), (0.0, 1.0)), {}, "must be a number from -1 to 1"),
        (((0.0, 0.4), (0.0, 1.0)), {"capacity": 0.0}, "must be a number from 1e-09"),
        (((-0.5, 0.4), (0.0, 1.0)), {"endowments": (0.5, 0.4)}, "must add up to 1"),
        (((0.3, 0.4), (0.0, 1.0)), {"endowments": (0.2, 0.8)}, "below its floor of 0.3"),
    ],
)
def test_impossible_bands_are_refused(
    bands: tuple[tuple[float, float], ...], terms: dict[str, Any], error: str
) -> None:
    """The error names the member or resource and its numbers."""
    with pytest.raises(BadAgreement, match=error):
        agreement(*bands, **terms)


def test_many_members_with_floors_cost_time_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agreement of many members with floors does not take the square of their number."""
    asked, members, floor_of = [], 60, Agreement.floor_of

    def counted(agreement: Agreement, *place: Any) -> float:
        asked.append(place)
        return floor_of(agreement, *place)

    monkeypatch.setattr(Agreement, "floor_of", counted)
    rows = [{"name": f"party{k}", "floor": -0.01, "share": 0.1} for k in range(members)]
    terms = {"session": "many", "mode": "exact", "rounds": 2, "member": rows}
    endowment(from_table(terms | {"resource": [{"name": "steel", "capacity": 10.0}]}))
    assert len(asked) < 10 * members


def test_arrays_are_what_the_record_says_of_each_member() -> None:
    """Floors, shares and ticks of all members at once have the bits of those one by one."""
    for seed in range(150):
        terms = from_table(drawn(random.Random(seed)))
        arrays, columns = quantities(terms), range(len(terms.resources))
        for array, one in (
            (arrays.floor, terms.floor_of),
            (arrays.share, terms.share_of),
            (arrays.share_ticks, terms.share_ticks_of),
        ):
            rows = [[one(member, j) for j in columns] for member in terms.members]
            assert array.tobytes() == np.array(rows).tobytes()
