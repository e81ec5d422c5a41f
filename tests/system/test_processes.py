"""Sessions of real processes and sockets, with kills, stops, signals and old ledgers."""

import io
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from party import keys as identity
from party.ledger.session_ledger import Ledger
from party.model.best_response import Subproblem
from party.network.loop import PartyLoop
from party.network.relay_link import RelayLink
from party.release.gate import Gate
from party.release.noise import SeededGaussian
from party.ui.console import JsonView
from protocol.agreement.quantities import quantities
from protocol.errors import BadLedger, Equivocation, PeerError, Unavailable
from protocol.runtime.files import read_agreement
from protocol.wire.codec import Reader
from protocol.wire.messages import Release
from scripts.lab.common.local_session import party_command
from tests.support.commands import run_command, run_module
from tests.support.local_sessions import (
    PATIENCE,
    RunningSession,
    assert_undisturbed,
    options,
    undisturbed,
)
from tests.support.process_control import (
    IN_FLIGHT,
    Brake,
    freeze,
    kill,
    rounds_closed,
    until_reported,
    until_waiting_for,
)
from tests.support.wait import LIMIT

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(
    ("topology", "mode"), [("relay", "private"), ("relay", "clipped"), ("mesh", "private")]
)
def test_processes_reach_the_outcome_of_the_simulation(
    tmp_path: Path, topology: str, mode: str
) -> None:
    """Either topology gives the prices and releases of the simulation, bit for bit."""
    arguments = ("--mode", mode, "--epsilon", "8")
    with RunningSession(tmp_path / "s", options(*arguments, "--topology", topology)) as session:
        session.start()
        session.wait(LIMIT)
        assert_undisturbed(session, *arguments)


@pytest.mark.parametrize("topology", ["relay", "mesh"])
def test_a_distributed_session_ends_by_itself(tmp_path: Path, topology: str) -> None:
    """Without noise all processes stop in the same round as the simulation."""
    arguments = ("--mode", "exact")
    chosen = options(*arguments, "--topology", topology, rounds=150)
    with RunningSession(tmp_path / "s", chosen) as session:
        session.start()
        session.wait(LIMIT)
        assert_undisturbed(session, *arguments)
        ends = {session.result(name)["rounds"] for name in session.names}
        assert ends == {undisturbed(arguments, 3, 150)["rounds_played"]}
        assert max(ends) < 150


def test_a_party_killed_before_the_end_resumes_and_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party killed when its peers may already know the end finishes with them."""
    arguments = ("--mode", "exact")
    end = undisturbed(arguments, 3, 150)["rounds_played"]
    with RunningSession(tmp_path / "s", options(*arguments, rounds=150)) as session:
        brake = Brake(session, monkeypatch, name="party2", furthest=end - 1)
        session.start()
        brake.reached()
        kill(session, "party2")
        brake.let_go()
        session.start_party("party2")
        session.wait(LIMIT)
        assert_undisturbed(session, *arguments)
        assert session.result("party2")["rounds"] == end


KILLS = int(os.environ.get("SOTTO_KILLS", "12"))
"""Kills in total, six for each session. SOTTO_KILLS sets more."""


@pytest.mark.parametrize("seed", range(math.ceil(KILLS / 6)))
def test_parties_killed_at_random_moments_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Six kill -9 of random parties at random moments end with the undisturbed prices."""
    draw = random.Random(seed)
    topology = ("relay", "mesh")[seed % 2]
    with RunningSession(tmp_path / "s", options("--topology", topology, rounds=48)) as session:
        stops = sorted(draw.sample(range(1, 46), 7))
        brake = Brake(session, monkeypatch, name=draw.choice(session.names), furthest=stops[0])
        session.start()
        for stop in stops[1:]:
            brake.reached()
            brake.move(stop)  # all continue up to this round
            time.sleep(draw.uniform(0.0, 0.03))
            name = draw.choice(session.names)
            kill(session, name)
            session.start_party(name)
        brake.let_go()
        session.wait(LIMIT)
        assert_undisturbed(session)


def test_a_session_survives_two_kills_of_the_relay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 of the relay in mid-session, twice, changes only the duration."""
    with RunningSession(tmp_path / "s", options(rounds=60)) as session:
        brake = Brake(session, monkeypatch, name="party1", furthest=10)
        session.start()
        for following in (30, 61):
            brake.reached()
            before = brake.furthest
            reported = {name: len(session.events[name]) for name in session.names}
            kill(session, "coordinator")
            brake.move(following)
            for name in session.names:
                until_reported(session, name, "nothing answers there", since=reported[name])
                closed = rounds_closed(session, name)
                assert closed <= before + IN_FLIGHT, "rounds went on without a relay"
            session.start_coordinator()
        session.wait(LIMIT)
        assert_undisturbed(session)


def test_a_mesh_survives_a_kill_of_its_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mesh continues without the coordinator, even when a party restarts meanwhile."""
    with RunningSession(tmp_path / "s", options("--topology", "mesh", rounds=60)) as session:
        brake = Brake(session, monkeypatch, name="party1", furthest=5)
        session.start()
        brake.reached()
        kill(session, "coordinator")
        brake.move(20)
        brake.reached()
        kill(session, "party2")
        session.start_party("party2")
        brake.let_go()
        session.wait(LIMIT)
        assert_undisturbed(session)


def test_peers_wait_for_a_stopped_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a party is stopped its peers wait for it; then all continue."""
    with RunningSession(tmp_path / "s", options(rounds=60)) as session:
        brake = Brake(session, monkeypatch, name="party1", furthest=15)
        session.start()
        brake.reached()
        freeze(session, "party2")
        brake.let_go()
        for name in ("party1", "party3"):
            until_waiting_for(session, name, "party2")
            assert rounds_closed(session, name) <= 15 + IN_FLIGHT
        session.processes["party2"].send_signal(signal.SIGCONT)
        session.wait(LIMIT)
        assert_undisturbed(session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_party_ends_with_130_and_can_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """SIGTERM and Ctrl-C stop a party cleanly, and the same command resumes."""
    with RunningSession(tmp_path / "s", options(rounds=40)) as session:
        brake = Brake(session, monkeypatch, name="party1", furthest=10)
        session.start()
        brake.reached()
        session.processes["party3"].send_signal(number)
        assert session.processes["party3"].wait(LIMIT) == 130
        assert "interrupted" in session.stderr("party3")
        session.start_party("party3")
        brake.let_go()
        session.wait(LIMIT)
        assert_undisturbed(session)


def test_a_late_member_is_named_after_the_wait_and_all_resume_later(tmp_path: Path) -> None:
    """A party whose wait ends says for whom it waited, with code 20; when all are there it runs.

    Members that wait longer than the patience of a round stay.
    """
    with RunningSession(tmp_path / "s", options(rounds=20)) as session:
        path = session.folder / "agreement.toml"
        text = path.read_text()
        impatient = text.replace(f"patience_seconds = {PATIENCE}", "patience_seconds = 0.5")
        session.start_coordinator()
        path.write_text(impatient)
        session.start_party("party2")  # waits longer, so that it is there even after a slow start
        until_reported(session, "party2", "waiting")
        short = [*party_command(session.folder, "party1", session.options), "--wait", "5s"]
        session.launch("party1", short)
        assert session.processes["party1"].wait(LIMIT) == Unavailable.exit_code
        said = session.stderr("party1")
        assert re.search(r"did not close within [5-9].* seconds: waited for .*'party3'", said)
        assert session.processes["party2"].poll() is None, "it has been silent for 10 patiences"
        path.write_text(text)
        session.processes["party2"].terminate()
        session.processes["party2"].wait(LIMIT)
        for name in session.names:
            session.start_party(name)
        session.wait(LIMIT)
        assert_undisturbed(session)


def test_a_restored_old_ledger_is_refused_before_anything_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party with an old copy of its ledger stops and releases nothing."""
    with RunningSession(tmp_path / "s", options(rounds=60)) as session:
        brake = Brake(session, monkeypatch, name="party1", furthest=5)
        session.start()
        ledger = session.folder / "party2" / "party2.ledger"
        copy = tmp_path / "old"
        copy.mkdir()
        brake.reached()
        freeze(session, "party2")
        for file in ledger.parent.glob("party2.ledger*"):
            shutil.copy(file, copy)
        session.processes["party2"].send_signal(signal.SIGCONT)
        brake.move(20)
        brake.reached()
        kill(session, "party2")
        for file in ledger.parent.glob("party2.ledger*"):
            file.unlink()
        for file in copy.iterdir():
            shutil.copy(file, ledger.parent)
        released = releases_in(session, "party2")
        assert 5 <= released <= 5 + IN_FLIGHT
        session.start_party("party2")
        brake.let_go()
        assert session.processes["party2"].wait(LIMIT) == BadLedger.exit_code
        assert "old copy" in session.stderr("party2")
        assert releases_in(session, "party2") == released
        for name in ("party1", "party3"):
            assert rounds_closed(session, name) <= 20 + IN_FLIGHT


def releases_in(session: RunningSession, name: str) -> int:
    """How many releases a stopped party has recorded."""
    path = session.folder / name / f"{name}.ledger"
    with closing(Ledger(path, session.agreement, name)) as ledger:
        return len(ledger.own())


def test_two_processes_cannot_use_one_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process with the same ledger ends with 6 and does not disturb the first."""
    with RunningSession(tmp_path / "s", options(rounds=60)) as session:
        brake = Brake(session, monkeypatch, name="party2", furthest=5)
        session.start()
        brake.reached()
        second = join_again(session, "party1")
        assert second.returncode == BadLedger.exit_code
        assert "in use by another process" in second.stderr
        brake.let_go()
        session.wait(LIMIT)
        assert_undisturbed(session)


def join_again(
    session: RunningSession, name: str, *arguments: str, folder: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run `party join` once more, to its end."""
    command = party_command(folder or session.folder, name, session.options)
    return run_command([*command, *arguments])


def test_a_different_agreement_is_refused_with_both_digests(tmp_path: Path) -> None:
    """A party with another agreement ends with 12; its peers wait until it is corrected."""
    with RunningSession(tmp_path / "s", options(rounds=20)) as session:
        shared = session.folder / "agreement.toml"
        text = shared.read_text()
        session.start_coordinator()
        for name in ("party1", "party2"):
            session.start_party(name)
            until_reported(session, name, "waiting")
        other = session.folder / "other"
        shutil.copytree(session.folder / "party3", other / "party3")
        (other / "agreement.toml").write_text(text.replace("rounds = 20", "rounds = 21"))
        wrong = join_again(session, "party3", folder=other)
        assert wrong.returncode == 12
        assert session.agreement.digest.hex() in wrong.stderr
        assert read_agreement(other / "agreement.toml").digest.hex() in wrong.stderr
        session.start_party("party3")
        session.wait(LIMIT)
        assert_undisturbed(session)


class EquivocatingLink(RelayLink):
    """A link that also sends a different message, in one round."""

    def __init__(self, *arguments: Any, lie: Any) -> None:
        super().__init__(*arguments)
        self._lie = lie

    def publish(self, data: bytes) -> None:
        super().publish(data)
        other = self._lie(data)
        if other is not None:
            super().publish(other)


def test_an_equivocating_party_is_named_with_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After two signed releases for one round, peers end with 11 and keep both as evidence."""
    with RunningSession(tmp_path / "s", options(rounds=30)) as session:
        agreement = session.agreement
        home = session.folder / "party3"
        keys = identity.load(home / "party3.key")
        reader = Reader(agreement)

        def lie(data: bytes) -> bytes | None:
            message = reader.unpack(data).message
            if not isinstance(message, Release) or message.round != 7:
                return None
            values = (message.values[0] + 1, *message.values[1:])
            return keys.pack(replace(message, values=values)).data

        monkeypatch.setattr(
            "party.network.loop.RelayLink",
            lambda a, k: EquivocatingLink(a, k, lie=lie),
            raising=True,
        )
        session.start_coordinator()
        session.start_party("party1")
        session.start_party("party2")
        with closing(Ledger(home / "party3.ledger", agreement, "party3")) as ledger:
            gate = Gate(
                agreement,
                "party3",
                subproblem=Subproblem(session.instance.data[2], quantities(agreement).capacity),
                noise=SeededGaussian(1),
                ledger=ledger,
                pack=keys.pack,
            )
            node = PartyLoop(
                agreement,
                keys,
                gate=gate,
                ledger=ledger,
                view=JsonView(agreement, io.StringIO()),
                on_outcome=lambda _: None,
            )
            with pytest.raises(PeerError):
                node.run()
        for name in ("party1", "party2"):
            assert session.processes[name].wait(LIMIT) == Equivocation.exit_code
            assert "'party3' signed two different messages for round 8" in session.stderr(name)
            evidence = json.loads((session.folder / name / "out" / "evidence.json").read_text())
            shown = [reader.unpack(bytes.fromhex(m)).message for m in evidence["signed_messages"]]
            assert {m.sender for m in shown} == {"party3"}
            assert {m.round for m in shown} == {7}
            assert shown[0] != shown[1]


def test_a_finished_session_can_be_joined_again(tmp_path: Path) -> None:
    """Joining a finished session gives the same result from the ledger, without peers."""
    with RunningSession(tmp_path / "s", options("--no-demands", rounds=10)) as session:
        session.start()
        session.wait(LIMIT)
        session.stop()
        before = session.result("party1")
        shutil.rmtree(session.folder / "party1" / "out")
        again = join_again(session, "party1")
        assert again.returncode == 0, again.stderr
        assert "finished" in again.stdout
        assert session.result("party1") == before


def test_an_audit_verifies_the_transcript_and_locates_a_changed_byte(tmp_path: Path) -> None:
    """`protocol audit` accepts the parties' transcript and locates any change."""
    with RunningSession(tmp_path / "s", options(rounds=12)) as session:
        session.start()
        session.wait(LIMIT)
        path = session.folder / "party2" / "out" / "session.transcript"
        audit = ("protocol", "audit", path, "--agreement", session.folder / "agreement.toml")
        good = run_module(*audit, check=True)
        assert session.result("party1")["head"] in good.stdout
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        bad = run_module(*audit)
        assert bad.returncode == 9
        assert "round" in bad.stderr
        assert "member" in bad.stderr


def test_seeded_noise_is_refused_in_a_real_session(tmp_path: Path) -> None:
    """`--seed` in a session that is not a rehearsal ends before anything is sent."""
    chosen = options(rounds=5)
    chosen.rehearsal = False
    with RunningSession(tmp_path / "s", chosen) as session:
        refused = join_again(session, "party1", "--seed", "1")
        assert refused.returncode == 2
        assert "seeded noise gives no privacy" in refused.stderr
