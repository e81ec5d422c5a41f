"""The coordinator as its convener sees it: how a session stands, its end, its health, its file."""

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from protocol.errors import BadCommand, Unavailable
from protocol.outcome.replay import replay
from protocol.runtime.cli import INTERRUPTED
from protocol.wire.transcript import load
from scripts.lab.common import local_session
from tests.support.local_sessions import Play, assert_undisturbed, options, play
from tests.support.process_control import Brake, kill
from tests.support.relay_client import forged, hello, speaking
from tests.support.wait import LIMIT, until

ROUNDS = 12


def serve(session: Play, *more: str) -> None:
    """Start the coordinator with more options than usual."""
    session.cast.launch(
        "coordinator", [*local_session.coordinator_command(session.cast.folder), *more]
    )


def told(session: Play) -> str:
    return session.cast.complained("coordinator")


def shown(session: Play) -> str:
    """What the coordinator's page shows now."""
    with urllib.request.urlopen(session.cast.page(), timeout=LIMIT) as answer:  # noqa: S310
        text: str = answer.read().decode()
        return text


def health(session: Play, *more: str) -> int:
    """What `coordinator health` ends with."""
    folder = session.cast.folder
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
def test_it_says_how_the_session_stands_and_ends_with_it(tmp_path: Path, topology: str) -> None:
    """Who is here and that it is over is said in both topologies, and then the process ends."""
    with play(tmp_path / "s", options("--topology", topology, rounds=ROUNDS)) as session:
        session.cast.start()
        session.cast.wait(LIMIT)
        assert session.cast.processes["coordinator"].wait(LIMIT) == 0
        log = told(session)
        for name in session.cast.names:
            assert f"{name} is here" in log
        assert "all members are here" in log
        assert f"all members have sealed {ROUNDS} rounds" in log
        if topology == "relay":
            assert f"round {ROUNDS} of {ROUNDS}" in log
        assert_undisturbed(session, "--topology", topology)


def test_it_keeps_running_when_asked_to(tmp_path: Path) -> None:
    """With --keep-running it reports the end of the session and continues until stopped."""
    with play(tmp_path / "s", options(rounds=ROUNDS)) as session:
        serve(session, "--keep-running")
        for name in session.cast.names:
            session.cast.start_party(name)
        session.cast.wait(LIMIT)
        until(lambda: "the session is over" in told(session), "the coordinator knows of the end")
        coordinator = session.cast.processes["coordinator"]
        with pytest.raises(subprocess.TimeoutExpired):
            coordinator.wait(10.0)
        assert health(session) == 0
        coordinator.terminate()
        assert coordinator.wait(LIMIT) == INTERRUPTED


@pytest.mark.parametrize("topology", ["relay", "mesh"])
def test_health(tmp_path: Path, topology: str) -> None:
    """A coordinator that runs is well; one that is away or whose process is stuck is not."""
    with play(tmp_path / "s", options("--topology", topology, rounds=5)) as session:
        assert health(session, "--seconds", "0.5") == Unavailable.exit_code
        session.cast.start_coordinator()
        until(lambda: health(session) == 0, "the coordinator answers")
        log = told(session)
        assert "refused" not in log
        assert " is here" not in log
        kill(session, "coordinator")
        assert health(session, "--seconds", "0.5") == Unavailable.exit_code


@pytest.mark.parametrize("reveal", ["each", "totals"])
def test_it_keeps_the_transcript_through_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reveal: str
) -> None:
    """Over a kill and against forgeries it keeps what members have; its page goes on from that."""
    kept = tmp_path / "kept.transcript"
    with play(tmp_path / "s", options("--reveal", reveal, rounds=ROUNDS)) as session:
        brake = Brake(session, monkeypatch, name="party1", furthest=6)
        serve(session, "--transcript", str(kept))
        for name in session.cast.names:
            session.cast.start_party(name)
        brake.reached()
        with speaking(session, "party3") as mouth:  # a forgery in another's name, rounds ahead
            mouth.send(forged(session, "party2", ROUNDS - 2))
        part = kept.with_name("kept.transcript.part")
        until(lambda: part.stat().st_size > 6 * 3 * 100, "the journal is written")
        kill(session, "coordinator")
        serve(session, "--transcript", str(kept), "--page")
        until(lambda: session.cast.page(), "the coordinator says where its page is")
        until(lambda: "How the prices move" in shown(session), "the page has the earlier rounds")
        brake.let_go()
        session.cast.wait(LIMIT)
        assert session.cast.processes["coordinator"].wait(LIMIT) == 0
        ours = load(session.agreement, kept.read_bytes())
        assert len(ours.keys) == (len(session.cast.names) if reveal == "totals" else 0)
        assert len(ours.seals) == len(session.cast.names)
        assert replay(session.agreement, ours).over
        for name in session.cast.names:
            theirs = session.cast.folder / name / "out" / "session.transcript"
            assert theirs.read_bytes() == kept.read_bytes(), f"{name} has another file"
        assert not part.exists()
        serve(session, "--transcript", str(kept))
        assert session.cast.processes["coordinator"].wait(LIMIT) == BadCommand.exit_code


def test_its_page_names_the_member_whose_connection_sends_forgeries(tmp_path: Path) -> None:
    """The convener reads who sent them, as in the log, and not in whose name they were sent."""
    with play(tmp_path / "s", options(rounds=ROUNDS)) as session:
        serve(session, "--page")
        until(lambda: session.cast.page(), "the coordinator says where its page is")
        with speaking(session, "party3") as mouth:
            mouth.send(forged(session, "party2", 1))
            until(lambda: "party3: its connection sent 1 message" in shown(session), "it is named")
        assert "party3: its connection sent 1 message" in told(session)
        assert "party2: its connection" not in shown(session) + told(session)


def test_forged_seals_do_not_end_it(tmp_path: Path) -> None:
    """A member that says in the name of all that the session is over ends nothing."""
    from protocol.wire.codec import pack
    from protocol.wire.messages import Seal

    with play(tmp_path / "s", options(rounds=ROUNDS)) as session:
        session.cast.start_coordinator()
        with speaking(session, "party3") as mouth:
            for member in session.agreement.members:
                seal = Seal(
                    sender=member.name,
                    agreement=session.agreement.digest,
                    round=ROUNDS,
                    chain_hash=bytes(32),
                    complete=True,
                )
                mouth.send(pack(seal, key=member.signing_key, sign=lambda _: bytes(64)).data)
            mouth.send(hello(session, "party3"))
            until(lambda: "party3 is here" in told(session), "the seals have passed")
        assert "party1 is here" not in told(session), "its seal came from somebody else"
        for name in session.cast.names:
            session.cast.start_party(name)
        session.cast.wait(LIMIT)
        assert told(session).count("the session is over") == 1
        assert_undisturbed(session)
