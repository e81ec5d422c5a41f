"""Exchanges: resources that the members bring, with a joint capacity of 0 or below."""

import math
from pathlib import Path

import numpy as np
import pytest

from party.model.best_response import USUAL, MipLimits, subproblem
from party.model.company_model import CompanyModel, dense
from party.rehearsal.in_process import players, run
from party.release.allocation import own_allocation
from party.run import conclude
from party.settlement import private_report, result_files
from party.settlement.result_files import Company
from party.settlement.settle import settle
from party.ui.console import View
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.outcome.outcome import outcome
from protocol.planning.verdict import plan_figures
from protocol.report.plan import plan_page
from protocol.report.plan_trials import variants
from protocol.report.public import public_page
from protocol.report.terminal import audit_text, plan_text
from scripts.lab.common.agreements import players as roster

FILES = ["plan.csv", "public.csv", "report.html", "result.json", "session.transcript"]


def trader(value: float, cost: float) -> CompanyModel:
    """Uses up to 8 units worth `value` each, and makes up to 7 units at `cost`."""
    return dense(
        A=np.array([[1.0, -1.0]]), B=np.zeros((0, 2)), u=np.array([value, -cost]),
        row_lower=np.zeros(0), row_upper=np.zeros(0), lower=np.zeros(2), upper=np.array([8.0, 7.0]),
    )  # fmt: skip


TRADERS = [trader(10.0, 3.0), trader(7.0, 6.0), trader(4.0, 2.0)]


def agreed(capacity: float, reveal: str) -> Agreement:
    """Three members, each of which may bring up to 10 units and take up to 10."""
    return from_table(
        {
            "session": "exchange",
            "mode": "exact",
            "rounds": 60,
            "reveal": reveal,
            "resource": [{"name": "power", "capacity": capacity, "span": 10.0, "unit": "MWh"}],
            "member": [{**member, "floor": -1.0, "share": 1.0} for member in roster(3)],
            "rehearsal": True,
        }
    )


def best(capacity: float) -> float:
    """What the three earn together: the cheapest units go to the most valuable uses."""
    values, costs = [10.0] * 8 + [7.0] * 8 + [4.0] * 8, [2.0] * 7 + [3.0] * 7 + [6.0] * 7
    given = round(capacity)
    supply = [0.0] * max(given, 0) + costs
    wanted = [math.inf] * max(-given, 0) + values
    forced = sum(supply[: max(-given, 0)])
    pairs = zip(wanted[max(-given, 0) :], supply[max(-given, 0) :], strict=False)
    return sum(v - c for v, c in pairs if v > c) - forced


@pytest.mark.parametrize("reveal", ["totals", "each"])
@pytest.mark.parametrize("capacity", [0.0, -3.0, 5.0])
def test_a_session_without_joint_capacity_ends_with_all_files(
    tmp_path: Path, capacity: float, reveal: str
) -> None:
    """Every file and page is written, the plans balance, and together they earn the most."""
    agreement = agreed(capacity, reveal)
    names = [member.name for member in agreement.members]
    problems = [subproblem(d, agreement, n) for d, n in zip(TRADERS, names, strict=True)]
    earned, used = 0.0, 0.0
    with players(agreement, problems, 1) as members:
        run(members)
        known = outcome(agreement, members[0].ledger.transcript())
        for data, name, member in zip(TRADERS, names, members, strict=True):
            own = settle(data, known, name, own_allocation(known, name, member.ledger))
            folder = tmp_path / name
            folder.mkdir()
            for write in (result_files.write_result, result_files.write_report):
                write(known, Company(name, data, member.ledger, USUAL), own, folder)
            assert sorted(path.name for path in folder.iterdir()) == FILES
            assert own.within_quota is not None
            assert own.gain is None or own.gain >= -1e-6
            earned += own.within_quota.utility
            used += float(own.within_quota.uses[0])
    assert used <= capacity + 1e-9
    assert earned == pytest.approx(best(capacity), rel=1e-3)
    figures = plan_figures(agreement)
    pages = (
        public_page(known),
        plan_page(agreement, figures, variants(agreement, figures)),
        audit_text(known),
    )
    assert all(page for page in (*pages, plan_text(agreement, figures)))


def test_a_failing_page_loses_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong in the report, plan, result and transcript are written before it."""
    agreement = agreed(5.0, "totals")
    names = [member.name for member in agreement.members]
    problems = [subproblem(d, agreement, n) for d, n in zip(TRADERS, names, strict=True)]
    with players(agreement, problems, 1) as members:
        run(members)
        ledger = members[0].ledger
        company = Company(names[0], TRADERS[0], ledger, MipLimits())
        known = outcome(agreement, ledger.transcript())
        monkeypatch.setattr(private_report, "private_parts", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            conclude(known, company, tmp_path, View())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        name for name in FILES if name != "report.html"
    ]
