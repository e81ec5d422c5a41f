"""The page for companies before they sign: what it says, and how it looks."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from protocol.agreement.model import Agreement
from protocol.agreement.render import written
from protocol.planning.verdict import plan_figures
from protocol.report.plan import plan_page
from protocol.report.plan_trials import variants
from tests.support.browser import Browser
from tests.support.builders import make_agreement, public_key
from tests.support.report_pages import Page, protocol


def agreed(mode: str, **more: Any) -> Agreement:
    """An agreement in EUR with the longest name that a resource can have."""
    names = ("acme", "bolt", "cargo", "delta")
    return make_agreement(
        **{
            "session": "trucks-42",
            "mode": mode,
            "rounds": 60,
            "currency": "EUR",
            "prices": {"start": "worth"},
            "privacy": {} if mode == "exact" else {"epsilon": 1.0, "delta": 1e-3},
            "member": [{"name": n, "signing_key": public_key(n).hex()} for n in names],
            "resource": [
                {"name": "hours", "capacity": 120.0, "worth": 9000.0, "unit": "h"},
                {"name": "W" * 64, "capacity": 16.0, "worth": 4000.0},
            ],
        }
        | more
    )


@cache
def page_of(mode: str) -> str:
    agreement = agreed(mode)
    figures = plan_figures(agreement)
    return plan_page(agreement, figures, variants(agreement, figures))


def test_exact_demand_is_named_and_warned_of() -> None:
    """Without noise every other company sees exact demands, and the page warns of it."""
    text = Page(page_of("exact")).text
    assert "what it would take at the prices of every round, exactly" in text
    assert "may reveal much about a company’s data" in text
    assert "What would be needed" not in text
    assert "noise has its true size" not in text
    assert agreed("exact").digest.hex() in text


def test_noise_page_states_guarantee_and_gain() -> None:
    """With noise the page has the guarantee, the gain beside its placebo, and what would help."""
    text = Page(page_of("private")).text
    assert "what it would take at the prices of every round, with noise" in text
    assert "With it they guess right in at most 58 of 100." in text
    assert "factor" not in text
    assert "brings them nothing of that" in text
    assert "With a placebo, of the possible gain" in text
    assert "What would be needed" in text
    assert "as agreed" in text
    assert "without noise" in text
    assert "on this page" not in text
    figures = plan_figures(agreed("private"))
    assert f"ε = {figures['needed']['faint']['epsilon']:g}" in text
    assert f"{figures['needed']['faint']['members']}" in text


def test_masked_page_states_what_totals_reveal() -> None:
    """Masked answers: the page says what totals, quotas and payments still reveal."""
    agreement = agreed("exact", reveal="totals")
    figures = plan_figures(agreement)
    page = Page(plan_page(agreement, figures, variants(agreement, figures)))
    text, seen = page.text, dict(row for table in page.tables for row in table if len(row) == 2)
    assert "what can be read is what all companies together would take" in text
    kept = "its model, its plan, what it earns, its quota, its payment"
    assert seen["Sent to no one"].startswith(kept)
    assert "may reveal much about a company’s data, even if only totals can be read" in text
    assert seen["A person who moves its payment"] == "what that is worth in money"


def test_sessions_that_are_too_long_give_no_figures() -> None:
    """If sessions take too long to play, the page says so and shows no gain."""
    agreement = agreed("private", rounds=100_000)
    figures = plan_figures(agreement)
    played = variants(agreement, figures)[:1]
    text = Page(plan_page(agreement, figures, played)).text
    assert "too many rounds to try" in text
    assert "Of the possible gain" not in text


@pytest.mark.parametrize("mode", ["exact", "private"])
@pytest.mark.parametrize(("width", "mobile"), [(390, True), (1280, False)], ids=["phone", "desk"])
def test_page_is_readable_on_a_screen(
    browser: Browser, mode: str, width: int, mobile: bool
) -> None:
    """Nothing sticks out, nothing is fetched, and the gain is on the first screen."""
    asked = browser.show(page_of(mode), width=width, height=844, mobile=mobile)
    assert len(asked) == 1
    assert browser.outside() == []
    bottom = browser.measure("document.querySelector('.facts').getBoundingClientRect().bottom")
    assert 0.0 < bottom < 844.0
    with browser.on_paper() as size:
        assert size > 20_000


def test_plan_writes_the_page(tmp_path: Path) -> None:
    """`protocol plan --html` writes one page and prints its path, but never over the agreement."""
    file, page = tmp_path / "agreement.toml", tmp_path / "plan.html"
    file.write_text(written(agreed("exact")))
    assert protocol("plan", str(file), "--html", str(page)).stdout == f"{page}\n"
    assert page.read_text(encoding="utf-8") == page_of("exact")
    printed = protocol("plan", str(file)).stdout
    [gain] = re.findall(r"Invented companies in their place earn.* EUR .*", printed)
    words = re.sub(r"<[^>]+>|\s", "", page.read_text(encoding="utf-8"))
    assert re.sub(r"\s", "", gain) in words, "terminal and page say the same"
    assert "would overwrite" in protocol("plan", str(file), "--html", str(file), code=2).stderr
    missing = tmp_path / "nowhere" / "plan.html"
    assert "cannot be written" in protocol("plan", str(file), "--html", str(missing), code=2).stderr
