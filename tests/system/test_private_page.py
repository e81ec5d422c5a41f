"""The private report of a company: what it says, to whom, and how it looks."""

import csv
import io
import json
import math
from decimal import Decimal
from statistics import NormalDist

import numpy as np
import pytest
from msgspec.structs import replace

from party.model.company_model import CompanyModel
from party.settlement.result_files import public_result, result
from party.settlement.settle import Plan, Settlement, settle
from party.settlement.spending import Spending
from protocol.agreement.quantities import quantities
from protocol.privacy.accountant import PrivacyCost
from protocol.privacy.ball import ball
from protocol.report.csv import public_csv
from protocol.report.format import coins, fixed
from scripts.lab.common.agreements import drawn
from tests.support.browser import Browser
from tests.support.local_sessions import options
from tests.support.report_pages import (
    SEEN,
    SPENDING,
    Page,
    Played,
    amount,
    brought,
    certain,
    noisy,
    played,
    value,
)

PLANTED = 7919.2671


EPSILON = SPENDING.session.epsilon(1e-3)


def test_only_the_private_page_is_marked_private() -> None:
    """The banner of the private page names the member; the public page has none."""
    it = played()
    assert (
        Page(it.private()).text.split("PRIVATE — ")[1].startswith("for party1 only, do not forward")
    )
    public = Page(it.public())
    assert "PRIVATE" not in public.text
    assert "do not forward" not in public.text
    assert ("body", {"class": "public"}) in public.tags


def test_private_page_contains_the_public_page() -> None:
    """All public sections are on the private page."""
    it = played()
    private = Page(it.private()).text
    public = Page(it.public()).text
    assert public[public.index("The capacities and their prices") :] in private


def planted(it: Played) -> Settlement:
    """A settlement of recognisable numbers."""
    count, m = it.data.columns, it.data.resources
    plans = [Plan(np.full(count, n), np.full(m, n / 1e4), n) for n in PLANTED * np.arange(1, 4)]
    return replace(it.settlement, within_quota=plans[0], alone=plans[1], at_prices=plans[2])


def test_no_private_number_is_public() -> None:
    """Planted numbers are on the private page and under "private", and nowhere else."""
    it = played()
    secret = planted(it)
    marks = ("7919", "7,919", "0.7919", "15,838", "23,757", "1.5838", "2.3757")
    page = it.private(secret)
    assert any(mark in page for mark in marks)
    assert not any(mark in it.public() for mark in marks)
    content = result(it.outcome, it.member, secret, SPENDING)
    private = content.pop("private")
    assert "7919" in json.dumps(private)
    assert not any(mark in json.dumps(content) for mark in marks)


def test_private_page_shows_utilities_and_spending() -> None:
    """Utilities, gain, payment and privacy cost are there, and the price plan is not guaranteed."""
    it = played()
    secret = planted(it)
    text = Page(it.private(secret)).text
    for number in (PLANTED, 2 * PLANTED, 3 * PLANTED, secret.paid or 0.0):
        assert fixed(round(100 * number), 2) in text
    assert "You are worse off than alone by" in text
    assert "Your price plan (not guaranteed)" in text
    assert f"In this session your data spent epsilon {EPSILON:.4g} at delta 0.001." in text
    assert "together the data set 'main' has spent everything" in text


def test_too_small_quota_shows_what_is_missing() -> None:
    """Without a plan within the quota, the page shows the shortfall in units and percent."""
    it = played()
    read = Page(it.private(it.short()))
    assert "Your quota is too small" in read.text
    missing = next(rows for rows in read.tables if "Addition" in rows[0])
    assert [row[2] for row in missing[1:]] == ["+12.5000 %", "+25.0000 %"]
    assert float(value(missing[1][1])) == pytest.approx(
        quantities(it.agreement).capacity[1] / 8, rel=1e-3
    )
    unknown = Page(it.private(replace(it.short(), extra_ticks=None))).text
    assert "could not be computed" in unknown


def test_plan_shows_the_largest_variables() -> None:
    """The page has the fifty largest variables and says where the others are."""
    it = played()
    count = 60
    sizes = np.linspace(-40.0, 19.0, count)
    data = replace(it.data, names=tuple(f"make{i}" for i in range(count)), utility=sizes)
    plan = Plan(sizes, np.zeros(5), 1.0)
    whole = replace(it.settlement, within_quota=plan, at_prices=None)
    read = Page(replace(it, data=data).private(whole))
    rows = next(rows for rows in read.tables if rows[0][0] == "Variable")
    assert rows[1] == ["make0", "\u221240.0000", "–"]
    assert len(rows) == 51
    assert "The 50 largest of 60 variables" in read.text


def test_unanswered_rounds_are_private() -> None:
    """The private page and result count rounds without an answer; nothing public does."""
    it = played()
    secret = it.settlement
    asserted = f"In 7 of {it.outcome.rounds} rounds your solver had no answer"
    assert asserted in it.private(unanswered=7)
    assert "had no answer" not in it.private()
    content = result(it.outcome, it.member, secret, SPENDING, unanswered=7)
    assert content["private"]["rounds_without_answer"] == 7
    assert "answer" not in json.dumps(public_result(it.outcome, it.member))


def test_printed_private_page_is_marked(browser: Browser) -> None:
    """Printed without colour, the banner is black on white in a frame."""
    browser.show(played().private(), width=794, height=1123, mobile=False)
    with browser.on_paper() as size:
        banner = browser.measure(SEEN)["banner"]
    assert banner["colours"] == ["rgb(0, 0, 0)", "rgba(0, 0, 0, 0)"]
    assert banner["border"] >= 3
    assert size > 20_000


def test_no_name_runs_as_a_script(browser: Browser) -> None:
    """In a real browser, hostile names add no script and no image."""
    browser.show(played().private(), width=1280, height=844, mobile=False)
    assert browser.measure("document.querySelectorAll('script, img').length") == 0
    assert browser.measure("document.body.textContent.includes('<script>alert(1)</script>')")


def facts_of(text: str) -> dict[str, Decimal]:
    """The figures of the first section of a private page by what they are."""
    return {
        "alone": amount(text, "your plan earns"),
        "within": amount(text, "Within your quota it earns"),
        "left": amount(text, "Left after payment"),
        "gain": amount(text, "You are better off by"),
    }


def test_private_page_begins_with_the_gain() -> None:
    """Alone, within the quota, payment and gain come first, in the currency, and add up."""
    it = certain()
    text = Page(it.private()).text
    begin = text.index("What the session is worth to you")
    assert begin < text.index("Your quota and how") < text.index("Your plan") < text.index("How c")
    assert "4 companies share" not in text[:begin]
    shown = facts_of(text)
    payment = amount(text, "You pay" if it.settlement.payment > 0.0 else "You get")
    payment = payment if it.settlement.payment > 0.0 else -payment
    assert shown["within"] - payment == shown["left"]
    assert shown["left"] - shown["alone"] == shown["gain"]
    assert it.settlement.gain is not None
    assert float(shown["gain"]) == pytest.approx(it.settlement.gain, abs=0.03)
    assert f"it earns{fixed(int(shown['within'] * 100), 2)} EUR" in text


def test_loss_is_bounded_by_the_certificate() -> None:
    """Without noise the page states the most that a company can lose, and no company loses more."""
    it = certain()
    certificate = it.outcome.certificate
    assert certificate is not None
    assert certificate.fits
    text = Page(it.private()).text
    bound = coins(it.agreement, certificate.bound, most=True)
    assert f"no company, whatever its data, loses more than {bound} by joining" in text
    assert "no promise" not in text
    for data, member in zip(drawn_data(), it.agreement.members, strict=True):
        gain = settle(data, it.outcome, member.name).gain
        assert gain is not None
        assert gain >= -certificate.bound


def drawn_data() -> list[CompanyModel]:
    """The models of all companies of `certain`."""
    chosen = options("--mode", "exact", "--no-demands", parties=3, rounds=150)
    return list(drawn(chosen).data)


def test_noise_gives_no_promise_against_loss() -> None:
    """With noise the page says that there is no promise, and why."""
    it = played()
    text = Page(it.private()).text
    assert "no promise that no company loses by joining, because prices follow from" in text
    assert "no company, whatever its data" not in text
    assert "Nothing is certified: with noise" in text
    assert "A company may well be worse off than alone." in text


@pytest.mark.parametrize(("loss", "ticks"), [(1.0, 1), (1.0, 2), (5e3, 1)])
def test_rounding_is_not_called_a_loss(loss: float, ticks: int) -> None:
    """A quota that differs from the endowment by one cheap tick is called rounding."""
    it = played()
    plan = it.settlement.within_quota
    assert plan is not None
    secret = replace(
        it.settlement,
        quota_ticks=it.settlement.endowment_ticks - ticks,
        within_quota=replace(plan, utility=1e6),
        alone=replace(plan, utility=1e6 - it.settlement.payment + loss),
    )
    text, rounding = Page(it.private(secret)).text, (loss, ticks) == (1.0, 1)
    rounded = "Your quota is what you bring: except for rounding, you are as well off as alone."
    assert (rounded in text) == rounding
    assert ("You are worse off than alone by" in text) == (not rounding)
    assert amount(text, "You are worse off by") == pytest.approx(Decimal(loss), abs=Decimal("0.03"))


def test_cut_quotas_give_a_smaller_promise() -> None:
    """If demand does not fit, both pages say what is proved before and after the cut, no more."""
    it = certain()
    certificate = it.outcome.certificate
    assert certificate is not None
    center = it.outcome.state.prices.center
    assert center is not None
    unfit = replace(center, best=replace(certificate, fits=False))
    state = replace(it.outcome.state, prices=replace(it.outcome.state.prices, center=unfit))
    cut = replace(it, outcome=replace(it.outcome, state=state))
    for page in (cut.private(), cut.public()):
        text = Page(page).text
        assert "and the quotas were cut by that. Before the cut, any other plan would earn" in text
        assert "About other companies nothing is proved after the cut." in text
        assert "Any other plan" not in text
    text = Page(cut.private()).text
    assert "Quotas were cut by up to 1.4e−10\u00a0%, because averaged demands do not fit." in text
    assert "a company that also has a plan with nothing loses by joining at most" in text
    assert "no company, whatever its data" not in text


@pytest.mark.parametrize(
    ("alone", "within", "expected"),
    [
        (
            False,
            True,
            "Without the others you have no plan; with your quota you have one.",
        ),
        (True, False, "Within your quota no plan is possible; see below what is missing."),
        (False, False, "Within your quota no plan is possible; see below what is missing."),
        (True, True, "You are better off than alone by"),
    ],
)
def test_missing_plans_are_explained(alone: bool, within: bool, expected: str) -> None:
    """A company without a plan alone, or within its quota, reads what holds for it."""
    it = certain()
    secret = replace(
        it.settlement,
        alone=it.settlement.alone if alone else None,
        within_quota=it.settlement.within_quota if within else None,
    )
    text = Page(it.private(secret)).text
    assert expected in text
    assert ("Alone your plan earnsno plan" in text) == (not alone)
    assert ("Your quota is too small" in text) == (not within)


def test_costs_are_shown_as_costs() -> None:
    """For a model that minimises, the page says costs, and lower is better."""
    it = certain()
    paid = replace(it, data=replace(it.data, minimises=True))
    within, alone = it.settlement.within_quota, it.settlement.alone
    assert within is not None
    assert alone is not None
    costs = replace(
        it.settlement,
        within_quota=replace(within, utility=-400.0),
        alone=replace(alone, utility=-1000.0),
    )
    text = Page(paid.private(costs)).text
    assert amount(text, "Alone your plan costs") == 1000
    assert amount(text, "Within your quota it costs") == 400
    gain = 600.0 - it.settlement.payment
    assert float(amount(text, "You are better off than alone by")) == pytest.approx(gain, abs=0.02)
    assert "earns" not in text.split("From here on")[0]


@pytest.mark.parametrize(("width", "mobile"), [(390, True), (1280, False)], ids=["phone", "desk"])
def test_first_screen_answers_what_you_ask(browser: Browser, width: int, mobile: bool) -> None:
    """Gain, payment, certainty and privacy are seen without scrolling."""
    for it in (certain(), played()):
        browser.show(it.private(), width=width, height=844, mobile=mobile)
        seen = browser.measure(SEEN)
        assert seen["scroll"] <= width
        assert browser.outside() == []
        bottom = browser.measure(
            "document.querySelector('.verdicts').getBoundingClientRect().bottom"
        )
        assert 0.0 < bottom < 844.0
        first = "document.querySelector('section').textContent"
        text = browser.measure(first)
        places = [text.index(word) for word in ("off than alone by", "Payment", "Certainty")]
        assert places == sorted(places)
        assert text.index("Certainty") < text.index("Privacy")


def test_decimal_points_are_in_line(browser: Browser) -> None:
    """In the columns of prices and of the plan all decimal points are in line."""
    it = certain()
    browser.show(it.private(), width=1280, height=844, mobile=False)
    points = browser.measure(POINTS)
    assert {"Price, EUR", "Within your quota"} <= points.keys()
    for name, places in points.items():
        assert max(places) - min(places) < 0.6, name


POINTS = """(() => {
  const found = {};
  for (const table of document.querySelectorAll('section > table')) {
    [...table.querySelectorAll('thead th')].forEach((head, i) => {
      if (!['Price, EUR', 'Within your quota', 'Capacity'].includes(head.textContent)) return;
      found[head.textContent] = [...table.querySelectorAll('tbody tr')].map(row => {
        const node = document.createTreeWalker(row.children[i], NodeFilter.SHOW_TEXT).nextNode();
        const range = document.createRange(), at = node.data.indexOf('.');
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        return range.getBoundingClientRect().left;
      });
    });
  }
  return found;
})()"""


def test_privacy_answer_fits_the_agreement() -> None:
    """Without noise nothing is claimed; with noise the page says how often a guess is right."""
    hidden = Page(certain().private()).text
    assert "There is no guarantee (no noise): the others can know what you would take" in hidden
    masked = replace(certain().agreement, reveal="totals")
    known = replace(certain().outcome, agreement=masked)
    only = Page(certain().private(outcome=known)).text
    assert "The others can read what all companies together would take, exactly" in only
    assert "Totals without noise can reveal one company’s demands" in only
    assert "There is no guarantee" not in only
    it = played()
    real = replace(
        it, outcome=replace(it.outcome, agreement=replace(it.agreement, rehearsal=False))
    )
    weak = Spending(
        data_set="main", delta=1e-3, session=PrivacyCost(400.0), lifetime=PrivacyCost(400.0)
    )
    for spending, shown in ((SPENDING, False), (weak, True)):
        text = Page(real.private(spending=spending)).text
        right = math.ceil(100.0 * NormalDist().cdf(math.sqrt(spending.session.mu_squared) / 2.0))
        assert f"guess right in at most {right} of 100 cases instead of 50" in text
        first = text.split("Your quota and how")[0]
        assert ("next to nothing" in first) == shown
        assert "no guarantee" not in first


def test_report_has_its_date() -> None:
    """A report shows its date if it has one."""
    it = certain()
    page = it.private(written="17 November 2026")
    assert "Private report for party1, 17 November 2026" in Page(page).text
    assert "Private report for party1, " not in Page(it.private()).text


def test_failed_solver_leaves_out_the_price_plan() -> None:
    """Without a plan at the prices, its section is left out."""
    it = certain()
    text = Page(it.private(replace(it.settlement, at_prices=None))).text
    assert "If you could buy whatever you want" not in text


def test_company_that_brings_capacity_is_paid() -> None:
    """It makes 4 hours and gets 4 EUR for each: on its page, in its result and in the CSV."""
    it = brought()
    text = Page(it.private()).text
    assert float(amount(text, "You get")) == pytest.approx(16.0, rel=1e-2)
    assert "because your quota is worth less than what you bring" in text
    content = result(it.outcome, it.member, it.settlement, SPENDING)
    quotas = [quota[0] for quota in content["quota"].values()]
    assert quotas == pytest.approx([-4.0, 4.0, 4.0], rel=1e-2)
    assert sum(quotas) <= 4.0
    assert [own[0] for own in content["endowment"].values()] == pytest.approx([0.0, 2.0, 2.0])
    assert sum(content["payments"].values()) == 0.0
    assert content["payments"]["party1"] == pytest.approx(-16.0, rel=1e-2)
    rows = list(csv.DictReader(io.StringIO(public_csv(it.outcome))))[::2]
    for row, quota, own in zip(rows, quotas, content["endowment"].values(), strict=True):
        assert [float(row["quota"]), float(row["brings"])] == [quota, own[0]]
    public = Page(it.public())
    assert "A company with a quota below 0 brings that amount" in public.text
    cells = {cell for table in public.tables for line in table for cell in line}
    assert any(cell.startswith(("\u22124", "\u22123.99")) for cell in cells)


def with_total(it: Played, part: float) -> Played:
    """The same session with totals that fill this fraction of each capacity in every round."""
    released = np.zeros_like(it.outcome.released)
    released[:, 0] = round(part * it.agreement.ticks)
    return replace(it, outcome=replace(it.outcome, released=released))


def test_with_noise_the_page_says_what_a_payment_is_for() -> None:
    """It is for what the company asked for, not for its quota, and the levy comes later."""
    it = noisy()
    text = Page(it.private()).text
    verb = "You get" if it.settlement.payment < 0 else "You pay"
    assert float(amount(text, verb)) == pytest.approx(abs(it.settlement.payment), abs=0.01)
    assert "for what you asked for in the rounds" in text
    assert "because your quota is worth" not in text
    assert "A company pays for what it asked for in each round beyond its centre" in text
    assert "A company pays if its quota is worth" not in text


def test_quotas_that_are_cut_are_said_to_be_less_than_what_is_paid_for() -> None:
    """By the largest cut: totals of 1.1 capacities, and the margin, against one capacity."""
    it = noisy()
    text = Page(with_total(it, 1.1).private()).text
    cut = amount(text, "So your quotas are up to")
    margin = float(ball(it.agreement).margin.max())
    assert float(cut) == pytest.approx(100.0 * (1.0 - 1.0 / (1.1 + margin)), abs=0.5)
    assert "So your quotas are" not in Page(with_total(it, 0.5).private()).text


def test_the_page_states_the_companys_part_of_the_levy() -> None:
    """All together sold all that they bring, so the levy pays them for it: an equal part each."""
    it = noisy()
    text = Page(with_total(it, 0.0).private()).text
    weights, path = np.arange(1.0, it.outcome.rounds + 1), it.outcome.path[: it.outcome.rounds]
    terms = quantities(it.agreement)
    center = ball(it.agreement).center.sum(axis=0) / it.agreement.ticks
    sold = float(weights @ (path * terms.capacity @ center)) / weights.sum()
    said = amount(text, "you also pay your part of the levy, about")
    assert float(said) == pytest.approx(sold / 12.0, rel=1e-3)
    gained = Page(with_total(it, 3.0).private()).text
    assert "you also get back your part of the levy" in gained
