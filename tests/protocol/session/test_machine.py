"""One party as a whole: every transition of the table, and random sequences of events."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from protocol.errors import (
    InternalError,
)
from protocol.session.phases import TRANSITIONS, Event, Phase
from protocol.wire.messages import (
    NO_NONCE,
)
from tests.support.builders import release_at
from tests.support.session_harness import (
    SessionHarness,
    assert_invariants,
    ending_early,
    lying,
)

pytestmark = pytest.mark.usefixtures("taken")

Row = tuple[Phase, Event]


# The table


def two_releases(party: SessionHarness, round: int) -> list[str]:  # noqa: A002
    return party.receive(party.release("ben", round), party.release("ben", round, values=(1, 2)))


ROWS: dict[Row, Callable[[], object]] = {
    (Phase.HANDSHAKE, Event.EVERYONE_ANSWERED): lambda: SessionHarness().after_handshake(),
    (Phase.HANDSHAKE, Event.LAST_ROUND_CLOSED): lambda: SessionHarness(
        closed=2, released=2
    ).after_handshake(),
    (Phase.HANDSHAKE, Event.ROUND_CLOSED): lambda: [
        (s := SessionHarness(released=1)).begin(),
        s.receive(*(s.release(peer, 0) for peer in s.peers)),
    ],
    (Phase.HANDSHAKE, Event.FAULT): lambda: two_releases(SessionHarness(), 0),
    (Phase.RESPONDING, Event.SUBMITTED): lambda: SessionHarness().collecting(),
    (Phase.RESPONDING, Event.FAULT): lambda: two_releases(SessionHarness().after_handshake(), 0),
    (Phase.COLLECTING, Event.ROUND_CLOSED): lambda: SessionHarness().collecting(1),
    (Phase.COLLECTING, Event.LAST_ROUND_CLOSED): lambda: SessionHarness().sealing(),
    (Phase.COLLECTING, Event.FAULT): lambda: two_releases(SessionHarness().collecting(), 0),
    (Phase.SEALING, Event.EVERYONE_SEALED): lambda: SessionHarness().finished(),
    (Phase.SEALING, Event.FAULT): lambda: (s := SessionHarness().sealing()).receive(
        s.release("ben", 1, values=(1, 2))
    ),
}


def test_every_transition_has_a_scenario() -> None:
    """The scenarios cover exactly the table of transitions."""
    assert ROWS.keys() == TRANSITIONS.keys()


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{row[0].name}-{row[1].name}")
def test_every_transition_of_the_table_happens(row: Row, taken: list[tuple[Row, Phase]]) -> None:
    """Each one is taken in its scenario."""
    ROWS[row]()
    assert row in [step for step, _ in taken]


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("phase", Phase)
def test_a_transition_outside_the_table_is_a_defect(phase: Phase, event: Event) -> None:
    """It raises an internal error."""
    session = SessionHarness().session
    session.phase = phase
    if (phase, event) in TRANSITIONS:
        session._go(event)
        assert session.phase is TRANSITIONS[phase, event]
    else:
        with pytest.raises(InternalError):
            session._go(event)


# Random events


@st.composite
def random_events(draw: st.DrawFn) -> list[tuple[str, ...] | tuple[str, int]]:
    """Anything that peers may sign, true or not, and time, and the gate."""
    sender = st.sampled_from(("ben", "cyd"))
    small = st.integers(0, 3)
    one = st.one_of(
        st.tuples(st.just("hello"), sender, small, small, small),
        st.tuples(st.just("release"), sender, small, small, small),
        st.tuples(st.just("release"), sender, small, st.just(0), st.just(0)),
        st.tuples(st.just("seal"), sender, small, small, small),
        st.tuples(st.just("halt"), sender, small, small, small),
        st.tuples(st.just("answer")),
        st.tuples(st.just("wait"), st.sampled_from((0.05, 0.1, 1.0, 200.0))),
        st.tuples(st.just("honest"), sender),
    )
    return draw(st.lists(one, max_size=40))


@settings(max_examples=400)
@given(events=random_events(), early=st.booleans())
def test_no_sequence_of_events_breaks_an_invariant(
    events: list[tuple[object, ...]], early: bool
) -> None:
    """Signed messages, time and the gate come in any order."""
    SessionHarness.seen = []
    party = SessionHarness(agreement=ending_early()) if early else SessionHarness(rounds=2)
    party.begin()
    for event in events:
        apply_event(party, event)
    assert_invariants(party)


def apply_event(party: SessionHarness, event: tuple[object, ...]) -> None:
    if event[0] == "answer":
        if party.session.phase is Phase.RESPONDING:
            party.submit()
        return
    if event[0] == "wait":
        party.advance_time(float(str(event[1])))
        return
    sender = str(event[1])
    if event[0] == "honest":
        here = party.session.state
        if not here.over:
            party.receive(party.hello(sender), release_at(party.agreement, sender, here))
        else:
            party.receive(replace(party.seal(sender), round=here.round, chain_hash=here.chain_hash))
        return
    round_, a, b = (int(str(n)) for n in event[2:])
    at = min(round_, len(party.positions) - 1)
    hashes = (party.positions[at].chain_hash, party.session.state.chain_hash, bytes(32), b"x" * 32)
    if event[0] == "hello":
        echo = (None, NO_NONCE, None, b"?" * 16)[b]
        hello = party.hello(sender, round=at, chain_hash=hashes[a], echo=echo, wants_reply=b == 2)
        party.receive(hello)
    elif event[0] == "release":
        values = (None, (1, 2), (3, 4), (-5, 6))[b]
        release = party.release(sender, at, values=values)
        party.receive(lying(release, chain_hash=hashes[a], round=round_))
    elif event[0] == "seal":
        claimed = at if b % 2 else None
        party.receive(party.seal(sender, has_all_seals=b > 1, chain_hash=hashes[a], round=claimed))
    else:
        evidence = [*party.transcript.rounds[b % 2], party.release("cyd", b % 2, values=(a, a))]
        party.receive(party.halt(sender, at, *evidence[: a + 1], chain_hash=hashes[b]))
