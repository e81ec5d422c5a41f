"""Sessions of real processes of which only totals can be read: played, killed, listened to."""

import json
import os
import random
import struct
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from party.ledger.session_ledger import Ledger
from party.rehearsal.in_process import players, run
from protocol.agreement.parse import from_table
from protocol.errors import BadTranscript
from protocol.outcome.outcome import outcome
from protocol.runtime.files import read_agreement
from protocol.wire.codec import Reader, release_bytes
from protocol.wire.messages import MaskKey, Release
from protocol.wire.transcript import load
from scripts.lab.common.agreements import agreement_table
from tests.support import ROOT
from tests.support.local_sessions import Play, assert_undisturbed, options, play, undisturbed
from tests.support.process_control import Brake, kill
from tests.support.relay_client import recording
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(600)

TOTALS = ("--mode", "exact", "--reveal", "totals")


@pytest.mark.parametrize("mode", ["exact", "private"])
@pytest.mark.parametrize("topology", ["relay", "mesh"])
def test_the_distributed_run_is_the_simulated_one(tmp_path: Path, topology: str, mode: str) -> None:
    """Either topology gives the totals, prices and own quotas of the simulation, bit for bit."""
    arguments = ("--mode", mode, "--reveal", "totals", "--epsilon", "8")
    with play(tmp_path / "s", options(*arguments, "--topology", topology, parties=4)) as session:
        session.cast.start()
        session.cast.wait(LIMIT)
        assert_undisturbed(session, *arguments)
        figures, expected = session.figures(), undisturbed(arguments, 4, 30)
        for key in ("quota_utility", "payments", "gains", "rounds_played"):
            assert figures[key] == expected[key]


@pytest.mark.parametrize("parties", [3, 5])
def test_masks_change_nothing_but_who_can_read(parties: int) -> None:
    """Prices, certificate and what the quotas earn are those of `each`, bit for bit."""
    totals = undisturbed(TOTALS, parties, 60)
    each = undisturbed(("--mode", "exact"), parties, 60)
    same = (
        *("prices", "certificate", "rounds_played", "rounds_to_gap", "quota_utility"),
        *("quota_plans", "shortfall", "dual_gap_last", "quota_overrun"),
    )
    assert {key: totals[key] for key in same} == {key: each[key] for key in same}
    assert totals["payments"] == pytest.approx(each["payments"], rel=1e-9, abs=1e-6)
    assert totals["head"] != each["head"]


@pytest.mark.parametrize("step", ["sqrt", "constant"])
def test_masks_change_no_price_of_any_step(step: str) -> None:
    """Steps that have no weights find the same prices too, and their quotas fit."""
    arguments = ("--mode", "exact", "--step", step)
    totals, each = (undisturbed((*arguments, *more), 4, 30) for more in (TOTALS[2:], ()))
    assert totals["prices"] == each["prices"]
    assert totals["quota_overrun"] == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_parties_killed_at_random_moments_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Kills of random parties, from the exchange of keys on, end with the undisturbed prices."""
    draw = random.Random(seed)
    topology = ("relay", "mesh")[seed % 2]
    arguments = (*TOTALS, "--step", "sqrt")
    with play(tmp_path / "s", options(*arguments, "--topology", topology, rounds=36)) as session:
        cast = session.cast
        stops = [1, *sorted(draw.sample(range(2, 34), 4))]
        brake = Brake(session, monkeypatch, name=draw.choice(cast.names), furthest=stops[0])
        cast.start()
        time.sleep(draw.uniform(0.0, 1.5))  # with luck amid the keys; wherever, nothing is lost
        first = draw.choice(cast.names)
        kill(session, first)
        cast.start_party(first)
        for stop in stops[1:]:
            brake.reached()
            brake.move(stop)
            time.sleep(draw.uniform(0.0, 0.03))
            name = draw.choice(cast.names)
            kill(session, name)
            cast.start_party(name)
        brake.let_go()
        cast.wait(LIMIT)
        assert_undisturbed(session, *arguments)
        expected = undisturbed(arguments, 3, 36)
        assert session.figures()["payments"] == expected["payments"]


def traces(number: float) -> list[bytes]:
    """How a number might show: as text, as a float, as a whole number of either order."""
    found = [repr(number).encode(), struct.pack("<d", number), struct.pack(">d", number)]
    if float(number).is_integer():
        found += [struct.pack("<q", int(number)), struct.pack(">q", int(number))]
        found += [str(int(number)).encode()]
    return found


def test_nothing_of_a_single_member_is_written_or_sent(tmp_path: Path) -> None:
    """Its demands, its quota and its payment are in no message, log, public or foreign file."""
    with play(tmp_path / "s", options(*TOTALS, rounds=25)) as session:
        cast, agreement = session.cast, session.agreement
        cast.start_coordinator()
        with recording(session, "party3") as heard:
            cast.start_party("party2")
            until(lambda: heard, "party2 is heard")
            for name in ("party1", "party3"):
                cast.start_party(name)
            cast.wait(LIMIT)
        own = {name: cast.result(name)["private"] for name in cast.names}
        asked = asked_by_the_first(session)
        mine = own["party1"]
        secret = [*asked, *mine["quota"], *map(float, mine["quota_ticks"]), mine["payment"]]
        kept = {"model.npz", "report.html", "plan.csv", "result.json", "party1.ledger"}
        written = [
            path.read_bytes()
            for path in cast.folder.rglob("*")
            if path.is_file() and path.name not in kept
        ]
        for name in ("report.html", "plan.csv", "result.json"):
            written += [(cast.folder / p / "out" / name).read_bytes() for p in cast.names[1:]]
        everything = b"\n".join([*written, *heard, json.dumps(cast.events).encode()])
        assert len(secret) > 20
        for number in secret:
            assert not [trace for trace in traces(number) if trace in everything]
        ledger = (cast.folder / "party1" / "party1.ledger").read_bytes()
        for number in asked:  # its own ledger, which keeps its quota, has forgotten its demands
            assert not [trace for trace in traces(number) if len(trace) == 8 and trace in ledger]
        messages = [Reader(agreement).unpack(data).message for data in set(heard)]
        lengths = {
            len(d) for d in heard if isinstance(Reader(agreement).unpack(d).message, Release)
        }
        assert lengths == {release_bytes(agreement)}
        assert {m.sender for m in messages if isinstance(m, MaskKey)} == set(cast.names)


def asked_by_the_first(session: Play) -> list[float]:
    """What the first party asked for in each round, in ticks, where that says anything."""
    agreement = from_table(agreement_table(session.instance, session.options))
    with players(agreement, session.instance.subproblems(), 1) as members:
        run(members)
        asked, _ = members[0].ledger.demands()
    return [float(number) for number in asked.flat if number not in (0, agreement.ticks)]


def command(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def test_what_everybody_can_know_of_it(tmp_path: Path) -> None:
    """Audit, public page, private page, next session, ledger and a second join of a session."""
    with play(tmp_path / "s", options(*TOTALS, rounds=40)) as session:
        cast = session.cast
        cast.start()
        cast.wait(LIMIT)
        folder, out = cast.folder, cast.folder / "party1" / "out"
        agreement = read_agreement(folder / "agreement.toml")
        shared = (out / "session.transcript", "--agreement", folder / "agreement.toml")
        audit = command("protocol", "audit", *shared)
        assert audit.returncode == 0
        assert "Single releases are masked and" in audit.stdout
        assert "only totals" in audit.stdout
        assert "quota      in %" not in audit.stdout
        figures = json.loads(command("protocol", "audit", *shared, "--json").stdout)
        result = cast.result("party1")
        assert figures["prices"] == result["prices"]
        assert not {"quota", "payments"} & {*figures, *result}
        assert figures["head"] == result["head"]
        known = outcome(agreement, load(agreement, (out / "session.transcript").read_bytes()))
        assert known.sealed
        together = np.sum([cast.result(n)["private"]["quota_ticks"] for n in cast.names], axis=0)
        assert (together <= agreement.ticks).all()
        page = tmp_path / "public.html"
        assert command("protocol", "report", *shared, "--out", page).returncode == 0
        assert "computes its own quota and sends it to nobody" in page.read_text()
        private = (out / "report.html").read_text()
        assert "Your quota" in private
        assert "PRIVATE" in private
        events = [e for e in cast.events["party1"] if e["event"] == "finished"]
        assert not {"quota", "payments"} & set(events[0])

        later = command(
            "coordinator", "new", "--session", "next", "--from", out / "session.transcript",
            "--agreement", folder / "agreement.toml", "--key", folder / "coordinator.key",
            "--out", folder / "next.toml",
        )  # fmt: skip
        assert (later.returncode, later.stderr) == (0, "")
        following = read_agreement(folder / "next.toml")
        assert following.reveal == "totals"
        assert following.pricing.start == tuple(known.prices.tolist())

        with closing(Ledger(folder / "party1" / "party1.ledger", agreement, "party1")) as ledger:
            made = ledger.allocation()
            assert made is not None
            assert made.quota.tolist() == result["private"]["quota_ticks"]
            assert made.payment == result["private"]["payment"]
            assert [part.size for part in ledger.demands()] == [0, 0]


def test_one_changed_byte_of_a_transcript_is_found(tmp_path: Path) -> None:
    """Wherever it is: in a mask key, in a release, in a seal."""
    with play(tmp_path / "s", options(*TOTALS, rounds=12)) as session:
        cast = session.cast
        cast.start()
        cast.wait(LIMIT)
        agreement = session.agreement
        data = (cast.folder / "party1" / "out" / "session.transcript").read_bytes()
        assert outcome(agreement, load(agreement, data)).sealed
        rng = random.Random(5)
        for place in [*rng.sample(range(len(data)), 40), len(data) - 100]:
            changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            with pytest.raises(BadTranscript):
                outcome(agreement, load(agreement, changed))
