"""The part of the plan page for a lawyer: facts that follow from the agreement, and warnings."""

from typing import Any

import pytest

from protocol.agreement.model import Agreement
from protocol.planning.privacy_statement import statement
from protocol.planning.synthetic_market import Expected
from protocol.report.counsel import cautions, counsel
from protocol.report.plan_trials import gain_in_money
from tests.support.builders import make_agreement

NOISE: dict[str, Any] = {
    "mode": "private",
    "privacy": {"epsilon": 1.0, "delta": 0.001},
    "prices": {},
    "resource": [{"name": "r0", "capacity": 10.0, "worth": 5.0}],
}


def text_of(agreement: Agreement) -> str:
    """All text of the section."""
    return " ".join("".join(counsel(agreement).itertext()).split())


@pytest.mark.parametrize("members", [2, 3, 5])
def test_exact_with_each_is_warned_of_first(members: int) -> None:
    """It says that each company's demand at every price is shown, in the words of the law."""
    first, *_ = cautions(make_agreement(members=members))
    assert "exact demand of every other company at every price" in first
    assert "individual, current and detailed" in first
    assert "competitively sensitive information" in first
    assert "Individual: the answers of each of" in text_of(make_agreement(members=members))


def test_totals_are_called_aggregated_and_their_limits_are_named() -> None:
    """Only sums can be read, and they can still reveal one company's demands."""
    agreement = make_agreement(members=3, reveal="totals")
    text = text_of(agreement)
    assert "Aggregated over 3 companies" in text
    assert "exact demand of every other company" not in text
    first, few = cautions(agreement)
    assert "Totals without noise can reveal one company’s demands" in first
    assert "what the 2 others ask for together" in few
    assert "destroys its mask keys and its own unmasked demands" in text


def test_few_companies_are_warned_of_and_many_are_not() -> None:
    """Up to five companies a total says much about each."""
    table = {"reveal": "totals", **NOISE}
    assert [len(cautions(make_agreement(members=n, **table))) for n in (4, 5)] == [1, 1]
    many = [{"name": f"m{k}"} for k in range(9)]
    assert cautions(make_agreement(member=many, **table)) == []


def test_shared_objectives_are_among_what_is_exchanged() -> None:
    """Where companies also release what they earn, the page does not say that they do not."""
    table = NOISE | {"privacy": NOISE["privacy"] | {"share_objective": True}}
    text = text_of(make_agreement(members=3, **table))
    assert "and what its plan would earn, with noise" in text
    assert "not exchanged (except for what its plan would earn)" in text
    assert "what its plan would earn" not in text_of(make_agreement(members=3))


@pytest.mark.parametrize("reveal", ["each", "totals"])
@pytest.mark.parametrize("terms", [{}, NOISE], ids=["exact", "noise"])
def test_it_answers_what_competition_law_asks(reveal: str, terms: dict[str, Any]) -> None:
    """Kind, age, detail, access, third parties, safeguards and retention; no advice."""
    agreement = make_agreement(members=4, reveal=reveal, **terms)
    text = text_of(agreement)
    for question in (
        *("What is exchanged", "Individual or aggregated", "What is never exchanged"),
        *("Age of the data", "Detail and frequency", "Who has access", "Third parties"),
        *("Safeguards", "Retention", "Decisions"),
    ):
        assert question in text
    assert "This is no legal advice" in text
    assert statement(agreement) in text
    assert ("with noise" in text) == bool(terms)


def test_gains_are_in_money_only_if_worths_are_stated() -> None:
    """Without worths the invented companies have no currency, so percentages are all there is."""
    found = Expected(
        sessions=2, rounds=9, possible=0.2, gain=0.1, placebo_gain=0.0, better=1.0, worse=0.0,
        worst=0.0, alone=1000.0,
    )  # fmt: skip
    worth = [{"name": "r0", "capacity": 10.0, "worth": 5.0}]
    text = gain_in_money(make_agreement(currency="EUR", resource=worth), found)
    assert "earn 100.00 EUR (10\u00a0%) more together than alone" in text
    assert "200.00 EUR (20\u00a0%) more is possible. None of them is worse off" in text
    assert "EUR" not in gain_in_money(make_agreement(currency="EUR"), found)
