"""Companies with whole numbers are told what the certificate is not about, and what they lose."""

import csv
import io
import re

import numpy as np
from msgspec.structs import replace

from party.model.company_model import CompanyModel, dense
from party.settlement.private_sections import certainty, loss_with_integers
from party.settlement.result_files import plan_csv, result
from party.settlement.settle import Settlement, settle
from party.settlement.spending import Spending
from protocol.outcome.outcome import Outcome
from protocol.privacy.accountant import PrivacyCost
from scripts.lab.common.instances import Instance
from tests.support.exact_sessions import agreed, allocations, play, problems_of

ITEMS = ((3.0, 30.0, 2), (2.5, 20.0, 2))
"""What one item uses and earns, and how many there are."""


def whole() -> CompanyModel:
    """A company that makes whole items."""
    uses, earns, count = (np.array(column) for column in zip(*ITEMS, strict=True))
    made = dense(
        A=uses[None],
        B=np.zeros((0, 2)),
        u=earns,
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.zeros(2),
        upper=count.astype(np.float64),
    )
    return replace(made, integer=np.array([True, True]))


def divisible(earns: float) -> CompanyModel:
    return dense(
        A=np.array([[1.0]]),
        B=np.zeros((0, 1)),
        u=np.array([earns]),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.zeros(1),
        upper=np.array([6.0]),
    )


def settled(earns: float = 9.0) -> tuple[Outcome, CompanyModel, Settlement]:
    data = (whole(), divisible(earns), divisible(9.5))
    instance = Instance(np.array([10.0]), np.ones((3, 1)), data)
    agreement = agreed(instance, worth=80.0)
    found = play(agreement, problems_of(agreement, instance))
    assert not found.no_trade
    return found, data[0], settle(data[0], found, "party1", allocations(found)[0])


def best_mixture(quota: float) -> float:
    """The most that a mixture of the company's plans earns within a quota, by trying all pairs."""
    plans = [
        (a * ITEMS[0][0] + b * ITEMS[1][0], a * ITEMS[0][1] + b * ITEMS[1][1])
        for a in range(3)
        for b in range(3)
    ]
    best = max(earned for used, earned in plans if used <= quota)
    for low, less in plans:
        for high, more in plans:
            if low <= quota < high:
                best = max(best, less + (more - less) * (quota - low) / (high - low))
    return best


def test_the_loss_against_mixtures_is_an_upper_bound() -> None:
    """No mixture within the quota earns more above the plan than the settlement says."""
    found, _, own = settled()
    assert own.within_quota is not None
    assert own.mixture_loss is not None
    quota = 10.0 * float(own.quota_ticks[0]) / found.agreement.ticks
    missed = best_mixture(quota) - own.within_quota.utility
    assert found.certificate is not None
    assert missed <= own.mixture_loss + 1e-9
    # CERTIFICATE.md §7: the mixture of its answers is within P of the bound.
    assert own.mixture_loss <= missed + found.certificate.bound + 1e-6
    text = "".join(certainty(found, whole(), own).itertext())
    assert "Mixtures of your plans within your quota would earn at most" in text


def test_a_model_without_integers_has_no_such_loss() -> None:
    """Its plan is a mixture already."""
    _, _, own = settled()
    assert replace(own, integer_columns=0).mixture_loss is None


def test_a_loss_is_told_before_the_company_acts() -> None:
    """A section warns, only if the plan with whole numbers leaves the company worse off."""
    _, _, own = settled()
    assert own.alone is not None
    better = replace(own, payment=-1000.0)
    worse = replace(own, payment=1000.0)
    assert not loss_with_integers(better)
    [warning] = loss_with_integers(worse)
    assert "leaves you worse off than alone" in "".join(warning.itertext())
    assert not loss_with_integers(replace(worse, integer_columns=0))


def test_whole_columns_are_written_as_integers() -> None:
    """Every value of an integer column in plan.csv is an integer, in both plans."""
    _, data, own = settled()
    written = list(csv.reader(io.StringIO(plan_csv(data, own))))[1:]
    assert len(written) == 2
    assert all(re.fullmatch(r"-?[0-9]+", cell) for row in written for cell in row[1:])


def test_the_result_has_the_loss_among_its_private_fields() -> None:
    """`private.mixture_loss` is the number, and no public field has it."""
    found, _, own = settled()
    nothing = PrivacyCost()
    spending = Spending(data_set="main", delta=0.001, session=nothing, lifetime=nothing)
    content = result(found, "party1", own, spending)
    assert content["private"]["mixture_loss"] == own.mixture_loss
    assert "mixture_loss" not in content
