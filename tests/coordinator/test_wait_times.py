"""What a relay can tell of slow members, and what a member cannot make it tell."""

from coordinator.progress import SessionProgress
from coordinator.wait_times import RelayWaits
from protocol.runtime.wait_times import WaitTime
from tests.support.builders import make_agreement, play


def test_who_released_first_has_waited_for_the_others() -> None:
    """From the first release of a round to that of each other member."""
    waiting = RelayWaits(make_agreement(members=3))
    for t in range(2):
        at = 100.0 * t
        assert waiting.hear("ada", t, at) == ""
        assert waiting.hear("ben", t, at + 1.0) == ""
        told = waiting.hear("cyd", t, at + 31.0)
        assert told == f"waited 31 s for 'cyd' in round {t}"
    assert waiting.waits.all == (
        WaitTime(name="cyd", seconds=62.0, longest=31.0, last=2),
        WaitTime(name="ben", seconds=2.0, longest=1.0, last=0),
        WaitTime(name="ada", seconds=0.0, longest=0.0, last=0),
    )


def test_what_is_sent_again_moves_nothing() -> None:
    """A member that waits says its newest two again, and it is the first time that counts."""
    waiting = RelayWaits(make_agreement(members=3))
    for name in ("ada", "ben", "cyd"):
        waiting.hear(name, 0, 0.0)
    waiting.hear("ada", 1, 1.0)
    for name in ("ada", "ben"):
        waiting.hear(name, 0, 15.0)
        waiting.hear(name, 1, 20.0)
    assert waiting.hear("cyd", 1, 21.0) == "waited 20 s for 'cyd' in round 1"
    assert [(one.name, one.seconds) for one in waiting.waits.all] == [
        ("cyd", 20.0),
        ("ben", 19.0),
        ("ada", 0.0),
    ]


def test_a_release_of_another_round_hides_nobody() -> None:
    """A slow member that says something of a later round first is waited for all the same."""
    waiting = RelayWaits(make_agreement(members=3))
    for t in range(3):
        for other in (900, t + 7, 900, t + 3):
            assert waiting.hear("cyd", other, 100.0 * t) == ""
        waiting.hear("ada", t, 100.0 * t + 1.0)
        for other in (900, t + 1):  # nor does one that says so of an early release
            assert waiting.hear("ada", other, 100.0 * t + 1.0) == ""
        waiting.hear("ben", t, 100.0 * t + 2.0)
        assert waiting.hear("cyd", t, 100.0 * t + 61.0) == f"waited 60 s for 'cyd' in round {t}"


def test_a_relay_that_is_started_again_blames_nobody_for_its_absence() -> None:
    """Of the first round that it sees it does not know when it began."""
    waiting = RelayWaits(make_agreement(members=3, rounds=99))
    for t in (56, 57):
        for name, at in (("ada", 0.0), ("ben", 1.0), ("cyd", 50.0)):
            assert waiting.hear(name, t, 100.0 * t + at) == (
                "waited 50 s for 'cyd' in round 57" if (t, name) == (57, "cyd") else ""
            )
    slowest = waiting.waits.all[0]
    assert (slowest.name, slowest.last) == ("cyd", 1)


def test_the_convener_reads_it_with_the_progress() -> None:
    """In the log, which is on the page as well: when it happens, with the rounds, at the end."""
    agreement = make_agreement(rounds=3)
    transcript, _ = play(agreement)
    said: list[str] = []
    standing = SessionProgress(agreement, said.append, 0.0)
    now = 0.0
    for releases in transcript.rounds:
        for signed, seconds in zip(releases, (0.0, 0.0, 30.0), strict=True):
            now += seconds
            standing.hear(signed.message, signed.message.sender, now)
    assert "waited 30 s for 'cyd' in round 1" in said
    assert said[-1] == (
        "round 3 of 3; waited longest for 'cyd': 90 s in all, at most 30 s in one round; rounds "
        "in which it was last: 3"
    )
