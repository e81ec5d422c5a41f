"""The public page: what it says, that it adds up, and how it looks."""

import math
import re

import numpy as np
import pytest
from msgspec.structs import replace

from party.settlement.result_files import result
from protocol.agreement.quantities import quantities
from protocol.errors import BadTranscript
from protocol.outcome.outcome import Outcome, outcome
from protocol.report.charts import CHARTS
from protocol.report.format import ROWS, coins, figure
from protocol.report.public import public_page
from protocol.rounds import RoundEngine
from tests.support.browser import Browser
from tests.support.builders import make_agreement, play, public_key
from tests.support.report_pages import HOSTILE, SCRIPT, SEEN, SPENDING, Page, certain, played, value

both_pages = pytest.mark.parametrize("kind", ["public", "private"])


def page_of(kind: str) -> str:
    return played().public() if kind == "public" else played().private()


@both_pages
def test_page_loads_and_runs_nothing(kind: str) -> None:
    """A page has no script, no link and nothing to fetch, and its policy forbids both."""
    page = page_of(kind)
    read = Page(page)
    active = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a", "use"}
    assert not read.names & active
    attributes = {name for _, found in read.tags for name in found}
    assert not attributes & {"src", "srcset", "href", "action", "style", "background"}
    assert not {name for name in attributes if name.startswith("on")}
    assert not re.search(r"https?:|url\(|@import", page)
    policy = [a["content"] for _, a in read.tags if a.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


@both_pages
def test_names_with_markup_stay_text(kind: str) -> None:
    """A name with markup is shown as it is and adds no element."""
    read = Page(page_of(kind))
    assert f"in {SCRIPT}" in read.text
    assert (HOSTILE in read.text) == (kind == "private")


@pytest.mark.parametrize("capacity", [1e-9, 0.3, 7.0, 120.0, 13.5591345, 98765.4321, 1e12])
def test_shown_quotas_add_up(capacity: float) -> None:
    """The rows of every quota table add up to the capacity, in units and in percent."""
    agreement = make_agreement(resource=[{"name": "hours", "capacity": capacity}])
    rows = next(Page(public_page(outcome(agreement, play(agreement)[0]))).quotas())
    assert [row[0] for row in rows] == ["ada", "ben", "cyd", "total = capacity"]
    *members, total = rows
    assert sum(value(row[2]) for row in members) == value(total[1])
    assert sum(value(row[3]) for row in members) == value(total[2]) == 100
    assert float(value(total[1])) == pytest.approx(capacity, rel=1e-4)


def test_quotas_on_the_page_match_the_result_file() -> None:
    """A quota on the page equals that in the result file, to the last digit shown."""
    it = played()
    content = result(it.outcome, it.member, it.settlement, SPENDING)
    for j, rows in enumerate(Page(it.public()).quotas()):
        for row, member in zip(rows[:-1], it.agreement.members, strict=True):
            exact = content["quota"][member.name][j]
            digits = -int(value(row[2]).as_tuple().exponent)
            assert float(value(row[2])) == pytest.approx(exact, abs=1.01 * 10.0**-digits)


def test_rows_beyond_the_limit_are_summed() -> None:
    """With too many members or resources the page says so, and its totals still add up."""
    count = ROWS + 5
    members = [{"name": f"m{k}", "signing_key": public_key(f"m{k}").hex()} for k in range(count)]
    agreement = make_agreement(member=members, resources=CHARTS + 2, rounds=1)
    read = Page(public_page(outcome(agreement, play(agreement)[0])))
    assert f"The first {CHARTS} of {CHARTS + 2} resources are shown" in read.text
    tables = list(read.quotas())
    assert len(tables) == CHARTS + 2
    for rows in tables:
        *shown, more, total = rows
        assert (len(shown), more[0]) == (ROWS, "and 5 more")
        assert sum(value(row[2]) for row in (*shown, more)) == value(total[1])
    assert len([name for name, _ in read.tags if name == "figure"]) == 2 * CHARTS


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_unfinished_session_is_marked_as_not_binding(rounds: int) -> None:
    """The page of a transcript without seals says how far the session went."""
    agreement = make_agreement(rounds=3)
    read = Page(public_page(outcome(agreement, play(agreement, rounds=rounds)[0])))
    assert f"not finished: {rounds} of 3 rounds are closed" in read.text
    assert "not sealed" in read.text


def test_missing_seals_are_named() -> None:
    """With all rounds closed, an unsealed outcome names the members whose seals are missing."""
    agreement = make_agreement(rounds=3)
    known = outcome(agreement, play(agreement, rounds=3)[0], unsealed=("ben", "cyd"))
    read = Page(public_page(known))
    assert "not finished" not in read.text
    assert "This outcome is not sealed" in read.text
    assert "seals of members are missing here: ben, cyd" in read.text


def test_sealed_session_shows_how_to_check_it() -> None:
    """The page of a sealed transcript shows digest, chain hash and the audit command."""
    agreement = make_agreement()
    transcript, positions = play(agreement)
    read = Page(public_page(outcome(agreement, transcript)))
    assert "not finished" not in read.text
    assert "sealed by all" in read.text
    assert positions[-1].chain_hash.hex() in read.text
    assert agreement.digest.hex() in read.text
    assert "protocol audit session.transcript --agreement agreement.toml" in read.text


def test_page_states_the_guarantee() -> None:
    """The page has the privacy statement of the agreement, also if there is no guarantee."""
    private = make_agreement(mode="private", privacy={"epsilon": 3.0, "delta": 1e-5})
    text = Page(public_page(outcome(private, play(private)[0]))).text
    assert "(ε=3, δ=1e-05)-locally differentially private" in text
    assert "With it they guess right in at most 65 of 100." in text
    assert "Verdict:" in text
    assert "next to nothing" not in text
    weak = make_agreement(mode="private", privacy={"epsilon": 64.0, "delta": 1e-5})
    assert "next to nothing" in Page(public_page(outcome(weak, play(weak)[0]))).text
    hidden = make_agreement()
    assert "none: mode 'exact'" in Page(public_page(outcome(hidden, play(hidden)[0]))).text
    assert "This is a rehearsal" in Page(played().public()).text


def test_transcript_with_wrong_rounds_gives_no_outcome() -> None:
    """A transcript whose rounds are in the wrong order is refused."""
    agreement = make_agreement()
    transcript, _ = play(agreement)
    with pytest.raises(BadTranscript, match="round 1"):
        outcome(agreement, replace(transcript, rounds=transcript.rounds[::-1]))


PUBLIC_HEADINGS = [
    "The capacities and their prices",
    "How good the outcome is, at least",
    "The quotas",
    "Who pays whom",
    "How the prices moved",
    "Total demand compared with the capacity",
    "Privacy",
    "Check it yourself",
]


PRIVATE_HEADINGS = [
    "What the session is worth to you",
    "Your quota and how you use it",
    "Your plan",
    "How certain that is",
    "If you could buy whatever you want",
    "What privacy was spent",
]


@pytest.mark.parametrize(("width", "mobile"), [(390, True), (1280, False)], ids=["phone", "desk"])
@both_pages
def test_page_is_readable_on_a_screen(
    browser: Browser, kind: str, width: int, mobile: bool
) -> None:
    """On a phone and on a desk nothing sticks out, charts are drawn, headings are seen."""
    asked = browser.show(page_of(kind), width=width, height=844, mobile=mobile)
    assert len(asked) == 1, "the page asked for more than itself"
    seen = browser.measure(SEEN)
    assert seen["viewport"] == width
    assert seen["scroll"] <= width
    assert browser.outside() == []
    own = PRIVATE_HEADINGS if kind == "private" else []
    assert seen["headings"] == [played().agreement.session, *own, *PUBLIC_HEADINGS]
    assert len(seen["charts"]) == 10
    assert all(w > 250 and h > 100 for w, h in seen["charts"])
    assert all(w > 150 and h > 10 for w, h in seen["lines"])
    assert seen["bars"]
    assert all(w > 25 and h > 5 for w, h in seen["bars"])
    assert seen["size"] >= 13
    if kind == "public":
        assert seen["banner"] is None
        return
    assert seen["banner"]["text"] == "PRIVATE — for party1 only, do not forward"
    assert 0 <= seen["banner"]["top"] < 100
    assert seen["banner"]["colours"] == ["rgb(255, 255, 255)", "rgb(156, 31, 23)"]


def test_public_page_certifies_the_outcome() -> None:
    """The page has the certificate in money and in percent, its condition, and the early end."""
    it = certain()
    certificate = it.outcome.certificate
    assert certificate is not None
    text = Page(it.public()).text
    part = (
        100.0 * certificate.bound / math.fsum(it.outcome.prices * quantities(it.agreement).capacity)
    )
    most = coins(it.agreement, certificate.bound, most=True)
    assert (
        f"Any other plan for all companies together would earn at most {most} more "
        f"({figure(part)} % of what all capacities are worth)"
    ) in text
    assert "if every company answered all prices with a best plan of its own." in text
    assert it.outcome.rounds < 150
    assert f"{it.outcome.rounds} of 150, ended by itself" in text
    assert "add up to its capacity exactly" not in text
    assert "final prices" not in text


def test_shown_payments_add_up() -> None:
    """Rows and columns of the payments add up on both pages, the last column to zero."""
    it = certain()
    for page in (it.public(), it.private()):
        rows = next(rows for rows in Page(page).tables if "It pays, EUR" in rows[0])
        chain_hash, *members, total = rows
        assert chain_hash == [
            "Company",
            "What it brings is worth, EUR",
            "Its quota is worth, EUR",
            "It pays, EUR",
        ]
        for row, payment in zip(members, it.outcome.payments.tolist(), strict=True):
            brought, quota, paid = map(value, row[1:])
            assert quota - brought == paid
            assert abs(float(paid) - payment) < 0.01
        assert [sum(value(row[i]) for row in members) for i in (1, 2, 3)] == [
            value(cell) for cell in total[1:]
        ]
        assert value(total[3]) == 0
    brings = next(rows for rows in Page(it.public()).tables if "May claim" in rows[0])
    assert [row[2] for row in brings[1:]] == ["50 %", "25 %", "25 %"]


def test_unused_capacity_is_shown() -> None:
    """If full shares leave some of a capacity, the total is below the capacity and says so."""
    members = [
        {"name": name, "signing_key": public_key(name).hex(), "share": share}
        for name, share in (("ada", 0.25), ("ben", 1.0))
    ]
    agreement = make_agreement(
        member=members,
        prices={"trade_limit": 1.0},
        rounds=1,
        resource=[{"name": "hours", "capacity": 100.0}],
    )
    ticks = agreement.ticks
    engine = RoundEngine(agreement)
    values = np.array([[ticks // 4], [ticks // 4]], dtype=np.int64)
    state = engine.advance(engine.opening, values)
    known = Outcome(
        agreement=agreement,
        state=state,
        released=values[None],
        path=np.array([engine.opening.prices.current, state.prices.current]),
        sealed=True,
    )
    read = Page(public_page(known))
    [rows] = [rows for rows in read.tables if rows and "total, of" in rows[-1][0]]
    assert [value(row[3]) for row in rows[:-1]] == [25, 65]
    assert rows[-1] == ["total, of 100.00", "90.00", "90.00 %"]
    assert "Where the quotas leave a part of a capacity unused" in read.text


def test_charts_are_wide_on_wide_screens(browser: Browser) -> None:
    """On a large screen charts are wider than on a desk."""
    widths = []
    for width in (1280, 1920):
        browser.show(certain().public(), width=width, height=1080, mobile=False)
        seen = browser.measure(SEEN)
        assert browser.outside() == []
        widths.append(seen["charts"][0][0])
    assert widths[1] > 1.4 * widths[0]
