"""`scripts/bench rounds`: the distributed session compared with a bare loop of the same work.

Measured over real processes on loopback: rounds per second, CPU of each party, and CPU of each
component of a party. For context: plain pyzmq and MPI, which only carry the bytes, and DISROPT,
which solves the same companies' programs without any security.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from protocol.agreement.schema import TOPOLOGIES
from protocol.runtime.files import read_agreement
from protocol.wire.codec import release_bytes
from scripts.lab.bench import profile, time_to_accuracy
from scripts.lab.bench.baselines.mpi import Mpi, found
from scripts.lab.bench.measure.interleave import in_turns, plain, ratio, spread
from scripts.lab.bench.measure.process_usage import Watch
from scripts.lab.bench.measure.sessions import prepared, run_session, session
from scripts.lab.common.agreements import party_name
from scripts.lab.common.local_session import Processes
from scripts.lab.common.ports import reserve


class Size(Struct, frozen=True):
    """How many parties, how many rounds a session has, and how many turns."""

    parties: int
    rounds: int
    turns: int
    parts: bool = True
    disropt: bool = True
    topologies: tuple[str, ...] = TOPOLOGIES
    #: How often the CPU of the processes is read.
    sample_seconds: float = 0.25


SIZES = (
    Size(5, rounds=600, turns=3),
    Size(10, rounds=300, turns=3),
    Size(20, rounds=150, turns=3),
    Size(40, rounds=60, turns=1, disropt=False),
)
QUICK = (
    Size(5, rounds=400, turns=1),
    Size(10, rounds=100, turns=1, parts=False, disropt=False, topologies=("relay",)),
)

Way = Callable[[], Any]
T = TypeVar("T")


class Bench:
    """The contestants at one size. Each session runs in a new folder."""

    def __init__(self, size: Size, seed: int, mpi: Mpi, *, masked: bool) -> None:
        self._size, self._seed, self._mpi, self._masked = size, seed, mpi, masked

    def ways(self) -> dict[str, Way]:
        """The contestants by name: those of each topology, and those without one."""
        size = self._size
        ways: dict[str, Way] = {}
        for topology in size.topologies:
            ways |= {
                f"{topology} ours": partial(self._ours, topology),
                f"{topology} bare": partial(self._bare, topology),
                f"{topology} pyzmq": partial(self._pyzmq, topology),
            }
            if self._masked:
                ways[f"{topology} totals"] = partial(self._ours, topology, "--reveal", "totals")
            if size.parts:
                ways[f"{topology} parts"] = partial(self._parts, topology)
        if self._mpi.allgather:
            ways["allgather"] = self._allgather
        if self._mpi.disropt and size.disropt:
            ways["disropt"] = self._disropt
        return ways

    def _ours(self, topology: str, *more: str) -> dict[str, float]:
        """Rounds per second, median CPU per round of the parties, and CPU of the coordinator."""
        options = session(self._size.parties, self._size.rounds, topology, self._seed, *more)
        watch = Watch(self._size.sample_seconds)
        with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
            timing = run_session(Path(folder) / "session", options, watch=watch)
        cpu = watch.cpu_per_round(timing.closed_at)
        if len(cpu) < 2 or "coordinator" not in cpu:
            raise RuntimeError("the session ended before its CPU was sampled twice")
        coordinator = cpu.pop("coordinator")
        return {
            "rounds_per_second": timing.rounds_per_second,
            "cpu_seconds_per_round": statistics.median(cpu.values()),
            "coordinator_cpu_seconds_per_round": coordinator,
        }

    def _parts(self, topology: str) -> dict[str, dict[str, float]]:
        size, reveal = self._size, ("--reveal", "totals") if self._masked else ()
        return profile.components(size.parties, size.rounds, topology, self._seed, *reveal)

    def _prepared(self, folder: Path, topology: str) -> int:
        """Prepare a folder with agreement and companies; return the length of a release."""
        options = session(self._size.parties, self._size.rounds, topology, self._seed)
        prepared(folder, options)
        return release_bytes(read_agreement(folder / "agreement.toml"))

    def _bare(self, topology: str) -> dict[str, float]:
        """Medians over the processes of the bare loop."""
        with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
            folder = Path(name)
            self._prepared(folder, topology)
            ports = json.dumps(_ports(self._size.parties) if topology == "mesh" else [])
            relay = [] if topology == "mesh" else ["relay", name]
            parties = {
                party: ["party", name, party, str(self._size.rounds), ports]
                for party in map(party_name, range(self._size.parties))
            }
            return _medians(folder, "scripts.lab.bench.baselines.bare", relay, parties)

    def _pyzmq(self, topology: str) -> float:
        """Medians over the processes of a loop that only carries the bytes."""
        with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
            folder = Path(name)
            length = self._prepared(folder, topology)
            count = self._size.parties
            ports = json.dumps(_ports(count if topology == "mesh" else count + 2))
            relay = [] if topology == "mesh" else ["relay", ports]
            rounds = str(2 * self._size.rounds)
            parties = {
                party_name(k): ["party", str(k), rounds, str(length), topology, ports]
                for k in range(count)
            }
            medians = _medians(folder, "scripts.lab.bench.baselines.lockstep", relay, parties)
            return medians["rounds_per_second"]

    def _allgather(self) -> float:
        with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
            length = self._prepared(Path(name), "relay")
        return self._mpi.rounds_per_second(
            "allgather.py", self._size.parties, 10 * self._size.rounds, length
        )

    def _disropt(self) -> float:
        with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
            self._prepared(Path(name), "relay")
            return self._mpi.rounds_per_second(
                "disropt_session.py", self._size.parties, name, self._size.rounds
            )


def _ports(count: int) -> list[int]:
    first = reserve(count)
    return list(range(first, first + count))


def _medians(
    folder: Path,
    module: str,
    relay: Sequence[str],
    parties: Mapping[str, Sequence[str]],
) -> dict[str, float]:
    """Run a module as every party, and as a relay if there is one; median of each figure."""
    run = [sys.executable, "-m", module]
    with Processes(folder) as processes:
        if relay:
            processes.launch("relay", [*run, *relay])
        for name, arguments in parties.items():
            processes.launch(name, [*run, *arguments])
        processes.done(*parties)
        figures = [json.loads(processes.stdout(name)) for name in parties]
    return {key: float(statistics.median(each[key] for each in figures)) for key in figures[0]}


def measure(size: Size, seed: int, mpi: Mpi, *, masked: bool = False) -> list[dict[str, Any]]:
    """The figures of one size, one row for each topology; `masked` adds masked releases."""
    got = in_turns(Bench(size, seed, mpi, masked=masked).ways(), size.turns)
    return [_row(size, topology, got) for topology in size.topologies]


def _row(size: Size, topology: str, got: dict[str, list[Any]]) -> dict[str, Any]:
    def of(way: str) -> list[Any]:
        return got[f"{topology} {way}"]

    ours, bare = ([figures["rounds_per_second"] for figures in of(w)] for w in ("ours", "bare"))
    party, bare_cpu = (
        [figures["cpu_seconds_per_round"] for figures in of(w)] for w in ("ours", "bare")
    )
    coordinator = [figures["coordinator_cpu_seconds_per_round"] for figures in of("ours")]
    spreads = {
        "rounds_per_second": spread(ours),
        "bare_rounds_per_second": spread(bare),
        "over_bare": ratio(ours, bare),
        "pyzmq_rounds_per_second": spread(of("pyzmq")),
        "party_cpu_seconds_per_round": spread(party),
        "bare_cpu_seconds_per_round": spread(bare_cpu),
        "cpu_over_bare": ratio(party, bare_cpu),
        "coordinator_cpu_seconds_per_round": spread(coordinator),
    }
    if f"{topology} totals" in got:
        totals = [figures["rounds_per_second"] for figures in of("totals")]
        cpu = [figures["cpu_seconds_per_round"] for figures in of("totals")]
        spreads["totals_rounds_per_second"] = spread(totals)
        spreads["totals_over_each"] = ratio(totals, ours)
        spreads["totals_cpu_over_each"] = ratio(cpu, party)
    if "allgather" in got:
        spreads["allgather_rounds_per_second"] = spread(got["allgather"])
    if "disropt" in got:
        spreads["disropt_rounds_per_second"] = spread(got["disropt"])
        spreads["over_disropt"] = ratio(ours, got["disropt"])
        spreads["bare_over_disropt"] = ratio(bare, got["disropt"])
    row: dict[str, Any] = {"parties": size.parties, "topology": topology, "rounds": size.rounds}
    row |= spreads
    if f"{topology} parts" in got:
        row |= profile.spreads(of("parts"))
    return row


def rounds(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Compare the secured session with a bare loop of the same necessary work (baselines/bare.py).
    Also compare it with loops that only carry the bytes, and with DISROPT if it is installed: per
    round, and until prices are near the optimum."""
    mpi = found(options.mpi_python)
    rows: list[dict[str, Any]] = []
    for size in _chosen(options, "pace", QUICK, SIZES):
        try:
            with console.status(f"rounds: {size.parties} parties, {size.turns} turns"):
                masked = getattr(options, "reveal", "each") == "totals"
                rows += measure(size, options.seed, mpi, masked=masked)
        except RuntimeError as error:  # keep the figures of the other sizes
            console.print(f"{size.parties} parties could not be measured: {error}", markup=False)
    if rows:
        if "totals_over_each" in rows[0]:
            console.print(_totals(rows))
        console.print(_paces(rows), _cpu(rows))
        console.print(profile.shown([row for row in rows if "cpu" in row], "all rounds played"))
    near: list[dict[str, Any]] = []
    for table in _chosen(options, "near", time_to_accuracy.QUICK, time_to_accuracy.SIZES):
        with console.status(f"rounds: {table.parties} parties, until prices are near"):
            near += time_to_accuracy.measure(table, options.seed, mpi)
    if near:
        console.print(time_to_accuracy.shown(near))
    if mpi.missing:
        console.print(f"left out, because not installed: {', '.join(mpi.missing)}")
    return {"pace": plain(rows), "near": plain(near)}


def _chosen(
    options: argparse.Namespace, part: str, quick: Sequence[T], full: Sequence[T]
) -> Sequence[T]:
    if getattr(options, "part", None) not in (None, part):
        return ()
    return quick if options.quick else full


def _table(
    rows: list[dict[str, Any]], title: str, caption: str, *columns: tuple[str, str, str]
) -> Table:
    """A table with a line for each session. A column is its heading, its key, and its form."""
    table = Table(title=title, caption=caption)
    for heading in ("parties", "topology", *(heading for heading, _, _ in columns)):
        table.add_column(heading, justify="left" if heading == "topology" else "right")
    for row in rows:
        cells = (_cell(row, key, form) for _, key, form in columns)
        table.add_row(str(row["parties"]), row["topology"], *cells)
    return table


def _cell(row: dict[str, Any], key: str, form: str) -> str:
    """The spread of a figure; seconds are shown in milliseconds."""
    found, scale = row.get(key), 1e3 if "seconds_per" in key else 1.0
    return spread(v * scale for v in found.values).shown(form) if found else "–"


def _paces(rows: list[dict[str, Any]]) -> Table:
    return _table(
        rows,
        "rounds per second",
        "median, and below it lowest–highest; measured alternately, ratios within each turn",
        ("session", "rounds_per_second", ".0f"),
        ("bare loop", "bare_rounds_per_second", ".0f"),
        ("session ÷ bare", "over_bare", ".2f"),
        ("DISROPT", "disropt_rounds_per_second", ".0f"),
        ("session ÷ DISROPT", "over_disropt", ".2f"),
        ("bare ÷ DISROPT", "bare_over_disropt", ".2f"),
        ("pyzmq, no work", "pyzmq_rounds_per_second", ".0f"),
        ("MPI, no work", "allgather_rounds_per_second", ".0f"),
    )


def _totals(rows: list[dict[str, Any]]) -> Table:
    return _table(
        rows,
        "reveal totals compared with reveal each",
        "rounds per second of one session with both settings, and CPU of a party; measured "
        "alternately",
        ("each", "rounds_per_second", ".0f"),
        ("totals", "totals_rounds_per_second", ".0f"),
        ("totals ÷ each", "totals_over_each", ".2f"),
        ("CPU, totals ÷ each", "totals_cpu_over_each", ".2f"),
    )


def _cpu(rows: list[dict[str, Any]]) -> Table:
    return _table(
        rows,
        "milliseconds of CPU per round: decisive on separate machines",
        "from the first round to the last; session: as the system counts; bare loop: its own count",
        ("a party", "party_cpu_seconds_per_round", ".3f"),
        ("bare loop", "bare_cpu_seconds_per_round", ".3f"),
        ("party ÷ bare", "cpu_over_bare", ".2f"),
        ("coordinator", "coordinator_cpu_seconds_per_round", ".3f"),
    )
