"""The relay: what it passes on, whom it names, and that it ends when it is told to."""

import time
from pathlib import Path

from protocol.runtime.cli import INTERRUPTED
from tests.support.local_sessions import Play, options, play
from tests.support.relay_client import forged, hello, recording, speaking
from tests.support.wait import LIMIT, until


def named(session: Play, name: str) -> bool:
    """Whether the coordinator has said that a member's connection sends what it may not."""
    return f"{name}: its connection sent" in session.cast.complained("coordinator")


def test_only_what_is_valid_is_passed_on(tmp_path: Path) -> None:
    """Parts, forgeries and nonsense stay at the relay, and the member that sent them is named."""
    with play(tmp_path / "s", options(rounds=5)) as session:
        session.cast.start_coordinator()
        said, batched = hello(session, "party1"), hello(session, "party1", number=1)
        batch = b"\0" + len(batched).to_bytes(4, "big") + batched
        with recording(session) as heard, speaking(session) as mouth:

            def passed_on() -> bool:  # what is sent before the recorder has subscribed is lost
                mouth.send_multipart([said, b"parts"])
                for bad in (b"", b"\0", bytes(200), forged(session, "party2", 0), said[:-1]):
                    mouth.send(bad)
                mouth.send(batch)
                mouth.send(said)
                time.sleep(0.1)  # so seldom that its own messages stay within its limit
                return {said, batched} <= set(heard)

            until(passed_on, "what is valid is passed on")
        assert set(heard) == {said, batched}
        assert named(session, "party1")
        assert not named(session, "party2")
        assert "party2 is here" not in session.cast.complained("coordinator")


def test_a_flooded_relay_still_ends_when_told(tmp_path: Path) -> None:
    """However busy a member keeps it, the coordinator obeys the first polite signal."""
    with play(tmp_path / "s", options(rounds=5)) as session:
        session.cast.start_coordinator()
        coordinator = session.cast.processes["coordinator"]
        with speaking(session) as mouth:

            def ended_in_a_flood() -> bool:
                for _ in range(1_000):
                    mouth.send(bytes(200))
                return coordinator.poll() is not None

            until(lambda: ended_in_a_flood() or named(session, "party1"), "the relay is busy")
            coordinator.terminate()
            until(ended_in_a_flood, "the coordinator ends")
        assert coordinator.wait(LIMIT) == INTERRUPTED
