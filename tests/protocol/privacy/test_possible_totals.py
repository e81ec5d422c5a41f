"""A round closes only with a total that members who do as agreed can release together."""

import numpy as np
import pytest
from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import ImpossibleTotal
from protocol.numeric import Ticks
from protocol.privacy.ball import ball, clip
from protocol.privacy.calibration import Calibration
from protocol.privacy.possible_totals import PossibleTotals
from protocol.rounds import RoundEngine, RoundState
from tests.support.builders import make_agreement
from tests.support.noisy_agreements import agree_totals, equal, unequal

AGREEMENTS = {
    "ball": equal(20),
    "unequal": unequal(3),
    "narrow shares": unequal(5, epsilon=16.0),
    "wide balls": equal(30, epsilon=16.0),
    "worth": agree_totals([0.3, 0.5, 0.9, 0.2], epsilon=8.0),
    "exact": make_agreement(reveal="totals", members=4, rounds=6),
}
each_agreement = pytest.mark.parametrize("name", AGREEMENTS)


def extremes(agreement: Agreement, resource: int, *, most: bool) -> Ticks:
    """The answers of members who all want the most of a resource, or none of it."""
    shares = quantities(agreement).share_ticks
    wanted = shares.copy() if not agreement.ball else np.minimum(ball(agreement).center, shares)
    wanted[:, resource] = shares[:, resource] if most else 0
    if not agreement.ball:
        return wanted
    public = ball(agreement)
    rows = zip(wanted.tolist(), public.center.tolist(), public.axes.tolist(), strict=True)
    return np.array([clip(*row) for row in rows])


@each_agreement
@pytest.mark.parametrize("most", [True, False])
def test_every_answer_is_possible_and_nothing_beyond_the_noise(name: str, most: bool) -> None:
    """The limits are the largest and smallest sums of answers, and eight σ of the noise."""
    agreement = AGREEMENTS[name]
    shares, possible = quantities(agreement).share_ticks, PossibleTotals(agreement)
    for number in (0, agreement.rounds - 1):
        noise = np.sqrt((Calibration(agreement).scales(shares, number) ** 2).sum(axis=0))
        lowest, highest = possible(number)
        for j in range(len(agreement.resources)):
            ends = extremes(agreement, j, most=most)[:, j]
            total, slack = int(ends.sum()), 8.0 * noise[j]
            beyond = int(highest[j]) - total if most else total - int(lowest[j])
            clipped = int((ends != shares[:, j] * most).sum())  # to within a tick of the ball
            assert abs(beyond - slack) <= clipped + (slack > 0.0) + 1e-4 * slack


def opened(agreement: Agreement, round: int) -> tuple[RoundEngine, RoundState]:  # noqa: A002
    """A session before this round, in which all members have asked for what they bring."""
    engine = RoundEngine(agreement)
    state = replace(engine.opening, unpaired=False)
    while state.round < round:
        state = engine.advance(state, released(agreement, middle(agreement, state.round)))
    return engine, state


def middle(agreement: Agreement, round: int) -> Ticks:  # noqa: A002
    lowest, highest = PossibleTotals(agreement)(round)
    half: Ticks = (lowest + highest) // 2
    return half


def released(agreement: Agreement, totals: Ticks) -> Ticks:
    """Releases with these totals, all by the last member."""
    rows = np.zeros((len(agreement.members), len(totals)), dtype=np.int64)
    rows[-1] = totals
    return rows


@each_agreement
@pytest.mark.parametrize("number", [0, 3])
@pytest.mark.parametrize("beyond", [1, 1 << 40, 1 << 62])
def test_a_total_beyond_a_limit_closes_no_round(name: str, number: int, beyond: int) -> None:
    """Neither by one tick, nor by what a member releases that does not mask."""
    agreement = AGREEMENTS[name]
    engine, state = opened(agreement, number)
    lowest, highest = PossibleTotals(agreement)(number)
    for limit, step in ((lowest, -beyond), (highest, beyond)):
        assert engine.advance(state, released(agreement, limit)).round == number + 1
        for j in range(len(limit)):
            moved = limit.copy()
            moved[j] += step
            with pytest.raises(ImpossibleTotal):
                engine.advance(state, released(agreement, moved))


@pytest.mark.parametrize("lie", [-1, 1, -(1 << 20), 9 << 20, 1 << 48])
def test_where_nothing_is_traded_no_member_can_move_a_total(lie: int) -> None:
    """So every member keeps what it brings, whatever one of them releases."""
    agreement = equal(4, epsilon=1.0)
    public = ball(agreement)
    assert not public.trades
    engine, state = opened(agreement, 0)
    values = np.array(public.center)
    assert engine.advance(state, values).round == 1
    values[0] += lie
    with pytest.raises(ImpossibleTotal):
        engine.advance(state, values)
