"""The relay: what it passes on, and that it ends when it is told to."""

from pathlib import Path

from protocol.command import INTERRUPTED
from tests.kit.processes import options, play
from tests.kit.relay import recording, speaking
from tests.kit.waiting import LIMIT, until


def test_a_message_in_parts_is_not_passed_on(tmp_path: Path) -> None:
    """Parts have no limit and no message of a session has any: the relay keeps them back."""
    with play(tmp_path / "s", options(rounds=5)) as session:
        session.cast.start_coordinator()
        with recording(session) as heard, speaking(session) as mouth:

            def passed_on() -> bool:  # what is said before anybody listens is lost
                mouth.send_multipart([b"in", b"parts"])
                mouth.send(b"whole")
                return bool(heard)

            until(passed_on, "something is passed on")
        assert set(heard) == {b"whole"}


def test_a_flooded_relay_still_ends_when_told(tmp_path: Path) -> None:
    """However busy a member keeps it, the coordinator obeys the first polite signal."""
    with play(tmp_path / "s", options(rounds=5)) as session:
        session.cast.start_coordinator()
        coordinator = session.cast.processes["coordinator"]
        with recording(session) as heard, speaking(session) as mouth:

            def ended_in_a_flood() -> bool:
                for _ in range(1_000):
                    mouth.send(bytes(200))
                return coordinator.poll() is not None

            until(lambda: ended_in_a_flood() or len(heard) > 1_000, "the relay is busy")
            coordinator.terminate()
            until(ended_in_a_flood, "the coordinator ends")
        assert coordinator.wait(LIMIT) == INTERRUPTED
