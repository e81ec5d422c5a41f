"""Whole sessions over real processes and sockets, disturbed in every way a machine can be."""

import io
import json
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq

from party import identity
from party.ledger import Ledger
from party.link import RelayLink
from party.node import Node
from party.noise import SeededTwin
from party.subproblem import Subproblem, subproblem
from party.view import JsonView
from protocol.command import read_agreement
from protocol.errors import Equivocation, PeerError
from protocol.messages import Release
from protocol.transport import address, socket_options
from protocol.wire import Reader, release_bytes
from scripts.processes import party_command
from tests.kit.processes import LIMIT, Play, options, play, undisturbed


def assert_undisturbed(session: Play, *arguments: str) -> None:
    """All parties ended where the same session in one process ends."""
    chosen = session.options
    expected = undisturbed(arguments, chosen.parties, chosen.rounds)
    figures = session.figures()
    assert figures["prices"] == expected["prices"]
    assert figures["releases_digest"] == expected["releases_digest"]
    assert len(set(figures["heads"].values())) == 1


@pytest.mark.parametrize("topology", ["relay", "mesh"])
@pytest.mark.parametrize("mode", ["private", "clipped", "hidden"])
def test_the_distributed_run_is_the_simulated_one(tmp_path: Path, topology: str, mode: str) -> None:
    """Either topology gives the prices and releases of the simulation, bit for bit."""
    arguments = ("--mode", mode, "--epsilon", "8")
    with play(tmp_path / "s", options(*arguments, "--topology", topology)) as session:
        session.cast.start()
        session.cast.wait(LIMIT)
        assert_undisturbed(session, *arguments)


@pytest.mark.parametrize("seed", range(4))
def test_parties_killed_at_random_moments_lose_nothing(tmp_path: Path, seed: int) -> None:
    """Six kill -9 of random parties at random moments end with the undisturbed prices."""
    draw = random.Random(seed)
    topology = ("relay", "mesh")[seed % 2]
    kills = 0
    with play(tmp_path / "s", options("--topology", topology, rounds=48)) as session:
        cast = session.cast
        cast.start()
        for round_ in sorted(draw.sample(range(1, 46), 6)):
            name = draw.choice(cast.names)
            session.until_round(name, round_)
            time.sleep(draw.uniform(0.0, 0.01))
            process = cast.processes[name]
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
            cast.start_party(name)
        cast.wait(LIMIT)
        assert kills >= 5, "the session was over before it could be disturbed"
        assert_undisturbed(session)


def test_a_killed_coordinator_is_restarted_and_the_relay_goes_on(tmp_path: Path) -> None:
    """kill -9 of the relay in mid-session, twice, changes nothing but the time it takes."""
    with play(tmp_path / "s", options(rounds=60)) as session:
        cast = session.cast
        cast.start()
        for round_ in (10, 30):
            session.until_round("party1", round_)
            cast.processes["coordinator"].kill()
            cast.processes["coordinator"].wait()
            time.sleep(0.3)
            before = cast.progress()
            time.sleep(0.2)
            assert cast.progress() <= before + 1, "rounds went on without a relay"
            cast.start_coordinator()
        cast.wait(LIMIT)
        assert_undisturbed(session)


def test_a_mesh_does_not_notice_the_death_of_its_coordinator(tmp_path: Path) -> None:
    """A mesh goes on without the coordinator, even when a party restarts meanwhile."""
    with play(tmp_path / "s", options("--topology", "mesh", rounds=60)) as session:
        cast = session.cast
        cast.start()
        session.until_round("party1", 5)
        cast.processes["coordinator"].kill()
        cast.processes["coordinator"].wait()
        session.until_round("party2", 20)
        cast.processes["party2"].kill()
        cast.processes["party2"].wait()
        cast.start_party("party2")
        cast.wait(LIMIT)
        assert_undisturbed(session)


def test_a_stopped_party_holds_the_others_up_and_nothing_else(tmp_path: Path) -> None:
    """SIGSTOP for two seconds: the others wait in lock step, then all go on."""
    with play(tmp_path / "s", options(rounds=60)) as session:
        cast = session.cast
        cast.start()
        session.until_round("party2", 15)
        cast.processes["party2"].send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        before = cast.progress()
        time.sleep(1.5)
        assert cast.progress() <= before + 1
        cast.processes["party2"].send_signal(signal.SIGCONT)
        cast.wait(LIMIT)
        assert_undisturbed(session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_signal_ends_with_130_and_can_be_resumed(
    tmp_path: Path, number: signal.Signals
) -> None:
    """SIGTERM and Ctrl-C stop a party cleanly and the same command goes on."""
    with play(tmp_path / "s", options(rounds=40)) as session:
        cast = session.cast
        cast.start()
        session.until_round("party3", 10)
        cast.processes["party3"].send_signal(number)
        assert cast.processes["party3"].wait(10) == 130
        assert "interrupted" in session.error("party3")
        cast.start_party("party3")
        cast.wait(LIMIT)
        assert_undisturbed(session)


def test_a_silent_peer_is_named_after_patience_and_all_resume_later(tmp_path: Path) -> None:
    """Without one party the others end with 20 and its name; with it they finish."""
    with play(tmp_path / "s", options("--patience", "1", rounds=20)) as session:
        cast = session.cast
        cast.start_coordinator()
        for name in ("party1", "party2"):
            cast.start_party(name)
        for name in ("party1", "party2"):
            assert cast.processes[name].wait(30) == 20
            assert "nothing from 'party3' for 1 seconds" in session.error(name)
        cast.stop()
        cast.start()
        cast.wait(LIMIT)
        assert_undisturbed(session)


def test_a_restored_old_ledger_is_refused_before_anything_is_released(tmp_path: Path) -> None:
    """A party that comes back with an old copy of its ledger stops and releases nothing."""
    with play(tmp_path / "s", options("--patience", "3", rounds=60)) as session:
        cast = session.cast
        cast.start()
        ledger = cast.folder / "party2" / "party2.ledger"
        copy = tmp_path / "old"
        copy.mkdir()
        session.until_round("party2", 5)
        cast.processes["party2"].send_signal(signal.SIGSTOP)
        for file in ledger.parent.glob("party2.ledger*"):
            shutil.copy(file, copy)
        cast.processes["party2"].send_signal(signal.SIGCONT)
        session.until_round("party2", 20)
        cast.processes["party2"].kill()
        cast.processes["party2"].wait()
        for file in ledger.parent.glob("party2.ledger*"):
            file.unlink()
        for file in copy.iterdir():
            shutil.copy(file, ledger.parent)
        cast.start_party("party2")
        assert cast.processes["party2"].wait(30) == 6
        assert "old copy" in session.error("party2")
        for name in ("party1", "party3"):
            assert cast.processes[name].wait(30) == 20


def test_two_processes_cannot_use_one_ledger(tmp_path: Path) -> None:
    """A second process with the same ledger ends with 6 and leaves the first alone."""
    with play(tmp_path / "s", options(rounds=60)) as session:
        cast = session.cast
        cast.start()
        session.until_round("party1", 5)
        cast.processes["party2"].send_signal(signal.SIGSTOP)  # the session lasts until we say so
        second = subprocess.run(
            party_command(cast.folder, "party1", session.options),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert second.returncode == 6
        assert "in use by another process" in second.stderr
        cast.processes["party2"].send_signal(signal.SIGCONT)
        cast.wait(LIMIT)
        assert_undisturbed(session)


def test_a_different_agreement_is_told_with_both_digests(tmp_path: Path) -> None:
    """The one with another agreement ends with 12; the others wait for it to come right."""
    with play(tmp_path / "s", options(rounds=20)) as session:
        cast = session.cast
        shared = cast.folder / "agreement.toml"
        text = shared.read_text()
        cast.start_coordinator()
        cast.start_party("party1")
        cast.start_party("party2")
        time.sleep(0.1)
        other = cast.folder / "other"
        shutil.copytree(cast.folder / "party3", other / "party3")
        (other / "agreement.toml").write_text(text.replace("rounds = 20", "rounds = 21"))
        wrong = subprocess.run(
            party_command(other, "party3", session.options),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
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
    with play(tmp_path / "s", options("--patience", "10", rounds=30)) as session:
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
            "party.node.RelayLink", lambda a, k: TwoFaced(a, k, lie=lie), raising=True
        )
        ledger = Ledger(home / "party3.ledger", agreement, "party3")
        node = Node(
            agreement,
            keys,
            subproblem=Subproblem(session.instance.data[2], agreement.capacity),
            noise=SeededTwin(1),
            ledger=ledger,
            view=JsonView(agreement, io.StringIO()),
            on_finish=lambda _: None,
        )
        cast.start_coordinator()
        cast.start_party("party1")
        cast.start_party("party2")
        with pytest.raises(PeerError):
            node.run()
        for name in ("party1", "party2"):
            assert cast.processes[name].wait(30) == Equivocation.exit_code
            assert "'party3' signed two different messages for round 7" in session.error(name)
            evidence = json.loads((cast.folder / name / "out" / "evidence.json").read_text())
            shown = [reader.unpack(bytes.fromhex(m)).message for m in evidence["signed_messages"]]
            assert {m.sender for m in shown} == {"party3"}
            assert {m.round for m in shown} == {7}
            assert shown[0] != shown[1]


def test_a_finished_session_can_be_asked_for_again(tmp_path: Path) -> None:
    """Joining a finished session gives the same result from the ledger, with nobody there."""
    with play(tmp_path / "s", options(rounds=10)) as session:
        cast = session.cast
        cast.start()
        cast.wait(LIMIT)
        cast.stop()
        before = cast.result("party1")
        shutil.rmtree(cast.folder / "party1" / "out")
        again = subprocess.run(
            party_command(cast.folder, "party1", session.options),
            capture_output=True,
            timeout=30,
            check=True,
        )
        assert b"finished" in again.stdout
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
        good = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        assert cast.result("party1")["head"] in good.stdout
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        bad = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert bad.returncode == 9
        assert "round" in bad.stderr
        assert "member" in bad.stderr


PRIVATE = {"model.npz", "report.html", "plan.csv", "result.json"}
"""The files of a company that hold un-noised numbers. They are its own."""


def test_no_private_number_is_written_or_sent(tmp_path: Path) -> None:
    """Numbers planted in a data set are in no message, log, public file or another party's file."""
    planted = [7919.2671, 104729.8313, 1299709.4447]
    with play(tmp_path / "s", options("--mode", "private", rounds=25)) as session:
        cast, agreement = session.cast, session.agreement
        model = cast.folder / "party1" / "model.npz"
        with np.load(model) as file:
            arrays = dict(file)
        arrays["u"][:3] = planted
        arrays["b"][0] = planted[0]
        arrays["B"][0, 0] = planted[1] * 1e-6
        np.savez(model, **arrays)
        with eavesdropping(session) as heard:
            cast.wait(LIMIT)
        written = [
            path.read_bytes()
            for path in cast.folder.rglob("*")
            if path.is_file() and path.name not in PRIVATE
        ]
        for name in PRIVATE - {"model.npz"}:  # what the others keep is private, and not of this one
            written += [(cast.folder / p / "out" / name).read_bytes() for p in cast.names[1:]]
            assert (cast.folder / "party1" / "out" / name).stat().st_mode & 0o077 == 0
        told = json.dumps(cast.events).encode()
        assert len(heard) >= 25 * 3, "the eavesdropper heard too little"
        everything = b"".join([*written, *heard, told])
        demand = _first_demand(session, model)
        for number in [*planted, planted[1] * 1e-6, *demand]:
            for trace in _traces(number):
                assert trace not in everything
        lengths = {len(d) for d in heard if isinstance(_message(agreement, d), Release)}
        assert lengths == {release_bytes(agreement)}


def _first_demand(session: Play, model: Path) -> list[float]:
    """What the company would take at the first prices: the secret that the noise must hide."""
    from party import dataset

    problem = subproblem(dataset.read(model, session.agreement), session.agreement, "party1")
    answer = problem.answer(np.array(session.agreement.pricing.start))
    assert answer is not None
    return [answer.objective, *(float(x) for x in answer.demand if x > 0.0)]


def _traces(number: float) -> list[bytes]:
    return [
        repr(number).encode(),
        f"{number:.6f}"[:9].encode(),
        struct.pack("<d", number),
        struct.pack(">d", number),
    ]


def _message(agreement: Any, data: bytes) -> Any:
    return Reader(agreement).unpack(data).message


@contextmanager
def eavesdropping(session: Play) -> Iterator[list[bytes]]:
    """Start the session and record all that passes the relay, as any member could."""
    heard: list[bytes] = []
    over = threading.Event()
    ear = threading.Thread(target=_listen, args=(session, heard, over))
    session.cast.start_coordinator()
    ear.start()
    try:
        session.cast.start_party("party2")
        until = time.monotonic() + LIMIT
        while not heard and time.monotonic() < until:
            time.sleep(0.01)  # party2 greets until it is answered: now the ear is open
        for name in ("party1", "party3"):
            session.cast.start_party(name)
        yield heard
    finally:
        over.set()
        ear.join(10)


def _listen(session: Play, heard: list[bytes], over: threading.Event) -> None:
    agreement = session.agreement
    keys = identity.load(session.cast.folder / "party3" / "party3.key")
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        for name, value in socket_options(agreement).items():
            setattr(socket, name, value)
        socket.curve_secretkey, socket.curve_publickey = keys.transport_secret, keys.transport_key
        socket.curve_serverkey = agreement.transport.coordinator_key.encode()
        socket.subscribe(b"")
        socket.connect(address(agreement.transport.coordinator, 1))
        while not over.is_set():
            if socket.poll(50):
                heard.append(socket.recv())


def test_the_ledger_file_has_the_release_before_anybody_hears_it(tmp_path: Path) -> None:
    """A party killed the moment its release is heard has that very release in its ledger."""
    with play(tmp_path / "s", options(rounds=40)) as session:
        cast, agreement = session.cast, session.agreement
        with eavesdropping(session) as heard:
            session.until_round("party1", 20)
            cast.processes["party1"].kill()
            cast.processes["party1"].wait()
            time.sleep(0.2)
        ledger = Ledger(cast.folder / "party1" / "party1.ledger", agreement, "party1")
        kept = {signed.data for signed in ledger.own()}
        ledger.close()
        said = {
            d
            for d in heard
            if isinstance(m := _message(agreement, d), Release) and m.sender == "party1"
        }
        assert len(said) >= 10
        assert said <= kept


def test_seeded_noise_is_refused_in_a_real_session(tmp_path: Path) -> None:
    """`--seed` in a session that is no rehearsal ends before anything is sent."""
    chosen = options(rounds=5)
    chosen.rehearsal = False
    with play(tmp_path / "s", chosen) as session:
        command = party_command(session.cast.folder, "party1", chosen)
        refused = subprocess.run(
            [*command, "--seed", "1"], capture_output=True, text=True, timeout=30, check=False
        )
        assert refused.returncode == 2
        assert "seeded noise gives no privacy" in refused.stderr
