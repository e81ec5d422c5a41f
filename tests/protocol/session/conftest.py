"""Watches the sessions of the tests that ask for it."""

from collections.abc import Iterator

import pytest

from protocol.session.machine import Session
from protocol.session.phases import TRANSITIONS, Event, Phase
from tests.support.session_harness import SessionHarness, assert_invariants

Row = tuple[Phase, Event]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Row, Phase]]]:
    """All transitions of a test. At its end the invariants of every party are checked."""
    steps: list[tuple[Row, Phase]] = []
    step = Session._go

    def watched(session: Session, event: Event) -> None:
        before = session.phase
        step(session, event)
        steps.append(((before, event), session.phase))

    monkeypatch.setattr(Session, "_go", watched)
    SessionHarness.seen = []
    yield steps
    assert all(TRANSITIONS.get(row) is phase for row, phase in steps)
    for party in SessionHarness.seen:
        assert_invariants(party)
