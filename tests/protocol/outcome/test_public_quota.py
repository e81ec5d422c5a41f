"""Public quotas: always feasible, equal for all, and sensible with any noise."""

import json
import math
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.agreement.endowment import prorata
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import FINE_TICKS, TICKS
from protocol.numeric import Floats, Ticks, apportion, split_capacity
from protocol.outcome.outcome import outcome
from protocol.outcome.public_quota import average_release, posterior_mean, quota, weighted_quota
from protocol.pricing.center import WHOLE
from protocol.rounds import numbers
from protocol.wire.messages import VALUE_LIMIT
from protocol.wire.transcript import load
from tests.reference import codec as reference
from tests.reference import rounds as reference_rounds
from tests.support import ROOT
from tests.support.builders import dump, make_agreement, play, table

VECTORS = json.loads((ROOT / "tests" / "reference" / "vectors" / "quota.json").read_text())


@st.composite
def agreements(draw: st.DrawFn) -> Agreement:
    """Agreements of every mode and size whose shares can use all of every capacity."""
    members, resources = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    mode = draw(st.sampled_from(["exact", "private", "clipped"]))
    names = [f"r{j}" for j in range(resources)]
    part = st.floats(0.0, 1.0, allow_subnormal=False)
    content = table(members=members, resources=resources, rounds=draw(st.integers(1, 6)))
    content["mode"] = mode
    for member in content["member"]:
        member["share"] = {name: draw(part) for name in names}
    for name in names:
        if sum(member["share"][name] for member in content["member"]) < 1.0:
            content["member"][draw(st.integers(0, members - 1))]["share"][name] = 1.0
    if mode != "exact":
        content["privacy"] = {
            "epsilon": draw(st.floats(1e-3, 100.0)),
            "delta": 1e-3,
            "noise": draw(st.sampled_from(["component", "norm"])),
            "truncate": draw(st.booleans()),
        }
    return from_table(content)


def averages(agreement: Agreement, rounds: list[Ticks]) -> tuple[Floats, Floats]:
    """Average releases and the noise left in them, after these rounds."""
    shape = (-1, len(agreement.members), agreement.width)
    return average_release(agreement, np.array(rounds, dtype=np.int64).reshape(shape))


def noise_of_one_round(agreement: Agreement) -> Floats:
    return averages(agreement, [np.zeros(quantities(agreement).share.shape, dtype=np.int64)])[1]


@given(agreements(), st.data())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_always_feasible(agreement: Agreement, data: st.DataObject) -> None:
    """Whatever is released, quotas are within the shares and fill every capacity exactly."""
    shape = (len(agreement.members), agreement.width)
    value = st.one_of(
        st.integers(0, TICKS),
        st.integers(-TICKS, 3 * TICKS),
        st.integers(-VALUE_LIMIT, VALUE_LIMIT),
    )
    rounds = [
        np.array(data.draw(st.lists(value, min_size=math.prod(shape), max_size=math.prod(shape))))
        .astype(np.int64)
        .reshape(shape)
        for _ in range(data.draw(st.integers(0, agreement.rounds)))
    ]
    split = quota(agreement, *averages(agreement, rounds))
    assert split.sum(axis=0).tolist() == [TICKS] * len(agreement.resources)
    assert (split >= 0).all()
    assert (split <= quantities(agreement).share_ticks).all()


@given(agreements())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_same_from_every_copy(agreement: Agreement) -> None:
    """A party and an auditor with the file get the same quotas."""
    transcript, _ = play(agreement)
    audited = outcome(agreement, load(agreement, dump(agreement, transcript)))
    released = [numbers(releases) for releases in transcript.rounds]
    assert (quota(agreement, *averages(agreement, released)) == audited.quota).all()


def centered_agreement(members: int, shares: list[list[float]]) -> Agreement:
    """An agreement of the centre rule; shares have a row for each member."""
    names = [f"r{j}" for j in range(len(shares[0]))]
    roster = [
        {"name": f"p{k}", "share": dict(zip(names, row, strict=True))}
        for k, row in zip(range(members), shares, strict=True)
    ]
    resources = [{"name": name, "capacity": 10.0} for name in names]
    return from_table(
        {
            "session": "weights",
            "mode": "exact",
            "rounds": 9,
            "resource": resources,
            "member": roster,
        }
    )


@st.composite
def weighed(draw: st.DrawFn) -> tuple[Agreement, Ticks, list[int]]:
    """Rounds of any releases, and weights that add up to 2⁵⁰; the last rounds may have none."""
    members, resources = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shares = rng.uniform(0.0, 1.0, (members, resources)) * draw(st.sampled_from([0.2, 1.0]))
    shares[rng.integers(members)] = 1.0
    rounds = draw(st.integers(1, 5))
    size = draw(st.sampled_from([FINE_TICKS // 4, 2 * FINE_TICKS, VALUE_LIMIT]))
    low = draw(st.sampled_from([0, -size]))
    released = rng.integers(low, size + 1, (rounds, members, resources))
    if draw(st.booleans()):
        released[rng.integers(rounds)] = draw(st.sampled_from([-VALUE_LIMIT, 0, VALUE_LIMIT]))
    parts = rng.dirichlet(np.ones(draw(st.integers(1, rounds)))) * WHOLE
    weights = apportion(WHOLE, [int(part) for part in parts])
    return centered_agreement(members, shares.tolist()), released, weights


@given(weighed())
@settings(max_examples=300)
def test_weighted_quotas_are_always_feasible(case: tuple[Agreement, Ticks, list[int]]) -> None:
    """For any releases and weights, quotas are within every share and capacity."""
    agreement, released, weights = case
    split = weighted_quota(agreement, released, weights)
    caps = quantities(agreement).share_ticks
    assert (split >= 0).all()
    assert (split <= caps).all()
    for j, used in enumerate(split.sum(axis=0).tolist()):
        assert used <= agreement.ticks
        full = (split[:, j] == caps[:, j]).any()
        assert full or used > agreement.ticks - len(agreement.members)


@given(weighed())
@settings(max_examples=100)
def test_weighted_quotas_are_those_of_the_reference(
    case: tuple[Agreement, Ticks, list[int]],
) -> None:
    """The reference implementation gets the same quotas, to the tick."""
    agreement, released, weights = case
    expected = reference.weighted_quota(
        released.tolist(), weights, quantities(agreement).share.tolist(), agreement.ticks
    )
    assert weighted_quota(agreement, released, weights).tolist() == expected


@given(weighed(), st.integers(0, 2**32))
@settings(max_examples=150)
def test_a_weighted_quota_follows_from_own_numbers_and_totals(
    case: tuple[Agreement, Ticks, list[int]], seed: int
) -> None:
    """A quota stays the same however the others divide their demands among them."""
    agreement, released, weights = case
    released = np.maximum(released, 0)
    rng = np.random.default_rng(seed)
    other = released.copy()
    for rows in other:
        for j in range(rows.shape[1]):
            whole = int(rows[1:, j].sum())
            cuts = np.sort(rng.integers(0, whole + 1, len(rows) - 2))
            rows[1:, j] = np.diff([0, *cuts.tolist(), whole])
    mine = weighted_quota(agreement, released, weights)[0]
    assert weighted_quota(agreement, other, weights)[0].tolist() == mine.tolist()
    permuted = released[:, [0, *(1 + rng.permutation(released.shape[1] - 1)).tolist()]]
    assert weighted_quota(agreement, permuted, weights)[0].tolist() == mine.tolist()


def test_weighted_quotas_cover_every_averaged_demand_that_fits() -> None:
    """If averages fit, each member gets its own and a pro rata part of the rest."""
    agreement = centered_agreement(3, [[1.0], [0.5], [0.5]])
    t = agreement.ticks
    released = np.array([[[t // 2], [0], [t // 8]], [[0], [t // 4], [t // 8]]])
    # Averages t/4, t/8, t/8 leave half, which goes out as 1 : ½ : ½.
    split = weighted_quota(agreement, released, [WHOLE // 2, WHOLE // 2])
    assert split[:, 0].tolist() == [t // 4 + t // 4, t // 8 + t // 8, t // 8 + t // 8]


def test_weighted_quotas_cut_all_demands_by_the_same_factor() -> None:
    """Averages of twice the capacity are halved."""
    agreement = centered_agreement(2, [[1.0], [1.0]])
    t = agreement.ticks
    split = weighted_quota(agreement, np.array([[[t // 2], [t + t // 2]]]), [WHOLE])
    assert split[:, 0].tolist() == [t // 4, t // 4 + t // 2]


def test_rounds_without_weight_do_not_count() -> None:
    """Their releases may be anything."""
    agreement = centered_agreement(2, [[1.0], [1.0]])
    t = agreement.ticks
    rows = [[t // 4], [t // 4]]
    wild = [[VALUE_LIMIT], [-VALUE_LIMIT]]
    alone = weighted_quota(agreement, np.array([rows]), [WHOLE])
    assert (
        weighted_quota(agreement, np.array([wild, rows, wild]), [0, WHOLE]).tolist()
        == alone.tolist()
    )


def noisy_agreement(epsilon: float, shares: list[float], rounds: int = 20) -> Agreement:
    content = table(members=len(shares), rounds=rounds, mode="private")
    for member, share in zip(content["member"], shares, strict=True):
        member["share"] = share
    return from_table(content | {"privacy": {"epsilon": epsilon, "delta": 1e-3}})


@pytest.mark.parametrize("shares", [[1.0, 0.5, 0.25], [0.4, 0.4, 0.4], [1.0, 0.01, 0.2]])
def test_quotas_tend_to_pro_rata_as_noise_grows(shares: list[float]) -> None:
    """As ε falls to 0 the quotas tend to the pro rata split."""
    off = []
    for epsilon in (1.0, 1e-2, 1e-4):
        agreement = noisy_agreement(epsilon, shares)
        sigma = noise_of_one_round(agreement)
        rng = np.random.default_rng(7)
        rounds = [
            np.rint(rng.normal(0.3 * quantities(agreement).share_ticks, sigma)).astype(np.int64)
            for _ in range(agreement.rounds)
        ]
        split = quota(agreement, *averages(agreement, rounds))
        exact = np.array(shares)[:, None] / sum(shares) * TICKS
        assert (np.abs(prorata(agreement) - exact) < 1.0).all()
        off.append(np.abs(split - exact).max() / TICKS)
    assert off[0] > off[1] > off[2]
    assert off[2] < 1e-3


def filling_demands(rng: np.random.Generator, members: int, resources: int) -> Ticks:
    """Demands in ticks that fill every capacity exactly, none above 0.7 of it."""
    while True:
        cuts = np.sort(rng.integers(0, TICKS, (members - 1, resources)), axis=0)
        ends = np.vstack([np.zeros_like(cuts[:1]), cuts, np.full_like(cuts[:1], TICKS)])
        demands = np.diff(ends, axis=0)
        if demands.max() <= 0.7 * TICKS:
            return demands


@pytest.mark.parametrize("seed", range(5))
def test_quota_is_the_average_demand_without_noise(seed: int) -> None:
    """In mode exact the quota is the average demand of the last half, if that fits."""
    rng = np.random.default_rng(seed)
    agreement = make_agreement(members=4, resources=3, rounds=10)
    demands = [filling_demands(rng, 4, 3) for _ in range(10)]
    split = quota(agreement, *averages(agreement, demands))
    mean = sum(demands[5:], start=np.zeros((4, 3), dtype=np.int64)) / 5
    assert (np.abs(split - mean) <= 2.0).all()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("quieter", [1e-1, 1e-2, 1e-4])
def test_quota_tends_to_the_average_demand_as_noise_vanishes(seed: int, quieter: float) -> None:
    """The quota is off by no more than the noise left in the average."""
    rng = np.random.default_rng(seed)
    demands = filling_demands(rng, 4, 2)
    agreement = noisy_agreement(100.0, [0.9] * 4)
    sigma = quieter * noise_of_one_round(agreement)
    rounds = [
        np.rint(demands + draw * sigma).astype(np.int64)
        for draw in rng.standard_normal((agreement.rounds, 4, 2))
    ]
    y, s = averages(agreement, rounds)
    left = float(sigma.max()) / math.sqrt(agreement.rounds)
    assert np.abs(quota(agreement, y, quieter * s) - demands).max() <= 4.0 * left + 4.0
    assert left < 2.0 * quieter * TICKS


@given(
    st.lists(
        st.tuples(st.integers(0, TICKS), st.integers(0, TICKS)), min_size=1, max_size=8
    ).filter(lambda pairs: sum(cap for _, cap in pairs) >= TICKS)
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_split_is_one_level_for_all(pairs: list[tuple[int, int]]) -> None:
    """Each part is within a tick of min(cap, θ·weight), with one θ from exact bisection."""
    weights, caps = (list(column) for column in zip(*pairs, strict=True))
    weights = [min(w, c) for w, c in zip(weights, caps, strict=True)]
    parts = split_capacity(TICKS, weights, caps)
    assert sum(parts) == TICKS
    assert all(0 <= part <= cap for part, cap in zip(parts, caps, strict=True))
    reachable = sum(cap for weight, cap in zip(weights, caps, strict=True) if weight)
    if reachable < TICKS:
        for weight, cap, part in zip(weights, caps, parts, strict=True):
            exact = cap if weight else Fraction(TICKS - reachable, sum(caps) - reachable) * cap
            assert abs(part - exact) < 1
        return
    low, high = Fraction(0), Fraction(TICKS)
    for _ in range(60):
        level = (low + high) / 2
        full = sum(min(Fraction(c), level * w) for w, c in zip(weights, caps, strict=True))
        low, high = (level, high) if full <= TICKS else (low, level)
    for weight, cap, part in zip(weights, caps, parts, strict=True):
        assert abs(part - min(Fraction(cap), low * weight)) < 1 + Fraction(1, 1000)


@pytest.mark.parametrize(
    ("weights", "caps", "parts"),
    [
        ([1, 1], [2, 3], [1, 2]),  # the second is farther from its cap
        ([1, 1], [3, 2], [2, 1]),
        ([1, 1], [3, 3], [2, 1]),  # alike: the earlier
        ([0, 0], [2, 3], [1, 2]),
        ([0, 0], [2, 2], [2, 1]),
    ],
)
def test_the_last_tick_goes_where_the_specification_says(
    weights: list[int], caps: list[int], parts: list[int]
) -> None:
    """Ties go to the smaller weight for its cap, then to the earlier member."""
    assert split_capacity(3, weights, caps) == parts == reference_rounds.filled(3, weights, caps)


def truncated_normal_mean(y: float, s: float, cap: float) -> float:
    """The mean of N(y, s²) truncated to [0, cap], in 40 digits."""
    with mpmath.workdps(60):
        mean, sigma, end = mpmath.mpf(y), mpmath.mpf(s), mpmath.mpf(cap)
        if mean > end / 2:  # from the nearer end, where the tails do not cancel
            return float(end - truncated_normal_mean(float(end - mean), s, cap))
        low, high = -mean / sigma, (end - mean) / sigma
        mass = (mpmath.erfc(low / mpmath.sqrt(2)) - mpmath.erfc(high / mpmath.sqrt(2))) / 2
        return float(mean + sigma * (mpmath.npdf(low) - mpmath.npdf(high)) / mass)


def assert_near_the_mean(y: float, s: float, cap: int) -> None:
    """The error is within what `posterior_mean` states, plus half a tick."""
    found = int(posterior_mean(np.array([[y]]), np.array([[s]]), np.array([[cap]]))[0, 0])
    exact = truncated_normal_mean(y, s, cap)
    off = min(2.1e-4 * min(exact, cap - exact), 5.2e-6 * cap)
    assert abs(found - exact) <= 0.5 + off + 1e-6


@given(st.floats(-3.0, 4.0), st.floats(-4.0, 4.0), st.integers(1000, TICKS))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_estimate_is_the_mean_of_the_posterior(where: float, size: float, cap: int) -> None:
    """Simpson's rule gives the mean of a truncated normal with the stated accuracy."""
    assert_near_the_mean(where * cap, 10.0**size * cap, cap)


@pytest.mark.parametrize("cap", [1, 1000, 999_968, TICKS])
@pytest.mark.parametrize(
    ("where", "size"),
    [(-1.0, -1.0), (2.0, -1.0), (-3.0, -0.53), (0.0, -2.0), (0.0, 0.0), (0.5, -3.0), (1.0, 4.0)],
)
def test_estimate_at_hand_picked_corners(where: float, size: float, cap: int) -> None:
    """The accuracy holds inside, at both ends and beyond, with little noise or much."""
    assert_near_the_mean(where * cap, 10.0**size * cap, cap)


def test_noise_below_one_tick_counts() -> None:
    """At the end of the range its mean is most of σ away from there."""
    assert_near_the_mean(0.0, 0.99, 1000)
    assert_near_the_mean(1000.0, 0.99, 1000)


@pytest.mark.parametrize("reach", [0.1, 0.9, 1.0, 1.1, 10.0, 1e3])
@pytest.mark.parametrize("where", [-1e7, -1e3, -10.0, 11.0, 1e3, 1e7])
def test_estimate_where_the_average_is_far_outside(where: float, reach: float) -> None:
    """The accuracy holds where the posterior falls like e^-x from one end.

    With a reach of 1 it has fallen to e^-40 at the other end.
    """
    beyond = max(-where, where - 1.0) * TICKS
    assert_near_the_mean(where * TICKS, math.sqrt(beyond * reach * TICKS / 40.0), TICKS)


def test_estimate_without_noise_is_the_demand() -> None:
    """Without noise the estimate is the average, clamped to the share."""
    y = np.array([[-5.0, 17.4, 99.0]])
    found = posterior_mean(y, np.zeros((1, 3)), np.array([[50, 50, 50]]))
    assert found.tolist() == [[0, 17, 50]]


def floats(values: list[list[str]]) -> Floats:
    return np.array([[float.fromhex(text) for text in row] for row in values])


@pytest.mark.parametrize("case", VECTORS["estimates"], ids=lambda case: case["name"])
def test_estimates_of_the_vectors(case: dict[str, Any]) -> None:
    """Every machine gets the recorded estimates, to the tick."""
    y, s = floats(case["average"]), floats(case["noise"])
    assert posterior_mean(y, s, np.array(case["caps"])).tolist() == case["estimates"]


@pytest.mark.parametrize("case", VECTORS["sessions"], ids=lambda case: case["name"])
def test_quotas_of_the_vectors(case: dict[str, Any]) -> None:
    """Every machine gets the recorded quotas from agreement and releases."""
    agreement = from_table(case["agreement"])
    y, s = averages(agreement, [np.array(values) for values in case["rounds"]])
    assert y.shape == s.shape == quantities(agreement).share.shape
    assert quota(agreement, y, s).tolist() == case["quota"]
    assert prorata(agreement).tolist() == case["prorata"]
