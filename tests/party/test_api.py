"""Joining from Python with a model in memory."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import highspy
import linopy
import pulp
import pyomo.environ as pyo
import pytest

import party
from party import MipLimits, join
from protocol.clearing.claims import verified
from protocol.errors import BadAgreement, BadCommand, BadData
from scripts.lab.common.local_session import Processes, environment
from scripts.lab.common.ports import reserve
from tests.support.wait import LIMIT


def company(profit: float, hours: float, most: float, *, whole: bool = False) -> highspy.Highs:
    """A company that earns `profit` with each x, which takes `hours`, up to `most`."""
    model = highspy.Highs()
    model.silent()
    add = model.addIntegral if whole else model.addVariable
    x = add(lb=0.0, ub=most, obj=profit, name="x")
    model.setMaximize()
    model.addConstr(hours * x <= 1.0, name="hours")
    return model


def prepare(folder: Path, hours: str = "hours=10", **members: str) -> None:
    """Write keys of companies, and an agreement about some hours without noise.

    By default there are two members that may claim all. A text after a name sets its share.
    """
    members = members or {"acme": "", "bolt": ""}

    def call(*words: str) -> None:
        command = [sys.executable, "-m", *words]
        subprocess.run(command, cwd=folder, env=environment(), check=True, timeout=LIMIT)

    for name in members:
        call("party", "keygen", name)
    seats = [f"--member={name}.member.toml{band}" for name, band in members.items()]
    call(
        "coordinator", "new", "--session", "hours", "--mode", "exact", "--resource", hours,
        *seats, "--key", "coordinator.key", "--currency", "EUR",
        "--address", f"tcp://127.0.0.1:{reserve(2)}", "--patience", "600",
    )  # fmt: skip


@pytest.mark.timeout(600)
def test_a_program_joins_with_its_model(tmp_path: Path) -> None:
    """Of 10 hours, acme uses 6 for 3 units; the program gets 4, for 1 integer unit."""
    prepare(tmp_path)
    company(30.0, 2.0, 3.0).writeModel(str(tmp_path / "acme.mps"))

    def command(*words: str) -> list[str]:
        return [sys.executable, "-m", *words, "--agreement", "agreement.toml"]

    with Processes(tmp_path) as processes:
        serve = command("coordinator", "serve", "--key", "coordinator.key")
        processes.launch("coordinator", serve, within=tmp_path)
        other = command("party", "join", "--key", "acme.key", "--data", "acme.mps")
        processes.launch("acme", [*other, "--out", "acme"], within=tmp_path)
        result = join(
            tmp_path / "agreement.toml",
            company(9.0, 3.0, 5.0, whole=True),
            key=tmp_path / "bolt.key",
            out=tmp_path / "bolt",
            mip_limits=MipLimits(gap=0.0, seconds=5.0),
        )
        processes.done("acme", seconds=LIMIT)
    known = json.loads((tmp_path / "acme" / "result.json").read_text())
    assert result.outcome.state.chain_hash.hex() == known["head"]
    assert list(result.prices.values()) == known["prices"] == pytest.approx([3.0], rel=1e-2)
    assert result.quota["hours"] == pytest.approx(4.0, rel=1e-3)
    assert result.quota["hours"] + known["quota"]["acme"][0] <= 10.0
    assert result.plan == {"x": 1.0}
    assert result.utility == 9.0
    assert result.payment == known["payments"]["bolt"]
    assert result.settlement.alone is not None
    assert result.gain == pytest.approx(9.0 - result.payment - result.settlement.alone.utility)
    assert repr(result) == "<private result of 'bolt'>"
    own = json.loads((tmp_path / "bolt" / "result.json").read_text())
    assert own["private"]["whole_columns"] == 1
    assert "Your model has whole numbers" not in (tmp_path / "acme" / "report.html").read_text()
    assert "Your model has whole numbers" in (tmp_path / "bolt" / "report.html").read_text()


def brings(cost: float, most: float) -> highspy.Highs:
    """A company that brings up to `most` hours, each at this cost."""
    model = highspy.Highs()
    model.silent()
    x = model.addVariable(lb=0.0, ub=most, obj=-cost, name="x")
    model.setMaximize()
    model.addConstr(-1.0 * x <= 0.0, name="hours")
    return model


@pytest.mark.timeout(600)
def test_a_member_that_brings_capacity_is_paid(tmp_path: Path) -> None:
    """Of 4 hours plus 3.5 that dam brings at 2 each, bolt gets 4 and cargo 3.5.

    Only totals are public. The price is 4: what cargo, which makes integer units, earns per hour.
    """
    prepare(tmp_path, "hours=4", dam=":-1..0", bolt="", cargo="")
    company(5.0, 1.0, 4.0).writeModel(str(tmp_path / "bolt.mps"))
    company(4.0, 1.0, 9.0, whole=True).writeModel(str(tmp_path / "cargo.mps"))

    def command(*words: str) -> list[str]:
        return [sys.executable, "-m", *words, "--agreement", "agreement.toml"]

    with Processes(tmp_path) as processes:
        serve = command("coordinator", "serve", "--key", "coordinator.key")
        processes.launch("coordinator", serve, within=tmp_path)
        for name in ("bolt", "cargo"):
            own = ["--key", f"{name}.key", "--data", f"{name}.mps", "--out", name]
            processes.launch(name, [*command("party", "join"), *own], within=tmp_path)
        agreement = tmp_path / "agreement.toml"
        paid = join(agreement, brings(2.0, 3.5), key=tmp_path / "dam.key", out=tmp_path / "dam")
        for name in ("bolt", "cargo"):
            processes.done(name, seconds=LIMIT)
    assert paid.outcome.agreement.masked
    assert paid.prices["hours"] == pytest.approx(4.0, rel=1e-2)
    assert paid.quota["hours"] == pytest.approx(-3.5, rel=1e-2)
    assert paid.plan is not None
    assert paid.plan["x"] == pytest.approx(3.5, rel=1e-2)
    assert paid.payment == pytest.approx(-14.0, rel=3e-2)
    assert paid.gain == pytest.approx(7.0, rel=3e-2)
    results = {
        name: json.loads((tmp_path / name / "result.json").read_text())
        for name in ("dam", "bolt", "cargo")
    }
    used = [result["private"]["quota"][0] for result in results.values()]
    assert sum(used) <= 4.0
    assert used == pytest.approx([-3.5, 4.0, 3.5], rel=1e-2)
    assert abs(sum(result["private"]["payment"] for result in results.values())) <= 1e-6
    pages = {name: (tmp_path / name / "report.html").read_text() for name in results}
    words = {name: " ".join(re.sub("<[^>]*>", "", page).split()) for name, page in pages.items()}
    assert re.search(r"You get 1[34]\.?\d* EUR, because your quota is worth less", words["dam"])
    assert "You pay" in words["bolt"]
    assert "Your model has whole numbers" in words["cargo"]
    assert "at least -1" in words["bolt"], "what dam may bring is public"


def test_errors_are_raised_before_anything_is_sent(tmp_path: Path) -> None:
    """`join` raises the errors of `party join`, and makes no ledger."""
    with pytest.raises(BadAgreement, match=r"missing\.toml"):
        join(tmp_path / "missing.toml", company(1.0, 1.0, 1.0), key=tmp_path / "acme.key")
    prepare(tmp_path)
    with pytest.raises(BadData, match="no row for 1 of 1 shared resource"):
        join(tmp_path / "agreement.toml", highspy.Highs(), key=tmp_path / "acme.key")
    assert not (tmp_path / "acme.ledger").exists()


LOUD = """
import signal, sys, threading
before = signal.getsignal(signal.SIGINT)
did = []
def note(event, arguments):
    writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    if writes or event.split(".")[0] in ("socket", "subprocess", "sqlite3") or event == "os.fork":
        did.append((event, *map(str, arguments[:1])))
sys.addaudithook(note)
import party.api
print(did, threading.active_count(), signal.getsignal(signal.SIGINT) is before)
"""


def test_nothing_happens_on_import(tmp_path: Path) -> None:
    """The import writes no file, starts no thread, opens no socket and leaves signals alone."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", LOUD],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("[] 1 True\n", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(600)
def test_three_companies_join_from_one_program(tmp_path: Path) -> None:
    """With asyncio, models of three tools, rows of their own names, plans written back, claims."""
    prepare(tmp_path, acme="", bolt="", cargo="")
    agreement = tmp_path / "agreement.toml"
    hauls = pyo.ConcreteModel()
    hauls.x = pyo.Var(bounds=(0.0, 3.0))
    hauls.profit = pyo.Objective(expr=30.0 * hauls.x, sense=pyo.maximize)
    hauls.day = pyo.Constraint(["mon"], rule=lambda m, _: 2.0 * m.x <= 1.0)
    beer = pulp.LpProblem("beer", pulp.LpMaximize)
    pale = beer.add_variable("pale", lowBound=0.0, upBound=5.0)
    beer += 9.0 * pale
    beer += 3.0 * pale <= 1.0, "hours"
    milk = linopy.Model()
    litres = milk.add_variables(lower=0.0, upper=5.0, name="litres")
    milk.add_objective(4.0 * litres, sense="max")
    milk.add_constraints(1.0 * litres <= 1.0, name="hours")
    models = {"acme": hauls, "bolt": beer, "cargo": milk}
    rows = {"acme": {"hours": "day[mon]"}}
    seen = list[tuple[int, int]]()

    async def joined() -> list[party.Result]:
        return await asyncio.gather(
            *(
                party.join_async(
                    agreement,
                    model,
                    key=tmp_path / f"{name}.key",
                    rows=rows.get(name),
                    progress=(lambda *now: seen.append(now)) if name == "acme" else False,
                )
                for name, model in models.items()
            )
        )

    lines = party.check(agreement, hauls, key=tmp_path / "acme.key", rows=rows["acme"])
    assert lines[-1].startswith("nothing known to be wrong")
    figures = party.rehearse(agreement, beer, member="bolt", sessions=2)
    assert figures["sessions"] == 2
    with Processes(tmp_path) as processes:
        serve = [sys.executable, "-m", "coordinator", "serve", "--key", "coordinator.key"]
        processes.launch("coordinator", [*serve, "--agreement", "agreement.toml"], within=tmp_path)
        acme, bolt, cargo = asyncio.run(joined())
    key = tmp_path / "acme.key"
    claims = [
        party.claim(agreement, key=key, resource="hours", out=tmp_path),
        party.claim(agreement, key=key, payment=True, out=tmp_path / "paid.claim"),
    ]
    shown = [verified(acme.outcome, path.read_bytes()) for path in claims]
    assert [path.name[-11:] for path in claims] == ["hours.claim", "paid.claim"]
    assert [claim.index for claim in shown] == [0, 1]
    with pytest.raises(BadCommand, match="resource=NAME for a quota, or payment=True"):
        party.claim(agreement, key=key, out=tmp_path)
    assert seen[-1] == (acme.outcome.rounds, acme.outcome.agreement.rounds)
    # acme earns 15 an hour and takes 6 of 10; cargo earns 4 and takes the other 4; bolt earns 3.
    # Alone each has a third of the hours: 50, 10 and 13.33.
    for result, hours, alone in ((acme, 6.0, 50.0), (bolt, 0.0, 10.0), (cargo, 4.0, 40.0 / 3.0)):
        assert result.quota["hours"] == pytest.approx(hours, abs=0.01)
        assert result.alone == pytest.approx(alone, rel=1e-6)
        assert result.certificate is not None
        assert result.gain is not None
        assert result.gain >= -result.certificate
        assert float(result.to_frame().loc["hours", "price"]) == pytest.approx(4.0, abs=0.05)
        assert result.member in result._repr_html_()
    acme.write_back(hauls)
    bolt.write_back(beer)
    cargo.write_back(milk)
    assert pyo.value(hauls.x) == pytest.approx(3.0, abs=0.01)
    assert pale.varValue == pytest.approx(0.0, abs=0.01)
    assert float(litres.solution) == pytest.approx(4.0, abs=0.01)
