"""The outcome of a session: what follows from its transcript, whole or cut off."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from protocol.agreement import TICKS
from protocol.center import WHOLE
from protocol.course import numbers
from protocol.errors import BadTranscript
from protocol.outcome import outcome
from protocol.payments import payments
from protocol.quota import average, prorata, quota, weighted
from protocol.transcript import Transcript, positions, replay
from tests.kit.builders import make_agreement, play
from tests.kit.story import ending_early

PRIVATE = {"mode": "private", "privacy": {"epsilon": 8.0, "delta": 1e-3}}


@pytest.mark.parametrize("rounds", [0, 1, 4, None])
def test_outcome_is_where_those_who_played_stand(rounds: int | None) -> None:
    """Prices of every round, releases, head, quota and seal are those of the parties."""
    agreement = make_agreement(rounds=4, **PRIVATE)
    transcript, path = play(agreement, rounds=rounds)
    known = outcome(agreement, transcript)
    assert known.sealed == (rounds is None)
    assert known.rounds == len(path) - 1
    assert known.position.head == path[-1].head
    assert known.path.tolist() == [position.prices.current.tolist() for position in path]
    assert known.released.shape == (known.rounds, 3, 2)
    for row, releases in zip(known.released, transcript.rounds, strict=True):
        assert (row == numbers(releases)).all()
    assert known.last_prices.tolist() == path[-1].prices.current.tolist()
    assert known.prices.tolist() == path[-1].average_prices.tolist()
    assert known.certificate is None
    assert (known.quota == quota(agreement, *average(path[-1]))).all()
    assert (known.prorata == prorata(agreement)).all()


def test_outcome_of_a_session_that_ended_by_itself() -> None:
    """Its prices and quotas are weighted as the certificate says, its payments go with them."""
    agreement = ending_early()
    known = outcome(agreement, play(agreement)[0])
    assert (known.rounds, known.sealed, len(known.path)) == (3, True, 4)
    proof = known.certificate
    assert proof is not None
    assert sum(proof.weights) == WHOLE
    rows = zip(proof.weights, known.path.tolist(), strict=False)
    first = sum(Fraction(w, WHOLE) * Fraction(row[0]) for w, row in rows)
    assert known.prices[0] == pytest.approx(float(first), rel=1e-14)
    assert known.prices.tolist() != known.last_prices.tolist()
    assert (known.quota == weighted(agreement, known.released, proof.weights)).all()
    assert (known.endowment == prorata(agreement)).all()
    assert (known.payments == payments(agreement, known.prices, known.quota)).all()
    assert math.fsum(known.payments) == 0.0


def test_outcome_before_the_first_round_of_the_centre_rule() -> None:
    """Nothing is proved yet: first prices, a split by shares, and nobody pays."""
    agreement = ending_early()
    known = outcome(agreement, Transcript(rounds=()))
    assert known.certificate is None
    assert known.prices.tolist() == known.path[0].tolist()
    assert (known.quota == prorata(agreement)).all()
    assert known.payments.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("shared", [True, False])
def test_prices_of_the_outcome_where_nothing_can_be_proved(shared: bool) -> None:
    """The best noisy prices where objectives are shared, otherwise those of the last half."""
    privacy = {"share_objective": True, "objective_limit": 5.0} if shared else {}
    agreement = make_agreement(rounds=4, privacy=privacy)
    known = outcome(agreement, play(agreement)[0])
    path = known.path.tolist()
    mean = [(third + fourth) / 2 for third, fourth in zip(path[3], path[4], strict=True)]
    assert known.certificate is None
    # All want a little more than there is and say the same objectives: the first are cheapest.
    assert known.prices.tolist() == (path[0] if shared else pytest.approx(mean, rel=1e-15))
    assert mean != path[0]


def test_overrun_leaves_the_objectives_out() -> None:
    """The total of a round is compared with the capacities, and with nothing else released."""
    shared = {"share_objective": True, "objective_limit": 5.0}
    agreement = make_agreement(rounds=2, privacy=shared)
    known = outcome(agreement, play(agreement)[0])
    totals = known.released.sum(axis=1)
    assert totals.shape == (2, 3)
    expected = [[int(total) / TICKS - 1.0 for total in row[:2]] for row in totals]
    assert known.overrun == pytest.approx(np.array(expected), abs=1e-15)


def test_quota_is_computed_once() -> None:
    """Whoever asks again gets the very same array."""
    agreement = make_agreement()
    known = outcome(agreement, play(agreement)[0])
    assert known.quota is known.quota


def test_every_position_is_given_once_and_in_order() -> None:
    """From the opening to the last, which is what a replay gives."""
    agreement = make_agreement(rounds=3)
    transcript, path = play(agreement)
    heads = [position.head for position in positions(agreement, transcript)]
    assert heads == [position.head for position in path]
    assert replay(agreement, transcript).head == heads[-1]


def test_no_position_is_given_that_does_not_fit() -> None:
    """What stands before the fault is given, and then the round and the member are named."""
    agreement = make_agreement(rounds=3)
    whole, path = play(agreement)
    first, second, third = whole.rounds
    steps = positions(agreement, Transcript((first, third, second)))
    assert next(steps).head == path[0].head
    with pytest.raises(BadTranscript, match=r"round 1, member 'ada'"):
        next(steps)


def test_seals_on_another_head_give_no_outcome() -> None:
    """The last position is given only where the seals stand on it."""
    agreement = make_agreement(rounds=2)
    other = play(make_agreement(rounds=2, prices={"step": "constant", "step_size": 0.5}))[0]
    with pytest.raises(BadTranscript, match=r"round 2, member 'ada': it stands on another head"):
        outcome(agreement, replace(play(agreement)[0], seals=other.seals))
