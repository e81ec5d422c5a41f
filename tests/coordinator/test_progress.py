"""How a session stands, as a coordinator tells it from verified messages."""

from coordinator.progress import QUIET_SECONDS, SessionProgress
from protocol.wire.messages import Halt, Reason
from tests.support.builders import make_agreement, play
from tests.support.session_harness import lying


def test_who_is_only_passed_on_is_not_here() -> None:
    """A member is here once its own connection brings what it signed, whatever others pass on."""
    agreement = make_agreement(rounds=4)
    transcript, _ = play(agreement)
    first, second, *_ = (m.name for m in agreement.members)
    said: list[str] = []
    standing = SessionProgress(agreement, said.append, 0.0)
    for releases in transcript.rounds:
        standing.hear(releases[0].message, second, 0.0)
    standing.hear(transcript.seals[0].message, second, 0.0)
    assert not standing.here
    standing.hear(transcript.rounds[1][0].message, first, 0.0)
    assert standing.here == (first,)
    standing.look(QUIET_SECONDS)
    others = ", ".join(m.name for m in agreement.members[1:])
    assert f"waiting for {others}" in said[-1]


def test_only_complete_seals_end_it() -> None:
    """With the seals of all, but without their word that they have all seals, it goes on."""
    agreement = make_agreement(rounds=4)
    transcript, _ = play(agreement)
    standing = SessionProgress(agreement, lambda _: None, 0.0)
    for signed in (s for part in (*transcript.rounds, transcript.seals) for s in part):
        standing.hear(signed.message, signed.message.sender, 0.0)
    assert not standing.over
    for seal in transcript.seals:
        standing.hear(lying(seal, has_all_seals=True).message, seal.message.sender, 0.0)
    assert standing.over


def test_who_shows_its_side_of_a_dispute_is_not_said_to_have_stopped() -> None:
    """Any member can make the others do that: it releases on another head."""
    agreement = make_agreement(rounds=4)
    said: list[str] = []
    standing = SessionProgress(agreement, said.append, 0.0)
    for name, reason in (("ada", Reason.HEADS_DIFFER), ("ben", Reason.EQUIVOCATION)):
        halt = Halt(
            sender=name,
            agreement=agreement.digest,
            round=1,
            chain_hash=bytes(32),
            reason=reason,
            evidence=(),
        )
        standing.hear(halt, name, 1.0)
    assert [line for line in said if "has stopped" in line] == [
        "ben has stopped, and says why to the others"
    ]
    assert any(line.startswith("ada does not agree") for line in said)
