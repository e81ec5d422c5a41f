"""How long a party waits."""

import pytest

from protocol.session.phases import Phase
from protocol.session.timers import LINGER_SECONDS, Timers
from tests.support.builders import make_agreement

BEGIN = 1000.0


def timers(pace: float) -> Timers:
    """The timers of a session in which every release is sent this long after its round opens."""
    private = {
        "mode": "private",
        "privacy": {"epsilon": 1.0, "delta": 1e-3},
        "prices": {"step": "sqrt", "step_size": 0.1},
        "pace_seconds": pace,
    }
    return Timers(make_agreement(patience=20.0, **private), BEGIN)


@pytest.mark.parametrize("pace", [0.5, 30.0])
@pytest.mark.parametrize(
    ("phase", "seconds"), [(Phase.COLLECTING, 20.0), (Phase.FINISHED, LINGER_SECONDS)]
)
def test_no_wait_ends_before_a_release_can_arrive(
    pace: float, phase: Phase, seconds: float
) -> None:
    """Patience and the stay at the end begin when the pace is over."""
    waits = timers(pace)
    waits.enter(phase)
    assert not waits.expired(BEGIN + pace + 0.999 * seconds)
    assert waits.expired(BEGIN + pace + 1.001 * seconds)
    waits.progressed(BEGIN + 7.0)
    assert not waits.expired(BEGIN + 7.0 + pace + 0.999 * seconds)


@pytest.mark.parametrize("phase", [Phase.HANDSHAKE, Phase.COLLECTING])
def test_nothing_is_repeated_before_an_answer_can_arrive(phase: Phase) -> None:
    """A peer cannot send before its pace is over."""
    waits = timers(30.0)
    waits.enter(phase)
    waits.progressed(BEGIN)
    assert not waits.resend_due(BEGIN + 30.0)
    assert waits.resend_due(BEGIN + 31.0)
    assert waits.deadline <= BEGIN + 31.0 + 61.0, "and twice as long later"
