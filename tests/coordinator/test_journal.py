"""What a coordinator writes about a session: what a transcript needs, and nothing that fills a
disk."""

import os
import time
from pathlib import Path

import msgpack
import pytest

from coordinator.collector import RoundCollector
from coordinator.journal import Journal
from coordinator.observer import SessionObserver
from protocol.errors import BadCommand
from protocol.runtime.presence import clock_text
from protocol.wire.messages import Signed
from protocol.wire.transcript import load
from tests.support.builders import make_agreement, play
from tests.support.session_harness import forged, lying

AGREEMENT = make_agreement(members=3, rounds=200)
TRANSCRIPT = play(AGREEMENT)[0]


class Recorder:
    """A journal and the collector that it reads."""

    def __init__(self, path: Path) -> None:
        self.collector = RoundCollector(AGREEMENT)
        self.journal = Journal(AGREEMENT, path, self.collector, say=lambda _: None)

    def receive(self, *messages: Signed) -> None:
        for signed in messages:
            self.journal.append(self.collector.collect(signed, 0.0).closed)

    def kill(self) -> None:
        """End as a killed process does."""
        self.journal._file.close()


def test_what_one_member_signs_alone_is_not_written(tmp_path: Path) -> None:
    """A member that signs releases and seals of all rounds adds nothing to the journal."""
    path = tmp_path / "kept.transcript"
    recorder = Recorder(path)
    first, seal = TRANSCRIPT.rounds[0][0], TRANSCRIPT.seals[0]
    for number in range(AGREEMENT.rounds):
        recorder.receive(lying(first, round=number))
        recorder.receive(lying(first, round=number, chain_hash=bytes([1]) * 32))
        recorder.receive(lying(seal, round=number))
    recorder.journal.close()
    assert path.with_name("kept.transcript.part").stat().st_size == 0


def test_a_session_is_kept_through_a_restart_beside_a_hostile_member(tmp_path: Path) -> None:
    """The file has every round, and damaged entries of the journal are not used."""
    path = tmp_path / "kept.transcript"
    recorder = Recorder(path)
    for releases in TRANSCRIPT.rounds[:100]:
        recorder.receive(*releases)
        recorder.receive(lying(releases[0], round=releases[0].message.round + 50))
    recorder.journal.close()
    part = path.with_name("kept.transcript.part")
    true = TRANSCRIPT.rounds[99][2]
    broken = forged(true, values=(7,) * AGREEMENT.width).data
    part.write_bytes(part.read_bytes().replace(true.data, broken))
    recorder = Recorder(path)
    recorder.receive(*(s for releases in TRANSCRIPT.rounds[99:] for s in releases))
    recorder.receive(*TRANSCRIPT.seals)
    recorder.journal.close()
    assert load(AGREEMENT, path.read_bytes()) == TRANSCRIPT
    assert not part.exists()


def test_seals_survive_a_restart(tmp_path: Path) -> None:
    """A coordinator that is killed after the seals still writes a sealed transcript."""
    path = tmp_path / "kept.transcript"
    recorder = Recorder(path)
    recorder.receive(*(s for releases in TRANSCRIPT.rounds for s in releases), *TRANSCRIPT.seals)
    recorder.kill()
    Recorder(path).journal.close()
    assert load(AGREEMENT, path.read_bytes()) == TRANSCRIPT


def test_a_transcript_with_a_gap_is_not_sealed(tmp_path: Path) -> None:
    """A coordinator that missed rounds writes those before them."""
    path = tmp_path / "kept.transcript"
    recorder = Recorder(path)
    rounds = (*TRANSCRIPT.rounds[:3], *TRANSCRIPT.rounds[7:])
    recorder.receive(*(s for releases in rounds for s in releases), *TRANSCRIPT.seals)
    recorder.journal.close()
    kept = load(AGREEMENT, path.read_bytes())
    assert (kept.rounds, kept.seals) == (TRANSCRIPT.rounds[:3], ())


def test_the_journal_of_another_session_is_left_alone(tmp_path: Path) -> None:
    """It is refused, and not a byte of it is lost."""
    path = tmp_path / "kept.transcript"
    recorder = Recorder(path)
    recorder.receive(*TRANSCRIPT.rounds[0])
    recorder.kill()
    part = path.with_name("kept.transcript.part")
    before = part.read_bytes()
    other = make_agreement(members=3, rounds=7)
    with pytest.raises(BadCommand, match="not the journal of this session"):
        Journal(other, path, RoundCollector(other), say=lambda _: None)
    assert part.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        b"notes of the convener",
        bytes(100),
        msgpack.packb({"rounds": 7}),
        msgpack.packb([0, 1, TRANSCRIPT.rounds[0][1].data]),
    ],
    ids=["text", "zeros", "a table", "the journal of an earlier version"],
)
def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, content: bytes) -> None:
    """It is refused, and not a byte of it is lost."""
    part = tmp_path / "kept.transcript.part"
    part.write_bytes(content)
    with pytest.raises(BadCommand, match="not the journal of this session"):
        Recorder(tmp_path / "kept.transcript")
    assert part.read_bytes() == content


def test_nothing_of_a_damaged_entry_is_used(tmp_path: Path) -> None:
    """The messages before the damaged one have no time of arrival, so they would look early."""
    path = tmp_path / "kept.transcript"
    recorder = Recorder(path)
    recorder.receive(*TRANSCRIPT.rounds[0], *TRANSCRIPT.rounds[1])
    recorder.kill()
    part = path.with_name("kept.transcript.part")
    true = TRANSCRIPT.rounds[1][2]
    broken = forged(true, values=(7,) * AGREEMENT.width).data
    part.write_bytes(part.read_bytes().replace(true.data, broken))
    recorder = Recorder(path)
    recorder.kill()
    assert recorder.collector.missing() == [m.name for m in AGREEMENT.members]


def test_a_disk_that_fails_never_stops_the_session(tmp_path: Path) -> None:
    """The transcript is still written at the end, from memory."""
    path = tmp_path / "kept.transcript"
    recorder = Recorder(path)
    recorder.kill()
    messages = [s for releases in (*TRANSCRIPT.rounds, TRANSCRIPT.seals) for s in releases]
    with Path("/dev/full").open("ab") as full:
        recorder.journal._file = full
        recorder.receive(*messages)
    recorder.journal.close()
    assert load(AGREEMENT, path.read_bytes()) == TRANSCRIPT


@pytest.mark.parametrize("closed", [True, False])
def test_a_member_that_left_before_a_restart_is_away(tmp_path: Path, closed: bool) -> None:
    """It is away since the last closed exchange; messages of one member say nothing of others."""
    path = tmp_path / "kept.transcript"
    recorder = Recorder(path)
    recorder.receive(*TRANSCRIPT.rounds[0][: None if closed else 1])
    recorder.kill()
    an_hour_ago = time.time() - 3600.0
    os.utime(path.with_name("kept.transcript.part"), (an_hour_ago, an_hour_ago))
    again = Recorder(path)
    observer = SessionObserver(
        AGREEMENT, again.collector, say=lambda _: None, journal=again.journal
    )
    expected = f"away since {clock_text(an_hour_ago)}" if closed else "not seen yet"
    states = observer.progress.states(time.monotonic())
    assert states == dict.fromkeys((m.name for m in AGREEMENT.members), expected)
    again.kill()
