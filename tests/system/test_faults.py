"""Hundreds of seeded sessions on a hostile network: first safety, then liveness.

A failing test prints its seed and the log of that seed. To see it again, run `scripts/faults 1234`,
with `liar` after the seed if a member lies. `scripts/faults --seeds N` runs far more seeds.
"""

import argparse
import functools
import multiprocessing
import os
import random
import sys
import time
from typing import NamedTuple

import pytest

from party.driver import Driver
from protocol.errors import Equivocation, ImpossibleTotal, SottoError
from protocol.session.effects import Effect
from protocol.wire.messages import MaskKey, Release, Signed
from tests.support.adversary import Faults
from tests.support.simulated_disk import Stored, Violation
from tests.support.simulated_network import SimulatedNetwork, silent

CHUNK = 50
HONEST = range(0, 250, CHUNK)
LYING = range(0, 100, CHUNK)


def build(seed: int, *, liar: bool = False) -> SimulatedNetwork:
    chance = random.Random(f"faults {seed}")
    return SimulatedNetwork(
        seed,
        faults=Faults.drawn(chance, liar=liar),
        members=chance.choice((3, 3, 4)),
        rounds=chance.choice((2, 3, 4, None)),
        masked=chance.random() < 0.5,
    )


def run(seed: int, *, liar: bool = False) -> SimulatedNetwork:
    """Run one seed; if it breaks a promise, fail with its log."""
    network = build(seed, liar=liar)
    try:
        network.run()
    except (Violation, SottoError) as error:
        pytest.fail(f"seed {seed}{' liar' * liar}: {error}\n{network.log}", pytrace=False)
    return network


class Played(NamedTuple):
    """What other tests need of one seed: steps in its log, and the rounds of its parties."""

    steps: frozenset[str]
    ends: frozenset[int]
    ends_by_itself: bool


@functools.cache
def played(seed: int, *, liar: bool) -> Played:
    """Run one seed, once for all tests."""
    network = run(seed, liar=liar)
    by_itself = network.agreement.pricing.step == "center"
    return Played(steps_in(network.log), frozenset(network.ends), by_itself)


def steps_in(log: str) -> frozenset[str]:
    return frozenset(step for step in STEPS if step in log)


@pytest.mark.parametrize("first", HONEST)
def test_every_party_finishes_when_the_faults_stop(first: int) -> None:
    """Despite loss, repetition, damage and old disks: one release a round, one outcome."""
    for seed in range(first, first + CHUNK):
        played(seed, liar=False)


@pytest.mark.parametrize("first", LYING)
def test_a_liar_never_makes_honest_parties_disagree(first: int) -> None:
    """If a member sends different messages, all finish alike or fail with the reason."""
    for seed in range(first, first + CHUNK):
        played(seed, liar=True)


@pytest.mark.parametrize("first", range(0, 100, CHUNK))
def test_on_a_working_network_all_parties_name_the_liar(first: int) -> None:
    """On a working network every honest party finishes or proves who lied.

    With masked releases a liar can spoil the total instead, without being named. A liar that
    announces a copied mask key, or commits falsely, is refused, and named as missing.
    """
    for seed in range(first, first + CHUNK):
        rounds = (2, 3, 4, None)[seed % 4]
        masked = seed % 8 < 4
        network = SimulatedNetwork(
            seed, faults=Faults(liar=True), members=3 + seed % 2, rounds=rounds, masked=masked
        )
        network.adversary.bluffs = False
        network.run()
        assert network.liar is not None
        for party in network.honest:
            fault = party.disk.durable.fault
            proof = isinstance(fault, Equivocation) and fault.sender == network.liar.name
            spoilt = masked and isinstance(party.error, ImpossibleTotal)
            refuses = network.adversary.copies or network.adversary.miscommits
            named = refuses and silent(party.error) == network.liar.name
            assert proof or spoilt or named or party.disk.durable.seals, (
                f"seed {seed}: {fault}\n{network.log}"
            )


def test_the_faults_reach_every_step() -> None:
    """The mix of faults hits every step at which a session can be hurt."""
    reached: set[str] = set()
    for seed in range(120):
        reached |= played(seed, liar=seed % 6 == 0).steps
    for seed in range(20):  # short sessions, since few others commit before the faults stop
        crashing = Faults(crash=0.02)
        network = SimulatedNetwork(seed, faults=crashing, members=3, rounds=1, masked=True)
        network.run()
        reached |= steps_in(network.log)
    assert reached == set(STEPS)


STEPS = (
    "loses power before sending",
    "loses power before the mask key is written",
    "loses power after the mask key is written",
    "loses power before the release is written",
    "loses power after the release is written",
    "loses power before the commitments are written",
    "loses power after the commitments are written",
    "loses power before the seals are written",
    "loses power after the seals are written",
    "loses power while waiting",
    "gets an old disk",
    "fails: BadLedger",
    "fails: Unavailable",
    "fails: Equivocation",
    "copies the mask key of",
    "commits falsely",
    "fails: Unsealed",
    "does not begin: a bit has flipped",
    "stays away",
    "is back, with only",
    "partition {'",
)


def test_sessions_end_by_themselves_under_faults() -> None:
    """Many sessions end early, after different numbers of rounds; all parties of one end alike."""
    early = []
    for seed in range(120):
        session = played(seed, liar=False)
        if session.ends_by_itself:
            [end] = session.ends
            early.append(end)
    assert len(early) > 15
    assert min(early) < max(early)
    assert sum(end < 12 for end in early) > len(early) // 2


def test_a_seed_gives_the_same_log_in_every_run() -> None:
    """A failure can be reproduced from its seed."""
    assert run(7).log == run(7).log
    assert run(7, liar=True).log == run(7, liar=True).log
    assert run(7).log != run(8).log


def quiet_network(*, masked: bool = False) -> SimulatedNetwork:
    """Three parties, and no faults except those that the test adds."""
    return SimulatedNetwork(1, faults=Faults(), members=3, rounds=2, masked=masked)


def test_a_party_sends_only_what_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without faults all finish; a driver that sends before it commits is noticed."""
    network = quiet_network()
    network.run()
    assert all(len(p.disk.durable.rounds) == 2 and p.disk.durable.seals for p in network.parties)

    def unsafe(self: Driver, effects: list[Effect], now: float) -> list[Signed]:
        return list(self._carry_out(effects, now))

    monkeypatch.setattr(Driver, "_execute", unsafe)
    with pytest.raises(Violation, match="sends what would not survive a loss of power"):
        quiet_network().run()


def test_a_peer_passes_on_seals_that_the_relay_withholds() -> None:
    """A seal that does not reach a party directly comes from another member."""
    network = quiet_network()
    network.withheld = ("ada", "ben")
    network.run()
    assert all(p.disk.durable.seals for p in network.parties)
    assert "cyd sends Seal 2" in network.log


@pytest.mark.parametrize("seed", range(30))
def test_claims_without_proof_stop_no_party(seed: int) -> None:
    """All finish, however many Halts without proof and Hellos with false claims arrive."""
    network = SimulatedNetwork(seed, faults=Faults(liar=True), members=3, rounds=3)
    network.adversary.only_claim()
    network.run()
    assert all(p.disk.durable.seals for p in network.honest), network.log
    assert "Halt" in network.log


def test_a_ledger_without_the_mask_key_is_refused() -> None:
    """A party with an empty ledger makes no second mask key: its peers show it the first."""
    network = quiet_network(masked=True)
    ada, *_ = network.parties
    network.dropped = {("cyd", name, MaskKey) for name in ("ada", "ben")}
    for party in network.parties:
        network.start(party)
    network.pass_time(2.0)
    assert ada.disk.durable.mask is not None
    assert not any(p.disk.durable.keys for p in network.parties[:2])
    network.cut_power(ada)
    network.dropped = set()
    ada.newest = ada.disk.durable
    ada.disk.put_back(Stored())
    network.start(ada)
    network.pass_time(20.0)
    assert "others know the mask key of 'ada', signed with its key" in network.log
    assert all(p.disk.durable.seals for p in network.parties)


def put_back_ada(network: SimulatedNetwork, *, hidden_from: tuple[str, ...]) -> Stored:
    """Let ada release round 0, which cannot close, and put back its empty disk."""
    ada, ben, cyd = network.parties
    silenced = [("ada", name) for name in hidden_from] + [("cyd", "ada"), ("cyd", "ben")]
    network.dropped = {(sender, receiver, Release) for sender, receiver in silenced}
    for party in network.parties:
        network.start(party)
    network.pass_time(2.0)
    newest = ada.disk.durable
    assert len(newest.releases) == 1
    assert ben.disk.durable.rounds == cyd.disk.durable.rounds == ()
    network.cut_power(ada)
    network.dropped = set()
    ada.disk.put_back(Stored())
    return newest


def test_an_old_disk_is_refused_if_one_peer_has_the_release() -> None:
    """One witness is enough to refuse the old copy; the newest copy then finishes."""
    network = quiet_network()
    ada = network.parties[0]
    ada.newest = put_back_ada(network, hidden_from=("cyd",))
    network.start(ada)
    network.pass_time(20.0)
    assert "ada fails: BadLedger: others know release 1 of 'ada'" in network.log
    assert all(p.disk.durable.seals for p in network.parties)


def test_a_witness_still_knows_after_an_orderly_shutdown() -> None:
    """A restarted peer that received the release still exposes the old disk."""
    network = quiet_network()
    ada, ben, _ = network.parties
    ada.newest = put_back_ada(network, hidden_from=("cyd",))
    network.stop(ben)
    network.start(ben)
    network.start(ada)
    network.pass_time(20.0)
    assert "ada fails: BadLedger: others know release 1 of 'ada'" in network.log
    assert all(p.disk.durable.seals for p in network.parties)


@pytest.mark.parametrize("how", ["unseen", "forgotten"])
def test_a_second_release_needs_an_old_disk_and_no_witness(how: str) -> None:
    """This is the one gap: no peer received the first release, or all that did lost power.

    There is no other: the tests above restore old disks at any other time.
    """
    network = quiet_network()
    ada, ben, _ = network.parties
    put_back_ada(network, hidden_from=("ben", "cyd") if how == "unseen" else ("cyd",))
    if how == "forgotten":
        network.cut_power(ben)
        network.start(ben)
    network.start(ada)
    with pytest.raises(Violation, match="ada released round 0 twice"):
        network.pass_time(20.0)


def failure_of(seed: int) -> str | None:
    """What goes wrong in a seed; None if nothing does. Every fourth seed has a liar."""
    liar = seed % 4 == 3
    try:
        build(seed, liar=liar).run()
    except Exception as error:  # any error: the seed is printed and the others go on
        return f"{seed}{' liar' * liar}: {type(error).__name__}: {error}"
    return None


def run_many(seeds: range, jobs: int) -> int:
    """Run all of these, print progress and every seed that breaks a promise."""
    failed, began = 0, time.monotonic()
    every = max(1, len(seeds) // 20)
    with multiprocessing.Pool(jobs) as pool:
        for done, failure in enumerate(pool.imap(failure_of, seeds, chunksize=10), 1):
            if failure is not None:
                failed += 1
                print(failure, flush=True)
            if done % every == 0 or done == len(seeds):
                seconds = time.monotonic() - began
                print(f"{done} of {len(seeds)} seeds, {failed} broken, {seconds:.0f} s", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/faults", description="Run sessions on a hostile network."
    )
    parser.add_argument("seed", type=int, nargs="?", help="print the log of this seed")
    parser.add_argument("liar", nargs="?", choices=("liar",), help="one member lies")
    parser.add_argument(
        "--seeds", type=int, default=10_000, help="how many seeds to run (%(default)s)"
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed (%(default)s)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="how many to run at once (%(default)s)"
    )
    options = parser.parse_args()
    if options.seed is None:
        return run_many(range(options.first, options.first + options.seeds), options.jobs)
    network = build(options.seed, liar=options.liar is not None)
    try:
        network.run()
    finally:
        print(network.log)
    return 0


if __name__ == "__main__":
    sys.exit(min(1, main()))
