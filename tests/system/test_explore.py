"""All orders of events of small sessions: every promise holds in every state.

`scripts/explore` runs larger cases and says what was covered.
"""

import random
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from protocol.errors import SottoError
from tests.support.exploration.bugs import BUGS
from tests.support.exploration.case import Case
from tests.support.exploration.explorer import Explorer
from tests.support.exploration.families import Families
from tests.support.exploration.lies import LIES
from tests.support.exploration.party import Event, Local, Players
from tests.support.exploration.trace import Found, replay
from tests.support.simulated_disk import Violation

_LONG = BUGS["a mask key is made again after a crash"]  # its families take long


def finish(steps: Iterator[None]) -> None:
    """Explore until nothing is new."""
    for _ in steps:
        pass


@pytest.mark.parametrize("rounds", [1, 2])
def test_two_parties_keep_every_promise_in_every_order_of_messages(rounds: int) -> None:
    """Whatever is lost, repeated or late: one release a round, one transcript, and an end."""
    finish(Explorer(Case(rounds=rounds)).run())


def test_a_crash_at_any_step_breaks_no_promise() -> None:
    """A party that loses power once, at any step of its disk or between two messages, goes on."""
    finish(Explorer(Case(crashes=1, greeted=True)).run())


@pytest.mark.parametrize("rounds", [1, 2])
def test_families_of_two_parties_with_a_crash_keep_every_promise(rounds: int) -> None:
    """With the whole handshake, a crash at any step breaks no promise, and every state ends."""
    families = Families(Case(rounds=rounds, crashes=1))
    finish(families.run())
    finish(families.require_ends())


def test_three_parties_keep_every_promise_in_every_order_of_messages() -> None:
    """Three members whose releases are readable, in any order, finish alike."""
    finish(Families(Case(members=3)).run())


@pytest.mark.parametrize("lie", LIES)
def test_a_liar_is_named_or_changes_nothing(lie: str) -> None:
    """Honest parties finish alike, or stop and name the liar; they never name another member."""
    explorer = Explorer(Case(lies=(lie,), greeted=True))
    finish(explorer.run())


@pytest.mark.parametrize("lie", ["second-release", "impossible-number", "second-commitment"])
def test_two_honest_parties_agree_whatever_the_third_signs(lie: str) -> None:
    """A member that lies about masked releases or commitments cannot part two honest ones."""
    families = Families(Case(members=3, reveal="totals", lies=(lie,)))
    finish(families.run())
    finish(families.require_ends())


@pytest.mark.parametrize("bug", BUGS)
def test_exploration_finds_a_seeded_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session with this bug breaks a promise, and the events that are printed replay it."""
    where, name, replacement, case = BUGS[bug]
    monkeypatch.setattr(where, name, replacement)
    with pytest.raises(Found) as found:
        finish(Explorer(case).run())
    with pytest.raises(Exception) as again:  # noqa: PT011
        replay(case, found.value.trace)
    assert found.value.what in (str(again.value), repr(again.value))


@pytest.mark.parametrize("bug", [bug for bug in BUGS if not BUGS[bug].case.greeted])
def test_no_event_of_a_printed_trace_can_be_left_out(
    bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trace of a broken promise is a shortest one: without any of its events none is broken."""
    where, name, replacement, case = BUGS[bug]
    monkeypatch.setattr(where, name, replacement)
    with pytest.raises(Found) as found:
        finish(Explorer(case).run())
    trace, what = found.value.trace, found.value.what
    to_end = _broken_by(case, trace, to_end=False) != what
    for at in range(len(trace)):
        shorter = [*trace[:at], *trace[at + 1 :]]
        assert _broken_by(case, shorter, to_end=to_end) != what, shorter


def _broken_by(case: Case, trace: list[str], *, to_end: bool) -> str | None:
    try:
        replay(case, trace, to_end=to_end)
    except Exception as error:
        return str(error) if isinstance(error, Violation) else repr(error)
    return None


class Twins(Players):
    """Keeps the parties that count as one state with an earlier party."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.merged: list[tuple[int, Local]] = []

    def _local_id(self, local: Local) -> int:
        found = super()._local_id(local)
        if local.driver is not None and self.locals[found].driver is not local.driver:
            self.merged.append((found, local))
        return found


CASES = [
    Case(rounds=2),
    Case(crashes=1, greeted=True),
    Case(greeted=True, lies=("wrong-chain-hash", "boast")),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parties_that_count_as_one_state_act_alike(case: Case) -> None:
    """Every event makes a merged party send the same bytes and reach the same state."""
    explorer = Explorer(case)
    explorer.players = twins = Twins(case.agreement, lives=case.crashes + 2)
    explorer.liveness._players = explorer._promises._players = twins
    finish(explorer.run())
    events: dict[int, list[tuple[Event, bool]]] = {}
    for local, event, exact in twins._steps:
        events.setdefault(local, []).append((event, exact))
    compared = 0
    for number, party in random.Random(1).sample(twins.merged, min(400, len(twins.merged))):
        for event, exact in events.get(number, []):
            assert twins._play(party, event, exact) == twins.step(number, event, exact=exact)
            compared += 1
    assert compared > 1000


@pytest.mark.parametrize("bug", [bug for bug in BUGS if BUGS[bug] is not _LONG])
def test_families_find_a_seeded_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No bug hides in a family."""
    where, name, replacement, case = BUGS[bug]
    monkeypatch.setattr(where, name, replacement)
    families = Families(case)
    with pytest.raises((Violation, Found, SottoError)):
        finish(chain(families.run(), families.require_ends()))
