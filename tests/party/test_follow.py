"""A party that follows a series joins the sessions that its operator signed, and no others."""

import math
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import Struct, field
from msgspec.structs import asdict, replace

import party.follow
from party.abandon import abandon
from party.follow import POLL_SECONDS, Series, follow
from party.ledger.session_ledger import Ledger
from party.model.best_response import MipLimits
from party.run import PartyConfig
from party.ui.console import View
from protocol.agreement.model import Agreement, Privacy, Role
from protocol.agreement.parse import parse
from protocol.agreement.render import written
from protocol.errors import NoTrade, SottoError, Unavailable, Unsealed, Unsolved
from protocol.outcome.continuation import next_agreement
from protocol.outcome.outcome import Outcome, outcome
from protocol.wire.approval import approve
from tests.support.builders import make_agreement, signing_key
from tests.support.committed_sessions import CommittedSession, play_until_over
from tests.support.ledgers import release

STANDING = make_agreement(
    session="trucks-7", rounds=4, reveal="totals", prices={"step": "center"},
    transport={"coordinator": "tcp://relay.example.org:5555"},
)  # fmt: skip


class Follower(Struct):
    """The party of ada, with its ledger and the folder that it watches."""

    series: Series
    folder: Path
    said: list[str]
    #: How many files were written.
    written: int = 0

    def announce(self, agreement: Agreement, name: str = "") -> Agreement:
        """Put an agreement into the folder, as its file says it."""
        path = self.folder / f"{name or agreement.session}.toml"
        path.write_text(written(agreement))
        self.written += 1
        os.utime(path, ns=(self.written, self.written))  # later, also if the clock is coarse
        return parse(written(agreement))

    def joins(self) -> str | None:
        """The name of the session that it would join now."""
        found = self.series.next_session()
        return None if found is None else found.session


def follower(tmp_path: Path, *, within: float = 0.2, last: int = 20) -> Follower:
    folder = tmp_path / "announced"
    folder.mkdir()
    sign = signing_key("ada").sign
    approval = approve(STANDING, "ada", lambda text: sign(text).signature, last=last, within=within)
    said: list[str] = []
    ledger = tmp_path / "ada.ledger"
    return Follower(Series(STANDING, approval, folder, "ada", ledger, said.append), folder, said)


def played(tmp_path: Path, agreement: Agreement = STANDING, *, sealed: bool = True) -> Outcome:
    """Play a session of the series in ledgers that are files, and close them."""
    session: CommittedSession = play_until_over(agreement, 1, tmp_path)
    result = session.sealed() if sealed else outcome(agreement, session.transcript)
    for ledger in session.ledgers:
        ledger.close()
    return result


def following(result: Outcome, number: int = 8, **capacities: float) -> Agreement:
    """The next agreement, as an honest convener writes it."""
    return next_agreement(result, session=f"trucks-{number}", capacities=capacities)


def test_it_begins_with_the_standing_agreement(tmp_path: Path) -> None:
    """Without any session in the ledger it joins the first one."""
    assert follower(tmp_path).joins() == "trucks-7"


def test_it_waits_until_the_next_session_is_announced(tmp_path: Path) -> None:
    """After a sealed session it joins nothing until there is a file, then that session."""
    ada, result = follower(tmp_path), played(tmp_path)
    assert ada.joins() is None
    ada.announce(following(result, r0=11.5))
    assert ada.joins() == "trucks-8"
    assert ada.said == []


def test_prices_and_rounds_are_those_of_its_own_ledger(tmp_path: Path) -> None:
    """With the same capacities the rounds are carried along, and it finds them right."""
    ada, result = follower(tmp_path), played(tmp_path)
    agreement = following(result)
    assert agreement.pricing.earlier
    assert agreement.pricing.start == tuple(result.prices.tolist())
    ada.announce(agreement)
    assert ada.joins() == "trucks-8"


def test_it_accepts_a_session_that_starts_anew(tmp_path: Path) -> None:
    """A convener without a transcript starts at the prices of the standing agreement."""
    ada = follower(tmp_path)
    played(tmp_path)
    ada.announce(next_agreement(STANDING, session="trucks-8", capacities={"r1": 19.0}))
    assert ada.joins() == "trucks-8"


def _first_member(**changes: object) -> Callable[[Agreement], Agreement]:
    def change(agreement: Agreement) -> Agreement:
        first, *rest = agreement.members
        return replace(agreement, members=(replace(first, **changes), *rest))

    return change


def _pricing(**changes: object) -> Callable[[Agreement], Agreement]:
    return lambda a: replace(a, pricing=replace(a.pricing, **changes))


def _transport(**changes: str) -> Callable[[Agreement], Agreement]:
    return lambda a: replace(a, transport=replace(a.transport, **changes))


SLIPPED: list[tuple[Callable[[Agreement], Agreement], str]] = [
    (lambda a: replace(a, members=a.members[:2], reveal="each"), "member 'cyd' is left out"),
    (_first_member(signing_key=b"\3" * 32), "signing_key of member 'ada'"),
    (_first_member(transport_key="x" * 40), "transport_key of member 'ada'"),
    (_first_member(address="tcp://evil.example.org:1"), "address of member 'ada'"),
    (_first_member(share=(0.9, 0.9)), "share of member 'ada'"),
    (lambda a: replace(a, reveal="each"), "reveal: totals -> each"),
    (lambda a: replace(a, rounds=5), "rounds: 4 -> 5"),
    (lambda a: replace(a, currency="EUR"), "currency"),
    (lambda a: replace(a, pace_seconds=1.0), "pace_seconds"),
    (lambda a: replace(a, clearing=Role("thief", b"\5" * 32)), "clearing"),
    (_pricing(trade_limit=0.9), "prices.trade_limit"),
    (_pricing(tolerance=0.01), "prices.tolerance"),
    (_pricing(start=(7.0, 0.0)), "first price of resource 'r0'"),
    (_pricing(earlier=((1.0, 1.0, 0.5, 0.5),)), "prices.earlier"),
    (_transport(coordinator="tcp://evil.example.org:5555"), "transport.coordinator"),
    (_transport(coordinator_key="y" * 40), "transport.coordinator_key"),
    (_transport(topology="mesh"), "transport.topology"),
]


@pytest.mark.parametrize(("slip", "why"), SLIPPED, ids=[why for _, why in SLIPPED])
def test_other_terms_are_refused_in_words(
    tmp_path: Path, slip: Callable[[Agreement], Agreement], why: str
) -> None:
    """What a convener slips in beside a new capacity is named, and the session is not joined."""
    ada, result = follower(tmp_path), played(tmp_path)
    ada.announce(slip(following(result, r0=11.0)))
    assert ada.joins() is None
    assert ada.joins() is None
    (text,) = ada.said  # once, however often it looks
    assert "'trucks-8' is not what you signed, so it is refused" in text
    assert why in text
    ada.announce(following(result, r0=11.0))
    assert ada.joins() == "trucks-8"


def test_more_noise_terms_are_refused(tmp_path: Path) -> None:
    """A larger epsilon or more colluders than in the standing agreement are refused."""
    standing = make_agreement(
        session="n-1", mode="private", reveal="totals", members=5, prices={},
        privacy={"epsilon": 1.0, "delta": 0.001, "colluders": 1},
        resource=[{"name": "r0", "capacity": 10.0, "worth": 5.0}],
    )  # fmt: skip
    sign = signing_key("ada").sign
    approval = approve(standing, "ada", lambda t: sign(t).signature, last=9, within=0.2)
    series = Series(standing, approval, tmp_path, "ada", tmp_path / "ada.ledger", print)
    good = next_agreement(standing, session="n-2", capacities={"r0": 11.0})
    assert series.refusals(good, []) == []
    assert good.privacy is not None
    for change, why in (
        ({"epsilon": 4.0}, "privacy.epsilon: 1 -> 4"),
        ({"colluders": 2}, "privacy.colluders: 1 -> 2"),
        ({"delta": 0.01}, "privacy.delta"),
    ):
        bad = replace(good, privacy=Privacy(**asdict(good.privacy) | change))
        assert why in series.refusals(bad, [])[0]


@pytest.mark.parametrize(("name", "capacity"), [("trucks-8", 12.5), ("trucks-21", 10.0)])
def test_limits_are_those_that_were_signed(tmp_path: Path, name: str, capacity: float) -> None:
    """A capacity beyond the limit, or a session after the last one, is refused."""
    ada, result = follower(tmp_path), played(tmp_path)
    ada.announce(next_agreement(result, session=name, capacities={"r0": capacity}))
    assert ada.joins() is None
    assert "approved" in ada.said[0]


def test_an_old_session_is_not_played_again(tmp_path: Path) -> None:
    """Neither an earlier week nor the last one under other terms is joined."""
    ada, result = follower(tmp_path), played(tmp_path)
    ada.announce(next_agreement(result, session="trucks-6", capacities={}))
    again = ada.announce(
        next_agreement(result, session="trucks-7", capacities={"r0": 9.0}), "again"
    )
    assert ada.joins() is None
    (text,) = ada.said
    assert STANDING.digest.hex() in text
    assert again.digest.hex() in text


def test_sessions_follow_one_after_another(tmp_path: Path) -> None:
    """Each session starts at the prices of the one before, in the order of their numbers."""
    ada, result = follower(tmp_path), played(tmp_path)
    eight = ada.announce(following(result, r0=11.0))
    nine = next_agreement(eight, session="trucks-9", capacities={"r0": 10.5})
    ada.announce(_pricing(start=(0.5, 0.5))(nine))  # announced before its prices are known
    assert ada.joins() == "trucks-8"
    second = played(tmp_path, eight)
    assert ada.joins() is None
    ada.announce(following(second, 9, r0=10.5))
    assert ada.joins() == "trucks-9"


def test_a_stopped_session_is_resumed(tmp_path: Path) -> None:
    """A session without seals goes on, until the next one is announced."""
    ada, result = follower(tmp_path), played(tmp_path, sealed=False)
    assert ada.joins() == "trucks-7"
    ada.announce(following(result, r0=11.0))
    assert ada.joins() == "trucks-8"


def test_a_session_in_the_middle_is_finished_first(tmp_path: Path) -> None:
    """With rounds open the next session has to wait, unless the operator gives up the first."""
    ada, result = follower(tmp_path), played(tmp_path)
    eight = ada.announce(following(result, r0=11.0))
    with closing(Ledger(tmp_path / "ada.ledger", eight, "ada")) as ledger:
        ledger.record_release(release(eight, 0))
    ada.announce(following(result, 9))
    assert ada.joins() == "trucks-8"
    abandon(eight, tmp_path / "ada.ledger", out=None, confirm=lambda _: None)
    assert ada.joins() == "trucks-9"


def test_a_lost_agreement_is_asked_for(tmp_path: Path) -> None:
    """Without the file of the last session it joins nothing, and says what is missing."""
    ada, result = follower(tmp_path), played(tmp_path)
    eight = ada.announce(following(result, r0=11.0))
    played(tmp_path, eight)
    (ada.folder / "trucks-8.toml").unlink()
    assert ada.joins() is None
    assert "the agreement of 'trucks-8', which you joined, is not in" in ada.said[0]


def test_half_a_file_is_read_again(tmp_path: Path) -> None:
    """A file that is still being copied is no announcement; when it is whole, it counts."""
    ada, result = follower(tmp_path), played(tmp_path)
    text = written(following(result))
    path = ada.folder / "trucks-8.toml"
    path.write_text(text[: len(text) // 2])
    assert ada.joins() is None
    path.write_text(text)
    assert ada.joins() == "trucks-8"


class Enough(Exception):
    """Ends a series that would go on for ever."""


class Clock(Struct):
    """A clock that only sleep and the test move."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)
    limit: int = 100

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        if seconds:
            self.slept.append(seconds)
        self.now += seconds
        if len(self.slept) >= self.limit:
            raise Enough


def config_of(tmp_path: Path, seconds: float = 2.0) -> PartyConfig:
    limits, key = MipLimits(seconds=seconds), tmp_path / "ada.key"
    return PartyConfig(agreement=STANDING, model=tmp_path / "ada.lp", key=key, mip_limits=limits)


#: What a first session ends with, and how long the party waits in addition to its rest.
ENDS = {"no trade": (NoTrade, 0.0), "no plan": (Unsolved, 0.0), "no seals": (Unsealed, 10.0)}


@pytest.mark.parametrize("busy", [0.0, 18.9, 19.1, 50.0])
@pytest.mark.parametrize(("error", "more"), ENDS.values(), ids=ENDS)
def test_the_next_session_begins_at_a_time_that_hardly_depends_on_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: float, error: type[SottoError], more: int
) -> None:
    """At a multiple of what the searches for a plan may take, whatever the session ended with."""
    ada, clock = follower(tmp_path), Clock()
    monkeypatch.setattr(party.follow, "time", clock)

    def join(config: PartyConfig, view: View, *, on_left: Callable[[], None]) -> None:  # noqa: ARG001
        if clock.slept:
            raise Enough
        clock.now += 1000.0
        on_left()
        clock.now += busy
        assert not clock.slept, "the ledger would stay locked"
        raise error("it is over")

    monkeypatch.setattr(party.follow, "play", join)
    with pytest.raises(Enough):
        follow(config_of(tmp_path), ada.series, lambda _: View(), once=False)
    rest = POLL_SECONDS + 7 * 2.0
    assert clock.now - 1000.0 - more == pytest.approx(rest * max(1, math.ceil(busy / rest)))


@pytest.mark.parametrize("seconds", [600.0, 1e12])
def test_who_allows_searches_for_ever_still_takes_part_an_hour_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The model may be linear, and then nothing is searched for."""
    ada, clock = follower(tmp_path), Clock(limit=1)
    monkeypatch.setattr(party.follow, "time", clock)

    def join(config: PartyConfig, view: View, *, on_left: Callable[[], None]) -> None:  # noqa: ARG001
        on_left()

    monkeypatch.setattr(party.follow, "play", join)
    with pytest.raises(Enough):
        follow(config_of(tmp_path, seconds), ada.series, lambda _: View(), once=False)
    assert clock.now == 3600.0


def test_a_session_that_is_not_over_is_resumed_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No plan was made. Nothing is waited for with --once either: none follows."""
    ada, clock = follower(tmp_path), Clock()
    monkeypatch.setattr(party.follow, "time", clock)

    def join(config: PartyConfig, view: View, *, on_left: Callable[[], None]) -> None:  # noqa: ARG001
        if clock.slept:
            on_left()
            raise NoTrade("all keep what they bring")
        raise Unavailable("ben is silent")

    monkeypatch.setattr(party.follow, "play", join)
    with pytest.raises(Unavailable):
        follow(config_of(tmp_path), ada.series, lambda _: View(), once=True)
    assert not clock.slept
    clock.limit = 2
    with pytest.raises(Enough):
        follow(config_of(tmp_path), ada.series, lambda _: View(), once=False)
    assert clock.slept[0] == party.follow.RETRY_SECONDS
    before = list(clock.slept)
    follow(config_of(tmp_path), ada.series, lambda _: View(), once=True)
    assert clock.slept == before
