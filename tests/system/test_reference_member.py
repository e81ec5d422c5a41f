"""A member written from SPEC.md alone takes part in a session with real parties.

In exact sessions it is the adversary too: it answers with numbers that no company would give, or as
another company would.
"""

import json
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from party.model.best_response import subproblem
from protocol.agreement.quantities import quantities
from protocol.errors import Inconsistent, NoTrade, QuotaTooSmall
from tests.reference.masked_session import MaskedSession
from tests.reference.member import Member
from tests.support.commands import run_module
from tests.support.local_sessions import RunningSession, options
from tests.support.report_pages import protocol
from tests.support.wait import LIMIT


@pytest.mark.parametrize(("topology", "mode"), [("relay", "private"), ("mesh", "exact")])
def test_the_reference_member_takes_part_in_a_session(
    tmp_path: Path, topology: str, mode: str
) -> None:
    """All end with one file, and with the prices, quotas and payments of the reference."""
    chosen = options("--topology", topology, "--mode", mode, rounds=8)
    with RunningSession(tmp_path / "s", chosen) as session:
        folder, chance = session.folder, random.Random(5)
        session.start_coordinator()
        for name in ("party1", "party2"):
            session.start_party(name)
        width, ticks = session.agreement.width, session.agreement.ticks
        member = Member(
            (folder / "agreement.toml").read_text(),
            (folder / "party3" / "party3.key").read_text(),
            lambda number, prices: [chance.randrange(ticks) for _ in range(width)],  # noqa: ARG005
        )
        ours = member.play(LIMIT / 2.0)
        for name in ("party1", "party2"):
            ended = session.processes[name].wait(LIMIT)  # a random quota may be too small
            allowed = (NoTrade.exit_code,) if mode == "exact" else (0, QuotaTooSmall.exit_code)
            assert ended in allowed, session.stderr(name)
            assert (folder / name / "out" / "session.transcript").read_bytes() == ours
            result, engine = session.result(name), member.engine
            assert result["head"] == engine.chain_hash.hex()
            assert result["prices"] == engine.prices
            assert list(result["quota_ticks"].values()) == engine.quota
            assert list(result["payments"].values()) == engine.payments
            if mode == "exact":  # its answers are random numbers
                assert [one["member"] for one in result["contradictions"]] == ["party3"]
                assert "answers" in result["trade"]["obstacles"]
                assert set(result["payments"].values()) == {0.0}
        if mode == "exact":
            files = (str(folder / "party1" / "out" / "session.transcript"), "--agreement")
            told = protocol(
                *("audit", *files, str(folder / "agreement.toml")), code=Inconsistent.exit_code
            )
            assert "The answers of party3 in the rounds" in told.stdout
            assert "party3" in told.stderr
        if topology == "mesh":  # parties report the end to the coordinator of a mesh
            assert session.processes["coordinator"].wait(LIMIT) == 0


@pytest.mark.parametrize("topology", ["relay", "mesh"])
def test_the_reference_member_commits_and_claims(tmp_path: Path, topology: str) -> None:
    """In an exact session with totals it masks, commits and seals beside real parties.

    All end with one file. Over the relay, its claims and those of the parties settle to the cent.
    """
    chosen = options("--topology", topology, "--mode", "exact", "--reveal", "totals", rounds=80)
    with RunningSession(tmp_path / "s", chosen) as session:
        folder = session.folder
        session.start_coordinator()
        for name in ("party1", "party2"):
            session.start_party(name)
        # A tenth less at every price: a company that is a tenth smaller answers so.
        honest = best_answers(session, "party3")
        member = Member(
            (folder / "agreement.toml").read_text(),
            (folder / "party3" / "party3.key").read_text(),
            lambda number, prices: [9 * ticks // 10 for ticks in honest(prices)],  # noqa: ARG005
        )
        ours = member.play(LIMIT / 2.0)
        engine = member.engine
        assert isinstance(engine, MaskedSession)
        assert engine.adds_up
        assert not engine.obstacles
        for name in ("party1", "party2"):
            ended = session.processes[name].wait(LIMIT)
            assert ended in (0, QuotaTooSmall.exit_code), session.stderr(name)
            assert (folder / name / "out" / "session.transcript").read_bytes() == ours
            result = session.result(name)
            assert result["head"] == engine.chain_hash.hex()
            assert result["prices"] == engine.prices
            assert result["contradictions"] == []
    if topology == "relay":
        settle_with(member, folder)


def test_a_member_that_claims_all_for_ten_rounds_is_named(tmp_path: Path) -> None:
    """Honest answers follow. Each party ends without trade and says who, when and how much."""
    chosen = options("--mode", "exact", rounds=40)
    with RunningSession(tmp_path / "s", chosen) as session:
        folder, ticks = session.folder, session.agreement.ticks
        session.start_coordinator()
        for name in ("party1", "party2"):
            session.start_party(name)
        honest = best_answers(session, "party3")
        Member(
            (folder / "agreement.toml").read_text(),
            (folder / "party3" / "party3.key").read_text(),
            lambda number, prices: [ticks] * len(prices) if number < 10 else honest(prices),
        ).play(LIMIT / 2.0)
        for name in ("party1", "party2"):
            assert session.processes[name].wait(LIMIT) == NoTrade.exit_code, session.stderr(name)
            result, out = session.result(name), folder / name / "out"
            [found] = result["contradictions"]
            assert found["member"] == "party3"
            assert min(found["rounds"]) <= 10 < max(found["rounds"])
            assert found["part"] > result["trade"]["limit"]
            assert "answers" in result["trade"]["obstacles"]
            assert set(result["payments"].values()) == {0.0}
            assert "The answers of party3 in the rounds" in (out / "report.html").read_text()
        audited = protocol(
            *("audit", str(out / "session.transcript"), "--agreement"),
            str(folder / "agreement.toml"),
            code=Inconsistent.exit_code,
        )
        assert "The answers of party3 in the rounds" in audited.stdout


def best_answers(session: RunningSession, name: str) -> Callable[[list[float]], list[int]]:
    """What the model of this member answers to prices, in ticks."""
    agreement = session.agreement
    row = [member.name for member in agreement.members].index(name)
    company = subproblem(session.instance.data[row], agreement, name)
    public = quantities(agreement)

    def answers(prices: list[float]) -> list[int]:
        found = company.answer(np.array(prices))
        assert found is not None
        ticks = np.rint((found.demand - public.floor[row]) / public.capacity * agreement.ticks)
        return [min(max(int(tick), 0), agreement.ticks) for tick in ticks.tolist()]

    return answers


def settle_with(member: Member, folder: Path) -> None:
    """Settle with the claims of two parties, and of the reference member as the third."""
    names, engine = ("party1", "party2"), member.engine
    assert isinstance(engine, MaskedSession)
    resources = [r.name for r in engine.terms.resources]
    files = []
    for index, what in ((0, ("--for", resources[0])), (len(resources), ("--payment",))):
        for name in names:
            files.append(folder / f"{name}-{index}.claim")
            run_module(
                *("party", "claim", "--agreement", folder / "agreement.toml", *what),
                *("--key", folder / name / f"{name}.key", "--out", files[-1]),
                check=True,
            )
        files.append(folder / f"party3-{index}.claim")
        files[-1].write_bytes(member.claim(index))
    settled = run_module(
        *("protocol", "settle", "--agreement", folder / "agreement.toml", "--transcript"),
        *(folder / "party1" / "out" / "session.transcript", "--out", folder / "settled", *files),
    )
    assert settled.returncode == 0, settled.stderr
    figures = json.loads((folder / "settled" / "settlement.json").read_text())
    assert sum(map(Fraction, figures["payments"].values())) == 0
    _, payment = engine.own
    assert abs(Fraction(figures["payments"]["party3"]) - Fraction(payment)) <= Fraction(2, 100)
    assert len(figures["quotas"][resources[0]]) == 3
