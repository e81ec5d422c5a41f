"""What the page of a party says is wrong, while it lasts."""

import json
import urllib.request

from party.ui.console import View
from party.ui.live_page import PageView
from protocol.runtime.presence import clock_text
from protocol.session.phases import Phase
from tests.support.builders import make_agreement
from tests.support.wait import LIMIT


def trouble(view: PageView) -> str:
    address = f"{view._server.address}healthz"
    with urllib.request.urlopen(address, timeout=LIMIT) as answer:  # noqa: S310
        return str(json.load(answer)["trouble"])


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
