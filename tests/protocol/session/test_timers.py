"""How long a party waits, in the time that its session is told."""

import pytest

from protocol.session.timers import LINGER_SECONDS, Timers
from tests.support.builders import make_agreement

BEGIN = 1000.0


def timers(pace: float) -> Timers:
    """The timers of a session in which every release leaves this long after its round opened."""
    private = {
        "mode": "private",
        "privacy": {"epsilon": 1.0, "delta": 1e-3},
        "prices": {"step": "sqrt", "step_size": 0.1},
        "pace_seconds": pace,
    }
    return Timers(make_agreement(patience=20.0, **private), BEGIN)


@pytest.mark.parametrize("pace", [0.5, 30.0])
@pytest.mark.parametrize(("lingering", "seconds"), [(False, 20.0), (True, LINGER_SECONDS)])
def test_no_wait_ends_before_a_release_can_be_there(
    pace: float, lingering: bool, seconds: float
) -> None:
    """Patience, and the time that a party stays when it is done, begin when the pace is over."""
    waits = timers(pace)
    assert not waits.given_up(BEGIN + pace + 0.999 * seconds, lingering=lingering)
    assert waits.given_up(BEGIN + pace + 1.001 * seconds, lingering=lingering)
    waits.progressed(BEGIN + 7.0)
    assert not waits.given_up(BEGIN + 7.0 + pace + 0.999 * seconds, lingering=lingering)


@pytest.mark.parametrize("greeting", [True, False])
def test_nothing_is_sent_again_before_an_answer_can_be_there(greeting: bool) -> None:
    """A peer that is asked in the middle of its pace can say nothing until it is over."""
    waits = timers(30.0)
    waits.greeting = greeting
    waits.progressed(BEGIN)
    assert not waits.resend_due(BEGIN + 30.0)
    assert waits.resend_due(BEGIN + 31.0)
    assert waits.deadline(lingering=False) <= BEGIN + 31.0 + 61.0, "and twice as long later"
