"""How long a party waits."""

import pytest

from protocol.session.phases import Phase
from protocol.session.timers import LINGER_SECONDS, Timers
from tests.support.builders import make_agreement, public_key

BEGIN = 1000.0


def timers(pace: float, **wait: float) -> Timers:
    """The timers of a session in which every release is sent this long after its round opens."""
    private = {
        "mode": "private",
        "privacy": {"epsilon": 1.0, "delta": 1e-3},
        "prices": {"step": "sqrt", "step_size": 0.1},
        "pace_seconds": pace,
    }
    return Timers(make_agreement(patience=20.0, **private), BEGIN, **wait)


@pytest.mark.parametrize("pace", [0.5, 30.0])
@pytest.mark.parametrize(
    ("phase", "seconds"), [(Phase.COLLECTING, 20.0), (Phase.FINISHED, LINGER_SECONDS)]
)
def test_no_wait_ends_before_a_release_can_arrive(
    pace: float, phase: Phase, seconds: float
) -> None:
    """Patience and the stay at the end begin when the pace is over."""
    waits = timers(pace)
    waits.enter(phase, gathering=False)
    assert not waits.expired(BEGIN + pace + 0.999 * seconds)
    assert waits.expired(BEGIN + pace + 1.001 * seconds)
    waits.progressed(BEGIN + 7.0)
    assert not waits.expired(BEGIN + 7.0 + pace + 0.999 * seconds)


@pytest.mark.parametrize("phase", [Phase.HANDSHAKE, Phase.COLLECTING])
def test_nothing_is_repeated_before_an_answer_can_arrive(phase: Phase) -> None:
    """A peer cannot send before its pace is over."""
    waits = timers(30.0)
    waits.enter(phase, gathering=False)
    waits.progressed(BEGIN)
    assert not waits.resend_due(BEGIN + 30.0)
    assert waits.resend_due(BEGIN + 31.0)
    assert waits.deadline <= BEGIN + 31.0 + 61.0, "and twice as long later"


@pytest.mark.parametrize("phase", [Phase.HANDSHAKE, Phase.COLLECTING])
def test_before_the_first_round_only_the_wait_ends(phase: Phase) -> None:
    """Silence is no reason to stop while people are still coming."""
    waits = timers(0.5, wait=3_600.0)
    waits.enter(phase, gathering=True)
    assert not waits.expired(BEGIN + 3_600.0)
    assert waits.expired(BEGIN + 3_600.5)
    assert waits.seconds_waited(BEGIN + 3_600.0) == 3_600.0
    waits.enter(Phase.COLLECTING, gathering=False)
    assert waits.expired(BEGIN + 20.5), "then patience counts"


def test_a_member_that_comes_at_the_last_moment_is_given_time() -> None:
    """But no longer than patience, and never longer than the wait itself."""
    waits = timers(0.5, wait=60.0)
    waits.progressed(BEGIN + 60.0)
    assert not waits.expired(BEGIN + 80.0)
    assert waits.expired(BEGIN + 80.5)
    short = timers(0.5, wait=5.0)
    short.progressed(BEGIN + 5.0)
    assert short.expired(BEGIN + 10.5)


def test_the_own_solver_uses_up_no_wait() -> None:
    """While the gate works on the first release, no peer is late."""
    waits = timers(0.5, wait=5.0)
    waits.enter(Phase.RESPONDING, gathering=True)
    waits.reset_patience(BEGIN + 100.0)
    assert not waits.expired(BEGIN + 110.0)


def crowd(patience: float) -> Timers:
    """The timers of one of sixty members: they send again after 1.8 s at first."""
    names = [f"m{k}" for k in range(60)]
    members = [{"name": name, "signing_key": public_key(name).hex()} for name in names]
    return Timers(make_agreement(member=members, patience=patience), BEGIN)


def test_with_many_members_waits_stay_below_a_quarter_of_the_patience() -> None:
    """So each message is sent at least four times before anyone gives up."""
    waits, now = crowd(20.0), BEGIN
    waits.enter(Phase.COLLECTING, gathering=False)
    while not waits.expired(now):
        sent, now = now, now + 0.01
        while not waits.resend_due(now):
            now += 0.01
    assert 4.99 < now - sent < 5.03


def test_with_many_members_an_ended_party_stays_for_four_messages() -> None:
    """A peer has four times 1.8 s to hear what it lacks."""
    waits = crowd(120.0)
    waits.enter(Phase.FINISHED, gathering=False)
    assert not waits.expired(BEGIN + 7.199)
    assert waits.expired(BEGIN + 7.201)
