"""`scripts/bench versions`: whole sessions of this version and of another commit, run alternately.

The session is the recommended one: exact, only totals can be read, with settlement and report.
Each version runs its own parties with its own measuring code. Both have the byte code of their
modules before the first turn. The other version must have `scripts/lab/bench/measure/sessions.py`.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from scripts.lab.bench.measure.interleave import in_turns, plain, ratio, spread
from scripts.lab.common.local_session import LIMIT_SECONDS, ROOT

PLAY = """
import json, sys, tempfile
from pathlib import Path
from scripts.lab.bench.measure.sessions import run_session, session

parties, topology, seed = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
options = session(parties, 150, topology, seed, "--mode", "exact", "--reveal", "totals")
with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
    timing = run_session(Path(folder) / "session", options)
print(json.dumps({"rounds": len(timing.closed), "first": timing.closed[0], "all": timing.seconds}))
"""


class Size(Struct, frozen=True):
    """How many parties, over which topology, and how many turns; each turn has its own instance."""

    parties: int
    topology: str = "relay"
    turns: int = 5


SIZES = (Size(10), Size(10, "mesh"))
QUICK = (Size(3, turns=1),)


def unpacked(commit: str, folder: Path) -> Path:
    """The files of a commit, in a new folder."""
    done = subprocess.run(["git", "-C", ROOT, "archive", commit], capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"--base {commit}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def played(tree: Path, size: Size, seed: int) -> dict[str, float]:
    """Rounds of one session of the version in this tree, and seconds to the first and to the end
    of its last party."""
    arguments = [str(size.parties), size.topology, str(seed)]
    done = subprocess.run(
        [sys.executable, "-c", PLAY, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"a session in {tree} failed: {done.stderr[-2_000:].strip()}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(size: Size, trees: dict[str, Path], seed: int) -> dict[str, Any]:
    """The figures of one size. The first session of each version only compiles its modules."""
    for tree in trees.values():
        played(tree, size, seed)
    seeds = {name: iter(range(seed, seed + size.turns)) for name in trees}
    ways = {
        name: lambda name=name, tree=tree: played(tree, size, next(seeds[name]))
        for name, tree in trees.items()
    }
    turns = in_turns(ways, size.turns)
    return {
        "parties": size.parties,
        "topology": size.topology,
        **{
            what: {name: spread(one[what] for one in turns[name]) for name in trees}
            | {"ratio": ratio(*([one[what] for one in turns[name]] for name in trees))}
            for what in ("rounds", "first", "all")
        },
    }


def versions(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Measure both versions and print one table."""
    if options.base is None:
        console.print("versions: left out, because --base names no commit to compare with")
        return []
    rows = []
    with tempfile.TemporaryDirectory(prefix="sotto-base-") as name:
        trees = {"this": ROOT, options.base: unpacked(options.base, Path(name))}
        for size in QUICK if options.quick else SIZES:
            with console.status(f"versions: {size.parties} parties, {size.turns} turns"):
                rows.append(measure(size, trees, options.seed))
    console.print(shown(rows, options.base))
    figures: list[dict[str, Any]] = plain(rows)
    return figures


def shown(rows: Sequence[dict[str, Any]], base: str) -> Table:
    """A row for each size and figure."""
    table = Table(
        title=f"this version and {base}: exact sessions with totals and settlement",
        caption="median, and below it lowest–highest; seconds from the launch; measured "
        "alternately",
    )
    for name in ("parties", "topology", "", "this", base, "this ÷ base"):
        table.add_column(name, justify="left" if name in ("", "topology") else "right")
    titles = {"rounds": "rounds", "first": "to the first round", "all": "to the last report"}
    for row in rows:
        for what, title in titles.items():
            cells = [row[what][name].shown(".2f") for name in ("this", base, "ratio")]
            table.add_row(str(row["parties"]), row["topology"], title, *cells)
    return table
