"""Whole sessions in which only totals can be read and have noise: quotas, risk, what is said."""

import argparse
from typing import Any

import numpy as np
import pytest

from party.playing import players, run
from party.result import public_result
from party.settle import own_part
from protocol.outcome import Outcome, outcome
from protocol.pages.public import public_page
from protocol.pages.terminal import audit_figures, audit_text
from protocol.parts import Part
from protocol.toml import from_table
from scripts.agreements import agreement_table, drawn
from scripts.simulate import command_line, simulate


def options(*arguments: str) -> argparse.Namespace:
    chosen = ["--reveal", "totals", "--share-total", "2", "--no-demands", "--start", "worth"]
    parsed = command_line().parse_args([*chosen, "--rounds", "30", *arguments])
    parsed.worth = 100.0
    return parsed


def settled(*arguments: str) -> tuple[Outcome, list[Part]]:
    """The outcome of a session, and what each member has worked out for itself."""
    chosen = options(*arguments)
    instance = drawn(chosen)
    agreement = from_table(agreement_table(instance, chosen))
    with players(agreement, instance.subproblems(), chosen.seed) as members:
        run(members)
        known = outcome(agreement, members[0].ledger.transcript())
        parts = [own_part(known, m.session.me, m.ledger) for m in members]
    return known, [part for part in parts if part is not None]


def test_quotas_follow_demands_and_the_risk_is_told() -> None:
    """With little noise quotas differ, stay within capacities, and pages say what may happen."""
    known, parts = settled("--parties", "12", "--epsilon", "100", "--overrun", "0.02")
    quotas = np.array([part.quota for part in parts])
    assert len(quotas) == 12
    assert (quotas.sum(axis=0) <= known.agreement.ticks).all()
    assert (quotas.max(axis=0) > 1.5 * quotas.min(axis=0)).all()
    assert known.quota_risk == 0.02
    assert public_result(known, "party1")["quota_risk"] == 0.02
    assert audit_figures(known)["quota_risk"] == 0.02
    assert "with a risk of 2 % at most" in audit_text(known)
    assert "with a risk of 2 % at most" in public_page(known)
    assert abs(sum(part.payment for part in parts)) <= 1e-6 * known.worth


def test_quotas_by_shares_have_no_risk() -> None:
    """With much noise all quotas are alike, fill the capacities, and nothing can be exceeded."""
    known, parts = settled("--parties", "5", "--epsilon", "1")
    quotas = np.array([part.quota for part in parts])
    assert (quotas == quotas[0]).all()
    assert (quotas.sum(axis=0) > known.agreement.ticks - 5).all()
    assert known.quota_risk == 0.0
    assert "quota      by shares" in audit_text(known)
    assert "in proportion to what the company may claim" in public_page(known)


def test_a_simulation_names_what_can_be_read() -> None:
    """Figures of both can be told apart; with equal shares a part is √(K − 1) times smaller."""
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
