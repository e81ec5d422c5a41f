"""What `protocol plan` says of an agreement before anybody joins."""

from typing import Any

import pytest

from protocol.forecast import forecast, statement
from protocol.pages.terminal import plan_text
from tests.kit.builders import make_agreement


def priced(worth: float) -> list[dict[str, Any]]:
    return [{"name": "hours", "capacity": 10.0, "worth": worth}]


def test_plan_names_the_agreement_and_its_promise() -> None:
    """The digest to compare, the privacy statement and the bound of the theorem are there."""
    privacy = {"epsilon": 8.0, "delta": 1e-3}
    agreement = make_agreement(mode="private", privacy=privacy, resource=priced(30.0))
    figures = forecast(agreement)
    text = plan_text(agreement, figures)
    assert agreement.digest.hex() in text
    assert statement(agreement) in text
    assert f"at most {figures['theorem_gap']:.4g} (theorem)" in text
    assert f"each party sends 3 messages of {figures['release_bytes']} bytes and receives 6" in text


@pytest.mark.parametrize(
    ("epsilon", "share", "word"),
    [(None, 1.0, "no noise"), (1e-3, 1.0, "drowns"), (10.0, 1.0, "faint"), (100.0, 0.34, "clear")],
)
def test_verdict_is_in_plain_words(epsilon: float | None, share: float, word: str) -> None:
    """How the noise compares with the capacity decides what people are told."""
    members = [{"name": name, "share": share} for name in ("ada", "ben", "cyd")]
    terms: dict[str, Any] = {"member": members, "resource": priced(30.0)}
    if epsilon is not None:
        terms |= {"mode": "private", "privacy": {"epsilon": epsilon, "delta": 1e-3}}
    agreement = make_agreement(**terms)
    assert word in plan_text(agreement, forecast(agreement)).splitlines()[-1]


def test_plan_of_resources_that_are_worth_nothing() -> None:
    """Where the first prices are known to be right there is no step to tell."""
    agreement = make_agreement(resource=priced(0.0))
    text = plan_text(agreement, forecast(agreement))
    assert "at most 0 (theorem)" in text
    assert "with the step" not in text
