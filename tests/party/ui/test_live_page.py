"""What the page of a party says is wrong, while it lasts."""

import json
import urllib.request
from typing import Any

from party.ui.console import View
from party.ui.live_page import PageView
from protocol.runtime.presence import clock_text
from protocol.session.phases import Phase
from tests.support.builders import make_agreement, play
from tests.support.wait import LIMIT


def health(view: PageView) -> dict[str, Any]:
    address = f"{view._server.address}healthz"
    with urllib.request.urlopen(address, timeout=LIMIT) as answer:  # noqa: S310
        return dict(json.load(answer))


def trouble(view: PageView) -> str:
    return str(health(view)["trouble"])


def test_trouble_is_shown_while_it_lasts() -> None:
    """A coordinator that answers again is no trouble; a member that is still away is."""
    unreached = "cannot reach the coordinator at tcp://127.0.0.1:1: nothing answers there"
    waiting = f"Waiting for ben (away since {clock_text(60.0)})."
    with PageView(View(), make_agreement(members=3), "ada", port=0) as view:
        for text, away, expected in (
            ("", {}, "Waiting for ben."),
            ("", {"ben": 60.0}, waiting),
            (unreached, {"ben": 60.0}, f"{unreached}. {waiting}"),
            ("", {"ben": 60.0}, waiting),
        ):
            view.unreached(text)
            view.waiting(Phase.COLLECTING, ("ben",), away)
            assert trouble(view) == expected
        view.waiting(Phase.COLLECTING, (), {})
        assert trouble(view) == ""
        view.warn("the disk is nearly full")
        view.waiting(Phase.COLLECTING, (), {})
        assert trouble(view) == "the disk is nearly full"


def test_a_party_that_was_started_again_shows_all_closed_rounds() -> None:
    """Its page has the numbers and charts of one that never stopped, and what is wrong stays."""
    agreement = make_agreement(rounds=9)
    transcript, states = play(agreement, rounds=4)
    with (
        PageView(View(), agreement, "ada", port=0) as old,
        PageView(View(), agreement, "ada", port=0) as new,
    ):
        for state, releases in zip(states[1:], transcript.rounds, strict=True):
            old.round(state, releases)
        new.warn("the disk is nearly full")
        new.resumed(states[-1])
        assert health(new)["rounds_closed"] == 4
        assert trouble(new) == "the disk is nearly full"
        pages = [view._live.page().partition("How the prices move")[2] for view in (old, new)]
        charts = [page.split("</figure>")[:-1] for page in pages]
        assert charts[0] == charts[1] != []


def test_a_chart_begins_with_the_first_round_that_is_known() -> None:
    """A certificate of round 3 is not drawn as that of round 1."""
    agreement = make_agreement(rounds=9, prices={"step": "center"})
    _, states = play(agreement, rounds=3)
    with PageView(View(), agreement, "ada", port=0) as view:
        view.resumed(states[-1])
        assert view._live._state.certificate_trail.first == 3
