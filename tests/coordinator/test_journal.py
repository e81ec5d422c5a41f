"""What a coordinator keeps of a session: what a transcript needs, and nothing that fills a disk."""

from pathlib import Path

from coordinator.journal import Journal
from protocol.wire.transcript import frame, load
from tests.support.builders import make_agreement, play
from tests.support.session_harness import forged, lying

AGREEMENT = make_agreement(members=3, rounds=200)
TRANSCRIPT = play(AGREEMENT)[0]


def archive(path: Path) -> Journal:
    return Journal(AGREEMENT, path, frame=frame, say=lambda _: None)


def test_releases_of_rounds_to_come_are_not_kept(tmp_path: Path) -> None:
    """A member that signs releases and seals of all rounds adds those of two to the journal."""
    path = tmp_path / "kept.transcript"
    kept = archive(path)
    first, seal = TRANSCRIPT.rounds[0][0], TRANSCRIPT.seals[0]
    for number in range(AGREEMENT.rounds):
        kept.keep(lying(first, round=number))
        kept.keep(lying(first, round=number, chain_hash=bytes([1]) * 32))
        kept.keep(lying(seal, round=number))
    kept.close()
    size = path.with_name("kept.transcript.part").stat().st_size
    assert size < 5 * (len(first.data) + 20)


def test_a_session_is_kept_through_a_restart_beside_a_member_that_looks_ahead(
    tmp_path: Path,
) -> None:
    """The file holds every round, and what is damaged in the journal is not taken for a message."""
    path = tmp_path / "kept.transcript"
    kept = archive(path)
    for releases in TRANSCRIPT.rounds[:100]:
        for signed in releases:
            kept.keep(signed)
        kept.keep(lying(releases[0], round=releases[0].message.round + 50))
    kept.close()
    part = path.with_name("kept.transcript.part")
    true = TRANSCRIPT.rounds[99][2]
    broken = forged(true, values=(7,) * AGREEMENT.width).data
    part.write_bytes(part.read_bytes().replace(true.data, broken))
    kept = archive(path)
    for signed in (s for r in TRANSCRIPT.rounds[99:] for s in r):
        kept.keep(signed)
    for signed in TRANSCRIPT.seals:
        kept.keep(signed)
    kept.close()
    assert load(AGREEMENT, path.read_bytes()) == TRANSCRIPT
