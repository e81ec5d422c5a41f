"""Every page that the product writes: by a checker of accessibility, by keyboard, by day and night.

A live page is read from its real server. The checker is axe, which runs in the browser.
"""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import pytest

from protocol.clearing.settle import from_transcript
from protocol.outcome.replay import round_states
from protocol.planning.verdict import plan_figures
from protocol.report.elements import bar, page
from protocol.report.live import Live
from protocol.report.plan import plan_page
from protocol.report.plan_trials import variants
from protocol.report.settlement import settlement_page
from protocol.rounds import excess_demand, numbers
from protocol.runtime.page_server import PageServer
from tests.support.browser import Browser
from tests.support.report_pages import certain, certain_session, played
from tests.support.wait import until

SCREENS = [(1280, False), (390, True)]
PAGES = ("plan", "private report", "noisy report", "transcript", "settlement")
LIVE = ("coordinator waits", "coordinator", "party")

_AXE = """axe.run(document, {resultTypes: ['violations']}).then(r => r.violations
  .filter(v => ['serious', 'critical'].includes(v.impact) || v.id === 'region')
  .map(v => v.id + ': ' + v.nodes.map(n => n.html.slice(0, 120)).slice(0, 3).join(' | ')))"""
_REACHABLE = """[...document.querySelectorAll('*')].filter(e => e.checkVisibility()
  && (e.matches('a[href], button, input, select, summary, [tabindex]')
    || (e !== document.scrollingElement && e !== document.body
      && /auto|scroll/.test(getComputedStyle(e).overflowX + getComputedStyle(e).overflowY)
      && (e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight)))).length"""
_FOCUSED = """(() => { const e = document.activeElement; if (e === document.body) return null;
  const s = getComputedStyle(e); return [e.outerHTML, s.outlineStyle, s.outlineWidth]; })()"""
_AT_END = "Math.abs(scrollY + innerHeight - document.documentElement.scrollHeight) <= 2"


@cache
def document(name: str) -> str:
    """A page that is written to a file."""
    if name == "plan":
        agreement = certain().agreement
        figures = plan_figures(agreement)
        return plan_page(agreement, figures, variants(agreement, figures))
    if name == "private report":
        return certain().private()
    if name == "noisy report":
        return played().private()
    if name == "transcript":
        return certain().public()
    return settlement_page(from_transcript(certain().outcome), [])


@contextmanager
def served(name: str) -> Iterator[str]:
    """The address of a live page, halfway through a session or before it."""
    agreement, _, transcript = certain_session()
    live = Live(agreement, member="party1" if name == "party" else "")
    live.presence(["party1"], {"party2": "not seen yet", "party3": "away since 17:00"})
    if name != "coordinator waits":
        states, half = list(round_states(agreement, transcript)), len(transcript.rounds) // 2
        live.presence((m.name for m in agreement.members), {})
        for at, releases in enumerate(transcript.rounds[:half]):
            live.closed(at + 1, excess_demand(agreement, numbers(releases)), states[at + 1])
        live.say("party2 is here", "17:00:00")
        live.trouble("Waiting for party3.")
    secret = "an-address-for-tests-only" if name == "party" else ""
    with closing(PageServer(live, port=0, **({"secret": secret} if secret else {}))) as server:
        yield server.address


def tab_through(browser: Browser) -> list[Any]:
    """What the key Tab reaches, one after the other, until it leaves the page."""
    reached: list[Any] = []
    while len(reached) < 200:
        press(browser, "Tab", 9)
        found = browser.measure(_FOCUSED)
        if found is None or found in reached:
            return reached
        reached.append(found)
    return reached


def press(browser: Browser, key: str, code: int) -> None:
    for kind in ("rawKeyDown", "keyUp"):
        browser.call(
            "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
        )


def at_end(browser: Browser) -> bool:
    """Press End; whether the end of the page is shown. A live page may grow after the key."""
    press(browser, "End", 35)
    return bool(browser.measure(_AT_END))


def check_elements(browser: Browser) -> None:
    """Nothing serious on the page that is shown, such as a text that is hardly visible."""
    browser.measure(AXE_SOURCE)
    assert browser.settled(_AXE) == []


def check_screen(browser: Browser) -> None:
    """Nothing serious on the page that is shown, and all of it can be reached by keyboard."""
    check_elements(browser)
    assert browser.outside() == []
    reached = tab_through(browser)
    assert len(reached) == browser.measure(_REACHABLE)
    assert all(style != "none" and width != "0px" for _, style, width in reached)
    until(lambda: at_end(browser), "the key End leads to the end of the page")


AXE_SOURCE = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_written_pages_have_no_barrier(browser: Browser, name: str) -> None:
    """On a desk and on a phone, by day and by night."""
    for width, mobile in SCREENS:
        browser.show(document(name), width=width, height=844, mobile=mobile)
        check_screen(browser)
    with browser.in_colours("dark"):  # at night only colours differ
        browser.show(document(name), width=width, height=844, mobile=mobile)
        check_elements(browser)


@pytest.mark.parametrize("name", LIVE)
def test_live_pages_have_no_barrier(browser: Browser, name: str) -> None:
    """The pages of the coordinator and of a party, while a session waits and while it runs."""
    with served(name) as address:
        for width, mobile in SCREENS:
            browser.visit(address, width=width, height=844, mobile=mobile)
            check_screen(browser)
        with browser.in_colours("dark"):
            browser.visit(address, width=width, height=844, mobile=mobile)
            check_elements(browser)


def test_a_barrier_is_found(browser: Browser) -> None:
    """A pale text, an input without a label and a box that the keyboard cannot reach are seen."""
    pale = '<p style="color: #ccc">pale</p><input>'
    browser.show(f"<title>x</title><main>{pale}</main>", width=390, height=844, mobile=True)
    browser.measure(AXE_SOURCE)
    found = " ".join(browser.settled(_AXE))
    assert "color-contrast" in found
    assert "label" in found


def test_pages_are_dark_at_night(browser: Browser) -> None:
    """The paper follows what the reader has chosen; the printed page is always light."""
    look = "getComputedStyle(document.documentElement).backgroundColor"
    colours = {}
    for scheme in ("light", "dark"):
        with browser.in_colours(scheme):
            browser.show(document("transcript"), width=1280, height=844, mobile=False)
            colours[scheme] = browser.measure(look)
    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 24, 31)"}


@pytest.mark.parametrize("percent", [0, 1, 30, 50, 100])
def test_a_bar_is_as_long_as_its_figure(browser: Browser, percent: int) -> None:
    """A bar of 30 % fills 30 % of its track, with or without a mark, on every screen."""
    for width, mobile in SCREENS:
        for mark in (None, 0.1, 0.8):
            drawn = page("x", bar(percent / 100.0, mark=mark))
            browser.show(drawn, width=width, height=844, mobile=mobile)
            lengths = browser.measure(
                "[...document.querySelectorAll('.bar rect')].map(e => "
                "e.getBoundingClientRect().width)"
            )
            track, filled = lengths[0], sum(lengths[1:])
            assert filled / track == pytest.approx(percent / 100.0, abs=0.002)


@pytest.mark.parametrize("name", ["private report", "transcript"])
def test_bars_beside_a_percentage_have_its_length(browser: Browser, name: str) -> None:
    """In both reports the figure in percent that ends a row is the length of the row's bar."""
    browser.show(document(name), width=1280, height=844, mobile=False)
    rows = browser.measure(
        "[...document.querySelectorAll('tr:has(.bar)')].map(r => ["
        "r.lastElementChild.textContent, [...r.querySelectorAll('.bar rect')].map("
        "e => e.getBoundingClientRect().width)])"
    )
    assert len(rows) > 5
    for text, (track, *filled) in rows:
        figure = float(text.replace(",", "").replace("%", "").strip())
        assert 100.0 * sum(filled) / track == pytest.approx(figure, abs=0.5), json.dumps(rows)
