"""The end of sessions of real processes: absent members, missing seals, faults."""

import json
import signal
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from party import keys
from party.ledger.session_ledger import Ledger
from protocol.errors import BadData, BadLedger, Equivocation, Unavailable, Unsealed
from protocol.rounds import RoundEngine
from protocol.wire.codec import Reader
from protocol.wire.messages import Release
from scripts.lab.common.local_session import environment
from tests.support.local_sessions import PATIENCE, RunningSession, assert_undisturbed, options
from tests.support.process_control import Brake, kill, until_reported
from tests.support.relay_client import key_file, speaking
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(600)

FILES = ("report.html", "plan.csv", "result.json", "session.transcript")


def impatient(session: RunningSession, seconds: float) -> None:
    """Parties started from now on have this patience; the digest does not change."""
    path = session.folder / "agreement.toml"
    lines = path.read_text().splitlines()
    [place] = [i for i, line in enumerate(lines) if line.startswith("patience_seconds")]
    lines[place] = f"patience_seconds = {seconds}"
    path.write_text("\n".join(lines) + "\n")


def ended(session: RunningSession, *names: str) -> list[int]:
    """The exit codes of these parties, when they have ended."""
    return [session.processes[name].wait(LIMIT) for name in names]


def result(session: RunningSession, name: str, out: Path) -> "subprocess.CompletedProcess[str]":
    """`party result` for a member of the session."""
    home = session.folder / name
    return command(
        *("--agreement", str(session.folder / "agreement.toml")),
        *("--data", str(home / "model.npz"), "--ledger", str(home / f"{name}.ledger")),
        *("--out", str(out)),
    )


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "party", "result", *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def figures(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return content


def out_of(session: RunningSession, name: str) -> Path:
    return session.folder / name / "out"


def end_without(session: RunningSession, monkeypatch: pytest.MonkeyPatch, absent: str) -> None:
    """Run until all members except one have closed the last round, and kill that one.

    It has released for that round, but not closed it.
    """
    rounds = session.options.rounds
    brake = Brake(session, monkeypatch, name=absent, furthest=rounds - 1)
    session.start()
    others = [name for name in session.names if name != absent]
    for name in others:
        assert session.until_round(name, rounds)
        until(partial(waits_for, session, name, absent), f"{name} has sealed")
    kill(session, absent)
    brake.let_go()


def waits_for(session: RunningSession, name: str, missing: str) -> bool:
    """Whether a party waits for the seal of this member only."""
    events = [e for e in session.events[name] if e.get("phase") == "sealing"]
    return bool(events) and events[-1]["missing"] == [missing]


def test_an_absent_member_finishes_with_any_one_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others get an unsealed outcome; one of them is enough to finish later."""
    with RunningSession(tmp_path / "s", options("--no-demands", rounds=12)) as session:
        end_without(session, monkeypatch, "party3")
        for name in ("party1", "party2"):
            session.processes[name].send_signal(signal.SIGTERM)
        assert ended(session, "party1", "party2") == [130, 130]
        impatient(session, 3.0)
        for name in ("party1", "party2"):
            session.start_party(name)
        assert ended(session, "party1", "party2") == [Unsealed.exit_code] * 2
        for name in ("party1", "party2"):
            assert "there is no seal of 'party3'" in session.stderr(name)
            result = figures(out_of(session, name))
            assert (result["sealed"], result["unsealed"], result["rounds"]) == (
                False,
                ["party3"],
                12,
            )
            assert all((out_of(session, name) / file).exists() for file in FILES)
        unsealed = figures(out_of(session, "party1"))
        impatient(session, PATIENCE)
        for name in ("party3", "party1"):
            session.start_party(name)
        assert ended(session, "party3", "party1") == [0, 0], session.stderr("party3")
        sealed = figures(out_of(session, "party1"))
        assert (sealed["sealed"], sealed["unsealed"]) == (True, [])
        same = {"sealed": None, "unsealed": None}
        assert sealed | same == unsealed | same, "the outcome was the same before"
        for name in ("party2", "party3"):
            session.start_party(name)
        assert ended(session, "party2", "party3") == [0, 0]
        assert_undisturbed(session, "--no-demands")


def test_party_result_writes_the_files_again_without_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a session with all rounds, sealed or not, are the same as before."""
    with RunningSession(tmp_path / "s", options("--no-demands", rounds=12)) as session:
        end_without(session, monkeypatch, "party3")
        session.processes["party1"].send_signal(signal.SIGTERM)
        assert ended(session, "party1") == [130]
        unsealed = result(session, "party1", tmp_path / "unsealed")
        assert unsealed.returncode == Unsealed.exit_code, unsealed.stderr
        assert "the seals of 'party3' are missing" in unsealed.stderr
        assert figures(tmp_path / "unsealed")["unsealed"] == ["party3"]
        assert "not sealed" in (tmp_path / "unsealed" / "report.html").read_text()
        stands = result(session, "party3", tmp_path / "stands")
        assert stands.returncode == Unavailable.exit_code
        assert "has closed 11 of 12 rounds" in stands.stderr
        for name in ("party1", "party3"):
            session.start_party(name)
        session.wait(LIMIT)
        session.stop()
        again = result(session, "party1", tmp_path / "again")
        assert again.returncode == 0, again.stderr
        for file in FILES:
            before = (out_of(session, "party1") / file).read_bytes()
            assert (tmp_path / "again" / file).read_bytes() == before, file
        assert "all members agree on chain hash" in again.stdout
        model = session.folder / "party1" / "model.npz"
        model.write_bytes((session.folder / "party2" / "model.npz").read_bytes())
        other = result(session, "party1", tmp_path / "other")
        assert other.returncode == BadData.exit_code
        assert "with another model, so the plan of this one" in other.stderr
        assert not (tmp_path / "other").exists()
        session.start_party("party1")
        assert ended(session, "party1") == [BadData.exit_code]
        assert "with another model, so the plan of this one" in session.stderr("party1")
        for file in FILES:
            before = (tmp_path / "again" / file).read_bytes()
            assert (out_of(session, "party1") / file).read_bytes() == before, file


def test_party_result_of_an_unknown_session_is_refused(tmp_path: Path) -> None:
    """`party result` neither makes a ledger nor changes one."""
    with RunningSession(tmp_path / "s", options("--no-demands", rounds=12)) as session:
        missing = result(session, "party1", tmp_path / "out")
        assert missing.returncode == BadLedger.exit_code
        assert "there is no ledger" in missing.stderr
        path = key_file(session, "party1").with_suffix(".ledger")
        other = RunningSession(tmp_path / "other", options(rounds=13))
        with closing(Ledger(path, other.agreement, "party1")):
            pass
        before = path.read_bytes()
        refused = result(session, "party1", tmp_path / "out")
        assert refused.returncode == BadLedger.exit_code
        assert "has no session of this agreement" in refused.stderr
        assert path.read_bytes() == before


def two_releases(session: RunningSession, liar: str) -> list[bytes]:
    """Two different releases for round 0, which no honest member signs."""
    who, agreement = keys.load(key_file(session, liar)), session.agreement
    chain_hash = RoundEngine(agreement).opening.chain_hash
    return [
        who.pack(
            Release(
                sender=liar,
                agreement=agreement.digest,
                round=0,
                chain_hash=chain_hash,
                values=(value,) * agreement.width,
            )
        ).data
        for value in (1, 2)
    ]


def test_a_member_that_was_absent_at_a_halt_gets_the_evidence(tmp_path: Path) -> None:
    """The ledger keeps the proof, later members see it, and `party result` writes it."""
    with RunningSession(tmp_path / "s", options("--no-demands", rounds=12)) as session:
        (out_of(session, "party1") / "evidence.json").mkdir(parents=True)  # nothing can be written
        session.start_coordinator()
        session.start_party("party1")
        until_reported(session, "party1", "waiting")
        with speaking(session, "party3") as mouth:
            for data in two_releases(session, "party3"):
                mouth.send(data)
            assert ended(session, "party1") == [Equivocation.exit_code]
        accused = "'party3' signed two different messages for round 1"
        assert accused in session.stderr("party1")
        assert "the evidence cannot be written" in session.stderr("party1")
        session.start_party("party2")
        until_reported(session, "party2", "waiting")
        assert session.processes["party2"].poll() is None
        session.start_party("party1")
        assert ended(session, "party2", "party1") == [Equivocation.exit_code] * 2
        assert accused in session.stderr("party2")
        session.stop()
        again = result(session, "party1", tmp_path / "out")
        assert again.returncode == Equivocation.exit_code
        assert accused in again.stderr
        for folder in (tmp_path / "out", out_of(session, "party2")):
            evidence = json.loads((folder / "evidence.json").read_text())
            assert evidence["accused"] == "party3"
            reader = Reader(session.agreement)
            shown = [reader.unpack(bytes.fromhex(m)) for m in evidence["signed_messages"]]
            assert sorted(s.data for s in shown) == sorted(two_releases(session, "party3"))
