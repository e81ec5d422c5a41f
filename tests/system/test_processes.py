"""Whole sessions over real processes and sockets, disturbed in every way a machine can be."""

import io
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from party import keys as identity
from party.ledger.session_ledger import Ledger
from party.model.best_response import Subproblem
from party.network.loop import PartyLoop
from party.network.relay_link import RelayLink
from party.release.noise import SeededGaussian
from party.ui.console import JsonView
from protocol.agreement.quantities import quantities
from protocol.errors import BadLedger, Equivocation, PeerError, Unavailable
from protocol.runtime.files import read_agreement
from protocol.wire.codec import Reader
from protocol.wire.messages import Release
from scripts.lab.common.local_session import party_command
from tests.support.local_sessions import (
    PATIENCE,
    Play,
    assert_undisturbed,
    options,
    play,
    undisturbed,
)
from tests.support.process_control import (
    ON_THE_WAY,
    Brake,
    freeze,
    kill,
    rounds_closed,
    until_told,
    until_waiting_for,
)
from tests.support.wait import LIMIT

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("topology", ["relay", "mesh"])
@pytest.mark.parametrize("mode", ["private", "clipped", "exact"])
def test_the_distributed_run_is_the_simulated_one(tmp_path: Path, topology: str, mode: str) -> None:
    """Either topology gives the prices and releases of the simulation, bit for bit."""
    arguments = ("--mode", mode, "--epsilon", "8")
    with play(tmp_path / "s", options(*arguments, "--topology", topology)) as session:
        session.cast.start()
        session.cast.wait(LIMIT)
        assert_undisturbed(session, *arguments)


@pytest.mark.parametrize("topology", ["relay", "mesh"])
def test_a_distributed_session_ends_by_itself(tmp_path: Path, topology: str) -> None:
    """Without noise all processes stop in the round in which the simulation does."""
    arguments = ("--mode", "exact")
    chosen = options(*arguments, "--topology", topology, rounds=150)
    with play(tmp_path / "s", chosen) as session:
        session.cast.start()
        session.cast.wait(LIMIT)
        assert_undisturbed(session, *arguments)
        ends = {session.cast.result(name)["rounds"] for name in session.cast.names}
        assert ends == {undisturbed(arguments, 3, 150)["rounds_played"]}
        assert max(ends) < 150


def test_a_party_killed_before_the_end_comes_back_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who loses power when the others may know already that it is over ends with them."""
    arguments = ("--mode", "exact")
    end = undisturbed(arguments, 3, 150)["rounds_played"]
    with play(tmp_path / "s", options(*arguments, rounds=150)) as session:
        brake = Brake(session, monkeypatch, name="party2", furthest=end - 1)
        session.cast.start()
        brake.reached()
        kill(session, "party2")
        brake.let_go()
        session.cast.start_party("party2")
        session.cast.wait(LIMIT)
        assert_undisturbed(session, *arguments)
        assert session.cast.result("party2")["rounds"] == end


KILLS = int(os.environ.get("SOTTO_KILLS", "24"))
"""In all, six to a session. README says how to have more of them."""


@pytest.mark.parametrize("seed", range(math.ceil(KILLS / 6)))
def test_parties_killed_at_random_moments_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Six kill -9 of random parties at random moments end with the undisturbed prices."""
    draw = random.Random(seed)
    topology = ("relay", "mesh")[seed % 2]
    with play(tmp_path / "s", options("--topology", topology, rounds=48)) as session:
        cast = session.cast
        stops = sorted(draw.sample(range(1, 46), 7))
        brake = Brake(session, monkeypatch, name=draw.choice(cast.names), furthest=stops[0])
        cast.start()
        for stop in stops[1:]:
            brake.reached()
            brake.move(stop)  # all run on, and nobody further than this
            time.sleep(draw.uniform(0.0, 0.03))
            name = draw.choice(cast.names)
            kill(session, name)
            cast.start_party(name)
        brake.let_go()
        cast.wait(LIMIT)
        assert_undisturbed(session)


def test_a_killed_coordinator_is_restarted_and_the_relay_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 of the relay in mid-session, twice, changes nothing but the time it takes."""
    with play(tmp_path / "s", options(rounds=60)) as session:
        cast = session.cast
        brake = Brake(session, monkeypatch, name="party1", furthest=10)
        cast.start()
        for following in (30, 61):
            brake.reached()
            before = brake.furthest
            told = {name: len(cast.events[name]) for name in cast.names}
            kill(session, "coordinator")
            brake.move(following)
            for name in cast.names:
                until_told(session, name, "nobody answers there", since=told[name])
                closed = rounds_closed(session, name)
                assert closed <= before + ON_THE_WAY, "rounds went on without a relay"
            cast.start_coordinator()
        cast.wait(LIMIT)
        assert_undisturbed(session)


def test_a_mesh_does_not_notice_the_death_of_its_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mesh goes on without the coordinator, even when a party restarts meanwhile."""
    with play(tmp_path / "s", options("--topology", "mesh", rounds=60)) as session:
        cast = session.cast
        brake = Brake(session, monkeypatch, name="party1", furthest=5)
        cast.start()
        brake.reached()
        kill(session, "coordinator")
        brake.move(20)
        brake.reached()
        kill(session, "party2")
        cast.start_party("party2")
        brake.let_go()
        cast.wait(LIMIT)
        assert_undisturbed(session)


def test_a_stopped_party_holds_the_others_up_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a party is stopped the others wait for it in lock step, then all go on."""
    with play(tmp_path / "s", options(rounds=60)) as session:
        cast = session.cast
        brake = Brake(session, monkeypatch, name="party1", furthest=15)
        cast.start()
        brake.reached()
        freeze(session, "party2")
        brake.let_go()
        for name in ("party1", "party3"):
            until_waiting_for(session, name, "party2")
            assert rounds_closed(session, name) <= 15 + ON_THE_WAY
        cast.processes["party2"].send_signal(signal.SIGCONT)
        cast.wait(LIMIT)
        assert_undisturbed(session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_signal_ends_with_130_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """SIGTERM and Ctrl-C stop a party cleanly and the same command goes on."""
    with play(tmp_path / "s", options(rounds=40)) as session:
        cast = session.cast
        brake = Brake(session, monkeypatch, name="party1", furthest=10)
        cast.start()
        brake.reached()
        cast.processes["party3"].send_signal(number)
        assert cast.processes["party3"].wait(LIMIT) == 130
        assert "interrupted" in session.error("party3")
        cast.start_party("party3")
        brake.let_go()
        cast.wait(LIMIT)
        assert_undisturbed(session)


def test_a_silent_peer_is_named_after_patience_and_all_resume_later(tmp_path: Path) -> None:
    """A party that one peer never answers ends with 20 and its name; with it all finish."""
    with play(tmp_path / "s", options(rounds=20)) as session:
        cast = session.cast
        path = cast.folder / "agreement.toml"
        text = path.read_text()
        cast.start_coordinator()
        cast.start_party("party2")  # more patient, so that it is there however slow a start is
        until_told(session, "party2", "waiting")
        path.write_text(text.replace(f"patience_seconds = {PATIENCE}", "patience_seconds = 5.0"))
        cast.start_party("party1")
        assert cast.processes["party1"].wait(LIMIT) == Unavailable.exit_code
        assert "nothing from 'party3' for 5 seconds" in session.error("party1")
        path.write_text(text)
        for name in ("party1", "party3"):
            cast.start_party(name)
        cast.wait(LIMIT)
        assert_undisturbed(session)


def test_a_restored_old_ledger_is_refused_before_anything_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party that comes back with an old copy of its ledger stops and releases nothing."""
    with play(tmp_path / "s", options(rounds=60)) as session:
        cast = session.cast
        brake = Brake(session, monkeypatch, name="party1", furthest=5)
        cast.start()
        ledger = cast.folder / "party2" / "party2.ledger"
        copy = tmp_path / "old"
        copy.mkdir()
        brake.reached()
        freeze(session, "party2")
        for file in ledger.parent.glob("party2.ledger*"):
            shutil.copy(file, copy)
        cast.processes["party2"].send_signal(signal.SIGCONT)
        brake.move(20)
        brake.reached()
        kill(session, "party2")
        for file in ledger.parent.glob("party2.ledger*"):
            file.unlink()
        for file in copy.iterdir():
            shutil.copy(file, ledger.parent)
        released = releases_in(session, "party2")
        assert 5 <= released <= 5 + ON_THE_WAY
        cast.start_party("party2")
        brake.let_go()
        assert cast.processes["party2"].wait(LIMIT) == BadLedger.exit_code
        assert "old copy" in session.error("party2")
        assert releases_in(session, "party2") == released
        for name in ("party1", "party3"):
            assert rounds_closed(session, name) <= 20 + ON_THE_WAY


def releases_in(session: Play, name: str) -> int:
    """How many releases a party that does not run has recorded."""
    path = session.cast.folder / name / f"{name}.ledger"
    with closing(Ledger(path, session.agreement, name)) as ledger:
        return len(ledger.own())


def test_two_processes_cannot_use_one_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process with the same ledger ends with 6 and leaves the first alone."""
    with play(tmp_path / "s", options(rounds=60)) as session:
        cast = session.cast
        brake = Brake(session, monkeypatch, name="party2", furthest=5)
        cast.start()
        brake.reached()
        second = joined(session, "party1")
        assert second.returncode == BadLedger.exit_code
        assert "in use by another process" in second.stderr
        brake.let_go()
        cast.wait(LIMIT)
        assert_undisturbed(session)


def joined(
    session: Play, name: str, *arguments: str, folder: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """`party join` given once more, until it ends."""
    command = party_command(folder or session.cast.folder, name, session.options)
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=LIMIT, check=False
    )


def test_a_different_agreement_is_told_with_both_digests(tmp_path: Path) -> None:
    """The one with another agreement ends with 12; the others wait for it to come right."""
    with play(tmp_path / "s", options(rounds=20)) as session:
        cast = session.cast
        shared = cast.folder / "agreement.toml"
        text = shared.read_text()
        cast.start_coordinator()
        for name in ("party1", "party2"):
            cast.start_party(name)
            until_told(session, name, "waiting")
        other = cast.folder / "other"
        shutil.copytree(cast.folder / "party3", other / "party3")
        (other / "agreement.toml").write_text(text.replace("rounds = 20", "rounds = 21"))
        wrong = joined(session, "party3", folder=other)
        assert wrong.returncode == 12
        assert session.agreement.digest.hex() in wrong.stderr
        assert read_agreement(other / "agreement.toml").digest.hex() in wrong.stderr
        cast.start_party("party3")
        cast.wait(LIMIT)
        assert_undisturbed(session)


class TwoFaced(RelayLink):
    """A link that says something else as well, in one round."""

    def __init__(self, *arguments: Any, lie: Any) -> None:
        super().__init__(*arguments)
        self._lie = lie

    def publish(self, data: bytes) -> None:
        super().publish(data)
        other = self._lie(data)
        if other is not None:
            super().publish(other)


def test_a_two_faced_party_is_named_with_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two signed releases for one round: the others end with 11 and keep both as evidence."""
    with play(tmp_path / "s", options(rounds=30)) as session:
        cast, agreement = session.cast, session.agreement
        home = cast.folder / "party3"
        keys = identity.load(home / "party3.key")
        reader = Reader(agreement)

        def lie(data: bytes) -> bytes | None:
            message = reader.unpack(data).message
            if not isinstance(message, Release) or message.round != 7:
                return None
            values = (message.values[0] + 1, *message.values[1:])
            return keys.pack(replace(message, values=values)).data

        monkeypatch.setattr(
            "party.network.loop.RelayLink", lambda a, k: TwoFaced(a, k, lie=lie), raising=True
        )
        cast.start_coordinator()
        cast.start_party("party1")
        cast.start_party("party2")
        with closing(Ledger(home / "party3.ledger", agreement, "party3")) as ledger:
            node = PartyLoop(
                agreement,
                keys,
                subproblem=Subproblem(session.instance.data[2], quantities(agreement).capacity),
                noise=SeededGaussian(1),
                ledger=ledger,
                view=JsonView(agreement, io.StringIO()),
                on_outcome=lambda _: None,
            )
            with pytest.raises(PeerError):
                node.run()
        for name in ("party1", "party2"):
            assert cast.processes[name].wait(LIMIT) == Equivocation.exit_code
            assert "'party3' signed two different messages for round 7" in session.error(name)
            evidence = json.loads((cast.folder / name / "out" / "evidence.json").read_text())
            shown = [reader.unpack(bytes.fromhex(m)).message for m in evidence["signed_messages"]]
            assert {m.sender for m in shown} == {"party3"}
            assert {m.round for m in shown} == {7}
            assert shown[0] != shown[1]


def test_a_finished_session_can_be_asked_for_again(tmp_path: Path) -> None:
    """Joining a finished session gives the same result from the ledger, with nobody there."""
    with play(tmp_path / "s", options("--no-demands", rounds=10)) as session:
        cast = session.cast
        cast.start()
        cast.wait(LIMIT)
        cast.stop()
        before = cast.result("party1")
        shutil.rmtree(cast.folder / "party1" / "out")
        again = joined(session, "party1")
        assert again.returncode == 0, again.stderr
        assert "finished" in again.stdout
        assert cast.result("party1") == before


def test_an_audit_verifies_the_transcript_and_locates_a_changed_byte(tmp_path: Path) -> None:
    """`protocol audit` accepts what the parties wrote and names the place of any change."""
    with play(tmp_path / "s", options(rounds=12)) as session:
        cast = session.cast
        cast.start()
        cast.wait(LIMIT)
        path = cast.folder / "party2" / "out" / "session.transcript"
        command = [sys.executable, "-m", "protocol", "audit", str(path)]
        command += ["--agreement", str(cast.folder / "agreement.toml")]
        good = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
        assert cast.result("party1")["head"] in good.stdout
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        bad = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert bad.returncode == 9
        assert "round" in bad.stderr
        assert "member" in bad.stderr


def test_seeded_noise_is_refused_in_a_real_session(tmp_path: Path) -> None:
    """`--seed` in a session that is no rehearsal ends before anything is sent."""
    chosen = options(rounds=5)
    chosen.rehearsal = False
    with play(tmp_path / "s", chosen) as session:
        refused = joined(session, "party1", "--seed", "1")
        assert refused.returncode == 2
        assert "seeded noise gives no privacy" in refused.stderr
