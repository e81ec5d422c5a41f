"""`scripts/bench scale`: how cost grows with parties K, resources m, columns n and rounds T.

What one party computes is measured with one real party among peers that are only keys
(`alone`), up to numbers that no single machine could run as processes; what the network
takes, with real processes up to what this machine can; and what follows for more is written
down in SCALE.md (`scale_page`), never measured by guessing.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import zmq
from rich.console import Console
from rich.table import Table

from party.noise import DRAWN_AHEAD
from scripts.benches.instruments.alone import Setting
from scripts.benches.instruments.bytes import relayed
from scripts.benches.instruments.fit import Power, power, upper
from scripts.benches.instruments.sessions import Played, play, session
from scripts.benches.instruments.turns import in_turns
from scripts.benches.instruments.watch import Watch, cpu_per_round
from scripts.processes import LIMIT_SECONDS, environment

RESULTS = Path(__file__).parents[1] / "results"
WINDOWS = 10
"""A long session is cut into so many stretches, to see whether the last cost more."""


@dataclass(frozen=True)
class Plan:
    """Which points are measured, and how often."""

    parties: tuple[int, ...]
    resources: tuple[int, ...]
    columns: tuple[int, ...]
    processes: tuple[int, ...]
    meshes: tuple[int, ...]
    bytes_for: tuple[int, ...]
    long: int
    turns: int
    far: tuple[Setting, ...] = ()
    """Single points beyond what a session on this machine could be, computed by one party."""


FULL = Plan(
    parties=(2, 5, 10, 20, 50, 100, 200, 500, 1000),
    resources=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    columns=(15, 30, 60, 125, 250, 500, 1000, 2000),
    processes=(2, 3, 5, 10, 20, 40),
    meshes=(3, 5, 10, 20),
    bytes_for=(3, 5, 10, 20),
    long=5_000,
    turns=3,
    far=(
        Setting(parties=10_000, rounds=DRAWN_AHEAD, skipped=1),
        Setting(parties=1_000, resources=1_000, columns=60, rounds=DRAWN_AHEAD, skipped=1),
    ),
)
QUICK = Plan(
    parties=(2, 10, 50, 200),
    resources=(1, 5, 20, 50),
    columns=(15, 60, 250, 1000),
    processes=(2, 4, 8),
    meshes=(),
    bytes_for=(3,),
    long=500,
    turns=1,
)


def scale(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Fitted exponents of what a party computes, what the relay carries, memory and bytes."""
    plan = QUICK if options.quick else FULL
    figures = measure(plan, options.seed, console)
    for table in tables(figures):
        console.print(table)
    out = options.out or (None if options.quick else RESULTS)
    if out is not None:
        from scripts.benches.scale_figure import draw  # matplotlib: only for who wants a figure
        from scripts.benches.scale_page import page

        (out / "scale").mkdir(parents=True, exist_ok=True)
        draw(figures, out / "scale")
        (out / "SCALE.md").write_text(page(figures))
        console.print("SCALE.md and its figure are written")
    return figures


def measure(plan: Plan, seed: int, console: Console) -> dict[str, Any]:
    """All points, as plain numbers."""
    with console.status("scale: one party among keys"):
        alone_figures = sweeps(plan, seed)
    with console.status("scale: real processes"):
        processes = [network(parties, seed) for parties in plan.processes]
        meshes = [mesh(parties, seed) for parties in plan.meshes]
    with console.status(f"scale: {plan.long} rounds"):
        long = endurance(plan.long, seed)
    with console.status("scale: bytes"):
        carried = [wire_bytes(parties, seed) for parties in plan.bytes_for]
        curve = {size: curve_microseconds(size) for size in (217, 8178)}
    figures = {
        **alone_figures,
        "processes": processes,
        "meshes": meshes,
        "long": long,
        "bytes": carried,
        "curve_microseconds": curve,
    }
    return {**figures, "exponents": exponents(figures)}


def alone(setting: Setting) -> dict[str, Any]:
    """The figures of one party at one setting, in a process of its own."""
    words = json.dumps(asdict(setting))
    done = subprocess.run(
        [sys.executable, "-m", "scripts.benches.instruments.alone", words],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_SECONDS,
        check=True,
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def sweeps(plan: Plan, seed: int) -> dict[str, Any]:
    """One thing grows at a time, in turns over all points."""
    simple = Setting(seed=seed)
    settings = {
        **{f"parties {k}": _among(simple, k) for k in plan.parties},
        **{
            f"resources {m}": replace(simple, parties=10, resources=m, columns=60)
            for m in plan.resources
        },
        **{f"columns {n}": replace(simple, columns=n) for n in plan.columns},
    }
    ways = {name: partial(alone, setting) for name, setting in settings.items()}
    got = {name: _median(values) for name, values in in_turns(ways, plan.turns).items()}
    return {
        what: [figures for name, figures in got.items() if name.startswith(f"{what} ")]
        for what in ("parties", "resources", "columns")
    } | {"far": [alone(replace(setting, seed=seed)) for setting in plan.far]}


def _among(setting: Setting, parties: int) -> Setting:
    """Fewer rounds with many parties, so that no point takes for ever. Always whole batches of
    noise: one round in so many draws for all of them."""
    return replace(setting, parties=parties, rounds=DRAWN_AHEAD * max(1, min(6, 300 // parties)))


def _median(values: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The turn with the median CPU, whole: its parts then add up."""
    ordered = sorted(values, key=lambda figures: float(figures["cpu_microseconds"]))
    cpu = [figures["cpu_microseconds"] for figures in ordered]
    return {**ordered[len(ordered) // 2], "turns_cpu_microseconds": cpu}


def network(parties: int, seed: int) -> dict[str, Any]:
    """A session over the relay: CPU a round of a party and of the coordinator, memory, files."""
    rounds = 4_000 // parties
    played, watch = _watched(parties, rounds, "relay", seed)
    rates = watch.cpu_per_round(played.closed_at)
    coordinator = rates.pop("coordinator")
    return {
        "parties": parties,
        "rounds": rounds,
        "rounds_per_second": played.rounds_per_second,
        "party_cpu_microseconds": statistics.mean(rates.values()) * 1e6,
        "coordinator_cpu_microseconds": coordinator * 1e6,
        **_held(watch),
    }


def mesh(parties: int, seed: int) -> dict[str, Any]:
    """A short session of a mesh, for what its parties hold open."""
    played, watch = _watched(parties, 40, "mesh", seed)
    return {
        "parties": parties,
        "rounds_per_second": played.rounds_per_second,
        **_held(watch),
    }


def _watched(parties: int, rounds: int, topology: str, seed: int) -> tuple[Played, Watch]:
    watch = Watch()
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
        options = session(parties, rounds, topology, seed)
        return play(Path(folder) / "session", options, watch=watch), watch


def _held(watch: Watch) -> dict[str, Any]:
    """The most that a party and the coordinator were seen to hold."""
    return {
        f"{role}_{what}": watch.most(name, what)
        for role, name in (("party", "party2"), ("coordinator", "coordinator"))
        for what in ("memory_bytes", "open_files")
    }


def endurance(rounds: int, seed: int) -> dict[str, Any]:
    """A long session of three: does a late round cost more than an early one, or hold more?"""
    played, watch = _watched(3, rounds, "relay", seed)
    closed = played.closed_at
    seen = watch.samples.get("party2", [])
    windows = []
    for w in range(WINDOWS):
        first, last = w * rounds // WINDOWS, (w + 1) * rounds // WINDOWS - 1
        times = [closed[i + 1] - closed[i] for i in range(first, last)]
        inside = [s for s in seen if closed[first] <= s.at <= closed[last]]
        cpu = cpu_per_round(inside, closed)
        windows.append(
            {
                "first_round": first + 1,
                "last_round": last + 1,
                "median_round_microseconds": statistics.median(times) * 1e6,
                "cpu_microseconds_per_round": None if cpu is None else cpu * 1e6,
                "memory_bytes": inside[-1].memory_bytes if inside else None,
            }
        )
    return {"rounds": rounds, "parties": 3, "windows": windows}


def wire_bytes(parties: int, seed: int) -> dict[str, Any]:
    """Bytes a round between one party and the relay, counted on the sockets."""
    few, many = 20, 120
    short, long = relayed(parties, few, seed), relayed(parties, many, seed)
    return {"parties": parties} | {
        way: (long[way] - short[way]) / (many - few) / parties for way in ("up", "down")
    }


def curve_microseconds(size: int, count: int = 4_000) -> float:
    """CPU of one message over CURVE: sent, encrypted, carried, decrypted and received."""
    context: zmq.Context[Any] = zmq.Context()
    public, secret = zmq.curve_keypair()
    own_public, own_secret = zmq.curve_keypair()
    source, sink = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    source.curve_server, source.curve_secretkey = True, secret
    sink.curve_serverkey = public
    sink.curve_publickey, sink.curve_secretkey = own_public, own_secret
    try:
        port = source.bind_to_random_port("tcp://127.0.0.1")
        sink.connect(f"tcp://127.0.0.1:{port}")
        data = bytes(size)
        source.send(data)
        sink.recv()
        began = time.process_time()
        for _ in range(count):
            source.send(data)
            sink.recv()
        return (time.process_time() - began) / count * 1e6
    finally:
        context.destroy(linger=0)


def exponents(figures: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """How each cost grows, over all points and over the upper half of them."""
    fitted = {}
    for title, x, y in curves(figures):
        if len(x) >= 3 and min(y) > 0.0:
            fitted[title] = {"all": power(x, y).figures(), "upper": upper(x, y).figures()}
    return fitted


def curves(figures: dict[str, Any]) -> list[tuple[str, list[float], list[float]]]:
    """What is fitted: a title, where, and how much."""

    def of(rows: str, x: str, y: str, part: str = "") -> tuple[list[float], list[float]]:
        pairs = [(r[x], r[y][part] if part else r[y]) for r in figures[rows]]
        pairs = [(float(a), float(b)) for a, b in pairs if b is not None]
        return [a for a, _ in pairs], [b for _, b in pairs]

    spent = "cpu_microseconds"
    chosen = (
        ("K: what a party computes", of("parties", "parties", spent)),
        ("K: of that, verifying", of("parties", "parties", "parts", "verify")),
        ("K: a party process", of("processes", "parties", "party_cpu_microseconds")),
        ("K: the coordinator", of("processes", "parties", "coordinator_cpu_microseconds")),
        ("K: greeting, a party", of("parties", "parties", "greeting_seconds")),
        ("K: memory, a party", of("parties", "parties", "memory_bytes")),
        ("K: bytes down, a party", of("bytes", "parties", "down")),
        ("m: what a party computes", of("resources", "resources", spent)),
        ("m: of that, noise", of("resources", "resources", "parts", "noise")),
        ("m: of that, solving", of("resources", "resources", "parts", "solve")),
        ("n: what a party computes", of("columns", "columns", spent)),
        ("n: of that, solving", of("columns", "columns", "parts", "solve")),
        ("T: a round", _along(figures["long"], "median_round_microseconds")),
        ("T: CPU of a round", _along(figures["long"], "cpu_microseconds_per_round")),
        ("T: memory, a party", _along(figures["long"], "memory_bytes")),
    )
    return [(title, *points) for title, points in chosen]


def _along(long: dict[str, Any], key: str) -> tuple[list[float], list[float]]:
    windows = [w for w in long["windows"] if w[key] is not None]
    return [float(w["last_round"]) for w in windows], [float(w[key]) for w in windows]


def tables(figures: dict[str, Any]) -> list[Table]:
    fits = Table(
        title="how cost grows: y ~ x to the power of",
        caption="least squares on logarithms, 95 % interval; 0: no growth is seen, 1: in "
        "proportion, –: the points do not tell",
    )
    for column in ("what", "from", "to", "smallest", "largest", "exponent", "of the upper half"):
        fits.add_column(column, justify="left" if column == "what" else "right")
    for title, x, y in curves(figures):
        if title in figures["exponents"]:
            fit = figures["exponents"][title]
            fits.add_row(
                title,
                f"{x[0]:,.0f}",
                f"{x[-1]:,.0f}",
                f"{y[0]:,.4g}",
                f"{y[-1]:,.4g}",
                Power(**fit["all"]).shown(),
                Power(**fit["upper"]).shown(),
            )
    late = Table(
        title=f"{figures['long']['rounds']:,} rounds of three parties: early and late",
        caption="over real processes; memory of one party at the end of each stretch",
    )
    for column in ("rounds", "µs a round", "CPU µs a round, a party", "memory MB"):
        late.add_column(column, justify="right")
    for window in figures["long"]["windows"]:
        cpu, memory = window["cpu_microseconds_per_round"], window["memory_bytes"]
        late.add_row(
            f"{window['first_round']:,}–{window['last_round']:,}",
            f"{window['median_round_microseconds']:,.0f}",
            "–" if cpu is None else f"{cpu:,.0f}",
            "–" if memory is None else f"{memory / 1e6:.1f}",
        )
    return [fits, late]
