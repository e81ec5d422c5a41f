"""Waits: from when the observer is ready to the arrival of each member."""

import pytest

from protocol.runtime.wait_times import LONG_SECONDS, FreeTime, WaitTime, WaitTimes
from tests.support.builders import make_agreement


def paced(pace: float) -> WaitTimes:
    private = {
        "mode": "private",
        "privacy": {"epsilon": 1.0, "delta": 1e-3},
        "prices": {"step": "sqrt", "step_size": 0.1},
        "pace_seconds": pace,
    }
    return WaitTimes(make_agreement(**private))


def test_a_wait_starts_when_the_observer_is_ready() -> None:
    """Each member has its own wait, the last one is counted, and a long one is reported."""
    waits = WaitTimes(make_agreement())
    waits.arrived("ben", 90.0)  # before the observer was ready: no wait
    waits.begin(100.0)
    waits.arrived("cyd", 103.0)
    waits.arrived("ben", 112.0)
    assert waits.closed(0) == "waited 12 s for 'ben' in round 1"
    waits.begin(200.0)
    waits.arrived("ben", 201.0)
    waits.arrived("cyd", 202.0)
    assert waits.closed(1) == ""
    assert waits.all == (
        WaitTime(name="ben", seconds=13.0, longest=12.0, last=1),
        WaitTime(name="cyd", seconds=5.0, longest=3.0, last=1),
    )
    assert waits.sentence == (
        "waited longest for 'ben': 13 s in all, at most 12 s in one round; rounds in "
        "which it was last: 1"
    )


def test_two_slow_members_do_not_hide_each_other() -> None:
    """A member that arrives just before the last one has nearly the same wait."""
    waits = WaitTimes(make_agreement())
    for t in range(3):
        waits.begin(100.0 * t)
        waits.arrived("cyd", 100.0 * t + 59.0)
        waits.arrived("ben", 100.0 * t + 60.0)
        waits.closed(t)
    assert [(w.name, w.seconds, w.last) for w in waits.all] == [
        ("ben", 180.0, 3),
        ("cyd", 177.0, 0),
    ]


def test_many_short_waits_are_long_together() -> None:
    """A wait of one second is not reported, but the sum of many is."""
    waits = WaitTimes(make_agreement())
    for t in range(40):
        waits.begin(10.0 * t)
        waits.arrived("ben", 10.0 * t + 1.0)
        assert waits.closed(t) == ""
        assert bool(waits.sentence) == (t + 1 >= LONG_SECONDS)


def test_a_round_whose_start_was_not_seen_does_not_count() -> None:
    """Neither does a round in which all members arrived before its start."""
    waits = WaitTimes(make_agreement())
    waits.arrived("ben", 50.0)
    assert waits.closed(0) == ""
    waits.begin(60.0)
    assert waits.closed(1) == ""
    assert (waits.all, waits.sentence) == ((), "")


def test_waits_continue_after_a_restart() -> None:
    """A restarted party adds to the waits in its ledger."""
    waits = WaitTimes(make_agreement(), [WaitTime(name="ben", seconds=8.0, longest=5.0, last=2)])
    assert waits.sentence == ""
    waits.begin(0.0)
    waits.arrived("ben", 3.0)
    waits.closed(7)
    assert waits.all == (WaitTime(name="ben", seconds=11.0, longest=5.0, last=3),)
    assert "'ben': 11 s in all" in waits.sentence


@pytest.mark.parametrize(("pace", "long"), [(0.25, LONG_SECONDS), (60.0, 240.0)])
def test_a_long_wait_depends_on_the_pace(pace: float, long: float) -> None:
    """If a round takes a minute by agreement, a wait of seconds is not long."""
    waits = paced(pace)
    waits.begin(0.0)
    waits.arrived("ben", long - 0.001)
    assert waits.closed(0) == ""
    waits.begin(0.0)
    waits.arrived("ben", long)
    assert "for 'ben' in round 2" in waits.closed(1)


def test_the_clock_stops_while_the_party_is_busy() -> None:
    """Neither its own solver nor a sleeping machine counts as waiting for others."""
    free = FreeTime(1000.0)
    free.listened(1003.0, meant=5.0)
    assert free.seconds == 3.0
    free.busy(1063.0)  # its own answer took a minute
    free.listened(1064.0, meant=5.0)
    assert free.seconds == 4.0
    free.listened(2064.0, meant=1.5)  # asleep
    assert free.seconds == pytest.approx(6.0)
    free.listened(2064.1, meant=-1.0)
    assert free.seconds == pytest.approx(6.1)


def test_of_releases_that_arrive_together_the_last_one_counts() -> None:
    """A relay passes releases on together, in order of arrival."""
    waits = WaitTimes(make_agreement(members=4))
    for number in range(3):
        waits.begin(0.0)
        for name in ("ada", "ben", "cyd"):
            waits.arrived(name, 12.0)
        assert waits.closed(number) == f"waited 12 s for 'cyd' in round {number + 1}"
    assert waits.sentence.startswith("waited longest for 'cyd'")
    assert waits.sentence.endswith("rounds in which it was last: 3")
