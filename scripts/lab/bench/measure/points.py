"""The measured points of `scripts/bench scale`: one party, sessions of processes, bytes on sockets.

Every point is measured in new processes, so that no point affects another.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from scripts.lab.bench.measure.process_usage import Together, Watch, cpu_per_round
from scripts.lab.bench.measure.sessions import SessionTiming, run_session, session
from scripts.lab.bench.measure.single_party import Setting
from scripts.lab.bench.measure.traffic import relayed
from scripts.lab.common.local_session import LIMIT_SECONDS, environment

CROWD_LIMIT_SECONDS = 7_200.0

HELLO_BYTES = 246
"""Length of a hello without any releases known ahead (SPEC.md §2)."""

WINDOWS = 10
"""A long session is divided into this many stretches, to compare late rounds with early ones."""


def alone(setting: Setting) -> dict[str, Any]:
    """The figures of one party at one setting, measured in a new process."""
    argument = json.dumps(asdict(setting))
    done = subprocess.run(
        [sys.executable, "-m", "scripts.lab.bench.measure.single_party", argument],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_SECONDS,
        check=True,
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def network(parties: int, seed: int) -> dict[str, Any]:
    """A session over the relay: CPU per round of a party and of the coordinator, memory, files."""
    rounds = 4_000 // parties
    timing, watch = _watched(parties, rounds, "relay", seed)
    rates = watch.cpu_per_round(timing.closed_at)
    coordinator = rates.pop("coordinator")
    return {
        "parties": parties,
        "rounds": rounds,
        "rounds_per_second": timing.rounds_per_second,
        "party_cpu_microseconds": statistics.mean(rates.values()) * 1e6,
        "coordinator_cpu_microseconds": coordinator * 1e6,
        **_peak_usage(watch),
    }


def crowd(parties: int, rounds: int, seed: int) -> dict[str, Any]:
    """A session with as many real parties as this machine can hold: do all end, with one hash?

    It is exact, only totals can be read, and every party commits, settles and reports.
    """
    together, few = Together(), Watch()

    def watch(ids: Mapping[str, int]) -> None:
        memory = threading.Thread(target=together, args=(ids,))
        memory.start()
        few({name: ids[name] for name in ("coordinator", "party2")})
        memory.join()

    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
        folder = Path(name) / "session"
        more = ("--mode", "exact", "--reveal", "totals")
        patience = ("--patience", str(CROWD_LIMIT_SECONDS / 2.0))  # a slow start
        options = session(parties, rounds, "relay", seed, *more, *patience)
        timing = run_session(folder, options, watch=watch, limit_seconds=CROWD_LIMIT_SECONDS)
        results = [json.loads(path.read_text()) for path in folder.glob("*/out/result.json")]
    cpu = few.cpu_per_round(timing.closed_at)
    relay = cpu.get("coordinator")
    return {
        "parties": parties,
        "rounds": len(timing.closed),
        "finished": len(results),
        "heads": len({result["head"] for result in results}),
        "start_seconds": timing.closed[0],
        "rounds_per_second": timing.rounds_per_second,
        "seconds": timing.seconds,
        "memory_bytes": together.memory_bytes,
        "party_cpu_seconds": cpu.get("party2"),
        "relay_cpu_seconds": relay,
        "relay_share": None if relay is None else relay * timing.rounds_per_second,
    }


def mesh(parties: int, seed: int) -> dict[str, Any]:
    """A short session of a mesh: memory and open files of its parties."""
    timing, watch = _watched(parties, 40, "mesh", seed)
    return {
        "parties": parties,
        "rounds_per_second": timing.rounds_per_second,
        **_peak_usage(watch),
    }


def _watched(parties: int, rounds: int, topology: str, seed: int) -> tuple[SessionTiming, Watch]:
    watch = Watch()
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
        options = session(parties, rounds, topology, seed)
        return run_session(Path(folder) / "session", options, watch=watch), watch


def _peak_usage(watch: Watch) -> dict[str, Any]:
    """The most memory and open files that a party and the coordinator were seen to have."""
    return {
        f"{role}_{what}": watch.most(name, what)
        for role, name in (("party", "party2"), ("coordinator", "coordinator"))
        for what in ("memory_bytes", "open_files")
    }


def endurance(rounds: int, seed: int) -> dict[str, Any]:
    """A long session of three: time, CPU and memory of early and late rounds."""
    timing, watch = _watched(3, rounds, "relay", seed)
    closed = timing.closed_at
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
    """Bytes per round between one party and the relay, messages per round out of the relay, and
    the bytes of all hellos that the relay sent. All are counts on the sockets."""
    few, many = 20, 60
    short, long = (relayed(session(parties, rounds, "relay", seed)) for rounds in (few, many))
    hellos = (HELLO_BYTES, HELLO_BYTES + parties)
    greeting = [_sent(counts["messages"], *hellos)["bytes"] for counts in (short, long)]
    releases = _sent(long["messages"], long["release_bytes"])
    return {
        "parties": parties,
        **{way: (long[way] - short[way]) / (many - few) / parties for way in ("up", "down")},
        "messages": releases["messages"] / many,
        "greeting_bytes": statistics.mean(greeting),
    }


def _sent(messages: Mapping[int, int], *lengths: int) -> dict[str, int]:
    """Messages of these lengths and their bytes: single messages, or batches of one length."""
    found = {
        length: count
        for length, count in messages.items()
        if any(length == one or (length - 1) % (one + 4) == 0 for one in lengths)
    }
    sent = sum(length * count for length, count in found.items())
    return {"messages": sum(found.values()), "bytes": sent}
