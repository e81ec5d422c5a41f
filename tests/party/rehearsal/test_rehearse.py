"""`party rehearse`: the own model, invented partners, nothing sent and nothing spent."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from party.model.best_response import subproblem
from party.model.company_model import CompanyModel, dense
from party.rehearsal.rehearse import SessionResult, _summary, partner, rehearse, table_lines
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.agreement.render import written
from protocol.errors import BadCommand
from protocol.planning.synthetic_market import Companies
from scripts.lab.common.agreements import public_key
from scripts.lab.common.local_session import environment
from tests.support.wait import LIMIT

NAMES = ("acme", "bolt", "cargo", "dock")


def agreement(*, worth: bool = True, **terms: Any) -> Agreement:
    resources: list[dict[str, Any]] = [
        {"name": "hours", "capacity": 120.0},
        {"name": "slots", "capacity": 16.0},
    ]
    if worth:
        for resource, money in zip(resources, (9000.0, 4000.0), strict=True):
            resource["worth"] = money
    table = {"session": "dry", "mode": "exact", "rounds": 60, "resource": resources, **terms}
    return from_table(
        table | {"member": [{"name": n, "signing_key": public_key(n)} for n in NAMES]}
    )


def company(*, least: float = 0.0) -> CompanyModel:
    """Three products; `least` is the smallest amount of the first."""
    return dense(
        A=np.array([[2.0, 1.0, 3.0], [0.2, 0.3, 0.1]]),
        B=np.zeros((0, 3)),
        u=np.array([220.0, 150.0, 300.0]),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.array([least, 0.0, 0.0]),
        upper=np.array([20.0, 15.0, 10.0]),
    )


def test_without_noise_the_company_never_loses() -> None:
    """In every session the company gains at least what the certificate promises."""
    figures = rehearse(agreement(), "bolt", company(), sessions=4)
    expected = figures["expected"]
    assert figures["without_noise"] is None
    assert expected["without_plan"] == 0
    assert expected["gain_worst"] >= -1e-4 * 13000.0
    assert expected["gain_worst"] <= expected["gain_mean"] <= expected["gain_best"]
    assert expected["gain_best"] > 0.0
    assert 0.0 < figures["slowest_answer_seconds"] <= figures["pace_seconds"]
    assert figures["noise_over_capacity"] == 0.0


def test_sessions_with_noise_are_shown_beside_sessions_without() -> None:
    """The figures show what the noise costs."""
    terms = agreement(mode="private", rounds=10, privacy={"epsilon": 1.0, "delta": 1e-3})
    figures = rehearse(terms, "bolt", company(), sessions=2)
    assert figures["noise_over_capacity"] > 1.0
    assert figures["without_noise"]["gain_mean"] > figures["expected"]["gain_mean"]
    lines = dict(table_lines(figures, "EUR"))
    assert lines["your best plan alone earns"].endswith("EUR")
    assert "average gain after payment, without noise" in lines


def test_sessions_without_a_plan_are_counted() -> None:
    """A company that needs more than its share has no plan alone, and often none with noise."""
    noisy = agreement(mode="private", rounds=5, privacy={"epsilon": 1.0, "delta": 1e-3})
    figures = rehearse(noisy, "bolt", company(least=18.0), sessions=3)
    assert figures["alone"] is None
    assert figures["expected"]["without_plan"] > 0
    assert figures["expected"]["gain_mean"] is None


def test_a_seed_repeats_a_rehearsal() -> None:
    """Equal seeds give equal partners; another seed gives others."""
    first, again, other = (
        rehearse(agreement(), "bolt", company(), sessions=2, seed=seed)["expected"]
        for seed in (3, 3, 4)
    )
    assert first == again
    assert first["gain_mean"] != other["gain_mean"]


def test_partners_follow_from_public_numbers() -> None:
    """With seven times the worths, products are worth seven times as much and take the same."""
    terms = agreement(worth=False)
    worth = np.array([9000.0, 4000.0])
    one, two = (partner(terms, Companies.drawn(terms, 5, w), 0) for w in (worth, 7.0 * worth))
    assert two.utility == pytest.approx(7.0 * one.utility)
    assert two.value.tolist() == one.value.tolist()


def test_a_worth_is_estimated_from_the_own_model() -> None:
    """Without a worth the partners are about as large as the company; --worth says otherwise."""
    terms = agreement(worth=False)
    own = rehearse(terms, "bolt", company(), sessions=2)
    small = rehearse(terms, "bolt", company(), sessions=2, worth=1e-6)
    assert own["expected"]["gain_mean"] != small["expected"]["gain_mean"]
    # Partners that pay nothing leave everything to the company, or cannot pay for what it brings.
    assert abs(small["expected"]["payment_mean"]) < 1e-3 < abs(own["expected"]["payment_mean"])


def test_the_command_leaves_nothing_behind(tmp_path: Path) -> None:
    """It prints a table, or JSON, and creates no file."""
    (tmp_path / "agreement.toml").write_text(written(agreement()))
    np.savez(
        tmp_path / "model.npz",
        A=[[2.0, 1.0, 3.0], [0.2, 0.3, 0.1]], B=np.zeros((0, 3)), b=np.zeros(0),
        u=[220.0, 150.0, 300.0], upper=[20.0, 15.0, 10.0],
    )  # fmt: skip
    before = sorted(path.name for path in tmp_path.iterdir())

    def rehearsed(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "party", "rehearse", "--agreement", "agreement.toml"]
        command += ["--data", "model.npz", "--as", "cargo", "--sessions", "2", *options]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=LIMIT
        )

    done = rehearsed()
    assert done.returncode == 0, done.stderr
    assert "average gain after payment" in done.stdout
    assert "a pace that is long enough" in done.stdout
    assert "If a member lies: " in done.stdout
    assert "warning: with fewer than 10 members a lie can pay" in done.stdout
    assert json.loads(rehearsed("--json").stdout)["sessions"] == 2
    assert rehearsed("--sessions", "0").returncode == BadCommand.exit_code
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_less_than_half_a_cent_is_no_loss() -> None:
    """A company that loses 0.001 EUR is as well off as alone; one that loses a cent is not."""
    results = [
        SessionResult(rounds=9, utility=5.0, alone=5.0, payment=0.0, gain=gain, seconds=0.1)
        for gain in (-0.01, -0.001, 0.0, 0.004, 0.01)
    ]
    counted = _summary(results, "EUR")
    assert (counted["worse_off"], counted["as_well_off"]) == (1, 3)


@pytest.mark.parametrize(("alone", "payment"), [(5e6, 0.0), (0.0, -5e6)])
@pytest.mark.parametrize("currency", ["EUR", ""])
def test_a_loss_within_the_tolerances_is_no_loss(
    alone: float, payment: float, currency: str
) -> None:
    """Of five million, 40 are within the tolerances of session and solver, and 60 are a loss."""
    results = [
        SessionResult(rounds=9, utility=5.0, alone=alone, payment=payment, gain=gain, seconds=0.1)
        for gain in (-60.0, -40.0, 40.0, 60.0)
    ]
    counted = _summary(results, currency)
    assert (counted["worse_off"], counted["as_well_off"]) == (1, 2)


def test_a_partner_asks_for_what_the_plan_assumes() -> None:
    """At any prices the model of an invented company demands what the synthetic market says."""
    terms = agreement()
    market = Companies.drawn(terms, 3)
    rng = np.random.default_rng(2)
    capacity = quantities(terms).capacity
    for row, name in enumerate(NAMES):
        problem = subproblem(partner(terms, market, row), terms, name)
        for prices in rng.uniform(0.0, 2.0, (5, 2)) * np.array([9000.0, 4000.0]) / capacity:
            answer = problem.answer(prices)
            assert answer is not None
            demanded = market.demand(prices * capacity)[row] * capacity
            assert answer.demand == pytest.approx(demanded, abs=1e-9)
