"""The relay: what it passes on, which member it names, and that it stops on a signal."""

import time
from pathlib import Path

from protocol.runtime.cli import INTERRUPTED
from tests.support.local_sessions import RunningSession, options
from tests.support.relay_client import forged, hello, recording, speaking
from tests.support.wait import LIMIT, until


def named(session: RunningSession, name: str) -> bool:
    """Whether the log names this member for what its connection has sent."""
    return f"{name}: its connection sent" in session.stderr("coordinator")


def test_only_valid_messages_are_passed_on(tmp_path: Path) -> None:
    """The relay drops all others, and names the member that sent them."""
    with RunningSession(tmp_path / "s", options(rounds=5)) as session:
        session.start_coordinator()
        alone, batched = hello(session, "party1"), hello(session, "party1", number=1)
        batch = b"\0" + len(batched).to_bytes(4, "big") + batched
        with recording(session) as received, speaking(session) as publisher:

            def passed_on() -> bool:  # messages before the recorder's subscription are lost
                publisher.send_multipart([alone, b"parts"])
                for bad in (b"", b"\0", bytes(200), forged(session, "party2", 0), alone[:-1]):
                    publisher.send(bad)
                publisher.send(batch)
                publisher.send(alone)
                time.sleep(0.1)  # slow enough for its own messages to stay within its limit
                return {alone, batched} <= set(received)

            until(passed_on, "valid messages are passed on")
        assert set(received) == {alone, batched}
        assert named(session, "party1")
        assert not named(session, "party2")
        assert "party2 is here" not in session.stderr("coordinator")


def test_a_flooded_relay_stops_on_the_first_signal(tmp_path: Path) -> None:
    """A member that floods cannot keep it running."""
    with RunningSession(tmp_path / "s", options(rounds=5)) as session:
        session.start_coordinator()
        coordinator = session.processes["coordinator"]
        with speaking(session) as publisher:

            def ended_in_a_flood() -> bool:
                for _ in range(1_000):
                    publisher.send(bytes(200))
                return coordinator.poll() is not None

            until(lambda: ended_in_a_flood() or named(session, "party1"), "the relay is busy")
            coordinator.terminate()
            until(ended_in_a_flood, "the coordinator ends")
        assert coordinator.wait(LIMIT) == INTERRUPTED
