"""Who is here and who has left, in real sessions: log, page and the other members agree."""

import json
import urllib.request
from pathlib import Path

import pytest

from protocol.runtime.presence import MARK, Presence
from scripts.lab.common.local_session import coordinator_command, party_command
from tests.support.local_sessions import RunningSession, assert_undisturbed, options
from tests.support.process_control import Brake, kill, until_reported
from tests.support.relay_client import hello, speaking
from tests.support.wait import LIMIT, until

ARGUMENTS = ("--mode", "exact", "--no-demands", "--reveal", "each")


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=LIMIT) as answer:  # noqa: S310
        return str(answer.read().decode())


def said(session: RunningSession, name: str, text: str) -> None:
    until(lambda: text in session.stderr(name), f"{name} says {text!r}")


def away(session: RunningSession, name: str) -> dict[str, float | None]:
    """Who is away, as a party has reported last."""
    reports = [event["away"] for event in session.events[name] if event["event"] == "waiting"]
    return dict(reports[-1]) if reports else {}


@pytest.mark.parametrize("topology", ["relay", "mesh"])
def test_a_member_that_leaves_is_away_everywhere(tmp_path: Path, topology: str) -> None:
    """Log, page, health and the other members say since when; when it is back, it is here."""
    chosen = options(*ARGUMENTS, "--topology", topology)
    with RunningSession(tmp_path / "s", chosen) as session:
        session.launch("coordinator", [*coordinator_command(session.folder), "--page"])
        page = until(lambda: session.page("coordinator"), "the page is there")
        first = [*party_command(session.folder, "party1", chosen), "--page"]
        session.launch("party1", first)
        own = until(lambda: session.page("party1"), "the party's page is there")
        session.start_party("party2")
        said(session, "coordinator", "party2 is here (2 of 3); waiting for party3")
        until_reported(session, "party1", "waiting")  # before that it says nothing about party2
        until(lambda: "party2" not in away(session, "party1"), "party1 knows that party2 is here")
        kill(session, "party2")
        said(session, "coordinator", "party2 is away since")
        until(lambda: away(session, "party1").get("party2"), "party1 knows that party2 has left")
        assert away(session, "party1")["party3"] is None, "it was never here"
        for address in (page, own):
            until(lambda a=address: "away since" in get(a), "the page says so")  # type: ignore[misc]
            health = json.loads(get(f"{address}healthz"))
            assert health["members"]["party2"].startswith("away since")
            assert 'sotto_member_here{member="party2"} 0' in get(f"{address}metrics")
        session.start_party("party2")
        until(lambda: session.stderr("coordinator").count("party2 is here") > 1, "it is back")
        session.start_party("party3")
        session.wait(LIMIT)
        assert_undisturbed(session, *ARGUMENTS)


def test_no_member_makes_another_one_look_here_or_away(tmp_path: Path) -> None:
    """Forwarded and forged messages, and connections of its own, say nothing of another member."""
    with RunningSession(tmp_path / "s", options(*ARGUMENTS)) as session:
        session.start_coordinator()
        session.start_party("party1")
        said(session, "coordinator", "party1 is here (1 of 3)")
        false = Presence(session.names)  # as if all members were away
        for number in range(5):
            with speaking(session, "party2") as liar:  # a new connection each time
                liar.send(hello(session, "party3", number=number))
                liar.send(false.packed(0.0))
                liar.send(hello(session, "party2", number=number))
                said(session, "coordinator", "party2 is here")
        said(session, "coordinator", "party2 is away since")
        log = session.stderr("coordinator")
        assert "party3 is" not in log
        assert "party1 is away" not in log
        assert log.count("party2 is ") < 10
        until_reported(session, "party1", "waiting")
        assert MARK.hex() == "01"
        assert "party1" not in away(session, "party1")


def test_a_party_that_was_started_again_says_how_many_rounds_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its health check does so at once, while no further round can close."""
    chosen = options(rounds=20)
    with RunningSession(tmp_path / "s", chosen) as session:
        brake = Brake(session, monkeypatch, name="party1", furthest=6)
        session.start()
        brake.reached()
        kill(session, "party2")
        session.launch("party2", [*party_command(session.folder, "party2", chosen), "--page"])
        own = until(lambda: session.page("party2"), "the party's page is there")
        closed = until(
            lambda: json.loads(get(f"{own}healthz"))["rounds_closed"], "it knows closed rounds"
        )
        assert closed >= 5  # it had released round 6, so 5 rounds were closed and durable
        brake.let_go()
        session.wait(LIMIT)
        assert_undisturbed(session)
