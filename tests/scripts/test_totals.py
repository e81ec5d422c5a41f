"""Sessions with masked releases and noise: quotas, risk, and what pages say."""

import argparse
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from party.rehearsal.in_process import players, run
from party.release.allocation import own_allocation
from party.settlement.private_report import private_document, private_parts
from party.settlement.result_files import public_result
from party.settlement.settle import settle
from party.settlement.spending import Spending
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import amounts
from protocol.outcome.ball_quota import expected_levy
from protocol.outcome.outcome import Outcome, outcome
from protocol.outcome.private_quota import Allocation
from protocol.planning.privacy_statement import at_most
from protocol.privacy.ball import ball
from protocol.privacy.calibration import Calibration
from protocol.report.public import public_page
from protocol.report.terminal import audit_figures, audit_text
from scripts.lab.common.agreements import agreement_table, drawn
from scripts.lab.common.instances import Instance, central, draw, knapsacks
from scripts.lab.simulate import command_line, play, simulate


def options(*arguments: str) -> argparse.Namespace:
    chosen = ["--reveal", "totals", "--share-total", "2", "--no-demands", "--start", "worth"]
    if "--mode" not in arguments:
        chosen += ["--step", "worth"]
    parsed = command_line().parse_args([*chosen, "--rounds", "30", *arguments])
    parsed.worth = 100.0
    return parsed


def settled(*arguments: str) -> tuple[Outcome, list[Allocation]]:
    """The outcome of a session, and each member's own allocation."""
    chosen = options(*arguments)
    instance = drawn(chosen)
    agreement = from_table(agreement_table(instance, chosen))
    return settled_among(agreement, instance, chosen.seed)


def settled_among(
    agreement: Agreement, instance: Instance, seed: int
) -> tuple[Outcome, list[Allocation]]:
    with players(agreement, instance.subproblems(), seed) as members:
        run(members)
        known = outcome(agreement, members[0].ledger.transcript())
        parts = [own_allocation(known, m.session.me, m.ledger) for m in members]
    return known, [part for part in parts if part is not None]


def test_quotas_follow_demands_and_pages_state_the_risk() -> None:
    """With little noise quotas differ and stay within capacities, and pages state the risk."""
    known, parts = settled("--parties", "12", "--epsilon", "100", "--overrun", "0.02")
    quotas = np.array([part.quota for part in parts])
    assert len(quotas) == 12
    assert (quotas.sum(axis=0) <= known.agreement.ticks).all()
    assert (quotas.max(axis=0) > 1.5 * quotas.min(axis=0)).all()
    assert known.quota_risk == 0.02
    assert public_result(known, "party1")["quota_risk"] == 0.02
    assert audit_figures(known)["quota_risk"] == 0.02
    assert "exceed some capacity is at most 2 %" in audit_text(known)
    assert "exceed some capacity is at most 2 %" in public_page(known)
    assert abs(sum(part.payment for part in parts)) <= 1e-6 * known.worth


def test_reports_state_what_quota_and_payment_reveal() -> None:
    """Both pages state what the payment reveals to the one who moves the money."""
    chosen = options("--parties", "12", "--epsilon", "16", "--resources", "1")
    instance = drawn(chosen)
    agreement = from_table(agreement_table(instance, chosen))
    known, parts = settled_among(agreement, instance, chosen.seed)
    known = replace(known, agreement=replace(agreement, rehearsal=False))  # as if real
    company, calibration = instance.data[0], Calibration(known.agreement)
    settlement = settle(company, known, "party1", parts[0])
    session, all_others = calibration.against(1), calibration.against(11)
    spending = Spending(
        data_set="main", delta=1e-3, session=session, lifetime=session, colluders=(1,)
    )
    report = private_parts(known, "party1", company, settlement, spending)
    text = private_document(known, "party1", report)
    assert all_others.epsilon(1e-3) > 3.0 * 16.0
    text_of_epsilon = f"ε = {at_most(all_others.epsilon(1e-3))}"
    assert f"may learn more, and be right in 100 of 100 cases ({text_of_epsilon})" in text
    assert f"up to {text_of_epsilon} instead of 16" in text
    assert f"up to {text_of_epsilon} instead of 16" in public_page(known)
    assert "Your quota follows from your demands without noise" in text
    assert "at most 1 other member shares what it knows" in text


def test_pro_rata_quotas_have_no_risk() -> None:
    """With much noise all quotas are equal, fill the capacities, and cannot exceed them."""
    known, parts = settled("--parties", "5", "--epsilon", "1")
    quotas = np.array([part.quota for part in parts])
    assert (quotas == quotas[0]).all()
    assert (quotas.sum(axis=0) > known.agreement.ticks - 5).all()
    assert known.quota_risk == 0.0
    assert "quota      pro rata" in audit_text(known)
    assert "in proportion to what the company may claim" in public_page(known)


def in_a_ball(*arguments: str) -> tuple[Outcome, list[Allocation], Instance]:
    """A session with the step `ball`, as if it were no rehearsal."""
    chosen = options(*arguments)
    chosen.step, instance = None, drawn(chosen)
    agreement = from_table(agreement_table(instance, chosen))
    assert agreement.ball
    known, parts = settled_among(agreement, instance, chosen.seed)
    return replace(known, agreement=replace(agreement, rehearsal=False)), parts, instance


def test_pages_of_a_ball_state_risk_levy_and_what_is_not_covered() -> None:
    """The risk and the levy are on the public page; both pages say what no ε covers."""
    known, parts, instance = in_a_ball("--parties", "20", "--epsilon", "16", "--rounds", "12")
    quotas = np.array([part.quota for part in parts])
    assert (quotas.sum(axis=0) <= known.agreement.ticks).all()
    assert known.quota_risk == 0.05
    assert "exceed some capacity is at most 5 %" in audit_text(known)
    page = public_page(known)
    assert "Payments need not add up to zero" in page
    assert "No guarantee covers either" in page
    lacking = -sum(part.payment for part in parts)
    noise = float((ball(known.agreement).noise * known.prices * instance.capacity).sum())
    estimate = expected_levy(known.agreement, known.totals, known.path)
    assert abs(estimate - lacking) <= 4.0 * noise
    session = Calibration(known.agreement).against(1)
    spending = Spending(
        data_set="main", delta=1e-3, session=session, lifetime=session, colluders=(1,)
    )
    settlement = settle(instance.data[0], known, "party1", parts[0])
    report = private_parts(known, "party1", instance.data[0], settlement, spending)
    text = private_document(known, "party1", report)
    assert "Your quota and your payment follow from your demands without noise" in text


def test_if_nothing_can_be_traded_pages_say_so() -> None:
    """Every quota is the endowment, no member pays, and there is no risk."""
    known, parts, _ = in_a_ball("--parties", "5", "--epsilon", "1", "--rounds", "5")
    assert [part.quota.tolist() for part in parts] == known.endowment.tolist()
    assert {part.payment for part in parts} == {0.0}
    assert known.quota_risk == 0.0
    assert "quota      the endowment" in audit_text(known)
    assert "nothing is traded: each quota is what" in public_page(known)
    assert "reveal nothing" in public_page(known)


def in_bands(seed: int) -> Instance:
    """The paper's companies: the first may bring some of everything, all have a floor."""
    plain = draw(seed, parties=4, demands=False)
    least = np.outer([-0.2, 0.1, 0.1, 0.05], plain.capacity)
    return replace(plain, floor=least, share=np.full_like(plain.share, 0.7))


@pytest.mark.parametrize("kind", ["in bands", "whole"])
def test_masks_change_no_result_for_any_kind_of_model(kind: str) -> None:
    """Prices, quotas and plans equal those of `reveal = each`, bit for bit, within capacities."""
    instance = in_bands(1) if kind == "in bands" else knapsacks(1, parties=4, resources=2, things=9)
    best = central(instance)
    totals, each = (
        play(instance, best, options("--mode", "exact", "--reveal", reveal, "--rounds", "60"))
        for reveal in ("totals", "each")
    )
    same = ("prices", "rounds_played", "quota_utility", "quota_plans", "quota_overrun")
    assert {key: totals[key] for key in same} == {key: each[key] for key in same}
    assert totals["payments"] == pytest.approx(each["payments"], rel=1e-9, abs=1e-6)
    assert totals["without_plan"] == totals["quota_overrun"] == 0
    assert 0.0 <= totals["quota_loss"] <= (1e-3 if kind == "in bands" else 0.1)


@pytest.mark.parametrize("epsilon", ["1", "100"])
def test_with_noise_quotas_stay_in_their_bands(epsilon: str) -> None:
    """No member has less than its floor or more than its share."""
    chosen, instance = options("--epsilon", epsilon), in_bands(2)
    agreement = from_table(agreement_table(instance, chosen))
    known, parts = settled_among(agreement, instance, chosen.seed)
    least, most = instance.bands
    given = np.array([amounts(agreement, p.quota, k) for k, p in enumerate(parts)])
    assert (given >= least - 1e-9).all()
    assert (given <= most + 1e-4).all()
    assert (given.sum(axis=0) <= instance.capacity + 1e-9).all()
    assert abs(sum(part.payment for part in parts)) <= 1e-6 * known.worth
    for part, company, member in zip(parts, instance.data, agreement.members, strict=True):
        plan = settle(company, known, member.name, part).within_quota
        assert plan is not None
        assert (plan.uses <= given[agreement.place(member.name)]).all()


def test_figures_of_a_simulation_name_reveal() -> None:
    """Figures name `reveal`; with equal shares each noise share is √(K − 1) times smaller."""
    found: dict[str, Any] = {
        reveal: simulate(
            options("--parties", "6", "--epsilon", "8", "--reveal", reveal), lambda _: None
        )
        for reveal in ("each", "totals")
    }
    assert {name: figures["reveal"] for name, figures in found.items()} == {
        "each": "each",
        "totals": "totals",
    }
    each, part = (found[name]["noise_std_over_capacity"] for name in ("each", "totals"))
    assert each / part == pytest.approx(np.sqrt(5.0), rel=1e-6)
