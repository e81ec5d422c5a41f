"""The benchmarks measure what they claim. No test asserts a speed."""

import importlib
import json
import math
import os
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from scripts.lab.bench import time_to_accuracy
from scripts.lab.bench.__main__ import BENCHES, command_line
from scripts.lab.bench.baselines.disropt_prices import best_in_hindsight, prices
from scripts.lab.bench.baselines.mpi import Mpi, found
from scripts.lab.bench.baselines.mpyc_lp import Mpyc, joint
from scripts.lab.bench.certify import compared, good_worth
from scripts.lab.bench.measure.interleave import in_turns, plain, ratio, spread
from scripts.lab.bench.measure.points import alone
from scripts.lab.bench.measure.profile import COMPONENT_CALLS, PARTS
from scripts.lab.bench.measure.sessions import prepared, session
from scripts.lab.bench.measure.single_party import OFFLINE, Setting
from scripts.lab.bench.measure.traffic import MESSAGES, Frames
from scripts.lab.bench.rivals import QUICK, SIZES, whole
from scripts.lab.bench.rivals import Size as RivalSize
from scripts.lab.bench.rounds import Size, measure
from scripts.lab.bench.scale_tables import page
from scripts.lab.bench.solver import Size as ModelSize
from scripts.lab.bench.solver import measure as measure_solver
from scripts.lab.bench.start import Role, imports, role
from scripts.lab.bench.versions import unpacked
from scripts.lab.common.agreements import drawn
from scripts.lab.common.instances import central, draw
from scripts.lab.study.replicate import Companies
from tests.support import ROOT

pytestmark = pytest.mark.timeout(900)


def test_every_turn_begins_with_another_contestant() -> None:
    """No contestant always runs first, on a cold machine."""
    order: list[str] = []
    ways = {name: lambda name=name: order.append(name) for name in "abc"}
    in_turns(ways, 3)
    assert order == list("abc") + list("bca") + list("cab")


def test_ratios_are_taken_turn_by_turn() -> None:
    """A machine that is slow for one turn slows both values, and the ratio stays."""
    assert ratio([10.0, 1.0, 10.0], [20.0, 2.0, 20.0]).values == (0.5, 0.5, 0.5)


def test_a_spread_hides_nothing() -> None:
    """The file has every value besides the median."""
    figures = plain({"row": [spread([3.0, 1.0, 2.0])]})["row"][0]
    assert figures == {"median": 2.0, "low": 1.0, "high": 3.0, "values": [3.0, 1.0, 2.0]}


def test_every_benchmark_can_be_called() -> None:
    """Every command names a function that exists."""
    for name in BENCHES:
        assert command_line().parse_args([name, "--quick"]).quick
        assert callable(getattr(importlib.import_module(f"scripts.lab.bench.{name}"), name))


@pytest.mark.parametrize("call", [call for calls in COMPONENT_CALLS.values() for call in calls])
def test_timers_wrap_calls_that_exist(call: str) -> None:
    """A renamed call would otherwise count as `rest`."""
    module, _, path = call.partition(":")
    thing: Any = importlib.import_module(module)
    for name in path.split("."):
        thing = getattr(thing, name)
    assert callable(thing)


def test_missing_baselines_are_listed() -> None:
    """What is not installed is listed."""
    mpi = found(sys.executable)
    assert mpi.allgather or mpi.missing
    assert mpi.disropt or mpi.missing


def test_rounds_of_two_parties() -> None:
    """A session of two, its bare loop and its components give every figure as a number."""
    size = Size(2, rounds=100, turns=1, topologies=("relay",), sample_seconds=0.05)
    [row] = plain(measure(size, 1, Mpi(sys.executable, False, False, ())))
    assert set(row["cpu"]) == set(PARTS)
    assert row["rounds_per_second"]["median"] > 0.0
    assert row["over_bare"]["median"] > 0.0
    assert row["cpu"]["verify"]["median"] > 0.0
    assert row["cpu"]["ZeroMQ thread"]["median"] > 0.0
    assert row["wall"]["wire waits for peers"]["median"] > 0.0
    json.dumps(row, allow_nan=False)


def test_a_session_of_two_reaches_every_level() -> None:
    """A real session reaches 1 % before 0.1 %, and the launch takes time too."""
    size = time_to_accuracy.Size(2, turns=1, pace_rounds=1, topologies=("relay",))
    [row] = time_to_accuracy.measure(size, 1, Mpi(sys.executable, False, False, ()))
    near, nearer = row["0.01"], row["0.001"]
    assert 1 <= near["rounds"].median <= nearer["rounds"].median <= row["rounds_played"].median
    assert near["seconds"].median < nearer["launched_seconds"].median
    json.dumps(plain(row), allow_nan=False)


def test_hindsight_finds_the_fastest_step() -> None:
    """With this step the dual value is within the level in that round, and in none before."""
    instance = draw(2, parties=3)
    optimum = central(instance).utility
    found = best_in_hindsight(instance, (0.05,), limit=300)[0.05]
    assert found.rounds is not None
    assert found.constant is not None
    constant = found.constant
    path = prices(Companies(instance), lambda number: constant / math.sqrt(number + 1))
    away = [dual / optimum - 1.0 for _, dual in islice(path, found.rounds + 1)]
    assert away[-1] <= 0.05
    assert min(away[:-1], default=1.0) > 0.05


def test_hindsight_finds_no_step_where_none_suffices() -> None:
    """No step is exact after three rounds."""
    assert best_in_hindsight(draw(2, parties=3), (1e-12,), limit=3)[1e-12].rounds is None


@pytest.mark.parametrize("size", [*SIZES, *QUICK])
def test_rivals_solve_the_problem_of_the_session(size: RivalSize) -> None:
    """The tableau for MPyC has whole numbers only, and the optimum of all companies together."""
    instance = whole(1, size)
    problem = joint(instance)
    for numbers in (problem.cost, problem.rows, problem.limit):
        assert (numbers == np.rint(numbers)).all()
    assert (problem.limit >= 0.0).all()
    best = linprog(-problem.cost, A_ub=problem.rows, b_ub=problem.limit)
    assert -best.fun == pytest.approx(central(instance).utility, rel=1e-9)


def test_a_missing_rival_is_named(tmp_path: Path) -> None:
    """Without a clone of MPyC the benchmark says where it looked."""
    assert str(tmp_path) in Mpyc(tmp_path, sys.executable).missing()


MPI = found(os.environ.get("MPI_PYTHON", sys.executable))


@pytest.mark.skipif(not MPI.disropt, reason=f"not installed: {', '.join(MPI.missing)}")
def test_disropt_in_one_process_has_the_prices_of_disropt_under_mpi(tmp_path: Path) -> None:
    """DISROPT under mpirun has these prices after as many rounds of the same step."""
    options = session(2, 10, "relay", 1, "--mode", "exact")
    prepared(tmp_path, options)
    figures = MPI.run("disropt_session.py", 2, tmp_path, 10)
    path = prices(Companies(drawn(options)), lambda _: 0.1)
    last, _ = next(islice(path, 40 + 10, None))  # after the warm-up rounds
    assert np.array(figures["prices"]) == pytest.approx(last, rel=1e-5, abs=1e-7)


def test_the_components_of_a_party_add_up() -> None:
    """The party closes all rounds, and its components add up to its CPU, except a rest."""
    figures = alone(Setting(parties=4, rounds=6, skipped=2))
    assert set(figures["parts"]) == set(OFFLINE)
    assert 0.0 < sum(figures["parts"].values()) <= 1.1 * figures["cpu_microseconds"]
    assert figures["release_bytes"] * 5 <= figures["ledger_bytes_per_round"] + 4_096


@pytest.mark.parametrize("noisy", [False, True])
def test_solvers_agree_and_are_measured(noisy: bool) -> None:
    """All contestants find the same optima."""
    size = ModelSize("paper", None, prices=6, passes=2, slow_prices=2)
    figures = measure_solver(size, 1, noisy=noisy)
    assert all(len(times.values) == 2 for times in figures["microseconds"].values())
    assert figures["warm_over_bare"].median > 0.0


@pytest.fixture(scope="module")
def roles() -> dict[str, Role]:
    return {each.name: each for each in imports(1)}


def test_the_coordinator_loads_no_mathematics(roles: dict[str, Role]) -> None:
    """A real coordinator, from start to end, loads neither solver nor noise nor arrays.

    It loads signature verification, but only after a seal or a halt.
    """
    needless = {"highspy", "opendp", "numpy", "scipy", "sqlite3", "rich", "party"}
    assert not needless & set(roles["coordinator"].packages)
    assert "zmq" in roles["coordinator"].packages


@pytest.mark.parametrize("kind", ["party, for people", "party, JSON log"])
def test_a_party_loads_no_plots(roles: dict[str, Role], kind: str) -> None:
    """A real party without noise, from start to end, loads no plots, data frames or sampler."""
    needless = {"matplotlib", "scipy", "pandas", "polars", "sklearn", "coordinator", "scripts"}
    assert not {*needless, "opendp", "rich"} & set(roles[kind].packages)
    assert {"highspy", "nacl", "zmq"} <= set(roles[kind].packages)


def test_rounds_without_a_worth_are_compared_session_by_session() -> None:
    """Only rows of the same companies are compared, and capacities that fetched nothing count."""
    rows = [
        {"name": name, "resources": m, "parties": 5, "each": each}
        for name, m, each in (
            ("paper, a worth each", 5, [20, 30]),
            ("paper, a worth each", 10, [40, 50]),
            ("paper, no worth", 5, [23, 31]),
            ("some-set, no worth", 5, [9]),
            ("some-set, a good worth", 5, [11]),
        )
    ]
    assert compared(rows) == {"paper": [3, 1], "sets": [-2]}
    assert good_worth(np.zeros(2)) is None
    assert good_worth(np.array([0.0, 20.0])) == pytest.approx([1.0, 20.0])


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the history is not here")
def test_another_version_is_unpacked_or_refused(tmp_path: Path) -> None:
    """The tree of a commit can run sessions; an unknown commit ends with an error."""
    tree = unpacked("HEAD", tmp_path)
    assert (tree / "scripts/lab/bench/measure/sessions.py").is_file()
    assert (tree / "party/__main__.py").is_file()
    with pytest.raises(SystemExit, match="--base no-such-commit"):
        unpacked("no-such-commit", tmp_path)


def test_import_times_are_read() -> None:
    """Lines of `-X importtime` give each package's own time, without what it imports."""
    lines = [
        "import time: self [us] | cumulative | imported package",
        "import time:       100 |        100 |   zmq.error",
        "import time:       200 |        300 | zmq",
        "waiting for party2",
        "import time:      1000 |       1000 | numpy",
    ]
    read = role("some", lines)
    assert read.packages == pytest.approx({"numpy": 1.0, "zmq": 0.3})
    assert read.modules == {"zmq.error", "zmq", "numpy"}


def measured(parties: int, resources: int = 5) -> dict[str, Any]:
    """Figures of one party that computes 100 µs for each peer."""
    return {
        "parties": parties,
        "resources": resources,
        "columns": 15,
        "cpu_microseconds": 100.0 * parties,
        "parts": dict.fromkeys(OFFLINE, 10.0 * parties),
        "release_bytes": 177 + 8 * resources,
        "hello_bytes": 246,
        "agreement_bytes": 100 * parties,
        "agreement_seconds": 1e-4 * parties,
        "greeting_seconds": 1e-6 * parties**2 if parties <= 1_000 else None,
        "ledger_bytes_per_round": 217.0 * parties,
        "memory_bytes": 80_000_000 + 1_000 * parties,
    }


def figures_of_a_run() -> dict[str, Any]:
    session = {
        "party_memory_bytes": 80_000_000,
        "party_open_files": 18,
        "coordinator_memory_bytes": 30_000_000,
        "coordinator_open_files": 18,
        "rounds_per_second": 100.0,
    }
    return {
        "parties": [measured(k) for k in (5, 10, 20, 1_000)],
        "resources": [measured(10, m) for m in (1, 10, 1_000)],
        "columns": [measured(5) | {"columns": n} for n in (15, 100, 1_000)],
        "far": [measured(10_000), measured(1_000, 1_000)],
        "processes": [
            session
            | {
                "parties": k,
                "party_cpu_microseconds": 150.0 * k,
                "coordinator_cpu_microseconds": 5.0 * k * k,
                "coordinator_open_files": 18 + 2 * k,
            }
            for k in (5, 10, 20)
        ],
        "meshes": [session | {"parties": k, "party_open_files": 17 + 5 * k} for k in (5, 10)],
        "long": {
            "rounds": 100,
            "parties": 3,
            "windows": [
                {
                    "first_round": 10 * w + 1,
                    "last_round": 10 * w + 10,
                    "median_round_microseconds": 1_000.0,
                    "cpu_microseconds_per_round": None,
                    "memory_bytes": 80_000_000,
                }
                for w in range(10)
            ],
        },
        "bytes": [
            {
                "parties": k,
                "up": 252.0,
                "down": 35.0 + 221.0 * k,
                "messages": 1.0 * k,
                "greeting_bytes": 3.0 * 246 * k * k,
            }
            for k in (5, 10, 20)
        ],
        "crowds": [
            {
                "parties": 200,
                "rounds": 40,
                "finished": 200,
                "heads": 1,
                "start_seconds": 200.0,
                "rounds_per_second": 0.25,
                "seconds": 400.0,
                "memory_bytes": 12_000_000_000,
            }
        ],
    }


def table_cells(text: str, title: str) -> list[list[str]]:
    """The rows of one table of the page, without its heading."""
    [section] = [part for part in text.split("\n## ") if part.startswith(title)]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def test_the_page_of_scale_has_the_measured_points() -> None:
    """Every measured size is one row, with the numbers of that size."""
    text = page(figures_of_a_run())
    rows = table_cells(text, "One party with simulated peers")
    assert [row[0] for row in rows[:4]] == ["5", "10", "20", "1,000"]
    assert rows[3][3] == "100 ms"
    assert [row[:2] for row in rows[-2:]] == [["10,000", "5"], ["1,000", "1,000"]]
    relay = table_cells(text, "Sessions of real processes")[0]
    assert relay[:5] == ["relay", "5", "100", "750 µs", "125 µs"]
    assert table_cells(text, "Bytes")[0] == ["5", "252 B", "1.14 kB", "5", "18.4 kB"]
    assert "200 of 200 parties finished 40 rounds" in text
    assert "nan" not in text


def test_the_page_of_scale_marks_what_was_not_measured() -> None:
    """A missing number is a dash, and an empty table is left out."""
    figures = figures_of_a_run()
    rows = table_cells(page(figures), "One party with simulated peers")
    assert rows[-2][-1] == "–"
    assert "Bytes between" not in page(figures | {"bytes": []})


def test_messages_on_a_connection_are_counted_by_length() -> None:
    """In chunks of any size, greeting and commands do not count, and long frames do."""
    MESSAGES.clear()
    short, long = 217 + 33, 5_000 + 33
    stream = bytes(64) + b"\x04\x05READY" + bytes([0, short]) + bytes(short)
    stream += b"\x02" + long.to_bytes(8, "big") + bytes(long) + bytes([0, short]) + bytes(short)
    frames = Frames()
    for at in range(0, len(stream), 7):
        frames.count(stream[at : at + 7])
    assert MESSAGES == {217: 2, 5_000: 1}
