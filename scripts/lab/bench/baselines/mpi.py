"""Runs MPI's Allgather and DISROPT under mpirun, where they are installed.

Nothing else needs them. If one is missing, the benchmark says which. They may be installed in
another interpreter (`--mpi-python`).
"""

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from msgspec import Struct

from scripts.lab.common.local_session import LIMIT_SECONDS, environment

HERE = Path(__file__).parent
YIELDING = ("--oversubscribe", "--allow-run-as-root", "--mca", "mpi_yield_when_idle", "1")
"""There are more processes than cores: a waiting process must let others run."""


class Mpi(Struct, frozen=True):
    """What is installed on this machine; `missing` names what is not."""

    python: str
    allgather: bool
    disropt: bool
    missing: tuple[str, ...]

    def rounds_per_second(self, script: str, parties: int, *arguments: str | int | Path) -> float:
        """The pace of a script of this folder."""
        return float(self.run(script, parties, *arguments)["rounds_per_second"])

    def run(self, script: str, parties: int, *arguments: str | int | Path) -> dict[str, Any]:
        """Run a script of this folder, one process for each party; return its figures.

        `ready_at`, a wall-clock time, becomes `ready_seconds` since the launch.
        """
        launched = time.time()
        done = subprocess.run(
            [
                "mpirun",
                *YIELDING,
                "-n",
                str(parties),
                self.python,
                HERE / script,
                *map(str, arguments),
            ],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{script} under mpirun failed: {done.stderr[-2_000:].strip()}")
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if "ready_at" in figures:
            figures["ready_seconds"] = figures.pop("ready_at") - launched
        return figures


def found(python: str) -> Mpi:
    """Find out what can be measured here."""
    missing = []
    if shutil.which("mpirun") is None:
        missing.append("mpirun (Debian: openmpi-bin)")
    has = {}
    for name in ("mpi4py.MPI", "disropt.algorithms"):
        done = subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False)
        has[name] = done.returncode == 0
        if not has[name]:
            missing.append(name.partition(".")[0])
    runs = has["mpi4py.MPI"] and shutil.which("mpirun") is not None
    return Mpi(python, runs, runs and has["disropt.algorithms"], tuple(missing))
