"""Sessions of real processes with masked releases: outcome, kills, eavesdropping."""

import json
import random
import struct
import time
from contextlib import closing
from pathlib import Path

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
from tests.support.commands import run_module
from tests.support.ledgers import keep_demands
from tests.support.local_sessions import RunningSession, assert_undisturbed, options, undisturbed
from tests.support.process_control import Brake, kill
from tests.support.relay_client import recording
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(600)

TOTALS = ("--mode", "exact", "--reveal", "totals")


@pytest.mark.parametrize(
    ("topology", "mode"), [("relay", "exact"), ("relay", "private"), ("mesh", "private")]
)
def test_processes_reach_the_outcome_of_the_simulation(
    tmp_path: Path, topology: str, mode: str
) -> None:
    """Either topology gives the simulation's totals, prices and own quotas, bit for bit."""
    arguments = ("--mode", mode, "--reveal", "totals", "--epsilon", "8")
    with RunningSession(
        tmp_path / "s", options(*arguments, "--topology", topology, parties=4)
    ) as session:
        session.start()
        session.wait(LIMIT)
        assert_undisturbed(session, *arguments)
        figures, expected = session.figures(), undisturbed(arguments, 4, 30)
        for key in ("quota_utility", "payments", "gains", "rounds_played"):
            assert figures[key] == expected[key]


@pytest.mark.parametrize("parties", [3, 5])
def test_masks_change_no_outcome(parties: int) -> None:
    """Prices, certificate and utility within quotas are those of `each`, bit for bit."""
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
    """Steps without weights also find the same prices, and their quotas fit."""
    arguments = ("--mode", "exact", "--step", step)
    totals, each = (undisturbed((*arguments, *more), 4, 30) for more in (TOTALS[2:], ()))
    assert totals["prices"] == each["prices"]
    assert totals["quota_overrun"] == 0.0


@pytest.mark.parametrize("seed", range(2))
def test_parties_killed_at_random_moments_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Kills of random parties, from the key exchange on, end with the undisturbed prices."""
    draw = random.Random(seed)
    topology = ("relay", "mesh")[seed % 2]
    arguments = (*TOTALS, "--step", "sqrt")
    with RunningSession(
        tmp_path / "s", options(*arguments, "--topology", topology, rounds=36)
    ) as session:
        stops = [1, *sorted(draw.sample(range(2, 34), 4))]
        brake = Brake(session, monkeypatch, name=draw.choice(session.names), furthest=stops[0])
        session.start()
        time.sleep(draw.uniform(0.0, 1.5))  # often during the key exchange
        first = draw.choice(session.names)
        kill(session, first)
        session.start_party(first)
        for stop in stops[1:]:
            brake.reached()
            brake.move(stop)
            time.sleep(draw.uniform(0.0, 0.03))
            name = draw.choice(session.names)
            kill(session, name)
            session.start_party(name)
        brake.let_go()
        session.wait(LIMIT)
        assert_undisturbed(session, *arguments)
        expected = undisturbed(arguments, 3, 36)
        assert session.figures()["payments"] == expected["payments"]


def traces(number: float) -> list[bytes]:
    """How a number might appear: as text, as a float, as an integer of either byte order."""
    found = [repr(number).encode(), struct.pack("<d", number), struct.pack(">d", number)]
    if float(number).is_integer():
        found += [struct.pack("<q", int(number)), struct.pack(">q", int(number))]
        found += [str(int(number)).encode()]
    return found


def test_no_private_number_of_a_member_is_written_or_sent(tmp_path: Path) -> None:
    """A member's demands, quota and payment are in no message, log, public or peer's file."""
    with RunningSession(tmp_path / "s", options(*TOTALS, rounds=25)) as session:
        agreement = session.agreement
        session.start_coordinator()
        with recording(session, "party3") as recorded:
            session.start_party("party2")
            until(lambda: recorded, "party2 is recorded")
            for name in ("party1", "party3"):
                session.start_party(name)
            session.wait(LIMIT)
        own = {name: session.result(name)["private"] for name in session.names}
        demands = demands_of_the_first(session)
        own_result = own["party1"]
        secret = [
            *demands,
            *own_result["quota"],
            *map(float, own_result["quota_ticks"]),
            own_result["payment"],
        ]
        private_files = {"model.npz", "report.html", "plan.csv", "result.json", "party1.ledger"}
        written = [
            path.read_bytes()
            for path in session.folder.rglob("*")
            if path.is_file() and path.name not in private_files
        ]
        for name in ("report.html", "plan.csv", "result.json"):
            written += [(session.folder / p / "out" / name).read_bytes() for p in session.names[1:]]
        everything = b"\n".join([*written, *recorded, json.dumps(session.events).encode()])
        assert len(secret) > 20
        for number in secret:
            assert not [trace for trace in traces(number) if trace in everything]
        ledger = (session.folder / "party1" / "party1.ledger").read_bytes()
        for number in demands:  # its ledger keeps its quota and wipes its demands
            assert not [trace for trace in traces(number) if len(trace) == 8 and trace in ledger]
        messages = [Reader(agreement).unpack(data).message for data in set(recorded)]
        lengths = {
            len(d) for d in recorded if isinstance(Reader(agreement).unpack(d).message, Release)
        }
        assert lengths == {release_bytes(agreement)}
        assert {m.sender for m in messages if isinstance(m, MaskKey)} == set(session.names)


def demands_of_the_first(session: RunningSession) -> list[float]:
    """The first party's demand in each round, in ticks, without 0 and full capacities."""
    agreement = from_table(agreement_table(session.instance, session.options))
    with players(agreement, session.instance.subproblems(), 1) as members:
        kept = keep_demands(members[0].ledger)
        run(members)
        assert not members[0].ledger.demands()[0].size
    demands = [number for demand, _ in kept for number in demand.tolist()]
    return [float(number) for number in demands if number not in (0, agreement.ticks)]


def test_public_outputs_hold_totals_and_no_quota(tmp_path: Path) -> None:
    """Audit, pages, next session and ledger show public totals, and quotas to their owner only."""
    with RunningSession(tmp_path / "s", options(*TOTALS, rounds=40)) as session:
        session.start()
        session.wait(LIMIT)
        folder, out = session.folder, session.folder / "party1" / "out"
        agreement = read_agreement(folder / "agreement.toml")
        shared = (out / "session.transcript", "--agreement", folder / "agreement.toml")
        audit = run_module("protocol", "audit", *shared)
        assert audit.returncode == 0
        assert "Single releases are masked and" in audit.stdout
        assert "only totals" in audit.stdout
        assert "quota      in %" not in audit.stdout
        figures = json.loads(run_module("protocol", "audit", *shared, "--json").stdout)
        result = session.result("party1")
        assert figures["prices"] == result["prices"]
        assert not {"quota", "payments"} & {*figures, *result}
        assert figures["head"] == result["head"]
        public = outcome(agreement, load(agreement, (out / "session.transcript").read_bytes()))
        assert public.sealed
        together = np.sum(
            [session.result(n)["private"]["quota_ticks"] for n in session.names], axis=0
        )
        assert (together <= agreement.ticks).all()
        page = tmp_path / "public.html"
        assert run_module("protocol", "report", *shared, "--out", page).returncode == 0
        assert "computes its own quota and sends it to no one" in page.read_text()
        private = (out / "report.html").read_text()
        assert "Your quota" in private
        assert "PRIVATE" in private
        events = [e for e in session.events["party1"] if e["event"] == "finished"]
        assert not {"quota", "payments"} & set(events[0])

        later = run_module(
            "coordinator", "new", "--session", "next", "--from", out / "session.transcript",
            "--agreement", folder / "agreement.toml", "--key", folder / "coordinator.key",
            "--out", folder / "next.toml",
        )  # fmt: skip
        assert (later.returncode, later.stderr) == (0, "")
        following = read_agreement(folder / "next.toml")
        assert following.reveal == "totals"
        assert following.pricing.start == tuple(public.prices.tolist())

        with closing(Ledger(folder / "party1" / "party1.ledger", agreement, "party1")) as ledger:
            allocation = ledger.allocation()
            assert allocation is not None
            assert allocation.quota.tolist() == result["private"]["quota_ticks"]
            assert allocation.payment == result["private"]["payment"]
            assert [array.size for array in ledger.demands()] == [0, 0]


def test_one_changed_byte_of_a_transcript_is_found(tmp_path: Path) -> None:
    """A changed byte is found in a mask key, a release or a seal."""
    with RunningSession(tmp_path / "s", options(*TOTALS, rounds=12)) as session:
        session.start()
        session.wait(LIMIT)
        agreement = session.agreement
        data = (session.folder / "party1" / "out" / "session.transcript").read_bytes()
        assert outcome(agreement, load(agreement, data)).sealed
        rng = random.Random(5)
        for index in [*rng.sample(range(len(data)), 40), len(data) - 100]:
            changed = data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]
            with pytest.raises(BadTranscript):
                outcome(agreement, load(agreement, changed))
