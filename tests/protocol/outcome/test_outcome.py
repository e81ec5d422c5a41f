"""The outcome of a session, complete or cut short."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from protocol.agreement.endowment import prorata
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TICKS
from protocol.errors import BadTranscript
from protocol.numeric import round_to_sum
from protocol.outcome.outcome import outcome
from protocol.outcome.outcome import outcome_of as reached
from protocol.outcome.payments import payments
from protocol.outcome.public_quota import average_release, quota, weighted_quota
from protocol.outcome.replay import round_states
from protocol.pricing.center import WHOLE
from protocol.rounds import RoundEngine, numbers
from protocol.wire.transcript import Transcript
from tests.support.builders import make_agreement, play
from tests.support.outcomes import outcome_of, replay
from tests.support.session_harness import ending_early

PRIVATE = {"mode": "private", "privacy": {"epsilon": 8.0, "delta": 1e-3}}


@pytest.mark.parametrize("rounds", [0, 1, 4, None])
def test_outcome_is_that_of_the_parties(rounds: int | None) -> None:
    """Prices, releases, chain hash, quota and seal are those of the parties."""
    agreement = make_agreement(rounds=4, **PRIVATE)
    transcript, path = play(agreement, rounds=rounds)
    known = outcome(agreement, transcript)
    assert known.sealed == (rounds is None)
    assert known.rounds == len(path) - 1
    assert known.state.chain_hash == path[-1].chain_hash
    assert known.path.tolist() == [state.prices.current.tolist() for state in path]
    assert known.released.shape == (known.rounds, 3, 2)
    for row, releases in zip(known.released, transcript.rounds, strict=True):
        assert (row == numbers(releases)).all()
    assert known.last_prices.tolist() == path[-1].prices.current.tolist()
    assert known.prices.tolist() == known.average_prices.tolist()
    assert known.certificate is None
    assert (known.quota == quota(agreement, *average_release(agreement, known.released))).all()


def test_outcome_of_a_session_that_ended_by_itself() -> None:
    """Prices, quotas and payments use the weights of the certificate."""
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
    assert (known.quota == weighted_quota(agreement, known.released, proof.weights)).all()
    assert (known.endowment == prorata(agreement)).all()
    assert (known.payments == payments(agreement, known.prices, known.quota)).all()
    assert math.fsum(known.payments) == 0.0


def test_outcome_before_the_first_round_of_the_centre_rule() -> None:
    """There is no certificate yet: first prices, a pro rata split, no payments."""
    agreement = ending_early()
    known = outcome(agreement, Transcript(rounds=()))
    assert known.certificate is None
    assert known.prices.tolist() == known.path[0].tolist()
    assert (known.quota == prorata(agreement)).all()
    assert known.payments.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("shared", [True, False])
def test_prices_without_a_certificate(shared: bool) -> None:
    """With shared objectives the best noisy prices, otherwise the mean of the last half."""
    privacy = {"share_objective": True, "objective_limit": 5.0} if shared else {}
    agreement = make_agreement(rounds=4, privacy=privacy)
    known = outcome(agreement, play(agreement)[0])
    path = known.path.tolist()
    mean = [(third + fourth) / 2 for third, fourth in zip(path[3], path[4], strict=True)]
    assert known.certificate is None
    # All want a little more than there is and say the same objectives: the first are cheapest.
    assert known.prices.tolist() == (path[0] if shared else pytest.approx(mean, rel=1e-15))
    assert mean != path[0]


def test_overrun_ignores_objectives() -> None:
    """Totals are compared with the capacities; objectives do not count."""
    shared = {"share_objective": True, "objective_limit": 5.0}
    agreement = make_agreement(rounds=2, privacy=shared)
    known = outcome(agreement, play(agreement)[0])
    totals = known.released.sum(axis=1)
    assert totals.shape == (2, 3)
    expected = [[int(total) / TICKS - 1.0 for total in row[:2]] for row in totals]
    assert known.excess_demand == pytest.approx(np.array(expected), abs=1e-15)


def test_quota_is_computed_once() -> None:
    """A second read returns the same array."""
    agreement = make_agreement()
    known = outcome(agreement, play(agreement)[0])
    assert known.quota is known.quota


def test_round_states_come_once_and_in_order() -> None:
    """They run from the opening to the state that a replay returns."""
    agreement = make_agreement(rounds=3)
    transcript, path = play(agreement)
    heads = [state.chain_hash for state in round_states(agreement, transcript)]
    assert heads == [state.chain_hash for state in path]
    assert replay(agreement, transcript).chain_hash == heads[-1]


def test_round_states_stop_at_a_fault() -> None:
    """States before the fault are yielded; the error names the round and the member."""
    agreement = make_agreement(rounds=3)
    whole, path = play(agreement)
    first, second, third = whole.rounds
    steps = round_states(agreement, Transcript((first, third, second)))
    assert next(steps).chain_hash == path[0].chain_hash
    with pytest.raises(BadTranscript, match=r"round 2, member 'ada'"):
        next(steps)


def test_seals_of_another_chain_hash_are_refused() -> None:
    """The last state is yielded only if the seals fit it."""
    agreement = make_agreement(rounds=2)
    other = play(make_agreement(rounds=2, prices={"step": "constant", "step_size": 0.5}))[0]
    with pytest.raises(BadTranscript, match=r"the seals, member 'ada': its chain hash"):
        outcome(agreement, replace(play(agreement)[0], seals=other.seals))


def test_outcome_says_whether_it_ended_by_itself() -> None:
    """True if the rule stopped early, false after the last agreed round."""
    agreement = make_agreement(members=2, rounds=3, resources=1, prices={"reserve": 0.0})
    half, third = agreement.ticks // 2, agreement.ticks // 3
    early = outcome_of(agreement, [[[half], [half]]])
    assert early.state.over
    assert early.ended_by_itself
    going = outcome_of(agreement, [[[third], [third]]])
    assert not going.state.over
    assert not going.ended_by_itself
    constant = make_agreement(rounds=2)
    assert not outcome(constant, play(constant)[0]).ended_by_itself


def test_certificate_is_a_fraction_of_the_worth() -> None:
    """The worth is that of all capacities at the prices of the outcome, and may be 0."""
    resource = [{"name": "hours", "capacity": 8.0, "worth": 40.0}]
    agreement = make_agreement(members=2, resource=resource, prices={"reserve": 0.0})
    half = agreement.ticks // 2
    known = outcome_of(agreement, [[[half], [half]]])
    assert known.certificate is not None
    assert known.worth == pytest.approx(float(known.prices[0]) * 8.0) == pytest.approx(40.0)
    assert known.certificate_part == pytest.approx(known.certificate.bound / 40.0)
    free = outcome_of(agreement, [[[0], [0]], [[half], [half // 2]]])
    assert (free.prices.tolist(), free.worth, free.certificate_part) == ([0.0], 0.0, None)
    noisy = make_agreement(rounds=1, **PRIVATE)
    assert outcome(noisy, play(noisy)[0]).certificate_part is None


@given(parts=st.lists(st.fractions(-1000, 1000), min_size=1, max_size=9))
def test_rounded_money_adds_up_to_zero(parts: list[Fraction]) -> None:
    """Rounded amounts add up to zero, and each is off by less than one."""
    whole = [*parts, -sum(parts, start=Fraction(0))]
    counts = round_to_sum(whole)
    assert sum(counts) == 0
    assert all(abs(count - part) < 1 for count, part in zip(counts, whole, strict=True))


def test_the_outcome_of_a_long_session_can_be_stored() -> None:
    """A copy, and what comes back from a file, has the same rounds and prices."""
    agreement = make_agreement(rounds=700)
    engine = RoundEngine(agreement)
    state, values = engine.opening, np.full((3, agreement.width), 1000, dtype=np.int64)
    while not state.over:
        state = engine.advance(state, values)
    ended = reached(agreement, state, sealed=True)
    for copied in (copy.deepcopy(ended), pickle.loads(pickle.dumps(ended))):  # noqa: S301
        assert copied.released.tolist() == [values.tolist()] * 700
        assert copied.path.tobytes() == ended.path.tobytes()
        assert copied.state.chain_hash == state.chain_hash
        assert copied.agreement == agreement


def test_the_arrays_of_a_copied_agreement_are_read_only() -> None:
    """A copy does not take over what the agreement remembers: it computes that again."""
    agreement = make_agreement()
    quantities(agreement)
    for copied in (copy.deepcopy(agreement), pickle.loads(pickle.dumps(agreement))):  # noqa: S301
        assert copied == agreement
        assert copied.digest == agreement.digest
        with pytest.raises(ValueError, match="read-only"):
            quantities(copied).share[0, 0] = 0.5
