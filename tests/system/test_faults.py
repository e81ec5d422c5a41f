"""Thousands of seeded sessions in a hostile world: first safety, then liveness.

A failing test names its seed and tells the story of that seed. To see it again:
`scripts/faults 1234`, with `liar` after the seed where a member lies. `scripts/faults --seeds N`
plays far more of them than a run of the tests does.
"""

import argparse
import multiprocessing
import os
import random
import sys
import time

import pytest

from party.driver import Driver
from protocol.errors import Equivocation, ImpossibleTotal, SottoError
from protocol.session.effects import Effect
from protocol.wire.messages import MaskKey, Release, Signed
from tests.support.simulated_network import Faults, SimulatedNetwork, Stored, Violation, silent

CHUNK = 50
HONEST = range(0, 500, CHUNK)
LYING = range(0, 200, CHUNK)


def world(seed: int, *, liar: bool = False) -> SimulatedNetwork:
    chance = random.Random(f"faults {seed}")
    return SimulatedNetwork(
        seed,
        faults=Faults.drawn(chance, liar=liar),
        members=chance.choice((3, 3, 4)),
        rounds=chance.choice((2, 3, 4, None)),
        masked=chance.random() < 0.5,
    )


def play(seed: int, *, liar: bool = False) -> SimulatedNetwork:
    """Run one seed, and tell its story where it breaks a promise."""
    here = world(seed, liar=liar)
    try:
        here.run()
    except (Violation, SottoError) as error:
        pytest.fail(f"seed {seed}{' liar' * liar}: {error}\n{here.story}", pytrace=False)
    return here


@pytest.mark.parametrize("first", HONEST)
def test_everybody_finishes_when_the_faults_stop(first: int) -> None:
    """Whatever is lost, repeated, altered or restored: one release a round, one outcome."""
    for seed in range(first, first + CHUNK):
        play(seed)


@pytest.mark.parametrize("first", LYING)
def test_a_liar_never_makes_honest_parties_disagree(first: int) -> None:
    """With a member that tells different things, all end alike or with an error that says why."""
    for seed in range(first, first + CHUNK):
        play(seed, liar=True)


@pytest.mark.parametrize("first", range(0, 100, CHUNK))
def test_where_messages_arrive_a_liar_is_named_by_all(first: int) -> None:
    """On a network that works, every honest party finishes or proves who lied.

    Only where releases are masked can a liar spoil the total instead, and not be named for it. A
    liar that announces a copied mask key loses its place: it is named as missing.
    """
    for seed in range(first, first + CHUNK):
        rounds = (2, 3, 4, None)[seed % 4]
        masked = seed % 8 < 4
        here = SimulatedNetwork(
            seed, faults=Faults(liar=True), members=3 + seed % 2, rounds=rounds, masked=masked
        )
        here.bluffs = False
        here.run()
        assert here.liar is not None
        for party in here.honest:
            fault = party.disk.durable.fault
            proof = isinstance(fault, Equivocation) and fault.sender == here.liar.name
            spoilt = masked and isinstance(party.error, ImpossibleTotal)
            copier = here.copies and silent(party.error) == here.liar.name
            assert proof or spoilt or copier or party.disk.durable.seals, (
                f"seed {seed}: {fault}\n{here.story}"
            )


def test_the_world_is_hostile() -> None:
    """The mix of faults reaches every step at which a session can be hurt."""
    told: set[str] = set()
    for seed in range(120):
        story = play(seed, liar=seed % 6 == 0).story
        told.update(step for step in STEPS if step in story)
    assert told == set(STEPS)


STEPS = (
    "loses power before sending",
    "loses power before the mask key is written",
    "loses power after the mask key is written",
    "loses power before the release is written",
    "loses power after the release is written",
    "loses power before the seals are written",
    "loses power after the seals are written",
    "loses power while waiting",
    "gets an old disk",
    "fails: BadLedger",
    "fails: Unavailable",
    "fails: Equivocation",
    "copies the mask key of",
    "fails: Unsealed",
    "does not begin: a bit has flipped",
    "stays away",
    "is back, and only",
    "partition {'",
)


def test_sessions_end_by_themselves_under_faults() -> None:
    """Of the worlds above many end early, not all after as many rounds, and all parties alike."""
    early = []
    for seed in range(120):
        here = play(seed)
        if here.agreement.pricing.step == "center":
            [end] = here.ends
            early.append(end)
    assert len(early) > 15
    assert min(early) < max(early)
    assert sum(end < 12 for end in early) > len(early) // 2


def test_a_world_is_the_same_in_every_run() -> None:
    """A seed tells one story, so that a failure can be looked at again."""
    assert play(7).story == play(7).story
    assert play(7, liar=True).story == play(7, liar=True).story
    assert play(7).story != play(8).story


def quiet_world(*, masked: bool = False) -> SimulatedNetwork:
    """Three parties, and nothing goes wrong unless the test says so."""
    return SimulatedNetwork(1, faults=Faults(), members=3, rounds=2, masked=masked)


def test_what_is_said_rests_on_what_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a world without faults all end well, and not if they speak before they commit."""
    here = quiet_world()
    here.run()
    assert all(len(p.disk.durable.rounds) == 2 and p.disk.durable.seals for p in here.parties)

    def hasty(self: Driver, effects: list[Effect], now: float) -> list[Signed]:
        return list(self._carry_out(effects, now))

    monkeypatch.setattr(Driver, "_execute", hasty)
    with pytest.raises(Violation, match="speaks of what would not survive the end of the power"):
        quiet_world().run()


def test_a_relay_that_withholds_seals_seals_nothing_off() -> None:
    """What one party's seals do not reach, another passes on."""
    here = quiet_world()
    here.withheld = ("ada", "ben")
    here.run()
    assert all(p.disk.durable.seals for p in here.parties)
    assert "cyd says Seal 2" in here.story


@pytest.mark.parametrize("seed", range(30))
def test_a_liar_that_only_claims_stops_nobody(seed: int) -> None:
    """Halts without proof and Hellos without releases, from the first to the last: all finish."""
    here = SimulatedNetwork(seed, faults=Faults(liar=True), members=3, rounds=3)
    here.only_claim()
    here.run()
    assert all(p.disk.durable.seals for p in here.honest), here.story
    assert "Halt" in here.story


def test_a_ledger_without_the_mask_key_is_refused() -> None:
    """Whoever comes with an empty ledger makes no second key: its peers know that it has one."""
    here = quiet_world(masked=True)
    ada, *_ = here.parties
    here.dropped = {("cyd", name, MaskKey) for name in ("ada", "ben")}
    for party in here.parties:
        here.start(party)
    here.pass_time(2.0)
    assert ada.disk.durable.mask is not None
    assert not any(p.disk.durable.keys for p in here.parties[:2])
    here.cut_power(ada)
    here.dropped = set()
    ada.newest = ada.disk.durable
    ada.disk.put_back(Stored())
    here.start(ada)
    here.pass_time(20.0)
    assert "others know the mask key of 'ada', signed with its key" in here.story
    assert all(p.disk.durable.seals for p in here.parties)


def put_back_ada(here: SimulatedNetwork, *, hidden_from: tuple[str, ...]) -> Stored:
    """Let ada release round 0, which nobody can close, and put back its empty disk."""
    ada, ben, cyd = here.parties
    silenced = [("ada", name) for name in hidden_from] + [("cyd", "ada"), ("cyd", "ben")]
    here.dropped = {(sender, receiver, Release) for sender, receiver in silenced}
    for party in here.parties:
        here.start(party)
    here.pass_time(2.0)
    newest = ada.disk.durable
    assert len(newest.releases) == 1
    assert ben.disk.durable.rounds == cyd.disk.durable.rounds == ()
    here.cut_power(ada)
    here.dropped = set()
    ada.disk.put_back(Stored())
    return newest


def test_an_old_disk_is_refused_if_one_peer_has_heard() -> None:
    """One witness is enough: the old copy is refused, and the newest goes on to the end."""
    here = quiet_world()
    ada = here.parties[0]
    ada.newest = put_back_ada(here, hidden_from=("cyd",))
    here.start(ada)
    here.pass_time(20.0)
    assert "ada fails: BadLedger: others know release 1 of 'ada'" in here.story
    assert all(p.disk.durable.seals for p in here.parties)


def test_a_witness_that_ended_in_order_still_knows() -> None:
    """Who heard a release and was started again refuses the old disk as before."""
    here = quiet_world()
    ada, ben, _ = here.parties
    ada.newest = put_back_ada(here, hidden_from=("cyd",))
    here.stop(ben)
    here.start(ben)
    here.start(ada)
    here.pass_time(20.0)
    assert "ada fails: BadLedger: others know release 1 of 'ada'" in here.story
    assert all(p.disk.durable.seals for p in here.parties)


@pytest.mark.parametrize("how", ["exact", "forgotten"])
def test_what_remains_is_a_release_that_nobody_can_tell_of(how: str) -> None:
    """A second release needs an old disk and nobody left who knows of the first.

    Either no peer ever heard it, or all who did lost power before the round was closed.
    There is no other way: everywhere else the worlds restore disks as they please.
    """
    here = quiet_world()
    ada, ben, _ = here.parties
    put_back_ada(here, hidden_from=("ben", "cyd") if how == "exact" else ("cyd",))
    if how == "forgotten":
        here.cut_power(ben)
        here.start(ben)
    here.start(ada)
    with pytest.raises(Violation, match="ada gave out round 0 twice"):
        here.pass_time(20.0)


def broken(seed: int) -> str | None:
    """What goes wrong in a seed of many, of which every fourth has a liar; None if nothing does."""
    liar = seed % 4 == 3
    try:
        world(seed, liar=liar).run()
    except Exception as error:  # whatever it is, the others go on and the seed is named
        return f"{seed}{' liar' * liar}: {type(error).__name__}: {error}"
    return None


def play_many(seeds: range, jobs: int) -> int:
    """Play all of these, tell how far it is, and name every seed that breaks a promise."""
    failed, began = 0, time.monotonic()
    every = max(1, len(seeds) // 20)
    with multiprocessing.Pool(jobs) as pool:
        for done, trouble in enumerate(pool.imap(broken, seeds, chunksize=10), 1):
            if trouble is not None:
                failed += 1
                print(trouble, flush=True)
            if done % every == 0 or done == len(seeds):
                seconds = time.monotonic() - began
                print(f"{done} of {len(seeds)} seeds, {failed} broken, {seconds:.0f} s", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description="Play sessions in a hostile world.")
    parser.add_argument("seed", type=int, nargs="?", help="tell the story of this one")
    parser.add_argument("liar", nargs="?", choices=("liar",), help="with a member that lies")
    parser.add_argument("--seeds", type=int, default=10_000, help="play so many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at once (%(default)s)")
    options = parser.parse_args()
    if options.seed is None:
        return play_many(range(options.first, options.first + options.seeds), options.jobs)
    told = world(options.seed, liar=options.liar is not None)
    try:
        told.run()
    finally:
        print(told.story)
    return 0


if __name__ == "__main__":
    sys.exit(min(1, main()))
