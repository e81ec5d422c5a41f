"""The coordinator as the convener sees it: progress, end, health check, transcript."""

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from coordinator.progress import LINGER_SECONDS
from protocol.errors import BadCommand, Unavailable
from protocol.runtime.cli import INTERRUPTED
from protocol.wire.transcript import load
from scripts.lab.common import local_session
from tests.support.local_sessions import RunningSession, assert_undisturbed, options
from tests.support.outcomes import replay
from tests.support.process_control import Brake, kill
from tests.support.relay_client import forged, hello, speaking
from tests.support.wait import LIMIT, until

ROUNDS = 12


def serve(session: RunningSession, *more: str) -> None:
    """Start the coordinator with additional options."""
    session.launch("coordinator", [*local_session.coordinator_command(session.folder), *more])


def log(session: RunningSession) -> str:
    return session.stderr("coordinator")


def shown(session: RunningSession) -> str:
    """The coordinator's page as it is now."""
    with urllib.request.urlopen(session.page(), timeout=LIMIT) as answer:  # noqa: S310
        text: str = answer.read().decode()
        return text


def health(session: RunningSession, *more: str) -> int:
    """The exit code of `coordinator health`."""
    folder = session.folder
    done = subprocess.run(
        [
            *(sys.executable, "-m", "coordinator", "health"),
            *("--agreement", str(folder / "agreement.toml")),
            *("--key", str(folder / "coordinator.key"), *more),
        ],
        env=local_session.environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode


@pytest.mark.parametrize("topology", ["relay", "mesh"])
def test_it_reports_progress_and_ends_with_the_session(tmp_path: Path, topology: str) -> None:
    """In both topologies the log says who is here and that the session is over."""
    chosen = options("--topology", topology, parties=2, rounds=ROUNDS)
    with RunningSession(tmp_path / "s", chosen) as session:
        session.start()
        session.wait(LIMIT)
        assert session.processes["coordinator"].wait(LIMIT) == 0
        lines = log(session)
        for name in session.names:
            assert f"{name} is here" in lines
        assert "all members are here" in lines
        assert f"all members have sealed {ROUNDS} rounds" in lines
        if topology == "relay":
            assert f"round {ROUNDS} of {ROUNDS}" in lines
        assert_undisturbed(session, "--topology", topology)


def test_it_keeps_running_when_asked_to(tmp_path: Path) -> None:
    """With --keep-running it reports the end of the session and continues until stopped."""
    with RunningSession(tmp_path / "s", options(parties=2, rounds=ROUNDS)) as session:
        serve(session, "--keep-running")
        for name in session.names:
            session.start_party(name)
        session.wait(LIMIT)
        until(lambda: "the session is over" in log(session), "the coordinator knows of the end")
        coordinator = session.processes["coordinator"]
        with pytest.raises(subprocess.TimeoutExpired):
            coordinator.wait(LINGER_SECONDS + 2.0)  # without the option it would end by now
        assert health(session) == 0
        coordinator.terminate()
        assert coordinator.wait(LIMIT) == INTERRUPTED


@pytest.mark.parametrize("topology", ["relay", "mesh"])
def test_health_check(tmp_path: Path, topology: str) -> None:
    """A running coordinator passes, a killed one fails, and the log does not mention the check."""
    with RunningSession(tmp_path / "s", options("--topology", topology, rounds=5)) as session:
        assert health(session, "--seconds", "0.5") == Unavailable.exit_code
        session.start_coordinator()
        until(lambda: health(session) == 0, "the coordinator answers")
        lines = log(session)
        assert "refused" not in lines
        assert " is here" not in lines
        kill(session, "coordinator")
        assert health(session, "--seconds", "0.5") == Unavailable.exit_code


@pytest.mark.parametrize("reveal", ["each", "totals"])
def test_it_keeps_the_transcript_through_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reveal: str
) -> None:
    """Forgeries change nothing, its file equals the members', and its page continues from it."""
    kept = tmp_path / "kept.transcript"
    with RunningSession(tmp_path / "s", options("--reveal", reveal, rounds=ROUNDS)) as session:
        brake = Brake(session, monkeypatch, name="party1", furthest=6)
        serve(session, "--transcript", str(kept))
        for name in session.names:
            session.start_party(name)
        brake.reached()
        with speaking(session, "party3") as publisher:  # a forgery in another's name, rounds ahead
            publisher.send(forged(session, "party2", ROUNDS - 2))
        part = kept.with_name("kept.transcript.part")
        until(lambda: part.stat().st_size > 6 * 3 * 100, "the journal is written")
        kill(session, "coordinator")
        serve(session, "--transcript", str(kept), "--page")
        until(lambda: session.page(), "the coordinator says where its page is")
        until(lambda: "How the prices move" in shown(session), "the page has the earlier rounds")
        brake.let_go()
        session.wait(LIMIT)
        assert session.processes["coordinator"].wait(LIMIT) == 0
        ours = load(session.agreement, kept.read_bytes())
        assert len(ours.keys) == (len(session.names) if reveal == "totals" else 0)
        assert len(ours.seals) == len(session.names)
        assert replay(session.agreement, ours).over
        for name in session.names:
            theirs = session.folder / name / "out" / "session.transcript"
            assert theirs.read_bytes() == kept.read_bytes(), f"{name} has another file"
        assert not part.exists()
        serve(session, "--transcript", str(kept))
        assert session.processes["coordinator"].wait(LIMIT) == BadCommand.exit_code


def test_its_page_names_the_member_whose_connection_sends_forgeries(tmp_path: Path) -> None:
    """Page and log name the member that sent them, and not the member they claim to be from."""
    with RunningSession(tmp_path / "s", options(rounds=ROUNDS)) as session:
        serve(session, "--page")
        until(lambda: session.page(), "the coordinator says where its page is")
        with speaking(session, "party3") as publisher:
            publisher.send(forged(session, "party2", 1))
            until(lambda: "party3: its connection sent 1 message" in shown(session), "it is named")
        assert "party3: its connection sent 1 message" in log(session)
        assert "party2: its connection" not in shown(session) + log(session)


def test_forged_seals_do_not_end_the_session(tmp_path: Path) -> None:
    """A member that signs seals in the names of all ends nothing."""
    from protocol.wire.codec import pack
    from protocol.wire.messages import Seal

    with RunningSession(tmp_path / "s", options(rounds=ROUNDS)) as session:
        session.start_coordinator()
        with speaking(session, "party3") as publisher:
            for member in session.agreement.members:
                seal = Seal(
                    sender=member.name,
                    agreement=session.agreement.digest,
                    round=ROUNDS,
                    chain_hash=bytes(32),
                    has_all_seals=True,
                )
                publisher.send(pack(seal, key=member.signing_key, sign=lambda _: bytes(64)).data)
            publisher.send(hello(session, "party3"))
            until(lambda: "party3 is here" in log(session), "the seals have passed")
        assert "party1 is here" not in log(session), "its seal came over another connection"
        for name in session.names:
            session.start_party(name)
        session.wait(LIMIT)
        assert log(session).count("the session is over") == 1
        assert_undisturbed(session)
