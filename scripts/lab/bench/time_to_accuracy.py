"""Time until prices are near the optimum: the session without noise compared with DISROPT.

The session is the default one, with the centre rule and full security. It is judged afterwards,
from its transcript and the times at which its rounds closed. DISROPT's dual subgradient gets an
advantage: of all steps a/√t the best one for this problem, chosen in hindsight and judged at its
best round. Its rounds are counted in one process; each takes as long as a round of real processes
in the same turn.
"""

import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.table import Table

from protocol.agreement.schema import TOPOLOGIES
from protocol.outcome.outcome import outcome
from protocol.runtime.files import read_agreement
from protocol.wire.transcript import load
from scripts.lab.bench.baselines.disropt_prices import LIMIT, Hindsight, best_in_hindsight
from scripts.lab.bench.baselines.mpi import Mpi
from scripts.lab.bench.measure.interleave import Spread, in_turns, spread
from scripts.lab.bench.measure.sessions import SessionTiming, prepared, run_session, session
from scripts.lab.common.agreements import drawn, party_name
from scripts.lab.common.convergence import first_below, gaps
from scripts.lab.common.instances import central

LEVELS = (0.01, 0.001)
ROUNDS = 150
"""The most rounds of a session. It ends by itself before."""


class Size(Struct, frozen=True):
    """How many parties and instances, and how many rounds measure DISROPT's pace."""

    parties: int
    turns: int
    pace_rounds: int
    topologies: tuple[str, ...] = TOPOLOGIES


SIZES = (Size(5, 5, 300), Size(10, 5, 150), Size(20, 5, 60))
QUICK = (Size(5, 1, 100, ("relay",)),)


class Reached(Struct, frozen=True):
    """After how many rounds a level was reached, and seconds without and with the launch."""

    rounds: int
    seconds: float
    launched_seconds: float


Levels = dict[float, Reached | None]


def ours(parties: int, topology: str, seed: int) -> tuple[Levels, int]:
    """When a real session reached each level, and how many rounds it had."""
    options = session(parties, ROUNDS, topology, seed, "--mode", "exact")
    instance = drawn(options)
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
        folder = Path(name) / "session"
        timing = run_session(folder, options)
        agreement = read_agreement(folder / "agreement.toml")
        file = folder / party_name(0) / "out" / "session.transcript"
        result = outcome(agreement, load(agreement, file.read_bytes()))
    by_round = gaps(result, instance, central(instance).utility)
    return {
        level: _reached(first_below(by_round, level), timing) for level in LEVELS
    }, result.rounds


def _reached(rounds: int | None, timing: SessionTiming) -> Reached | None:
    """No event marks the opening of the first round, so it counts as long as the average of the
    others. The launch is all time before."""
    if rounds is None:
        return None
    if rounds < 2:
        return Reached(rounds, rounds / timing.rounds_per_second, timing.closed[0])
    between = timing.closed[rounds - 1] - timing.closed[0]
    return Reached(rounds, between * rounds / (rounds - 1), timing.closed[rounds - 1])


class Pace(Struct, frozen=True):
    """Seconds until DISROPT's agents are ready, and its rounds per second."""

    launch_seconds: float
    rounds_per_second: float

    def reached(self, rounds: int) -> Reached:
        seconds = rounds / self.rounds_per_second
        return Reached(rounds, seconds, self.launch_seconds + seconds)


def disropt(mpi: Mpi, size: Size, seed: int) -> Pace:
    """The pace of real agents with the same companies."""
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
        prepared(Path(name), session(size.parties, ROUNDS, "relay", seed, "--mode", "exact"))
        figures = mpi.run("disropt_session.py", size.parties, name, size.pace_rounds)
    return Pace(figures["ready_seconds"], figures["rounds_per_second"])


def measure(size: Size, seed: int, mpi: Mpi) -> list[dict[str, Any]]:
    """One row for each topology. Every turn has its own instance."""
    turns = [_turn(size, seed + turn, mpi) for turn in range(size.turns)]
    return [_row(size, topology, turns) for topology in size.topologies]


def _turn(size: Size, seed: int, mpi: Mpi) -> dict[str, Any]:
    contestants: dict[str, Any] = {
        topology: partial(ours, size.parties, topology, seed) for topology in size.topologies
    }
    if mpi.disropt:
        contestants["disropt"] = partial(disropt, mpi, size, seed)
    results = {way: found for way, [found] in in_turns(contestants, 1).items()}
    if mpi.disropt:
        instance = drawn(session(size.parties, ROUNDS, "relay", seed))
        results["hindsight"] = best_in_hindsight(instance, LEVELS)
    return results


def _row(size: Size, topology: str, turns: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"parties": size.parties, "topology": topology, "turns": size.turns}
    row["rounds_played"] = spread(turn[topology][1] for turn in turns)
    for level in LEVELS:
        own = [turn[topology][0][level] for turn in turns]
        if any(reached is None for reached in own):
            raise RuntimeError(
                f"a session of {size.parties} parties did not come within {level:.1%}"
            )
        found: dict[str, Any] = {
            "rounds": spread(reached.rounds for reached in own),
            "seconds": spread(reached.seconds for reached in own),
            "launched_seconds": spread(reached.launched_seconds for reached in own),
        }
        if "hindsight" in turns[0]:
            found |= _compared(own, turns, level)
        row[f"{level:g}"] = found
    return row


def _compared(own: list[Reached], turns: list[dict[str, Any]], level: float) -> dict[str, Any]:
    """DISROPT's figures. Where it never reaches the level, it counts as reaching it at LIMIT:
    `unreached` counts these turns, and their figures are lower bounds."""
    best: list[Hindsight] = [turn["hindsight"][level] for turn in turns]
    others = [
        turn["disropt"].reached(LIMIT if b.rounds is None else b.rounds)
        for turn, b in zip(turns, best, strict=True)
    ]
    pairs = list(zip(others, own, strict=True))
    return {
        "disropt_rounds": spread(reached.rounds for reached in others),
        "disropt_constants": [b.constant for b in best],
        "disropt_seconds": spread(reached.seconds for reached in others),
        "disropt_launched_seconds": spread(reached.launched_seconds for reached in others),
        "unreached": sum(b.rounds is None for b in best),
        "faster": spread(a.seconds / b.seconds for a, b in pairs),
        "faster_launched": spread(a.launched_seconds / b.launched_seconds for a, b in pairs),
    }


def shown(rows: list[dict[str, Any]]) -> Table:
    """The table that is printed."""
    table = Table(
        title="time until prices are within 1 % and 0.1 % of the optimum, without noise",
        caption="median over instances, and below it lowest–highest; seconds from the first round, "
        "and in brackets from the launch; DISROPT: the best step a/√t for each instance in "
        "hindsight, judged at its best round, with its pace in the same turn; ≥: not reached in "
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
