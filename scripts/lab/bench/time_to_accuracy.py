"""Time until the prices are near to the best: the session without noise beside DISROPT.

The session is the default one, with the centre rule and all security on, and is judged after
the fact from its transcript and the times at which its rounds closed. DISROPT's dual
subgradient gets what nobody can have: of all steps a/√t the one that turns out best on this
very problem, judged at its best round. Its rounds are counted in one process and then take
what a round of real processes took in the same turn.
"""

import math
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from protocol.agreement.schema import TOPOLOGIES
from protocol.outcome.outcome import outcome
from protocol.runtime.files import read_agreement
from protocol.wire.transcript import load
from scripts.lab.bench.baselines.disropt_prices import LIMIT, Hindsight, best_in_hindsight
from scripts.lab.bench.baselines.mpi import Mpi
from scripts.lab.bench.measure.interleave import Spread, in_turns, spread
from scripts.lab.bench.measure.sessions import Played, play, prepared, session
from scripts.lab.common.agreements import drawn, party_name
from scripts.lab.common.convergence import first_below, gaps
from scripts.lab.common.instances import central

LEVELS = (0.01, 0.001)
ROUNDS = 150
"""The most that a session may take; it ends by itself."""


@dataclass(frozen=True)
class Size:
    """How many parties, how many instances, and for how many rounds DISROPT's pace is taken."""

    parties: int
    turns: int
    pace_rounds: int
    topologies: tuple[str, ...] = TOPOLOGIES


SIZES = (Size(5, 5, 300), Size(10, 5, 150), Size(20, 5, 60))
QUICK = (Size(5, 1, 100, ("relay",)),)


@dataclass(frozen=True)
class Reached:
    """When a level was reached: after how many rounds, and seconds without and with the launch.

    None where it never was.
    """

    rounds: int
    seconds: float
    launched_seconds: float


Levels = dict[float, Reached | None]


def ours(parties: int, topology: str, seed: int) -> tuple[Levels, int]:
    """When a real session reached each level, and how many rounds it played."""
    options = session(parties, ROUNDS, topology, seed, "--mode", "exact")
    instance = drawn(options)
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
        folder = Path(name) / "session"
        played = play(folder, options)
        agreement = read_agreement(folder / "agreement.toml")
        file = folder / party_name(0) / "out" / "session.transcript"
        known = outcome(agreement, load(agreement, file.read_bytes()))
    by_round = gaps(known, instance, central(instance).utility)
    return {level: _reached(first_below(by_round, level), played) for level in LEVELS}, known.rounds


def _reached(rounds: int | None, played: Played) -> Reached | None:
    """The launch is everything before the first round, which no event marks: it is taken to
    have lasted as long as the others."""
    if rounds is None:
        return None
    if rounds < 2:
        return Reached(rounds, rounds / played.rounds_per_second, played.closed[0])
    between = played.closed[rounds - 1] - played.closed[0]
    return Reached(rounds, between * rounds / (rounds - 1), played.closed[rounds - 1])


@dataclass(frozen=True)
class Pace:
    """What DISROPT took: until its agents are ready, and for a round."""

    launch_seconds: float
    rounds_per_second: float

    def reached(self, rounds: int) -> Reached:
        seconds = rounds / self.rounds_per_second
        return Reached(rounds, seconds, self.launch_seconds + seconds)


def disropt(mpi: Mpi, size: Size, seed: int) -> Pace:
    """The pace of real agents on the same companies."""
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
        prepared(Path(name), session(size.parties, ROUNDS, "relay", seed, "--mode", "exact"))
        told = mpi.run("disropt_session.py", size.parties, name, size.pace_rounds)
    return Pace(told["ready_seconds"], told["rounds_per_second"])


def measure(size: Size, seed: int, mpi: Mpi) -> list[dict[str, Any]]:
    """One row for each topology; every turn has an instance of its own."""
    turns = [_turn(size, seed + turn, mpi) for turn in range(size.turns)]
    return [_row(size, topology, turns) for topology in size.topologies]


def _turn(size: Size, seed: int, mpi: Mpi) -> dict[str, Any]:
    ways: dict[str, Any] = {
        topology: partial(ours, size.parties, topology, seed) for topology in size.topologies
    }
    if mpi.disropt:
        ways["disropt"] = partial(disropt, mpi, size, seed)
    got = {way: found for way, [found] in in_turns(ways, 1).items()}
    if mpi.disropt:
        instance = drawn(session(size.parties, ROUNDS, "relay", seed))
        got["hindsight"] = best_in_hindsight(instance, LEVELS)
    return got


def _row(size: Size, topology: str, turns: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"parties": size.parties, "topology": topology, "turns": size.turns}
    row["rounds_played"] = spread(turn[topology][1] for turn in turns)
    for level in LEVELS:
        mine = [turn[topology][0][level] for turn in turns]
        if any(reached is None for reached in mine):
            raise RuntimeError(f"a session of {size.parties} parties never was within {level:.1%}")
        found: dict[str, Any] = {
            "rounds": spread(reached.rounds for reached in mine),
            "seconds": spread(reached.seconds for reached in mine),
            "launched_seconds": spread(reached.launched_seconds for reached in mine),
        }
        if "hindsight" in turns[0]:
            found |= _beside(mine, turns, level)
        row[f"{level:g}"] = found
    return row


def _beside(mine: list[Reached], turns: list[dict[str, Any]], level: float) -> dict[str, Any]:
    """The other's figures. Where it never gets there, it is taken to do so right after the limit:
    `unreached` counts these turns, and what is said of them is the least."""
    best: list[Hindsight] = [turn["hindsight"][level] for turn in turns]
    theirs = [
        turn["disropt"].reached(LIMIT if b.rounds is None else b.rounds)
        for turn, b in zip(turns, best, strict=True)
    ]
    pairs = list(zip(theirs, mine, strict=True))
    return {
        "disropt_rounds": spread(reached.rounds for reached in theirs),
        "disropt_constants": [b.constant for b in best],
        "disropt_seconds": spread(reached.seconds for reached in theirs),
        "disropt_launched_seconds": spread(reached.launched_seconds for reached in theirs),
        "unreached": sum(b.rounds is None for b in best),
        "faster": spread(a.seconds / b.seconds for a, b in pairs),
        "faster_launched": spread(a.launched_seconds / b.launched_seconds for a, b in pairs),
    }


def shown(rows: list[dict[str, Any]]) -> Table:
    """The table that is printed."""
    table = Table(
        title="until the prices are within 1 % and 0.1 % of the optimum, without noise",
        caption="medians over instances and, below, lowest–highest; seconds from the first round "
        "on and (from the launch on); DISROPT: of all steps a/√t the best for each instance in "
        f"hindsight, judged at its best round, its rounds at its pace of the same turn; ≥: not in "
        f"{LIMIT:,} rounds in some turn",
    )
    for column in (
        "parties", "topology", "to", "rounds", "seconds", "DISROPT's rounds", "its seconds",
        "session faster by", "with the launch",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column == "topology" else "right")
    for row in rows:
        for level in LEVELS:
            found = row[f"{level:g}"]
            least = "≥ " if found.get("unreached") else ""
            table.add_row(
                str(row["parties"]),
                row["topology"],
                f"{level:g}".replace("0.001", "0.1 %").replace("0.01", "1 %"),
                _cell(found, "rounds", ".0f"),
                _cell(found, "seconds", ".2f", f" ({found['launched_seconds'].median:.1f})"),
                least + _cell(found, "disropt_rounds", ".0f"),
                least + _cell(found, "disropt_seconds", ".2f", _launched(found)),
                least + _cell(found, "faster", ".1f"),
                least + _cell(found, "faster_launched", ".1f"),
            )
    return table


def _launched(found: dict[str, Any]) -> str:
    launched = found.get("disropt_launched_seconds")
    return f" ({launched.median:.1f})" if launched else ""


def _cell(found: dict[str, Any], key: str, form: str, unit: str = "") -> str:
    value: Spread | None = found.get(key)
    if value is None or not math.isfinite(value.median):
        return "–"
    first, _, rest = value.shown(form).partition("\n")
    return f"{first}{unit}" + (f"\n{rest}" if rest else "")
