"""How a session is going, as a coordinator reports it from verified messages."""

import re

import pytest
from msgspec.structs import replace

from coordinator.collector import RoundCollector
from coordinator.progress import QUIET_SECONDS, SessionProgress
from protocol.agreement.model import Agreement
from protocol.runtime.wait_times import WaitTime
from protocol.wire.messages import Halt, Message, Reason, Signed
from tests.support.builders import make_agreement, play, sign
from tests.support.session_harness import lying

AGREEMENT = make_agreement(members=3, rounds=10)
TRANSCRIPT = play(AGREEMENT)[0]


class Observed:
    """Progress with its collector, and the lines that it logs."""

    def __init__(self, agreement: Agreement = AGREEMENT) -> None:
        self.collector = RoundCollector(agreement)
        self.lines: list[str] = []
        self.progress = SessionProgress(agreement, self.collector, self.lines.append, 0.0)

    def receive(self, signed: Signed, now: float = 0.0, *, owner: str = "") -> list[str]:
        """Take in a message from a connection, its sender's by default; return the new lines."""
        before = len(self.lines)
        collected = self.collector.collect(signed, now)
        message: Message = signed.message
        self.progress.add(message, owner or message.sender, collected, now)
        return self.lines[before:]

    def waits(self) -> tuple[WaitTime, ...]:
        return self.progress._waits.all


def test_a_member_whose_messages_others_forward_is_not_here() -> None:
    """A member is here once its own connection brings a message that it signed."""
    observed = Observed()
    first, second, *_ = (m.name for m in AGREEMENT.members)
    for releases in TRANSCRIPT.rounds:
        observed.receive(releases[0], owner=second)
    observed.receive(TRANSCRIPT.seals[0], owner=second)
    assert not observed.progress.here
    observed.receive(TRANSCRIPT.rounds[1][0])
    assert observed.progress.here == (first,)
    observed.progress.check(QUIET_SECONDS)
    others = ", ".join(f"{m.name} (not seen yet)" for m in AGREEMENT.members[1:])
    assert f"waiting for {others}" in observed.lines[-1]


def test_only_the_member_that_has_not_released_is_named() -> None:
    """Releases and seals of other rounds that another member signs change nothing."""
    observed = Observed()
    for signed in (*TRANSCRIPT.rounds[0], *TRANSCRIPT.rounds[1][:2]):
        observed.receive(signed)
    for number in (1, 2, 5, 9):
        observed.receive(lying(TRANSCRIPT.rounds[0][1], round=number))
        observed.receive(lying(TRANSCRIPT.seals[1], round=number))
    observed.progress.check(QUIET_SECONDS)
    assert observed.lines[-1].startswith("1 of 10 rounds are closed, nothing new since ")
    assert observed.lines[-1].endswith("; waiting for cyd (here)")


def test_a_late_relay_does_not_name_members_that_are_ahead() -> None:
    """It has missed the rounds before, and waits only for the member that is silent."""
    observed = Observed()
    for signed in TRANSCRIPT.rounds[5][:2]:
        observed.receive(signed)
    observed.receive(lying(TRANSCRIPT.rounds[0][1], round=0))
    observed.progress.check(QUIET_SECONDS)
    assert observed.lines[-1].endswith("waiting for cyd (not seen yet)")


def test_the_member_that_has_not_sealed_is_named() -> None:
    """After the last round the seals are missing, and not releases."""
    observed = Observed()
    for signed in (*(s for r in TRANSCRIPT.rounds for s in r), *TRANSCRIPT.seals[1:]):
        observed.receive(signed)
    observed.progress.check(QUIET_SECONDS)
    assert observed.lines[-1].endswith("waiting for ada (here)")


def test_only_confirmed_seals_end_the_session() -> None:
    """The log says so once, and the coordinator ends after a silence."""
    observed = Observed()
    for signed in (s for part in (*TRANSCRIPT.rounds, TRANSCRIPT.seals) for s in part):
        observed.receive(signed)
    assert not observed.progress.ended(1e6)
    for seal in TRANSCRIPT.seals * 2:
        observed.receive(lying(seal, has_all_seals=True))
    ends = [line for line in observed.lines if "the session is over" in line]
    assert ends == ["the session is over: all members have sealed 10 rounds"]
    assert not observed.progress.ended(0.0)
    assert observed.progress.ended(1e6)


def test_a_member_in_a_dispute_is_not_said_to_have_stopped() -> None:
    """Any member can make the others publish their side: it releases on another chain hash."""
    observed = Observed()
    for name, reason in (("ada", Reason.HEADS_DIFFER), ("ben", Reason.EQUIVOCATION)):
        halt = Halt(
            sender=name,
            agreement=AGREEMENT.digest,
            round=1,
            chain_hash=bytes(32),
            reason=reason,
            evidence=(),
        )
        observed.receive(sign(halt), 1.0)
    assert [line for line in observed.lines if "has stopped" in line] == [
        "ben has stopped, and has sent its reason to the other members"
    ]
    assert any(line.startswith("ada disagrees") for line in observed.lines)


def test_the_first_release_of_a_round_waits_for_the_others() -> None:
    """A wait goes from the first release of a round to that of each other member."""
    observed = Observed()
    for number in range(2):
        ada, ben, cyd = TRANSCRIPT.rounds[number]
        observed.receive(ada, 100.0 * number)
        observed.receive(ben, 100.0 * number + 1.0)
        lines = observed.receive(cyd, 100.0 * number + 31.0)
        assert f"waited 31 s for 'cyd' in round {number + 1}" in lines
    assert observed.waits() == (
        WaitTime(name="cyd", seconds=62.0, longest=31.0, last=2),
        WaitTime(name="ben", seconds=2.0, longest=1.0, last=0),
        WaitTime(name="ada", seconds=0.0, longest=0.0, last=0),
    )


def test_a_repeated_release_changes_no_wait() -> None:
    """A member that waits sends its newest two again, and the first arrival counts."""
    observed = Observed()
    for signed in TRANSCRIPT.rounds[0]:
        observed.receive(signed)
    ada, ben, cyd = TRANSCRIPT.rounds[1]
    observed.receive(ada, 1.0)
    for signed in (*TRANSCRIPT.rounds[0][:2], ada, ben):
        observed.receive(signed, 20.0)
    assert "waited 20 s for 'cyd' in round 2" in observed.receive(cyd, 21.0)
    assert [(wait.name, wait.seconds) for wait in observed.waits()] == [
        ("cyd", 20.0),
        ("ben", 19.0),
        ("ada", 0.0),
    ]


def test_a_release_of_another_round_hides_no_slow_member() -> None:
    """Early releases neither shorten a member's own wait nor lengthen another's."""
    observed = Observed()
    for number in range(3):
        ada, ben, cyd = TRANSCRIPT.rounds[number]
        at = 100.0 * number
        for other in (9, number + 4, number + 3):
            observed.receive(lying(cyd, round=other), at)
        observed.receive(ada, at + 1.0)
        observed.receive(lying(ada, round=number + 1), at + 1.0)
        observed.receive(ben, at + 2.0)
        assert f"waited 60 s for 'cyd' in round {number + 1}" in observed.receive(cyd, at + 61.0)


def test_a_late_relay_blames_no_member_for_its_absence() -> None:
    """It does not know when the first round that it sees began."""
    observed = Observed()
    for number in (5, 6):
        for signed, at in zip(TRANSCRIPT.rounds[number], (0.0, 1.0, 50.0), strict=True):
            observed.receive(signed, 100.0 * number + at)
    waited = [line for line in observed.lines if line.startswith("waited")]
    assert waited == ["waited 50 s for 'cyd' in round 7"]


def test_the_convener_reads_waits_with_the_progress() -> None:
    """In the log, which the page shows too: when they happen, and with the rounds."""
    observed = Observed(make_agreement(rounds=3))
    transcript, now = play(make_agreement(rounds=3))[0], 0.0
    for releases in transcript.rounds:
        for signed, seconds in zip(releases, (0.0, 0.0, 30.0), strict=True):
            now += seconds
            observed.receive(signed, now)
    assert "waited 30 s for 'cyd' in round 2" in observed.lines
    assert observed.lines[-1] == (
        "round 3 of 3; waited longest for 'cyd': 90 s in all, at most 30 s in one round; rounds "
        "in which it was last: 3"
    )


def test_a_member_with_another_agreement_is_named_with_what_to_do() -> None:
    """The convener reads both digests and the command; what others forward is not believed."""
    observed, (first, second) = Observed(), (m.name for m in AGREEMENT.members[:2])
    others = [make_agreement(members=3, rounds=11 + number) for number in range(6)]
    greetings = [play(other)[0].rounds[0][0] for other in others]
    assert observed.receive(greetings[0], owner=second) == []
    (line,) = observed.receive(greetings[0])
    assert line.startswith(f"{first} has another agreement, digest {others[0].digest.hex()}")
    assert AGREEMENT.digest.hex() in line
    assert "`protocol diff`" in line
    assert observed.progress.trouble == line
    assert observed.receive(greetings[0]) == []
    # A member that changes its agreement again and again does not fill the log.
    assert sum(len(observed.receive(greeting)) for greeting in greetings) == 2


def test_a_member_whose_connection_is_gone_is_away_since_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Log and state say since when; a member that comes back is here again."""
    observed = Observed()
    now = [65.0]
    monkeypatch.setattr("time.time", lambda: 1_790_000_000.0 + now[0])
    for signed in TRANSCRIPT.rounds[0]:
        observed.receive(signed, 5.0)
    observed.progress.left("ben", 65.0)
    assert observed.progress.here == ("ada", "cyd")
    since = observed.progress.states(65.0)["ben"]
    assert re.match(r"away since \d\d:\d\d", since)
    assert observed.lines[-1] == f"ben is {since} (2 of 3 here); waiting for ben"
    now[0] += QUIET_SECONDS
    observed.progress.check(now[0])
    assert observed.lines[-1].endswith(f"waiting for ben ({since})")
    observed.receive(TRANSCRIPT.rounds[1][1], 120.0)
    assert observed.progress.states(120.0)["ben"] == "here"
    assert observed.lines[-1] == "ben is here (3 of 3); all members are here"


def test_a_member_that_flaps_cannot_fill_the_log() -> None:
    """Its state is always true; its lines come ever more seldom, and the last one is true."""
    observed = Observed()
    for second in range(3_600):
        observed.receive(TRANSCRIPT.rounds[0][1], float(second))
        observed.progress.left("ben", second + 0.5)
        assert observed.progress.states(second + 0.5)["ben"].startswith("away since")
        observed.progress.check(second + 0.6)
    about = [line for line in observed.lines if line.startswith("ben is")]
    assert 2 <= len(about) < 25
    observed.progress.check(10_000.0)
    last = [line for line in observed.lines if line.startswith("ben is")][-1]
    assert last.startswith("ben is away since")


def test_what_others_say_makes_no_member_here_or_away() -> None:
    """Messages that a member forwards or forges in the name of another change nothing."""
    observed = Observed()
    observed.receive(TRANSCRIPT.rounds[0][0], 0.0)
    for signed in (*TRANSCRIPT.rounds[1], *TRANSCRIPT.seals):
        observed.receive(signed, 1.0, owner="ada")
    assert observed.progress.here == ("ada",)
    observed.receive(TRANSCRIPT.rounds[0][1], 2.0)
    observed.progress.left("ada", 3.0)
    assert observed.progress.here == ("ben",)


def test_a_member_that_has_finished_may_leave() -> None:
    """It is done, not away, and the log does not mention it."""
    observed = Observed()
    for signed in (s for part in (*TRANSCRIPT.rounds, TRANSCRIPT.seals) for s in part):
        observed.receive(signed)
    observed.receive(lying(TRANSCRIPT.seals[0], has_all_seals=True), 10.0)
    before = len(observed.lines)
    observed.progress.left("ada", 20.0)
    assert observed.lines[before:] == []
    assert observed.progress.states(20.0)["ada"] == "done"


def test_members_that_have_just_come_are_not_waited_for() -> None:
    """After a long wait the last one arrives: no member is named, unless nothing follows."""
    observed = Observed()
    for signed in TRANSCRIPT.rounds[0][:2]:
        observed.receive(signed)
    observed.progress.check(600.0)
    assert observed.progress.trouble.endswith("waiting for cyd (not seen yet)")
    before = len(observed.lines)
    observed.progress.arrived("cyd", 601.0)
    observed.progress.check(602.0)
    assert observed.lines[before:] == ["cyd is here (3 of 3); all members are here"]
    assert observed.progress.trouble == ""
    for second in range(603, 629, 2):  # coming and going does not hide that it says nothing
        observed.progress.left("cyd", float(second))
        observed.progress.arrived("cyd", second + 1.0)
    observed.progress.check(601.0 + QUIET_SECONDS)
    assert observed.progress.trouble.endswith("waiting for cyd (here)")
    observed.progress.check(700.0)
    assert observed.lines[-1] == observed.progress.trouble


def test_of_a_mesh_only_presence_is_told() -> None:
    """Its rounds do not pass the coordinator, so their number would be wrong."""
    mesh = replace(AGREEMENT, transport=replace(AGREEMENT.transport, topology="mesh"))
    observed = Observed(mesh)
    observed.progress.arrived("ada", 0.0)
    observed.progress.arrived("ben", 0.0)
    observed.progress.check(600.0)
    assert observed.lines[-1] == "waiting for cyd (not seen yet)"
    observed.progress.arrived("cyd", 601.0)
    observed.progress.check(900.0)
    assert observed.progress.trouble == ""


def test_a_coordinator_that_all_have_left_waits_for_all() -> None:
    """Many members are counted, none of them as one of the others."""
    observed = Observed(make_agreement(members=4, rounds=10))
    for name in ("ada", "ben", "cyd", "dan"):
        observed.progress.arrived(name, 0.0)
    for name in ("ada", "ben", "cyd", "dan"):
        observed.progress.left(name, 9.0)
    observed.progress.check(20.0)
    assert observed.lines[-1].endswith("(0 of 4 here); waiting for 4 members")


def test_the_same_wait_is_named_ever_more_seldom() -> None:
    """People may take a day: the log stays short, and a new reason is named at once."""
    observed = Observed()
    observed.receive(TRANSCRIPT.rounds[0][0])
    for second in range(86_400):
        observed.progress.check(float(second))
    named = [line for line in observed.lines if "nothing new" in line]
    assert 3 < len(named) < 40
    observed.receive(TRANSCRIPT.rounds[0][1], 86_400.0)
    observed.progress.check(86_401.0)
    assert observed.lines[-1].endswith("waiting for cyd (not seen yet)")
