"""The command `scripts/explore`: explores one case and says what was covered.

Never here: what is explored, or what must hold.
"""

import argparse
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.exploration.case import REVEALS, Case
from tests.support.exploration.explorer import Explorer
from tests.support.exploration.families import Families
from tests.support.exploration.lies import LIES
from tests.support.exploration.trace import Found, replay
from tests.support.simulated_disk import Violation

PROGRESS_SECONDS = 10.0


class OutOfMemory(Exception):
    """The exploration needs more memory than it may use."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/explore",
        description=(
            "Play every order of deliveries, losses, repetitions and crashes of a small session, "
            "with the real code of its parties. Every state is checked, and from every state the "
            "session must end once nothing is lost. A broken promise is printed with the events "
            "that lead to it. Exit code 0: all explored; 1: a promise is broken; 3: gave up."
        ),
        epilog=(
            "Examples: scripts/explore --rounds 2 --crashes 1; "
            "scripts/explore --members 3 --reveal totals --crashes 1 --families; "
            "scripts/explore --members 3 --reveal noise --lies all --families"
        ),
    )
    add = parser.add_argument
    add("--members", type=int, default=2, help="how many parties (2)")
    add("--rounds", type=int, default=1, help="how many rounds (1)")
    reveals = "each (default): releases are readable; totals: mask keys and commitments; "
    add("--reveal", choices=REVEALS, default="each", help=f"{reveals}noise: mask keys only")
    add("--crashes", type=int, default=0, help="how often a party loses power (0)")
    lies = ", ".join(LIES)
    add("--lies", nargs="*", metavar="LIE", help=f"the last member lies: all, or any of {lies}")
    late = "begin after a handshake whose Hellos have arrived and do not come again"
    add("--greeted", action="store_true", help=late)
    sets = "explore sets of states instead of single ones: for three members (docs/assurance.md)"
    add("--families", action="store_true", help=sets)
    add("--gigabytes", type=float, default=8.0, help="give up above this memory (8)")
    add("--replay", type=Path, metavar="FILE", help="play the events in this file instead")
    options = parser.parse_args()
    if options.lies == ["all"]:
        options.lies = list(LIES)
    if wrong := set(options.lies or ()) - LIES.keys():
        parser.error(f"no such lie: {', '.join(sorted(wrong))}")
    return options


def _watch(steps: Iterator[None], say: str, gigabytes: float, count: Iterator[str]) -> None:
    """Run all steps, tell the progress, and stop before memory runs out."""
    told = time.monotonic()
    for _ in steps:
        if time.monotonic() - told < PROGRESS_SECONDS:
            continue
        told = time.monotonic()
        print(f"{say}: {next(count)}", file=sys.stderr, flush=True)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > gigabytes * 1e6:
            raise OutOfMemory(f"more than {gigabytes:g} GB; give more with --gigabytes")


def _explore(case: Case, gigabytes: float) -> str:
    """Explore state by state; what was covered."""
    explorer = Explorer(case)

    def count() -> Iterator[str]:
        while True:
            yield f"{explorer.states:,} states"

    _watch(explorer.run(), "exploring", gigabytes, count())
    return (
        f"all {explorer.states:,} states, at most {explorer.depth} events deep; every one ends "
        f"within {explorer.liveness.most_turns} turns; {_played(explorer)}"
    )


def _explore_families(case: Case, gigabytes: float) -> str:
    """Explore in families of states; what was covered."""
    families, ended = Families(case), 0

    def count() -> Iterator[str]:
        while True:
            yield f"{len(families.content):,} families, {_played(families)}"

    def count_ends() -> Iterator[str]:
        while True:
            yield f"{ended:,} of {families.states:,} combinations end"

    def ends() -> Iterator[None]:
        nonlocal ended
        for _ in families.require_ends():
            ended += 1
            yield

    _watch(families.run(), "exploring", gigabytes, count())
    played = _played(families)
    _watch(ends(), "liveness", gigabytes, count_ends())
    return (
        f"all {len(families.content):,} families, which stand for {families.states:,} combinations "
        f"of processes; every one ends within {families.liveness.most_turns} turns; {played}"
    )


def _played(one: Explorer | Families) -> str:
    players = one.players
    return (
        f"{len(players.locals):,} states of single parties, {players.played:,} events played, "
        f"{len(players.messages):,} messages"
    )


def main() -> int:
    options = _options()
    case = Case(
        members=options.members,
        rounds=options.rounds,
        reveal=options.reveal,
        crashes=options.crashes,
        lies=None if options.lies is None else tuple(options.lies),
        greeted=options.greeted,
    )
    began = time.process_time()
    try:
        if options.replay:
            replay(case, options.replay.read_text().splitlines())
            print("no promise is broken by these events")
            return 0
        explore = _explore_families if options.families else _explore
        print(explore(case, options.gigabytes), end="; ")
    except OutOfMemory as error:
        print(f"not all was explored: {error}")
        return 3
    except Found as found:
        print(f"{found.what}. The shortest way there, for --replay:", *found.trace, sep="\n")
        return 1
    except Violation as violation:
        print(f"{violation}. Without --families, a shortest way there is printed.")
        return 1
    print(f"{time.process_time() - began:.0f} s of processor time; nothing violated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
